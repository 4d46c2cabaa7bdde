//! Experiments and recipes as the rest of the program sees them: read, checked, complete.
//!
//! `definition` holds the types of the files as written; everything here is valid by construction.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use lasthop_load::spec::{Endpoint, Transport};
use serde::{Deserialize, Serialize};

use super::{digest::Digests, pace::Place};

/// One value of a factor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    Bool(bool),
    Int(i64),
    Text(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.pad(value),
        }
    }
}

/// Chosen level of each factor that applies, in the order of the experiment's factors.
pub type Levels = IndexMap<String, Level>;

/// Text with minijinja expressions, rendered per case.
pub type Template = String;

/// A question, the services, the link under test, the load, the factors.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Lower-case words joined by `-`; the folder's name.
    pub name: String,
    /// A short headline.
    pub title: String,
    /// The question it answers, one sentence.
    pub question: String,
    pub source: Source,
    /// Every file of the folder but `experiment.toml`, by path relative to it.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Of every file of the folder, by path.
    pub digests: Digests,
    pub link: Link,
    /// The first factor is always `transport`, the transport of the link.
    pub factors: IndexMap<String, Factor>,
    pub excludes: Vec<Exclude>,
    /// In start order: a service comes after those that it needs.
    pub services: IndexMap<String, Service>,
    /// Every recipe that a case may use, by name.
    pub recipes: IndexMap<String, Recipe>,
    pub load: Load,
    /// By name.
    pub derive: IndexMap<String, Derive>,
    pub defaults: Defaults,
}

/// A quantity that follows from several cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derive {
    pub help: String,
    /// Expression over the factors.
    pub of: String,
    pub kind: DeriveKind,
}

/// How a quantity follows from cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeriveKind {
    /// Less the time of the cases for which this expression holds.
    Minus(String),
    /// Slope over this factor.
    Per(String),
    /// Where this factor ends the difference to the reference.
    Crossover(String),
}

/// Where an experiment was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Embedded in the binary.
    BuiltIn,
    Folder(PathBuf),
}

/// The connection whose transport is varied.
#[derive(Clone, Debug)]
pub struct Link {
    /// A service, or `driver`.
    pub from: String,
    /// The service that listens.
    pub to: String,
    /// The transport, rendered per case, where the factor under comparison is `path`.
    pub transport: Option<Template>,
    /// Asks the application which connection a request came over, to prove transport and reuse from the live link.
    pub proof: Option<LinkProof>,
}

/// An HTTP path, asked through the driver's endpoint, whose answer is `FAMILY IDENTITY`: the address family of the
/// link's accepted socket (`unix`, `inet`, `inet6`) and anything that is different for every connection.
#[derive(Clone, Debug)]
pub struct LinkProof {
    pub path: String,
    /// Rendered per case: `per-request` or `keep-alive`.
    pub reuse: Template,
}

/// What is varied.
#[derive(Clone, Debug)]
pub struct Factor {
    pub help: String,
    /// All levels, in order of presentation.
    pub levels: Vec<Level>,
    /// Levels of a run that chooses none; a subset of `levels`.
    pub default: Vec<Level>,
    /// The level that ratios are taken against. Given for exactly the factor under comparison (`transport`).
    pub reference: Option<Level>,
    /// Expression over the other factors; where it is false the factor does not apply and has no level.
    pub when: Option<String>,
    /// For whole numbers: levels that were not listed may be set within this range, both ends included.
    pub range: Option<(i64, i64)>,
}

/// Combinations that make no sense.
#[derive(Clone, Debug)]
pub struct Exclude {
    /// Expression over the factors.
    pub when: String,
    pub because: String,
}

/// A server of the experiment.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the recipe; may depend on the case.
    pub recipe: Template,
    /// Transport that it listens on; `None` for the link's `to`, which listens on the transport of the case.
    pub listen: Option<Transport>,
    /// How many such servers are started; rendered per case to 0 to 64.
    pub count: Template,
    /// Services that must be ready before it starts.
    pub needs: Vec<String>,
    /// Values for the templates of the recipe and of configuration files, by name. Text is a template.
    pub settings: IndexMap<String, Level>,
    /// Configuration files by path in the service's directory.
    pub config: IndexMap<PathBuf, ConfigFile>,
    /// Folder of the experiment that is copied into the service's directory as `app`, if any.
    pub app: Option<PathBuf>,
    /// Further packages that this service needs beside its recipe's own.
    pub packages: Packages,
    /// Where it runs in a container.
    pub container: Option<Container>,
}

/// How a service runs in a container. Every text is a template; what renders to nothing is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// `bridge`, `host`, `none`, `service:NAME` or `inside:NAME`. Nothing means that it runs without a container.
    pub network: Template,
    /// Where its port is published: `loopback` or `gateway`.
    pub publish: Template,
    /// Name of the engine's volume that has its Unix socket.
    pub volume: Template,
    /// CPUs that it may use up, for example `0.25`.
    pub cpus: Template,
    /// Memory, for example `256m`.
    pub memory: Template,
    /// Kernel settings of its network namespace.
    pub sysctls: IndexMap<String, Template>,
}

/// A configuration file before it is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// The file that holds the template, as the user knows it.
    pub source: String,
    pub text: Template,
}

/// What package managers install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Debian package names.
    pub debian: Vec<String>,
    /// Requirements for pip, versions pinned.
    pub python: Vec<String>,
    /// Ruby gems, `name:version`.
    pub gems: Vec<String>,
}

/// The load, with templates where the case decides.
#[derive(Clone, Debug)]
pub struct Load {
    /// The service that the driver talks to; may depend on the case.
    pub target: Template,
    /// Name of a protocol; may depend on the case.
    pub protocol: Template,
    /// The protocol's parameters by protocol name, as `lasthop_load::spec::Protocol` has them, templates inside.
    pub parameters: IndexMap<String, serde_json::Value>,
    pub connections: Template,
    pub threads: Template,
    pub reuse: Template,
    pub pipeline: Template,
    pub requests_per_connection: Template,
    /// Requests per second of an open loop; renders to nothing or 0 for a closed one.
    pub rate: Template,
    /// `constant` or `poisson`.
    pub arrivals: Template,
    /// Where the two were written.
    pub rate_at: Place,
    pub arrivals_at: Place,
    pub nodelay: Template,
    /// Command of a driver of the experiment's own instead of lasthop's; empty after rendering means lasthop's.
    pub driver: Vec<Template>,
}

/// What a run does unless told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Length of the measure phase of a trial.
    pub trial: Duration,
    /// Time that a whole run may take, starts included.
    pub budget: Duration,
    /// Half width of the interval, as a share of the estimate, at which a run may stop: 0.02 is 2 %.
    pub precision: f64,
    /// Differences within this share count as none.
    pub margin: f64,
    /// Blocks between two restarts of the services.
    pub blocks: u32,
}

/// How to find, version, configure, start, check and stop a server.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: String,
    pub summary: String,
    pub program: Program,
    /// How it is told where to listen, by transport. A transport that is missing cannot be served.
    pub listen: IndexMap<Transport, Listen>,
    /// Values that an experiment may set.
    pub settings: IndexMap<String, Setting>,
    /// Commands that prepare the service's directory before the start, each run to its end.
    pub prepare: Vec<Vec<Template>>,
    /// The longest that each of these commands may take.
    pub prepare_timeout: Duration,
    /// Arguments of the server in the foreground; `{{ listen }}` alone stands for the arguments of `listen`, and one
    /// that renders to nothing is left out.
    pub arguments: Vec<Template>,
    pub environment: IndexMap<String, Template>,
    /// It refuses to run as root.
    pub unprivileged: bool,
    /// Configuration files of the recipe; an experiment's file of the same path replaces it.
    pub config: IndexMap<PathBuf, ConfigFile>,
    pub ready: Ready,
    pub stop: Stop,
    /// Of every file of its folder, by path.
    pub digests: Digests,
}

/// Where to listen, said in the server's own way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Take the place of the argument `{{ listen }}`.
    pub arguments: Vec<Template>,
    /// Takes the place of `{{ listen }}` in configuration files.
    pub config: Template,
    /// File name of its Unix socket, where the server does not let one choose.
    pub file: Option<String>,
    /// What clients trust, below `runtime`, where it is not the authority of the run.
    pub authority: Option<PathBuf>,
}

/// A value that an experiment may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub help: String,
    /// Without it the experiment must set one.
    pub default: Option<Level>,
}

/// The executable of a recipe.
#[derive(Clone, Debug)]
pub struct Program {
    pub kind: ProgramKind,
    /// Arguments that print the version; empty for lasthop itself.
    pub version_arguments: Vec<String>,
    /// Regular expression with one group: the version.
    pub version_pattern: String,
    /// The lowest version that works, if that is known.
    pub minimum: Option<String>,
    pub packages: Packages,
    /// How to get it where no package manager has it.
    pub obtain: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// lasthop's own executable.
    Lasthop,
    /// The first of `names` found in lasthop's own environments, on `PATH`, or in `folders`.
    Named { names: Vec<String>, folders: Vec<PathBuf> },
}

/// When a service counts as ready. Always a check, never a sleep.
#[derive(Clone, Debug)]
pub struct Ready {
    pub check: ReadyCheck,
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyCheck {
    /// Its endpoint accepts a connection.
    Connect,
    /// Its endpoint answers `GET path` with this status.
    Http { path: Template, status: u16 },
    /// The command ends with 0.
    Command(Vec<Template>),
}

#[derive(Clone, Debug)]
pub struct Stop {
    /// Signal for an orderly end, for example `TERM` or `QUIT`.
    pub signal: String,
    /// After this the whole process group is killed.
    pub timeout: Duration,
}

/// A service with everything filled in, ready to be started.
#[derive(Clone, Debug)]
pub struct RenderedService {
    pub name: String,
    pub recipe: String,
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    pub prepare: Vec<Vec<String>>,
    /// For each of these commands.
    pub prepare_timeout: Duration,
    pub environment: Vec<(String, String)>,
    /// Path in the service's directory → content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub ready: Ready,
    pub stop: Stop,
    /// Where it listens.
    pub endpoint: Endpoint,
}
