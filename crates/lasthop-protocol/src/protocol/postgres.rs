//! PostgreSQL's protocol, version 3: authentication, then one query over and over, in the simple or the extended form.

use std::{io, path::PathBuf, rc::Rc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    channel,
    check::{BodyCheck, Expected, contrast},
    exact::Exact,
    exchange::{Done, Exchange, Factory, Greeting, Progress, Run, excerpt},
    kind::{self, LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Trait, Usage},
    scram::{self, ScramError},
    verified::Verified,
};
use crate::{
    address::{Address, Endpoint},
    failure::Failure,
    location::{Location, UrlError, credentials, decode, pairs, port_number, resolve, split_port},
    options::{SpecError, within},
    result::ErrorClass,
    tls_request::TlsRequest,
};

pub static KIND: ProtocolKind = ProtocolKind {
    name: "postgres",
    title: "PostgreSQL",
    own: false,
    schemes: &["postgres", "postgresql"],
    from_url,
    urls: &[
        (
            "postgres://user@127.0.0.1/db",
            "PostgreSQL; ?sslmode=require for TLS, then\nchannel_binding=disable|prefer|require as in libpq",
        ),
        ("postgres:///db?host=/run/postgresql&user=me", "PostgreSQL over the socket in a directory"),
    ],
    password_variable: Some("PGPASSWORD"),
    read: kind::read::<Postgres>,
    schema: kind::schema::<Postgres>,
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), UrlError> {
    if location.is_socket || location.is_secure {
        let text =
            "a PostgreSQL URL names the folder of its socket by `?host=/…`, and asks for TLS by `?sslmode=require`";
        return Err(UrlError::Protocol(text.to_owned()));
    }
    let (host, rest) = location.authority();
    let (mut user, mut password, host) = credentials(host)?;
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if path.contains('@') {
        return Err(UrlError::Unencoded);
    }
    let (name, port) = split_port(host)?;
    let (mut host, mut port, mut location) = (name.to_owned(), port.unwrap_or(5432), *location);
    let mut channel_binding = ChannelBinding::default();
    for (key, value) in pairs(parameters)? {
        match key {
            "host" => host = value,
            "port" => port = port_number(&value)?,
            "user" => user = Some(value),
            "password" => password = Some(value),
            "sslmode" => location.is_secure = ssl_mode(&value)?,
            "channel_binding" => channel_binding = binding(&value)?,
            _ => {
                let known = "host, port, user, password, sslmode, channel_binding";
                return Err(UrlError::Parameter { given: key.to_owned(), known });
            }
        }
    }
    let user = user.ok_or_else(|| wrong("the user is missing (write `postgres://user@…` or `?user=…`)"))?;
    let address = if host.starts_with('/') {
        Address::Unix(PathBuf::from(&host).join(format!(".s.PGSQL.{port}")))
    } else if host.is_empty() {
        return Err(UrlError::NoPort(host));
    } else {
        Address::Tcp(resolve(&host, port)?)
    };
    let database = decode(path.trim_start_matches('/'))?;
    let postgres = Postgres {
        database: if database.is_empty() { user.clone() } else { database },
        user,
        password,
        query: "select 1".to_owned(),
        mode: QueryMode::Simple,
        parameters: Vec::new(),
        expect: PostgresExpect { rows: Some(1), first: Some("1".to_owned()), ..PostgresExpect::default() },
        channel_binding,
    };
    Ok((Endpoint { address, tls: location.tls(&host) }, postgres.into()))
}

/// Whether TLS is used. `prefer` and `allow` are refused: they would leave open what is measured.
fn ssl_mode(word: &str) -> Result<bool, UrlError> {
    match word {
        "disable" => Ok(false),
        "require" | "verify-ca" | "verify-full" => Ok(true),
        _ => Err(wrong(format!(
            "sslmode `{word}` is not one of `disable`, `require`, `verify-ca` and `verify-full` (all but the first verify)"
        ))),
    }
}

fn binding(word: &str) -> Result<ChannelBinding, UrlError> {
    match word {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => Err(wrong(format!("channel_binding `{word}` is not one of `disable`, `prefer` and `require`"))),
    }
}

fn wrong(text: impl Into<String>) -> UrlError {
    UrlError::Protocol(text.into())
}

/// PostgreSQL: one query over and over. With `reuse = "per-request"` each query has a connection of its own, and a request
/// is all of it: connect, TLS, authentication, query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// Role that clients are.
    pub user: String,
    /// Database that they connect to.
    pub database: String,
    /// Used if the server asks for one. Trust, cleartext, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS are understood, as the server asks for them.
    #[serde(default)]
    pub password: Option<String>,
    /// One statement.
    pub query: String,
    /// How it is sent; `simple` where it is missing.
    #[serde(default)]
    pub mode: QueryMode,
    /// Values of `$1`, `$2`, … as text; not with simple queries.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// What a right result is.
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

/// How a query is sent.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresExpect {
    /// Number of rows.
    pub rows: Option<u64>,
    /// First column of the first row, as text.
    pub first: Option<String>,
    /// Whether the first column of the first row is NULL. `first` is then missing.
    #[serde(skip_serializing_if = "kind::is_false")]
    pub null: bool,
    /// The command tag, for example `SELECT 1`.
    pub tag: Option<String>,
    /// All messages of the reply but notices, parameters and notifications, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Exact>,
}

impl PostgresExpect {
    /// Whether the first value counts by itself.
    fn reads_first(&self) -> bool {
        self.first.is_some() || self.null
    }

    /// What is expected besides all of it, in words.
    fn parts(&self) -> Vec<String> {
        let Self { rows, first, null, tag, .. } = self;
        let mut parts = Vec::new();
        parts.extend(rows.map(|rows| if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }));
        parts.extend(first.as_ref().map(|text| format!("the first column `{text}`")));
        parts.extend(null.then(|| "NULL in the first column".to_owned()));
        parts.extend(tag.as_ref().map(|tag| format!("the tag `{tag}`")));
        parts
    }
}

impl ProtocolSpec for Postgres {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), SpecError> {
        if self.channel_binding == ChannelBinding::Require && !usage.encrypted {
            return Err(SpecError::protocol("the channel binding that is required needs TLS (`sslmode=require`)"));
        }
        for (what, text) in [("the user", &self.user), ("the database", &self.database), ("the query", &self.query)] {
            if text.contains('\0') {
                return Err(SpecError::protocol(format!(
                    "{what} contains a NUL byte, which PostgreSQL does not allow"
                )));
            }
        }
        within("number of parameters", self.parameters.len() as u64, 0, 32_767)?;
        if self.mode == QueryMode::Simple && !self.parameters.is_empty() {
            return Err(SpecError::protocol(
                "a simple query has no parameters (use the mode `extended` or `prepared`)",
            ));
        }
        Ok(())
    }
    fn factory(&self, usage: Usage) -> io::Result<Factory> {
        let shared = Shared::new(self, usage.pipeline)?;
        Ok(Factory::new(move || PostgresExchange::new(shared.clone())))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let mut parts = self.expect.parts();
        parts.extend(self.expect.reply.as_ref().map(|reply| format!("all {} byte for byte", size(reply.length()))));
        if parts.is_empty() { "no error".to_owned() } else { parts.join(", ") }
    }

    fn learn(&mut self, first: &[u8], second: &[u8]) -> Result<Option<String>, Failure> {
        let [one, two] = [first, second].map(result);
        let same = first_value(first) == first_value(second);
        self.expect = PostgresExpect {
            rows: one.rows.filter(|_| one.rows == two.rows),
            tag: one.tag.filter(|tag| two.tag.as_ref() == Some(tag)),
            first: one.first.filter(|_| same),
            null: one.null && same,
            reply: None,
        };
        let [first, second] = [first, second].map(without_notices);
        if first == second {
            self.expect.reply = Some(Exact::of(&first));
            return Ok(None);
        }
        let (checked, (at, _)) = (self.expect.parts(), contrast(&first, &second));
        let checked = if checked.is_empty() { "no error".to_owned() } else { checked.join(", ") };
        Ok(Some(format!("only this is checked: {checked}; the first two replies differ at byte {at}")))
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), SpecError> {
        if let Some(query) = options.query.take() {
            self.query = query;
            self.expect = PostgresExpect::default();
        }
        if let Some(value) = options.expect.take() {
            self.expect.first = Some(value);
        }
        self.parameters = std::mem::take(&mut options.parameters);
        self.mode = match options.mode.take() {
            Some("extended") => QueryMode::Extended,
            Some("prepared") => QueryMode::Prepared,
            _ => QueryMode::Simple,
        };
        Ok(())
    }

    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        Ok(vec![("reply", without_notices(reply))])
    }

    fn password(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.password)
    }

    fn greets(&self) -> bool {
        true
    }

    fn tls_request(&self) -> Option<TlsRequest> {
        Some(TlsRequest { request: &TLS_REQUEST, server_first: false, missing: tls_answer, granted: &[TLS_GRANTED] })
    }

    fn let_anybody_in(&mut self) {
        self.password = None;
        self.channel_binding = ChannelBinding::Disable;
    }

    fn welcome(&self, step: usize, _: bool) -> Vec<u8> {
        if step == 0 { WELCOME.to_vec() } else { PARSED.to_vec() }
    }

    /// A connection string of libpq, without the password. A Unix socket is known by its directory and the port in its name; TLS is always
    /// verified where an authority is given.
    fn data_source(&self, endpoint: &Endpoint) -> String {
        let mut words = match &endpoint.address {
            Address::Tcp(address) => {
                let name =
                    endpoint.tls.as_ref().map_or_else(|| address.ip().to_string(), |tls| tls.server_name.clone());
                vec![("host", name), ("hostaddr", address.ip().to_string()), ("port", address.port().to_string())]
            }
            Address::Unix(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let port =
                    name.rsplit('.').next().filter(|port| port.parse::<u16>().is_ok()).unwrap_or("5432").to_owned();
                let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
                vec![("host", folder), ("port", port)]
            }
            named => vec![("host", format!("@{}", named.bare()))],
        };
        words.extend([("user", self.user.clone()), ("dbname", self.database.clone())]);
        match endpoint.tls.as_ref().map(|tls| tls.authority.as_ref()) {
            Some(Some(authority)) => {
                words.extend([("sslmode", "verify-full".to_owned()), ("sslrootcert", authority.display().to_string())]);
            }
            Some(None) => words.push(("sslmode", "require".to_owned())),
            None => words.push(("sslmode", "disable".to_owned())),
        }
        words.push(("gssencmode", "disable".to_owned()));
        match self.channel_binding {
            // libpq's own default.
            ChannelBinding::Prefer => {}
            ChannelBinding::Disable => words.push(("channel_binding", "disable".to_owned())),
            ChannelBinding::Require => words.push(("channel_binding", "require".to_owned())),
        }
        words.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join(" ")
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Rows, first column of the first row and command tag of a whole reply.
fn result(reply: &[u8]) -> PostgresExpect {
    let rows = messages(reply).filter(|(kind, _)| *kind == b'D').count() as u64;
    let tag = messages(reply).filter(|(kind, _)| *kind == b'C').last().map(|(_, message)| &message[HEAD..]);
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let first = first_value(reply);
    PostgresExpect {
        rows: Some(rows),
        tag: tag.and_then(|tag| text(tag.strip_suffix(&[0]).unwrap_or(tag))),
        null: first == Some(None),
        first: first.flatten().filter(|first| first.len() <= FIRST_MAX).and_then(text),
        reply: None,
    }
}

/// The first column of the first row, which may be NULL; `None` if there is none.
fn first_value(reply: &[u8]) -> Option<Option<&[u8]>> {
    first_column(messages(reply).find(|(kind, _)| *kind == b'D')?.1.get(HEAD..)?)
}

/// What the server sends whenever it likes: notices, parameters, notifications.
fn is_notice(kind: u8) -> bool {
    matches!(kind, b'N' | b'S' | b'A')
}

fn without_notices(reply: &[u8]) -> Vec<u8> {
    messages(reply).filter(|(kind, _)| !is_notice(*kind)).flat_map(|(_, message)| message).copied().collect()
}

/// Type and length of a message.
const HEAD: usize = 5;
/// Longest first column that is expected by itself: of a longer one a message shows too little.
const FIRST_MAX: usize = 1_000;

/// The messages of a whole reply, each with its type.
fn messages(mut reply: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, message, rest) = next_message(reply)?;
        reply = rest;
        Some((kind, message))
    })
}

/// The message that `bytes` begin with, its type, and what follows it.
fn next_message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    let (message, rest) = bytes.split_at_checked(1 + length.max(HEAD - 1))?;
    Some((*kind, message, rest))
}

/// Number of columns in two bytes, the first one's length in four (−1 is NULL), then its text.
fn first_column(row: &[u8]) -> Option<Option<&[u8]>> {
    match i32::from_be_bytes(*row.get(2..)?.first_chunk()?) {
        -1 => Some(None),
        length => row.get(6..)?.get(..usize::try_from(length).ok()?).map(Some),
    }
}

/// PostgreSQL lets anybody in (AuthenticationOk) and is ready (ReadyForQuery, idle).
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// ParseComplete, and ready again.
const PARSED: &[u8] = b"1\0\0\0\x04Z\0\0\0\x05I";

/// Most bytes of a message that is kept to be understood: authentication, errors, the first row.
const KEPT_MAX: usize = 64 * 1024;
/// Most bytes of one message, as the server itself has it.
const MESSAGE_MAX: u32 = 1 << 30;
/// Name of the statement that the mode `prepared` prepares.
const STATEMENT: &str = "lasthop";

/// Of the protocol: 3.0.
const VERSION: [u8; 4] = [0, 3, 0, 0];
/// The request for TLS that precedes the handshake, and the byte that grants it.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
pub const TLS_GRANTED: u8 = b'S';

/// One byte is the whole answer.
fn tls_answer(heard: &[u8]) -> Result<usize, Failure> {
    match heard.first() {
        None => Ok(1),
        Some(&TLS_GRANTED) => Ok(0),
        Some(_) => Err(Failure::new(ErrorClass::Tls, "the server does not offer TLS on this socket")),
    }
}

/// What all connections of a thread have in common.
#[derive(Clone)]
pub struct Shared {
    common: Rc<Common>,
    verified: Verified,
}

struct Common {
    spec: Postgres,
    reply: Expected,
    request: Vec<u8>,
    startup: Vec<u8>,
    /// Prepares the statement after the authentication; empty in other modes.
    prepare: Vec<u8>,
}

impl Shared {
    /// Errors: a text contains a NUL byte, or the query is too long.
    pub fn new(spec: &Postgres, pipeline: u32) -> io::Result<Self> {
        let mut prepare = Vec::new();
        if spec.mode == QueryMode::Prepared {
            prepare.extend(parse(STATEMENT, &spec.query)?);
            prepare.extend(message(b'S', &[])?);
        }
        let common = Common {
            spec: spec.clone(),
            reply: Expected { what: "reply", body: spec.expect.reply.clone(), ..Expected::default() },
            request: encode(spec)?.repeat(pipeline as usize),
            startup: startup(spec)?,
            prepare,
        };
        Ok(Self { common: Rc::new(common), verified: Verified::new(pipeline) })
    }
}

/// The first message, the only one without a type.
fn startup(spec: &Postgres) -> io::Result<Vec<u8>> {
    let parameters = [
        ("user", spec.user.as_str()),
        ("database", spec.database.as_str()),
        ("application_name", "lasthop"),
        ("client_encoding", "UTF8"),
    ];
    let mut body = VERSION.to_vec();
    for (name, value) in parameters {
        body.extend(text(name)?);
        body.extend(text(value)?);
    }
    body.push(0);
    framed(&body)
}

/// The messages of one request.
fn encode(spec: &Postgres) -> io::Result<Vec<u8>> {
    let (parse, statement) = match spec.mode {
        QueryMode::Simple => return message(b'Q', &text(&spec.query)?),
        QueryMode::Extended => (parse("", &spec.query)?, ""),
        QueryMode::Prepared => (Vec::new(), STATEMENT),
    };
    // The portal without a name, all of its rows.
    let execute = message(b'E', &[0; 5])?;
    Ok([parse, bind(statement, &spec.parameters)?, execute, message(b'S', &[])?].concat())
}

/// A statement whose parameters have the types that the server finds for them.
fn parse(statement: &str, query: &str) -> io::Result<Vec<u8>> {
    message(b'P', &[text(statement)?, text(query)?, vec![0, 0]].concat())
}

/// Binds the portal without a name. Parameters and results as text.
fn bind(statement: &str, parameters: &[String]) -> io::Result<Vec<u8>> {
    let too_many = |_| io::Error::other("the query has more than 65,535 parameters");
    let count = u16::try_from(parameters.len()).map_err(too_many)?;
    let mut body = [text("")?, text(statement)?, vec![0, 0], count.to_be_bytes().to_vec()].concat();
    for parameter in parameters {
        body.extend(length(parameter.len())?);
        body.extend_from_slice(parameter.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

fn message(kind: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    Ok([&[kind], &framed(body)?[..]].concat())
}

/// A body behind its length, which counts itself.
fn framed(body: &[u8]) -> io::Result<Vec<u8>> {
    Ok([&length(body.len() + 4)?, body].concat())
}

fn length(bytes: usize) -> io::Result<[u8; 4]> {
    i32::try_from(bytes).map(i32::to_be_bytes).map_err(|_| io::Error::other("a message is longer than 2 GiB"))
}

fn text(text: &str) -> io::Result<Vec<u8>> {
    if text.contains('\0') {
        return Err(io::Error::other("a text contains a NUL byte"));
    }
    Ok([text.as_bytes(), &[0]].concat())
}

/// Cuts the stream into messages. Of each it keeps what fits into [`KEPT_MAX`], if it is to be kept at all.
#[derive(Default)]
struct Framer {
    header: [u8; 5],
    header_filled: usize,
    /// Bytes of the body that are still to come.
    left: usize,
    body: Vec<u8>,
    keep: bool,
}

impl Framer {
    fn reset(&mut self) {
        self.header_filled = 0;
        self.left = 0;
        self.body.clear();
    }

    fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Takes bytes; returns how many were used, and whether a message is whole. `keep` says whose body is kept.
    fn feed(&mut self, bytes: &[u8], keep: impl Fn(u8) -> bool) -> Result<(usize, bool), Failure> {
        let mut at = 0;
        if self.header_filled < self.header.len() {
            at = bytes.len().min(self.header.len() - self.header_filled);
            self.header[self.header_filled..self.header_filled + at].copy_from_slice(&bytes[..at]);
            self.header_filled += at;
            if self.header_filled < self.header.len() {
                return Ok((at, false));
            }
            self.left = self.body_length()?;
            self.keep = keep(self.kind());
            self.body.clear();
        }
        let take = (bytes.len() - at).min(self.left);
        if self.keep {
            let room = KEPT_MAX.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[at..at + take.min(room)]);
        }
        self.left -= take;
        let whole = self.left == 0;
        if whole {
            self.header_filled = 0;
        }
        Ok((at + take, whole))
    }

    fn body_length(&self) -> Result<usize, Failure> {
        let [kind, length @ ..] = self.header;
        let length = u32::from_be_bytes(length);
        if !kind.is_ascii_alphanumeric() || !(4..=MESSAGE_MAX).contains(&length) {
            let text = format!("{} is not the begin of a PostgreSQL message", excerpt(&self.header));
            return Err(Failure::protocol(text));
        }
        Ok(length as usize - 4)
    }
}

/// Where the greeting stands.
enum Stage {
    Start,
    Authentication,
    /// SCRAM has begun; `bound` to the TLS connection or not.
    Scram {
        first: scram::First,
        bound: bool,
    },
    /// The server has our proof.
    Proven {
        last: scram::Last,
        bound: bool,
    },
    /// Authenticated; the server's settings follow until it is ready.
    Settings,
    Preparing,
    Over,
}

pub struct PostgresExchange {
    shared: Shared,
    framer: Framer,
    stage: Stage,
    /// The server's certificate where the stream is encrypted, until the greeting is over.
    certificate: Option<Vec<u8>>,
    /// Whether the server has proven to know the password on this very TLS connection.
    bound: bool,
    /// Whether the server has asked for a password, in whatever form.
    asked: bool,
    begun: bool,
    received: u64,
    rows: u64,
    reply: BodyCheck,
    fault: Option<Box<Failure>>,
}

impl PostgresExchange {
    pub fn new(shared: Shared) -> Self {
        Self {
            shared,
            framer: Framer::default(),
            stage: Stage::Start,
            certificate: None,
            bound: false,
            asked: false,
            begun: false,
            received: 0,
            rows: 0,
            reply: BodyCheck::default(),
            fault: None,
        }
    }

    /// Acts on a whole message of the greeting; true when the connection is ready.
    fn welcome(&mut self, output: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.framer.kind() {
            b'E' => Err(server_error("authentication", &self.framer.body)),
            b'R' => self.authenticate(output).map(|()| false),
            b'Z' if matches!(self.stage, Stage::Settings) && !self.shared.common.prepare.is_empty() => {
                output.extend_from_slice(&self.shared.common.prepare);
                self.stage = Stage::Preparing;
                Ok(false)
            }
            b'Z' if matches!(self.stage, Stage::Settings | Stage::Preparing) => {
                self.stage = Stage::Over;
                self.certificate = None;
                Ok(true)
            }
            // Settings, cancellation key, notices, protocol negotiation, parse complete.
            b'S' | b'K' | b'N' | b'v' | b'1' => Ok(false),
            other => Err(unexpected(other)),
        }
    }

    fn authenticate(&mut self, output: &mut Vec<u8>) -> Result<(), Failure> {
        let body = std::mem::take(&mut self.framer.body);
        let Some((code, rest)) = body.split_first_chunk::<4>() else {
            return Err(Failure::protocol("the authentication message is too short"));
        };
        let spec = &self.shared.common.spec;
        let code = i32::from_be_bytes(*code);
        self.asked |= code != 0;
        match (code, rest) {
            (0, _) => {
                if spec.channel_binding == ChannelBinding::Require && !self.bound {
                    return Err(unbound("the server let us in without it"));
                }
                self.stage = Stage::Settings;
            }
            // Passwords are not said to a server that is not who it should be.
            (3 | 5, _) if spec.channel_binding == ChannelBinding::Require => {
                return Err(unbound("the server asks for a method that knows none"));
            }
            (3, _) => say_password(password(spec)?, output)?,
            (5, &[a, b, c, d]) => {
                say_password(&md5_proof(&spec.user, password(spec)?, [a, b, c, d]), output)?;
            }
            (10, mechanisms) => {
                let (name, binding) = self.mechanism(mechanisms)?;
                let bound = name == scram::SHA_256_PLUS;
                let first = scram::First::new(password(spec)?, binding).map_err(refused)?;
                say(initial_response(name, &first.message()), output)?;
                self.stage = Stage::Scram { first, bound };
            }
            (11, data) => {
                let stage = std::mem::replace(&mut self.stage, Stage::Authentication);
                let Stage::Scram { first, bound } = stage else { return Err(unexpected(b'R')) };
                let last = first.answer(data).map_err(refused)?;
                say(message(b'p', last.message().as_bytes()), output)?;
                self.stage = Stage::Proven { last, bound };
            }
            (12, data) => {
                let Stage::Proven { last, bound } = &self.stage else { return Err(unexpected(b'R')) };
                last.confirm(data).map_err(refused)?;
                self.bound = *bound;
                self.stage = Stage::Authentication;
            }
            (method, _) => {
                let text = format!("authentication: the server asks for method {method}, which is not supported");
                return Err(Failure::protocol(text));
            }
        }
        Ok(())
    }

    /// The mechanism of those that the server offers, and what it says of the channel: libpq's choice (RFC 5802, section 6).
    /// That we could bind is said to a server that does not offer to, so that nobody in between can take its offer away.
    fn mechanism(&self, offered: &[u8]) -> Result<(&'static str, scram::Binding), Failure> {
        let wanted = self.shared.common.spec.channel_binding;
        let offers = |wanted: &str| offered.split(|byte| *byte == 0).any(|name| name == wanted.as_bytes());
        let certificate = self.certificate.as_deref().filter(|_| wanted != ChannelBinding::Disable);
        let end_point = certificate.and_then(channel::server_end_point);
        match end_point {
            Some(digest) if offers(scram::SHA_256_PLUS) => Ok((scram::SHA_256_PLUS, scram::Binding::EndPoint(digest))),
            None if wanted == ChannelBinding::Require => {
                Err(unbound("the signature of the server's certificate has no digest for it"))
            }
            _ if wanted == ChannelBinding::Require => Err(unbound("the server does not offer it")),
            _ if !offers(scram::SHA_256) => Err(Failure::protocol("the server offers no SCRAM-SHA-256")),
            Some(_) => Ok((scram::SHA_256, scram::Binding::NotOffered)),
            None => Ok((scram::SHA_256, scram::Binding::Unsupported)),
        }
    }

    /// Acts on a whole message of a reply; true at its end.
    fn take(&mut self) -> Result<bool, Failure> {
        let kind = self.framer.kind();
        match kind {
            b'D' => {
                if self.rows == 0 {
                    self.check_first();
                }
                self.rows += 1;
            }
            b'E' => {
                let error = server_error("query", &self.framer.body);
                self.fault.get_or_insert_with(|| Box::new(error));
            }
            b'C' => self.check_tag(),
            b'Z' => return Ok(true),
            // Descriptions, notices, settings, notifications, and the extended form's steps.
            b'T' | b'N' | b'S' | b'A' | b'1' | b'2' | b'3' | b'n' | b't' | b's' | b'I' => {}
            other => return Err(unexpected(other)),
        }
        Ok(false)
    }

    /// The first column of the first row.
    fn check_first(&mut self) {
        let expect = &self.shared.common.spec.expect;
        let want = match (&expect.first, expect.null) {
            (Some(text), _) => Some(text.as_bytes()),
            (None, true) => None,
            (None, false) => return,
        };
        let got = first_column(&self.framer.body);
        if got != Some(want) {
            let shown = |value: Option<&[u8]>| value.map_or("NULL".to_owned(), excerpt);
            let got = got.map_or("missing".to_owned(), shown);
            let text = format!("the first value is {got}, expected {}", shown(want));
            self.fault.get_or_insert_with(|| Box::new(Failure::content(text)));
        }
    }

    fn check_tag(&mut self) {
        let Some(want) = &self.shared.common.spec.expect.tag else { return };
        let got = self.framer.body.strip_suffix(&[0]).unwrap_or(&self.framer.body);
        if got != want.as_bytes() {
            let text = format!("the command tag is {}, expected {}", excerpt(got), excerpt(want.as_bytes()));
            self.fault.get_or_insert_with(|| Box::new(Failure::content(text)));
        }
    }

    fn done(&mut self, used: usize) -> Done {
        let expect = &self.shared.common.spec.expect;
        if let Some(rows) = expect.rows.filter(|rows| *rows != self.rows) {
            let text = format!("{} rows, expected {rows}", self.rows);
            self.fault.get_or_insert_with(|| Box::new(Failure::content(text)));
        } else if self.rows == 0 && expect.reads_first() {
            self.fault.get_or_insert_with(|| Box::new(Failure::content("no row, expected one")));
        }
        if self.fault.is_none() {
            self.fault = self.reply.finish(&self.shared.common.reply).err().map(Box::new);
        }
        Done { used, keep: true, payload: self.received, fault: self.fault.take() }
    }
}

impl Exchange for PostgresExchange {
    fn reset(&mut self) {
        self.stage = Stage::Start;
        self.certificate = None;
        self.bound = false;
        self.asked = false;
        self.begun = true;
        self.begin();
    }

    fn secured(&mut self, certificate: &[u8], _: &[u8]) {
        // Others have no use for it.
        self.certificate = self.shared.common.spec.password.is_some().then(|| certificate.to_vec());
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Greeting, Failure> {
        if matches!(self.stage, Stage::Start) {
            output.extend_from_slice(&self.shared.common.startup);
            self.stage = Stage::Authentication;
        }
        let mut at = 0;
        while at < input.len() {
            let (used, whole) = self.framer.feed(&input[at..], |_| true)?;
            at += used;
            if whole && self.welcome(output)? {
                let surplus = input.len() - at;
                return if surplus == 0 {
                    Ok(Greeting::Done)
                } else {
                    Err(Failure::protocol(format!("{surplus} bytes follow the server's readiness")))
                };
            }
        }
        Ok(Greeting::More)
    }

    fn password_asked(&self) -> Option<bool> {
        Some(self.asked)
    }

    fn begin(&mut self) {
        // A reply that was recognised left no trace.
        if !self.begun {
            return;
        }
        self.framer.reset();
        self.begun = false;
        self.received = 0;
        self.rows = 0;
        self.reply.reset();
        self.fault = None;
    }

    #[inline]
    fn request(&self) -> &[u8] {
        &self.shared.common.request
    }

    #[inline]
    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        self.shared.verified.recognise(bytes, most)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let fresh = !self.begun;
        self.begun = true;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let first_row = self.rows == 0 && self.shared.common.spec.expect.reads_first();
            let keep = |kind| matches!(kind, b'E' | b'C') || (kind == b'D' && first_row);
            let (used, whole) = self.framer.feed(rest, keep)?;
            at += used;
            self.received += used as u64;
            if !is_notice(self.framer.kind()) {
                self.reply.feed(&self.shared.common.reply, &rest[..used]);
            }
            if whole && self.take()? {
                let done = self.done(at);
                if fresh && done.fault.is_none() {
                    self.shared.verified.remember(&bytes[..at], done.payload);
                }
                return Ok(Progress::Done(done));
            }
        }
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        // A fatal error is the server's last word, and says more than the closed connection.
        let closed = || Failure::new(ErrorClass::Reset, format!("the peer closed after {} bytes", self.received));
        Err(self.fault.as_ref().map_or_else(closed, |fault| (**fault).clone()))
    }
}

fn password(spec: &Postgres) -> Result<&str, Failure> {
    let missing =
        || Failure::new(ErrorClass::WrongStatus, "authentication: the server wants a password, none is given");
    spec.password.as_deref().ok_or_else(missing)
}

fn say_password(password: &str, output: &mut Vec<u8>) -> Result<(), Failure> {
    say(text(password).and_then(|password| message(b'p', &password)), output)
}

fn say(message: io::Result<Vec<u8>>, output: &mut Vec<u8>) -> Result<(), Failure> {
    output.extend(message.map_err(|error| Failure::protocol(format!("authentication: {error}")))?);
    Ok(())
}

/// The first message of a SASL mechanism.
fn initial_response(mechanism: &str, data: &str) -> io::Result<Vec<u8>> {
    message(b'p', &[&text(mechanism)?, &length(data.len())?[..], data.as_bytes()].concat())
}

/// What a server that wants MD5 wants: not the password, but that we know it.
fn md5_proof(user: &str, password: &str, salt: [u8; 4]) -> String {
    let secret = format!("{:x}", md5::compute(format!("{password}{user}")));
    format!("md5{:x}", md5::compute([secret.as_bytes(), &salt].concat()))
}

fn refused(error: ScramError) -> Failure {
    Failure::new(ErrorClass::WrongStatus, format!("authentication: {error}"))
}

fn unbound(why: &str) -> Failure {
    Failure::new(ErrorClass::WrongStatus, format!("authentication: channel binding is required, but {why}"))
}

fn unexpected(kind: u8) -> Failure {
    Failure::protocol(format!("a message of type {} was not expected", excerpt(&[kind])))
}

/// An error of the server by its SQLSTATE and message.
fn server_error(during: &str, body: &[u8]) -> Failure {
    let field = |wanted: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        fields
            .find(|field| field.first() == Some(&wanted))
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    let state = field(b'C').unwrap_or_else(|| "unknown".to_owned());
    let message = field(b'M').unwrap_or_default();
    Failure::new(ErrorClass::WrongStatus, format!("{during}: SQLSTATE {state}: {message}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::exchange::testing::same_at_every_cut, *};

    fn exchange(expect: PostgresExpect) -> PostgresExchange {
        PostgresExchange::new(Shared::new(&load(expect), 1).unwrap())
    }

    fn load(expect: PostgresExpect) -> Postgres {
        Postgres {
            user: "u".into(),
            database: "d".into(),
            password: None,
            query: "select 1".into(),
            mode: QueryMode::Simple,
            parameters: vec![],
            expect,
            channel_binding: ChannelBinding::Prefer,
        }
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn row(value: &str) -> Vec<u8> {
        let length = (value.len() as u32).to_be_bytes();
        message(b'D', &[&[0, 1], &length[..], value.as_bytes()].concat())
    }

    fn reply(rows: &[&str]) -> Vec<u8> {
        let mut bytes = message(b'T', b"\0\x01?column?\0............");
        rows.iter().for_each(|value| bytes.extend(row(value)));
        bytes.extend(message(b'C', b"SELECT 1\0"));
        bytes.extend(message(b'Z', b"I"));
        bytes
    }

    fn outcome(expect: PostgresExpect, reply: &[u8]) -> Result<Option<ErrorClass>, ErrorClass> {
        let result = same_at_every_cut(&mut exchange(expect), reply);
        result.map(|done| done.2.map(|fault| fault.class)).map_err(|error| error.class)
    }

    fn expect(rows: u64, first: &str) -> PostgresExpect {
        PostgresExpect {
            rows: Some(rows),
            first: Some(first.into()),
            tag: Some("SELECT 1".into()),
            ..PostgresExpect::default()
        }
    }

    #[test]
    fn requests_are_messages_of_the_protocol() {
        let spec = |mode| Postgres { mode, parameters: vec!["7".into(), String::new()], ..load(expect(1, "1")) };
        let parse = b"P\0\0\0\x10\0select 1\0\0\0";
        let bind = b"B\0\0\0\x15\0\0\0\0\0\x02\0\0\0\x017\0\0\0\0\0\0";
        let end = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        let extended = [&parse[..], bind, end].concat();
        assert_eq!(encode(&spec(QueryMode::Simple)).unwrap(), b"Q\0\0\0\x0dselect 1\0");
        assert_eq!(encode(&spec(QueryMode::Extended)).unwrap(), extended);
        let prepared = Shared::new(&spec(QueryMode::Prepared), 2).unwrap().common;
        let bind = b"B\0\0\0\x1c\0lasthop\0\0\0\0\x02\0\0\0\x017\0\0\0\0\0\0";
        assert_eq!(prepared.prepare, b"P\0\0\0\x17lasthop\0select 1\0\0\0S\0\0\0\x04");
        assert_eq!(prepared.request, [&bind[..], end].concat().repeat(2));
        let startup = b"\0\0\0\x49\0\x03\0\0user\0u\0database\0d\0application_name\0lasthop\0client_encoding\0UTF8\0\0";
        assert_eq!(prepared.startup, startup);
        assert!(encode(&Postgres { query: "select '\0'".into(), ..load(expect(1, "1")) }).is_err());
    }

    #[test]
    fn a_password_is_said_as_the_server_asks() {
        let spec = Postgres { user: "md5_user".into(), password: Some("password".into()), ..load(expect(1, "1")) };
        let mut exchange = PostgresExchange::new(Shared::new(&spec, 1).unwrap());
        exchange.reset();
        exchange.greet(&[], &mut Vec::new()).unwrap();
        assert_eq!(said(&mut exchange, &authentication(3, &[])).unwrap(), b"password\0");
        let salted = said(&mut exchange, &authentication(5, &[0x2a, 0x3d, 0x8f, 0xe0])).unwrap();
        assert_eq!(salted, b"md562af4dd09bbb41884907a838a3233294\0");
    }

    #[test]
    fn rows_and_their_first_value_are_checked() {
        let wrong = Ok(Some(ErrorClass::WrongContent));
        assert_eq!(outcome(expect(1, "1"), &reply(&["1"])), Ok(None));
        assert_eq!(outcome(expect(3, "1"), &reply(&["1", "2", "3"])), Ok(None));
        assert_eq!(outcome(expect(1, "2"), &reply(&["1"])), wrong);
        assert_eq!(outcome(expect(2, "1"), &reply(&["1"])), wrong);
        assert_eq!(outcome(expect(0, "1"), &reply(&[])), wrong);
        let tag = PostgresExpect { tag: Some("SELECT 2".into()), ..PostgresExpect::default() };
        assert_eq!(outcome(tag, &reply(&["1"])), wrong);
    }

    #[test]
    fn an_error_is_told_by_its_state() {
        let mut bytes = message(b'E', b"SERROR\0C42703\0Mcolumn \"x\" does not exist\0\0");
        bytes.extend(message(b'Z', b"I"));
        let (_, keep, fault) = same_at_every_cut(&mut exchange(expect(1, "1")), &bytes).unwrap();
        assert!(keep);
        assert_eq!(fault.unwrap().message, "query: SQLSTATE 42703: column \"x\" does not exist");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(outcome(expect(1, "1"), b"HTTP/1.1 400 Bad"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(expect(1, "1"), &[b'D', 0, 0, 0, 3]), Err(ErrorClass::Protocol));
        assert_eq!(outcome(expect(1, "1"), &[b'D', 255, 255, 255, 255]), Err(ErrorClass::Protocol));
        assert_eq!(outcome(expect(1, "1"), &reply(&["1"])[..20]), Err(ErrorClass::Reset));
    }

    const PLAIN: &[u8] = b"SCRAM-SHA-256\0\0";
    const BOTH: &[u8] = b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const PASSWORD: &str = "pencil";

    fn authentication(code: i32, rest: &[u8]) -> Vec<u8> {
        message(b'R', &[&code.to_be_bytes()[..], rest].concat())
    }

    fn certificate() -> Vec<u8> {
        rcgen::generate_simple_self_signed(["lasthop.test".to_owned()]).unwrap().cert.der().to_vec()
    }

    /// A client that has said its first words, over a stream with this certificate.
    fn client(channel_binding: ChannelBinding, certificate: Option<&[u8]>) -> PostgresExchange {
        let spec = Postgres { channel_binding, password: Some(PASSWORD.into()), ..load(expect(1, "1")) };
        let mut exchange = PostgresExchange::new(Shared::new(&spec, 1).unwrap());
        exchange.reset();
        if let Some(certificate) = certificate {
            exchange.secured(certificate, &[]);
        }
        assert_eq!(exchange.greet(&[], &mut Vec::new()), Ok(Greeting::More));
        exchange
    }

    /// What the client answers, without the frame of its message.
    fn said(exchange: &mut PostgresExchange, input: &[u8]) -> Result<Vec<u8>, String> {
        let mut output = Vec::new();
        exchange.greet(input, &mut output).map_err(|failure| failure.message)?;
        Ok(output.get(5..).unwrap_or_default().to_vec())
    }

    #[test]
    fn the_channel_is_bound_where_both_sides_can() {
        use ChannelBinding::{Disable, Prefer, Require};
        let own = certificate();
        let first = |binding, encrypted: bool, offered: &[u8]| {
            said(&mut client(binding, encrypted.then_some(&own)), &authentication(10, offered))
        };
        let begins = |answer: Result<Vec<u8>, String>, mechanism: &str, header: &str| {
            let answer = answer.unwrap();
            let (name, words) = answer.split_at(mechanism.len() + 5);
            assert!(name.starts_with(mechanism.as_bytes()) && name[mechanism.len()] == 0, "{}", excerpt(&answer));
            assert!(words.starts_with(header.as_bytes()), "{}", excerpt(words));
        };
        begins(first(Prefer, true, BOTH), "SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=");
        begins(first(Require, true, BOTH), "SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=");
        // That we could have is said, so that nobody takes the offer away unnoticed.
        begins(first(Prefer, true, PLAIN), "SCRAM-SHA-256", "y,,n=,r=");
        begins(first(Disable, true, BOTH), "SCRAM-SHA-256", "n,,n=,r=");
        begins(first(Prefer, false, PLAIN), "SCRAM-SHA-256", "n,,n=,r=");
        assert!(first(Require, true, PLAIN).unwrap_err().contains("the server does not offer it"));
        assert!(first(Prefer, true, b"OAUTHBEARER\0\0").unwrap_err().contains("no SCRAM-SHA-256"));
        for (code, rest) in [(0, vec![]), (3, vec![]), (5, vec![1, 2, 3, 4])] {
            let refused = said(&mut client(Require, Some(&own)), &authentication(code, &rest)).unwrap_err();
            assert!(refused.contains("channel binding is required"), "{code}: {refused}");
        }
    }

    /// The server's side (RFC 5802, RFC 7677) with a library of its own: the final words, if the proof is right.
    fn served(first: &str, server_first: &str, client_final: &str, bound_to: &[u8]) -> Option<String> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        use ring::{digest, hmac, pbkdf2};

        let (rest, proof) = client_final.rsplit_once(",p=")?;
        let bound = [b"p=tls-server-end-point,,", bound_to].concat();
        let binding = rest.split(',').next()?.strip_prefix("c=")?;
        if STANDARD.decode(binding).ok()? != bound {
            return None;
        }
        let mut salted = [0; 32];
        let rounds = std::num::NonZero::new(4096)?;
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, b"salt", PASSWORD.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let words = format!("{first},{server_first},{rest}");
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored.as_ref(), words.as_bytes());
        let wanted: Vec<u8> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, mask)| key ^ mask).collect();
        if STANDARD.decode(proof).ok()? != wanted {
            return None;
        }
        let server_key = sign(&salted, b"Server Key");
        Some(format!("v={}", STANDARD.encode(sign(server_key.as_ref(), words.as_bytes()))))
    }

    #[test]
    fn a_bound_conversation_convinces_both_sides_and_no_other_certificate() {
        let (own, other) = (certificate(), certificate());
        let mut exchange = client(ChannelBinding::Require, Some(&own));
        let initial = said(&mut exchange, &authentication(10, BOTH)).unwrap();
        let initial = String::from_utf8(initial[scram::SHA_256_PLUS.len() + 5..].to_vec()).unwrap();
        let first = initial.strip_prefix("p=tls-server-end-point,,").unwrap();
        // "c2FsdA==" is "salt".
        let server_first = format!("{}server,s=c2FsdA==,i=4096", first.strip_prefix("n=,").unwrap());
        let answer = said(&mut exchange, &authentication(11, server_first.as_bytes())).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let digest = |certificate: &[u8]| channel::server_end_point(certificate).unwrap();
        assert_eq!(served(first, &server_first, &answer, &digest(&other)), None, "somebody in between");
        let last = served(first, &server_first, &answer, &digest(&own)).unwrap();
        let welcome = [authentication(12, last.as_bytes()), authentication(0, &[]), message(b'Z', b"I")].concat();
        assert_eq!(exchange.greet(&welcome, &mut Vec::new()), Ok(Greeting::Done));
        assert_eq!(exchange.password_asked(), Some(true));
        // A new connection has to be bound anew.
        exchange.reset();
        exchange.secured(&own, &[]);
        exchange.greet(&[], &mut Vec::new()).unwrap();
        assert!(said(&mut exchange, &authentication(0, &[])).unwrap_err().contains("let us in without it"));
        assert_eq!(exchange.password_asked(), Some(false));
    }

    /// What two replies teach, and what they do not.
    fn learnt(first: &[u8], second: &[u8]) -> (PostgresExpect, String) {
        let mut postgres = load(PostgresExpect::default());
        let unchecked = postgres.learn(first, second).unwrap();
        (postgres.expect, unchecked.unwrap_or_default())
    }

    #[test]
    fn a_result_that_stays_is_expected_byte_for_byte() {
        let reply = b"T\0\0\0\x06\0\x01D\0\0\0\x0b\0\x01\0\0\0\x01\x37D\0\0\0\x0b\0\x01\0\0\0\x01\x38C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";
        let expect = PostgresExpect {
            rows: Some(2),
            first: Some("7".into()),
            null: false,
            tag: Some("SELECT 2".into()),
            reply: Some(Exact::of(reply)),
        };
        assert_eq!(learnt(reply, reply), (expect.clone(), String::new()));
        // A notice may come at any time.
        let noticed = [&message(b'N', b"Mhallo\0\0"), &reply[..]].concat();
        assert_eq!(learnt(reply, &noticed), (expect.clone(), String::new()));
        assert_eq!(outcome(expect.clone(), reply), Ok(None));
        assert_eq!(outcome(expect.clone(), &noticed), Ok(None));
        for at in [6, reply.len() - 1, reply.iter().position(|byte| *byte == b'8').unwrap()] {
            let mut other = reply.to_vec();
            other[at] ^= 1;
            assert_eq!(outcome(expect.clone(), &other), Ok(Some(ErrorClass::WrongContent)), "{at}");
        }
    }

    #[test]
    fn of_a_result_that_changes_it_is_said_what_is_checked() {
        let reply = |rows: &[&[u8]]| {
            let rows: Vec<u8> = rows.iter().flat_map(|row| message(b'D', row)).collect();
            [rows, message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()
        };
        let null: &[u8] = b"\0\x01\xff\xff\xff\xff";
        let (one, two) = (reply(&[null, b"\0\x01\0\0\0\x01a"]), reply(&[null, b"\0\x01\0\0\0\x01b"]));
        let (expect, unchecked) = learnt(&one, &two);
        assert_eq!(
            expect,
            PostgresExpect { rows: Some(2), null: true, tag: Some("SELECT 1".into()), ..expect.clone() }
        );
        let said = "only this is checked: 2 rows, NULL in the first column, the tag `SELECT 1`; \
                    the first two replies differ at byte 22";
        assert_eq!((unchecked.as_str(), &expect.reply), (said, &None));
        assert_eq!(outcome(expect.clone(), &one), Ok(None));
        let empty: &[u8] = b"\0\x01\0\0\0\0";
        for first in [b"\0\x01\0\0\0\x05wrong", empty] {
            assert_eq!(outcome(expect.clone(), &reply(&[first, null])), Ok(Some(ErrorClass::WrongContent)));
        }
        // What is no text is not taken for the same.
        let other = reply(&[b"\0\x01\0\0\0\x01\xff"]);
        assert_eq!(learnt(&other, &reply(&[b"\0\x01\0\0\0\x01\xfe"])).0.first, None);
    }

    proptest! {
        #[test]
        fn near_misses_have_one_outcome(at in 0usize..80, byte in any::<u8>()) {
            let mut bytes = reply(&["1", "2"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = outcome(expect(2, "1"), &bytes);
        }

        #[test]
        fn any_greeting_is_survived(input in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut exchange = exchange(PostgresExpect::default());
            exchange.reset();
            let _ = exchange.greet(&input, &mut Vec::new());
        }
    }
}
