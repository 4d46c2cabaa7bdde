//! Whether to trust the result: the checks that fired, by severity.

use indexmap::{IndexMap, IndexSet};

use super::parts;
use crate::{
    analyse::summary::{Check, Severity, Summary},
    report::{
        document::{Block, Depth, Section, Text, Tone},
        groups::{Group, short_name},
        units::{Count, NBSP},
    },
};

/// If a check has more findings than this, only the first is shown in full.
const MANY: usize = 3;

pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    let has_figures = summary.cases.iter().any(|case| case.metrics.is_some());
    if summary.checks.is_empty() {
        let none = Text::of(Tone::Dim, "No check found a reason to doubt this result.");
        return has_figures.then(|| parts::section("Doubts", Depth::Open, vec![Block::Paragraph(none)])).flatten();
    }
    let mut kinds: IndexMap<(Severity, &str, &str), Vec<&Check>> = IndexMap::new();
    for check in &summary.checks {
        kinds.entry((check.severity, &check.id, &check.effect)).or_default().push(check);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|((severity, ..), _)| std::cmp::Reverse(*severity));
    let only_notes = kinds.iter().all(|((severity, ..), _)| *severity == Severity::Note);
    let blocks = kinds.iter().flat_map(|((severity, id, effect), checks)| {
        let head = Block::Item(head(*severity, id, effect));
        std::iter::once(head).chain(findings(checks, groups).into_iter().flat_map(shown))
    });
    parts::section(if only_notes { "Notes" } else { "Doubts" }, Depth::Open, blocks.collect())
}

/// What a check does to the result.
fn head(severity: Severity, id: &str, effect: &str) -> Text {
    let (word, tone) = match severity {
        Severity::Invalid => ("invalid", Tone::Bad),
        Severity::Doubt => ("doubt", Tone::Warning),
        Severity::Note => ("note", Tone::Dim),
    };
    Text::of(tone, word).and(Tone::Strong, format!(" {id}")).plain(format!(": {}", fragment(effect)))
}

/// No line ends between a number and its sign.
fn unbroken(evidence: &str) -> String {
    evidence.replace(" %", &format!("{NBSP}%")).replace("p = ", &format!("p{NBSP}={NBSP}"))
}

/// The evidence for each case for which the check fired.
fn findings(checks: &[&Check], groups: &[Group<'_>]) -> Vec<String> {
    let name = |check: &Check| check.case.as_deref().map(|case| short_name(groups, case));
    let told = if checks.len() > MANY { 1 } else { checks.len() };
    let mut findings: Vec<String> = checks[..told]
        .iter()
        .map(|check| match name(check) {
            Some(case) => format!("{case}: {}", unbroken(fragment(&check.evidence))),
            None => unbroken(fragment(&check.evidence)),
        })
        .collect();
    // A case may have the finding for each metric.
    let shown: IndexSet<String> = checks[..told].iter().filter_map(|check| name(check)).collect();
    let rest: IndexSet<String> = checks[told..].iter().filter_map(|check| name(check)).collect();
    let others: Vec<&str> = rest.difference(&shown).map(String::as_str).collect();
    if !others.is_empty() {
        findings.push(format!("the same for {}{NBSP}more: {}", Count(others.len() as u64), others.join("; ")));
    }
    findings
}

/// A finding whose further lines, such as those of a difference of two files, stay lines.
fn shown(finding: String) -> impl Iterator<Item = Block> {
    let (first, rest) = match finding.split_once('\n') {
        Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
        None => (finding, None),
    };
    let rest = rest.map(|tail| Block::Log { tail, file: None });
    std::iter::once(Block::SubItem(first.into())).chain(rest)
}

fn fragment(text: &str) -> &str {
    text.trim().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_of_several_lines_stays_so() {
        let blocks: Vec<Block> = shown("differs, first:\n-a\n+b".to_owned()).collect();
        assert_eq!(
            blocks,
            [Block::SubItem("differs, first:".to_owned().into()), Block::Log { tail: "-a\n+b".to_owned(), file: None }]
        );
        assert_eq!(shown("one line".to_owned()).collect::<Vec<_>>(), [Block::SubItem("one line".to_owned().into())]);
    }
}
