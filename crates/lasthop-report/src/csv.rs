//! CSV for spreadsheets and data frames: one row per case, with every value that you may want to plot or filter.
//!
//! RFC 4180: there is a header, lines end in CR LF, and fields with commas, semicolons or quotes are quoted. Numbers
//! are written in full, without thousands separators. Names of columns include units. Values that do not apply are
//! empty. Text that a spreadsheet would read as a formula starts with an apostrophe, and hidden characters are escaped
//! (`\n`, `\u{1b}`). Columns, in order:
//!
//! | columns | meaning |
//! |---|---|
//! | `experiment`, `run`, `case` | |
//! | `factor_NAME` | level of each factor; empty if the factor does not apply |
//! | `is_reference`, `reference` | `true` or `false`; the case that the ratios refer to |
//! | those of [`COLUMNS`] | the figures of the case, as documented at their fields; measured figures also with `_low` and `_high`, the ends of the interval |
//! | `cpu_ROLE_us` and others of [`PER_REQUEST`] | costs per request of the driver and each service; no column if unmeasured |
//! | `throughput_ratio`, `latency_p50_ratio`, `latency_p99_ratio`, `cpu_per_request_ratio` | case divided by reference, each with `_low`, `_high` and `_verdict` |
//! | `limits` | only with `--fail-if`: each limit that names the case, and whether it is `kept`, `exceeded`, `undecided` or `not-judged` |
//! | `lower_bound` | whether the ratio behind the verdict is a lower bound |
//! | `failed_stage` | stage of the first failure |
//!
//! [`trials`] has one row per trial instead, in the format that statistics tools call tidy:
//!
//! | columns | meaning |
//! |---|---|
//! | `experiment`, `run`, `case`, `factor_NAME`, `is_reference`, `reference` | as above |
//! | `round`, `block`, `position` | trials of one round and block are pairs: ratios are taken within them |
//! | `at_s`, `seconds` | start of the trial since the start of the run; length of its measure phase |
//! | `requests`, `errors`, `sent_again`, `bytes_received`, `throughput_per_s` | |
//! | `latency_p50_us`, `latency_p90_us`, `latency_p99_us`, `latency_p999_us`, `latency_max_us` | response times in open loops |
//! | `cpu_driver_us` | the driver's CPU time per request |

use indexmap::IndexSet;
use lasthop_analyse::{
    name_of,
    summary::{
        COLUMNS, CaseSummary, CaseValue, LATENCY_MAX, Metric, Metrics, Overload, OverloadCase, OverloadPoint,
        PER_REQUEST, Span, Summary,
    },
};
use lasthop_model::{quantity::joined, record::MeasuredTrial};

use crate::{columns::Columns, content::failed_stage, wording::word};

/// Quantiles of a trial's latency, and their names.
const QUANTILES: [(f64, &str); 5] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999"), (1.0, "max")];

/// The report for spreadsheets and data frames.
#[must_use]
pub fn render(summary: &Summary) -> Vec<u8> {
    match &summary.overload {
        Some(overload) => loads(summary, overload),
        None => cases(summary),
    }
}

/// A row for each trial.
#[must_use]
pub fn trials(summary: &Summary, trials: &[&MeasuredTrial]) -> Vec<u8> {
    let mut columns = setting(Columns::of(trials), summary, |trial| summary.case(&trial.case))
        .data("round", |trial| trial.round)
        .data("block", |trial| trial.block)
        .data("position", |trial| trial.position)
        .data("at_s", |trial| trial.at_ns as f64 / 1e9)
        .data("seconds", |trial| trial.result.elapsed_ns as f64 / 1e9)
        .data("requests", |trial| trial.result.requests)
        .data("errors", |trial| trial.result.error_total())
        .data("sent_again", |trial| trial.result.sent_again)
        .data("bytes_received", |trial| trial.result.bytes_received)
        .data("throughput_per_s", |trial| trial.result.throughput());
    for (share, name) in QUANTILES {
        columns = columns.known(format!("latency_{name}_us"), |trial| {
            let latency = trial.result.latency().filter(|latency| !latency.is_empty())?;
            Some(latency.quantile(share) as f64 / 1e3)
        });
    }
    columns
        .data("cpu_driver_us", |trial| {
            trial.result.cost.cpu_ns() as f64 / 1e3 / trial.result.requests as f64
        })
        .csv()
}

/// A load offered to a case.
type Load<'a> = (&'a OverloadCase, &'a OverloadPoint);

/// A run with overload: one row per case and offered load. Figures have the columns `_least`, `_median` and `_most`,
/// over the repetitions. Shares are of the due requests, with an `error_KIND_share` for each way in which requests
/// ended.
fn loads(summary: &Summary, overload: &Overload) -> Vec<u8> {
    let cases = overload.cases.iter();
    let points = cases.flat_map(|case| case.points.iter().map(move |point| (case, point)));
    let points: Vec<Load<'_>> = points.collect();
    let mut columns = setting(Columns::of(&points), summary, |(found, _)| summary.case(&found.case));
    columns = spans(columns, "capacity_per_s", |(case, _)| case.capacity)
        .data("times", |(_, point)| point.times)
        .data("offered_per_s", |(_, point)| point.offered)
        .data("trials", |(_, point)| point.trials)
        .data("served", |(_, point)| point.served);
    columns = spans(columns, "goodput_per_s", |(_, point)| Some(point.goodput));
    columns = spans(columns, "right_share", |(_, point)| Some(point.right));
    let kinds: IndexSet<&String> = points.iter().flat_map(|(_, point)| point.wrong.keys()).collect();
    for kind in kinds {
        columns = spans(columns, &format!("error_{kind}_share"), |(_, point)| {
            Some(point.wrong.get(kind)?.share)
        })
        .known(format!("error_{kind}_after_ms"), |(_, point)| {
            Some(point.wrong.get(kind)?.after_ms)
        });
    }
    columns = spans(columns, "not_sent_share", |(_, point)| Some(point.not_sent));
    columns = spans(columns, "waiting_share", |(_, point)| Some(point.unanswered));
    columns = spans(columns, "p50_ms", |(_, point)| point.p50_ms);
    columns = spans(columns, "p99_ms", |(_, point)| point.p99_ms);
    columns = spans(columns, "lag_p99_ms", |(_, point)| point.lag_p99_ms);
    columns = spans(columns, "recovery_s", |(_, point)| point.recovery?.seconds)
        .known("not_recovered", |(_, point)| Some(point.recovery?.late));
    columns = spans(columns, "listen_overflows", |(_, point)| Some(point.listen_overflows));
    columns = spans(columns, "listen_drops", |(_, point)| Some(point.listen_drops));
    columns = spans(columns, "syns_retransmitted", |(_, point)| {
        Some(point.syns_retransmitted)
    });
    let logged: IndexSet<&String> = points.iter().flat_map(|(_, point)| point.logged.keys()).collect();
    for meaning in logged {
        columns = spans(columns, &format!("logged {meaning}"), |(_, point)| {
            point.logged.get(meaning).copied()
        });
    }
    columns.csv()
}

fn spans<'a, R>(columns: Columns<'a, R>, id: &str, of: impl Fn(&'a R) -> Option<Span>) -> Columns<'a, R> {
    columns.several(id, ["_least", "_median", "_most"], |row| {
        let Span { least, median, most } = of(row)?;
        Some([least, median, most])
    })
}

fn cases(summary: &Summary) -> Vec<u8> {
    let mut metrics = summary.cases.iter().filter_map(|case| case.metrics.as_ref());
    let has_one_way = metrics.any(|metrics| metrics.one_way.is_some());
    let mut columns = setting(Columns::of(&summary.cases), summary, Some);
    for column in &COLUMNS {
        columns = match column.value {
            CaseValue::Measured(of) => columns.interval(column.name, |case| Some(of(case.metrics.as_ref()?)?.interval)),
            CaseValue::OneWay(_) if !has_one_way => columns,
            CaseValue::Of(_) | CaseValue::OneWay(_) => columns.known(column.name, |case| column.value_of(case)),
        };
        if column.name == LATENCY_MAX {
            columns = costs(columns, summary);
        }
    }
    for metric in Metric::ALL {
        let id = format!("{}_ratio", name_of(metric));
        columns = columns
            .interval(&id, |case| Some(summary.comparison(case, metric)?.ratio))
            .known(format!("{id}_verdict"), |case| {
                Some(word(summary.comparison(case, metric)?.verdict))
            });
    }
    if !summary.limits.is_empty() {
        columns = columns.data("limits", |case| {
            let own = summary.limits.iter().filter(|held| held.case == case.case);
            joined(
                own.map(|held| format!("{}: {}", held.limit, name_of(held.standing))),
                "; ",
            )
        });
    }
    columns
        .known("lower_bound", |case| Some(summary.declared(case)?.lower_bound))
        .known("failed_stage", |case| failed_stage(summary, case))
        .csv()
}

/// Adds the columns of the run, and of the row's case.
fn setting<'a, R>(
    columns: Columns<'a, R>,
    summary: &Summary,
    case: impl Fn(&'a R) -> Option<&'a CaseSummary>,
) -> Columns<'a, R> {
    let mut columns = columns
        .data("experiment", |_| &summary.experiment)
        .data("run", |_| &summary.run)
        .known("case", |row| Some(&case(row)?.case));
    let levels = summary.cases.iter().flat_map(|case| case.levels.keys());
    let factors: IndexSet<&String> = summary.factors.keys().chain(levels).collect();
    for factor in factors {
        columns = columns.known(format!("factor_{factor}"), |row| case(row)?.levels.get(factor));
    }
    columns
        .known("is_reference", |row| Some(case(row)?.reference))
        .known("reference", |row| Some(&summary.declared(case(row)?)?.reference))
}

/// Adds the costs per request, for each role that has the cost.
fn costs<'a>(mut columns: Columns<'a, CaseSummary>, summary: &'a Summary) -> Columns<'a, CaseSummary> {
    let metrics = || summary.cases.iter().filter_map(|case| case.metrics.as_ref());
    for (place, one) in PER_REQUEST.iter().enumerate() {
        let mut roles: IndexSet<&str> = metrics().flat_map(|metrics: &Metrics| (one.roles)(metrics)).collect();
        if place == 0 && roles.is_empty() {
            // There is always a driver.
            roles.insert("driver");
        }
        for role in roles {
            for (name, value) in one.csv {
                columns = columns.known(name.replace("ROLE", role), |case| value(case.metrics.as_ref()?, role));
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{rows::rows, summarise, testing};

    use super::*;

    #[test]
    fn a_row_has_the_figures_of_its_trial() {
        let data = testing::healthy();
        let rows = rows(&data);
        let text = String::from_utf8(trials(&summarise(&data), &rows)).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        assert_eq!(lines.clone().count(), rows.len());
        for (line, trial) in lines.zip(rows) {
            let value = |name: &str| line[head.iter().position(|known| *known == name).unwrap()];
            let number = |name: &str| value(name).parse::<f64>().unwrap();
            assert_eq!(value("case"), trial.case);
            let place = [trial.round, trial.block].map(f64::from);
            assert_eq!([number("round"), number("block")], place);
            assert_eq!(number("requests"), trial.result.requests as f64);
            let rate = number("throughput_per_s");
            assert!((rate - number("requests") / number("seconds")).abs() < 1e-6 * rate);
            let latencies = QUANTILES.map(|(_, name)| number(&format!("latency_{name}_us")));
            assert!(latencies.is_sorted() && latencies[0] > 0.0, "{latencies:?}");
        }
    }
}
