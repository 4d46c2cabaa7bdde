//! Messages of PostgreSQL's protocol: a type, a length that counts itself, then the body.

use super::spec::{Postgres, QueryMode};
use crate::{
    failure::Failure,
    protocol::{check::Expected, exchange::excerpt},
};

/// Type and length of a message.
pub const HEAD: usize = 5;
/// Most bytes of a message that is kept to be understood: authentication, errors, the first row.
const KEPT_MAX: usize = 64 * 1024;
/// Most bytes of one message, as the server itself has it.
pub const MESSAGE_MAX: u32 = 1 << 30;
/// Name of the statement that the mode `prepared` prepares.
const STATEMENT: &str = "lasthop";
/// States of statements that exist already or not at all: with a name of our own, because another client had the connection
/// to the server before, or has it now.
const POOLED: [&str; 2] = ["42P05", "26000"];
/// Of the protocol: 3.0.
const VERSION: [u8; 4] = [0, 3, 0, 0];

/// What all connections of a thread say, and how replies are held against it.
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

/// What prepares the statement after the authentication; nothing in other modes.
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
    // The portal without a name, all of its rows.
    let execute = message(b'E', &[0; 5]);
    // Sync in every request: after an error the server skips all that comes before the next one.
    [parse, bind(statement, &spec.parameters), execute, sync()].concat()
}

/// A statement whose parameters have the types that the server finds for them.
fn parse(statement: &str, query: &str) -> Vec<u8> {
    message(b'P', &[text(statement), text(query), vec![0, 0]].concat())
}

/// Binds the portal without a name. Parameters and results as text.
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

/// A password, or a proof that we know it.
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

/// A body behind its length, which counts itself.
fn framed(body: &[u8]) -> Vec<u8> {
    [&length(body.len() + 4), body].concat()
}

/// No text that a valid specification has is longer than [`MESSAGE_MAX`].
fn length(bytes: usize) -> [u8; 4] {
    (bytes as u32).to_be_bytes()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// What the server sends whenever it likes: notices, parameters, notifications.
pub fn is_notice(kind: u8) -> bool {
    matches!(kind, b'N' | b'S' | b'A')
}

/// The messages of a whole reply, each with its type.
pub fn messages(mut reply: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
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

/// An error of the server by its SQLSTATE and message.
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

/// Cuts the stream into messages. Of each it keeps what fits into [`KEPT_MAX`], if it is to be kept at all.
#[derive(Default)]
pub struct Framer {
    header: [u8; HEAD],
    header_filled: usize,
    /// Bytes of the body that are still to come.
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

    /// Takes bytes; returns how many were used, and whether a message is whole. `keep` says whose body is kept.
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
            let text = format!("{} is not the start of a PostgreSQL message", excerpt(&self.header));
            return Err(Failure::protocol(text));
        }
        Ok(length as usize - 4)
    }
}
