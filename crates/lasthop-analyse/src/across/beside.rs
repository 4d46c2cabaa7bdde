//! Several runs beside each other.

use std::iter;

use lasthop_record::data::RunData;
use lasthop_stats::CONFIDENCE;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Analysed, NotAlike, Ratio, Side, alike,
    apart::{self, Apart, Found},
    facts::{Differing, differing},
};
use crate::summary::{Held, Metric, Summary};

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
    /// Whether two of the runs reliably differ in it, by more than the margin, with Holm's adjustment for all comparisons
    /// of the declared metric and of the CPU time, as in a change from one run to another. `null` for other metrics, and
    /// with fewer than two runs that have it.
    pub differs: Option<bool>,
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

fn spreads(runs: &[Analysed]) -> Vec<Spread> {
    let all = apart::found(&runs.iter().collect::<Vec<_>>());
    let judged = apart::judge(&all, margin(runs));
    all.iter().zip(judged).map(|(found, apart)| spread(found, apart)).collect()
}

fn spread(found: &Found<'_>, apart: Option<Apart>) -> Spread {
    let Found { one, declared, known } = found;
    let ratios: Vec<Option<Ratio>> = known.iter().map(|known| known.map(|(comparison, _)| comparison.into())).collect();
    let known = || ratios.iter().flatten().map(|ratio| ratio.ratio);
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    Spread {
        case: one.case.clone(),
        reference: one.reference.clone(),
        metric: one.metric,
        declared: *declared,
        spread: (known().count() > 1).then(|| most / least),
        ratios,
        differs: apart.map(|apart| apart.differs),
    }
}
