//! The meaning of checks for `docs/checks.md`, `lasthop report --check`, and links to `docs/checks.md`.

use lasthop_analyse::checks::known::{CheckMeaning, THEMES};

use lasthop_page::markdown::address_of_check;

use super::{
    content::{section, untitled},
    document::{Block, Depth, Document, Text, Tone},
};

const HEAD: &str = "\
# Checks

Each check looks for one reason to distrust a result. A **note** is worth knowing, a **doubt** weakens the result, and
an **invalid** case must not be used. Reports have the evidence with `--verbose`, and the JSON under `checks`. `lasthop
report --check ID` prints an entry.
";

/// The page of checks, in Markdown.
#[must_use]
pub fn page() -> String {
    HEAD.to_owned()
        + &THEMES
            .iter()
            .map(|(title, checks): &(&str, &[CheckMeaning])| {
                let checks: String = checks.iter().map(paragraph).collect();
                format!("\n## {title}\n{checks}")
            })
            .collect::<String>()
}

fn paragraph(known: &CheckMeaning) -> String {
    let options = textwrap::Options::new(120).break_words(false);
    let filled = sentences(known)
        .into_iter()
        .map(|text| format!("\n{}\n", textwrap::fill(&text, &options)));
    format!("\n### {}\n{}", known.id, filled.collect::<String>())
}

/// The meaning of a check, the condition of a finding, and the advice.
fn sentences(known: &CheckMeaning) -> Vec<String> {
    let note = known.note.map(|note| format!(" As a note: {note}."));
    vec![
        format!("{}.{}", known.line, note.unwrap_or_default()),
        format!("{}: {}", known.severity, known.found),
        known.advice.to_owned(),
    ]
}

/// The meaning of a check, as text.
#[must_use]
pub fn check(known: &CheckMeaning) -> Document {
    let blocks = sentences(known).into_iter().map(|text| Block::Paragraph(text.into()));
    Document {
        title: Text::of(Tone::Strong, known.id),
        subtitle: Text::of(Tone::Dim, address_of_check(known.id)),
        sections: untitled(blocks.collect()).into_iter().collect(),
    }
}

/// All checks by theme, each with its line of a report.
#[must_use]
pub fn list() -> Document {
    let theme = |(title, checks): &(&str, &[CheckMeaning])| {
        let item =
            |known: &CheckMeaning| Block::Item(Text::of(Tone::Strong, known.id).plain(format!(": {}", known.line)));
        section(title, Depth::Open, checks.iter().map(item).collect())
    };
    Document {
        title: Text::of(Tone::Strong, "Checks: what may speak against a result"),
        subtitle: Text::of(
            Tone::Dim,
            "lasthop report --check ID says when one is found, and what to do",
        ),
        sections: THEMES.iter().filter_map(theme).collect(),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::checks::known;

    /// Terms of statistics that no line of a report may need.
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
