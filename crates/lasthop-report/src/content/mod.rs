//! The content of a report for people, in this order: answer, table, does it matter, why, doubts, failures,
//! environment. Each part has a file; formats are applied later.

mod derived;
mod environment;
mod failures;
mod figures;
mod layers;
mod limits;
mod matter;
mod overload;
mod parts;
mod paths;
mod published;
mod reading;
mod trust;
mod verdicts;
mod why;

pub use environment::{conditions, origin};
use indexmap::IndexMap;
use lasthop_analyse::{groups::groups, summary::Summary};
use lasthop_model::{
    quantity::{joined, rate_text},
    record::Environment,
};
use lasthop_trial::options::Arrivals;
pub use layers::in_words as layers_in_words;
pub use limits::limits;
pub use parts::{case_title, full_name, section, untitled};
pub use reading::the;
pub use verdicts::{failed_stage, quantity};

use super::{
    document::{Block, Document, Section, Text, Tone},
    names::constants,
    units::{NBSP, Seconds, plural},
};

/// A part of a report, in the order of reports as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionId {
    CutOff,
    Answer,
    Besides,
    Limits,
    Figures,
    Derived,
    Cost,
    Matter,
    Why,
    Paths,
    Trust,
    Evidence,
    Failures,
    Comparisons,
    Environment,
    Detail,
}

/// The parts of a report that are not empty.
#[must_use]
pub fn sections(summary: &Summary) -> IndexMap<SectionId, Section> {
    let groups = groups(summary);
    let conditions = summary.environment.as_ref().and_then(conditions).map(Block::legend);
    let (answer, besides): (Vec<Block>, Vec<Block>) = match &summary.overload {
        Some(found) => {
            let said = overload::answer(&groups, found).into_iter();
            (said.chain(conditions).collect(), vec![])
        }
        None => {
            let table = reading::table(summary, &groups);
            let explained = table.iter().flat_map(|_| figures::explained(&groups));
            let besides = reading::besides(summary, &groups).chain(explained);
            let published = published::line(summary, &groups).map(Block::legend);
            let besides = besides.chain(conditions).chain(published).collect();
            let tables = table.into_iter().chain(derived::brief(summary));
            (tables.map(Block::Table).collect(), besides)
        }
    };
    let all = [
        (SectionId::CutOff, verdicts::cut_off(summary)),
        (SectionId::Answer, parts::untitled(answer)),
        (SectionId::Besides, parts::untitled(besides)),
        (SectionId::Limits, limits(&summary.limits)),
        (
            SectionId::Figures,
            match &summary.overload {
                Some(found) => overload::section(&groups, found),
                None => figures::section(&groups),
            },
        ),
        (SectionId::Derived, derived::section(summary)),
        (SectionId::Cost, figures::cost_section(&groups)),
        (SectionId::Matter, matter::section(summary, &groups)),
        (SectionId::Why, why::section(&groups)),
        (SectionId::Paths, paths::section(&groups)),
        (SectionId::Trust, trust::section(summary, &groups)),
        (SectionId::Evidence, trust::evidence(summary, &groups)),
        (SectionId::Failures, failures::section(summary, &groups)),
        (SectionId::Comparisons, figures::comparison_section(summary)),
        (SectionId::Environment, environment::section(summary)),
        (SectionId::Detail, environment::detail(summary)),
    ];
    let known = all.into_iter().filter_map(|(part, section)| Some((part, section?)));
    known.collect()
}

/// The advice and further sentences: at least one line.
#[must_use]
pub fn answer(summary: &Summary) -> Vec<Text> {
    match &summary.overload {
        Some(found) => vec![overload::advice(&groups(summary), found)],
        None => reading::lines(summary),
    }
}

/// The advice in a line; for a run with overload, its result.
#[must_use]
pub fn advice(summary: &Summary) -> Text {
    match &summary.overload {
        Some(found) => overload::advice(&groups(summary), found),
        None => reading::advice(summary),
    }
}

/// The result in a line.
#[must_use]
pub fn headline(summary: &Summary) -> String {
    match &summary.overload {
        Some(found) => overload::advice(&groups(summary), found).to_string().replace(NBSP, " "),
        None => reading::headline(summary),
    }
}

/// Turns a summary into a document.
#[must_use]
pub fn document(summary: &Summary) -> Document {
    Document {
        title: advice(summary),
        subtitle: Text::of(Tone::Dim, format!("{} · ", title(summary))).join(subtitle(summary)),
        sections: sections(summary).into_values().collect(),
    }
}

#[must_use]
pub fn title(summary: &Summary) -> String {
    format!("{}: {}", summary.experiment, summary.title)
}

/// The subject of the measurement in a line: the link, settings that all cases share, and the amount of data.
#[must_use]
pub fn subtitle(summary: &Summary) -> Text {
    let shared = [
        format!("{} → {}", summary.link.from, summary.link.to),
        constants(summary),
        pace(summary),
        engine(summary),
    ];
    let shared = joined(shared.into_iter().filter(|part| !part.is_empty()), ", ");
    let resumed = match summary.resumed.len() {
        0 => String::new(),
        1 => ", resumed once".to_owned(),
        times => format!(", resumed {times} times"),
    };
    let blocks = if summary.overload.is_some() {
        String::new()
    } else {
        format!(", {}", plural(u64::from(summary.blocks), "block"))
    };
    let rounds = plural(u64::from(summary.rounds), "round");
    let amount = format!("{rounds}{blocks} in {}{resumed}", Seconds(summary.seconds));
    Text::of(Tone::Dim, format!("{shared} · {amount}"))
}

/// The engine of a published port, a bridge or a volume.
fn engine(summary: &Summary) -> String {
    let environment = summary.environment.as_ref();
    environment.and_then(Environment::engine_in_words).unwrap_or_default()
}

/// The rate, if all cases share it. Otherwise the table shows each rate.
fn pace(summary: &Summary) -> String {
    let mut loads = summary.cases.iter().map(|case| &case.load);
    if summary.overload.is_some() {
        return "overload".to_owned();
    }
    let Some(first) = loads.next().filter(|load| load.is_open()) else {
        return String::new();
    };
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
