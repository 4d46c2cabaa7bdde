//! What a driver is asked to do: endpoint × protocol × reuse × load model.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How two processes reach each other. The word is the level of the factor `transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Unix stream socket with a path in the file system.
    Unix,
    /// Unix stream socket in the abstract namespace (Linux).
    Abstract,
    /// TCP over IPv4 loopback.
    Tcp,
    /// TCP over IPv6 loopback.
    Tcp6,
    /// TLS over TCP (IPv4).
    Tls,
    /// TLS over a Unix stream socket with a path.
    TlsUnix,
}

impl Transport {
    pub const ALL: [Self; 6] = [Self::Unix, Self::Abstract, Self::Tcp, Self::Tcp6, Self::Tls, Self::TlsUnix];

    /// The level's name as it is written in experiment files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Abstract => "abstract",
            Self::Tcp => "tcp",
            Self::Tcp6 => "tcp6",
            Self::Tls => "tls",
            Self::TlsUnix => "tls-unix",
        }
    }

    #[must_use]
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsUnix)
    }

    /// Whether the bytes travel through a Unix socket.
    #[must_use]
    pub fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::Abstract | Self::TlsUnix)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The word is not the name of a transport.
#[derive(Debug, thiserror::Error)]
#[error("unknown transport `{0}` (known: unix, abstract, tcp, tcp6, tls, tls-unix)")]
pub struct UnknownTransport(pub String);

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|t| t.name() == word).ok_or_else(|| UnknownTransport(word.to_owned()))
    }
}

/// A socket address that a client connects to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// Path of a Unix socket, at most 107 bytes.
    Unix(PathBuf),
    /// Name in the abstract namespace, without the leading NUL, at most 107 bytes.
    Abstract(String),
    Tcp(SocketAddr),
}

/// TLS towards the server. Certificates are always verified; there is no switch to turn that off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate authorities to trust; `None` trusts the system's own.
    pub authority: Option<PathBuf>,
    /// Name that the server's certificate must carry.
    pub server_name: String,
    /// Offer session resumption (tickets) on later connections.
    #[serde(default)]
    pub resumption: bool,
}

/// The concrete place to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub address: Address,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// Options set on the client's sockets before use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketOptions {
    /// `TCP_NODELAY`; ignored on Unix sockets.
    pub nodelay: bool,
    /// `SO_SNDBUF` in bytes (the kernel doubles it); `None` leaves the kernel's autotuning on.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF` in bytes (the kernel doubles it); `None` leaves the kernel's autotuning on.
    pub receive_buffer: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { nodelay: true, send_buffer: None, receive_buffer: None }
    }
}

/// What is said over a connection, and how a reply is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// The server speaks first: `expect` arrives, then the connection is closed. One request is one connection.
    Hello(Hello),
    /// A frame of `size` bytes goes out and the same bytes must come back.
    Echo(Echo),
    /// `size` bytes are asked for and must all arrive; the clock stops at the last byte received.
    Stream(Stream),
    /// HTTP/1.0 or 1.1.
    Http(Http),
    /// Redis, RESP2.
    Redis(Redis),
    /// PostgreSQL, protocol version 3.
    Postgres(Postgres),
}

/// One command, sent over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// The command's words, for example `["GET", "key"]`.
    pub command: Vec<String>,
    #[serde(default)]
    pub expect: RedisExpect,
    /// With a password: the user of `AUTH`; `None` is the default user.
    #[serde(default)]
    pub username: Option<String>,
    #[serde(default)]
    pub password: Option<String>,
    /// Number of the database to `SELECT`.
    #[serde(default)]
    pub database: u32,
}

/// What a right reply looks like. An error reply never is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedisExpect {
    /// Anything but an error.
    #[default]
    Success,
    /// A simple text, for example `PONG`.
    Simple(String),
    /// A bulk text.
    Bulk(String),
    Integer(i64),
    /// No value.
    Nil,
    /// A bulk text of so many bytes.
    Length(u64),
}

/// One query, sent over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    pub user: String,
    pub database: String,
    /// Trust, cleartext, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS are understood, as the server asks for them.
    #[serde(default)]
    pub password: Option<String>,
    pub query: String,
    #[serde(default)]
    pub mode: QueryMode,
    /// Values of `$1`, `$2`, … as text; not with simple queries.
    #[serde(default)]
    pub parameters: Vec<String>,
    #[serde(default)]
    pub expect: PostgresExpect,
    /// Whether SCRAM binds itself to the TLS connection (SCRAM-SHA-256-PLUS).
    #[serde(default, skip_serializing_if = "ChannelBinding::is_default")]
    pub channel_binding: ChannelBinding,
}

/// Whether the authentication is bound to the TLS connection by the server's certificate; the words are libpq's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelBinding {
    Disable,
    /// Where there is TLS and the server offers it.
    #[default]
    Prefer,
    /// A server that lets us in without it is refused.
    Require,
}

impl ChannelBinding {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryMode {
    /// The simple form.
    #[default]
    Simple,
    /// Parse, bind, execute and sync with every request.
    Extended,
    /// Parsed once with every connection; bind, execute and sync with every request.
    Prepared,
}

/// What a right result looks like. Every given field must hold. An error never is right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresExpect {
    /// Number of rows.
    pub rows: Option<u64>,
    /// First column of the first row, as text.
    pub first: Option<String>,
    /// The command tag, for example `SELECT 1`.
    pub tag: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub expect: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echo {
    /// Bytes of one message, 8 to 16 MiB.
    pub size: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Bytes of one transfer, 1 to 1 GiB.
    pub size: u64,
    /// Bytes that the server hands to each `send`, 1 to 16 MiB.
    pub chunk: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    #[serde(default = "get")]
    pub method: String,
    /// Request target, begins with `/`.
    pub path: String,
    /// Value of the `Host` header.
    pub host: String,
    /// Further headers, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default)]
    pub body: String,
    #[serde(default)]
    pub version: HttpVersion,
    pub expect: HttpExpect,
}

fn get() -> String {
    "GET".to_owned()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpVersion {
    #[serde(rename = "1.0")]
    V10,
    #[default]
    #[serde(rename = "1.1")]
    V11,
}

/// What a right answer looks like. Every given field must hold for every reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpExpect {
    pub status: u16,
    /// The whole body, byte for byte.
    #[serde(default)]
    pub body: Option<String>,
    /// Texts that the body contains.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Length of the body in bytes.
    #[serde(default)]
    pub length: Option<u64>,
}

/// What becomes of a connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// A connection for each request.
    PerRequest,
    /// Connections are kept and used again.
    #[default]
    KeepAlive,
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The next request follows the reply.
    #[default]
    Closed,
    /// Requests are due at scheduled times, whatever became of earlier ones.
    Open(OpenLoop),
}

/// A rate, and how the requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenLoop {
    /// Requests per second over all connections, 0.001 to 100 million.
    pub rate: f64,
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Seed of random arrivals.
    #[serde(default)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// The same gap between any two requests.
    #[default]
    Constant,
    /// Independent requests: exponentially distributed gaps.
    Poisson,
}

/// The way a worker waits for its sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Blocking for one connection, epoll for several.
    #[default]
    Auto,
    Blocking,
    Epoll,
}

/// The longest that each phase of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Nanoseconds for connect and TLS handshake, each.
    pub connect_ns: u64,
    /// Nanoseconds from the request to the last byte of its reply.
    pub request_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ns: 5_000_000_000, request_ns: 10_000_000_000 }
    }
}

impl Timeouts {
    #[must_use]
    pub fn request(&self) -> Duration {
        Duration::from_nanos(self.request_ns)
    }
}

/// Everything a driver needs to know to put load on one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub endpoint: Endpoint,
    pub protocol: Protocol,
    #[serde(default)]
    pub socket: SocketOptions,
    #[serde(default)]
    pub reuse: Reuse,
    #[serde(default)]
    pub model: Model,
    #[serde(default)]
    pub engine: Engine,
    /// Connections held at the same time over all threads, 1 to 65,535.
    #[serde(default = "one")]
    pub connections: u32,
    /// Worker threads, 1 to 1,024, no more than connections.
    #[serde(default = "one")]
    pub threads: u32,
    /// Requests sent at once on a connection, before any of their replies is awaited: 1 to 1,024. More than one needs
    /// connections that are kept, a closed loop, and a protocol that allows it (not hello, stream or HTTP/1.0).
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Requests that a connection carries one after the other before it is closed: 1 to 10 million. More than one needs
    /// `reuse` per request and a closed loop. What is timed is then the unit as a whole: connect, authenticate, all of
    /// its requests; each of them counts as a request.
    #[serde(default = "one")]
    pub requests_per_connection: u32,
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Nanoseconds that a worker asks for events again and again before it lets the kernel put it to sleep, at most
    /// 1 s. `None`: [`SPIN_BEFORE_DUE_NS`] before a request of an open loop is due, otherwise not at all. More than 0
    /// needs the epoll engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_ns: Option<u64>,
}

/// About the longest that a sleeping thread takes to wake up on an idle CPU of a virtual machine; a request that is due
/// meanwhile would leave so much too late.
pub const SPIN_BEFORE_DUE_NS: u64 = 50_000;

fn one() -> u32 {
    1
}

/// The specification cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("{what} is {value}, must be {least} to {most}")]
    OutOfRange { what: &'static str, value: u64, least: u64, most: u64 },
    #[error("{threads} threads for {connections} connections: a thread needs at least one connection")]
    IdleThreads { threads: u32, connections: u32 },
    #[error("the blocking engine drives one connection per thread, but there are {connections} for {threads} threads")]
    TooManyForBlocking { connections: u32, threads: u32 },
    #[error("the open loop needs the epoll engine; the blocking one cannot send while it waits for a reply")]
    BlockingOpenLoop,
    #[error("the blocking engine leaves waiting to the kernel and cannot spin; use epoll")]
    BlockingSpin,
    #[error("the rate is {0} requests per second, must be 0.001 to 100,000,000")]
    Rate(f64),
    #[error("{depth} requests in a pipeline: {why}")]
    Pipeline { depth: u32, why: &'static str },
    #[error("{requests} requests for each connection: {why}")]
    Unit { requests: u32, why: &'static str },
    #[error("the request target `{0}` does not begin with `/`")]
    Target(String),
    #[error("{what} `{text}` contains a line break or another character that HTTP does not allow there")]
    HeaderInjection { what: &'static str, text: String },
    #[error("{0} contains a NUL byte, which PostgreSQL does not allow")]
    Nul(&'static str),
    #[error("a simple query has no parameters (use the mode `extended` or `prepared`)")]
    SimpleWithParameters,
    #[error("the channel binding that is required needs TLS (`sslmode=require`)")]
    BindingWithoutTls,
    #[error("the status {0} to be expected is not one of a final reply (200 to 599)")]
    Status(u16),
}

impl Spec {
    /// One kept connection in a closed loop, every option at its default.
    #[must_use]
    pub fn new(endpoint: Endpoint, protocol: Protocol) -> Self {
        Self {
            endpoint,
            protocol,
            socket: SocketOptions::default(),
            reuse: Reuse::default(),
            model: Model::default(),
            engine: Engine::default(),
            connections: one(),
            threads: one(),
            pipeline: one(),
            requests_per_connection: one(),
            timeouts: Timeouts::default(),
            spin_ns: None,
        }
    }

    /// Checks everything that can be known without opening a socket.
    ///
    /// # Errors
    /// The first value that cannot be carried out, with its range.
    pub fn validate(&self) -> Result<(), SpecError> {
        within("connections", self.connections.into(), 1, 65_535)?;
        within("threads", self.threads.into(), 1, 1_024)?;
        within("connect timeout in nanoseconds", self.timeouts.connect_ns, 1_000, u64::MAX / 4)?;
        within("request timeout in nanoseconds", self.timeouts.request_ns, 1_000, u64::MAX / 4)?;
        let Self { connections, threads, .. } = *self;
        if threads > connections {
            return Err(SpecError::IdleThreads { threads, connections });
        }
        within("spin in nanoseconds", self.spin_ns.unwrap_or(0), 0, 1_000_000_000)?;
        if self.engine == Engine::Blocking && self.spins() {
            return Err(SpecError::BlockingSpin);
        }
        if self.engine == Engine::Blocking && connections != threads {
            return Err(SpecError::TooManyForBlocking { connections, threads });
        }
        self.validate_model()?;
        self.validate_pipeline()?;
        self.validate_unit()?;
        match &self.protocol {
            Protocol::Hello(hello) => within("length of the expected text", hello.expect.len() as u64, 1, 1 << 20),
            Protocol::Echo(echo) => within("size of a message", echo.size.into(), 8, 16 << 20),
            Protocol::Stream(stream) => within("size of a transfer", stream.size, 1, 1 << 30)
                .and_then(|()| within("chunk of a transfer", stream.chunk.into(), 1, 16 << 20)),
            Protocol::Http(http) => http.validate(),
            Protocol::Redis(redis) => within("number of words of the command", redis.command.len() as u64, 1, 1 << 20),
            Protocol::Postgres(postgres) => postgres.validate(self.endpoint.tls.is_some()),
        }
    }
}

impl Spec {
    fn validate_model(&self) -> Result<(), SpecError> {
        let Model::Open(open) = self.model else { return Ok(()) };
        if self.engine == Engine::Blocking {
            return Err(SpecError::BlockingOpenLoop);
        }
        if (0.001..=1e8).contains(&open.rate) { Ok(()) } else { Err(SpecError::Rate(open.rate)) }
    }

    /// Whether a worker is to wait awake, beyond what an open loop does by itself.
    #[must_use]
    pub fn spins(&self) -> bool {
        self.spin_ns.is_some_and(|spin| spin > 0)
    }

    fn validate_unit(&self) -> Result<(), SpecError> {
        let requests = self.requests_per_connection;
        within("requests for each connection", requests.into(), 1, 10_000_000)?;
        let refuse = |why| Err(SpecError::Unit { requests, why });
        match &self.protocol {
            _ if requests == 1 => Ok(()),
            _ if self.reuse == Reuse::KeepAlive => refuse("kept connections are not closed after a number of requests"),
            _ if self.model != Model::Closed => refuse("an open loop releases requests one by one"),
            Protocol::Hello(_) => refuse("the server closes after its first word"),
            _ => Ok(()),
        }
    }

    fn validate_pipeline(&self) -> Result<(), SpecError> {
        within("depth of the pipeline", self.pipeline.into(), 1, 1024)?;
        let depth = self.pipeline;
        let refuse = |why| Err(SpecError::Pipeline { depth, why });
        if depth == 1 {
            return Ok(());
        }
        if self.reuse == Reuse::PerRequest {
            return refuse("a connection for each request has room for one only");
        }
        if self.model != Model::Closed {
            return refuse("an open loop releases requests one by one");
        }
        match &self.protocol {
            Protocol::Hello(_) => refuse("the server closes after its first word"),
            Protocol::Stream(_) => refuse("transfers follow each other"),
            Protocol::Http(http) if http.version == HttpVersion::V10 => refuse("HTTP/1.0 knows no pipelining"),
            Protocol::Echo(echo) => within("bytes of a pipeline", u64::from(echo.size) * u64::from(depth), 1, 64 << 20),
            Protocol::Http(_) | Protocol::Redis(_) | Protocol::Postgres(_) => Ok(()),
        }
    }
}

impl Postgres {
    fn validate(&self, encrypted: bool) -> Result<(), SpecError> {
        if self.channel_binding == ChannelBinding::Require && !encrypted {
            return Err(SpecError::BindingWithoutTls);
        }
        for (what, text) in [("the user", &self.user), ("the database", &self.database), ("the query", &self.query)] {
            if text.contains('\0') {
                return Err(SpecError::Nul(what));
            }
        }
        within("number of parameters", self.parameters.len() as u64, 0, 32_767)?;
        if self.mode == QueryMode::Simple && !self.parameters.is_empty() {
            return Err(SpecError::SimpleWithParameters);
        }
        Ok(())
    }
}

impl Http {
    fn validate(&self) -> Result<(), SpecError> {
        let plain = |text: &str| text.bytes().all(|byte| byte > b' ' && byte != 127);
        let bad = |what, text: &str| Err(SpecError::HeaderInjection { what, text: text.escape_debug().to_string() });
        if !self.path.starts_with('/') {
            return Err(SpecError::Target(self.path.clone()));
        }
        if !plain(&self.path) {
            return bad("the request target", &self.path);
        }
        if !plain(&self.method) || self.method.is_empty() {
            return bad("the method", &self.method);
        }
        let host = ("Host", self.host.as_str());
        for (name, value) in self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([host]) {
            if !plain(name) || name.is_empty() || name.contains(':') {
                return bad("the header name", name);
            }
            if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return bad("the header value", value);
            }
        }
        if (200..600).contains(&self.expect.status) { Ok(()) } else { Err(SpecError::Status(self.expect.status)) }
    }
}

fn within(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), SpecError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(SpecError::OutOfRange { what, value, least, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first version of the wire protocol wrote it: later fields have defaults.
    const OLD: &str = r#"{"endpoint": {"address": {"unix": "/s"}}, "protocol": {"echo": {"size": 64}}}"#;

    fn spec() -> Spec {
        serde_json::from_str(OLD).unwrap()
    }

    #[test]
    fn an_old_specification_is_still_understood() {
        let spec = spec();
        assert_eq!((spec.connections, spec.threads, spec.pipeline), (1, 1, 1));
        assert_eq!(spec.requests_per_connection, 1);
        assert_eq!((spec.reuse, spec.model, spec.engine), (Reuse::KeepAlive, Model::Closed, Engine::Auto));
        spec.validate().unwrap();
        assert_eq!(spec, Spec::new(spec.endpoint.clone(), spec.protocol.clone()));
        let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }

    #[test]
    fn the_open_loop_is_written_plainly() {
        let model: Model = serde_json::from_str(r#"{"open": {"rate": 500, "arrivals": "poisson"}}"#).unwrap();
        assert_eq!(model, Model::Open(OpenLoop { rate: 500.0, arrivals: Arrivals::Poisson, seed: 0 }));
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        let open = Model::Open(OpenLoop { rate: f64::NAN, arrivals: Arrivals::Constant, seed: 0 });
        let header = |value: &str| {
            Protocol::Http(Http {
                method: "GET".into(),
                path: "/".into(),
                host: "h".into(),
                headers: vec![("A".into(), value.into())],
                body: String::new(),
                version: HttpVersion::V11,
                expect: HttpExpect { status: 200, body: None, contains: vec![], length: None },
            })
        };
        let base = spec();
        for (spec, text) in [
            (Spec { connections: 0, ..base.clone() }, "connections is 0, must be 1 to 65535"),
            (Spec { threads: 2, ..base.clone() }, "2 threads for 1 connections"),
            (Spec { engine: Engine::Blocking, connections: 2, ..base.clone() }, "the blocking engine drives one"),
            (Spec { protocol: Protocol::Echo(Echo { size: 7 }), ..base.clone() }, "size of a message is 7, must be 8"),
            (Spec { model: open, ..base.clone() }, "the rate is NaN"),
            (Spec { engine: Engine::Blocking, spin_ns: Some(1), ..base.clone() }, "the blocking engine leaves waiting"),
            (Spec { spin_ns: Some(2_000_000_000), ..base.clone() }, "spin in nanoseconds is 2000000000"),
            (Spec { pipeline: 4, reuse: Reuse::PerRequest, ..base.clone() }, "4 requests in a pipeline"),
            (Spec { requests_per_connection: 0, ..base.clone() }, "requests for each connection is 0, must be 1"),
            (Spec { requests_per_connection: 2, ..base.clone() }, "2 requests for each connection: kept connections"),
            (Spec { protocol: header("x\r\nB: c"), ..base }, "the header value"),
        ] {
            let error = spec.validate().unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
