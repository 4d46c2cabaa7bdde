//! The progress of a run: the ratios so far that verdicts are about, of throughputs or, in open loops, of median
//! response times. Called between rounds, when nothing is measured.

use lasthop_model::record::CasePlan;
use lasthop_record::data::RunData;
use lasthop_stats::{
    Better, Estimate, Interval, Verdict,
    stopping::{LEAST_ROUNDS, data_for, precise_enough},
    totals, variance,
    verdict::verdict,
};

use super::{
    cases::{self, MEDIAN},
    comparisons,
    pairs::Pairs,
    summary::Metric,
    trials::{self, Trials, grouped},
};

/// The fewest degrees of freedom within rounds with which a comparison shows how far rounds differ.
const LEAST_WITHIN: usize = 8;

/// A comparison so far.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressLine {
    pub case: String,
    pub reference: String,
    /// The metric of the comparison.
    pub metric: Metric,
    /// Case divided by reference; `None` before the second common block. The confidence level is that for stopping
    /// ([`LOOKS_CONFIDENCE`](lasthop_stats::stopping::LOOKS_CONFIDENCE)), so that the interval is somewhat wider than
    /// in the report of a run that ends with its budget.
    pub ratio: Option<Interval>,
    pub rounds: usize,
    pub blocks: usize,
    /// Variance of the logarithm between rounds, as a multiple of that between the blocks of a round. `None` until
    /// there are eight blocks more than rounds.
    pub luck: Option<f64>,
    /// Whether the ratio has the requested precision.
    pub precise: bool,
    /// Whether there are enough rounds to stop, and the verdict would not be `undecided`.
    pub decided: bool,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// A line for each case with a reference.
    pub lines: Vec<ProgressLine>,
    /// Whether every ratio has the requested precision; in a run without comparisons, whether every case's own figure
    /// does. Cases that never worked do not count.
    pub precise: bool,
}

/// Whether a look is due after this many rounds. The time of a look is proportional to the number of trials, so a look
/// is due after each round up to the 200th, and then after each 1 % more. This makes the total cost linear instead of
/// quadratic.
#[must_use]
pub fn is_due(rounds: u32) -> bool {
    rounds.is_multiple_of((rounds / 100).max(1))
}

/// Looks at a run.
#[must_use]
pub fn look(data: &RunData) -> Look {
    let trials = Trials::new(data);
    let pairs = trials.cases().iter().filter_map(|plan| Pairs::of(&trials, plan));
    let pairs: Vec<_> = pairs
        .map(|pairs| {
            (
                comparisons::primary(&trials, &pairs).map(|basis| basis.log_ratio),
                pairs,
            )
        })
        .collect();
    let with_data = pairs.iter().filter(|(_, pairs)| !pairs.blocks.is_empty());
    let mut known: Vec<SoFar> = with_data.map(|(log, pairs)| (pairs.rounds(), *log)).collect();
    if known.is_empty() {
        known = trials.cases().iter().filter_map(|plan| value(&trials, plan)).collect();
    }
    let precise = !known.is_empty() && known.iter().all(|one| is_precise(&trials, one));
    Look {
        lines: pairs
            .into_iter()
            .map(|(log, pairs)| line(&trials, &pairs, log))
            .collect(),
        precise,
    }
}

/// Seconds after which half of a run's intervals would be within ±`width`, and those after which all would, by the
/// square-root law. `None` if a comparison has no interval.
#[must_use]
pub fn seconds_to(data: &RunData, width: f64) -> Option<[f64; 2]> {
    let seconds = |line: &ProgressLine| Some(data.took_ns() as f64 / 1e9 * data_for(&line.ratio?, width));
    let mut all: Vec<f64> = look(data).lines.iter().map(seconds).collect::<Option<_>>()?;
    all.sort_by(f64::total_cmp);
    Some([*all.get(all.len().saturating_sub(1) / 2)?, *all.last()?])
}

fn is_precise(trials: &Trials, (rounds, log): &SoFar) -> bool {
    let precision = trials.data.header.settings.precision;
    log.is_some_and(|log| precise_enough(&log, *rounds, precision, trials.looks_confidence()))
}

fn line(trials: &Trials, pairs: &Pairs, log: Option<Estimate>) -> ProgressLine {
    let ratio = log.map(|log| log.exponential(trials.looks_confidence()));
    let margin = trials.data.header.settings.margin;
    ProgressLine {
        case: pairs.case.case.clone(),
        reference: pairs.reference.case.clone(),
        metric: Metric::primary(&pairs.case.load),
        decided: pairs.rounds() >= LEAST_ROUNDS
            // Whether a ratio is decided does not depend on the good direction.
            && ratio.is_some_and(|ratio| verdict(&ratio, margin, Better::More) != Verdict::Undecided),
        ratio,
        rounds: pairs.rounds(),
        blocks: pairs.blocks.len(),
        luck: luck(pairs),
        precise: is_precise(trials, &(pairs.rounds(), log)),
    }
}

fn luck(pairs: &Pairs) -> Option<f64> {
    let logs = pairs.log_ratios(trials::primary)?;
    let found = variance::components(&logs).filter(|_| logs.blocks() >= logs.rounds() + LEAST_WITHIN)?;
    Some(found.between / found.within)
}

/// The number of rounds, and the logarithm with its standard error.
type SoFar = (usize, Option<Estimate>);

fn value(trials: &Trials, plan: &CasePlan) -> Option<SoFar> {
    let case = plan.case.as_str();
    if plan.load.is_open() {
        let latencies = cases::latencies(trials, case)?;
        return Some((
            latencies.rounds(),
            cases::log_latency(trials, case, &latencies, 0.5, MEDIAN),
        ));
    }
    let blocks = grouped(trials.of_case(case).map(|trial| (trial.round, trials::rate(trial))))?;
    Some((
        blocks.rounds(),
        totals::log_quotient(&blocks, trials.resampling(case, "throughput")),
    ))
}
