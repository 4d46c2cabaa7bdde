//! What else happened on the machine, and on which CPUs the processes ran.

use lasthop_model::{
    observation::MachineUsage,
    quantity::joined,
    record::{CasePlan, Placement},
};
use lasthop_protocol::spec::Transport;

use super::finding::{Evidence, Finding, doubt, note, percent};
use crate::{
    pairs::{Compared, Pairs},
    trials::Trials,
    under_load::UnderLoad,
};

const STEAL_SHARE: f64 = 0.01;
const FOREIGN_SHARE: f64 = 0.05;

/// A share of the CPU time of all CPUs over all trials; `None` if the number of CPUs is unknown.
fn share(evidence: &Evidence, pick: fn(&MachineUsage) -> u64) -> Option<f64> {
    let data = evidence.trials.data;
    let all = || data.trials().map(|trial| &trial.observations.machine);
    let spent: u64 = all().map(pick).sum();
    let wall: u64 = all().map(|usage| usage.wall_ns).sum();
    let cpus = f64::from(data.environment.as_ref()?.cpus);
    Some(spent as f64 / (wall as f64 * cpus)).filter(|share| share.is_finite())
}

pub fn steal(evidence: &Evidence) -> Option<Finding> {
    let share = share(evidence, |usage| usage.steal_ns).filter(|share| *share >= STEAL_SHARE)?;
    let text = format!(
        "the hypervisor gave {} of the CPU time to others (steal)",
        percent(share)
    );
    let effect = "latency tails and throughput include waits of the virtual machine; ratios suffer less, because cases \
                  take turns, but can be off by more than their intervals: repeat the run";
    Some(doubt(text, effect))
}

pub fn foreign_load(evidence: &Evidence) -> Option<Finding> {
    let share = share(evidence, |usage| usage.foreign_ns).filter(|share| *share >= FOREIGN_SHARE)?;
    let text = format!("other processes used {} of the machine's CPU time", percent(share));
    let effect = "other processes compete with the driver and the services for cores and caches; without them the ratio \
                  may be another, and nobody can compute it from this run: stop them and repeat";
    Some(doubt(text, effect))
}

/// Comparisons whose disturbed blocks count less.
pub fn weighted(evidence: &Evidence, one: &Compared) -> Option<Finding> {
    if !evidence.is_primary(one) {
        return None;
    }
    let alike = one.unweighted?.exponential(evidence.trials.confidence());
    let text = format!(
        "the more the hypervisor and other processes took, the more its blocks scattered, so these count less; counted \
         alike, the ratio would be {:.3} ({:.3} to {:.3})",
        alike.estimate, alike.low, alike.high
    );
    let effect = "the interval is narrower, and nothing else: case and reference were disturbed by chance alike";
    Some(note(text, effect))
}

/// The ratio changes with what others take from the machine.
pub fn ratio_under_load(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let found = UnderLoad::of(&Pairs::of(trials, plan)?)?;
    let there = found.at_least.exponential(trials.confidence());
    let taken = if found.least > 0.0 {
        format!("{:.2} CPUs", found.least)
    } else {
        "nothing".to_owned()
    };
    let text = format!(
        "{:.2} ({:.2} to {:.2}) while others took {taken} from the machine, {:.2} while they took {:.2} CPUs, as on \
         average",
        there.estimate, there.low, there.high, found.at_mean, found.mean
    );
    let effect = if !plan.load.is_open() && found.answer(trials).is_some() {
        "the ratio depends on what else runs; the report gives the one while nothing else ran"
    } else {
        "the ratio depends on what else runs: stop it and repeat the run"
    };
    Some(doubt(text, effect))
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
        Placement::Free => None,
    }
}

/// Who waits spins on the CPU that the driver and the services share whatever the scheduler does.
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
    let effect = "who waits spins on the CPU that the other one needs to answer: the case shows that and not what \
                  shared memory can do with a CPU for each";
    Some(doubt(format!("client and server spin, and share {cpu}"), effect))
}

pub fn governor(evidence: &Evidence) -> Option<Finding> {
    let governor = evidence.trials.data.environment.as_ref()?.governor.as_deref()?;
    let text = format!("the frequency governor is {governor}");
    let effect = "the CPU clock follows the load, so a request after an idle wait is slower; the governor `performance` \
                  prevents this";
    (governor != "performance").then(|| note(text, effect))
}
