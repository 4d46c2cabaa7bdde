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

use super::{
    diagnostics::Diagnostic,
    written::{CpuShare, ParameterTables, RequestRate, WholeNumber, YesNo, keep_alive, one, text, yes},
};

/// Text with minijinja expressions, rendered per case.
pub type Template = String;

/// A question, the services, the link under test, the load, the factors.
#[derive(Clone, Debug, Default)]
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

/// What `lasthop run --overload` does differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overload {
    /// Levels of factors, where `--only` and `--set` choose no others. Whole numbers within a factor's range need not be
    /// listed there.
    pub levels: IndexMap<String, Vec<Level>>,
    /// Lines to count in the log of a service: by service, a text that is in such a line, by what it means.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Embedded in the binary.
    #[default]
    BuiltIn,
    Folder(PathBuf),
    /// Nowhere: its cases are endpoints that are there already.
    Given,
}

/// The connection whose transport is varied.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
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

/// One thing that is varied.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// What it means, in a few words.
    pub help: String,
    /// All levels, in order of presentation.
    #[schemars(length(min = 1))]
    pub levels: Vec<Level>,
    /// Levels that run by default; all levels if it is missing.
    pub default: Option<Vec<Level>>,
    /// The level that others are compared with. Only for `transport` or `path`.
    pub reference: Option<Level>,
    /// Levels that only control, such as a path that nobody who asks can choose: reports show them and advise none.
    #[serde(default)]
    pub controls: Vec<Level>,
    /// Expression over the factors above this one. If it is false, this factor does not apply.
    pub when: Option<String>,
    /// Lowest and highest whole number that `--set` accepts in addition to the listed levels.
    pub range: Option<[i64; 2]>,
    /// Levels in the words of a report, where it should say more than the level: `free = "no CPU limit"`.
    #[serde(default)]
    pub labels: IndexMap<String, String>,
}

impl Factor {
    /// Levels that run by default.
    pub fn usual(&self) -> &[Level] {
        self.default.as_deref().unwrap_or(&self.levels)
    }

    /// Whether `--set` accepts this level without its being listed.
    pub fn is_in_range(&self, level: &Level) -> bool {
        matches!((level, self.range), (Level::Int(number), Some([low, high])) if (low..=high).contains(number))
    }
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

/// Runs the service in a container, with podman or Docker. Every value may be a template over the factors. A value that
/// renders to nothing is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Its network: `bridge` (the run's private network), `host`, `none`, `service:NAME` (the network namespace of
    /// another service), or `inside:NAME` (in the container of the service NAME, which is a supervisor). If it renders
    /// to nothing, the service runs without a container.
    pub network: Template,
    /// Where its port is published, with the network `bridge`: `loopback` (127.0.0.1) or `gateway` (the host's address on
    /// the bridge). If it renders to nothing, clients connect to the container's own address.
    #[serde(default)]
    pub publish: Template,
    /// Name of a volume of the engine. Containers with the same name share it, and those that listen on a Unix socket
    /// have the socket on it. Processes on the host reach it where the engine keeps it. If it renders to nothing, the
    /// socket is in a folder of the run that all containers share.
    #[serde(default)]
    pub volume: Template,
    /// CPU limit: 0.25 is a quarter of a CPU.
    #[serde(default, deserialize_with = "text")]
    #[schemars(with = "CpuShare")]
    pub cpus: Template,
    /// Memory limit, with a unit: `256m`.
    #[serde(default)]
    pub memory: Template,
    /// Kernel settings of its network namespace, by name.
    #[serde(default)]
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

impl Default for Place {
    fn default() -> Self {
        Self::Option(String::new())
    }
}

/// The load and what a right answer is. Every value may be a template over the factors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Load {
    /// The service that the driver talks to, a single server. May be a template over the factors, for example to put a
    /// load balancer in front.
    pub target: Template,
    /// What is said: the name of a protocol, whose parameters are in the table of that name. May be a template.
    pub protocol: Template,
    /// Number of concurrent connections.
    #[serde(default = "one", deserialize_with = "text")]
    #[schemars(with = "WholeNumber", extend("default" = 1))]
    pub connections: Template,
    /// Threads of the driver.
    #[serde(default = "one", deserialize_with = "text")]
    #[schemars(with = "WholeNumber", extend("default" = 1))]
    pub threads: Template,
    /// What to do with a connection after a reply: `keep-alive` or `per-request`. May be a template.
    #[serde(default = "keep_alive")]
    pub reuse: Template,
    /// Requests to send at once on a connection before waiting for their replies, 1 to 1,024.
    #[serde(default = "one", deserialize_with = "text")]
    #[schemars(with = "WholeNumber", extend("default" = 1))]
    pub pipeline: Template,
    /// With `reuse = "per-request"`: requests to send one after the other on a connection before closing it, 1 to 10
    /// million. They are timed as one unit, including connect and authentication. Slopes over it refer to that unit.
    #[serde(default = "one", deserialize_with = "text")]
    #[schemars(with = "WholeNumber", extend("default" = 1))]
    pub requests_per_connection: Template,
    /// Open loop: requests per second over all connections, 0.001 to 100 million, sent on schedule without waiting for
    /// replies. If it is missing, empty or 0, the loop is closed: the next request follows the reply.
    #[serde(default, deserialize_with = "text")]
    #[schemars(with = "RequestRate")]
    pub rate: Template,
    /// Open loop: `constant` (the same gap between any two requests) or `poisson` (independent requests with
    /// exponential gaps). May be a template.
    pub arrivals: Option<Template>,
    #[serde(skip)]
    pub rate_at: Place,
    #[serde(skip)]
    pub arrivals_at: Place,
    /// Whether the driver sets `TCP_NODELAY` on its sockets. Has no effect on Unix sockets.
    #[serde(default = "yes", deserialize_with = "text")]
    #[schemars(with = "YesNo", extend("default" = true))]
    pub nodelay: Template,
    /// Command of the experiment's own driver, which speaks the protocol of `lasthop drive`. If its first word renders
    /// to nothing, lasthop drives.
    #[serde(default)]
    pub driver: Vec<Template>,
    #[serde(flatten)]
    #[schemars(with = "ParameterTables")]
    pub parameters: IndexMap<String, serde_json::Value>,
}

/// Defaults for the options of a run.
#[derive(Clone, Debug, Default, PartialEq)]
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

/// Whose rights a server has where lasthop is root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunAs {
    /// Those of lasthop, for a server that cannot do without them.
    #[serde(rename = "self")]
    Own,
    /// Those of `nobody` in containers, too, for a server that refuses to run as root.
    Unprivileged,
}

/// How to find, version, configure, start, check and stop a server.
#[derive(Clone, Debug, Default)]
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
    /// Whose rights it has where lasthop is root. `None`: those of `nobody`, but in a stack with containers these decide.
    pub run_as: Option<RunAs>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Arguments that replace the argument `{{ listen }}`. May be templates.
    #[serde(default)]
    pub arguments: Vec<Template>,
    /// Text that replaces `{{ listen }}` in configuration files. May be a template.
    #[serde(default)]
    pub config: Template,
    /// For Unix sockets: the file name of the socket, if the server does not let you choose it.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$", "x-expected" = "a file name of letters, digits, `.`, `_`, `-`"))]
    pub file: Option<String>,
    /// For TLS: path below `runtime` of what clients should trust, if the server has its own certificates instead of
    /// the run's.
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What it means, with its unit.
    pub help: String,
    /// Default value. Without one, the experiment must set a value.
    pub default: Option<Level>,
}
