//! When the requests of an open loop are due: pure arithmetic, without a clock.

use lasthop_trial::{
    options::{Arrivals, LoadStage, OpenLoop},
    random::SplitMix,
};

/// The due times of one worker's share of the requests, in nanoseconds from the beginning of a trial.
///
/// Due times do not depend on when requests are really sent: a late request stays due.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Nanoseconds between two requests of this worker, on average.
    interval: f64,
    /// First due time of constant arrivals, in nanoseconds; workers take turns.
    offset: f64,
    arrivals: Arrivals,
    random: SplitMix,
    /// Requests released so far.
    released: u64,
    due: f64,
    /// This worker's index among all workers.
    index: u32,
    workers: u32,
    /// The remaining stages, which replace the rate, the last first; and when the current stage began.
    stages: Vec<LoadStage>,
    stage_began: f64,
}

impl Pacer {
    /// The pacer of worker `index` of `workers`.
    pub fn new(open: &OpenLoop, index: u32, workers: u32) -> Self {
        let interval = f64::from(workers) * 1e9 / open.rate;
        let mut pacer = Self {
            interval,
            offset: f64::from(index) * 1e9 / open.rate,
            arrivals: open.arrivals,
            // Workers with the same random numbers would send in step, and the load would come in bursts.
            random: SplitMix(open.seed ^ (u64::from(index) << 32)),
            released: 0,
            due: 0.0,
            index,
            workers,
            stages: Vec::new(),
            stage_began: 0.0,
        };
        pacer.restart();
        pacer
    }

    /// Sets the stages that pace the next trial, if there are any. Their requests are due even if no connection is
    /// free.
    pub fn in_stages(&mut self, stages: &[LoadStage]) {
        self.stages = stages.iter().rev().copied().collect();
    }

    /// Whether a request is dropped if no connection is free when it is due.
    pub fn waits_for_nobody(&self) -> bool {
        !self.stages.is_empty()
    }

    /// When the request after `released` requests of a stage is due. If the stage is over by then, the request belongs
    /// to the next stage. The last stage does not end.
    fn due_in_stage(&mut self) -> Option<f64> {
        loop {
            let stage = *self.stages.last()?;
            // Workers take turns: this one has every `workers`-th request.
            let place = f64::from(self.index) + self.released as f64 * f64::from(self.workers);
            let due = self.stage_began + place * 1e9 / stage.rate;
            let ends = self.stage_began + stage.length_ns as f64;
            if due < ends || self.stages.len() == 1 {
                return Some(due);
            }
            self.stages.pop();
            self.stage_began = ends;
            self.released = 0;
        }
    }

    /// Begins a new trial. Poisson arrivals continue their random numbers: no two trials are alike.
    pub fn restart(&mut self) {
        self.released = 0;
        self.stage_began = 0.0;
        if let Some(due) = self.due_in_stage() {
            self.due = due;
            return;
        }
        self.due = match self.arrivals {
            Arrivals::Constant => self.offset,
            Arrivals::Poisson => self.gap(),
        };
    }

    /// When the next request is due.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due as u64
    }

    /// Time that the requests released so far take at the rate: a gap follows each constant arrival, and precedes each
    /// random one.
    pub fn taken(&self) -> u64 {
        match self.arrivals {
            Arrivals::Constant => (self.released as f64 * self.interval) as u64,
            Arrivals::Poisson => 0,
        }
    }

    /// Releases the request that is due: sent, or counted as missed.
    #[inline]
    pub fn release(&mut self) {
        self.released += 1;
        if !self.stages.is_empty() {
            self.due = self.due_in_stage().unwrap_or(self.due);
            return;
        }
        self.due = match self.arrivals {
            // Multiplied, not summed: no error accumulates.
            Arrivals::Constant => self.offset + self.released as f64 * self.interval,
            Arrivals::Poisson => self.due + self.gap(),
        };
    }

    /// Releases the requests due before `end`. Returns their number.
    pub fn release_before(&mut self, end: u64) -> u64 {
        // Not a difference of `released`, which begins anew with each stage.
        let mut count = 0;
        while self.due() < end {
            self.release();
            count += 1;
        }
        count
    }

    /// A gap of a Poisson process: exponentially distributed, by inversion.
    fn gap(&mut self) -> f64 {
        // `unit` may be 0, which has no logarithm, but never 1. Independent Poisson processes add up to one of the
        // whole rate, so every worker draws its own gaps.
        -(1.0 - self.random.unit()).ln() * self.interval
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(rate: f64, arrivals: Arrivals) -> OpenLoop {
        OpenLoop {
            rate,
            arrivals,
            seed: 7,
        }
    }

    fn dues(pacer: &mut Pacer, count: usize) -> Vec<u64> {
        let next = |_| {
            let due = pacer.due();
            pacer.release();
            due
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn constant_arrivals_of_several_workers_interleave_evenly() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|index| dues(&mut Pacer::new(&open(1000.0, Arrivals::Constant), index, 4), 25))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).map(|index| index * 1_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn constant_arrivals_take_the_gap_behind_the_last_one_too() {
        for (index, workers) in [(0, 1), (0, 4), (3, 4)] {
            let mut pacer = Pacer::new(&open(4.0, Arrivals::Constant), index, workers);
            assert_eq!(pacer.taken(), 0);
            dues(&mut pacer, 5);
            assert_eq!(pacer.taken(), u64::from(workers) * 1_250_000_000);
        }
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let mut pacer = Pacer::new(&open(3.0, Arrivals::Constant), 0, 1);
        assert_eq!(pacer.release_before(1_000_000_000_000), 3000);
        assert_eq!(pacer.due(), 1_000_000_000_000);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_spread_of_their_process() {
        let gaps = |due: &[u64]| -> Vec<f64> { due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect() };
        let due = dues(&mut Pacer::new(&open(10_000.0, Arrivals::Poisson), 0, 1), 100_001);
        let gaps = gaps(&due);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean gap {mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "coefficient of variation {}",
            variance.sqrt() / mean
        );
        let short = gaps.iter().filter(|gap| **gap < mean).count() as f64 / gaps.len() as f64;
        assert!(
            (short - (1.0 - (-1.0_f64).exp())).abs() < 0.01,
            "{short} of the gaps are below the mean"
        );
    }

    #[test]
    fn stages_follow_each_other_with_a_rate_each() {
        let stage = |rate, length_ns| LoadStage {
            rate,
            length_ns,
            fill_ns: 0,
            slot_ns: 0,
        };
        let stages = [
            stage(1000.0, 10_000_000),
            stage(4000.0, 2_000_000),
            stage(500.0, 4_000_000),
        ];
        let of = |index, workers| {
            let mut pacer = Pacer::new(&open(7.0, Arrivals::Poisson), index, workers);
            pacer.in_stages(&stages);
            pacer.restart();
            let mut due = dues(&mut pacer, 40);
            due.retain(|due| *due < 16_000_000);
            due
        };
        let all = of(0, 1);
        let within = |from, to| all.iter().filter(|due| (from..to).contains(*due)).count();
        let counts = [
            within(0, 10_000_000),
            within(10_000_000, 12_000_000),
            within(12_000_000, 16_000_000),
        ];
        assert_eq!(counts, [10, 8, 2]);
        let mut shared = [of(0, 2), of(1, 2)].concat();
        shared.sort_unstable();
        assert_eq!(shared, all, "two workers take turns");
        let mut pacer = Pacer::new(&open(7.0, Arrivals::Poisson), 0, 1);
        pacer.in_stages(&stages);
        pacer.restart();
        assert_eq!(pacer.release_before(16_000_000), 20, "across the ends of stages");
    }

    proptest! {
        #[test]
        fn due_times_never_go_back(rate in 0.1f64..1e7, poisson: bool, index in 0u32..8) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let due = dues(&mut Pacer::new(&open(rate, arrivals), index, 8), 200);
            prop_assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
