//! Whether runs differ in a ratio: one test and one adjustment, for two runs and for hundreds.
//!
//! The test is that of [`pooled`], which for two runs is Welch's test of their difference. Its p is adjusted by Holm for
//! all comparisons that are judged. Besides, two of the runs must differ by more than the margin, with intervals that hold
//! for all pairs of runs at once (C. E. Bonferroni).

use lasthop_stats::{CONFIDENCE, Estimate, holm, pooled, verdict};

use super::{Analysed, is_declared, is_like};
use crate::{
    comparisons::better,
    summary::{Comparison, Metric},
};

/// A comparison, and what each run knows of it.
pub struct Found<'a> {
    pub one: &'a Comparison,
    /// Whether verdicts are about this metric.
    pub declared: bool,
    /// By run; `None` where it was not measured, must not be used, or was not what the run was asked for.
    pub known: Vec<Option<(&'a Comparison, &'a Estimate)>>,
}

/// How surely runs differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Probability of such differences by chance, adjusted by Holm.
    pub p: f64,
    /// Whether two of them reliably differ by more than the margin.
    pub differs: bool,
}

/// Every comparison that a run has.
pub fn found<'a>(runs: &[&'a Analysed]) -> Vec<Found<'a>> {
    let mut all: Vec<Found<'a>> = Vec::new();
    for one in runs.iter().flat_map(|run| &run.summary.comparisons) {
        if all.iter().any(|other| is_like(one, other.one)) {
            continue;
        }
        // What one run was asked for, another may only describe: then the two have nothing in common.
        let declared = runs.iter().any(|run| is_declared(&run.summary, one));
        let usable = |run: &&&'a Analysed| {
            let is_meant = !declared || is_declared(&run.summary, one);
            is_meant && run.summary.invalid(&one.case, &one.reference).is_none()
        };
        let known = runs.iter().map(|run| Some(run).filter(usable)?.like(one)).collect();
        all.push(Found { one, declared, known });
    }
    all
}

impl Found<'_> {
    /// Whether it is one of those that answers are about.
    pub fn is_judged(&self) -> bool {
        self.declared || self.one.metric == Metric::CpuPerRequest
    }

    pub fn logs(&self) -> Vec<Estimate> {
        self.known.iter().flatten().map(|(_, log)| **log).collect()
    }

    /// One start of the servers decides nothing.
    fn is_apart(&self, margin: f64) -> bool {
        let decided = self
            .known
            .iter()
            .flatten()
            .filter(|(comparison, _)| !comparison.one_start);
        let logs: Vec<&Estimate> = decided.map(|(_, log)| *log).collect();
        let pairs = logs.len() * logs.len().saturating_sub(1) / 2;
        let confidence = 1.0 - (1.0 - CONFIDENCE) / pairs.max(1) as f64;
        let differ = |one: &Estimate, other: &Estimate| {
            let interval = one.minus(other).exponential(confidence);
            let found = verdict::verdict(&interval, margin, better(self.one.metric));
            matches!(found, lasthop_stats::Verdict::Faster | lasthop_stats::Verdict::Slower)
        };
        logs.iter()
            .enumerate()
            .any(|(place, one)| logs[..place].iter().any(|other| differ(one, other)))
    }
}

/// For each comparison whether the runs differ; `None` where fewer than two have it, or where it is not judged.
pub fn judge(all: &[Found<'_>], margin: f64) -> Vec<Option<Apart>> {
    let p = |found: &Found<'_>| {
        let pooled = found.is_judged().then(|| pooled::pool(&found.logs())).flatten();
        pooled.map(|pooled| pooled.spread.p)
    };
    let tested: Vec<Option<f64>> = all.iter().map(p).collect();
    let mut adjusted = holm::adjust(&tested.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
    let one = |(found, p): (&Found<'_>, &Option<f64>)| {
        p.as_ref()?;
        let p = adjusted.next()?;
        Some(Apart {
            p,
            differs: p < 1.0 - CONFIDENCE && found.is_apart(margin),
        })
    };
    all.iter().zip(&tested).map(one).collect()
}
