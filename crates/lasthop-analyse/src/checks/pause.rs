//! Pauses of a resumed run, and whether results changed across them.

use std::collections::BTreeMap;

use lasthop_model::{
    quantity::joined,
    record::{CasePlan, Resumption, Stopped},
};
use lasthop_stats::{Grouped, mean, variance};

use super::{
    finding::{Evidence, Finding, doubt, note, percent},
    order::LEVEL,
};
use crate::{
    pairs::Pairs,
    trials::{Trials, primary, primary_name},
};

/// Pauses of the run, as a note.
pub fn resumed(evidence: &Evidence) -> Option<Finding> {
    let pauses = joined(evidence.trials.data.resumptions().map(described), "; ");
    let effect = "its parts count as rounds of one run; if the result changed in a pause, the check `pause` fires";
    (!pauses.is_empty()).then(|| note(pauses, effect))
}

fn described(resumption: &Resumption) -> String {
    let how = match resumption.ended {
        None => "it was killed",
        Some(Stopped::Budget) => "its budget was spent",
        Some(_) => "it was interrupted",
    };
    let after = resumption.at_ns as f64 / 1e9;
    format!(
        "{how} after {after:.0} s and resumed {} later, at {}",
        duration(resumption.pause_ns),
        resumption.at
    )
}

fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// A change across a pause, of a ratio or of a reference's own figure.
pub fn pause(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    trials.data.resumptions().next()?;
    of_ratio(trials, plan).or_else(|| of_reference(trials, plan))
}

fn of_ratio(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let pairs = Pairs::of(trials, plan)?;
    let logs = pairs.placed(primary).map(|(place, log)| (place.0, log));
    let text = format!(
        "the ratio to {} differs by {} between the parts of the run",
        pairs.reference.case,
        percent(moved(trials, logs)?)
    );
    let effect = "the result is a mean over two states: start a new run, and look for what changed in the pause";
    Some(doubt(text, effect))
}

fn of_reference(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    if plan.reference.is_some() {
        return None;
    }
    let text = format!(
        "its {} differs by {} between the parts of the run",
        primary_name(plan),
        percent(moved(
            trials,
            trials
                .of_case(&plan.case)
                .filter_map(|trial| Some((trial.round, primary(trial)?.ln())))
        )?)
    );
    let effect = "the machine's speed changed in the pause; ratios stay fair, because they are taken within blocks";
    Some(note(text, effect))
}

/// The distance between the means of the parts, as a share, if it is certain and above the margin. The analysis of
/// variance compares means of rounds, because blocks of a round are not independent.
fn moved(trials: &Trials, logs: impl Iterator<Item = (u32, f64)>) -> Option<f64> {
    let part_of = trials.data.parts();
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, log) in logs {
        rounds.entry(round).or_default().push(log);
    }
    let mut parts: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (round, logs) in rounds {
        parts.entry(part_of[&round]).or_default().extend(mean::of(logs));
    }
    let means: Vec<f64> = parts
        .values()
        .filter_map(|rounds| mean::of(rounds.iter().copied()))
        .collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::MIN, f64::max);
    let found = variance::components(&Grouped::new(parts.into_values().collect())?)?;
    // The means are of logarithms.
    let share = (high - low).exp_m1();
    (found.p_value < LEVEL && share > trials.data.header.settings.margin).then_some(share)
}
