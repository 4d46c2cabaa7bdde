//! Which case of a run to copy.

use crate::analyse::summary::{Comparison, Metric, Summary, Verdict};

/// The case to copy, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Winner {
    pub case: String,
    pub sentence: String,
}

/// The case with the highest ratio among those found faster than their reference; where there is none, the reference: a
/// change that brings nothing is not worth its trouble. Of several references the one with most comparisons decided.
#[must_use]
pub fn winner(summary: &Summary) -> Option<Winner> {
    let throughput = |comparison: &&Comparison| comparison.metric == Metric::Throughput;
    let comparisons: Vec<&Comparison> = summary.comparisons.iter().filter(throughput).collect();
    let faster = comparisons.iter().filter(|comparison| comparison.verdict == Verdict::Faster);
    if let Some(best) = faster.max_by(|one, other| one.ratio.total_cmp(&other.ratio)) {
        let sentence = format!(
            "{} makes {:.2} times as many requests/s as {} (95 % interval {:.2} to {:.2}).",
            best.case, best.ratio, best.reference, best.low, best.high
        );
        return Some(Winner { case: best.case.clone(), sentence });
    }
    let works = |case: &&crate::analyse::summary::CaseSummary| case.metrics.is_some();
    let reference = summary.cases.iter().filter(works).find(|case| case.reference);
    let kept = reference.or_else(|| summary.cases.iter().find(works))?;
    let sentence = match comparisons.is_empty() {
        true => format!("{} is the only case: nothing was compared.", kept.case),
        false => format!("No case was found faster than the reference, so {} is kept.", kept.case),
    };
    Some(Winner { case: kept.case.clone(), sentence })
}
