//! Intervals for a share of runs, and the probability of a count by chance.

/// The normal quantile of a two-sided interval at 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's interval at 95 % for `count` of `of` (Wilson, *Journal of the American Statistical Association* 22, 1927);
/// 0 to 1 for `of` = 0.
pub fn wilson(count: u32, of: u32) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let n = f64::from(of);
    let share = f64::from(count) / f64::from(of);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Probability of `count` or fewer of `of`, each with probability `each`.
pub fn at_most(count: u32, of: u32, each: f64) -> f64 {
    // In logarithms, because the number of ways soon exceeds any `f64`.
    let ways = |k: u32| (0..k).map(|i| (f64::from(of - i) / f64::from(i + 1)).ln()).sum::<f64>();
    let log = |k: u32| ways(k) + f64::from(k) * each.ln() + f64::from(of - k) * (-each).ln_1p();
    (0..=count.min(of)).map(|k| log(k).exp()).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_tables() {
        // Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263 and 0 of 20.
        let (low, high) = wilson(81, 263);
        assert!(
            (low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5,
            "{low} {high}"
        );
        let (low, high) = wilson(0, 20);
        assert!(low == 0.0 && (high - 0.1611).abs() < 5e-5, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }

    #[test]
    fn the_tail_is_the_binomial_sum() {
        assert!((at_most(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_most(20, 20, 0.95) - 1.0).abs() < 1e-9);
        assert!((at_most(19, 20, 0.95) - (1.0 - 0.95_f64.powi(20))).abs() < 1e-9);
    }
}
