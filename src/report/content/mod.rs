//! What a report for people says, in the order of the design: verdict, table, does it matter, why, doubts, failures,
//! environment. One file per part; the format comes later.

mod derived;
mod environment;
mod failures;
mod figures;
mod matter;
mod paths;
mod run_delay;
mod trust;
mod verdicts;
mod why;

pub use verdicts::headline;

use lasthop_load::spec::Arrivals;

use super::{
    document::{Depth, Document, Row, Section, Text, Tone},
    groups::{Group, constants, groups, transport_name},
    units::{NBSP, Seconds, plural, rate_text},
    wording::Terms,
};
use crate::analyse::summary::{CaseSummary, Summary};

/// The document that a summary amounts to.
#[must_use]
pub fn document(summary: &Summary) -> Document {
    let groups = groups(summary);
    let sections = [
        verdicts::section(summary, &groups),
        figures::section(&groups),
        derived::section(summary),
        figures::cost_section(&groups),
        matter::section(summary, &groups),
        why::section(&groups),
        paths::section(&groups),
        trust::section(summary, &groups),
        failures::section(summary, &groups),
        figures::comparison_section(summary),
        environment::section(summary),
        environment::detail(summary),
    ];
    Document {
        title: format!("{}: {}", summary.experiment, summary.title),
        subtitle: subtitle(summary),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// What was measured, in one line: the link, what all cases share, how much data there is.
fn subtitle(summary: &Summary) -> Text {
    let shared = [format!("{} → {}", summary.link.from, summary.link.to), constants(summary), pace(summary)];
    let shared: Vec<String> = shared.into_iter().filter(|part| !part.is_empty()).collect();
    let resumed = match summary.resumed.len() {
        0 => String::new(),
        1 => ", resumed once".to_owned(),
        times => format!(", resumed {times} times"),
    };
    let amount = format!(
        "{}, {} in {}{resumed}",
        plural(u64::from(summary.rounds), "round"),
        plural(u64::from(summary.blocks), "block"),
        Seconds(summary.seconds)
    );
    Text::of(Tone::Dim, format!("{} · {amount}", shared.join(", ")))
}

/// The rate that all cases share; those that differ stand in the table.
fn pace(summary: &Summary) -> String {
    let mut loads = summary.cases.iter().map(|case| &case.load);
    let Some(first) = loads.next().filter(|load| load.is_open()) else { return String::new() };
    let arrivals = match first.arrivals {
        Some(Arrivals::Poisson) => "Poisson",
        _ => "constant",
    };
    let same = loads.all(|load| (load.rate, load.arrivals) == (first.rate, first.arrivals));
    match first.rate.filter(|_| same) {
        Some(rate) => format!("open loop at {}{NBSP}requests/s, {arrivals} arrivals", rate_text(rate)),
        None => String::new(),
    }
}

fn terms(summary: &Summary) -> Terms {
    Terms {
        margin: summary.settings.margin,
        confidence: summary.settings.confidence,
        spent: summary.seconds,
        budget: summary.settings.budget_seconds,
    }
}

fn section(title: &str, depth: Depth, blocks: Vec<super::document::Block>) -> Option<Section> {
    let title = Some(title.to_owned());
    (!blocks.is_empty()).then_some(Section { title, depth, blocks })
}

/// Rows of several groups, each under its setting.
fn under_settings<'a>(groups: &[&Group<'a>], mut rows: impl FnMut(&Group<'a>) -> Vec<Row>) -> Vec<Row> {
    let mut all = Vec::new();
    for group in groups {
        let rows = rows(group);
        if !group.setting.is_empty() && !rows.is_empty() {
            all.push(Row::Group(group.setting.clone()));
        }
        all.extend(rows);
    }
    all
}

/// Title of the column that names the cases.
fn case_title(summary: &Summary) -> &'static str {
    if summary.aa { "case" } else { super::groups::compared_factor(summary) }
}

/// A case by its full name, for text that stands alone: transport and setting.
fn full_name(group: &Group<'_>, case: &CaseSummary) -> String {
    let name = group.name(case);
    if group.setting.is_empty() { name } else { format!("{name} ({})", group.setting) }
}

/// Transport of a case in words.
fn transport(case: &CaseSummary) -> &str {
    super::groups::compared_level(case).map_or(case.case.as_str(), |level| transport_name(level))
}
