//! The driver as a bottleneck.

use lasthop_model::{
    quantity::counted,
    record::{CasePlan, Placement},
};
use lasthop_protocol::custom;

use super::finding::{Finding, doubt, note, percent};
use crate::{
    cases,
    summary::{Comparison, Metric},
    trials::Trials,
};

/// Share of a core per thread from which the driver counts as saturated.
pub const SATURATED: f64 = 0.85;

/// Whether the driver is busy with several requests. With one request under way, the driver works while the server
/// waits, and the other way round, so that even a busy driver limits nothing.
fn is_saturated(trials: &Trials, plan: &CasePlan) -> bool {
    let load = &plan.load;
    let has_several =
        load.is_open() || load.connections * load.pipeline > 1 || cases::sending(trials, &plan.case).is_some();
    has_several && cases::driver_load(trials, plan) >= SATURATED
}

/// Whether an open loop keeps its rate. Its driver busy-waits, so that its CPU use shows nothing.
fn keeps_its_rate(trials: &Trials, plan: &CasePlan) -> bool {
    plan.load.is_open() && cases::offered(trials, &plan.case).is_some_and(|offered| offered.is_reached())
}

/// Whether the server could not receive everything that the driver sent. Then even a busy driver is not the bottleneck.
fn loses(trials: &Trials, case: &str) -> bool {
    cases::sending(trials, case).is_some_and(|sending| sending.lost() > 0)
}

pub fn driver_saturated(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let load = cases::driver_load(trials, plan);
    let text = format!(
        "the driver used {} of a core per thread ({})",
        percent(load),
        counted(cases::driver_threads(trials, plan).into(), "thread")
    );
    let effect = if plan.load.is_open() {
        "the driver may be the reason why the rate was not reached: use more threads or a lower rate"
    } else {
        "the driver is the bottleneck: the servers can do at least this throughput, and a ratio in favour of this case \
         is a lower bound too"
    };
    (is_saturated(trials, plan) && !keeps_its_rate(trials, plan) && !loses(trials, &plan.case))
        .then(|| doubt(text, effect))
}

/// The least share of run delay in the driver's time that shows in the 99th percentile.
const KEPT_OFF: f64 = 0.01;
/// The least share of run delay in the driver's time that shows in the throughput.
const MUCH: f64 = 0.05;

/// A driver that should have its own CPU but does not get it. For CPUs shared on purpose, the check `placement` fires.
pub fn driver_kept_off(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let placement = &trials.data.header.settings.placement;
    let is_apart = matches!(placement, Placement::Apart { .. } | Placement::Compact { .. });
    let share = cases::driver_run_delay(trials, plan)?;
    let text = format!("the driver was runnable but not running {} of the time", percent(share));
    let effect = "high percentiles include these waits: find out what else ran on its CPU (`pidstat`, `perf sched`)";
    let says = if plan.load.is_open() || share >= MUCH {
        doubt
    } else {
        note
    };
    (is_apart && share >= KEPT_OFF).then(|| says(text, effect))
}

/// Headroom below which the generator is a large part of the measurement.
const SCARCE: f64 = 2.0;
/// Headroom that counts as none, because the two rates were measured at different times.
const NO_MORE: f64 = 1.1;

pub fn headroom(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let times = cases::headroom(trials, plan)?;
    let than = if plan.load.is_open() {
        "the rate, in a closed loop"
    } else {
        "as many requests"
    };
    let text = if times < NO_MORE {
        format!("against a server that does nothing, the same load reached no more than {than}")
    } else {
        format!("against a server that does nothing, the same load reached {times:.1} times {than}")
    };
    let effect = "these servers do little: the generator and the transport are a large part of what is measured; expect \
                  smaller differences with servers that do more work";
    (times < SCARCE).then(|| doubt(text, effect))
}

/// A driver that judges the replies itself, so that nothing else knows them.
pub fn replies_unseen(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let text = format!("`{}` judged the replies", plan.load.driver);
    let effect =
        "the figures are as good as that program, which counts the requests, takes the times and judges the replies";
    (plan.load.protocol == custom::KIND.name && trials.count(&plan.case) > 0).then(|| note(text, effect))
}

/// Marks the ratios that a saturated driver pulls towards 1: those in which it limits the better of the two cases. If
/// it limits only the worse case, the ratio may be too large, and only the check says so. CPU time per request is
/// exact.
pub fn mark_lower_bounds(trials: &Trials, comparisons: &mut [Comparison]) {
    let saturated = |case: &str| {
        // An open loop has no lower bounds, because it kept its rate or is invalid.
        let saturated = |plan: &CasePlan| !plan.load.is_open() && is_saturated(trials, plan);
        trials.plan(case).is_some_and(saturated) && !loses(trials, case)
    };
    for comparison in comparisons
        .iter_mut()
        .filter(|comparison| comparison.metric != Metric::CpuPerRequest)
    {
        let case_is_better = (comparison.ratio.estimate > 1.0) == (comparison.metric == Metric::Throughput);
        let better = if case_is_better {
            &comparison.case
        } else {
            &comparison.reference
        };
        comparison.lower_bound = saturated(better);
    }
}
