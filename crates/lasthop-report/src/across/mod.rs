//! Reports of several runs: what changed from one to another, or all together.

mod diff;
mod fleet;
mod limits;
#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use lasthop_analyse::{
    across::{
        Ratio, Side,
        facts::{Differing, Kind},
    },
    summary::{CaseSummary, Comparison, Held, Metric, Summary, Verdict},
};
use lasthop_page::{document_markdown, document_terminal};
pub use limits::held;
use serde::Serialize;

use super::{
    Format, Options,
    content::{limits as of_limits, quantity, section, table_under_settings},
    document::{Block, Columns, Depth, Document, Section, Table, Text, Tone},
    forest::{Panel, Part, Picture, Row, directed},
    groups::{Group, groups},
    html,
    page::{figure, header},
    units::{NBSP, NONE, Seconds, plural},
    wording::Quantity,
};
use crate::text;

/// A longer list of what differs is folded.
const MANY: usize = 12;
/// Kinds of differences, in the words of a report.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Environment, "machine"),
    (Kind::Program, "programs"),
    (Kind::Setting, "settings"),
    (Kind::File, "files"),
];

/// A result of several runs.
pub trait Told: Serialize {
    fn question(&self) -> &str;
    /// What follows from it, in at most three lines.
    fn answer(&self) -> Vec<Text>;
    /// Its first section is the answer.
    fn document(&self) -> Document;
    fn panels(&self) -> Vec<Panel>;
    fn margin(&self) -> f64;
    /// How cases stand to the user's limits.
    fn limits(&self) -> &[Held];
    /// One row for each figure; the first is the header.
    fn rows(&self) -> Vec<Vec<String>>;
}

/// The report in any format but those of trials (see [`Format::is_of_trials`]), which become CSV.
#[must_use]
pub fn render(result: &impl Told, format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Terminal => document_terminal(&document(result), options),
        Format::Markdown => document_markdown(&document(result)),
        Format::Json => text::json(result),
        Format::Csv | Format::Trials | Format::Benchstat => result
            .rows()
            .iter()
            .map(|row| super::csv::line(row.iter().map(String::as_str)))
            .collect::<String>()
            .into(),
        Format::Html => page(result),
        Format::Svg => picture(result).file(),
    }
}

/// With the limits below the answer.
fn document(result: &impl Told) -> Document {
    let mut document = result.document();
    document.sections.splice(1..1, of_limits(result.limits()));
    document
}

fn picture(result: &impl Told) -> Picture {
    let Document { title, subtitle, .. } = result.document();
    let answer: Vec<String> = result.answer().iter().map(ToString::to_string).collect();
    Picture {
        title,
        subtitle: subtitle.to_string(),
        description: answer.join(" "),
        margin: result.margin(),
        panels: result.panels(),
    }
}

fn page(result: &impl Told) -> Vec<u8> {
    let Document {
        title,
        subtitle,
        sections,
    } = document(result);
    let sections: String = sections[1..].iter().map(html::section).collect();
    let head = header(result.question(), &title, &result.answer(), &subtitle);
    html::frame(
        &title,
        &(head + &figure("ratios", "Intervals", &picture(result).inline()) + &sections),
    )
}

/// The first section of a document.
fn first(answer: Vec<Text>) -> Section {
    Section {
        title: None,
        depth: Depth::Open,
        blocks: answer.into_iter().map(Block::Paragraph).collect(),
    }
}

/// `20261122-140000-sockets on vm, Linux 6.18, lasthop 0.1.0, 2026-11-22: 7 rounds, 14 blocks in 28 s`
fn side(side: &Side) -> String {
    let host = side.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    let kernel = side
        .kernel
        .as_ref()
        .map(|kernel| format!(", Linux{NBSP}{kernel}"))
        .unwrap_or_default();
    let day = side.started.split('T').next().unwrap_or_default();
    format!(
        "{}{host}{kernel}, lasthop{NBSP}{}, {day}: {}, {} in {}",
        side.run,
        side.lasthop,
        plural(u64::from(side.rounds), "round"),
        plural(u64::from(side.blocks), "block"),
        Seconds(side.seconds)
    )
}

/// What a ratio of a case by a metric is of.
fn quantity_of(group: &Group<'_>, metric: Metric) -> Quantity {
    match (metric, quantity(group)) {
        (Metric::CpuPerRequest, _) => Quantity::Cpu,
        (Metric::LatencyP50 | Metric::LatencyP99, _) => Quantity::ResponseTime,
        // Of a run in a closed loop, where the run that names the cases has an open one.
        (Metric::Throughput, Quantity::ResponseTime) => Quantity::Requests,
        (Metric::Throughput, rate) => rate,
    }
}

/// A ratio in the form that sentences and pictures take.
fn comparison(case: &str, reference: &str, metric: Metric, ratio: &Ratio, verdict: Verdict) -> Comparison {
    Comparison {
        case: case.to_owned(),
        reference: reference.to_owned(),
        metric,
        ratio: ratio.ratio,
        low: ratio.low,
        high: ratio.high,
        verdict,
        lower_bound: false,
        adjusted_p: None,
        blocks: 0,
        one_start: false,
        more_seconds: None,
        materiality: None,
        run_delay_saved: None,
    }
}

/// A table with a row for each case that `has` one, under their settings.
fn of_cases(groups: &[Group<'_>], columns: Columns, has: impl Fn(&CaseSummary) -> bool) -> Table {
    table_under_settings(groups, columns, |group| {
        group.cases.iter().filter(|case| has(case)).count()
    })
}

/// The declared ratios of all runs, those of a case under each other. `main` is the run that names the cases.
fn panels(runs: &[(&str, &Summary)], main: &Summary) -> Vec<Panel> {
    let groups = groups(main);
    let part = |group: &Group<'_>, name: &str, label: String| {
        let row = |(run, summary): &(&str, &Summary)| {
            let case = summary.cases.iter().find(|case| case.case == name)?;
            let comparison = summary.declared(case)?;
            let usable = summary.invalid(name, &comparison.reference).is_none();
            usable.then(|| Row::new((*run).to_owned(), comparison))
        };
        let heading = if group.setting.is_empty() {
            label
        } else {
            format!("{label}, {}", group.setting)
        };
        Part {
            heading,
            rows: runs.iter().filter_map(row).collect(),
        }
    };
    let of = |wanted: Quantity| {
        let groups = groups.iter().filter(|group| quantity(group) == wanted);
        let parts = groups.flat_map(|group| {
            group
                .compared()
                .map(|compared| part(group, &compared.case.case, group.label(compared.case)))
        });
        let parts: Vec<Part> = parts.filter(|part| !part.rows.is_empty()).collect();
        (!parts.is_empty()).then(|| Panel {
            title: directed(wanted, "relative to the reference"),
            parts,
        })
    };
    Quantity::DECLARED.into_iter().filter_map(of).collect()
}

/// `kernel 6.1 → 6.8`
fn differing(one: &Differing) -> String {
    let values: Vec<&str> = one
        .values
        .iter()
        .map(|value| value.as_deref().unwrap_or("none"))
        .collect();
    format!("{}: {}", one.name, values.join(" → "))
}

/// What differs between the runs besides their figures.
fn differences(all: &[Differing], cases: Vec<String>) -> Option<Section> {
    let mut blocks = Vec::new();
    for (kind, name) in KINDS {
        let found: Vec<String> = all.iter().filter(|one| one.kind == kind).map(differing).collect();
        if !found.is_empty() {
            blocks.push(Block::Item(Text::of(Tone::Strong, name)));
            blocks.extend(found.into_iter().map(|one| Block::SubItem(one.into())));
        }
    }
    let depth = if all.len() > MANY { Depth::Folded } else { Depth::Open };
    blocks.extend(cases.into_iter().map(|line| Block::Item(line.into())));
    section("What differs", depth, blocks)
}

/// What differs between so many runs: each value, and how many have it.
fn differing_in(runs: usize, all: &[Differing]) -> Option<Section> {
    const SHOWN: usize = 6;
    let line = |one: &Differing| {
        let mut counts: IndexMap<&str, usize> = IndexMap::new();
        for value in &one.values {
            *counts.entry(value.as_deref().unwrap_or("none")).or_insert(0) += 1;
        }
        if counts.len() == runs && runs > 2 {
            return format!("{}: another value in each run", one.name);
        }
        counts.sort_by(|_, one, _, other| other.cmp(one));
        let shown = counts
            .iter()
            .take(SHOWN)
            .map(|(value, count)| format!("{value} ({count})"));
        let more = counts
            .len()
            .checked_sub(SHOWN + 1)
            .map(|more| format!("{} more", more + 1));
        format!("{}: {}", one.name, shown.chain(more).collect::<Vec<_>>().join(", "))
    };
    let blocks = all.iter().map(|one| Block::Item(line(one).into())).collect();
    section("What differs", Depth::Folded, blocks)
}

/// `What differs: kernel, governor and 3 more.`
fn differences_in_short(all: &[Differing]) -> Text {
    const SHOWN: usize = 3;
    let names: Vec<&str> = all.iter().take(SHOWN).map(|one| one.name.as_str()).collect();
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 {
        format!(" and {more} more (see What differs)")
    } else {
        String::new()
    };
    let said = match names.is_empty() {
        true => "Nothing else differs that the records keep.".to_owned(),
        false => format!("What differs: {}{more}.", names.join(", ")),
    };
    Text::of(Tone::Dim, said)
}

/// Doubts that the runs have themselves.
fn doubts(runs: &[(&str, &Side)], own: Vec<Text>) -> Option<Section> {
    let of = |(name, side): &(&str, &Side)| {
        let all = side.doubts.join(", ");
        (!all.is_empty()).then(|| {
            Text::from(format!(
                "{name} has doubts of its own: {all} (lasthop report {})",
                side.run
            ))
        })
    };
    let blocks = own
        .into_iter()
        .chain(runs.iter().filter_map(of))
        .map(Block::Item)
        .collect();
    section("Doubts", Depth::Open, blocks)
}
