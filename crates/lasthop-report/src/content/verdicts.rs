//! Reasons for a missing result, and warnings to read before a result.

use lasthop_analyse::{
    groups::Group,
    summary::{CaseSummary, Summary},
};
use lasthop_model::{
    quantity::{budget_of, written},
    record::{Stage, Stopped},
};
use lasthop_stats::stopping::LEAST_BLOCKS;

use super::parts;
use crate::{
    document::{Block, Cell, Section, Text, Tone},
    names::{compared_name, short_name},
    units::{NBSP, Seconds, capital, plural},
    wording::Quantity,
};

/// A warning that the run is unfinished.
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
    let is_like_first = |case: &CaseSummary| failed_stage(summary, case) == Some(&first.stage);
    let name = if summary.cases.len() > 1 && summary.cases.iter().all(is_like_first) {
        "Each case".to_owned()
    } else {
        capital(&short_name(groups, &first.case))
    };
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
        None if summary.blocks == 1 => format!(
            "one block gives no interval. Use a larger budget (--budget{NBSP}{}).",
            written(budget_of(summary.seconds * LEAST_BLOCKS as f64))
        ),
        None => "no block contains both a case and its reference.".to_owned(),
    }
}

/// The stage of a case's first failure.
pub fn failed_stage<'a>(summary: &'a Summary, case: &CaseSummary) -> Option<&'a Stage> {
    let mut failures = summary.failures.iter();
    Some(&failures.find(|failure| failure.case == case.case)?.stage)
}

/// Words that replace the figures of a case without any.
pub fn without_figures(summary: &Summary, case: &CaseSummary) -> Cell {
    let failed = failed_stage(summary, case).map(|stage| format!("failed at {stage}"));
    Cell::new(Tone::Bad, failed.unwrap_or_else(|| "not measured".to_owned()))
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
