//! Messages of PostgreSQL's protocol: a type, a length that counts itself, then the body.

use lasthop_trial::failure::Failure;

use super::spec::{Postgres, QueryMode};
use crate::{
    check::Expected,
    exchange::{excerpt, fill},
};

/// Type and length of a message.
pub const HEAD: usize = 5;
/// Maximum bytes of a kept message: authentication, errors, the first row.
const KEPT_MAX: usize = 64 * 1024;
/// Maximum bytes of one message, as in the server.
pub const MESSAGE_MAX: u32 = 1 << 30;
/// Name of the statement in the mode `prepared`.
const STATEMENT: &str = "lasthop";
/// SQLSTATEs of a statement that already exists or does not exist. Its name is lasthop's own, so a pooler has given the
/// server connection to several clients.
const POOLED: [&str; 2] = ["42P05", "26000"];
/// Protocol version: 3.0.
const VERSION: [u8; 4] = [0, 3, 0, 0];

/// Request and expectations, shared by all connections of a thread.
pub struct Requests {
    pub spec: Postgres,
    pub reply: Expected,
    pub request: Vec<u8>,
    pub startup: Vec<u8>,
    /// Prepares the statement after the authentication; empty in other modes.
    pub prepare: Vec<u8>,
}

impl Requests {
    pub fn new(spec: &Postgres, pipeline: u32) -> Self {
        Self {
            reply: Expected::of("reply", spec.expect.reply.clone()),
            request: request(spec).repeat(pipeline as usize),
            startup: startup(spec),
            prepare: prepare(spec),
            spec: spec.clone(),
        }
    }
}

/// The first message, the only one without a type.
fn startup(spec: &Postgres) -> Vec<u8> {
    let own = [
        ("user", spec.user.as_str()),
        ("database", spec.database.as_str()),
        ("application_name", "lasthop"),
        ("client_encoding", "UTF8"),
    ];
    let given = spec
        .settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let own = own.into_iter().filter(|(name, _)| !spec.settings.contains_key(*name));
    let mut body = VERSION.to_vec();
    for (name, value) in own.chain(given) {
        body.extend(text(name));
        body.extend(text(value));
    }
    body.push(0);
    framed(&body)
}

/// Prepares the statement after the authentication; empty in other modes.
fn prepare(spec: &Postgres) -> Vec<u8> {
    if spec.mode == QueryMode::Prepared {
        [parse(STATEMENT, &spec.query), sync()].concat()
    } else {
        Vec::new()
    }
}

/// The messages of one request.
fn request(spec: &Postgres) -> Vec<u8> {
    let (parse, statement) = match spec.mode {
        QueryMode::Simple => return message(b'Q', &text(&spec.query)),
        QueryMode::Extended => (parse("", &spec.query), ""),
        QueryMode::Prepared => (Vec::new(), STATEMENT),
    };
    // The unnamed portal, all of its rows.
    let execute = message(b'E', &[0; 5]);
    // Sync in every request: after an error the server skips all messages up to the next one.
    [parse, bind(statement, &spec.parameters), execute, sync()].concat()
}

/// Parses a statement; the server infers the types of its parameters.
fn parse(statement: &str, query: &str) -> Vec<u8> {
    message(b'P', &[text(statement), text(query), vec![0, 0]].concat())
}

/// Binds the unnamed portal. Parameters and results are text.
fn bind(statement: &str, parameters: &[String]) -> Vec<u8> {
    let count = (parameters.len() as u16).to_be_bytes();
    let mut body = [text(""), text(statement), vec![0, 0], count.to_vec()].concat();
    for parameter in parameters {
        body.extend(length(parameter.len()));
        body.extend_from_slice(parameter.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// A password, or a proof of it.
pub fn password(password: &str) -> Vec<u8> {
    message(b'p', &text(password))
}

/// The first message of a SASL mechanism.
pub fn initial_response(mechanism: &str, data: &str) -> Vec<u8> {
    message(
        b'p',
        &[&text(mechanism), &length(data.len())[..], data.as_bytes()].concat(),
    )
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &framed(body)[..]].concat()
}

/// A body after its length, which counts itself.
fn framed(body: &[u8]) -> Vec<u8> {
    [&length(body.len() + 4), body].concat()
}

/// A length in four bytes. Every length fits, because no text of a valid specification is longer than [`MESSAGE_MAX`].
fn length(bytes: usize) -> [u8; 4] {
    (bytes as u32).to_be_bytes()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Whether the server may send this message at any time: notices, parameters, notifications.
pub fn is_notice(kind: u8) -> bool {
    matches!(kind, b'N' | b'S' | b'A')
}

/// The messages of a complete reply, each with its type.
pub fn messages(mut reply: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, message, rest) = next_message(reply)?;
        reply = rest;
        Some((kind, message))
    })
}

/// The message that `bytes` begin with, its type, and the rest.
fn next_message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    // A length that does not even cover itself must not stop the walk.
    let (message, rest) = bytes.split_at_checked(1 + length.max(HEAD - 1))?;
    Some((*kind, message, rest))
}

pub fn unexpected(kind: u8) -> Failure {
    if matches!(kind, b'G' | b'H' | b'W') {
        return Failure::protocol("COPY is not supported: use a query that returns rows");
    }
    Failure::protocol(format!("a message of type {} was not expected", excerpt(&[kind])))
}

/// A server's error by its SQLSTATE and message.
pub fn server_error(during: &str, body: &[u8]) -> Failure {
    let field = |wanted: u8| {
        let found = body
            .split(|byte| *byte == 0)
            .find(|field| field.first() == Some(&wanted));
        found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    let state = field(b'C').unwrap_or_else(|| "unknown".to_owned());
    let advice = if POOLED.contains(&&*state) {
        "; behind a pooler that shares connections use `--extended` in place of `--prepared`"
    } else {
        ""
    };
    Failure::refused(format!(
        "{during}: SQLSTATE {state}: {}{advice}",
        field(b'M').unwrap_or_default()
    ))
}

/// Cuts the stream into messages. If a message is to be kept, keeps what fits into [`KEPT_MAX`].
#[derive(Default)]
pub struct Framer {
    header: [u8; HEAD],
    header_filled: usize,
    /// Bytes of the body still to come.
    left: usize,
    pub body: Vec<u8>,
    keep: bool,
}

impl Framer {
    pub fn reset(&mut self) {
        self.header_filled = 0;
        self.left = 0;
        self.body.clear();
    }

    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Takes bytes. Returns how many were used, and whether a message is complete. `keep` selects the types whose body
    /// is kept.
    pub fn feed(&mut self, bytes: &[u8], keep: impl Fn(u8) -> bool) -> Result<(usize, bool), Failure> {
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
            fill(&mut self.body, &bytes[at..at + take], KEPT_MAX);
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
            let text = format!("{} is not the start of a PostgreSQL message", excerpt(&self.header));
            return Err(Failure::protocol(text));
        }
        Ok(length as usize - 4)
    }
}
