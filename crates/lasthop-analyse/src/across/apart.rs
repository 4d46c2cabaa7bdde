//! The test for runs that differ in a ratio: one test and one adjustment, for two runs and for hundreds.
//!
//! The test is that of [`pooled`], which for two runs is Welch's test of their difference. Its p is adjusted by Holm
//! for all judged comparisons. In addition, two of the runs must differ by more than the margin, with intervals that
//! hold for all pairs of runs at once (C. E. Bonferroni).

use lasthop_stats::{CONFIDENCE, Estimate, holm, pooled, verdict};

use super::{Analysed, is_declared, is_like};
use crate::{
    comparisons::better,
    summary::{Comparison, Metric},
};

/// A comparison, with its result in each run.
pub struct ByRun<'a> {
    pub one: &'a Comparison,
    /// Whether verdicts are about this comparison's metric.
    pub declared: bool,
    /// Results by run; `None` if the comparison was not measured, must not be used, or has a metric that the run only
    /// describes.
    pub known: Vec<Option<(&'a Comparison, &'a Estimate)>>,
}

/// The certainty of a difference between runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Probability of such differences by chance, adjusted by Holm.
    pub p: f64,
    /// Whether two of the runs reliably differ by more than the margin.
    pub differs: bool,
}

/// Every comparison of any run.
pub fn by_run<'a>(runs: &[&'a Analysed]) -> Vec<ByRun<'a>> {
    let mut all: Vec<ByRun<'a>> = Vec::new();
    for one in runs.iter().flat_map(|run| &run.summary.comparisons) {
        if all.iter().any(|other| is_like(one, other.one)) {
            continue;
        }
        // A metric that one run declares and another only describes cannot be compared.
        let declared = runs.iter().any(|run| is_declared(&run.summary, one));
        let known = runs
            .iter()
            .map(|run| {
                Some(run)
                    .filter(|run| {
                        let is_meant = !declared || is_declared(&run.summary, one);
                        is_meant && run.summary.invalid(&one.case, &one.reference).is_none()
                    })?
                    .like(one)
            })
            .collect();
        all.push(ByRun { one, declared, known });
    }
    all
}

impl ByRun<'_> {
    /// Whether the comparison is one that answers are about.
    pub fn is_judged(&self) -> bool {
        self.declared || self.one.metric == Metric::CpuPerRequest
    }

    pub fn logs(&self) -> Vec<Estimate> {
        self.known.iter().flatten().map(|(_, log)| **log).collect()
    }

    /// Whether two runs differ by more than the margin. A run with one start of the servers does not count.
    fn is_apart(&self, margin: f64) -> bool {
        let decided = self.known.iter().flatten().filter(|(one, _)| !one.one_start);
        let logs: Vec<&Estimate> = decided.map(|(_, log)| *log).collect();
        let pairs = logs.len() * logs.len().saturating_sub(1) / 2;
        let confidence = 1.0 - (1.0 - CONFIDENCE) / pairs.max(1) as f64;
        let differ = |one: &Estimate, other: &Estimate| {
            let interval = one.minus(other).exponential(confidence);
            verdict::verdict(&interval, margin, better(self.one.metric)).differs()
        };
        logs.iter()
            .enumerate()
            .any(|(place, one)| logs[..place].iter().any(|other| differ(one, other)))
    }
}

/// The difference between runs for each comparison; `None` if fewer than two runs have the comparison, or if it is not
/// judged.
pub fn judge(all: &[ByRun<'_>], margin: f64) -> Vec<Option<Apart>> {
    let p = |found: &ByRun<'_>| Some(pooled::pool(&found.logs()).filter(|_| found.is_judged())?.spread.p);
    let tested: Vec<Option<f64>> = all.iter().map(p).collect();
    let family: Vec<f64> = tested.iter().copied().flatten().collect();
    let mut adjusted = holm::adjust(&family).into_iter();
    all.iter()
        .zip(tested)
        .map(|(found, p): (&ByRun<'_>, Option<f64>)| {
            // `adjusted` has an entry for each tested comparison, in their order.
            let p = p.and_then(|_| adjusted.next())?;
            Some(Apart {
                p,
                differs: p < 1.0 - CONFIDENCE && found.is_apart(margin),
            })
        })
        .collect()
}
