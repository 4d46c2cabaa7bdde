//! Several runs beside each other.

use std::iter;

use lasthop_record::data::RunData;
use lasthop_stats::{CONFIDENCE, Estimate, holm};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Analysed, NotAlike, Ratio, Side, alike, change,
    facts::{Differing, differing},
    is_declared, is_like,
};
use crate::analyse::summary::{Comparison, Held, Metric, Summary, Verdict};

pub const SCHEMA: &str = "lasthop-runs/1";

/// Several runs of the same experiment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Beside {
    /// `lasthop-runs/1`
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    pub title: String,
    pub question: String,
    /// In the order in which they were named.
    pub runs: Vec<Side>,
    /// Differences within this share count as none; the largest of the runs'.
    pub margin: f64,
    /// Confidence level of every interval, 0.95.
    pub confidence: f64,
    pub comparisons: Vec<Spread>,
    /// What differs between the runs, as far as the records keep it.
    pub differences: Vec<Differing>,
    /// How cases stand to the limits of `--fail-if`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Held>,
    #[serde(skip)]
    pub summaries: Vec<Summary>,
}

/// A comparison in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    pub case: String,
    pub reference: String,
    pub metric: Metric,
    /// Whether verdicts are about this metric.
    pub declared: bool,
    /// By run; `null` where it was not measured or must not be used.
    pub ratios: Vec<Option<Ratio>>,
    /// The largest ratio divided by the smallest; `null` with fewer than two.
    pub spread: Option<f64>,
    /// Whether two of the runs reliably differ in it, by more than the margin, with Holm's adjustment for all pairs of
    /// runs and all comparisons of the declared metric and of the CPU time. `null` for other metrics.
    pub differs: Option<bool>,
}

impl Spread {
    /// Whether it is one of those that the answer is about.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.declared || self.metric == Metric::CpuPerRequest
    }
}

/// Puts runs beside each other.
/// Errors: [`NotAlike`] unless all are of the same experiment, and every two have a case in common.
///
/// # Panics
/// Without a run.
pub fn beside(data: &[RunData]) -> Result<Beside, NotAlike> {
    let first = Analysed::of(&data[0]);
    let others: Vec<Analysed> = data[1..].iter().map(|run| Analysed::of(run).named_like(&first.summary)).collect();
    let runs: Vec<Analysed> = iter::once(first).chain(others).collect();
    for (place, run) in runs.iter().enumerate() {
        runs[..place].iter().try_for_each(|before| alike(before, run))?;
    }
    let first = &runs[0].summary;
    let data: Vec<&RunData> = data.iter().collect();
    Ok(Beside {
        schema: SCHEMA.to_owned(),
        experiment: first.experiment.clone(),
        title: first.title.clone(),
        question: first.question.clone(),
        runs: runs.iter().map(|run| Side::of(&run.summary)).collect(),
        margin: margin(&runs),
        confidence: CONFIDENCE,
        comparisons: spreads(&runs),
        differences: differing(&data),
        limits: Vec::new(),
        summaries: runs.into_iter().map(|run| run.summary).collect(),
    })
}

fn margin(runs: &[Analysed]) -> f64 {
    runs.iter().map(|run| run.summary.settings.margin).fold(0.0, f64::max)
}

/// A comparison, and in each run what is known of it.
type Found<'a> = (&'a Comparison, Vec<Option<(&'a Comparison, &'a Estimate)>>);

fn spreads(runs: &[Analysed]) -> Vec<Spread> {
    let mut all: Vec<Found<'_>> = Vec::new();
    for one in runs.iter().flat_map(|run| &run.summary.comparisons) {
        // What one run was asked for, another may only describe: then the two have nothing in common.
        let declared = runs.iter().any(|run| is_declared(&run.summary, one));
        let usable = |run: &&Analysed| {
            let is_meant = !declared || is_declared(&run.summary, one);
            is_meant && run.summary.invalid(&one.case, &one.reference).is_none()
        };
        if !all.iter().any(|(other, _)| is_like(one, other)) {
            all.push((one, runs.iter().map(|run| Some(run).filter(usable)?.like(one)).collect()));
        }
    }
    let mut spreads: Vec<Spread> = all.iter().map(|found| spread(runs, found)).collect();
    decide(runs, &all, &mut spreads);
    spreads
}

fn spread(runs: &[Analysed], (one, found): &Found<'_>) -> Spread {
    let ratios: Vec<Option<Ratio>> = found.iter().map(|found| found.map(|(comparison, _)| comparison.into())).collect();
    let known = || ratios.iter().flatten().map(|ratio| ratio.ratio);
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    Spread {
        case: one.case.clone(),
        reference: one.reference.clone(),
        metric: one.metric,
        declared: runs.iter().any(|run| is_declared(&run.summary, one)),
        spread: (known().count() > 1).then(|| most / least),
        ratios,
        differs: None,
    }
}

/// Every two runs in every declared comparison and in the CPU time are one family, as in a change from one to the other.
fn decide(runs: &[Analysed], all: &[Found<'_>], spreads: &mut [Spread]) {
    let confidence = runs.iter().map(|run| run.confidence).fold(0.0, f64::max);
    let mut pairs = Vec::new();
    for (place, (one, found)) in all.iter().enumerate().filter(|(place, _)| spreads[*place].is_judged()) {
        let logs: Vec<&Estimate> = found.iter().flatten().map(|(_, log)| *log).collect();
        for (at, to) in logs.iter().enumerate() {
            let changes = logs[..at].iter().map(|from| change(one.metric, from, to, confidence, margin(runs)));
            pairs.extend(changes.map(|(_, verdict, p)| (place, verdict, p)));
        }
    }
    let adjusted = holm::adjust(&pairs.iter().map(|(_, _, p)| *p).collect::<Vec<_>>());
    for ((place, verdict, _), p) in pairs.iter().zip(adjusted) {
        let differs = matches!(verdict, Verdict::Faster | Verdict::Slower) && p < 1.0 - CONFIDENCE;
        let known = spreads[*place].differs.get_or_insert(false);
        *known |= differs;
    }
}
