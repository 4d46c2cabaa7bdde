//! Holm's procedure for many comparisons at once.
//!
//! Every interval of a run has a level of 95 % for its own comparison. Of 20 comparisons of equal cases, one is then
//! expected to exclude 1 by chance. Holm's step-down procedure (1979) tells which exclusions remain if the chance of
//! *any* false one is held at 5 %, whatever their dependence, such as that of cases with a common reference. The result
//! is reported beside the verdicts, and does not change them, because intervals at a different level for each case
//! would be misread.

/// Holm's adjusted probabilities, in the given order, each to be compared with 0.05.
#[must_use]
pub fn adjust(probabilities: &[f64]) -> Vec<f64> {
    let count = probabilities.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut adjusted = vec![0.0; count];
    let mut highest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        // Holm stops at the first hypothesis that is kept, so no later one may have a smaller value.
        highest = highest.max(probabilities[index] * (count - rank) as f64);
        adjusted[index] = highest.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_by_hand() {
        let adjusted = adjust(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(
            adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
            "{adjusted:?}"
        );
    }

    #[test]
    fn one_comparison_stays_as_it_is() {
        assert_eq!(adjust(&[0.04]), [0.04]);
        assert_eq!(adjust(&[0.9, 0.9]), [1.0, 1.0]);
        assert!(adjust(&[]).is_empty());
    }
}
