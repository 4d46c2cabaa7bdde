//! Whether a difference matters, in microseconds per request and in cores.

use lasthop_model::record::MeasuredTrial;
use lasthop_stats::{Estimate, quantile, totals};

use super::{
    comparisons::Pairs,
    summary::{Materiality, Metric},
    trials::{self, Trials},
};

/// Uses mean times for the throughput, and medians for the median latency (an open loop has nothing else). `None` for
/// other metrics.
pub fn of(trials: &Trials, pairs: &Pairs, metric: Metric) -> Option<Materiality> {
    let (faster_by, response_us) = match metric {
        Metric::Throughput => mean_times(trials, pairs)?,
        Metric::LatencyP50 => medians(trials, pairs)?,
        Metric::LatencyP99 | Metric::CpuPerRequest => return None,
    };
    let saved = faster_by.interval(trials.confidence());
    Some(Materiality {
        // `faster_by` is case minus reference.
        saved_us: 0.0 - saved.estimate,
        saved_us_low: 0.0 - saved.high,
        saved_us_high: 0.0 - saved.low,
        break_even_ms: break_even_us(saved.estimate.abs(), response_us, trials.data.header.settings.margin) / 1e3,
        cores_saved_at_1000_per_second: cores_saved(pairs),
    })
}

/// Case minus reference in microseconds, and the reference's time.
fn mean_times(trials: &Trials, pairs: &Pairs) -> Option<(Estimate, f64)> {
    let case = |trial: &MeasuredTrial| trials::mean_time(trial, pairs.case.load.connections);
    let reference = |trial: &MeasuredTrial| trials::mean_time(trial, pairs.reference.load.connections);
    let blocks = pairs.totals(case, reference)?;
    let difference = totals::difference(&blocks, trials.resampling(&pairs.case.case, "saved"))?;
    let theirs = trials::grouped(pairs.blocks.iter().map(|(place, _, trial)| (place.0, reference(trial))))?;
    Some((difference, totals::point(&theirs)?))
}

fn medians(trials: &Trials, pairs: &Pairs) -> Option<(Estimate, f64)> {
    let blocks = pairs.latencies()?;
    let how = trials.quantile_resampling(&pairs.case.case, "saved p50");
    let nanoseconds = quantile::difference(&blocks, 0.5, how)?;
    let theirs = pairs.blocks.iter().filter_map(|(place, _, trial)| Some((place.0, trials::latencies(trial)?)));
    let difference =
        Estimate { value: nanoseconds.value / 1e3, standard_error: nanoseconds.standard_error / 1e3, ..nanoseconds };
    Some((difference, quantile::point(&trials::grouped(theirs)?, 0.5)? / 1e3))
}

/// The length of a handler, in addition to what was measured, at which the saved time is the margin of a response:
/// saved = margin · (handler + response). 0 if it is less already. With a margin of 0, every difference matters.
fn break_even_us(saved: f64, response: f64, margin: f64) -> f64 {
    if margin > 0.0 { (saved / margin - response).max(0.0) } else { f64::MAX }
}

/// How many more cores than the case the reference needs at 1,000 requests per second.
fn cores_saved(pairs: &Pairs) -> f64 {
    let cpu_us = |pick: fn(&Pairs) -> Vec<(u32, totals::Totals)>| {
        trials::grouped(pick(pairs)).and_then(|blocks| totals::point(&blocks)).unwrap_or(0.0)
    };
    let case = cpu_us(|pairs| pairs.blocks.iter().map(|(place, trial, _)| (place.0, trials::cpu(trial))).collect());
    let reference =
        cpu_us(|pairs| pairs.blocks.iter().map(|(place, _, trial)| (place.0, trials::cpu(trial))).collect());
    (reference - case) * 1_000.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::break_even_us;

    #[test]
    fn a_saving_matters_up_to_its_share_of_the_response() {
        // 20 µs are 2 % of a response of 1,000 µs, of which 100 µs were measured.
        assert!((break_even_us(20.0, 100.0, 0.02) - 900.0).abs() < 1e-9);
        assert_eq!(break_even_us(1.0, 100.0, 0.02), 0.0);
    }
}
