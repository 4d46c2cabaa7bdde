//! Effects of containers: CPU limits, and other versions of programs.

use std::time::Duration;

use lasthop_model::{
    quantity::{joined, written},
    record::{CasePlan, IN_IMAGE, ProgramVersion},
};

use super::finding::{Evidence, Finding, doubt, note, percent};
use crate::{cases, summary::Throttled, trials::Trials};

/// Default period of a CPU limit, which engines do not change.
const PERIOD_NS: u64 = 100_000_000;
/// The fewest periods in a trial. A shorter trial depends on its start within a period.
const ENOUGH_PERIODS: u64 = 10;

/// Throttling in words: `nginx 12 times for 345 ms, 3.4 % of the time`.
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

/// Services throttled by a CPU limit. That is the purpose of the limit, but it is reported, because then the limit sets
/// the pace, not the link.
pub fn throttled(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let roles = joined(cases::throttled(trials, &plan.case).iter().map(said), "; ");
    let text = format!("throttled by the CPU limit: {roles}");
    let effect = "a container that has used up its share waits for the next period, so throughput is the limit \
                  divided by CPU time per request, and the slowest requests take a period longer";
    (!roles.is_empty()).then(|| note(text, effect))
}

pub fn short_for_the_limit(Evidence { trials, .. }: &Evidence) -> Option<Finding> {
    let trial_ns = trials.data.header.settings.trial_ns;
    let text = format!(
        "CPU limits work in periods of {} ms, and a trial lasts {} ms",
        PERIOD_NS / 1_000_000,
        trial_ns / 1_000_000
    );
    let effect = format!(
        "the share that a container has left when a trial starts is random, which averages out over blocks but widens \
         the intervals; use --trial {} or more",
        written(Duration::from_nanos(PERIOD_NS * ENOUGH_PERIODS))
    );
    (trial_ns < PERIOD_NS * ENOUGH_PERIODS
        && trials
            .cases()
            .iter()
            .any(|plan| !cases::throttled(trials, &plan.case).is_empty()))
    .then(|| doubt(text, effect))
}

/// Programs in an image that differ from those of the machine, because a Containerfile has its own versions.
pub fn image_programs(evidence: &Evidence) -> Option<Finding> {
    let environment = evidence.trials.data.environment.as_ref()?;
    let differ = |(name, inside): (&String, &ProgramVersion)| {
        let recipe = name.strip_suffix(IN_IMAGE)?;
        let here = environment.programs.get(recipe)?;
        let text = format!(
            "{recipe} {} in the image, {} on this machine",
            inside.version, here.version
        );
        (here.version != inside.version).then_some(text)
    };
    let found = joined(environment.programs.iter().filter_map(differ), "; ");
    let effect = "cases with and without a container differ in the program too: give both the same version";
    (!found.is_empty()).then(|| note(found, effect))
}
