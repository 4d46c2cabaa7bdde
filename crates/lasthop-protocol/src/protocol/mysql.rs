//! The protocol of MySQL and MariaDB: authentication, then one statement over and over, as text or prepared.

mod login;
mod packet;
mod result;

use std::{io, rc::Rc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::result::MysqlExpect;
use self::{
    login::{Client, Handshake, More},
    packet::{ERROR, Framer, OK, Reader},
    result::{First, Reply, common, server_error, unexpected},
};
use super::{
    check::{BodyCheck, Expected, contrast},
    exchange::{Done, Exchange, Factory, Greeting, Progress, Run, excerpt},
    kind::{self, LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Usage},
    verified::Verified,
};
use crate::{
    address::{Address, Endpoint},
    failure::Failure,
    location::{Location, UrlError, credentials, decode, pairs},
    options::{SpecError, within},
    result::ErrorClass,
    tls_request::TlsRequest,
};

pub static KIND: ProtocolKind = ProtocolKind {
    name: "mysql",
    title: "MySQL",
    own: false,
    schemes: &["mysql", "mariadb"],
    from_url,
    urls: &[
        ("mysql://user@127.0.0.1/db", "MySQL or MariaDB; `mysql+tls` for TLS"),
        ("mysql+unix:/run/mysqld/mysqld.sock?user=me&db=db", "MySQL or MariaDB over a Unix socket"),
    ],
    password_variable: Some("MYSQL_PWD"),
    read: kind::read::<Mysql>,
    schema: kind::schema::<Mysql>,
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), UrlError> {
    let (path, parameters) = location.rest.split_once('?').unwrap_or((location.rest, ""));
    let location = Location { rest: path, ..*location };
    let (authority, name) = if location.is_socket { ("", "") } else { location.authority() };
    let (mut user, mut password, host) = credentials(authority)?;
    if name.contains('@') {
        return Err(UrlError::Unencoded);
    }
    let mut database = decode(name.trim_start_matches('/'))?;
    let mut cleartext = false;
    for (key, value) in pairs(parameters)? {
        match key {
            "user" => user = Some(value),
            "password" => password = Some(value),
            "db" => database = value,
            "cleartext" if matches!(value.as_str(), "true" | "false") => cleartext = value == "true",
            "cleartext" => {
                return Err(UrlError::Protocol(format!("cleartext `{value}` is neither `true` nor `false`")));
            }
            _ => return Err(UrlError::Parameter { given: key.to_owned(), known: "user, password, db, cleartext" }),
        }
    }
    let missing = || UrlError::Protocol("the user is missing (write `mysql://user@…` or `?user=…`)".to_owned());
    let mysql = Mysql {
        user: user.ok_or_else(missing)?,
        database,
        password,
        cleartext,
        query: "select 1".to_owned(),
        mode: MysqlMode::Simple,
        parameters: Vec::new(),
        expect: MysqlExpect { columns: Some(1), rows: Some(1), first: Some("1".to_owned()), ..MysqlExpect::default() },
    };
    let endpoint = if location.is_socket { location.socket(path)? } else { location.tcp(host, Some(3306))? };
    Ok((endpoint, mysql.into()))
}

/// MySQL or MariaDB: one statement over and over. With `reuse = "per-request"` each has a connection of its own, and a
/// request is all of it: connect, TLS, authentication, statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mysql {
    /// Account that clients are.
    pub user: String,
    /// Database that they use; none if it is empty.
    #[serde(default)]
    pub database: String,
    /// `mysql_native_password`, `caching_sha2_password` (the password itself only over TLS or a Unix socket), `client_ed25519` (passwords
    /// of 32 bytes), `mysql_clear_password` (over TLS, or with `cleartext` over a Unix socket), `unix_socket` and `auth_socket` are understood, as the server
    /// asks for them.
    #[serde(default)]
    pub password: Option<String>,
    /// Say the password itself to a server on a Unix socket that asks for it with `mysql_clear_password`: whoever listens
    /// there gets it. MySQL's own clients want `--enable-cleartext-plugin` for that.
    #[serde(default, skip_serializing_if = "kind::is_false")]
    pub cleartext: bool,
    /// One statement.
    pub query: String,
    /// How it is sent; `simple` where it is missing.
    #[serde(default)]
    pub mode: MysqlMode,
    /// Values of `?` as text, in their order; only in the mode `prepared`.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// What a right result is.
    #[serde(default)]
    pub expect: MysqlExpect,
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MysqlMode {
    /// As text; rows are text, too.
    #[default]
    Simple,
    /// Prepared once with every connection; rows are in the binary form.
    Prepared,
}

impl Mysql {
    fn is_prepared(&self) -> bool {
        self.mode == MysqlMode::Prepared
    }
}

impl ProtocolSpec for Mysql {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), SpecError> {
        usage.without_pipeline("MySQL reads the next statement after it has answered the last")?;
        let password = self.password.as_deref().unwrap_or_default();
        for (what, text) in [("the user", &*self.user), ("the database", &self.database), ("the password", password)] {
            if text.contains('\0') {
                return Err(SpecError::protocol(format!("{what} contains a NUL byte, which MySQL does not allow")));
            }
        }
        within("number of parameters", self.parameters.len() as u64, 0, 65_535)?;
        if !self.is_prepared() && !self.parameters.is_empty() {
            return Err(SpecError::protocol("a simple query has no parameters (use the mode `prepared`)"));
        }
        Ok(())
    }

    fn factory(&self, usage: Usage) -> io::Result<Factory> {
        let common = Rc::new(Common::new(self, usage));
        let verified = Verified::new(usage.pipeline);
        Ok(Factory::new(move || MysqlExchange::new(Rc::clone(&common), verified.clone())))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let mut parts = self.expect.parts();
        parts.extend(self.expect.reply.as_ref().map(|reply| format!("all {} byte for byte", size(reply.length()))));
        if parts.is_empty() { "no error".to_owned() } else { parts.join(", ") }
    }

    fn learn(&mut self, first: &[u8], second: &[u8]) -> Result<Option<String>, Failure> {
        self.expect = common(first, second, self.is_prepared())?;
        if self.expect.reply.is_some() {
            return Ok(None);
        }
        let (checked, (at, _)) = (self.expect.parts(), contrast(first, second));
        let checked = if checked.is_empty() { "no error".to_owned() } else { checked.join(", ") };
        Ok(Some(format!("only this is checked: {checked}; the first two replies differ at byte {at}")))
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), SpecError> {
        if let Some(query) = options.query.take() {
            self.query = query;
            self.expect = MysqlExpect::default();
        }
        if let Some(value) = options.expect.take() {
            self.expect.first = Some(value);
        }
        self.parameters = std::mem::take(&mut options.parameters);
        self.mode = match options.mode.take() {
            Some("prepared") => MysqlMode::Prepared,
            Some("extended") => {
                return Err(SpecError::protocol("MySQL has no extended queries (use `--prepared`)"));
            }
            _ => MysqlMode::Simple,
        };
        Ok(())
    }

    fn password(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.password)
    }

    fn greets(&self) -> bool {
        true
    }

    fn tls_request(&self) -> Option<TlsRequest> {
        let granted = login::NULL_HANDSHAKE;
        Some(TlsRequest { request: &login::TLS_REQUEST, server_first: true, missing: missing_before_tls, granted })
    }

    fn let_anybody_in(&mut self) {
        self.password = None;
    }

    /// A URI as MySQL's own clients understand it, without the password: a socket stands in brackets.
    /// <https://dev.mysql.com/doc/refman/8.4/en/connecting-using-uri-or-key-value-pairs.html>
    fn data_source(&self, endpoint: &Endpoint) -> String {
        let place = match &endpoint.address {
            Address::Tcp(address) => address.to_string(),
            other => format!("({})", other.bare()),
        };
        let tls = match endpoint.tls.as_ref().map(|tls| tls.authority.as_ref()) {
            Some(Some(authority)) => format!("?ssl-mode=VERIFY_CA&ssl-ca={}", authority.display()),
            Some(None) => "?ssl-mode=REQUIRED".to_owned(),
            None => String::new(),
        };
        format!("mysql://{}@{place}/{}{tls}", self.user, self.database)
    }

    /// The handshake, OK, and what a statement that was prepared has: the parameters, no columns.
    fn welcome(&self, step: usize, encrypted: bool) -> Vec<u8> {
        let mut said = Vec::new();
        match step {
            0 => said.extend_from_slice(login::NULL_HANDSHAKE),
            // The request for TLS is a packet, too.
            1 => drop(packet::write(&[OK, 0, 0, 2, 0, 0, 0], 2 + u8::from(encrypted), &mut said)),
            _ => {
                let [low, high, ..] = self.parameters.len().to_le_bytes();
                let mut number = packet::write(&[OK, 1, 0, 0, 0, 0, 0, low, high, 0, 0, 0], 1, &mut said);
                for _ in &self.parameters {
                    number = packet::write(b"\x03def", number, &mut said);
                }
            }
        }
        said
    }
}

/// The handshake of a server that offers TLS.
fn missing_before_tls(heard: &[u8]) -> Result<usize, Failure> {
    let missing = packet::missing(heard);
    if missing > HANDSHAKE_MAX {
        return Err(Failure::protocol(format!("{} is not the begin of a MySQL handshake", excerpt(heard))));
    }
    if missing == 0 && !heard_handshake(&heard[4..])?.offers_tls() {
        return Err(Failure::new(ErrorClass::Tls, "the server does not offer TLS on this socket"));
    }
    Ok(missing)
}

/// Errors: the server has said something else, or does not want us at all.
fn heard_handshake(payload: &[u8]) -> Result<Handshake, Failure> {
    if payload.first() == Some(&ERROR) {
        Err(server_error("authentication", payload))
    } else {
        Handshake::read(payload)
    }
}

/// Most bytes of a handshake; one of MySQL has less than 100.
const HANDSHAKE_MAX: usize = 4096;

/// First bytes of commands.
const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
/// Type of a parameter that is text.
const TEXT: u8 = 0xfd;
/// Where in the packet of an execution the number of the statement is.
const STATEMENT: std::ops::Range<usize> = 5..9;

/// What all connections of a thread have in common.
struct Common {
    spec: Mysql,
    reply: Expected,
    usage: Usage,
    request: Command,
    /// Prepares the statement after the authentication, in that mode.
    prepare: Option<Command>,
}

impl Common {
    fn new(spec: &Mysql, usage: Usage) -> Self {
        let statement = |command: u8| Command::new(&[&[command], spec.query.as_bytes()].concat());
        let (request, prepare) = match spec.mode {
            MysqlMode::Simple => (statement(QUERY), None),
            MysqlMode::Prepared => (Command::new(&execution(&spec.parameters)), Some(statement(PREPARE))),
        };
        let reply = Expected { what: "reply", body: spec.expect.reply.clone(), ..Expected::default() };
        Self { spec: spec.clone(), reply, usage, request, prepare }
    }
}

struct Command {
    bytes: Vec<u8>,
    /// Number of the packet that answers it.
    next: u8,
}

impl Command {
    fn new(payload: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let next = packet::write(payload, 0, &mut bytes);
        Self { bytes, next }
    }
}

/// Executes a statement whose number is still to be filled in: no cursor, once, no parameter is NULL, all are text.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>
fn execution(parameters: &[String]) -> Vec<u8> {
    let mut payload = vec![EXECUTE, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    if !parameters.is_empty() {
        payload.extend(vec![0; parameters.len().div_ceil(8)]);
        payload.push(1);
        parameters.iter().for_each(|_| payload.extend([TEXT, 0]));
    }
    for parameter in parameters {
        payload.extend(packet::length_encoded(parameter.len()));
        payload.extend_from_slice(parameter.as_bytes());
    }
    payload
}

/// Where the greeting stands.
enum Stage {
    Start,
    /// The server has our answer by this method.
    Answered {
        method: String,
    },
    /// The statement is sent to be prepared.
    Asked,
    /// It is prepared; so many packets describe it.
    Described {
        left: usize,
    },
    Over,
}

pub struct MysqlExchange {
    common: Rc<Common>,
    verified: Verified,
    framer: Framer,
    stage: Stage,
    /// What the server said before TLS.
    heard: Vec<u8>,
    leaves_out_ends: bool,
    /// The request with the statement's number, where that is another than that of the common one.
    own_request: Option<Vec<u8>>,
    /// Whether the server has accepted a proof of the password.
    asked: bool,
    begun: bool,
    received: u64,
    reply: Reply,
    bytes: BodyCheck,
    fault: Option<Box<Failure>>,
}

impl MysqlExchange {
    fn new(common: Rc<Common>, verified: Verified) -> Self {
        Self {
            common,
            verified,
            framer: Framer::default(),
            stage: Stage::Start,
            heard: Vec::new(),
            leaves_out_ends: false,
            own_request: None,
            asked: false,
            begun: false,
            received: 0,
            reply: Reply::default(),
            bytes: BodyCheck::default(),
            fault: None,
        }
    }

    /// Takes packets of the greeting; true when the connection is ready.
    fn hear(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut at = 0;
        while at < input.len() {
            let (used, whole) = self.framer.feed(&input[at..], true)?;
            at += used;
            if whole && self.welcome(output)? {
                return match input.len() - at {
                    0 => Ok(true),
                    surplus => Err(Failure::protocol(format!("{surplus} bytes follow the server's readiness"))),
                };
            }
        }
        Ok(false)
    }

    /// Acts on a whole packet of the greeting; true when the connection is ready.
    fn welcome(&mut self, output: &mut Vec<u8>) -> Result<bool, Failure> {
        let payload = self.framer.payload().to_vec();
        match (&mut self.stage, payload.first()) {
            (Stage::Start, _) => self.respond(&heard_handshake(&payload)?, output).map(|()| false),
            (Stage::Asked, Some(&ERROR)) => Err(server_error("prepare", &payload)),
            (_, Some(&ERROR)) => Err(server_error("authentication", &payload)),
            (Stage::Answered { .. }, Some(&OK)) => Ok(self.let_in(output)),
            (Stage::Answered { .. }, _) => self.go_on(&payload, output).map(|()| false),
            (Stage::Asked, Some(&OK)) => self.prepared(&payload),
            (Stage::Described { left }, _) => {
                *left -= 1;
                let is_ready = *left == 0;
                self.stage = if is_ready { Stage::Over } else { Stage::Described { left: *left } };
                Ok(is_ready)
            }
            _ => Err(unexpected(&payload)),
        }
    }

    fn client(&self) -> Client<'_> {
        let Common { spec, usage, .. } = &*self.common;
        Client {
            password: spec.password.as_deref().unwrap_or_default(),
            is_private: usage.encrypted || usage.is_local,
            says_clear: usage.encrypted || (usage.is_local && spec.cleartext),
        }
    }

    /// Answers the handshake.
    fn respond(&mut self, handshake: &Handshake, output: &mut Vec<u8>) -> Result<(), Failure> {
        self.leaves_out_ends = handshake.leaves_out_ends();
        let method = login::known_or_default(&handshake.method);
        // An account without a password may have another method than the server's own, for which ours may be no word.
        let answer = login::answer(method, &self.client(), &handshake.nonce).unwrap_or_default();
        let Common { spec, usage, .. } = &*self.common;
        let response = login::response(&spec.user, &spec.database, usage.encrypted, method, &answer);
        // The request for TLS came between.
        let number = self.framer.number.wrapping_add(u8::from(usage.encrypted));
        self.say(&response, number, output);
        self.asked = !answer.is_empty();
        self.stage = Stage::Answered { method: method.to_owned() };
        Ok(())
    }

    fn say(&mut self, payload: &[u8], number: u8, output: &mut Vec<u8>) {
        let next = packet::write(payload, number, output);
        self.framer.expect(next);
    }

    /// What the server says between our answer and its verdict.
    fn go_on(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
        let Stage::Answered { method } = &self.stage else { return Err(unexpected(payload)) };
        match payload.split_first() {
            // Another method, with a nonce of its own.
            Some((&packet::END, rest)) if !rest.is_empty() => {
                let mut reader = Reader(rest);
                let method = String::from_utf8_lossy(reader.until_nul()).into_owned();
                let answer = login::answer(&method, &self.client(), reader.0)?;
                self.asked = !answer.is_empty();
                self.stage = Stage::Answered { method };
                self.say(&answer, self.framer.number, output);
            }
            Some((&packet::END, _)) => {
                return Err(login::refused("the server wants the password as MySQL 4.0 had it, which is not safe"));
            }
            Some((&1, data)) => {
                if let More::Say(words) = login::go_on(method, &self.client(), data)? {
                    self.say(&words, self.framer.number, output);
                }
            }
            _ => return Err(unexpected(payload)),
        }
        Ok(())
    }

    /// The server lets us in; true if there is nothing to prepare.
    fn let_in(&mut self, output: &mut Vec<u8>) -> bool {
        let Some(prepare) = &self.common.prepare else {
            self.stage = Stage::Over;
            return true;
        };
        output.extend_from_slice(&prepare.bytes);
        self.framer.expect(prepare.next);
        self.stage = Stage::Asked;
        false
    }

    /// The number of the statement, how many columns its rows have, how many parameters it wants.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html>
    fn prepared(&mut self, payload: &[u8]) -> Result<bool, Failure> {
        let mut reader = Reader(&payload[1..]);
        let statement = reader.bytes(4).map(<[u8]>::to_vec).ok_or_else(|| unexpected(payload))?;
        let counts = reader.number(2).zip(reader.number(2));
        let (columns, parameters) = counts.ok_or_else(|| unexpected(payload))?;
        let given = self.common.spec.parameters.len();
        if parameters != given as u64 {
            let text = format!("prepare: number of parameters in the statement: {parameters}, given: {given}");
            return Err(Failure::new(ErrorClass::WrongStatus, text));
        }
        let mut request = self.common.request.bytes.clone();
        request[STATEMENT].copy_from_slice(&statement);
        self.own_request = Some(request);
        let end = |count: u64| u64::from(count > 0 && !self.leaves_out_ends);
        let left = (columns + end(columns) + parameters + end(parameters)) as usize;
        self.stage = if left == 0 { Stage::Over } else { Stage::Described { left } };
        Ok(left == 0)
    }

    /// Acts on a whole packet of a reply; true at its end.
    fn take(&mut self) -> Result<bool, Failure> {
        if self.framer.payload().first() == Some(&ERROR) {
            self.fault = Some(Box::new(server_error("query", self.framer.payload())));
            return Ok(true);
        }
        self.reply.take(&self.framer)
    }

    /// The first expectation that the reply does not meet.
    fn judge(&mut self) -> Result<(), Failure> {
        let (expect, reply) = (&self.common.spec.expect, &self.reply);
        let counts = [
            (reply.columns.unwrap_or_default(), expect.columns, "columns"),
            (reply.rows, expect.rows, "rows"),
            (reply.changed, expect.changed, "changed rows"),
        ];
        for (got, want, what) in counts {
            if let Some(want) = want.filter(|want| *want != got) {
                return Err(Failure::content(format!("{got} {what}, expected {want}")));
            }
        }
        if expect.reads_first() {
            first_is(reply.first.as_ref(), expect.first.as_deref().map(str::as_bytes))?;
        }
        self.bytes.finish(&self.common.reply)
    }
}

/// The first value is this one, or NULL.
fn first_is(got: Option<&First>, want: Option<&[u8]>) -> Result<(), Failure> {
    let got = got.ok_or_else(|| Failure::content("no row, expected one"))?.as_deref();
    let shown = |value: Option<&[u8]>| value.map_or("NULL".to_owned(), excerpt);
    let text = || Failure::content(format!("the first value is {}, expected {}", shown(got), shown(want)));
    if got == want { Ok(()) } else { Err(text()) }
}

impl Exchange for MysqlExchange {
    fn reset(&mut self) {
        self.stage = Stage::Start;
        self.heard.clear();
        self.own_request = None;
        self.asked = false;
        self.framer.expect(0);
        // The greeting leaves traces.
        self.begun = true;
    }

    fn secured(&mut self, _: &[u8], heard: &[u8]) {
        self.heard = heard.to_vec();
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Greeting, Failure> {
        let heard = std::mem::take(&mut self.heard);
        let is_ready = self.hear(&heard, output)? || self.hear(input, output)?;
        Ok(if is_ready { Greeting::Done } else { Greeting::More })
    }

    fn password_asked(&self) -> Option<bool> {
        Some(self.asked)
    }

    fn begin(&mut self) {
        // A reply that was recognised left no trace.
        if !self.begun {
            return;
        }
        let Common { spec, request, .. } = &*self.common;
        self.framer.expect(request.next);
        self.begun = false;
        self.received = 0;
        self.reply = Reply::new(spec.is_prepared(), spec.expect.reads_first());
        self.bytes.reset();
        self.fault = None;
    }

    #[inline]
    fn request(&self) -> &[u8] {
        self.own_request.as_deref().unwrap_or(&self.common.request.bytes)
    }

    #[inline]
    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        self.verified.recognise(bytes, most)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let fresh = !self.begun;
        self.begun = true;
        let mut at = 0;
        while at < bytes.len() {
            let (used, whole) = self.framer.feed(&bytes[at..], self.reply.needs_all())?;
            self.bytes.feed(&self.common.reply, &bytes[at..at + used]);
            at += used;
            self.received += used as u64;
            if whole && self.take()? {
                let fault = self.fault.take().or_else(|| self.judge().err().map(Box::new));
                if fresh && fault.is_none() {
                    self.verified.remember(&bytes[..at], self.received);
                }
                return Ok(Progress::Done(Done { used: at, keep: true, payload: self.received, fault }));
            }
        }
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let text = format!("the peer closed after {} bytes", self.received);
        Err(Failure::new(ErrorClass::Reset, text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::exchange::testing::same_at_every_cut, *};
    use crate::options::Reuse;

    const USAGE: Usage =
        Usage { reuse: Reuse::KeepAlive, pipeline: 1, encrypted: false, is_local: false, keeps_boundaries: false };
    const LET_IN: &[u8] = &[OK, 0, 0, 2, 0, 0, 0];
    /// Of the null server: all that it can do, without TLS being asked for.
    const HANDSHAKE: &[u8] = login::NULL_HANDSHAKE;

    fn mysql(mode: MysqlMode) -> Mysql {
        Mysql {
            user: "u".into(),
            database: "d".into(),
            password: Some("secret".into()),
            cleartext: false,
            query: "select 1".into(),
            mode,
            parameters: vec![],
            expect: expect(1, 1, "1"),
        }
    }

    fn expect(columns: u64, rows: u64, first: &str) -> MysqlExpect {
        let (columns, rows, first) = (Some(columns), Some(rows), Some(first.into()));
        MysqlExpect { columns, rows, first, ..MysqlExpect::default() }
    }

    fn exchange(spec: &Mysql, usage: Usage) -> MysqlExchange {
        let mut exchange = MysqlExchange::new(Rc::new(Common::new(spec, usage)), Verified::new(1));
        exchange.reset();
        exchange
    }

    fn packets(number: u8, payloads: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut number) = (Vec::new(), number);
        for payload in payloads {
            number = packet::write(payload, number, &mut bytes);
        }
        bytes
    }

    fn reply(rows: &[&str]) -> Vec<u8> {
        let rows: Vec<Vec<u8>> = rows.iter().map(|row| [&[row.len() as u8], row.as_bytes()].concat()).collect();
        let mut payloads: Vec<&[u8]> = vec![b"\x01", b"\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x03\x81\0\0\0\0"];
        payloads.extend(rows.iter().map(Vec::as_slice));
        payloads.push(b"\xfe\0\0\x02\0\0\0");
        packets(1, &payloads)
    }

    /// What the client says to this.
    fn said(exchange: &mut MysqlExchange, input: &[u8]) -> Result<(Greeting, Vec<u8>), String> {
        let mut output = Vec::new();
        let greeting = exchange.greet(input, &mut output).map_err(|failure| failure.message)?;
        Ok((greeting, output))
    }

    fn outcome(spec: &Mysql, reply: &[u8]) -> Result<Option<String>, ErrorClass> {
        let result = same_at_every_cut(&mut exchange(spec, USAGE), reply);
        result.map(|done| done.2.map(|fault| fault.message)).map_err(|error| error.class)
    }

    #[test]
    fn requests_are_packets_of_the_protocol() {
        let request = |spec: &Mysql| exchange(spec, USAGE).request().to_vec();
        assert_eq!(request(&mysql(MysqlMode::Simple)), b"\x09\0\0\0\x03select 1");
        let with = Mysql { parameters: vec!["7".into(), String::new()], ..mysql(MysqlMode::Prepared) };
        let wanted = b"\x13\0\0\0\x17\0\0\0\0\0\x01\0\0\0\0\x01\xfd\0\xfd\0\x017\0";
        assert_eq!(request(&with), wanted);
    }

    #[test]
    fn a_client_is_let_in_by_the_servers_method() {
        let mut exchange = exchange(&mysql(MysqlMode::Simple), USAGE);
        assert_eq!(said(&mut exchange, &[]), Ok((Greeting::More, vec![])), "the server speaks first");
        let (_, response) = said(&mut exchange, HANDSHAKE).unwrap();
        assert_eq!(&response[3..4], [1]);
        let words = &response[4 + 32..];
        assert!(words.starts_with(b"u\0\x14"), "{}", excerpt(words));
        assert!(words.ends_with(b"d\0mysql_native_password\0"), "{}", excerpt(words));
        assert_eq!(said(&mut exchange, &packets(2, &[LET_IN])), Ok((Greeting::Done, vec![])));
        assert_eq!(exchange.password_asked(), Some(true));
    }

    #[test]
    fn a_password_goes_through_the_cache_or_through_tls() {
        let switch = packets(2, &[b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0"]);
        let begun = |usage| {
            let mut exchange = exchange(&mysql(MysqlMode::Simple), usage);
            if usage.encrypted {
                exchange.secured(&[], HANDSHAKE);
            } else {
                said(&mut exchange, HANDSHAKE).unwrap();
            }
            exchange
        };
        let mut cached = begun(USAGE);
        let (_, proof) = said(&mut cached, &switch).unwrap();
        assert_eq!((proof.len(), proof[3]), (4 + 32, 3));
        assert_eq!(said(&mut cached, &packets(4, &[&[1, 3], LET_IN])), Ok((Greeting::Done, vec![])));
        let mut in_plain = begun(USAGE);
        said(&mut in_plain, &switch).unwrap();
        let refused = said(&mut in_plain, &packets(4, &[&[1, 4]])).unwrap_err();
        assert!(refused.contains("use TLS or a Unix socket"), "{refused}");
        let mut local = begun(Usage { is_local: true, ..USAGE });
        said(&mut local, &switch).unwrap();
        let (_, password) = said(&mut local, &packets(4, &[&[1, 4]])).unwrap();
        assert_eq!(password, b"\x07\0\0\x05secret\0");
        assert_eq!(said(&mut local, &packets(6, &[LET_IN])), Ok((Greeting::Done, vec![])));
        // The request for TLS was packet 1, so that the answer is packet 2, and all that follows one later.
        let mut encrypted = begun(Usage { encrypted: true, ..USAGE });
        let (_, response) = said(&mut encrypted, &[]).unwrap();
        assert_eq!(response[3], 2);
        assert_eq!(response[4..8], login::TLS_REQUEST[4..8]);
        assert_eq!(said(&mut encrypted, &packets(3, &[LET_IN])), Ok((Greeting::Done, vec![])));
    }

    #[test]
    fn who_is_not_let_in_is_told_why() {
        let fresh = || exchange(&mysql(MysqlMode::Simple), USAGE);
        let denied = |input: &[u8]| {
            let mut exchange = fresh();
            said(&mut exchange, HANDSHAKE).unwrap();
            said(&mut exchange, input).unwrap_err()
        };
        let text = denied(&packets(2, &[b"\xff\x15\x04#28000Access denied for user 'u'"]));
        assert_eq!(text, "authentication: error 1045, SQLSTATE 28000: Access denied for user 'u'");
        assert!(denied(&packets(2, &[b"\xfedialog\0"])).contains("`dialog`, which is not supported"));
        assert!(denied(&packets(2, &[b"\xfe"])).contains("MySQL 4.0"));
        assert!(denied(&packets(2, &[LET_IN, LET_IN])).contains("11 bytes follow the server's readiness"));
        let busy = said(&mut fresh(), &packets(0, &[b"\xff\x10\x04Too many connections"])).unwrap_err();
        assert_eq!(busy, "authentication: error 1040: Too many connections");
        let other = said(&mut fresh(), b"\x05\0\0\0SSH-2").unwrap_err();
        assert!(other.contains("not the handshake of a MySQL server"), "{other}");
    }

    #[test]
    fn tls_is_asked_for_only_where_it_is_offered() {
        for at in 0..HANDSHAKE.len() {
            assert!(missing_before_tls(&HANDSHAKE[..at]).unwrap() > 0);
        }
        assert_eq!(missing_before_tls(HANDSHAKE), Ok(0));
        let mut without = HANDSHAKE.to_vec();
        // The flags of TLS are in the second byte of the lower half.
        without[4 + 1 + 6 + 4 + 8 + 1 + 1] &= !8;
        assert_eq!(missing_before_tls(&without).unwrap_err().class, ErrorClass::Tls);
        assert!(missing_before_tls(b"HTTP").is_err());
    }

    #[test]
    fn a_statement_is_prepared_before_it_is_executed() {
        let spec = Mysql { parameters: vec!["7".into()], ..mysql(MysqlMode::Prepared) };
        let mut exchange = exchange(&spec, USAGE);
        said(&mut exchange, HANDSHAKE).unwrap();
        let (greeting, prepare) = said(&mut exchange, &packets(2, &[LET_IN])).unwrap();
        assert_eq!((greeting, &prepare[..]), (Greeting::More, &b"\x09\0\0\0\x16select 1"[..]));
        let described = packets(1, &[&[OK, 9, 8, 7, 6, 1, 0, 1, 0, 0, 0, 0], b"\x03def", b"\x03def"]);
        assert_eq!(said(&mut exchange, &described[..20]).unwrap().0, Greeting::More);
        assert_eq!(said(&mut exchange, &described[20..]).unwrap().0, Greeting::Done);
        assert_eq!(exchange.request()[STATEMENT], [9, 8, 7, 6]);
        let mut other = super::tests::exchange(&mysql(MysqlMode::Prepared), USAGE);
        said(&mut other, HANDSHAKE).unwrap();
        said(&mut other, &packets(2, &[LET_IN])).unwrap();
        let refused = said(&mut other, &described).unwrap_err();
        assert_eq!(refused, "prepare: number of parameters in the statement: 1, given: 0");
    }

    #[test]
    fn rows_columns_and_the_first_value_are_checked() {
        let spec =
            |columns, rows, first: &str| Mysql { expect: expect(columns, rows, first), ..mysql(MysqlMode::Simple) };
        assert_eq!(outcome(&spec(1, 1, "1"), &reply(&["1"])), Ok(None));
        assert_eq!(outcome(&spec(1, 3, "1"), &reply(&["1", "2", "3"])), Ok(None));
        let fault = |spec: &Mysql, rows: &[&str]| outcome(spec, &reply(rows)).unwrap().unwrap();
        assert_eq!(fault(&spec(2, 1, "1"), &["1"]), "1 columns, expected 2");
        assert_eq!(fault(&spec(1, 2, "1"), &["1"]), "1 rows, expected 2");
        assert_eq!(fault(&spec(1, 1, "2"), &["1"]), "the first value is \"1\", expected \"2\"");
        assert_eq!(fault(&spec(1, 0, "1"), &[]), "no row, expected one");
        let none = Mysql { expect: MysqlExpect { changed: Some(2), ..MysqlExpect::default() }, ..spec(0, 0, "") };
        assert_eq!(outcome(&none, &packets(1, &[&[OK, 2, 0, 2, 0, 0, 0]])), Ok(None));
    }

    #[test]
    fn an_error_keeps_the_connection_and_what_is_no_packet_does_not() {
        let spec = mysql(MysqlMode::Simple);
        let error = packets(1, &[b"\xff\x1e\x04#42S22Unknown column 'x' in 'field list'"]);
        let text = "query: error 1054, SQLSTATE 42S22: Unknown column 'x' in 'field list'";
        assert_eq!(outcome(&spec, &error), Ok(Some(text.to_owned())));
        // In the middle of rows, too.
        let mut broken = reply(&["1"]);
        broken.truncate(broken.len() - 11);
        broken.extend(packets(4, &[b"\xff\x25\x05#70100killed"]));
        assert_eq!(outcome(&spec, &broken), Ok(Some("query: error 1317, SQLSTATE 70100: killed".to_owned())));
        assert_eq!(outcome(&spec, b"HTTP/1.1 400 Bad"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(&spec, &packets(2, &[LET_IN])), Err(ErrorClass::Protocol));
        assert_eq!(outcome(&spec, &packets(1, &[b"\xfbfile"])), Err(ErrorClass::Protocol));
        assert_eq!(outcome(&spec, &reply(&["1"])[..20]), Err(ErrorClass::Reset));
    }

    proptest! {
        #[test]
        fn near_misses_have_one_outcome(at in 0usize..80, byte in any::<u8>(), prepared in any::<bool>()) {
            let mut bytes = reply(&["1", "2"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            let mode = if prepared { MysqlMode::Prepared } else { MysqlMode::Simple };
            let _ = outcome(&mysql(mode), &bytes);
        }

        #[test]
        fn any_greeting_is_survived(input in proptest::collection::vec(any::<u8>(), 0..60), at in 4usize..90) {
            let mut exchange = exchange(&mysql(MysqlMode::Prepared), USAGE);
            let begin = &HANDSHAKE[..at.min(HANDSHAKE.len())];
            let _ = said(&mut exchange, &[begin, &input].concat());
        }
    }
}
