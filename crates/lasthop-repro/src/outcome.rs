//! The result of repeating a study: the content of its table, and the JSON of the book.

use lasthop_analyse::summary::Verdict;
use lasthop_model::record::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::study::model::{Claim, Figure, Missed, Study, StudyEnvironment};

pub const SCHEMA: &str = "lasthop-repro/1";

/// A study, repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repetition {
    /// `lasthop-repro/1`
    pub schema: String,
    pub study: String,
    pub title: String,
    pub author: String,
    pub published: String,
    pub question: String,
    /// Where the study ran.
    pub published_environment: StudyEnvironment,
    /// The study's method in a sentence.
    pub published_method: String,
    /// What its method could not see.
    pub missed: Vec<Missed>,
    /// Version of lasthop.
    pub lasthop: String,
    /// When it began, RFC 3339.
    pub started: String,
    pub seconds: f64,
    /// Seconds for measuring by lasthop's method.
    pub budget_seconds: f64,
    /// Where it ran here; `None` if nothing could run.
    pub environment: Option<Environment>,
    pub parts: Vec<Part>,
    /// One for each published figure.
    pub figures: Vec<FigureRow>,
    /// One for each published comparison.
    pub claims: Vec<ClaimRow>,
}

/// One experiment of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    pub runs: String,
    pub experiment: String,
    /// Why it was not repeated.
    pub skipped: Option<String>,
    /// Whether the reason is a missing program, which may be there next time.
    #[serde(default)]
    pub missing: bool,
    /// The study's method as it was carried out.
    pub method: Option<String>,
    /// How it was shortened, if it was.
    pub shortened: Option<String>,
    /// Records of the study's method, one per condition.
    pub method_records: Vec<String>,
    /// Record of lasthop's method.
    pub design_record: Option<String>,
    /// The levels of lasthop's method, if they differ from the study's, and how many blocks.
    #[serde(default)]
    pub design: Option<String>,
    /// What the study could not do, if the part is about that.
    #[serde(default)]
    pub beyond: Option<String>,
    /// What lasthop's method found in addition to the published figures.
    #[serde(default)]
    pub found: Vec<Found>,
    /// What failed, one sentence each.
    pub failures: Vec<String>,
    /// Why the figures differ, from facts about these runs.
    pub why: Vec<Note>,
    /// Where the CPU time of a request goes, and by which layers the conditions differ: a paragraph for each comparison that
    /// the study drew. Empty unless it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
}

/// A reason, made from measured facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Stable name.
    pub id: String,
    pub text: String,
}

/// A condition or a quantity for which nothing was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The case, or the quantity and its levels.
    pub condition: String,
    /// `1/s` for a rate, `us` for a quantity that follows from several cases.
    pub unit: String,
    /// `None` if no trial succeeded, or there are too few blocks.
    pub value: Option<Value>,
    /// For a rate, the ratio to the reference; for a time, the difference from it, `us`. `None` for the reference.
    pub against: Option<Value>,
    /// The 99th percentile of the service time, `us`.
    pub latency_p99: Option<Value>,
    pub verdict: Option<Verdict>,
}

/// A value, with its interval if its method gives one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A published figure and what was measured here, in its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureRow {
    pub figure: Figure,
    /// By the study's method, averaged as the study did.
    pub method: Option<Value>,
    /// By lasthop's method.
    pub lasthop: Option<Value>,
}

/// A published comparison and what was measured here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    pub claim: Claim,
    /// Ratio of the published figures, if there are two.
    pub published: Option<f64>,
    pub method: Option<f64>,
    pub lasthop: Option<Value>,
    pub word: Word,
}

/// The verdict on a claim, by the interval of lasthop's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The interval overlaps the claimed range, and shows a difference of the same sign.
    Reproduced,
    /// A difference of the same sign but of another size.
    SameSign,
    /// The whole interval contradicts the claim.
    Refuted,
    /// The interval has room for both.
    Undecided,
    /// Nothing here answers it.
    NotRepeated,
}

impl Word {
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::SameSign => "same sign, other size",
            Self::Refuted => "refuted here",
            Self::Undecided => "undecided",
            Self::NotRepeated => "not repeated",
        }
    }
}

impl Repetition {
    /// The frame of a repetition: what was published, and nothing measured yet.
    pub fn of(study: &Study, budget_seconds: f64, started: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            study: study.name.clone(),
            title: study.title.clone(),
            author: study.author.clone(),
            published: study.published.clone(),
            question: study.question.clone(),
            published_environment: study.environment.clone(),
            published_method: study.method.text.clone(),
            missed: study.missed.clone(),
            lasthop: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            seconds: 0.0,
            budget_seconds,
            environment: None,
            parts: Vec::new(),
            figures: Vec::new(),
            claims: Vec::new(),
        }
    }
}

/// A claim that there is no difference is reproduced by an interval within this of 1.
const SAME: f64 = 0.05;

/// Judges a claim by the ratio that was measured: `claimed` is the range that fits it.
pub fn judge(claimed: (f64, f64), measured: Option<Value>) -> Word {
    let Some(Value {
        value,
        low: Some(low),
        high: Some(high),
    }) = measured
    else {
        return if measured.is_some() {
            Word::Undecided
        } else {
            Word::NotRepeated
        };
    };
    let (least, most) = claimed;
    let touches = high >= least && low <= most;
    let decided = low > 1.0 || high < 1.0;
    let claims_a_difference = least > 1.0 || most < 1.0;
    match (touches, decided) {
        (true, true) => Word::Reproduced,
        (true, false) if !claims_a_difference && low >= 1.0 - SAME && high <= 1.0 + SAME => Word::Reproduced,
        (false, true) if claims_a_difference && (value > 1.0) == (least >= 1.0) => Word::SameSign,
        (false, _) => Word::Refuted,
        _ => Word::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, low: f64, high: f64) -> Option<Value> {
        Some(Value {
            value,
            low: Some(low),
            high: Some(high),
        })
    }

    #[test]
    fn a_claim_is_judged_by_the_whole_interval() {
        let half_more = (1.5, 1.5);
        assert_eq!(judge(half_more, ratio(1.48, 1.42, 1.54)), Word::Reproduced);
        assert_eq!(judge(half_more, ratio(1.20, 1.15, 1.25)), Word::SameSign);
        assert_eq!(judge(half_more, ratio(0.90, 0.85, 0.95)), Word::Refuted);
        assert_eq!(judge(half_more, ratio(1.00, 0.95, 1.05)), Word::Refuted);
        assert_eq!(judge(half_more, ratio(1.20, 0.90, 1.60)), Word::Undecided);
        assert_eq!(judge((2.0, f64::INFINITY), ratio(2.4, 2.2, 2.6)), Word::Reproduced);
        assert_eq!(judge(half_more, None), Word::NotRepeated);
    }

    #[test]
    fn no_difference_must_be_shown_too() {
        assert_eq!(judge((0.98, 1.02), ratio(1.0, 0.97, 1.03)), Word::Reproduced);
        assert_eq!(judge((0.98, 1.02), ratio(0.9, 0.5, 1.8)), Word::Undecided);
        assert_eq!(judge((0.98, 1.02), ratio(1.2, 1.1, 1.3)), Word::Refuted);
    }

    #[test]
    fn slower_is_a_sign_too() {
        assert_eq!(judge((0.7, 0.8), ratio(0.9, 0.85, 0.95)), Word::SameSign);
        assert_eq!(judge((0.7, 0.8), ratio(1.2, 1.1, 1.3)), Word::Refuted);
    }
}
