//! The protocol of MySQL and MariaDB: authentication, then one statement, repeated, as text or prepared.

mod login;
mod packet;
mod result;

use std::rc::Rc;

use lasthop_trial::{address::Endpoint, failure::Failure, options::within, result::ErrorClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::result::MysqlExpect;
use self::{
    login::{Client, Handshake, More},
    packet::{ERROR, Framer, OK, Reader},
    result::{Reply, agreed, server_error, unexpected},
};
use super::{
    check::{BodyCheck, Expected},
    checked::Replies,
    exact::alike::usual,
    exchange::{self, Factory, excerpt},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Usage},
    statement::{self, first_is},
};
use crate::{
    location::{Location, UNENCODED, decode, pairs, unknown_parameter},
    tls_request::TlsRequest,
};

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["mysql", "mariadb"],
    urls: &[
        ("mysql://user@127.0.0.1/db", "MySQL or MariaDB; `mysql+tls` for TLS"),
        (
            "mysql+unix:/run/mysqld/mysqld.sock?user=me&db=db",
            "MySQL or MariaDB over a Unix socket; also\nmysql://me@/db?socket=/run/mysqld/mysqld.sock",
        ),
    ],
    password_variable: Some("MYSQL_PWD"),
    ..ProtocolKind::of::<Mysql>("mysql", "MySQL", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (path, parameters) = location.rest.split_once('?').unwrap_or((location.rest, ""));
    let location = Location {
        rest: path,
        ..*location
    };
    let (authority, name) = if location.is_socket {
        (path, "")
    } else {
        location.authority()
    };
    let (mut user, mut password, host) = location.credentials(authority)?;
    let mut socket = location.is_socket.then(|| host.to_owned());
    if name.contains('@') {
        return Err(UNENCODED.to_owned());
    }
    let mut database = decode(name.trim_start_matches('/'))?;
    let mut cleartext = false;
    for (key, value) in pairs(parameters)? {
        match key {
            "user" => user = Some(value),
            "password" => password = Some(value),
            "db" => database = value,
            "socket" | "unix_socket" => socket = Some(value),
            "cleartext" if matches!(value.as_str(), "true" | "false") => cleartext = value == "true",
            "cleartext" => {
                return Err(format!("cleartext `{value}` is neither `true` nor `false`"));
            }
            _ => return Err(unknown_parameter(key, "user, password, db, socket, cleartext")),
        }
    }
    let missing = || "the user is missing (write `mysql://user@…` or `?user=…`)".to_owned();
    let mysql = Mysql {
        user: user.ok_or_else(missing)?,
        database,
        password,
        cleartext,
        query: "select 1".to_owned(),
        mode: MysqlMode::Simple,
        parameters: Vec::new(),
        expect: MysqlExpect {
            columns: Some(1),
            rows: Some(1),
            first: Some("1".to_owned()),
            ..MysqlExpect::default()
        },
    };
    let endpoint = match socket {
        Some(path) => location.socket(&path)?,
        None => location.tcp(host, Some(3306))?,
    };
    Ok((endpoint, mysql.into()))
}

/// MySQL or MariaDB: one statement, repeated. With `reuse = "per-request"` each statement has its own connection, and a
/// request includes all of it: connect, TLS, authentication, statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mysql {
    /// Account to log in as.
    pub user: String,
    /// Database to use; none if it is empty.
    #[serde(default)]
    pub database: String,
    /// Password of the account. The server chooses the method: `mysql_native_password`, `caching_sha2_password`,
    /// `client_ed25519` (passwords of 32 bytes), `mysql_clear_password`, `unix_socket` and `auth_socket` are supported.
    /// The password itself is sent only over TLS, or with `cleartext` over a Unix socket.
    #[serde(default)]
    pub password: Option<String>,
    /// Send the password itself to a server on a Unix socket that asks for it: whoever listens there gets it. Servers
    /// ask with `mysql_clear_password`, and with `caching_sha2_password` until they have it in their cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleartext: bool,
    /// One statement.
    pub query: String,
    /// How the statement is sent; `simple` if missing.
    #[serde(default)]
    pub mode: MysqlMode,
    /// Values of `?` as text, in order; only in the mode `prepared`.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// The expected result.
    #[serde(default)]
    pub expect: MysqlExpect,
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MysqlMode {
    /// As text; rows are text as well.
    #[default]
    Simple,
    /// Prepared once on every connection; rows are binary.
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

    fn validate(&self, usage: Usage) -> Result<(), String> {
        usage.without_pipeline("MySQL reads the next statement after it has answered the last")?;
        let password = self.password.as_deref().unwrap_or_default();
        let texts = [
            ("the user", &*self.user),
            ("the database", &self.database),
            ("the password", password),
        ];
        statement::without_nul(&texts, "MySQL")?;
        within("number of parameters", self.parameters.len() as u64, 0, 65_535)?;
        if !self.is_prepared() && !self.parameters.is_empty() {
            return Err("a simple query has no parameters (use the mode `prepared`)".to_owned());
        }
        Ok(())
    }

    fn factory(&self, usage: Usage) -> Factory {
        let requests = Rc::new(Requests::new(self, usage));
        Factory::checked(usage.pipeline, move || MysqlReplies::new(Rc::clone(&requests)))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        statement::checked(self.expect.parts(), self.expect.reply.as_ref(), size)
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        let replies = &usual(replies);
        self.expect = agreed(replies, self.is_prepared())?;
        if self.expect.reply.is_some() {
            return Ok(None);
        }
        Ok(Some(statement::only_checked(self.expect.parts(), replies)))
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
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
                return Err("MySQL has no extended queries (use `--prepared`)".to_owned());
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
        Some(TlsRequest {
            request: &login::TLS_REQUEST,
            server_first: true,
            missing: missing_before_tls,
            granted,
        })
    }

    fn let_anybody_in(&mut self) {
        self.password = None;
    }

    /// A null server's handshake, OK, and its answer to the preparation: the parameters, no columns.
    fn welcome(&self, step: usize, encrypted: bool) -> Vec<u8> {
        let mut said = Vec::new();
        match step {
            0 => said.extend_from_slice(login::NULL_HANDSHAKE),
            // The request for TLS is a packet as well.
            1 => drop(packet::write(
                &[OK, 0, 0, 2, 0, 0, 0],
                2 + u8::from(encrypted),
                &mut said,
            )),
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

/// Bytes missing from the handshake of a server that offers TLS.
fn missing_before_tls(heard: &[u8]) -> Result<usize, Failure> {
    let missing = packet::missing(heard);
    // The reader reserves the missing bytes before they come.
    if missing > HANDSHAKE_MAX {
        return Err(Failure::protocol(format!(
            "{} is not the start of a MySQL handshake",
            excerpt(heard)
        )));
    }
    if missing == 0 && !heard_handshake(&heard[4..])?.offers_tls() {
        return Err(Failure::new(
            ErrorClass::Tls,
            "the server does not offer TLS on this socket",
        ));
    }
    Ok(missing)
}

fn heard_handshake(payload: &[u8]) -> Result<Handshake, Failure> {
    if payload.first() == Some(&ERROR) {
        Err(server_error("authentication", payload))
    } else {
        Handshake::read(payload)
    }
}

/// Maximum bytes of a handshake; MySQL's has less than 100.
const HANDSHAKE_MAX: usize = 4096;

/// First bytes of commands.
const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
/// Parameter type: text.
const TEXT: u8 = 0xfd;
/// Range of the statement's number in the packet of an execution.
const STATEMENT: std::ops::Range<usize> = 5..9;

/// Request and expectations, shared by all connections of a thread.
struct Requests {
    spec: Mysql,
    reply: Expected,
    usage: Usage,
    request: Command,
    /// Prepares the statement after the authentication, in the mode `prepared`.
    prepare: Option<Command>,
}

impl Requests {
    fn new(spec: &Mysql, usage: Usage) -> Self {
        let statement = |command: u8| Command::new(&[&[command], spec.query.as_bytes()].concat());
        let (request, prepare) = match spec.mode {
            MysqlMode::Simple => (statement(QUERY), None),
            MysqlMode::Prepared => (Command::new(&execution(&spec.parameters)), Some(statement(PREPARE))),
        };
        Self {
            spec: spec.clone(),
            reply: Expected::of("reply", spec.expect.reply.clone()),
            usage,
            request,
            prepare,
        }
    }
}

struct Command {
    bytes: Vec<u8>,
    /// Number of the packet that answers the command.
    next: u8,
}

impl Command {
    fn new(payload: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let next = packet::write(payload, 0, &mut bytes);
        Self { bytes, next }
    }
}

/// Executes a statement whose number is filled in later: no cursor, once, no parameter is NULL, all are text.
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

/// Progress of the greeting.
enum LoginStage {
    Start,
    /// The server has the client's answer by this method.
    Answered {
        method: String,
    },
    /// The preparation of the statement is sent.
    Asked,
    /// The connection is ready after `after` packets, which describe the prepared statement.
    Ready {
        after: u64,
    },
}

struct MysqlReplies {
    requests: Rc<Requests>,
    framer: Framer,
    stage: LoginStage,
    /// The server's plaintext before TLS.
    heard: Vec<u8>,
    leaves_out_ends: bool,
    /// The request with the statement's number, once prepared.
    own_request: Option<Vec<u8>>,
    /// Whether the latest answer contains the password, or a proof of it.
    asked: bool,
    reply: Reply,
    bytes: BodyCheck,
    fault: Option<Failure>,
}

impl MysqlReplies {
    fn new(requests: Rc<Requests>) -> Self {
        Self {
            requests,
            framer: Framer::default(),
            stage: LoginStage::Start,
            heard: Vec::new(),
            leaves_out_ends: false,
            own_request: None,
            asked: false,
            reply: Reply::default(),
            bytes: BodyCheck::default(),
            fault: None,
        }
    }

    /// Takes packets of the greeting; true when it is over.
    fn hear(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        exchange::hear(input, |bytes| {
            let (used, whole) = self.framer.feed(bytes, true)?;
            Ok((used, whole && self.welcome(output)?))
        })
    }

    /// Acts on a complete packet of the greeting; true when the connection is ready.
    fn welcome(&mut self, output: &mut Vec<u8>) -> Result<bool, Failure> {
        let payload = self.framer.payload().to_vec();
        match (&mut self.stage, payload.first()) {
            (LoginStage::Start, _) => self.respond(&heard_handshake(&payload)?, output).map(|()| false),
            (LoginStage::Asked, Some(&ERROR)) => Err(server_error("prepare", &payload)),
            (_, Some(&ERROR)) => Err(server_error("authentication", &payload)),
            (LoginStage::Answered { .. }, Some(&OK)) => Ok(self.let_in(output)),
            (LoginStage::Answered { .. }, _) => self.go_on(&payload, output).map(|()| false),
            (LoginStage::Asked, Some(&OK)) => self.prepared(&payload),
            (LoginStage::Ready { after: after @ 1.. }, _) => {
                *after -= 1;
                Ok(*after == 0)
            }
            _ => Err(unexpected(&payload)),
        }
    }

    fn client(&self) -> Client<'_> {
        let Requests { spec, usage, .. } = &*self.requests;
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
        // An account without a password may use another method than the server's default, for which no answer may exist
        // here.
        let answer = login::answer(method, &self.client(), &handshake.nonce).unwrap_or_default();
        let Requests { spec, usage, .. } = &*self.requests;
        let response = login::response(&spec.user, &spec.database, usage.encrypted, method, &answer);
        // The request for TLS was in between.
        let number = self.framer.number.wrapping_add(u8::from(usage.encrypted));
        self.say(&response, number, output);
        self.asked = !answer.is_empty();
        self.stage = LoginStage::Answered {
            method: method.to_owned(),
        };
        Ok(())
    }

    fn say(&mut self, payload: &[u8], number: u8, output: &mut Vec<u8>) {
        let next = packet::write(payload, number, output);
        self.framer.expect(next);
    }

    /// Handles the server's messages between the client's answer and the verdict.
    fn go_on(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
        let LoginStage::Answered { method } = &self.stage else {
            return Err(unexpected(payload));
        };
        match payload.split_first() {
            // A request for another method, with its own nonce.
            Some((&packet::END, rest)) if !rest.is_empty() => {
                let mut reader = Reader(rest);
                let method = String::from_utf8_lossy(reader.until_nul()).into_owned();
                let answer = login::answer(&method, &self.client(), reader.0)?;
                self.asked = !answer.is_empty();
                self.stage = LoginStage::Answered { method };
                self.say(&answer, self.framer.number, output);
            }
            Some((&packet::END, _)) => {
                return Err(login::refused(
                    "the server wants the password as MySQL 4.0 had it, which is not safe",
                ));
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

    /// Continues after the server has accepted the client; true if no statement must be prepared.
    fn let_in(&mut self, output: &mut Vec<u8>) -> bool {
        let Some(prepare) = &self.requests.prepare else {
            self.stage = LoginStage::Ready { after: 0 };
            return true;
        };
        output.extend_from_slice(&prepare.bytes);
        self.framer.expect(prepare.next);
        self.stage = LoginStage::Asked;
        false
    }

    /// Reads the statement's number and how many columns and parameters it has.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html>
    fn prepared(&mut self, payload: &[u8]) -> Result<bool, Failure> {
        let mut reader = Reader(&payload[1..]);
        let statement = reader.bytes(4).map(<[u8]>::to_vec).ok_or_else(|| unexpected(payload))?;
        let counts = reader.number(2).zip(reader.number(2));
        let (columns, parameters) = counts.ok_or_else(|| unexpected(payload))?;
        let given = self.requests.spec.parameters.len();
        if parameters != given as u64 {
            let text = format!("prepare: number of parameters in the statement: {parameters}, given: {given}");
            return Err(Failure::refused(text));
        }
        let mut request = self.requests.request.bytes.clone();
        request[STATEMENT].copy_from_slice(&statement);
        self.own_request = Some(request);
        let end = |count: u64| u64::from(count > 0 && !self.leaves_out_ends);
        // An EOF packet ends each list that is not empty, unless both sides omit such packets.
        let after = columns + end(columns) + parameters + end(parameters);
        self.stage = LoginStage::Ready { after };
        Ok(after == 0)
    }
}

impl Replies for MysqlReplies {
    fn reset(&mut self) {
        self.stage = LoginStage::Start;
        self.heard.clear();
        self.own_request = None;
        self.asked = false;
        // The server speaks first: its handshake is packet 0.
        self.framer.expect(0);
    }

    fn secured(&mut self, _: &[u8], heard: &[u8]) {
        self.heard = heard.to_vec();
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        let heard = std::mem::take(&mut self.heard);
        Ok(self.hear(&heard, output)? || self.hear(input, output)?)
    }

    fn password_asked(&self) -> Option<bool> {
        Some(self.asked)
    }

    fn request(&self) -> &[u8] {
        self.own_request.as_deref().unwrap_or(&self.requests.request.bytes)
    }

    fn begin(&mut self) {
        let Requests { spec, request, .. } = &*self.requests;
        self.framer.expect(request.next);
        self.reply = Reply::new(spec.is_prepared(), spec.expect.reads_first());
        self.bytes.reset();
        self.fault = None;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let (used, whole) = self.framer.feed(bytes, self.reply.needs_all())?;
        self.bytes.feed(&self.requests.reply, &bytes[..used]);
        // An error ends a reply wherever it occurs.
        if whole && self.framer.payload().first() == Some(&ERROR) {
            self.fault = Some(server_error("query", self.framer.payload()));
            return Ok((used, true));
        }
        Ok((used, whole && self.reply.feed(&self.framer)?))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let expect = &self.requests.spec.expect;
        let reply = &self.reply;
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
            let got = reply
                .first
                .as_ref()
                .ok_or_else(|| Failure::content("no row, expected one"))?;
            first_is(Some(got.as_deref()), expect.first.as_deref().map(str::as_bytes))?;
        }
        self.bytes.finish(&self.requests.reply)
    }
}
