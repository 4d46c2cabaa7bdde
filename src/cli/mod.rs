//! Parse, dispatch, print, exit. The only module that writes to the terminal.
//!
//! Results go to standard output, talk to standard error.

mod args;
mod export;
mod generate;
mod hang_up;
mod install;

mod list;
mod load;
mod progress;
mod repro;
mod resume;
mod run;
mod serve;
mod values;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use self::args::{Cli, Command, OutputOptions, Programs, Run};
use crate::{
    analyse::{self, summary::Summary},
    experiment::catalog::Catalog,
    observe,
    record::{Store, store},
    report,
    service::{
        container::{
            engine::{Engine, Kind},
            leftovers::{self, Removed},
        },
        guard,
        home::Home,
        locate::Locator,
        namespace,
    },
};

/// A case failed or a program is missing.
const FAILED: u8 = 1;
/// Wrong use.
const USAGE: u8 = 2;
/// Ended by a signal, as shells count SIGINT.
const INTERRUPTED: u8 = 130;
/// What a terminal that does not tell its width gets, and what files get.
const WIDTH: usize = 80;

/// What ends lasthop with another code than 0.
#[derive(Debug)]
pub struct CliError {
    code: u8,
    text: String,
}

impl CliError {
    fn failed(cause: impl ToString) -> Self {
        Self { code: FAILED, text: cause.to_string() }
    }

    fn usage(cause: impl ToString) -> Self {
        Self { code: USAGE, text: cause.to_string() }
    }
}

/// Parses the command line, does what it says, and yields the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no errors; clap knows where each is printed.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            talk(&format!("error: {}", error.text));
            ExitCode::from(error.code)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let done = |()| ExitCode::SUCCESS;
    let Some(command) = cli.command else {
        return run::run(&Run { experiment: "sockets".to_owned(), options: cli.run });
    };
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Resume(arguments) => resume::resume(&arguments),
        Command::List => list::experiments().map(done),
        Command::Show(arguments) => list::show(&arguments).map(done),
        Command::Load(arguments) => load::load(&arguments),
        Command::Report(arguments) => report_again(&arguments).map(done),
        Command::Runs => list::runs().map(done),
        Command::Repro(arguments) => repro::repro(&arguments),
        Command::Export(arguments) => export::export(&arguments).map(done),
        Command::Doctor(arguments) => install::doctor(&arguments),
        Command::Setup(arguments) => install::setup(&arguments),
        Command::New(arguments) => new(&arguments.name).map(done),
        Command::Clean => clean().map(done),
        Command::Path(arguments) => path(&arguments.address).map(done),
        Command::Completions { shell } => generate::completions(shell).map(done),
        Command::Drive(arguments) => drive(&arguments).map(done),
        Command::Hold => namespace::hold().map(done).map_err(CliError::failed),
        Command::Enter(arguments) => Err(CliError::failed(namespace::enter(&arguments.namespace, &arguments.command))),
        Command::Guard(_) => guard::serve().map(done).map_err(CliError::failed),
        Command::Null => load::null().map(done),
        Command::Serve(arguments) => serve::serve(arguments).map(done),
        Command::Generate { directory } => generate::all(&directory).map(done),
    }
}

fn drive(arguments: &args::DriveArgs) -> Result<(), CliError> {
    if arguments.hang_up {
        hang_up::watch(io::stdin().as_fd()).map_err(CliError::failed)?;
    }
    let (input, output) = (io::stdin().lock(), io::stdout().lock());
    match arguments.foreign.as_deref() {
        None => lasthop_load::drive::serve(input, output).map_err(CliError::failed),
        Some(json) => {
            let foreign: crate::tool::drive::Foreign = serde_json::from_str(json).map_err(CliError::usage)?;
            foreign.serve(input, output).map_err(CliError::failed)
        }
    }
}

fn new(name: &str) -> Result<(), CliError> {
    let folder = catalog()?.create(name, Path::new(".")).map_err(CliError::usage)?;
    talk(&format!("made {}; it runs as it is: lasthop run ./{name}", folder.display()));
    Ok(())
}

/// `, 2 containers, 1 network`
fn shown(removed: Removed) -> String {
    let Removed { containers, networks, volumes } = removed;
    let all = [(containers, "container"), (networks, "network"), (volumes, "volume")];
    let plural = |count| if count == 1 { "" } else { "s" };
    all.iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!(", {count} {name}{}", plural(*count)))
        .collect()
}

fn clean() -> Result<(), CliError> {
    let swept = guard::sweep();
    if swept.is_empty() {
        talk("nothing is left of other runs");
    }
    for one in swept {
        talk(&format!(
            "removed {} and ended {} processes{}",
            one.sandbox.display(),
            one.killed.len(),
            shown(one.removed)
        ));
    }
    for kind in Kind::ALL {
        // An engine that does not answer has nothing that could be removed now.
        let Ok(engine) = Engine::find(Some(kind)) else { continue };
        let removed = leftovers::remove_orphans(&engine);
        if !removed.is_empty() {
            talk(&format!("{}: removed what runs without a sandbox had left{}", kind.name(), shown(removed)));
        }
    }
    Ok(())
}

/// The way to a server, hop by hop.
fn path(address: &str) -> Result<(), CliError> {
    let address = values::address(address).map_err(CliError::usage)?;
    print(format!("{}\n", observe::path::shown(&observe::path::decode(&address))).as_bytes())
}

fn report_again(arguments: &args::Report) -> Result<(), CliError> {
    let runs = Store::new(home()?.runs());
    let directory = runs.find(&arguments.run).map_err(CliError::usage)?;
    deliver(&summarise(&directory)?, &arguments.output)
}

/// The result of a record on disk: what every report is made from.
fn summarise(directory: &Path) -> Result<Summary, CliError> {
    let data = store::read(directory).map_err(CliError::failed)?;
    Ok(analyse::summarise(&data))
}

/// Renders a result and puts it where it is wanted.
fn deliver(summary: &Summary, output: &OutputOptions) -> Result<(), CliError> {
    let Some(path) = &output.output else {
        return print(&report::render(summary, output.format, &terminal()));
    };
    let plain = report::Options { color: false, width: WIDTH };
    let bytes = report::render(summary, output.format, &plain);
    fs::write(path, bytes).map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

/// Colours and width of standard output.
fn terminal() -> report::Options {
    let color = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
    report::Options { color, width: width() }
}

/// Columns of the terminal, at least 60 so that tables have room, at most 100 so that lines can be read.
fn width() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH;
    }
    rustix::termios::tcgetwinsize(io::stdout()).map_or(WIDTH, |size| usize::from(size.ws_col)).clamp(60, 100)
}

/// Writes to standard output. A reader who has seen enough (`| head`) is no error.
fn print(bytes: &[u8]) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. Nothing is left to do when that is closed.
fn talk(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn home() -> Result<Home, CliError> {
    Home::find().map_err(CliError::failed)
}

fn catalog() -> Result<Catalog, CliError> {
    Ok(Catalog::new(Some(home()?.path().to_owned())))
}

fn locator(home: &Home, experiment: &str, programs: &Programs) -> Locator {
    Locator::new(home, experiment, programs.programs.iter().cloned().collect::<BTreeMap<_, _>>())
}

/// The command line as clap sees it, for generated references.
fn command() -> clap::Command {
    Cli::command()
}
