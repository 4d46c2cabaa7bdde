//! The tables of figures: rates and latencies, cost per request, all comparisons.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use lasthop_analyse::{
    groups::{Group, cases},
    summary::{
        BANDWIDTH, COLUMNS, CaseColumn, CaseSummary, Comparison, Metric, Metrics, PER_REQUEST, Shown, Summary,
        THROUGHPUT, Writing,
    },
};
use lasthop_model::quantity::{joined, rate_text};
use lasthop_trial::options::Reuse;

use super::{
    parts::{self, case_title},
    verdicts::without_figures,
};
use crate::{
    columns::{Columns, Ratio},
    document::{Block, Cell, Depth, Section, Tone},
    names::Named,
    units::{Count, bounds, ends, ratio_places, significant},
    wording::{Quantity, listed, margin, tone, word},
};

/// Rates, latencies and ratios. Groups in bytes per second get a separate table.
pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let (bulk, plain): (Vec<&Group<'_>>, Vec<&Group<'_>>) = groups.iter().partition(|group| group.is_bulk());
    let tables = [plain, bulk];
    let mut blocks: Vec<Block> = tables.iter().filter_map(|groups| table(groups)).collect();
    let measured = cases(groups).filter(|(_, case)| case.metrics.is_some());
    blocks.extend(units(measured.map(|(_, case)| case)).map(Block::legend));
    if cases(groups).any(|(group, case)| group.declared(case).is_some()) {
        parts::section("Rates and latencies", Depth::Folded, blocks)
    } else {
        blocks.extend(explained(groups));
        parts::untitled(blocks)
    }
}

/// Explains quantities other than requests/s.
pub fn explained(groups: &[Group<'_>]) -> impl Iterator<Item = Block> {
    let measured = cases(groups).filter_map(|(_, case)| Some((case, case.metrics.as_ref()?)));
    let all = [
        response_times(measured.clone().map(|(case, _)| case)),
        times_in_send(measured.map(|(_, metrics)| metrics)),
    ];
    all.into_iter().flatten().map(Block::legend)
}

/// The number of requests that are timed together, because they share a connection that is closed after them.
fn unit(case: &CaseSummary) -> Option<u32> {
    let load = &case.load;
    (load.reuse == Reuse::PerRequest && load.requests_per_connection > 1).then_some(load.requests_per_connection)
}

/// Explains percentiles that refer to several requests together.
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

/// Explains the figures of requests without replies.
fn times_in_send<'a>(mut measured: impl Iterator<Item = &'a Metrics>) -> Option<String> {
    let text = "Received is what the server counted while the driver sent, and ratios refer to it. Lost is what it never \
                received, also later. p50 and p99 are the time that a send took.";
    measured
        .any(|metrics| metrics.one_way.is_some())
        .then(|| text.to_owned())
}

/// A group's case, and its figures if it has any.
struct Line<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    metrics: Option<&'a Metrics>,
}

fn lines<'a>(groups: impl IntoIterator<Item = &'a Group<'a>>) -> Vec<Line<'a>> {
    let lines = groups.into_iter().flat_map(|group| {
        group.cases.iter().map(move |case| Line {
            group,
            case,
            metrics: case.metrics.as_ref(),
        })
    });
    lines.collect()
}

/// Rows by setting, including cases without figures.
fn table<'a>(groups: &[&'a Group<'a>]) -> Option<Block> {
    let lines = lines(groups.iter().copied());
    lines.iter().find_map(|line| line.metrics)?;
    let summary = lines.first()?.group.summary();
    let without = |line: &Line<'_>| line.metrics.is_none().then(|| without_figures(summary, line.case));
    let columns = figure_columns(named(&lines), &lines);
    Some(Block::Table(columns.noted(without).table()))
}

/// Columns that begin with the names of cases, by setting.
fn named<'a>(lines: &'a [Line<'a>]) -> Columns<'a, Line<'a>> {
    let title = lines.first().map_or("", |line| case_title(line.group.summary()));
    Columns::of(lines)
        .names(title, |line| line.group.label(line.case))
        .under(|line| line.group.setting())
}

/// Adds the [`COLUMNS`] for people.
fn figure_columns<'a>(mut columns: Columns<'a, Line<'a>>, lines: &[Line<'_>]) -> Columns<'a, Line<'a>> {
    let is_bulk = lines.iter().all(|line| line.group.is_bulk());
    let is_one_way = lines.iter().all(|line| line.group.is_one_way());
    // A rate that was kept need not be repeated.
    let is_kept = |metrics: &Metrics| metrics.open_loop.as_ref().is_some_and(|open| open.reached);
    let kept = lines.iter().filter_map(|line| line.metrics).all(is_kept);
    let shown = COLUMNS.iter().filter_map(|column| Some((column.shown?, column)));
    let mut shown: Vec<(Shown, &CaseColumn)> = shown.collect();
    shown.sort_by_key(|(shown, _)| shown.place);
    shown.retain(|(_, column)| match column.name {
        THROUGHPUT => !is_bulk && !kept,
        BANDWIDTH => is_bulk,
        _ => true,
    });
    for alike in shown.chunk_by(|(one, _), (other, _)| one.writing == other.writing) {
        let titles = alike.iter().map(|(Shown { title, .. }, figure)| match figure.name {
            THROUGHPUT if is_one_way => "received/s",
            _ => title,
        });
        let values = |line: &Line<'_>| -> Vec<Option<f64>> {
            // The requested rate is known even for a case without figures, but is not shown there.
            let of = |(_, figure): &(Shown, &CaseColumn)| line.metrics.and_then(|_| figure.value_of(line.case));
            alike.iter().map(of).collect()
        };
        let writing = alike[0].0.writing;
        if matches!(writing, Writing::Latency | Writing::Lag) {
            columns = columns.times(titles, values);
            continue;
        }
        for (place, title) in titles.enumerate() {
            let value = |line: &Line<'_>| values(line)[place];
            columns = match writing {
                Writing::Asked => columns.each(title, value, rate_text),
                Writing::Share => columns.shares(title, value),
                Writing::Bytes => columns.byte_rates([""], |line| [value(line)]),
                _ => columns.figures(title, value),
            };
        }
    }
    columns
}

/// Adds the CPU time of all services together, and its ratio to the reference.
fn cpu_columns<'a>(columns: Columns<'a, Line<'a>>, lines: &[Line<'_>]) -> Columns<'a, Line<'a>> {
    fn of<'b>(line: &Line<'b>) -> Option<&'b Comparison> {
        line.group.comparison(line.case, Metric::CpuPerRequest)
    }
    if lines.iter().all(|line| of(line).is_none()) {
        return columns;
    }
    let is_invalid = |line: &Line<'_>| line.group.invalid(line.case).is_some();
    let ratio = |line: &Line<'_>| match of(line) {
        Some(one) => Some(Ratio {
            of: one.ratio,
            // An unusable result has no colour.
            tone: if is_invalid(line) {
                Tone::Plain
            } else {
                tone(one.verdict)
            },
            // A saturated driver bounds the speed, not the CPU time.
            is_bound: false,
        }),
        None => line.case.reference.then_some(Ratio::REFERENCE),
    };
    let verdict = |line: &Line<'_>| match of(line) {
        Some(_) if is_invalid(line) => "invalid".into(),
        Some(one) => Cell::new(tone(one.verdict), Quantity::Cpu.verdict(one.verdict)),
        None => Cell::default(),
    };
    columns
        .ratios(["CPU ratio", "interval"], ratio)
        .joined("verdict", verdict)
}

/// CPU time, context switches and run delay per request, by role.
pub fn cost_section(groups: &[Group<'_>]) -> Option<Section> {
    let mut lines = lines(groups);
    lines.retain(|line| line.metrics.is_some());
    let summary = lines.first()?.group.summary();
    let mut columns = named(&lines);
    for role in roles(&lines) {
        columns = columns.figures(&role, |line| line.metrics?.cpu_per_request.of_role(&role));
    }
    let mut headings = Vec::new();
    for one in &PER_REQUEST {
        let total = |line: &Line<'_>| (one.total)(line.metrics?);
        if lines.iter().any(|line| total(line).is_some()) {
            columns = columns.figures(one.title, total);
            headings.push(one.heading);
        }
    }
    columns = columns.figures("services per sent", |line| {
        Some(line.metrics?.one_way.as_ref()?.cpu_us_per_sent)
    });
    let is_one_way = measured(&lines).any(|metrics| metrics.one_way.is_some());
    columns = cpu_columns(columns, &lines);
    if lines.iter().any(|line| line.group.is_bulk()) {
        columns = columns.each("ns/byte", |line| line.metrics?.cpu_per_byte, |ns| significant(ns, 3));
    }
    columns = columns.each(
        "CPUs busy",
        |line| Some(line.metrics?.cpus_busy()),
        |cpus| significant(cpus, 2),
    );
    let title = format!("{} per request", listed(&headings));
    let mut blocks = vec![Block::Table(columns.table())];
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

fn measured<'a>(lines: &[Line<'a>]) -> impl Iterator<Item = &'a Metrics> {
    lines.iter().filter_map(|line| line.metrics)
}

/// The driver, and the services if there are several: the column of all services covers a single service.
fn roles(lines: &[Line<'_>]) -> IndexSet<String> {
    let all = measured(lines).flat_map(|metrics| metrics.cpu_per_request.of_all());
    let mut roles: IndexSet<String> = all.map(|(role, _)| role.to_owned()).collect();
    if roles.len() == 2 {
        roles.truncate(1);
    }
    roles
}

/// All comparisons by all metrics.
pub fn comparison_section(summary: &Summary) -> Option<Section> {
    let all = &summary.comparisons;
    let verdict = |c: &Comparison| match summary.invalid(&c.case, &c.reference) {
        Some(_) => "invalid".into(),
        None if c.metric == Metric::CpuPerRequest => Cell::new(tone(c.verdict), Quantity::Cpu.verdict(c.verdict)),
        None => Cell::new(tone(c.verdict), word(c.verdict)),
    };
    let table = Columns::of(all)
        .left("case", |c| &c.case)
        .left("against", |c| &c.reference)
        .left("metric", |c| metric_name(summary, c))
        .right("ratio", |c| {
            let [_, ratio, _] = ends(c.ratio);
            ratio
        })
        .left("interval", |c| bounds(c.ratio, ratio_places(c.ratio)))
        .right("blocks", |c| c.blocks.to_string())
        .left("verdict", verdict)
        .table();
    all.first()?;
    parts::section("All comparisons", Depth::Detail, vec![Block::Table(table)])
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
