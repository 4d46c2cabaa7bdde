//! Run delay: the time in which the threads of a role were runnable but not running.
//!
//! Figures are per correct reply, like CPU time: the driver's in the measure phase, the services' in the whole trial.
//! Trials without a measurement are left out.

use indexmap::IndexMap;
use lasthop_model::record::MeasuredTrial;
use lasthop_stats::totals::{self, Totals};

use super::{
    cases,
    pairs::Pairs,
    summary::{Measured, Metric, RunDelay, RunDelaySaved},
    trials::{self, DRIVER, Trials, grouped},
};

/// Sums for one role over one or more trials.
#[derive(Clone, Copy, Default)]
struct Waited {
    delay_ns: u64,
    cpu_ns: u64,
    requests: f64,
}

impl Waited {
    /// The measurement of a trial; `None` if there is none.
    fn of(trial: &MeasuredTrial, role: &str) -> Option<Self> {
        if role == DRIVER {
            let cost = &trial.result.cost;
            return Some(Self {
                delay_ns: cost.run_delay_ns?,
                cpu_ns: cost.cpu_ns(),
                requests: trial.result.requests as f64,
            });
        }
        let usage = trial.observations.roles.get(role)?;
        Some(Self {
            delay_ns: usage.run_delay_ns?,
            cpu_ns: usage.cpu_ns,
            requests: trials::served(trial),
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            delay_ns: self.delay_ns + other.delay_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            requests: self.requests + other.requests,
        }
    }

    /// Run delay in microseconds per request.
    fn totals(self) -> Totals {
        Totals::of(self.delay_ns as f64 / 1e3, self.requests)
    }
}

/// The driver, then the services observed in a case.
fn roles<'a>(trials: &Trials<'a>, case: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    std::iter::once(DRIVER).chain(cases::roles(trials, case))
}

/// Run delay of the roles that were measured at least once.
pub fn by_role(trials: &Trials, case: &str) -> IndexMap<String, RunDelay> {
    let of_role = |role: &str| {
        let sum = trials
            .of_case(case)
            .filter_map(|trial| Waited::of(trial, role))
            .reduce(Waited::and)?;
        let busy_ns = (sum.delay_ns + sum.cpu_ns).max(1);
        Some(RunDelay {
            us_per_request: sum.delay_ns as f64 / 1e3 / sum.requests,
            share: sum.delay_ns as f64 / busy_ns as f64,
        })
    };
    roles(trials, case)
        .filter_map(|role| Some((role.to_owned(), of_role(role)?)))
        .collect()
}

/// The saved run delay, for the metric of the verdict. `None` for other metrics, if requests are lost, or if fewer than
/// two blocks have a measurement of both.
pub fn saved(trials: &Trials, pairs: &Pairs, metric: Metric) -> Option<RunDelaySaved> {
    let arrive = || cases::both_arrive(trials, &pairs.case.case, &pairs.reference.case);
    if trials.ratios_only || metric != Metric::primary(&pairs.case.load) || !arrive() {
        return None;
    }
    let saved = RunDelaySaved {
        all: difference(trials, pairs, "", all),
        roles: roles(trials, &pairs.case.case)
            .filter_map(|role| {
                Some((
                    role.to_owned(),
                    difference(trials, pairs, role, |trial| Some(Waited::of(trial, role)?.totals()))?,
                ))
            })
            .collect(),
    };
    (saved.all.is_some() || !saved.roles.is_empty()).then_some(saved)
}

/// Run delay of all services in a trial; `None` unless known for each service that ran.
fn all(trial: &MeasuredTrial) -> Option<Totals> {
    let services = trial.observations.roles.values();
    let ran = services.filter(|usage| usage.cpu_ns > 0 || usage.run_delay_ns.is_some());
    let delay_ns: u64 = ran.map(|usage| usage.run_delay_ns).sum::<Option<u64>>()?;
    Some(Totals::of(delay_ns as f64 / 1e3, trials::served(trial)))
}

/// The reference's run delay minus the case's, in microseconds per request, over the blocks that contain both.
fn difference(
    trials: &Trials,
    pairs: &Pairs,
    role: &str,
    totals: impl Fn(&MeasuredTrial) -> Option<Totals>,
) -> Option<Measured> {
    let known = pairs
        .blocks
        .iter()
        .filter_map(|&(place, ours, theirs)| Some((place.0, [totals(theirs)?, totals(ours)?])));
    let how = trials.resampling(&pairs.case.case, &format!("run delay {role}"));
    let saved = totals::difference(&grouped(known)?, how)?;
    Some(Measured::of("us", saved.interval(trials.confidence())))
}

#[cfg(test)]
mod tests {
    use lasthop_model::observation::RoleUsage;
    use lasthop_record::data::RunData;

    use super::*;
    use crate::{
        summarise,
        summary::{CaseSummary, Summary},
        testing::{comparison, each_trial, healthy},
    };

    /// Sets the run delay of driver and server, in microseconds per request.
    fn wait(data: &mut RunData, case: &str, driver: f64, server: f64) {
        each_trial(data, case, |trial| {
            trial.result.cost.run_delay_ns = Some((trial.result.requests as f64 * driver * 1e3) as u64);
            let served = trials::served(trial);
            trial.observations.roles["server"].run_delay_ns = Some((served * server * 1e3) as u64);
        });
    }

    /// A run with 2 µs (driver) and 6 µs (server) over the Unix socket, 3 µs and 20 µs over TCP.
    fn waiting() -> RunData {
        let mut data = healthy();
        wait(&mut data, "unix", 2.0, 6.0);
        wait(&mut data, "tcp", 3.0, 20.0);
        data
    }

    fn case<'a>(summary: &'a Summary, name: &str) -> &'a CaseSummary {
        summary.cases.iter().find(|case| case.case == name).unwrap()
    }

    fn saved_by_unix(summary: &Summary, metric: Metric) -> Option<RunDelaySaved> {
        comparison(summary, "unix", metric).unwrap().run_delay_saved
    }

    fn is(saved: &Measured, truth: f64) -> bool {
        saved.interval.low <= saved.interval.estimate
            && saved.interval.estimate <= saved.interval.high
            && (saved.interval.estimate - truth).abs() < 0.01
    }

    #[test]
    fn it_is_per_request_and_a_share_of_the_time_not_spent_idle() {
        let summary = summarise(&waiting());
        let metrics = case(&summary, "tcp").metrics.as_ref().unwrap();
        let driver = metrics.run_delay["driver"];
        let server = metrics.run_delay["server"];
        assert!((driver.us_per_request - 3.0).abs() < 0.01 && (server.us_per_request - 20.0).abs() < 0.01);
        // 10 and 20 µs of CPU time.
        assert!(
            (driver.share - 3.0 / 13.0).abs() < 1e-3 && (server.share - 0.5).abs() < 1e-3,
            "{server:?}"
        );
        assert!((metrics.run_delay_total().unwrap() - 20.0).abs() < 0.02);
    }

    #[test]
    fn what_a_case_saves_stands_with_its_verdict() {
        let summary = summarise(&waiting());
        let saved = saved_by_unix(&summary, Metric::Throughput).unwrap();
        assert!(
            is(&saved.roles["driver"], 1.0) && is(&saved.roles["server"], 14.0),
            "{saved:?}"
        );
        assert!(is(saved.all.as_ref().unwrap(), 14.0), "{saved:?}");
        for metric in [Metric::LatencyP50, Metric::LatencyP99, Metric::CpuPerRequest] {
            assert_eq!(saved_by_unix(&summary, metric), None, "{metric:?}");
        }
    }

    /// Occasional other load widens the interval, so that no difference is known.
    #[test]
    fn scatter_is_in_the_interval() {
        let mut data = waiting();
        for name in ["unix", "tcp"] {
            each_trial(&mut data, name, |trial| {
                let disturbed = (trial.round + u32::from(name == "unix")).is_multiple_of(2);
                trial.observations.roles["server"].run_delay_ns = Some(if disturbed { 90_000_000 } else { 0 });
            });
        }
        let saved = saved_by_unix(&summarise(&data), Metric::Throughput).unwrap();
        let server = &saved.roles["server"];
        assert!(server.interval.low < 0.0 && 0.0 < server.interval.high, "{server:?}");
    }

    #[test]
    fn what_nobody_counted_is_absent() {
        let mut data = waiting();
        for name in ["unix", "tcp"] {
            each_trial(&mut data, name, |trial| trial.result.cost.run_delay_ns = None);
        }
        let summary = summarise(&data);
        let metrics = case(&summary, "tcp").metrics.as_ref().unwrap();
        assert_eq!(metrics.run_delay.keys().collect::<Vec<_>>(), ["server"]);
        assert!((metrics.run_delay_total().unwrap() - 20.0).abs() < 0.01);
        let saved = saved_by_unix(&summary, Metric::Throughput).unwrap();
        assert!(saved.roles.len() == 1 && is(&saved.roles["server"], 14.0), "{saved:?}");

        // Trials without a measurement do not count as trials without run delay.
        each_trial(&mut data, "tcp", |trial| {
            if trial.block == 0 {
                trial.observations.roles["server"].run_delay_ns = None;
            }
        });
        let summary = summarise(&data);
        let server = case(&summary, "tcp").metrics.as_ref().unwrap().run_delay["server"];
        assert!((server.us_per_request - 20.0).abs() < 0.01, "{server:?}");

        for name in ["unix", "tcp"] {
            each_trial(&mut data, name, |trial| {
                trial.observations.roles["server"].run_delay_ns = None
            });
        }
        let summary = summarise(&data);
        assert_eq!(saved_by_unix(&summary, Metric::Throughput), None);
        assert!(case(&summary, "unix").metrics.as_ref().unwrap().run_delay.is_empty());
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let old = r#"{"cpu_ns":7,"voluntary_switches":1,"involuntary_switches":2,"processes":3}"#;
        let usage: RoleUsage = serde_json::from_str(old).unwrap();
        assert_eq!((usage.cpu_ns, usage.run_delay_ns), (7, None));
        assert_eq!(serde_json::to_string(&usage).unwrap(), old);
    }
}
