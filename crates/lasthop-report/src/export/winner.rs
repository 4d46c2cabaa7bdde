//! Chooses the case of a run to copy.

use lasthop_analyse::summary::{Comparison, Metric, Summary, Verdict};

/// The case to copy, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Winner {
    pub case: String,
    pub sentence: String,
}

/// The case with the largest gain by the declared metric (throughput, or the median response time of an open loop)
/// among those found faster than their reference. If there is none, the reference, because a change without a gain is
/// not worth the trouble. Of several references, the one with most decided comparisons.
pub fn winner(summary: &Summary) -> Option<Winner> {
    let comparisons = || summary.cases.iter().filter_map(|case| summary.declared(case));
    let usable = comparisons().filter(|one| summary.invalid(&one.case, &one.reference).is_none());
    let faster = usable.filter(|comparison| comparison.verdict == Verdict::Faster);
    // How far a case is from its reference, whether more or less is better.
    let gain = |one: &Comparison| one.ratio.ln().abs();
    if let Some(best) = faster.max_by(|one, other| gain(one).total_cmp(&gain(other))) {
        let Comparison {
            case,
            reference,
            ratio,
            low,
            high,
            ..
        } = best;
        let claim = match best.metric {
            Metric::Throughput => format!("{case} handles {ratio:.2} times as many requests/s as {reference}"),
            _ => format!("{case} responds in {ratio:.2} times the median time of {reference}"),
        };
        return Some(Winner {
            case: case.clone(),
            sentence: format!("{claim} (95 % interval {low:.2} to {high:.2})."),
        });
    }
    let works = || summary.cases.iter().filter(|case| case.metrics.is_some());
    let kept = works().find(|case| case.reference).or_else(|| works().next())?;
    let case = &kept.case;
    let sentence = if comparisons().next().is_some() {
        format!("No case was found faster than the reference, so {case} is kept.")
    } else if summary.cases.len() == 1 {
        format!("{case} is the only case, so nothing was compared.")
    } else if kept.reference {
        format!("The run compared nothing, so {case}, the reference, is kept.")
    } else {
        format!("The run compared nothing; {case} is a case that worked.")
    };
    Some(Winner {
        case: case.clone(),
        sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn who_gains_most_wins_by_what_was_declared() {
        let said = |summary| winner(&summary).map(|won| won.sentence);
        assert_eq!(
            said(fixtures::three_transports()).unwrap(),
            "unix/pattern=echo/size=64 handles 1.87 times as many requests/s as tcp/pattern=echo/size=64 (95 % interval 1.83 to \
             1.91)."
        );
        assert_eq!(
            said(fixtures::at_a_rate()).unwrap(),
            "unix/pattern=echo/size=64 responds in 0.53 times the median time of tcp/pattern=echo/size=64 (95 % interval 0.52 \
             to 0.54)."
        );
        let mut summary = fixtures::three_transports();
        summary.comparisons.clear();
        let kept = said(summary.clone()).unwrap();
        assert_eq!(
            kept,
            "The run compared nothing, so tcp/pattern=echo/size=64, the reference, is kept."
        );
        summary.cases.truncate(1);
        assert_eq!(
            said(summary).unwrap(),
            "unix/pattern=echo/size=64 is the only case, so nothing was compared."
        );
    }
}
