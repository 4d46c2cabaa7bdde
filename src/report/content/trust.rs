//! Whether to trust it: the checks that fired, by severity.

use indexmap::IndexMap;

use crate::{
    analyse::summary::{Check, Severity, Summary},
    report::{
        document::{Block, Depth, Section, Text, Tone},
        units::{Count, NBSP},
    },
};

/// More cases than this under one check are counted, not told one by one.
const MANY: usize = 3;

pub fn section(summary: &Summary) -> Option<Section> {
    let has_figures = summary.cases.iter().any(|case| case.metrics.is_some());
    if summary.checks.is_empty() {
        let none = Text::of(Tone::Dim, "None of the checks found a reason to doubt this.");
        return has_figures.then(|| super::section("Doubts", Depth::Open, vec![Block::Paragraph(none)])).flatten();
    }
    let mut kinds: IndexMap<(Severity, &str, &str), Vec<&Check>> = IndexMap::new();
    for check in &summary.checks {
        kinds.entry((check.severity, &check.id, &check.effect)).or_default().push(check);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.0.0.cmp(&a.0.0));
    let blocks = kinds.iter().map(|((severity, id, effect), checks)| Block::Item(kind(*severity, id, effect, checks)));
    let only_notes = kinds.iter().all(|((severity, ..), _)| *severity == Severity::Note);
    super::section(if only_notes { "Notes" } else { "Doubts" }, Depth::Open, blocks.collect())
}

/// A check with all cases that it fired for.
fn kind(severity: Severity, id: &str, effect: &str, checks: &[&Check]) -> Text {
    let (word, tone) = match severity {
        Severity::Invalid => ("invalid", Tone::Bad),
        Severity::Doubt => ("doubt", Tone::Warning),
        Severity::Note => ("note", Tone::Dim),
    };
    let told = if checks.len() > MANY { 1 } else { checks.len() };
    let mut seen: Vec<String> = checks[..told].iter().map(|check| evidence(check)).collect();
    if let Some(rest) = checks.get(told..).filter(|rest| !rest.is_empty()) {
        let names: Vec<&str> = rest.iter().filter_map(|check| check.case.as_deref()).collect();
        seen.push(format!("likewise {} more{NBSP}cases: {}", Count(rest.len() as u64), names.join(", ")));
    }
    let evidence = super::verdicts::sentence(&seen.join("; "));
    Text::of(tone, word)
        .and(Tone::Strong, format!(" {id}"))
        .plain(format!(": {evidence} {}", super::verdicts::sentence(effect)))
}

fn evidence(check: &Check) -> String {
    let seen = check.evidence.trim_end_matches('.');
    match &check.case {
        Some(case) => format!("{case}: {seen}"),
        None => seen.to_owned(),
    }
}
