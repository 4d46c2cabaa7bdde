//! The result of a selftest, and its JSON.

use lasthop_analyse::summary::Verdict;
use lasthop_stats::{Estimate, Interval, mean, middle, stopping, student};
use schemars::JsonSchema;
use serde::Serialize;

use super::chance::{at_most, wilson};

pub const SCHEMA: &str = "lasthop-selftest/1";
/// Level of the intervals of a run.
const NOMINAL: f64 = 0.95;
/// So few intervals that hold are less probable than this if the level is right.
const IMPROBABLE: f64 = 0.01;
/// Half widths whose time is predicted.
const WIDTHS: [f64; 3] = [0.05, 0.02, 0.01];

/// What all runs are asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// A case against itself, as it is and with a known cost.
    Itself {
        /// What a request of the second case costs more, as a share.
        plant: f64,
    },
    /// The experiment's own question, again and again.
    Again,
}

/// The result of a selftest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// `lasthop-selftest/1`
    pub schema: String,
    pub experiment: String,
    pub question: Question,
    /// Seconds that each run was given.
    pub budget_seconds: f64,
    /// Seconds that everything took.
    pub seconds: f64,
    pub interrupted: bool,
    /// Whether the intervals of each part hold as often as chance allows, and no case failed.
    pub passed: bool,
    pub parts: Vec<Part>,
}

/// Runs under the same conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Part {
    /// Share of each CPU that lasthop's own noise asks for beside the run; `null` for none.
    pub noise: Option<f64>,
    pub runs: u32,
    /// Intervals that hold the truth: 1, or the pooled answer of the first part.
    pub held: Share,
    /// Of the intervals that do not, those whose run says that the ratio may be another without what disturbed it. Absent
    /// if a case was compared with itself, which no disturbance makes another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warned: Option<Share>,
    /// Cases that were called faster or slower than themselves. Absent if the question was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_different: Option<Share>,
    /// Planted costs that were found: the case was called slower. Absent if the question was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Share>,
    /// Median half width of the intervals, as a share. `null` without an interval.
    pub half_width: Option<f64>,
    /// About how long a run must be for other widths.
    pub resolution: Vec<Resolution>,
    /// Pooled answers of the repeated question, by case: geometric means of the ratios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pooled: Vec<Pooled>,
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

/// The length of a run whose interval is so narrow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Resolution {
    /// As a share.
    pub half_width: f64,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pooled {
    pub case: String,
    pub ratio: f64,
}

/// A comparison of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Name of the run.
    pub run: String,
    pub case: String,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub verdict: Verdict,
    /// The same with the planted cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planted: Option<Planted>,
    pub rounds: u32,
    /// Names of the checks by which the run says that without what disturbed it the ratio may be another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed_by: Vec<String>,
}

/// What the same trials say when the second case has a known cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Planted {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
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

impl Answer {
    fn interval(&self) -> Interval {
        Interval {
            estimate: self.ratio,
            low: self.low,
            high: self.high,
        }
    }
}

impl Part {
    pub fn new(noise: Option<f64>) -> Self {
        Self {
            noise,
            ..Self::default()
        }
    }

    /// Whether so few intervals that hold the truth, or whose run warns of its own ratio, are no wonder if each does
    /// with the nominal probability.
    pub fn is_sound(&self) -> bool {
        let count = self.held.count + self.warned.map_or(0, |warned| warned.count);
        self.held.of == 0 || at_most(count, self.held.of, NOMINAL) >= IMPROBABLE
    }

    fn conclude(&mut self, question: Question, budget: f64, truths: &[Pooled]) {
        let all = &self.answers;
        let truth = |answer: &Answer| match question {
            Question::Itself { .. } => Some(1.0),
            Question::Again => truths
                .iter()
                .find(|pooled| pooled.case == answer.case)
                .map(|pooled| pooled.ratio),
        };
        let holds = |answer: &Answer| truth(answer).is_some_and(|truth| answer.interval().contains(truth));
        self.held = Share::of(all, holds);
        match question {
            Question::Again => {
                let missing: Vec<&Answer> = all.iter().filter(|answer| !holds(answer)).collect();
                self.warned = Some(Share::of(&missing, |answer| !answer.disturbed_by.is_empty()));
            }
            Question::Itself { .. } => {
                self.called_different = Some(Share::of(all, |answer| {
                    matches!(answer.verdict, Verdict::Faster | Verdict::Slower)
                }));
                self.found = Some(Share::of(all, |answer| {
                    answer.planted.is_some_and(|planted| planted.verdict == Verdict::Slower)
                }));
            }
        }
        let Some(half) = middle(all.iter().map(|answer| answer.interval().log_half_width())) else {
            return;
        };
        self.half_width = Some(half.exp_m1());
        let rounds = middle(all.iter().map(|answer| f64::from(answer.rounds))).unwrap_or(1.0);
        self.resolution = WIDTHS
            .iter()
            .filter_map(|width| resolution(half, rounds, budget, *width))
            .collect();
    }
}

impl SelfTest {
    pub fn new(experiment: &str, question: Question, budget_seconds: f64, mut parts: Vec<Part>) -> Self {
        let truths = if question == Question::Again {
            parts.first().map(pool).unwrap_or_default()
        } else {
            vec![]
        };
        for part in &mut parts {
            part.conclude(question, budget_seconds, &truths);
            part.pooled = if question == Question::Again {
                pool(part)
            } else {
                vec![]
            };
        }
        Self {
            schema: SCHEMA.to_owned(),
            experiment: experiment.to_owned(),
            question,
            budget_seconds,
            seconds: 0.0,
            interrupted: false,
            passed: parts.iter().all(|part| part.is_sound() && part.failures.is_empty()),
            parts,
        }
    }
}

/// Runs are equally long, so their log ratios count alike.
fn pool(part: &Part) -> Vec<Pooled> {
    let mut cases: Vec<&String> = part.answers.iter().map(|answer| &answer.case).collect();
    cases.sort();
    cases.dedup();
    let one = |case: &String| {
        let ratios = part.answers.iter().filter(|answer| answer.case == *case);
        Some(Pooled {
            case: case.clone(),
            ratio: mean::of(ratios.map(|answer| answer.ratio.ln()))?.exp(),
        })
    };
    cases.into_iter().filter_map(one).collect()
}

/// The time in which a half width of `half` (log scale) after `rounds` rounds and `budget` seconds comes down to
/// `width`; `None` if it is there already, or never gets there.
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
        let low = ratio - half;
        let high = ratio + half;
        let planted = Planted {
            ratio,
            low,
            high,
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
            low,
            high,
            verdict,
            planted: Some(planted),
            rounds: 5,
            disturbed_by: Vec::new(),
        }
    }

    fn selftest(question: Question, answers: Vec<Answer>) -> SelfTest {
        SelfTest::new(
            "x",
            question,
            10.0,
            vec![Part {
                answers,
                ..Part::default()
            }],
        )
    }

    #[test]
    fn intervals_are_counted_against_one() {
        let answers = vec![
            answer(1.01, 0.02, Verdict::Undecided),
            answer(1.2, 0.1, Verdict::Faster),
            answer(1.0, 0.1, Verdict::Undecided),
        ];
        let part = selftest(Question::Itself { plant: 0.05 }, answers).parts.remove(0);
        assert_eq!((part.held.count, part.held.of), (2, 3));
        assert_eq!(
            (part.called_different.unwrap().count, part.found.unwrap().count),
            (1, 1)
        );
        assert!(part.held.low < 2.0 / 3.0 && part.held.high > 2.0 / 3.0);
        assert!(part.pooled.is_empty());
    }

    #[test]
    fn intervals_are_counted_against_the_pooled_answer() {
        let answers = vec![answer(2.0, 0.3, Verdict::Faster), answer(2.2, 0.05, Verdict::Faster)];
        let part = selftest(Question::Again, answers).parts.remove(0);
        assert!((part.pooled[0].ratio - 4.4_f64.sqrt()).abs() < 1e-12);
        assert_eq!((part.held.count, part.called_different, part.found), (1, None, None));
    }

    #[test]
    fn an_interval_that_misses_is_excused_by_a_run_that_warns() {
        let quiet: Vec<Answer> = (0..12).map(|_| answer(1.0, 0.1, Verdict::Undecided)).collect();
        let off = |warns| {
            let disturbed_by = if warns {
                vec!["foreign-load".to_owned()]
            } else {
                Vec::new()
            };
            (0..12).map(move |_| Answer {
                disturbed_by: disturbed_by.clone(),
                ..answer(1.3, 0.1, Verdict::Faster)
            })
        };
        let repeated = |off: Vec<Answer>| {
            let parts = [quiet.clone(), off].map(|answers| Part {
                answers,
                ..Part::default()
            });
            SelfTest::new("x", Question::Again, 10.0, parts.into())
        };
        let warned = repeated(off(true).collect());
        assert_eq!(
            (
                warned.parts[1].held.count,
                warned.parts[1].warned.map(|warned| warned.count)
            ),
            (0, Some(12))
        );
        assert!(warned.passed && !repeated(off(false).collect()).passed);
    }

    #[test]
    fn too_few_that_hold_fail() {
        let wrong = || answer(1.2, 0.1, Verdict::Faster);
        let right = || answer(1.0, 0.1, Verdict::Undecided);
        let question = Question::Itself { plant: 0.05 };
        let of = |wrongs: usize| {
            let answers = (0..20).map(|at| if at < wrongs { wrong() } else { right() }).collect();
            selftest(question, answers).passed
        };
        assert!(of(3) && !of(5));
        assert!(
            selftest(question, vec![]).passed,
            "nothing was measured, so nothing is wrong"
        );
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
