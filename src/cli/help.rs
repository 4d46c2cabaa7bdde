//! Help: the short help of a command fits a screen, `--help --all` shows everything.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{args::Cli, output::width};

/// Commands by purpose; the first are typed daily.
const GROUPS: [(&str, &str); 4] = [
    (
        "Commands",
        "run compare load survey report diff list answers doctor new",
    ),
    ("Experiments and records", "show setup runs resume clean"),
    ("Machines and studies", "selftest fleet repro"),
    ("Tools", "serve completions"),
];

/// Options in the short help of a command. A command that is not listed has all of its options there.
const FIRST: [(&str, &str); 9] = [
    (
        "lasthop run",
        "only set budget precision rate overload explain format output verbose fail_if quiet",
    ),
    (
        "lasthop compare",
        "connections rate reuse headers query budget precision restart remote explain format output",
    ),
    (
        "lasthop load",
        "duration connections threads rate pipeline reuse headers body file query expect format",
    ),
    ("lasthop new", "from driver check no_run only"),
    (
        "lasthop serve",
        "pattern unix channel tcp unixgram seqpacket udp certificate key",
    ),
    ("lasthop selftest", "only set runs budget plant format"),
    ("lasthop repro", "all again budget explain into format quiet"),
    (
        "lasthop fleet run",
        "nodes node per_node labels image cpus pods only budget precision format output",
    ),
    (
        "lasthop fleet export",
        "node labels image cpus memory pods only budget precision",
    ),
];

/// The command line, with lasthop's own help option instead of clap's.
pub fn command() -> Command {
    // Options of `run` need no command, and are listed at `run`.
    let all = Cli::command().mut_args(|option| option.hide(true));
    each(all, "lasthop", &|command, _| {
        let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpLong);
        command
            .disable_help_subcommand(true)
            .disable_help_flag(true)
            .arg(help.help("Print help; with --all, everything"))
    })
}

/// The command line for printing help: the whole help, or the short one.
pub fn shown(whole: bool) -> Command {
    let shown = each(command(), "lasthop", &|command, path| {
        let command = command.term_width(width());
        if whole { command } else { first(command, path) }
    });
    let groups = if whole { &GROUPS[..] } else { &GROUPS[..1] };
    let groups: String = groups.iter().map(|group| listed(&shown, group)).collect();
    let shown = shown.help_template("{about-with-newline}\n{usage-heading} {usage}{after-help}");
    if whole {
        shown.after_long_help(groups + note!("lasthop"))
    } else {
        shown.after_help(groups + note!("short"))
    }
}

/// Applies a change to a command at this path, and to its subcommands.
fn each(command: Command, path: &str, change: &dyn Fn(Command, &str) -> Command) -> Command {
    change(command, path).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        each(below, &path, change)
    })
}

/// Hides options that are not in the short help of a command.
fn first(command: Command, path: &str) -> Command {
    let chosen = FIRST.iter().find(|(of, _)| *of == path).map(|(_, options)| *options);
    let is_option = |arg: &&Arg| !arg.is_positional() && !arg.is_hide_set() && arg.get_id() != "help";
    let count = command.get_arguments().filter(is_option).count();
    let more = match chosen {
        Some(_) => format!("All {count} options: {path} --help --all"),
        None => format!("More: {path} --help --all"),
    };
    let is_shown = |arg: &Arg| {
        let id = arg.get_id().as_str();
        arg.is_positional() || chosen.is_none_or(|ids| ids.split(' ').any(|chosen| chosen == id))
    };
    let command = command.mut_args(|arg| {
        let hide = arg.is_hide_set() || arg.get_id() == "help" || !is_shown(&arg);
        let has_value = arg.get_action().takes_values();
        arg.hide(hide)
            .hide_possible_values(has_value)
            .help_heading(None::<&str>)
    });
    let command = command.mut_arg("help", |help| help.action(ArgAction::HelpShort));
    command.after_help(more)
}

/// A group of commands, each with its summary.
fn listed(all: &Command, (title, names): &(&str, &str)) -> String {
    let line = |name| {
        let about = all.find_subcommand(name).and_then(Command::get_about);
        format!(
            "  {name:11}  {}\n",
            about.expect("it is a command that says what it does")
        )
    };
    format!("{title}:\n{}\n", names.split(' ').map(line).collect::<String>())
}

/// Translates `help COMMAND` into `COMMAND --help`. An `--all` beside either requests the whole help.
pub fn asked(mut words: Vec<OsString>) -> (Vec<OsString>, bool) {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    // Words after `--` are passed on.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let has = |wanted: &[&str]| {
        words[..end]
            .iter()
            .any(|word| wanted.iter().any(|wanted| word == wanted))
    };
    let whole = has(&["--all"]) && has(&["-h", "--help"]);
    if whole {
        words.retain(|word| word != "--all");
    }
    (words, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the paths of visible commands.
    fn paths(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        found.push(path.to_vec());
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = [path, &[below.get_name().to_owned()]].concat();
            paths(below, &path, found);
        }
    }

    fn help(path: &[String], more: &[&str]) -> String {
        let words = path.iter().map(OsString::from).chain(more.iter().map(OsString::from));
        let (words, whole) = asked(words.collect());
        shown(whole).try_get_matches_from(words).unwrap_err().to_string()
    }

    #[test]
    fn the_first_help_of_each_command_fits_a_screen_and_the_whole_has_every_option() {
        let all = command();
        let mut found = Vec::new();
        paths(&all, &["lasthop".to_owned()], &mut found);
        assert!(found.len() > 20, "{found:?}");
        let mut large = Vec::new();
        for path in found {
            let first = help(&path, &["--help"]);
            let width = first.lines().map(|line| line.chars().count()).max();
            if first.lines().count() > 24 || width > Some(80) {
                large.push(first.clone());
            }
            assert_eq!(first, help(&path, &["-h"]));
            let end = format!("{} --help --all", path.join(" "));
            let is_top = path.len() == 1;
            assert!(
                first
                    .trim_end()
                    .ends_with(if is_top { "lasthop help --all" } else { &end }),
                "{first}"
            );
            let whole = help(&path, &["--all", "--help"]);
            let of = path[1..]
                .iter()
                .fold(&all, |of, name| of.find_subcommand(name).unwrap());
            let options = of.get_arguments().filter(|option| !option.is_hide_set());
            for option in options.filter_map(Arg::get_long) {
                assert!(
                    is_top || whole.contains(&format!("--{option}")),
                    "{option} is not in\n{whole}"
                );
            }
            for below in of.get_subcommands().filter(|below| !below.is_hide_set()) {
                let line = format!("\n  {} ", below.get_name());
                assert!(whole.contains(&line), "{} is not in\n{whole}", below.get_name());
            }
        }
        assert!(large.is_empty(), "{}", large.join("\n"));
        for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            let about = command.get_about().unwrap().to_string();
            assert!(about.chars().count() <= 65, "it takes two lines of 80 columns: {about}");
        }
    }

    #[test]
    fn every_option_of_the_first_help_is_one() {
        for (path, options) in FIRST {
            let all = command();
            let of = path
                .split(' ')
                .skip(1)
                .fold(&all, |of, name| of.find_subcommand(name).unwrap());
            let ids: Vec<&str> = of.get_arguments().map(|option| option.get_id().as_str()).collect();
            let unknown = options.split(' ').find(|id| !ids.contains(id));
            assert_eq!(unknown, None, "{path}");
        }
    }

    #[test]
    fn help_is_asked_for_in_any_order() {
        let top = ["lasthop".to_owned()];
        let run = help(&["lasthop".to_owned(), "run".to_owned()], &["--all", "-h"]);
        for words in [
            &["help", "run", "--all"][..],
            &["run", "--help", "--all"],
            &["help", "--all", "run"],
        ] {
            assert_eq!(help(&top, words), run);
        }
        assert!(run.contains("--ssh-option") && run.contains("Exit codes:"), "{run}");
        assert!(help(&top, &["help", "--all"]).contains("LASTHOP_HOME"));
    }
}
