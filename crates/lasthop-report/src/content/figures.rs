//! The tables of figures: rates and latencies, cost per request, all comparisons.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use lasthop_analyse::{
    groups::{Group, cases},
    summary::{
        BANDWIDTH, COLUMNS, CaseColumn, CaseSummary, Comparison, Metric, Metrics, PER_REQUEST, Shown, Summary,
        THROUGHPUT, Verdict, Writing,
    },
};
use lasthop_model::quantity::{joined, rate_text};
use lasthop_protocol::spec::Reuse;

use super::{
    parts::{self, case_title, table_under_settings, under_settings},
    verdicts::failed_stage,
};
use crate::{
    document::{Block, Cell, Columns, Depth, Row, Section, Table, Tone},
    names::Named,
    units::{
        ByteRateUnit, Count, NONE, TimeUnit, bound, bounds, column, ends, percent, ratio, ratio_places, significant,
    },
    wording::{Quantity, listed, margin, tone, word},
};

/// Rates, latencies and ratios. Groups measured in bytes per second get a separate table.
pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let (bulk, plain): (Vec<&Group<'_>>, Vec<&Group<'_>>) = groups.iter().partition(|group| group.is_bulk());
    let tables = [plain, bulk];
    let mut blocks: Vec<Block> = tables.iter().filter_map(|groups| table(groups)).collect();
    let measured = cases(groups).filter_map(|(_, case)| Some((case, case.metrics.as_ref()?)));
    let explained = [
        units(measured.clone().map(|(case, _)| case)),
        response_times(measured.clone().map(|(case, _)| case)),
        times_in_send(measured.map(|(_, metrics)| metrics)),
    ];
    blocks.extend(explained.into_iter().flatten().map(Block::legend));
    if cases(groups).any(|(group, case)| group.declared(case).is_some()) {
        parts::section("Rates and latencies", Depth::Folded, blocks)
    } else {
        parts::untitled(blocks)
    }
}

/// How many cases have figures.
fn measured(group: &Group<'_>) -> usize {
    group.cases.iter().filter(|case| case.metrics.is_some()).count()
}

/// Requests that are timed together, because they share a connection that is closed after them.
fn unit(case: &CaseSummary) -> Option<u32> {
    let load = &case.load;
    (load.reuse == Reuse::PerRequest && load.requests_per_connection > 1).then_some(load.requests_per_connection)
}

/// What the percentiles refer to if not to single requests.
fn units<'a>(measured: impl Iterator<Item = &'a CaseSummary>) -> Option<String> {
    let units: BTreeSet<u32> = measured.filter_map(unit).collect();
    let many = joined(units.iter().map(|unit| Count(u64::from(*unit)).to_string()), " or ");
    (!units.is_empty())
        .then(|| format!("If a connection carries {many} requests, p50 and p99 are the time of all of them together."))
}

/// Explains the latencies of open loops.
fn response_times<'a>(measured: impl Iterator<Item = &'a CaseSummary>) -> Option<String> {
    let (open, closed): (Vec<&CaseSummary>, Vec<&CaseSummary>) = measured.partition(|case| case.load.is_open());
    let whose = if closed.is_empty() { "" } else { "In open loops, " };
    (!open.is_empty()).then(|| {
        format!(
            "{whose}p50, p99 and ratios refer to the response time, from when a request was due until its last byte \
             arrived. Lag is the 99th percentile of the time from when a request was due until it was sent."
        )
    })
}

/// Explains the figures of requests that nobody answers.
fn times_in_send<'a>(mut measured: impl Iterator<Item = &'a Metrics>) -> Option<String> {
    let text = "Received is what the server counted while the driver sent, and ratios refer to it. Lost is what it never \
                received, also later. p50 and p99 are the time that a send took.";
    measured
        .any(|metrics| metrics.one_way.is_some())
        .then(|| text.to_owned())
}

/// A group's case with figures.
struct Line<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    metrics: &'a Metrics,
}

fn lines<'a>(groups: impl IntoIterator<Item = &'a Group<'a>>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for group in groups {
        lines.extend(group.cases.iter().filter_map(|case| {
            Some(Line {
                group,
                case,
                metrics: case.metrics.as_ref()?,
            })
        }));
    }
    lines
}

/// The rows under their settings, with the cases without figures.
fn table<'a>(groups: &[&'a Group<'a>]) -> Option<Block> {
    let lines = lines(groups.iter().copied());
    let summary = lines.first()?.group.summary();
    let columns = Columns::default().left(case_title(summary), lines.iter().map(name));
    let columns = ratio_columns(figure_columns(columns, &lines), &lines);
    let (columns, rows) = columns.into_rows();
    // Only cases with figures have a row there, in the same order.
    let mut figures = rows.into_iter();
    let rows = under_settings(groups.iter().copied(), |group| {
        let row = |case: &&CaseSummary| match case.metrics {
            Some(_) => figures.next().map(Row::Cells),
            None => {
                let failed = failed_stage(summary, case).map(|stage| format!("failed at {stage}"));
                let why = failed.unwrap_or_else(|| "not measured".to_owned());
                Some(Row::Note(group.label(case).into(), Cell::new(Tone::Bad, why)))
            }
        };
        group.cases.iter().filter_map(row).collect()
    });
    Some(Block::Table(Table { columns, rows }))
}

fn name(line: &Line<'_>) -> Cell {
    Cell::new(Tone::Strong, line.group.label(line.case))
}

/// The [`COLUMNS`] for people.
fn figure_columns(mut columns: Columns, lines: &[Line<'_>]) -> Columns {
    let is_bulk = lines.iter().all(|line| line.group.is_bulk());
    let is_one_way = lines.iter().all(|line| line.group.is_one_way());
    // A rate that was kept need not be shown twice.
    let is_kept = |line: &Line<'_>| line.metrics.open_loop.as_ref().is_some_and(|open| open.reached);
    let kept = lines.iter().all(is_kept);
    let shown = COLUMNS.iter().filter_map(|column| Some((column.shown?, column)));
    let mut shown: Vec<(Shown, &CaseColumn)> = shown.collect();
    shown.sort_by_key(|(shown, _)| shown.place);
    shown.retain(|(_, column)| match column.name {
        THROUGHPUT => !is_bulk && !kept,
        BANDWIDTH => is_bulk,
        _ => lines.iter().any(|line| column.of(line.case).is_some()),
    });
    for (Shown { title, writing, .. }, figure) in &shown {
        let title = if figure.name == THROUGHPUT && is_one_way {
            "received/s"
        } else {
            *title
        };
        let values: Vec<Option<f64>> = lines.iter().map(|line| figure.of(line.case)).collect();
        let each = |text: &dyn Fn(f64) -> String| -> Vec<String> {
            let texts = values.iter().map(|value| value.map(text));
            texts.map(|text| text.unwrap_or_else(|| NONE.to_owned())).collect()
        };
        let (title, cells) = match writing {
            Writing::Rate => (title.to_owned(), column(&values)),
            Writing::Asked => (title.to_owned(), each(&rate_text)),
            Writing::Share => (title.to_owned(), each(&|share| percent(share, 1))),
            Writing::Bytes => {
                let unit = ByteRateUnit::of_column(&values.iter().flatten().copied().collect::<Vec<_>>());
                (unit.name.to_owned(), each(&|rate| significant(rate / unit.bytes, 3)))
            }
            Writing::Latency | Writing::Lag => {
                let alike = shown.iter().filter(|(other, _)| other.writing == *writing);
                let times = alike.flat_map(|(_, figure)| lines.iter().filter_map(|line| figure.of(line.case)));
                let unit = TimeUnit::of_column(&times.collect::<Vec<_>>());
                (format!("{title} {}", unit.name()), unit.column(&values))
            }
        };
        columns = columns.right(title, cells);
    }
    columns
}

/// What verdicts are on, as three columns: ratio, interval and verdict.
struct Judged {
    of: for<'a> fn(&Line<'a>) -> Option<&'a Comparison>,
    titles: [String; 2],
    word: fn(Verdict) -> &'static str,
    /// Whether a lower bound is marked: a driver at its limit bounds the speed, not the cost.
    marks_bounds: bool,
    /// In the place of the reference's verdict.
    reference: Option<&'static str>,
}

/// The declared quantity.
fn ratio_columns(columns: Columns, lines: &[Line<'_>]) -> Columns {
    let confidence = lines[0].group.summary().settings.confidence;
    let judged = Judged {
        of: |line| line.group.declared(line.case),
        titles: ["ratio".to_owned(), format!("{} interval", percent(confidence, 0))],
        word,
        marks_bounds: true,
        reference: Some("reference"),
    };
    judged.columns(columns, lines)
}

/// The CPU time of all roles together.
fn cpu_columns(columns: Columns, lines: &[Line<'_>]) -> Columns {
    let judged = Judged {
        of: |line| line.group.comparison(line.case, Metric::CpuPerRequest),
        titles: ["CPU ratio".to_owned(), "interval".to_owned()],
        word: |verdict| Quantity::Cpu.verdict(verdict),
        marks_bounds: false,
        reference: None,
    };
    judged.columns(columns, lines)
}

impl Judged {
    fn columns(&self, columns: Columns, lines: &[Line<'_>]) -> Columns {
        let Self {
            of,
            titles: [title, interval],
            word,
            marks_bounds,
            reference,
        } = self;
        let Some(places) = lines
            .iter()
            .filter_map(|line| Some(ratio_places(of(line)?.interval())))
            .max()
        else {
            return columns;
        };
        let ratios = lines.iter().map(|line| match of(line) {
            Some(c) => Cell::new(
                toned(line, c),
                format!(
                    "{}{}",
                    bound(c.lower_bound && *marks_bounds, c.ratio),
                    ratio(c.ratio, places)
                ),
            ),
            None if line.case.reference => ratio(1.0, places).into(),
            None => NONE.into(),
        });
        let intervals = lines
            .iter()
            .map(|line| of(line).map_or(String::new(), |c| bounds(c.interval(), places)));
        let verdicts = lines.iter().map(|line| match of(line) {
            Some(_) if line.group.invalid(line.case).is_some() => "invalid".into(),
            Some(comparison) => Cell::new(tone(comparison.verdict), word(comparison.verdict)),
            None if line.case.reference => reference.map_or_else(Cell::default, |word| Cell::new(Tone::Dim, word)),
            None => Cell::default(),
        });
        columns
            .right(title, ratios)
            .joined(interval, intervals)
            .joined("verdict", verdicts)
    }
}

/// What must not be used has no colour.
fn toned(line: &Line<'_>, comparison: &Comparison) -> Tone {
    if line.group.invalid(line.case).is_some() {
        Tone::Plain
    } else {
        tone(comparison.verdict)
    }
}

/// CPU time, context switches and run delay per request, by role.
pub fn cost_section(groups: &[Group<'_>]) -> Option<Section> {
    let lines = lines(groups);
    let summary = lines.first()?.group.summary();
    let mut columns = Columns::default().left(case_title(summary), lines.iter().map(name));
    for role in roles(&lines) {
        let values = lines.iter().map(|line| line.metrics.cpu_per_request.of(&role));
        columns = columns.right(&role, column(&values.collect::<Vec<_>>()));
    }
    let mut headings = Vec::new();
    for one in &PER_REQUEST {
        let totals: Vec<_> = lines.iter().map(|line| (one.total)(line.metrics)).collect();
        if totals.iter().any(Option::is_some) {
            columns = columns.right(one.title, column(&totals));
            headings.push(one.heading);
        }
    }
    let per_sent = |line: &Line<'_>| Some(line.metrics.one_way.as_ref()?.cpu_us_per_sent);
    let is_one_way = lines.iter().any(|line| per_sent(line).is_some());
    if is_one_way {
        columns = columns.right(
            "services per sent",
            column(&lines.iter().map(per_sent).collect::<Vec<_>>()),
        );
    }
    columns = cpu_columns(columns, &lines);
    let per_byte = |line: &Line<'_>| line.metrics.cpu_per_byte;
    if lines
        .iter()
        .any(|line| line.group.is_bulk() && per_byte(line).is_some())
    {
        let costs = lines.iter().map(per_byte);
        let costs = costs.map(|cost| cost.map_or(NONE.to_owned(), |ns| significant(ns, 3)));
        columns = columns.right("ns/byte", costs);
    }
    let busy = lines.iter().map(|line| significant(line.metrics.cpus_busy(), 2));
    columns = columns.right("CPUs busy", busy);
    let title = format!("{} per request", listed(&headings));
    let mut blocks = vec![Block::Table(table_under_settings(groups, columns, measured))];
    if is_one_way {
        let within = margin(summary.settings.margin);
        blocks.push(Block::legend(format!(
            "Per request that arrived, unless the column is per request sent. CPU time is compared where no more than \
             {within} were lost."
        )));
    }
    let clients = "The driver stands in for your clients: its CPU time is in no comparison.";
    blocks.push(Block::legend(clients.to_owned()));
    parts::section(&title, Depth::Folded, blocks)
}

/// The driver, and the services if there are several: a single one is all of them.
fn roles(lines: &[Line<'_>]) -> IndexSet<String> {
    let all = lines.iter().flat_map(|line| line.metrics.cpu_per_request.of_all());
    let mut roles: IndexSet<String> = all.map(|(role, _)| role.to_owned()).collect();
    if roles.len() == 2 {
        roles.truncate(1);
    }
    roles
}

/// Every comparison by every metric.
pub fn comparison_section(summary: &Summary) -> Option<Section> {
    let all = &summary.comparisons;
    let verdict = |c: &Comparison| match summary.invalid(&c.case, &c.reference) {
        Some(_) => "invalid".into(),
        None if c.metric == Metric::CpuPerRequest => Cell::new(tone(c.verdict), Quantity::Cpu.verdict(c.verdict)),
        None => Cell::new(tone(c.verdict), word(c.verdict)),
    };
    let columns = Columns::default()
        .left("case", all.iter().map(|c| c.case.clone()))
        .left("against", all.iter().map(|c| c.reference.clone()))
        .left("metric", all.iter().map(|c| metric_name(summary, c)))
        .right("ratio", all.iter().map(|c| ends(c.interval())[1].clone()))
        .left(
            "interval",
            all.iter().map(|c| bounds(c.interval(), ratio_places(c.interval()))),
        )
        .right("blocks", all.iter().map(|c| c.blocks.to_string()))
        .left("verdict", all.iter().map(verdict));
    let (columns, rows) = columns.into_rows();
    let rows: Vec<Row> = rows.into_iter().map(Row::Cells).collect();
    (!rows.is_empty())
        .then(|| {
            parts::section(
                "All comparisons",
                Depth::Detail,
                vec![Block::Table(Table { columns, rows })],
            )
        })
        .flatten()
}

fn metric_name(summary: &Summary, comparison: &Comparison) -> String {
    let case = summary.case(&comparison.case);
    let time = match case.and_then(unit) {
        Some(unit) => format!("{} requests", Count(unit.into())),
        None if case.is_some_and(|case| case.load.is_open()) => "response time".to_owned(),
        None => "latency".to_owned(),
    };
    match comparison.metric {
        Metric::Throughput => "throughput".to_owned(),
        Metric::LatencyP50 => format!("{time} p50"),
        Metric::LatencyP99 => format!("{time} p99"),
        Metric::CpuPerRequest => "CPU per request".to_owned(),
    }
}
