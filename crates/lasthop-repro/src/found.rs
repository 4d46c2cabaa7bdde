//! Results of lasthop's design beyond the published figures: conditions that a study could not have, quantities of
//! transports that it left out, and the CPU time of a request by layer.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_analyse::summary::{CaseSummary, Derived, LayerDifference, Measured, Metric, Summary};
use lasthop_model::level::texts;
use lasthop_report::layers_in_words;

use super::{
    measured::{fits, names},
    outcome::{Found, Value},
};
use crate::study::model::{By, Study, StudyRun};

/// The most comparisons with a paragraph each.
const PARAGRAPHS: usize = 4;

/// The reason for missing layers in a run of one round.
const TOO_FEW: &str = "The profile trials are too few for intervals of layers: give it a larger --budget.";

/// A paragraph of layers for each comparison that the study draws, or for the first if there is none of these. If
/// nothing could be observed, the reason.
pub fn layers(study: &Study, run: &StudyRun, design: &Summary) -> Vec<String> {
    let Some(explained) = &design.explained else {
        return Vec::new();
    };
    let has = |case: &str, levels: &IndexMap<String, String>| {
        design.case(case).is_some_and(|case| fits(&texts(&case.levels), levels))
    };
    let claims = || study.claims.iter().filter(|claim| claim.runs == run.id);
    let is_claimed = |one: &LayerDifference| {
        claims().any(|claim| {
            let [ours, theirs] = [&claim.case, &claim.against];
            let is = |over, under| has(&one.case, over) && has(&one.reference, under);
            is(ours, theirs) || is(theirs, ours)
        })
    };
    // If the study compares two alternatives, each is compared with the reference.
    let is_mentioned =
        |one: &LayerDifference| claims().any(|claim| has(&one.case, &claim.case) || has(&one.case, &claim.against));
    let of = |is: &dyn Fn(&LayerDifference) -> bool| -> Vec<String> {
        let wanted = explained.differences.iter().filter(|one| is(one));
        let told = wanted.filter_map(|one| layers_in_words(design, &one.case));
        told.take(PARAGRAPHS).collect()
    };
    let rules: [&dyn Fn(&LayerDifference) -> bool; 3] = [&is_claimed, &is_mentioned, &|_| true];
    let told = rules.into_iter().map(of).find(|told| !told.is_empty());
    let none = || explained.missing.clone().unwrap_or_else(|| TOO_FEW.to_owned());
    told.unwrap_or_else(|| vec![none()])
}

/// Every condition if the study had none; otherwise every derived quantity with a figure in the study.
pub fn found(study: &Study, run: &StudyRun, design: &Summary) -> Vec<Found> {
    if run.beyond.is_some() {
        return design.cases.iter().map(|case| condition(case, design)).collect();
    }
    let figures = study.figures.iter().filter(|figure| figure.runs == run.id);
    let expressions = figures.filter_map(|figure| figure.measured.by(By::Lasthop));
    let named: BTreeSet<String> = expressions.flat_map(names).collect();
    let derived = design
        .derived
        .iter()
        .filter(|derived| named.contains(&derived.quantity));
    derived.map(quantity).collect()
}

fn value(measured: &Measured) -> Value {
    measured.interval.into()
}

fn quantity(derived: &Derived) -> Found {
    let levels: Vec<String> = derived
        .levels
        .iter()
        .map(|(factor, level)| format!("{factor}={level}"))
        .collect();
    Found {
        condition: format!("{}: {}", derived.quantity, levels.join(", ")),
        unit: "us".to_owned(),
        value: derived.value.as_ref().map(value),
        against: derived.against_reference.as_ref().map(value),
        latency_p99: None,
        verdict: None,
    }
}

fn condition(case: &CaseSummary, design: &Summary) -> Found {
    let against = design
        .comparisons
        .iter()
        .find(|comparison| comparison.metric == Metric::Throughput && comparison.case == case.case);
    let metrics = case.metrics.as_ref();
    Found {
        condition: case.case.clone(),
        unit: "1/s".to_owned(),
        value: metrics.map(|metrics| value(&metrics.throughput)),
        against: against.map(|found| found.ratio.into()),
        latency_p99: metrics.and_then(|metrics| metrics.latency_p99.as_ref()).map(value),
        verdict: against.map(|found| found.verdict),
    }
}
