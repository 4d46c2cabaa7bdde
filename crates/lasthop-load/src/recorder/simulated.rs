//! The window's rule tested on servers whose true figures are known: its counts have no bias, unlike counts of requests
//! that end in a trial.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

const MS: u64 = 1_000_000;
const CONNECTIONS: u64 = 16;
const TRIALS: u64 = 400;
/// Service times in milliseconds are 1 or more, with a Pareto tail of this exponent, up to the longest.
const EXPONENT: f64 = 1.3;
const LONGEST: f64 = 300.0;
/// A trial of fixed length, shorter than the slowest replies.
const SHORT: TrialPhases = TrialPhases {
    warm_up_ns: 10 * MS,
    measure_ns: 50 * MS,
};
/// Slow replies take 130 ms here: the trial lasts four times as long, its warm-up twice.
const FITTING: TrialPhases = TrialPhases {
    warm_up_ns: 260 * MS,
    measure_ns: 520 * MS,
};

/// G. L. Steele, D. Lea and C. H. Flood's SplitMix64.
struct Random(u64);

impl Random {
    /// A number of at least 0 and less than 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn service_ns(&mut self) -> u64 {
        ((1.0 - self.unit()).powf(-1.0 / EXPONENT).min(LONGEST) * MS as f64) as u64
    }
}

/// The mean service time.
fn mean_ns() -> f64 {
    let below = EXPONENT - 1.0;
    (EXPONENT / below - LONGEST.powf(-below) / below) * MS as f64
}

/// Results of trials: requests per second, and the mean latency in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Estimates {
    rate: f64,
    mean: f64,
}

/// Sums over trials.
#[derive(Default)]
struct Sums {
    answers: f64,
    elapsed: f64,
    time: f64,
    timed: f64,
}

impl Sums {
    fn estimates(&self) -> Estimates {
        Estimates {
            rate: self.answers / self.elapsed * 1e9,
            mean: self.time / self.timed,
        }
    }
}

/// Simulates a closed loop over connections to a server whose workers take requests in order. Each trial begins idle,
/// as after another case's turn. Returns results by the recorder's rule, and from requests that end in the window.
fn simulate(workers: usize, phases: TrialPhases) -> [Estimates; 2] {
    let mut random = Random(workers as u64);
    let mut ours = Sums::default();
    let mut cut_off = Sums::default();
    for _ in 0..TRIALS {
        let mut recorder = Recorder::new(Calls::default()).lingering(CONNECTIONS);
        recorder.start(0, phases);
        let mut free: BinaryHeap<Reverse<u64>> = (0..workers).map(|_| Reverse(0)).collect();
        let mut send = |now: u64| {
            let Reverse(idle_at) = free.pop().expect("a server has workers");
            let end = now.max(idle_at) + random.service_ns();
            free.push(Reverse(end));
            Reverse((end, now))
        };
        let mut under_way: BinaryHeap<_> = (0..CONNECTIONS).map(|_| send(0)).collect();
        let window = phases.warm_up_ns..phases.warm_up_ns + phases.measure_ns;
        let mut last = 0;
        while let Some(Reverse((end, start))) = under_way.pop() {
            last = end;
            recorder.complete(start, end, end, 1, 1);
            if window.contains(&end) {
                cut_off.answers += 1.0;
                cut_off.time += (end - start) as f64;
                cut_off.timed += 1.0;
            }
            if recorder.lingers() && !under_way.iter().any(|Reverse((_, start))| recorder.is_timed(*start)) {
                recorder.leave();
            }
            if !recorder.is_over() {
                under_way.push(send(end));
            }
        }
        cut_off.elapsed += phases.measure_ns as f64;
        let record = recorder.finish(last);
        // Requests that ended in the window and those that began in it differ only by those under way at its ends.
        let service = record.service_time.unwrap();
        assert_eq!(
            service.count() + record.untimed.count,
            record.requests + record.open_at_end.count,
            "{workers} workers"
        );
        ours.answers += record.requests as f64;
        ours.elapsed += record.elapsed_ns as f64;
        ours.time += service.sum();
        ours.timed += service.count() as f64;
    }
    [ours.estimates(), cut_off.estimates()]
}

/// Relative errors of the results.
fn error(estimates: Estimates, workers: usize) -> Estimates {
    let workers = workers as f64;
    let truth = Estimates {
        rate: workers / mean_ns() * 1e9,
        mean: mean_ns() * CONNECTIONS as f64 / workers,
    };
    Estimates {
        rate: estimates.rate / truth.rate - 1.0,
        mean: estimates.mean / truth.mean - 1.0,
    }
}

#[test]
fn a_window_has_no_bias_where_what_ends_in_a_trial_has() {
    for workers in [CONNECTIONS as usize, 4] {
        let [fitting, _] = simulate(workers, FITTING).map(|estimates| error(estimates, workers));
        let [_, cut_off] = simulate(workers, SHORT).map(|estimates| error(estimates, workers));
        assert!(
            fitting.rate.abs() < 0.02 && fitting.mean.abs() < 0.02,
            "{workers} workers: {fitting:?}"
        );
        assert!(
            cut_off.rate > 0.1 && cut_off.mean < -0.1,
            "{workers} workers: {cut_off:?}"
        );
    }
}
