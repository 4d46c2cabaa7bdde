//! Percentiles of merged histograms. Percentiles are never averaged.
//!
//! A resample takes every unit's histogram as often as the unit was drawn, merges, and reads the quantile. The bins of
//! all units are sorted once; each resample is one pass over them that ends at the quantile.

use crate::{
    bootstrap::{self, Resampling},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// A histogram: (value, count) of the bins that hold something, in any order. Values are positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins(pub Vec<(u64, u64)>);

impl BlockValue for Bins {
    fn is_valid(&self) -> bool {
        self.0.iter().any(|&(_, count)| count > 0) && self.0.iter().all(|&(value, _)| value > 0)
    }
}

/// Two cases in the same block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedBins {
    pub case: Bins,
    pub reference: Bins,
}

impl BlockValue for PairedBins {
    fn is_valid(&self) -> bool {
        self.case.is_valid() && self.reference.is_valid()
    }
}

/// A bin of one unit.
#[derive(Clone, Copy)]
struct Entry {
    value: u64,
    unit: u32,
    count: u64,
}

/// All units' bins, rising by value.
struct UnitBins {
    entries: Vec<Entry>,
    /// Count of each unit.
    totals: Vec<u64>,
}

impl UnitBins {
    fn new<'a, T: BlockValue + 'a>(blocks: &'a Grouped<T>, pick: impl Fn(&'a T) -> &'a Bins) -> Self {
        let units = blocks.units();
        let mut entries: Vec<Entry> = Vec::new();
        for (unit, blocks) in (0..).zip(&units) {
            let bins = blocks.iter().flat_map(|block| &pick(block).0);
            entries.extend(bins.map(|&(value, count)| Entry { value, unit, count }));
        }
        entries.sort_unstable_by_key(|entry| (entry.value, entry.unit));
        entries.dedup_by(|next, kept| {
            let same = (next.value, next.unit) == (kept.value, kept.unit);
            if same {
                kept.count += next.count;
            }
            same
        });
        let mut totals = vec![0; units.len()];
        for entry in &entries {
            totals[entry.unit as usize] += entry.count;
        }
        Self { entries, totals }
    }

    /// The lowest bin that at least the share `quantile` of the merged counts do not exceed.
    fn quantile(&self, times: &[u32], quantile: f64) -> Option<f64> {
        let total: u64 = times.iter().zip(&self.totals).map(|(&times, total)| u64::from(times) * total).sum();
        let rank = ((quantile * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.entries.iter().find(|entry| {
            below += u64::from(times[entry.unit as usize]) * entry.count;
            below >= rank
        });
        reached.map(|entry| entry.value as f64)
    }
}

/// The quantile (0 to 1) of all blocks merged, without an interval.
#[must_use]
pub fn point(blocks: &Grouped<Bins>, quantile: f64) -> Option<f64> {
    let units = UnitBins::new(blocks, |block| block);
    bootstrap::point(blocks.units().len(), |times| units.quantile(times, quantile))
}

/// Logarithm of one case's quantile.
#[must_use]
pub fn log_quantile(blocks: &Grouped<Bins>, quantile: f64, how: Resampling) -> Option<Estimate> {
    let units = UnitBins::new(blocks, |block| block);
    bootstrap::estimate(&blocks.sizes(), how, |times| Some(units.quantile(times, quantile)?.ln()))
}

/// Logarithm of the case's quantile divided by the reference's, the same blocks drawn for both.
#[must_use]
pub fn log_ratio(blocks: &Grouped<PairedBins>, quantile: f64, how: Resampling) -> Option<Estimate> {
    compare(blocks, quantile, how, |case, reference| (case / reference).ln())
}

/// The case's quantile minus the reference's, the same blocks drawn for both.
#[must_use]
pub fn difference(blocks: &Grouped<PairedBins>, quantile: f64, how: Resampling) -> Option<Estimate> {
    compare(blocks, quantile, how, |case, reference| case - reference)
}

fn compare(
    blocks: &Grouped<PairedBins>,
    quantile: f64,
    how: Resampling,
    with: impl Fn(f64, f64) -> f64,
) -> Option<Estimate> {
    let case = UnitBins::new(blocks, |block| &block.case);
    let reference = UnitBins::new(blocks, |block| &block.reference);
    bootstrap::estimate(&blocks.sizes(), how, |times| {
        Some(with(case.quantile(times, quantile)?, reference.quantile(times, quantile)?))
    })
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
