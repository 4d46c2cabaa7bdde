//! Rank correlation, to detect a drift over time.

/// Spearman's rank correlation of two series of equal length, in which ties share their mean rank; `None` with fewer
/// than three pairs, or if a series is constant.
#[must_use]
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.len() < 3 {
        return None;
    }
    pearson(&ranks(x), &ranks(y))
}

/// Probability of a correlation at least this strong if there is none, by the t approximation with n − 2 degrees of
/// freedom (good from about ten pairs).
#[must_use]
pub fn spearman_p_value(correlation: f64, pairs: usize) -> f64 {
    // Avoids an infinite t.
    if correlation.abs() >= 1.0 {
        return 0.0;
    }
    let freedom = pairs as f64 - 2.0;
    crate::student::two_sided(
        correlation * (freedom / (1.0 - correlation * correlation)).sqrt(),
        freedom,
    )
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        for &index in tied {
            // The mean of the ranks from `first` + 1 to `first` + their number.
            ranks[index] = first as f64 + (tied.len() as f64 + 1.0) / 2.0;
        }
        first += tied.len();
    }
    ranks
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean_x = mean(x);
    let mean_y = mean(y);
    let product =
        |pick: fn(f64, f64) -> f64| -> f64 { x.iter().zip(y).map(|(x, y)| pick(x - mean_x, y - mean_y)).sum() };
    let spread = (product(|x, _| x * x) * product(|_, y| y * y)).sqrt();
    (spread > 0.0).then(|| product(|x, y| x * y) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IQ and weekly hours of television, the worked example of the encyclopaedias: ρ = −29/165.
    #[test]
    fn the_usual_worked_example() {
        let iq = [106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
        let hours = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let correlation = spearman(&iq, &hours).unwrap();
        assert!((correlation + 29.0 / 165.0).abs() < 1e-12);
        assert!((spearman_p_value(correlation, 10) - 0.627_188).abs() < 1e-5);
    }

    #[test]
    fn monotone_is_one_and_constant_is_nothing() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 10.0, 11.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]), None);
        assert_eq!(spearman(&[1.0, 2.0], &[5.0, 6.0]), None);
        assert_eq!(spearman_p_value(1.0, 10), 0.0);
    }

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }
}
