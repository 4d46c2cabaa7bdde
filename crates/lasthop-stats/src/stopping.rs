//! The rule for stopping a run, and a prediction of the time that remains.
//!
//! A run that checks its interval after each round, and stops at the first narrow one, stops too early if the scatter
//! happens to look small. Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals",
//! *Annals of Mathematical Statistics* 36 (1965), show that this effect vanishes for long runs. For short runs it does
//! not: the simulation in `tests/coverage.rs` finds less than 94 % for a nominal 95 %. Intervals that decide about
//! stopping, and all intervals of a run that was stopped by them, are therefore computed at [`LOOKS_CONFIDENCE`], which
//! brings their true coverage to between 93 and 97.5 % for any requested precision.

use crate::{
    interval::{Estimate, Interval},
    student,
};

/// The fewest rounds after which a run may stop for precision.
pub const LEAST_ROUNDS: usize = 4;
/// The fewest blocks; with fewer, scatter is hardly known.
pub const LEAST_BLOCKS: usize = 10;

/// Nominal level of intervals under the stopping rule, for a true level of 95 %.
pub const LOOKS_CONFIDENCE: f64 = 0.97;

/// The farthest prediction, as a multiple of the run so far.
const FARTHEST: f64 = 100.0;

/// Whether a run may stop: at least [`LEAST_ROUNDS`] rounds, and a half width (on the log scale) at `confidence` of at
/// most ln(1 + `precision`). `confidence` is [`LOOKS_CONFIDENCE`], unless there were earlier reports.
#[must_use]
pub fn precise_enough(log_ratio: &Estimate, rounds: usize, precision: f64, confidence: f64) -> bool {
    rounds >= LEAST_ROUNDS && log_ratio.half_width(confidence) <= precision.ln_1p()
}

/// Nominal level of the intervals in the `reports`-th report on data that grow from report to report.
///
/// A reader who continues a run only while its report is undecided stops at the first interval that excludes 1, even by
/// chance. So the k-th report has 1/k² of the first report's probability of error. The probability of being misled by
/// any report is then at most π²/6 times that of one report, under any rule of the reader. `tests/coverage.rs` measures
/// the result.
#[must_use]
pub fn after_reports(confidence: f64, reports: u32) -> f64 {
    1.0 - (1.0 - confidence) / f64::from(reports.max(1)).powi(2)
}

/// The additional data that would decide an undecided comparison, as a multiple of the data so far (1.0: as much
/// again).
///
/// The estimate and the scatter are assumed to stay, so that the half width falls with t(n − 1)/√n. The result is when
/// the interval would exclude 1 or fit into the margin, whichever is sooner. The estimate will move by about its own
/// half width, so this is an order of magnitude. `None` if the comparison cannot be decided this way (a ratio of 1 with
/// a margin of 0), or only after more than a hundred times the data so far.
#[must_use]
pub fn more_data(log_ratio: &Estimate, margin: f64, confidence: f64) -> Option<f64> {
    let distance = log_ratio.value.abs();
    // The interval excludes 1 once its half width is below the distance, and fits into the margin once its half width
    // is below the rest of the margin. The larger target is reached first.
    let target = distance.max(margin.ln_1p() - distance);
    let units = log_ratio.freedom + 1.0;
    let half_width =
        |times: f64| student::critical(confidence, units * times - 1.0) * log_ratio.standard_error / times.sqrt();
    if half_width(FARTHEST) > target {
        return None;
    }
    let mut low = 1.0;
    let mut high = FARTHEST;
    while high - low > 1e-7 {
        let middle = f64::midpoint(low, high);
        if half_width(middle) > target {
            low = middle
        } else {
            high = middle
        }
    }
    Some(high - 1.0)
}

/// The data that would bring an interval to ±`width`, as a multiple of the data so far, by the square-root law.
#[must_use]
pub fn data_for(ratio: &Interval, width: f64) -> f64 {
    (ratio.log_half_width() / width.ln_1p()).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, standard_error: f64) -> Estimate {
        Estimate {
            value,
            standard_error,
            freedom: 9.0,
        }
    }

    #[test]
    fn four_rounds_are_the_least() {
        let exact = estimate(0.1, 0.0);
        assert!(!precise_enough(&exact, 3, 0.02, LOOKS_CONFIDENCE));
        assert!(precise_enough(&exact, 4, 0.02, LOOKS_CONFIDENCE));
    }

    #[test]
    fn later_reports_risk_less() {
        assert_eq!(after_reports(0.95, 1), 0.95);
        assert!((after_reports(0.95, 2) - 0.9875).abs() < 1e-12);
        assert_eq!(after_reports(0.95, 0), 0.95);
    }

    #[test]
    fn the_half_width_decides() {
        let critical = student::critical(LOOKS_CONFIDENCE, 9.0);
        let at = |share: f64| estimate(0.1, share * 0.02_f64.ln_1p() / critical);
        assert!(precise_enough(&at(0.999), 10, 0.02, LOOKS_CONFIDENCE));
        assert!(!precise_enough(&at(1.001), 10, 0.02, LOOKS_CONFIDENCE));
    }

    #[test]
    fn the_predicted_data_just_decide() {
        let undecided = estimate(0.03, 0.02);
        let more = more_data(&undecided, 0.02, 0.95).unwrap();
        let units = 10.0 * (1.0 + more);
        let then = Estimate {
            standard_error: 0.02 / (1.0 + more).sqrt(),
            freedom: units - 1.0,
            ..undecided
        };
        assert!((then.half_width(0.95) / 0.03 - 1.0).abs() < 1e-6);
        // The square-root law alone: (2.262 · 0.02 / 0.03)² − 1 = 1.27. A smaller t reduces that somewhat.
        assert!(more > 0.9 && more < 1.27, "{more}");
    }

    #[test]
    fn equal_cases_are_decided_by_the_margin() {
        assert!(more_data(&estimate(0.0, 0.02), 0.02, 0.95).unwrap() > 1.0);
        assert_eq!(more_data(&estimate(0.0, 0.02), 0.0, 0.95), None);
        assert_eq!(more_data(&estimate(0.0, 5.0), 0.02, 0.95), None);
    }
}
