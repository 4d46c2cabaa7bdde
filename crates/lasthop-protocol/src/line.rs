//! Common parts of line protocols: a line collected from pieces, a text of known length before a line end, and numbers.

use std::str::FromStr;

use lasthop_trial::failure::Failure;

/// The current line, up to its LF, which is left out.
#[derive(Clone, Debug, Default)]
pub struct Line(pub Vec<u8>);

impl Line {
    /// Takes bytes up to the end of the line. Returns how many, and whether the line is complete.
    ///
    /// # Errors
    ///
    /// The line has more than `most` bytes.
    pub fn feed(&mut self, bytes: &[u8], most: usize, of: &str) -> Result<(usize, bool), Failure> {
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        if self.0.len() + part.len() > most {
            return Err(Failure::protocol(format!("{of}: a line is too long")));
        }
        self.0.extend_from_slice(part);
        Ok((part.len() + usize::from(end.is_some()), end.is_some()))
    }
}

/// For a text with CR LF, of which `left` bytes are still to come: how many of `bytes` belong to both, and how many of
/// those to the text. `None` if other bytes follow the text.
pub fn ended_text(bytes: &[u8], left: u64) -> Option<(usize, usize)> {
    let used = left.min(bytes.len() as u64) as usize;
    let text = left.saturating_sub(2).min(used as u64) as usize;
    let end = &b"\r\n"[2_usize.saturating_sub(left as usize - text)..];
    end.starts_with(&bytes[text..used]).then_some((used, text))
}

/// Refuses placeholders that other benchmarks replace by a new value for each request, such as `__rand_int__` and
/// `__key__`.
pub fn without_placeholders<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let is_known = |name: &&str| matches!(*name, "key" | "data") || name.starts_with("rand_");
    let found = words.into_iter().find_map(|word| {
        // Only words with underscores on both sides.
        let inner = word.split_once("__")?.1.rsplit_once("__")?.0;
        inner.split("__").find(is_known)
    });
    found.map_or(Ok(()), |name| {
        Err(format!(
            "`__{name}__` would be sent as it is, because every request is the same: write the key or the value itself"
        ))
    })
}

/// The number that the text consists of, digits only.
pub fn digits<T: FromStr>(text: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(text).ok()?;
    // `parse` alone would accept a sign.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_other_benchmarks_are_known() {
        let refused = |words: &[&str]| without_placeholders(words.iter().copied()).is_err();
        for word in [
            "key:__rand_int__",
            "__key__",
            "__data__:",
            "a__rand_1st__b",
            "__x__key__",
        ] {
            assert!(refused(&["set", word]), "{word}");
        }
        assert!(!refused(&[
            "set", "__key", "key__", "__mine__", "rand_int", "_key_", "__", "____"
        ]));
    }

    #[test]
    fn a_text_ends_with_its_line_wherever_it_is_cut() {
        let whole = b"ab\r\n+";
        for cut in 0..=whole.len() {
            let (used, text) = ended_text(&whole[..cut], 4).unwrap();
            assert_eq!((used, text), (cut.min(4), cut.min(2)));
        }
        assert_eq!(ended_text(b"\n+", 1), Some((1, 0)));
        for (wrong, left) in [(&b"abc\n"[..], 4), (b"ab\rx", 4), (b"\r", 1)] {
            assert_eq!(ended_text(wrong, left), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(digits(b"012"), Some(12));
        for wrong in [&b""[..], b"+1", b"1 ", b"256"] {
            assert_eq!(digits::<u8>(wrong), None);
        }
    }
}
