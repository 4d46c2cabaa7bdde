//! Differences other than the link.

use lasthop_model::{quantity::joined, record::CasePlan};

use super::finding::{Finding, doubt};
use crate::trials::Trials;

pub fn config_differs(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let all = trials.data.header.differences.iter();
    let own: Vec<_> = all.filter(|difference| difference.case == plan.case).collect();
    let first = own.first()?;
    let places = own.iter().map(|difference| difference.place.as_str());
    let text = format!(
        "differs from {} in {}, first:\n{}",
        first.reference,
        joined(places, ", "),
        first.diff.trim_end()
    );
    Some(doubt(
        text,
        "the ratio shows these differences together with the transport's",
    ))
}
