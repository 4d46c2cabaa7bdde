//! The result of repeating a study: the content of its table, and the JSON of the book.

use lasthop_analyse::summary::Verdict;
use lasthop_model::{engine::EngineKind, record::Environment};
use lasthop_stats::Interval;
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
    /// What the study's method could not see or mixed up.
    pub missed: Vec<Missed>,
    /// Version of lasthop.
    pub lasthop: String,
    /// Start of the repetition, RFC 3339.
    pub started: String,
    pub seconds: f64,
    /// Seconds for measuring by lasthop's method.
    pub budget_seconds: f64,
    /// Where the study was repeated; `None` if nothing could run.
    pub environment: Option<Environment>,
    pub parts: Vec<RepeatedExperiment>,
    /// A row for each published figure.
    pub figures: Vec<FigureRow>,
    /// A row for each published comparison.
    pub claims: Vec<ClaimRow>,
}

/// One experiment of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedExperiment {
    pub runs: String,
    pub experiment: String,
    /// Why the experiment was not repeated; `None` if it was.
    pub skipped: Option<String>,
    /// Whether the experiment was skipped because of a missing program, which may be there next time.
    #[serde(default)]
    pub missing: bool,
    /// The study's method as it was carried out.
    pub method: Option<String>,
    /// How the method was shortened; `None` if it was not.
    pub shortened: Option<String>,
    /// The record of the study's method; in results of earlier versions one per condition.
    pub method_records: Vec<String>,
    /// Record of lasthop's method.
    pub design_record: Option<String>,
    /// The levels of lasthop's method, if they differ from the study's, and how many blocks.
    #[serde(default)]
    pub design: Option<String>,
    /// What the study could not do and this part does; `None` if the part repeats published figures.
    #[serde(default)]
    pub beyond: Option<String>,
    /// What lasthop's method found in addition to the published figures.
    #[serde(default)]
    pub found: Vec<Found>,
    /// What failed, one sentence each.
    pub failures: Vec<String>,
    /// Why the figures differ, from facts about these runs.
    pub why: Vec<Note>,
    /// Where the CPU time of a request goes, and by which layers the conditions differ: a paragraph for each comparison
    /// that the study drew. Empty unless layers were asked for.
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

impl From<Interval> for Value {
    /// The interval of a single block has no width, which means that there are no bounds.
    fn from(interval: Interval) -> Self {
        let bounded = interval.has_width();
        Self {
            value: interval.estimate,
            low: bounded.then_some(interval.low),
            high: bounded.then_some(interval.high),
        }
    }
}

/// A published figure and what was measured here, in its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureRow {
    pub figure: Figure,
    /// The figure by the study's method, averaged as the study did.
    pub method: Option<Value>,
    /// The figure by lasthop's method.
    pub lasthop: Option<Value>,
}

/// A published comparison and what was measured here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    pub claim: Claim,
    /// The published ratio, if there is one.
    pub published: Option<f64>,
    #[serde(flatten)]
    pub ratios: Ratios,
    pub word: ClaimVerdict,
    /// Reason for the verdict, or a caution about it; `None` if the ratios explain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What was measured of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratios {
    pub method: Option<f64>,
    pub lasthop: Option<Value>,
    /// The sample behind lasthop's ratio.
    #[serde(default)]
    pub sample: Option<Sample>,
}

/// How much was measured of both sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Starts of the servers.
    pub rounds: u32,
    /// Blocks over all rounds.
    pub blocks: u32,
}

/// The verdict on a claim, by the interval of lasthop's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The interval agrees with the claim, and shows a difference where one is claimed.
    Reproduced,
    /// A difference of the same sign but of another size.
    SameSign,
    /// The interval excludes the claimed size and has room for both signs.
    #[serde(rename = "other-size-sign-undecided")]
    SignUndecided,
    /// The whole interval contradicts the claim.
    Refuted,
    /// The interval neither confirms nor excludes the claim, or there is too little data.
    Undecided,
    /// No result here answers the claim.
    NotRepeated,
}

impl ClaimVerdict {
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::SameSign => "same sign, other size",
            Self::SignUndecided => "other size, sign undecided",
            Self::Refuted => "refuted here",
            Self::Undecided => "undecided",
            Self::NotRepeated => "not repeated",
        }
    }
}

impl Repetition {
    /// A repetition with the published figures, and nothing measured yet.
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

    /// Reads a kept repetition. Measurements stay; the claims are the study's present ones, judged anew.
    pub fn read(text: &str, study: &Study) -> serde_json::Result<Self> {
        let mut kept: Self = serde_json::from_str(text)?;
        let rows = std::mem::take(&mut kept.claims);
        let ratios = |claim: &Claim| {
            let mut measured = rows.iter().filter(|row| row.word != ClaimVerdict::NotRepeated);
            Some(measured.find(|row| row.claim.compares_as(claim))?.ratios)
        };
        let claims = study.claims.iter();
        kept.claims = claims.map(|claim| kept.judged(study, claim, ratios(claim))).collect();
        Ok(kept)
    }

    /// A claim, judged by its measured ratios; without ratios it is not repeated.
    pub fn judged(&self, study: &Study, claim: &Claim, ratios: Option<Ratios>) -> ClaimRow {
        let part = self.parts.iter().find(|part| part.runs == claim.runs);
        let skipped = part.and_then(|part| part.skipped.as_ref());
        let unanswered = claim.because.as_ref().or(skipped);
        let failure = || part.and_then(|part| part.failures.first());
        let ratios = ratios.filter(|_| unanswered.is_none());
        let published = study.published_ratio(claim);
        let (word, because) = match ratios {
            Some(ratios) => judge(claim, published, ratios),
            None => {
                let why = unanswered.or_else(failure).map_or("not measured", String::as_str);
                (ClaimVerdict::NotRepeated, Some(why))
            }
        };
        let engine = study.method.engine.filter(|_| ratios.is_some());
        let other = engine.and_then(|wanted| self.other_engine(wanted));
        let because: Vec<&str> = because.into_iter().chain(other.as_deref()).collect();
        ClaimRow {
            claim: claim.clone(),
            published,
            ratios: ratios.unwrap_or_default(),
            word,
            because: Some(because.join("; ")).filter(|because| !because.is_empty()),
        }
    }

    /// Says which engine ran the containers instead of the study's.
    fn other_engine(&self, wanted: EngineKind) -> Option<String> {
        let here = self.environment.as_ref()?;
        here.engine().filter(|(kind, _)| *kind != wanted)?;
        Some(format!("{} in place of {}", here.engine_in_words()?, wanted.name()))
    }
}

/// The largest distance from 1 at which an interval still reproduces a claim of no difference.
const SAME: f64 = 0.05;

/// Judges a claim by the measured ratio, with the reason if the ratio is not enough.
fn judge(claim: &Claim, published: Option<f64>, measured: Ratios) -> (ClaimVerdict, Option<&'static str>) {
    let undecided = |because| (ClaimVerdict::Undecided, Some(because));
    match measured.sample {
        None => return undecided("rounds not known"),
        Some(Sample { rounds: 0 | 1, .. }) => return undecided("a verdict needs two rounds"),
        Some(_) => {}
    }
    let Some(Value {
        value,
        low: Some(low),
        high: Some(high),
    }) = measured.lasthop
    else {
        return undecided("no interval");
    };
    let (least, most) = claim.range(published);
    let has_two_ends = least > 0.0 && most.is_finite();
    let is_published_outside = published.is_some_and(|published| !(low..=high).contains(&published));
    let aside = is_published_outside.then_some("the published ratio is outside the interval");
    // A ratio of two quantities, such as a share of a whole, has no special value 1.
    let has_sign = claim.against_quantity.is_none();
    let shows_a_difference = low > 1.0 || high < 1.0;
    let claims_a_difference = has_sign && (least >= 1.0 || most <= 1.0);
    if low >= least && high <= most {
        return (ClaimVerdict::Reproduced, aside);
    }
    if high < least || low > most {
        let word = if has_sign && !shows_a_difference {
            ClaimVerdict::SignUndecided
        } else if claims_a_difference && (value > 1.0) == (least >= 1.0) {
            ClaimVerdict::SameSign
        } else {
            ClaimVerdict::Refuted
        };
        return (word, None);
    }
    // The interval contains an end of the claimed range.
    if !has_two_ends {
        undecided("the interval reaches beyond the claim")
    } else if has_sign && !claims_a_difference {
        if low >= 1.0 - SAME && high <= 1.0 + SAME {
            (ClaimVerdict::Reproduced, aside)
        } else {
            undecided("the interval reaches beyond the claim")
        }
    } else if has_sign && !shows_a_difference {
        undecided("the interval contains 1")
    } else if (least..=most).contains(&value) || published.is_some() && !is_published_outside {
        (ClaimVerdict::Reproduced, aside)
    } else if has_sign && is_published_outside {
        (ClaimVerdict::SameSign, aside)
    } else {
        undecided("the interval only touches the claim")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: Option<Sample> = Some(Sample { rounds: 2, blocks: 8 });

    fn between(least: f64, most: f64) -> Claim {
        Claim {
            least: Some(least),
            most: Some(most),
            ..Claim::default()
        }
    }

    fn ratios(value: f64, low: f64, high: f64) -> Ratios {
        Ratios {
            lasthop: Some(Value {
                value,
                low: Some(low),
                high: Some(high),
            }),
            sample: ROUNDS,
            ..Ratios::default()
        }
    }

    fn word(claim: &Claim, value: f64, low: f64, high: f64) -> ClaimVerdict {
        judge(claim, None, ratios(value, low, high)).0
    }

    #[test]
    fn a_claim_is_judged_by_the_whole_interval() {
        let half_more = between(1.45, 1.55);
        assert_eq!(word(&half_more, 1.48, 1.42, 1.54), ClaimVerdict::Reproduced);
        assert_eq!(word(&half_more, 1.20, 1.15, 1.25), ClaimVerdict::SameSign);
        assert_eq!(word(&half_more, 0.90, 0.85, 0.95), ClaimVerdict::Refuted);
        assert_eq!(word(&half_more, 1.20, 0.90, 1.60), ClaimVerdict::Undecided);
        let less = between(0.7, 0.8);
        assert_eq!(word(&less, 0.9, 0.85, 0.95), ClaimVerdict::SameSign);
        assert_eq!(word(&less, 1.2, 1.1, 1.3), ClaimVerdict::Refuted);
    }

    /// Intervals from a real machine: pipes against domain sockets, and PgBouncer's latency.
    #[test]
    fn an_interval_that_contains_1_refutes_nothing() {
        assert_eq!(
            word(&between(1.2, 1.3), 0.912, 0.763, 1.091),
            ClaimVerdict::SignUndecided
        );
        assert_eq!(
            word(&between(0.55, 0.57), 0.894, 0.691, 1.157),
            ClaimVerdict::SignUndecided
        );
        assert_eq!(word(&between(1.5, 1.5), 1.00, 0.95, 1.05), ClaimVerdict::SignUndecided);
    }

    #[test]
    fn a_verdict_needs_two_rounds_and_an_interval() {
        let claim = between(0.99, 1.03);
        let measured = |sample| Ratios {
            sample,
            ..ratios(1.343, 1.056, 1.663)
        };
        let because = |ratios| judge(&claim, None, ratios);
        assert_eq!(because(measured(ROUNDS)), (ClaimVerdict::Refuted, None));
        let one = Sample { rounds: 1, blocks: 4 };
        assert_eq!(
            because(measured(Some(one))),
            (ClaimVerdict::Undecided, Some("a verdict needs two rounds"))
        );
        assert_eq!(
            because(measured(None)),
            (ClaimVerdict::Undecided, Some("rounds not known"))
        );
        let without = Ratios {
            lasthop: None,
            ..measured(ROUNDS)
        };
        assert_eq!(because(without), (ClaimVerdict::Undecided, Some("no interval")));
    }

    #[test]
    fn no_difference_must_be_shown_too() {
        let same = between(0.98, 1.02);
        assert_eq!(word(&same, 1.0, 0.97, 1.03), ClaimVerdict::Reproduced);
        assert_eq!(word(&same, 0.9, 0.5, 1.8), ClaimVerdict::Undecided);
        assert_eq!(word(&same, 1.2, 1.1, 1.3), ClaimVerdict::Refuted);
        assert_eq!(
            word(&same, 1.15, 1.01, 1.3),
            ClaimVerdict::Undecided,
            "only its end says so"
        );
    }

    #[test]
    fn a_bound_holds_for_the_whole_interval() {
        let only = |least, most| Claim {
            least,
            most,
            ..Claim::default()
        };
        let twice = only(Some(2.0), None);
        assert_eq!(word(&twice, 2.4, 2.2, 2.6), ClaimVerdict::Reproduced);
        assert_eq!(word(&twice, 2.1, 1.9, 2.3), ClaimVerdict::Undecided);
        assert_eq!(word(&twice, 1.88, 1.85, 1.91), ClaimVerdict::SameSign);
        assert_eq!(
            word(&only(None, Some(1.5)), 1.497, 1.436, 1.562),
            ClaimVerdict::Undecided
        );
        let slightly = only(Some(1.0), None);
        assert_eq!(
            word(&slightly, 1.0, 0.99, 1.01),
            ClaimVerdict::Undecided,
            "nothing shows a difference"
        );
        assert_eq!(word(&slightly, 0.9, 0.8, 0.95), ClaimVerdict::Refuted);
    }

    /// The interval ends within the claimed range, short of the published figure.
    #[test]
    fn a_published_ratio_outside_the_interval_is_said() {
        let outside = Some("the published ratio is outside the interval");
        let touched = ratios(1.423, 1.121, 1.808);
        assert_eq!(
            judge(&between(1.8, 1.9), Some(1.857), touched),
            (ClaimVerdict::SameSign, outside)
        );
        assert_eq!(judge(&between(1.8, 1.9), None, touched).0, ClaimVerdict::Undecided);
        let five_to_ten = between(1.05, 1.10);
        assert_eq!(
            judge(&five_to_ten, Some(1.099), ratios(1.068, 1.041, 1.095)),
            (ClaimVerdict::Reproduced, outside)
        );
        assert_eq!(
            judge(&five_to_ten, Some(1.09), ratios(1.12, 1.08, 1.16)),
            (ClaimVerdict::Reproduced, None)
        );
    }

    #[test]
    fn a_share_has_no_sign() {
        let share = |least, most| Claim {
            against_quantity: Some("connection".to_owned()),
            ..between(least, most)
        };
        assert_eq!(word(&share(0.41, 0.42), 1.0, 0.9, 1.1), ClaimVerdict::Refuted);
        assert_eq!(word(&share(0.9, 1.2), 1.0, 0.8, 1.1), ClaimVerdict::Reproduced);
        assert_eq!(word(&share(0.0, 0.01), 0.6, 0.5, 0.7), ClaimVerdict::Refuted);
    }

    /// An older result has a verdict that is no longer given, and old claims.
    #[test]
    fn a_kept_result_is_judged_by_the_claims_of_today() {
        let study = crate::study::catalog::load("moby-11911-redis").unwrap();
        let mut old = Repetition::of(&study, 60.0, String::new());
        let here = r#"{
            "host": "h", "cpu_model": "", "cpus": 2, "memory": 0, "kernel": "", "architecture": "", "distribution": "",
            "virtualization": "", "governor": null, "load_average": [0, 0, 0], "sysctl": {},
            "programs": {"podman": {"path": "/usr/bin/podman", "version": "4.3.1, runc, overlay, netavark"}}
        }"#;
        old.environment = Some(serde_json::from_str(here).unwrap());
        let row = |claim: Claim, ratios| ClaimRow {
            claim,
            published: None,
            ratios,
            word: ClaimVerdict::Refuted,
            because: None,
        };
        let gone = Claim {
            text: "what the study claimed before".to_owned(),
            ..Claim::default()
        };
        let ratios = ratios(0.804, 0.792, 0.816);
        old.claims = vec![row(gone, ratios), row(study.claims[0].clone(), ratios)];
        let read = |kept: &Repetition| Repetition::read(&serde_json::to_string(kept).unwrap(), &study).unwrap();
        let now = read(&old);
        let [port, host] = &now.claims[..] else {
            panic!("{:?}", now.claims)
        };
        assert_eq!(port.ratios, ratios);
        assert_eq!(
            (port.word, port.because.as_deref()),
            (ClaimVerdict::SameSign, Some("podman 4.3.1 in place of docker"))
        );
        assert_eq!(
            (host.word, host.because.as_deref()),
            (ClaimVerdict::NotRepeated, Some("not measured"))
        );
        assert_eq!(read(&now).claims, now.claims);
    }
}
