//! The result in one line, why there is none, and what you must know before you read it.

use indexmap::IndexMap;
use lasthop_analyse::{
    groups::{Compared, Group, groups},
    summary::{CaseSummary, Summary, Verdict},
};
use lasthop_model::{
    quantity::joined,
    record::{Stage, Stopped},
};

use super::parts;
use crate::{
    document::{Block, Section, Text, Tone},
    names::{Named, compared_name, short_name},
    units::{NBSP, Seconds, capital, plural, ratio},
    wording::{self, Quantity},
};

/// An unfinished run says so first.
pub fn cut_off(summary: &Summary) -> Option<Section> {
    let why = match summary.stopped {
        _ if summary.running => "This run is still running",
        _ if !summary.complete => "This run was cut off",
        Stopped::Interrupted => "This run was interrupted",
        _ => return None,
    };
    let after = if summary.seconds > 0.0 {
        format!(" after {}", Seconds(summary.seconds))
    } else {
        String::new()
    };
    let rests = if summary.blocks == 0 {
        ", before any block was finished.".to_owned()
    } else {
        format!(
            ": the results below rest on {} in {}.",
            plural(u64::from(summary.blocks), "block"),
            plural(u64::from(summary.rounds), "round")
        )
    };
    let allowed = Seconds(summary.settings.budget_seconds);
    let text = Text::of(Tone::Warning, format!("{why}{after}")).plain(format!(" of its budget of {allowed}{rests}"));
    parts::untitled(vec![Block::Paragraph(text)])
}

/// Why nothing was compared.
pub fn why_none(summary: &Summary, groups: &[Group<'_>]) -> Option<String> {
    let Some(first) = summary.failures.first().filter(|_| is_without_result(summary)) else {
        return if is_without_result(summary) {
            Some("no case has a result.".to_owned())
        } else {
            (!groups
                .iter()
                .any(|group| group.cases.iter().any(|case| group.declared(case).is_some())))
            .then(|| without_comparison(summary, groups))
        };
    };
    let name = capital(&short_name(groups, &first.case));
    Some(format!(
        "no case has a result. {name} failed at {}, see Failures.",
        first.stage
    ))
}

fn is_without_result(summary: &Summary) -> bool {
    summary.cases.iter().all(|case| case.metrics.is_none())
}

fn without_comparison(summary: &Summary, groups: &[Group<'_>]) -> String {
    let mut heads = groups.iter().map(Group::head);
    if let Some(reference) = heads.find(|head| head.reference && head.metrics.is_none()) {
        let stage = failed_stage(summary, reference).map(|stage| format!(" at {stage}"));
        return format!(
            "{}, the reference, failed{}. The other cases were measured.",
            compared_name(summary, reference),
            stage.unwrap_or_default()
        );
    }
    if summary.cases.len() == 1 {
        return "one case was measured, so there is nothing to compare it with.".to_owned();
    }
    let mut failed = summary.cases.iter().filter(|case| case.metrics.is_none());
    match failed.find_map(|case| Some((case, failed_stage(summary, case)?))) {
        Some((case, stage)) => format!("{} failed at {stage}.", compared_name(summary, case)),
        None if summary.blocks == 1 => "one block gives no interval. Use a larger budget.".to_owned(),
        None => "no block contains both a case and its reference.".to_owned(),
    }
}

/// Stage at which a case failed first.
pub fn failed_stage<'a>(summary: &'a Summary, case: &CaseSummary) -> Option<&'a Stage> {
    let mut failures = summary.failures.iter();
    Some(&failures.find(|failure| failure.case == case.case)?.stage)
}

pub fn quantity(group: &Group<'_>) -> Quantity {
    if group.head().load.is_open() {
        Quantity::ResponseTime
    } else if group.is_bulk() {
        Quantity::Bytes
    } else if group.is_one_way() {
        Quantity::Received
    } else {
        Quantity::Requests
    }
}

/// Ends a cause with a full stop.
pub fn sentence(cause: &str) -> String {
    let cause = cause.trim_end();
    if cause.ends_with(['.', '!', '?']) {
        cause.to_owned()
    } else {
        format!("{cause}.")
    }
}

/// The verdict in a few words, for a list of runs: `unix 1.87 times tcp, tls 0.69 times`, `unix 0.53 times the median
/// time of tcp`.
#[must_use]
pub fn headline(summary: &Summary) -> String {
    let groups = groups(summary);
    let mut by_label: IndexMap<String, Vec<Option<Compared<'_>>>> = IndexMap::new();
    for group in &groups {
        for compared in group.compared() {
            let label = group.label(compared.case);
            by_label.entry(label).or_default().push(Some(compared));
        }
        for (case, _) in group.unusable() {
            by_label.entry(group.label(case)).or_default().push(None);
        }
    }
    if by_label.is_empty() {
        return if is_without_result(summary) {
            "no result"
        } else {
            "nothing compared"
        }
        .into();
    }
    let parts = by_label.iter().map(|(label, all)| match all[0] {
        _ if groups.len() > 1 => counted(label, all),
        Some(compared) => single(label, compared),
        None => format!("{label} invalid"),
    });
    joined(parts, ", ").replace(NBSP, " ")
}

fn single(label: &str, compared: Compared<'_>) -> String {
    let reference = compared.group.label(compared.reference);
    match compared.comparison.verdict {
        Verdict::Equivalent => format!("{label} equivalent to {reference}"),
        Verdict::Undecided => format!("{label} against {reference} undecided"),
        _ => {
            let of = if quantity(compared.group) == Quantity::ResponseTime {
                "the median time of "
            } else {
                ""
            };
            let ratio = ratio(compared.comparison.ratio, 2);
            format!("{label} {ratio}{NBSP}times {of}{reference}")
        }
    }
}

/// `None` is a case that must not be used.
fn counted(label: &str, all: &[Option<Compared<'_>>]) -> String {
    let verdicts = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Equivalent,
        Verdict::Undecided,
    ];
    let order = verdicts.map(|verdict| (Some(verdict), wording::word(verdict)));
    let counts = order.into_iter().chain([(None, "invalid")]);
    let counts = counts.filter_map(|(verdict, word)| {
        let count = all
            .iter()
            .filter(|one| one.map(|compared| compared.comparison.verdict) == verdict)
            .count();
        (count > 0).then(|| format!("{word} {count}/{}", all.len()))
    });
    format!("{label} {}", joined(counts, " "))
}
