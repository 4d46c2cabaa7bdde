//! The bootstrap over rounds: the standard error of any statistic of rounds and blocks, and its reliability.
//!
//! **Units of resampling.** Rounds are drawn with replacement, each with all its blocks. Blocks are not drawn again
//! inside a drawn round: the means of rounds already differ by their blocks' scatter, and a second draw would count
//! that scatter twice. With no luck between rounds the variance would almost double; see Davison and Hinkley,
//! *Bootstrap Methods and their Application* (1997), §3.8, where this is strategy 1 against 2, and Ren et al.,
//! "Nonparametric bootstrapping for hierarchical data", *Journal of Applied Statistics* 37 (2010). A test of this crate
//! measures the effect. With only one round, its blocks are the units, and the interval leaves out the luck of process
//! starts: the caller must say so.
//!
//! **Few rounds.** A percentile interval of few units is too narrow for two reasons: the bootstrap's variance divides
//! by n instead of n − 1, and the interval uses the normal quantile where the scatter is itself an estimate.
//! Hesterberg, "What Teachers Should Know About the Bootstrap", *The American Statistician* 69 (2015), corrects both by
//! reading percentiles farther out, at α' = Φ(−√(n/(n−1))·t). With four rounds that is the 0.012 % point, but four
//! rounds have only 35 different resamples, and so no such percentile. Both corrections are therefore applied to the
//! standard error: half width = t(n − 1) · √(n/(n − 1)) · bootstrap standard error, on the log scale for positive
//! quantities (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, §12.2). If the bootstrap distribution is
//! normal, the two intervals are equal.
//!
//! **Rounds of unequal length** (such as the last round, when the budget is used up) count by their blocks. n is then
//! Kish's effective number, (Σ blocks)² / Σ blocks².
//!
//! `tests/coverage.rs` shows by simulation that intervals at 95 % cover the truth in about 95 % of runs.

use crate::{interval::Estimate, mean::centred, random::Draws};

/// The number of resamples, and their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resampling {
    pub seed: u64,
    /// At least 2. The relative error of the standard error is 1/√(2·resamples): 1.6 % at 2,000.
    pub resamples: u32,
}

impl Resampling {
    /// Resampling with 2,000 resamples.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, resamples: 2_000 }
    }
}

/// The estimate of `statistic`, a function of how often each unit was drawn (all ones for the data themselves).
///
/// `sizes` are the numbers of blocks in each unit. `None` with fewer than two units, if the data themselves have no
/// finite statistic, or if less than half of the resamples have one.
///
/// Cost: `resamples` × (units draws + one call of `statistic`).
pub fn estimate(
    sizes: &[usize],
    how: Resampling,
    mut statistic: impl FnMut(&[u32]) -> Option<f64>,
) -> Option<Estimate> {
    let units = sizes.len();
    let value = point(units, &mut statistic)?;
    if units < 2 {
        return None;
    }
    let deviation = deviation(units, how, statistic)?;
    Some(Estimate::over_units(value, deviation, effective_units(sizes)))
}

/// The statistic of the data themselves.
pub fn point(units: usize, mut statistic: impl FnMut(&[u32]) -> Option<f64>) -> Option<f64> {
    statistic(&vec![1; units]).filter(|value| value.is_finite())
}

/// Kish's effective number of units: the number of equal units with equal precision.
#[must_use]
pub fn effective_units(sizes: &[usize]) -> f64 {
    let sum: usize = sizes.iter().sum();
    let squares: usize = sizes.iter().map(|size| size * size).sum();
    (sum * sum) as f64 / squares as f64
}

/// Standard deviation of the statistic over resamples.
fn deviation(units: usize, how: Resampling, mut statistic: impl FnMut(&[u32]) -> Option<f64>) -> Option<f64> {
    // A fresh stream for each statistic, so that statistics with equal seeds see equal resamples.
    let mut draws = Draws::new(how.seed);
    let bound = u32::try_from(units).ok()?;
    let mut times = vec![0_u32; units];
    let mut values = Vec::with_capacity(how.resamples as usize);
    for _ in 0..how.resamples {
        times.fill(0);
        for _ in 0..units {
            times[draws.below(bound) as usize] += 1;
        }
        values.extend(statistic(&times).filter(|value| value.is_finite()));
    }
    (values.len() >= 2 && values.len() * 2 >= how.resamples as usize).then(|| standard_deviation(&values))
}

/// The standard deviation of a sample of two or more.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> f64 {
    let (_, squares) = centred(values);
    (squares / (values.len() - 1) as f64).sqrt()
}

/// A sum over units, each counted as often as drawn.
pub(crate) fn weighted(times: &[u32], values: &[f64]) -> f64 {
    times
        .iter()
        .zip(values)
        .map(|(&times, value)| f64::from(times) * value)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_units_are_worth_their_number() {
        assert!((effective_units(&[8; 4]) - 4.0).abs() < 1e-12);
        let cut_off = effective_units(&[8, 8, 8, 1]);
        assert!(cut_off > 3.0 && cut_off < 3.5, "{cut_off}");
    }

    #[test]
    fn one_unit_has_no_scatter() {
        assert_eq!(estimate(&[1], Resampling::new(1), |_| Some(1.0)), None);
    }

    #[test]
    fn a_statistic_that_mostly_does_not_exist_has_no_estimate() {
        let how = Resampling {
            seed: 1,
            resamples: 100,
        };
        let mut calls = 0;
        let rare = estimate(&[1, 1, 1], how, |_| {
            calls += 1;
            (calls % 3 == 1).then_some(1.0)
        });
        assert_eq!(rare, None);
    }

    #[test]
    fn equal_seeds_give_equal_estimates() {
        let statistic = |times: &[u32]| Some(weighted(times, &[1.0, 2.0, 4.0]));
        let one = estimate(&[1; 3], Resampling::new(5), statistic);
        assert_eq!(one, estimate(&[1; 3], Resampling::new(5), statistic));
        assert_ne!(one, estimate(&[1; 3], Resampling::new(6), statistic));
    }
}
