//! How the declared ratio of a closed loop depends on what others take from the machine.

use lasthop_stats::{
    Better, Estimate,
    location::{self, Trend},
    verdict,
};

use super::{
    pairs::Pairs,
    trials::{self, Trials},
};

/// A trend is one at this level, and matters if it moves the ratio by this share.
const TREND_LEVEL: f64 = 0.005;
const TREND_SHIFT: f64 = 0.01;

/// A ratio that depends on what others take. CPUs are those taken from a case and its reference, each.
#[derive(Clone, Copy, Debug)]
pub struct UnderLoad {
    /// The least that the blocks can speak for, in CPUs; 0 if they can speak for nothing.
    pub least: f64,
    /// Logarithm of the ratio there.
    pub at_least: Estimate,
    /// In CPUs, on average.
    pub mean: f64,
    /// The ratio on average.
    pub at_mean: f64,
}

impl UnderLoad {
    /// `None` unless the ratio depends on it.
    pub fn of(pairs: &Pairs) -> Option<Self> {
        let blocks = pairs.disturbed(trials::primary)?;
        let Trend { least, at_least, slope } = location::trend(&blocks)?;
        let mean = blocks.values().map(|block| block.disturbance).sum::<f64>() / blocks.blocks() as f64;
        let matters = slope.p_value() < TREND_LEVEL && (slope.value * mean).exp_m1().abs() >= TREND_SHIFT;
        let at_mean = (at_least.value + slope.value * (mean - least)).exp();
        matters.then_some(Self {
            // The disturbance of a block is the sum over its two trials.
            least: least / 2.0,
            at_least,
            mean: mean / 2.0,
            at_mean,
        })
    }

    /// The ratio while others took nothing, if that can be told and decides: then it is the answer, because nobody's
    /// machine has the load of this run.
    pub fn answer(&self, trials: &Trials) -> Option<Estimate> {
        let ratio = self.at_least.exponential(trials.confidence());
        let verdict = verdict::verdict(&ratio, trials.data.header.settings.margin, Better::More);
        (self.least == 0.0 && verdict != lasthop_stats::Verdict::Undecided).then_some(self.at_least)
    }
}
