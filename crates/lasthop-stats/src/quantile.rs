//! Percentiles of merged histograms. Percentiles are never averaged.
//!
//! A resample counts every unit's histogram as often as the unit was drawn, merges them, and reads the quantile. The
//! bins of all units are sorted once. Each resample starts at the quantile of the data themselves, and walks from
//! there.

use std::ops::Range;

use crate::{
    bootstrap::{self, Resampling},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// A histogram in any form.
pub trait Histogram {
    /// (value, count) of the non-empty bins, in any order. Values are positive.
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

/// The bins of all units, each value once, because a run of an hour has millions of bins.
pub struct Merged {
    rounds: usize,
    /// Number of blocks in each unit.
    sizes: Vec<usize>,
    /// Ascending values, each with the end of its entries, which begin at the end of the previous value's.
    values: Vec<(u64, usize)>,
    /// The unit of each entry. `counts` has how often the entry's value occurs in the unit.
    units: Vec<u32>,
    counts: Vec<u64>,
    /// Total count of each unit.
    totals: Vec<u64>,
}

impl Merged {
    #[must_use]
    pub fn of<H: Histogram>(blocks: &Grouped<H>) -> Self {
        Self::picked(blocks, |block| block)
    }

    fn picked<'a, T, H>(blocks: &'a Grouped<T>, pick: impl Fn(&'a T) -> &'a H) -> Self
    where
        T: BlockValue + 'a,
        H: Histogram + 'a,
    {
        let units: Vec<Vec<(u64, u64)>> = blocks
            .units()
            .iter()
            .map(|unit| merged(unit.iter().map(&pick)))
            .collect();
        let mut values: Vec<u64> = units.iter().flatten().map(|bin| bin.0).collect();
        values.sort_unstable();
        let mut end = 0;
        let values: Vec<(u64, usize)> = values
            .chunk_by(|a, b| a == b)
            .map(|same: &[u64]| {
                end += same.len();
                (same[0], end)
            })
            .collect();
        let totals = units.iter().map(|bins| bins.iter().map(|bin| bin.1).sum()).collect();
        let mut all = Self {
            rounds: blocks.rounds(),
            sizes: blocks.sizes(),
            units: vec![0; end],
            counts: vec![0; end],
            values,
            totals,
        };
        all.fill(&units);
        all
    }

    fn fill(&mut self, units: &[Vec<(u64, u64)>]) {
        let mut next: Vec<usize> = (0..self.values.len()).map(|value| self.entries(value).start).collect();
        for (unit, bins) in (0..).zip(units) {
            let mut place = 0;
            for &(value, count) in bins {
                place += self.values[place..].partition_point(|known| known.0 < value);
                self.units[next[place]] = unit;
                self.counts[next[place]] = count;
                next[place] += 1;
            }
        }
    }

    fn entries(&self, value: usize) -> Range<usize> {
        let start = value.checked_sub(1).map_or(0, |before| self.values[before].1);
        start..self.values[value].1
    }

    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// The quantile (0 to 1) of all blocks, without an interval.
    #[must_use]
    pub fn point(&self, quantile: f64) -> Option<f64> {
        let walk = Walk::new(self, quantile);
        bootstrap::point(self.sizes.len(), |times| walk.quantile(times))
    }

    /// The logarithm of the quantile.
    #[must_use]
    pub fn log(&self, quantile: f64, how: Resampling) -> Option<Estimate> {
        let walk = Walk::new(self, quantile);
        bootstrap::estimate(&self.sizes, how, |times| Some(walk.quantile(times)?.ln()))
    }
}

/// Two cases whose blocks are drawn together, for ratios.
pub struct MergedPairs {
    pub case: Merged,
    pub reference: Merged,
}

impl MergedPairs {
    #[must_use]
    pub fn of<H: Histogram>(blocks: &Grouped<[H; 2]>) -> Self {
        Self {
            case: Merged::picked(blocks, |block| &block[0]),
            reference: Merged::picked(blocks, |block| &block[1]),
        }
    }

    /// The logarithm of the case's quantile divided by the reference's.
    #[must_use]
    pub fn log_ratio(&self, quantile: f64, how: Resampling) -> Option<Estimate> {
        let [case, reference] = [&self.case, &self.reference].map(|merged| Walk::new(merged, quantile));
        bootstrap::estimate(&self.case.sizes, how, |times: &[u32]| {
            Some((case.quantile(times)? / reference.quantile(times)?).ln())
        })
    }
}

/// Finds a quantile of the drawn units, up or down from that of the data themselves.
struct Walk<'a> {
    merged: &'a Merged,
    quantile: f64,
    /// Index of the value at which walks start.
    start: usize,
    /// Count of each unit up to and including the value at `start`.
    up_to_start: Vec<u64>,
}

impl<'a> Walk<'a> {
    fn new(merged: &'a Merged, quantile: f64) -> Self {
        let mut walk = Self {
            merged,
            quantile,
            start: 0,
            up_to_start: vec![0; merged.totals.len()],
        };
        let rank = walk.rank(merged.totals.iter().sum());
        let mut below = 0;
        for value in 0..merged.values.len() {
            for entry in merged.entries(value) {
                walk.up_to_start[merged.units[entry] as usize] += merged.counts[entry];
                below += merged.counts[entry];
            }
            walk.start = value;
            if below >= rank {
                break;
            }
        }
        walk
    }

    fn rank(&self, total: u64) -> u64 {
        // The quantile 0 is the lowest value, whose rank is 1.
        ((self.quantile * total as f64).ceil() as u64).max(1)
    }

    /// The lowest value at which the cumulative count reaches the quantile's rank.
    fn quantile(&self, times: &[u32]) -> Option<f64> {
        let Merged {
            values,
            units,
            counts,
            totals,
            ..
        } = self.merged;
        let weighted =
            |counts: &[u64]| -> u64 { times.iter().zip(counts).map(|(&times, n)| u64::from(times) * n).sum() };
        let of = |value: usize| -> u64 {
            let entries = self.merged.entries(value);
            entries
                .map(|entry| u64::from(times[units[entry] as usize]) * counts[entry])
                .sum()
        };
        let rank = self.rank(weighted(totals));
        let mut value = self.start;
        let mut below = weighted(&self.up_to_start);
        while below < rank {
            value += 1;
            below += (value < values.len()).then(|| of(value))?;
        }
        // Walks down past values that no drawn unit has, until the rank is within a value's count.
        loop {
            let own = of(value);
            if own > 0 && below - own < rank {
                return Some(values[value].0 as f64);
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
            assert_eq!(Merged::of(&one(&bins)).point(quantile), Some(expected), "{quantile}");
        }
    }

    #[test]
    fn blocks_are_merged_and_not_averaged() {
        let fast = Bins(vec![(10, 99)]);
        let slow = Bins(vec![(1_000, 1)]);
        let blocks = Grouped::new(vec![vec![fast], vec![slow]]).unwrap();
        assert_eq!(Merged::of(&blocks).point(0.5), Some(10.0));
        assert_eq!(Merged::of(&blocks).point(0.995), Some(1_000.0));
    }

    #[test]
    fn a_walk_finds_what_a_pass_over_everything_finds() {
        let mut draws = crate::random::Draws::new(3);
        let mut bins = || {
            Bins(
                (0..8)
                    .map(|_| (1 + u64::from(draws.below(40)), 1 + u64::from(draws.below(9))))
                    .collect(),
            )
        };
        let blocks = Grouped::new((0..6).map(|_| vec![bins(), bins()]).collect()).unwrap();
        for quantile in [0.0, 0.01, 0.3, 0.5, 0.99, 1.0] {
            let merged = Merged::of(&blocks);
            let walk = Walk::new(&merged, quantile);
            for _ in 0..200 {
                let times: Vec<u32> = (0..6).map(|_| draws.below(3)).collect();
                let drawn = blocks.units().into_iter().zip(&times);
                let all = drawn.flat_map(|(unit, times)| vec![unit; *times as usize]).flatten();
                let mut samples: Vec<u64> = all
                    .flat_map(|block| &block.0)
                    .flat_map(|&(value, count)| vec![value; count as usize])
                    .collect();
                samples.sort_unstable();
                let rank = ((quantile * samples.len() as f64).ceil() as usize).max(1);
                assert_eq!(
                    walk.quantile(&times),
                    samples.get(rank - 1).map(|value| *value as f64),
                    "{quantile} {times:?}"
                );
            }
        }
    }

    #[test]
    fn an_empty_histogram_is_refused() {
        assert!(Grouped::new(vec![vec![Bins(vec![])]]).is_none());
        assert!(Grouped::new(vec![vec![Bins(vec![(5, 0)])]]).is_none());
    }

    #[test]
    fn luck_that_both_cases_share_cancels() {
        let block = |luck: u64| [26, 20].map(|factor| Bins((1..=50).map(|i| (factor * luck * i, i)).collect()));
        let rounds = vec![vec![block(10), block(11)], vec![block(13), block(15)], vec![block(9)]];
        let ratio = MergedPairs::of(&Grouped::new(rounds).unwrap())
            .log_ratio(0.5, Resampling::new(1))
            .unwrap();
        assert!((ratio.value - 1.3_f64.ln()).abs() < 1e-12);
        assert!(ratio.standard_error < 1e-12);
    }
}
