//! The use of a run's time.

use std::collections::BTreeMap;

use lasthop_model::record::MeasuredTrial;
use lasthop_record::data::RunData;

use super::summary::TimeUse;

/// The use of time; `None` without a trial, and so also for a run with overload.
pub fn time_use(data: &RunData) -> Option<TimeUse> {
    let whole = data.took_ns() as f64;
    let mut trials: BTreeMap<u32, Vec<&MeasuredTrial>> = BTreeMap::new();
    for trial in data.trials() {
        trials.entry(trial.round).or_default().push(trial);
    }
    let mut time = TimeUse::default();
    for round in data.rounds() {
        let of_round = trials.get(&round.round).map_or(&[][..], Vec::as_slice);
        let ready_ns = round.ready_ns.unwrap_or(round.start_ns);
        time.starting += ready_ns as f64;
        time.verifying += round.start_ns.saturating_sub(ready_ns) as f64;
        let measured: u64 = of_round.iter().map(|trial| trial.result.elapsed_ns).sum();
        let warm_up: u64 = of_round.iter().map(|trial| warm_up_ns(data, trial)).sum();
        // The end of a round, from the start of the last trial and its length.
        let ended = of_round
            .last()
            .map_or(0, |last| last.at_ns + warm_up_ns(data, last) + last.result.elapsed_ns);
        let blocks = ended.saturating_sub(round.at_ns + round.start_ns);
        time.measured += measured as f64;
        time.warm_up += warm_up as f64;
        time.between += blocks.saturating_sub(measured + warm_up) as f64;
    }
    for part in [
        &mut time.measured,
        &mut time.warm_up,
        &mut time.between,
        &mut time.starting,
        &mut time.verifying,
    ] {
        *part /= whole;
    }
    (!trials.is_empty() && whole > 0.0).then_some(time)
}

fn warm_up_ns(data: &RunData, trial: &MeasuredTrial) -> u64 {
    trial
        .phases
        .map_or(data.header.settings.warm_up_ns, |phases| phases.warm_up_ns)
}
