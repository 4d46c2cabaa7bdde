//! Redis with RESP2 and RESP3: one command, encoded once; replies, however nested, are checked without being kept.

use std::{mem, rc::Rc};

use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{BodyCheck, Expected},
    checked::Replies,
    exact::{self, Exact},
    exchange::{Factory, excerpt},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Repeats, Usage},
    line::{Line, digits, ended_text, without_placeholders},
};
use crate::location::{Location, UNENCODED, pairs, unknown_parameter};

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["redis", "rediss"],
    urls: &[
        ("redis://127.0.0.1:6379/0", "Redis; rediss:// with TLS"),
        (
            "redis+unix:/run/redis.sock?db=2",
            "Redis over a Unix socket; also user=, password= and\nprotocol=3 for RESP3",
        ),
    ],
    password_variable: Some("REDISCLI_AUTH"),
    ..ProtocolKind::of::<Redis>("redis", "Redis", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let location = location.secured_by("rediss");
    let mut redis = Redis {
        command: vec!["PING".to_owned()],
        expect: RedisExpect::Simple("PONG".to_owned()),
        username: None,
        password: None,
        database: 0,
        protocol: Resp::default(),
    };
    let (rest, parameters) = location.rest.split_once('?').unwrap_or((location.rest, ""));
    if parameters.contains('@') && !location.is_socket {
        return Err(UNENCODED.to_owned());
    }
    for (key, value) in pairs(parameters)? {
        match key {
            "user" => redis.username = Some(value),
            "password" => redis.password = Some(value),
            "db" => redis.database = database(&value)?,
            "protocol" => redis.protocol = resp(&value)?,
            _ => return Err(unknown_parameter(key, "user, password, db, protocol")),
        }
    }
    let (authority, path) = if location.is_socket {
        (rest, "")
    } else {
        Location { rest, ..location }.authority()
    };
    let (user, password, host) = location.credentials(authority)?;
    redis.username = user.or(redis.username);
    redis.password = password.or(redis.password);
    if location.is_socket {
        return Ok((location.socket(host)?, redis.into()));
    }
    if path.contains('@') {
        return Err(UNENCODED.to_owned());
    }
    let number = path.trim_start_matches('/');
    if !number.is_empty() {
        redis.database = database(number)?;
    }
    Ok((location.tcp(host, Some(6379))?, redis.into()))
}

fn database(number: &str) -> Result<u32, String> {
    number
        .parse()
        .map_err(|_| format!("`{number}` is not the number of a Redis database"))
}

fn resp(version: &str) -> Result<Resp, String> {
    match version {
        "2" => Ok(Resp::V2),
        "3" => Ok(Resp::V3),
        _ => Err(format!("`{version}` is not a version of Redis's protocol (2 or 3)")),
    }
}

/// Redis: one command, repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Words of the command, such as `["GET", "key"]`.
    pub command: Vec<String>,
    /// The correct reply: `"success"` (anything but an error), `"nil"`, `{ simple = "OK" }`, `{ bulk = "text" }`,
    /// `{ integer = 1 }`, `{ length = 64 }` (a text of this many bytes), `{ elements = 3 }` (an array, a set or a map
    /// with this many) or `{ reply = "*1\r\n:1\r\n" }` (all bytes of the reply).
    #[serde(default)]
    pub expect: RedisExpect,
    /// User to log in as with the password; the default user if missing.
    #[serde(default)]
    pub username: Option<String>,
    /// Password, sent with `AUTH` on every connection.
    #[serde(default)]
    pub password: Option<String>,
    /// Number of the database.
    #[serde(default)]
    pub database: u32,
    /// `"3"` asks for RESP3 with `HELLO 3` on every connection.
    #[serde(default, skip_serializing_if = "lasthop_trial::options::is_default")]
    pub protocol: Resp,
}

/// Version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Resp {
    #[default]
    #[serde(rename = "2")]
    V2,
    #[serde(rename = "3")]
    V3,
}

/// The correct reply. An error reply is never correct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedisExpect {
    /// Anything but an error.
    #[default]
    Success,
    /// A simple text, for example `PONG`.
    Simple(String),
    /// A bulk text.
    Bulk(String),
    /// A whole number.
    Integer(i64),
    /// No value.
    Nil,
    /// A bulk text of this many bytes.
    Length(u64),
    /// An array, a set or a map with this many elements.
    Elements(u64),
    /// This reply, byte for byte.
    Reply(Exact),
}

impl ProtocolSpec for Redis {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, _: Usage) -> Result<(), String> {
        within("number of words of the command", self.command.len() as u64, 1, 1 << 20)?;
        without_placeholders(self.command.iter().map(String::as_str))
    }

    fn factory(&self, usage: Usage) -> Factory {
        let requests = Rc::new(Requests::new(self, usage.pipeline));
        Factory::checked(usage.pipeline, move || RedisReplies::new(Rc::clone(&requests)))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        match &self.expect {
            RedisExpect::Success => "any reply except an error".to_owned(),
            RedisExpect::Simple(text) => format!("the reply `{}`", text.chars().take(40).collect::<String>()),
            RedisExpect::Bulk(text) => format!("a value of {}, byte for byte", size(text.len() as u64)),
            RedisExpect::Integer(number) => format!("the number {number}"),
            RedisExpect::Nil => "no value".to_owned(),
            RedisExpect::Length(length) => format!("a value of {}", size(*length)),
            RedisExpect::Elements(count) => format!("the number of elements, {count}"),
            RedisExpect::Reply(reply) => reply.checked("reply", size),
        }
    }

    fn payload(&self) -> Option<u64> {
        match &self.expect {
            RedisExpect::Length(length) => Some(*length),
            RedisExpect::Bulk(text) => Some(text.len() as u64),
            _ => None,
        }
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        let (reply, unchecked) = Exact::learn("reply", replies);
        self.expect = match reply {
            Exact::Bytes(bytes) => known(&bytes, self.protocol),
            reply => RedisExpect::Reply(reply),
        };
        Ok(unchecked)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        if let Some(words) = options.command.take() {
            self.command = words;
            self.expect = RedisExpect::Success;
        }
        if let Some(value) = options.expect.take() {
            self.expect = RedisExpect::Bulk(value);
        }
        Ok(())
    }

    fn password(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.password)
    }

    fn greets(&self) -> bool {
        self.password.is_some() || self.database != 0 || self.protocol == Resp::V3
    }

    fn repeats(&self) -> Repeats {
        Repeats::Wordless
    }

    fn welcome(&self, _step: usize, _encrypted: bool) -> Vec<u8> {
        b"+OK\r\n".repeat(greeting(self).len())
    }
}

/// The expectation of exactly this reply: a single text as a value, any other reply by its bytes.
fn known(reply: &[u8], protocol: Resp) -> RedisExpect {
    let value = Some(reply)
        .filter(|reply| reply.len() <= exact::KEPT_MAX)
        .and_then(value);
    let value = value.filter(|value| expected_bytes(value, protocol) == Some(Exact::of(reply)));
    value.unwrap_or_else(|| RedisExpect::Reply(Exact::of(reply)))
}

/// The value of a reply that is a single text value.
fn value(reply: &[u8]) -> Option<RedisExpect> {
    let (line, rest) = std::str::from_utf8(reply).ok()?.split_once("\r\n")?;
    match line.split_at_checked(1)? {
        ("+", word) => Some(RedisExpect::Simple(word.to_owned())),
        (":", number) => number.parse().ok().map(RedisExpect::Integer),
        ("$", "-1") | ("_", "") => Some(RedisExpect::Nil),
        ("$", _) => Some(RedisExpect::Bulk(rest.strip_suffix("\r\n")?.to_owned())),
        _ => None,
    }
}

/// Maximum bytes of a line: a simple text, an error, a number.
const LINE_MAX: usize = 64 * 1024;
/// Maximum bytes shown of an error.
const ERROR_SHOWN: usize = 1_000;
/// Maximum bytes of one bulk text: the server's default.
const BULK_MAX: u64 = 512 * 1024 * 1024;

/// A command as an array of bulk texts.
fn encode<T: AsRef<str>>(words: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Request and expectations, shared by all connections of a thread.
struct Requests {
    request: Vec<u8>,
    greeting: Vec<u8>,
    has_password: bool,
    /// Number of replies to the greeting.
    greeting_replies: u32,
    expected: Expected,
    expect: RedisExpect,
}

impl Requests {
    fn new(redis: &Redis, pipeline: u32) -> Self {
        let greeting = greeting(redis);
        Self {
            request: encode(&redis.command).repeat(pipeline as usize),
            greeting: greeting.concat(),
            has_password: redis.password.is_some(),
            greeting_replies: greeting.len() as u32,
            expected: Expected::of("reply", expected_bytes(&redis.expect, redis.protocol)),
            expect: redis.expect.clone(),
        }
    }
}

/// Commands before the first request.
fn greeting(redis: &Redis) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    let user = redis.username.as_deref();
    match (redis.protocol, &redis.password) {
        (Resp::V2, None) => {}
        (Resp::V2, Some(password)) => {
            // Servers before Redis 6 have no users and accept only the form without one.
            let words = ["AUTH"].into_iter().chain(user).chain([password.as_str()]);
            said.push(encode(&words.collect::<Vec<_>>()));
        }
        (Resp::V3, None) => said.push(encode(&["HELLO", "3"])),
        (Resp::V3, Some(password)) => {
            said.push(encode(&["HELLO", "3", "AUTH", user.unwrap_or("default"), password]));
        }
    }
    if redis.database != 0 {
        said.push(encode(&["SELECT", &redis.database.to_string()]));
    }
    said
}

/// The reply byte for byte, if it is known.
fn expected_bytes(expect: &RedisExpect, protocol: Resp) -> Option<Exact> {
    let text = match expect {
        RedisExpect::Success | RedisExpect::Length(_) | RedisExpect::Elements(_) => return None,
        RedisExpect::Reply(reply) => return Some(reply.clone()),
        RedisExpect::Simple(text) => format!("+{text}\r\n"),
        RedisExpect::Bulk(text) => format!("${}\r\n{text}\r\n", text.len()),
        RedisExpect::Integer(number) => format!(":{number}\r\n"),
        RedisExpect::Nil if protocol == Resp::V3 => "_\r\n".to_owned(),
        RedisExpect::Nil => "$-1\r\n".to_owned(),
    };
    Some(text.into())
}

/// Finds the end of one reply.
#[derive(Default)]
struct Scanner {
    /// Elements still to come; 0 before the first byte.
    pending: u64,
    line: Line,
    /// Bytes of a bulk text and its line end still to come.
    bulk_left: u64,
    error: Option<String>,
    /// Whether the current bulk text is an error's.
    in_error: bool,
    /// Whether the current bytes belong to a push or attributes before the reply.
    in_extra: bool,
    /// Type of the reply; and its length, if it is a bulk text or has elements and is not null.
    first: Option<(u8, Option<u64>)>,
}

impl Scanner {
    fn reset(&mut self) {
        self.line.0.clear();
        *self = Self {
            // Reuses the memory.
            line: mem::take(&mut self.line),
            ..Self::default()
        };
    }

    /// Takes bytes. Returns how many were used when the reply is complete.
    fn feed(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        self.pending = self.pending.max(1);
        let mut at = 0;
        while at < bytes.len() {
            if self.bulk_left > 0 {
                at += self.take_bulk(&bytes[at..])?;
            } else {
                let (used, whole) = self.take_line(&bytes[at..])?;
                at += used;
                if whole {
                    self.end_line()?;
                }
            }
            if self.pending == 0 {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn take_bulk(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let (used, text) = ended_text(bytes, self.bulk_left)
            .ok_or_else(|| Failure::protocol("RESP: a bulk text is longer than its length says"))?;
        if let Some(error) = self
            .error
            .as_mut()
            .filter(|error| self.in_error && error.len() < ERROR_SHOWN)
        {
            error.push_str(&String::from_utf8_lossy(&bytes[..text]));
        }
        self.bulk_left -= used as u64;
        self.pending -= u64::from(self.bulk_left == 0);
        self.in_extra &= self.pending > 1;
        Ok(used)
    }

    fn take_line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        if self.line.0.is_empty() && !b"+-:$*_#,(!=%~>|".contains(&bytes[0]) {
            return Err(Failure::protocol(format!(
                "RESP: {} is not the type of a reply",
                excerpt(&bytes[..1])
            )));
        }
        self.line.feed(bytes, LINE_MAX, "RESP")
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        let line = &mut self.line.0;
        if line.pop() != Some(b'\r') {
            return Err(Failure::protocol("RESP: a line does not end in CR LF"));
        }
        let kind = line[0];
        let text = &line[1..];
        let length = match kind {
            b'$' | b'!' | b'=' => number(text, BULK_MAX)?,
            b'*' | b'~' | b'>' => number(text, u64::from(u32::MAX))?,
            b'%' | b'|' => number(text, u64::from(u32::MAX))?.map(|pairs| pairs * 2),
            _ => None,
        };
        // Pushes and attributes come before the awaited element and do not count as one.
        let is_extra = matches!(kind, b'>' | b'|');
        self.in_extra |= is_extra && self.first.is_none();
        if self.first.is_none() && !self.in_extra {
            let length = length.map(|length| if kind == b'%' { length / 2 } else { length });
            self.first = Some((kind, length));
            self.error = match kind {
                b'-' => Some(String::from_utf8_lossy(text).into_owned()),
                b'!' => Some(String::new()),
                _ => None,
            };
            self.in_error = kind == b'!';
        }
        self.pending -= u64::from(!is_extra);
        match (kind, length) {
            (b'$' | b'!' | b'=', Some(length)) => {
                // With CR LF. The element counts once its text is complete.
                self.bulk_left = length + 2;
                self.pending += 1;
            }
            // Arrays may be nested, and a server may claim any number of elements.
            (_, Some(count)) => self.pending = self.pending.saturating_add(count),
            _ => {}
        }
        self.in_extra &= self.pending > 1;
        line.clear();
        Ok(())
    }
}

/// A length; -1 means null.
fn number(text: &[u8], most: u64) -> Result<Option<u64>, Failure> {
    if text == b"-1" {
        return Ok(None);
    }
    let value = digits(text).filter(|value| *value <= most);
    value
        .map(Some)
        .ok_or_else(|| Failure::protocol(format!("RESP: {} is not a length", excerpt(text))))
}

/// Whether a text or an array has the expected length.
fn has(first: Option<(u8, Option<u64>)>, kind: u8, want: u64, of: &str) -> Result<(), Failure> {
    let got = first.filter(|first| first.0 == kind).and_then(|first| first.1);
    if got == Some(want) {
        return Ok(());
    }
    let got = got.map_or("of another type".to_owned(), |got| format!("{got} {of}"));
    Err(Failure::content(format!("the reply is {got}, expected {want} {of}")))
}

struct RedisReplies {
    requests: Rc<Requests>,
    scanner: Scanner,
    check: BodyCheck,
    /// Outstanding replies to the greeting; `None` before the greeting.
    greeting_left: Option<u32>,
}

impl RedisReplies {
    fn new(requests: Rc<Requests>) -> Self {
        Self {
            requests,
            scanner: Scanner::default(),
            check: BodyCheck::default(),
            greeting_left: None,
        }
    }
}

impl Replies for RedisReplies {
    fn reset(&mut self) {
        self.greeting_left = None;
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        if self.greeting_left.is_none() {
            output.extend_from_slice(&self.requests.greeting);
        }
        let mut left = self.greeting_left.unwrap_or(self.requests.greeting_replies);
        let mut rest = input;
        while left > 0 {
            self.greeting_left = Some(left);
            let Some(used) = self.scanner.feed(rest)? else {
                return Ok(false);
            };
            if let Some(error) = &self.scanner.error {
                return Err(Failure::refused(format!("authentication: {error}")));
            }
            self.scanner.reset();
            left -= 1;
            rest = &rest[used..];
        }
        if rest.is_empty() {
            Ok(true)
        } else {
            Err(Failure::protocol("RESP: a reply that was not asked for"))
        }
    }

    /// A server that requires a password answers nobody without it.
    fn password_asked(&self) -> Option<bool> {
        Some(self.requests.has_password)
    }

    fn request(&self) -> &[u8] {
        &self.requests.request
    }

    fn begin(&mut self) {
        self.scanner.reset();
        self.check.reset();
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let end = self.scanner.feed(bytes)?;
        let used = end.unwrap_or(bytes.len());
        self.check.feed(&self.requests.expected, &bytes[..used]);
        Ok((used, end.is_some()))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        let scanner = &self.scanner;
        if let Some(error) = &scanner.error {
            return Err(Failure::refused(format!("the server says: {error}")));
        }
        match self.requests.expect {
            RedisExpect::Length(length) => has(scanner.first, b'$', length, "bytes"),
            RedisExpect::Elements(count) => {
                let kind = scanner.first.map_or(b'*', |first| first.0);
                let kind = if b"%~".contains(&kind) { kind } else { b'*' };
                has(scanner.first, kind, count, "elements")
            }
            _ => self.check.finish(&self.requests.expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;
    use proptest::prelude::*;

    use super::{
        super::exchange::testing::{exchange, same_at_every_cut},
        *,
    };

    fn outcome(expect: RedisExpect, reply: &[u8]) -> Result<Option<ErrorClass>, ErrorClass> {
        let redis = Redis {
            command: vec!["GET".into(), "k".into()],
            expect,
            username: None,
            password: None,
            database: 0,
            protocol: Resp::V2,
        };
        let result = same_at_every_cut(&mut *exchange(&redis), reply);
        result
            .map(|done| done.2.map(|fault| fault.class))
            .map_err(|error| error.class)
    }

    #[test]
    fn commands_are_arrays_of_bulk_texts() {
        assert_eq!(
            encode(&["SET", "k", "é"]),
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\né\r\n".as_bytes()
        );
    }

    #[test]
    fn every_kind_of_reply_is_read_to_its_end() {
        for reply in [
            "+OK\r\n",
            ":12\r\n",
            "$5\r\nHello\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*0\r\n",
            "*-1\r\n",
            "_\r\n",
            "#t\r\n",
            ",3.25\r\n",
            "(349999999999999999999\r\n",
            "=8\r\ntxt:some\r\n",
            "~2\r\n:1\r\n_\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n*0\r\n",
            "%0\r\n",
            "|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n",
            ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n+OK\r\n",
            ">0\r\n+OK\r\n",
        ] {
            assert_eq!(outcome(RedisExpect::Success, reply.as_bytes()), Ok(None), "{reply:?}");
        }
        let nested = b"*3\r\n*2\r\n$1\r\na\r\n:1\r\n*0\r\n$2\r\n\r\n\r\n";
        assert_eq!(outcome(RedisExpect::Success, nested), Ok(None));
    }

    #[test]
    fn the_version_of_the_protocol_is_asked_for() {
        let greeting = |protocol, username: Option<&str>, password: Option<&str>, database| {
            let redis = Redis {
                command: vec!["PING".into()],
                expect: RedisExpect::Success,
                username: username.map(str::to_owned),
                password: password.map(str::to_owned),
                database,
                protocol,
            };
            String::from_utf8(Requests::new(&redis, 1).greeting).unwrap()
        };
        assert_eq!(greeting(Resp::V2, None, None, 0), "");
        assert_eq!(
            greeting(Resp::V2, None, Some("p"), 0),
            "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n"
        );
        let hello = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
        let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n";
        assert_eq!(greeting(Resp::V3, None, None, 2), [hello, select].concat());
        assert_eq!(
            greeting(Resp::V3, None, Some("p"), 0),
            "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$1\r\np\r\n"
        );
    }

    #[test]
    fn an_error_of_resp3_is_one() {
        let redis = Redis {
            command: vec!["GET".into(), "k".into()],
            expect: RedisExpect::Success,
            username: None,
            password: None,
            database: 0,
            protocol: Resp::V3,
        };
        let (_, _, fault) = same_at_every_cut(&mut *exchange(&redis), b"!7\r\nERR\r\nno\r\n").unwrap();
        assert_eq!(fault.unwrap().message, "the server says: ERR\r\nno");
        assert_eq!(expected_bytes(&RedisExpect::Nil, Resp::V3), Some("_\r\n".into()));
        assert_eq!(known(b"_\r\n", Resp::V3), RedisExpect::Nil);
        let map = b"%1\r\n+id\r\n:7\r\n";
        assert_eq!(outcome(RedisExpect::Elements(1), map), Ok(None));
        assert_eq!(
            outcome(RedisExpect::Elements(2), map),
            Ok(Some(ErrorClass::WrongContent))
        );
    }

    #[test]
    fn wrong_replies_have_their_class() {
        let bulk = || RedisExpect::Bulk("Hello".into());
        assert_eq!(outcome(bulk(), b"$5\r\nHello\r\n"), Ok(None));
        assert_eq!(outcome(bulk(), b"$5\r\nJello\r\n"), Ok(Some(ErrorClass::WrongContent)));
        assert_eq!(outcome(bulk(), b"$-1\r\n"), Ok(Some(ErrorClass::WrongContent)));
        assert_eq!(outcome(bulk(), b"-ERR no\r\n"), Ok(Some(ErrorClass::WrongStatus)));
        assert_eq!(outcome(bulk(), b"$5\r\nHello!\r\n"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(bulk(), b"$5\r\nHel"), Err(ErrorClass::Reset));
        assert_eq!(outcome(bulk(), b"$99999999999\r\n"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(bulk(), b"HTTP/1.1 400 Bad\r\n"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(RedisExpect::Length(5), b"$5\r\nHello\r\n"), Ok(None));
        assert_eq!(
            outcome(RedisExpect::Length(5), b"$4\r\nHell\r\n"),
            Ok(Some(ErrorClass::WrongContent))
        );
        assert_eq!(outcome(RedisExpect::Elements(2), b"*2\r\n:1\r\n:2\r\n"), Ok(None));
        assert_eq!(
            outcome(RedisExpect::Elements(2), b"*1\r\n:1\r\n"),
            Ok(Some(ErrorClass::WrongContent))
        );
        assert_eq!(
            outcome(RedisExpect::Elements(0), b"$-1\r\n"),
            Ok(Some(ErrorClass::WrongContent))
        );
        let array = || RedisExpect::Reply(Exact::of(b"*2\r\n:1\r\n$1\r\n\xff\r\n"));
        assert_eq!(outcome(array(), b"*2\r\n:1\r\n$1\r\n\xff\r\n"), Ok(None));
        assert_eq!(
            outcome(array(), b"*2\r\n:1\r\n$1\r\n\xfe\r\n"),
            Ok(Some(ErrorClass::WrongContent))
        );
        assert_eq!(outcome(RedisExpect::Nil, b"$-1\r\n"), Ok(None));
        assert_eq!(outcome(RedisExpect::Integer(3), b":3\r\n"), Ok(None));
    }

    /// The expectation learnt from two replies, and the parts that are not checked.
    fn learnt(first: &[u8], second: &[u8]) -> (RedisExpect, String) {
        let mut redis = Redis {
            command: vec![],
            expect: RedisExpect::Success,
            username: None,
            password: None,
            database: 0,
            protocol: Resp::V2,
        };
        let unchecked = redis.learn(&[first, second]).unwrap();
        (redis.expect, unchecked.unwrap_or_default())
    }

    #[test]
    fn a_reply_that_stays_is_expected_byte_for_byte() {
        let reply = |bytes: &[u8]| RedisExpect::Reply(Exact::of(bytes));
        for (bytes, expect) in [
            (&b"+PONG\r\n"[..], RedisExpect::Simple("PONG".into())),
            (b":7\r\n", RedisExpect::Integer(7)),
            (b":07\r\n", reply(b":07\r\n")),
            (b"$-1\r\n", RedisExpect::Nil),
            (b"$5\r\na\r\nbc\r\n", RedisExpect::Bulk("a\r\nbc".into())),
            (b"$2\r\n\xff\xfe\r\n", reply(b"$2\r\n\xff\xfe\r\n")),
            (b"*1\r\n:1\r\n", reply(b"*1\r\n:1\r\n")),
        ] {
            assert_eq!(learnt(bytes, bytes), (expect.clone(), String::new()));
            assert_eq!(outcome(expect, bytes), Ok(None));
        }
    }

    #[test]
    fn of_a_reply_that_changes_it_is_said_what_is_checked() {
        let wrong = Ok(Some(ErrorClass::WrongContent));
        for (first, second, said, right, other) in [
            (
                "$1\r\na\r\n",
                "$2\r\nab\r\n",
                "bytes 0 to 1 (\"$1\"), byte 4 (\"a\")",
                "$3\r\nabc\r\n",
                "$-1\r\n",
            ),
            (
                "*1\r\n:1\r\n",
                "*1\r\n:2\r\n",
                "bytes 4 to 5 (\":1\")",
                "*1\r\n:10\r\n",
                "*2\r\n:1\r\n:1\r\n",
            ),
            (":9\r\n", ":10\r\n", "bytes 0 to 1 (\":9\")", ":100\r\n", "+OK\r\n"),
        ] {
            let (expect, unchecked) = learnt(first.as_bytes(), second.as_bytes());
            let said = format!("not checked of the reply: {said}");
            assert!(unchecked.starts_with(&said), "{unchecked}");
            assert_eq!(outcome(expect.clone(), right.as_bytes()), Ok(None), "{right:?}");
            assert_eq!(outcome(expect, other.as_bytes()), wrong, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_outcome(reply in proptest::collection::vec(prop_oneof![
            Just(b'$'), Just(b'*'), Just(b'+'), Just(b'-'), Just(b'\r'), Just(b'\n'), b'0'..=b'9', any::<u8>()
        ], 0..40)) {
            let _ = outcome(RedisExpect::Success, &reply);
        }
    }
}
