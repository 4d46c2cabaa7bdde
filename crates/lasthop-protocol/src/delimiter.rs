//! The end of a reply in a protocol unknown to lasthop.

use std::{fmt, str::FromStr};

use lasthop_trial::{failure::Failure, options::within};
use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    escaped::Escaped,
    exchange::{excerpt, fill},
    line::digits,
};

/// Maximum bytes of a reply: as many as in a sample.
const REPLY_MAX: u64 = 64 << 20;
/// Maximum bytes of a text that ends a reply, and before a length.
const TEXT_MAX: u64 = 4096;
/// Bytes shown of a reply without an end.
const SHOWN: usize = 61;

/// Where a reply ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum End {
    /// With these bytes, at their first occurrence; the escapes of C can be used.
    Until(Escaped),
    /// A number of bytes after the first occurrence of a text.
    UntilThen {
        /// The text; the escapes of C can be used.
        text: Escaped,
        /// How many bytes follow the text.
        then: u64,
    },
    /// After this number of bytes. In a greeting 0 means that no reply comes.
    Bytes(u64),
    /// After the length in the reply, written `WIDTH@OFFSET[le][+REST]`. The length has WIDTH bytes and follows OFFSET
    /// other bytes, most significant byte first unless `le` is given. The reply has REST bytes more than the length
    /// says; without REST, OFFSET + WIDTH bytes more. With `4@0` the length counts the bytes after it, with `4@0+0`
    /// also its own bytes.
    LengthPrefix(LengthPrefix),
    /// Where the peer closes the connection.
    Close,
}

/// A length within a reply; [`End::LengthPrefix`] says how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct LengthPrefix {
    width: u8,
    offset: u16,
    is_little: bool,
    rest: u64,
}

impl LengthPrefix {
    /// Bytes up to the end of the length.
    fn head(self) -> usize {
        usize::from(self.offset) + usize::from(self.width)
    }

    /// Total bytes of the reply that begins with `head`, which must hold the length.
    fn total(self, head: &[u8]) -> u64 {
        let length = &head[usize::from(self.offset)..self.head()];
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        let length = if self.is_little {
            length.iter().rev().fold(0, add)
        } else {
            length.iter().fold(0, add)
        };
        length.saturating_add(self.rest)
    }
}

impl fmt::Display for LengthPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_little { "le" } else { "" };
        write!(f, "{}@{}{order}", self.width, self.offset)?;
        if self.rest == self.head() as u64 {
            Ok(())
        } else {
            write!(f, "+{}", self.rest)
        }
    }
}

impl FromStr for LengthPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not WIDTH@OFFSET[le][+REST], for example `4@0` for four bytes at the beginning, most \
                 significant first"
            )
        };
        let (place, rest) = text
            .split_once('+')
            .map_or((text, None), |(place, rest)| (place, Some(rest)));
        let big = place.strip_suffix("le");
        let (width, offset) = big.unwrap_or(place).split_once('@').ok_or_else(wrong)?;
        let [width, offset] = [width, offset].map(|number| digits::<u64>(number.as_bytes()));
        let (width, offset) = width.zip(offset).ok_or_else(wrong)?;
        within("width of the length", width, 1, 8)?;
        within("offset of the length", offset, 0, TEXT_MAX)?;
        let rest = rest.map(|rest| digits(rest.as_bytes()).ok_or_else(wrong)).transpose()?;
        Ok(Self {
            width: width as u8,
            offset: offset as u16,
            is_little: big.is_some(),
            rest: rest.unwrap_or(offset + width),
        })
    }
}

impl From<LengthPrefix> for String {
    fn from(prefix: LengthPrefix) -> Self {
        prefix.to_string()
    }
}

impl TryFrom<String> for LengthPrefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Writes the form of the option.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(text) => write!(f, "--{} '{text}'", self.option()),
            Self::UntilThen { text, then } => write!(f, "--{} '{text}' --then {then}", self.option()),
            Self::Bytes(count) => write!(f, "--{} {count}", self.option()),
            Self::LengthPrefix(prefix) => write!(f, "--{} {prefix}", self.option()),
            Self::Close => write!(f, "--{}", self.option()),
        }
    }
}

impl End {
    /// The option that sets this end.
    pub fn option(&self) -> &'static str {
        match self {
            Self::Until(_) | Self::UntilThen { .. } => "until",
            Self::Bytes(_) => "bytes",
            Self::LengthPrefix(_) => "length-prefix",
            Self::Close => "until-close",
        }
    }

    pub fn validate(&self) -> Result<(), String> {
        match self {
            Self::Until(text) => within("length of the text that ends a reply", text.0.len() as u64, 1, TEXT_MAX),
            Self::UntilThen { text, then } => {
                Self::Until(text.clone()).validate()?;
                within("bytes behind the text of --until", *then, 1, REPLY_MAX)
            }
            Self::Bytes(count) => within("bytes of a reply", *count, 0, REPLY_MAX),
            Self::LengthPrefix(_) | Self::Close => Ok(()),
        }
    }

    /// The shortest reply with this end.
    pub fn shortest(&self) -> Vec<u8> {
        match self {
            Self::Until(text) => text.0.clone(),
            Self::UntilThen { text, then } => [&text.0[..], &vec![0; *then as usize]].concat(),
            Self::Bytes(count) => vec![0; *count as usize],
            Self::LengthPrefix(prefix) => {
                let mut reply = vec![0; prefix.head().max(prefix.rest.min(REPLY_MAX) as usize)];
                let length = (reply.len() as u64).saturating_sub(prefix.rest);
                for place in 0..usize::from(prefix.width) {
                    let shift = if prefix.is_little {
                        place
                    } else {
                        usize::from(prefix.width) - 1 - place
                    };
                    reply[usize::from(prefix.offset) + place] = (length >> (8 * shift)) as u8;
                }
                reply
            }
            Self::Close => Vec::new(),
        }
    }
}

/// How much of a reply has arrived.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    received: u64,
    /// The first bytes of the reply.
    head: Vec<u8>,
    /// The last bytes of the reply, one less than in the text that ends it.
    tail: Vec<u8>,
    /// Total bytes of the reply, once the text of [`End::UntilThen`] has come.
    total: Option<u64>,
}

impl Reached {
    pub fn reset(&mut self) {
        self.received = 0;
        self.head.clear();
        self.tail.clear();
        self.total = None;
    }

    /// Takes the next bytes of the reply, at least one. Returns how many, and whether the reply ends with them.
    pub fn feed(&mut self, end: &End, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let kept = match end {
            End::LengthPrefix(prefix) => prefix.head().max(SHOWN),
            _ => SHOWN,
        };
        fill(&mut self.head, bytes, kept);
        let (used, is_whole) = match end {
            End::Until(text) => match self.find(&text.0, bytes) {
                Some(used) => (used, true),
                None => (bytes.len(), false),
            },
            End::UntilThen { text, then } => {
                if self.total.is_none() {
                    let found = self.find(&text.0, bytes);
                    self.total = found.map(|used| self.received + used as u64 + then);
                }
                self.total
                    .map_or((bytes.len(), false), |total| self.up_to(total, bytes))
            }
            End::Bytes(count) => self.up_to(*count, bytes),
            End::LengthPrefix(prefix) if self.head.len() < prefix.head() => (bytes.len(), false),
            End::LengthPrefix(prefix) => {
                let total = prefix.total(&self.head);
                let head = prefix.head();
                if total < head as u64 || total > REPLY_MAX {
                    return Err(Failure::protocol(format!(
                        "raw: by its length ({end}) a reply has {total} bytes, which must be {head} to {REPLY_MAX}; it begins \
                         with {}",
                        excerpt(&self.head[..head])
                    )));
                }
                self.up_to(total, bytes)
            }
            End::Close => (bytes.len(), false),
        };
        self.received += used as u64;
        if self.received > REPLY_MAX {
            return Err(Failure::protocol(format!(
                "raw: a reply has more than {REPLY_MAX} bytes, and its end ({end}) has not come; it begins with {}",
                excerpt(&self.head)
            )));
        }
        Ok((used, is_whole))
    }

    fn up_to(&self, total: u64, bytes: &[u8]) -> (usize, bool) {
        let left = total - self.received;
        (left.min(bytes.len() as u64) as usize, left <= bytes.len() as u64)
    }

    /// Number of `bytes` up to the end of the text, which may have begun in earlier bytes.
    fn find(&mut self, text: &[u8], bytes: &[u8]) -> Option<usize> {
        let before = self.tail.len();
        self.tail.extend_from_slice(&bytes[..bytes.len().min(text.len() - 1)]);
        let across = memmem::find(&self.tail, text).map(|at| at + text.len() - before);
        let found = across.or_else(|| memmem::find(bytes, text).map(|at| at + text.len()));
        if bytes.len() >= text.len() {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - (text.len() - 1)..]);
        } else {
            let surplus = self.tail.len().saturating_sub(text.len() - 1);
            self.tail.drain(..surplus);
        }
        found
    }

    /// Handles the peer's close.
    pub fn closed(&self, end: &End) -> Result<(), Failure> {
        if self.received == 0 {
            return Err(Failure::reset("the peer closed the connection without a reply"));
        }
        if *end == End::Close {
            return Ok(());
        }
        Err(Failure::reset(format!(
            "the peer closed after {} bytes of a reply, before its end ({end}); it begins with {}",
            self.received,
            excerpt(&self.head)
        )))
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;

    use super::*;

    fn prefix(text: &str) -> End {
        End::LengthPrefix(text.parse().unwrap())
    }

    fn until(text: &str) -> End {
        End::Until(text.try_into().unwrap())
    }

    fn until_then(text: &str, then: u64) -> End {
        let text = text.try_into().unwrap();
        End::UntilThen { text, then }
    }

    /// Length of the reply that `bytes` begin with, the same in pieces of every size.
    fn length(end: &End, bytes: &[u8]) -> Result<Option<usize>, ErrorClass> {
        let in_pieces = |size: usize| {
            let mut reached = Reached::default();
            let mut taken = 0;
            for piece in bytes.chunks(size) {
                let mut at = 0;
                while at < piece.len() {
                    let (used, is_whole) = reached.feed(end, &piece[at..]).map_err(|failure| failure.class)?;
                    at += used;
                    taken += used;
                    if is_whole {
                        return Ok(Some(taken));
                    }
                }
            }
            Ok(None)
        };
        let whole = in_pieces(bytes.len());
        for size in 1..bytes.len() {
            assert_eq!(in_pieces(size), whole, "{end} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn a_reply_ends_where_it_is_said_to() {
        for (end, bytes, wanted) in [
            (until(r"\n"), &b"+OK\nmore\n"[..], Some(4)),
            (until(r"\r\n.\r\n"), b".\r\n.\r\r\n.\r\n.\r\n", Some(10)),
            (until("aab"), b"aaaabaab", Some(5)),
            (until("abab"), b"abaabaab", None),
            // The text may occur again in the bytes after it.
            (until_then("ab", 3), b"aababab", Some(6)),
            (until_then("ab", 3), b"aabab", None),
            (until_then("ab", 1), b"bababa", Some(4)),
            (End::Bytes(3), b"abcd", Some(3)),
            (End::Bytes(9), b"abcd", None),
            (End::Close, b"abcd", None),
            // MQTT, DNS, PostgreSQL, MongoDB, memcached's binary protocol.
            (prefix("1@1"), b"\xd0\x00\xd0", Some(2)),
            (prefix("2@0"), b"\0\x03abcd", Some(5)),
            (prefix("4@1+1"), b"Z\0\0\0\x05IZ", Some(6)),
            (prefix("4@0le+0"), b"\x05\0\0\0ab", Some(5)),
            (prefix("4@8+24"), &[&[0; 11][..], &[1], &[0; 20]].concat(), Some(25)),
            (prefix("4@0"), b"\0\0", None),
        ] {
            assert_eq!(length(&end, bytes), Ok(wanted), "{end}");
        }
        // A length smaller than its own bytes, and a length too large.
        for (end, bytes) in [
            (prefix("4@0+0"), &b"\0\0\0\x03"[..]),
            (prefix("4@0"), b"\x04\0\0\0"),
            (prefix("8@0+1"), b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        ] {
            assert_eq!(length(&end, bytes), Err(ErrorClass::Protocol), "{end}");
        }
    }

    #[test]
    fn a_reply_without_an_end_is_an_error() {
        let piece = vec![b'a'; 1 << 20];
        for end in [until("b"), End::Close] {
            let mut reached = Reached::default();
            let failure = (0..65).find_map(|_| reached.feed(&end, &piece).err()).unwrap();
            assert_eq!(failure.class, ErrorClass::Protocol);
            let text = format!("a reply has more than 67108864 bytes, and its end ({end}) has not come");
            assert!(
                failure.message.contains(&text) && failure.message.len() < 250,
                "{failure}"
            );
            assert!(reached.head.len() + reached.tail.len() < 100);
        }
    }

    #[test]
    fn the_shortest_reply_is_one() {
        for end in [
            until(r"\r\n"),
            until_then(r"\r\n", 3),
            End::Bytes(7),
            prefix("4@1"),
            prefix("2@3le+9"),
            prefix("4@0+0"),
            prefix("1@1+2"),
        ] {
            let shortest = end.shortest();
            assert_eq!(length(&end, &shortest), Ok(Some(shortest.len())), "{end}");
        }
    }

    #[test]
    fn ends_are_written_as_they_are_read() {
        for text in ["4@0", "2@3le", "8@4096+0", "1@0le+7"] {
            assert_eq!(text.parse::<LengthPrefix>().unwrap().to_string(), text);
        }
        assert_eq!("4@1+5".parse::<LengthPrefix>().unwrap().to_string(), "4@1");
        for (wrong, said) in [
            ("4", "`4` is not WIDTH@OFFSET[le][+REST]"),
            ("4@", "`4@` is not"),
            ("4@0be", "`4@0be` is not"),
            ("4@0+", "`4@0+` is not"),
            ("4@-1", "`4@-1` is not"),
            ("9@0", "width of the length must be 1 to 8, not 9"),
            ("4@5000", "offset of the length must be 0 to 4096, not 5000"),
        ] {
            let error = wrong.parse::<LengthPrefix>().unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let written = serde_json::json!({ "until-then": { "text": r"\x03", "then": 3 } });
        let end = until_then(r"\3", 3);
        assert_eq!(serde_json::to_value(&end).unwrap(), written);
        assert_eq!(end.to_string(), r"--until '\x03' --then 3");
        let said = "bytes behind the text of --until must be 1 to";
        assert!(until_then("a", 0).validate().unwrap_err().starts_with(said));
        let written = serde_json::json!({ "length-prefix": "4@0le+0" });
        assert_eq!(serde_json::to_value(prefix("4@0le+0")).unwrap(), written);
    }
}
