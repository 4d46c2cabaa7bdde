//! Counters of the kernel's network stack. They count all sockets of the network namespace.

use std::collections::BTreeMap;

use super::{Evidence, of_case, percent};
use crate::analyse::summary::{Check, Severity};

/// Share of segments sent again, from which on it is worth a note.
const NOTED_RETRANSMISSIONS: f64 = 0.000_1;
const DOUBTED_RETRANSMISSIONS: f64 = 0.001;

pub fn accept_queue_overflow(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let overflows: u64 = trials.of(case).map(|trial| trial.observations.network.listen_overflows).sum();
        let text = format!("{overflows} connections found an accept queue full");
        let effect =
            "their SYN is repeated after 1 s, 3 s, 7 s: a slow tail without errors; raise the server's backlog";
        (overflows > 0).then(|| of_case("accept-queue-overflow", Severity::Doubt, case, text, effect))
    };
    trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}

pub fn retransmissions(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |case: &str| {
        let again: u64 = trials.of(case).map(|trial| trial.observations.network.tcp_retransmitted).sum();
        let sent: u64 = trials.of(case).map(|trial| trial.observations.network.tcp_segments_sent).sum();
        let share = again as f64 / sent.max(1) as f64;
        let severity = if share >= DOUBTED_RETRANSMISSIONS { Severity::Doubt } else { Severity::Note };
        let text = format!("{again} of {sent} TCP segments were sent again ({})", percent(share));
        let effect = "on one machine nothing should get lost: a queue overflowed, or other traffic of this machine did";
        (share >= NOTED_RETRANSMISSIONS).then(|| of_case("retransmissions", severity, case, text, effect))
    };
    trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}

/// Local ports that the kernel gives out by itself, from its sysctl.
fn port_budget(evidence: &Evidence) -> Option<u64> {
    let range = evidence.trials.data.environment.as_ref()?.sysctl.get("net.ipv4.ip_local_port_range")?;
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (last >= first).then(|| last - first + 1)
}

/// Ports are scarce for one destination only, and each round has fresh ones: what counts are the connections to the
/// servers of one stack in one round.
pub fn time_wait(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let Some(budget) = port_budget(evidence) else { return vec![] };
    let mut opened: BTreeMap<(u32, usize), (u64, &str)> = BTreeMap::new();
    for plan in trials.cases() {
        for trial in trials.of(&plan.case) {
            let entry = opened.entry((trial.round, plan.stack)).or_insert((0, &plan.case));
            entry.0 += trial.observations.network.tcp_opened;
        }
    }
    let check = |(connections, case): (u64, &str)| {
        let text = format!("{connections} TCP connections in one round, of {budget} local ports");
        let effect = "each leaves a port in TIME_WAIT: finding a free one gets slower, then fails, and TCP looks worse \
                      the longer a round is; use fewer --blocks a round. Unix sockets have no such limit";
        (connections * 2 >= budget).then(|| of_case("time-wait", Severity::Doubt, case, text, effect))
    };
    opened.into_values().max().and_then(check).into_iter().collect()
}
