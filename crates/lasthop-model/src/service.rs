//! A service with everything filled in, as the plan hands it on to those who start it.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use lasthop_protocol::spec::Endpoint;

/// A rendered service, ready to start.
#[derive(Clone, Debug)]
pub struct RenderedService {
    pub name: String,
    pub recipe: String,
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    /// Commands with lasthop's own rights, before those of the preparation.
    pub build: Vec<Vec<String>>,
    pub prepare: Vec<Vec<String>>,
    /// For each of these commands.
    pub prepare_timeout: Duration,
    pub environment: Vec<(String, String)>,
    /// It and its preparation get shared memory of their own, which ends with them.
    pub own_memory: bool,
    /// Processes that serve at the same time: its setting `workers`, else one.
    pub workers: u32,
    /// Path in the service's directory → content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub ready: Ready,
    pub stop: Stop,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The password of the run.
    pub secret: String,
    /// What must be true where its configuration is copied to, a sentence each.
    pub conditions: Vec<String>,
}

/// When a service counts as ready. Always a check, never a sleep.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    pub check: ReadyCheck,
    pub timeout: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadyCheck {
    /// Its endpoint accepts a connection.
    #[default]
    Connect,
    /// Its endpoint answers `GET path` with this status.
    Http { path: String, status: u16 },
    /// The command exits with 0.
    Command(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Signal for an orderly end, for example `TERM` or `QUIT`.
    pub signal: String,
    /// After this time the whole process group is killed.
    pub timeout: Duration,
}

/// Whether a relative path stays inside its folder.
pub fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}
