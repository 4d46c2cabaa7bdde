//! Steady load: whether the trials of a case show it.

use lasthop_model::record::CasePlan;
use lasthop_protocol::steady::{LEAST_TRIALS, Little, Slow};
use lasthop_trial::{Histogram, TrialResult};

use super::trials::Trials;

/// The fewest trials among which the worst does not count, because a single stall contradicts no law.
const FEW: usize = 4;

/// Little's law for a case; `None` if it tells nothing: for an open loop, a foreign driver, or without latencies.
pub fn little(trials: &Trials, plan: &CasePlan) -> Option<Little> {
    let proof = trials
        .proofs(&plan.case)
        .last()
        .filter(|_| plan.load.is_own() && !plan.load.is_open())?;
    let all = || trials.of_case(&plan.case).map(|trial| &trial.result);
    let worst = all()
        .max_by_key(|result| result.service_time.as_ref().map_or(0, Histogram::max))
        .filter(|_| trials.count(&plan.case) >= FEW);
    Little::of(
        all().filter(|one| !worst.is_some_and(|worst| std::ptr::eq(*one, worst))),
        &proof.spec,
    )
}

/// Slow replies of a case, and the length of its trials.
#[derive(Clone, Copy, Debug)]
pub struct TooShort {
    pub slow_ns: u64,
    pub trial_ns: u64,
}

/// The slow replies of a case, if they take longer than a third of its trials. `None` also without replies: a send
/// waits for the receiver, and is not cut off.
pub fn too_short(trials: &Trials, plan: &CasePlan) -> Option<TooShort> {
    let service = |result: &TrialResult| result.service_time.as_ref().map_or(0, Histogram::max);
    let trial_ns = trials
        .of_case(&plan.case)
        .last()?
        .asked_ns(&trials.data.header.settings);
    let is_slow = |nanoseconds: u64| nanoseconds.saturating_mul(LEAST_TRIALS) > trial_ns;
    if !plan.load.is_own()
        || is_one_way(trials, plan)
        || !trials.of_case(&plan.case).any(|trial| is_slow(service(&trial.result)))
    {
        return None;
    }
    let mut slow = Slow::default();
    // Of a few trials, all count: seen twice, even the worst is not alone.
    let repeats = if trials.count(&plan.case) < FEW { 2 } else { 1 };
    for trial in (0..repeats).flat_map(|_| trials.of_case(&plan.case)) {
        trial.result.service_time.iter().for_each(|times| slow.see(times));
    }
    is_slow(slow.ns()).then_some(TooShort {
        slow_ns: slow.ns(),
        trial_ns,
    })
}

fn is_one_way(trials: &Trials, plan: &CasePlan) -> bool {
    trials
        .proofs(&plan.case)
        .any(|proof| proof.spec.protocol.receipt().is_some())
}

/// Whether the latencies of a case can be shown.
pub fn is_steady(trials: &Trials, plan: &CasePlan) -> bool {
    plan.load.is_open()
        || (little(trials, plan).is_none_or(|little| little.holds())
            // A reply shorter than a trial is measured in full, even if it is slow for the trial.
            && too_short(trials, plan).is_none_or(|short| short.slow_ns <= short.trial_ns))
}
