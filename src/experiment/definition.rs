//! The files as they are written. Private to this stage: everything else sees the types of `model`.
//!
//! The doc comments are part of the product: they become the descriptions in the JSON schemas, and `x-expected` becomes
//! the text of an error message.

use std::{borrow::Cow, fmt};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize,
    de::{Deserializer, Error, Visitor},
};

use super::model::Level;

/// An experiment: a question, the services, the link under test, the load, and what is varied.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop experiment.toml")]
pub(super) struct ExperimentFile {
    /// A short headline.
    pub title: String,
    /// The question that the experiment answers, in one sentence.
    pub question: String,
    pub link: LinkFile,
    /// What is varied, by name. `transport` must be there: it is the transport of the link.
    pub factors: IndexMap<String, FactorFile>,
    /// Combinations of levels that make no sense.
    #[serde(default)]
    pub exclude: Vec<ExcludeFile>,
    /// The servers that are started, by name. The name is how templates refer to them: `{{ NAME.address }}`.
    pub services: IndexMap<String, ServiceFile>,
    pub load: LoadFile,
    /// Quantities that follow from several cases, by name.
    #[serde(default)]
    pub derive: IndexMap<String, DeriveFile>,
    #[serde(default)]
    pub defaults: DefaultsFile,
}

/// A quantity that follows from several cases. It has exactly one of `minus`, `per` and `crossover`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeriveFile {
    /// What it is, in a few words.
    pub help: String,
    /// Expression over the factors: the cases that it is about.
    pub of: String,
    /// Expression over the factors: of the time of each of those cases, the time of the case of this kind is taken away which
    /// has the same level of every factor that neither expression mentions.
    pub minus: Option<String>,
    /// A factor of whole numbers: the slope of the time over its levels, that is the time for one more.
    pub per: Option<String>,
    /// A factor of whole numbers: the level from which on a case differs from its reference by no more than the margin.
    pub crossover: Option<String>,
}

/// The connection whose transport is varied.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFile {
    /// The end that connects: the name of a service, or `driver` for the load generator.
    pub from: String,
    /// The service that listens.
    pub to: String,
    /// Transport of the link where the factor `path` takes the place of `transport`. May be a template over the factors.
    pub transport: Option<String>,
    pub proof: Option<ProofFile>,
}

/// How to ask the application over which connection a request reached it, to prove transport and reuse of the live link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofFile {
    /// HTTP path whose answer is `FAMILY IDENTITY`: the address family of the accepted socket (`unix`, `inet` or `inet6`),
    /// a space, and anything that is different for every connection.
    #[schemars(extend("pattern" = "^/", "x-expected" = "a path that begins with `/`"))]
    pub path: String,
    /// What the link should do: `per-request` or `keep-alive`. May be a template.
    pub reuse: String,
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
    /// Levels of a run that chooses none. All levels where it is missing.
    pub default: Option<Vec<Scalar>>,
    /// The level that others are compared with. Belongs to `transport`.
    pub reference: Option<Scalar>,
    /// Expression over the factors above this one; where it is false, this factor does not apply.
    pub when: Option<String>,
    /// Lowest and highest whole number that may be set beside the listed levels.
    pub range: Option<[i64; 2]>,
}

/// A combination of levels that makes no sense.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExcludeFile {
    /// Expression over the factors; a combination for which it is true is left out.
    pub when: String,
    /// The reason, shown to the user.
    pub because: String,
}

/// A server of the experiment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceFile {
    /// Name of the recipe. May be a template.
    pub recipe: String,
    /// Transport that it listens on. Left out for the service that the link goes to: there the case decides.
    pub listen: Option<TransportName>,
    /// How many such servers are started, 0 (the case does without) to 64, each with an address of its own: `{{ NAME.all }}` is the list, `{{ NAME }}`
    /// the first.
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
    /// Folder of the experiment that is copied to `app` in the service's directory.
    pub app: Option<String>,
    #[serde(default)]
    pub packages: PackagesFile,
    pub container: Option<ContainerFile>,
}

/// Runs the service in a container: podman or Docker, whichever is there. Every value may be a template over the factors;
/// what renders to nothing is not set.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerFile {
    /// Its network: `bridge` (a network of the run's own), `host`, `none`, `service:NAME` (the namespace of another service), or
    /// `inside:NAME`: no container of its own, but that of the service NAME, a supervisor. Where it renders to nothing, the service
    /// runs without a container.
    pub network: String,
    /// Where its port is published, with the network `bridge`: `loopback` (127.0.0.1) or `gateway` (the host's address on
    /// the bridge). Where it renders to nothing, clients connect to the container's own address.
    #[serde(default)]
    pub publish: String,
    /// A volume of the engine, by a name of the experiment's own: containers with the same name share it, and whoever of them listens
    /// on a Unix socket has the socket in it. Processes of the host reach it where the engine keeps it. Where it renders to
    /// nothing, the socket is in a folder of the run that all containers have.
    #[serde(default)]
    pub volume: String,
    /// CPUs that it may use up: 0.25 is a quarter of one.
    #[serde(default)]
    pub cpus: CpuShare,
    /// Memory that it may use, with a unit: `256m`.
    #[serde(default)]
    pub memory: String,
    /// Kernel settings of its network namespace, by name.
    #[serde(default)]
    pub sysctls: IndexMap<String, String>,
}

/// What must be installed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PackagesFile {
    /// Debian packages.
    pub debian: Vec<String>,
    /// Python packages with their version, `name==1.2.3`.
    pub python: Vec<PinnedPython>,
    /// Ruby gems with their version, `name:1.2.3`.
    pub gems: Vec<PinnedGem>,
}

/// The load and what a right answer is. Every value may be a template over the factors.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "protocols are read from the checked tree, so that templates keep their type")]
pub(super) struct LoadFile {
    /// The service that the driver talks to, a single server. May be a template over the factors: a load balancer in front is one.
    pub target: String,
    /// What is said: `hello`, `echo`, `stream`, `http`, `redis` or `postgres`. May be a template.
    pub protocol: String,
    /// Connections held at the same time.
    #[serde(default = "one")]
    pub connections: WholeNumber,
    /// Threads of the driver.
    #[serde(default = "one")]
    pub threads: WholeNumber,
    /// What becomes of a connection after a reply: `keep-alive` or `per-request`. May be a template.
    #[serde(default = "keep_alive")]
    pub reuse: String,
    /// Requests sent at once on a connection, before any of their replies is awaited: 1 to 1,024.
    #[serde(default = "one")]
    pub pipeline: WholeNumber,
    /// With `reuse` per request: requests that a connection carries one after the other before it is closed, 1 to 10
    /// million. They are timed as one unit, connect and authentication included; slopes over it are of that unit.
    #[serde(default = "one")]
    pub requests_per_connection: WholeNumber,
    /// Open loop: requests per second over all connections, 0.001 to 100 million, due at scheduled times whatever became
    /// of earlier ones. Where it is missing, nothing or 0 the loop is closed: the next request follows the reply.
    #[serde(default)]
    pub rate: RequestRate,
    /// Open loop: `constant` (the same gap between any two requests) or `poisson` (independent requests, gaps distributed
    /// exponentially). May be a template.
    pub arrivals: Option<String>,
    /// Whether the driver sets `TCP_NODELAY` on its sockets. Means nothing on Unix sockets.
    #[serde(default = "yes")]
    pub nodelay: YesNo,
    /// Command of a driver of the experiment's own, which speaks the lines of `lasthop drive`. Where its first word
    /// renders to nothing, lasthop drives.
    #[serde(default)]
    pub driver: Vec<String>,
    pub hello: Option<HelloFile>,
    pub echo: Option<EchoFile>,
    pub stream: Option<StreamFile>,
    pub http: Option<HttpFile>,
    pub redis: Option<RedisFile>,
    pub postgres: Option<PostgresFile>,
}

/// The server speaks first; then the connection is closed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct HelloFile {
    /// The bytes that must arrive.
    pub expect: String,
}

/// The same bytes must come back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct EchoFile {
    /// Bytes of one message, 8 to 16 MiB.
    pub size: WholeNumber,
}

/// One way: the time stops when the last byte was received.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct StreamFile {
    /// Bytes of one transfer, 1 to 1 GiB. Many times the socket buffers, or they are what is measured.
    pub size: WholeNumber,
    /// Bytes that the server hands to each `send`, 1 to 16 MiB.
    pub chunk: WholeNumber,
}

/// HTTP/1.0 or 1.1.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct HttpFile {
    /// `GET` where it is missing.
    pub method: Option<String>,
    /// Request target, begins with `/`.
    pub path: String,
    /// Value of the `Host` header; `localhost` where it is missing, whatever the transport.
    pub host: Option<String>,
    /// Further headers, in order.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Body of the request.
    pub body: Option<String>,
    /// `1.1` where it is missing.
    pub version: Option<HttpVersionName>,
    pub expect: HttpExpectFile,
}

/// What a right answer looks like. Every given field must hold for every reply.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct HttpExpectFile {
    /// Status code of a final reply, 200 to 599.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The whole body, byte for byte.
    pub body: Option<String>,
    /// Texts that the body contains.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Length of the body in bytes.
    pub length: Option<WholeNumber>,
}

/// Redis: one command over and over.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct RedisFile {
    /// Words of the command, such as `["GET", "key"]`; or a template that renders to such a list.
    pub command: Words,
    /// `"success"` (anything but an error), `"nil"`, `{ simple = "OK" }`, `{ bulk = "text" }`, `{ integer = 1 }` or
    /// `{ length = 64 }` (a text of so many bytes); or a template that renders to one of them.
    pub expect: RedisExpectFile,
    /// With a password: the user; the default user where it is missing.
    pub username: Option<String>,
    /// Said with `AUTH` on every connection.
    pub password: Option<String>,
    /// Number of the database.
    pub database: Option<WholeNumber>,
}

/// Texts, or a template that renders to a list of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) enum Words {
    List(Vec<String>),
    Template(String),
}

/// What a right reply of Redis is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) enum RedisExpectFile {
    Word(String),
    Value(IndexMap<String, Scalar>),
}

/// PostgreSQL: one query over and over. With `reuse = "per-request"` each query has a connection of its own, and a request
/// is all of it: connect, TLS, authentication, query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct PostgresFile {
    /// Role that clients are.
    pub user: String,
    /// Database that they connect to.
    pub database: String,
    /// Used if the server asks for one.
    pub password: Option<String>,
    /// One statement.
    pub query: String,
    /// `simple`, `extended` (parsed each time) or `prepared` (parsed once a connection); `simple` where it is missing.
    pub mode: Option<String>,
    /// Values of `$1`, `$2`, …
    #[serde(default)]
    pub parameters: Vec<String>,
    #[serde(default)]
    pub expect: PostgresExpectFile,
}

/// What a right result is. Every given field must hold; an error never is right.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "read from the checked tree, so that templates keep their type")]
pub(super) struct PostgresExpectFile {
    /// Number of rows.
    pub rows: Option<WholeNumber>,
    /// First column of the first row, as text.
    pub first: Option<String>,
    /// The command tag, such as `SELECT 1`.
    pub tag: Option<String>,
}

/// HTTP version.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum HttpVersionName {
    #[serde(rename = "1.0")]
    V10,
    #[serde(rename = "1.1")]
    V11,
}

/// What a run does unless told otherwise on the command line.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DefaultsFile {
    /// Length of the measured part of a trial; `100ms` where it is missing.
    pub trial: Option<DurationText>,
    /// Time that a whole run may take, starts included; `30s` where it is missing.
    pub budget: Option<DurationText>,
    /// Half width of the interval at which a run may stop; `2%` where it is missing.
    pub precision: Option<PercentText>,
    /// Differences within this share count as none; `2%` where it is missing.
    pub margin: Option<PercentText>,
    /// Blocks between two restarts of the services, 2 or more; 10 where it is missing.
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
    /// How it is told where to listen, by transport. A transport that is missing cannot be served.
    pub listen: ListenTable,
    /// Values that an experiment may set, by name.
    #[serde(default)]
    pub settings: IndexMap<String, SettingFile>,
    pub start: StartFile,
    /// Configuration files: path in the service's directory = template file in the recipe's folder. A file of the
    /// experiment with the same path replaces it.
    #[serde(default)]
    pub config: IndexMap<String, String>,
    #[serde(default)]
    pub ready: ReadyFile,
    #[serde(default)]
    pub stop: StopFile,
}

/// How to find the executable and its version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramFile {
    /// True for lasthop's own executable; then `names`, `folders` and `version` are left out.
    #[serde(default)]
    pub lasthop: bool,
    /// Names of the executable; the first that is found in lasthop's own environments, on `PATH` or in `folders` is used.
    #[serde(default)]
    pub names: Vec<String>,
    /// Folders that are searched after `PATH`, such as `/usr/sbin`.
    #[serde(default)]
    pub folders: Vec<String>,
    pub version: Option<VersionFile>,
    #[serde(default)]
    pub packages: PackagesFile,
    /// Where no package manager has it: what to download, and where to put it. Shown when it is missing.
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
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ListenTable {
    /// A Unix stream socket with a path.
    pub unix: Option<ListenFile>,
    /// A Unix stream socket in the abstract namespace.
    pub r#abstract: Option<ListenFile>,
    /// TCP over IPv4.
    pub tcp: Option<ListenFile>,
    /// TCP over IPv6.
    pub tcp6: Option<ListenFile>,
    /// TLS over TCP.
    pub tls: Option<ListenFile>,
    /// TLS over a Unix stream socket.
    pub tls_unix: Option<ListenFile>,
}

impl ListenTable {
    pub(super) fn given(&self) -> impl Iterator<Item = (TransportName, &ListenFile)> {
        let Self { unix, r#abstract, tcp, tcp6, tls, tls_unix } = self;
        let all = [unix, r#abstract, tcp, tcp6, tls, tls_unix];
        TransportName::ALL.into_iter().zip(all).filter_map(|(transport, file)| Some((transport, file.as_ref()?)))
    }
}

/// Where to listen, said in the server's own way.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListenFile {
    /// Arguments that take the place of the argument `{{ listen }}`. May be templates.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Text that takes the place of `{{ listen }}` in configuration files. May be a template.
    #[serde(default)]
    pub config: String,
    /// For Unix sockets: the file name that the server gives its socket, where it does not let one choose.
    #[schemars(extend("pattern" = "^[A-Za-z0-9._-]+$", "x-expected" = "a file name of letters, digits, `.`, `_`, `-`"))]
    pub file: Option<String>,
    /// For TLS: what clients trust, a path below `runtime`, where the server brings certificates of its own instead of those
    /// of the run.
    pub authority: Option<String>,
}

/// A value that an experiment may set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingFile {
    /// What it means, with its unit.
    pub help: String,
    /// Value where the experiment sets none. Without it the experiment must.
    pub default: Option<Scalar>,
}

/// The command that runs the server in the foreground.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartFile {
    /// Arguments, one each. `{{ listen }}` alone stands for the arguments of `listen`; one that renders to nothing is
    /// left out.
    pub arguments: Vec<String>,
    /// Environment variables beside those that lasthop passes on. May be templates.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// Commands that prepare the service's directory, each run to its end before the start.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The longest that each of these commands may take; `120s` where it is missing.
    pub prepare_timeout: Option<DurationText>,
    /// `unprivileged` for a server that refuses to run as root: where lasthop is root, the server and its preparation run
    /// as the account `nobody`.
    #[serde(default)]
    pub run_as: RunAsName,
}

/// Whose rights a server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunAsName {
    /// Those of lasthop.
    #[default]
    #[serde(rename = "self")]
    Own,
    /// Those of lasthop unless it is root.
    Unprivileged,
}

/// When the server counts as ready. Always a check, never a pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReadyFile {
    /// `connect` where it is missing.
    pub check: Option<ReadyName>,
    /// For `http`: the path that is asked for.
    pub path: Option<String>,
    /// For `http`: the status that is expected; 200 where it is missing.
    #[schemars(range(min = 100, max = 599))]
    pub status: Option<u16>,
    /// For `command`: the command; it is ready when this ends with 0. May be templates.
    pub command: Option<Vec<String>>,
    /// The longest that it may take; `10s` where it is missing.
    pub timeout: Option<DurationText>,
}

/// A way to see that a server is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReadyName {
    /// Its endpoint accepts a connection.
    #[default]
    Connect,
    /// Its endpoint answers a GET with a status.
    Http,
    /// A command ends with 0.
    Command,
}

/// How to end the server in order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StopFile {
    /// Signal for an orderly end; `TERM` where it is missing.
    pub signal: Option<SignalName>,
    /// After this the whole process group is killed; `5s` where it is missing.
    pub timeout: Option<DurationText>,
}

/// A signal that servers take as a request to end.
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
pub(super) type TransportName = lasthop_load::spec::Transport;

fn one() -> WholeNumber {
    WholeNumber("1".to_owned())
}

fn yes() -> YesNo {
    YesNo("true".to_owned())
}

fn keep_alive() -> String {
    "keep-alive".to_owned()
}

/// Text with at least one minijinja expression.
const TEMPLATE: &str = r"\{\{.*\}\}";

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
    DurationText, ["string"], r"^[0-9]+(\.[0-9]+)?(us|ms|s|min|h)$",
    "a duration such as \"100ms\", \"30s\" or \"2min\""
);
written_value!(
    /// A share in per cent.
    PercentText, ["string"], r"^[0-9]+(\.[0-9]+)?%$",
    "a share such as \"2%\""
);

written_value!(
    /// A Python requirement with its version.
    PinnedPython, ["string"], r"^[A-Za-z0-9._\[\]-]+==[^=\s]+$",
    "a requirement with its version such as \"flask==3.1.3\""
);
written_value!(
    /// A Ruby gem with its version.
    PinnedGem, ["string"], r"^[A-Za-z0-9._-]+:[^:\s]+$",
    "a gem with its version such as \"thin:2.0.1\""
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
