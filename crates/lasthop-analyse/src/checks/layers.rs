//! The quality of profile trials: whether they explain the CPU time.

use indexmap::IndexMap;
use lasthop_model::record::CasePlan;

use super::finding::{Evidence, Finding, doubt, note, percent};
use crate::{
    explained::{not_attributed, sampled, sampled_trials},
    trials::Trials,
};

/// The largest difference between samples and the kernel's account, as a share.
const APART: f64 = 0.05;
/// The largest share without a layer.
const WITHOUT_LAYER: f64 = 0.05;
/// Standard errors by which chance moves a sum of samples at most.
const BY_CHANCE: f64 = 2.0;

/// Sums of a role over all profile trials of a case.
#[derive(Default)]
struct Sum {
    cpu: f64,
    sampled: f64,
    without_layer: f64,
    samples: f64,
}

fn sums<'a>(trials: &Trials<'a>, plan: &CasePlan) -> IndexMap<&'a str, Sum> {
    let mut sums: IndexMap<&str, Sum> = IndexMap::new();
    for trial in sampled_trials(trials, &plan.case) {
        for (name, role) in &trial.profile.roles {
            let sum = sums.entry(name).or_default();
            sum.cpu += role.cpu_ns as f64;
            sum.sampled += sampled(role);
            sum.without_layer += not_attributed(role);
            sum.samples += sampled(role) / trial.profile.period_ns.max(1) as f64;
        }
    }
    sums
}

/// Samples that do not add up to the CPU time, so that layers are useless. All roles are summed, because the kernel
/// books a part of a role's time to another role that it wakes on its CPU.
pub fn do_not_add_up(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let sums = sums(trials, plan);
    // The kernel's own work has no account.
    let counted = || sums.values().filter(|sum| sum.cpu > 0.0);
    let sampled: f64 = counted().map(|sum| sum.sampled).sum();
    let share = sampled / counted().map(|sum| sum.cpu).sum::<f64>();
    let samples: f64 = counted().map(|sum| sum.samples).sum();
    let error = samples.max(1.0).sqrt().recip();
    ((share - 1.0).abs() > APART + BY_CHANCE * error).then(|| {
        doubt(
            format!(
                "samples have {} of the CPU time that the kernel counted",
                percent(share)
            ),
            "layers may be too large or too small by as much; the measured CPU time is right",
        )
    })
}

pub fn without_layer(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let shares = sums(trials, plan).into_iter();
    let shares = shares.map(|(name, sum)| (name, sum.without_layer / sum.sampled));
    let large = shares.filter(|(_, share)| *share > WITHOUT_LAYER);
    let (name, share) = large.max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(note(
        format!("{} of the samples of {name} have no layer", percent(share)),
        "that part of the difference has no name; the report lists its largest functions",
    ))
}

pub fn not_observed(evidence: &Evidence) -> Option<Finding> {
    let why = evidence.trials.data.not_observed()?;
    Some(note(
        why,
        "what was not observed has no layers; all other figures are as without --explain",
    ))
}
