//! Checks a body piece by piece against what was expected, without keeping it.

use memchr::memmem;

use super::exchange::excerpt;
use crate::failure::Failure;

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
    found: Vec<bool>,
    /// The last bytes of earlier pieces, one less than the longest text looked for.
    tail: Vec<u8>,
}

impl BodyCheck {
    pub fn reset(&mut self) {
        self.received = 0;
        self.mismatch = None;
        self.found.clear();
        self.tail.clear();
    }

    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn feed(&mut self, expected: &Expected, piece: &[u8]) {
        if let Some(body) = &expected.body {
            self.compare(body, piece);
        }
        if !expected.contains.is_empty() {
            self.search(&expected.contains, piece);
        }
        self.received += piece.len() as u64;
    }

    fn compare(&mut self, body: &[u8], piece: &[u8]) {
        if self.mismatch.is_some() {
            return;
        }
        let from = usize::try_from(self.received).unwrap_or(usize::MAX).min(body.len());
        let want = &body[from..body.len().min(from + piece.len())];
        if want != piece {
            let same = want.iter().zip(piece).take_while(|(left, right)| left == right).count();
            self.mismatch = Some(self.received + same as u64);
        }
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
    ///
    /// # Errors
    /// The first expectation that does not hold.
    pub fn finish(&mut self, expected: &Expected) -> Result<(), Failure> {
        if let Some(length) = expected.length.filter(|length| *length != self.received) {
            return Err(Failure::content(format!("the body has {} bytes, expected {length}", self.received)));
        }
        if let Some(body) = &expected.body {
            if let Some(at) = self.mismatch {
                return Err(Failure::content(format!("the body differs from the expected one at byte {at}")));
            }
            if body.len() as u64 != self.received {
                let text = format!("the body has {} bytes, expected {}", self.received, body.len());
                return Err(Failure::content(text));
            }
        }
        self.found.resize(expected.contains.len(), false);
        match expected.contains.iter().zip(&self.found).find(|(text, found)| !**found && !text.is_empty()) {
            Some((text, _)) => Err(Failure::content(format!("the body does not contain {}", excerpt(text)))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
