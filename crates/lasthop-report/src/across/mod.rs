//! Reports of several runs: the changes from one to another, or all together.

mod diff;
mod fleet;
mod limits;
#[cfg(test)]
mod tests;

pub use self::{diff::change, limits::judged_limits};
use indexmap::IndexMap;
use lasthop_analyse::{
    across::{
        Side,
        facts::{Differing, FactKind},
    },
    groups::{Compared, Group, groups},
    summary::{JudgedLimit, Metric, Summary},
};
use lasthop_model::quantity::joined;
use lasthop_page::{document_markdown, document_terminal};
use serde::Serialize;

use super::{
    Format, Options,
    content::{limits as of_limits, quantity, section, untitled},
    document::{Block, Depth, Document, Section, Text, Tone},
    forest::{Panel, Picture, Row, RowGroup, directed},
    html,
    names::Named,
    page::{figure, header},
    units::{NBSP, NONE, Seconds, plural},
    wording::Quantity,
};
use crate::text;

/// The longest list of differences that is open; a longer list is folded.
const MANY: usize = 12;
/// Kinds of differences, and their names in a report.
const KINDS: [(FactKind, &str); 4] = [
    (FactKind::Environment, "machine"),
    (FactKind::Program, "programs"),
    (FactKind::Setting, "settings"),
    (FactKind::File, "files"),
];

/// A result of several runs.
pub trait Reportable: Serialize {
    fn parts(&self) -> Parts<'_>;

    /// A row for each figure.
    fn csv(&self) -> Vec<u8>;
}

/// The parts of a report.
pub struct Parts<'a> {
    question: &'a str,
    /// The conclusion, in at most three lines.
    answer: Vec<Text>,
    title: String,
    subtitle: Text,
    /// The sections after the answer.
    sections: Vec<Option<Section>>,
    panels: Vec<Panel>,
    margin: f64,
    /// Results of the user's limits.
    limits: &'a [JudgedLimit],
}

/// Renders the report. CSV takes the place of trials.
#[must_use]
pub fn render(result: &impl Reportable, format: Format, options: &Options) -> Vec<u8> {
    let mut parts = result.parts();
    match format {
        Format::Terminal => document_terminal(&parts.document(), options),
        Format::Markdown => document_markdown(&parts.document()),
        Format::Json => text::json(result),
        Format::Csv | Format::Trials => result.csv(),
        Format::Html => parts.page(),
        Format::Svg => parts.picture().file(),
    }
}

impl Parts<'_> {
    fn document(self) -> Document {
        let mut answer = self.answer.into_iter();
        let title = answer.next().unwrap_or_default();
        let besides = untitled(answer.map(Block::Paragraph).collect());
        let mut sections = self.sections.into_iter().flatten();
        let first = [of_limits(self.limits), sections.next(), besides];
        Document {
            title,
            subtitle: Text::of(Tone::Dim, format!("{} · ", self.title)).join(self.subtitle),
            sections: first.into_iter().flatten().chain(sections).collect(),
        }
    }

    fn picture(&mut self) -> Picture {
        Picture {
            title: self.title.clone(),
            subtitle: self.subtitle.to_string(),
            description: joined(self.answer.iter().map(ToString::to_string), " "),
            margin: self.margin,
            panels: std::mem::take(&mut self.panels),
        }
    }

    fn page(mut self) -> Vec<u8> {
        let head = header(self.question, &self.title, &self.answer[0], &[self.subtitle.clone()]);
        let ratios = figure("ratios", "Intervals", &self.picture().inline());
        let title = self.title.clone();
        let sections: String = self.document().sections.iter().map(html::section).collect();
        html::frame(&title, &(head + &sections + &ratios))
    }
}

/// `20261122-140000-sockets on vm, Linux 6.18, lasthop 0.1.0, 2026-11-22: 7 rounds, 14 blocks in 28 s`
fn side(side: &Side) -> String {
    let host = side.host.as_ref().map(|host| format!(" on {host}"));
    let kernel = side.kernel.as_ref().map(|kernel| format!(", Linux{NBSP}{kernel}"));
    let day = side.started.split('T').next().unwrap_or_default();
    format!(
        "{}{}{}, lasthop{NBSP}{}, {day}: {}, {} in {}",
        side.run,
        host.unwrap_or_default(),
        kernel.unwrap_or_default(),
        side.lasthop,
        plural(u64::from(side.rounds), "round"),
        plural(u64::from(side.blocks), "block"),
        Seconds(side.seconds)
    )
}

/// The quantity of a case's ratio by a metric.
fn quantity_of(group: &Group<'_>, metric: Metric) -> Quantity {
    match (metric, quantity(group)) {
        (Metric::CpuPerRequest, _) => Quantity::Cpu,
        (Metric::LatencyP50 | Metric::LatencyP99, _) => Quantity::ResponseTime,
        // A ratio of a closed loop, where the run that names the cases has an open loop.
        (Metric::Throughput, Quantity::ResponseTime) => Quantity::Requests,
        (Metric::Throughput, rate) => rate,
    }
}

/// The declared ratios of all runs, grouped by case. `main` is the run that names the cases.
fn panels(runs: &[(&str, &Summary)], main: &Summary) -> Vec<Panel> {
    let groups = groups(main);
    let part = |compared: Compared<'_>| {
        let name = &compared.case.case;
        let row = |(run, summary): &(&str, &Summary)| {
            let comparison = summary.declared(summary.case(name)?)?;
            let usable = summary.invalid(name, &comparison.reference).is_none();
            let quantity = quantity_of(compared.group, comparison.metric);
            usable.then(|| Row::of((*run).to_owned(), comparison, quantity))
        };
        let label = compared.group.label(compared.case);
        RowGroup {
            heading: in_setting(label, compared.group),
            rows: runs.iter().filter_map(row).collect(),
        }
    };
    by_quantity("relative to the reference", &Quantity::DECLARED, |wanted| {
        let groups = groups.iter().filter(|group| quantity(group) == wanted);
        let parts = groups.flat_map(Group::compared).map(part);
        parts.filter(|part| !part.rows.is_empty()).collect()
    })
}

/// A label, followed by the setting if there are several.
fn in_setting(label: String, group: &Group<'_>) -> String {
    if group.setting().is_empty() {
        label
    } else {
        format!("{label}, {}", group.setting())
    }
}

/// A panel for each quantity that has parts.
fn by_quantity(relative: &str, wanted: &[Quantity], parts: impl Fn(Quantity) -> Vec<RowGroup>) -> Vec<Panel> {
    let all = wanted.iter().map(|quantity| Panel {
        title: directed(*quantity, relative),
        parts: parts(*quantity),
    });
    all.filter(|panel| !panel.parts.is_empty()).collect()
}

/// `kernel 6.1 → 6.8`
fn differing(one: &Differing) -> String {
    let values = one.values.iter().map(|value| value.as_deref().unwrap_or("none"));
    format!("{}: {}", one.name, joined(values, " → "))
}

/// A section of the differences between runs besides their figures.
fn differences(all: &[Differing], cases: Vec<String>) -> Option<Section> {
    let mut blocks = Vec::new();
    for (kind, name) in KINDS {
        let mut found = all.iter().filter(|one| one.kind == kind).peekable();
        blocks.extend(found.peek().map(|_| Block::Item(Text::of(Tone::Strong, name))));
        blocks.extend(found.map(|one| Block::SubItem(differing(one).into())));
    }
    let depth = if all.len() > MANY { Depth::Folded } else { Depth::Open };
    blocks.extend(cases.into_iter().map(|line| Block::Item(line.into())));
    section("What differs", depth, blocks)
}

/// A section of the differences among `runs` runs: each value, and how many runs have the value.
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
        let shown = counts.iter().take(SHOWN);
        let shown = shown.map(|(value, count)| format!("{value} ({count})"));
        let more = (counts.len() > SHOWN).then(|| format!("{} more", counts.len() - SHOWN));
        format!("{}: {}", one.name, joined(shown.chain(more), ", "))
    };
    let blocks = all.iter().map(|one| Block::Item(line(one).into())).collect();
    section("What differs", Depth::Folded, blocks)
}

/// `What differs: kernel, governor and 3 more.`
fn differences_in_short(all: &[Differing]) -> Text {
    const SHOWN: usize = 3;
    let names = joined(all.iter().take(SHOWN).map(|one| one.name.as_str()), ", ");
    let said = match all.len() {
        0 => "The records show no other difference.".to_owned(),
        1..=SHOWN => format!("What differs: {names}."),
        count => format!("What differs: {names} and {} more (see What differs).", count - SHOWN),
    };
    Text::of(Tone::Dim, said)
}

/// Doubts within a run, under the run's name in the report.
fn own_doubts(name: &str, side: &Side) -> Option<Text> {
    let all = side.doubts.join(", ");
    let text = format!("{name} has doubts of its own: {all} (lasthop report {})", side.run);
    (!all.is_empty()).then(|| text.into())
}
