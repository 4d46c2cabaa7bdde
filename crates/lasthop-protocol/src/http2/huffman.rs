//! The Huffman code of HPACK (RFC 7541, appendix B). The code is canonical, so the lengths of its codes define it.

use std::sync::LazyLock;

/// Bits of the longest code, which ends a text and never occurs within one.
const LONGEST: usize = 30;

/// Decodes a text; `None` if the bits are no text.
pub fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    // The shortest codes have five bits.
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5);
    let mut code = 0;
    let mut length = 0;
    for at in 0..bytes.len() * 8 {
        code = code << 1 | u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
        length += 1;
        if let Some(symbol) = CODE.symbol(code, length) {
            // Symbol 256, the end, must not occur within a text (RFC 7541, section 5.2).
            text.push(u8::try_from(symbol).ok()?);
            (code, length) = (0, 0);
        } else if length == LONGEST {
            return None;
        }
    }
    // Ones fill the last byte, the beginning of the code for the end; a whole byte of them is an error.
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

/// Codes of one length are consecutive, in the order of their symbols.
struct Code {
    symbols: Vec<u16>,
    /// For each length: the first code, the number of codes, and the index of their first symbol.
    lengths: [(u32, u32, usize); LONGEST + 1],
}

static CODE: LazyLock<Code> = LazyLock::new(|| {
    let mut code = Code {
        symbols: Vec::new(),
        lengths: [(0, 0, 0); LONGEST + 1],
    };
    let mut next = 0;
    for (length, entry) in code.lengths.iter_mut().enumerate() {
        let symbols = (0..257).filter(|symbol| usize::from(LENGTHS[usize::from(*symbol)]) == length);
        let begin = code.symbols.len();
        code.symbols.extend(symbols);
        let count = (code.symbols.len() - begin) as u32;
        next <<= 1;
        *entry = (next, count, begin);
        next += count;
    }
    code
});

impl Code {
    fn symbol(&self, code: u32, length: usize) -> Option<u16> {
        let (first, count, begin) = self.lengths[length];
        let index = code.checked_sub(first).filter(|index| *index < count)?;
        Some(self.symbols[begin + index as usize])
    }
}

/// Bits of each symbol's code; the last symbol ends a text.
#[rustfmt::skip]
static LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
