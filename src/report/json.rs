//! JSON for machines: the summary as it is.

use serde_json::Value;

use super::Report;
use crate::analyse::summary::Summary;

/// The report for programs; its keys are described by [`schema`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl Report for Json {
    fn render(&self, summary: &Summary) -> Vec<u8> {
        // The types of a summary have string keys only, and writing to memory cannot fail.
        let mut bytes = serde_json::to_vec_pretty(summary).expect("a summary is always JSON");
        bytes.push(b'\n');
        bytes
    }
}

/// JSON schema (draft 2020-12) of [`Json`], generated from the types.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Summary).to_value()
}
