//! The result of a selftest, and its JSON.

use lasthop_analyse::summary::Verdict;
use lasthop_stats::{AsRatio, Estimate, Interval, middle, stopping, student};
use schemars::JsonSchema;
use serde::Serialize;

use super::chance::{at_most, wilson};

pub const SCHEMA: &str = "lasthop-selftest/2";
/// Confidence level of a run's intervals.
const NOMINAL: f64 = 0.95;
/// The least probability, at the nominal level, of the found number of correct intervals or fewer. Below, the level is
/// in doubt.
const IMPROBABLE: f64 = 0.01;
/// Half widths for which the required time is predicted.
const WIDTHS: [f64; 3] = [0.05, 0.02, 0.01];

/// The result of a selftest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// `lasthop-selftest/2`
    pub schema: String,
    pub experiment: String,
    /// Planted cost of a request of the second case, as a share.
    pub plant: f64,
    /// Seconds that each run was given.
    pub budget_seconds: f64,
    /// Seconds that everything took.
    pub seconds: f64,
    pub interrupted: bool,
    /// Whether the intervals hold as often as chance allows, and no case failed.
    pub passed: bool,
    pub runs: u32,
    /// Intervals that hold 1.
    pub held: Share,
    /// Cases that were called faster or slower than themselves.
    pub called_different: Share,
    /// Planted costs that were found: the case was called slower.
    pub found: Share,
    /// Median half width of the intervals, as a share. `null` without an interval.
    pub half_width: Option<f64>,
    /// About how long a run must be for other widths.
    pub resolution: Vec<Resolution>,
    pub answers: Vec<Answer>,
    pub failures: Vec<String>,
}

/// A share with Wilson's interval at 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    pub count: u32,
    pub of: u32,
    pub low: f64,
    pub high: f64,
}

/// The length of a run whose interval has this half width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Resolution {
    /// Half width of the interval, as a share.
    pub half_width: f64,
    pub seconds: f64,
}

/// A comparison of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Name of the run.
    pub run: String,
    pub case: String,
    #[serde(flatten, with = "AsRatio")]
    pub ratio: Interval,
    pub verdict: Verdict,
    /// The same comparison with the planted cost.
    pub planted: Planted,
    pub rounds: u32,
}

/// The result of the same trials if the second case has the planted cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Planted {
    #[serde(flatten, with = "AsRatio")]
    pub ratio: Interval,
    pub verdict: Verdict,
}

impl Share {
    fn of<T>(all: &[T], is: impl Fn(&T) -> bool) -> Self {
        let count = all.iter().filter(|one| is(one)).count() as u32;
        let of = all.len() as u32;
        let (low, high) = wilson(count, of);
        Self { count, of, low, high }
    }
}

impl SelfTest {
    /// A selftest without answers.
    pub fn new(experiment: &str, plant: f64, budget_seconds: f64) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            experiment: experiment.to_owned(),
            plant,
            budget_seconds,
            ..Self::default()
        }
    }

    /// Whether the number of correct intervals is probable at the nominal level.
    pub fn is_sound(&self) -> bool {
        self.held.of == 0 || at_most(self.held.count, self.held.of, NOMINAL) >= IMPROBABLE
    }

    /// Counts the answers.
    pub fn conclude(&mut self) {
        let all = &self.answers;
        self.held = Share::of(all, |answer| answer.ratio.contains(1.0));
        self.called_different = Share::of(all, |answer| {
            matches!(answer.verdict, Verdict::Faster | Verdict::Slower)
        });
        self.found = Share::of(all, |answer| answer.planted.verdict == Verdict::Slower);
        self.passed = self.is_sound() && self.failures.is_empty();
        let Some(half) = middle(all.iter().map(|answer| answer.ratio.log_half_width())) else {
            return;
        };
        self.half_width = Some(half.exp_m1());
        let rounds = middle(all.iter().map(|answer| f64::from(answer.rounds))).unwrap_or(1.0);
        self.resolution = WIDTHS
            .iter()
            .filter_map(|width| resolution(half, rounds, self.budget_seconds, *width))
            .collect();
    }
}

/// The time in which a half width of `half` (log scale) after `rounds` rounds and `budget` seconds shrinks to `width`;
/// `None` if it is already as small, or never will be.
fn resolution(half: f64, rounds: f64, budget: f64, width: f64) -> Option<Resolution> {
    let freedom = (rounds - 1.0).max(1.0);
    let standard_error = half / student::critical(NOMINAL, freedom);
    let wanted = Estimate {
        // With a margin of 0, a comparison is decided once its half width is below its estimate.
        value: width.ln_1p(),
        standard_error,
        freedom,
    };
    let more = stopping::more_data(&wanted, 0.0, NOMINAL)?;
    (half > width.ln_1p()).then_some(Resolution {
        half_width: width,
        seconds: budget * (1.0 + more),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ratio: f64, half: f64, verdict: Verdict) -> Answer {
        let run = String::new();
        let case = "a".to_owned();
        let ratio = Interval {
            estimate: ratio,
            low: ratio - half,
            high: ratio + half,
        };
        let planted = Planted {
            ratio,
            verdict: if half < 0.05 {
                Verdict::Slower
            } else {
                Verdict::Undecided
            },
        };
        Answer {
            run,
            case,
            ratio,
            verdict,
            planted,
            rounds: 5,
        }
    }

    fn selftest(answers: Vec<Answer>) -> SelfTest {
        let mut result = SelfTest {
            answers,
            ..SelfTest::new("x", 0.05, 10.0)
        };
        result.conclude();
        result
    }

    #[test]
    fn intervals_are_counted_against_one() {
        let answers = vec![
            answer(1.01, 0.02, Verdict::Undecided),
            answer(1.2, 0.1, Verdict::Faster),
            answer(1.0, 0.1, Verdict::Undecided),
        ];
        let result = selftest(answers);
        assert_eq!((result.held.count, result.held.of), (2, 3));
        assert_eq!((result.called_different.count, result.found.count), (1, 1));
        assert!(result.held.low < 2.0 / 3.0 && result.held.high > 2.0 / 3.0);
    }

    #[test]
    fn too_few_that_hold_fail() {
        let wrong = || answer(1.2, 0.1, Verdict::Faster);
        let right = || answer(1.0, 0.1, Verdict::Undecided);
        let of = |wrongs: usize| {
            let answers = (0..20).map(|at| if at < wrongs { wrong() } else { right() }).collect();
            selftest(answers).passed
        };
        assert!(of(3) && !of(5));
        assert!(selftest(vec![]).passed, "nothing was measured, so nothing is wrong");
    }

    #[test]
    fn narrower_intervals_take_longer_by_the_square() {
        let found = resolution(0.1, 1000.0, 10.0, 0.05).unwrap();
        let square = 10.0 * (0.1 / 0.05_f64.ln_1p()).powi(2);
        assert!((found.seconds / square - 1.0).abs() < 0.01, "{found:?}");
        // More rounds also make t smaller.
        assert!(resolution(0.1, 3.0, 10.0, 0.05).unwrap().seconds < square);
        assert_eq!(resolution(0.04, 5.0, 10.0, 0.05), None);
    }
}
