//! Where log ratios lie when something disturbs some of them: Huber's estimate of location.
//!
//! A burst of other work hits a few trials hard. The mean counts those blocks like the others, so they widen the
//! interval of all. Huber's estimate (P. J. Huber, *Robust Statistics*, 1981, chapters 3 and 6) counts a block in full
//! while it lies within 1.345 standard deviations and limits its pull beyond. That costs 5 % efficiency where nothing
//! disturbs. The standard error is the sandwich estimate over rounds (K.-Y. Liang and S. L. Zeger, *Biometrika* 73,
//! 1986), which assumes nothing about blocks within a round.
//!
//! It sees nothing but the blocks: whatever else is measured of a trial may depend on the transport, and would then take
//! part of the difference away.

use crate::{bootstrap::effective_units, grouped::Grouped, interval::Estimate};

/// Where a block's pull ends, in standard deviations: 95 % efficiency for a normal distribution.
const BEND: f64 = 1.345;
/// Standard deviations per median absolute deviation of a normal distribution.
const PER_MAD: f64 = 1.4826;
/// With fewer blocks, their scatter says too little about which of them are disturbed.
const LEAST_BLOCKS: usize = 8;

/// A location.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub estimate: Estimate,
    /// What each block counts for in the estimate, more than 0 and at most 1, in the order of the blocks.
    pub weights: Vec<f64>,
}

/// The location of all blocks; `None` with fewer than two. Time proportional to the number of blocks.
#[must_use]
pub fn locate(blocks: &Grouped<f64>) -> Option<Located> {
    let sizes = blocks.sizes();
    if sizes.len() < 2 {
        return None;
    }
    let blocks: Vec<f64> = blocks.values().copied().collect();
    let (centre, limit) = centre(&blocks);
    let residuals: Vec<f64> = blocks.iter().map(|block| block - centre).collect();
    let full = residuals.iter().filter(|residual| residual.abs() <= limit).count() as f64;
    let pulls = residuals.iter().map(|residual| residual.clamp(-limit, limit));
    // The root of the squared sums over rounds.
    let deviation = of_rounds(pulls, &sizes)
        .iter()
        .map(|pull| pull * pull)
        .sum::<f64>()
        .sqrt();
    // Huber's correction for a scale that comes from the same data (Robust Statistics, 6.6).
    let count = blocks.len() as f64;
    let share = full / count;
    let correction = 1.0 + (1.0 - share) / share / count;
    Some(Located {
        estimate: Estimate::over_units(centre, correction * deviation / full, effective_units(&sizes)),
        weights: residuals.iter().map(|&residual| weight(residual, limit)).collect(),
    })
}

/// What a block counts for.
fn weight(residual: f64, limit: f64) -> f64 {
    // A residual of 0 makes an infinite quotient, and counts in full.
    (limit / residual.abs()).min(1.0)
}

/// The estimate, and the residual beyond which a block's pull is limited.
fn centre(blocks: &[f64]) -> (f64, f64) {
    // From the median, which a few disturbed blocks hardly move.
    let mut centre = median(blocks.to_vec());
    let mut limit = f64::INFINITY;
    for _ in 0..50 {
        let residuals: Vec<f64> = blocks.iter().map(|block| (block - centre).abs()).collect();
        let scale = PER_MAD * median(residuals.clone());
        if blocks.len() >= LEAST_BLOCKS && scale > 0.0 {
            limit = BEND * scale;
        }
        let mut sum = 0.0;
        let mut total = 0.0;
        for (block, residual) in blocks.iter().zip(residuals) {
            let weight = weight(residual, limit);
            sum += weight * block;
            total += weight;
        }
        let moved = (sum / total - centre).abs();
        centre = sum / total;
        // Without a limit it is a mean. That holds for few blocks, and where more than half of them are equal: about the mean
        // there would be a scale again, and it would shrink with every step until no block is within the limit.
        if moved <= 1e-9 * scale || limit.is_infinite() {
            break;
        }
    }
    (centre, limit)
}

/// Sums over the blocks of each round.
fn of_rounds(values: impl Iterator<Item = f64>, sizes: &[usize]) -> Vec<f64> {
    let mut values = values;
    sizes.iter().map(|&size| values.by_ref().take(size).sum()).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}
