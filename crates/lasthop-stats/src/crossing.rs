//! The size (of a file, of a message) at which a fading effect falls below a threshold.
//!
//! At each size, the effect is the absolute mean of its values over all blocks. Between two sizes, the effect is taken
//! as a straight line over the logarithm of the size. The crossing is the size after which the effect stays below the
//! threshold. The crossing is bootstrapped as a whole, so that its interval includes the scatter at both neighbours. A
//! crossing outside of the measured sizes is not located any further, and intervals end at the measured sizes too.

use crate::{
    CONFIDENCE,
    bootstrap::{self, Resampling, weighted},
    grouped::Grouped,
    interval::{Estimate, Interval},
};

/// The result: where the effect falls below the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossing {
    /// The effect is below the threshold at every size.
    Before,
    /// The effect is still above the threshold at the largest size.
    Beyond,
    /// The logarithm of the size at the crossing.
    At(Estimate),
    /// The estimates have no crossing between the measured sizes, but the intervals do not exclude one.
    Open,
}

/// The crossing over `sizes`, which are ascending and positive, of the effects of each block in the order of the sizes,
/// such as log ratios. `None` with fewer than two sizes or units, or if a block does not have an effect for each size.
#[must_use]
pub fn crossing(sizes: &[f64], blocks: &Grouped<Vec<f64>>, threshold: f64, how: Resampling) -> Option<Crossing> {
    let fits = sizes.len() > 1 && sizes.is_sorted() && sizes[0] > 0.0;
    if !fits || blocks.values().any(|block| block.len() != sizes.len()) {
        return None;
    }
    let logs: Vec<f64> = sizes.iter().map(|size| size.ln()).collect();
    let last = logs.len() - 1;
    let units = blocks.units();
    let counts: Vec<f64> = units.iter().map(|unit| unit.len() as f64).collect();
    let sums = |at: usize| {
        units
            .iter()
            .map(|unit: &&[Vec<f64>]| unit.iter().map(|block| block[at]).sum())
            .collect()
    };
    let sums: Vec<Vec<f64>> = (0..=last).map(sums).collect();
    let mean = |times: &[u32], at: usize| weighted(times, &sums[at]) / weighted(times, &counts);
    let effect = |times: &[u32], at: usize| mean(times, at).abs();
    // The last size whose effect is above the threshold.
    let above = |times: &[u32]| (0..=last).rfind(|at| effect(times, *at) > threshold);
    // The logarithm of the size at the crossing, within the measured sizes.
    let place = |times: &[u32]| match above(times) {
        None => logs[0],
        Some(at) if at == last => logs[last],
        Some(at) => {
            let [before, after] = [at, at + 1].map(|at| effect(times, at));
            // The effect before is above the threshold and the one after is not, so that the divisor is positive.
            logs[at] + (before - threshold) / (before - after) * (logs[at + 1] - logs[at])
        }
    };
    // Whether the signed interval of a size's effect lies outside of the threshold, or within.
    let is = |outside: bool, at: usize| {
        bootstrap::estimate(&blocks.sizes(), how, |times| Some(mean(times, at))).is_some_and(|effect| {
            let Interval { low, high, .. } = effect.interval(CONFIDENCE);
            if outside {
                low > threshold || high < -threshold
            } else {
                -threshold <= low && high <= threshold
            }
        })
    };
    match above(&vec![1; units.len()]) {
        None if (0..=last).all(|at| is(false, at)) => Some(Crossing::Before),
        Some(at) if at == last && is(true, last) => Some(Crossing::Beyond),
        Some(at) if at < last => {
            bootstrap::estimate(&blocks.sizes(), how, |times| Some(place(times))).map(Crossing::At)
        }
        _ => Some(Crossing::Open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 3] = [1e3, 1e4, 1e5];

    fn of(rounds: &[[f64; 3]], threshold: f64) -> Option<Crossing> {
        let rounds = rounds.iter().map(|effects| vec![effects.to_vec()]).collect();
        crossing(&SIZES, &Grouped::new(rounds).unwrap(), threshold, Resampling::new(3))
    }

    #[test]
    fn it_is_interpolated_over_the_logarithm() {
        // From 0.10 at 10,000 to 0.02 at 100,000: 0.06 half-way, at 10^4.5.
        let Some(Crossing::At(at)) = of(&[[0.3, 0.1, 0.02]; 4], 0.06) else {
            panic!()
        };
        assert!(
            (at.value - 10f64.powf(4.5).ln()).abs() < 1e-9 && at.standard_error < 1e-9,
            "{at:?}"
        );
    }

    #[test]
    fn the_sign_of_the_effect_does_not_matter() {
        assert_eq!(of(&[[0.3, 0.1, 0.02]; 4], 0.06), of(&[[-0.3, -0.1, -0.02]; 4], 0.06));
    }

    #[test]
    fn only_the_last_crossing_counts() {
        let Some(Crossing::At(at)) = of(&[[0.01, 0.1, 0.0]; 3], 0.05) else {
            panic!()
        };
        assert!(at.value > 1e4_f64.ln());
    }

    #[test]
    fn outside_of_the_sizes_nothing_is_made_up() {
        assert_eq!(of(&[[0.01, 0.0, 0.0]; 3], 0.05), Some(Crossing::Before));
        assert_eq!(of(&[[0.3, 0.2, 0.1]; 3], 0.05), Some(Crossing::Beyond));
    }

    #[test]
    fn what_the_intervals_allow_is_open() {
        assert_eq!(
            of(&[[0.3, 0.2, 0.5], [0.3, 0.2, -0.2], [0.3, 0.2, 0.1]], 0.05),
            Some(Crossing::Open)
        );
        assert_eq!(
            of(&[[0.01, 0.0, 0.3], [0.0, 0.0, -0.3], [0.0, 0.0, 0.01]], 0.05),
            Some(Crossing::Open)
        );
    }

    #[test]
    fn scatter_widens_it_and_stays_within_the_sizes() {
        let rounds = [
            [0.3, 0.1, 0.03],
            [0.3, 0.12, 0.01],
            [0.3, 0.07, 0.02],
            [0.3, 0.11, 0.04],
        ];
        let Some(Crossing::At(at)) = of(&rounds, 0.05) else {
            panic!()
        };
        assert!(
            at.standard_error > 0.01 && (at.standard_error < (1e5_f64 / 1e4).ln()),
            "{at:?}"
        );
    }

    #[test]
    fn what_does_not_fit_has_no_crossing() {
        let one = Grouped::new(vec![vec![vec![0.1]], vec![vec![0.1]]]).unwrap();
        assert_eq!(crossing(&[1.0], &one, 0.05, Resampling::new(1)), None);
        assert_eq!(crossing(&SIZES, &one, 0.05, Resampling::new(1)), None);
    }
}
