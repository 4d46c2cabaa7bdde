//! Laws that hold for all data.

use lasthop_stats::{
    Better, Estimate, Grouped, Interval, Resampling, Verdict, holm,
    line::line,
    location::locate,
    mean,
    quantile::{Bins, Merged, MergedPairs},
    rank, stopping, student,
    totals::{self, Totals},
    verdict::verdict,
};
use proptest::prelude::*;

const HOW: Resampling = Resampling {
    seed: 11,
    resamples: 100,
};

fn rounds<T: std::fmt::Debug>(block: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Vec<Vec<T>>> {
    prop::collection::vec(prop::collection::vec(block, 1..6), 2..8)
}

/// Bins of few different values, so that blocks share bins.
fn bins() -> impl Strategy<Value = Bins> + Clone {
    prop::collection::vec((1_u64..30, 1_u64..1_000), 1..20).prop_map(Bins)
}

fn paired_bins() -> impl Strategy<Value = [Bins; 2]> + Clone {
    [bins(), bins()]
}

fn some_totals() -> impl Strategy<Value = Totals> + Clone {
    (1.0..1e6, 1.0..1e4).prop_map(|(numerator, denominator)| Totals::of(numerator, denominator))
}

fn paired_totals() -> impl Strategy<Value = [Totals; 2]> + Clone {
    [some_totals(), some_totals()]
}

fn grouped<T: lasthop_stats::grouped::BlockValue>(values: Vec<Vec<T>>) -> Grouped<T> {
    Grouped::new(values).unwrap()
}

fn map<T, U>(values: &[Vec<T>], with: impl Fn(&T) -> U + Copy) -> Vec<Vec<U>> {
    values.iter().map(|blocks| blocks.iter().map(with).collect()).collect()
}

/// Whether numbers are equal, apart from the rounding of sums.
fn same(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1.0)
}

fn same_estimate(left: &Estimate, right: &Estimate) -> bool {
    same(left.value, right.value) && same(left.standard_error, right.standard_error) && left.freedom == right.freedom
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A change of unit shifts logarithms, and leaves the scatter unchanged.
    #[test]
    fn a_factor_shifts_the_logarithm(values in rounds(0.1_f64..10.0), factor in 0.01_f64..100.0) {
        let plain = mean::mean(&grouped(map(&values, |x| x.ln())), HOW).unwrap();
        let scaled = mean::mean(&grouped(map(&values, |x| (x * factor).ln())), HOW).unwrap();
        let shifted = Estimate { value: plain.value + factor.ln(), ..plain };
        prop_assert!(same_estimate(&shifted, &scaled));
    }

    /// Counts of a few requests are equal in most blocks, which gives no scale to judge the other blocks by.
    #[test]
    fn equal_blocks_have_an_interval_that_holds_the_estimate(
        odd in prop::collection::vec((0_usize..27, -0.3_f64..0.3), 0..12)
    ) {
        let mut values = [-2.484_906_649_788; 27];
        for (place, by) in odd {
            values[place] += by;
        }
        let rounds = values.chunks(6).map(<[f64]>::to_vec).collect();
        let found = locate(&grouped(rounds)).unwrap().estimate;
        prop_assert!(found.standard_error >= 0.0 && found.standard_error < 1.0, "{found:?}");
        prop_assert!(found.exponential(0.95).contains(found.value.exp()), "{found:?}");
    }

    /// Scaling both cases by the same factor changes no ratio.
    #[test]
    fn ratios_have_no_unit(values in rounds(paired_totals()), factor in 0.01_f64..100.0) {
        let scaled = map(&values, |pair| pair.map(|t| Totals::of(t.numerator * factor, t.denominator)));
        let plain = totals::log_ratio(&grouped(values), HOW).unwrap();
        prop_assert!(same_estimate(&plain, &totals::log_ratio(&grouped(scaled), HOW).unwrap()));
    }

    /// Swapping case and reference inverts the interval, with the same draws.
    #[test]
    fn swapping_inverts_totals(values in rounds(paired_totals())) {
        let swapped = map(&values, |[case, reference]| [*reference, *case]);
        let ratio = totals::log_ratio(&grouped(values), HOW).unwrap().exponential(0.95).inverse();
        let inverse = totals::log_ratio(&grouped(swapped), HOW).unwrap().exponential(0.95);
        prop_assert!(same(ratio.low.ln(), inverse.low.ln()) && same(ratio.high.ln(), inverse.high.ln()));
    }

    #[test]
    fn swapping_inverts_quantiles(values in rounds(paired_bins()), share in 0.0_f64..1.0) {
        let swapped = map(&values, |[case, reference]| [reference.clone(), case.clone()]);
        let ratio = MergedPairs::of(&grouped(values)).log_ratio(share, HOW).unwrap();
        let inverse = MergedPairs::of(&grouped(swapped)).log_ratio(share, HOW).unwrap();
        let mirrored = Estimate { value: -ratio.value, ..ratio };
        prop_assert!(same_estimate(&mirrored, &inverse));
    }

    /// The order of blocks within a round has no effect, because rounds are drawn whole, and equal draws select equal
    /// rounds. (With one round, or another order of rounds, the draws select other units; then only the estimate stays
    /// exactly equal.)
    #[test]
    fn the_order_within_rounds_does_not_matter(values in rounds(-5.0_f64..5.0)) {
        let reversed: Vec<Vec<f64>> = values.iter().map(|blocks| blocks.iter().rev().copied().collect()).collect();
        let plain = mean::mean(&grouped(values), HOW).unwrap();
        prop_assert!(same_estimate(&plain, &mean::mean(&grouped(reversed), HOW).unwrap()));
    }

    #[test]
    fn the_order_of_rounds_leaves_the_estimate(values in rounds(-5.0_f64..5.0)) {
        let reversed: Vec<Vec<f64>> = values.iter().rev().cloned().collect();
        let plain = mean::mean(&grouped(values), HOW).unwrap();
        let other = mean::mean(&grouped(reversed), HOW).unwrap();
        prop_assert!(same(plain.value, other.value) && plain.freedom == other.freedom);
    }

    /// Merging the blocks of a round beforehand changes no quantile.
    #[test]
    fn merging_blocks_of_a_round_changes_no_quantile(values in rounds(bins()), share in 0.0_f64..1.0) {
        let merged: Vec<Vec<Bins>> = values
            .iter()
            .map(|blocks| vec![Bins(blocks.iter().flat_map(|block| block.0.clone()).collect())])
            .collect();
        prop_assert_eq!(Merged::of(&grouped(values)).point(share), Merged::of(&grouped(merged)).point(share));
    }

    #[test]
    fn a_quantile_is_that_of_all_samples_in_order(values in rounds(bins()), share in 0.0_f64..1.0) {
        let mut all: Vec<(u64, u64)> = values.iter().flatten().flat_map(|block| block.0.clone()).collect();
        all.sort_unstable();
        let total: u64 = all.iter().map(|bin| bin.1).sum();
        let wanted = ((share * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let expected = all.iter().find(|bin| { seen += bin.1; seen >= wanted }).unwrap().0;
        prop_assert_eq!(Merged::of(&grouped(values)).point(share), Some(expected as f64));
    }

    #[test]
    fn quantiles_rise(values in rounds(bins()), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
        let values = Merged::of(&grouped(values));
        prop_assert!(values.point(a.min(b)) <= values.point(a.max(b)));
    }

    /// Twice the same data: the estimate is equal, and the interval never wider.
    #[test]
    fn more_data_is_narrower(values in rounds(-5.0_f64..5.0)) {
        let twice: Vec<Vec<f64>> = values.iter().chain(&values).cloned().collect();
        let how = Resampling { seed: 3, resamples: 2_000 };
        let once = mean::mean(&grouped(values), how).unwrap();
        let twice = mean::mean(&grouped(twice), how).unwrap();
        prop_assert!(same(once.value, twice.value));
        // The exact factor is √(2(n − ½)/(n − 1)), with a smaller t: 1.7 and more. The noise of resampling is a few per
        // cent.
        prop_assert!(twice.half_width(0.95) <= 0.75 * once.half_width(0.95) + 1e-12);
    }

    #[test]
    fn more_confidence_is_wider(standard_error in 0.001_f64..1.0, freedom in 1.0_f64..60.0, a in 0.5_f64..0.99, step in 0.001_f64..0.009) {
        let estimate = Estimate { value: 0.0, standard_error, freedom };
        prop_assert!(estimate.half_width(a) < estimate.half_width(a + step));
    }

    #[test]
    fn the_critical_value_inverts_the_tail(confidence in 0.5_f64..0.999, freedom in 0.5_f64..500.0) {
        let t = student::critical(confidence, freedom);
        prop_assert!((student::two_sided(t, freedom) - (1.0 - confidence)).abs() < 1e-9);
    }

    /// Swapping the cases swaps faster and slower, and keeps the other verdicts.
    #[test]
    fn verdicts_are_symmetric(low in 0.5_f64..1.5, width in 0.0_f64..0.5, margin in 0.0_f64..0.1) {
        let interval = Interval { estimate: low + width / 2.0, low, high: low + width };
        let swapped = match verdict(&interval, margin, Better::More) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        prop_assert_eq!(verdict(&interval, margin, Better::Less), swapped);
        // Not at the edges, where 1/x is rounded.
        let edges = [1.0, 1.0 + margin, 1.0 / (1.0 + margin)];
        prop_assume!(edges.iter().all(|edge| (interval.low - edge).abs() > 1e-9 && (interval.high - edge).abs() > 1e-9));
        prop_assert_eq!(verdict(&interval.inverse(), margin, Better::More), swapped);
    }

    /// For an undecided comparison the prediction asks for more data; decided comparisons have no prediction.
    #[test]
    fn an_undecided_comparison_needs_more(value in -0.1_f64..0.1, standard_error in 0.001_f64..0.1) {
        let estimate = Estimate { value, standard_error, freedom: 7.0 };
        let word = verdict(&estimate.exponential(0.95), 0.02, Better::More);
        let more = stopping::more_data(&estimate, 0.02, 0.95);
        if word == Verdict::Undecided {
            prop_assert!(more.is_none_or(|more| more > 0.0));
        } else {
            prop_assert!(more.unwrap() < 1e-6);
        }
    }

    #[test]
    fn holm_is_between_nothing_and_bonferroni(probabilities in prop::collection::vec(0.0_f64..1.0, 1..12)) {
        let adjusted = holm::adjust(&probabilities);
        let count = probabilities.len() as f64;
        for (adjusted, plain) in adjusted.iter().zip(&probabilities) {
            prop_assert!(adjusted >= plain && *adjusted <= (plain * count).min(1.0) + 1e-12);
        }
    }

    #[test]
    fn drift_is_the_same_on_any_rising_scale(values in prop::collection::vec(0.1_f64..10.0, 5..30)) {
        let times: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let backwards: Vec<f64> = values.iter().map(|value| -value).collect();
        let plain = rank::spearman(&times, &values);
        prop_assert_eq!(plain, rank::spearman(&times, &logs));
        prop_assert!(same(plain.unwrap_or(0.0), -rank::spearman(&times, &backwards).unwrap_or(0.0)));
    }

    #[test]
    fn a_line_moves_with_its_points(points in prop::collection::vec((0.0_f64..10.0, -5.0_f64..5.0), 2..40), tilt in -3.0_f64..3.0) {
        let tilted: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x, y + tilt * x + 1.0)).collect();
        if let (Some(plain), Some(tilted)) = (line(&points), line(&tilted)) {
            let little = 1e-6 * (1.0 + plain.slope.abs());
            prop_assert!((tilted.slope - plain.slope - tilt).abs() < little);
            prop_assert!((tilted.intercept - plain.intercept - 1.0).abs() < 10.0 * little);
        }
    }

    /// Lines of blocks may be averaged: with the same x in every block, that is the line of all points.
    #[test]
    fn the_mean_of_lines_is_the_line_of_all_points(
        blocks in (2_usize..6).prop_flat_map(|count| prop::collection::vec(prop::collection::vec(-5.0_f64..5.0, count), 1..30))
    ) {
        let points = |ys: &Vec<f64>| -> Vec<(f64, f64)> { (1..).zip(ys).map(|(x, y)| (f64::from(x), *y)).collect() };
        let lines: Vec<_> = blocks.iter().map(|ys| line(&points(ys)).unwrap()).collect();
        let all = line(&blocks.iter().flat_map(points).collect::<Vec<_>>()).unwrap();
        prop_assert!(same(mean::of(lines.iter().map(|line| line.slope)).unwrap(), all.slope));
        prop_assert!(same(mean::of(lines.iter().map(|line| line.intercept)).unwrap(), all.intercept));
    }
}
