//! Verdicts, from intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;

/// `faster` means better by the metric, even if less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Faster,
    Slower,
    /// The whole interval lies within the margin.
    Equivalent,
    Undecided,
}

impl Verdict {
    /// Whether the verdict is a difference.
    #[must_use]
    pub fn differs(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }
}

/// The good direction of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

/// The verdict on a ratio, case divided by reference.
///
/// `Equivalent` if the whole interval is within [1/(1 + `margin`), 1 + `margin`], even if the interval excludes 1: then
/// the difference is real, but too small to matter. Otherwise `Faster` or `Slower` if the interval excludes 1, and else
/// `Undecided`. Equivalence by inclusion of the interval is the procedure of two one-sided tests (Schuirmann 1987),
/// here at 2.5 % each.
#[must_use]
pub fn verdict(ratio: &Interval, margin: f64, better: Better) -> Verdict {
    if 1.0 / (1.0 + margin) <= ratio.low && ratio.high <= 1.0 + margin {
        return Verdict::Equivalent;
    }
    match (ratio.low > 1.0, ratio.high < 1.0, better) {
        (true, _, Better::More) | (_, true, Better::Less) => Verdict::Faster,
        (true, _, Better::Less) | (_, true, Better::More) => Verdict::Slower,
        _ => Verdict::Undecided,
    }
}

/// The smallest difference that a design can resolve, from comparisons of cases with themselves: the largest distance
/// of any interval's end from 1, as a share (0.01 is 1 %). `None` without comparisons.
#[must_use]
pub fn resolution(same: &[Interval]) -> Option<f64> {
    let distances = same.iter().map(|ratio| ratio.high.ln().abs().max(ratio.low.ln().abs()));
    distances.reduce(f64::max).map(f64::exp_m1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(low: f64, high: f64, better: Better) -> Verdict {
        verdict(
            &Interval {
                estimate: f64::midpoint(low, high),
                low,
                high,
            },
            0.02,
            better,
        )
    }

    #[test]
    fn the_four_words() {
        assert_eq!(word(0.99, 1.01, Better::More), Verdict::Equivalent);
        assert_eq!(word(1.001, 1.019, Better::More), Verdict::Equivalent);
        assert_eq!(word(1.01, 1.03, Better::More), Verdict::Faster);
        assert_eq!(word(1.01, 1.03, Better::Less), Verdict::Slower);
        assert_eq!(word(0.90, 0.97, Better::More), Verdict::Slower);
        assert_eq!(word(0.90, 0.97, Better::Less), Verdict::Faster);
        assert_eq!(word(0.97, 1.01, Better::More), Verdict::Undecided);
    }

    #[test]
    fn the_margin_is_the_same_for_a_ratio_and_its_inverse() {
        assert_eq!(word(1.0 / 1.02, 1.0, Better::More), Verdict::Equivalent);
        assert_eq!(word(0.98, 1.0, Better::More), Verdict::Undecided);
    }

    #[test]
    fn the_resolution_is_the_farthest_end() {
        let same = [
            Interval {
                estimate: 1.0,
                low: 0.99,
                high: 1.01,
            },
            Interval {
                estimate: 1.01,
                low: 0.98,
                high: 1.04,
            },
        ];
        assert!((resolution(&same).unwrap() - 0.04).abs() < 1e-12);
        assert_eq!(resolution(&[]), None);
    }
}
