//! What lasthop's design found beside the published figures: conditions that a study could not have, quantities of
//! transports that it left out.

use lasthop_analyse::summary::{CaseSummary, Derived, Measured, Metric, Summary};

use super::outcome::{Found, Value};
use crate::study::model::StudyRun;

/// Every condition where the study had none, every derived quantity where one answers it.
pub fn found(run: &StudyRun, design: &Summary) -> Vec<Found> {
    match &run.design.quantity {
        Some(name) => design
            .derived
            .iter()
            .filter(|derived| derived.quantity == *name)
            .map(quantity)
            .collect(),
        None if run.beyond.is_some() => design.cases.iter().map(|case| condition(case, design)).collect(),
        None => Vec::new(),
    }
}

fn value(measured: &Measured) -> Value {
    bounded(measured.estimate, measured.low, measured.high)
}

/// One block gives no interval: its bounds repeat the value.
fn bounded(value: f64, low: f64, high: f64) -> Value {
    let known = high > low;
    Value {
        value,
        low: known.then_some(low),
        high: known.then_some(high),
    }
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
        against: against.map(|found| bounded(found.ratio, found.low, found.high)),
        latency_p99: metrics.and_then(|metrics| metrics.latency_p99.as_ref()).map(value),
        verdict: against.map(|found| found.verdict),
    }
}
