//! Parse, dispatch, print, exit. The only module that writes to the terminal.
//!
//! Results go to standard output, messages to standard error.

/// The end of a command's help.
macro_rules! note {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/help/", $name, ".txt")).trim_ascii_end()
    };
}

mod answers;
mod args;
mod check;
mod compare;
mod context;
mod diff;
mod doctor;
mod endpoint;
mod explain;
mod fleet;
mod hang_up;
mod help;
mod index;
mod install;
mod limits;
mod list;
mod load;
mod output;
mod progress;
mod report;
mod repro;
mod resume;
mod run;
mod selftest;
mod serve;
mod signals;
mod spelling;
mod survey;
mod values;

use std::{
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
    process::ExitCode,
};

use clap::{
    FromArgMatches,
    error::{ContextKind, ContextValue},
};
use clap_complete::Shell;
use lasthop_model::engine::EngineKind;
use lasthop_page::text;
use lasthop_plan::{catalog::create::Pattern, diagnostics::closest};
use lasthop_stack::{
    container::{
        engine::Engine,
        leftovers::{self, Removed},
    },
    guard,
};
use lasthop_system::namespace;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use self::{args::Cli, help::command, output::OUTPUT_IS_CLOSED};
use self::{
    args::{Command, Run},
    context::{catalog, tighten},
    output::{CliError, DONE, Exit, FAILED, OrExit, USAGE, counted, is_styled, print, talk},
};

/// Parses the command line, runs the command, and returns the exit code.
pub fn main() -> ExitCode {
    if let Err(error) = enough_stack() {
        talk(&format!("error: {error}"));
        return FAILED.into();
    }
    let (words, whole) = help::asked(std::env::args_os().collect());
    let (words, hint) = spelling::today(words);
    hint.iter().for_each(|hint| talk(hint));
    let mut command = help::shown(whole);
    let parsed = command.try_get_matches_from_mut(words);
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    let done = match parsed {
        Ok(cli) => dispatch(cli),
        Err(error) => Ok(shown_by_clap(&advised(error))),
    };
    let code = done.unwrap_or_else(|error| {
        talk(&format!("error: {}", error.text));
        error.code
    });
    code.into()
}

/// The smallest stack in bytes that the main thread does not overflow.
const STACK_LEAST: u64 = 1 << 20;

/// Raises a stack limit that is too low. The limit applies at once, because the kernel checks it as the stack grows.
fn enough_stack() -> Result<(), String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Stack);
    if current.is_none_or(|current| current >= STACK_LEAST) {
        return Ok(());
    }
    let maximum = maximum.map(|maximum| maximum.max(STACK_LEAST));
    setrlimit(
        Resource::Stack,
        Rlimit {
            current: Some(STACK_LEAST),
            maximum,
        },
    )
    .map_err(|error| {
        let kib = STACK_LEAST >> 10;
        format!("the stack limit is below {kib} KiB and cannot be raised ({error}); set it with `ulimit -s {kib}`")
    })
}

/// Adds a suggestion to the error about an unknown command: a similar command or experiment, without clap's hidden
/// commands.
fn advised(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let experiments = catalog().map(|catalog| catalog.names()).unwrap_or_default();
    let cli = command();
    let commands = cli
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name);
    let version = (word == "version").then(|| "--version".to_owned());
    let command = version.or_else(|| closest(word, commands).map(str::to_owned));
    let experiment = closest(word, experiments.iter().map(String::as_str)).map(|name| format!("run {name}"));
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::Suggested);
    if let Some(meant) = command.or(experiment) {
        let tip = format!("did you mean `lasthop {meant}`?");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Prints help, version or an error. Help and version exit with 0, a wrong command line with [`USAGE`].
fn shown_by_clap(error: &clap::Error) -> u8 {
    let text = error.render();
    let shown = |styled| {
        if styled {
            text.ansi().to_string()
        } else {
            text.to_string()
        }
    };
    if error.use_stderr() {
        let _ = io::stderr().write_all(text::screen(&shown(is_styled(&io::stderr()))).as_bytes());
        return USAGE;
    }
    print(shown(is_styled(&io::stdout())).as_bytes()).map_or(FAILED, |()| DONE)
}

fn dispatch(cli: Cli) -> Exit {
    let done = |()| DONE;
    tighten();
    let Some(command) = cli.command else {
        // In many programs, a lone `-v` prints the version.
        if cli.run.output.verbose && std::env::args_os().len() == 2 {
            return Err(CliError::usage(
                "`lasthop -V` prints the version, and `lasthop run -v` a longer report",
            ));
        }
        return run::run(&Run {
            experiment: "sockets".to_owned(),
            again: false,
            options: cli.run,
        });
    };
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Resume(arguments) => resume::resume(&arguments),
        Command::List(arguments) => list::experiments(&arguments).map(done),
        Command::Show(arguments) => list::show(&arguments).map(done),
        Command::Answers(arguments) => answers::answers(&arguments).map(done),
        Command::Load(arguments) => load::load(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Survey(arguments) => survey::watch(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Diff(arguments) => diff::diff(&arguments),
        Command::Fleet(command) => fleet::fleet(command),
        Command::Runs(arguments) => list::runs(&arguments).map(done),
        Command::Repro(arguments) => repro::repro(&arguments),
        Command::SelfTest(arguments) => selftest::selftest(&arguments),
        Command::Doctor(arguments) => install::doctor(&arguments),
        Command::Setup(arguments) => install::setup(&arguments),
        Command::New(arguments) if arguments.check => check::check(&arguments),
        Command::New(arguments) => new(&arguments).map(done),
        Command::Clean => clean().map(done),
        Command::Completions { shell } => completions(shell).map(done),
        Command::Drive(arguments) => drive(&arguments).map(done),
        Command::Hold => namespace::hold().map(done).or_failed(),
        Command::Guard(_) => guard::serve().map(done).or_failed(),
        Command::Null => load::null().map(done),
        Command::Serve(arguments) => serve::serve(arguments).map(done),
    }
}

fn completions(shell: Shell) -> Result<(), CliError> {
    // clap_complete would offer hidden commands, too.
    let all = command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    let mut shown = clap::Command::new("lasthop")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(all.get_arguments())
        .subcommands(shown.cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "lasthop", &mut script);
    print(&script)
}

fn drive(arguments: &args::DriveArgs) -> Result<(), CliError> {
    if arguments.hang_up {
        hang_up::watch(io::stdin().as_fd()).or_failed()?;
    }
    let input = io::stdin().lock();
    let output = io::stdout().lock();
    match arguments.foreign.as_deref() {
        None => lasthop_load::drive::serve(input, output).or_failed(),
        Some(json) => {
            let foreign: lasthop_classic::drive::Foreign = serde_json::from_str(json).or_usage()?;
            foreign.serve(input, output, &lasthop_load::drive::gauge).or_failed()
        }
    }
}

fn new(arguments: &args::New) -> Result<(), CliError> {
    let args::New { name, from, driver, .. } = arguments;
    let pattern = match from {
        Some(original) => Pattern::Copy(original),
        None if *driver => Pattern::Driver,
        None => Pattern::Smallest,
    };
    let folder = catalog()?.create(name, pattern, Path::new(".")).or_usage()?;
    talk(&format!(
        "created {}; next: lasthop new --check ./{name}",
        folder.display()
    ));
    Ok(())
}

/// Removed objects in words: `, 2 containers, 1 network`
fn shown(removed: &Removed) -> String {
    let Removed {
        containers,
        networks,
        volumes,
        left,
    } = removed;
    let all = [(containers, "container"), (networks, "network"), (volumes, "volume")];
    let gone = all.iter().filter(|(count, _)| **count > 0);
    let gone: String = gone
        .map(|(count, name)| format!(", {}", counted(**count, name)))
        .collect();
    let left = if left.is_empty() {
        String::new()
    } else {
        format!("; not removed: {}", left.join(", "))
    };
    gone + &left
}

fn clean() -> Result<(), CliError> {
    let guard::Sweep { swept, left } = guard::sweep();
    if swept.is_empty() {
        talk("no run left anything behind");
    }
    for doubtful in left {
        let path = doubtful.path.display();
        let why = doubtful.why;
        talk(&format!("not removed: {path} may be yours, because {why}"));
    }
    for one in swept {
        talk(&format!(
            "removed {} and ended {} processes{}",
            one.sandbox.display(),
            one.killed.len(),
            shown(&one.removed)
        ));
    }
    for kind in EngineKind::ALL {
        // Nothing can be removed from an engine that does not reply.
        let Ok(engine) = Engine::find(Some(kind)) else { continue };
        let images = leftovers::images(&engine);
        if !images.is_empty() {
            talk(&format!(
                "{name}: kept for further runs: {}; `{name} rmi IMAGE` removes one",
                images.join(", "),
                name = kind.name()
            ));
        }
        let removed = leftovers::remove_orphans(&engine);
        if !removed.is_empty() {
            talk(&format!(
                "{}: removed what runs without a sandbox left behind{}",
                kind.name(),
                shown(&removed)
            ));
        }
    }
    Ok(())
}
