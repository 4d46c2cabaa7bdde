//! Counters of the kernel's network stack, for all sockets in the network namespaces of driver and services.

use lasthop_model::{quantity::counted, record::CasePlan};

use super::finding::{Finding, doubt, grouped, percent};
use crate::{summary::Severity, trials::Trials};

/// Shares of retransmitted segments that deserve a note, and a doubt.
const NOTED_RETRANSMISSIONS: f64 = 0.000_1;
const DOUBTED_RETRANSMISSIONS: f64 = 0.001;

pub fn accept_queue_overflow(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let overflows = trials.sum(&plan.case, |trial| trial.observations.network.listen_overflows);
    let text = format!("{} found an accept queue full", counted(overflows, "connection"));
    let effect = "their SYN is repeated after 1 s, 3 s and 7 s, which gives a slow tail without errors: raise the \
                  server's backlog, unless it was another server of this machine";
    (overflows > 0).then(|| doubt(text, effect))
}

pub fn retransmissions(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let again = trials.sum(&plan.case, |trial| trial.observations.network.tcp_retransmitted);
    let sent = trials.sum(&plan.case, |trial| trial.observations.network.tcp_segments_sent);
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
    (share >= NOTED_RETRANSMISSIONS).then(|| Finding::of(severity, text, effect))
}
