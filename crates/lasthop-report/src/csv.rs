//! CSV for spreadsheets and data frames: one row per case, with everything that you may want to plot or filter.
//!
//! RFC 4180: there is a header, lines end in CR LF, and fields with commas, semicolons or quotes are quoted. Numbers
//! are written in full, without thousands separators. Units are in the column names. What does not apply is empty. Text
//! that a spreadsheet would take for a formula starts with an apostrophe, and hidden characters are escaped (`\n`,
//! `\u{1b}`). Columns, in order:
//!
//! | columns | meaning |
//! |---|---|
//! | `experiment`, `run`, `case` | |
//! | `factor_NAME` | level of each factor; empty if the factor does not apply |
//! | `is_reference`, `reference` | `true` or `false`; the case that the ratios refer to |
//! | those of [`COLUMNS`] | the figures of the case, as the fields that they come from say; those that are measured also with `_low` and `_high`, the ends of the interval |
//! | `cpu_ROLE_us` and what else [`PER_REQUEST`] has | what the driver and each service cost per request; no columns for what was not measured |
//! | `throughput_ratio`, `latency_p50_ratio`, `latency_p99_ratio`, `cpu_per_request_ratio` | case divided by reference, each with `_low`, `_high` and `_verdict` |
//! | `limits` | only with `--fail-if`: each limit that names the case, and whether it is `kept`, `exceeded` or `undecided` |
//! | `lower_bound` | whether the ratio behind the verdict is a lower bound |
//! | `failed_stage` | stage of the first failure |
//!
//! [`trials`] has one row per trial instead, a format that tools which make their own statistics call tidy:
//!
//! | columns | meaning |
//! |---|---|
//! | `experiment`, `run`, `case`, `factor_NAME`, `is_reference`, `reference` | as above |
//! | `round`, `block`, `position` | trials of the same round and block are pairs: ratios are taken within them |
//! | `at_s`, `seconds` | when it began, since the run began; how long was measured |
//! | `requests`, `errors`, `bytes_received`, `throughput_per_s` | |
//! | `latency_p50_us`, `latency_p90_us`, `latency_p99_us`, `latency_p999_us`, `latency_max_us` | response times in open loops |
//! | `cpu_driver_us` | the driver's CPU time per request |

use indexmap::IndexSet;
use lasthop_analyse::{
    name_of,
    rows::{QUANTILES, TrialRow},
    summary::{
        COLUMNS, CaseSummary, CaseValue, Comparison, LATENCY_MAX, Measured, Metric, Metrics, Overload, OverloadCase,
        OverloadPoint, PER_REQUEST, Span, Summary,
    },
};
use lasthop_model::quantity::joined;

use crate::{content::failed_stage, text};

/// The report for spreadsheets and data frames.
#[must_use]
pub fn render(summary: &Summary) -> Vec<u8> {
    if let Some(overload) = &summary.overload {
        return loads(summary, overload);
    }
    let shape = Shape::of(summary);
    page(&summary.cases, |case| row(summary, case, &shape))
}

/// A line for each item. The row of none has the names of the header.
fn page<T>(items: impl IntoIterator<Item = T>, row: impl Fn(Option<T>) -> Row) -> Vec<u8> {
    let mut page = line(row(None).0.iter().map(|(name, _)| name.as_str()));
    for item in items {
        page.push_str(&line(row(Some(item)).0.iter().map(|(_, value)| value.as_str())));
    }
    page.into_bytes()
}

/// A row for each trial.
#[must_use]
pub fn trials(summary: &Summary, trials: &[TrialRow]) -> Vec<u8> {
    let factors = Shape::of(summary).factors;
    page(trials, |trial| trial_row(summary, trial, &factors))
}

/// The row of a trial. Without a trial, its names make the header.
fn trial_row(summary: &Summary, trial: Option<&TrialRow>, factors: &IndexSet<&str>) -> Row {
    let mut row = Row::default();
    row.put("experiment", &summary.experiment);
    row.put("run", &summary.run);
    let case = trial.map(|trial| &summary.cases[trial.case]);
    setting(&mut row, summary, case, factors);
    row.put_some("round", trial.map(|trial| trial.round));
    row.put_some("block", trial.map(|trial| trial.block));
    row.put_some("position", trial.map(|trial| trial.position));
    row.put_some("at_s", trial.map(|trial| trial.at));
    row.put_some("seconds", trial.map(|trial| trial.seconds));
    row.put_some("requests", trial.map(|trial| trial.requests));
    row.put_some("errors", trial.map(|trial| trial.errors));
    row.put_some("bytes_received", trial.map(|trial| trial.bytes));
    row.put_some("throughput_per_s", trial.map(|trial| trial.rate));
    for (place, (_, name)) in QUANTILES.iter().enumerate() {
        let latency = trial.and_then(|trial| Some(trial.latencies?[place]));
        row.put_some(format!("latency_{name}_us"), latency);
    }
    row.put_some("cpu_driver_us", trial.map(|trial| trial.driver_cpu));
    row
}

/// A run with overload: one row per case and offered load. Figures have the columns `_least`, `_median` and `_most`,
/// over the repetitions. Shares are of the requests that were due; `error_KIND_share` is one for each way in which
/// requests ended.
fn loads(summary: &Summary, overload: &Overload) -> Vec<u8> {
    let factors = Shape::of(summary).factors;
    let cases = overload.cases.iter();
    let points = cases.flat_map(|case| case.points.iter().map(move |point| (case, point)));
    let kinds: IndexSet<&String> = points.clone().flat_map(|(_, point)| point.wrong.keys()).collect();
    let logged: IndexSet<&String> = points.clone().flat_map(|(_, point)| point.logged.keys()).collect();
    let row = |of: Option<(&OverloadCase, &OverloadPoint)>| {
        let mut row = Row::default();
        row.put("experiment", &summary.experiment);
        row.put("run", &summary.run);
        let case = of.and_then(|(found, _)| summary.case(&found.case));
        setting(&mut row, summary, case, &factors);
        row.spans("capacity_per_s", of.and_then(|(case, _)| case.capacity));
        load(&mut row, of.map(|(_, point)| point), &kinds, &logged);
        row
    };
    page(points, row)
}

fn load(row: &mut Row, point: Option<&OverloadPoint>, kinds: &IndexSet<&String>, logged: &IndexSet<&String>) {
    row.put_some("times", point.map(|point| point.times));
    row.put_some("offered_per_s", point.map(|point| point.offered));
    row.put_some("trials", point.map(|point| point.trials));
    row.put_some("served", point.map(|point| point.served));
    row.spans("goodput_per_s", point.map(|point| point.goodput));
    row.spans("right_share", point.map(|point| point.right));
    for kind in kinds {
        row.spans(
            &format!("error_{kind}_share"),
            point.and_then(|point| point.wrong.get(*kind).map(|wrong| wrong.share)),
        );
        row.put_some(
            format!("error_{kind}_after_ms"),
            point.and_then(|point| point.wrong.get(*kind).map(|wrong| wrong.after_ms)),
        );
    }
    row.spans("not_sent_share", point.map(|point| point.not_sent));
    row.spans("waiting_share", point.map(|point| point.unanswered));
    row.spans("p50_ms", point.and_then(|point| point.p50_ms));
    row.spans("p99_ms", point.and_then(|point| point.p99_ms));
    row.spans("lag_p99_ms", point.and_then(|point| point.lag_p99_ms));
    let recovery = point.and_then(|point| point.recovery);
    row.spans("recovery_s", recovery.and_then(|recovery| recovery.seconds));
    row.put_some("not_recovered", recovery.map(|recovery| recovery.late));
    row.spans("listen_overflows", point.map(|point| point.listen_overflows));
    row.spans("listen_drops", point.map(|point| point.listen_drops));
    row.spans("syns_retransmitted", point.map(|point| point.syns_retransmitted));
    for meaning in logged {
        row.spans(
            &format!("logged {meaning}"),
            point.and_then(|point| point.logged.get(*meaning).copied()),
        );
    }
}

/// Columns that depend on the run.
struct Shape<'a> {
    factors: IndexSet<&'a str>,
    /// The roles that have what is in [`PER_REQUEST`].
    roles: [IndexSet<&'a str>; PER_REQUEST.len()],
    /// Nothing comes back in some case.
    has_one_way: bool,
}

impl<'a> Shape<'a> {
    fn of(summary: &'a Summary) -> Self {
        let metrics = || summary.cases.iter().filter_map(|case| case.metrics.as_ref());
        let levels = summary.cases.iter().flat_map(|case| case.levels.keys());
        let mut roles: [IndexSet<&str>; _] = PER_REQUEST
            .each_ref()
            .map(|one| metrics().flat_map(one.roles).collect());
        if roles[0].is_empty() {
            // There is always a driver.
            roles[0] = IndexSet::from(["driver"]);
        }
        let has_one_way = metrics().any(|metrics| metrics.one_way.is_some());
        Self {
            roles,
            has_one_way,
            factors: summary.factors.keys().chain(levels).map(String::as_str).collect(),
        }
    }
}

/// Names and values of one row.
#[derive(Default)]
pub struct Row(Vec<(String, String)>);

impl Row {
    /// The row below its header.
    #[must_use]
    pub fn alone(&self) -> Vec<u8> {
        let names = line(self.0.iter().map(|(name, _)| name.as_str()));
        let values = line(self.0.iter().map(|(_, value)| value.as_str()));
        (names + &values).into_bytes()
    }

    pub fn put(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    pub fn put_some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        self.put(name, value.map(|value| value.to_string()).unwrap_or_default());
    }

    fn measured(&mut self, name: &str, value: Option<&Measured>) {
        self.interval(
            name,
            value.map(|value| [value.interval.estimate, value.interval.low, value.interval.high]),
        );
    }

    fn interval(&mut self, name: &str, figures: Option<[f64; 3]>) {
        for (place, end) in ["", "_low", "_high"].into_iter().enumerate() {
            self.put_some(format!("{name}{end}"), figures.map(|figures| figures[place]));
        }
    }

    fn spans(&mut self, name: &str, span: Option<Span>) {
        self.put_some(format!("{name}_least"), span.map(|span| span.least));
        self.put_some(format!("{name}_median"), span.map(|span| span.median));
        self.put_some(format!("{name}_most"), span.map(|span| span.most));
    }

    fn ratio(&mut self, name: &str, comparison: Option<&Comparison>) {
        self.interval(name, comparison.map(|one| [one.ratio, one.low, one.high]));
        let verdict = comparison.map(|comparison| super::wording::word(comparison.verdict));
        self.put_some(format!("{name}_verdict"), verdict);
    }
}

/// The row of a case. Without a case, its names make the header.
fn row(summary: &Summary, case: Option<&CaseSummary>, shape: &Shape<'_>) -> Row {
    let mut row = Row::default();
    row.put("experiment", &summary.experiment);
    row.put("run", &summary.run);
    setting(&mut row, summary, case, &shape.factors);
    for column in &COLUMNS {
        match column.value {
            CaseValue::Measured(of) => row.measured(column.name, case.and_then(|case| of(case.metrics.as_ref()?))),
            CaseValue::OneWay(_) if !shape.has_one_way => {}
            CaseValue::Of(_) | CaseValue::OneWay(_) => {
                row.put_some(column.name, case.and_then(|case| column.of(case)));
            }
        }
        if column.name == LATENCY_MAX {
            costs(&mut row, case.and_then(|case| case.metrics.as_ref()), shape);
        }
    }
    ratios(&mut row, summary, case);
    row.put_some("failed_stage", case.and_then(|case| failed_stage(summary, case)));
    row
}

fn setting(row: &mut Row, summary: &Summary, case: Option<&CaseSummary>, factors: &IndexSet<&str>) {
    row.put_some("case", case.map(|case| &case.case));
    for factor in factors {
        let level = case.and_then(|case| case.levels.get(*factor));
        row.put_some(format!("factor_{factor}"), level);
    }
    row.put_some("is_reference", case.map(|case| case.reference));
    let reference = case.and_then(|case| summary.declared(case)).map(|c| &c.reference);
    row.put_some("reference", reference);
}

fn costs(row: &mut Row, metrics: Option<&Metrics>, shape: &Shape<'_>) {
    for (one, roles) in PER_REQUEST.iter().zip(&shape.roles) {
        for role in roles {
            for (name, value) in one.csv {
                row.put_some(name.replace("ROLE", role), metrics.and_then(|m| value(m, role)));
            }
        }
    }
}

fn ratios(row: &mut Row, summary: &Summary, case: Option<&CaseSummary>) {
    let of = |metric| case.and_then(|case| summary.comparison(case, metric));
    row.ratio("throughput_ratio", of(Metric::Throughput));
    row.ratio("latency_p50_ratio", of(Metric::LatencyP50));
    row.ratio("latency_p99_ratio", of(Metric::LatencyP99));
    row.ratio("cpu_per_request_ratio", of(Metric::CpuPerRequest));
    if !summary.limits.is_empty() {
        let of = |case: &CaseSummary| {
            let own = summary.limits.iter().filter(|held| held.case == case.case);
            joined(
                own.map(|held| format!("{}: {}", held.limit, name_of(held.standing))),
                "; ",
            )
        };
        row.put_some("limits", case.map(of));
    }
    let declared = case.and_then(|case| summary.declared(case));
    row.put_some("lower_bound", declared.map(|comparison| comparison.lower_bound));
}

/// A line of fields.
pub fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    joined(fields.map(text::csv), ",") + "\r\n"
}
