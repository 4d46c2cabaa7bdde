//! Intervals, from estimates and their standard errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::student;

/// An estimate with the ends of its confidence interval; `low` ≤ `estimate` ≤ `high`, all finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// The interval of a ratio, as JSON writes it beside other keys of its object.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Interval")]
pub struct AsRatio {
    /// Case divided by reference.
    #[serde(rename = "ratio")]
    estimate: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// Half width on the log scale, for ratios and other positive quantities.
    #[must_use]
    pub fn log_half_width(&self) -> f64 {
        (self.high.ln() - self.low.ln()) / 2.0
    }

    /// The interval of 1/x.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            estimate: 1.0 / self.estimate,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }

    /// The interval of a value that is known without error.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            estimate: value,
            low: value,
            high: value,
        }
    }

    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        self.map(|value| value * factor)
    }

    /// Applies an increasing function to each number of the interval.
    #[must_use]
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            estimate: of(self.estimate),
            low: of(self.low),
            high: of(self.high),
        }
    }

    /// The interval of a function of independent quantities. Their errors add up in squares, separately on each side.
    /// `None` if the function has no value at the estimates. The result has no width if the function has no value at an
    /// end, or if the estimate is not between its values at the ends.
    #[must_use]
    pub fn combined(parts: &[Self], of: impl Fn(&[f64]) -> Option<f64>) -> Option<Self> {
        let estimates: Vec<f64> = parts.iter().map(|part| part.estimate).collect();
        let estimate = of(&estimates)?;
        let (mut down, mut up) = (0.0_f64, 0.0_f64);
        for (at, part) in parts.iter().enumerate() {
            let end = |value| {
                let mut values = estimates.clone();
                values[at] = value;
                of(&values)
            };
            let ends = end(part.low).zip(end(part.high));
            let ends = ends.map(|(one, other)| (one.min(other), one.max(other)));
            let Some((low, high)) = ends.filter(|(low, high)| (*low..=*high).contains(&estimate)) else {
                return Some(Self::exact(estimate));
            };
            down = down.hypot(estimate - low);
            up = up.hypot(high - estimate);
        }
        Some(Self {
            estimate,
            low: estimate - down,
            high: estimate + up,
        })
    }

    /// The ratio of this interval to an independent one, computed on the log scale. If either reaches 0, the ratio has
    /// no width.
    #[must_use]
    pub fn by(&self, other: &Self) -> Option<Self> {
        let estimate = self.estimate / other.estimate;
        if self.low <= 0.0 || other.low <= 0.0 {
            return (self.estimate > 0.0 && other.estimate > 0.0).then_some(Self::exact(estimate));
        }
        let down = (self.estimate / self.low)
            .ln()
            .hypot((other.high / other.estimate).ln());
        let up = (self.high / self.estimate)
            .ln()
            .hypot((other.estimate / other.low).ln());
        Some(Self {
            estimate,
            low: estimate * (-down).exp(),
            high: estimate * up.exp(),
        })
    }

    /// Whether the error is known. A single block gives no interval, and both ends repeat the estimate.
    #[must_use]
    pub fn has_width(&self) -> bool {
        self.high > self.low
    }

    /// Whether the interval excludes 0, so that the sign of the value is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A statistic on its own scale, with its scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The statistic of the data themselves; a logarithm for ratios and other positive quantities.
    pub value: f64,
    /// The standard error, corrected for the number of units (see [`crate::bootstrap`]).
    pub standard_error: f64,
    /// Degrees of freedom of the standard error, at least 1.
    pub freedom: f64,
}

impl Estimate {
    /// An estimate from `deviation`, which divides by the number of effective units (more than 1) instead of by one
    /// fewer.
    pub(crate) fn over_units(value: f64, deviation: f64, effective: f64) -> Self {
        // √(n/(n − 1)), the first of the two corrections in the module `bootstrap`; Student's t is the second.
        let standard_error = deviation * (effective / (effective - 1.0)).sqrt();
        Self {
            value,
            standard_error,
            freedom: (effective - 1.0).max(1.0),
        }
    }

    #[must_use]
    pub fn half_width(&self, confidence: f64) -> f64 {
        student::critical(confidence, self.freedom) * self.standard_error
    }

    /// The interval on the statistic's own scale.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Interval {
        let half = self.half_width(confidence);
        Interval {
            estimate: self.value,
            low: self.value - half,
            high: self.value + half,
        }
    }

    /// The interval of e^x, for statistics that are logarithms.
    #[must_use]
    pub fn exponential(&self, confidence: f64) -> Interval {
        let log = self.interval(confidence);
        // Unbounded scatter still gives finite ends, which JSON can represent.
        let bounded = |x: f64| x.exp().clamp(f64::MIN_POSITIVE, f64::MAX);
        Interval {
            estimate: bounded(log.estimate),
            low: bounded(log.low),
            high: bounded(log.high),
        }
    }

    /// The estimate with a known, independent rounding error added, such as half of a bin's width.
    #[must_use]
    pub fn with_rounding(&self, standard_error: f64) -> Self {
        Self {
            standard_error: self.standard_error.hypot(standard_error),
            ..*self
        }
    }

    /// The difference from an independent estimate. The degrees of freedom are those of B. L. Welch (*Biometrika* 34,
    /// 1947), at least the smaller of the two.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let standard_error = self.standard_error.hypot(other.standard_error);
        let share = |one: &Self| (one.standard_error / standard_error).powi(4) / one.freedom;
        let freedom = if standard_error > 0.0 {
            1.0 / (share(self) + share(other))
        } else {
            self.freedom.min(other.freedom)
        };
        Self {
            value: self.value - other.value,
            standard_error,
            freedom,
        }
    }

    /// Two-sided probability of a value at least this far from 0 if the true value is 0. With a standard error of 0,
    /// the probability is 0, or 1 for a value of 0.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        if self.standard_error > 0.0 {
            return student::two_sided(self.value / self.standard_error, self.freedom);
        }
        f64::from(u8::from(self.value == 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Estimate = Estimate {
        value: 0.1,
        standard_error: 0.05,
        freedom: 3.0,
    };

    #[test]
    fn more_confidence_is_wider() {
        let widths: Vec<f64> = [0.5, 0.8, 0.9, 0.95, 0.99]
            .iter()
            .map(|&level| SOME.half_width(level))
            .collect();
        assert!(widths.is_sorted_by(|a, b| a < b), "{widths:?}");
    }

    #[test]
    fn the_probability_agrees_with_the_interval() {
        let half = SOME.half_width(0.95);
        let at_the_edge = Estimate { value: half, ..SOME };
        assert!((at_the_edge.p_value() - 0.05).abs() < 1e-12);
        assert_eq!(
            Estimate {
                value: 0.0,
                standard_error: 0.0,
                freedom: 3.0
            }
            .p_value(),
            1.0
        );
        assert_eq!(
            Estimate {
                value: 0.1,
                standard_error: 0.0,
                freedom: 3.0
            }
            .p_value(),
            0.0
        );
    }

    #[test]
    fn a_difference_has_the_scatter_of_both() {
        let alike = SOME.minus(&Estimate { value: 0.3, ..SOME });
        assert!(
            (alike.value + 0.2).abs() < 1e-12 && (alike.freedom - 6.0).abs() < 1e-9,
            "{alike:?}"
        );
        assert!((alike.standard_error - 0.05 * 2.0_f64.sqrt()).abs() < 1e-12);
        let precise = Estimate {
            standard_error: 1e-9,
            freedom: 50.0,
            ..SOME
        };
        assert!(
            (SOME.minus(&precise).freedom - 3.0).abs() < 1e-6,
            "the one that scatters decides"
        );
        let exact = Estimate {
            standard_error: 0.0,
            ..SOME
        };
        assert_eq!(
            exact.minus(&exact).interval(0.95),
            Interval {
                estimate: 0.0,
                low: 0.0,
                high: 0.0
            }
        );
    }

    #[test]
    fn ends_stay_finite() {
        let wild = Estimate {
            value: 0.0,
            standard_error: 1e6,
            freedom: 1.0,
        }
        .exponential(0.95);
        assert!(wild.low > 0.0 && wild.high.is_finite() && wild.log_half_width().is_finite());
    }

    #[test]
    fn a_combination_has_the_errors_of_its_parts() {
        let known = |estimate, low, high| Interval { estimate, low, high };
        let difference = |values: &[f64]| Some(values[0] - values[1]);
        assert_eq!(
            Interval::combined(&[known(10.0, 7.0, 13.0), known(4.0, 0.0, 8.0)], difference),
            Some(known(6.0, 1.0, 11.0))
        );
        let inverse = |values: &[f64]| Some(1.0 / values[0]);
        let positive = |values: &[f64]| inverse(values).filter(|inverse| *inverse > 0.0);
        let of = |low| [known(4.0, low, 8.0)];
        assert_eq!(Interval::combined(&of(2.0), inverse), Some(known(0.25, 0.125, 0.5)));
        assert_eq!(
            Interval::combined(&of(-1.0), inverse),
            Some(Interval::exact(0.25)),
            "a gap at 0"
        );
        assert_eq!(Interval::combined(&of(-1.0), positive), Some(Interval::exact(0.25)));
        assert_eq!(Interval::combined(&[known(-1.0, -2.0, 1.0)], positive), None);
    }

    /// Checks that a ratio with an end at 0 is undecided, rather than missing.
    #[test]
    fn a_ratio_of_intervals_is_one_of_logarithms() {
        let known = |estimate, low, high| Interval { estimate, low, high };
        let ratio = known(8.0, 4.0, 16.0).by(&known(2.0, 2.0, 2.0)).unwrap();
        assert!(
            (ratio.estimate - 4.0).abs() < 1e-9 && (ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 8.0).abs() < 1e-9
        );
        assert_eq!(
            known(3.0, 0.5, 4.0).by(&known(1.0, -1.0, 2.0)),
            Some(Interval::exact(3.0))
        );
        assert_eq!(known(1.0, 0.5, 2.0).by(&known(-1.0, -2.0, 2.0)), None);
    }

    #[test]
    fn the_inverse_swaps_the_ends() {
        let interval = Interval {
            estimate: 2.0,
            low: 1.6,
            high: 2.5,
        };
        assert_eq!(
            interval.inverse(),
            Interval {
                estimate: 0.5,
                low: 0.4,
                high: 0.625
            }
        );
    }
}
