//! Whether the driver was the bottleneck.

use super::{Evidence, of_case, percent};
use crate::{
    analyse::{
        cases,
        summary::{Check, Comparison, Metric, Severity},
        trials::Trials,
    },
    record::schema::{CasePlan, Placement},
};

/// Share of a core per thread from which on the driver counts as saturated.
pub const SATURATED: f64 = 0.85;

/// An open loop that does what it was asked for. Its driver waits awake for what is due next, so its load says nothing.
fn keeps_its_rate(trials: &Trials, plan: &CasePlan) -> bool {
    plan.load.is_open() && cases::offered(trials, &plan.case).is_some_and(|offered| offered.is_reached())
}

pub fn driver_saturated(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let load = cases::driver_load(trials, plan);
        let text = format!("the driver used {} of a core per thread ({} threads)", percent(load), plan.load.threads);
        let effect = match plan.load.is_open() {
            false => {
                "the driver is the bottleneck: the case's throughput is a lower bound of what the servers can do, and a \
                 ratio in its favour is one too"
            }
            true => "the driver may be why the rate is not reached: more threads, or a lower rate",
        };
        (load >= SATURATED && !keeps_its_rate(trials, plan))
            .then(|| of_case("driver-saturated", Severity::Doubt, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// Share of its time from which on a driver's run delay is in a 99th percentile.
const KEPT_OFF: f64 = 0.01;

/// A driver that is meant to have its CPU and does not get it. Where CPUs are shared on purpose the check `placement` speaks.
pub fn driver_kept_off(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let share = cases::driver_run_delay(trials, plan)?;
        let text = format!("the driver was ready to run and kept from its CPU for {} of the time", percent(share));
        let effect =
            "its high percentiles contain its own waits: find out what else ran there (`pidstat`, `perf sched`)";
        (share >= KEPT_OFF).then(|| of_case("driver-kept-off", Severity::Doubt, &plan.case, text, effect))
    };
    match trials.data.header.settings.placement {
        Placement::Apart { .. } => trials.cases().iter().filter_map(check).collect(),
        Placement::Same { .. } | Placement::Free => Vec::new(),
    }
}

/// Headroom below which the generator is a large part of what is measured.
const SCARCE: f64 = 2.0;

pub fn headroom(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let times = cases::headroom(trials, plan)?;
        let than = if plan.load.is_open() { "the rate, in a closed loop" } else { "as many requests" };
        let text = format!("against a server that does nothing the same load reached {times:.1} times {than}");
        let effect = "the generator and the transport are a large part of what is measured, the servers a small one: the \
                      ratios are those of a server that does little";
        (times < SCARCE).then(|| of_case("headroom", Severity::Doubt, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// Marks the ratios that a saturated driver pulls towards 1: those where it limits the better of the two cases. Where it
/// limits only the worse one the ratio may as well be too large, and the check alone speaks. CPU per request is exact.
pub fn mark_lower_bounds(trials: &Trials, comparisons: &mut [Comparison]) {
    let saturated = |case: &str| {
        // What an open loop is compared by has no bound: it kept its rate, or is invalid.
        trials.plan(case).is_some_and(|plan| !plan.load.is_open() && cases::driver_load(trials, plan) >= SATURATED)
    };
    for comparison in comparisons.iter_mut().filter(|comparison| comparison.metric != Metric::CpuPerRequest) {
        let case_is_better = (comparison.ratio > 1.0) == (comparison.metric == Metric::Throughput);
        let better = if case_is_better { &comparison.case } else { &comparison.reference };
        comparison.lower_bound = saturated(better);
    }
}
