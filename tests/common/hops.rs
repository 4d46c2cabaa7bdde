//! The paths of a summary: which hops they have, and in which order.

use serde_json::Value;

/// The hops of a case.
pub fn path_of<'a>(summary: &'a Value, case: &str) -> &'a Value {
    let found = summary["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|found| found["case"] == case);
    &found.unwrap_or_else(|| panic!("no case {case}"))["proof"]["path"]
}

#[track_caller]
pub fn goes_over(summary: &Value, case: &str, hops: &[&str]) {
    has_in_order(&path_of(summary, case).to_string(), hops);
}

/// Each hop occurs after the one before.
#[track_caller]
pub fn has_in_order(path: &str, hops: &[&str]) {
    let mut rest = path;
    for hop in hops {
        let Some(at) = rest.find(hop) else {
            panic!("`{hop}` is not where it belongs in {path}")
        };
        rest = &rest[at + hop.len()..];
    }
}
