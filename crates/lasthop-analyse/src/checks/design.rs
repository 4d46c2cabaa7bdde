//! The amount of data, and its limits.

use std::collections::BTreeSet;

use lasthop_model::{
    quantity::{counted, joined},
    record::{CasePlan, Stopped},
};
use lasthop_stats::{
    Interval, serial,
    states::{self, Group},
    stopping::{LEAST_BLOCKS, LEAST_ROUNDS},
    variance, verdict,
};

use super::finding::{Evidence, Finding, doubt, invalid, note, percent};
use crate::{
    pairs::{Compared, Pairs},
    summary::Metric,
    trials::{Trials, primary},
};

/// Significance level of differences between rounds, and the least share of the variance at which they matter.
const LUCK_LEVEL: f64 = 0.001;
const LUCK_SHARE: f64 = 0.5;

pub fn run_cut_off(evidence: &Evidence) -> Option<Finding> {
    let effect = "the report includes everything up to that point, but if you stopped the run because of what you saw, \
                  the result is biased; `lasthop resume` continues it";
    let text = match &evidence.trials.data.end {
        None => "the record has no end: lasthop was killed, crashed, or is still running",
        Some(end) if end.stopped == Stopped::Interrupted => {
            "a signal ended the run before it reached its budget or precision"
        }
        Some(_) => return None,
    };
    Some(doubt(text, effect))
}

pub fn no_interval(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let effect =
        "its variation is unknown, so nothing is compared (JSON and CSV repeat the estimate as `low` and `high`)";
    (trials.count(&plan.case) == 1).then(|| invalid("there is only one trial", effect))
}

pub fn too_few_blocks(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let pairs = Pairs::of(trials, plan)?;
    let rounds = pairs.rounds();
    let blocks = pairs.blocks.len();
    let text = format!(
        "{} in {} with it and its reference; at least {LEAST_BLOCKS} in {LEAST_ROUNDS} are needed",
        counted(blocks as u64, "block"),
        counted(rounds as u64, "round"),
    );
    let effect = if rounds < 2 {
        "one start of the services decides nothing, because the next may give another result; use a larger budget"
    } else {
        "the interval rests on few restarts, so it is wide"
    };
    let few = blocks > 0 && (rounds < LEAST_ROUNDS || blocks < LEAST_BLOCKS);
    few.then(|| doubt(text, effect))
}

/// Verdicts of difference that do not survive Holm's adjustment over all comparisons by declared metrics.
pub fn multiplicity(evidence: &Evidence, one: &Compared) -> Option<Finding> {
    let family = evidence
        .compared
        .iter()
        .filter(|one| one.comparison.adjusted_p.is_some())
        .count();
    let what = if one.comparison.metric == Metric::CpuPerRequest {
        " (its CPU per request)"
    } else {
        ""
    };
    let text = format!(
        "one of {family} comparisons{what}; after Holm's adjustment p = {:.2}",
        one.comparison.adjusted_p?
    );
    let effect = "among that many comparisons, one may differ by chance alone: treat the verdict as a hint, or repeat \
                  this case alone";
    one.comparison.may_be_chance().then(|| doubt(text, effect))
}

/// In an A/A run, the smallest difference that such a run can resolve on this machine.
pub fn resolution(evidence: &Evidence) -> Option<Finding> {
    let primary = evidence
        .compared
        .iter()
        .filter(|one| evidence.trials.is_primary(&one.comparison));
    let same: Vec<Interval> = primary.map(|one| one.comparison.ratio).collect();
    let smallest = verdict::resolution(&same).filter(|_| evidence.trials.data.header.settings.aa)?;
    let text = format!(
        "{} comparisons of a case with itself: no interval extends more than {} from 1",
        same.len(),
        percent(smallest)
    );
    let effect = "on this machine, a run of this length cannot resolve smaller differences";
    Some(note(text, effect))
}

/// Rounds that differ more than their blocks, because each start of the services gives another ratio.
pub fn process_luck(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let found = variance::components(&Pairs::of(trials, plan)?.log_ratios(primary)?)?;
    let share = found.share_between();
    let text = format!("{} of the ratio's variance lies between rounds", percent(share));
    let effect = "the ratio varies from one start of the services to the next, which the interval includes; more rounds \
                  narrow it, longer rounds do not";
    (found.p_value < LUCK_LEVEL && share >= LUCK_SHARE).then(|| note(text, effect))
}

/// Rounds that are in one of two states, neither of which the mean describes.
pub fn two_states(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let groups = states::two_states(&Pairs::of(trials, plan)?.log_ratios(primary)?)?;
    let matters = (groups[1].mean - groups[0].mean).exp_m1() >= trials.data.header.settings.margin;
    let said = |group: Group| format!("{:.2} ({} rounds)", group.mean.exp(), group.size);
    let text = format!(
        "the rounds' ratios to {} fall into two groups, {} and {}",
        plan.reference.as_deref()?,
        said(groups[0]),
        said(groups[1])
    );
    let effect = "the ratio is a mean of both, weighted by how often each occurred: find out what differs between the \
                  starts";
    matters.then(|| doubt(text, effect))
}

/// Rounds that resemble the previous round.
pub fn rounds_correlated(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let correlation = serial::correlated(&Pairs::of(trials, plan)?.log_ratios(primary)?)?;
    let text = format!(
        "the correlation of the ratio between one round and the next is {:.2}",
        correlation.min(1.0)
    );
    let effect = "something outlasts a round, so rounds are not independent; the interval is widened for that and may \
                  still be too narrow: repeat the run at another time";
    Some(doubt(text, effect))
}

/// Servers that lasthop did not start. They are the same processes in every round, unless a command restarts them.
pub fn not_restarted(evidence: &Evidence) -> Option<Finding> {
    let data = evidence.trials.data;
    let same = data.rounds().flat_map(|round| &round.same_servers);
    let same: BTreeSet<&str> = same.map(String::as_str).collect();
    let (text, then) = match &data.header.given.as_ref()?.restart {
        None => (
            "the servers ran before and were not restarted between rounds".to_owned(),
            "--restart COMMAND restarts them between rounds",
        ),
        Some(_) if same.is_empty() => return None,
        Some(_) => {
            let cases = joined(same, ", ");
            let text = format!("after the command of --restart the same process answered as before it: {cases}");
            (text, "let the command of --restart end the servers and start new ones")
        }
    };
    let effect = format!(
        "the ratio varies from one start of a server to the next, and the interval does not include that; {then}"
    );
    Some(doubt(text, effect))
}

/// Replies of an endpoint that are not checked byte for byte.
pub fn weak_check(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let text = trials.given(&plan.case)?.unchecked.clone()?;
    let effect = "a reply that is wrong elsewhere counts as correct, and endpoints may differ there; give --expect, or \
                  a URL whose replies stay the same";
    Some(doubt(text, effect))
}

/// An endpoint that does not keep connections.
pub fn server_closes(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let endpoint = trials.given(&plan.case).filter(|endpoint| endpoint.closes)?;
    let text = format!("{} closes the connection after each reply", endpoint.url);
    Some(note(
        text,
        "all endpoints are asked as with --reuse per-request, and the times include connecting",
    ))
}

/// An endpoint whose process was not found, or whose named process does not answer.
pub fn server_unknown(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let endpoint = trials.given(&plan.case)?;
    let text = format!("the process that answers at {} was not found", endpoint.url);
    let effect = "the CPU time of the servers is not complete, so it is not compared; run lasthop as the server's user or \
                  as root, or name the process with --pid ROLE=PID";
    (trials.count(&plan.case) > 0 && !trials.knows_server(&plan.case)).then(|| doubt(text, effect))
}
