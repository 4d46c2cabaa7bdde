//! Packets of MySQL's protocol: a length in three bytes, a number that counts up within a command, then the payload. A
//! packet of 16 MiB less one byte continues in the next; here both are one packet.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use lasthop_trial::failure::Failure;

use crate::exchange::{excerpt, fill};

/// Maximum payload of one packet.
const PART_MAX: usize = 0xff_ffff;
/// Maximum bytes kept of a packet that must be read, and of a packet that is only counted: an OK packet is shorter.
const KEPT_MAX: usize = 64 * 1024;
const COUNTED_MAX: usize = 32;
/// Maximum bytes of a packet with its continuations: the maximum of `max_allowed_packet`.
const PACKET_MAX: usize = 1 << 30;

/// First bytes of packets that report an outcome.
pub const OK: u8 = 0;
pub const ERROR: u8 = 0xff;
pub const END: u8 = 0xfe;

/// Appends a payload in packets that begin with `number`. Returns the number after the last.
pub fn write(payload: &[u8], mut number: u8, output: &mut Vec<u8>) -> u8 {
    let mut rest = payload;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PART_MAX));
        let [low, middle, high, ..] = part.len().to_le_bytes();
        output.extend([low, middle, high, number]);
        output.extend_from_slice(part);
        number = number.wrapping_add(1);
        rest = after;
        // A full packet announces another, so a payload that fills its last packet ends with an empty one.
        if part.len() < PART_MAX {
            return number;
        }
    }
}

/// How many bytes are missing from the packet that `heard` begins with.
pub fn missing(heard: &[u8]) -> usize {
    match heard {
        [low, middle, high, _, payload @ ..] => {
            (u32::from_le_bytes([*low, *middle, *high, 0]) as usize).saturating_sub(payload.len())
        }
        _ => 4 - heard.len(),
    }
}

/// Cuts the stream into packets, and keeps of each what must be read.
#[derive(Default)]
pub struct Framer {
    header: [u8; 4],
    header_filled: usize,
    /// Bytes of this part still to come, and whether another part follows.
    left: usize,
    continues: bool,
    /// Number of the next packet.
    pub number: u8,
    in_order: bool,
    /// Bytes of the payload.
    length: usize,
    kept: Vec<u8>,
}

impl Framer {
    /// Forgets the current packet. The next packet must have this number.
    pub fn expect(&mut self, number: u8) {
        self.header_filled = 0;
        self.left = 0;
        self.continues = false;
        self.number = number;
    }

    /// The kept beginning of a complete payload.
    pub fn payload(&self) -> &[u8] {
        &self.kept
    }

    /// Bytes of the complete payload.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Takes bytes. Returns how many were used, and whether a packet is complete. `all` keeps the maximum number of
    /// bytes.
    pub fn feed(&mut self, bytes: &[u8], all: bool) -> Result<(usize, bool), Failure> {
        let mut at = 0;
        if self.header_filled < self.header.len() {
            at = bytes.len().min(self.header.len() - self.header_filled);
            self.header[self.header_filled..self.header_filled + at].copy_from_slice(&bytes[..at]);
            self.header_filled += at;
            if self.header_filled < self.header.len() {
                return Ok((at, false));
            }
            self.begin()?;
        }
        let take = (bytes.len() - at).min(self.left);
        self.keep(&bytes[at..at + take], all);
        self.left -= take;
        let is_known = self.left == 0 || !self.kept.is_empty();
        // The last packet of a server that gives up has any number.
        if !self.in_order && is_known && self.kept.first() != Some(&ERROR) {
            return Err(Failure::protocol(format!(
                "{} is not the packet that comes next",
                excerpt(&self.header)
            )));
        }
        if self.left > 0 {
            return Ok((at + take, false));
        }
        self.header_filled = 0;
        Ok((at + take, !self.continues))
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let [low, middle, high, number] = self.header;
        if !self.continues {
            self.kept.clear();
            self.length = 0;
            self.in_order = true;
        }
        self.left = u32::from_le_bytes([low, middle, high, 0]) as usize;
        self.length += self.left;
        if self.length > PACKET_MAX {
            return Err(Failure::protocol("a packet is longer than 1 GiB"));
        }
        self.continues = self.left == PART_MAX;
        self.in_order &= number == self.number;
        self.number = number.wrapping_add(1);
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8], all: bool) {
        let is_error = self.kept.first().or(bytes.first()) == Some(&ERROR);
        let most = if all || is_error { KEPT_MAX } else { COUNTED_MAX };
        fill(&mut self.kept, bytes, most);
    }
}

/// Reads a payload from its beginning. Missing bytes are `None`.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The number in the next `count` bytes, at most eight, lowest byte first.
    pub fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.bytes(count)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// A number whose length is in its first byte; `None` for NULL as well.
    pub fn length_encoded(&mut self) -> Option<u64> {
        match self.number(1)? {
            small @ 0..=0xfa => Some(small),
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            _ => None,
        }
    }

    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.length_encoded()?).ok()?;
        self.bytes(length)
    }

    /// Bytes up to a NUL byte, which is also taken, or to the end.
    pub fn until_nul(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        text
    }
}

/// Encodes a number with its length in the first byte.
pub fn length_encoded(number: usize) -> Vec<u8> {
    let bytes = (number as u64).to_le_bytes();
    match number {
        0..=0xfa => vec![bytes[0]],
        0xfb..=0xffff => [&[0xfc], &bytes[..2]].concat(),
        0x1_0000..=0xff_ffff => [&[0xfd], &bytes[..3]].concat(),
        _ => [&[0xfe], &bytes[..]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The packets of `bytes`: kept bytes and total length of each.
    fn read(bytes: &[u8], piece: usize) -> Vec<(Vec<u8>, usize)> {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                let (used, whole) = framer.feed(piece, true).unwrap();
                piece = &piece[used..];
                if whole {
                    found.push((framer.payload().to_vec(), framer.length()));
                }
            }
        }
        found
    }

    #[test]
    fn a_payload_of_16_mib_is_split_and_joined() {
        for (length, packets) in [
            (0, 1),
            (1, 1),
            (PART_MAX - 1, 1),
            (PART_MAX, 2),
            (PART_MAX + 1, 2),
            (40 << 20, 3),
        ] {
            let mut bytes = Vec::new();
            let after = write(&vec![7; length], 0, &mut bytes);
            assert_eq!(
                (usize::from(after), bytes.len()),
                (packets, length + 4 * packets),
                "{length}"
            );
            let found = read(&bytes, 1 << 16);
            assert_eq!(found, [(vec![7; length.min(KEPT_MAX)], length)]);
        }
    }

    #[test]
    fn packets_out_of_order_are_refused_but_for_a_last_word() {
        let fed = |bytes: &[u8]| {
            let mut framer = Framer::default();
            framer.expect(1);
            framer.feed(bytes, true).map_err(|failure| failure.message)
        };
        assert_eq!(fed(&[1, 0, 0, 1, 9]), Ok((5, true)));
        assert!(
            fed(&[1, 0, 0, 2, 9])
                .unwrap_err()
                .contains("not the packet that comes next")
        );
        assert_eq!(fed(&[1, 0, 0, 0, ERROR]), Ok((5, true)));
    }

    #[test]
    fn what_is_missing_is_known() {
        assert_eq!(
            [
                missing(&[]),
                missing(&[3, 0, 0]),
                missing(&[3, 0, 0, 0]),
                missing(&[3, 0, 0, 0, 1, 2, 3])
            ],
            [4, 1, 3, 0]
        );
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_written(number in any::<u32>(), bits in 0u32..32) {
            let number = (number >> bits) as usize;
            let bytes = length_encoded(number);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.length_encoded(), Some(number as u64));
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn pieces_do_not_matter(payloads in proptest::collection::vec(proptest::collection::vec(1u8..9, 0..40), 1..5), piece in 1usize..50) {
            let mut bytes = Vec::new();
            let mut number = 0;
            for payload in &payloads {
                number = write(payload, number, &mut bytes);
            }
            let found: Vec<Vec<u8>> = read(&bytes, piece).into_iter().map(|(kept, _)| kept).collect();
            prop_assert_eq!(found, payloads);
        }
    }
}
