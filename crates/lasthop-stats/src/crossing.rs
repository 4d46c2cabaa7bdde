//! The size (of a file, of a message) at which a fading effect falls below a threshold.
//!
//! At each size, the effect is the absolute mean of its values over all blocks. Between two sizes, the effect is taken
//! as a straight line over the logarithm of the size. The crossing is the size after which the effect stays below the
//! threshold. The crossing is bootstrapped as a whole, so that its interval includes the scatter at both neighbours. A
//! crossing outside of the measured sizes is not located any further, and intervals end at the measured sizes too.

use crate::{
    CONFIDENCE,
    bootstrap::{self, Resampling, weighted},
    grouped::{BlockValue, Grouped},
    interval::{Estimate, Interval},
};

/// The effect at each size in one block, in the order of the sizes, such as log ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects(pub Vec<f64>);

impl BlockValue for Effects {
    fn is_valid(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|value| value.is_finite())
    }
}

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

/// The crossing over `sizes`, which are ascending and positive. `None` with fewer than two sizes or units, or if a
/// block does not have an effect for each size.
#[must_use]
pub fn crossing(sizes: &[f64], blocks: &Grouped<Effects>, threshold: f64, how: Resampling) -> Option<Crossing> {
    let fits = sizes.len() > 1 && sizes.is_sorted() && sizes[0] > 0.0;
    if !fits || blocks.values().any(|block| block.0.len() != sizes.len()) {
        return None;
    }
    let logs: Vec<f64> = sizes.iter().map(|size| size.ln()).collect();
    let units = blocks.units();
    let counts: Vec<f64> = units.iter().map(|unit| unit.len() as f64).collect();
    let sums = |at: usize| {
        units
            .iter()
            .map(|unit: &&[Effects]| unit.iter().map(|block| block.0[at]).sum())
            .collect()
    };
    let sums: Vec<Vec<f64>> = (0..sizes.len()).map(sums).collect();
    let effects = |times: &[u32]| -> Vec<f64> {
        let count = weighted(times, &counts);
        sums.iter().map(|sums| (weighted(times, sums) / count).abs()).collect()
    };
    // Whether the signed interval of a size's effect lies outside of the threshold, or within.
    let is = |outside: bool, at: usize| {
        bootstrap::estimate(&blocks.sizes(), how, |times: &[u32]| {
            Some(weighted(times, &sums[at]) / weighted(times, &counts))
        })
        .is_some_and(|effect| {
            let Interval { low, high, .. } = effect.interval(CONFIDENCE);
            if outside {
                low > threshold || high < -threshold
            } else {
                -threshold <= low && high <= threshold
            }
        })
    };
    match place(&logs, &effects(&vec![1; units.len()]), threshold) {
        Threshold::Before if (0..sizes.len()).all(|at| is(false, at)) => Some(Crossing::Before),
        Threshold::Beyond if is(true, sizes.len() - 1) => Some(Crossing::Beyond),
        Threshold::Before | Threshold::Beyond => Some(Crossing::Open),
        Threshold::At(_) => bootstrap::estimate(&blocks.sizes(), how, |times| {
            Some(match place(&logs, &effects(times), threshold) {
                Threshold::Before => logs[0],
                Threshold::Beyond => logs[logs.len() - 1],
                Threshold::At(log) => log,
            })
        })
        .map(Crossing::At),
    }
}

/// The place of the crossing in one resample.
enum Threshold {
    Before,
    Beyond,
    At(f64),
}

fn place(logs: &[f64], effects: &[f64], threshold: f64) -> Threshold {
    match effects.iter().rposition(|effect| *effect > threshold) {
        None => Threshold::Before,
        Some(last) if last + 1 == logs.len() => Threshold::Beyond,
        Some(last) => {
            // `effects[last]` is above the threshold and the next effect is not, so that the divisor is positive.
            let share = (effects[last] - threshold) / (effects[last] - effects[last + 1]);
            Threshold::At(logs[last] + share * (logs[last + 1] - logs[last]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 3] = [1e3, 1e4, 1e5];

    fn of(rounds: &[[f64; 3]], threshold: f64) -> Option<Crossing> {
        let rounds = rounds.iter().map(|effects| vec![Effects(effects.to_vec())]).collect();
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
        let one = Grouped::new(vec![vec![Effects(vec![0.1])], vec![Effects(vec![0.1])]]).unwrap();
        assert_eq!(crossing(&[1.0], &one, 0.05, Resampling::new(1)), None);
        assert_eq!(crossing(&SIZES, &one, 0.05, Resampling::new(1)), None);
    }
}
