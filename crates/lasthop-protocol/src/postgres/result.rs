//! The reply to a query, and its expectation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::{HEAD, is_notice, messages};
use crate::{
    exact::Exact,
    statement::{self, FIRST_MAX},
};

/// The correct result. Every given field must hold. An error is never correct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresExpect {
    /// Number of rows.
    pub rows: Option<u64>,
    /// First column of the first row, as text.
    pub first: Option<String>,
    /// Whether the first column of the first row is NULL. `first` is then missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub null: bool,
    /// The command tag, for example `SELECT 1`; tags of several statements in order: `BEGIN; SELECT 1; COMMIT`.
    pub tag: Option<String>,
    /// All messages of the reply except notices, parameters and notifications, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Exact>,
}

impl PostgresExpect {
    /// Whether the first value is checked by itself.
    pub fn reads_first(&self) -> bool {
        self.first.is_some() || self.null
    }

    /// In words: the expected parts of the result.
    pub fn parts(&self) -> Vec<String> {
        let Self {
            rows, first, null, tag, ..
        } = self;
        let mut parts = Vec::new();
        parts.extend(rows.map(|rows| {
            if rows == 1 {
                "1 row".to_owned()
            } else {
                format!("{rows} rows")
            }
        }));
        parts.extend(statement::first_in_words(first.as_deref(), *null));
        parts.extend(tag.as_ref().map(|tag| format!("the tag `{tag}`")));
        parts
    }
}

/// Separator of the command tags of several statements.
pub const BETWEEN_TAGS: &str = "; ";

/// Rows, first column of the first row and command tags of a complete reply.
pub fn result(reply: &[u8]) -> PostgresExpect {
    let rows = messages(reply).filter(|(kind, _)| *kind == b'D').count() as u64;
    let tags = messages(reply)
        .filter(|(kind, _)| *kind == b'C')
        .map(|(_, message)| &message[HEAD..])
        .map(|tag| std::str::from_utf8(tag.strip_suffix(&[0]).unwrap_or(tag)).ok());
    let tags: Option<Vec<&str>> = tags.collect();
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let first = first_value(reply);
    PostgresExpect {
        rows: Some(rows),
        tag: tags.filter(|tags| !tags.is_empty()).map(|tags| tags.join(BETWEEN_TAGS)),
        null: first == Some(None),
        first: first.flatten().filter(|first| first.len() <= FIRST_MAX).and_then(text),
        reply: None,
    }
}

/// The first column of the first row, which may be NULL; `None` if there is none.
pub fn first_value(reply: &[u8]) -> Option<Option<&[u8]>> {
    first_column(messages(reply).find(|(kind, _)| *kind == b'D')?.1.get(HEAD..)?)
}

pub fn without_notices(reply: &[u8]) -> Vec<u8> {
    messages(reply)
        .filter(|(kind, _)| !is_notice(*kind))
        .flat_map(|(_, message)| message)
        .copied()
        .collect()
}

/// The first column of a row: the number of columns in two bytes, the first one's length in four (−1 is NULL), then its
/// text.
pub fn first_column(row: &[u8]) -> Option<Option<&[u8]>> {
    match i32::from_be_bytes(*row.get(2..)?.first_chunk()?) {
        -1 => Some(None),
        length => row.get(6..)?.get(..usize::try_from(length).ok()?).map(Some),
    }
}
