//! Checks a body piece by piece against the expected one, without keeping it.

use std::ops::{Range, RangeInclusive};

use lasthop_trial::failure::Failure;
use memchr::memmem;
use xxhash_rust::xxh3::Xxh3;

use super::{
    exact::alike::Alike,
    exact::{Digest, Exact},
    exchange::{EXCERPT, excerpt, fill},
};

/// Bytes of a wrong body that its failure shows: from the first wrong byte on, and right ones before it.
const WRONG_SHOWN: usize = 40;
const RIGHT_SHOWN: usize = 20;

/// Maximum bytes that are read of a wrong body, and beyond the length of a right one, to keep the connection.
pub(crate) const FAULTY_BODY_MAX: u64 = 1024 * 1024;

/// Whether an HTTP status is a redirect.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The expected body.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The body's name in messages.
    pub what: &'static str,
    pub body: Option<Exact>,
    pub contains: Vec<Vec<u8>>,
    pub length: Option<u64>,
}

impl Expected {
    /// Expects `body`, if known; `what` is its name.
    pub fn of(what: &'static str, body: Option<Exact>) -> Self {
        Self {
            what,
            body,
            contains: Vec::new(),
            length: None,
        }
    }

    /// The length, if known.
    pub fn length(&self) -> Option<u64> {
        self.length.or(self.body.as_ref().and_then(Exact::length))
    }

    /// Minimum and maximum bytes, if known.
    pub fn lengths(&self) -> Option<RangeInclusive<u64>> {
        let length = self.length.map(|length| length..=length);
        length.or(self.body.as_ref().map(Exact::lengths))
    }

    /// Refuses a body that has, or will have, so many bytes that it cannot be right.
    pub fn bound(&self, length: u64) -> Result<(), Failure> {
        match self.lengths() {
            Some(want) if length > want.end().saturating_add(FAULTY_BODY_MAX) => Err(Failure::content(format!(
                "the {} has {length} bytes or more, expected {}",
                self.what,
                in_words(&want)
            ))),
            _ => Ok(()),
        }
    }
}

/// The state of the check of one body.
#[derive(Clone, Default)]
pub struct BodyCheck {
    received: u64,
    mismatch: Option<u64>,
    /// The first bytes from the mismatch on; from the beginning if there is no body to compare with, or the head was
    /// wrong.
    shown: Vec<u8>,
    found: Vec<bool>,
    /// The last bytes of earlier pieces, one less than the longest text looked for.
    tail: Vec<u8>,
    /// The received body, if only parts of the expected one are fixed.
    kept: Vec<u8>,
    /// Used if only the digest is known; boxed, because it is large.
    hasher: Option<Box<Xxh3>>,
}

impl BodyCheck {
    pub fn reset(&mut self) {
        self.received = 0;
        self.mismatch = None;
        self.shown.clear();
        self.found.clear();
        self.tail.clear();
        self.kept.clear();
        if let Some(hasher) = &mut self.hasher {
            hasher.reset();
        }
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn feed(&mut self, expected: &Expected, piece: &[u8]) {
        match &expected.body {
            Some(Exact::Bytes(body)) => self.compare(body, piece),
            Some(Exact::Digest(digest)) => self.hasher(digest).update(piece),
            Some(Exact::Alike(alike)) => self.keep(alike, piece),
            None => {}
        }
        if !expected.contains.is_empty() {
            self.search(&expected.contains, piece);
            if expected.body.is_none() {
                self.show(piece);
            }
        }
        self.received += piece.len() as u64;
    }

    /// Takes a piece of a body whose head was wrong. The body is not checked, but may say why.
    pub fn glance(&mut self, piece: &[u8]) {
        // One byte more than is shown tells that there are more.
        fill(&mut self.shown, piece, EXCERPT + 1);
        self.received += piece.len() as u64;
    }

    /// Adds the beginning of the body to the failure of a wrong status. A redirect needs none: it says where it leads.
    pub fn explained(&self, fault: Failure) -> Failure {
        if self.shown.is_empty() || fault.status.is_none_or(is_redirect) {
            return fault;
        }
        Failure {
            message: format!("{}: {}", fault.message, excerpt(&self.shown)),
            ..fault
        }
    }

    fn hasher(&mut self, digest: &Digest) -> &mut Xxh3 {
        self.hasher
            .get_or_insert_with(|| Box::new(Xxh3::with_seed(digest.seed)))
    }

    /// Keeps at most one byte more than a correct body has.
    fn keep(&mut self, alike: &Alike, piece: &[u8]) {
        let most = usize::try_from(*alike.lengths().end()).unwrap_or(usize::MAX);
        if alike.has_meaning() && self.received <= most as u64 {
            fill(&mut self.kept, piece, most.saturating_add(1));
        }
    }

    fn compare(&mut self, body: &[u8], piece: &[u8]) {
        if self.mismatch.is_some() {
            return self.show(piece);
        }
        // Beyond its end the expected body is empty, so any byte there differs.
        let from = usize::try_from(self.received).unwrap_or(usize::MAX).min(body.len());
        let want = &body[from..body.len().min(from + piece.len())];
        if want != piece {
            let same = want.iter().zip(piece).take_while(|(left, right)| left == right).count();
            self.mismatch = Some(self.received + same as u64);
            self.show(&piece[same..]);
        }
    }

    fn show(&mut self, piece: &[u8]) {
        fill(&mut self.shown, piece, WRONG_SHOWN);
    }

    fn search(&mut self, texts: &[Vec<u8>], piece: &[u8]) {
        self.found.resize(texts.len(), false);
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        // Texts may lie across the border of two pieces: search the kept tail and the beginning of this piece.
        let mut border = self.tail.clone();
        border.extend_from_slice(&piece[..piece.len().min(longest.saturating_sub(1))]);
        for (text, found) in texts.iter().zip(&mut self.found) {
            *found = *found || memmem::find(piece, text).is_some() || memmem::find(&border, text).is_some();
        }
        self.tail
            .extend_from_slice(&piece[piece.len().saturating_sub(longest)..]);
        let surplus = self.tail.len().saturating_sub(longest.saturating_sub(1));
        self.tail.drain(..surplus);
    }

    /// Judges the whole body.
    pub fn finish(&mut self, expected: &Expected) -> Result<(), Failure> {
        let what = expected.what;
        if let Some(length) = expected.length.filter(|length| *length != self.received) {
            return Err(Failure::content(format!(
                "the {what} has {} bytes, expected {length}",
                self.received
            )));
        }
        match &expected.body {
            Some(Exact::Bytes(body)) => self.finish_bytes(what, body)?,
            Some(Exact::Digest(digest)) => self.finish_digest(what, digest)?,
            Some(Exact::Alike(alike)) => self.finish_alike(what, alike)?,
            None => {}
        }
        self.found.resize(expected.contains.len(), false);
        match expected
            .contains
            .iter()
            .zip(&self.found)
            // Every body contains an empty text, even a body without any piece.
            .find(|(text, found)| !**found && !text.is_empty())
        {
            Some((text, _)) => {
                let received = match expected.body {
                    None => format!(": received {}", part(&self.shown, 0..self.shown.len(), self.received)),
                    Some(_) => String::new(),
                };
                Err(Failure::content(format!(
                    "the {what} does not contain {}{received}",
                    excerpt(text)
                )))
            }
            None => Ok(()),
        }
    }

    fn finish_bytes(&self, what: &str, body: &[u8]) -> Result<(), Failure> {
        let got = self.received;
        let want = body.len();
        let text = match self.mismatch {
            Some(at) => {
                format!(
                    "the {what} differs from the expected one at byte {at}: {}",
                    self.beside(body, at)
                )
            }
            None if got == want as u64 => return Ok(()),
            None => format!(
                "the {what} has {got} bytes, expected {want}: {}",
                self.beside(body, got)
            ),
        };
        Err(Failure::content(text))
    }

    fn finish_digest(&mut self, what: &str, digest: &Digest) -> Result<(), Failure> {
        let got = self.received;
        let want = digest.length;
        if got != want {
            return Err(Failure::content(format!("the {what} has {got} bytes, expected {want}")));
        }
        if self.hasher(digest).digest128() == digest.digest {
            return Ok(());
        }
        Err(Failure::content(format!(
            "the {what} of {got} bytes differs from the expected one (by its digest)"
        )))
    }

    fn finish_alike(&self, what: &str, alike: &Alike) -> Result<(), Failure> {
        let got = self.received;
        let lengths = alike.lengths();
        let text = if !lengths.contains(&got) {
            format!("the {what} has {got} bytes, expected {}", in_words(&lengths))
        } else if let Some((at, want)) = alike.differs(&self.kept).filter(|_| alike.has_meaning()) {
            let from = at.saturating_sub(RIGHT_SHOWN);
            let end = self.kept.len().min(at + WRONG_SHOWN);
            let want = &want[..want.len().min(WRONG_SHOWN)];
            format!(
                "the {what} differs from earlier ones at byte {at}: expected {}, received {}",
                excerpt(want),
                part(&self.kept, from..end, got)
            )
        } else {
            return Ok(());
        };
        Err(Failure::content(text))
    }

    /// The expected and the received text around the first wrong byte.
    fn beside(&self, body: &[u8], at: u64) -> String {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
        let from = at.saturating_sub(RIGHT_SHOWN);
        let expected = part(body, from..body.len().min(at + WRONG_SHOWN), body.len() as u64);
        let received = [&body[..at], &self.shown].concat();
        format!(
            "expected {expected}, received {}",
            part(&received, from..received.len(), self.received)
        )
    }
}

/// Index of the first byte where two texts differ, and both texts around it.
pub fn contrast(one: &[u8], other: &[u8]) -> (usize, [String; 2]) {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let shown = |text: &[u8]| {
        let end = text.len().min(at + WRONG_SHOWN);
        part(text, at.saturating_sub(RIGHT_SHOWN)..end, text.len() as u64)
    };
    (at, [shown(one), shown(other)])
}

/// A range of byte counts, in words.
fn in_words(lengths: &RangeInclusive<u64>) -> String {
    let (least, most) = (lengths.start(), lengths.end());
    if least == most {
        least.to_string()
    } else {
        format!("{least} to {most}")
    }
}

/// A range of a body of `length` bytes, in words.
fn part(body: &[u8], range: Range<usize>, length: u64) -> String {
    let before = if range.start > 0 { "…" } else { "" };
    let after = if (range.end as u64) < length { "…" } else { "" };
    format!("\"{before}{}{after}\"", body[range].escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The failure of a body, the same wherever it is cut.
    fn failure(expected: &Expected, body: &str) -> String {
        let texts = (0..=body.len()).map(|cut| {
            let mut check = BodyCheck::default();
            check.feed(expected, &body.as_bytes()[..cut]);
            check.feed(expected, &body.as_bytes()[cut..]);
            check.finish(expected).unwrap_err().message
        });
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.remove(0)
    }

    #[test]
    fn a_wrong_body_is_shown_beside_the_expected_one() {
        let body = |text: &str| Expected {
            body: Some(text.into()),
            ..Expected::of("body", None)
        };
        let differs = "the body differs from the expected one at byte";
        for (want, got, shown) in [
            (
                "Hello there!",
                "Hello where?",
                format!("{differs} 6: expected \"Hello there!\", received \"Hello where?\""),
            ),
            (
                "Hello",
                "Hello\u{1b}!",
                format!("{differs} 5: expected \"Hello\", received \"Hello\\x1b!\""),
            ),
            (
                "Hello",
                "He",
                "the body has 2 bytes, expected 5: expected \"Hello\", received \"He\"".to_owned(),
            ),
        ] {
            assert_eq!(failure(&body(want), got), shown);
        }
        let want = "a".repeat(200);
        let got = "a".repeat(100) + &"b".repeat(100);
        let a = "a".repeat(60);
        let same = "a".repeat(20);
        let b = "b".repeat(40);
        let shown = format!("{differs} 100: expected \"…{a}…\", received \"…{same}{b}…\"");
        assert_eq!(failure(&body(&want), &got), shown);
        let contains = Expected {
            contains: vec![b"Hello".to_vec()],
            ..Expected::of("body", None)
        };
        assert_eq!(
            failure(&contains, "Bye!"),
            "the body does not contain \"Hello\": received \"Bye!\""
        );
    }

    #[test]
    fn a_long_body_is_compared_by_its_digest() {
        let long = vec![7; super::super::exact::KEPT_MAX + 1];
        let expected = Expected {
            body: Some(Exact::of(&long)),
            ..Expected::of("body", None)
        };
        let mut check = BodyCheck::default();
        // Twice: no trace of the first body may remain.
        for _ in 0..2 {
            check.reset();
            long.chunks(100_000).for_each(|piece| check.feed(&expected, piece));
            assert_eq!(check.finish(&expected), Ok(()));
        }
        for (at, text) in [(0, "differs"), (500_000, "differs"), (long.len() - 1, "differs")] {
            let mut wrong = long.clone();
            wrong[at] ^= 1;
            check.reset();
            check.feed(&expected, &wrong);
            assert!(check.finish(&expected).unwrap_err().message.contains(text), "{at}");
        }
        check.reset();
        check.feed(&expected, &long[1..]);
        assert_eq!(
            check.finish(&expected).unwrap_err().message,
            "the body has 1048576 bytes, expected 1048577"
        );
    }

    #[test]
    fn two_texts_are_shown_where_they_differ() {
        let shown = (1, ["\"Hello\"".to_owned(), "\"H\\xff\"".to_owned()]);
        assert_eq!(contrast(b"Hello", b"H\xff"), shown);
        let (at, [one, other]) = contrast(&[b'a'; 100], &[&[b'a'; 50][..], b"b"].concat());
        assert_eq!((at, one.len(), other.len()), (50, 2 + 3 + 60 + 3, 2 + 3 + 21));
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_the_body_is_cut(
            body in "[ab]{0,40}", text in "[ab]{1,6}", cuts in proptest::collection::vec(0usize..8, 0..20)
        ) {
            let expected = Expected { contains: vec![text.clone().into_bytes()], ..Expected::of("body", None) };
            let mut check = BodyCheck::default();
            let mut rest = body.as_bytes();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                check.feed(&expected, piece);
                rest = after;
            }
            check.feed(&expected, rest);
            prop_assert_eq!(check.finish(&expected).is_ok(), body.contains(&text));
        }
    }
}
