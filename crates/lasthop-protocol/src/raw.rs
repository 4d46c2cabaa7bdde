//! Any protocol of requests and replies: the same bytes, repeated, and a rule for the end of each reply.

use std::{mem, rc::Rc};

use lasthop_trial::{
    address::Endpoint,
    failure::Failure,
    options::{Reuse, within},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{BodyCheck, Expected},
    checked::Replies,
    delimiter::{End, Reached},
    escaped::Escaped,
    exact::Exact,
    exchange::{EXCERPT, Factory, excerpt},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Repeats, Usage},
};
use crate::location::Location;

/// Maximum bytes of one send.
const SEND_MAX: u64 = 16 << 20;
/// Maximum steps of a greeting.
pub(crate) const STEPS_MAX: u64 = 8;
/// How a greeting is checked, in words that follow those about replies.
pub(crate) const OF_GREETING: &str = "; of the greeting where it ends";

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["raw"],
    urls: &[
        (
            "raw://127.0.0.1:3310",
            "any protocol: `--send` says what, `--until` and others where the\nreply ends; raw+tls:// with TLS",
        ),
        ("raw+unix:/run/app.sock", "the same over a Unix socket"),
    ],
    ..ProtocolKind::of::<Raw>("raw", "raw", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (_, rest) = location.authority();
    if !location.is_socket && !matches!(rest, "" | "/") {
        return Err(format!(
            "nothing may follow the port, but `{rest}` does; `--send` says what is sent"
        ));
    }
    let raw = Raw {
        greeting: Vec::new(),
        send: Escaped::default(),
        end: NO_REPLY,
        expect: RawExpect::Any,
    };
    Ok((location.endpoint(None)?, raw.into()))
}

/// In a greeting: no reply comes. In a request: the end of its reply was not given.
pub const NO_REPLY: End = End::Bytes(0);

/// Any protocol of requests and replies: the same bytes, repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// Steps before the first request on each connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub greeting: Vec<Step>,
    /// Bytes of each request. The escapes of C can be used: `'zPING\0'`. Empty only if the server speaks first on each
    /// connection and a connection carries one request.
    pub send: Escaped,
    /// Where each reply ends: `{ until = '\n' }`, `{ bytes = 7 }`, `{ length-prefix = "4@0" }` or `"close"`.
    pub end: End,
    /// The correct reply: `"any"` (any that ends as given), `{ reply = 'PONG\0' }`, `{ length = 7 }` or
    /// `{ exact = "…" }` (without escapes, as lasthop writes a learned reply).
    #[serde(default)]
    pub expect: RawExpect,
}

/// A step of a greeting: bytes are sent, or none, and a reply is read to its end but not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Bytes to send; empty if the server speaks first. The escapes of C can be used.
    #[serde(default)]
    pub send: Escaped,
    /// Where the reply ends, if not as replies to requests do; `{ bytes = 0 }` if none comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// The correct reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RawExpect {
    /// Any reply with the given end.
    #[default]
    Any,
    /// These bytes; the escapes of C can be used.
    Reply(Escaped),
    /// A reply of this many bytes.
    Length(u64),
    /// These bytes, without escapes.
    Exact(Exact),
}

impl Raw {
    fn end_of<'a>(&'a self, step: &'a Step) -> &'a End {
        step.end.as_ref().unwrap_or(&self.end)
    }

    /// The whole reply, if it is known.
    fn reply(&self) -> Option<Exact> {
        match &self.expect {
            RawExpect::Reply(bytes) => Some(Exact::of(&bytes.0)),
            RawExpect::Exact(exact) => Some(exact.clone()),
            RawExpect::Any | RawExpect::Length(_) => None,
        }
    }
}

impl ProtocolSpec for Raw {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        if self.end == NO_REPLY {
            return Err(
                "raw needs to know where a reply ends: --until, --bytes, --length-prefix or --until-close".to_owned(),
            );
        }
        self.end.validate()?;
        within("steps of the greeting", self.greeting.len() as u64, 0, STEPS_MAX)?;
        let sent = self.greeting.iter().map(|step| &step.send).chain([&self.send]);
        for bytes in sent {
            within("number of bytes to send", bytes.0.len() as u64, 0, SEND_MAX)?;
        }
        for step in &self.greeting {
            let end = self.end_of(step);
            end.validate()?;
            if *end == End::Close {
                return Err("no request can follow a greeting that ends where the peer closes".to_owned());
            }
        }
        let is_alone = usage.reuse == Reuse::PerRequest || self.closes_each_time();
        if self.send.0.is_empty() && !(is_alone && self.greeting.is_empty()) {
            return Err(
                "raw needs something to send: use --send, or --reuse per-request if the server speaks first and nothing else \
                 is said"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn factory(&self, usage: Usage) -> Factory {
        let requests = Rc::new(Requests {
            raw: self.clone(),
            request: self.send.0.repeat(usage.pipeline as usize),
            expected: Expected {
                length: if let RawExpect::Length(length) = self.expect {
                    Some(length)
                } else {
                    None
                },
                ..Expected::of("reply", self.reply())
            },
        });
        Factory::checked(usage.pipeline, move || RawReplies {
            requests: Rc::clone(&requests),
            step: 0,
            has_spoken: false,
            reached: Reached::default(),
            check: BodyCheck::default(),
        })
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let reply = match (&self.expect, self.reply()) {
            (_, Some(Exact::Bytes(bytes))) if bytes.len() <= EXCERPT => {
                format!("the reply {}, byte for byte", excerpt(&bytes))
            }
            // A page of an error shows itself.
            (_, Some(Exact::Bytes(bytes))) => {
                format!(
                    "the reply {}, {}, byte for byte",
                    excerpt(&bytes),
                    size(bytes.len() as u64)
                )
            }
            (_, Some(reply)) => reply.checked("reply", size),
            (RawExpect::Length(length), _) => format!("a reply of {}", size(*length)),
            _ => format!("any reply that ends as it should ({})", self.end),
        };
        if self.greets() { reply + OF_GREETING } else { reply }
    }

    fn payload(&self) -> Option<u64> {
        match (&self.expect, &self.end) {
            (RawExpect::Length(length), _) | (_, End::Bytes(length)) => Some(*length),
            _ => self.reply()?.length(),
        }
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        if self.reply().is_some() {
            return Ok(None);
        }
        let (reply, unchecked) = Exact::learn("reply", replies);
        self.expect = RawExpect::Exact(reply);
        Ok(unchecked)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        let ends = mem::take(&mut options.greet_ends);
        let sent = mem::take(&mut options.greet);
        if ends.len() > sent.len() {
            return Err("--greet-until or --greet-bytes is given more often than --greet".to_owned());
        }
        let step = |(index, send)| Step {
            send,
            end: ends.get(index).or(ends.last()).cloned(),
        };
        self.greeting = sent.into_iter().enumerate().map(step).collect();
        self.send = options.send.take().unwrap_or_default();
        self.end = options.end.take().unwrap_or(NO_REPLY);
        if let Some(text) = options.expect.take() {
            let reply = Escaped::try_from(text).map_err(|error| format!("--expect: {error}"))?;
            self.expect = RawExpect::Reply(reply);
        }
        Ok(())
    }

    fn closes_each_time(&self) -> bool {
        self.end == End::Close
    }

    fn greets(&self) -> bool {
        !self.greeting.is_empty()
    }

    fn greeting_name(&self) -> &'static str {
        "greeting"
    }

    fn repeats(&self) -> Repeats {
        Repeats::Wordless
    }

    fn welcome(&self, step: usize, _encrypted: bool) -> Vec<u8> {
        let mut ends = self
            .greeting
            .iter()
            .map(|step| self.end_of(step))
            .filter(|end| **end != NO_REPLY);
        ends.nth(step).map(End::shortest).unwrap_or_default()
    }
}

/// Request and expectations, shared by all connections of a thread.
struct Requests {
    raw: Raw,
    request: Vec<u8>,
    expected: Expected,
}

struct RawReplies {
    requests: Rc<Requests>,
    /// The current step of the greeting, and whether its bytes have been sent.
    step: usize,
    has_spoken: bool,
    reached: Reached,
    check: BodyCheck,
}

impl Replies for RawReplies {
    fn reset(&mut self) {
        self.step = 0;
        self.has_spoken = false;
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        let raw = &self.requests.raw;
        let mut rest = input;
        while let Some(step) = raw.greeting.get(self.step) {
            if !mem::replace(&mut self.has_spoken, true) {
                if !rest.is_empty() && !step.send.0.is_empty() {
                    break;
                }
                output.extend_from_slice(&step.send.0);
            }
            let end = raw.end_of(step);
            if *end != NO_REPLY {
                if rest.is_empty() {
                    return Ok(false);
                }
                let (used, is_whole) = self.reached.feed(end, rest)?;
                rest = &rest[used..];
                if !is_whole {
                    return Ok(false);
                }
            }
            self.step += 1;
            self.has_spoken = false;
            self.reached.reset();
        }
        if rest.is_empty() {
            return Ok(true);
        }
        Err(Failure::protocol(format!(
            "raw: {} bytes of the greeting follow its end: {}",
            rest.len(),
            excerpt(rest)
        )))
    }

    fn request(&self) -> &[u8] {
        &self.requests.request
    }

    fn begin(&mut self) {
        self.reached.reset();
        self.check.reset();
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let (used, is_whole) = self.reached.feed(&self.requests.raw.end, bytes)?;
        self.check.feed(&self.requests.expected, &bytes[..used]);
        Ok((used, is_whole))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        self.check.finish(&self.requests.expected)
    }

    fn keeps(&self) -> bool {
        !self.requests.raw.closes_each_time()
    }

    fn end(&mut self, _received: u64) -> Result<(), Failure> {
        self.reached.closed(&self.requests.raw.end)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::exchange::testing::{exchange, same_at_every_cut, usage},
        *,
    };

    fn escaped(text: &str) -> Escaped {
        text.try_into().unwrap()
    }

    fn ping() -> Raw {
        Raw {
            greeting: Vec::new(),
            send: escaped(r"zPING\0"),
            end: End::Until(escaped(r"\0")),
            expect: RawExpect::Reply(escaped(r"PONG\0")),
        }
    }

    fn outcome(raw: &Raw, reply: &[u8]) -> Result<(u64, bool, Option<String>), String> {
        let outcome = same_at_every_cut(&mut *exchange(raw), reply).map_err(|failure| failure.message)?;
        Ok((outcome.0, outcome.1, outcome.2.map(|fault| fault.message)))
    }

    #[test]
    fn a_reply_is_what_is_expected_or_wrong() {
        assert_eq!(outcome(&ping(), b"PONG\0"), Ok((5, true, None)));
        let differs =
            "the reply differs from the expected one at byte 1: expected \"PONG\\x00\", received \"PING\\x00\"";
        assert_eq!(outcome(&ping(), b"PING\0"), Ok((5, true, Some(differs.to_owned()))));
        let early =
            "the peer closed after 4 bytes of a reply, before its end (--until '\\x00'); it begins with \"PONG\"";
        assert_eq!(outcome(&ping(), b"PONG"), Err(early.to_owned()));
        let silent = "the peer closed the connection without a reply";
        assert!(outcome(&ping(), b"").unwrap_err().starts_with(silent));
        let any = Raw {
            expect: RawExpect::Any,
            ..ping()
        };
        assert_eq!(outcome(&any, b"x\0"), Ok((2, true, None)));
        let five = Raw {
            expect: RawExpect::Length(5),
            ..ping()
        };
        let wrong = "the reply has 2 bytes, expected 5";
        assert_eq!(outcome(&five, b"x\0"), Ok((2, true, Some(wrong.to_owned()))));
        let closed = Raw {
            end: End::Close,
            ..ping()
        };
        assert_eq!(outcome(&closed, b"PONG\0"), Ok((5, false, None)));
        assert!(
            outcome(&closed, b"PONG")
                .unwrap()
                .2
                .unwrap()
                .contains("has 4 bytes, expected 5")
        );
        assert_eq!(outcome(&closed, b""), Err(silent.to_owned()));
    }

    #[test]
    fn requests_are_what_is_sent() {
        let mut exchange = ping().factory(usage(2)).exchange();
        exchange.begin();
        assert_eq!(exchange.request(), b"zPING\0zPING\0");
    }

    /// A mail server speaks first; a step without a reply goes out with the next one.
    #[test]
    fn a_greeting_is_read_to_its_end() {
        let step = |send: &str, end| Step {
            send: escaped(send),
            end,
        };
        let mail = Raw {
            greeting: vec![
                step("", None),
                step("HELO x", None),
                step("MODE", Some(End::Bytes(0))),
                step("GO", Some(End::Bytes(2))),
            ],
            end: End::Until(escaped(r"\r\n")),
            ..ping()
        };
        let mut exchange = exchange(&mail);
        let mut greet = |input: &[u8]| {
            let mut said = Vec::new();
            let greeting = exchange.greet(input, &mut said).map_err(|failure| failure.message);
            (greeting, String::from_utf8(said).unwrap())
        };
        assert_eq!(greet(b""), (Ok(false), String::new()));
        assert_eq!(greet(b"220 rea"), (Ok(false), String::new()));
        assert_eq!(greet(b"dy\r\n"), (Ok(false), "HELO x".to_owned()));
        assert_eq!(greet(b"250 OK\r\n"), (Ok(false), "MODEGO".to_owned()));
        assert_eq!(greet(b"OK"), (Ok(true), String::new()));
        // Replies of several lines end elsewhere.
        exchange.reset();
        let mut said = Vec::new();
        let early = exchange
            .greet(b"", &mut said)
            .and_then(|_| exchange.greet(b"220-a\r\n220 b\r\n", &mut said));
        let text = "raw: 7 bytes of the greeting follow its end: \"220 b\\r\\n\"";
        assert_eq!(early, Err(Failure::protocol(text)));
        assert!(
            mail.checked(&|_| String::new())
                .ends_with("; of the greeting where it ends")
        );
        let welcome: Vec<_> = (0..4).map(|step| mail.welcome(step, false)).collect();
        assert_eq!(welcome, [&b"\r\n"[..], b"\r\n", &[0; 2], b""]);
    }

    #[test]
    fn each_step_of_a_greeting_may_have_its_end() {
        let ends = |greets: usize, ends: &[End]| {
            let mut raw = ping();
            let mut options = LoadOptions {
                greet: vec![escaped("x"); greets],
                greet_ends: ends.to_vec(),
                ..LoadOptions::default()
            };
            raw.apply(&mut options)?;
            assert_eq!(options.left(), None);
            Ok::<_, String>(raw.greeting.into_iter().map(|step| step.end).collect::<Vec<_>>())
        };
        let line = End::Until(escaped(r"\r\n"));
        assert_eq!(ends(2, &[]), Ok(vec![None, None]));
        assert_eq!(ends(2, std::slice::from_ref(&line)), Ok(vec![Some(line.clone()); 2]));
        assert_eq!(
            ends(3, &[line.clone(), NO_REPLY]),
            Ok(vec![Some(line.clone()), Some(NO_REPLY), Some(NO_REPLY)])
        );
        assert!(
            ends(1, &[line.clone(), NO_REPLY])
                .unwrap_err()
                .contains("more often than --greet")
        );
        let left = LoadOptions {
            greet_ends: vec![line],
            ..LoadOptions::default()
        };
        assert_eq!(left.left().as_deref(), Some("--greet-until"));
    }

    #[test]
    fn two_replies_tell_what_is_right() {
        let learnt = |first: &[u8], second: &[u8]| {
            let mut raw = Raw {
                expect: RawExpect::Any,
                ..ping()
            };
            let unchecked = raw.learn(&[first, second]).unwrap();
            (
                raw.checked(&|bytes| format!("{bytes} B")),
                unchecked.unwrap_or_default(),
            )
        };
        let same = ("the reply \"PONG\\x00\", byte for byte".to_owned(), String::new());
        assert_eq!(learnt(b"PONG\0", b"PONG\0"), same);
        let long = [b'a'; 61];
        let begins = format!("the reply \"{}…\", 61 B, byte for byte", "a".repeat(60));
        assert_eq!(learnt(&long, &long).0, begins);
        let mut raw = Raw {
            expect: RawExpect::Length(5),
            ..ping()
        };
        assert_eq!(raw.learn(&[b"PONG\0", b"PONG\0"]), Ok(None));
        assert_eq!(raw.checked(&|_| String::new()), same.0);
        let (checked, unchecked) = learnt(b"9: OK\0", b"10: OK\0");
        assert_eq!(checked, "what stays of the reply, 4 B, byte for byte");
        assert_eq!(
            unchecked,
            "not checked of the reply: bytes 0 to 1 (\"9:\"), which changed within the first 2 replies"
        );
        // An existing expectation stays.
        let mut raw = ping();
        assert_eq!(raw.learn(&[b"PONG\0", b"PONG\0"]), Ok(None));
        assert_eq!(raw, ping());
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        assert_eq!(ping().validate(usage(8)), Ok(()));
        let silent = Raw {
            send: escaped(""),
            ..ping()
        };
        let once = Usage {
            reuse: Reuse::PerRequest,
            ..usage(1)
        };
        assert_eq!(silent.validate(once), Ok(()));
        assert_eq!(
            Raw {
                end: End::Close,
                ..silent
            }
            .validate(usage(1)),
            Ok(())
        );
        let greeted = |end| Raw {
            greeting: vec![Step {
                send: escaped("x"),
                end,
            }],
            ..ping()
        };
        assert_eq!(greeted(None).validate(usage(1)), Ok(()));
        for (wrong, said) in [
            (
                Raw {
                    end: End::Until(escaped("")),
                    ..ping()
                },
                "length of the text that ends a reply must be 1 to 4096, not 0",
            ),
            (
                Raw {
                    end: End::Bytes(1 << 40),
                    ..ping()
                },
                "bytes of a reply must be 0 to ",
            ),
            (greeted(Some(End::Close)), "no request can follow a greeting"),
            (
                Raw {
                    end: End::Close,
                    ..greeted(None)
                },
                "no request can follow a greeting",
            ),
            (
                Raw {
                    greeting: vec![
                        Step {
                            send: escaped(""),
                            end: None
                        };
                        9
                    ],
                    ..ping()
                },
                "steps of the greeting must be 0 to 8, not 9",
            ),
        ] {
            let error = wrong.validate(usage(1)).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let mut options = LoadOptions {
            expect: Some(r"\q".to_owned()),
            ..LoadOptions::default()
        };
        assert!(
            ping()
                .apply(&mut options)
                .unwrap_err()
                .starts_with(r"--expect: `\q` begins with an unknown escape")
        );
    }

    #[test]
    fn parameters_are_written_as_one_types_them() {
        let written = serde_json::json!({
            "send": r"zPING\x00", "end": { "until": r"\x00" }, "expect": { "reply": r"PONG\x00" }
        });
        assert_eq!(serde_json::to_value(ping()).unwrap(), written);
        let typed = serde_json::json!({
            "send": r"zPING\0", "end": { "until": r"\0" }, "expect": { "reply": r"PONG\0" }
        });
        assert_eq!(serde_json::from_value::<Raw>(typed).unwrap(), ping());
    }
}
