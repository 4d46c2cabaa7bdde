//! Experiments and recipes: parsed, checked, complete.
//!
//! The types are also those of the files. Their doc comments are part of the product: they become descriptions in the
//! JSON schemas. Everything that `validate` returns is valid.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::{
    level::Level,
    program::{Packages, Program},
    record::Digests,
    selection,
};
use lasthop_trial::address::Transport;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{
    diagnostics::Diagnostic,
    files::Files,
    written::{
        Share, Time, by_protocol, by_transport, cpu_share, keep_alive, limited, number_or_text, one, one_transport,
        or_template, parameter_tables, request_rate, whole_number, yes, yes_or_no,
    },
};

/// Text with minijinja expressions, rendered per case.
pub type Template = String;

/// An experiment: a question, the services, the link under test, the load, and what is varied.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop experiment.toml")]
pub struct Experiment {
    /// Lower-case words joined by `-`; the folder's name.
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub source: Source,
    /// Every file of the folder except `experiment.toml`, by relative path.
    #[serde(skip)]
    pub files: Files,
    /// Digests of all files of the folder, by path.
    #[serde(skip)]
    pub digests: Digests,
    /// Every recipe that a case may use, by name.
    #[serde(skip)]
    pub recipes: IndexMap<String, Recipe>,
    /// A short headline.
    pub title: String,
    /// The question that the experiment answers, in one sentence.
    pub question: String,
    /// Sentences on the result, one a line, besides the advice on which alternative to choose: a template over the
    /// `cases`, `comparisons`, `decision` and `derived` of the JSON report.
    #[serde(default)]
    pub answer: Option<String>,
    /// The heading under which `lasthop list` shows it: `databases`, for example.
    #[serde(default)]
    pub group: String,
    pub link: Link,
    /// Conditions of TCP on loopback in each case. The run makes them in a network namespace of its own, which needs
    /// root.
    pub network: Option<LoopbackNetwork>,
    /// What is varied, by name. The factor `transport` is the transport of the link; without this factor,
    /// `link.transport` gives the transport.
    pub factors: IndexMap<String, Factor>,
    /// Combinations of levels that make no sense.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
    /// The servers to start, by name. Templates refer to them by this name: `{{ NAME.address }}`.
    pub services: IndexMap<String, Service>,
    pub load: Load,
    /// Quantities that follow from several cases, by name.
    #[serde(default)]
    pub derive: IndexMap<String, Derive>,
    #[serde(default)]
    pub overload: Overload,
    #[serde(default)]
    pub defaults: Defaults,
}

/// What `lasthop run --overload` does differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overload {
    /// Levels by factor, unless `--only` or `--set` chooses others. A whole number within a factor's `range` need not
    /// be among the factor's `levels`.
    pub levels: IndexMap<String, Vec<Level>>,
    /// Log lines to count, by service: for each meaning, a text that such lines contain.
    pub log: IndexMap<String, IndexMap<String, String>>,
}

/// A quantity that follows from several cases. It has exactly one of `minus`, `per` and `crossover`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Derive {
    /// What it is, in a few words.
    pub help: String,
    /// Expression over the factors that selects the cases.
    pub of: String,
    /// Expression over the factors that selects the cases to subtract. From the time of each case, lasthop subtracts
    /// the time of the selected case that has the same level of every factor that neither expression mentions.
    pub minus: Option<String>,
    /// A factor of whole numbers. The quantity is the slope of the time over its levels: the time for one more.
    pub per: Option<String>,
    /// A factor of whole numbers. The quantity is the level at and above which a case differs from its reference by no
    /// more than the margin.
    pub crossover: Option<String>,
}

impl Experiment {
    /// Name of the compared factor.
    pub fn compared(&self) -> &str {
        selection::compared(&self.factors, |factor| factor.reference.is_some())
    }

    /// All packages of languages that the experiment names, one a line.
    pub fn package_list(&self) -> String {
        let recipes = self.recipes.values().map(|recipe| &recipe.program.packages);
        let all = recipes.chain(self.services.values().map(|service| &service.packages));
        let named = all.flat_map(|packages| {
            packages.languages().flat_map(|language| {
                packages
                    .names_for(language.name)
                    .iter()
                    .map(move |name| (language.name, name))
            })
        });
        let named: BTreeSet<(&str, &String)> = named.collect();
        named
            .iter()
            .map(|(language, name)| format!("{language} {name}\n"))
            .collect()
    }
}

/// The source of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Embedded in the binary.
    #[default]
    BuiltIn,
    Folder(PathBuf),
    /// No file: the cases are existing endpoints.
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
    /// The factor whose level is the number of requests that go over the link for each request of the driver; without
    /// such a factor, the number is 1. `lasthop survey` counts the requests over the link.
    pub requests: Option<String>,
    /// Additional requests that go over a kept connection of the link for each request of the driver: a client library
    /// may ask first whether the connection is alive.
    #[serde(default)]
    pub besides: u32,
    pub proof: Option<LinkProof>,
}

/// Conditions of TCP on loopback. Every value may be a template over the factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoopbackNetwork {
    /// Rules of the packet filter, as `nft -f` takes them. The namespace has no other rules.
    pub rules: Template,
    /// Kernel settings of the namespace, by name. A setting that renders to nothing keeps the value of a new namespace.
    pub sysctls: IndexMap<String, Template>,
    /// Bytes of the largest packet on loopback [default: 65536].
    #[serde(deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number")]
    pub mtu: Template,
}

/// How to ask the application which connection a request came over, to prove transport and reuse of the live link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkProof {
    /// HTTP path that returns `FAMILY IDENTITY`: the address family of the accepted socket (`unix`, `inet` or `inet6`),
    /// a space, and anything that differs between connections.
    #[schemars(extend("pattern" = "^/"))]
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
    /// The level that the others are compared with. Only the compared factor has one: `transport`, `path` or another
    /// factor.
    pub reference: Option<Level>,
    /// Levels that serve only as controls, such as a path that users cannot choose: reports show but never recommend
    /// them.
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

    /// Whether `--set` accepts this level, even if it is not listed.
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
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name of the recipe. May be a template. A service has either this or `command`.
    #[serde(default)]
    pub recipe: String,
    /// A server without a recipe: the program, by its name on `PATH` or its absolute path, and its arguments. They may
    /// be templates, as in the files of `config`. `{{ listen }}` alone stands for the address to listen on: a path,
    /// `@name` or `HOST:PORT`.
    #[serde(default)]
    pub command: Vec<String>,
    /// With `command`: how to tell the server where to listen, by transport, if the server does not take the address
    /// that `{{ listen }}` stands for.
    #[serde(default, deserialize_with = "by_transport")]
    #[schemars(schema_with = "listen_table")]
    pub bind: IndexMap<Transport, Listen>,
    /// With `command`: how it writes the addresses of servers that it connects to.
    #[serde(default)]
    pub connect: Connect,
    /// With `command`: when the server counts as ready [default: when it accepts a connection].
    pub ready: Option<ReadyFile>,
    /// Transport on which the service listens. Leave this key out for the service at the end of the link: the case
    /// decides.
    #[serde(default, deserialize_with = "one_transport")]
    pub listen: Option<Transport>,
    /// How many of these servers to start, 0 (the case does not use it) to 64, each with its own address. `{{ NAME.all
    /// }}` is the list, `{{ NAME }}` the first.
    #[serde(default = "one", deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number", extend("default" = 1))]
    pub count: String,
    /// Services that must be ready before it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Values for the templates of its recipe and of its configuration files, by name. May be templates.
    #[serde(default)]
    pub settings: IndexMap<String, Level>,
    /// Configuration files: path in the service's directory = template file in the experiment's folder.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub config: IndexMap<PathBuf, ConfigFile>,
    /// Folder of the experiment to copy to `app` in the service's directory.
    pub app: Option<PathBuf>,
    /// How long to load it after its start, before anything is measured: for servers that compile while they run, or
    /// fill caches [default: not at all].
    pub warm: Option<Time>,
    #[serde(default)]
    pub packages: Packages,
    pub container: Option<Container>,
}

impl Service {
    /// The folders of packages of the service and its recipe, by language.
    pub fn packages(&self, recipe: &Recipe, folder: impl Fn(&str) -> PathBuf) -> BTreeMap<&'static str, PathBuf> {
        let named = [&self.packages, &recipe.program.packages];
        let languages = named.into_iter().flat_map(Packages::languages);
        languages
            .map(|language| (language.name, folder(language.name)))
            .collect()
    }
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
    /// Where its port is published, with the network `bridge`: `loopback` (127.0.0.1) or `gateway` (the host's address
    /// on the bridge). If it renders to nothing, clients connect to the container's own address.
    #[serde(default)]
    pub publish: Template,
    /// Name of a volume of the engine. Containers with the same name share it, and those that listen on a Unix socket
    /// have the socket on it. Processes on the host reach it where the engine keeps it. If it renders to nothing, the
    /// socket is in a folder of the run that all containers share.
    #[serde(default)]
    pub volume: Template,
    /// CPU limit: 0.25 is a quarter of a CPU.
    #[serde(default, deserialize_with = "number_or_text")]
    #[schemars(schema_with = "cpu_share")]
    pub cpus: Template,
    /// Memory limit, with a unit: `256m`.
    #[serde(default)]
    pub memory: Template,
    /// Kernel settings of its network namespace, by name.
    #[serde(default)]
    pub sysctls: IndexMap<String, Template>,
}

/// A configuration file: its name in the folder, a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
#[schemars(with = "String")]
pub struct ConfigFile {
    /// The template's file: its path in the folder as written, or, after reading, the name that the user knows.
    pub source: String,
    pub text: Template,
}

impl From<String> for ConfigFile {
    fn from(source: String) -> Self {
        Self {
            source,
            text: Template::new(),
        }
    }
}

/// The place where a rate or its arrivals were set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// A place in a file, as a diagnostic without a message.
    File(Box<Diagnostic>),
    /// A command-line option with its value.
    Option(String),
}

impl Default for SettingSource {
    fn default() -> Self {
        Self::Option(String::new())
    }
}

/// The load and what a correct reply is. Every value may be a template over the factors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Load {
    /// The service that the driver talks to, a single server. May be a template over the factors, for example to put a
    /// load balancer in front.
    pub target: Template,
    /// The name of a protocol, whose parameters are in the table of that name. `custom` is a protocol that only a driver
    /// of your own speaks. May be a template.
    pub protocol: Template,
    /// Number of concurrent connections.
    #[serde(default = "one", deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number", extend("default" = 1))]
    pub connections: Template,
    /// Threads of the driver.
    #[serde(default = "one", deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number", extend("default" = 1))]
    pub threads: Template,
    /// What to do with a connection after a reply: `keep-alive` or `per-request`. May be a template.
    #[serde(default = "keep_alive")]
    pub reuse: Template,
    /// Requests to send at once on a connection before waiting for their replies, 1 to 1,024.
    #[serde(default = "one", deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number", extend("default" = 1))]
    pub pipeline: Template,
    /// With `reuse = "per-request"`: requests to send one after the other on a connection before closing it, 1 to 10
    /// million. They are timed as one unit, including connect and authentication. Slopes over it refer to that unit.
    #[serde(default = "one", deserialize_with = "or_template::<i64, _>")]
    #[schemars(schema_with = "whole_number", extend("default" = 1))]
    pub requests_per_connection: Template,
    /// Open loop: requests per second over all connections, 0.001 to 100 million, sent on schedule without waiting for
    /// replies. If it is missing, empty or 0, the loop is closed: the next request follows the reply.
    #[serde(default, deserialize_with = "number_or_text")]
    #[schemars(schema_with = "request_rate")]
    pub rate: Template,
    /// Open loop: `constant` (the same gap between any two requests) or `poisson` (independent requests with
    /// exponential gaps). May be a template.
    pub arrivals: Option<Template>,
    #[serde(skip)]
    pub rate_at: SettingSource,
    #[serde(skip)]
    pub arrivals_at: SettingSource,
    /// Whether the driver sets `TCP_NODELAY` on its sockets. Has no effect on Unix sockets.
    #[serde(default = "yes", deserialize_with = "or_template::<bool, _>")]
    #[schemars(schema_with = "yes_or_no", extend("default" = true))]
    pub nodelay: Template,
    /// Command of the experiment's own driver (docs/your-own-driver.md). If its first word renders to nothing, lasthop
    /// drives.
    #[serde(default)]
    pub driver: Vec<Template>,
    #[serde(flatten, deserialize_with = "by_protocol")]
    #[schemars(schema_with = "parameter_tables")]
    pub parameters: IndexMap<String, Json>,
}

/// Defaults for the options of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// Length of the measured part of a trial [default: `50ms`, or longer, up to `1s`, so that ten requests fit at the
    /// lowest rate].
    pub trial: Time,
    /// Time for a whole run, including starts of services [default: `30s`].
    pub budget: Time,
    /// Half width of the interval at which a run may stop [default: `2%`].
    pub precision: Share,
    /// Cases that differ by less than this share count as equivalent [default: `2%`].
    pub margin: Share,
    /// Blocks per round, 2 or more; services restart after each round [default: chosen by what a start
    /// costs].
    #[serde(deserialize_with = "limited::<u32, _, 2, 10_000>")]
    #[schemars(range(min = 2, max = 10000))]
    pub blocks: Option<u32>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            trial: Time(Duration::from_millis(50)),
            budget: Time(Duration::from_secs(30)),
            precision: Share(0.02),
            margin: Share(0.02),
            blocks: None,
        }
    }
}

/// The rights of a server if lasthop runs as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunAs {
    /// lasthop's own rights, for a server that needs them.
    #[serde(rename = "self")]
    Own,
    /// The rights of `nobody`, in containers too, for a server that refuses to run as root.
    Unprivileged,
}

/// A recipe: how to find, version, configure, start, check and stop a server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop recipe.toml")]
pub struct Recipe {
    #[serde(skip)]
    pub name: String,
    /// Digests of all files of its folder, by path.
    #[serde(skip)]
    pub digests: Digests,
    /// What it is, in a few words.
    pub summary: String,
    /// Conditions under which a copy of the configuration works elsewhere, each a sentence without a full stop. May be
    /// templates; a condition that renders to nothing is left out.
    #[serde(default)]
    pub conditions: Vec<Template>,
    pub program: Program,
    /// How to tell it where to listen, by transport. It cannot serve transports that are missing.
    #[serde(deserialize_with = "by_transport")]
    #[schemars(schema_with = "listen_table")]
    pub listen: IndexMap<Transport, Listen>,
    /// How it writes the addresses of servers that it connects to.
    #[serde(default)]
    pub connect: Connect,
    /// Values that an experiment may set, by name.
    #[serde(default)]
    pub settings: IndexMap<String, Setting>,
    pub start: Start,
    /// Configuration files: path in the service's directory = template file in the recipe's folder. An experiment's
    /// file with the same path replaces it.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub config: IndexMap<PathBuf, ConfigFile>,
    #[serde(default)]
    pub ready: ReadyFile,
    #[serde(default)]
    pub stop: StopFile,
}

/// The command that runs the server in the foreground.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The executable, if a preparation makes it with the recipe's program. May be a template.
    pub program: Option<String>,
    /// Arguments, one per item. `{{ listen }}` alone stands for the arguments of `listen`. An argument that renders to
    /// nothing is left out.
    pub arguments: Vec<String>,
    /// Environment variables in addition to those that lasthop passes on. May be templates.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// Commands that build something, such as the server's program, in `{{ run_cache }}`. They run with lasthop's own
    /// rights even if the server runs as `nobody`, so that the server cannot change the result. Their working directory
    /// has the service's files.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Commands that prepare the service's directory, after those of `build`. Each runs to its end before the server
    /// starts.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// Time limit of each command of `build` and `prepare` [default: `120s`].
    pub prepare_timeout: Option<Time>,
    /// The rights of the server and its preparation if lasthop runs as root. If this key is missing, they have the
    /// rights of `nobody`, except in a stack with containers, where the engine decides.
    pub run_as: Option<RunAs>,
    /// Whether the server makes shared memory that stays when the server is killed. If so, the server and each command
    /// of its preparation get System V memory and a `/dev/shm` of their own, which end with them. In a container, the
    /// engine does that anyway.
    #[serde(default)]
    pub own_memory: bool,
    /// Whether the server's configuration files may name environment variables, as `${NAME}`. In a Pod, such a variable
    /// has the address to listen on.
    #[serde(default)]
    pub reads_variables: bool,
}

/// When the server counts as ready. Always a check, never a pause.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadyFile {
    /// Kind of check [default: `connect`].
    pub check: Option<ReadyName>,
    /// For `http`: the path to request.
    pub path: Option<String>,
    /// For `http`: the expected status [default: 200].
    #[serde(deserialize_with = "limited::<u16, _, 100, 599>")]
    #[schemars(range(min = 100, max = 599))]
    pub status: Option<u16>,
    /// For `command`: the command. The server is ready when it exits with 0. May be templates.
    pub command: Option<Vec<String>>,
    /// Time limit for the server to become ready [default: `10s`].
    pub timeout: Option<Time>,
}

/// How to check that a server is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyName {
    /// Its endpoint accepts a connection.
    #[default]
    Connect,
    /// Its endpoint answers a GET request with the expected status.
    Http,
    /// A command exits with 0.
    Command,
}

/// Signals that can stop a server in order.
pub(super) const SIGNALS: [&str; 5] = ["TERM", "INT", "QUIT", "HUP", "KILL"];

/// How to stop the server in order.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopFile {
    /// Signal to stop it in order [default: `TERM`].
    #[schemars(extend("enum" = SIGNALS))]
    pub signal: Option<String>,
    /// After this time the whole process group is killed [default: `5s`].
    pub timeout: Option<Time>,
}

/// A key for each transport, with the transport's description.
fn listen_table(generator: &mut SchemaGenerator) -> Schema {
    let listen = generator.subschema_for::<Listen>().to_value();
    let transports = generator.subschema_for::<Transport>().to_value();
    let mut properties = Map::new();
    for transport in transports["oneOf"].as_array().into_iter().flatten() {
        let name = transport["const"].as_str().expect("each transport is a constant");
        let mut listen = listen.clone();
        listen["description"] = transport["description"].clone();
        properties.insert(name.to_owned(), listen);
    }
    json_schema!({ "type": "object", "additionalProperties": false, "properties": properties })
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
    #[schemars(extend("default" = ""))]
    pub config: Template,
    /// The server's URL for client libraries, which other services get as `{{ SERVICE.url }}` and `{{ SERVICE.dsn }}`.
    /// May be a template.
    pub url: Option<Template>,
    /// For Unix sockets: the file name of the socket, if the server does not let you choose it.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$"))]
    pub file: Option<String>,
    /// For TLS: path below `runtime` of the certificate authority that clients should trust, if the server has its own
    /// certificates instead of the run's.
    pub authority: Option<PathBuf>,
}

/// The form of `{{ SERVICE.address }}` in the server's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Form for a Unix socket, with `{{ path }}` for the socket's path [default: unix:{{ path }}].
    pub unix: Option<String>,
    /// Form for an abstract socket, with `{{ name }}` for the socket's name (default: `unix:@{{ name }}`).
    #[serde(rename = "abstract")]
    pub abstract_: Option<String>,
    /// Form for TCP, with `{{ address }}`, or `{{ host }}` and `{{ port }}` [default: {{ address }}].
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
