//! The luck of process starts: differences between rounds beyond their blocks' scatter.

use crate::{grouped::Grouped, mean::centred, student};

/// The components of a block's variance, by one-way analysis of variance (including rounds of unequal length: Searle,
/// Casella and McCulloch, *Variance Components*, 1992, §3.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Components {
    /// Variance between rounds, beyond that within rounds; 0 or more.
    pub between: f64,
    /// Variance of blocks within a round.
    pub within: f64,
    /// Probability of rounds that differ at least this much, if starts have no luck.
    pub p_value: f64,
}

impl Components {
    /// The rounds' share of a block's variance, 0 to 1.
    #[must_use]
    pub fn share_between(&self) -> f64 {
        self.between / (self.between + self.within)
    }

    /// Luck's share in the variance of the mean of a round with this number of blocks, 0 to 1.
    #[must_use]
    pub fn luck(&self, blocks: f64) -> f64 {
        self.between / (self.between + self.within / blocks)
    }
}

/// The components; `None` with fewer than two rounds, if no round has several blocks, or without any scatter within
/// rounds.
#[must_use]
pub fn components(values: &Grouped<f64>) -> Option<Components> {
    if values.rounds() < 2 {
        return None;
    }
    let rounds = values.rounds() as f64;
    let blocks = values.blocks() as f64;
    let grand = values.values().sum::<f64>() / blocks;
    let mut between = 0.0;
    let mut within = 0.0;
    let mut squares = 0.0;
    for round in values.units() {
        let size = round.len() as f64;
        let (mean, apart) = centred(round);
        between += size * (mean - grand).powi(2);
        within += apart;
        squares += size * size;
    }
    let above = rounds - 1.0;
    let below = blocks - rounds;
    between /= above;
    within /= below;
    // n₀ for rounds of unequal length: the common size if all are equal, otherwise a little less than the mean size.
    let typical_size = (blocks - squares / blocks) / above;
    (below > 0.0 && within > 0.0).then(|| Components {
        between: ((between - within) / typical_size).max(0.0),
        within,
        p_value: student::f_upper_tail(between / within, above, below),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Draws;

    /// By hand: mean squares 24 between (1 degree of freedom) and 1 within (4), F = 24.
    #[test]
    fn an_example_by_hand() {
        let values = Grouped::new(vec![vec![1.0, 2.0, 3.0], vec![5.0, 6.0, 7.0]]).unwrap();
        let found = components(&values).unwrap();
        assert!(
            (found.within - 1.0).abs() < 1e-12 && (found.between - 23.0 / 3.0).abs() < 1e-12,
            "{found:?}"
        );
        assert!(
            (found.p_value - student::two_sided(24_f64.sqrt(), 4.0)).abs() < 1e-12,
            "F(1, n) is t(n) squared"
        );
    }

    #[test]
    fn without_rounds_or_scatter_there_is_nothing_to_take_apart() {
        assert_eq!(components(&Grouped::new(vec![vec![1.0, 2.0]]).unwrap()), None);
        assert_eq!(components(&Grouped::new(vec![vec![1.0], vec![2.0]]).unwrap()), None);
        assert_eq!(
            components(&Grouped::new(vec![vec![1.0, 1.0], vec![2.0, 2.0]]).unwrap()),
            None
        );
    }

    /// Unequal rounds in which both components have a share of one half.
    #[test]
    fn a_known_share_is_found_on_average() {
        let mut draws = Draws::new(4);
        let mut about_zero = move || (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
        let run = |_| {
            let mut round = |blocks: usize| {
                let luck = about_zero();
                (0..blocks).map(|_| luck + about_zero()).collect()
            };
            components(&Grouped::new([8, 8, 3, 8, 1].map(&mut round).to_vec()).unwrap()).unwrap()
        };
        let runs: Vec<Components> = (0..4_000).map(run).collect();
        let within = runs.iter().map(|found| found.within).sum::<f64>() / 4_000.0;
        assert!((within - 1.0).abs() < 0.02, "{within}");
        let between = runs.iter().map(|found| found.between).sum::<f64>() / 4_000.0;
        // The cut at 0 raises the mean a little.
        assert!((0.95..1.15).contains(&between), "{between}");
    }
}
