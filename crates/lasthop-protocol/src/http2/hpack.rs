//! HPACK (RFC 7541): reads the header blocks of replies, with the dynamic table and the Huffman code; writes the fields
//! of requests as literals, which need neither.

use std::collections::VecDeque;

use super::huffman;

/// Maximum bytes of the dynamic table: what a server may use before it learns of a smaller limit.
const CAPACITY: usize = 4_096;
/// Bytes that a field counts in addition to its text.
const OVERHEAD: usize = 32;

/// Name and value.
type Field = (Vec<u8>, Vec<u8>);

/// The dynamic table of one connection, newest entry first.
pub struct Decoder {
    table: VecDeque<Field>,
    size: usize,
    capacity: usize,
}

impl Decoder {
    pub fn new() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            capacity: CAPACITY,
        }
    }

    /// The capacity, if the table is empty. A block that finds and leaves the table empty with this capacity means the
    /// same when it is repeated.
    pub fn idle(&self) -> Option<usize> {
        self.table.is_empty().then_some(self.capacity)
    }

    /// Passes each field of a complete block to `take`, name and value. `None` if `take` refuses a field, the block is
    /// not HPACK, or it refers to a missing entry: the connection is no longer usable.
    pub fn decode(&mut self, mut block: &[u8], mut take: impl FnMut(&[u8], &[u8]) -> Option<()>) -> Option<()> {
        let mut fields = 0;
        while let Some(first) = block.first() {
            block = match first {
                0x80.. => {
                    let (index, rest) = integer(block, 7)?;
                    let (name, value) = self.field(index)?;
                    take(name, value)?;
                    rest
                }
                0x40..=0x7f => {
                    let ((name, value), rest) = self.literal(block, 6)?;
                    take(&name, &value)?;
                    self.insert(name, value);
                    rest
                }
                0x20..=0x3f => {
                    let (capacity, rest) = integer(block, 5)?;
                    // A new size may come only at the beginning of a block (RFC 7541, section 4.2).
                    if capacity > CAPACITY || fields > 0 {
                        return None;
                    }
                    self.capacity = capacity;
                    self.evict();
                    block = rest;
                    continue;
                }
                _ => {
                    // Not indexed and never indexed mean the same to a reader (RFC 7541, sections 6.2.2 and 6.2.3).
                    let ((name, value), rest) = self.literal(block, 4)?;
                    take(&name, &value)?;
                    rest
                }
            };
            fields += 1;
        }
        Some(())
    }

    fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        self.table
            .get(index - STATIC.len())
            .map(|(name, value)| (&name[..], &value[..]))
    }

    /// Name and value of a literal whose name may be an index of `bits` bits, and the rest.
    fn literal<'a>(&self, block: &'a [u8], bits: u32) -> Option<(Field, &'a [u8])> {
        let (name, rest) = match integer(block, bits)? {
            (0, rest) => text(rest)?,
            (index, rest) => (self.field(index)?.0.to_vec(), rest),
        };
        let (value, rest) = text(rest)?;
        Some(((name, value), rest))
    }

    /// An entry larger than the table empties the table.
    fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.size += cost(&name, &value);
        self.table.push_front((name, value));
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.capacity {
            let Some((name, value)) = self.table.pop_back() else {
                return;
            };
            self.size -= cost(&name, &value);
        }
    }
}

/// Bytes that a field counts (RFC 7541, section 4.1).
pub fn cost(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + OVERHEAD
}

/// An integer with a prefix of `bits` bits, and the rest.
fn integer(bytes: &[u8], bits: u32) -> Option<(usize, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let most = (1 << bits) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Some((value, rest));
    }
    // No valid integer has more than four of these bytes.
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first()?;
        rest = after;
        value += (usize::from(*byte) & 0x7f) << shift;
        if *byte < 0x80 {
            return Some((value, rest));
        }
    }
    None
}

fn text(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let is_coded = bytes.first().is_some_and(|first| *first >= 0x80);
    let (length, rest) = integer(bytes, 7)?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((
        if is_coded {
            huffman::decode(text)?
        } else {
            text.to_vec()
        },
        rest,
    ))
}

/// Appends a field literally, without a table. Name and value must be shorter than 16 KiB.
pub fn write(name: &str, value: &str, block: &mut Vec<u8>) {
    // A literal that enters no table, with a literal name (RFC 7541, section 6.2.2).
    block.push(0);
    for text in [name, value] {
        write_length(text.len(), block);
        block.extend_from_slice(text.as_bytes());
    }
}

fn write_length(length: usize, block: &mut Vec<u8>) {
    match length {
        0..=126 => block.push(length as u8),
        127..=254 => block.extend([127, (length - 127) as u8]),
        _ => block.extend([127, (length - 127) as u8 | 0x80, ((length - 127) >> 7) as u8]),
    }
}

/// The static table (RFC 7541, appendix A).
static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fields = Vec<(String, String)>;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Option<Fields> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, |name, value| {
            fields.push((text(name), text(value)));
            Some(())
        })?;
        Some(fields)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    fn pairs(wanted: &[(&str, &str)]) -> Fields {
        wanted
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Appendix C.3 and C.4 of RFC 7541: the same requests, plain and in Huffman code.
    #[test]
    fn the_requests_of_the_standard_are_read() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        let host = (":authority", "www.example.com");
        let wanted = [
            pairs(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), host]),
            pairs(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                host,
                ("cache-control", "no-cache"),
            ]),
            pairs(&[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/index.html"),
                host,
                ("custom-key", "custom-value"),
            ]),
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::new();
            for (block, wanted) in blocks.iter().zip(&wanted) {
                assert_eq!(&fields(&mut decoder, &bytes(block)).unwrap(), wanted);
            }
            assert_eq!(decoder.size, 164);
        }
    }

    /// Appendix C.6: a table of 256 bytes, which evicts entries.
    #[test]
    fn the_replies_of_the_standard_are_read() {
        let date = "Mon, 21 Oct 2013 20:13:21 GMT";
        let place = ("location", "https://www.example.com");
        let private = ("cache-control", "private");
        let mut decoder = Decoder::new();
        for (block, status) in [
            (
                "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                "302",
            ),
            ("4883 640e ffc1 c0bf", "307"),
        ] {
            let wanted = pairs(&[(":status", status), private, ("date", date), place]);
            assert_eq!(fields(&mut decoder, &bytes(block)).unwrap(), wanted);
            assert_eq!(decoder.size, 222);
        }
    }

    #[test]
    fn a_table_of_no_size_stays_empty_and_says_so() {
        let mut decoder = Decoder::new();
        assert_eq!(decoder.idle(), Some(CAPACITY));
        let block = bytes("20 400a 6375 7374 6f6d 2d6b 6579 0161");
        assert_eq!(fields(&mut decoder, &block).unwrap(), pairs(&[("custom-key", "a")]));
        assert_eq!(decoder.idle(), Some(0));
        assert_eq!(fields(&mut decoder, &[0xbe]), None);
        let mut other = Decoder::new();
        fields(&mut other, &block[1..]).unwrap();
        assert_eq!(other.idle(), None);
    }

    #[test]
    fn what_is_not_there_is_malformed() {
        for wrong in [
            "80",                   // index 0
            "be",                   // an entry of an empty table
            "ff ff ff ff ff ff 7f", // an integer without end
            "3f e2 1f",             // a larger table than ever allowed
            "82 20",                // a new size after a field
            "40 05 61",             // a truncated text
            "00 81 ff 00",          // a Huffman code of ones only
            "00 84 ff ff ff ff 00", // the end symbol in the middle
            "00",
        ] {
            assert_eq!(fields(&mut Decoder::new(), &bytes(wrong)), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(name in "[a-z]{1,300}", value in "[ -~]{0,9000}") {
            let mut block = Vec::new();
            write(&name, &value, &mut block);
            prop_assert_eq!(fields(&mut Decoder::new(), &block).unwrap(), pairs(&[(&name, &value)]));
        }

        #[test]
        fn any_block_is_survived_and_no_table_grows(blocks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..60), 0..8
        )) {
            let mut decoder = Decoder::new();
            for block in blocks {
                let _ = fields(&mut decoder, &block);
                prop_assert!(decoder.size <= CAPACITY);
            }
        }
    }
}
