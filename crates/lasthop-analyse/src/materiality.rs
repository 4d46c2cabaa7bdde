//! Materiality of a difference: the saving per request, and the handlers for which it exceeds the margin.
//!
//! `docs/methodology/materiality.md` has the derivation.

use lasthop_stats::Interval;

use super::{
    absolute::{Absolute, Figure},
    cases,
    summary::{Comparison, Materiality, Measured, Metric},
    trials::Trials,
};

/// The materiality of a comparison, from its ratio and the figure of the reference, so that it agrees with both. For
/// the throughput, times are means. For the median latency they are medians, because an open loop has nothing else. CPU
/// time per request is that of the services. `None` for other metrics, and if requests are lost, because losing more
/// saves nothing.
pub fn of_comparison(trials: &Trials, absolute: &Absolute, comparison: &Comparison) -> Option<Materiality> {
    let Comparison {
        case,
        reference,
        metric,
        ..
    } = comparison;
    if !cases::both_arrive(trials, case, reference) {
        return None;
    }
    let load = &trials.plan(case)?.load;
    // A sender without replies does not wait for a handler either.
    let is_one_way = cases::sending(trials, case).is_some();
    let queues = load.is_open() || load.connections > 1 || is_one_way;
    let figure = absolute.own(reference, *metric)?;
    let ratio = comparison.ratio;
    let (spent_us, ratio, advises) = match metric {
        Metric::Throughput => (
            // The mean time of a request, by Little's law: connections divided by throughput.
            f64::from(load.connections.max(1)) * 1e6 / figure.value,
            ratio.inverse(),
            !queues,
        ),
        Metric::LatencyP50 => (figure.value / 1e3, ratio, !queues),
        Metric::CpuPerRequest => (figure.value, ratio, true),
        Metric::LatencyP99 => return None,
    };
    let saved = saved(spent_us, uncertainty(trials, &figure), &ratio);
    let margin = trials.data.header.settings.margin;
    Some(Materiality {
        saved_us: saved,
        break_even: (advises && spent_us > 0.0).then(|| break_even(&saved, spent_us, margin)),
        cores_saved_at_1000_per_second: cores_saved(absolute, case, reference),
    })
}

/// Half the width of a figure's interval, as a share of the figure.
fn uncertainty(trials: &Trials, figure: &Figure) -> f64 {
    figure
        .log
        .map_or(0.0, |log| log.half_width(trials.confidence()).exp_m1())
}

/// The saved part of a time, given the ratio of the remaining part. Each end deviates by the uncertainties of the ratio
/// and of the time, added as squares. An end at a ratio of 1 saves nothing, whatever the time.
fn saved(spent_us: f64, uncertainty: f64, remains: &Interval) -> Interval {
    // Finite, because JSON has no infinity.
    let at = |ratio: f64| (spent_us * (1.0 - ratio)).clamp(f64::MIN, f64::MAX);
    let estimate = at(remains.estimate);
    let deviation = |end: f64| (estimate - end).hypot(end * uncertainty).min(f64::MAX);
    Interval {
        estimate,
        // The more remains, the less is saved.
        low: (estimate - deviation(at(remains.high))).max(f64::MIN),
        high: (estimate + deviation(at(remains.low))).min(f64::MAX),
    }
}

/// The length of a handler, in addition to the measured time, at which the saving equals the margin of the whole:
/// |saved| = margin · (handler + spent). 0 if the saving is already less. With a margin of 0, every difference matters.
/// If a saving of 0 is possible, the interval begins at 0.
fn break_even(saved: &Interval, spent_us: f64, margin: f64) -> Measured {
    let handler_ms = |saved_us: f64| {
        if margin > 0.0 {
            (saved_us / margin - spent_us).max(0.0) / 1e3
        } else if saved_us > 0.0 {
            f64::MAX
        } else {
            0.0
        }
    };
    let [one, other] = [saved.low.abs(), saved.high.abs()];
    let ends = Interval {
        estimate: handler_ms(saved.estimate.abs()),
        low: handler_ms(if saved.is_known() { one.min(other) } else { 0.0 }),
        high: handler_ms(one.max(other)),
    };
    Measured::of("ms", ends)
}

/// Additional cores that the reference needs at 1,000 requests per second.
fn cores_saved(absolute: &Absolute, case: &str, reference: &str) -> f64 {
    let figure = |case| absolute.figure(case, Metric::CpuPerRequest);
    let cpu_us = |case| figure(case).map_or(0.0, |figure| figure.value);
    (cpu_us(reference) - cpu_us(case)) * 1_000.0 / 1e6
}

#[cfg(test)]
mod tests {
    use lasthop_stats::Interval;

    use super::{break_even, saved};

    fn of(saved: [f64; 3], margin: f64) -> [f64; 3] {
        let [low, estimate, high] = saved;
        let found = break_even(&Interval { estimate, low, high }, 100.0, margin);
        [found.interval.low, found.interval.estimate, found.interval.high]
    }

    #[test]
    fn a_saving_matters_up_to_its_share_of_the_whole() {
        // 20 µs are 2 % of 1,000 µs, of which 100 µs were measured.
        assert_eq!(of([18.0, 20.0, 22.0], 0.02), [0.8, 0.9, 1.0]);
        assert_eq!(
            of([-22.0, -20.0, -18.0], 0.02),
            [0.8, 0.9, 1.0],
            "a cost matters like a saving"
        );
        assert_eq!(of([0.5, 1.0, 1.5], 0.02), [0.0; 3], "less than the margin already");
        assert_eq!(
            of([-4.0, 1.0, 6.0], 0.02),
            [0.0, 0.0, 0.2],
            "nothing is known: from 0 on"
        );
        assert_eq!(of([1.0, 2.0, 3.0], 0.0), [f64::MAX; 3]);
    }

    #[test]
    fn what_is_saved_has_the_sign_of_the_ratio() {
        let of = |ends: [f64; 3]| {
            let [low, estimate, high] = ends;
            let found = saved(100.0, 0.3, &Interval { estimate, low, high });
            [found.low, found.estimate, found.high]
        };
        let [low, estimate, high] = of([0.7, 0.8, 0.9]);
        assert!(
            (estimate - 20.0).abs() < 1e-9 && low > 0.0 && low < 10.0 && high > 30.0,
            "{low} {high}"
        );
        assert!(of([0.7, 0.8, 1.0])[0].abs() < 1e-9 && of([1.0, 1.2, 1.4])[2].abs() < 1e-9);
        assert!(of([0.0, 1.0, f64::MAX]).iter().all(|end| end.is_finite()));
    }
}
