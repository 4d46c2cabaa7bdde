//! Whether results depend on when they were measured: early or late in the run, in a block, or in a trial.

use lasthop_model::record::CasePlan;
use lasthop_stats::{
    interval::Estimate,
    location::{self, Disturbed},
    rank,
};

use super::finding::{Evidence, of_case};
use crate::{
    pairs::Pairs,
    summary::{Check, Severity},
    trials::{Trials, grouped, halves, primary, primary_name},
};

/// Fewer trials than this show no trend.
const LEAST_TRIALS: usize = 12;
/// Weaker correlations are not worth a note, even if they are certain.
const LEAST_CORRELATION: f64 = 0.3;
/// Significance level of one test. A run makes a few dozen.
pub const LEVEL: f64 = 0.001;
/// The same for halves of rounds, of which there may be few.
const WARMING_LEVEL: f64 = 0.005;

/// Spearman's correlation, if it is certain and strong enough to report.
fn trend(x: &[f64], y: &[f64]) -> Option<f64> {
    let correlation = (x.len() >= LEAST_TRIALS).then(|| rank::spearman(x, y)).flatten()?;
    let certain = rank::spearman_p_value(correlation, x.len()) < LEVEL;
    (certain && correlation.abs() >= LEAST_CORRELATION).then_some(correlation)
}

/// A ratio, or a reference's own figure, that drifts during the run.
pub fn drift(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    trials
        .cases()
        .iter()
        .filter_map(|plan| ratio_drift(trials, plan).or_else(|| reference_drift(trials, plan)))
        .collect()
}

fn ratio_drift(trials: &Trials, plan: &CasePlan) -> Option<Check> {
    let pairs = Pairs::of(trials, plan)?;
    let (times, ratios): (Vec<f64>, Vec<f64>) =
        pairs.ratios().map(|(trial, ratio)| (trial.at_ns as f64, ratio)).unzip();
    let correlation = trend(&times, &ratios)?;
    let text = format!(
        "the ratio to {} {} during the run (Spearman's ρ = {correlation:.2}, {} blocks)",
        pairs.reference.case,
        if correlation > 0.0 { "rises" } else { "falls" },
        ratios.len()
    );
    let effect = "the ratio is a mean over a changing state: run longer, or find out what fills up or warms up";
    Some(of_case("drift", Severity::Doubt, &plan.case, text, effect))
}

fn reference_drift(trials: &Trials, plan: &CasePlan) -> Option<Check> {
    if plan.reference.is_some() {
        return None;
    }
    let (times, values): (Vec<f64>, Vec<f64>) = trials
        .of(&plan.case)
        .filter_map(|trial| Some((trial.at_ns as f64, primary(trial)?)))
        .unzip();
    let correlation = trend(&times, &values)?;
    let (what, way) = (primary_name(plan), if correlation > 0.0 { "rises" } else { "falls" });
    let text = format!("its {what} {way} during the run (Spearman's ρ = {correlation:.2})");
    let effect = "the machine or the service changes; ratios stay fair, because they are taken within blocks";
    Some(of_case("drift", Severity::Note, &plan.case, text, effect))
}

/// Compares trials early in a block with late ones.
pub fn position(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let (places, values): (Vec<f64>, Vec<f64>) = trials
            .of(&plan.case)
            .filter_map(|trial| Some((f64::from(trial.position), primary(trial)?)))
            .unzip();
        let correlation = trend(&places, &values)?;
        // A shorter time is faster, and so is a higher rate.
        let way = if (correlation > 0.0) != plan.load.is_open() {
            "faster"
        } else {
            "slower"
        };
        let text = format!(
            "it is {way} late in a block (Spearman's ρ = {correlation:.2}, {} trials)",
            values.len()
        );
        let effect = "a case affects the one after it; because the order is random, this widens intervals and does not bias ratios";
        Some(of_case("position", Severity::Note, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// A ratio that is another in the second half of the trials than in the first. Caches, the scheduler and sleeping CPUs may
/// need time to settle after the turn of another case, and code that is compiled while it runs needs more.
pub fn settling(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let pairs = Pairs::of(trials, plan)?;
        let of = |quantity: fn([f64; 2]) -> f64| {
            let blocks = pairs.disturbed(|trial| halves(trial).map(quantity))?;
            Some(location::locate(&blocks)?.estimate)
        };
        let change: Estimate = of(|[first, second]| second / first)?;
        // As long as the second half is as it would be later, the ratio of both is off by half of the change.
        let shift = (change.value.abs() / 2.0).exp_m1();
        if change.p_value() >= LEVEL || shift < trials.data.header.settings.margin {
            return None;
        }
        let [first, second] = [of(|[first, _]| first)?, of(|[_, second]| second)?];
        let text = format!(
            "the ratio to {} is {:.2} in the first half of the trials and {:.2} in the second",
            pairs.reference.case,
            first.value.exp(),
            second.value.exp()
        );
        let effect = "the ratio is a mean over a changing state: with a longer warm-up (--warm-up) it is that of the second half";
        Some(of_case("settling", Severity::Doubt, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// A ratio that is another in the second half of the rounds than in the first: servers that get faster after their start.
pub fn warming(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let [early, late] = Pairs::of(trials, plan)?.halves_of_rounds();
        let changes = early.blocks.iter().zip(&late.blocks).filter_map(|(early, late)| {
            let [before, after] = [early, late].map(|block| Some((primary(block.1)? / primary(block.2)?).ln()));
            let disturbance = [early.1, early.2, late.1, late.2]
                .into_iter()
                .map(|trial| trial.observations.machine.taken())
                .sum();
            Some((
                early.0.0,
                Disturbed {
                    value: after? - before?,
                    disturbance,
                },
            ))
        });
        let change = location::locate(&grouped(changes)?)?.estimate;
        let shift = (change.value.abs() / 2.0).exp_m1();
        if change.p_value() >= WARMING_LEVEL || shift < trials.data.header.settings.margin {
            return None;
        }
        let of = |pairs: &Pairs| Some(location::locate(&pairs.disturbed(primary)?)?.estimate.value.exp());
        let text = format!(
            "the ratio to {} is {:.2} in the first half of the rounds and {:.2} in the second",
            plan.reference.as_deref()?,
            of(&early)?,
            of(&late)?
        );
        let effect = "a server changes after its start, for example because it compiles what runs often: let it warm up \
                      (--settle 5s, or `warm` of its service)";
        Some(of_case("warming", Severity::Doubt, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}
