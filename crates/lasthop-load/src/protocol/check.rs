//! Checks a body piece by piece against what was expected, without keeping it.

use std::ops::Range;

use memchr::memmem;

use super::exchange::excerpt;
use crate::failure::Failure;

/// Bytes of a wrong body that its failure shows, from the first one that is wrong, and right ones before it.
const WRONG_SHOWN: usize = 40;
const RIGHT_SHOWN: usize = 20;

/// What a body must be.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub body: Option<Vec<u8>>,
    pub contains: Vec<Vec<u8>>,
    pub length: Option<u64>,
}

/// The state of the check of one body.
#[derive(Clone, Debug, Default)]
pub struct BodyCheck {
    received: u64,
    mismatch: Option<u64>,
    /// The first bytes from the mismatch on; without a body to compare with, from the beginning.
    shown: Vec<u8>,
    found: Vec<bool>,
    /// The last bytes of earlier pieces, one less than the longest text looked for.
    tail: Vec<u8>,
}

impl BodyCheck {
    pub fn reset(&mut self) {
        self.received = 0;
        self.mismatch = None;
        self.shown.clear();
        self.found.clear();
        self.tail.clear();
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn feed(&mut self, expected: &Expected, piece: &[u8]) {
        if let Some(body) = &expected.body {
            self.compare(body, piece);
        }
        if !expected.contains.is_empty() {
            self.search(&expected.contains, piece);
            if expected.body.is_none() {
                self.show(piece);
            }
        }
        self.received += piece.len() as u64;
    }

    fn compare(&mut self, body: &[u8], piece: &[u8]) {
        if self.mismatch.is_some() {
            return self.show(piece);
        }
        let from = usize::try_from(self.received).unwrap_or(usize::MAX).min(body.len());
        let want = &body[from..body.len().min(from + piece.len())];
        if want != piece {
            let same = want.iter().zip(piece).take_while(|(left, right)| left == right).count();
            self.mismatch = Some(self.received + same as u64);
            self.show(&piece[same..]);
        }
    }

    fn show(&mut self, piece: &[u8]) {
        let room = WRONG_SHOWN - self.shown.len();
        self.shown.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn search(&mut self, texts: &[Vec<u8>], piece: &[u8]) {
        self.found.resize(texts.len(), false);
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        // What may lie across the border of two pieces: the kept tail and the beginning of this piece.
        let mut border = self.tail.clone();
        border.extend_from_slice(&piece[..piece.len().min(longest.saturating_sub(1))]);
        for (text, found) in texts.iter().zip(&mut self.found) {
            *found = *found || memmem::find(piece, text).is_some() || memmem::find(&border, text).is_some();
        }
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(longest)..]);
        let surplus = self.tail.len().saturating_sub(longest.saturating_sub(1));
        self.tail.drain(..surplus);
    }

    /// The verdict on the whole body.
    /// Errors: the first expectation that does not hold.
    pub fn finish(&mut self, expected: &Expected) -> Result<(), Failure> {
        if let Some(length) = expected.length.filter(|length| *length != self.received) {
            return Err(Failure::content(format!("the body has {} bytes, expected {length}", self.received)));
        }
        if let Some(body) = &expected.body {
            let beside = |at| self.beside(body, at);
            if let Some(at) = self.mismatch {
                let text = format!("the body differs from the expected one at byte {at}: {}", beside(at));
                return Err(Failure::content(text));
            }
            if body.len() as u64 != self.received {
                let (got, want) = (self.received, body.len());
                return Err(Failure::content(format!("the body has {got} bytes, expected {want}: {}", beside(got))));
            }
        }
        self.found.resize(expected.contains.len(), false);
        match expected.contains.iter().zip(&self.found).find(|(text, found)| !**found && !text.is_empty()) {
            Some((text, _)) => {
                let received = match expected.body {
                    None => format!(": received {}", part(&self.shown, 0..self.shown.len(), self.received)),
                    Some(_) => String::new(),
                };
                Err(Failure::content(format!("the body does not contain {}{received}", excerpt(text))))
            }
            None => Ok(()),
        }
    }

    /// The expected and the received text around the first wrong byte.
    fn beside(&self, body: &[u8], at: u64) -> String {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
        let from = at.saturating_sub(RIGHT_SHOWN);
        let expected = part(body, from..body.len().min(at + WRONG_SHOWN), body.len() as u64);
        let received = [&body[..at], &self.shown].concat();
        format!("expected {expected}, received {}", part(&received, from..received.len(), self.received))
    }
}

/// A range of a body of so many bytes, in words.
fn part(body: &[u8], range: Range<usize>, length: u64) -> String {
    let before = if range.start > 0 { "…" } else { "" };
    let after = if (range.end as u64) < length { "…" } else { "" };
    format!("\"{before}{}{after}\"", body[range].escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The failure of a body, wherever it is cut.
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
        let body = |text: &str| Expected { body: Some(text.into()), ..Expected::default() };
        let differs = "the body differs from the expected one at byte";
        for (want, got, shown) in [
            (
                "Hello there!",
                "Hello where?",
                format!("{differs} 6: expected \"Hello there!\", received \"Hello where?\""),
            ),
            ("Hello", "Hello\u{1b}!", format!("{differs} 5: expected \"Hello\", received \"Hello\\x1b!\"")),
            ("Hello", "He", "the body has 2 bytes, expected 5: expected \"Hello\", received \"He\"".to_owned()),
        ] {
            assert_eq!(failure(&body(want), got), shown);
        }
        let (want, got) = ("a".repeat(200), "a".repeat(100) + &"b".repeat(100));
        let (a, same, b) = ("a".repeat(60), "a".repeat(20), "b".repeat(40));
        let shown = format!("{differs} 100: expected \"…{a}…\", received \"…{same}{b}…\"");
        assert_eq!(failure(&body(&want), &got), shown);
        let contains = Expected { contains: vec![b"Hello".to_vec()], ..Expected::default() };
        assert_eq!(failure(&contains, "Bye!"), "the body does not contain \"Hello\": received \"Bye!\"");
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_the_body_is_cut(
            body in "[ab]{0,40}", text in "[ab]{1,6}", cuts in proptest::collection::vec(0usize..8, 0..20)
        ) {
            let expected = Expected { contains: vec![text.clone().into_bytes()], ..Expected::default() };
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
