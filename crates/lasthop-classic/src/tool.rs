//! The model of a classic tool: a file of `tools`.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use lasthop_model::program::Program;
use lasthop_protocol::{Protocol, grpc::Grpc, kind, spec::Spec};
use lasthop_trial::{
    address::Address,
    options::Model,
    result::{ErrorClass, Reported},
};
use minijinja::Value;
use serde::Deserialize;

use super::{
    output,
    template::{self, Names, evaluate, render},
};

/// A classic load generator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name on the command line, and the level of the factor `driver`.
    #[serde(skip)]
    pub name: &'static str,
    /// Names of supported protocols.
    pub(super) speaks: Vec<String>,
    /// Limits of the tool. The first that applies to a case is the reason why the tool does not drive it.
    #[serde(default)]
    pub(super) cannot: Vec<Limit>,
    /// The command line for one trial, in shell syntax.
    pub(super) arguments: String,
    /// Environment variables, such as the password if the tool accepts it there.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Contents of files that the tool reads, by name in a private folder.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Whether the arguments, which every user of the machine can read, contain the password.
    #[serde(default)]
    pub(super) shows_password: bool,
    /// Runs per trial, if not one.
    pub(super) runs: Option<String>,
    /// Whether the tool can close a connection after a number of requests.
    #[serde(default)]
    pub(super) closes_connections: bool,
    /// Whether the tool is started for each figure and times nothing itself: the duration of the whole process counts.
    #[serde(default, rename = "timed_from_outside")]
    pub is_timed_from_outside: bool,
    /// How to find and install the program, and its version.
    pub program: Program,
    pub(super) output: Output,
    pub(super) result: Outcome,
}

/// A limit of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    pub when: String,
    pub what: String,
}

/// The output of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub lines: Vec<String>,
    /// Names of optional groups, which count events and are missing if none occurred.
    #[serde(default)]
    pub may_lack: Vec<String>,
    /// The unit of times that are printed without one.
    pub unit: Option<String>,
}

/// Expressions that turn matched groups into a result.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    /// An expression for the number of correct replies. Other expressions can use it as `correct`.
    pub correct: String,
    #[serde(default)]
    pub errors: Vec<Counted>,
    /// A caution for readers of the figures.
    pub caution: Option<String>,
    /// Expressions for other figures that no group gives directly.
    #[serde(flatten)]
    pub figures: BTreeMap<String, String>,
}

/// Requests that failed in one way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counted {
    class: ErrorClass,
    pub count: String,
    text: String,
}

/// The shortest useful trial of a tool: most count whole seconds, and all pay for their start.
pub const SHORTEST_TRIAL: Duration = Duration::from_secs(1);

/// The load of one trial.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub spec: &'a Spec,
    /// Duration in whole seconds, for tools that stop by time.
    pub seconds: u64,
    /// Requests to send, for tools that stop by count.
    pub count: u64,
    /// A study's flags for the tool, which replace the flags that shape the load.
    pub flags: &'a [String],
    /// A private folder for scripts.
    pub scratch: &'a Path,
}

impl Order<'_> {
    /// Variables for templates and expressions.
    pub(super) fn names(&self) -> Names {
        let spec = self.spec;
        let (tcp, unix) = match &spec.endpoint.address {
            Address::Tcp(address) => (Some(address), None),
            Address::Unix(path) => (None, Some(path.display().to_string())),
            _ => (None, None),
        };
        let protocol = &spec.protocol;
        [
            (protocol.kind().name, Value::from_serialize(protocol.json())),
            ("payload", Value::from(protocol.payload())),
            ("data_source", Value::from(protocol.data_source(&spec.endpoint))),
            ("address", Value::from(spec.endpoint.address.to_string())),
            ("host", Value::from(tcp.map(|address| address.ip().to_string()))),
            ("port", Value::from(tcp.map(|address| address.port()))),
            ("unix", Value::from(unix)),
            ("tls", Value::from_serialize(&spec.endpoint.tls)),
            ("reuse", Value::from_serialize(spec.reuse)),
            ("requests_per_connection", Value::from(spec.requests_per_connection)),
            ("connections", Value::from(spec.connections)),
            ("threads", Value::from(spec.threads)),
            ("pipeline", Value::from(spec.pipeline)),
            ("seconds", Value::from(self.seconds)),
            ("count", Value::from(self.count)),
            ("flags", Value::from_serialize(self.flags)),
            ("folder", Value::from(self.scratch.display().to_string())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// A tool's report about one trial.
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

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

impl Tool {
    /// Whether the tool speaks this protocol.
    pub fn speaks(&self, protocol: &Protocol) -> bool {
        self.speaks.iter().any(|name| name == protocol.kind().name)
    }

    /// Whether the arguments, which every user of the machine can read, contain a password.
    pub fn shows_password(&self, spec: &Spec) -> bool {
        self.shows_password
            && spec
                .protocol
                .clone()
                .password()
                .is_some_and(|password| password.is_some())
    }

    /// Writes the tool's files, and returns the arguments for one trial.
    pub(super) fn arguments(&self, order: &Order<'_>) -> Result<Vec<String>, String> {
        self.command_line(order).map_err(|why| format!("{} {why}", self.name))
    }

    fn command_line(&self, order: &Order<'_>) -> Result<Vec<String>, String> {
        let spec = order.spec;
        if spec.requests_per_connection > 1 && !self.closes_connections {
            return Err("cannot close a connection after a number of requests".to_owned());
        }
        if !self.speaks(&spec.protocol) {
            let titles = self.speaks.iter().filter_map(|name| Some(kind(name)?.title));
            let (titles, other) = (titles.collect::<Vec<_>>().join(" and "), spec.protocol.kind().title);
            return Err(format!("speaks {titles}, but the case's protocol is {other}"));
        }
        if spec.model != Model::Closed {
            return Err("cannot keep the schedule of an open loop".to_owned());
        }
        let names = order.names();
        for Limit { when, what } in &self.cannot {
            if evaluate(when, &names)?.is_true() {
                return Err(format!("cannot {}", render("what", what, &names)?));
            }
        }
        for (name, content) in &self.files {
            write(order, name, render(name, content, &names)?.as_bytes())?;
        }
        if let Some(grpc) = spec.protocol.get::<Grpc>() {
            write(order, "message", &grpc.data())?;
        }
        let line = render(template::COMMAND_LINE, &self.arguments, &names)?;
        shlex::split(&line).ok_or_else(|| format!("has a quote that is not closed in `{line}`"))
    }

    /// The environment variables for one trial.
    pub(super) fn environment(&self, order: &Order<'_>) -> Result<Vec<(String, String)>, String> {
        let names = order.names();
        let rendered = self.environment.iter();
        let rendered = rendered.map(|(name, value)| Ok((name.clone(), render(name, value, &names)?)));
        rendered
            .filter(|entry| !matches!(entry, Ok((_, value)) if value.is_empty()))
            .collect()
    }

    /// Runs per trial.
    pub(super) fn runs(&self, order: &Order<'_>) -> Result<u64, String> {
        let Some(runs) = &self.runs else { return Ok(1) };
        Ok(output::number(&evaluate(runs, &order.names())?)? as u64)
    }

    /// Parses the tool's output. `elapsed_ns` is the duration of the process, for tools that time nothing themselves.
    pub fn read(&self, output: &str, order: &Order<'_>, elapsed_ns: u64) -> Result<Reading, String> {
        let mut names = order.names();
        let lines = self.output.lines.iter().map(|line| render("lines", line, &names));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        let caught = output::read(&lines, &self.output.may_lack, output)?;
        names.insert("elapsed".to_owned(), Value::from(elapsed_ns));
        for (name, text) in &caught {
            let value = text.as_ref().map_or(Value::from(0), |text| output::value(text));
            names.insert(name.clone(), value);
        }
        let requests = figure(&self.result.correct, &names)?.unwrap_or_default() as u64;
        names.insert("correct".to_owned(), Value::from(requests));
        let of = |name: &str| match (self.result.figures.get(name), caught.get(name)) {
            (Some(expression), _) => figure(expression, &names),
            (None, Some(None)) => Ok(None),
            (None, _) => figure(name, &names),
        };
        let count = |figure: Option<f64>| figure.unwrap_or_default() as u64;
        let unit = self.output.unit.as_deref().and_then(output::unit).unwrap_or(1.0);
        let time = |name: &str| of(name).map(|time| Some(time? * unit));
        let mut errors = Vec::new();
        for Counted {
            class,
            count: each,
            text,
        } in &self.result.errors
        {
            errors.push((*class, count(figure(each, &names)?), format!("{}: {text}", self.name)));
        }
        Ok(Reading {
            requests,
            rate: of("rate")?.unwrap_or_default(),
            bytes: count(of("bytes")?),
            errors,
            connections: count(of("connections")?),
            reported: Reported {
                mean_ns: time("mean")?,
                deviation_ns: time("deviation")?,
                median_ns: time("median")?,
                p99_ns: time("p99")?,
                max_ns: time("max")?,
                resolution_ns: time("resolution")?.unwrap_or_default(),
                caution: self.result.caution.clone(),
                ..Reported::default()
            },
        })
    }
}

/// The value of an expression as a number, at least 0; `None` if undefined.
fn figure(expression: &str, names: &Names) -> Result<Option<f64>, String> {
    let value = evaluate(expression, names).map_err(|why| format!("`{expression}` is not a number: {why}"))?;
    if value.is_undefined() {
        return Ok(None);
    }
    output::number(&value).map(|number| Some(number.max(0.0)))
}

/// Writes a file for the tool into the private folder.
fn write(order: &Order<'_>, name: &str, content: &[u8]) -> Result<(), String> {
    let path = order.scratch.join(name);
    fs::write(&path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
