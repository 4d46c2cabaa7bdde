//! JSON for programs: the unchanged summary.

use lasthop_analyse::summary::Summary;
use serde_json::Value;

use super::{content::answer, units::NBSP};
use crate::text;

/// The report for programs; its keys are described by [`schema`].
#[must_use]
pub fn render(summary: &Summary) -> Vec<u8> {
    text::json(&answered(summary))
}

/// The summary with the answer of reports for people.
#[must_use]
pub fn answered(summary: &Summary) -> Summary {
    let lines = answer(summary)
        .iter()
        .map(|line| line.to_string().replace(NBSP, " "))
        .collect();
    Summary {
        answer: lines,
        ..summary.clone()
    }
}

/// JSON schema (draft 2020-12) of a summary, generated from the types.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Summary).to_value()
}
