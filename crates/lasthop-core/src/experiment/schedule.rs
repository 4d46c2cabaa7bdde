//! The order in which cases take turns.

use lasthop_stats::random::{Draws, seed_for};

/// A random order for every block. It depends only on the seed, the round and the block, so a resumed run, or a run on
/// another machine, has the same orders.
///
/// Blocks come in pairs, the second in the reverse order of the first (ABBA). Within a pair, every case has the same
/// mean position and follows each neighbour as often as it precedes it. So neither a linear drift nor the after-effects
/// of the previous case favour any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
}

impl Schedule {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Indices of `cases` cases in the order of one block. `round` and `block` count from 0, `block` within its round.
    #[must_use]
    pub fn order(&self, round: u32, block: u32, cases: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..cases).collect();
        self.draws(round, block / 2).shuffle(&mut order);
        if block % 2 == 1 {
            order.reverse();
        }
        order
    }

    fn draws(&self, round: u32, pair: u32) -> Draws {
        Draws::new(seed_for(self.seed, &["schedule", &round.to_string(), &pair.to_string()]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_case_once(seed: u64, round: u32, block: u32, cases in 0usize..40) {
            let mut order = Schedule::new(seed).order(round, block, cases);
            prop_assert_eq!(&order, &Schedule::new(seed).order(round, block, cases));
            order.sort_unstable();
            prop_assert_eq!(order, (0..cases).collect::<Vec<_>>());
        }

        #[test]
        fn positions_balance_over_a_pair(seed: u64, round: u32, pair in 0u32..1000, cases in 1usize..40) {
            let schedule = Schedule::new(seed);
            let mut sums = vec![0; cases];
            for block in [2 * pair, 2 * pair + 1] {
                for (position, case) in schedule.order(round, block, cases).into_iter().enumerate() {
                    sums[case] += position;
                }
            }
            prop_assert!(sums.iter().all(|&sum| sum == cases - 1));
        }

        #[test]
        fn neighbours_balance_over_a_pair(seed: u64, cases in 2usize..20) {
            let schedule = Schedule::new(seed);
            let pairs = |block| -> Vec<(usize, usize)> {
                schedule.order(0, block, cases).windows(2).map(|pair| (pair[0], pair[1])).collect()
            };
            let mut turned: Vec<_> = pairs(1).into_iter().map(|(a, b)| (b, a)).collect();
            let mut first = pairs(0);
            first.sort_unstable();
            turned.sort_unstable();
            prop_assert_eq!(first, turned);
        }
    }

    /// Each of the 24 orders of four cases is drawn about equally often: chi-squared with 23 degrees of freedom is below
    /// 49.7 in 99.9 % of all seeds, and the seed is fixed.
    #[test]
    fn orders_are_uniform() {
        let mut counts = std::collections::HashMap::new();
        let draws = 24_000;
        for round in 0..draws {
            *counts.entry(Schedule::new(7).order(round, 0, 4)).or_insert(0_u32) += 1;
        }
        let expected = f64::from(draws) / 24.0;
        let chi_squared: f64 = counts.values().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        assert_eq!(counts.len(), 24);
        assert!(chi_squared < 49.7, "{chi_squared}");
    }

    /// Records name a seed: these orders must never change.
    #[test]
    fn orders_are_stable() {
        let schedule = Schedule::new(42);
        assert_eq!(schedule.order(0, 0, 6), [2, 4, 3, 0, 1, 5]);
        assert_eq!(schedule.order(0, 1, 6), [5, 1, 0, 3, 4, 2]);
    }

    #[test]
    fn seeds_rounds_and_pairs_differ() {
        let order = |seed, round, block| Schedule::new(seed).order(round, block, 20);
        assert_ne!(order(1, 0, 0), order(2, 0, 0));
        assert_ne!(order(1, 0, 0), order(1, 1, 0));
        assert_ne!(order(1, 0, 0), order(1, 0, 2));
    }
}
