//! Common parts of database protocols: one statement, repeated, and a result of rows.

use lasthop_trial::failure::Failure;

use super::{check::contrast, exact::Exact, exchange::excerpt};

/// Longest first column, in bytes, that is expected by itself: a message shows too little of a longer one.
pub const FIRST_MAX: usize = 1_000;

/// Whether the first column of the first row, if any, equals `want`; `None` is NULL.
pub fn first_is(got: Option<Option<&[u8]>>, want: Option<&[u8]>) -> Result<(), Failure> {
    if got == Some(want) {
        return Ok(());
    }
    let shown = |value: Option<&[u8]>| value.map_or("NULL".to_owned(), excerpt);
    let got = got.map_or("missing".to_owned(), shown);
    Err(Failure::content(format!(
        "the first value is {got}, expected {}",
        shown(want)
    )))
}

/// In words: the expectation for the first column of the first row.
pub fn first_in_words(first: Option<&str>, is_null: bool) -> Option<String> {
    first
        .map(|text| format!("the first column `{text}`"))
        .or_else(|| is_null.then(|| "NULL in the first column".to_owned()))
}

/// In words: the checked parts of a result, and all of it if known.
pub fn checked(mut parts: Vec<String>, reply: Option<&Exact>, size: &dyn Fn(u64) -> String) -> String {
    parts.extend(reply.map(|reply| format!("all {} byte for byte", size(*reply.lengths().start()))));
    if parts.is_empty() {
        "no error".to_owned()
    } else {
        parts.join(", ")
    }
}

/// In words: only these parts are checked, because the first replies differ.
pub fn only_checked<T: AsRef<[u8]>>(parts: Vec<String>, replies: &[T]) -> String {
    let (first, others) = replies.split_first().expect("there is a reply");
    let differs = others.iter().filter(|other| other.as_ref() != first.as_ref());
    let at = differs.map(|other| contrast(first.as_ref(), other.as_ref()).0).min();
    let (at, count) = (at.unwrap_or(0), replies.len());
    let checked = checked(parts, None, &|_| String::new());
    format!("only this is checked: {checked}; the first {count} replies differ from byte {at} on")
}

pub fn without_nul(texts: &[(&str, &str)], database: &str) -> Result<(), String> {
    match texts.iter().find(|(_, text)| text.contains('\0')) {
        Some((what, _)) => Err(format!("{what} contains a NUL byte, which {database} does not allow")),
        None => Ok(()),
    }
}
