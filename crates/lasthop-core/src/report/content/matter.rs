//! Whether a difference matters: what it means for one request and for a machine.

use super::parts::{self, case_title, under_settings};
use crate::{
    analyse::summary::{Comparison, Materiality, Metric, Summary, Verdict},
    report::{
        document::{Block, Cell, Column, Columns, Depth, Row, Section, Table, Text, Tone},
        groups::{Compared, Group},
        units::{Micros, NBSP, NONE, TimeUnit, column, grouped},
        wording::margin,
    },
};

/// A comparison and the value of its difference.
struct Line<'a> {
    label: String,
    verdict: Verdict,
    materiality: &'a Materiality,
}

pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    if summary.aa {
        return None;
    }
    let groups: Vec<&Group<'_>> = groups.iter().collect();
    let lines: Vec<Line<'_>> = groups.iter().flat_map(|group| lines(group)).collect();
    if lines.is_empty() {
        return None;
    }
    let decided = lines.iter().any(|line| matches!(line.verdict, Verdict::Faster | Verdict::Slower));
    if !decided {
        let blocks = vec![Block::Paragraph(nothing_found(&lines).into())];
        return parts::section("Does it matter?", Depth::Open, blocks);
    }
    let (columns, rows) = columns(summary, &lines).into_rows();
    let mut figures = rows.into_iter();
    let rows = under_settings(&groups, |group| {
        self::lines(group).iter().filter_map(|_| figures.next().map(Row::Cells)).collect()
    });
    let mut blocks = vec![Block::Table(Table { columns, rows })];
    blocks.push(Block::Paragraph(legend(summary, &lines)));
    parts::section("Does it matter?", Depth::Open, blocks)
}

fn lines<'a>(group: &Group<'a>) -> Vec<Line<'a>> {
    let line = |compared: Compared<'a>| {
        Some(Line {
            label: group.label(compared.case),
            verdict: compared.comparison.verdict,
            materiality: value_of(group, compared)?,
        })
    };
    group.compared().filter_map(line).collect()
}

/// Uses the mean time of a request, as the verdict does. In an open loop, or if the mean is unknown, uses the median.
fn value_of<'a>(group: &Group<'a>, compared: Compared<'a>) -> Option<&'a Materiality> {
    let by = |metric| group.comparison(compared.case, metric).and_then(|c: &Comparison| c.materiality.as_ref());
    by(Metric::Throughput).or_else(|| by(Metric::LatencyP50))
}

fn columns(summary: &Summary, lines: &[Line<'_>]) -> Columns {
    let saved: Vec<f64> = lines.iter().map(|line| line.materiality.saved_us).collect();
    let unit = TimeUnit::of_differences(&saved);
    let scaled = |pick: fn(&Materiality) -> f64| -> Vec<String> {
        column(&lines.iter().map(|line| Some(pick(line.materiality) / unit.micros())).collect::<Vec<_>>())
    };
    let ends = scaled(|m| m.saved_us_low).into_iter().zip(scaled(|m| m.saved_us_high));
    let cores: Vec<_> = lines.iter().map(|line| Some(line.materiality.cores_saved_at_1000_per_second)).collect();
    let cores = cores.iter().flatten().map(|cores| grouped(*cores, 3));
    Columns::default()
        .with(Column::left(case_title(summary)), lines.iter().map(|line| Cell::new(Tone::Strong, &line.label)))
        .with(Column::right(format!("{} saved", unit.name())), scaled(|m| m.saved_us))
        .with(Column::left("95 % interval"), ends.map(|(low, high)| format!("{low} to {high}")))
        .with(Column::right("matters below"), lines.iter().map(matters_below))
        .with(Column::right("cores saved"), cores)
}

/// Only a difference that was found can matter.
fn matters_below(line: &Line<'_>) -> String {
    /// No handler takes a year.
    const YEAR_MS: f64 = 3.2e10;
    match (line.verdict, line.materiality.break_even_ms) {
        (Verdict::Equivalent | Verdict::Undecided, _) => NONE.to_owned(),
        (_, 0.0) => "never".to_owned(),
        (_, ms) if ms < YEAR_MS => Micros(ms * 1e3).to_string(),
        _ => "always".to_owned(),
    }
}

/// If no difference was found, how large it can be at most.
fn nothing_found(lines: &[Line<'_>]) -> String {
    let low = lines.iter().map(|line| line.materiality.saved_us_low).fold(f64::INFINITY, f64::min);
    let high = lines.iter().map(|line| line.materiality.saved_us_high).fold(f64::NEG_INFINITY, f64::max);
    format!(
        "No difference was found. If there is one, a request takes between {} less and {} more than with the reference.",
        Micros(high.max(0.0)),
        Micros((-low).max(0.0))
    )
}

fn legend(summary: &Summary, lines: &[Line<'_>]) -> Text {
    let costs = lines.iter().any(|line| line.materiality.saved_us < 0.0);
    let minus = if costs { " (a minus is a cost)" } else { "" };
    let open = summary.cases.iter().filter(|case| case.load.is_open()).count();
    let who = match open {
        0 => "driver and services together",
        _ if open == summary.cases.len() => "services alone",
        _ => "driver and services together, in open loops services alone",
    };
    let text = format!(
        "Saved: time per request compared with the reference{minus}. Matters below: once your handler takes longer \
         than this, the difference is less than {} of the response. Cores saved: at 1,000{NBSP}requests/s, {who}.",
        margin(summary.settings.margin),
    );
    Text::of(Tone::Dim, text)
}
