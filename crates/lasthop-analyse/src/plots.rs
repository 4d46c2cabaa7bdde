//! Data for plots that a summary lacks: distributions of latencies, and every trial.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_record::data::RunData;
use lasthop_trial::{Histogram, TrialResult};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    cases::merged,
    trials::{self, Trials},
};

/// Points of a percentile curve for each further nine (90 %, 99 %, 99.9 %).
const POINTS: u32 = 16;

/// Bins of a distribution per power of ten.
const BINS: f64 = 30.0;

/// The plots of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CasePlots {
    /// Service times of all trials; `None` if the driver has none, or if the trials are not steady enough to show them.
    pub service: Option<Latencies>,
    /// Response times of all trials; `None` for closed loops, or if the trials are not steady enough to show them.
    pub response: Option<Latencies>,
    pub trials: TrialColumns,
}

/// One kind of latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Latencies {
    /// Nines and microseconds: 0 is the fastest request, 1 the 90th percentile, 2 the 99th. The last point is the
    /// slowest.
    #[schemars(with = "Vec<[f64; 2]>")]
    pub curve: Vec<(f64, f64)>,
    /// Number of the first bin of `shares`: bin `n` begins at 10^(n/30) ns.
    pub first: i32,
    /// The share of requests in each bin.
    pub shares: Vec<f64>,
}

/// Columns over the trials with a correct reply, in order: each has one entry per trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TrialColumns {
    pub round: Vec<u32>,
    pub block: Vec<u32>,
    /// Milliseconds since the run began.
    pub at_ms: Vec<u64>,
    /// Correct replies per second.
    pub rate: Vec<f64>,
    /// Microseconds: response time in an open loop, otherwise service time.
    pub p50_us: Vec<Option<f64>>,
    pub p99_us: Vec<Option<f64>>,
}

/// The plots of all cases of a record, in the order of the summary's cases.
#[must_use]
pub fn plots(data: &RunData) -> Vec<CasePlots> {
    let trials = Trials::new(data);
    trials.cases().iter().map(|plan| of_case(&trials, plan)).collect()
}

fn of_case(trials: &Trials, plan: &CasePlan) -> CasePlots {
    let case = plan.case.as_str();
    let mut columns = TrialColumns::default();
    trials.of_case(case).for_each(|trial| columns.push(trial));
    let times = |pick: fn(&TrialResult) -> Option<&Histogram>| {
        merged(trials, case, pick)
            .filter(|_| trials.is_steady(case))
            .map(|all| Latencies::of(&all))
    };
    CasePlots {
        service: times(|result| result.service_time.as_ref()),
        response: times(|result| result.response_time.as_ref()),
        trials: columns,
    }
}

impl TrialColumns {
    fn push(&mut self, trial: &MeasuredTrial) {
        let latency = trials::latency(trial);
        let percentile = |share| latency.map(|histogram| short(histogram.quantile(share) as f64 / 1e3));
        self.round.push(trial.round);
        self.block.push(trial.block);
        self.at_ms.push(trial.at_ns / 1_000_000);
        self.rate.push(short(trial.result.throughput()));
        self.p50_us.push(percentile(0.5));
        self.p99_us.push(percentile(0.99));
    }
}

impl Latencies {
    /// The latencies of a histogram.
    fn of(all: &Histogram) -> Self {
        let bin = |nanoseconds: u64| ((nanoseconds.max(1) as f64).log10() * BINS).floor() as i32;
        let total = all.count().max(1) as f64;
        let first = all.bins().next().map_or(0, |(value, _)| bin(value));
        let mut shares = Vec::new();
        for (value, count) in all.bins() {
            let place = usize::try_from(bin(value) - first).unwrap_or(0);
            shares.resize(shares.len().max(place + 1), 0.0);
            shares[place] += count as f64 / total;
        }
        Self {
            curve: curve(all, total),
            first,
            shares: shares.into_iter().map(short).collect(),
        }
    }
}

/// The percentile curve up to the slowest request, which is the percentile of all but one.
fn curve(all: &Histogram, total: f64) -> Vec<(f64, f64)> {
    let last = total.log10();
    let steps = (last * f64::from(POINTS)).ceil() as u32;
    let nines = (0..steps).map(|step| f64::from(step) / f64::from(POINTS));
    nines
        .map(|nines| (short(nines), short(all.quantile(1.0 - 10f64.powf(-nines)) as f64 / 1e3)))
        .chain([(short(last), short(all.max() as f64 / 1e3))])
        .collect()
}

/// Rounds to four significant digits: more than a plot shows, with half the bytes.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_with_the_slowest_request() {
        let mut all = Histogram::new();
        all.record_n(1_000, 900);
        all.record_n(100_000, 99);
        all.record_n(2_000_000, 1);
        let Latencies { curve, first, shares } = Latencies::of(&all);
        assert_eq!(curve[0], (0.0, 1.0));
        let at = |nines: f64| curve.iter().find(|point| point.0 >= nines).unwrap().1;
        assert_eq!(at(0.5), 1.0);
        assert!((99.0..101.0).contains(&at(1.5)), "{curve:?}");
        let (nines, slowest) = *curve.last().unwrap();
        assert_eq!(nines, 3.0);
        assert!((1_999.0..2_003.0).contains(&slowest), "{slowest}");
        assert_eq!(first, 90, "1,000 ns is 10^(90/30)");
        assert_eq!(shares[0], 0.9);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3);
    }

    #[test]
    fn every_trial_with_an_answer_has_an_entry() {
        let data = crate::testing::healthy();
        let plots = plots(&data);
        assert_eq!(plots.len(), data.header.cases.len());
        let shown: usize = plots.iter().map(|case| case.trials.rate.len()).sum();
        assert_eq!(shown, data.trials().filter(|trial| trial.result.requests > 0).count());
        for case in &plots {
            let TrialColumns {
                round,
                block,
                at_ms,
                rate,
                p50_us,
                p99_us,
            } = &case.trials;
            let lengths = [round.len(), block.len(), at_ms.len(), p50_us.len(), p99_us.len()];
            assert_eq!(lengths, [rate.len(); 5]);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(12_345.678), 12_350.0);
        assert_eq!(short(0.0), 0.0);
    }
}
