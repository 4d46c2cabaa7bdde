//! A straight line by least squares, such as time against number of queries.

use crate::mean;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f64,
    /// y at x = 0: the fixed cost, such as that of connecting.
    pub intercept: f64,
}

/// The line of points (x, y). `None` if all x are equal.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let x = mean::of(points.iter().map(|point| point.0))?;
    let y = mean::of(points.iter().map(|point| point.1))?;
    // Sums about the centre, which preserves digits for large x.
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = together / spread;
    (spread > 0.0).then_some(Line {
        slope,
        intercept: y - slope * x,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_line_is_found() {
        let points = [1e6, 2e6, 2e6, 5e6].map(|x| (x, 3.0 * x + 7.0));
        let line = line(&points).unwrap();
        assert!((line.slope - 3.0).abs() < 1e-9);
        assert!((line.intercept - 7.0).abs() < 1e-3);
    }

    /// Anscombe's first data set (1973): slope 0.5001, intercept 3.0001.
    #[test]
    fn anscombes_first_line() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let line = line(&points).unwrap();
        assert!((line.slope - 0.500_1).abs() < 5e-5);
        assert!((line.intercept - 3.000_1).abs() < 5e-5);
    }

    #[test]
    fn one_x_has_no_slope() {
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
