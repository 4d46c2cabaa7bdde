//! Replies as JSON: fixed and changing values in a fixed form. `serde_json` reads them, one level at a time.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, value::RawValue};

use super::{Alike, PartKind};

/// Maximum depth; what is deeper is one value, whatever its form.
const DEPTH_MAX: u32 = 64;

/// The texts before each value of an object or a list, including names, and after the last value; and the values.
type Within<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Takes an object or a list apart. Of values with the same name, all but the last belong to the texts.
fn within(text: &str, depth: u32) -> Option<Within<'_>> {
    if depth >= DEPTH_MAX {
        return None;
    }
    let mut values: Vec<&RawValue> = if text.starts_with('{') {
        let named: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        named.into_values().collect()
    } else {
        serde_json::from_str(text).ok()?
    };
    // Each value is a part of the text, so that its address tells its place.
    values.sort_by_key(|value| value.get().as_ptr());
    let values: Vec<&str> = values.into_iter().map(RawValue::get).collect();
    let mut between = Vec::new();
    let mut from = 0;
    for value in &values {
        let at = value.as_ptr().addr() - text.as_ptr().addr();
        between.push(&text[from..at]);
        from = at + value.len();
    }
    between.push(&text[from..]);
    Some((between, values))
}

/// Length of a string, given the bytes after its first quotation mark; without the second mark.
pub fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            0..=0x1f => return None,
            _ => at += 1,
        }
    }
}

/// Length of the value that `bytes` begin with.
pub fn value(bytes: &[u8]) -> Option<usize> {
    bytes.first().filter(|first| !first.is_ascii_whitespace())?;
    let mut values = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

pub fn begins_number(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

/// A complete object or list, between the white space before and after it.
fn document(bytes: &[u8]) -> Option<[&str; 3]> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value = serde_json::from_str::<&RawValue>(text).ok()?.get();
    let (before, after) = text.split_once(value)?;
    value.starts_with(['{', '[']).then_some([before, value, after])
}

/// The form of a document, without its values.
pub fn skeleton(bytes: &[u8]) -> Option<Vec<u8>> {
    fn add(value: &str, depth: u32, to: &mut Vec<u8>) {
        let Some((between, values)) = within(value, depth) else {
            return;
        };
        let mut values = values.iter();
        for text in between {
            to.extend_from_slice(text.as_bytes());
            if let Some(value) = values.next() {
                add(value, depth + 1, to);
            }
        }
    }
    let [_, value, _] = document(bytes)?;
    let mut skeleton = Vec::new();
    add(value, 0, &mut skeleton);
    Some(skeleton)
}

/// The common content of documents.
pub fn common(replies: &[&[u8]]) -> Option<Alike> {
    let read: Option<Vec<_>> = replies.iter().map(|reply| document(reply)).collect();
    let read = read?;
    let [before, _, after] = read[0];
    if read.iter().any(|other| (other[0], other[2]) != (before, after)) {
        return None;
    }
    let values: Vec<&str> = read.iter().map(|document| document[1]).collect();
    let mut alike = Alike::default();
    alike.text(before.as_bytes());
    add(&mut alike, &values, 0);
    alike.text(after.as_bytes());
    Some(alike)
}

fn add(alike: &mut Alike, values: &[&str], depth: u32) {
    let first = values[0].as_bytes();
    let texts = values.iter().map(|value| value.as_bytes());
    let all = |is: fn(&[u8]) -> bool| texts.clone().all(is);
    if texts.clone().all(|text| text == first) {
        return alike.text(first);
    }
    if all(|text| text[0] == b'"') {
        alike.text(b"\"");
        alike.part(PartKind::String, texts.map(|text| &text[1..text.len() - 1]));
        return alike.text(b"\"");
    }
    if let Some((between, values)) = alike_within(values, depth) {
        for (index, text) in between.iter().enumerate() {
            alike.text(text.as_bytes());
            if let Some(values) = values.get(index) {
                add(alike, values, depth + 1);
            }
        }
        return;
    }
    let kind = match first[0] {
        b'{' if all(|text| text[0] == b'{') => PartKind::Object,
        b'[' if all(|text| text[0] == b'[') => PartKind::List,
        _ if all(begins_number) => PartKind::Number,
        _ => PartKind::Value,
    };
    alike.part(kind, texts);
}

/// The texts between the values of objects or lists of one form, and the values by place.
fn alike_within<'a>(values: &[&'a str], depth: u32) -> Option<(Vec<&'a str>, Vec<Vec<&'a str>>)> {
    let parts: Option<Vec<_>> = values.iter().map(|value| within(value, depth)).collect();
    let parts = parts?;
    let (between, values) = &parts[0];
    let is_same = parts.iter().all(|(other, _)| other == between);
    let by_place = |place| parts.iter().map(|(_, values)| values[place]).collect();
    is_same.then(|| (between.clone(), (0..values.len()).map(by_place).collect()))
}
