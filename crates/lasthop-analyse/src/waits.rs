//! Waits without work: requests take far longer than CPU time, run delay and waking explain, while a compared case does
//! without the delay. Such a delay is no property of a transport.
//!
//! The difference decides. Cases that wait alike, such as those of a handler that sleeps, are compared as usual.

use lasthop_model::{
    observation::RoleUsage,
    record::{CasePlan, MeasuredTrial},
};
use lasthop_trial::{Histogram, TrialResult, delayed_ack};

use super::{
    cases,
    summary::{Wait, WaitCause},
    trials::{self, Trials},
};

/// Additional time for a context switch, because a sleeping virtual CPU must be woken.
const WAKING_US: f64 = 100.0;
/// The least share of a wait in the time of a request.
const LEAST_SHARE: f64 = 0.1;
/// The latest delayed ACK on a busy machine, if other signs of a delayed ACK exist.
const LATEST_ACK_NS: u64 = 60_000_000;
/// The shortest times after which a SYN, and any other segment, is sent again.
const SYN_US: f64 = 1e6;
const SEGMENT_US: f64 = 200e3;

/// Mean times of a case's requests, in microseconds.
struct Spent {
    /// Replies in the whole trials.
    served: f64,
    /// Requests under way at a time, each of which may be queued behind the others.
    at_once: f64,
    took: f64,
    /// CPU time and run delay of both ends, and CPU time that the hypervisor took.
    work: f64,
    switches: f64,
    is_throttled: bool,
}

impl Spent {
    /// The times; `None` if too little is known about one end.
    fn of(trials: &Trials, plan: &CasePlan) -> Option<Self> {
        let (case, load) = (plan.case.as_str(), &plan.load);
        let sum = |count: fn(&MeasuredTrial) -> u64| trials.sum(case, count) as f64;
        let requests = sum(|trial| trial.result.requests);
        let served: f64 = trials.of_case(case).map(trials::served).sum();
        if requests == 0.0 || !load.is_own() || cases::sending(trials, case).is_some() {
            return None;
        }
        let (at_once, took_ns, driver_ns) = if load.is_open() {
            // The driver spins until the next request is due.
            let median = cases::merged(trials, case, TrialResult::latency)?.quantile(0.5);
            (1.0, median as f64, 0.0)
        } else {
            let at_once = f64::from(load.connections) * f64::from(load.pipeline);
            let driver = |trial: &MeasuredTrial| {
                let cost = &trial.result.cost;
                cost.cpu_ns() + cost.run_delay_ns.unwrap_or(0)
            };
            let took_ns = at_once * sum(|trial| trial.result.elapsed_ns) / requests;
            (at_once, took_ns, sum(driver) / requests)
        };
        let services_ns = if trials.knows_server(case) {
            sum(|trial| trial.observations.roles.values().map(worked_ns).sum())
        } else {
            // No process worked more than all CPUs together.
            is_here(trials, plan).then(|| sum(|trial| trial.observations.machine.busy_ns))?
        };
        let stolen_ns = sum(|trial| trial.observations.machine.steal_ns);
        let switches = sum(|trial| {
            let roles = trial.observations.roles.values();
            roles.map(|role| role.voluntary_switches).sum()
        });
        Some(Self {
            served,
            at_once,
            took: took_ns / 1e3,
            work: at_once * (driver_ns + (services_ns + stolen_ns) / served) / 1e3,
            // The driver waits once per request.
            switches: 1.0 + switches / served,
            is_throttled: !cases::throttled(trials, case).is_empty(),
        })
    }

    /// The wait beyond the time of another case, after allowing for more work.
    fn wait(&self, other: &Self) -> Option<f64> {
        let explained = if other.is_throttled {
            // The CPU limit sets the pace of both cases.
            other.took * (self.work / other.work).max(1.0)
        } else {
            other.took + (self.work - other.work).max(0.0)
        };
        self.is_idle(self.took - explained)
    }

    /// A wait, if both ends are idle for most of it.
    fn is_idle(&self, wait: f64) -> Option<f64> {
        let busy = self.work + WAKING_US * self.switches;
        (wait >= busy && wait >= LEAST_SHARE * self.took).then_some(wait)
    }
}

/// CPU time and run delay, without throttled time, which some kernels include in run delay.
fn worked_ns(role: &RoleUsage) -> u64 {
    let throttled_ns = role.cgroup.map_or(0, |cgroup| cgroup.throttled_ns);
    role.cpu_ns + role.run_delay_ns.unwrap_or(0).saturating_sub(throttled_ns)
}

/// Whether the driver connects to a server on this machine.
fn is_here(trials: &Trials, plan: &CasePlan) -> bool {
    let address = trials
        .proofs(&plan.case)
        .last()
        .map(|proof| &proof.spec.endpoint.address);
    address.is_some_and(|address| address.ip().is_none_or(|ip| ip.is_loopback()))
}

/// The wait of a case, beyond the times of the compared cases.
pub fn of_case(trials: &Trials, plan: &CasePlan) -> Option<Wait> {
    let own = Spent::of(trials, plan)?;
    let beyond = trials
        .compared_with(plan)
        .filter_map(|other| own.wait(&Spent::of(trials, other)?))
        .reduce(f64::max);
    let us = match beyond {
        Some(us) => us,
        // All compared cases may wait alike, but then the first bytes must show the cause.
        None => own
            .is_idle(own.took - own.work)
            .filter(|_| first_byte_comes_early(trials, plan) == Some(true) && are_delayed_acks(trials, plan))?,
    };
    Some(Wait {
        cause: cause(trials, plan, &own, us),
        us,
        left_us: own.took - us,
    })
}

/// The cause, which must explain at least half of the wait.
fn cause(trials: &Trials, plan: &CasePlan, own: &Spent, us: f64) -> WaitCause {
    let case = plan.case.as_str();
    let explains = |count: f64, each_us: f64| own.at_once * count * each_us / own.served >= us / 2.0;
    let network = |count: fn(&MeasuredTrial) -> u64| {
        let is_possible = trials.may_use_tcp(case);
        if is_possible {
            trials.sum(case, count) as f64
        } else {
            0.0
        }
    };
    let syns = network(|trial| trial.observations.network.syns_retransmitted);
    let segments = network(|trial| trial.observations.network.tcp_retransmitted) - syns;
    let throttled_us: f64 = cases::throttled(trials, case)
        .values()
        .map(|all| all.seconds * 1e6)
        .sum();
    if acks_explain(trials, plan, us) {
        WaitCause::DelayedAck
    } else if explains(syns, SYN_US) {
        WaitCause::SynRepeated
    } else if explains(segments, SEGMENT_US) {
        WaitCause::Retransmission
    } else if explains(throttled_us, 1.0) {
        WaitCause::Throttled
    } else {
        WaitCause::Unknown
    }
}

/// Whether replies as late as a delayed ACK make up at least half of a wait, and nothing contradicts that.
fn acks_explain(trials: &Trials, plan: &CasePlan, us: f64) -> bool {
    let late_share = |times: Histogram| {
        let late = times.within(&(delayed_ack::WINDOW_NS.start..LATEST_ACK_NS));
        late as f64 / times.count() as f64
    };
    let of_replies = times(trials, plan).map_or(0.0, late_share);
    let at_once = if plan.load.is_open() {
        1.0
    } else {
        f64::from(plan.load.pipeline)
    };
    may_delay_acks(trials, plan)
        && of_replies * at_once * delayed_ack::WINDOW_NS.start as f64 / 1e3 >= us / 2.0
        && first_byte_comes_early(trials, plan) != Some(false)
}

/// Whether most replies of a case came as late as a delayed ACK over TCP while both ends were idle, unless a compared
/// case without TCP has such replies too.
pub fn are_delayed_acks(trials: &Trials, plan: &CasePlan) -> bool {
    let are_late = |plan: &CasePlan| times(trials, plan).is_some_and(|times| delayed_ack::is_usual(&times));
    let mut others = trials.compared_with(plan).filter(|other| !other.transport.is_tcp());
    let is_idle = || Spent::of(trials, plan).is_some_and(|own| own.is_idle(own.took - own.work).is_some());
    may_delay_acks(trials, plan) && are_late(plan) && !others.any(are_late) && is_idle()
}

/// Whether a reply uses TCP: on the link, or on another hop behind the driver.
fn may_delay_acks(trials: &Trials, plan: &CasePlan) -> bool {
    plan.transport.is_tcp() || !trials.is_direct() && trials.may_use_tcp(&plan.case)
}

/// Whether the driver sees the first byte of replies long before the end, as from a server that is held back in
/// between. `None` if the driver does not connect to that server, or does not report first bytes.
fn first_byte_comes_early(trials: &Trials, plan: &CasePlan) -> Option<bool> {
    let first = cases::merged(trials, &plan.case, |result| result.phases.first_byte.as_ref())?;
    let is_early = delayed_ack::begins_early(&first, &times(trials, plan)?);
    (trials.is_direct() || is_early).then_some(is_early)
}

fn times(trials: &Trials, plan: &CasePlan) -> Option<Histogram> {
    cases::merged(trials, &plan.case, |result| result.service_time.as_ref())
}

#[cfg(test)]
mod tests {
    use lasthop_model::observation::CgroupUsage;
    use lasthop_record::data::RunData;
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::{
        decision::Advice,
        summarise,
        testing::{TCP, Truth, UNIX, at_rate, each_trial, finding, findings, healthy, run},
    };

    /// Makes each request of a case wait beside its work: a reply takes `ms`, and its first byte comes after the share
    /// `first_byte` of that.
    fn takes(data: &mut RunData, case: &str, ms: f64, first_byte: f64) {
        each_trial(data, case, |trial| {
            let requests = (trial.result.elapsed_ns as f64 / (ms * 1e6)).round().max(1.0) as u64;
            let was = trial.result.requests_total;
            (trial.result.requests, trial.result.requests_total) = (requests, requests);
            trial.result.elapsed_ns = (requests as f64 * ms * 1e6) as u64;
            let cost = &mut trial.result.cost;
            (cost.user_ns, cost.system_ns) = (4_000 * requests, 6_000 * requests);
            for role in trial.observations.roles.values_mut() {
                role.cpu_ns = role.cpu_ns * requests / was;
                role.voluntary_switches = requests;
            }
            let all = |ns: f64| {
                let mut times = Histogram::new();
                times.record_n(ns as u64, requests);
                Some(times)
            };
            trial.result.service_time = all(ms * 1e6);
            trial.result.phases.first_byte = all(ms * 1e6 * first_byte);
        });
    }

    fn wait(data: &RunData, case: &str) -> Option<(WaitCause, u32)> {
        let summary = summarise(data);
        let wait = summary.case(case).unwrap().wait?;
        Some((wait.cause, (wait.us / 1e3).round() as u32))
    }

    fn advice(data: &RunData) -> Advice {
        summarise(data).decision.advice
    }

    #[test]
    fn delayed_acks_are_no_gain_of_the_other_transport() {
        let mut data = healthy();
        assert_eq!((wait(&data, "tcp"), advice(&data)), (None, Advice::Use));
        takes(&mut data, "tcp", 44.0, 0.002);
        assert_eq!(wait(&data, "tcp"), Some((WaitCause::DelayedAck, 44)));
        let decision = summarise(&data).decision;
        assert_eq!((decision.advice, decision.otherwise), (Advice::Wait, None));
        assert_eq!(decision.waits["tcp"].cause, WaitCause::DelayedAck);
        assert_eq!(decision.settings.waiting, ["unix"]);
        assert_eq!((decision.least, decision.settings.better.len()), (None, 0));
        let check = finding(&data, "delayed-ack");
        assert!(
            check.evidence.contains("(100 %) took 38 to 48 ms, while both"),
            "{}",
            check.evidence
        );
        assert_eq!(findings(&data, "idle-wait"), []);
    }

    #[test]
    fn a_reply_that_begins_late_waits_for_something_else() {
        let mut data = healthy();
        takes(&mut data, "tcp", 44.0, 0.999);
        assert_eq!(wait(&data, "tcp"), Some((WaitCause::Unknown, 44)));
        // Behind a proxy, the driver does not see the first byte of the server.
        data.header.experiment.from = "nginx".to_owned();
        assert_eq!(wait(&data, "tcp"), Some((WaitCause::DelayedAck, 44)));
        // A Unix socket has no ACKs.
        let mut data = healthy();
        takes(&mut data, "unix", 44.0, 0.002);
        assert_eq!(wait(&data, "unix"), Some((WaitCause::Unknown, 44)));
        assert_eq!(advice(&data), Advice::Wait);
    }

    /// Records are read without the phases of requests, except for those that explain slow replies.
    #[test]
    fn the_first_byte_of_slow_replies_is_read() {
        let read = |ms: f64| {
            let mut data = healthy();
            takes(&mut data, "tcp", ms, 0.999);
            for record in std::mem::take(&mut data.records) {
                data.keep(record);
            }
            let trials = Trials::new(&data);
            let plan = trials.plan("tcp").unwrap();
            (first_byte_comes_early(&trials, plan), cause_of(&data))
        };
        assert_eq!(read(44.0), (Some(false), WaitCause::Unknown));
        assert_eq!(read(3.0), (None, WaitCause::Unknown));
    }

    fn cause_of(data: &RunData) -> WaitCause {
        wait(data, "tcp").unwrap().0
    }

    #[test]
    fn what_both_wait_for_is_compared_as_usual() {
        for ms in [1.0, 10.0, 42.0, 500.0] {
            for first_byte in [0.001, 0.999] {
                let mut data = healthy();
                takes(&mut data, "tcp", ms + 0.02, first_byte);
                takes(&mut data, "unix", ms, first_byte);
                let none = (None, None, vec![]);
                let found = (wait(&data, "tcp"), wait(&data, "unix"), findings(&data, "idle-wait"));
                assert_eq!(found, none, "{ms} ms");
                assert_ne!(advice(&data), Advice::Wait);
                assert_eq!(findings(&data, "delayed-ack"), []);
            }
        }
        // A wait of 44 ms beyond 100 ms is found.
        let mut data = healthy();
        takes(&mut data, "unix", 100.0, 0.999);
        takes(&mut data, "tcp", 144.0, 0.999);
        assert_eq!(wait(&data, "tcp"), Some((WaitCause::Unknown, 44)));
    }

    #[test]
    fn cases_over_tcp_that_all_have_delayed_acks() {
        let mut data = run(&[TCP, TCP], 6, 5);
        for case in ["tcp", "tcp#2"] {
            takes(&mut data, case, 44.0, 0.002);
        }
        let acks = Some((WaitCause::DelayedAck, 44));
        assert_eq!((wait(&data, "tcp"), wait(&data, "tcp#2")), (acks, acks));
        assert_eq!(summarise(&data).decision.waits.len(), 2);
        // A handler that takes as long.
        for case in ["tcp", "tcp#2"] {
            takes(&mut data, case, 44.0, 0.999);
        }
        assert_eq!((wait(&data, "tcp"), wait(&data, "tcp#2")), (None, None));
    }

    #[test]
    fn the_cause_is_what_explains_most_of_it() {
        let of = |ms: f64, observe: fn(&mut MeasuredTrial)| {
            let mut data = healthy();
            takes(&mut data, "tcp", ms, 0.999);
            each_trial(&mut data, "tcp", observe);
            wait(&data, "tcp")
        };
        assert_eq!(of(3.0, |_| ()), Some((WaitCause::Unknown, 3)));
        let syns = |trial: &mut MeasuredTrial| {
            (
                trial.observations.network.syns_retransmitted,
                trial.observations.network.tcp_retransmitted,
            ) = (1, 1);
        };
        assert_eq!(of(30.0, syns), Some((WaitCause::SynRepeated, 30)));
        let segments = |trial: &mut MeasuredTrial| trial.observations.network.tcp_retransmitted = 1;
        assert_eq!(of(30.0, segments), Some((WaitCause::Retransmission, 30)));
        let throttled = |trial: &mut MeasuredTrial| {
            let server = &mut trial.observations.roles["server"];
            server.run_delay_ns = Some(80_000_000);
            server.cgroup = Some(CgroupUsage {
                periods: 1,
                throttled: 1,
                throttled_ns: 80_000_000,
                ..CgroupUsage::default()
            });
        };
        assert_eq!(of(30.0, throttled), Some((WaitCause::Throttled, 30)));
        let check = {
            let mut data = healthy();
            takes(&mut data, "tcp", 3.0, 0.999);
            finding(&data, "idle-wait")
        };
        assert!(check.evidence.contains("2.9"), "{}", check.evidence);
    }

    #[test]
    fn work_and_waiting_for_a_cpu_are_no_waits() {
        let mut data = healthy();
        takes(&mut data, "tcp", 44.0, 0.002);
        each_trial(&mut data, "tcp", |trial| {
            let server = &mut trial.observations.roles["server"];
            server.run_delay_ns = Some(trial.result.requests_total * 43_000_000);
        });
        assert_eq!((wait(&data, "tcp"), findings(&data, "delayed-ack")), (None, vec![]));
        // A thousand connections that share a busy server have long latencies too.
        let mut data = healthy();
        takes(&mut data, "tcp", 0.044, 0.002);
        for plan in &mut data.header.cases {
            plan.load.connections = 1_000;
        }
        each_trial(&mut data, "tcp", |trial| {
            let mut times = Histogram::new();
            times.record_n(44_000_000, trial.result.requests);
            trial.result.service_time = Some(times);
        });
        assert_eq!((wait(&data, "tcp"), findings(&data, "delayed-ack")), (None, vec![]));
    }

    #[test]
    fn a_slow_transport_is_no_wait() {
        // Four times the work takes five times as long, and waking takes some microseconds too.
        let slow = Truth {
            rate: TCP.rate / 5.0,
            service_cpu_us: TCP.service_cpu_us * 4.0,
            ..UNIX
        };
        let data = run(&[TCP, slow], 6, 5);
        assert_eq!((wait(&data, "unix"), advice(&data)), (None, Advice::Stay));
    }

    #[test]
    fn an_open_loop_waits_by_its_median() {
        let mut data = at_rate(healthy(), 1_000.0);
        assert_eq!(wait(&data, "tcp"), None);
        each_trial(&mut data, "tcp", |trial| {
            let mut times = Histogram::new();
            times.record_n(44_000_000, 10);
            (trial.result.service_time, trial.result.response_time) = (Some(times.clone()), Some(times));
        });
        assert_eq!(wait(&data, "tcp"), Some((WaitCause::DelayedAck, 44)));
    }

    #[test]
    fn other_comparisons_still_decide() {
        let mut data = run(
            &[
                TCP,
                UNIX,
                Truth {
                    transport: Transport::Abstract,
                    ..UNIX
                },
            ],
            6,
            5,
        );
        takes(&mut data, "abstract", 5.0, 0.999);
        let decision = summarise(&data).decision;
        assert_eq!((decision.advice, decision.otherwise), (Advice::Wait, Some(Advice::Use)));
        assert_eq!(decision.alternative.as_deref(), Some("unix"));
        assert_eq!(decision.waits.keys().collect::<Vec<_>>(), ["abstract"]);
    }
}
