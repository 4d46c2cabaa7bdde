//! The rate and the schedule of an open loop.

use lasthop_model::{
    quantity::{counted, rate_text},
    record::CasePlan,
};
use lasthop_trial::{Histogram, TrialResult};

use super::finding::{Evidence, Finding, doubt, grouped, invalid, note, percent};
use crate::{cases, derived, trials::Trials};

/// Share of the 99th percentile of the response time from which the lag is reported.
const LARGE_LAG: f64 = 0.1;
/// The lag of a wake-up, which is not worth a note.
const SMALL_LAG_NS: u64 = 100_000;

/// An open loop that sent fewer than 99 % of the requests that were due.
pub fn rate_not_reached(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let offered = cases::offered(trials, &plan.case)?;
    let text = format!(
        "of {} due at {} requests/s, {} ({}) were sent in time",
        counted(offered.scheduled, "request"),
        rate_text(plan.load.rate?),
        grouped(offered.sent),
        percent(offered.sent as f64 / offered.scheduled.max(1) as f64)
    );
    let effect = "the latencies are those of an overload and grow with the length of a trial: lower --rate, or use more \
                  connections";
    (!offered.is_reached()).then(|| invalid(text, effect))
}

/// Requests sent much later than due.
pub fn late(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let rate = plan.load.rate?;
    let merged = |pick: fn(&TrialResult) -> Option<&Histogram>| cases::merged(trials, &plan.case, pick);
    let lag = merged(|result| result.lag.as_ref())?.quantile(0.99);
    let response = merged(TrialResult::latency)?.quantile(0.99);
    // Share of time in which a connection had a request under way (Little's law).
    let service_ns = merged(|result| result.service_time.as_ref()).map_or(0.0, |times| times.mean());
    let busy = (rate * (service_ns / 1e9) / f64::from(plan.load.connections.max(1))).min(1.0);
    let text = format!(
        "1 % of the requests were sent at least {} late, compared with a p99 of {}; the connections were busy {} of the \
         time",
        time(lag),
        time(response),
        percent(busy)
    );
    let effect = "response times include this lag: a request waits if every connection is busy, or if the driver or the \
                  machine is late; more connections would tell which";
    let large = lag > SMALL_LAG_NS && lag as f64 > LARGE_LAG * response as f64;
    // In an overload everything is late, which the check of the rate reports.
    (large && cases::offered(trials, &plan.case)?.is_reached()).then(|| doubt(text, effect))
}

fn time(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{:.0} µs", ns as f64 / 1e3)
    } else {
        format!("{:.1} ms", ns as f64 / 1e6)
    }
}

/// Quantities derived from the time of a request at full load, which an open loop does not have.
pub fn derived_left_out(Evidence { trials, .. }: &Evidence) -> Option<Finding> {
    let all = trials.data.header.derived.iter();
    let left_out = all.filter(|plan| derived::is_at_a_rate(trials, &plan.from));
    let mut names: Vec<&str> = left_out.map(|plan| plan.quantity.as_str()).collect();
    names.dedup();
    let text = format!("left out in open loops: {}", names.join(", "));
    let effect = "these quantities are derived from the time of a request in a closed loop";
    (!names.is_empty()).then(|| note(text, effect))
}

#[cfg(test)]
mod tests {
    use lasthop_model::record::{Derivation, DerivedPlan, TrialRecord};
    use lasthop_record::data::RunData;
    use lasthop_trial::{Histogram, result::Offered};

    use crate::{
        summarise,
        summary::Severity,
        testing::{at_rate, each_trial, finding, findings, fires, healthy},
    };

    /// A run that sent this many of every 1,000 requests that were due.
    fn sending(sent: u64) -> RunData {
        let mut data = at_rate(healthy(), 2_000.0);
        each_trial(&mut data, "unix", |trial| {
            trial.result.offered = Some(Offered {
                rate: 2_000.0,
                scheduled: 1_000,
                sent,
            });
        });
        data
    }

    #[test]
    fn a_rate_that_is_not_reached_is_invalid() {
        assert_eq!(findings(&sending(990), "rate-not-reached"), []);
        let check = finding(&sending(989), "rate-not-reached");
        assert_eq!(
            (check.case.as_deref(), check.severity),
            (Some("unix"), Severity::Invalid)
        );
        assert_eq!(
            check.evidence,
            "of 30,000 requests due at 2,000 requests/s, 29,670 (99 %) were sent in time"
        );
        let metrics = summarise(&sending(989)).cases[1].metrics.clone().unwrap();
        assert!(!metrics.open_loop.unwrap().reached);
        assert_eq!(findings(&healthy(), "rate-not-reached"), []);
    }

    /// A run in which 1 % of the requests respond after `response_us`, of which they were unsent for `lag_us`.
    fn lagging(lag_us: u64, response_us: u64) -> RunData {
        let mut data = at_rate(healthy(), 2_000.0);
        each_trial(&mut data, "unix", |trial| {
            let tail = |usual: u64, us: u64| {
                let mut all = Histogram::new();
                all.record_n(usual * 1_000, 980);
                all.record_n(us * 1_000, 20);
                Some(all)
            };
            trial.result.lag = tail(1, lag_us);
            trial.result.response_time = tail(50, response_us);
        });
        data
    }

    #[test]
    fn a_lag_that_is_much_of_the_response_is_doubted() {
        assert_eq!(findings(&lagging(99, 150), "late"), []);
        assert_eq!(findings(&lagging(119, 1_200), "late"), []);
        let late = lagging(123, 1_200);
        let said = "were sent at least 123 µs late, compared with a p99 of 1.2 ms";
        fires(&late, "late", "unix", Severity::Doubt, said);
        // 2,000 requests/s of about 38 µs on one connection.
        let evidence = finding(&late, "late").evidence;
        assert!(
            evidence.contains("busy 7.") || evidence.contains("busy 8."),
            "{evidence}"
        );
        assert_eq!(finding(&lagging(101, 150), "late").case.as_deref(), Some("unix"));
    }

    #[test]
    fn an_overload_is_not_called_late_as_well() {
        let mut data = lagging(1_000, 1_200);
        assert_eq!(findings(&data, "late").len(), 1);
        each_trial(&mut data, "unix", |trial| {
            trial.result.offered = Some(Offered {
                rate: 2_000.0,
                scheduled: 200,
                sent: 100,
            });
        });
        assert_eq!(findings(&data, "late"), []);
        assert_eq!(findings(&data, "rate-not-reached").len(), 1);
    }

    fn driver_at_its_limit(mut data: RunData) -> RunData {
        each_trial(&mut data, "unix", |trial| {
            trial.result.cost.system_ns = trial.result.elapsed_ns
        });
        data
    }

    #[test]
    fn a_driver_that_waits_awake_is_no_doubt_while_it_keeps_its_rate() {
        let mut closed = driver_at_its_limit(healthy());
        closed.header.cases[1].load.connections = 2;
        assert_eq!(finding(&closed, "driver-saturated").case.as_deref(), Some("unix"));
        let kept = driver_at_its_limit(sending(1_000));
        assert_eq!(findings(&kept, "driver-saturated"), []);
        assert!(
            summarise(&kept)
                .comparisons
                .iter()
                .all(|comparison| !comparison.lower_bound)
        );
        let check = finding(&driver_at_its_limit(sending(900)), "driver-saturated");
        assert!(
            check.effect.contains("why the rate was not reached"),
            "{}",
            check.effect
        );
    }

    #[test]
    fn headroom_at_a_rate_is_by_the_rate() {
        let null = |per_second: f64| {
            let mut data = at_rate(healthy(), 2_000.0);
            let first = data.records.iter_mut().find_map(|record| match record {
                TrialRecord::Round(round) => Some(round),
                _ => None,
            });
            first.unwrap().headroom.insert("unix".to_owned(), per_second);
            data
        };
        assert_eq!(summarise(&null(30_000.0)).cases[1].headroom, Some(15.0));
        assert_eq!(findings(&null(4_000.0), "headroom"), []);
        let scarce = null(3_900.0);
        fires(&scarce, "headroom", "unix", Severity::Doubt, "1.9 times the rate");
    }

    #[test]
    fn derived_quantities_of_open_loops_are_left_out_and_named() {
        let derived = |mut data: RunData| {
            let from = Derivation::Difference {
                of: "tcp".into(),
                minus: "unix".into(),
            };
            let quantity = "handshake".into();
            let help = "what".into();
            data.header.derived = vec![DerivedPlan {
                quantity,
                help,
                levels: Default::default(),
                from,
            }];
            data
        };
        assert_eq!(findings(&derived(healthy()), "derived-left-out"), []);
        assert_eq!(summarise(&derived(healthy())).derived.len(), 1);
        let open = derived(at_rate(healthy(), 2_000.0));
        assert_eq!(
            finding(&open, "derived-left-out").evidence,
            "left out in open loops: handshake"
        );
        assert_eq!(summarise(&open).derived, []);
    }
}
