//! What a check means, wherever that is said: `docs/checks.md`, `lasthop explain-check`, and links to the former.

use lasthop_analyse::checks::known::{Known, THEMES};

use lasthop_page::markdown::address_of_check;

use super::document::{Block, Depth, Document, Section, Text, Tone};

const HEAD: &str = "\
# Checks

A check looks for one reason to distrust a result. Each finding has a stable id, its evidence with figures, and its
effect on the verdict. Reports say in a line what the worst mean for the answer, and with `--verbose` all of them with
their evidence; the JSON has them under `checks`. `lasthop explain-check ID` prints a part of this page, which
`script/generate` writes from `crates/lasthop-analyse/src/checks/known.rs`.

Severities: a **note** is worth knowing, a **doubt** weakens the result, and **invalid** means that you must not use the
case.
";

/// The page of checks, in Markdown.
#[must_use]
pub fn page() -> String {
    let theme = |(title, checks): &(&str, &[Known])| {
        let checks: String = checks.iter().map(paragraph).collect();
        format!("\n## {title}\n{checks}")
    };
    HEAD.to_owned() + &THEMES.iter().map(theme).collect::<String>()
}

fn paragraph(known: &Known) -> String {
    let mut page = format!("\n### {}\n", known.id);
    for text in sentences(known) {
        page.push('\n');
        for line in textwrap::wrap(&text, textwrap::Options::new(120).break_words(false)) {
            page.push_str(&line);
            page.push('\n');
        }
    }
    page
}

/// What it means, when it is found, and what to do.
fn sentences(known: &Known) -> Vec<String> {
    let note = known
        .note
        .map(|note| format!(" As a note: {note}."))
        .unwrap_or_default();
    vec![
        format!("{}.{note}", known.line),
        format!("Severity: {}. Found when {}", known.severity, known.found),
        format!("What to do: {}", known.advice),
    ]
}

/// What a check means, as text.
#[must_use]
pub fn of(known: &Known) -> Document {
    let blocks = sentences(known)
        .into_iter()
        .map(|text| Block::Paragraph(text.into()))
        .collect();
    Document {
        title: known.id.to_owned(),
        subtitle: Text::of(Tone::Dim, address_of_check(known.id)),
        sections: vec![Section {
            title: None,
            depth: Depth::Open,
            blocks,
        }],
    }
}

/// All checks by theme, each with the line of a report.
#[must_use]
pub fn list() -> Document {
    let section = |(title, checks): &(&str, &[Known])| {
        let item = |known: &Known| Block::Item(Text::of(Tone::Strong, known.id).plain(format!(": {}", known.line)));
        Section {
            title: Some((*title).to_owned()),
            depth: Depth::Open,
            blocks: checks.iter().map(item).collect(),
        }
    };
    Document {
        title: "Checks: what may speak against a result".to_owned(),
        subtitle: Text::of(
            Tone::Dim,
            "lasthop explain-check ID says when one is found, and what to do",
        ),
        sections: THEMES.iter().map(section).collect(),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::checks::known;

    /// Words of a statistician, which no line of a report may need.
    const STATISTICS: [&str; 8] = [
        "Holm",
        "Spearman",
        "p =",
        "p <",
        "alike",
        "ρ",
        "variance",
        "correlation",
    ];

    #[test]
    fn each_line_is_short_and_needs_neither_figures_nor_statistics() {
        for known in known::all() {
            for line in [Some(known.line), known.note].into_iter().flatten() {
                let is_plain = !line.contains(|c: char| c.is_ascii_digit() || c == '%') && !line.ends_with('.');
                assert!(is_plain && line.chars().count() <= 85, "{}: {line}", known.id);
                assert!(
                    STATISTICS.iter().all(|word| !line.contains(word)),
                    "{}: {line}",
                    known.id
                );
            }
            let ends = [known.found, known.advice].iter().all(|text| text.ends_with('.'));
            assert!(ends && !known.severity.is_empty(), "{}", known.id);
        }
    }
}
