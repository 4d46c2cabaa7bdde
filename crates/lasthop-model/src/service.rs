//! A service with everything filled in, from the plan to the stage that starts it.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use lasthop_trial::address::Endpoint;

/// A rendered service, ready to start.
#[derive(Clone, Debug)]
pub struct RenderedService {
    pub name: String,
    pub recipe: String,
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    /// Build commands, which run with lasthop's own rights before those of `prepare`.
    pub build: Vec<Vec<String>>,
    pub prepare: Vec<Vec<String>>,
    /// Timeout of each command of `build` and `prepare`.
    pub prepare_timeout: Duration,
    pub environment: Vec<(String, String)>,
    /// Whether the service and its preparation get private shared memory, which ends with them.
    pub own_memory: bool,
    /// Number of processes that serve at the same time: the service's setting `workers`, or 1.
    pub workers: u32,
    /// Path in the service's directory → content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub ready: Ready,
    pub stop: Stop,
    /// Where the service listens.
    pub endpoint: Endpoint,
    /// The run's password.
    pub secret: String,
    /// Conditions under which a copy of the configuration works elsewhere, each a sentence.
    pub conditions: Vec<String>,
}

/// The check for readiness. Always a check, never a sleep.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    pub check: ReadyCheck,
    pub timeout: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadyCheck {
    /// The endpoint accepts a connection.
    #[default]
    Connect,
    /// The endpoint answers `GET path` with this status.
    Http { path: String, status: u16 },
    /// The command exits with 0.
    Command(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Signal for an orderly end, for example `TERM` or `QUIT`.
    pub signal: String,
    /// Time after which the whole process group is killed.
    pub timeout: Duration,
}

/// Whether a relative path stays inside its folder.
pub fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}
