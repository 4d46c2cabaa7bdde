//! Reproducible draws: ChaCha8, with our own index draw and shuffle.
//!
//! The stream of ChaCha8 is fixed by its specification. Everything above is written here, so that a record and its seed
//! give the same figures with any crate for ChaCha8.

use chacha20::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// A stream of draws.
#[derive(Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut key = [0_u8; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A whole number from 0 to `bound - 1`, all equally likely, because draws in the incomplete last span are
    /// rejected.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "there is no number below 0");
        // The highest multiple of `bound` in 32 bits, minus 1.
        let last = u32::MAX - (u32::MAX % bound + 1) % bound;
        loop {
            let draw = self.0.next_u32();
            if draw <= last {
                return draw % bound;
            }
        }
    }

    /// A number in the open interval (0, 1), on a grid of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        // Half a step avoids 0, whose logarithm is infinite, and 1.
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Fisher–Yates shuffle: every order is equally likely.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u32::try_from(last + 1).expect("fewer than 2³² items");
            items.swap(last, self.below(bound) as usize);
        }
    }
}

/// A separate seed for each named purpose, so that an added case or metric does not change the draws of the others.
#[must_use]
pub fn seed_for(seed: u64, purpose: &[&str]) -> u64 {
    // FNV-1a over the words, each ended by a byte that never occurs in UTF-8.
    let bytes = purpose.iter().flat_map(|word| word.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut state = seed ^ hash;
    split_mix(&mut state)
}

/// SplitMix64 (Steele, Lea, Flood 2014): spreads a seed over all bits.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_its_published_first_outputs() {
        let mut state = 1_234_567;
        let words: Vec<u64> = (0..3).map(|_| split_mix(&mut state)).collect();
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn draws_are_pinned() {
        let mut draws = Draws::new(42);
        let numbers: Vec<u32> = (0..8).map(|_| draws.below(1_000)).collect();
        let mut order: Vec<u32> = (0..6).collect();
        draws.shuffle(&mut order);
        assert_eq!(
            (numbers, order),
            (vec![804, 537, 537, 508, 231, 831, 906, 557], vec![1, 0, 4, 3, 2, 5])
        );
    }

    #[test]
    fn indices_are_even() {
        let mut draws = Draws::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[draws.below(6) as usize] += 1;
        }
        // The standard deviation of each count is 91.
        assert!(seen.iter().all(|&count| count.abs_diff(10_000) < 450), "{seen:?}");
    }

    #[test]
    fn every_order_of_three_is_as_likely() {
        let mut draws = Draws::new(3);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..60_000 {
            let mut order = [0, 1, 2];
            draws.shuffle(&mut order);
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&count| count.abs_diff(10_000) < 450), "{seen:?}");
    }

    #[test]
    fn a_bound_of_a_power_of_two_and_of_one_end() {
        let mut draws = Draws::new(1);
        assert_eq!(draws.below(1), 0);
        assert!(draws.below(1 << 31) < 1 << 31);
    }

    #[test]
    fn purposes_do_not_run_together() {
        assert_ne!(seed_for(1, &["ab", "c"]), seed_for(1, &["a", "bc"]));
        assert_ne!(seed_for(1, &["a"]), seed_for(2, &["a"]));
    }
}
