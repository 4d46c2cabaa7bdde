//! What else happened on the machine, and on which CPUs the processes ran.

use lasthop_model::{observation::MachineUsage, record::Placement};
use lasthop_protocol::spec::Transport;

use super::finding::{Evidence, of_case, of_run, percent};
use crate::{
    pairs::{Compared, Pairs},
    summary::{Check, Severity},
    under_load::UnderLoad,
};

/// By these a run says that the ratio may be another without what disturbed it.
pub const OF_ANOTHER_RATIO: [&str; 3] = ["foreign-load", "ratio-under-load", "steal"];

const STEAL_SHARE: f64 = 0.01;
const FOREIGN_SHARE: f64 = 0.05;

/// A share of the CPU time of all CPUs over all trials; `None` if the number of CPUs is unknown.
fn share(evidence: &Evidence, pick: fn(&MachineUsage) -> u64) -> Option<f64> {
    let trials = evidence.trials;
    let cpus = f64::from(trials.data.environment.as_ref()?.cpus);
    let spent: u64 = trials.every().map(|trial| pick(&trial.observations.machine)).sum();
    let wall: u64 = trials.every().map(|trial| trial.observations.machine.wall_ns).sum();
    Some(spent as f64 / (wall as f64 * cpus)).filter(|share| share.is_finite())
}

pub fn steal(evidence: &Evidence) -> Vec<Check> {
    let check = |share: f64| {
        let text = format!(
            "the hypervisor gave {} of the CPU time to others (steal)",
            percent(share)
        );
        let effect = "latency tails and throughput include waits of the virtual machine; ratios suffer less, because \
                      cases take turns, but can be off by more than their intervals: repeat the run";
        of_run("steal", Severity::Doubt, text, effect)
    };
    share(evidence, |usage| usage.steal_ns)
        .filter(|&share| share >= STEAL_SHARE)
        .map(check)
        .into_iter()
        .collect()
}

pub fn foreign_load(evidence: &Evidence) -> Vec<Check> {
    let check = |share: f64| {
        let text = format!("other processes used {} of the machine's CPU time", percent(share));
        let effect = "other processes compete with the driver and the services for cores and caches; without them the ratio may be another, and \
             nobody can compute it from this run: stop them and repeat";
        of_run("foreign-load", Severity::Doubt, text, effect)
    };
    share(evidence, |usage| usage.foreign_ns)
        .filter(|&share| share >= FOREIGN_SHARE)
        .map(check)
        .into_iter()
        .collect()
}

/// Comparisons whose disturbed blocks count less.
pub fn weighted(evidence: &Evidence) -> Vec<Check> {
    let declared = evidence.compared.iter().filter(|one| evidence.is_primary(one));
    let check = |one: &Compared| {
        let alike = one.unweighted?.exponential(evidence.trials.confidence());
        let text = format!(
            "the more the hypervisor and other processes took, the more its blocks scattered, so these count less; counted \
             alike, the ratio would be {:.3} ({:.3} to {:.3})",
            alike.estimate, alike.low, alike.high
        );
        let effect = "the interval is narrower, and nothing else: case and reference were disturbed by chance alike";
        Some(of_case("weighted", Severity::Note, &one.comparison.case, text, effect))
    };
    declared.filter_map(check).collect()
}

/// The ratio changes with what others take from the machine.
pub fn ratio_under_load(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let check = |pairs: Pairs| {
        let found = UnderLoad::of(&pairs)?;
        let there = found.at_least.exponential(trials.confidence());
        let cpus = |taken: f64| format!("{taken:.2} CPUs");
        let taken = if found.least > 0.0 {
            cpus(found.least)
        } else {
            "nothing".to_owned()
        };
        let text = format!(
            "{:.2} ({:.2} to {:.2}) while others took {taken} from the machine, {:.2} while they took {}, as on average",
            there.estimate,
            there.low,
            there.high,
            found.at_mean,
            cpus(found.mean)
        );
        let is_answer = !pairs.case.load.is_open() && found.answer(trials).is_some();
        let effect = match is_answer {
            true => "the ratio depends on what else runs; the report gives the one while nothing else ran",
            false => "the ratio depends on what else runs: stop it and repeat the run",
        };
        Some(of_case(
            "ratio-under-load",
            Severity::Doubt,
            &pairs.case.case,
            text,
            effect,
        ))
    };
    trials
        .cases()
        .iter()
        .filter_map(|plan| Pairs::of(trials, plan))
        .filter_map(check)
        .collect()
}

pub fn placement(evidence: &Evidence) -> Vec<Check> {
    let data = evidence.trials.data;
    let cpus = data.environment.as_ref().map(|environment| environment.cpus);
    let effect_same = "driver and services take turns on one CPU: nothing runs in parallel and no other core is woken, \
                       so ratios on several cores will differ";
    match (&data.header.settings.placement, cpus) {
        (Placement::Apart { driver, services }, _) => {
            let shared: Vec<String> = driver
                .iter()
                .filter(|cpu| services.contains(cpu))
                .map(u32::to_string)
                .collect();
            let text = format!(
                "driver and services were meant to be apart, but share CPU {}",
                shared.join(", ")
            );
            let effect = "the driver takes CPU time from the services under test";
            (!shared.is_empty()).then(|| of_run("placement", Severity::Doubt, text, effect))
        }
        (Placement::Same { cpu }, _) => Some(of_run(
            "placement",
            Severity::Note,
            format!("everything ran on CPU {cpu}"),
            effect_same,
        )),
        (Placement::Free, Some(1)) => Some(of_run(
            "placement",
            Severity::Note,
            "the machine has one CPU".to_owned(),
            effect_same,
        )),
        (Placement::Free, _) => None,
    }
    .into_iter()
    .collect()
}

/// The CPU that the driver and the services share whatever the scheduler does.
fn shared_cpu(evidence: &Evidence) -> Option<String> {
    let data = evidence.trials.data;
    match &data.header.settings.placement {
        Placement::Same { cpu } => Some(format!("CPU {cpu}")),
        Placement::Apart { driver, services } if driver.len() == 1 && driver == services => {
            Some(format!("CPU {}", driver[0]))
        }
        Placement::Free if data.environment.as_ref()?.cpus == 1 => Some("the machine's only CPU".to_owned()),
        _ => None,
    }
}

pub fn spins_in_vain(evidence: &Evidence) -> Vec<Check> {
    let Some(cpu) = shared_cpu(evidence) else {
        return Vec::new();
    };
    let effect = "who waits spins on the CPU that the other one needs to answer: the case shows that and not what \
                  shared memory can do with a CPU for each";
    let text = format!("client and server spin, and share {cpu}");
    let spinning = evidence
        .trials
        .cases()
        .iter()
        .filter(|plan| plan.transport == Transport::ShmSpin);
    spinning
        .map(|plan| of_case("spins-in-vain", Severity::Doubt, &plan.case, text.clone(), effect))
        .collect()
}

pub fn governor(evidence: &Evidence) -> Vec<Check> {
    let governor = evidence
        .trials
        .data
        .environment
        .as_ref()
        .and_then(|environment| environment.governor.as_deref());
    let check = |governor: &str| {
        let text = format!("the frequency governor is {governor}");
        let effect = "the CPU clock follows the load, so a request after an idle wait is slower; the governor `performance` prevents this";
        of_run("governor", Severity::Note, text, effect)
    };
    governor
        .filter(|governor| *governor != "performance")
        .map(check)
        .into_iter()
        .collect()
}
