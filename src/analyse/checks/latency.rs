//! Shapes of the latency distribution that have a known cause.

use lasthop_load::{Histogram, TrialResult};

use super::{Evidence, of_case, percent};
use crate::{
    analyse::{
        self,
        summary::{Check, Severity},
    },
    record::schema::CasePlan,
};

const MS: u64 = 1_000_000;
/// Below this median, reading the clock (some 50 ns) is more than 5 % of a latency.
const SHORTEST_MEDIAN_NS: u64 = 1_000;

/// All latencies of a case; `None` when the driver has none.
fn merged(evidence: &Evidence, case: &str) -> Option<Histogram> {
    analyse::cases::merged(evidence.trials, case, TrialResult::latency)
}

fn count(histogram: &Histogram, from_ns: u64, to_ns: u64) -> u64 {
    histogram.bins().filter(|(value, _)| (from_ns..to_ns).contains(value)).map(|(_, count)| count).sum()
}

/// Latencies within the window, if they are a cluster: many more than in windows of the same width beside it.
fn cluster(histogram: &Histogram, from_ns: u64, to_ns: u64, least: u64) -> Option<u64> {
    let width = to_ns - from_ns;
    let inside = count(histogram, from_ns, to_ns);
    let beside = count(histogram, from_ns - width, from_ns) + count(histogram, to_ns, to_ns + width);
    let usually_faster = histogram.quantile(0.5) < from_ns / 4;
    (inside >= least && inside > 2 * beside && usually_faster).then_some(inside)
}

fn cases(evidence: &Evidence, check: impl Fn(&CasePlan, &Histogram) -> Option<Check>) -> Vec<Check> {
    let plans = evidence.trials.cases().iter();
    plans.filter_map(|plan| check(plan, &merged(evidence, &plan.case)?)).collect()
}

/// The kernel's shortest delayed ACK is 40 ms: a small write waits for it when Nagle's algorithm holds it back.
pub fn delayed_ack(evidence: &Evidence) -> Vec<Check> {
    cases(evidence, |plan, histogram| {
        let inside = cluster(histogram, 38 * MS, 48 * MS, 5)?;
        let share = inside as f64 / histogram.count() as f64;
        let text = format!(
            "{inside} answers ({}) took 38 to 48 ms, against a median of {}",
            percent(share),
            median(histogram)
        );
        let effect =
            "this is what Nagle's algorithm with delayed ACKs does: set TCP_NODELAY on both sides, or write once";
        Some(of_case("delayed-ack", Severity::Doubt, &plan.case, text, effect))
    })
}

/// A SYN that was dropped is sent again after 1 s, then after 2 s more.
pub fn syn_retransmit(evidence: &Evidence) -> Vec<Check> {
    cases(evidence, |plan, histogram| {
        let windows = [(980 * MS, 1_150 * MS), (2_950 * MS, 3_300 * MS)];
        let inside: u64 = windows.iter().filter_map(|&(from, to)| cluster(histogram, from, to, 1)).sum();
        let text = format!("{inside} answers took about 1 s or 3 s, against a median of {}", median(histogram));
        let effect = "this is what a repeated SYN costs when an accept queue is full: raise the server's backlog";
        (inside > 0).then(|| of_case("syn-retransmit", Severity::Doubt, &plan.case, text, effect))
    })
}

fn median(histogram: &Histogram) -> String {
    format!("{:.1} µs", histogram.quantile(0.5) as f64 / 1e3)
}

/// A clock too coarse for what it measures: one that is read too slowly, or counts milliseconds.
pub fn coarse_clock(evidence: &Evidence) -> Vec<Check> {
    cases(evidence, |plan, histogram| {
        let steps = histogram.bins().count();
        let text = if histogram.count() >= 1_000 && steps < 10 {
            format!("{} latencies have only {steps} different values", histogram.count())
        } else if histogram.quantile(0.5) < SHORTEST_MEDIAN_NS {
            format!("the median of {} is not much more than reading a clock takes", median(histogram))
        } else {
            return None;
        };
        let effect = match plan.load.is_open() {
            false => "percentiles are steps of the clock: compare the throughput",
            true => "percentiles are steps of the clock: run without a rate, and compare the throughput",
        };
        Some(of_case("coarse-clock", Severity::Doubt, &plan.case, text, effect))
    })
}
