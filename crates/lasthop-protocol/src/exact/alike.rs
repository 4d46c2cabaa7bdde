//! The common content of replies that are alike but not equal: fixed texts, and changing parts between them.

mod json;
mod words;

use std::{borrow::Cow, ops::RangeInclusive};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{super::escaped::Escaped, Exact, KEPT_MAX};

/// Texts and parts, in the order of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Alike(Vec<Piece>);

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Piece {
    /// Fixed bytes, with the escapes of C.
    Text(Escaped),
    Part(Part),
}

/// Bytes that change from reply to reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Part {
    /// The kind of all values seen.
    is: PartKind,
    /// Minimum bytes.
    least: u64,
    /// Maximum bytes.
    most: u64,
}

/// Kind of a part, whatever its value. A part ends where its kind ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum PartKind {
    /// A word of digits and of the characters between them in numbers, dates and times.
    Figures,
    /// A word.
    Word,
    /// The text between two line ends, tags or quotation marks.
    Cell,
    /// The text within the quotation marks of a JSON string.
    String,
    /// A JSON number.
    Number,
    /// A JSON list.
    List,
    /// A JSON object.
    Object,
    /// Any JSON value.
    Value,
    /// Any bytes; only texts may follow.
    Bytes,
}

impl PartKind {
    fn in_words(self) -> &'static str {
        match self {
            Self::Figures | Self::Number => "a number",
            Self::Word => "a word",
            Self::Cell | Self::String => "a text",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Value => "a value",
            Self::Bytes => "other bytes",
        }
    }

    /// Length of the part of this kind that `rest` begins with; `fixed` bytes of `rest` belong to texts after it.
    fn extent(self, rest: &[u8], fixed: usize) -> Option<usize> {
        match self {
            Self::Word => Some(words::run(rest, words::ends_word)),
            Self::Cell => Some(words::run(rest, words::ends_cell)),
            Self::Figures => {
                let length = words::run(rest, words::ends_word);
                words::is_figures(&rest[..length]).then_some(length)
            }
            Self::String => json::string(rest),
            Self::Number => json::value(rest).filter(|_| json::begins_number(rest)),
            Self::List => json::value(rest).filter(|_| rest.first() == Some(&b'[')),
            Self::Object => json::value(rest).filter(|_| rest.first() == Some(&b'{')),
            Self::Value => json::value(rest),
            Self::Bytes => rest.len().checked_sub(fixed),
        }
    }
}

/// A part may be this many times as long as the longest seen, plus some bytes. [`Kind::Bytes`] may also be this many
/// times shorter.
const LONGER: u64 = 4;
const MORE: u64 = 64;
const SHORTER: u64 = 2;

/// A changed number may have eight bytes, of which only one has changed so far.
const NUMBER: usize = 7;

/// Minimum number of replies that can show a rule and its exceptions.
const MANY: usize = 8;

/// Replies that differ at the end count as a lasting change only if there are more than this many of them.
pub const WITNESSES: usize = 4;

/// Where a reply differs, and the expected bytes there.
type Unlike<'a> = (usize, Cow<'a, [u8]>);

/// Reduces a reply to its fixed part.
type Reduced = fn(&[u8]) -> Cow<'_, [u8]>;

impl Alike {
    /// The common content of replies: at least one, and not all equal.
    fn of(replies: &[&[u8]]) -> Self {
        if replies.iter().any(|reply| reply.len() > KEPT_MAX) {
            let mut alike = Self::default();
            alike.bytes(replies, 0, 0);
            return alike;
        }
        json::common(replies)
            .or_else(|| words::common(replies))
            .unwrap_or_else(|| Self::by_ends(replies))
    }

    /// Only the beginning and the end are fixed.
    fn by_ends(replies: &[&[u8]]) -> Self {
        let (first, others) = replies.split_first().expect("there is a reply");
        let shortest = replies.iter().map(|reply| reply.len()).min().unwrap_or(0);
        let same = |(one, other): &(&u8, &u8)| one == other;
        let before = others
            .iter()
            .map(|other| first.iter().zip(*other).take_while(same).count());
        let before = before.min().unwrap_or(0);
        let after = others
            .iter()
            .map(|other| first.iter().rev().zip(other.iter().rev()).take_while(same).count());
        let after = after.min().unwrap_or(0);
        let is_text = replies.iter().all(|reply| words::is_text(reply));
        let begin = words::back_to_cell(&first[..before], is_text);
        let end = words::on_to_cell(&first[first.len() - after..], is_text);
        // Bytes that could belong to both belong to neither, such as equal lines whose number varies.
        let room = |other: &[u8]| shortest - other.len().min(shortest);
        let (begin, end) = (
            &begin[..begin.len().min(room(end))],
            &end[end.len() - end.len().min(room(begin))..],
        );
        let mut alike = Self::default();
        alike.text(begin);
        alike.bytes(replies, begin.len(), end.len());
        alike.text(end);
        alike
    }

    /// Adds a part of any bytes, between the fixed beginning and the fixed end.
    fn bytes(&mut self, replies: &[&[u8]], before: usize, after: usize) {
        let lengths = replies.iter().map(|reply| (reply.len() - before - after) as u64);
        let least = lengths.clone().min().unwrap_or(0);
        let most = lengths.max().unwrap_or(0);
        // A length that has not changed never does: such bytes are numbers and keys.
        let (least, most) = if least == most {
            (least, most)
        } else {
            (least / SHORTER + u64::from(least == 1), longest(most))
        };
        let is = PartKind::Bytes;
        self.0.push(Piece::Part(Part { is, least, most }));
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Text(text)) => text.0.extend_from_slice(bytes),
            _ => self.0.push(Piece::Text(Escaped(bytes.to_vec()))),
        }
    }

    /// Adds a part with the values `seen`.
    fn part<'a>(&mut self, is: PartKind, seen: impl Iterator<Item = &'a [u8]> + Clone) {
        let lengths = seen.map(|bytes| bytes.len() as u64);
        let part = Part {
            is,
            least: lengths.clone().min().unwrap_or(0).min(1),
            most: longest(lengths.max().unwrap_or(0)),
        };
        self.0.push(Piece::Part(part));
    }

    /// Number of fixed bytes.
    pub fn checked(&self) -> u64 {
        fixed(&self.0)
    }

    /// Whether a check must look beyond the length.
    pub fn has_meaning(&self) -> bool {
        !matches!(
            self.0[..],
            [] | [Piece::Part(Part {
                is: PartKind::Bytes,
                ..
            })]
        )
    }

    /// Minimum and maximum bytes of a reply.
    pub fn lengths(&self) -> RangeInclusive<u64> {
        let sum = |part: fn(&Part) -> u64| {
            let parts = self.0.iter().map(|piece| match piece {
                Piece::Text(text) => text.0.len() as u64,
                Piece::Part(of) => part(of),
            });
            parts.fold(0, u64::saturating_add)
        };
        sum(|part| part.least)..=sum(|part| part.most)
    }

    /// Where a reply differs, and the expected bytes there.
    pub fn differs(&self, reply: &[u8]) -> Option<(usize, Cow<'_, [u8]>)> {
        self.places(reply).err()
    }

    /// The places of the parts in a reply.
    fn places(&self, reply: &[u8]) -> Result<Vec<(usize, usize)>, Unlike<'_>> {
        let mut at = 0;
        let mut places = Vec::new();
        for (index, piece) in self.0.iter().enumerate() {
            let rest = &reply[at..];
            match piece {
                Piece::Text(text) => {
                    let same = text.0.iter().zip(rest).take_while(|(one, other)| one == other).count();
                    if same < text.0.len() {
                        return Err((at + same, Cow::Borrowed(&text.0[same..])));
                    }
                    at += same;
                }
                Piece::Part(part) => {
                    let fixed = match part.is {
                        PartKind::Bytes => fixed(&self.0[index + 1..]) as usize,
                        _ => 0,
                    };
                    let length = part.is.extent(rest, fixed);
                    let fits = |length: &usize| (part.least..=part.most).contains(&(*length as u64));
                    let Some(length) = length.filter(fits) else {
                        return Err((at, Cow::Borrowed(part.is.in_words().as_bytes())));
                    };
                    places.push((at, at + length));
                    at += length;
                }
            }
        }
        if at < reply.len() {
            return Err((at, Cow::Borrowed(b"")));
        }
        Ok(places)
    }

    /// In words: the parts of these replies that are not checked, as seen in `one`.
    fn unchecked(&self, what: &str, one: &[u8], count: usize) -> String {
        /// How many parts are named, and how much of each is shown.
        const NAMED: usize = 3;
        const SHOWN: usize = 40;
        let changed = format!("changed within the first {count} replies");
        if !self.has_meaning() {
            let lengths = self.lengths();
            let (least, most) = (lengths.start(), lengths.end());
            return if least == most {
                format!("only the length of the {what} is checked, {least} bytes, and no byte of it, which {changed}")
            } else {
                format!("the {what} is not checked, except that it has {least} to {most} bytes, because it {changed}")
            };
        }
        let places = self.places(one).unwrap_or_default();
        let named = places.iter().take(NAMED).map(|(from, to)| {
            let shown = &one[*from..*to.min(&(from + SHOWN))];
            let more = if to - from > SHOWN { "…" } else { "" };
            match to - from {
                0 => format!("what comes at byte {from}"),
                1 => format!("byte {from} (\"{}\")", shown.escape_ascii()),
                _ => format!("bytes {from} to {} (\"{}{more}\")", to - 1, shown.escape_ascii()),
            }
        });
        let named: Vec<String> = named.collect();
        let more = match places.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more parts"),
        };
        format!("not checked of the {what}: {}{more}, which {changed}", named.join(", "))
    }
}

/// Number of fixed bytes.
fn fixed(pieces: &[Piece]) -> u64 {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.0.len() as u64,
        Piece::Part(_) => 0,
    });
    texts.sum()
}

fn longest(seen: u64) -> u64 {
    seen.saturating_mul(LONGER).saturating_add(MORE)
}

impl Exact {
    /// Learns the expectation from replies in order of arrival, at least one. Also returns, in words, the parts that
    /// are not checked. A few replies of another kind than all others are errors, and teach nothing.
    pub fn learn(what: &str, replies: &[&[u8]]) -> (Self, Option<String>) {
        let usual = usual(replies);
        let first = usual[0];
        if usual.iter().all(|reply| *reply == first) {
            return (Self::of(first), None);
        }
        let alike = Alike::of(&usual);
        let unchecked = alike.unchecked(what, first, replies.len());
        (Self::Alike(alike), Some(unchecked))
    }

    /// Whether the bytes meet the expectation.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Alike(alike) => alike.differs(bytes).is_none(),
            Self::Bytes(own) => own == bytes,
            Self::Digest(digest) => digest.is_of(bytes),
        }
    }
}

/// The replies without exceptions: empty replies if most are not empty, and replies of another kind between replies
/// nearly all of one kind.
pub fn usual<'a>(replies: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut usual = replies.to_vec();
    let empty = usual.iter().filter(|reply| reply.is_empty()).count();
    if 2 * empty < usual.len() {
        usual.retain(|reply| !reply.is_empty());
    }
    let kinds: [Reduced; 2] = [skeleton, |reply| Cow::Borrowed(reply)];
    for kind in kinds {
        let keys: Vec<Cow<'_, [u8]>> = usual.iter().map(|reply| kind(reply)).collect();
        let times = |key: &Cow<'_, [u8]>| keys.iter().filter(|other| *other == key).count();
        let Some(rule) = keys.iter().max_by_key(|key| times(key)) else {
            continue;
        };
        if keys.len() < MANY || 4 * times(rule) < 3 * keys.len() {
            continue;
        }
        let is_rule: Vec<bool> = keys.iter().map(|key| key == rule).collect();
        let first = is_rule.iter().position(|is| *is).unwrap_or(0);
        let last = is_rule.iter().rposition(|is| *is).unwrap_or(0);
        // A reply that differs at the beginning, or to the end, is a change and no exception.
        let has_changed = is_rule.len() - 1 - last > WITNESSES;
        let mut is_rule = is_rule.iter().enumerate();
        usual.retain(|_| {
            let (at, is) = is_rule.next().expect("one for each");
            *is || at < first || (at > last && has_changed)
        });
    }
    usual
}

/// A reply without its words and values.
fn skeleton(reply: &[u8]) -> Cow<'_, [u8]> {
    Cow::Owned(json::skeleton(reply).unwrap_or_else(|| words::skeleton(reply)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The expectation learnt from texts, and the parts that are not checked.
    fn learnt<T: AsRef<str>>(texts: &[T]) -> (Exact, String) {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_ref().as_bytes()).collect();
        let (exact, unchecked) = Exact::learn("body", &texts);
        let written = serde_json::to_string(&exact).unwrap();
        assert_eq!(serde_json::from_str::<Exact>(&written).unwrap(), exact, "{written}");
        (exact, unchecked.unwrap_or_default())
    }

    /// Checks that the expectation learnt from `seen` accepts `right` and rejects `wrong`.
    fn fit<T: AsRef<str>>(seen: &[T], right: &[&str], wrong: &[&str]) {
        let (exact, unchecked) = learnt(seen);
        for text in right {
            assert!(exact.fits(text.as_bytes()), "{text:?} after {unchecked:?}");
        }
        for text in wrong {
            assert!(!exact.fits(text.as_bytes()), "{text:?} after {unchecked:?}");
        }
    }

    #[test]
    fn what_stays_must_stay_and_what_changes_keeps_its_kind() {
        let clock = |second: u32| format!(r#"{{"status":"UP","time":"2026-11-27T13:43:{second:02}Z"}}"#);
        fit(
            &[clock(58), clock(59)],
            &[r#"{"status":"UP","time":"2027-01-01T00:00:00Z"}"#],
            &[
                r#"{"status":"DOWN","time":"2026-11-27T13:43:58Z"}"#,
                r#"{"status":"UP","time":null}"#,
                r#"{"status":"UP","time":"2026-11-27T13:43:58Z""#,
                r#"{"status":"UP"}"#,
                r#"{"error":"overloaded"}"#,
                "<h1>Sorry</h1>",
                "",
            ],
        );
        fit(
            &["visits: 9\n", "visits: 10\n"],
            &["visits: 1000000\n"],
            &[
                "visits: many\n",
                "visits: \n",
                "visits: 9",
                "visit: 9\n",
                "visits: 9 or 10\n",
            ],
        );
        fit(
            &["1764250000", "1764250001"],
            &["1764259999"],
            &["", "Service unavailable", "error"],
        );
        let form = |token: &str, server: &str| format!("<form><input value=\"{token}\"></form><p>from {server}</p>");
        fit(
            &[
                form("dGhl+/==", "web-1"),
                form("c2Vjb25k", "web-2"),
                form("a/b=", "web-1"),
            ],
            &[&form("=x", "db"), &form("c2Vj", "web-3")],
            &[
                &form("x", ""),
                &form("", "web-3"),
                &form("x", "a b"),
                "<form></form>",
                &form("x", "y")[1..],
            ],
        );
        // The value has another kind each time.
        fit(
            &[r#"{"next": null, "n": 1}"#, r#"{"next": {"a": [1, 2]}, "n": 2.5}"#],
            &[r#"{"next": "x", "n": -3e9}"#],
            &[
                r#"{"next": x, "n": 1}"#,
                r#"{"next": "x", "n": "1"}"#,
                r#"{"next": , "n": 1}"#,
            ],
        );
    }

    #[test]
    fn a_length_that_moves_has_its_bounds() {
        let list = |length: usize| format!("[{}]", vec!["1"; length].join(", "));
        fit(
            &[list(3), list(5), list(4)],
            &["[]", &list(7)],
            &["{}", "[1, 2", "", &list(100), "[1] [2]"],
        );
        let lines = |length: usize| format!("begin\n{}end\n", "line\n".repeat(length));
        fit(
            &[lines(3), lines(5), lines(4)],
            &[&lines(2), &lines(9)],
            &["begin\nend\n", &lines(100), "begin\nline\nline\nline\n", "end\n", ""],
        );
        // A number of eight bytes, of which one has changed.
        let (exact, _) = Exact::learn(
            "body",
            &[
                b"AAAAAAAA\0\0\0\x01\xff\0\0\x01BBBBBBBB",
                b"AAAAAAAA\0\0\0\x01\xff\0\0\x02BBBBBBBB",
            ],
        );
        assert!(exact.fits(b"AAAAAAAA\0\0\0\x02\x01\0\0\x01BBBBBBBB"));
        assert!(!exact.fits(b"BAAAAAAA\0\0\0\x01\xff\0\0\x01BBBBBBBB"));
        assert!(!exact.fits(b"AAAAAAAA\0\0\0\x01\xff\0\0\x01BBBBBBBBB"));
    }

    #[test]
    fn large_replies_that_change_are_known_by_their_length() {
        let large = |last: u8| [&vec![b'a'; KEPT_MAX][..], &[last]].concat();
        let (exact, unchecked) = Exact::learn("body", &[&large(1), &large(2)]);
        assert_eq!(exact.length(), Some(KEPT_MAX as u64 + 1));
        assert_eq!(
            unchecked.unwrap(),
            "only the length of the body is checked, 1048577 bytes, and no byte of it, which changed within the first 2 \
             replies"
        );
    }

    #[test]
    fn exceptions_teach_nothing() {
        // Every tenth reply is another page, a part of the page, or nothing.
        for other in ["<h1>Sorry</h1>", r#"{"error":"full"}"#, r#"{"n":1,"#, ""] {
            let page = |n: usize| {
                if n % 10 == 5 {
                    other.to_owned()
                } else {
                    format!(r#"{{"n":{n},"page":"x"}}"#)
                }
            };
            let seen: Vec<String> = (0..32).map(page).collect();
            fit(&seen, &[r#"{"n":100,"page":"x"}"#], &[other]);
            let page = |n: usize| if n % 10 == 5 { other } else { "the page" };
            let seen: Vec<&str> = (0..32).map(page).collect();
            assert_eq!(learnt(&seen), (Exact::from("the page"), String::new()));
        }
        // A lasting change is no exception, nor is the state before it.
        let clock = |tick: usize| {
            (0..32)
                .map(|n| format!("12:00:{:02}", u32::from(n >= tick)))
                .collect::<Vec<_>>()
        };
        for tick in 1..=27 {
            fit(&clock(tick), &["12:00:00", "12:00:59"], &["x"]);
        }
    }

    #[test]
    fn what_is_not_checked_is_named() {
        let page = |n: u32| format!("a={n};b={n}{n};c={n}\nd={n}\ne={n}\n");
        let seen: Vec<String> = (0..3).map(page).collect();
        assert_eq!(
            learnt(&seen).1,
            "not checked of the body: byte 2 (\"0\"), bytes 6 to 7 (\"00\"), byte 11 (\"0\"), and 2 more parts, which changed \
             within the first 3 replies"
        );
        let token = |n: u8| char::from(b'a' + n).to_string().repeat(50);
        assert_eq!(
            learnt(&[token(0), token(1)]).1,
            format!(
                "not checked of the body: bytes 0 to 49 (\"{}…\"), which changed within the first 2 replies",
                "a".repeat(40)
            )
        );
    }

    proptest! {
        #[test]
        fn what_was_seen_is_right(
            seen in proptest::collection::vec(prop_oneof![
                "[ab1:]{0,3}[ \n<=]{0,2}[ab1]{0,3}",
                r#"\{"a": ?(1|"x|yy"|null|\[1?\]|\{"b":2\}), "c":[12]\}"#,
                r#" ?\[(\{"a":(1|"\\"")(,"a":\[2? \])?\}, ?){0,2}("é"|-1e3|\[\[0?\]\])\]\n?"#,
                "[\\x00-\\x05a]{0,9}",
            ], 1..6)
        ) {
            let texts: Vec<&[u8]> = seen.iter().map(String::as_bytes).collect();
            let (exact, _) = Exact::learn("body", &texts);
            for text in usual(&texts) {
                prop_assert!(exact.fits(text), "{:?} with {:?}", text, exact);
                prop_assert!(exact.lengths().contains(&(text.len() as u64)));
            }
        }

        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (exact, _) = learnt(&[r#"{"a": 1, "b": "x", "c": [1]}"#, r#"{"a": 2, "b": "y", "c": []}"#]);
            let _ = exact.fits(&bytes);
            let _ = Exact::learn("body", &[&bytes, b"{}"]);
        }
    }
}
