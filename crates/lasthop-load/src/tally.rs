//! Counts of durations in the bins of [`Histogram`], for the loop: to record one is an index and an increment.

use crate::histogram::{HIGHEST_NS, Histogram};

/// Bins of the same width that a power of two is divided into; with three significant digits HDR takes 2048 for the
/// lowest range and half as many for each further one.
const HALF_BITS: u32 = 10;
const HALF: usize = 1 << HALF_BITS;
const FULL_MASK: u64 = 2 * HALF as u64 - 1;

pub struct Tally {
    counts: Box<[u64]>,
    total: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { counts: vec![0; index(HIGHEST_NS) + 1].into_boxed_slice(), total: 0 }
    }
}

impl Tally {
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.record_n(nanoseconds, 1);
    }

    /// Records the same duration `count` times. Zero counts as 1 ns; more than an hour counts as an hour.
    #[inline]
    pub fn record_n(&mut self, nanoseconds: u64, count: u64) {
        let last = self.counts.len() - 1;
        self.counts[index(nanoseconds.max(1)).min(last)] += count;
        self.total += count;
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.counts.fill(0);
            self.total = 0;
        }
    }

    #[must_use]
    pub fn to_histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        if !self.is_empty() {
            let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            filled.for_each(|(index, count)| histogram.record_n(lowest(index), *count));
        }
        histogram
    }
}

/// The bin of a duration.
#[inline]
fn index(nanoseconds: u64) -> usize {
    let power = (u64::BITS - 1 - HALF_BITS) - (nanoseconds | FULL_MASK).leading_zeros();
    ((power as usize) << HALF_BITS) + (nanoseconds >> power) as usize
}

/// The shortest duration of a bin.
fn lowest(index: usize) -> u64 {
    if index < 2 * HALF {
        return index as u64;
    }
    let power = (index >> HALF_BITS) - 1;
    ((index - (power << HALF_BITS)) as u64) << power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tally_is_the_histogram_of_the_same_durations(
            durations in proptest::collection::vec(prop_oneof![0u64..5000, 0..=HIGHEST_NS, Just(u64::MAX)], 0..50)
        ) {
            let (mut tally, mut histogram) = (Tally::default(), Histogram::new());
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
