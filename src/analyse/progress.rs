//! The ratios that verdicts are about, so far: of throughputs, or of median response times in an open loop. Called between
//! rounds, while nothing is measured.

use lasthop_stats::{Estimate, Interval, stopping::precise_enough, totals};

use super::{
    cases::{self, MEDIAN},
    comparisons::{self, Pairs},
    summary::Metric,
    trials::{self, Trials, grouped},
};
use crate::record::{data::RunData, schema::CasePlan};

/// A comparison as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressLine {
    pub case: String,
    pub reference: String,
    /// What the two are compared by.
    pub metric: Metric,
    /// Case by reference; `None` before the second common block. At the level that decides about stopping
    /// ([`LOOKS_CONFIDENCE`](lasthop_stats::stopping::LOOKS_CONFIDENCE)), so somewhat wider than the report of a run that ends with its budget.
    pub ratio: Option<Interval>,
    pub rounds: usize,
    pub blocks: usize,
}

/// One line for each case that has a reference.
#[must_use]
pub fn progress(data: &RunData) -> Vec<ProgressLine> {
    let trials = Trials::new(data);
    let line = |pairs: Pairs| ProgressLine {
        case: pairs.case.case.clone(),
        reference: pairs.reference.case.clone(),
        metric: Metric::primary(&pairs.case.load),
        ratio: comparisons::primary(&trials, &pairs).map(|log| log.exponential(trials.looks_confidence())),
        rounds: pairs.rounds(),
        blocks: pairs.blocks.len(),
    };
    trials.cases().iter().filter_map(|plan| Pairs::of(&trials, plan)).map(line).collect()
}

/// Whether every such ratio is known to the precision asked for; in a run without a comparison, what would be compared.
/// Cases that never worked are not waited for.
#[must_use]
pub fn precision_reached(data: &RunData) -> bool {
    let trials = Trials::new(data);
    let mut looks = ratios(&trials);
    if looks.is_empty() {
        looks = values(&trials);
    }
    let precision = data.header.settings.precision;
    let precise =
        |look: &Look| look.1.is_some_and(|log| precise_enough(&log, look.0, precision, trials.looks_confidence()));
    !looks.is_empty() && looks.iter().all(precise)
}

/// Rounds, and what is known of the logarithm.
type Look = (usize, Option<Estimate>);

fn ratios(trials: &Trials) -> Vec<Look> {
    let pairs = trials.cases().iter().filter_map(|plan| Pairs::of(trials, plan));
    let with_data = pairs.filter(|pairs| !pairs.blocks.is_empty());
    with_data.map(|pairs| (pairs.rounds(), comparisons::primary(trials, &pairs))).collect()
}

fn values(trials: &Trials) -> Vec<Look> {
    trials.cases().iter().filter_map(|plan| value(trials, plan)).collect()
}

fn value(trials: &Trials, plan: &CasePlan) -> Option<Look> {
    let case = plan.case.as_str();
    if plan.load.is_open() {
        let blocks = cases::latencies(trials, case)?;
        return Some((blocks.rounds(), cases::log_latency(trials, case, &blocks, 0.5, MEDIAN)));
    }
    let blocks = grouped(trials.of(case).map(|trial| (trial.round, trials::rate(trial))))?;
    Some((blocks.rounds(), totals::log_quotient(&blocks, trials.resampling(case, "throughput"))))
}
