//! Whether the trials of a case were long enough to tell its latencies, and how long they have to be.

use std::ops::RangeInclusive;

use lasthop_trial::{histogram::Histogram, options::Model, result::TrialResult};

use crate::spec::Spec;

/// Little's law over trials of a case: the mean number of requests under way is their mean time multiplied by the
/// throughput. In a closed loop, the connections and the pipeline also give this number.
#[derive(Clone, Debug, PartialEq)]
pub struct Little {
    /// Mean requests under way, by the law.
    pub under_way: f64,
    /// Possible numbers of requests under way.
    pub possible: RangeInclusive<f64>,
}

/// Tolerance of the law, as a share: trials have edges.
const TOLERANCE: f64 = 0.1;
/// Least ratio of timed requests to those without a time, at the edges of a phase, for which a 99th percentile is
/// valid.
const FEW: u64 = 100;
/// Maximum time of closing a connection and opening the next one, besides their requests, in nanoseconds.
const CLOSING_NS: f64 = 100_000.0;

impl Little {
    /// Applies the law to trials of a case. `None` without latencies, and for a load whose number of requests under way
    /// is unknown (an open loop, or without replies).
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a TrialResult>, spec: &Spec) -> Option<Self> {
        if spec.model != Model::Closed || spec.protocol.receipt().is_some() {
            return None;
        }
        let mut time = 0.0;
        let mut timed = 0.0;
        let mut answered = 0.0;
        let mut elapsed = 0.0;
        let mut errors = 0;
        let mut beyond = 0.0;
        for trial in trials {
            let times = trial.service_time.as_ref()?;
            timed += times.count() as f64;
            time += times.sum();
            answered += trial.requests as f64;
            elapsed += trial.elapsed_ns as f64;
            errors += trial.error_total();
            // The latencies miss a stall at an edge of the phase, or one longer than the phase. If few requests are
            // affected, their time is added. Otherwise the latencies are not those of the load.
            if (trial.untimed.count + trial.open_at_end.count).saturating_mul(FEW) <= times.count() {
                beyond += trial.beyond_ns as f64;
            }
        }
        let mean = time / timed;
        // A unit of several requests has one time, but each of its requests has a reply.
        let under_way = (mean * answered / f64::from(spec.requests_per_connection) + beyond) / elapsed;
        let least = match errors {
            0 if spec.closes_each_time() => mean / (mean + CLOSING_NS),
            0 => 1.0,
            // A connection pauses after an error.
            _ => 0.0,
        };
        let connections = f64::from(spec.connections);
        // Of a pipeline's batch, at least one request is under way and at most all are.
        let possible = connections * least..=connections * f64::from(spec.pipeline);
        under_way.is_finite().then_some(Self { under_way, possible })
    }

    pub fn holds(&self) -> bool {
        let least = self.possible.start() * (1.0 - TOLERANCE);
        let most = self.possible.end() * (1.0 + TOLERANCE);
        (least..=most).contains(&self.under_way)
    }
}

/// Minimum length of a trial, as a multiple of the time of its case's slow replies.
pub const LEAST_TRIALS: u64 = 3;

/// Slow replies, together with all longer ones, take this share of the time of all connections.
const SLOW: f64 = 0.1;

/// Time of the slow replies of a case. A single disturbed trial does not decide it.
#[derive(Clone, Debug, Default)]
pub struct Slow {
    pooled: Histogram,
    worst: Histogram,
}

impl Slow {
    /// Takes the latencies of a trial into account.
    pub fn see(&mut self, latencies: &Histogram) {
        let is_worst = latencies.heavy(SLOW) > self.worst.heavy(SLOW);
        // The worst trial so far is held back, and counts only once a worse one comes.
        let other = if is_worst {
            std::mem::replace(&mut self.worst, latencies.clone())
        } else {
            latencies.clone()
        };
        self.pooled.merge(&other);
    }

    /// Time of the slow replies in nanoseconds; 0 before the second trial.
    pub fn ns(&self) -> u64 {
        self.pooled.heavy(SLOW)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::{
        address::{Address, Endpoint},
        options::Reuse,
        result::Longest,
    };

    use super::*;
    use crate::{Protocol, echo::Echo};

    const MS: u64 = 1_000_000;

    fn spec(connections: u32) -> Spec {
        let endpoint = Endpoint::plain(Address::Unix("/s".into()));
        Spec {
            connections,
            ..Spec::new(endpoint, Protocol::from(Echo { size: 64 }))
        }
    }

    fn times(times: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        times
            .iter()
            .for_each(|&(milliseconds, count)| histogram.record_n(milliseconds * MS, count));
        histogram
    }

    fn trial(requests: u64, milliseconds: u64, latencies: &[(u64, u64)]) -> TrialResult {
        let elapsed_ns = milliseconds * MS;
        TrialResult {
            requests,
            elapsed_ns,
            service_time: Some(times(latencies)),
            ..TrialResult::default()
        }
    }

    fn under_way(spec: &Spec, trials: &[TrialResult]) -> (f64, bool) {
        let little = Little::of(trials, spec).unwrap();
        (little.under_way, little.holds())
    }

    #[test]
    fn ten_connections_have_ten_requests_under_way() {
        let one_worker = spec(10);
        let (found, holds) = under_way(
            &one_worker,
            &[trial(50, 1_000, &[(200, 50)]), trial(25, 500, &[(200, 24)])],
        );
        assert!((found - 10.0).abs() < 0.02 && holds, "{found}");
        // Requests that began without a queue, cut off by a window of 50 ms.
        assert!(!under_way(&one_worker, &[trial(3, 60, &[(20, 1), (40, 1), (60, 1)])]).1);
        // All the slow replies, but a throughput that includes a start without any.
        assert!(!under_way(&one_worker, &[trial(632, 100, &[(1, 600), (300, 32)])]).1);
    }

    #[test]
    fn a_stall_at_an_edge_is_counted_apart() {
        let stalled = |untimed, beyond_ms: i64, latencies: &[(u64, u64)]| TrialResult {
            untimed: Longest {
                count: untimed,
                longest_ns: 2_500 * MS,
            },
            beyond_ns: beyond_ms * MS as i64,
            ..trial(3_000, 1_000, latencies)
        };
        // One of four connections was stuck all the time.
        assert!(under_way(&spec(4), &[stalled(4, 1_000, &[(1, 3_000)])]).1);
        assert!(!under_way(&spec(4), &[stalled(4, 0, &[(1, 3_000)])]).1);
        assert!(!under_way(&spec(4), &[stalled(40, 1_000, &[(1, 3_000)])]).1, "too many");
        // The connection was stuck near the end, and long after it.
        assert!(under_way(&spec(3), &[stalled(3, -2_400, &[(1, 2_900), (2_500, 1)])]).1);
        assert!(!under_way(&spec(3), &[stalled(3, 0, &[(1, 2_900), (2_500, 1)])]).1);
    }

    #[test]
    fn every_load_has_its_own_limits() {
        let piped = Spec { pipeline: 4, ..spec(2) };
        assert!(
            [(2, true), (8, true), (9, false), (1, false)]
                .iter()
                .all(|&(busy, holds)| {
                    let (_, found) = under_way(&piped, &[trial(100, 100, &[(busy, 100)])]);
                    found == holds
                })
        );
        let closing = Spec {
            reuse: Reuse::PerRequest,
            ..spec(1)
        };
        let mut short = Histogram::new();
        short.record_n(50_000, 1_000);
        let quick = TrialResult {
            requests: 1_000,
            elapsed_ns: 90 * MS,
            service_time: Some(short),
            ..trial(0, 0, &[])
        };
        assert!(
            under_way(&closing, std::slice::from_ref(&quick)).1,
            "closing takes as long as a short request"
        );
        assert!(!under_way(&spec(1), &[quick]).1);
        let unit = Spec {
            requests_per_connection: 10,
            ..closing
        };
        assert!(under_way(&unit, &[trial(100, 100, &[(10, 10)])]).1);
        assert_eq!(
            Little::of(&[TrialResult::default()], &spec(1)),
            None,
            "without latencies"
        );
    }

    #[test]
    fn replies_are_slow_by_the_time_that_they_take() {
        assert_eq!(
            times(&[(1, 900), (20, 1)]).heavy(SLOW) / MS,
            1,
            "a reply of 20 ms is 2 % of the time"
        );
        assert_eq!(times(&[(1, 98), (300, 2)]).heavy(SLOW) / MS, 300);
        let mut slow = Slow::default();
        slow.see(&times(&[(1, 10), (2_500, 4)]));
        assert_eq!(slow.ns(), 0, "one trial says nothing");
        (0..3).for_each(|_| slow.see(&times(&[(1, 100)])));
        assert_eq!(slow.ns() / MS, 1, "nor does one among many");
        slow.see(&times(&[(1, 10), (2_500, 4)]));
        assert_eq!(slow.ns() / MS / 100, 25);
    }
}
