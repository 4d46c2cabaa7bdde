//! A service with everything filled in, as the plan hands it on to those who start it.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_protocol::spec::Endpoint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Path in the service's directory → content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub ready: Ready,
    pub stop: Stop,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The password of the run.
    pub secret: String,
    pub export: Export,
}

/// What `lasthop export` makes of it. By default that is its files and its command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Export {
    /// The port at which everybody expects it, in the place of the run's [default: 8000].
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Only the blocks of its files that begin with one of these words and have their content in braces.
    pub blocks: Vec<String>,
    /// File name = text: these files instead of its own. May be templates; `{{ listen }}` is the text of `listen`.
    pub files: IndexMap<String, String>,
    /// What must be true where it is copied to, a sentence each without a full stop. May be templates; one that comes
    /// out empty is left out.
    pub conditions: Vec<String>,
}

impl Export {
    /// Whether it is a part to copy into a configuration, rather than a server to start.
    pub fn is_excerpt(&self) -> bool {
        !self.blocks.is_empty() || !self.files.is_empty()
    }
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
