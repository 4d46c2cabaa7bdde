//! podman or Docker: found, asked, usable.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::service::{brief, locate::on_path};

/// The longest that an answer may take which starts nothing.
const QUESTION: Duration = Duration::from_secs(60);
/// Lines of what an engine said that an error shows.
const SHOWN: usize = 12;

/// A container engine by the name of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Podman,
    Docker,
}

impl Kind {
    /// In the order in which they are looked for.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// Why there is no engine to work with.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "no container engine was found: neither `podman` nor `docker` is on PATH; install one, for example \
         `apt-get install podman`"
    )]
    None,
    #[error("`{0}` is not on PATH; install it, or choose another with --engine")]
    Missing(&'static str),
    #[error("no container engine can be used:{}", each(.0))]
    Unusable(Vec<(Kind, String)>),
    #[error("`{command}` failed: {cause}")]
    Failed { command: String, cause: String },
}

fn each(reasons: &[(Kind, String)]) -> String {
    reasons.iter().map(|(kind, reason)| format!("\n  {}: {reason}", kind.name())).collect()
}

/// An engine that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    pub kind: Kind,
    /// Absolute path of the client.
    pub program: PathBuf,
    /// Of the engine: the daemon's where there is one.
    pub version: String,
    /// Whether its containers run in a user namespace of this user.
    pub rootless: bool,
}

/// What an engine is made of, for `doctor` and the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub runtime: String,
    pub storage: String,
    /// What makes networks: netavark, cni, or libnetwork.
    pub network: String,
}

impl Engine {
    /// The engine of that kind, or the first that can be used, podman first.
    ///
    /// # Errors
    /// None is installed, or none answers: for each the reason and what to do.
    pub fn find(wanted: Option<Kind>) -> Result<Self, EngineError> {
        let kinds: Vec<Kind> = wanted.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
        let mut reasons = Vec::new();
        for kind in kinds {
            let Some(program) = on_path(kind.name()) else { continue };
            match Self::ask_who(kind, program) {
                Ok(engine) => return Ok(engine),
                Err(reason) => reasons.push((kind, reason)),
            }
        }
        match (reasons.is_empty(), wanted) {
            (false, _) => Err(EngineError::Unusable(reasons)),
            (true, Some(kind)) => Err(EngineError::Missing(kind.name())),
            (true, None) => Err(EngineError::None),
        }
    }

    /// Asks for version and rights, which only an engine that works can tell.
    fn ask_who(kind: Kind, program: PathBuf) -> Result<Self, String> {
        let mut engine = Self { kind, program, version: String::new(), rootless: false };
        let format = match kind {
            Kind::Podman => "{{.Version.Version}} {{.Host.Security.Rootless}} {{.Host.NetworkBackend}}",
            Kind::Docker => "{{.ServerVersion}} {{.SecurityOptions}}",
        };
        let answer = engine.ask(["info", "--format", format]).map_err(|error| remedy(kind, &error.to_string()))?;
        // Where there is no daemon the client of Docker prints an empty version, and ends well.
        let (version, rest) = answer.trim().split_once(' ').unwrap_or((answer.trim(), ""));
        if version.is_empty() || !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(remedy(kind, &format!("`{} info` answered `{}`", kind.name(), answer.trim())));
        }
        engine.version = version.to_owned();
        engine.rootless = rest.starts_with("true") || rest.contains("rootless");
        if kind == Kind::Podman && rest.ends_with("cni") && !has_cni() {
            return Err(remedy(kind, "it makes networks with cni, whose plugins are not installed"));
        }
        if kind == Kind::Podman && engine.rootless && engine.users() == Some(1) {
            return Err(remedy(
                kind,
                "this user has no subordinate numbers (/etc/subuid), so that a container has room for one user only",
            ));
        }
        Ok(engine)
    }

    /// Numbers of users that a container of rootless podman can have; images hold files of several.
    fn users(&self) -> Option<u64> {
        let answer = self.ask(["info", "--format", "{{json .Host.IDMappings.UIDMap}}"]).ok()?;
        let ranges: Vec<serde_json::Value> = serde_json::from_str(answer.trim()).ok()?;
        ranges.iter().map(|range| range["size"].as_u64()).sum()
    }

    /// What it is made of.
    ///
    /// # Errors
    /// It does not answer.
    pub fn parts(&self) -> Result<Parts, EngineError> {
        let format = match self.kind {
            Kind::Podman => "{{.Host.OCIRuntime.Name}}\t{{.Store.GraphDriverName}}\t{{.Host.NetworkBackend}}",
            Kind::Docker => "{{.DefaultRuntime}}\t{{.Driver}}\tlibnetwork",
        };
        let answer = self.ask(["info", "--format", format])?;
        let mut parts = answer.trim().split('\t').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Ok(Parts { runtime: next(), storage: next(), network: next() })
    }

    /// Runs a command that answers at once, and yields its standard output.
    ///
    /// # Errors
    /// It ended with another status than 0, or not in time.
    pub fn ask<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, EngineError> {
        self.carry_out(arguments, QUESTION)
    }

    /// As [`Engine::ask`], with a time limit.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub fn carry_out<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        timeout: Duration,
    ) -> Result<String, EngineError> {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir("/");
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let shown = format!("{} {}", self.kind.name(), words.join(" "));
        let failed = |cause: String| EngineError::Failed { command: shown.clone(), cause };
        let ended = brief::run_apart(command, timeout).map_err(|error: io::Error| failed(error.to_string()))?;
        if ended.status.success() {
            return Ok(ended.output);
        }
        Err(failed(format!("{}{}", ended.status, last_lines(&ended.errors))))
    }

    /// Removes something, to the end even if lasthop dies meanwhile: a network that is half taken down stays for ever.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub fn remove(&self, arguments: &[&str]) -> Result<(), EngineError> {
        let failed =
            |cause| EngineError::Failed { command: format!("{} {}", self.kind.name(), arguments.join(" ")), cause };
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir("/");
        let ended = brief::run_through(command, QUESTION).map_err(|error| failed(error.to_string()))?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(failed(format!("{}{}", ended.status, last_lines(&ended.text)))),
        }
    }

    /// The beginning of a command line.
    #[must_use]
    pub fn client(&self) -> String {
        self.program.display().to_string()
    }
}

/// Where podman looks for the plugins of CNI.
const CNI: [&str; 5] =
    ["/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni", "/usr/lib/cni", "/opt/cni/bin"];

/// An engine that was first used without netavark goes on with CNI, also where only netavark is installed.
fn has_cni() -> bool {
    CNI.iter().any(|folder| Path::new(folder).join("bridge").is_file())
}

/// The end of what it said; warnings only where there is nothing else, since podman repeats them with every command.
pub(super) fn last_lines(text: &str) -> String {
    let said: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let warning = |line: &&str| line.contains("level=warning");
    let mut lines: Vec<&str> = said.iter().copied().filter(|line| !warning(line)).collect();
    if lines.is_empty() {
        lines = said;
    }
    lines[lines.len().saturating_sub(SHOWN)..].iter().map(|line| format!("\n    {line}")).collect()
}

/// What to do about the usual reasons.
fn remedy(kind: Kind, reason: &str) -> String {
    let what = match kind {
        Kind::Docker if reason.contains("permission denied") => {
            "this user may not talk to the daemon: join the group `docker`, or use rootless Docker or podman"
        }
        Kind::Docker => "start the daemon (`systemctl start docker`), or set DOCKER_HOST to where it listens",
        Kind::Podman if reason.contains("with cni") => {
            "install the package `containernetworking-plugins`, or write `network_backend = \"netavark\"` under \
             `[network]` into containers.conf and install `netavark` and `aardvark-dns`"
        }
        Kind::Podman if reason.contains("newuidmap") || reason.contains("subuid") => {
            "rootless podman needs the package `uidmap` and lines for this user in /etc/subuid and /etc/subgid"
        }
        Kind::Podman => {
            "see `podman info`; a runtime that the machine's cgroups do not suit is chosen in containers.conf"
        }
    };
    format!("{reason}\n    {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_to_do() {
        let denied = remedy(Kind::Docker, "dial unix /var/run/docker.sock: connect: permission denied");
        assert!(denied.contains("join the group `docker`"), "{denied}");
        let error = EngineError::Unusable(vec![(Kind::Docker, "r".into())]);
        assert_eq!(error.to_string(), "no container engine can be used:\n  docker: r");
    }

    #[test]
    fn a_command_that_fails_shows_what_it_said() {
        let engine = Engine { kind: Kind::Podman, program: "/bin/sh".into(), version: String::new(), rootless: false };
        assert_eq!(engine.ask(["-c", "echo out; echo talk >&2"]).unwrap(), "out\n");
        let error = engine.ask(["-c", "echo no image >&2; exit 125"]).unwrap_err().to_string();
        assert!(error.starts_with("`podman -c ") && error.ends_with("exit status: 125\n    no image"), "{error}");
        assert_eq!(last_lines("a level=warning b\nError: no\n"), "\n    Error: no");
        assert_eq!(last_lines("level=warning b\n\n"), "\n    level=warning b");
    }
}
