//! Checks that the load itself crossed the link, by the work of services and kernel during the trials. A single request
//! with proof (`transport_not_as_asked`) does not show where the other requests went.

use std::collections::BTreeSet;

use lasthop_model::{
    observation::RoleUsage,
    quantity::counted,
    record::{CasePlan, Elsewhere, MeasuredTrial},
};
use lasthop_trial::options::Reuse;

use super::finding::{Finding, invalid};
use crate::trials::{Trials, served};

/// The least CPU time, in microseconds, of a server that takes a request from a socket and sends a reply.
const LEAST_CPU_US: f64 = 0.5;
/// The largest plausible ratio of the CPU time per answer of two transports. TLS can exceed it.
const MOST_CPU: f64 = 4.0;
/// The largest plausible ratio of the context switches per answer of two transports, with TLS or without.
const MOST_SWITCHES: f64 = 2.0;
/// Share of answers that must have opened a connection, if each should have its own.
const OPENED_SHARE: f64 = 0.9;
/// The smallest plausible share of answers that opened a connection. With fewer, the counters belong to another network
/// namespace.
const COUNTED_SHARE: f64 = 0.05;
/// The largest share of the server's connections that may use another of its addresses.
const ELSEWHERE_SHARE: f64 = 0.05;

/// Work of a service behind the link, relative to another case, below which requests took another path. No transport
/// changes such work.
const LEAST_WORK: f64 = 1.0 / 3.0;
/// Share of a CPU that a service may use without requests. Slower answers leave more of that time for each answer.
const IDLE_CPU: f64 = 0.01;
/// The fewest rounds with less work, because a single round may be an accident.
const LEAST_ROUNDS: usize = 2;

/// Work of a service for each answer.
#[derive(Clone, Copy)]
struct Work {
    cpu_us: f64,
    switches: f64,
    /// Time of the trials for each answer.
    wall_us: f64,
}

impl Work {
    /// The work; `None` if nothing is known about the service's processes.
    fn of(trials: &Trials, case: &str, role: &str) -> Option<Self> {
        Self::of_trials(trials.of_case(case), role)
    }

    fn of_trials<'a>(trials: impl Iterator<Item = &'a MeasuredTrial>, role: &str) -> Option<Self> {
        let mut answers = 0.0;
        let mut sum = RoleUsage::default();
        let mut wall_ns = 0;
        for trial in trials {
            let Some(usage) = trial.observations.roles.get(role) else {
                continue;
            };
            answers += served(trial);
            wall_ns += trial.observations.machine.wall_ns;
            sum.cpu_ns += usage.cpu_ns;
            sum.voluntary_switches += usage.voluntary_switches + usage.involuntary_switches;
            sum.processes += usage.processes;
        }
        let known = sum.processes > 0 && answers > 0.0;
        known.then(|| Self {
            cpu_us: sum.cpu_ns as f64 / 1e3 / answers,
            switches: sum.voluntary_switches as f64 / answers,
            wall_us: wall_ns as f64 / 1e3 / answers,
        })
    }

    /// Whether the service did far less than in another case for equal answers.
    fn is_far_less_than(self, other: Self) -> bool {
        self.cpu_us * MOST_CPU < other.cpu_us && self.switches * MOST_SWITCHES < other.switches
    }

    /// Whether a service behind the link got fewer requests than in another case.
    fn is_asked_less_than(self, other: Self) -> bool {
        self.cpu_us < LEAST_WORK * (other.cpu_us - IDLE_CPU * other.wall_us)
    }

    fn words(self) -> String {
        format!(
            "{} µs of CPU time and {} context switches",
            figure(self.cpu_us),
            figure(self.switches)
        )
    }
}

/// A number with two digits or more, without an exponent.
fn figure(value: f64) -> String {
    format!("{value:.0$}", if value < 10.0 { 1 } else { 0 })
}

pub fn load_not_over_link(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    if trials.is_direct() {
        return not_answered(trials, plan);
    }
    let text = idle(trials, plan)
        .or_else(|| too_few_opened(trials, plan))
        .or_else(|| elsewhere(trials, plan))?;
    let effect =
        "the case did not measure the link: replies came from a cache, from another server or over another address";
    Some(invalid(text, effect))
}

/// A foreign driver that counts more answers than the server can have given. lasthop's own driver sees the link itself.
fn not_answered(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let load = &plan.load;
    // One call may take several requests at once.
    if load.is_own() || load.pipeline > 1 {
        return None;
    }
    let server = &trials.data.header.experiment.to;
    let work = Work::of(trials, &plan.case, server).filter(|work| work.cpu_us < LEAST_CPU_US);
    let idle = work.map(|work| {
        format!(
            "for each answer that `{}` counts, {server} took {}, which is not enough for one",
            load.driver,
            work.words()
        )
    });
    let text = idle.or_else(|| too_few_opened(trials, plan))?;
    Some(invalid(text, "the driver counts answers that the server did not give"))
}

/// A link's server that did next to nothing, or far less than in a compared case.
fn idle(trials: &Trials, plan: &CasePlan) -> Option<String> {
    let server = &trials.data.header.experiment.to;
    let own = Work::of(trials, &plan.case, server)?;
    let seen = format!("for each answer {server} took {}", own.words());
    let more = trials.compared_with(plan).find_map(|other| {
        let work = Work::of(trials, &other.case, server).filter(|work| own.is_far_less_than(*work))?;
        Some(format!(", against {} with {}", work.words(), other.case))
    });
    let idle = own.cpu_us < LEAST_CPU_US;
    (idle || more.is_some()).then(|| {
        format!(
            "{seen}{}: most answers did not come through the link",
            more.unwrap_or_default()
        )
    })
}

/// A service behind the link that worked in a compared case, but not here. The driver's target and the ends of the link
/// are not behind it: their work depends on the transport.
pub fn less_work(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let experiment = &trials.data.header.experiment;
    let ends = [&plan.load.target, &experiment.from, &experiment.to];
    let behind = experiment.services.keys().filter(|role| !ends.contains(role));
    let found = |role: &String| {
        trials.compared_with(plan).find_map(|other| {
            let [own, theirs] = [plan, other].map(|plan| Work::of(trials, &plan.case, role));
            let (own, theirs) = own
                .zip(theirs)
                .filter(|(own, theirs)| own.is_asked_less_than(*theirs))?;
            let rounds = rounds_of_less_work(trials, [&plan.case, &other.case], role);
            (rounds >= LEAST_ROUNDS).then(|| {
                format!(
                    "for each answer {role} took {}, against {} with {}, in {rounds} rounds",
                    own.words(),
                    theirs.words(),
                    other.case
                )
            })
        })
    };
    let text = behind.filter_map(found).next()?;
    let effect =
        "requests did not reach every service in this case: a cache or an earlier service answered, or another server";
    Some(invalid(text, effect))
}

/// The number of rounds in which a service got fewer requests in the first case than in the second.
fn rounds_of_less_work(trials: &Trials, cases: [&str; 2], role: &str) -> usize {
    let rounds: BTreeSet<u32> = trials.of_case(cases[0]).map(|trial| trial.round).collect();
    let less = |round: &u32| {
        let of = |case| Work::of_trials(trials.of_case(case).filter(|trial| trial.round == *round), role);
        let [own, theirs] = cases.map(of);
        own.zip(theirs)
            .is_some_and(|(own, theirs)| own.is_asked_less_than(theirs))
    };
    rounds.iter().filter(|round| less(round)).count()
}

/// Too few opened connections. There may be more, because other traffic of the machine opens connections too, but never
/// fewer.
fn too_few_opened(trials: &Trials, plan: &CasePlan) -> Option<String> {
    let experiment = &trials.data.header.experiment;
    let load = &plan.load;
    let is_per_request = if trials.is_direct() {
        load.reuse == Reuse::PerRequest && load.requests_per_connection == 1
    } else {
        let link = trials.proofs(&plan.case).last().and_then(|seen| seen.link.as_ref());
        link.is_some_and(|link| link.wanted.as_deref() == Some("per-request"))
    };
    let is_tcp = !plan.transport.is_unix() && is_per_request;
    let opened = trials.sum(&plan.case, |trial| trial.observations.network.tcp_opened);
    let answers: f64 = trials.of_case(&plan.case).map(served).sum();
    let share = opened as f64 / answers.max(1.0);
    (is_tcp && (COUNTED_SHARE..OPENED_SHARE).contains(&share)).then(|| {
        format!(
            "for 100 answers {} TCP connections were opened, though {} should open one to {} for each: not every answer \
             came through the link",
            figure(share * 100.0),
            experiment.from,
            experiment.to
        )
    })
}

/// A server that was reached at another of its addresses while the driver sent.
fn elsewhere(trials: &Trials, plan: &CasePlan) -> Option<String> {
    let to = &trials.data.header.experiment.to;
    let Elsewhere {
        address,
        connections,
        over_link,
    } = trials
        .proofs(&plan.case)
        .filter_map(|seen| seen.elsewhere.as_ref())
        .find(|seen| {
            let all = seen.connections + seen.over_link;
            f64::from(seen.connections) > ELSEWHERE_SHARE * f64::from(all)
        })?;
    Some(format!(
        "while the driver sent, {to} was reached over {} at {address}, which is not the link; {over_link} were \
         seen on the link",
        counted((*connections).into(), "connection")
    ))
}
