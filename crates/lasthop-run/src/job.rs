//! The job of a run, and why it could not be done.

use std::time::Duration;

use indexmap::IndexMap;
use lasthop_model::{
    driver::Remote,
    engine::EngineKind,
    record::{Origin, Settings},
};
use lasthop_plan::plan::Plan;
use lasthop_record::WriteError;
use lasthop_stack::{guard::GuardError, home::Home, locate::Locator};

/// Everything that determines a run.
#[derive(Debug)]
pub struct Job<'a> {
    pub plan: &'a Plan,
    pub settings: Settings,
    pub locator: &'a Locator,
    /// The container engine that the user chose; `None` takes the first usable one.
    pub engine: Option<EngineKind>,
    /// How to reach a driver on another host.
    pub remote: Remote,
    pub home: &'a Home,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Whether the first round completes all its blocks after the budget is spent, because one block gives no interval.
    pub whole_round: bool,
    /// The sources of the job, for `lasthop resume`. Digests of executables are added when these are found.
    pub origin: Option<Origin>,
    /// The user's labels for the machine.
    pub labels: IndexMap<String, String>,
}

impl<'a> Job<'a> {
    /// A job that cannot be resumed, for any engine, with a driver that needs no ssh.
    pub fn new(plan: &'a Plan, settings: Settings, locator: &'a Locator, home: &'a Home, command: Vec<String>) -> Self {
        Self {
            plan,
            settings,
            locator,
            home,
            command,
            engine: None,
            remote: Remote::default(),
            whole_round: false,
            origin: None,
            labels: IndexMap::new(),
        }
    }

    /// The job with the settings of its origin, for `lasthop resume`.
    pub fn with_origin(self, origin: Origin) -> Self {
        let engine = origin.engine;
        let remote = origin.remote.clone();
        Self {
            engine,
            remote,
            origin: Some(origin),
            ..self
        }
    }
}

/// A run could not be started or recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data folder is missing, or the sandbox cannot be created.
    #[error("{0}")]
    Folder(String),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("{0}")]
    DriverPlace(String),
    #[error("{0}")]
    OwnNetwork(String),
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The resumed run would measure something else.
    #[error(transparent)]
    Changed(#[from] Changed),
    /// No case can run, because programs are missing.
    #[error("{0}")]
    Missing(String),
    /// No case can run, because a program exists but cannot be used.
    #[error("{0}")]
    Unusable(String),
    #[error("interrupted before the first round; nothing was recorded")]
    Interrupted,
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A change since the run began, so that its two parts could not be compared.
#[derive(Debug, thiserror::Error)]
#[error(
    "run {run} cannot be resumed, because what it measures has changed:\n{}\nStart a new run instead: {again}",
    differences.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n")
)]
pub struct Changed {
    pub(super) run: String,
    pub(super) differences: Vec<String>,
    /// The command line of the run.
    pub(super) again: String,
}
