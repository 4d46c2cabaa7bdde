//! Serial correlation of rounds, and how far it widens an interval.
//!
//! A round's mean contains luck, which may outlast the round, and the scatter of its blocks, which does not. If luck
//! has the share s of the variance and is a process of first order with the correlation ρ, the mean of many rounds has
//! the variance of independent ones times 1 + s · 2ρ/(1 − ρ). The correlation of the rounds' means is s · ρ, and its
//! estimate is about 1/n too low if there is none (M. G. Kendall, *Biometrika* 41, 1954).
//!
//! A dozen rounds show a correlation poorly. Only values above 0 widen an interval, no ρ counts for more than 0.6, and
//! rounds that differ by no more than their blocks widen nothing. So independent rounds, which half of the time look
//! correlated by chance, have intervals that are 3 to 20 % wider on average. `tests/rounds.rs` has the coverage of
//! intervals, and its limits.

use crate::{grouped::Grouped, location, mean::centred, variance};

/// The level at which rounds differ, and the standard deviations of the correlation that are then required: 4 % of
/// independent rounds exceed them.
const DIFFER: f64 = 0.01;
const CORRELATED: f64 = 1.75;
/// Standard deviations that suffice even if rounds do not differ: 0.3 % of independent rounds exceed them.
const CERTAIN: f64 = 2.6;
/// The least number of rounds that correlated rounds are worth.
const LEAST: f64 = 2.0;
/// The largest correlation of luck that is considered.
const LARGEST: f64 = 0.6;

/// The correlation between neighbouring rounds, if it exceeds chance.
#[must_use]
pub fn correlated(blocks: &Grouped<f64>) -> Option<f64> {
    let differ = variance::components(blocks)?.p_value < DIFFER;
    let rounds = location::locate(blocks)?.units;
    let count = rounds.len() as f64;
    // P. A. P. Moran (Biometrika 35, 1948): the standard deviation for independent normal values.
    let deviation = (count - 2.0) / (count * (count - 1.0).sqrt());
    let least = if differ { CORRELATED } else { CERTAIN };
    correlation(&rounds).filter(|found| *found > least * deviation)
}

/// The correlation between neighbours in time, without bias. `None` with fewer than three values, or if all are equal.
fn correlation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let (mean, squares) = centred(values);
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (values.len() >= 3 && squares > 0.0).then(|| products / squares + 1.0 / count)
}

/// The factor, at least 1, for the standard error of independent units, from each unit's pull on the estimate and
/// luck's share of their variance.
pub(crate) fn widening(units: f64, pulls: &[f64], luck: f64) -> f64 {
    let observed = correlation(pulls).unwrap_or(0.0).max(0.0);
    let correlation = if luck > 0.0 {
        (observed / luck).min(LARGEST)
    } else {
        0.0
    };
    let inflation = 1.0 + luck * 2.0 * correlation / (1.0 - correlation);
    let worth = (units / inflation).max(LEAST.min(units));
    ((units - 1.0) / (worth - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the products are 2 + 0 + 0 + 2 = 4, the squares 10, and the correction of bias is a fifth.
    #[test]
    fn an_example_by_hand() {
        let found = correlation(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((found - 0.6).abs() < 1e-12, "{found}");
        assert_eq!((correlation(&[1.0, 2.0]), correlation(&[1.0; 3])), (None, None));
    }

    #[test]
    fn only_luck_that_outlasts_a_round_widens() {
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        // 1 + 2 · 0.6/0.4 = 4, so that twenty rounds are worth five.
        assert!((widening(20.0, &rising, 1.0) - (19.0_f64 / 4.0).sqrt()).abs() < 1e-12);
        assert!((widening(20.0, &rising, 0.5) - (19.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(widening(20.0, &rising, 0.0), 1.0);
        assert_eq!(widening(4.0, &[1.0, -1.0, 1.0, -1.0], 1.0), 1.0);
        assert!((widening(5.0, &rising[..5], 1.0) - 2.0).abs() < 1e-12, "two at least");
        assert_eq!(widening(1.3, &[0.0, 0.0, 0.0], 1.0), 1.0);
    }
}
