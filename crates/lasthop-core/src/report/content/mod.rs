//! What a report for people says, in this order: verdict, table, does it matter, why, doubts, failures,
//! environment. One file per part; the format comes later.

mod derived;
mod environment;
mod failures;
mod figures;
mod matter;
mod parts;
mod paths;
mod run_delay;
mod trust;
mod verdicts;
mod why;

use lasthop_load::spec::Arrivals;
pub use verdicts::headline;

use super::{
    document::{Document, Text, Tone},
    groups::{constants, groups},
    units::{NBSP, Seconds, plural, rate_text},
};
use crate::analyse::summary::Summary;

/// Turns a summary into a document.
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

/// What was measured, in one line: the link, what all cases share, and how much data there is.
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

/// The rate, if all cases share it. Otherwise the table shows each.
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
