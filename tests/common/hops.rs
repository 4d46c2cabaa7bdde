//! The paths of a summary: their parts, in order.

use serde_json::Value;

use super::list;

/// The path of a case.
pub fn path_of<'a>(summary: &'a Value, case: &str) -> &'a Value {
    let found = list(&summary["cases"]).iter().find(|found| found["case"] == case);
    &found.unwrap_or_else(|| panic!("no case {case}"))["proof"]["path"]
}

/// Checks that the parts occur in this order.
#[track_caller]
pub fn goes_over(summary: &Value, case: &str, parts: &[&str]) {
    let path = path_of(summary, case).to_string();
    let mut rest = path.as_str();
    for part in parts {
        let Some(at) = rest.find(part) else {
            panic!("`{part}` is not where it belongs in {path}")
        };
        rest = &rest[at + part.len()..];
    }
}
