//! Random choices of attacks.

use lasthop_stats::random::Draws;

pub fn pick<'a, T>(draws: &mut Draws, of: &'a [T]) -> &'a T {
    &of[draws.below(of.len() as u32) as usize]
}

/// Draws a number; both ends are included.
pub fn between(draws: &mut Draws, low: u32, high: u32) -> u32 {
    low + draws.below(high - low + 1)
}
