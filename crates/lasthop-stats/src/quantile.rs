//! Percentiles of merged histograms. Percentiles are never averaged.
//!
//! A resample takes every unit's histogram as often as the unit was drawn, merges, and reads the quantile. The bins of
//! all units are sorted once; each resample starts at the quantile of the data as they are, and walks from there.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    bootstrap::{self, Resampling},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// A histogram, in whatever form it is kept.
pub trait Histogram {
    /// (value, count) of the bins that hold something, in any order. Values are positive.
    fn bins(&self) -> impl Iterator<Item = (u64, u64)>;
}

impl<H: Histogram> BlockValue for H {
    fn is_valid(&self) -> bool {
        self.bins().any(|(_, count)| count > 0) && self.bins().all(|(value, _)| value > 0)
    }
}

/// A histogram as a list of (value, count).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins(pub Vec<(u64, u64)>);

impl Histogram for Bins {
    fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }
}

/// Two cases in the same block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedBins<H = Bins> {
    pub case: H,
    pub reference: H,
}

impl<H: Histogram> BlockValue for PairedBins<H> {
    fn is_valid(&self) -> bool {
        self.case.is_valid() && self.reference.is_valid()
    }
}

/// All units' bins, and the quantile that is asked for. An hour's run has millions of bins.
struct UnitBins {
    quantile: f64,
    /// Rising, each with the end of its entries; they begin where those of the value before end.
    values: Vec<(u64, usize)>,
    /// An entry is a unit and its count of a value.
    units: Vec<u32>,
    counts: Vec<u64>,
    /// Count of each unit.
    totals: Vec<u64>,
    /// Where walks start: the index of a value, and the count of each unit up to that value.
    start: usize,
    up_to_start: Vec<u64>,
}

impl UnitBins {
    fn new<'a, T, H>(blocks: &'a Grouped<T>, quantile: f64, pick: impl Fn(&'a T) -> &'a H) -> Self
    where
        T: BlockValue + 'a,
        H: Histogram + 'a,
    {
        let units = blocks.units();
        let merged = |unit: &'a [T]| merged(unit.iter().map(&pick));
        let mut found: BTreeMap<u64, usize> = BTreeMap::new();
        let mut totals = vec![0; units.len()];
        for (unit, total) in units.iter().zip(&mut totals) {
            for (value, count) in merged(unit) {
                *found.entry(value).or_default() += 1;
                *total += count;
            }
        }
        let mut end = 0;
        let values: Vec<(u64, usize)> = found
            .into_iter()
            .map(|(value, entries)| {
                (value, {
                    end += entries;
                    end
                })
            })
            .collect();
        let mut all = Self {
            quantile,
            units: vec![0; end],
            counts: vec![0; end],
            start: 0,
            up_to_start: vec![0; units.len()],
            values,
            totals,
        };
        all.fill(units.into_iter().map(merged));
        all.find_start();
        all
    }

    fn fill(&mut self, units: impl Iterator<Item = Vec<(u64, u64)>>) {
        let mut next: Vec<usize> = (0..self.values.len()).map(|value| self.entries(value).start).collect();
        for (unit, bins) in (0..).zip(units) {
            for (value, count) in bins {
                let place = self.values.partition_point(|known| known.0 < value);
                (self.units[next[place]], self.counts[next[place]]) = (unit, count);
                next[place] += 1;
            }
        }
    }

    /// The quantile of the data as they are.
    fn find_start(&mut self) {
        let rank = self.rank(self.totals.iter().sum());
        let mut below = 0;
        for value in 0..self.values.len() {
            for entry in self.entries(value) {
                self.up_to_start[self.units[entry] as usize] += self.counts[entry];
                below += self.counts[entry];
            }
            self.start = value;
            if below >= rank {
                return;
            }
        }
    }

    fn entries(&self, value: usize) -> Range<usize> {
        let start = value.checked_sub(1).map_or(0, |before| self.values[before].1);
        start..self.values[value].1
    }

    fn rank(&self, total: u64) -> u64 {
        ((self.quantile * total as f64).ceil() as u64).max(1)
    }

    /// The lowest bin that at least the share of the merged counts do not exceed.
    fn quantile(&self, times: &[u32]) -> Option<f64> {
        let weighted =
            |counts: &[u64]| -> u64 { times.iter().zip(counts).map(|(&times, n)| u64::from(times) * n).sum() };
        let of = |value: usize| -> u64 {
            self.entries(value).map(|entry| u64::from(times[self.units[entry] as usize]) * self.counts[entry]).sum()
        };
        let rank = self.rank(weighted(&self.totals));
        let (mut value, mut below) = (self.start, weighted(&self.up_to_start));
        while below < rank {
            value += 1;
            below += (value < self.values.len()).then(|| of(value))?;
        }
        // The walk down ends above a value that is not reached, or at one that nobody drawn has.
        loop {
            let own = of(value);
            if own > 0 && below - own < rank {
                return Some(self.values[value].0 as f64);
            }
            below -= own;
            value = value.checked_sub(1)?;
        }
    }
}

/// The bins of several histograms, each value once.
fn merged<'a, H: Histogram + 'a>(histograms: impl Iterator<Item = &'a H>) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = histograms.flat_map(Histogram::bins).filter(|bin| bin.1 > 0).collect();
    bins.sort_unstable();
    bins.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    bins
}

/// The quantile (0 to 1) of all blocks merged, without an interval.
#[must_use]
pub fn point<H: Histogram>(blocks: &Grouped<H>, quantile: f64) -> Option<f64> {
    let units = UnitBins::new(blocks, quantile, |block| block);
    bootstrap::point(blocks.units().len(), |times| units.quantile(times))
}

/// Logarithm of one case's quantile.
#[must_use]
pub fn log_quantile<H: Histogram>(blocks: &Grouped<H>, quantile: f64, how: Resampling) -> Option<Estimate> {
    let units = UnitBins::new(blocks, quantile, |block| block);
    bootstrap::estimate(&blocks.sizes(), how, |times| Some(units.quantile(times)?.ln()))
}

/// Logarithm of the case's quantile divided by the reference's, the same blocks drawn for both.
#[must_use]
pub fn log_ratio<H: Histogram>(blocks: &Grouped<PairedBins<H>>, quantile: f64, how: Resampling) -> Option<Estimate> {
    compare(blocks, quantile, how, |case, reference| (case / reference).ln())
}

/// The case's quantile minus the reference's, the same blocks drawn for both.
#[must_use]
pub fn difference<H: Histogram>(blocks: &Grouped<PairedBins<H>>, quantile: f64, how: Resampling) -> Option<Estimate> {
    compare(blocks, quantile, how, |case, reference| case - reference)
}

fn compare<H: Histogram>(
    blocks: &Grouped<PairedBins<H>>,
    quantile: f64,
    how: Resampling,
    with: impl Fn(f64, f64) -> f64,
) -> Option<Estimate> {
    let case = UnitBins::new(blocks, quantile, |block| &block.case);
    let reference = UnitBins::new(blocks, quantile, |block| &block.reference);
    bootstrap::estimate(&blocks.sizes(), how, |times| Some(with(case.quantile(times)?, reference.quantile(times)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bins: &[(u64, u64)]) -> Grouped<Bins> {
        Grouped::new(vec![vec![Bins(bins.to_vec())]]).unwrap()
    }

    #[test]
    fn quantiles_of_one_to_hundred() {
        let bins: Vec<(u64, u64)> = (1..=100).rev().map(|value| (value, 1)).collect();
        for (quantile, expected) in [(0.0, 1.0), (0.5, 50.0), (0.501, 51.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(point(&one(&bins), quantile), Some(expected), "{quantile}");
        }
    }

    #[test]
    fn blocks_are_merged_and_not_averaged() {
        let fast = Bins(vec![(10, 99)]);
        let slow = Bins(vec![(1_000, 1)]);
        let blocks = Grouped::new(vec![vec![fast], vec![slow]]).unwrap();
        assert_eq!(point(&blocks, 0.5), Some(10.0));
        assert_eq!(point(&blocks, 0.995), Some(1_000.0));
    }

    #[test]
    fn a_walk_finds_what_a_pass_over_everything_finds() {
        let mut draws = crate::random::Draws::new(3);
        let mut bins =
            || Bins((0..8).map(|_| (1 + u64::from(draws.below(40)), 1 + u64::from(draws.below(9)))).collect());
        let blocks = Grouped::new((0..6).map(|_| vec![bins(), bins()]).collect()).unwrap();
        for quantile in [0.0, 0.01, 0.3, 0.5, 0.99, 1.0] {
            let units = UnitBins::new(&blocks, quantile, |block| block);
            for _ in 0..200 {
                let times: Vec<u32> = (0..6).map(|_| draws.below(3)).collect();
                let drawn = blocks.units().into_iter().zip(&times);
                let all = drawn.flat_map(|(unit, times)| vec![unit; *times as usize]).flatten();
                let mut samples: Vec<u64> =
                    all.flat_map(|block| &block.0).flat_map(|&(value, count)| vec![value; count as usize]).collect();
                samples.sort_unstable();
                let rank = ((quantile * samples.len() as f64).ceil() as usize).max(1);
                assert_eq!(
                    units.quantile(&times),
                    samples.get(rank - 1).map(|value| *value as f64),
                    "{quantile} {times:?}"
                );
            }
        }
    }

    #[test]
    fn an_empty_histogram_is_refused() {
        assert!(Grouped::new(vec![vec![Bins(vec![])]]).is_err());
        assert!(Grouped::new(vec![vec![Bins(vec![(5, 0)])]]).is_err());
    }

    #[test]
    fn luck_that_both_cases_share_cancels() {
        let block = |luck: u64| PairedBins {
            case: Bins((1..=50).map(|i| (26 * luck * i, i)).collect()),
            reference: Bins((1..=50).map(|i| (20 * luck * i, i)).collect()),
        };
        let rounds = vec![vec![block(10), block(11)], vec![block(13), block(15)], vec![block(9)]];
        let ratio = log_ratio(&Grouped::new(rounds).unwrap(), 0.5, Resampling::new(1)).unwrap();
        assert!((ratio.value - 1.3_f64.ln()).abs() < 1e-12);
        assert!(ratio.standard_error < 1e-12);
    }
}
