//! Frames of WebSocket (RFC 6455, section 5): reading heads in pieces, and writing frames.

use lasthop_trial::failure::Failure;

/// Kinds of frames. `CONTINUATION` has the rest of a message.
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// Maximum bytes of a control frame's content.
pub const CONTROL_MAX: u64 = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const KIND: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
/// Values in place of a length that follows in two bytes, or in eight.
const IN_TWO: u8 = 126;
const IN_EIGHT: u8 = 127;

/// Maximum bytes of a head without a mask: servers do not mask.
const HEAD_MAX: usize = 10;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: u8,
    /// Whether the frame ends its message.
    pub is_last: bool,
    /// Bytes of content.
    pub length: u64,
}

/// Whether frames of this kind concern the connection, and may come between the frames of a message.
pub fn is_control(kind: u8) -> bool {
    kind >= CLOSE
}

/// Whether this byte begins a control frame.
pub fn begins_control(first: u8) -> bool {
    is_control(first & KIND)
}

/// An incomplete head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heading {
    kept: [u8; HEAD_MAX],
    length: usize,
}

impl Heading {
    /// Whether no byte of a head has arrived.
    pub fn is_between(&self) -> bool {
        self.length == 0
    }

    /// Takes bytes up to the end of the head. Returns how many, and the head once it is complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Head>), Failure> {
        let mut used = 0;
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                let head = self.read()?;
                self.length = 0;
                return Ok((used, Some(head)));
            }
            let part = &bytes[used..bytes.len().min(used + missing)];
            if part.is_empty() {
                return Ok((used, None));
            }
            self.kept[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
            used += part.len();
        }
    }

    /// Number of bytes still missing, as far as the received ones tell.
    fn missing(&self) -> Result<usize, Failure> {
        let Some(&[first, second]) = self.kept[..self.length].first_chunk::<2>() else {
            return Ok(2 - self.length);
        };
        refuse(first, second)?;
        let whole = match second {
            IN_TWO => 4,
            IN_EIGHT => HEAD_MAX,
            _ => 2,
        };
        Ok(whole - self.length)
    }

    fn read(&self) -> Result<Head, Failure> {
        let [first, second, low, high, ..] = self.kept;
        let (length, least) = match second {
            IN_TWO => (u64::from(u16::from_be_bytes([low, high])), IN_TWO.into()),
            IN_EIGHT => {
                let [_, _, bytes @ ..] = self.kept;
                (u64::from_be_bytes(bytes), 1 << 16)
            }
            short => (short.into(), 0),
        };
        // Only the shortest form is allowed, and the highest bit is 0 (RFC 6455, section 5.2).
        if length < least || length > i64::MAX as u64 {
            return Err(wrong("a frame writes its length in a way that is not allowed"));
        }
        Ok(Head {
            kind: first & KIND,
            is_last: first & FIN > 0,
            length,
        })
    }
}

fn refuse(first: u8, second: u8) -> Result<(), Failure> {
    let kind = first & KIND;
    if first & RESERVED > 0 {
        return Err(wrong(
            "a frame has reserved bits set, as of an extension (compression), but none was agreed on",
        ));
    }
    if second & MASKED > 0 {
        return Err(wrong("a frame of the server is masked"));
    }
    if !matches!(kind, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
        return Err(wrong(format!("a frame is of the unknown kind {kind}")));
    }
    if is_control(kind) && (first & FIN == 0 || u64::from(second & LENGTH) > CONTROL_MAX) {
        return Err(wrong("a control frame is in pieces, or too long"));
    }
    Ok(())
}

pub fn wrong(what: impl Into<String>) -> Failure {
    Failure::protocol(format!("WebSocket: {}", what.into()))
}

/// Appends the head of a frame that is a whole message or a control frame, without its mask.
fn write_head(kind: u8, mask_bit: u8, length: usize, out: &mut Vec<u8>) {
    out.push(FIN | kind);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < IN_TWO => out.push(mask_bit | short),
        (_, Ok(length)) => {
            out.push(mask_bit | IN_TWO);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(mask_bit | IN_EIGHT);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Appends a frame of a server.
pub fn write(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    write_head(kind, 0, content.len(), out);
    out.extend_from_slice(content);
}

/// Appends a frame of a client, with this mask.
pub fn write_masked(kind: u8, mask: [u8; 4], content: &[u8], out: &mut Vec<u8>) {
    write_head(kind, MASKED, content.len(), out);
    out.extend_from_slice(&mask);
    let begin = out.len();
    out.extend_from_slice(content);
    apply(mask, &mut out[begin..]);
}

/// Replaces the mask of a frame, given its mask and content.
pub fn mask_anew(frame: &mut [u8], mask: [u8; 4]) {
    let Some((own, content)) = frame.split_first_chunk_mut::<4>() else {
        return;
    };
    let mut change = *own;
    change.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    *own = mask;
    apply(change, content);
}

/// Masks or unmasks content.
fn apply(mask: [u8; 4], content: &mut [u8]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = content.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The head of these bytes and its length, the same at every cut.
    fn head(bytes: &[u8]) -> Result<(usize, Option<Head>), String> {
        let in_two = |cut: usize| {
            let mut heading = Heading::default();
            let (used, head) = heading.feed(&bytes[..cut])?;
            if head.is_some() {
                return Ok((used, head));
            }
            assert_eq!((used, heading.is_between()), (cut, cut == 0));
            heading.feed(&bytes[cut..]).map(|(more, head)| (used + more, head))
        };
        let whole = in_two(0);
        for cut in 1..=bytes.len() {
            assert_eq!(in_two(cut), whole, "cut at {cut}");
        }
        whole.map_err(|failure| failure.message)
    }

    /// The examples of RFC 6455, section 5.7.
    #[test]
    fn heads_are_those_of_the_standard() {
        let with = |kind, is_last, length| Head { kind, is_last, length };
        assert_eq!(head(b"\x81\x05Hello"), Ok((2, Some(with(TEXT, true, 5)))));
        assert_eq!(head(b"\x01\x03Hel"), Ok((2, Some(with(TEXT, false, 3)))));
        assert_eq!(head(b"\x80\x02lo"), Ok((2, Some(with(CONTINUATION, true, 2)))));
        assert_eq!(head(b"\x89\x05Hello"), Ok((2, Some(with(PING, true, 5)))));
        assert_eq!(head(b"\x82\x7e\x01\x00"), Ok((4, Some(with(BINARY, true, 256)))));
        let long = b"\x82\x7f\0\0\0\0\0\x01\0\0";
        assert_eq!(head(long), Ok((10, Some(with(BINARY, true, 65_536)))));
        assert_eq!(head(&long[..9]), Ok((9, None)));
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        for (bytes, wanted) in [
            (&b"\xc1\x05"[..], "reserved bits set"),
            (b"\x81\x85", "masked"),
            (b"\x83\x00", "the unknown kind 3"),
            (b"\x8b\x00", "the unknown kind 11"),
            (b"\x09\x00", "a control frame is in pieces"),
            (b"\x89\x7e\x00\x80", "or too long"),
            (b"\x81\x7e\x00\x7d", "its length in a way"),
            (b"\x81\x7f\0\0\0\0\0\0\xff\xff", "its length in a way"),
            (b"\x81\x7f\x80\0\0\0\0\0\0\0", "its length in a way"),
        ] {
            let error = head(bytes).unwrap_err();
            assert!(error.contains(wanted), "{}: {error}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_client_masks() {
        let mut out = Vec::new();
        write_masked(TEXT, [0x37, 0xfa, 0x21, 0x3d], b"Hello", &mut out);
        assert_eq!(
            out, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
            "RFC 6455, section 5.7"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(length in prop_oneof![0usize..300, 65_000usize..66_000]) {
            let mut out = Vec::new();
            write(BINARY, &vec![7; length], &mut out);
            let (used, head) = Heading::default().feed(&out).unwrap();
            prop_assert_eq!(out.len() - used, length);
            let length = length as u64;
            prop_assert_eq!(head, Some(Head { kind: BINARY, is_last: true, length }));
        }

        #[test]
        fn a_mask_taken_off_leaves_what_was_there(mask: [u8; 4], content in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut masked = content.clone();
            apply(mask, &mut masked);
            for (index, byte) in masked.iter().enumerate() {
                prop_assert_eq!(byte ^ mask[index % 4], content[index]);
            }
            apply(mask, &mut masked);
            prop_assert_eq!(masked, content);
        }
    }
}
