//! Redis with RESP2: one command, encoded once; its replies, however nested, are checked without being kept.

use std::rc::Rc;

use super::{
    Done, Exchange, Greeting, Progress, Run,
    check::{BodyCheck, Expected},
    excerpt,
    verified::Verified,
};
use crate::{
    failure::Failure,
    result::ErrorClass,
    spec::{Redis, RedisExpect},
};

/// Most bytes of a line: a simple text, an error, a number.
const LINE_MAX: usize = 64 * 1024;
/// Most bytes of one bulk text, as the server itself has it by default.
const BULK_MAX: u64 = 512 * 1024 * 1024;

/// A command as an array of bulk texts.
#[must_use]
pub fn encode<T: AsRef<str>>(words: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// What all connections of a thread have in common.
#[derive(Clone)]
pub struct Shared {
    common: Rc<Common>,
    verified: Verified,
}

struct Common {
    request: Vec<u8>,
    greeting: Vec<u8>,
    /// Replies that the greeting gets.
    greeting_replies: u32,
    expected: Expected,
    /// The expected length of a bulk reply.
    length: Option<u64>,
}

impl Shared {
    #[must_use]
    pub fn new(redis: &Redis, pipeline: u32) -> Self {
        let mut greeting = Vec::new();
        let mut greeting_replies = 0;
        let mut say = |words: &[&str]| {
            greeting.extend_from_slice(&encode(words));
            greeting_replies += 1;
        };
        match (&redis.username, &redis.password) {
            (Some(user), Some(password)) => say(&["AUTH", user, password]),
            (None, Some(password)) => say(&["AUTH", password]),
            _ => {}
        }
        if redis.database != 0 {
            say(&["SELECT", &redis.database.to_string()]);
        }
        let length = if let RedisExpect::Length(length) = redis.expect { Some(length) } else { None };
        let common = Common {
            request: encode(&redis.command).repeat(pipeline as usize),
            greeting,
            greeting_replies,
            expected: Expected { body: expected_bytes(&redis.expect), ..Expected::default() },
            length,
        };
        Self { common: Rc::new(common), verified: Verified::new(pipeline) }
    }
}

/// The reply byte for byte, where it is known.
fn expected_bytes(expect: &RedisExpect) -> Option<Vec<u8>> {
    let text = match expect {
        RedisExpect::Success | RedisExpect::Length(_) => return None,
        RedisExpect::Simple(text) => format!("+{text}\r\n"),
        RedisExpect::Bulk(text) => format!("${}\r\n{text}\r\n", text.len()),
        RedisExpect::Integer(number) => format!(":{number}\r\n"),
        RedisExpect::Nil => "$-1\r\n".to_owned(),
    };
    Some(text.into_bytes())
}

/// Finds the end of one reply.
#[derive(Default)]
struct Scanner {
    /// Elements that are still to come, besides the one under way.
    pending: u64,
    begun: bool,
    line: Vec<u8>,
    /// Bytes of a bulk text and its line end that are still to come.
    bulk_left: u64,
    error: Option<String>,
    /// Length of the reply's first bulk text; `None` for anything else.
    first_bulk: Option<u64>,
    first_seen: bool,
}

impl Scanner {
    fn reset(&mut self) {
        self.line.clear();
        *self = Self { line: std::mem::take(&mut self.line), ..Self::default() };
    }

    /// Takes bytes; returns how many were used when the reply is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        if !self.begun {
            self.begun = true;
            self.pending = 1;
        }
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
        let take = (bytes.len() as u64).min(self.bulk_left) as usize;
        // The last two bytes are the line end.
        for (index, byte) in bytes[..take].iter().enumerate().skip(take.saturating_sub(2)) {
            let from_end = self.bulk_left - index as u64;
            let want = match from_end {
                2 => b'\r',
                1 => b'\n',
                _ => continue,
            };
            if *byte != want {
                return Err(Failure::protocol("RESP: a bulk text is longer than its length says"));
            }
        }
        self.bulk_left -= take as u64;
        if self.bulk_left == 0 {
            self.pending -= 1;
        }
        Ok(take)
    }

    fn take_line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        if self.line.is_empty() && !b"+-:$*".contains(&bytes[0]) {
            return Err(Failure::protocol(format!("RESP: {} is not the type of a reply", excerpt(&bytes[..1]))));
        }
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        if self.line.len() + part.len() > LINE_MAX {
            return Err(Failure::protocol("RESP: a line is too long"));
        }
        self.line.extend_from_slice(part);
        Ok((part.len() + usize::from(end.is_some()), end.is_some()))
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if self.line.pop() != Some(b'\r') {
            return Err(Failure::protocol("RESP: a line does not end in CR LF"));
        }
        let first = !std::mem::replace(&mut self.first_seen, true);
        let (kind, text) = (self.line[0], &self.line[1..]);
        match kind {
            b'$' => {
                let length = number(text, BULK_MAX)?;
                if first {
                    self.first_bulk = length;
                }
                match length {
                    Some(length) => self.bulk_left = length + 2,
                    None => self.pending -= 1,
                }
            }
            b'*' => self.pending = (self.pending - 1).saturating_add(number(text, u64::from(u32::MAX))?.unwrap_or(0)),
            b'-' => {
                if first {
                    self.error = Some(String::from_utf8_lossy(text).into_owned());
                }
                self.pending -= 1;
            }
            _ => self.pending -= 1,
        }
        self.line.clear();
        Ok(())
    }
}

/// A length; -1 is none.
fn number(text: &[u8], most: u64) -> Result<Option<u64>, Failure> {
    if text == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let value = digits.and_then(|digits| digits.parse().ok()).filter(|value| *value <= most);
    value.map(Some).ok_or_else(|| Failure::protocol(format!("RESP: {} is not a length", excerpt(text))))
}

pub struct RedisExchange {
    shared: Shared,
    scanner: Scanner,
    check: BodyCheck,
    /// Replies to the greeting that have not come.
    greeting_left: u32,
    greeted: bool,
}

impl RedisExchange {
    #[must_use]
    pub fn new(shared: Shared) -> Self {
        Self { shared, scanner: Scanner::default(), check: BodyCheck::default(), greeting_left: 0, greeted: false }
    }

    fn done(&mut self, used: usize) -> Done {
        let common = &self.shared.common;
        let payload = self.check.received();
        let wrong = match (&self.scanner.error, common.length) {
            (Some(error), _) => Some(Failure::new(ErrorClass::WrongStatus, format!("the server says: {error}"))),
            (None, Some(length)) if self.scanner.first_bulk != Some(length) => {
                let got = self.scanner.first_bulk.map_or("no text".to_owned(), |got| format!("{got} bytes"));
                Some(Failure::content(format!("the reply is {got}, expected {length} bytes")))
            }
            _ => self.check.finish(&common.expected).err(),
        };
        Done { used, keep: true, payload, fault: wrong.map(Box::new) }
    }
}

impl Exchange for RedisExchange {
    fn reset(&mut self) {
        self.greeted = false;
        self.scanner.begun = true;
        self.begin();
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Greeting, Failure> {
        if !self.greeted {
            self.greeted = true;
            self.greeting_left = self.shared.common.greeting_replies;
            output.extend_from_slice(&self.shared.common.greeting);
        }
        let mut rest = input;
        while self.greeting_left > 0 {
            let Some(used) = self.scanner.feed(rest)? else { return Ok(Greeting::More) };
            if let Some(error) = &self.scanner.error {
                return Err(Failure::new(ErrorClass::WrongStatus, format!("authentication: {error}")));
            }
            self.scanner.reset();
            self.greeting_left -= 1;
            rest = &rest[used..];
        }
        if rest.is_empty() {
            Ok(Greeting::Done)
        } else {
            Err(Failure::protocol("RESP: a reply that was not asked for"))
        }
    }

    fn begin(&mut self) {
        // A reply that was recognised left no trace.
        if self.scanner.begun {
            self.scanner.reset();
            self.check.reset();
        }
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
        let fresh = !self.scanner.begun;
        let used = self.scanner.feed(bytes)?;
        self.check.feed(&self.shared.common.expected, &bytes[..used.unwrap_or(bytes.len())]);
        let Some(used) = used else { return Ok(Progress::More) };
        let done = self.done(used);
        if fresh && done.fault.is_none() {
            self.shared.verified.remember(&bytes[..used], done.payload);
        }
        Ok(Progress::Done(done))
    }

    fn end(&mut self) -> Result<Done, Failure> {
        Err(Failure::new(
            ErrorClass::Reset,
            format!("the peer closed after {} bytes of a reply", self.check.received()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::testing::same_at_every_cut, *};

    fn outcome(expect: RedisExpect, reply: &[u8]) -> Result<Option<ErrorClass>, ErrorClass> {
        let redis =
            Redis { command: vec!["GET".into(), "k".into()], expect, username: None, password: None, database: 0 };
        let mut exchange = RedisExchange::new(Shared::new(&redis, 1));
        let result = same_at_every_cut(&mut exchange, reply);
        result.map(|done| done.2.map(|fault| fault.class)).map_err(|error| error.class)
    }

    #[test]
    fn commands_are_arrays_of_bulk_texts() {
        assert_eq!(encode(&["SET", "k", "é"]), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\né\r\n".as_bytes());
    }

    #[test]
    fn every_kind_of_reply_is_read_to_its_end() {
        for reply in ["+OK\r\n", ":12\r\n", "$5\r\nHello\r\n", "$0\r\n\r\n", "$-1\r\n", "*0\r\n", "*-1\r\n"] {
            assert_eq!(outcome(RedisExpect::Success, reply.as_bytes()), Ok(None), "{reply:?}");
        }
        let nested = b"*3\r\n*2\r\n$1\r\na\r\n:1\r\n*0\r\n$2\r\n\r\n\r\n";
        assert_eq!(outcome(RedisExpect::Success, nested), Ok(None));
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
        assert_eq!(outcome(RedisExpect::Length(5), b"$4\r\nHell\r\n"), Ok(Some(ErrorClass::WrongContent)));
        assert_eq!(outcome(RedisExpect::Nil, b"$-1\r\n"), Ok(None));
        assert_eq!(outcome(RedisExpect::Integer(3), b":3\r\n"), Ok(None));
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
