//! Other activity on the machine, and the CPUs of the processes.

use lasthop_model::{
    quantity::joined,
    record::{CasePlan, MeasuredTrial, Placement},
};
use lasthop_trial::address::Transport;

use super::finding::{Evidence, Finding, doubt, note, percent};
use crate::trials::Trials;

const STEAL_SHARE: f64 = 0.01;
const FOREIGN_SHARE: f64 = 0.05;
const OWN_SHARE: f64 = 0.25;

/// Share of the CPU time of all CPUs over all trials; `None` if the number of CPUs is unknown.
fn share(evidence: &Evidence, pick: fn(&MeasuredTrial) -> i64) -> Option<f64> {
    let data = evidence.trials.data;
    let spent: i64 = data.trials().map(pick).sum();
    let wall: u64 = data.trials().map(|trial| trial.observations.machine.wall_ns).sum();
    let cpus = f64::from(data.environment.as_ref()?.cpus);
    Some(spent as f64 / (wall as f64 * cpus)).filter(|share| share.is_finite())
}

pub fn steal(evidence: &Evidence) -> Option<Finding> {
    let share = share(evidence, |trial| trial.observations.machine.steal_ns.cast_signed())
        .filter(|share| *share >= STEAL_SHARE)?;
    let text = format!(
        "the hypervisor gave {} of the CPU time to others (steal)",
        percent(share)
    );
    let effect = "latency tails and throughput include waits of the virtual machine; ratios suffer less, because cases \
                  take turns, but can be off by more than their intervals: repeat the run";
    Some(doubt(text, effect))
}

/// A packet filter that changed. Containers have rules of their own, which come and go with them.
pub fn packet_filter(evidence: &Evidence) -> Option<Finding> {
    let data = evidence.trials.data;
    let environment = data.environment.as_ref()?;
    let before = environment.packet_filter.as_ref()?;
    let after = data.end.as_ref()?.packet_filter.as_ref()?;
    let changed = before != after && environment.engine().is_none();
    let text = format!("what TCP on loopback passes was at the beginning: {before}; at the end: {after}");
    let effect = "TCP became dearer or cheaper during the run, and Unix sockets did not, so the ratios are of neither state: \
                  repeat the run";
    changed.then(|| doubt(text, effect))
}

/// Load of other programs, by the larger of two readings. Neither is complete: ticks miss short runs, and clocks miss
/// processes that came and went.
pub fn foreign_load(evidence: &Evidence) -> Option<Finding> {
    let by_ticks = share(evidence, |trial| trial.observations.machine.foreign_ns)?;
    let by_clocks = share(evidence, |trial| trial.observations.machine.others_ns.cast_signed())?;
    let share = by_ticks.max(by_clocks);
    if share < FOREIGN_SHARE {
        return None;
    }
    let text = format!("other processes used {} of the machine's CPU time", percent(share));
    let effect = "other processes compete with the driver and the services for cores and caches; without them the \
                  ratio may differ, and this run cannot say by how much: stop them and repeat";
    Some(doubt(text, effect))
}

/// CPU time of lasthop itself: the part that belongs to no known role. With a foreign driver, its owner is unknown.
pub fn own_load(evidence: &Evidence) -> Option<Finding> {
    if evidence.trials.cases().iter().any(|plan| !plan.load.is_own()) {
        return None;
    }
    let share = share(evidence, own_ns).filter(|share| *share >= OWN_SHARE)?;
    let text = format!("lasthop itself used {} of the machine's CPU time", percent(share));
    let effect = "it competes with the driver and the services for CPUs; without that the ratio may differ: measure \
                  fewer cases at a time (`--only`), and report it";
    Some(doubt(text, effect))
}

fn own_ns(trial: &MeasuredTrial) -> i64 {
    let observed = &trial.observations;
    let known = observed.services_cpu_ns() + trial.result.cost.cpu_ns() + observed.machine.softirq_ns;
    observed.machine.busy_ns.cast_signed() - known.cast_signed() - observed.machine.foreign_ns
}

pub fn placement(evidence: &Evidence) -> Option<Finding> {
    let data = evidence.trials.data;
    let same = |text| {
        let effect = "driver and services take turns on one CPU: nothing runs in parallel and no other core is woken, so \
                      ratios on several cores will differ";
        Some(note(text, effect))
    };
    match &data.header.settings.placement {
        Placement::Apart { driver, services } => {
            let shared = driver.iter().filter(|cpu| services.contains(cpu));
            let shared = joined(shared.map(u32::to_string), ", ");
            let text = format!("driver and services were meant to be apart, but share CPU {shared}");
            (!shared.is_empty()).then(|| doubt(text, "the driver takes CPU time from the services under test"))
        }
        Placement::Same { cpu } => same(format!("everything ran on CPU {cpu}")),
        Placement::Free if data.environment.as_ref()?.cpus == 1 => same("the machine has one CPU".to_owned()),
        Placement::Free | Placement::Compact { .. } => None,
    }
}

/// Spinning on a CPU that the driver and the services share under any schedule.
pub fn spins_in_vain(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let data = trials.data;
    let cpu = match &data.header.settings.placement {
        _ if plan.transport != Transport::ShmSpin => return None,
        Placement::Same { cpu } => format!("CPU {cpu}"),
        Placement::Apart { driver, services } if driver.len() == 1 && driver == services => {
            format!("CPU {}", driver[0])
        }
        Placement::Free if data.environment.as_ref()?.cpus == 1 => "the machine's only CPU".to_owned(),
        _ => return None,
    };
    let effect = "each end spins on the CPU that the other needs to answer, so the case does not show what shared \
                  memory can do with a CPU for each";
    Some(doubt(format!("client and server spin, and share {cpu}"), effect))
}

pub fn governor(evidence: &Evidence) -> Option<Finding> {
    let governor = evidence.trials.data.environment.as_ref()?.governor.as_deref()?;
    let text = format!("the frequency governor is {governor}");
    let effect = "the CPU clock follows the load, so a request after an idle wait is slower; the governor `performance` \
                  prevents this";
    (governor != "performance").then(|| note(text, effect))
}
