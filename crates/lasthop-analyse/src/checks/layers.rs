//! The quality of profile trials: whether they explain the CPU time.

use lasthop_model::{profile::RoleProfile, record::CasePlan};

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
struct Sum<'a> {
    name: &'a str,
    cpu: f64,
    sampled: f64,
    without_layer: f64,
    samples: f64,
}

fn sums<'a>(trials: &Trials<'a>, plan: &CasePlan) -> Vec<Sum<'a>> {
    let all = sampled_trials(trials, &plan.case);
    let mut names: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|trial| trial.profile.roles.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of = |name: &'a str| {
        let sum = |amount: &dyn Fn(&RoleProfile) -> f64| -> f64 {
            all.iter()
                .filter_map(|trial| trial.profile.roles.get(name))
                .map(amount)
                .sum()
        };
        let period = all
            .iter()
            .map(|trial| trial.profile.period_ns)
            .max()
            .unwrap_or(1)
            .max(1);
        let sampled = sum(&sampled);
        Sum {
            name,
            cpu: sum(&|role| role.cpu_ns as f64),
            sampled,
            without_layer: sum(&not_attributed),
            samples: sampled / period as f64,
        }
    };
    names.into_iter().map(of).collect()
}

/// Samples that do not add up to the CPU time, so that layers are useless. All roles are summed, because the kernel
/// books a part of a role's time to another role that it wakes on its CPU.
pub fn do_not_add_up(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let sums = sums(trials, plan);
    // The kernel's own work has no account.
    let counted = || sums.iter().filter(|sum| sum.cpu > 0.0);
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
    let share = |sum: &Sum<'_>| sum.without_layer / sum.sampled;
    let largest = sums(trials, plan)
        .into_iter()
        .filter(|sum| share(sum) > WITHOUT_LAYER)
        .max_by(|one, other| share(one).total_cmp(&share(other)))?;
    Some(note(
        format!(
            "{} of the samples of {} have no layer",
            percent(share(&largest)),
            largest.name
        ),
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
