//! Whether a difference matters: what it means for one request and for a machine.

use lasthop_analyse::{
    groups::{Compared, Group},
    summary::{Comparison, Materiality, Metric, Summary, Verdict},
};

use super::parts::{self, case_title, table_under_settings};
use crate::{
    document::{Block, Cell, Columns, Depth, Section, Tone},
    names::Named,
    units::{Micros, NONE, TimeUnit},
    wording::{freed, margin, matters_below},
};

/// A case, and what its differences are worth.
struct Line<'a> {
    label: String,
    reference: String,
    time: Worth<'a>,
    cpu: Option<Worth<'a>>,
}

/// A saving per request, and whether it is one.
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
        let table = table_under_settings(groups, columns(summary, &lines), |group| self::lines(group).len());
        vec![Block::Table(table), Block::legend(legend(summary, &lines))]
    } else {
        vec![Block::Paragraph(nothing_found(&lines).into())]
    };
    parts::section("Does it matter?", Depth::Folded, blocks)
}

fn lines<'a>(group: &'a Group<'a>) -> Vec<Line<'a>> {
    let line = |compared: Compared<'a>| {
        let by = |metric| group.comparison(compared.case, metric).and_then(worth);
        // The mean time of a request, as the verdict. In an open loop, or if the mean is unknown, the median.
        Some(Line {
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

fn columns(summary: &Summary, lines: &[Line<'_>]) -> Columns {
    let names = lines.iter().map(|line| Cell::new(Tone::Strong, &line.label));
    let columns = Columns::default().left(case_title(summary), names);
    let margin = margin(summary.settings.margin);
    let times: Vec<_> = lines.iter().map(|line| Some(line.time)).collect();
    let columns = saved(columns, "saved", &times);
    let columns = below(columns, &format!("≥ {margin} of a response below"), lines, &times);
    let cpu: Vec<_> = lines.iter().map(|line| line.cpu).collect();
    if cpu.iter().all(Option::is_none) {
        return columns;
    }
    let columns = saved(columns, "CPU saved", &cpu);
    let freed = cpu
        .iter()
        .map(|cpu| cpu.map_or(NONE.to_owned(), |cpu| freed(cpu.materiality.saved())));
    let columns = columns.left("freed at 1,000/s", freed);
    below(columns, &format!("≥ {margin} of capacity below"), lines, &cpu)
}

fn saved(columns: Columns, title: &str, worths: &[Option<Worth<'_>>]) -> Columns {
    let saved = worths.iter().map(|worth| worth.map(|worth| worth.materiality.saved_us));
    let saved: Vec<Option<f64>> = saved.collect();
    let known: Vec<f64> = saved.iter().copied().flatten().collect();
    let unit = TimeUnit::of_differences(&known);
    columns.right(format!("{} {title}", unit.name()), unit.column(&saved))
}

/// For which handlers a saving matters. A column without any entry is left out.
fn below(columns: Columns, title: &str, lines: &[Line<'_>], worths: &[Option<Worth<'_>>]) -> Columns {
    if !worths.iter().flatten().any(Worth::advises) {
        return columns;
    }
    let limits = lines.iter().zip(worths);
    let limits = limits.map(|(line, worth)| worth.map_or(NONE.to_owned(), |worth| worth.below(&line.reference)));
    columns.left(title, limits)
}

impl Worth<'_> {
    fn advises(&self) -> bool {
        self.materiality.break_even.is_some()
    }

    /// The handlers that the difference matters to.
    fn below(&self, reference: &str) -> String {
        let handler = self.materiality.break_even.as_ref();
        handler.map_or(NONE.to_owned(), |handler| {
            matters_below(
                self.verdict,
                self.materiality.saved(),
                handler.interval.estimate * 1e3,
                reference,
            )
        })
    }
}

/// If no difference was found, how large it can be at most.
fn nothing_found(lines: &[Line<'_>]) -> String {
    let times = || lines.iter().map(|line| line.time.materiality);
    let low = times().map(|time| time.saved_us_low).fold(f64::INFINITY, f64::min);
    let high = times().map(|time| time.saved_us_high).fold(f64::NEG_INFINITY, f64::max);
    format!(
        "No difference was found. If there is one, a request takes between {} less and {} more than with the reference.",
        Micros(high.max(0.0)),
        Micros((-low).max(0.0))
    )
}

/// What the columns mean, and what they are silent about.
fn legend(summary: &Summary, lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| [Some(line.time), line.cpu]).flatten();
    let costs = all().any(|worth| worth.materiality.saved_us < 0.0);
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
