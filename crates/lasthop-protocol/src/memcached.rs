//! memcached's text protocol: one `get`, `set` or other line, repeated, encoded once; replies are checked without being
//! kept.

use std::rc::Rc;

use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{BodyCheck, Expected},
    checked::Replies,
    exact::Exact,
    exchange::{Factory, excerpt},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Repeats, Usage},
    line::{Line, digits, ended_text, without_placeholders},
};
use crate::location::Location;

/// Maximum bytes of a key, as in the server.
const KEY_MAX: u64 = 250;
/// Maximum bytes of a value: the server's own limit can be raised to this.
const VALUE_MAX: u64 = 1 << 30;
/// Maximum bytes of a line of a reply.
const LINE_MAX: usize = 8 * 1024;
const STORED: &[u8] = b"STORED\r\n";
const MISS: &[u8] = b"END\r\n";

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["memcached"],
    urls: &[
        (
            "memcached://127.0.0.1:11211",
            "memcached; memcached+tls:// with TLS; --command takes\nany line (`get a b`, `mg k v`), a value last",
        ),
        ("memcached+unix:/run/memcached.sock", "memcached over a Unix socket"),
    ],
    ..ProtocolKind::of::<Memcached>("memcached", "memcached", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (_, rest) = location.authority();
    if !location.is_socket && !matches!(rest, "" | "/") {
        let text = format!("nothing may follow the port, but `{rest}` does; `--command 'get KEY'` names a key");
        return Err(text);
    }
    let get = Memcached {
        command: Command::Get,
        key: "lasthop".to_owned(),
        value: None,
        expect: MemcachedExpect::Any,
    };
    Ok((location.endpoint(Some(11211))?, get.into()))
}

/// memcached: one command, repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memcached {
    /// The command.
    pub command: Command,
    /// The key, 1 to 250 bytes without blanks; empty with a `line`.
    #[serde(default)]
    pub key: String,
    /// With `set`, or a line that stores: the value to store. With `get`: the value that each connection stores under
    /// the key before its first request, and that every reply must return.
    #[serde(default)]
    pub value: Option<String>,
    /// The correct reply to `get` or a line without a `value`: `"any"` (a value or none), `"miss"`,
    /// `{ value = "text" }`, `{ length = 100 }` (a value of this many bytes) or `{ reply = "…" }` (all bytes of the
    /// reply). The correct reply to `set` always reports that the value is stored.
    #[serde(default)]
    pub expect: MemcachedExpect,
}

/// A command of memcached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Get the value of a key.
    Get,
    /// Store a value under a key.
    Set,
    /// Any other line that has a reply, as sent: `get a b`, `incr n 1`, `mg k v`.
    Line(String),
}

/// Commands followed by a value, and the index of its length among their words.
const STORING: [(&str, usize); 7] = [
    ("set", 4),
    ("add", 4),
    ("replace", 4),
    ("append", 4),
    ("prepend", 4),
    ("cas", 4),
    ("ms", 2),
];

/// The length that a line announces for the value after it; `None` if no value follows.
fn announced(line: &str) -> Option<Option<u64>> {
    let words: Vec<&str> = line.split(' ').collect();
    let place = STORING.iter().find(|(name, _)| *name == words[0])?.1;
    Some(words.get(place).and_then(|word| digits(word.as_bytes())))
}

/// Whether a line requests no reply.
fn is_quiet(line: &str) -> bool {
    let is_meta = line.len() > 2 && line.starts_with('m') && line.as_bytes()[2] == b' ';
    line.split(' ')
        .skip(2)
        .any(|word| word == "noreply" || is_meta && word == "q")
}

/// The correct reply to `get`. An error is never correct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemcachedExpect {
    /// A value or none.
    #[default]
    Any,
    /// No value.
    Miss,
    /// This value.
    Value(String),
    /// A value of this many bytes.
    Length(u64),
    /// This reply, byte for byte.
    Reply(Exact),
}

impl Memcached {
    /// The line and the value of `set`.
    fn storing(&self, value: &str) -> Vec<u8> {
        format!("set {} 0 0 {}\r\n{value}\r\n", self.key, value.len()).into_bytes()
    }

    /// What a connection sends before its first request.
    fn preparation(&self) -> Option<Vec<u8>> {
        self.value
            .as_ref()
            .filter(|_| self.command == Command::Get)
            .map(|value| self.storing(value))
    }

    fn expected(&self) -> MemcachedExpect {
        match (&self.value, &self.command) {
            (Some(value), Command::Get) => MemcachedExpect::Value(value.clone()),
            _ => self.expect.clone(),
        }
    }
}

impl ProtocolSpec for Memcached {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, _: Usage) -> Result<(), String> {
        let line = if let Command::Line(line) = &self.command {
            line
        } else {
            &self.key
        };
        without_placeholders([line.as_str(), self.value.as_deref().unwrap_or_default()])?;
        if let Command::Line(line) = &self.command {
            return self.valid_line(line);
        }
        within("length of the key", self.key.len() as u64, 1, KEY_MAX)?;
        if self
            .key
            .bytes()
            .any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
        {
            let text = format!(
                "the key `{}` contains a blank or a control character",
                self.key.escape_debug()
            );
            return Err(text);
        }
        within(
            "length of the value",
            self.value.as_ref().map_or(0, String::len) as u64,
            0,
            VALUE_MAX,
        )?;
        match (&self.command, &self.value) {
            (Command::Set, None) => Err("`set` needs a `value` to store".to_owned()),
            (Command::Set, _) if self.expect != MemcachedExpect::Any => {
                Err("`expect` belongs to `get`: the correct reply to `set` is that it is stored".to_owned())
            }
            (Command::Get, Some(_)) if self.expect != MemcachedExpect::Any => {
                Err("`get` takes `value` or `expect`: what was stored is expected back".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn factory(&self, usage: Usage) -> Factory {
        let requests = Rc::new(Requests::new(self, usage.pipeline));
        Factory::checked(usage.pipeline, move || MemcachedReplies::new(Rc::clone(&requests)))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        match self.expected() {
            _ if self.command == Command::Set => "the reply `STORED`".to_owned(),
            MemcachedExpect::Any => "any reply except an error".to_owned(),
            MemcachedExpect::Miss => "no value".to_owned(),
            MemcachedExpect::Value(text) => format!("a value of {}, byte for byte", size(text.len() as u64)),
            MemcachedExpect::Length(length) => format!("a value of {}", size(length)),
            MemcachedExpect::Reply(Exact::Bytes(reply)) if is_word(&reply) => {
                format!("the reply `{}`", String::from_utf8_lossy(reply.trim_ascii_end()))
            }
            MemcachedExpect::Reply(reply) => reply.checked("reply", size),
        }
    }

    fn payload(&self) -> Option<u64> {
        match self.expected() {
            MemcachedExpect::Value(text) => Some(text.len() as u64),
            MemcachedExpect::Length(length) => Some(length),
            _ => None,
        }
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        let is_line = matches!(self.command, Command::Line(_));
        if self.command == Command::Set || (self.value.is_some() && !is_line) {
            return Ok(None);
        }
        let (reply, unchecked) = Exact::learn("reply", replies);
        self.expect = if reply == Exact::of(MISS) && self.command == Command::Get {
            MemcachedExpect::Miss
        } else {
            MemcachedExpect::Reply(reply)
        };
        Ok(unchecked)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        if let Some(words) = options.command.take() {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (command, key, value) = match words[..] {
                ["get", key] => (Command::Get, key, None),
                ["set", key, value] => (Command::Set, key, Some(value.to_owned())),
                // The value is a separate word here, not part of the line.
                [ref line @ .., value] if announced(words[0]).is_some() => {
                    (Command::Line(line.join(" ")), "", Some(value.to_owned()))
                }
                _ => (Command::Line(words.join(" ")), "", None),
            };
            *self = Self {
                command,
                key: key.to_owned(),
                value,
                expect: MemcachedExpect::Any,
            };
        }
        if let Some(value) = options.expect.take() {
            self.expect = MemcachedExpect::Value(value);
        }
        Ok(())
    }

    fn greets(&self) -> bool {
        self.preparation().is_some()
    }

    fn repeats(&self) -> Repeats {
        Repeats::Wordless
    }

    fn welcome(&self, _step: usize, _encrypted: bool) -> Vec<u8> {
        STORED.to_vec()
    }
}

impl Memcached {
    fn valid_line(&self, line: &str) -> Result<(), String> {
        let shown = line.escape_debug();
        within("length of the line", line.len() as u64, 1, LINE_MAX as u64)?;
        if line.trim() != line || line.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(format!(
                "the line `{shown}` begins or ends with a blank, or contains a control character"
            ));
        }
        if !self.key.is_empty() {
            return Err("`key` belongs to `get` and `set`: a line has its keys in it".to_owned());
        }
        if is_quiet(line) {
            return Err(format!("`{shown}` asks for no reply, so nothing could be timed"));
        }
        let length = self.value.as_ref().map(|value| value.len() as u64);
        match (announced(line), length) {
            (None, None) => Ok(()),
            (Some(said), Some(length)) if said == Some(length) => Ok(()),
            (None, Some(_)) => Err(format!("no value follows the line `{shown}`")),
            (Some(_), None) => Err(format!("a value follows the line `{shown}`: add it as the last word")),
            (Some(_), Some(length)) => Err(format!(
                "the line `{shown}` does not say the length of its value, {length} (as in `add KEY 0 0 {length} VALUE` and \
                 `ms KEY {length} VALUE`)"
            )),
        }
    }
}

/// Whether a reply is one short line.
fn is_word(reply: &[u8]) -> bool {
    let line = reply.strip_suffix(b"\r\n").unwrap_or_default();
    (1..=40).contains(&line.len()) && line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// Request and expectations, shared by all connections of a thread.
struct Requests {
    command: Command,
    key: Vec<u8>,
    request: Vec<u8>,
    preparation: Vec<u8>,
    expect: MemcachedExpect,
    /// The value, if one is expected.
    value: Expected,
    /// The whole reply, if it is known.
    reply: Option<Expected>,
}

impl Requests {
    fn new(memcached: &Memcached, pipeline: u32) -> Self {
        let request = match (&memcached.command, &memcached.value) {
            (Command::Set, Some(value)) => memcached.storing(value),
            (Command::Line(line), None) => format!("{line}\r\n").into_bytes(),
            (Command::Line(line), Some(value)) => format!("{line}\r\n{value}\r\n").into_bytes(),
            _ => format!("get {}\r\n", memcached.key).into_bytes(),
        };
        let expect = memcached.expected();
        let mut value = Expected::of("value", None);
        let mut reply = None;
        match &expect {
            MemcachedExpect::Value(text) => value.body = Some(text.clone().into()),
            MemcachedExpect::Length(length) => value.length = Some(*length),
            MemcachedExpect::Reply(bytes) => reply = Some(Expected::of("reply", Some(bytes.clone()))),
            MemcachedExpect::Any | MemcachedExpect::Miss => {}
        }
        Self {
            command: memcached.command.clone(),
            key: memcached.key.clone().into_bytes(),
            request: request.repeat(pipeline as usize),
            preparation: memcached.preparation().unwrap_or_default(),
            expect,
            value,
            reply,
        }
    }
}

struct MemcachedReplies {
    requests: Rc<Requests>,
    has_prepared: bool,
    /// The current line.
    line: Line,
    /// Bytes of the value and its line end still to come.
    left: u64,
    /// Whether the reply has a value, and whether it ends with the value.
    has_value: bool,
    is_last: bool,
    value: BodyCheck,
    /// Check of the whole reply, if it is known.
    reply: BodyCheck,
    fault: Option<Failure>,
}

impl MemcachedReplies {
    fn new(requests: Rc<Requests>) -> Self {
        Self {
            requests,
            has_prepared: false,
            line: Line::default(),
            left: 0,
            has_value: false,
            is_last: false,
            value: BodyCheck::default(),
            reply: BodyCheck::default(),
            fault: None,
        }
    }

    /// Takes bytes up to the end of a line. Returns whether the line is complete.
    fn take_line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let is_line = matches!(self.requests.command, Command::Line(_));
        let begins = b"VESNC".contains(&bytes[0]) || is_line && bytes[0].is_ascii_alphanumeric();
        if self.line.0.is_empty() && !begins {
            return Err(Failure::protocol(format!(
                "memcached: {} does not begin a reply",
                excerpt(&bytes[..1])
            )));
        }
        self.line.feed(bytes, LINE_MAX, "memcached")
    }

    fn take_value(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let (used, text) = ended_text(bytes, self.left)
            .ok_or_else(|| Failure::protocol("memcached: a value is longer than its length says"))?;
        self.value.feed(&self.requests.value, &bytes[..text]);
        self.left -= used as u64;
        Ok(used)
    }

    /// Acts on a complete line; true at the end of the reply.
    fn end_line(&mut self) -> Result<bool, Failure> {
        let line = std::mem::take(&mut self.line.0);
        let requests = &self.requests;
        let is_line = matches!(requests.command, Command::Line(_));
        // `NOT_STORED` is an answer to `add` and others like it.
        let refused = [&b"NOT_STORED\r"[..], b"ERROR\r", b"CLIENT_ERROR ", b"SERVER_ERROR "];
        let refused = &refused[usize::from(is_line)..];
        if (is_line || !self.has_value) && refused.iter().any(|word| line.starts_with(word)) {
            self.fault = Some(refusal("", &line));
            return Ok(true);
        }
        let unknown = || {
            let line = excerpt(&line);
            Failure::protocol(format!("memcached: {line} is not a reply to this request"))
        };
        let words = line.strip_suffix(b"\r").ok_or_else(unknown)?;
        let mut words = words.split(|byte| *byte == b' ');
        let words: [Option<&[u8]>; 5] = std::array::from_fn(|_| words.next());
        let (length, is_last) = match (&requests.command, words) {
            (Command::Get, [Some(b"END"), None, ..]) | (Command::Set, [Some(b"STORED"), None, ..]) => return Ok(true),
            // A fifth word would be the unique number that only `gets` requests.
            (Command::Get, [Some(b"VALUE"), Some(key), Some(flags), Some(length), None]) if !self.has_value => {
                if key != requests.key {
                    return Err(Failure::content(format!("the value of {} came instead", excerpt(key))));
                }
                let flags: u64 = digits(flags).ok_or_else(unknown)?;
                // Values stored here have the flags 0; other flags mean that the value is another client's.
                if !requests.preparation.is_empty() && flags != 0 {
                    self.fault = Some(Failure::content(format!("the value has the flags {flags}, expected 0")));
                }
                (length, false)
            }
            (Command::Line(_), [Some(b"VALUE"), _, _, Some(length), _]) => (length, false),
            // The reply to a meta command ends with its value.
            (Command::Line(_), [Some(b"VA"), Some(length), ..]) => (length, true),
            (Command::Line(_), [Some(b"STAT" | b"ITEM" | b"PREFIX"), ..]) => return Ok(false),
            (Command::Line(_), [Some(b"VALUE" | b"VA"), ..]) => return Err(unknown()),
            (Command::Line(_), _) => return Ok(true),
            _ => return Err(unknown()),
        };
        let length: u64 = digits(length)
            .filter(|length| *length <= VALUE_MAX)
            .ok_or_else(unknown)?;
        self.has_value = true;
        self.is_last = is_last;
        self.left = length + 2;
        Ok(false)
    }
}

fn refusal(during: &str, line: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(line.trim_ascii_end());
    Failure::refused(format!("{during}the server says: {text}"))
}

impl Replies for MemcachedReplies {
    fn reset(&mut self) {
        self.has_prepared = false;
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        if !std::mem::replace(&mut self.has_prepared, true) {
            output.extend_from_slice(&self.requests.preparation);
        }
        if input.is_empty() {
            return Ok(false);
        }
        let (used, whole) = self.take_line(input)?;
        if !whole {
            return Ok(false);
        }
        let line = std::mem::take(&mut self.line.0);
        match (line.as_slice(), input.len() - used) {
            (b"STORED\r", 0) => Ok(true),
            (b"STORED\r", _) => Err(Failure::protocol("memcached: a reply that was not asked for")),
            _ => Err(refusal("storing the value: ", &line)),
        }
    }

    fn request(&self) -> &[u8] {
        &self.requests.request
    }

    fn begin(&mut self) {
        self.line.0.clear();
        self.left = 0;
        self.has_value = false;
        self.is_last = false;
        self.value.reset();
        self.reply.reset();
        self.fault = None;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let in_value = self.left > 0;
        let (used, whole) = if in_value {
            (self.take_value(bytes)?, self.is_last && self.left == 0)
        } else {
            self.take_line(bytes)?
        };
        if let Some(reply) = &self.requests.reply {
            self.reply.feed(reply, &bytes[..used]);
        }
        Ok((used, whole && (in_value || self.end_line()?)))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.requests.command == Command::Set {
            return Ok(());
        }
        if let Some(reply) = &self.requests.reply {
            return self.reply.finish(reply);
        }
        match (&self.requests.expect, self.has_value) {
            (MemcachedExpect::Any, _) | (MemcachedExpect::Miss, false) => Ok(()),
            (MemcachedExpect::Miss, true) => Err(Failure::content("there is a value, expected none")),
            (_, false) => Err(Failure::content("there is no value, expected one")),
            (_, true) => self.value.finish(&self.requests.value),
        }
    }

    fn payload(&self, _: u64) -> u64 {
        self.value.received()
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;
    use proptest::prelude::*;

    use super::{
        super::exchange::testing::{exchange, same_at_every_cut, usage},
        *,
    };

    fn get(expect: MemcachedExpect) -> Memcached {
        Memcached {
            command: Command::Get,
            key: "k".into(),
            value: None,
            expect,
        }
    }

    fn set() -> Memcached {
        Memcached {
            command: Command::Set,
            value: Some("Hello".into()),
            ..get(MemcachedExpect::Any)
        }
    }

    fn outcome(memcached: &Memcached, reply: &[u8]) -> Result<(u64, Option<ErrorClass>), ErrorClass> {
        let result = same_at_every_cut(&mut *exchange(memcached), reply);
        result
            .map(|done| (done.0, done.2.map(|fault| fault.class)))
            .map_err(|error| error.class)
    }

    #[test]
    fn requests_are_lines_and_values() {
        assert_eq!(
            Requests::new(&get(MemcachedExpect::Any), 2).request,
            b"get k\r\nget k\r\n"
        );
        assert_eq!(Requests::new(&set(), 1).request, b"set k 0 0 5\r\nHello\r\n");
    }

    #[test]
    fn right_replies_are_read_to_their_end() {
        let hello = b"VALUE k 0 5\r\nHello\r\nEND\r\n";
        for expect in [
            MemcachedExpect::Any,
            MemcachedExpect::Value("Hello".into()),
            MemcachedExpect::Length(5),
        ] {
            assert_eq!(outcome(&get(expect), hello), Ok((5, None)));
        }
        assert_eq!(outcome(&get(MemcachedExpect::Any), MISS), Ok((0, None)));
        assert_eq!(outcome(&get(MemcachedExpect::Miss), MISS), Ok((0, None)));
        assert_eq!(
            outcome(
                &get(MemcachedExpect::Value(String::new())),
                b"VALUE k 0 0\r\n\r\nEND\r\n"
            ),
            Ok((0, None))
        );
        let tricky = MemcachedExpect::Value("\r\nEND\r\n".into());
        assert_eq!(
            outcome(&get(tricky), b"VALUE k 0 7\r\n\r\nEND\r\n\r\nEND\r\n"),
            Ok((7, None))
        );
        assert_eq!(outcome(&set(), STORED), Ok((0, None)));
    }

    #[test]
    fn wrong_replies_have_their_class() {
        use ErrorClass::{Protocol, Reset, WrongContent, WrongStatus};
        let hello = get(MemcachedExpect::Value("Hello".into()));
        for (reply, wanted) in [
            (&b"VALUE k 0 5\r\nJello\r\nEND\r\n"[..], Ok((5, Some(WrongContent)))),
            (b"VALUE k 0 4\r\nHell\r\nEND\r\n", Ok((4, Some(WrongContent)))),
            (b"END\r\n", Ok((0, Some(WrongContent)))),
            (b"SERVER_ERROR out of memory\r\n", Ok((0, Some(WrongStatus)))),
            (b"ERROR\r\n", Ok((0, Some(WrongStatus)))),
            (b"VALUE j 0 5\r\nHello\r\nEND\r\n", Err(WrongContent)),
            (b"VALUE k 0 5\r\nHello!\r\nEND\r\n", Err(Protocol)),
            (b"VALUE k 0 5\r\nHello\r\nVALUE k 0 5\r\n", Err(Protocol)),
            (b"VALUE k 0 99999999999\r\n", Err(Protocol)),
            (b"STORED\r\n", Err(Protocol)),
            (b"HTTP/1.1 400\r\n", Err(Protocol)),
            (b"VALUE k 0 5\r\nHel", Err(Reset)),
        ] {
            assert_eq!(outcome(&hello, reply), wanted, "{}", reply.escape_ascii());
        }
        assert_eq!(
            outcome(&get(MemcachedExpect::Miss), b"VALUE k 0 1\r\nx\r\nEND\r\n"),
            Ok((1, Some(WrongContent)))
        );
        assert_eq!(outcome(&set(), b"NOT_STORED\r\n"), Ok((0, Some(WrongStatus))));
        assert_eq!(outcome(&set(), b"END\r\n"), Err(Protocol));
    }

    #[test]
    fn a_value_is_stored_before_the_first_get() {
        let stored = Memcached {
            value: Some("Hello".into()),
            ..get(MemcachedExpect::Any)
        };
        assert!(stored.greets() && !set().greets());
        let mut exchange = exchange(&stored);
        let mut said = Vec::new();
        assert_eq!(exchange.greet(&[], &mut said), Ok(false));
        assert_eq!(said, b"set k 0 0 5\r\nHello\r\n");
        assert_eq!(exchange.greet(b"STO", &mut said), Ok(false));
        assert_eq!(exchange.greet(b"RED\r\n", &mut said), Ok(true));
        exchange.reset();
        let refused = exchange
            .greet(b"SERVER_ERROR object too large for cache\r\n", &mut said)
            .unwrap_err();
        assert_eq!(refused.class, ErrorClass::WrongStatus);
        assert!(refused.message.contains("object too large"), "{refused}");
        let hello = b"VALUE k 0 5\r\nHello\r\nEND\r\n";
        assert_eq!(outcome(&stored, hello), Ok((5, None)));
        assert_eq!(outcome(&stored, MISS), Ok((0, Some(ErrorClass::WrongContent))));
        let flagged = b"VALUE k 1 5\r\nHello\r\nEND\r\n";
        assert_eq!(outcome(&stored, flagged), Ok((5, Some(ErrorClass::WrongContent))));
    }

    #[test]
    fn two_replies_tell_what_is_right() {
        let learnt = |first: &[u8], second: &[u8]| {
            let mut memcached = get(MemcachedExpect::Any);
            let unchecked = memcached.learn(&[first, second]).unwrap();
            (memcached.expect, unchecked.unwrap_or_default())
        };
        let [one, two, long, bytes, flagged] = [
            &b"VALUE k 0 1\r\na\r\nEND\r\n"[..],
            b"VALUE k 0 1\r\nb\r\nEND\r\n",
            b"VALUE k 0 2\r\nab\r\nEND\r\n",
            b"VALUE k 0 1\r\n\xff\r\nEND\r\n",
            b"VALUE k 1 1\r\na\r\nEND\r\n",
        ];
        assert_eq!(learnt(MISS, MISS), (MemcachedExpect::Miss, String::new()));
        for reply in [one, bytes] {
            let expect = MemcachedExpect::Reply(Exact::of(reply));
            assert_eq!(learnt(reply, reply), (expect.clone(), String::new()));
            assert_eq!(outcome(&get(expect.clone()), reply), Ok((1, None)));
            for other in [two, long, flagged, MISS] {
                assert_eq!(
                    outcome(&get(expect.clone()), other).unwrap().1,
                    Some(ErrorClass::WrongContent)
                );
            }
        }
        let (expect, unchecked) = learnt(one, long);
        assert_eq!(
            unchecked,
            "not checked of the reply: byte 10 (\"1\"), byte 13 (\"a\"), which changed within the first 2 replies"
        );
        assert_eq!(outcome(&get(expect.clone()), two), Ok((1, None)));
        for other in [flagged, MISS] {
            assert_eq!(
                outcome(&get(expect.clone()), other).unwrap().1,
                Some(ErrorClass::WrongContent)
            );
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        assert!(set().validate(usage(1)).is_ok());
        for (wrong, text) in [
            (
                Memcached {
                    key: "a b".into(),
                    ..set()
                },
                "the key `a b` contains a blank",
            ),
            (
                Memcached {
                    key: "a\r\nb".into(),
                    ..set()
                },
                "the key `a\\r\\nb` contains",
            ),
            (
                Memcached {
                    key: String::new(),
                    ..set()
                },
                "length of the key must be 1 to 250, not 0",
            ),
            (
                Memcached {
                    key: "x".repeat(251),
                    ..set()
                },
                "length of the key must be 1 to 250, not 251",
            ),
            (Memcached { value: None, ..set() }, "`set` needs a `value`"),
            (
                Memcached {
                    expect: MemcachedExpect::Miss,
                    ..set()
                },
                "`expect` belongs to `get`",
            ),
            (
                Memcached {
                    value: Some("x".into()),
                    ..get(MemcachedExpect::Miss)
                },
                "`get` takes `value` or `expect`",
            ),
        ] {
            let error = wrong.validate(usage(1)).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        for (words, text) in [
            ("incr n 1 noreply", "`incr n 1 noreply` asks for no reply"),
            ("mg k v q", "`mg k v q` asks for no reply"),
            (
                "add k 0 0 6 Hello",
                "the line `add k 0 0 6` does not say the length of its value, 5",
            ),
            (
                "set k 0 0 5",
                "the line `set k 0 0` does not say the length of its value, 1",
            ),
            ("ms k", "the line `ms` does not say the length"),
        ] {
            let error = asked(words).validate(usage(1)).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }

    fn asked(words: &str) -> Memcached {
        let mut memcached = get(MemcachedExpect::Any);
        let mut options = LoadOptions {
            command: Some(words.split(' ').map(str::to_owned).collect()),
            ..LoadOptions::default()
        };
        memcached.apply(&mut options).unwrap();
        memcached
    }

    #[test]
    fn any_line_is_sent_and_its_reply_read_to_its_end() {
        for (words, request, reply, payload) in [
            (
                "get a b",
                "get a b\r\n",
                "VALUE a 0 1\r\nx\r\nVALUE b 7 2\r\n\r\n\r\nEND\r\n",
                3,
            ),
            ("gets a", "gets a\r\n", "VALUE a 0 1 99\r\nx\r\nEND\r\n", 1),
            ("get a b", "get a b\r\n", "END\r\n", 0),
            ("incr n 1", "incr n 1\r\n", "42\r\n", 0),
            ("delete k", "delete k\r\n", "NOT_FOUND\r\n", 0),
            ("mg k v t", "mg k v t\r\n", "VA 4 t-1\r\nab\r\n\r\n", 4),
            ("mg k v", "mg k v\r\n", "EN\r\n", 0),
            ("mg k t", "mg k t\r\n", "HD t-1\r\n", 0),
            ("ms k 5 Hello", "ms k 5\r\nHello\r\n", "HD\r\n", 0),
            ("add k 0 60 5 Hello", "add k 0 60 5\r\nHello\r\n", "NOT_STORED\r\n", 0),
            ("stats", "stats\r\n", "STAT pid 1\r\nSTAT uptime 2\r\nEND\r\n", 0),
            ("version", "version\r\n", "VERSION 1.6.18\r\n", 0),
        ] {
            let mut memcached = asked(words);
            assert_eq!(memcached.validate(usage(1)), Ok(()), "{words}");
            assert_eq!(Requests::new(&memcached, 1).request, request.as_bytes());
            assert_eq!(outcome(&memcached, reply.as_bytes()), Ok((payload, None)), "{words}");
            assert_eq!(memcached.learn(&[reply.as_bytes(), reply.as_bytes()]), Ok(None));
            assert_eq!(outcome(&memcached, reply.as_bytes()), Ok((payload, None)), "{words}");
            let other = outcome(&memcached, b"VERSION x\r\n");
            assert_eq!(other, Ok((0, Some(ErrorClass::WrongContent))), "{words}");
            let refused = outcome(&memcached, b"CLIENT_ERROR bad command line format\r\n");
            assert_eq!(refused, Ok((0, Some(ErrorClass::WrongStatus))), "{words}");
        }
        let mut incr = asked("incr n 1");
        let unchecked = incr.learn(&[b"1\r\n", b"2\r\n"]).unwrap().unwrap();
        assert!(
            unchecked.starts_with("not checked of the reply: byte 0 (\"1\")"),
            "{unchecked}"
        );
        assert_eq!(outcome(&incr, b"3\r\n"), Ok((0, None)));
        assert_eq!(incr.learn(&[b"NOT_FOUND\r\n", b"NOT_FOUND\r\n"]), Ok(None));
        assert_eq!(incr.checked(&|_| String::new()), "the reply `NOT_FOUND`");
        let mut mg = asked("mg k v");
        mg.expect = MemcachedExpect::Value("Hello".into());
        assert_eq!(outcome(&mg, b"VA 5\r\nHello\r\n"), Ok((5, None)));
        assert_eq!(outcome(&mg, b"EN\r\n"), Ok((0, Some(ErrorClass::WrongContent))));
        assert_eq!(outcome(&mg, b"VA x\r\n"), Err(ErrorClass::Protocol));
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_outcome(
            lines in proptest::collection::vec(prop_oneof![
                Just("VALUE k 0 1\r\n".to_owned()), Just("x\r\n".to_owned()), Just("END\r\n".to_owned()),
                Just("ERROR\r\n".to_owned()), "[VESNC ]{0,3}[\r\n0-9k ]{0,4}",
            ], 0..5)
        ) {
            let _ = outcome(&get(MemcachedExpect::Any), lines.concat().as_bytes());
        }
    }
}
