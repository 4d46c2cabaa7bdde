//! Finds podman or Docker, and checks that it works.

use std::{ffi::OsStr, io, path::PathBuf, process::Command, time::Duration};

use lasthop_model::engine::EngineKind;
use lasthop_system::{
    command::{self, Life},
    files,
};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::dialect::{self, Dialect};
use crate::locate::on_path;

/// The longest time for a command that starts nothing.
const QUESTION: Duration = Duration::from_secs(60);
/// The longest time for a removal.
pub(super) const REMOVAL: Duration = Duration::from_secs(30);
/// Lines of an engine's output in an error.
const SHOWN: usize = 12;

/// No engine can be used, or the engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("`{0}` is not on PATH; install it, or choose another engine with --engine")]
    Missing(&'static str),
    #[error("no container engine works:{}", each(.0))]
    Unusable(Vec<(EngineKind, String)>),
    #[error("{0} did not remove a container within {REMOVAL:?}; run `lasthop clean` when it answers again")]
    Hangs(&'static str),
    #[error("{0}")]
    Other(String),
}

/// Lets functions whose errors are text use `?`.
impl From<EngineError> for String {
    fn from(error: EngineError) -> Self {
        error.to_string()
    }
}

fn none_found() -> EngineError {
    let names = EngineKind::ALL.map(|kind| format!("`{}`", kind.name())).join(" nor ");
    EngineError::Other(format!(
        "no container engine was found: neither {names} is on PATH; install one"
    ))
}

fn each(reasons: &[(EngineKind, String)]) -> String {
    reasons
        .iter()
        .map(|(kind, reason)| format!("\n  {}: {reason}", kind.name()))
        .collect()
}

/// A working engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    pub kind: EngineKind,
    /// Absolute path of the client.
    pub program: PathBuf,
    /// Version of the engine, or of its daemon if there is one.
    pub version: String,
    /// Whether containers run in a user namespace of this user.
    pub rootless: bool,
    /// Runtime, storage and network backend, for `doctor` and the record.
    #[serde(skip)]
    pub parts: String,
}

impl Engine {
    /// The engine of the wanted kind, or the first that works, podman first.
    pub fn find(wanted: Option<EngineKind>) -> Result<Self, EngineError> {
        let kinds: Vec<EngineKind> = wanted.map_or_else(|| EngineKind::ALL.to_vec(), |kind| vec![kind]);
        let mut reasons = Vec::new();
        for kind in kinds {
            let Some(program) = on_path(kind.name()) else { continue };
            match Self::ask_who(kind, program) {
                Ok(engine) => return Ok(engine),
                Err(reason) => reasons.push((kind, reason)),
            }
        }
        if !reasons.is_empty() {
            return Err(EngineError::Unusable(reasons));
        }
        Err(wanted.map_or_else(none_found, |kind| EngineError::Missing(kind.name())))
    }

    /// Asks a working engine for version, rights and components in one command: `podman info` asks the package manager
    /// about each component and takes a second.
    fn ask_who(kind: EngineKind, program: PathBuf) -> Result<Self, String> {
        let mut engine = Self {
            kind,
            program,
            version: String::new(),
            rootless: false,
            parts: String::new(),
        };
        let dialect = engine.dialect();
        let format = format!("{}\t{}", dialect.about, dialect.parts);
        let answer = engine
            .ask(["info", "--format", &format])
            .map_err(|error| dialect.advised(&error.to_string()))?;
        let (about, parts) = answer.trim().split_once('\t').unwrap_or((answer.trim(), ""));
        // Without a daemon, Docker's client prints an empty version and succeeds.
        let (version, rest) = about.split_once(' ').unwrap_or((about, ""));
        if version.is_empty() || !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(dialect.advised(&format!("`{} info` answered `{}`", kind.name(), answer.trim())));
        }
        engine.version = version.to_owned();
        engine.rootless = dialect::is_rootless(rest);
        engine.parts = parts.to_owned();
        match (dialect.flaw)(rest, &|words| engine.ask(words).ok()) {
            Some(flaw) => Err(dialect.advised(flaw)),
            None => Ok(engine),
        }
    }

    /// The differences of this engine from others.
    pub fn dialect(&self) -> &'static Dialect {
        dialect::of_engine(self.kind)
    }

    /// Runs a short command, and returns its standard output.
    pub fn ask<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, EngineError> {
        self.carry_out(arguments, QUESTION)
    }

    /// Like [`Engine::ask`], with a time limit.
    pub fn carry_out<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        timeout: Duration,
    ) -> Result<String, EngineError> {
        self.run(arguments, timeout, Life::Bound)
    }

    /// Removes an object, and finishes even if lasthop dies, because a half-removed network stays for ever.
    ///
    /// # Errors
    ///
    /// See [`Engine::ask`]; [`EngineError::Hangs`] if it takes too long.
    pub fn remove(&self, arguments: &[&str]) -> Result<(), EngineError> {
        self.run(arguments, REMOVAL, Life::ToItsEnd).map(drop)
    }

    fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        timeout: Duration,
        life: Life,
    ) -> Result<String, EngineError> {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir("/");
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let words = words.join(" ");
        match command::run(command, timeout, life) {
            Ok(ended) if ended.status.success() => Ok(ended.output),
            Ok(ended) => Err(self.failed(&words, &format!("{}{}", ended.status, last_lines(&ended.errors)))),
            Err(error) if life == Life::ToItsEnd && error.kind() == io::ErrorKind::TimedOut => {
                Err(EngineError::Hangs(self.kind.name()))
            }
            Err(error) => Err(self.failed(&words, &error.to_string())),
        }
    }

    /// The error of a failed command of the engine.
    pub(super) fn failed(&self, words: &str, cause: &str) -> EngineError {
        EngineError::Other(format!("`{} {words}` failed: {cause}", self.kind.name()))
    }

    /// Options that give a container this process's limits. An engine's defaults may be higher, which needs
    /// CAP_SYS_RESOURCE.
    pub fn process_limits(&self) -> Vec<String> {
        if !self.dialect().inherits_limits {
            return Vec::new();
        }
        let pids = files::text("/proc/sys/kernel/pid_max")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        // podman itself limits processes to the highest pid.
        [
            ("nofile", Resource::Nofile, u64::MAX),
            ("nproc", Resource::Nproc, pids.unwrap_or(u64::MAX)),
        ]
        .into_iter()
        .filter_map(|(name, resource, most)| Some((name, getrlimit(resource).maximum?.min(most))))
        .map(|(name, most)| format!("--ulimit={name}={most}:{most}"))
        .collect()
    }

    /// The client's path, to begin a command line.
    pub fn client(&self) -> String {
        self.program.display().to_string()
    }
}

/// The last lines of an engine's output. Warnings are included only if there is nothing else, because podman repeats
/// them with every command.
pub(super) fn last_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if !lines.iter().all(|line| line.contains("level=warning")) {
        lines.retain(|line| !line.contains("level=warning"));
    }
    lines[lines.len().saturating_sub(SHOWN)..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_engines() {
        let none = none_found().to_string();
        assert!(none.contains("neither `podman` nor `docker` is on PATH"), "{none}");
        let error = EngineError::Unusable(vec![(EngineKind::Docker, "r".into())]);
        assert_eq!(error.to_string(), "no container engine works:\n  docker: r");
    }

    #[test]
    fn a_command_that_fails_shows_what_it_said() {
        let engine = Engine {
            kind: EngineKind::Podman,
            program: "/bin/sh".into(),
            version: String::new(),
            rootless: false,
            parts: String::new(),
        };
        assert_eq!(engine.ask(["-c", "echo out; echo talk >&2"]).unwrap(), "out\n");
        let error = engine
            .ask(["-c", "echo no image >&2; exit 125"])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`podman -c ") && error.ends_with("exit status: 125\n    no image"),
            "{error}"
        );
        assert_eq!(last_lines("a level=warning b\nError: no\n"), "\n    Error: no");
        assert_eq!(last_lines("level=warning b\n\n"), "\n    level=warning b");
    }
}
