//! Requests without a correct reply.

use std::collections::BTreeSet;

use lasthop_model::{
    quantity::{counted, joined},
    record::CasePlan,
};

use lasthop_trial::result::ErrorClass;

use super::finding::{Finding, doubt, grouped, invalid, percent};
use crate::{cases, summary::Severity, trials::Trials};

/// Share of errors above which a case is invalid.
const INVALID_SHARE: f64 = 0.001;

/// Errors of a case by class, each with its first example.
fn found(trials: &Trials, case: &str) -> Vec<(String, u64, String)> {
    let first = |class: &str| {
        let mut errors = trials
            .errors(case)
            .filter(|(found, _)| cases::name_of(**found) == class);
        errors.next().map(|(_, error)| error.first.clone())
    };
    let errors = cases::errors(trials, case).into_iter().filter(|(_, count)| *count > 0);
    errors
        .map(|(class, count)| (class.clone(), count, first(&class).unwrap_or_default()))
        .collect()
}

/// Any errors. They never count as fast requests, but failed requests are missing from the latencies.
pub fn errors(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let found = found(trials, &plan.case);
    let errors: u64 = found.iter().map(|error| error.1).sum();
    // Answers do not include errors, so the sum of both is the total.
    let share = errors as f64 / (errors as f64 + trials.answers(&plan.case));
    let list = found
        .iter()
        .map(|(class, count, first)| format!("{} × {class} (first: {first})", grouped(*count)));
    let text = format!("{} of requests: {}", percent(share), joined(list, ", "));
    let is_learnt = trials.given(&plan.case).is_some_and(|endpoint| endpoint.learnt);
    let wrong_content = cases::name_of(ErrorClass::WrongContent);
    let text = if is_learnt && found.iter().any(|(class, _, _)| *class == wrong_content) {
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
    of_class(trials, plan, "backlog-full", effect)
}

pub fn ports_exhausted(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let effect =
        "TCP had no local port left, so the case measures the port range and TIME_WAIT instead of the transport";
    of_class(trials, plan, "no-port", effect)
}

fn of_class(trials: &Trials, plan: &CasePlan, class: &str, effect: &str) -> Option<Finding> {
    let all = found(trials, &plan.case);
    let (_, count, first) = all.into_iter().find(|error| error.0 == class)?;
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
