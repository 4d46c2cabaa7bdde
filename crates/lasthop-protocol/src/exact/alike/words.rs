//! Replies as texts: cells, which consist of words.

use super::{Alike, NUMBER, PartKind};

/// Whether a byte ends a cell: a line, a tag, a quotation mark, a NUL.
pub fn ends_cell(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\t' | b'\0' | b'<' | b'>' | b'"')
}

/// Whether a byte ends a word. Dates, times, addresses and tokens contain no such byte.
pub fn ends_word(byte: u8) -> bool {
    ends_cell(byte)
        || matches!(
            byte,
            b' ' | b'=' | b'&' | b';' | b',' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\'' | b'|'
        )
}

/// Number of bytes before the first that `ends` accepts.
pub fn run(bytes: &[u8], ends: fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| ends(*byte)).unwrap_or(bytes.len())
}

/// Whether a word is a number, a date or a time.
pub fn is_figures(word: &[u8]) -> bool {
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let is_figure = |byte: &u8| byte.is_ascii_digit() || b".:+-/%".contains(byte);
    has_digit && word.iter().all(is_figure)
}

pub fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !ends_cell(*byte);
    !bytes.iter().any(is_control) && std::str::from_utf8(bytes).is_ok()
}

/// The bytes that end words, and `a` for each word between them.
pub fn skeleton(bytes: &[u8]) -> Vec<u8> {
    if !is_text(bytes) {
        return Vec::new();
    }
    outline(bytes, ends_word)
}

fn outline(bytes: &[u8], ends: fn(u8) -> bool) -> Vec<u8> {
    let mut outline: Vec<u8> = bytes
        .iter()
        .map(|byte| if ends(*byte) { *byte } else { b'a' })
        .collect();
    outline.dedup_by(|one, other| *one == b'a' && *other == b'a');
    outline
}

/// The stretches between delimiters, by place; `None` if the texts have different delimiters.
fn stretches<'a>(texts: &[&'a [u8]], ends: fn(u8) -> bool) -> Option<Vec<Vec<&'a [u8]>>> {
    let delimiters = |text: &[u8]| -> Vec<u8> { text.iter().copied().filter(|byte| ends(*byte)).collect() };
    let first = delimiters(texts[0]);
    if texts[1..].iter().any(|text| delimiters(text) != first) {
        return None;
    }
    let mut parts: Vec<_> = texts.iter().map(|text| text.split(|byte| ends(*byte))).collect();
    let next = |_| parts.iter_mut().map(|parts| parts.next().unwrap_or_default()).collect();
    Some((0..=first.len()).map(next).collect())
}

/// The common content of texts with the same cells.
pub fn common(replies: &[&[u8]]) -> Option<Alike> {
    if !replies.iter().all(|reply| is_text(reply)) {
        return None;
    }
    let mut alike = Alike::default();
    let mut ends = replies[0].iter().filter(|byte| ends_cell(**byte));
    for cells in stretches(replies, ends_cell)? {
        add_cell(&mut alike, &cells);
        alike.text(ends.next().map(std::slice::from_ref).unwrap_or_default());
    }
    Some(alike)
}

fn add_cell(alike: &mut Alike, cells: &[&[u8]]) {
    let first = cells[0];
    if cells.iter().all(|cell| *cell == first) {
        return alike.text(first);
    }
    let words = stretches(cells, ends_word);
    // A word missing from some cells is no word.
    let is_regular = |words: &Vec<&[u8]>| words.iter().all(|word| word.is_empty() == words[0].is_empty());
    let Some(words) = words.filter(|words| words.iter().all(is_regular)) else {
        return alike.part(PartKind::Cell, cells.iter().copied());
    };
    let mut ends = first.iter().filter(|byte| ends_word(**byte));
    for words in words {
        if words.iter().all(|word| *word == words[0]) {
            alike.text(words[0]);
        } else if words.iter().all(|word| is_figures(word)) {
            alike.part(PartKind::Figures, words.iter().copied());
        } else {
            alike.part(PartKind::Word, words.iter().copied());
        }
        alike.text(ends.next().map(std::slice::from_ref).unwrap_or_default());
    }
}

/// The certainly fixed part of a common beginning: whole cells of a text; of other bytes, all but those near the
/// change.
pub fn back_to_cell(before: &[u8], is_text: bool) -> &[u8] {
    let length = if is_text {
        before.iter().rposition(|byte| ends_cell(*byte)).map_or(0, |at| at + 1)
    } else {
        before.len().saturating_sub(NUMBER)
    };
    &before[..length]
}

/// The certainly fixed part of a common end.
pub fn on_to_cell(after: &[u8], is_text: bool) -> &[u8] {
    let from = if is_text { run(after, ends_cell) + 1 } else { NUMBER };
    after.get(from..).unwrap_or_default()
}
