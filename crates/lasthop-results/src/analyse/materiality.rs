//! Whether a difference matters: what it saves per request, and for which handlers that is more than the margin.
//!
//! `docs/methodology/materiality.md` has the derivation.

use lasthop_model::record::MeasuredTrial;
use lasthop_stats::{
    Estimate, Interval,
    totals::{self, Totals},
};

use super::{
    cases,
    comparisons::Pairs,
    summary::{Materiality, Measured, Metric},
    trials::{self, Trials},
};

/// The role of the driver, as an end of the link.
const DRIVER: &str = "driver";

/// Uses mean times for the throughput, medians for the median latency (an open loop has nothing else), and for CPU per
/// request the roles that share the machine with the link. `None` for other metrics.
pub fn of(trials: &Trials, pairs: &Pairs, metric: Metric) -> Option<Materiality> {
    let load = &pairs.case.load;
    // Nor does a sender that gets no reply wait for a handler.
    let is_one_way = cases::sending(trials, &pairs.case.case).is_some();
    let queues = load.is_open() || load.connections > 1 || is_one_way;
    let (more, spent_us, advises) = match metric {
        Metric::Throughput => {
            let time = |trial: &MeasuredTrial| trials::mean_time(trial, load.connections);
            with(trials, pairs, "saved", time, !queues)?
        }
        Metric::LatencyP50 => medians(trials, pairs, !queues)?,
        Metric::CpuPerRequest => with(trials, pairs, "saved CPU", |trial| cpu(trials, trial), true)?,
        Metric::LatencyP99 => return None,
    };
    let saved = less(more.interval(trials.confidence()));
    let margin = trials.data.header.settings.margin;
    Some(Materiality {
        saved_us: saved.estimate,
        saved_us_low: saved.low,
        saved_us_high: saved.high,
        break_even: (advises && spent_us > 0.0).then(|| break_even(&saved, spent_us, margin)),
        cores_saved_at_1000_per_second: cores_saved(trials, pairs),
    })
}

/// Case minus reference in microseconds, the reference's value, and whether it allows advice.
type Difference = (Estimate, f64, bool);

fn with(
    trials: &Trials,
    pairs: &Pairs,
    draws: &str,
    value: impl Fn(&MeasuredTrial) -> Totals,
    advises: bool,
) -> Option<Difference> {
    let difference = totals::difference(&pairs.totals(&value, &value)?, trials.resampling(&pairs.case.case, draws))?;
    let theirs = trials::grouped(pairs.blocks.iter().map(|(place, _, trial)| (place.0, value(trial))))?;
    Some((difference, totals::point(&theirs)?, advises))
}

fn medians(trials: &Trials, pairs: &Pairs, advises: bool) -> Option<Difference> {
    let latencies = pairs.latencies()?;
    let how = trials.quantile_resampling(&pairs.case.case, "saved p50");
    let nanoseconds = latencies.difference(0.5, how)?;
    let difference =
        Estimate { value: nanoseconds.value / 1e3, standard_error: nanoseconds.standard_error / 1e3, ..nanoseconds };
    Some((difference, latencies.reference.point(0.5)? / 1e3, advises))
}

/// CPU time of the services, and of the driver if it is an end of the link on this machine. A driver in front of a
/// proxy stands for clients that are elsewhere, whatever their CPU time.
fn cpu(trials: &Trials, trial: &MeasuredTrial) -> Totals {
    let header = &trials.data.header;
    if header.experiment.from == DRIVER && header.settings.driver_at.is_none() {
        return trials::cpu(trial);
    }
    trials::services_cpu(trial)
}

fn less(more: Interval) -> Interval {
    Interval { estimate: 0.0 - more.estimate, low: 0.0 - more.high, high: 0.0 - more.low }
}

/// The length of a handler, in addition to what was measured, at which the saved time is the margin of the whole:
/// |saved| = margin · (handler + spent). 0 if it is less already. With a margin of 0, every difference matters. If
/// nothing is known to be saved or lost, it begins at 0.
fn break_even(saved: &Interval, spent_us: f64, margin: f64) -> Measured {
    let handler_ms = |saved_us: f64| match margin > 0.0 {
        true => (saved_us / margin - spent_us).max(0.0) / 1e3,
        false if saved_us > 0.0 => f64::MAX,
        false => 0.0,
    };
    let (low, high) = (saved.low.abs().min(saved.high.abs()), saved.low.abs().max(saved.high.abs()));
    let low = if saved.low <= 0.0 && saved.high >= 0.0 { 0.0 } else { low };
    Measured {
        unit: "ms".to_owned(),
        estimate: handler_ms(saved.estimate.abs()),
        low: handler_ms(low),
        high: handler_ms(high),
    }
}

/// How many more cores than the case the reference needs at 1,000 requests per second.
fn cores_saved(trials: &Trials, pairs: &Pairs) -> f64 {
    let cpu_us =
        |blocks: Vec<(u32, Totals)>| trials::grouped(blocks).and_then(|all| totals::point(&all)).unwrap_or(0.0);
    let case = cpu_us(pairs.blocks.iter().map(|(place, trial, _)| (place.0, cpu(trials, trial))).collect());
    let reference = cpu_us(pairs.blocks.iter().map(|(place, _, trial)| (place.0, cpu(trials, trial))).collect());
    (reference - case) * 1_000.0 / 1e6
}

#[cfg(test)]
mod tests {
    use lasthop_stats::Interval;

    use super::break_even;

    fn of(saved: [f64; 3], margin: f64) -> [f64; 3] {
        let [low, estimate, high] = saved;
        let found = break_even(&Interval { estimate, low, high }, 100.0, margin);
        [found.low, found.estimate, found.high]
    }

    #[test]
    fn a_saving_matters_up_to_its_share_of_the_whole() {
        // 20 µs are 2 % of 1,000 µs, of which 100 µs were measured.
        assert_eq!(of([18.0, 20.0, 22.0], 0.02), [0.8, 0.9, 1.0]);
        assert_eq!(of([-22.0, -20.0, -18.0], 0.02), [0.8, 0.9, 1.0], "a cost matters like a saving");
        assert_eq!(of([0.5, 1.0, 1.5], 0.02), [0.0; 3], "less than the margin already");
        assert_eq!(of([-4.0, 1.0, 6.0], 0.02), [0.0, 0.0, 0.2], "nothing is known: from 0 on");
        assert_eq!(of([1.0, 2.0, 3.0], 0.0), [f64::MAX; 3]);
    }
}
