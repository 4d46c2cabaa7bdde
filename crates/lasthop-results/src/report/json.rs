//! JSON for programs: the summary as it is.

use serde_json::Value;

use crate::{analyse::summary::Summary, text};

/// The report for programs; its keys are described by [`schema`].
#[must_use]
pub fn render(summary: &Summary) -> Vec<u8> {
    text::json(summary)
}

/// JSON schema (draft 2020-12) of a summary, generated from the types.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Summary).to_value()
}
