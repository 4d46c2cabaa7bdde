//! Frames of HTTP/2 (RFC 9113, section 4): writing, and cutting received bytes into frames.

use lasthop_trial::failure::Failure;

use crate::exchange::fill;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Flag of a PING or of SETTINGS.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Bytes before the content of a frame.
pub const HEAD: usize = 9;
/// Maximum bytes of a frame's content, which every peer accepts and no peer may exceed unasked.
pub const CONTENT_MAX: usize = 16_384;

/// A complete frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// `bytes` must be a head and the content that it announces.
    fn of(bytes: &'a [u8]) -> Self {
        Self {
            kind: bytes[3],
            flags: bytes[4],
            // The highest bit is reserved, and ignored (RFC 9113, section 4.1).
            stream: number(&bytes[5..]) & 0x7fff_ffff,
            content: &bytes[HEAD..],
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The content of DATA or HEADERS without padding and priority.
    pub fn body(&self) -> Result<&'a [u8], Failure> {
        let short = || Failure::protocol("HTTP/2: a frame is shorter than its padding");
        let mut body = self.content;
        if self.has(PADDED) {
            let (padding, rest) = body.split_first().ok_or_else(short)?;
            body = &rest[..rest.len().checked_sub(usize::from(*padding)).ok_or_else(short)?];
        }
        if self.kind == HEADERS && self.has(PRIORITY) {
            body = body.get(5..).ok_or_else(short)?;
        }
        Ok(body)
    }
}

/// The number in the first four bytes; `bytes` must have at least four.
pub fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Appends a frame. `content` may have at most [`CONTENT_MAX`] bytes.
pub fn write(kind: u8, flags: u8, stream: u32, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(content.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(content);
}

/// Cuts received bytes, in whatever pieces, into frames. Keeps at most one frame.
#[derive(Default)]
pub struct Framer {
    kept: Vec<u8>,
    /// Whether the kept frame was handed out.
    is_spent: bool,
}

impl Framer {
    /// Whether the last byte received ended a frame.
    pub fn is_between(&self) -> bool {
        self.is_spent || self.kept.is_empty()
    }

    /// The next frame, once complete, and how many of `bytes` it took.
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<(usize, Option<Frame<'a>>), Failure> {
        if std::mem::take(&mut self.is_spent) {
            self.kept.clear();
        }
        // A complete frame is handed out in place; only a frame in pieces is copied.
        if self.kept.is_empty()
            && let Some(whole) = length(bytes)?.filter(|length| *length <= bytes.len())
        {
            return Ok((whole, Some(Frame::of(&bytes[..whole]))));
        }
        let mut used = fill(&mut self.kept, bytes, HEAD);
        let Some(whole) = length(&self.kept)? else {
            return Ok((used, None));
        };
        used += fill(&mut self.kept, &bytes[used..], whole);
        self.is_spent = self.kept.len() == whole;
        Ok((used, self.is_spent.then(|| Frame::of(&self.kept))))
    }
}

/// Length of the frame that `bytes` begin with, if its head is complete.
fn length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let content = number(&[0, head[0], head[1], head[2]]) as usize;
    if content > CONTENT_MAX {
        return Err(Failure::protocol(format!(
            "HTTP/2: a frame of {content} bytes is too long"
        )));
    }
    Ok(Some(HEAD + content))
}
