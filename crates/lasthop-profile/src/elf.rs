//! The names of functions in an executable or library, from its symbol tables.
//! <https://gabi.xinuos.com/elf/05-symtab.html>
//!
//! The file may belong to a server, which may change it meanwhile and claim any size. So the file is read, never
//! mapped: pages that disappear from a mapping would end this process. Memory grows with the number of addresses asked
//! for, not with claimed sizes, and no table is read beyond a limit.

use std::{fs::File, os::unix::fs::FileExt as _};

/// Maximum bytes of a symbol table: more than five million symbols.
const TABLE_MAX: u64 = 128 << 20;
/// Maximum bytes read of a name.
const NAME_MAX: u64 = 1024;

/// Bytes of the header of a 64-bit file, and of an entry of each of its tables.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
/// Symbols read at a time.
const AT_ONCE: usize = 4096;

const LOADED: u32 = 1;
/// Section types: the table of all symbols, and the one for dynamic linking, which a stripped file still has.
const ALL: u32 = 2;
const DYNAMIC: u32 = 11;
/// Symbol types: unspecified, a function, a function chosen when the program starts.
const CODE: [u8; 3] = [0, 2, 10];

/// An address in memory, and the requested offset in the file.
type Wanted = (u64, u64);

/// The names of the functions at these offsets of a file, as far as the file has them: pairs of offset and unchanged
/// name. If `goes_on` returns false, the remaining offsets stay unnamed.
pub(crate) fn functions(file: &File, offsets: &[u64], goes_on: impl Fn() -> bool) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    // A file that is not ELF, or is truncated, has no names.
    let _ = find(file, offsets, &goes_on, &mut found);
    found
}

fn find(file: &File, offsets: &[u64], goes_on: &dyn Fn() -> bool, found: &mut Vec<(u64, String)>) -> Option<()> {
    let header = read(file, 0, HEADER)?;
    // 64 bits, least significant byte first.
    if !header.starts_with(b"\x7fELF\x02\x01") || u16_at(&header, 54) != SEGMENT || u16_at(&header, 58) != SECTION {
        return None;
    }
    let table = |at: u64, count: usize, length: usize| read(file, at, count * length);
    let segments = table(u64_at(&header, 32), u16_at(&header, 56), SEGMENT)?;
    let sections = table(u64_at(&header, 40), u16_at(&header, 60), SECTION)?;
    let mut wanted: Vec<Wanted> = offsets
        .iter()
        .filter_map(|offset| Some((address(&segments, *offset)?, *offset)))
        .collect();
    for kind in [ALL, DYNAMIC] {
        wanted.sort_unstable();
        let Some(symbols) = sections
            .chunks_exact(SECTION)
            .find(|section| u32_at(section, 4) == kind)
        else {
            continue;
        };
        let names = sections.chunks_exact(SECTION).nth(u32_at(symbols, 40) as usize)?;
        let nearest = nearest(file, Range::of(symbols), &wanted, goes_on)?;
        let mut left = Vec::new();
        for (wanted, symbol) in wanted.into_iter().zip(nearest) {
            let symbol = symbol.filter(|symbol| symbol.has(wanted.0, kind));
            match symbol.and_then(|symbol| symbol_name(file, Range::of(names), symbol.name)) {
                Some(name) => found.push((wanted.1, name)),
                None => left.push(wanted),
            }
        }
        wanted = left;
    }
    Some(())
}

/// The memory address of an offset in the file.
fn address(segments: &[u8], offset: u64) -> Option<u64> {
    segments.chunks_exact(SEGMENT).find_map(|segment| {
        let ahead = offset.checked_sub(u64_at(segment, 8))?;
        let is_there = u32_at(segment, 0) == LOADED && ahead < u64_at(segment, 32);
        is_there.then(|| u64_at(segment, 16).wrapping_add(ahead))
    })
}

/// Range of a section in the file.
#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    length: u64,
}

impl Range {
    fn of(section: &[u8]) -> Self {
        Self {
            offset: u64_at(section, 24),
            length: u64_at(section, 32),
        }
    }
}

#[derive(Clone, Copy)]
struct Symbol {
    value: u64,
    /// Bytes of the symbol's code; 0 if unknown.
    size: u64,
    name: u32,
}

impl Symbol {
    /// `None` if the symbol is not code of this file.
    fn read(entry: &[u8]) -> Option<Self> {
        let is_defined = u16_at(entry, 6) != 0;
        (is_defined && CODE.contains(&(entry[4] & 0xf))).then(|| Self {
            value: u64_at(entry, 8),
            size: u64_at(entry, 16),
            name: u32_at(entry, 0),
        })
    }

    /// Whether the symbol contains an address at or after its own and before the next symbol's.
    fn has(&self, address: u64, kind: u32) -> bool {
        match self.size {
            // The table for dynamic linking has so few symbols that the next one may be far away.
            0 => kind == ALL || address == self.value,
            size => address - self.value < size,
        }
    }
}

/// The last symbol at or before each address; of several, the largest. `wanted` must be ascending.
fn nearest(file: &File, table: Range, wanted: &[Wanted], goes_on: &dyn Fn() -> bool) -> Option<Vec<Option<Symbol>>> {
    if table.length > TABLE_MAX {
        return None;
    }
    let mut nearest: Vec<Option<Symbol>> = vec![None; wanted.len()];
    let mut part = vec![0; AT_ONCE * SYMBOL];
    let mut at = 0;
    while at < table.length {
        if !goes_on() {
            return None;
        }
        part.truncate((table.length - at).min(part.len() as u64) as usize);
        file.read_exact_at(&mut part, table.offset.checked_add(at)?).ok()?;
        at += part.len() as u64;
        for symbol in part.chunks_exact(SYMBOL).filter_map(Symbol::read) {
            let first = wanted.partition_point(|(address, _)| *address < symbol.value);
            if let Some(slot) = nearest.get_mut(first)
                && slot.is_none_or(|other| (symbol.value, symbol.size) > (other.value, other.size))
            {
                *slot = Some(symbol);
            }
        }
    }
    let mut last = None;
    for slot in &mut nearest {
        last = slot.or(last);
        *slot = last;
    }
    Some(nearest)
}

fn symbol_name(file: &File, names: Range, at: u32) -> Option<String> {
    let at = u64::from(at);
    let length = names.length.checked_sub(at)?.min(NAME_MAX);
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(&mut bytes, names.offset.checked_add(at)?).ok()?;
    let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(text).into_owned()).filter(|name| !name.is_empty())
}

/// A part of the file, at most 4 MiB.
fn read(file: &File, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = bytes.get(at..).and_then(<[u8]>::first_chunk);
    *part.expect("an entry is as long as it is by definition")
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(bytes_at(bytes, at)).into()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{cell::Cell, io::Write as _};

    use super::*;

    fn entry(length: usize, fields: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (at, value, width) in fields {
            bytes[*at..at + width].copy_from_slice(&value.to_le_bytes()[..*width]);
        }
        bytes
    }

    /// A symbol: name, type, whether it is defined, value, size.
    pub(crate) fn symbol(name: u64, kind: u64, defined: u64, value: u64, size: u64) -> Vec<u8> {
        entry(
            SYMBOL,
            &[
                (0, name, 4),
                (4, kind, 1),
                (6, defined, 2),
                (8, value, 8),
                (16, size, 8),
            ],
        )
    }

    /// A program whose code, 4 KiB at the offset 0, is at 0x10000. Its names are at 0x1000, its symbols at 0x2000; it
    /// claims `claimed` bytes of them.
    pub(crate) fn program(kind: u32, names: &[u8], symbols: &[Vec<u8>], claimed: u64) -> File {
        let mut bytes = entry(
            HEADER,
            &[
                (32, 64, 8),
                (40, 0x800, 8),
                (54, 56, 2),
                (56, 1, 2),
                (58, 64, 2),
                (60, 3, 2),
            ],
        );
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes.extend(entry(SEGMENT, &[(0, 1, 4), (16, 0x10000, 8), (32, 0x1000, 8)]));
        bytes.resize(0x800, 0);
        bytes.extend(entry(SECTION, &[]));
        bytes.extend(entry(
            SECTION,
            &[(4, kind.into(), 4), (24, 0x2000, 8), (32, claimed, 8), (40, 2, 4)],
        ));
        bytes.extend(entry(
            SECTION,
            &[(4, 3, 4), (24, 0x1000, 8), (32, names.len() as u64, 8)],
        ));
        bytes.resize(0x1000, 0);
        bytes.extend(names);
        bytes.resize(0x2000, 0);
        bytes.extend(symbols.concat());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file
    }

    fn named(file: &File, offsets: &[u64]) -> Vec<(u64, String)> {
        let mut found = functions(file, offsets, || true);
        found.sort();
        found
    }

    fn pairs(wanted: &[(u64, &str)]) -> Vec<(u64, String)> {
        wanted.iter().map(|(at, name)| (*at, (*name).to_owned())).collect()
    }

    #[test]
    fn a_function_is_the_last_symbol_before_an_address() {
        let names = b"\0outer\0inner\0open\0data\0elsewhere\0";
        let symbols = [
            symbol(0, 0, 0, 0, 0),
            symbol(7, 2, 1, 0x10200, 0x10),
            symbol(1, 0x12, 1, 0x10100, 0x80),
            symbol(7, 2, 1, 0x10100, 0x10),
            symbol(13, 0x22, 1, 0x10400, 0),
            symbol(18, 1, 1, 0x10600, 0x80),
            symbol(23, 2, 0, 0x10700, 0x80),
        ];
        let claimed = symbols.concat().len() as u64;
        let offsets = [0xff, 0x100, 0x17f, 0x180, 0x20f, 0x210, 0x400, 0x620, 0xfff, 0x1000];
        let outer = [(0x100, "outer"), (0x17f, "outer"), (0x20f, "inner"), (0x400, "open")];
        let open = [(0x620, "open"), (0xfff, "open")];
        assert_eq!(
            named(&program(ALL, names, &symbols, claimed), &offsets),
            pairs(&[&outer[..], &open].concat())
        );
        // The table for dynamic linking tells nothing about addresses after a symbol without a size.
        assert_eq!(
            named(&program(DYNAMIC, names, &symbols, claimed), &offsets),
            pairs(&outer)
        );
        assert_eq!(named(&program(7, names, &symbols, claimed), &offsets), []);
    }

    #[test]
    fn what_a_file_claims_takes_no_memory_and_no_time_without_end() {
        let symbols = [symbol(1, 2, 1, 0x10100, 0x80)];
        let names = b"\0name\0";
        // Endless symbols, in a file with room for them and in one that ends before.
        for (claimed, length) in [
            (TABLE_MAX, TABLE_MAX),
            (TABLE_MAX + 24, 1 << 40),
            (u64::MAX, 1 << 40),
            (48, 0),
        ] {
            let file = program(ALL, names, &symbols, claimed);
            file.set_len(0x2000 + length.max(24)).unwrap();
            let expected = if claimed == length {
                pairs(&[(0x100, "name")])
            } else {
                Vec::new()
            };
            assert_eq!(named(&file, &[0x100]), expected, "{claimed} of {length}");
        }
        let looks = Cell::new(0);
        let thrice = || looks.replace(looks.get() + 1) < 3;
        let file = program(ALL, names, &symbols, TABLE_MAX);
        file.set_len(0x2000 + TABLE_MAX).unwrap();
        assert_eq!(functions(&file, &[0x100], thrice), []);
        assert_eq!(looks.get(), 4, "it ends when it is told to");
    }

    #[test]
    fn what_is_no_program_or_is_cut_off_has_no_names() {
        let symbols = [symbol(1, 2, 1, 0x10100, 0x80), symbol(9, 2, 1, 0x10200, 0x80)];
        let whole = program(ALL, b"\0name\0", &symbols, 48);
        assert_eq!(
            named(&whole, &[0x100, 0x200]),
            pairs(&[(0x100, "name")]),
            "a name outside of the names"
        );
        for length in [0x2000 + 47, 0x2000, 0x1002, 0x850, 0x100, 63, 5, 0] {
            whole.set_len(length).unwrap();
            assert_eq!(named(&whole, &[0x100]), [], "{length}");
        }
        for (at, byte) in [
            (0, 0),
            (4, 1),
            (5, 2),
            (54, 1),
            (58, 1),
            (63 - 23, 0xff),
            (0x840 + 40, 9),
        ] {
            let file = program(ALL, b"\0name\0", &symbols, 48);
            file.write_all_at(&[byte], at).unwrap();
            assert_eq!(named(&file, &[0x100]), [], "{at}");
        }
        let mut long = vec![0];
        long.extend([b'x'; 5_000]);
        let found = named(&program(ALL, &long[..0x1000], &symbols, 48), &[0x100]);
        assert_eq!(found[0].1.len() as u64, NAME_MAX);
        assert_eq!(named(&File::open("/dev/null").unwrap(), &[0x100]), []);
    }
}
