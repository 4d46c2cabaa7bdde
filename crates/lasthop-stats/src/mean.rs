//! The mean of one number per block, such as a paired difference.
//!
//! Every block counts once (the grand mean). For unequal rounds, the alternative would be the mean of the rounds'
//! means. Both are unbiased, as the lengths of rounds do not depend on the values. With rounds of 8, 8, 8 and 1 blocks,
//! the grand mean's variance is at most 24 % above the minimum, if only rounds scatter; that of the mean of means is
//! 115 % above, if only blocks do. Histograms and totals, which are merged, count every block once too.

use crate::{
    bootstrap::{self, Resampling, weighted},
    grouped::Grouped,
    interval::Estimate,
};

/// The mean over all blocks; `None` with fewer than two blocks.
#[must_use]
pub fn mean(values: &Grouped<f64>, how: Resampling) -> Option<Estimate> {
    let sums: Vec<f64> = values.units().iter().map(|blocks| blocks.iter().sum()).collect();
    let sizes = values.sizes();
    let counts: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
    bootstrap::estimate(&sizes, how, |times| {
        Some(weighted(times, &sums) / weighted(times, &counts))
    })
}

/// The arithmetic mean of plain numbers; `None` without numbers.
#[must_use]
pub fn of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The mean of values, and the sum of their squared distances from it.
pub(crate) fn centred(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a mean of equal rounds, the bootstrap's standard error has a closed form. The correction for few units turns
    /// it into the textbook's s/√R, the scatter of the rounds' means.
    #[test]
    fn the_standard_error_is_the_textbooks() {
        let rounds = vec![
            vec![1.0, 2.0],
            vec![2.0, 4.0],
            vec![0.0, 1.0],
            vec![3.0, 5.0],
            vec![2.0, 2.5],
        ];
        let means = [1.5, 3.0, 0.5, 4.0, 2.25];
        let grand = means.iter().sum::<f64>() / 5.0;
        let spread = (means.iter().map(|mean| (mean - grand) * (mean - grand)).sum::<f64>() / 4.0 / 5.0).sqrt();
        let how = Resampling {
            seed: 1,
            resamples: 200_000,
        };
        let estimate = mean(&Grouped::new(rounds).unwrap(), how).unwrap();
        assert!((estimate.value - grand).abs() < 1e-12);
        assert!(
            (estimate.standard_error / spread - 1.0).abs() < 0.006,
            "{} {spread}",
            estimate.standard_error
        );
        assert!((estimate.freedom - 4.0).abs() < 1e-9);
    }

    #[test]
    fn plain_numbers_have_a_mean_unless_there_are_none() {
        assert_eq!(of([1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(of([]), None);
    }

    #[test]
    fn one_block_has_no_interval() {
        let one = Grouped::new(vec![vec![7.0]]).unwrap();
        assert_eq!(mean(&one, Resampling::new(1)), None);
    }
}
