//! Bytes written as a text with the escapes of C.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes as a text. `\0`, `\n`, `\r`, `\t`, `\xff` and the other escapes of C stand for bytes that cannot be typed, and
/// `\\` for a backslash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Escaped(pub Vec<u8>);

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl From<Escaped> for String {
    fn from(bytes: Escaped) -> Self {
        bytes.to_string()
    }
}

impl TryFrom<String> for Escaped {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.as_str().try_into()
    }
}

impl TryFrom<&str> for Escaped {
    type Error = String;

    fn try_from(text: &str) -> Result<Self, String> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte == b'\\' {
                let (byte, length) = escape(rest).ok_or_else(|| unknown(rest))?;
                bytes.push(byte);
                rest = &rest[length..];
            } else {
                bytes.push(byte);
            }
        }
        Ok(Self(bytes))
    }
}

/// The byte of an escape after its backslash, and how many characters the escape has.
fn escape(after: &[u8]) -> Option<(u8, usize)> {
    let number = |digits: &[u8], radix| u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
    let digits = |from: &[u8], radix: u32, most: usize| {
        let first = from.iter().take(most);
        first.take_while(|byte| char::from(**byte).is_digit(radix)).count()
    };
    Some(match after.first()? {
        b'a' => (7, 1),
        b'b' => (8, 1),
        b'e' => (0x1b, 1),
        b'f' => (0x0c, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (0x0b, 1),
        same @ (b'\\' | b'\'' | b'"') => (*same, 1),
        b'x' => {
            let length = digits(&after[1..], 16, 2);
            (number(&after[1..=length], 16)?, length + 1)
        }
        b'0'..=b'7' => {
            let length = digits(after, 8, 3);
            (number(&after[..length], 8)?, length)
        }
        _ => return None,
    })
}

fn unknown(after: &[u8]) -> String {
    let shown = String::from_utf8_lossy(after);
    let shown: String = shown.chars().take(4).collect();
    format!(r"`\{shown}` begins with an unknown escape (known: \0 \n \r \t \xff \\ and others of C)")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_those_of_c() {
        for (text, bytes) in [
            ("", &b""[..]),
            (r"zPING\0", b"zPING\0"),
            (r"a\r\n\t\\\'\x22\xFf\xag", b"a\r\n\t\\'\"\xff\x0ag"),
            (r"\1012\0\08\e\a\b\f\v", b"A2\0\x008\x1b\x07\x08\x0c\x0b"),
            ("é", "é".as_bytes()),
        ] {
            assert_eq!(Escaped::try_from(text), Ok(Escaped(bytes.to_vec())), "{text}");
        }
        for (wrong, shown) in [
            (r"a\", r"`\`"),
            (r"\q123456", r"`\q123`"),
            (r"\xg", r"`\xg`"),
            (r"\400", r"`\400`"),
        ] {
            let error = Escaped::try_from(wrong).unwrap_err();
            assert!(
                error.starts_with(&format!("{shown} begins with an unknown escape")),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_they_were_written(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let bytes = Escaped(bytes);
            prop_assert_eq!(Escaped::try_from(bytes.to_string()), Ok(bytes));
        }
    }
}
