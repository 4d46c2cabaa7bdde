//! Requests without a correct reply.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_model::{
    quantity::{counted, joined},
    record::CasePlan,
};

use lasthop_trial::result::ErrorClass;

use super::finding::{Finding, doubt, grouped, invalid, percent};
use crate::{cases, summary::Severity, trials::Trials};

/// Share of errors above which a case is invalid.
const INVALID_SHARE: f64 = 0.001;

/// The number of errors of a case by class, each with its first example.
fn found<'a>(trials: &Trials<'a>, case: &str) -> BTreeMap<ErrorClass, (u64, &'a str)> {
    let mut found: BTreeMap<ErrorClass, (u64, &str)> = BTreeMap::new();
    for (class, error) in trials.errors(case).filter(|(_, error)| error.count > 0) {
        found.entry(*class).or_insert((0, &error.first)).0 += error.count;
    }
    found
}

/// Any errors. They never count as fast requests, but failed requests are missing from the latencies.
pub fn errors(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let found = found(trials, &plan.case);
    let errors: u64 = found.values().map(|(count, _)| count).sum();
    // Answers do not include errors, so the sum of both is the total.
    let share = errors as f64 / (errors as f64 + trials.answers(&plan.case));
    let list = found
        .iter()
        .map(|(class, (count, first))| format!("{} × {} (first: {first})", grouped(*count), cases::name_of(class)));
    let text = format!("{} of requests: {}", percent(share), joined(list, ", "));
    let is_learnt = trials.given(&plan.case).is_some_and(|endpoint| endpoint.learnt);
    let text = if is_learnt && found.contains_key(&ErrorClass::WrongContent) {
        text + "; replies are held against the first ones: if these are correct, too, use --no-reference"
    } else {
        text
    };
    (errors > 0).then(|| {
        if share > INVALID_SHARE {
            invalid(
                text,
                "more than 0.1 % of requests failed, so the figures cover only the rest",
            )
        } else {
            doubt(text, "failed requests are missing from throughput and latencies")
        }
    })
}

/// Refused connections. With a full backlog, a Unix socket refuses at once, while TCP drops the SYN and repeats it.
pub fn backlog_full(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let effect = "with a full backlog, a Unix socket refuses at once and TCP takes a second or more; compare errors \
                  and slow requests together, or raise the backlog in both cases";
    of_class(trials, plan, ErrorClass::BacklogFull, effect)
}

pub fn ports_exhausted(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let effect =
        "TCP had no local port left, so the case measures the port range and TIME_WAIT instead of the transport";
    of_class(trials, plan, ErrorClass::NoPort, effect)
}

fn of_class(trials: &Trials, plan: &CasePlan, class: ErrorClass, effect: &str) -> Option<Finding> {
    let (count, first) = found(trials, &plan.case).remove(&class)?;
    let text = format!("{} failed (first: {first})", counted(count, "connection"));
    Some(doubt(text, effect))
}

/// Share of requests sent again from which reconnects affect the upper percentiles and the throughput.
const SENT_AGAIN_SHARE: f64 = 0.02;

/// A server that ends connections during use so often that the figures include those of connecting.
pub fn sent_again(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let again = trials.sum(&plan.case, |trial| trial.result.sent_again);
    let share = again as f64 / trials.answers(&plan.case).max(1.0);
    let text = format!("{} of requests ({}) were sent again", percent(share), grouped(again));
    let effect = "the server ended their connection before it took them; their times include another connect, whose cost \
                  depends on the transport";
    (share >= SENT_AGAIN_SHARE).then(|| doubt(text, effect))
}

/// Trials without a result, in a case that otherwise works. After a failed trial, a case has no more trials in that
/// round, so that a case with many failures is measured only while it works.
pub fn failed_trials(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let failed = trials.failed(&plan.case);
    let rounds: BTreeSet<u32> = failed.iter().copied().collect();
    let worked = trials.count(&plan.case);
    let text = format!(
        "{} failed in {}, {worked} worked",
        failed.len(),
        counted(rounds.len() as u64, "round")
    );
    let effect = "what comes after in the round is left out; if trials fail under load, the rest makes the case look better \
                  than it is";
    (!failed.is_empty() && worked > 0).then(|| Finding::of(severity(rounds.len()), text, effect))
}

/// A single failure may be an accident.
fn severity(rounds: usize) -> Severity {
    if rounds > 1 { Severity::Invalid } else { Severity::Doubt }
}
