//! Whether to trust the result: a line for each fired check with its meaning for the answer, and the evidence.

use std::cmp::Reverse;

use indexmap::{IndexMap, IndexSet};
use lasthop_analyse::{
    checks::known::CheckMeaning,
    groups::Group,
    summary::{Check, Severity, Summary},
};
use lasthop_model::quantity::joined;

use super::parts;
use crate::{
    document::{Block, Depth, Section, Text, Tone},
    names::short_name,
    units::{Count, NBSP, plural},
};

/// The most doubts in the brief list, which always has unusable results.
const SHOWN: usize = 3;
/// The most findings of a check that are all shown in full. If there are more, only the first is shown in full.
const MANY: usize = 3;

/// The findings of a check that are equally severe.
struct CheckFindings<'a> {
    severity: Severity,
    id: &'a str,
    findings: Vec<&'a Check>,
}

/// Kinds of findings, the most severe first, then by the importance of the subject.
fn check_findings(summary: &Summary) -> Vec<CheckFindings<'_>> {
    let mut found: IndexMap<(Severity, &str), Vec<&Check>> = IndexMap::new();
    for check in &summary.checks {
        found.entry((check.severity, &check.id)).or_default().push(check);
    }
    let kinds = found.into_iter();
    let mut kinds: Vec<CheckFindings> = kinds
        .map(|((severity, id), findings)| CheckFindings { severity, id, findings })
        .collect();
    kinds.sort_by_key(|kind| Reverse(kind.severity));
    kinds
}

fn title(kinds: &[CheckFindings<'_>]) -> &'static str {
    if kinds.iter().all(|kind| kind.severity == Severity::Note) {
        "Notes"
    } else {
        "Doubts"
    }
}

/// The meaning of the most severe findings for the answer. Notes are only counted, unless there is nothing else or an
/// option requests them.
pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    let kinds = check_findings(summary);
    if kinds.is_empty() {
        let has_figures = summary.cases.iter().any(|case| case.metrics.is_some());
        let none = Block::legend("No check found a reason to doubt this result.");
        return parts::section("Doubts", Depth::Open, vec![none]).filter(|_| has_figures);
    }
    let title = title(&kinds);
    let only_notes = title == "Notes";
    let mut left = SHOWN;
    let (shown, rest): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|kind| {
        let fits = (only_notes || kind.severity > Severity::Note) && left > 0;
        left -= usize::from(fits);
        fits || kind.severity == Severity::Invalid || CheckMeaning::of(kind.id).is_some_and(|known| known.asked)
    });
    let lines = shown.iter().map(|kind| Block::Item(line(kind, summary, groups)));
    let rest = counted(&rest, only_notes);
    parts::section(title, Depth::Brief, lines.chain(rest).collect())
}

/// `unix (hello): Requests failed; the figures are those of the others (errors)`
fn line(kind: &CheckFindings<'_>, summary: &Summary, groups: &[Group<'_>]) -> Text {
    let mut cases: Vec<_> = kind.findings.iter().map(|check| check.case.as_deref()).collect();
    cases.dedup();
    let only = match cases[..] {
        [Some(case)] if summary.cases.len() > 1 => Some(short_name(groups, case)),
        _ => None,
    };
    let begin = if kind.severity == Severity::Invalid {
        let case = only.map(|case| case + " ").unwrap_or_default();
        Text::from(case).and(Tone::Bad, "must not be used").plain(": ")
    } else {
        only.map(|case| case + ": ").unwrap_or_default().into()
    };
    let is_evident = CheckMeaning::of(kind.id).is_some_and(|known| known.evident);
    let found = kind.findings.iter().map(|check| unbroken(fragment(&check.evidence)));
    let found: IndexSet<String> = found.filter(|_| is_evident).collect();
    begin
        .plain(meaning(kind))
        .plain(if is_evident { ": " } else { "" })
        .plain(joined(found, "; "))
        .plain(" (")
        .and(led(kind.id, Tone::Check), kind.id)
        .plain(")")
}

/// A link to the check, unless it is unknown: a record of another version may have other checks.
fn led(id: &str, tone: Tone) -> Tone {
    if CheckMeaning::of(id).is_some() {
        tone
    } else {
        Tone::Strong
    }
}

fn meaning<'a>(kind: &CheckFindings<'a>) -> &'a str {
    match CheckMeaning::of(kind.id) {
        Some(known) => known.meaning(kind.severity),
        None => fragment(&kind.findings[0].effect),
    }
}

/// `and 2 more doubts and 1 note`
fn counted(rest: &[CheckFindings<'_>], only_notes: bool) -> Option<Block> {
    let notes = rest.iter().filter(|kind| kind.severity == Severity::Note).count();
    let counts = [
        (rest.len() - notes, "more doubt"),
        (notes, if only_notes { "more note" } else { "note" }),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let said = joined(counts.map(|(count, word)| plural(count as u64, word)), " and ");
    (!said.is_empty()).then(|| Block::Rest(format!("and {said}").into()))
}

/// All findings with their effects and figures.
pub fn evidence(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    let kinds = check_findings(summary);
    let title = format!("{} with evidence", title(&kinds));
    let mut blocks = Vec::new();
    for kind in &kinds {
        blocks.push(Block::Item(head(kind)));
        let mut effects: IndexMap<&str, Vec<&Check>> = IndexMap::new();
        for check in &kind.findings {
            effects.entry(fragment(&check.effect)).or_default().push(check);
        }
        for (effect, checks) in effects {
            if effect != meaning(kind) {
                blocks.push(Block::SubItem(effect.into()));
            }
            blocks.extend(findings(&checks, groups).into_iter().flat_map(shown));
        }
    }
    parts::section(&title, Depth::Folded, blocks)
}

/// The effect of a check on the result.
fn head(kind: &CheckFindings<'_>) -> Text {
    let (word, tone) = match kind.severity {
        Severity::Invalid => ("invalid", Tone::Bad),
        Severity::Doubt => ("doubt", Tone::Warning),
        Severity::Note => ("note", Tone::Dim),
    };
    Text::of(tone, word)
        .plain(" ")
        .and(led(kind.id, Tone::Told), kind.id)
        .plain(format!(": {}", meaning(kind)))
}

/// Evidence with no-break spaces between numbers and their signs.
fn unbroken(evidence: &str) -> String {
    evidence
        .replace(" %", &format!("{NBSP}%"))
        .replace("p = ", &format!("p{NBSP}={NBSP}"))
}

/// The evidence for each case with a finding of the check.
fn findings(checks: &[&Check], groups: &[Group<'_>]) -> Vec<String> {
    let name = |check: &Check| check.case.as_deref().map(|case| short_name(groups, case));
    let (told, rest) = checks.split_at(if checks.len() > MANY { 1 } else { checks.len() });
    let mut findings: Vec<String> = told
        .iter()
        .map(|check| {
            let evidence = unbroken(fragment(&check.evidence));
            name(check).map_or(String::new(), |case| case + ": ") + &evidence
        })
        .collect();
    // A case may have a finding for each metric.
    let names = |checks: &[&Check]| {
        checks
            .iter()
            .filter_map(|check| name(check))
            .collect::<IndexSet<String>>()
    };
    let told = names(told);
    let rest = names(rest);
    let others: Vec<&str> = rest.difference(&told).map(String::as_str).collect();
    if !others.is_empty() {
        findings.push(format!(
            "the same for {}{NBSP}more: {}",
            Count(others.len() as u64),
            others.join("; ")
        ));
    }
    findings
}

/// A finding as blocks that keep its further lines, such as those of a diff of two files.
fn shown(finding: String) -> impl Iterator<Item = Block> {
    let (first, rest) = finding.split_once('\n').unwrap_or((&finding, ""));
    let rest = (!rest.is_empty()).then(|| Block::Log {
        tail: rest.to_owned(),
        file: None,
    });
    std::iter::once(Block::SubItem(first.into())).chain(rest)
}

fn fragment(text: &str) -> &str {
    text.trim().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_analyse::groups::groups;

    use crate::fixtures;

    fn check(id: &str, severity: Severity, case: Option<&str>) -> Check {
        let id = id.to_owned();
        let case = case.map(str::to_owned);
        Check {
            id,
            severity,
            case,
            evidence: "it was 12.3 %".to_owned(),
            effect: "p = 0.01 after Holm".to_owned(),
        }
    }

    /// Lines of the brief list for these findings.
    fn listed(found: &[(&str, Severity)]) -> Vec<String> {
        let mut summary = fixtures::three_transports();
        summary.checks = found.iter().map(|(id, severity)| check(id, *severity, None)).collect();
        let section = section(&summary, &groups(&summary)).unwrap();
        let line = |block: &Block| match block {
            Block::Item(text) | Block::Rest(text) | Block::Paragraph(text) => text.to_string().replace(NBSP, " "),
            other => panic!("{other:?}"),
        };
        std::iter::once(section.title.unwrap())
            .chain(section.blocks.iter().map(line))
            .collect()
    }

    #[test]
    fn the_worst_are_listed_and_the_rest_is_counted() {
        let note = Severity::Note;
        let doubt = Severity::Doubt;
        let invalid = Severity::Invalid;
        let doubts = ["headroom", "steal", "drift", "late", "pause"].map(|id| (id, doubt));
        let notes = [("governor", note), ("process-luck", note)];
        let all = listed(&[notes.to_vec(), doubts.to_vec(), vec![("errors", invalid)]].concat());
        assert_eq!(all.len(), 5, "{all:#?}");
        assert_eq!(
            all[1],
            "must not be used: Requests failed; the figures are those of the others (errors)"
        );
        assert!(
            all[2].ends_with("(headroom)") && all[3].ends_with("(steal)"),
            "{all:#?}"
        );
        assert_eq!(all[4], "and 3 more doubts and 2 notes");
        assert!(
            !all.concat().contains("Holm") && !all.concat().contains("12.3"),
            "{all:#?}"
        );
        let four = ["errors", "no-interval", "rate-not-reached", "load-not-over-link"].map(|id| (id, invalid));
        assert_eq!(
            listed(&[&four[..], &doubts[..1]].concat())[5],
            "and 1 more doubt",
            "what is invalid is never left out"
        );
        assert_eq!(listed(&doubts[..3]).len(), 4);
    }

    #[test]
    fn notes_are_listed_where_there_is_nothing_else_or_an_option_asked() {
        let notes = ["governor", "process-luck", "position", "resumed"].map(|id| (id, Severity::Note));
        let alone = listed(&notes);
        assert_eq!((alone.len(), &*alone[0], &*alone[4]), (5, "Notes", "and 1 more note"));
        let asked = listed(&[
            ("steal", Severity::Doubt),
            notes[0],
            ("cross-check-agrees", Severity::Note),
        ]);
        assert_eq!(
            asked[2..],
            [
                "The other load generator finds the same (cross-check-agrees)",
                "and 1 note"
            ]
        );
    }

    #[test]
    fn a_single_case_is_named() {
        let mut summary = fixtures::three_transports();
        let said = |summary: &Summary, id| {
            let kind = &check_findings(summary)[0];
            assert_eq!(kind.id, id);
            line(kind, summary, &groups(summary)).to_string()
        };
        let [first, second] = [0, 1].map(|at| summary.cases[at].case.clone());
        summary.checks = vec![check("headroom", Severity::Doubt, Some(&first))];
        assert!(
            said(&summary, "headroom").starts_with("unix: The servers"),
            "{}",
            said(&summary, "headroom")
        );
        summary.checks.push(check("headroom", Severity::Doubt, Some(&second)));
        assert!(said(&summary, "headroom").starts_with("The servers"));
    }

    #[test]
    fn a_check_of_another_version_leads_nowhere() {
        let mut summary = fixtures::three_transports();
        summary.checks = vec![check("](http://x)", Severity::Doubt, None)];
        let line = line(&check_findings(&summary)[0], &summary, &groups(&summary));
        assert_eq!(line.to_string(), "p = 0.01 after Holm (](http://x))");
        assert!(line.0.iter().all(|(tone, _)| *tone != Tone::Check), "{line:?}");
    }

    #[test]
    fn a_finding_of_several_lines_stays_so() {
        let blocks: Vec<Block> = shown("differs, first:\n-a\n+b".to_owned()).collect();
        assert_eq!(
            blocks,
            [
                Block::SubItem("differs, first:".to_owned().into()),
                Block::Log {
                    tail: "-a\n+b".to_owned(),
                    file: None
                }
            ]
        );
        assert_eq!(
            shown("one line".to_owned()).collect::<Vec<_>>(),
            [Block::SubItem("one line".to_owned().into())]
        );
    }
}
