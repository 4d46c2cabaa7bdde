//! The figures of a case for the expressions of studies.

use lasthop_analyse::summary::{CaseSummary, Metrics};
use lasthop_stats::Interval;
use lasthop_trial::result::Reported;

/// Reads a figure of a case, in seconds, bytes and their quotients; `None` if it was not measured.
type FigureOf = fn(&CaseSummary) -> Option<Interval>;

/// Figures by their name in expressions. Latencies reported by a classic tool take precedence over derived ones.
pub const FIGURES: [(&str, FigureOf); 9] = [
    ("rate", rate),
    ("time", time),
    ("mean", |case| said(case, |said| said.mean_ns).or_else(|| time(case))),
    ("deviation", |case| said(case, |said| said.deviation_ns)),
    ("p99", |case| {
        let own = || Some(metrics(case)?.latency_p99.as_ref()?.interval.times(1e-6));
        said(case, |said| said.p99_ns).or_else(own)
    }),
    ("max", |case| {
        let own = || Some(Interval::exact(metrics(case)?.latency_max? * 1e-6));
        said(case, |said| said.max_ns).or_else(own)
    }),
    // Means per trial, because a trial corresponds to a run of the study's method.
    ("requests", |case| Some(Interval::exact(requests(case)))),
    ("seconds", |case| {
        Some(Interval::exact(requests(case) / rate(case)?.estimate))
    }),
    ("bytes", |case| {
        Some(Interval::exact(metrics(case)?.reply_bytes? * requests(case)))
    }),
];

pub fn figure(case: &CaseSummary, name: &str) -> Option<Interval> {
    let (_, of) = FIGURES.iter().find(|(known, _)| *known == name)?;
    metrics(case).and_then(|_| of(case))
}

fn metrics(case: &CaseSummary) -> Option<&Metrics> {
    case.metrics.as_ref()
}

fn rate(case: &CaseSummary) -> Option<Interval> {
    Some(metrics(case)?.throughput.interval)
}

/// A client's time for a request, or for all requests of a connection that carries several.
fn time(case: &CaseSummary) -> Option<Interval> {
    let requests = case.load.connections.max(1) * case.load.requests_per_connection;
    let rate = rate(case).filter(|rate| rate.low > 0.0)?;
    Some(rate.inverse().times(f64::from(requests)))
}

fn said(case: &CaseSummary, of: fn(&Reported) -> Option<f64>) -> Option<Interval> {
    of(case.reported.as_ref()?).map(|nanoseconds| Interval::exact(nanoseconds / 1e9))
}

fn requests(case: &CaseSummary) -> f64 {
    case.requests as f64 / f64::from(case.trials.max(1))
}
