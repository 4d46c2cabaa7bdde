//! What a classic tool is: an entry of the table.

use std::{path::Path, time::Duration};

use lasthop_model::{
    manager::APT,
    program::{Packages, Program, Version},
};
use lasthop_protocol::{
    Protocol,
    kind::ProtocolSpec,
    result::{ErrorClass, Reported},
    spec::{Model, Reuse, Spec},
};

/// A classic load generator.
#[derive(Debug)]
pub struct Tool {
    /// Its name on the command line, and the level of the factor `driver`.
    pub name: &'static str,
    /// The argument that makes it print its version, and the pattern that finds the version.
    pub(super) version: (&'static str, &'static str),
    /// The Debian package that has it.
    pub(super) package: &'static str,
    /// Whether it can speak this protocol at all.
    pub speaks: fn(&Protocol) -> bool,
    pub(super) arguments: fn(&Order<'_>) -> Result<Vec<String>, String>,
    /// Reads what it printed. The number is the nanoseconds from its start to its end, for the tool that times nothing
    /// itself.
    pub read: fn(&str, &Order<'_>, u64) -> Result<Reading, String>,
    /// What it takes from its environment: its password, if it can take one there.
    pub(super) environment: fn(&Spec) -> Option<(&'static str, String)>,
    /// Whether its arguments, which every user of the machine can read, contain a password.
    pub shows_password: fn(&Spec) -> bool,
    /// How often it runs in a trial.
    pub(super) repeats: fn(&Order<'_>) -> u64,
    /// It is started for each figure and times nothing itself: what counts is the time of the whole process.
    pub is_timed_from_outside: bool,
}

/// The shortest trial that a tool can make a number of: most count whole seconds, and all pay for their start.
pub const SHORTEST_TRIAL: Duration = Duration::from_secs(1);

/// What a tool should do in one trial.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub spec: &'a Spec,
    /// How long to drive, in whole seconds, for tools that stop by time.
    pub seconds: u64,
    /// Requests to send, for tools that stop by count.
    pub count: u64,
    /// A study's flags for the tool, which replace those that shape the load.
    pub flags: &'a [String],
    /// A private folder for scripts.
    pub scratch: &'a Path,
}

impl Order<'_> {
    /// A study's flags, or else the usual ones.
    pub(super) fn flags_or<const N: usize>(&self, usual: [String; N]) -> Vec<String> {
        if self.flags.is_empty() {
            usual.into()
        } else {
            self.flags.to_vec()
        }
    }

    /// Connections that it opens: one for each request, or those that it keeps.
    pub(super) fn connections(&self, requests: u64, kept: u64) -> u64 {
        if self.spec.reuse == Reuse::PerRequest {
            requests
        } else {
            kept
        }
    }
}

/// What a tool reported about one trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Requests that the tool counts as answered.
    pub requests: u64,
    /// Correct replies per second by the tool's own clock.
    pub rate: f64,
    /// Bytes received; 0 if the tool does not say.
    pub bytes: u64,
    pub errors: Vec<(ErrorClass, u64, String)>,
    /// Connections opened, if the tool says so or its mode determines it.
    pub connections: u64,
    pub reported: Reported,
}

/// What a tool cannot do, as a part of a sentence that begins with its name.
pub fn cannot<T>(what: &str) -> Result<T, String> {
    Err(format!("cannot {what}"))
}

/// What the case's protocol is told to say, if it is that of the tool.
pub fn speaking<'a, T: ProtocolSpec>(spec: &'a Spec, title: &str) -> Result<&'a T, String> {
    spec.protocol.get().ok_or_else(|| {
        format!(
            "speaks {title}, but the case's protocol is {}",
            spec.protocol.kind().title
        )
    })
}

pub fn in_closed_loop(spec: &Spec) -> Result<(), String> {
    if spec.model == Model::Closed {
        Ok(())
    } else {
        cannot("keep the schedule of an open loop")
    }
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

impl Tool {
    pub(super) const fn new(
        name: &'static str,
        arguments: fn(&Order<'_>) -> Result<Vec<String>, String>,
        read: fn(&str, &Order<'_>, u64) -> Result<Reading, String>,
    ) -> Self {
        Self {
            name,
            version: ("--version", ""),
            package: name,
            speaks: |_| false,
            arguments,
            read,
            environment: |_| None,
            shows_password: |_| false,
            repeats: |_| 1,
            is_timed_from_outside: false,
        }
    }

    /// How to find it, its version, and what installs it.
    pub fn program(&self) -> Program {
        Program {
            names: vec![self.name.to_owned()],
            folders: vec!["/usr/sbin".into()],
            version: Some(Version {
                arguments: vec![self.version.0.to_owned()],
                pattern: self.version.1.to_owned(),
                minimum: None,
            }),
            packages: Packages::named([(APT.name, self.package)]),
            ..Program::default()
        }
    }

    /// Command-line arguments for one trial.
    pub(super) fn arguments(&self, order: &Order<'_>) -> Result<Vec<String>, String> {
        let arguments = if order.spec.requests_per_connection > 1 {
            cannot("close a connection after a number of requests")
        } else {
            (self.arguments)(order)
        };
        arguments.map_err(|why| format!("{} {why}", self.name))
    }
}
