//! Whether there is enough data, and what it can show.

use std::collections::BTreeSet;

use lasthop_model::{
    quantity::counted,
    record::{CasePlan, GivenEndpoint, Stopped},
};
use lasthop_stats::{
    Interval,
    stopping::{LEAST_BLOCKS, LEAST_ROUNDS},
    variance, verdict,
};

use super::finding::{Evidence, of_case, of_run, percent};
use crate::{
    pairs::{Compared, Pairs},
    summary::{Check, Metric, Severity},
};

/// Rounds count as different at this level, and matter if they cause this share of the variance.
const LUCK_LEVEL: f64 = 0.001;
const LUCK_SHARE: f64 = 0.5;

pub fn run_cut_off(evidence: &Evidence) -> Vec<Check> {
    let effect = "the report includes everything up to that point, but if you stopped the run because of what you saw, \
                  the result is biased; `lasthop resume` continues it";
    let text = match &evidence.trials.data.end {
        None => "the record has no end: lasthop was killed, crashed, or is still running",
        Some(end) if end.stopped == Stopped::Interrupted => {
            "a signal ended the run before it reached its budget or precision"
        }
        Some(_) => return vec![],
    };
    vec![of_run("run-cut-off", Severity::Doubt, text.to_owned(), effect)]
}

pub fn no_interval(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |plan: &CasePlan| {
        let effect =
            "its variation is unknown, so nothing is compared (JSON and CSV repeat the estimate as `low` and `high`)";
        let text = "there is only one trial".to_owned();
        (trials.count(&plan.case) == 1).then(|| of_case("no-interval", Severity::Invalid, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

pub fn too_few_blocks(evidence: &Evidence) -> Vec<Check> {
    let check = |pairs: Pairs| {
        let (rounds, blocks) = (pairs.rounds(), pairs.blocks.len());
        let text = format!(
            "{} in {} with it and its reference; at least {LEAST_BLOCKS} in {LEAST_ROUNDS} are needed",
            counted(blocks as u64, "block"),
            counted(rounds as u64, "round"),
        );
        let effect = match rounds {
            0 | 1 => {
                "one start of the services decides nothing: how the result varies from one to the next is unknown; use a larger budget"
            }
            _ => "the interval rests on few restarts, so it is wide",
        };
        let few = blocks > 0 && (rounds < LEAST_ROUNDS || blocks < LEAST_BLOCKS);
        few.then(|| of_case("too-few-blocks", Severity::Doubt, &pairs.case.case, text, effect))
    };
    let trials = evidence.trials;
    trials
        .cases()
        .iter()
        .filter_map(|plan| Pairs::of(trials, plan))
        .filter_map(check)
        .collect()
}

/// Verdicts of difference that do not survive Holm's adjustment over all comparisons by declared metrics.
pub fn multiplicity(evidence: &Evidence) -> Vec<Check> {
    let family = evidence
        .compared
        .iter()
        .filter(|one| one.comparison.adjusted_p.is_some())
        .count();
    let check = |one: &Compared| {
        let comparison = &one.comparison;
        let adjusted = comparison.adjusted_p?;
        let what = if comparison.metric == Metric::CpuPerRequest {
            " (its CPU per request)"
        } else {
            ""
        };
        let text = format!("one of {family} comparisons{what}; after Holm's adjustment p = {adjusted:.2}");
        let effect = "among that many comparisons, one may differ by chance alone: treat the verdict as a hint, or repeat this case alone";
        comparison
            .may_be_chance()
            .then(|| of_case("multiplicity", Severity::Doubt, &comparison.case, text, effect))
    };
    evidence.compared.iter().filter_map(check).collect()
}

/// In an A/A run: the smallest difference that a run like this can resolve on this machine.
pub fn resolution(evidence: &Evidence) -> Vec<Check> {
    if !evidence.trials.data.header.settings.aa {
        return vec![];
    }
    let interval = |compared: &Compared| {
        let comparison = &compared.comparison;
        Interval {
            estimate: comparison.ratio,
            low: comparison.low,
            high: comparison.high,
        }
    };
    let primary = evidence.compared.iter().filter(|one| evidence.is_primary(one));
    let same: Vec<Interval> = primary.map(interval).collect();
    let check = |smallest: f64| {
        let text = format!(
            "{} comparisons of a case with itself: no interval extends more than {} from 1",
            same.len(),
            percent(smallest)
        );
        let effect = "on this machine, a run of this length cannot resolve smaller differences";
        of_run("resolution", Severity::Note, text, effect)
    };
    verdict::resolution(&same).map(check).into_iter().collect()
}

/// Rounds that differ more than their blocks do, because each start of the services gives another ratio.
pub fn process_luck(evidence: &Evidence) -> Vec<Check> {
    let check = |pairs: Pairs| {
        let found = variance::components(&pairs.log_ratios()?)?;
        let share = found.share_between();
        let text = format!("{} of the ratio's variance lies between rounds", percent(share));
        let effect = "the ratio varies from one start of the services to the next, which the interval includes; more \
                      rounds narrow it, longer rounds do not";
        let matters = found.p_value < LUCK_LEVEL && share >= LUCK_SHARE;
        matters.then(|| of_case("process-luck", Severity::Note, &pairs.case.case, text, effect))
    };
    let trials = evidence.trials;
    trials
        .cases()
        .iter()
        .filter_map(|plan| Pairs::of(trials, plan))
        .filter_map(check)
        .collect()
}

/// Servers that lasthop did not start are the same processes in every round, unless there is a way to restart them that does.
pub fn not_restarted(evidence: &Evidence) -> Vec<Check> {
    let data = evidence.trials.data;
    let Some(given) = &data.header.given else {
        return Vec::new();
    };
    let same: BTreeSet<&str> = data
        .rounds()
        .flat_map(|round| &round.same_servers)
        .map(String::as_str)
        .collect();
    let (text, then) = match &given.restart {
        None => (
            "the servers ran before and were not restarted between rounds".to_owned(),
            "--restart COMMAND restarts them between rounds",
        ),
        Some(_) if same.is_empty() => return Vec::new(),
        Some(_) => {
            let cases = same.into_iter().collect::<Vec<_>>().join(", ");
            let text = format!("after the command of --restart the same process answered as before it: {cases}");
            (text, "let the command of --restart end the servers and start new ones")
        }
    };
    let effect = format!(
        "the ratio varies from one start of a server to the next, and the interval does not include that; {then}"
    );
    vec![of_run("not-restarted", Severity::Doubt, text, &effect)]
}

/// Replies of an endpoint that are not checked byte for byte.
pub fn weak_check(evidence: &Evidence) -> Vec<Check> {
    let endpoints = evidence
        .trials
        .data
        .header
        .given
        .iter()
        .flat_map(|given| &given.endpoints);
    let check = |(case, endpoint): (&String, &GivenEndpoint)| {
        let text = endpoint.unchecked.clone()?;
        let effect = "a reply that is wrong elsewhere counts as right, and endpoints may not answer alike there; give \
                      --expect, or a URL whose replies stay the same";
        Some(of_case("weak-check", Severity::Doubt, case, text, effect))
    };
    endpoints.filter_map(check).collect()
}

/// The process of an endpoint was not found, or what the user named is not what answers.
pub fn server_unknown(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let endpoints = trials.data.header.given.iter().flat_map(|given| &given.endpoints);
    let unknown = endpoints.filter(|(case, _)| trials.count(case) > 0 && !trials.knows_server(case));
    let check = |(case, endpoint): (&String, &GivenEndpoint)| {
        let text = format!("the process that answers at {} was not found", endpoint.url);
        let effect = "the CPU time of the servers is not complete, so it is not compared; run lasthop as the server's user \
                      or as root, or name the process with --pid ROLE=PID";
        of_case("server-unknown", Severity::Doubt, case, text, effect)
    };
    unknown.map(check).collect()
}
