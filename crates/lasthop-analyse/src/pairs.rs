//! Trials of a case and of its reference in the same blocks, and estimates of their ratio.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_stats::{Estimate, Grouped, quantile::MergedPairs};

use super::{
    summary::Comparison,
    trials::{self, BlockId, Trials, grouped},
};

/// Trials of a case and of its reference in the same blocks.
pub struct Pairs<'a> {
    pub case: &'a CasePlan,
    pub reference: &'a CasePlan,
    pub blocks: Vec<(BlockId, &'a MeasuredTrial, &'a MeasuredTrial)>,
}

/// A comparison, with the logarithm of its ratio and the standard error.
pub struct Compared {
    pub comparison: Comparison,
    pub log_ratio: Estimate,
    /// Weights of blocks; empty if all count alike.
    pub weights: Vec<(BlockId, f64)>,
}

impl<'a> Pairs<'a> {
    /// The pairs of a case; `None` for a reference.
    pub fn of(trials: &Trials<'a>, case: &'a CasePlan) -> Option<Self> {
        let name = case.reference.as_deref()?;
        let reference = trials.plan(name)?;
        Some(Self {
            case,
            reference,
            blocks: trials.pairs(&case.case, name),
        })
    }

    pub fn rounds(&self) -> usize {
        self.blocks.chunk_by(|a, b| a.0.0 == b.0.0).count()
    }

    /// The pairs of the first half of each round, and those of the second.
    pub fn halves_of_rounds(&self) -> [Self; 2] {
        let rounds = || self.blocks.chunk_by(|a, b| a.0.0 == b.0.0);
        let of = |blocks: Vec<_>| Self {
            case: self.case,
            reference: self.reference,
            blocks,
        };
        // With an odd number, the middle block is in neither half.
        let early = rounds().flat_map(|round| &round[..round.len() / 2]).copied().collect();
        let late = rounds()
            .flat_map(|round| &round[round.len().div_ceil(2)..])
            .copied()
            .collect();
        [of(early), of(late)]
    }

    /// Logarithms of the ratios of a quantity.
    pub fn log_ratios(&self, quantity: impl Fn(&MeasuredTrial) -> Option<f64>) -> Option<Grouped<f64>> {
        grouped(self.placed(quantity).map(|(place, value)| (place.0, value)))
    }

    /// Logarithms of the ratios of a quantity, each with its place.
    pub fn placed(&self, quantity: impl Fn(&MeasuredTrial) -> Option<f64>) -> impl Iterator<Item = (BlockId, f64)> {
        self.blocks.iter().filter_map(move |&(place, ours, theirs)| {
            let value = (quantity(ours)? / quantity(theirs)?).ln();
            value.is_finite().then_some((place, value))
        })
    }

    /// Merged latencies of the case and of its reference; `None` if the trials of either are not steady enough to show
    /// them.
    pub fn latencies(&self, trials: &Trials) -> Option<MergedPairs> {
        if ![self.case, self.reference]
            .iter()
            .all(|plan| trials.is_steady(&plan.case))
        {
            return None;
        }
        let known = self.blocks.iter().filter_map(|&(place, ours, theirs)| {
            Some((place.0, [trials::latencies(ours)?, trials::latencies(theirs)?]))
        });
        Some(MergedPairs::of(&grouped(known)?))
    }
}
