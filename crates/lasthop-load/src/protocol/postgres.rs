//! PostgreSQL's protocol, version 3: authentication, then one query over and over, in the simple or the extended form.

use std::rc::Rc;

use postgres_protocol::{
    IsNull,
    authentication::{
        md5_hash,
        sasl::{self, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256},
    },
    message::frontend,
};

use super::{Done, Exchange, Greeting, Progress, Run, channel, excerpt, verified::Verified};
use crate::{
    failure::Failure,
    result::ErrorClass,
    spec::{ChannelBinding, Postgres, QueryMode},
};

/// Most bytes of a message that is kept to be understood: authentication, errors, the first row.
const KEPT_MAX: usize = 64 * 1024;
/// Most bytes of one message, as the server itself has it.
const MESSAGE_MAX: u32 = 1 << 30;
/// Name of the statement that the mode `prepared` prepares.
const STATEMENT: &str = "lasthop";

/// The request for TLS that precedes the handshake, and the byte that grants it.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
pub const TLS_GRANTED: u8 = b'S';

/// What all connections of a thread have in common.
#[derive(Clone)]
pub struct Shared {
    common: Rc<Common>,
    verified: Verified,
}

struct Common {
    spec: Postgres,
    request: Vec<u8>,
    startup: Vec<u8>,
    /// Prepares the statement after the authentication; empty in other modes.
    prepare: Vec<u8>,
}

impl Shared {
    /// # Errors
    /// A text contains a NUL byte, or the query is too long.
    pub fn new(spec: &Postgres, pipeline: u32) -> std::io::Result<Self> {
        let mut startup = bytes::BytesMut::new();
        let parameters = [
            ("user", spec.user.as_str()),
            ("database", spec.database.as_str()),
            ("application_name", "lasthop"),
            ("client_encoding", "UTF8"),
        ];
        frontend::startup_message(parameters, &mut startup)?;
        let mut prepare = bytes::BytesMut::new();
        if spec.mode == QueryMode::Prepared {
            frontend::parse(STATEMENT, &spec.query, [], &mut prepare)?;
            frontend::sync(&mut prepare);
        }
        let common = Common {
            spec: spec.clone(),
            request: encode(spec)?.repeat(pipeline as usize),
            startup: startup.to_vec(),
            prepare: prepare.to_vec(),
        };
        Ok(Self { common: Rc::new(common), verified: Verified::new(pipeline) })
    }
}

/// The messages of one request.
fn encode(spec: &Postgres) -> std::io::Result<Vec<u8>> {
    let mut buffer = bytes::BytesMut::new();
    let statement = match spec.mode {
        QueryMode::Simple => {
            frontend::query(&spec.query, &mut buffer)?;
            return Ok(buffer.to_vec());
        }
        QueryMode::Extended => {
            frontend::parse("", &spec.query, [], &mut buffer)?;
            ""
        }
        QueryMode::Prepared => STATEMENT,
    };
    // Parameters and results as text.
    let bound = frontend::bind(
        "",
        statement,
        [],
        &spec.parameters,
        |parameter, buffer| {
            buffer.extend_from_slice(parameter.as_bytes());
            Ok(IsNull::No)
        },
        [],
        &mut buffer,
    );
    bound.map_err(|_| std::io::Error::other("a parameter of the query cannot be encoded"))?;
    frontend::execute("", 0, &mut buffer)?;
    frontend::sync(&mut buffer);
    Ok(buffer.to_vec())
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
    Scram {
        scram: Box<ScramSha256>,
        /// Whether it is bound to the TLS connection.
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
    begun: bool,
    received: u64,
    rows: u64,
    fault: Option<Box<Failure>>,
}

impl PostgresExchange {
    #[must_use]
    pub fn new(shared: Shared) -> Self {
        Self {
            shared,
            framer: Framer::default(),
            stage: Stage::Start,
            certificate: None,
            bound: false,
            begun: false,
            received: 0,
            rows: 0,
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
        match (i32::from_be_bytes(*code), rest) {
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
            (3, _) => say_password(password(spec)?.as_bytes(), output)?,
            (5, &[a, b, c, d]) => {
                let hash = md5_hash(spec.user.as_bytes(), password(spec)?.as_bytes(), [a, b, c, d]);
                say_password(hash.as_bytes(), output)?;
            }
            (10, mechanisms) => {
                let (name, binding) = self.mechanism(mechanisms)?;
                let bound = name == SCRAM_SHA_256_PLUS;
                let scram = ScramSha256::new(password(spec)?.as_bytes(), binding);
                say(output, |buffer| frontend::sasl_initial_response(name, scram.message(), buffer))?;
                self.stage = Stage::Scram { scram: Box::new(scram), bound };
            }
            (11, data) => {
                let Stage::Scram { scram, .. } = &mut self.stage else { return Err(unexpected(b'R')) };
                scram.update(data).map_err(|error| refused(&error))?;
                say(output, |buffer| frontend::sasl_response(scram.message(), buffer))?;
            }
            (12, data) => {
                let Stage::Scram { scram, bound } = &mut self.stage else { return Err(unexpected(b'R')) };
                scram.finish(data).map_err(|error| refused(&error))?;
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
    fn mechanism(&self, offered: &[u8]) -> Result<(&'static str, sasl::ChannelBinding), Failure> {
        let wanted = self.shared.common.spec.channel_binding;
        let offers = |wanted: &str| offered.split(|byte| *byte == 0).any(|name| name == wanted.as_bytes());
        let certificate = self.certificate.as_deref().filter(|_| wanted != ChannelBinding::Disable);
        let end_point = certificate.and_then(channel::server_end_point);
        match end_point {
            Some(digest) if offers(SCRAM_SHA_256_PLUS) => {
                Ok((SCRAM_SHA_256_PLUS, sasl::ChannelBinding::tls_server_end_point(digest)))
            }
            None if wanted == ChannelBinding::Require => {
                Err(unbound("the signature of the server's certificate has no digest for it"))
            }
            _ if wanted == ChannelBinding::Require => Err(unbound("the server does not offer it")),
            _ if !offers(SCRAM_SHA_256) => Err(Failure::protocol("the server offers no SCRAM-SHA-256")),
            Some(_) => Ok((SCRAM_SHA_256, sasl::ChannelBinding::unrequested())),
            None => Ok((SCRAM_SHA_256, sasl::ChannelBinding::unsupported())),
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
        let Some(want) = &self.shared.common.spec.expect.first else { return };
        let body = &self.framer.body;
        let length = body.get(2..6).and_then(|bytes| bytes.first_chunk::<4>()).map(|bytes| i32::from_be_bytes(*bytes));
        let got = length.and_then(|length| usize::try_from(length).ok()).and_then(|length| body.get(6..6 + length));
        if got != Some(want.as_bytes()) {
            let got = got.map_or("NULL or nothing".to_owned(), excerpt);
            let text = format!("the first value is {got}, expected {}", excerpt(want.as_bytes()));
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
        } else if self.rows == 0 && expect.first.is_some() {
            self.fault.get_or_insert_with(|| Box::new(Failure::content("no row, expected one")));
        }
        Done { used, keep: true, payload: self.received, fault: self.fault.take() }
    }
}

impl Exchange for PostgresExchange {
    fn reset(&mut self) {
        self.stage = Stage::Start;
        self.certificate = None;
        self.bound = false;
        self.begun = true;
        self.begin();
    }

    fn secured(&mut self, certificate: &[u8]) {
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

    fn begin(&mut self) {
        // A reply that was recognised left no trace.
        if !self.begun {
            return;
        }
        self.framer.reset();
        self.begun = false;
        self.received = 0;
        self.rows = 0;
        self.fault = None;
    }

    #[inline]
    fn request(&self) -> &[u8] {
        &self.shared.common.request
    }

    fn next_reply(&mut self) {
        self.begin();
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
            let first_row = self.rows == 0 && self.shared.common.spec.expect.first.is_some();
            let keep = |kind| matches!(kind, b'E' | b'C') || (kind == b'D' && first_row);
            let (used, whole) = self.framer.feed(&bytes[at..], keep)?;
            at += used;
            self.received += used as u64;
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

fn say_password(password: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
    say(output, |buffer| frontend::password_message(password, buffer))
}

fn say(output: &mut Vec<u8>, write: impl FnOnce(&mut bytes::BytesMut) -> std::io::Result<()>) -> Result<(), Failure> {
    let mut buffer = bytes::BytesMut::new();
    write(&mut buffer).map_err(|error| Failure::protocol(format!("authentication: {error}")))?;
    output.extend_from_slice(&buffer);
    Ok(())
}

fn refused(error: &std::io::Error) -> Failure {
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

    use super::{super::testing::same_at_every_cut, *};
    use crate::spec::PostgresExpect;

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
        PostgresExpect { rows: Some(rows), first: Some(first.into()), tag: Some("SELECT 1".into()) }
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
            exchange.secured(certificate);
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
        let initial = String::from_utf8(initial[SCRAM_SHA_256_PLUS.len() + 5..].to_vec()).unwrap();
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
        // A new connection has to be bound anew.
        exchange.reset();
        exchange.secured(&own);
        exchange.greet(&[], &mut Vec::new()).unwrap();
        assert!(said(&mut exchange, &authentication(0, &[])).unwrap_err().contains("let us in without it"));
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
