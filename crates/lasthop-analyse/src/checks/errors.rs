//! Requests that got no right answer.

use lasthop_model::quantity::counted;

use super::finding::{Evidence, grouped, of_case, percent};
use crate::{
    cases,
    summary::{Check, Severity},
};

/// A case with a larger share of errors than this is invalid.
const INVALID_SHARE: f64 = 0.001;

/// Errors of a case by class, with the first example of each.
fn found(evidence: &Evidence, case: &str) -> Vec<(String, u64, String)> {
    let trials = evidence.trials;
    let first = |class: &str| {
        let mut errors = trials
            .every()
            .filter(|trial| trial.case == case)
            .flat_map(|trial| &trial.result.errors);
        errors
            .find(|(found, _)| cases::name_of(**found) == class)
            .map(|(_, error)| error.first.clone())
    };
    let errors = cases::errors(trials, case).into_iter().filter(|(_, count)| *count > 0);
    errors
        .map(|(class, count)| (class.clone(), count, first(&class).unwrap_or_default()))
        .collect()
}

/// Any error. Errors are never counted as fast requests, but failed requests are missing from the latencies.
pub fn errors(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let found = found(evidence, case);
        let errors: u64 = found.iter().map(|error| error.1).sum();
        let answers: f64 = trials.of(case).map(crate::trials::served).sum();
        let share = errors as f64 / (errors as f64 + answers);
        let list: Vec<String> = found
            .iter()
            .map(|(class, count, first)| format!("{} × {class} (first: {first})", grouped(*count)))
            .collect();
        let text = format!("{} of requests: {}", percent(share), list.join(", "));
        let (severity, effect) = if share > INVALID_SHARE {
            (
                Severity::Invalid,
                "more than 0.1 % of requests failed, so the figures cover only the rest",
            )
        } else {
            (
                Severity::Doubt,
                "failed requests are missing from throughput and latencies",
            )
        };
        (errors > 0).then(|| of_case("errors", severity, case, text, effect))
    };
    trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}

/// With a full backlog, a Unix socket refuses at once, while TCP drops the SYN and repeats it.
pub fn backlog_full(evidence: &Evidence) -> Vec<Check> {
    let effect = "with a full backlog, a Unix socket refuses at once and TCP takes a second or more; compare errors \
                  and slow requests together, or raise the backlog in both cases";
    of_class(evidence, "backlog-full", "backlog-full", effect)
}

pub fn ports_exhausted(evidence: &Evidence) -> Vec<Check> {
    let effect =
        "TCP had no local port left, so the case measures the port range and TIME_WAIT instead of the transport";
    of_class(evidence, "no-port", "ports-exhausted", effect)
}

fn of_class(evidence: &Evidence, class: &str, id: &str, effect: &str) -> Vec<Check> {
    let check = |case: &str| {
        let (_, count, first) = found(evidence, case).into_iter().find(|error| error.0 == class)?;
        Some(of_case(
            id,
            Severity::Doubt,
            case,
            format!("{} failed (first: {first})", counted(count, "connection")),
            effect,
        ))
    };
    evidence
        .trials
        .cases()
        .iter()
        .filter_map(|plan| check(&plan.case))
        .collect()
}

/// Trials without a result, in a case that otherwise works.
pub fn failed_trials(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let (failed, worked) = (trials.failed(case), trials.count(case));
        let text = format!("{failed} failed, {worked} worked");
        let effect =
            "those blocks are left out; if trials fail under load, the rest makes the case look better than it is";
        (failed > 0 && worked > 0).then(|| of_case("failed-trials", Severity::Doubt, case, text, effect))
    };
    trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}
