//! The files as you write them. Private to this stage: everything else uses the types of `model`.
//!
//! Doc comments here are part of the product: they become descriptions in the JSON schemas, and `x-expected` becomes
//! the text of an error message.

use std::borrow::Cow;

use indexmap::IndexMap;
use lasthop_model::{level::Level, program::Packages, record::AnswerPlan, service::Export};
use lasthop_protocol::spec::Transport;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    model::{Connect, Container, Exclude, Factor, Link, Listen, Load, Overload, RunAs, Setting},
    written::{DurationText, PercentText, WholeNumber, one, text},
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
    pub factors: IndexMap<String, Factor>,
    /// Combinations of levels that make no sense.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
    /// The servers to start, by name. Templates refer to them by this name: `{{ NAME.address }}`.
    pub services: IndexMap<String, ServiceFile>,
    pub load: Load,
    /// Quantities that follow from several cases, by name.
    #[serde(default)]
    pub derive: IndexMap<String, DeriveFile>,
    /// What answers the question, besides which alternative to choose: a report says it first.
    #[serde(default)]
    pub answer: AnswerPlan,
    #[serde(default)]
    pub overload: Overload,
    #[serde(default)]
    pub defaults: DefaultsFile,
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
    pub listen: Option<Transport>,
    /// How many of these servers to start, 0 (the case does not use it) to 64, each with its own address. `{{ NAME.all
    /// }}` is the list, `{{ NAME }}` the first.
    #[serde(default = "one", deserialize_with = "text")]
    #[schemars(with = "WholeNumber", extend("default" = 1))]
    pub count: String,
    /// Services that must be ready before it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Values for the templates of its recipe and of its configuration files, by name. May be templates.
    #[serde(default)]
    pub settings: IndexMap<String, Level>,
    /// Configuration files: path in the service's directory = template file in the experiment's folder.
    #[serde(default)]
    pub config: IndexMap<String, String>,
    /// Folder of the experiment to copy to `app` in the service's directory.
    pub app: Option<String>,
    /// How long to load it after its start, before anything is measured: for servers that compile while they run, or fill
    /// caches [default: not at all].
    pub warm: Option<DurationText>,
    #[serde(default)]
    pub packages: Packages,
    pub container: Option<Container>,
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
    pub settings: IndexMap<String, Setting>,
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
    pub export: Export,
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
    pub packages: Packages,
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
pub(super) struct ListenTable(IndexMap<Transport, Listen>);

impl ListenTable {
    /// In the order of the transports, whatever that of the file.
    pub(super) fn given(&self) -> impl Iterator<Item = (Transport, &Listen)> {
        Transport::ALL
            .into_iter()
            .filter_map(|transport| Some((transport, self.0.get(&transport)?)))
    }
}

impl JsonSchema for ListenTable {
    fn schema_name() -> Cow<'static, str> {
        "ListenTable".into()
    }

    /// A key for each transport, with the description that the transport has.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let listen = generator.subschema_for::<Listen>();
        let mut table = json_schema!({ "type": "object", "additionalProperties": false });
        for transport in generator
            .subschema_for::<Transport>()
            .pointer("/oneOf")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
        {
            let name = transport["const"].as_str().expect("each transport is a constant");
            let mut listen = listen.clone();
            listen.insert("description".to_owned(), transport["description"].clone());
            table
                .ensure_object()
                .entry("properties")
                .or_insert_with(|| serde_json::json!({}))[name] = listen.to_value();
        }
        table
    }
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
    pub run_as: Option<RunAs>,
    /// It makes shared memory that stays when it is killed: the server and each command of its preparation get System V memory
    /// and a `/dev/shm` of their own, which end with them. An engine does that for its containers.
    #[serde(default)]
    pub own_memory: bool,
    /// Its configuration files may name variables of its environment, as `${NAME}`. In a Pod that is where it listens.
    #[serde(default)]
    pub reads_variables: bool,
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
    #[schemars(extend("enum" = ["TERM", "INT", "QUIT", "HUP", "KILL"]))]
    pub signal: Option<String>,
    /// After this time the whole process group is killed [default: `5s`].
    pub timeout: Option<DurationText>,
}
