//! Patterns with a known cause in the distribution of latencies.

use lasthop_model::{quantity::counted, record::CasePlan};
use lasthop_trial::{Histogram, TrialResult, delayed_ack::WINDOW_NS};

use super::finding::{Finding, doubt, percent};
use crate::{cases, summary::WaitCause, trials::Trials, waits};

const MS: u64 = 1_000_000;
/// The shortest median. Below, reading the clock (about 50 ns) is more than 5 % of a latency.
const SHORTEST_MEDIAN_NS: u64 = 1_000;

/// All latencies of a case; `None` if the driver does not report them.
fn merged(trials: &Trials, plan: &CasePlan) -> Option<Histogram> {
    cases::merged(trials, &plan.case, TrialResult::latency)
}

/// Number of latencies in the window if they are a cluster: many more than in the neighbouring windows of equal width.
fn cluster(histogram: &Histogram, from_ns: u64, to_ns: u64, least: u64) -> Option<u64> {
    let width = to_ns - from_ns;
    let inside = histogram.within(&(from_ns..to_ns));
    let beside = histogram.within(&(from_ns - width..from_ns)) + histogram.within(&(to_ns..to_ns + width));
    // If most requests take about as long, the cluster is just their usual time.
    let usually_faster = histogram.quantile(0.5) < from_ns / 4;
    (inside >= least && inside > 2 * beside && usually_faster).then_some(inside)
}

/// Latencies of a delayed ACK, for which a small write that Nagle's algorithm holds back waits. The kernel's shortest
/// takes 40 ms.
pub fn delayed_ack(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let histogram = merged(trials, plan)?;
    let (inside, against) = if waits::are_delayed_acks(trials, plan) {
        (histogram.within(&WINDOW_NS), "while both ends were idle".to_owned())
    } else {
        let inside = cluster(&histogram, WINDOW_NS.start, WINDOW_NS.end, 5)?;
        (inside, format!("against a median of {}", median(&histogram)))
    };
    let text = format!(
        "{} ({}) took 38 to 48 ms, {against}",
        counted(inside, "answer"),
        percent(inside as f64 / histogram.count() as f64),
    );
    let effect = "this is typical of Nagle's algorithm with delayed ACKs: set TCP_NODELAY on both sides, or write each \
                  message at once";
    Some(doubt(text, effect))
}

/// A wait without work that no other check here explains.
pub fn idle_wait(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let wait = waits::of_case(trials, plan).filter(|wait| wait.cause != WaitCause::DelayedAck)?;
    let ms = |us: f64| format!("{:.2} ms", us / 1e3);
    let text = format!(
        "a request waits for {} of {} on average, in which neither the driver nor a service uses a CPU or stands in line \
         for one",
        ms(wait.us),
        ms(wait.us + wait.left_us)
    );
    let effect = match wait.cause {
        WaitCause::SynRepeated => "SYNs were sent again: raise the server's backlog",
        WaitCause::Retransmission => "segments were lost and sent again: find out where, for example with `ss -ti`",
        WaitCause::Throttled => "a CPU limit stopped a service: raise it, or compare CPU time per request",
        WaitCause::DelayedAck | WaitCause::Unknown => {
            "a delay is no cost of a transport: look for a sleep, a lock or a timeout in the servers (`strace -f -r` shows \
             waits)"
        }
    };
    Some(doubt(text, effect))
}

/// Dropped SYNs, which are sent again after 1 s and then 2 s later. Queueing may take as long, so the kernel must also
/// have counted SYNs sent again.
pub fn syn_retransmit(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let histogram = merged(trials, plan)?;
    let windows = [(980 * MS, 1_150 * MS), (2_950 * MS, 3_300 * MS)];
    let inside: u64 = windows
        .iter()
        .filter_map(|&(from, to)| cluster(&histogram, from, to, 1))
        .sum();
    let repeated = trials.sum(&plan.case, |trial| trial.observations.network.syns_retransmitted);
    let text = format!(
        "{} took about 1 s or 3 s, against a median of {}, and the kernel sent {} again",
        counted(inside, "answer"),
        median(&histogram),
        counted(repeated, "SYN")
    );
    let effect = "a SYN is sent again if an accept queue was full: raise the server's backlog";
    (inside > 0 && repeated > 0).then(|| doubt(text, effect))
}

fn median(histogram: &Histogram) -> String {
    format!("{:.1} µs", histogram.quantile(0.5) as f64 / 1e3)
}

/// A clock that is too coarse for the latencies, because reading it takes too long or it counts milliseconds.
pub fn coarse_clock(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let histogram = merged(trials, plan)?;
    let steps = histogram.bins().count();
    let text = if histogram.count() >= 1_000 && steps < 10 {
        format!("{} latencies have only {steps} distinct values", histogram.count())
    } else if histogram.quantile(0.5) < SHORTEST_MEDIAN_NS {
        format!(
            "the median of {} is not much longer than reading a clock",
            median(&histogram)
        )
    } else {
        return None;
    };
    let effect = if plan.load.is_open() {
        "percentiles show the steps of the clock: run without a rate and compare the throughput instead"
    } else {
        "percentiles show the steps of the clock: compare the throughput instead"
    };
    Some(doubt(text, effect))
}
