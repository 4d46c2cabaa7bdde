//! Local ports held in `TIME_WAIT`.
//!
//! A closed connection holds its local port in `TIME_WAIT` for a minute, on the side that closed first. Unless the
//! kernel may reuse such ports, it looks for a free port by trying one after another, first those of one parity. With
//! half of the ports held, each new connection tries about 14,000 of the usual 28,232 before it finds a free one. There
//! is no error until all are held, but throughput falls.

use std::collections::BTreeSet;

use lasthop_model::{
    observation::HeldPorts,
    record::{CasePlan, MeasuredTrial},
};
use lasthop_stats::mean;

use super::finding::{Finding, doubt, grouped};
use crate::trials::Trials;

/// Whether half of the ports are held: all of the parity that the kernel tries first.
fn is_trap(held: &HeldPorts) -> bool {
    !held.reused && held.held * 2 >= held.range
}

fn held(trial: &MeasuredTrial) -> Option<&HeldPorts> {
    trial.observations.held_ports.as_deref().filter(|held| is_trap(held))
}

pub fn time_wait(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let worst = trials
        .of_case(&plan.case)
        .filter_map(held)
        .max_by_key(|held| held.held)?;
    let place = match worst.roles.as_slice() {
        [] => String::new(),
        roles => format!(" of the network namespace of {}", roles.join(" and ")),
    };
    let text = format!(
        "TIME_WAIT held up to {} of {} local ports{place} towards {}{}",
        grouped(worst.held),
        grouped(worst.range),
        worst.server,
        fall(trials, plan).unwrap_or_default()
    );
    let effect = "with half of the ports held, each new connection tries up to half of them, one after the other, \
                      before it finds a free one. This gets slower without an error until no port is left, so the \
                      longer a round, the worse TCP looks. Set net.ipv4.tcp_tw_reuse=1 on the connecting side \
                      (`sysctls` of that container), use fewer --blocks per round, or keep connections alive";
    Some(doubt(text, effect))
}

/// The change in throughput, unless a rate sets it: trials that began before the ports were scarce, and later ones. A
/// trial finds the ports as the previous trial left them, in the same round with the same servers.
fn fall(trials: &Trials, plan: &CasePlan) -> Option<String> {
    if plan.load.is_open() {
        return None;
    }
    let plans = trials.cases().iter().filter(|other| other.stack == plan.stack);
    let cases: BTreeSet<&str> = plans.map(|plan| plan.case.as_str()).collect();
    let mut of_stack: Vec<&MeasuredTrial> = trials
        .every()
        .filter(|trial| cases.contains(trial.case.as_str()))
        .collect();
    of_stack.sort_by_key(|trial| (trial.round, trial.at_ns));
    let mut rates = [Vec::new(), Vec::new()];
    let mut before: Option<&MeasuredTrial> = None;
    for trial in of_stack {
        let short = before.is_some_and(|before| before.round == trial.round && held(before).is_some());
        if trial.case == plan.case && trial.result.requests > 0 {
            rates[usize::from(short)].push(trial.result.throughput());
        }
        before = Some(trial);
    }
    let [before, after] = rates.map(mean::of);
    Some(format!(
        "; {:.0} requests/s before half of them were held, {:.0} after",
        before?, after?
    ))
}
