//! DRIVE with the classic tools: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark.
//!
//! A tool takes the place of lasthop's own load generator for a case ([`drive`] speaks the wire protocol for it), with the
//! flags of a study or with flags made from the case. Its output is read by a [`form`] that knows every line: a line that
//! it does not know is an error, not a number. One file a tool.

mod ab;
pub mod choice;
pub mod drive;
pub mod form;
mod h2load;
mod httperf;
mod pgbench;
mod process;
mod psql;
mod redis_benchmark;
mod url;
mod wrk;

use std::{fmt, path::Path, str::FromStr, time::Duration};

use lasthop_load::{
    result::{ErrorClass, Reported},
    spec::{Protocol, Spec},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::form::Misread;
use crate::experiment::model::{Packages, Program, ProgramKind};

pub use self::{choice::ToolChoice, psql::connection as connection_string};

/// A load generator of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    Wrk,
    Ab,
    Httperf,
    H2load,
    Psql,
    Pgbench,
    RedisBenchmark,
}

/// What a tool is asked to do in one trial.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub spec: &'a Spec,
    /// How long to drive, for tools that stop by time. Whole seconds.
    pub seconds: u64,
    /// Requests to make, for tools that stop by count.
    pub count: u64,
    /// The tool's own flags of a study; they replace those for the shape of the load.
    pub flags: &'a [String],
    /// A private folder for scripts.
    pub scratch: &'a Path,
}

/// What a tool said of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Requests that the tool counts as answered.
    pub requests: u64,
    /// Right answers per second by the tool's own clock.
    pub rate: f64,
    /// Bytes received; 0 where the tool does not say.
    pub bytes: u64,
    pub errors: Vec<(ErrorClass, u64, String)>,
    /// Connections opened, where the tool says so or its mode fixes it.
    pub connections: u64,
    pub reported: Reported,
}

/// The tool cannot do what the case asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    #[error("{tool} speaks {speaks}, but the case's protocol is {protocol}")]
    Protocol { tool: Tool, speaks: &'static str, protocol: &'static str },
    #[error(
        "{tool} cannot open a Unix socket; it can drive cases whose own connection is TCP (a link behind a proxy is)"
    )]
    UnixSocket { tool: Tool },
    #[error("{tool} cannot {what}")]
    Mode { tool: Tool, what: String },
    #[error("cannot write {path}: {cause}")]
    Script { path: String, cause: String },
}

impl Tool {
    pub const ALL: [Self; 7] =
        [Self::Wrk, Self::Ab, Self::Httperf, Self::H2load, Self::Psql, Self::Pgbench, Self::RedisBenchmark];

    /// Its name on the command line, and the level of the factor `driver`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::Httperf => "httperf",
            Self::H2load => "h2load",
            Self::Psql => "psql",
            Self::Pgbench => "pgbench",
            Self::RedisBenchmark => "redis-benchmark",
        }
    }

    /// How to find it, its version, and what installs it.
    #[must_use]
    pub fn program(self) -> Program {
        let (argument, pattern, package) = match self {
            Self::Wrk => ("--version", r"wrk (\S+)", "wrk"),
            Self::Ab => ("-V", r"ApacheBench, Version (\S+)", "apache2-utils"),
            Self::Httperf => ("--version", r"httperf-(\S+)", "httperf"),
            Self::H2load => ("--version", r"nghttp2/(\S+)", "nghttp2-client"),
            Self::Psql => ("--version", r"psql \(PostgreSQL\) (\S+)", "postgresql-client"),
            // Debian has it in the server's package: there is none with the client alone.
            Self::Pgbench => ("--version", r"pgbench \(PostgreSQL\) (\S+)", "postgresql-contrib"),
            Self::RedisBenchmark => ("--version", r"redis-benchmark (\S+)", "redis-tools"),
        };
        Program {
            kind: ProgramKind::Named { names: vec![self.name().to_owned()], folders: vec!["/usr/sbin".into()] },
            version_arguments: vec![argument.to_owned()],
            version_pattern: pattern.to_owned(),
            minimum: None,
            packages: Packages { debian: vec![package.to_owned()], ..Packages::default() },
            obtain: None,
        }
    }

    /// The shortest trial that it can make a number of: most count whole seconds, and all pay for their start.
    #[must_use]
    pub fn shortest_trial(self) -> Duration {
        Duration::from_secs(1)
    }

    /// Whether it can speak this protocol at all.
    #[must_use]
    pub fn speaks(self, protocol: &Protocol) -> bool {
        match self {
            Self::Wrk | Self::Ab | Self::Httperf | Self::H2load => matches!(protocol, Protocol::Http(_)),
            Self::Psql | Self::Pgbench => matches!(protocol, Protocol::Postgres(_)),
            Self::RedisBenchmark => matches!(protocol, Protocol::Redis(_)),
        }
    }

    /// Command-line arguments for one trial.
    ///
    /// # Errors
    /// What the tool cannot do.
    pub fn arguments(self, order: &Order<'_>) -> Result<Vec<String>, Unable> {
        if order.spec.requests_per_connection > 1 {
            let what = "be told here to close a connection after a number of requests".to_owned();
            return Err(Unable::Mode { tool: self, what });
        }
        match self {
            Self::Wrk => wrk::arguments(order),
            Self::Ab => ab::arguments(order),
            Self::Httperf => httperf::arguments(order),
            Self::H2load => h2load::arguments(order),
            Self::Psql => psql::arguments(order),
            Self::Pgbench => pgbench::arguments(order),
            Self::RedisBenchmark => redis_benchmark::arguments(order),
        }
    }

    /// Reads what it printed. `elapsed_ns` is the time from its start to its end, for the tool that times nothing itself.
    ///
    /// # Errors
    /// The first line of a form that is not known, or what is missing.
    pub fn read(self, output: &str, order: &Order<'_>, elapsed_ns: u64) -> Result<Reading, Misread> {
        match self {
            Self::Wrk => wrk::read(output, order),
            Self::Ab => ab::read(output),
            Self::Httperf => httperf::read(output),
            Self::H2load => h2load::read(output, order),
            Self::Psql => psql::read(output, order, elapsed_ns),
            Self::Pgbench => pgbench::read(output, order),
            Self::RedisBenchmark => redis_benchmark::read(output, order),
        }
    }
}

/// Name of a protocol, for sentences.
fn protocol_name(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Hello(_) => "hello",
        Protocol::Echo(_) => "echo",
        Protocol::Stream(_) => "stream",
        Protocol::Http(_) => "HTTP",
        Protocol::Redis(_) => "Redis",
        Protocol::Postgres(_) => "PostgreSQL",
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The word is not the name of a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{0}` (known: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark)")]
pub struct UnknownTool(pub String);

impl FromStr for Tool {
    type Err = UnknownTool;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|tool| tool.name() == word).ok_or_else(|| UnknownTool(word.to_owned()))
    }
}
