//! Experiments and recipes for the rest of the program: parsed, checked, complete.
//!
//! `definition` has the types of the files as written, and takes from here what means the same as it is written; what these
//! doc comments say of it becomes a description in a JSON schema. Everything here is valid by construction.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use lasthop_model::{
    level::Level,
    program::{Packages, Program},
    record::{AnswerPlan, Digests},
    service::{Export, Ready, Stop},
};
use lasthop_protocol::spec::Transport;
use schemars::JsonSchema;
use serde::Deserialize;

use super::diagnostics::Diagnostic;

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
    /// Heading in lists; may be empty.
    pub group: String,
    pub source: Source,
    /// Every file of the folder except `experiment.toml`, by relative path.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Digests of all files of the folder, by path.
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
    /// Names only quantities, levels and factors that there are.
    pub answer: AnswerPlan,
    pub overload: Overload,
    pub defaults: Defaults,
}

/// What a run with overload does differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// Levels by factor, where the run chooses no others.
    pub levels: IndexMap<String, Vec<Level>>,
    /// By service: what a line of its log means, and a text that is in such lines.
    pub log: IndexMap<String, IndexMap<String, String>>,
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
    /// Minus the time of the cases for which this expression holds.
    Minus(String),
    /// Slope over this factor.
    Per(String),
    /// The level of this factor at which the difference from the reference ends.
    Crossover(String),
}

/// Where an experiment comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Embedded in the binary.
    BuiltIn,
    Folder(PathBuf),
    /// Nowhere: its cases are endpoints that are there already.
    Given,
}

/// The connection whose transport is varied.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The end that connects: the name of a service, or `driver` for the load generator.
    pub from: String,
    /// The service that listens.
    pub to: String,
    /// Transport of the link if the factor `path` replaces `transport`. May be a template over the factors.
    pub transport: Option<String>,
    pub proof: Option<LinkProof>,
}

/// How to ask the application which connection a request came over, to prove transport and reuse of the live link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkProof {
    /// HTTP path that returns `FAMILY IDENTITY`: the address family of the accepted socket (`unix`, `inet` or `inet6`),
    /// a space, and anything that differs between connections.
    #[schemars(extend("pattern" = "^/", "x-expected" = "a path that begins with `/`"))]
    pub path: String,
    /// What the link should do: `per-request` or `keep-alive`. May be a template.
    pub reuse: String,
}

/// What is varied.
#[derive(Clone, Debug)]
pub struct Factor {
    pub help: String,
    /// All levels, in order of presentation.
    pub levels: Vec<Level>,
    /// Levels that run by default; a subset of `levels`.
    pub default: Vec<Level>,
    /// The level that ratios refer to. Only the compared factor (`transport` or `path`) has it.
    pub reference: Option<Level>,
    /// Levels that no report advises.
    pub controls: Vec<Level>,
    /// Expression over the other factors. If it is false, the factor does not apply and has no level.
    pub when: Option<String>,
    /// For whole numbers: range within which `--set` accepts levels that are not listed, both ends included.
    pub range: Option<(i64, i64)>,
    /// Levels in the words of a report, by level.
    pub labels: IndexMap<String, String>,
}

/// A combination of levels that makes no sense.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// Expression over the factors. Combinations for which it is true are left out.
    pub when: String,
    /// The reason, shown to the user.
    pub because: String,
}

/// A server of the experiment.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the recipe; may depend on the case.
    pub recipe: Template,
    /// Transport that it listens on; `None` for the link's `to`, which listens on the transport of the case.
    pub listen: Option<Transport>,
    /// How many of these servers to start; rendered per case to 0 to 64.
    pub count: Template,
    /// Services that must be ready before it starts.
    pub needs: Vec<String>,
    /// Values for the templates of the recipe and of configuration files, by name. Text is a template.
    pub settings: IndexMap<String, Level>,
    /// Configuration files by path in the service's directory.
    pub config: IndexMap<PathBuf, ConfigFile>,
    /// Folder of the experiment to copy into the service's directory as `app`, if any.
    pub app: Option<PathBuf>,
    /// How long it is loaded after its start, before anything is measured.
    pub warm: Duration,
    /// Packages that this service needs in addition to its recipe's.
    pub packages: Packages,
    /// Its container, if it runs in one.
    pub container: Option<Container>,
}

/// How a service runs in a container. Every text is a template; what renders to nothing is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// `bridge`, `host`, `none`, `service:NAME` or `inside:NAME`. Nothing means that it runs without a container.
    pub network: Template,
    /// Where its port is published: `loopback` or `gateway`.
    pub publish: Template,
    /// Name of the engine's volume with its Unix socket.
    pub volume: Template,
    /// CPU limit, for example `0.25`.
    pub cpus: Template,
    /// Memory limit, for example `256m`.
    pub memory: Template,
    /// Kernel settings of its network namespace.
    pub sysctls: IndexMap<String, Template>,
}

/// A configuration file before it is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// The file with the template, by the name that the user knows.
    pub source: String,
    pub text: Template,
}

/// Where a rate or its arrivals were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Without a message.
    File(Box<Diagnostic>),
    /// An option of the command line, with its value.
    Option(String),
}

/// The load, with templates where the case decides.
#[derive(Clone, Debug)]
pub struct Load {
    /// The service that the driver talks to; may depend on the case.
    pub target: Template,
    /// Name of a protocol; may depend on the case.
    pub protocol: Template,
    /// The protocol's parameters by protocol name, as `lasthop_protocol::spec::Protocol` has them, templates inside.
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
    /// Where the two were given.
    pub rate_at: Place,
    pub arrivals_at: Place,
    pub nodelay: Template,
    /// Command of the experiment's own driver. If it renders to nothing, lasthop's driver is used.
    pub driver: Vec<Template>,
}

/// Defaults for the options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Length of the measure phase of a trial.
    pub trial: Duration,
    /// Time for a whole run, including starts of services.
    pub budget: Duration,
    /// Half width of the interval, as a share of the estimate, at which a run may stop: 0.02 is 2 %.
    pub precision: f64,
    /// Cases that differ by less than this share count as equivalent.
    pub margin: f64,
    /// Blocks per round; services restart after each round. `None`: chosen by what a start costs.
    pub blocks: Option<u32>,
}

/// Where a server gives up the rights of root, if lasthop has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivesUpRoot {
    Never,
    /// In a stack of processes. Where there are containers, these decide themselves who runs in them.
    OutsideContainers,
    Everywhere,
}

/// How to find, version, configure, start, check and stop a server.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub name: String,
    pub summary: String,
    pub program: Program,
    /// How to tell it where to listen, by transport. It cannot serve transports that are missing.
    pub listen: IndexMap<Transport, Listen>,
    pub connect: Connect,
    /// Values that an experiment may set.
    pub settings: IndexMap<String, Setting>,
    /// Commands that build something with lasthop's own rights.
    pub build: Vec<Vec<Template>>,
    /// Commands that prepare the service's directory. Each runs to its end before the server starts.
    pub prepare: Vec<Vec<Template>>,
    /// The longest that each of these commands may take.
    pub prepare_timeout: Duration,
    /// The executable that a preparation makes, in the place of `program`.
    pub made: Option<Template>,
    /// Arguments of the server in the foreground. `{{ listen }}` alone stands for the arguments of `listen`. An
    /// argument that renders to nothing is left out.
    pub arguments: Vec<Template>,
    pub environment: IndexMap<String, Template>,
    pub gives_up_root: GivesUpRoot,
    /// It and its preparation get shared memory of their own.
    pub own_memory: bool,
    /// Its configuration files may name variables of its environment, as `${NAME}`.
    pub reads_variables: bool,
    /// Configuration files of the recipe. An experiment's file with the same path replaces it.
    pub config: IndexMap<PathBuf, ConfigFile>,
    pub ready: Ready,
    pub stop: Stop,
    /// With templates as files.
    pub export: Export,
    /// Digests of all files of its folder, by path.
    pub digests: Digests,
}

/// Where to listen, in the server's own syntax.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Arguments that replace the argument `{{ listen }}`.
    pub arguments: Vec<Template>,
    /// Text that replaces `{{ listen }}` in configuration files.
    pub config: Template,
    /// File name of its Unix socket, if the server does not let you choose it.
    pub file: Option<String>,
    /// What clients trust, below `runtime`, if not the authority of the run.
    pub authority: Option<PathBuf>,
}

/// The form of `{{ SERVICE.address }}` in its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// With `{{ path }}` for the socket's path [default: unix:{{ path }}].
    pub unix: Option<String>,
    /// With `{{ name }}` for the name of an abstract socket (default: `unix:@{{ name }}`).
    #[serde(rename = "abstract")]
    pub abstract_: Option<String>,
    /// With `{{ address }}`, host and port [default: {{ address }}].
    pub tcp: Option<String>,
}

/// A value that an experiment may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub help: String,
    /// If there is no default, the experiment must set a value.
    pub default: Option<Level>,
}
