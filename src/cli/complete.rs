//! Completions. The shell asks lasthop for them, which knows your experiments, their factors and your runs.

use std::{
    ffi::{OsStr, OsString},
    io::{Error, Write},
    path::Path,
    sync::OnceLock,
};

use clap::{Command, CommandFactory};
use clap_complete::{
    CompleteEnv, Shell,
    engine::{CompletionCandidate, PathCompleter, ValueCompleter, complete},
    env::{Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh},
};
use lasthop_analyse::checks::known;
use lasthop_model::{level::Level, run_name};
use lasthop_plan::model::{Experiment, Factor};
use lasthop_record::Store;
use lasthop_system::date;

use super::{
    args::Cli,
    context::{catalog, home},
};

/// Set by the shells' scripts when they ask.
const VARIABLE: &str = "LASTHOP_COMPLETE";
const SHELLS: Shells<'_> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks for completions, and exits; does nothing otherwise.
pub fn answer() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .shells(SHELLS)
        .complete();
}

/// The script that lets a shell ask.
pub fn script(shell: Shell) -> Result<Vec<u8>, Error> {
    let mut script = Vec::new();
    let completer = SHELLS.completer(&shell.to_string()).expect("every shell has one");
    completer.write_registration(VARIABLE, "lasthop", "lasthop", "lasthop", &mut script)?;
    Ok(script)
}

/// Bash breaks `transport=unix` into three words and replaces the last one. So it sends the line as it is, and its
/// word.
struct Bash;

const BASH: &str = r#"_lasthop() {
    mapfile -t COMPREPLY < <(LASTHOP_COMPLETE=bash command lasthop -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    [[ ${COMPREPLY-} != *[=/] ]] || compopt -o nospace 2>/dev/null
}
complete -o bashdefault -o nosort -F _lasthop lasthop 2>/dev/null || complete -o bashdefault -F _lasthop lasthop
"#;

/// The words of a line that Bash has sent.
static WORDS: OnceLock<Vec<String>> = OnceLock::new();

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(&self, _: &str, _: &str, _: &str, _: &str, script: &mut dyn Write) -> Result<(), Error> {
        script.write_all(BASH.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        sent: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> Result<(), Error> {
        let [line, word] = [0, 1].map(|at| sent.get(at).map(|text| text.to_string_lossy()).unwrap_or_default());
        // Within an open quote there is nothing to complete.
        let Some(mut words) = shlex::split(&line) else {
            return Ok(());
        };
        if line.is_empty() || line.ends_with(char::is_whitespace) {
            words.push(String::new());
        }
        let current = words.last().cloned().unwrap_or_default();
        // What Bash has split off in front of its word, and does not replace.
        let kept = current.strip_suffix(&*word).unwrap_or_default();
        let typed = WORDS.get_or_init(|| words);
        let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
        // There is at least one word: a line begins with the command itself.
        let at = typed.len() - 1;
        for candidate in complete(command, typed, at, folder)? {
            let value = candidate.get_value().to_string_lossy();
            writeln!(answer, "{}", quoted(value.strip_prefix(kept).unwrap_or(&value)))?;
        }
        Ok(())
    }
}

/// As a word of a shell: names of folders and levels come from anywhere. The user's own `~/` is left to the shell.
fn quoted(word: &str) -> String {
    let (home, rest) = word.split_at(if word.starts_with("~/") { 2 } else { 0 });
    let quoted = || {
        shlex::try_quote(rest)
            .map(|rest| format!("{home}{rest}"))
            .unwrap_or_default()
    };
    if is_plain(rest) { word.to_owned() } else { quoted() }
}

/// Whether no shell sees anything but letters in it.
fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_alphanumeric() || "-_./,=:@%+".contains(letter))
}

/// The command line as far as it is typed.
fn words() -> Vec<String> {
    WORDS
        .get()
        .cloned()
        // The scripts of the other shells put the line behind a `--`.
        .unwrap_or_else(|| std::env::args().skip_while(|word| word != "--").skip(1).collect())
}

/// The experiment that is named on the command line.
fn experiment() -> Option<Experiment> {
    let catalog = catalog().ok()?;
    let names = catalog.names();
    let words = words();
    let named = words
        .iter()
        .find(|word| names.contains(word) || Path::new(word).join("experiment.toml").is_file());
    catalog.load(named.map_or("sockets", String::as_str)).ok()
}

fn beginning(current: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    // PowerShell takes a candidate as it is. The others quote it, or `Bash` does.
    let raw = std::env::var_os(VARIABLE).is_some_and(|shell| shell == "powershell");
    let is_safe = |name: &String| !name.contains(char::is_control) && (!raw || is_plain(name));
    names
        .into_iter()
        .filter(|name| name.starts_with(&*current) && is_safe(name))
        .map(CompletionCandidate::new)
        .collect()
}

/// Names of experiments, or folders.
pub fn experiments(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = beginning(current, catalog().map(|catalog| catalog.names()).unwrap_or_default());
    if current.to_string_lossy().starts_with(['.', '/', '~']) {
        found.extend(PathCompleter::dir().complete(current));
    }
    found
}

/// Names of runs, the newest first, and `last`.
pub fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let runs = home()
        .ok()
        .and_then(|home| Store::new(home.path()).list().ok())
        .unwrap_or_default();
    let now = date::now();
    let names = runs
        .iter()
        .rev()
        .filter_map(|run| Some(run.file_name()?.to_str()?.to_owned()));
    let names = names.filter(|name| !run_name::is_of_the_future(name, now));
    beginning(current, std::iter::once("last".to_owned()).chain(names))
}

/// What `show` takes.
pub fn runs_and_experiments(current: &OsStr) -> Vec<CompletionCandidate> {
    runs(current).into_iter().chain(experiments(current)).collect()
}

/// Ids of checks.
pub fn checks(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, known::all().map(|known| known.id.to_owned()))
}

/// Names of studies.
pub fn studies(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, lasthop_repro::study::catalog::names())
}

/// Levels that run by default, with their factor.
pub fn default_levels(current: &OsStr) -> Vec<CompletionCandidate> {
    choices(current, |factor| factor.usual().to_vec())
}

/// All levels, with their factor.
pub fn levels(current: &OsStr) -> Vec<CompletionCandidate> {
    choices(current, |factor| factor.levels)
}

/// `FACTOR=`, then one level after the other.
fn choices(current: &OsStr, offered: impl Fn(Factor) -> Vec<Level>) -> Vec<CompletionCandidate> {
    let (Some(typed), Some(mut experiment)) = (current.to_str(), experiment()) else {
        return Vec::new();
    };
    let Some((name, chosen)) = typed.split_once('=') else {
        return beginning(current, experiment.factors.into_keys().map(|name| format!("{name}=")));
    };
    let Some(factor) = experiment.factors.shift_remove(name) else {
        return Vec::new();
    };
    let (before, _) = typed.split_at(typed.rfind([',', '=']).map_or(0, |at| at + 1));
    let levels = offered(factor).into_iter().map(|level| level.to_string());
    let more = levels.filter(|level| !chosen.split(',').any(|taken| taken == level.as_str()));
    beginning(current, more.map(|level| format!("{before}{level}")))
}
