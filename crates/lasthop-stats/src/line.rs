//! The straight line through points, for results that are a slope, such as time against number of queries.

use crate::{
    bootstrap::{self, Resampling, weighted},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// The points (x, y) of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Points(pub Vec<(f64, f64)>);

impl BlockValue for Points {
    fn is_valid(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(x, y)| x.is_finite() && y.is_finite())
    }
}

/// A line, with the scatter of its slope and intercept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: Estimate,
    /// y at x = 0: the fixed cost, such as that of connecting.
    pub intercept: Estimate,
}

/// Sums of each unit about a common centre, which preserves digits for large x.
struct Moments {
    centre: (f64, f64),
    n: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    xx: Vec<f64>,
    xy: Vec<f64>,
}

impl Moments {
    fn new(blocks: &Grouped<Points>) -> Self {
        let points: Vec<&(f64, f64)> = blocks.values().flat_map(|block| &block.0).collect();
        let count = points.len() as f64;
        let centre = (
            points.iter().map(|p| p.0).sum::<f64>() / count,
            points.iter().map(|p| p.1).sum::<f64>() / count,
        );
        let sum = |term: fn(f64, f64) -> f64| -> Vec<f64> {
            blocks
                .units()
                .into_iter()
                .map(|unit: &[Points]| {
                    unit.iter()
                        .flat_map(|block| &block.0)
                        .map(|p| term(p.0 - centre.0, p.1 - centre.1))
                        .sum()
                })
                .collect()
        };
        Self {
            centre,
            n: sum(|_, _| 1.0),
            x: sum(|x, _| x),
            y: sum(|_, y| y),
            xx: sum(|x, _| x * x),
            xy: sum(|x, y| x * y),
        }
    }

    /// Least squares: (slope, intercept); `None` if all x are equal.
    fn fit(&self, times: &[u32]) -> Option<(f64, f64)> {
        let n = weighted(times, &self.n);
        let x = weighted(times, &self.x) / n;
        let y = weighted(times, &self.y) / n;
        let spread = weighted(times, &self.xx) / n - x * x;
        let slope = (weighted(times, &self.xy) / n - x * y) / spread;
        let intercept = self.centre.1 + y - slope * (self.centre.0 + x);
        (spread > 0.0).then_some((slope, intercept))
    }
}

/// Slope and intercept by least squares. `None` if all x are equal, or with fewer than two blocks.
#[must_use]
pub fn line(blocks: &Grouped<Points>, how: Resampling) -> Option<Line> {
    let moments = Moments::new(blocks);
    let sizes = blocks.sizes();
    Some(Line {
        slope: bootstrap::estimate(&sizes, how, |times| moments.fit(times).map(|line| line.0))?,
        intercept: bootstrap::estimate(&sizes, how, |times| moments.fit(times).map(|line| line.1))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_line_is_found_without_scatter() {
        let block = |xs: &[f64]| Points(xs.iter().map(|&x| (x, 3.0 * x + 7.0)).collect());
        let blocks = Grouped::new(vec![vec![block(&[1e6, 2e6])], vec![block(&[2e6, 5e6])]]).unwrap();
        let line = line(&blocks, Resampling::new(1)).unwrap();
        assert!((line.slope.value - 3.0).abs() < 1e-9 && line.slope.standard_error < 1e-9);
        assert!((line.intercept.value - 7.0).abs() < 1e-3 && line.intercept.standard_error < 1e-3);
    }

    /// Anscombe's first data set (1973): slope 0.5001, intercept 3.0001.
    #[test]
    fn anscombes_first_line() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let round = x.iter().zip(y).map(|(&x, y)| Points(vec![(x, y)])).collect();
        let line = line(&Grouped::new(vec![round]).unwrap(), Resampling::new(1)).unwrap();
        assert!((line.slope.value - 0.500_1).abs() < 5e-5);
        assert!((line.intercept.value - 3.000_1).abs() < 5e-5);
        // The textbook's standard error of the slope is 0.1179; the bootstrap of 11 points comes near.
        assert!(
            (line.slope.standard_error / 0.117_9 - 1.0).abs() < 0.35,
            "{}",
            line.slope.standard_error
        );
        assert!(line.slope.interval(0.95).contains(0.5));
    }

    #[test]
    fn one_x_has_no_slope() {
        let block = || Points(vec![(1.0, 2.0), (1.0, 3.0)]);
        assert_eq!(
            line(
                &Grouped::new(vec![vec![block()], vec![block()]]).unwrap(),
                Resampling::new(1)
            ),
            None
        );
    }
}
