//! Compares the ratios of a run with the published ranges for other machines.

use lasthop_analyse::{
    answers::{Answer, answers},
    groups::{Compared, Group},
    summary::Summary,
};
use lasthop_model::record::size;
use lasthop_stats::Interval;

use super::environment::conditions;
use crate::{
    names::Named,
    units::{NBSP, bounds, ratio, ratio_places},
};

/// The most outside ratios that are named; others are counted.
const MOST_NAMED: usize = 3;

/// The number of ratios inside the published ranges, the names of those outside, and recorded differences of this
/// machine. `None` without published ranges.
pub fn line(summary: &Summary, groups: &[Group<'_>]) -> Option<String> {
    let compared = groups.iter().flat_map(Group::compared);
    let placed: Vec<(Compared<'_>, Interval)> = compared
        .filter_map(|one| Some((one, one.comparison.published?)))
        .collect();
    if placed.is_empty() {
        return None;
    }
    let answer = answers().get(&summary.experiment)?;
    let outside: Vec<String> = placed
        .iter()
        .filter(|(one, range)| !(range.low..=range.high).contains(&one.comparison.ratio.estimate))
        .map(|(one, range)| outside(one, *range))
        .collect();
    let whose = format!(
        "that `lasthop answers {}` has for {}",
        answer.experiment,
        size(answer.machine.cpus)
    );
    let count = placed.len();
    Some(match (count, outside.len()) {
        (1, 0) => format!("The ratio lies in the range {whose}."),
        (_, 0) => format!("All {count} ratios lie in the ranges {whose}."),
        (_, out) => {
            let inside = count - out;
            let mut named = outside;
            if out > MOST_NAMED {
                named.truncate(MOST_NAMED);
                named.push(format!("{} more", out - MOST_NAMED));
            }
            format!(
                "{inside} of {count} ratios lie in the ranges {whose}; not {}.{}",
                named.join(", "),
                differences(summary, answer)
            )
        }
    })
}

/// `echo, 64 B, unix (1.24; there 1.40 to 1.66)`
fn outside(one: &Compared<'_>, range: Interval) -> String {
    let name = [one.group.setting(), one.group.label(one.case)];
    let name: Vec<String> = name.into_iter().filter(|part| !part.is_empty()).collect();
    let own = ratio(one.comparison.ratio.estimate, ratio_places(range));
    format!(
        "{} ({own}; there{NBSP}{})",
        name.join(", "),
        bounds(range, ratio_places(range))
    )
}

/// Recorded differences of the machine that change ratios.
fn differences(summary: &Summary, answer: &Answer) -> String {
    let Some(here) = &summary.environment else {
        return String::new();
    };
    let mut all = Vec::new();
    if size(here.cpus) != size(answer.machine.cpus) {
        all.push([size(here.cpus).to_owned(), size(answer.machine.cpus).to_owned()]);
    }
    // Conditions of an engine's own networks vary with its rules, which are part of the measurement.
    if let (Some(own), Some(there), None) = (conditions(here), &answer.machine.conditions, here.engine())
        && own.replace(NBSP, " ") != *there
    {
        all.push([own, there.clone()]);
    }
    if let (Some(own), Some(there)) = (here.engine_in_words(), &answer.machine.engine)
        && own != *there
    {
        all.push([own, there.clone()]);
    }
    let said = all
        .into_iter()
        .map(|[own, there]| format!(" Here: {own}. There: {there}."));
    said.collect()
}
