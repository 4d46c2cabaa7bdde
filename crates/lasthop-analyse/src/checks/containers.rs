//! What containers add: CPU limits, and other versions of programs.

use std::time::Duration;

use lasthop_model::{
    quantity::written,
    record::{IN_IMAGE, ProgramVersion},
};

use super::finding::{Evidence, of_case, of_run, percent};
use crate::{
    cases,
    summary::{Check, Severity, Throttled},
};

/// Default period of a CPU limit. Engines do not change it.
const PERIOD_NS: u64 = 100_000_000;
/// A shorter trial depends on where in a period it begins.
const ENOUGH_PERIODS: u64 = 10;

/// `nginx 12 times for 345 ms, 3.4 % of the time`
fn said((role, throttled): (&String, &Throttled)) -> String {
    let times = if throttled.times == 1 {
        "once".to_owned()
    } else {
        format!("{} times", throttled.times)
    };
    format!(
        "{role} {times} for {:.0} ms, {} of the time",
        throttled.seconds * 1e3,
        percent(throttled.share)
    )
}

/// Throttling is the purpose of a CPU limit. It is reported because the limit then sets the pace, not the link.
pub fn throttled(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let roles = cases::throttled(trials, case);
        let text = format!(
            "throttled by the CPU limit: {}",
            roles.iter().map(said).collect::<Vec<_>>().join("; ")
        );
        let effect = "a container that has used up its share waits for the next period, so throughput is the limit \
                  divided by CPU time per request, and the slowest requests take a period longer";
        (!roles.is_empty()).then(|| of_case("throttled", Severity::Note, case, text, effect))
    };
    trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}

pub fn short_for_the_limit(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let trial_ns = trials.data.header.settings.trial_ns;
    let strikes = trials
        .cases()
        .iter()
        .any(|plan| !cases::throttled(trials, &plan.case).is_empty());
    let check = || {
        let text = format!(
            "CPU limits work in periods of {} ms, and a trial lasts {} ms",
            PERIOD_NS / 1_000_000,
            trial_ns / 1_000_000
        );
        let enough = Duration::from_nanos(PERIOD_NS * ENOUGH_PERIODS);
        let effect = format!(
            "the share that a container has left when a trial starts is random, which averages out over blocks but \
             widens the intervals; use --trial {} or more",
            written(enough)
        );
        of_run("short-for-the-limit", Severity::Doubt, text, &effect)
    };
    (strikes && trial_ns < PERIOD_NS * ENOUGH_PERIODS)
        .then(check)
        .into_iter()
        .collect()
}

/// An image from a Containerfile has its own versions of programs.
pub fn image_programs(evidence: &Evidence) -> Vec<Check> {
    let Some(environment) = &evidence.trials.data.environment else {
        return Vec::new();
    };
    let differ = |(name, inside): (&String, &ProgramVersion)| {
        let recipe = name.strip_suffix(IN_IMAGE)?;
        let here = environment.programs.get(recipe)?;
        (here.version != inside.version).then(|| {
            format!(
                "{recipe} {} in the image, {} on this machine",
                inside.version, here.version
            )
        })
    };
    let found: Vec<String> = environment.programs.iter().filter_map(differ).collect();
    let effect = "cases with and without a container differ in the program too; --images packages builds the image \
                  from this machine's packages";
    let check = || of_run("image-programs-differ", Severity::Note, found.join("; "), effect);
    if found.is_empty() { Vec::new() } else { vec![check()] }
}
