//! Every trial as a row, for tools with their own statistics.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_record::data::RunData;

use super::trials::{self, Trials};

/// A trial with replies.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRow {
    /// Index of the case in the summary.
    pub case: usize,
    pub round: u32,
    pub block: u32,
    /// Position within the block.
    pub position: u32,
    /// Start, in seconds since the run began.
    pub at: f64,
    /// Length of the measure phase, in seconds.
    pub seconds: f64,
    pub requests: u64,
    pub errors: u64,
    pub sent_again: u64,
    pub bytes: u64,
    /// Correct replies per second.
    pub rate: f64,
    /// Latency in microseconds at each of [`QUANTILES`]; `None` if the driver does not report latencies.
    pub latencies: Option<[f64; QUANTILES.len()]>,
    /// The driver's CPU time, in microseconds per request.
    pub driver_cpu: f64,
}

/// Quantiles of the latency, and their names.
pub const QUANTILES: [(f64, &str); 5] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999"), (1.0, "max")];

/// All trials of a record that have replies, case by case, in order.
#[must_use]
pub fn rows(data: &RunData) -> Vec<TrialRow> {
    let trials = Trials::new(data);
    trials
        .cases()
        .iter()
        .enumerate()
        .flat_map(|(case, plan): (usize, &CasePlan)| {
            trials.of(&plan.case).map(|trial| row(case, trial)).collect::<Vec<_>>()
        })
        .collect()
}

fn row(case: usize, trial: &MeasuredTrial) -> TrialRow {
    let result = &trial.result;
    TrialRow {
        case,
        round: trial.round,
        block: trial.block,
        position: trial.position,
        at: trial.at_ns as f64 / 1e9,
        seconds: result.elapsed_ns as f64 / 1e9,
        requests: result.requests,
        errors: result.error_total(),
        sent_again: result.sent_again,
        bytes: result.bytes_received,
        rate: result.throughput(),
        latencies: trials::latency(trial).map(|all| QUANTILES.map(|(share, _)| all.quantile(share) as f64 / 1e3)),
        driver_cpu: result.cost.cpu_ns() as f64 / 1e3 / result.requests as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn every_trial_with_an_answer_is_a_row_of_its_case() {
        let data = testing::healthy();
        let rows = rows(&data);
        let trials: Vec<&MeasuredTrial> = data.trials().filter(|trial| trial.result.requests > 0).collect();
        assert_eq!(rows.len(), trials.len());
        for row in &rows {
            let same = |trial: &&&MeasuredTrial| {
                let case = &data.header.cases[row.case].case;
                (&trial.case, trial.round, trial.block) == (case, row.round, row.block)
            };
            let trial = trials.iter().find(same).unwrap();
            assert_eq!(row.requests, trial.result.requests);
            assert!((row.rate - row.requests as f64 / row.seconds).abs() < 1e-6 * row.rate);
            let latencies = row.latencies.unwrap();
            assert!(latencies.is_sorted() && latencies[0] > 0.0, "{latencies:?}");
        }
    }
}
