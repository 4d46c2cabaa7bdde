//! Requests without replies that never arrive.

use lasthop_model::record::CasePlan;

use super::finding::{Finding, doubt, grouped, percent};
use crate::{cases, trials::Trials};

/// Lost requests. If senders are not told, only the two counts together show a loss.
pub fn lost(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let all = cases::sending(trials, &plan.case).filter(|all| all.lost() > 0)?;
    let where_lost = match all.dropped_total {
        Some(dropped) if dropped >= all.lost() => {
            ", all dropped by the kernel because the server's buffer was full".to_owned()
        }
        Some(dropped) if dropped > 0 => format!(
            ": the kernel dropped {} because the server's buffer was full, and the server lost {}",
            grouped(dropped),
            grouped(all.lost() - dropped)
        ),
        _ => ", none of them dropped by the kernel as far as it tells".to_owned(),
    };
    let text = format!(
        "{} of {} requests never arrived{where_lost}",
        percent(all.lost() as f64 / all.sent_total as f64),
        grouped(all.sent_total)
    );
    let effect =
        "nobody told the sender; throughput counts what the server received, and a faster sender only loses more";
    Some(doubt(text, effect))
}

#[cfg(test)]
mod tests {
    use lasthop_model::record::MeasuredTrial;
    use lasthop_record::data::RunData;
    use lasthop_trial::result::OneWay;

    use crate::{
        summarise,
        summary::{Comparison, Metric, Metrics, Severity, Summary},
        testing::{comparison, each_trial, findings, fires, healthy},
    };

    /// A run in which both cases send one way, at the driver's limit, and `unix` sends more than arrives.
    fn sending(lost: u64, dropped: Option<u64>) -> RunData {
        let mut data = healthy();
        let one_way = |trial: &mut MeasuredTrial, lost| {
            let received_total = trial.result.requests_total;
            let sent = trial.result.requests + lost;
            let sent_total = received_total + lost;
            let dropped_total = dropped.filter(|_| lost > 0);
            trial.result.one_way = Some(Box::new(OneWay {
                sent,
                waited: 0,
                sent_total,
                received_total,
                dropped_total,
            }));
            trial.result.cost.system_ns = trial.result.elapsed_ns;
        };
        each_trial(&mut data, "unix", |trial| one_way(trial, lost));
        each_trial(&mut data, "tcp", |trial| one_way(trial, 0));
        data
    }

    #[test]
    fn a_loss_is_named_with_its_place() {
        assert_eq!(findings(&sending(0, None), "lost"), []);
        for (dropped, place) in [
            (Some(5), "never arrived, all dropped by the kernel"),
            (Some(3), "and the server lost"),
            (None, "none of them dropped by the kernel"),
        ] {
            fires(&sending(5, dropped), "lost", "unix", Severity::Doubt, place);
        }
    }

    fn metrics<'a>(summary: &'a Summary, case: &str) -> &'a Metrics {
        summary.case(case).unwrap().metrics.as_ref().unwrap()
    }

    #[test]
    fn who_loses_more_saves_nothing() {
        let of = |lost| summarise(&sending(lost, Some(lost)));
        let cpu = |summary: &Summary| comparison(summary, "unix", Metric::CpuPerRequest);
        let saved = |summary: &Summary| comparison(summary, "unix", Metric::Throughput).unwrap().materiality;
        // Up to 2 % of about 2,900 requests are lost.
        let little = of(40);
        assert!(cpu(&little).is_some() && saved(&little).is_some());
        let much = of(5_000);
        assert_eq!(cpu(&much), None);
        assert_eq!(saved(&much), None);
        // There are two figures: the cost of a request that arrives, and that of a sent request.
        let unix = metrics(&much, "unix");
        let sent = unix.one_way.as_ref().unwrap().cpu_us_per_sent;
        assert!(
            sent > 0.0 && sent < 0.5 * unix.cpu_total(),
            "{sent} {}",
            unix.cpu_total()
        );
        let tcp = metrics(&much, "tcp");
        let sent = tcp.one_way.as_ref().unwrap().cpu_us_per_sent;
        assert!(
            (sent / tcp.cpu_total() - 1.0).abs() < 0.02,
            "{sent} {}",
            tcp.cpu_total()
        );
    }

    #[test]
    fn what_arrives_without_loss_is_what_was_sent() {
        let summary = summarise(&sending(0, None));
        for case in ["unix", "tcp"] {
            let metrics = metrics(&summary, case);
            let (sent, received) = (
                metrics.one_way.as_ref().unwrap().sent_per_s,
                metrics.throughput.interval.estimate,
            );
            assert!((sent / received - 1.0).abs() < 1e-9, "{case}: {sent} {received}");
        }
    }

    #[test]
    fn a_driver_that_sends_more_than_arrives_is_not_the_bottleneck() {
        let saturated = |data: &RunData| -> Vec<Option<String>> {
            findings(data, "driver-saturated")
                .into_iter()
                .map(|check| check.case)
                .collect()
        };
        assert_eq!(saturated(&sending(0, None)).len(), 2);
        let losing = sending(5, Some(5));
        assert_eq!(saturated(&losing), [Some("tcp".to_owned())]);
        let summary = summarise(&losing);
        let of_speed = |one: &&Comparison| one.metric == Metric::Throughput;
        let comparison = summary.comparisons.iter().find(of_speed).unwrap();
        assert!(
            comparison.ratio.estimate > 1.0 && !comparison.lower_bound,
            "unix is the better one"
        );
        let advice = comparison
            .materiality
            .as_ref()
            .and_then(|materiality| materiality.break_even.as_ref());
        assert!(advice.is_none(), "no handler is waited for");
        let unix = summary
            .cases
            .iter()
            .find(|case| case.case == "unix")
            .unwrap()
            .metrics
            .as_ref()
            .unwrap();
        let sending = unix.one_way.as_ref().unwrap();
        assert!(
            sending.lost > 0.0 && Some(sending.sent - sending.received) == sending.dropped,
            "{sending:?}"
        );
    }
}
