//! The chunked transfer coding of HTTP/1.1 (RFC 9112, section 7.1), piece by piece.

use lasthop_trial::failure::Failure;

use super::{exchange::excerpt, line::Line};

/// Maximum bytes of a line with a chunk's size, extensions included.
const LINE_MAX: usize = 1024;
/// Maximum bytes of all trailer fields.
const TRAILER_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expecting {
    #[default]
    Size,
    Data {
        left: u64,
    },
    /// The line end after a chunk's data.
    DataEnd,
    Trailer,
}

/// Decodes one chunked body.
#[derive(Clone, Debug, Default)]
pub struct Chunked {
    state: Expecting,
    line: Line,
    trailer: usize,
}

impl Chunked {
    pub fn reset(&mut self) {
        self.state = Expecting::Size;
        self.line.0.clear();
        self.trailer = 0;
    }

    /// Takes bytes of the body and passes the content to `content`. Returns how many bytes were used if the body is
    /// complete, `None` if more must come.
    ///
    /// # Errors
    ///
    /// The bytes violate the coding, or a line exceeds the limits.
    pub fn feed(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<Option<usize>, Failure> {
        let mut at = 0;
        while at < bytes.len() {
            if let Expecting::Data { left } = self.state {
                let take = ((bytes.len() - at) as u64).min(left) as usize;
                content(&bytes[at..at + take]);
                at += take;
                let left = left - take as u64;
                self.state = if left == 0 {
                    Expecting::DataEnd
                } else {
                    Expecting::Data { left }
                };
                continue;
            }
            let most = if self.state == Expecting::Trailer {
                // Never below 0: each line was limited to the rest.
                TRAILER_MAX - self.trailer
            } else {
                LINE_MAX
            };
            let (used, whole) = self.line.feed(&bytes[at..], most, "chunked coding")?;
            at += used;
            if whole && self.end_line()? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Acts on a complete line; true at the end of the body.
    fn end_line(&mut self) -> Result<bool, Failure> {
        let line = &mut self.line.0;
        if line.last() != Some(&b'\r') {
            return Err(Failure::protocol(format!(
                "chunked coding: {} does not end in CR LF",
                excerpt(line)
            )));
        }
        line.pop();
        let mut whole = false;
        self.state = match self.state {
            Expecting::Size => match chunk_size(line)? {
                0 => Expecting::Trailer,
                left => Expecting::Data { left },
            },
            Expecting::DataEnd if line.is_empty() => Expecting::Size,
            Expecting::DataEnd => {
                return Err(Failure::protocol(
                    "chunked coding: a chunk is longer than its size says",
                ));
            }
            Expecting::Trailer => {
                whole = line.is_empty();
                self.trailer += line.len();
                Expecting::Trailer
            }
            Expecting::Data { .. } => unreachable!("data is not read by lines"),
        };
        line.clear();
        Ok(whole)
    }
}

/// The chunk size at the beginning of a line: hexadecimal digits, then an optional `;extension`.
fn chunk_size(line: &[u8]) -> Result<u64, Failure> {
    let end = line
        .iter()
        .position(|byte| matches!(byte, b';' | b' ' | b'\t'))
        .unwrap_or(line.len());
    let digits = &line[..end];
    let bad = || Failure::protocol(format!("chunked coding: {} is not a chunk size", excerpt(line)));
    // Fifteen digits fit into 64 bits; `from_str_radix` alone would accept a sign.
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(digits).map_err(|_| bad())?;
    u64::from_str_radix(text, 16).map_err(|_| bad())
}
