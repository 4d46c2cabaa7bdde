//! Differences other than the link.

use super::finding::{Evidence, of_case};
use crate::summary::{Check, Severity};

pub fn config_differs(evidence: &Evidence) -> Vec<Check> {
    let differences = &evidence.trials.data.header.differences;
    let check = |case: &str| {
        let of_this: Vec<_> = differences
            .iter()
            .filter(|difference| difference.case == case)
            .collect();
        let first = of_this.first()?;
        let places: Vec<&str> = of_this.iter().map(|difference| difference.place.as_str()).collect();
        let text = format!(
            "differs from {} in {}, first:\n{}",
            first.reference,
            places.join(", "),
            first.diff.trim_end()
        );
        let effect = "the comparison cannot tell these differences apart from the transport's";
        Some(of_case("config-differs", Severity::Doubt, case, text, effect))
    };
    evidence
        .trials
        .cases()
        .iter()
        .filter_map(|plan| check(&plan.case))
        .collect()
}
