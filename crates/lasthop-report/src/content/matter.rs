//! Whether a difference matters: what it means for one request and for a machine.

use lasthop_analyse::{
    groups::{Compared, Group},
    summary::{Comparison, Materiality, Metric, Summary, Verdict},
};

use super::parts::{self, case_title};
use crate::{
    columns::Columns,
    document::{Block, Depth, Section, Table},
    names::Named,
    units::{Micros, NONE},
    wording::{freed, margin, matters_below},
};

/// A case, and the value of its differences.
struct Line<'a> {
    setting: String,
    label: String,
    reference: String,
    time: Worth<'a>,
    cpu: Option<Worth<'a>>,
}

/// A saving per request, with its verdict.
#[derive(Clone, Copy)]
struct Worth<'a> {
    verdict: Verdict,
    materiality: &'a Materiality,
}

pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    if summary.aa {
        return None;
    }
    let lines: Vec<Line<'_>> = groups.iter().flat_map(lines).collect();
    let mut worths = lines.iter().flat_map(|line| [Some(line.time), line.cpu]).flatten();
    let blocks = if lines.is_empty() {
        vec![]
    } else if worths.any(|worth| worth.verdict.differs()) {
        vec![
            Block::Table(table(summary, &lines)),
            Block::legend(legend(summary, &lines)),
        ]
    } else {
        vec![Block::Paragraph(nothing_found(&lines).into())]
    };
    parts::section("Does it matter?", Depth::Folded, blocks)
}

fn lines<'a>(group: &'a Group<'a>) -> Vec<Line<'a>> {
    let line = |compared: Compared<'a>| {
        let by = |metric| group.comparison(compared.case, metric).and_then(worth);
        // The mean time of a request, as in the verdict. In an open loop, or if the mean is unknown, the median.
        Some(Line {
            setting: group.setting(),
            label: group.label(compared.case),
            reference: group.label(compared.reference),
            time: by(Metric::Throughput).or_else(|| by(Metric::LatencyP50))?,
            cpu: by(Metric::CpuPerRequest),
        })
    };
    group.compared().filter_map(line).collect()
}

fn worth(comparison: &Comparison) -> Option<Worth<'_>> {
    Some(Worth {
        verdict: comparison.verdict,
        materiality: comparison.materiality.as_ref()?,
    })
}

fn table(summary: &Summary, lines: &[Line<'_>]) -> Table {
    let margin = margin(summary.settings.margin);
    let saved = |worth: Option<Worth<'_>>| Some(worth?.materiality.saved_us.estimate);
    let columns = Columns::of(lines)
        .names(case_title(summary), |line| &line.label)
        .under(|line| &line.setting)
        .differences("{} saved", |line| saved(Some(line.time)));
    let columns = below(columns, &format!("≥ {margin} of a response below"), lines, |line| {
        Some(line.time)
    });
    if lines.iter().all(|line| line.cpu.is_none()) {
        return columns.table();
    }
    let columns = columns
        .differences("{} CPU saved", |line| saved(line.cpu))
        .left("freed at 1,000/s", |line| {
            line.cpu.map_or(NONE.to_owned(), |cpu| freed(cpu.materiality.saved_us))
        });
    below(columns, &format!("≥ {margin} of capacity below"), lines, |line| {
        line.cpu
    })
    .table()
}

/// Adds a column of handlers for which a saving matters, unless it would be empty.
fn below<'a>(
    columns: Columns<'a, Line<'a>>,
    title: &str,
    lines: &[Line<'a>],
    of: impl Fn(&Line<'a>) -> Option<Worth<'a>>,
) -> Columns<'a, Line<'a>> {
    if !lines.iter().filter_map(&of).any(|worth| worth.advises()) {
        return columns;
    }
    columns.left(title, |line| {
        of(line).map_or(NONE.to_owned(), |worth| worth.below(&line.reference))
    })
}

impl Worth<'_> {
    fn advises(&self) -> bool {
        self.materiality.break_even.is_some()
    }

    /// The handlers for which the saving matters.
    fn below(&self, reference: &str) -> String {
        let handler = self.materiality.break_even.as_ref();
        handler.map_or(NONE.to_owned(), |handler| {
            matters_below(
                self.verdict,
                self.materiality.saved_us,
                handler.interval.estimate * 1e3,
                reference,
            )
        })
    }
}

/// The largest possible difference, if none was found.
fn nothing_found(lines: &[Line<'_>]) -> String {
    let times = || lines.iter().map(|line| line.time.materiality);
    let low = times().map(|time| time.saved_us.low).fold(f64::INFINITY, f64::min);
    let high = times().map(|time| time.saved_us.high).fold(f64::NEG_INFINITY, f64::max);
    format!(
        "No difference was found. If there is one, a request takes between {} less and {} more than with the reference.",
        Micros(high.max(0.0)),
        Micros((-low).max(0.0))
    )
}

/// Explains the columns and their gaps.
fn legend(summary: &Summary, lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| [Some(line.time), line.cpu]).flatten();
    let costs = all().any(|worth| worth.materiality.saved_us.estimate < 0.0);
    let mut said = vec![format!(
        "Saved: per request, compared with the reference{}.",
        if costs { " (a minus is a cost)" } else { "" }
    )];
    let margin = margin(summary.settings.margin);
    if lines.iter().any(|line| line.time.advises()) {
        said.push(format!(
            "Of a response: while your handler takes less than this, the difference is {margin} or more of the time of a \
             request that finds no queue. Handlers that sleep keep more of it than computed here."
        ));
    }
    if lines.iter().filter_map(|line| line.cpu).any(|worth| worth.advises()) {
        said.push(format!(
            "Of capacity: if CPU is your limit, the difference is {margin} or more while your own code uses less CPU for a \
             request than this."
        ));
    }
    if lines.iter().any(|line| !line.time.advises()) {
        let how = if lines.iter().any(|line| line.time.advises()) {
            "see one connection"
        } else {
            "measure one connection in a closed loop"
        };
        said.push(format!(
            "Where requests queue, the time saved is that of the queue and not advice: {how}."
        ));
    }
    said.join(" ")
}
