//! Counts of durations in the bins of [`Histogram`], for the loop: recording one is an index and an increment.

use lasthop_trial::histogram::{BINS, Histogram, index};

pub struct Tally {
    counts: Box<[u64; BINS]>,
    total: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let counts = vec![0; BINS].into_boxed_slice();
        Self {
            counts: counts.try_into().expect("it has so many"),
            total: 0,
        }
    }
}

impl Tally {
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.record_n(nanoseconds, 1);
    }

    /// Records a duration `count` times. Zero counts as 1 ns; more than an hour counts as an hour.
    #[inline]
    pub fn record_n(&mut self, nanoseconds: u64, count: u64) {
        self.counts[index(nanoseconds)] += count;
        self.total += count;
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub fn clear(&mut self) {
        // Most tallies stay empty in a trial, and filling one touches all its bins.
        if !self.is_empty() {
            self.counts.fill(0);
            self.total = 0;
        }
    }

    pub fn to_histogram(&self) -> Histogram {
        if self.is_empty() {
            Histogram::new()
        } else {
            Histogram::of_counts(self.counts.iter().copied().enumerate())
        }
    }

    /// A histogram of the tally with the durations in `part`, which it includes, replaced by `others`.
    pub fn exchanged(&self, part: &Self, others: &Self) -> Histogram {
        let counts = self.counts.iter().zip(&*part.counts).zip(&*others.counts);
        // No bin falls below 0: all of `part` was recorded in `self` too.
        Histogram::of_counts(counts.map(|((all, part), others)| all - part + others).enumerate())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    proptest! {
        #[test]
        fn a_tally_is_the_histogram_of_the_same_durations(
            durations in proptest::collection::vec(prop_oneof![0u64..5000, 0..=HOUR_NS, Just(u64::MAX)], 0..50)
        ) {
            let mut tally = Tally::default();
            let mut histogram = Histogram::new();
            for duration in durations {
                tally.record(duration);
                histogram.record(duration);
            }
            let got = tally.to_histogram();
            prop_assert_eq!(got.bins().collect::<Vec<_>>(), histogram.bins().collect::<Vec<_>>());
            prop_assert_eq!(got.max(), histogram.max());
            tally.clear();
            prop_assert!(tally.to_histogram().is_empty());
        }
    }
}
