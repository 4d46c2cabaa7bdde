//! Changes from one run to another.

use lasthop_record::data::RunData;
use lasthop_stats::{CONFIDENCE, Interval, holm};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Analysed, NotAlike, Side, alike, change,
    facts::{Differing, differing},
    is_declared,
};
use crate::{
    cases::KnownFigure,
    summary::{Comparison, JudgedLimit, Measured, Metric, Summary, Verdict},
};

pub const SCHEMA: &str = "lasthop-diff/2";

/// What changed from one run to another of the same experiment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// `lasthop-diff/2`
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    pub title: String,
    pub question: String,
    pub old: Side,
    pub new: Side,
    /// The larger margin of the two runs: changes within this share count as none.
    pub margin: f64,
    /// Confidence level of every interval, 0.95.
    pub confidence: f64,
    /// Changes of ratios, which are the reliable result.
    pub comparisons: Vec<RatioChange>,
    /// Changes of absolute figures, which include effects of other activity on the machine.
    pub cases: Vec<CaseChange>,
    /// Cases that only one of the runs has.
    pub only_old: Vec<String>,
    pub only_new: Vec<String>,
    /// Differences in the recorded facts; values are those of the old run, then of the new run.
    pub differences: Vec<Differing>,
    /// Results of the `--fail-if` limits, one for each limit and case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<JudgedLimit>,
    /// The runs, old and new.
    #[serde(skip)]
    pub runs: [Summary; 2],
}

/// How the ratio of a case and its reference changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RatioChange {
    pub case: String,
    pub reference: String,
    pub metric: Metric,
    /// Whether verdicts are about this metric.
    pub declared: bool,
    /// Case divided by reference.
    pub old: Interval,
    pub new: Interval,
    /// New ratio divided by old ratio.
    pub change: Interval,
    /// `faster` if the case gained on its reference, by the metric. `null` if a check forbids the comparison in one of
    /// the runs, or if only one of the runs declares the metric.
    pub verdict: Option<Verdict>,
    /// Probability of such a change by chance, adjusted by Holm for all changes that are judged: those of the declared
    /// metric and of the CPU time. `null` for the others.
    pub adjusted_p: Option<f64>,
    /// True if one of the ratios is a lower bound, so that the change may be larger or smaller.
    pub lower_bound: bool,
    /// True if one of the ratios is of one start of the servers, which is too few to decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_start: bool,
}

impl RatioChange {
    /// Whether the answer is about this change.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.adjusted_p.is_some()
    }

    fn differs(&self) -> bool {
        self.verdict.is_some_and(Verdict::differs)
    }

    /// Whether the ratio changed, beyond chance among so many ratios.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.differs() && self.adjusted_p.is_some_and(|p| p < 1.0 - CONFIDENCE)
    }

    /// Whether the ratio seems to have changed, but may have by chance among so many ratios.
    #[must_use]
    pub fn may_be_chance(&self) -> bool {
        self.is_judged() && self.differs() && !self.changed()
    }
}

/// How a figure of a case changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CaseChange {
    pub case: String,
    pub metric: Metric,
    /// Whether verdicts are about this metric.
    pub declared: bool,
    pub old: Measured,
    pub new: Measured,
    /// New divided by old. The interval does not include how the machine differs from one day to another.
    pub change: Interval,
}

/// Compares two runs.
pub fn diff(old_data: &RunData, new_data: &RunData) -> Result<Diff, NotAlike> {
    let new = Analysed::of(new_data);
    let mut old = Analysed::of(old_data);
    old.rename_like(&new.summary);
    alike(&old, &new)?;
    let missing = |from: &Analysed, to: &Analysed| {
        let lacked = from.case_names().filter(|case| to.summary.case(case).is_none());
        lacked.cloned().collect()
    };
    let margin = old.summary.settings.margin.max(new.summary.settings.margin);
    // A run that stopped at its precision, or was reported before, has a higher confidence level than others.
    let confidence = old.confidence.max(new.confidence);
    let summary = &new.summary;
    Ok(Diff {
        schema: SCHEMA.to_owned(),
        experiment: summary.experiment.clone(),
        title: summary.title.clone(),
        question: summary.question.clone(),
        old: Side::of(&old.summary),
        new: Side::of(summary),
        margin,
        confidence: CONFIDENCE,
        comparisons: ratios(&old, &new, confidence, margin),
        cases: cases(&old, &new, confidence, margin),
        only_old: missing(&old, &new),
        only_new: missing(&new, &old),
        differences: differing(&[old_data, new_data]),
        limits: Vec::new(),
        runs: [old.summary, new.summary],
    })
}

/// The comparisons that both runs have.
fn ratios(old: &Analysed, new: &Analysed, confidence: f64, margin: f64) -> Vec<RatioChange> {
    let one = |(to, to_log): (&Comparison, _)| {
        let (from, from_log) = old.like(to)?;
        let (change, verdict, p) = change(to.metric, from_log, to_log, confidence, margin);
        let declared = is_declared(&new.summary, to);
        // A metric that one run declares and another only describes cannot be compared.
        let unusable = is_declared(&old.summary, from) != declared
            || [old, new].map(|run| run.summary.invalid(&to.case, &to.reference)) != [None; 2];
        let one_start = from.one_start || to.one_start;
        // With one start of its servers, a run does not show how its ratio varies between starts.
        let verdict = if one_start { Verdict::Undecided } else { verdict };
        let judged = !unusable && (declared || to.metric == Metric::CpuPerRequest);
        Some(RatioChange {
            case: to.case.clone(),
            reference: to.reference.clone(),
            metric: to.metric,
            declared,
            old: from.ratio,
            new: to.ratio,
            change,
            verdict: (!unusable).then_some(verdict),
            adjusted_p: judged.then_some(p),
            lower_bound: from.lower_bound || to.lower_bound,
            one_start,
        })
    };
    let mut all: Vec<RatioChange> = new.summary.comparisons.iter().zip(&new.logs).filter_map(one).collect();
    let family: Vec<f64> = all.iter().filter_map(|one| one.adjusted_p).collect();
    let judged = all.iter_mut().filter_map(|one| one.adjusted_p.as_mut());
    for (p, adjusted) in judged.zip(holm::adjust(&family)) {
        *p = adjusted;
    }
    all
}

/// The figures that both runs have.
fn cases(old: &Analysed, new: &Analysed, confidence: f64, margin: f64) -> Vec<CaseChange> {
    let mut found = Vec::new();
    for (case, to) in new.summary.cases.iter().zip(&new.cases) {
        let place = old.case_names().position(|name| *name == case.case);
        let from = place.map_or(&[][..], |place| &old.cases[place]);
        let same = |known: &KnownFigure| from.iter().find(|one| one.metric == known.metric);
        found.extend(to.iter().filter_map(|known| {
            let before = same(known)?;
            Some(CaseChange {
                case: case.case.clone(),
                metric: known.metric,
                declared: known.metric == Metric::primary(&case.load),
                old: before.measured.clone(),
                new: known.measured.clone(),
                change: change(known.metric, &before.log, &known.log, confidence, margin).0,
            })
        }));
    }
    found
}
