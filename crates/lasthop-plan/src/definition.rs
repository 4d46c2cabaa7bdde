//! The files as you write them. Private to this stage: everything else uses the types of `model`.
//!
//! Doc comments here are part of the product: they become descriptions in the JSON schemas, and `x-expected` becomes
//! the text of an error message.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use indexmap::IndexMap;
use lasthop_model::{level::Level, manager::MANAGERS, record::AnswerPlan};
use lasthop_protocol::protocol::PROTOCOLS;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize,
    de::{Deserializer, Error, Visitor},
};
use serde_json::{Map, Value as Json, json};

use super::{
    model::{Connect, Exclude, Link},
    templated::{TEMPLATE, or_templates},
};

/// An experiment: a question, the services, the link under test, the load, and what is varied.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop experiment.toml")]
pub(super) struct ExperimentFile {
    /// A short headline.
    pub title: String,
    /// The question that the experiment answers, in one sentence.
    pub question: String,
    /// The heading under which `lasthop list` shows it: `databases`, for example.
    #[serde(default)]
    pub group: String,
    pub link: Link,
    /// What is varied, by name. `transport` must be there: it is the transport of the link.
    pub factors: IndexMap<String, FactorFile>,
    /// Combinations of levels that make no sense.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
    /// The servers to start, by name. Templates refer to them by this name: `{{ NAME.address }}`.
    pub services: IndexMap<String, ServiceFile>,
    pub load: LoadFile,
    /// Quantities that follow from several cases, by name.
    #[serde(default)]
    pub derive: IndexMap<String, DeriveFile>,
    /// What answers the question, besides which alternative to choose: a report says it first.
    #[serde(default)]
    pub answer: AnswerPlan,
    #[serde(default)]
    pub overload: OverloadFile,
    #[serde(default)]
    pub defaults: DefaultsFile,
}

/// What `lasthop run --overload` does differently.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OverloadFile {
    /// Levels of factors, where `--only` and `--set` choose no others. Whole numbers within a factor's range need not be
    /// listed there.
    pub levels: IndexMap<String, Vec<Scalar>>,
    /// Lines to count in the log of a service: by service, a text that is in such a line, by what it means.
    pub log: IndexMap<String, IndexMap<String, String>>,
}

/// A quantity that follows from several cases. It has exactly one of `minus`, `per` and `crossover`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeriveFile {
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

/// One thing that is varied.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FactorFile {
    /// What it means, in a few words.
    pub help: String,
    /// All levels, in order of presentation.
    #[schemars(length(min = 1))]
    pub levels: Vec<Scalar>,
    /// Levels that run by default; all levels if it is missing.
    pub default: Option<Vec<Scalar>>,
    /// The level that others are compared with. Only for `transport` or `path`.
    pub reference: Option<Scalar>,
    /// Levels that only control, such as a path that nobody who asks can choose: reports show them and advise none.
    #[serde(default)]
    pub controls: Vec<Scalar>,
    /// Expression over the factors above this one. If it is false, this factor does not apply.
    pub when: Option<String>,
    /// Lowest and highest whole number that `--set` accepts in addition to the listed levels.
    pub range: Option<[i64; 2]>,
    /// Levels in the words of a report, where it should say more than the level: `free = "no CPU limit"`.
    #[serde(default)]
    pub labels: IndexMap<String, String>,
}

/// A server of the experiment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceFile {
    /// Name of the recipe. May be a template. A service has either this or `command`.
    #[serde(default)]
    pub recipe: String,
    /// A server without a recipe: the program, by its name on `PATH` or its absolute path, and its arguments. They may be
    /// templates, as in the files of `config`. `{{ listen }}` alone stands for the address to listen on: a path,
    /// `@name` or `HOST:PORT`.
    #[serde(default)]
    pub command: Vec<String>,
    /// With `command`: how to tell the server where to listen, by transport, if it takes no such address.
    #[serde(default)]
    pub bind: ListenTable,
    /// With `command`: when the server counts as ready [default: when it accepts a connection].
    pub ready: Option<ReadyFile>,
    /// Transport that it listens on. Leave it out for the service that the link goes to, where the case decides.
    pub listen: Option<TransportName>,
    /// How many of these servers to start, 0 (the case does not use it) to 64, each with its own address. `{{ NAME.all
    /// }}` is the list, `{{ NAME }}` the first.
    #[serde(default = "one")]
    pub count: WholeNumber,
    /// Services that must be ready before it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Values for the templates of its recipe and of its configuration files, by name. May be templates.
    #[serde(default)]
    pub settings: IndexMap<String, Scalar>,
    /// Configuration files: path in the service's directory = template file in the experiment's folder.
    #[serde(default)]
    pub config: IndexMap<String, String>,
    /// Folder of the experiment to copy to `app` in the service's directory.
    pub app: Option<String>,
    /// How long to load it after its start, before anything is measured: for servers that compile while they run, or fill
    /// caches [default: not at all].
    pub warm: Option<DurationText>,
    #[serde(default)]
    pub packages: PackagesFile,
    pub container: Option<ContainerFile>,
}

/// Runs the service in a container, with podman or Docker. Every value may be a template over the factors. A value that
/// renders to nothing is not set.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerFile {
    /// Its network: `bridge` (the run's private network), `host`, `none`, `service:NAME` (the network namespace of
    /// another service), or `inside:NAME` (in the container of the service NAME, which is a supervisor). If it renders
    /// to nothing, the service runs without a container.
    pub network: String,
    /// Where its port is published, with the network `bridge`: `loopback` (127.0.0.1) or `gateway` (the host's address on
    /// the bridge). If it renders to nothing, clients connect to the container's own address.
    #[serde(default)]
    pub publish: String,
    /// Name of a volume of the engine. Containers with the same name share it, and those that listen on a Unix socket
    /// have the socket on it. Processes on the host reach it where the engine keeps it. If it renders to nothing, the
    /// socket is in a folder of the run that all containers share.
    #[serde(default)]
    pub volume: String,
    /// CPU limit: 0.25 is a quarter of a CPU.
    #[serde(default)]
    pub cpus: CpuShare,
    /// Memory limit, with a unit: `256m`.
    #[serde(default)]
    pub memory: String,
    /// Kernel settings of its network namespace, by name.
    #[serde(default)]
    pub sysctls: IndexMap<String, String>,
}

/// What must be installed: names for package managers of the system, and what belongs in environments of lasthop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = with_managers)]
pub(super) struct PackagesFile {
    /// Python packages with their version, `name==1.2.3`.
    pub python: Vec<PinnedPython>,
    /// Ruby gems with their version, `name:1.2.3`.
    pub gems: Vec<PinnedGem>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub system: BTreeMap<String, Vec<String>>,
}

fn with_managers(schema: &mut Schema) {
    if let Some(Json::Object(keys)) = schema.get_mut("properties") {
        keys.extend(MANAGERS.map(|manager| {
            let name = json!({ "type": "string", "pattern": manager.pattern, "x-expected": manager.expected });
            let about = format!("Names of packages for {}.", manager.name);
            (manager.name.to_owned(), json!({ "type": "array", "items": name, "description": about }))
        }));
    }
    schema.insert("additionalProperties".to_owned(), false.into());
}

/// The load and what a right answer is. Every value may be a template over the factors.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct LoadFile {
    /// The service that the driver talks to, a single server. May be a template over the factors, for example to put a
    /// load balancer in front.
    pub target: String,
    /// What is said: the name of a protocol, whose parameters are in the table of that name. May be a template.
    pub protocol: String,
    /// Number of concurrent connections.
    #[serde(default = "one")]
    pub connections: WholeNumber,
    /// Threads of the driver.
    #[serde(default = "one")]
    pub threads: WholeNumber,
    /// What to do with a connection after a reply: `keep-alive` or `per-request`. May be a template.
    #[serde(default = "keep_alive")]
    pub reuse: String,
    /// Requests to send at once on a connection before waiting for their replies, 1 to 1,024.
    #[serde(default = "one")]
    pub pipeline: WholeNumber,
    /// With `reuse = "per-request"`: requests to send one after the other on a connection before closing it, 1 to 10
    /// million. They are timed as one unit, including connect and authentication. Slopes over it refer to that unit.
    #[serde(default = "one")]
    pub requests_per_connection: WholeNumber,
    /// Open loop: requests per second over all connections, 0.001 to 100 million, sent on schedule without waiting for
    /// replies. If it is missing, empty or 0, the loop is closed: the next request follows the reply.
    #[serde(default)]
    pub rate: RequestRate,
    /// Open loop: `constant` (the same gap between any two requests) or `poisson` (independent requests with
    /// exponential gaps). May be a template.
    pub arrivals: Option<String>,
    /// Whether the driver sets `TCP_NODELAY` on its sockets. Has no effect on Unix sockets.
    #[serde(default = "yes")]
    pub nodelay: YesNo,
    /// Command of the experiment's own driver, which speaks the protocol of `lasthop drive`. If its first word renders
    /// to nothing, lasthop drives.
    #[serde(default)]
    pub driver: Vec<String>,
    #[serde(flatten)]
    pub parameters: ParameterTables,
}

/// Parameters of protocols, by protocol, as they are written: what a template renders to has a type of its own.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct ParameterTables(pub IndexMap<String, Json>);

impl JsonSchema for ParameterTables {
    fn schema_name() -> Cow<'static, str> {
        "ParameterTables".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for kind in PROTOCOLS {
            let mut schema = (kind.schema)(generator);
            or_templates(&mut schema);
            properties.insert(kind.name.to_owned(), schema.to_value());
        }
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

/// Defaults for the options of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DefaultsFile {
    /// Length of the measured part of a trial [default: `50ms`, or longer, up to `1s`, so that ten requests fit at the
    /// lowest rate].
    pub trial: Option<DurationText>,
    /// Time for a whole run, including starts of services [default: `30s`].
    pub budget: Option<DurationText>,
    /// Half width of the interval at which a run may stop [default: `2%`].
    pub precision: Option<PercentText>,
    /// Cases that differ by less than this share count as equivalent [default: `2%`].
    pub margin: Option<PercentText>,
    /// Blocks per round, 2 or more; services restart after each round [default: chosen by what a start
    /// costs].
    #[schemars(range(min = 2, max = 10000))]
    pub blocks: Option<u32>,
}

/// A recipe: how to find, version, configure, start, check and stop a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop recipe.toml")]
pub(super) struct RecipeFile {
    /// What it is, in a few words.
    pub summary: String,
    pub program: ProgramFile,
    /// How to tell it where to listen, by transport. It cannot serve transports that are missing.
    pub listen: ListenTable,
    /// How it writes the address of a Unix socket that it connects to.
    #[serde(default)]
    pub connect: Connect,
    /// Values that an experiment may set, by name.
    #[serde(default)]
    pub settings: IndexMap<String, SettingFile>,
    pub start: StartFile,
    /// Configuration files: path in the service's directory = template file in the recipe's folder. An experiment's
    /// file with the same path replaces it.
    #[serde(default)]
    pub config: IndexMap<String, String>,
    #[serde(default)]
    pub ready: ReadyFile,
    #[serde(default)]
    pub stop: StopFile,
    #[serde(default)]
    pub export: ExportFile,
}

/// How to find the executable and its version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramFile {
    /// True for lasthop's own executable. Then leave out `names`, `folders` and `version`.
    #[serde(default)]
    pub lasthop: bool,
    /// Names of the executable. lasthop uses the first that it finds in its own environments, on `PATH` or in
    /// `folders`.
    #[serde(default)]
    pub names: Vec<String>,
    /// Folders to search after `PATH`, such as `/usr/sbin`.
    #[serde(default)]
    pub folders: Vec<String>,
    pub version: Option<VersionFile>,
    #[serde(default)]
    pub packages: PackagesFile,
    /// If no package manager has it: what to download, and where to put it. Shown if it is missing.
    pub obtain: Option<String>,
}

/// How to read the version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionFile {
    /// Arguments that print it.
    pub arguments: Vec<String>,
    /// Regular expression with one group: the version.
    pub pattern: String,
    /// The lowest version that works.
    pub minimum: Option<String>,
}

/// Where to listen, by transport.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct ListenTable(IndexMap<TransportName, ListenFile>);

impl ListenTable {
    /// In the order of the transports, whatever that of the file.
    pub(super) fn given(&self) -> impl Iterator<Item = (TransportName, &ListenFile)> {
        TransportName::ALL.into_iter().filter_map(|transport| Some((transport, self.0.get(&transport)?)))
    }
}

impl JsonSchema for ListenTable {
    fn schema_name() -> Cow<'static, str> {
        "ListenTable".into()
    }

    /// A key for each transport, with the description that the transport has.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let listen = generator.subschema_for::<ListenFile>();
        let mut table = json_schema!({ "type": "object", "additionalProperties": false });
        for transport in
            generator.subschema_for::<TransportName>().pointer("/oneOf").and_then(Json::as_array).into_iter().flatten()
        {
            let name = transport["const"].as_str().expect("each transport is a constant");
            let mut listen = listen.clone();
            listen.insert("description".to_owned(), transport["description"].clone());
            table.ensure_object().entry("properties").or_insert_with(|| serde_json::json!({}))[name] =
                listen.to_value();
        }
        table
    }
}

/// Where to listen, in the server's own syntax.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListenFile {
    /// Arguments that replace the argument `{{ listen }}`. May be templates.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Text that replaces `{{ listen }}` in configuration files. May be a template.
    #[serde(default)]
    pub config: String,
    /// For Unix sockets: the file name of the socket, if the server does not let you choose it.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$", "x-expected" = "a file name of letters, digits, `.`, `_`, `-`"))]
    pub file: Option<String>,
    /// For TLS: path below `runtime` of what clients should trust, if the server has its own certificates instead of
    /// the run's.
    pub authority: Option<String>,
}

/// A value that an experiment may set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingFile {
    /// What it means, with its unit.
    pub help: String,
    /// Default value. Without one, the experiment must set a value.
    pub default: Option<Scalar>,
}

/// The command that runs the server in the foreground.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartFile {
    /// The executable, if a preparation makes it with the recipe's program. May be a template.
    pub program: Option<String>,
    /// Arguments, one per item. `{{ listen }}` alone stands for the arguments of `listen`. An argument that renders to
    /// nothing is left out.
    pub arguments: Vec<String>,
    /// Environment variables in addition to those that lasthop passes on. May be templates.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// Commands that build something, such as the server's program, in `{{ run_cache }}`. They have lasthop's own rights even
    /// where the server gets those of `nobody`, which can then not change what they make. Their working directory has the
    /// service's files.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Commands that prepare the service's directory, after those of `build`. Each runs to its end before the server starts.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The longest that each of these commands may take [default: `120s`].
    pub prepare_timeout: Option<DurationText>,
    /// Whose rights the server and its preparation have where lasthop is root. Without it these are those of `nobody`, except
    /// in a stack with containers, where the engine decides.
    pub run_as: Option<RunAsName>,
    /// It makes shared memory that stays when it is killed: the server and each command of its preparation get System V memory
    /// and a `/dev/shm` of their own, which end with them. An engine does that for its containers.
    #[serde(default)]
    pub own_memory: bool,
    /// Its configuration files may name variables of its environment, as `${NAME}`. In a Pod that is where it listens.
    #[serde(default)]
    pub reads_variables: bool,
}

/// Whose rights a server has where lasthop is root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunAsName {
    /// Those of lasthop, for a server that cannot do without them.
    #[serde(rename = "self")]
    Own,
    /// Those of `nobody` in containers, too, for a server that refuses to run as root.
    Unprivileged,
}

/// When the server counts as ready. Always a check, never a pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReadyFile {
    /// Kind of check [default: `connect`].
    pub check: Option<ReadyName>,
    /// For `http`: the path to request.
    pub path: Option<String>,
    /// For `http`: the expected status [default: 200].
    #[schemars(range(min = 100, max = 599))]
    pub status: Option<u16>,
    /// For `command`: the command. The server is ready when it exits with 0. May be templates.
    pub command: Option<Vec<String>>,
    /// The longest that it may take [default: `10s`].
    pub timeout: Option<DurationText>,
}

/// How to check that a server is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReadyName {
    /// Its endpoint accepts a connection.
    #[default]
    Connect,
    /// Its endpoint answers a GET request with the expected status.
    Http,
    /// A command exits with 0.
    Command,
}

/// How to stop the server in order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StopFile {
    /// Signal to stop it in order [default: `TERM`].
    pub signal: Option<SignalName>,
    /// After this time the whole process group is killed [default: `5s`].
    pub timeout: Option<DurationText>,
}

/// What `lasthop export` makes of it. By default that is its files and its command.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExportFile {
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

/// A signal that tells servers to end.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum SignalName {
    Term,
    Int,
    Quit,
    Hup,
    Kill,
}

impl SignalName {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Quit => "QUIT",
            Self::Hup => "HUP",
            Self::Kill => "KILL",
        }
    }
}

/// A transport: `unix`, `abstract`, `tcp`, `tcp6`, `tls` or `tls-unix`.
pub(super) type TransportName = lasthop_protocol::spec::Transport;

fn one() -> WholeNumber {
    WholeNumber("1".to_owned())
}

fn yes() -> YesNo {
    YesNo("true".to_owned())
}

fn keep_alive() -> String {
    "keep-alive".to_owned()
}

/// Defines a type that is text once read, written as text or as a bare value of the named JSON types.
macro_rules! written_value {
    ($(#[$doc:meta])* $name:ident, $types:expr, $pattern:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct $name(pub String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(AsText($expected)).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let pattern: &str = $pattern;
                if pattern.is_empty() {
                    json_schema!({ "type": $types, "x-expected": $expected })
                } else {
                    json_schema!({ "type": $types, "pattern": pattern, "x-expected": $expected })
                }
            }
        }
    };
}

written_value!(
    /// A whole number, or a template that renders to one.
    WholeNumber, ["integer", "string"], TEMPLATE,
    "a whole number, or a template such as \"{{ connections }}\""
);
written_value!(
    /// A number of CPUs, or a template that renders to one.
    CpuShare, ["number", "string"], "",
    "a number of CPUs such as 0.25, or a template such as \"{{ cpus }}\""
);
written_value!(
    /// Requests per second, or a template that renders to them.
    RequestRate, ["number", "string"], r"^$|\{\{.*\}\}",
    "requests per second such as 2000, 0 or \"\" for a closed loop, or a template such as \"{{ rate }}\""
);
written_value!(
    /// true or false, or a template that renders to one of them.
    YesNo, ["boolean", "string"], TEMPLATE,
    "true or false, or a template such as \"{{ nodelay }}\""
);
written_value!(
    /// A duration with its unit.
    DurationText, ["string"], "",
    "a duration such as \"100ms\", \"30s\" or \"5m\""
);
written_value!(
    /// A share in per cent.
    PercentText, ["string"], "",
    "a share such as \"2%\""
);

written_value!(
    /// A Python requirement with its version.
    PinnedPython, ["string"], r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*$",
    "a requirement with its version such as \"flask==3.1.3\""
);
written_value!(
    /// A Ruby gem with its version.
    PinnedGem, ["string"], r"^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9][A-Za-z0-9.-]*$",
    "a gem with its version such as \"rack:3.1.8\""
);

/// Takes any scalar as the text that it is written as.
struct AsText(&'static str);

impl Visitor<'_> for AsText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }
}

/// A level of a factor or the value of a setting.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Scalar(pub Level);

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "integer", "string"], "x-expected": "text, a whole number, true or false" })
    }
}
