//! Counters of the kernel's network stack. They cover all sockets in the network namespaces of driver and services.

use lasthop_model::quantity::counted;

use super::finding::{Evidence, grouped, of_case, percent};
use crate::summary::{Check, Severity};

/// Share of retransmitted segments that is worth a note.
const NOTED_RETRANSMISSIONS: f64 = 0.000_1;
const DOUBTED_RETRANSMISSIONS: f64 = 0.001;

pub fn accept_queue_overflow(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let overflows: u64 = trials
            .of(case)
            .map(|trial| trial.observations.network.listen_overflows)
            .sum();
        let text = format!("{} found an accept queue full", counted(overflows, "connection"));
        let effect = "their SYN is repeated after 1 s, 3 s and 7 s, which gives a slow tail without errors: raise the server's backlog, unless \
                      other servers of this machine were the ones";
        (overflows > 0).then(|| of_case("accept-queue-overflow", Severity::Doubt, case, text, effect))
    };
    evidence.with_tcp().filter_map(|plan| check(&plan.case)).collect()
}

pub fn retransmissions(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let again: u64 = trials
            .of(case)
            .map(|trial| trial.observations.network.tcp_retransmitted)
            .sum();
        let sent: u64 = trials
            .of(case)
            .map(|trial| trial.observations.network.tcp_segments_sent)
            .sum();
        let share = again as f64 / sent.max(1) as f64;
        let severity = if share >= DOUBTED_RETRANSMISSIONS {
            Severity::Doubt
        } else {
            Severity::Note
        };
        let text = format!(
            "{} of {} TCP segments were retransmitted ({})",
            grouped(again),
            grouped(sent),
            percent(share)
        );
        let effect = "no segment should get lost within one machine, on loopback or between containers: a queue or a \
                  server's backlog overflowed, a packet filter dropped some, or this was other traffic";
        (share >= NOTED_RETRANSMISSIONS).then(|| of_case("retransmissions", severity, case, text, effect))
    };
    evidence.with_tcp().filter_map(|plan| check(&plan.case)).collect()
}
