//! Where log ratios lie when something disturbs some of them: Huber's estimate of location over weighted blocks.
//!
//! A burst of other work hits a few trials hard. The mean counts those blocks like the others, so they widen the
//! interval of all. Huber's estimate (P. J. Huber, *Robust Statistics*, 1981, chapters 3 and 6) counts a block in full
//! while it lies within 1.345 standard deviations and limits its pull beyond. That costs 5 % efficiency where nothing
//! disturbs. The standard error is the sandwich estimate over rounds (K.-Y. Liang and S. L. Zeger, *Biometrika* 73,
//! 1986), which assumes nothing about blocks within a round.
//!
//! Blocks are also weighted by what was measured of the disturbance: the logarithm of their scatter is a line over it
//! (A. C. Harvey, *Econometrica* 44, 1976). The disturbance of a block is that of case and reference *together*.
//! Regressing on its difference would narrow intervals further, but it takes away what the transport itself causes,
//! too: `tests/location.rs` shows both.

use crate::{
    bootstrap::effective_units,
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// Where a block's pull ends, in standard deviations: 95 % efficiency for a normal distribution.
const BEND: f64 = 1.345;
/// Standard deviations per median absolute deviation of a normal distribution.
const PER_MAD: f64 = 1.4826;
/// With fewer blocks, their scatter says too little about which of them are disturbed.
const LEAST_BLOCKS: usize = 8;
/// With fewer blocks, none is weighted.
const LEAST_WEIGHTED: usize = 20;
/// The scatter depends on the disturbance if its slope is this many standard errors above 0.
const DEPENDS: f64 = 2.0;
/// A line is read at no disturbance if a tenth of the blocks have less than this share of the mean one.
const NEAR_NONE: f64 = 0.1;

/// A block: the logarithm of its ratio, and how much case and reference were disturbed, 0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbed {
    pub value: f64,
    pub disturbance: f64,
}

impl BlockValue for Disturbed {
    fn is_valid(&self) -> bool {
        self.value.is_finite() && self.disturbance.is_finite() && self.disturbance >= 0.0
    }
}

/// A location.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub estimate: Estimate,
    /// With every block weighted alike, if disturbed blocks count less.
    pub unweighted: Option<Estimate>,
    /// What each block counts for in the estimate, more than 0 and at most 1, in the order of the blocks.
    pub weights: Vec<f64>,
}

/// The location of all blocks; `None` with fewer than two. Time proportional to the number of blocks.
#[must_use]
pub fn locate(blocks: &Grouped<Disturbed>) -> Option<Located> {
    let sizes = blocks.sizes();
    if sizes.len() < 2 {
        return None;
    }
    let blocks: Vec<Disturbed> = blocks.values().copied().collect();
    // Weights take a centre to measure scatter from, so all blocks count alike at first.
    let (unweighted, weights) = huber(&blocks, &vec![1.0; blocks.len()], &sizes);
    Some(
        match roots(&blocks, unweighted.value).map(|roots| huber(&blocks, &roots, &sizes)) {
            Some((estimate, weights)) => Located {
                estimate,
                unweighted: Some(unweighted),
                weights,
            },
            None => Located {
                estimate: unweighted,
                unweighted: None,
                weights,
            },
        },
    )
}

/// How a location depends on the disturbance: a straight line through the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The least disturbance that the blocks can speak for.
    pub least: f64,
    /// The location there.
    pub at_least: Estimate,
    /// Change for each unit of disturbance.
    pub slope: Estimate,
}

/// The line of least squares, with weights and limited pulls as in [`locate`]; `None` with fewer blocks than those that
/// are weighted, or if all are disturbed alike.
#[must_use]
pub fn trend(blocks: &Grouped<Disturbed>) -> Option<Trend> {
    let sizes = blocks.sizes();
    let blocks: Vec<Disturbed> = blocks.values().copied().collect();
    if blocks.len() < LEAST_WEIGHTED {
        return None;
    }
    let ones = vec![1.0; blocks.len()];
    let roots = roots(&blocks, centre(&blocks, &ones).0).unwrap_or(ones);
    let (centre, limit) = centre(&blocks, &roots);
    let points: Vec<_> = blocks
        .iter()
        .zip(&roots)
        .map(|(block, root)| {
            (
                root * root,
                block.disturbance,
                (block.value - centre).clamp(-limit / root, limit / root),
            )
        })
        .collect();
    let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(weight, x, y)| weight * f(x, y)).sum::<f64>();
    let (total, x, xx) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|x, _| x * x));
    let spread = total * xx - x * x;
    // Relative to the sums, because it is a difference of two large numbers where blocks are disturbed alike.
    if spread <= 1e-9 * total * xx {
        return None;
    }
    let slope = (total * sum(&|x, y| x * y) - x * sum(&|_, y| y)) / spread;
    let start = (sum(&|_, y| y) - slope * x) / total;
    let effective = effective_units(&of_rounds(points.iter().map(|point| point.0), &sizes));
    let estimate = |value: f64, influence: &dyn Fn(f64) -> f64| {
        let pulls = points
            .iter()
            .map(|&(weight, x, y)| weight * (y - start - slope * x) * influence(x));
        Estimate::over_units(value, deviation(pulls, &sizes) / spread, effective)
    };
    let least = least(&blocks);
    let at_least = estimate(centre + start + slope * least, &|at| {
        xx - x * at + least * (total * at - x)
    });
    Some(Trend {
        least,
        at_least,
        slope: estimate(slope, &|at| total * at - x),
    })
}

/// What a tenth of the blocks stay below, or none at all if that is near enough: a line says nothing beyond its points.
fn least(blocks: &[Disturbed]) -> f64 {
    let mut sorted: Vec<f64> = blocks.iter().map(|block| block.disturbance).collect();
    sorted.sort_by(f64::total_cmp);
    let tenth = sorted[sorted.len() / 10];
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    if tenth <= NEAR_NONE * mean { 0.0 } else { tenth }
}

/// Roots of the blocks' weights: how little each scatters, compared with an undisturbed one. `None` if their scatter
/// does not grow with the disturbance.
fn roots(blocks: &[Disturbed], centre: f64) -> Option<Vec<f64>> {
    let points: Vec<(f64, f64)> = blocks
        .iter()
        .map(|block| (block.disturbance, (block.value - centre).abs().ln()))
        // A block exactly at the centre has the logarithm of 0.
        .filter(|(_, scatter)| scatter.is_finite())
        .collect();
    if points.len() < LEAST_WEIGHTED {
        return None;
    }
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / points.len() as f64;
    let x = mean(|point| point.0);
    let y = mean(|point| point.1);
    let product = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| f(point.0 - x, point.1 - y)).sum::<f64>();
    let spread = product(&|x, _| x * x);
    let slope = product(&|x, y| x * y) / spread;
    let error = (product(&|x, y| (y - slope * x).powi(2)) / (points.len() - 2) as f64 / spread).sqrt();
    // The logarithm of a distance is that of the scale plus a constant, which the slope does not contain.
    (slope > DEPENDS * error).then(|| blocks.iter().map(|block| (-slope * block.disturbance).exp()).collect())
}

/// The estimate, and what each block counts for. `roots` scale the blocks to equal scatter; `sizes` are the blocks of
/// each round.
fn huber(blocks: &[Disturbed], roots: &[f64], sizes: &[usize]) -> (Estimate, Vec<f64>) {
    let (centre, limit) = centre(blocks, roots);
    let residuals: Vec<f64> = blocks
        .iter()
        .zip(roots)
        .map(|(block, root)| root * (block.value - centre))
        .collect();
    let full: f64 = residuals
        .iter()
        .zip(roots)
        .filter(|(r, _)| r.abs() <= limit)
        .map(|(_, root)| root * root)
        .sum();
    let pulls = residuals
        .iter()
        .zip(roots)
        .map(|(residual, root)| root * residual.clamp(-limit, limit));
    // Huber's correction for a scale that comes from the same data (Robust Statistics, 6.6).
    let share = residuals.iter().filter(|residual| residual.abs() <= limit).count() as f64 / blocks.len() as f64;
    let correction = 1.0 + (1.0 - share) / share / blocks.len() as f64;
    let effective = effective_units(&of_rounds(roots.iter().map(|root| root * root), sizes));
    let weights = residuals
        .iter()
        .zip(roots)
        .map(|(residual, root)| weight(*root, *residual, limit))
        .collect();
    (
        Estimate::over_units(centre, correction * deviation(pulls, sizes) / full, effective),
        weights,
    )
}

/// What a block counts for.
fn weight(root: f64, residual: f64, limit: f64) -> f64 {
    // A residual of 0 makes an infinite quotient, and counts in full.
    (limit / residual.abs()).min(1.0) * root * root
}

/// The root of the squared sums over rounds.
fn deviation(pulls: impl Iterator<Item = f64>, sizes: &[usize]) -> f64 {
    of_rounds(pulls, sizes)
        .iter()
        .map(|pull| pull * pull)
        .sum::<f64>()
        .sqrt()
}

/// The estimate, and the residual beyond which a block's pull is limited.
fn centre(blocks: &[Disturbed], roots: &[f64]) -> (f64, f64) {
    // From the median, which a few disturbed blocks hardly move.
    let mut centre = median(blocks.iter().map(|block| block.value).collect());
    let mut limit = f64::INFINITY;
    for _ in 0..50 {
        let residual = |(block, root): (&Disturbed, &f64)| (root * (block.value - centre)).abs();
        let residuals: Vec<f64> = blocks.iter().zip(roots).map(residual).collect();
        let scale = PER_MAD * median(residuals.clone());
        if blocks.len() >= LEAST_BLOCKS && scale > 0.0 {
            limit = BEND * scale;
        }
        let weights = residuals
            .iter()
            .zip(roots)
            .map(|(residual, root)| weight(*root, *residual, limit));
        let mut sum = 0.0;
        let mut total = 0.0;
        for (block, weight) in blocks.iter().zip(weights) {
            sum += weight * block.value;
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
