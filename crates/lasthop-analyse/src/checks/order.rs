//! Dependence of results on time: early or late in the run, in a block, or in a trial.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_stats::{Estimate, location, rank};

use super::finding::{Finding, doubt, note};
use crate::{
    pairs::Pairs,
    trials::{Trials, grouped, halves, primary, primary_name},
};

/// The fewest trials that show a trend.
const LEAST_TRIALS: usize = 12;
/// The weakest correlation that deserves a note, even if certain.
const LEAST_CORRELATION: f64 = 0.3;
/// Significance level of a test. A run makes a few dozen.
pub const LEVEL: f64 = 0.001;
/// Significance level for halves of rounds, of which there may be few.
const WARMING_LEVEL: f64 = 0.005;

/// Spearman's correlation and its number of points, if it is certain and strong enough to report.
fn trend(points: impl Iterator<Item = (f64, f64)>) -> Option<(f64, usize)> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
    let correlation = (x.len() >= LEAST_TRIALS).then(|| rank::spearman(&x, &y)).flatten()?;
    let certain = rank::spearman_p_value(correlation, x.len()) < LEVEL;
    (certain && correlation.abs() >= LEAST_CORRELATION).then_some((correlation, x.len()))
}

/// The trend in the compared quantity of a case, over a property of each trial.
fn own_trend(trials: &Trials, plan: &CasePlan, over: fn(&MeasuredTrial) -> f64) -> Option<(f64, usize)> {
    trend(
        trials
            .of_case(&plan.case)
            .filter_map(|trial| Some((over(trial), primary(trial)?))),
    )
}

fn way(correlation: f64) -> &'static str {
    if correlation > 0.0 { "rises" } else { "falls" }
}

/// A drift during the run, of a ratio or of a reference's own figure.
pub fn drift(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let Some(pairs) = Pairs::of(trials, plan) else {
        return reference_drift(trials, plan);
    };
    // Blocks are in the order of their start.
    let logs = pairs.placed(primary).enumerate();
    let (correlation, blocks) = trend(logs.map(|(at, (_, log))| (at as f64, log)))?;
    let text = format!(
        "the ratio to {} {} during the run (Spearman's ρ = {correlation:.2}, {blocks} blocks)",
        pairs.reference.case,
        way(correlation)
    );
    let effect = "the ratio is a mean over a changing state: run longer, or find out what fills up or warms up";
    Some(doubt(text, effect))
}

fn reference_drift(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    if plan.reference.is_some() {
        return None;
    }
    let (correlation, _) = own_trend(trials, plan, |trial| trial.at_ns as f64)?;
    let text = format!(
        "its {} {} during the run (Spearman's ρ = {correlation:.2})",
        primary_name(plan),
        way(correlation)
    );
    let effect = "the machine or the service changes; ratios stay fair, because they are taken within blocks";
    Some(note(text, effect))
}

/// A trend from early to late trials of a block.
pub fn position(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let (correlation, count) = own_trend(trials, plan, |trial| f64::from(trial.position))?;
    // A shorter time is faster, and so is a higher rate.
    let way = if (correlation > 0.0) != plan.load.is_open() {
        "faster"
    } else {
        "slower"
    };
    let text = format!("it is {way} late in a block (Spearman's ρ = {correlation:.2}, {count} trials)");
    let effect = "a case affects the one after it; because the order is random, this widens intervals and does not \
                  bias ratios";
    Some(note(text, effect))
}

/// Whether a ratio's change halfway is certain at this level, and matters. If the second half is like any later time,
/// the ratio of both halves is off by half of the change.
fn shifts(trials: &Trials, change: &Estimate, level: f64) -> bool {
    let shift = (change.value.abs() / 2.0).exp_m1();
    change.p_value() < level && shift >= trials.data.header.settings.margin
}

/// A ratio that differs between the first and the second half of trials. Caches, the scheduler and sleeping CPUs may
/// need time to settle after another case's turn, and code that is compiled while it runs needs more.
pub fn settling(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let pairs = Pairs::of(trials, plan)?;
    let of = |quantity: fn([f64; 2]) -> f64| {
        let blocks = pairs.log_ratios(|trial| halves(trial).map(quantity))?;
        Some(location::locate(&blocks)?.estimate)
    };
    if !shifts(trials, &of(|[first, second]| second / first)?, LEVEL) {
        return None;
    }
    let text = format!(
        "the ratio to {} is {:.2} in the first half of the trials and {:.2} in the second",
        pairs.reference.case,
        of(|[first, _]| first)?.value.exp(),
        of(|[_, second]| second)?.value.exp()
    );
    let effect = "the ratio is a mean over a changing state: a longer warm-up (--warm-up) leaves out the first half";
    Some(doubt(text, effect))
}

/// A ratio that differs between the first and the second half of rounds: servers get faster after their start.
pub fn warming(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let [early, late] = Pairs::of(trials, plan)?.halves_of_rounds();
    let changes = early.blocks.iter().zip(&late.blocks).filter_map(|(early, late)| {
        let [before, after] = [early, late].map(|block| Some((primary(block.1)? / primary(block.2)?).ln()));
        Some((early.0.0, after? - before?))
    });
    if !shifts(trials, &location::locate(&grouped(changes)?)?.estimate, WARMING_LEVEL) {
        return None;
    }
    let of = |pairs: &Pairs| Some(location::locate(&pairs.log_ratios(primary)?)?.estimate.value.exp());
    let text = format!(
        "the ratio to {} is {:.2} in the first half of the rounds and {:.2} in the second",
        plan.reference.as_deref()?,
        of(&early)?,
        of(&late)?
    );
    let effect = "a server changes after its start, for example because it compiles what runs often: let it warm up \
                  (--settle 5s, or `warm` of its service)";
    Some(doubt(text, effect))
}
