//! What a report for people says, in this order: answer, table, does it matter, why, doubts, failures,
//! environment. One file per part; the format comes later.

mod answer;
mod derived;
mod environment;
mod failures;
mod figures;
mod found;
mod limits;
mod matter;
mod overload;
mod parts;
mod paths;
mod question;
mod run_delay;
mod trust;
mod verdicts;
mod why;

pub use answer::the;
pub use found::ends;
use lasthop_analyse::summary::Summary;
use lasthop_model::quantity::rate_text;
use lasthop_protocol::spec::Arrivals;
pub use limits::limits;
pub use parts::{case_title, full_name, section, table_under_settings};
pub use verdicts::quantity;

use super::{
    document::{Block, Depth, Document, Section, Text, Tone},
    groups::{constants, groups},
    units::{NBSP, Seconds, plural},
};

/// The sections of a report, each of which may have nothing to say.
pub struct Parts {
    pub cut_off: Option<Section>,
    pub answer: Option<Section>,
    pub limits: Option<Section>,
    pub figures: Option<Section>,
    pub derived: Option<Section>,
    pub cost: Option<Section>,
    pub matter: Option<Section>,
    pub why: Option<Section>,
    pub paths: Option<Section>,
    pub trust: Option<Section>,
    pub evidence: Option<Section>,
    pub failures: Option<Section>,
    pub comparisons: Option<Section>,
    pub environment: Option<Section>,
    pub detail: Option<Section>,
}

impl Parts {
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let groups = groups(summary);
        let answer = answer(summary).into_iter().map(Block::Paragraph).collect();
        Self {
            cut_off: verdicts::cut_off(summary),
            answer: Some(Section {
                title: None,
                depth: Depth::Open,
                blocks: answer,
            }),
            limits: limits(&summary.limits),
            figures: match &summary.overload {
                Some(found) => overload::section(&groups, found),
                None => figures::section(&groups),
            },
            derived: derived::section(summary),
            cost: figures::cost_section(&groups),
            matter: matter::section(summary, &groups),
            why: why::section(&groups),
            paths: paths::section(&groups),
            trust: trust::section(summary, &groups),
            evidence: trust::evidence(summary, &groups),
            failures: failures::section(summary, &groups),
            comparisons: figures::comparison_section(summary),
            environment: environment::section(summary),
            detail: environment::detail(summary),
        }
    }

    /// In the order of a report that is text.
    fn in_order(self) -> impl Iterator<Item = Section> {
        let Self {
            cut_off,
            answer,
            limits,
            figures,
            derived,
            cost,
            matter,
            why,
            ..
        } = self;
        let Self {
            paths,
            trust,
            evidence,
            failures,
            comparisons,
            environment,
            detail,
            ..
        } = self;
        let first = [cut_off, answer, limits, figures, derived, cost, matter, why];
        first
            .into_iter()
            .chain([paths, trust, evidence, failures, comparisons, environment, detail])
            .flatten()
    }
}

/// What to do, in at most a few lines, the first of which is always there.
#[must_use]
pub fn answer(summary: &Summary) -> Vec<Text> {
    match &summary.overload {
        Some(found) => overload::answer(&groups(summary), found),
        None => answer::answer(summary),
    }
}

/// The result in one line.
#[must_use]
pub fn headline(summary: &Summary) -> String {
    match &summary.overload {
        Some(found) => overload::headline(&groups(summary), found).replace(NBSP, " "),
        None => verdicts::headline(summary),
    }
}

/// Turns a summary into a document.
#[must_use]
pub fn document(summary: &Summary) -> Document {
    Document {
        title: title(summary),
        subtitle: subtitle(summary),
        sections: Parts::of(summary).in_order().collect(),
    }
}

#[must_use]
pub fn title(summary: &Summary) -> String {
    format!("{}: {}", summary.experiment, summary.title)
}

/// What was measured, in one line: the link, what all cases share, and how much data there is.
#[must_use]
pub fn subtitle(summary: &Summary) -> Text {
    let shared = [
        format!("{} → {}", summary.link.from, summary.link.to),
        constants(summary),
        pace(summary),
    ];
    let shared: Vec<String> = shared.into_iter().filter(|part| !part.is_empty()).collect();
    let resumed = match summary.resumed.len() {
        0 => String::new(),
        1 => ", resumed once".to_owned(),
        times => format!(", resumed {times} times"),
    };
    let blocks = match &summary.overload {
        Some(_) => String::new(),
        None => format!(", {}", plural(u64::from(summary.blocks), "block")),
    };
    let rounds = plural(u64::from(summary.rounds), "round");
    let amount = format!("{rounds}{blocks} in {}{resumed}", Seconds(summary.seconds));
    Text::of(Tone::Dim, format!("{} · {amount}", shared.join(", ")))
}

/// The rate, if all cases share it. Otherwise the table shows each.
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
