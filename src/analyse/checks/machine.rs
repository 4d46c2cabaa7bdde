//! What else happened on the machine, and how the processes were placed.

use super::{Evidence, of_run, percent};
use crate::{
    analyse::summary::{Check, Severity},
    observe::MachineUsage,
    record::schema::Placement,
};

const STEAL_SHARE: f64 = 0.01;
const FOREIGN_SHARE: f64 = 0.05;

/// A share of the CPU time of all CPUs over all trials; `None` when the number of CPUs is not known.
fn share(evidence: &Evidence, pick: fn(&MachineUsage) -> u64) -> Option<f64> {
    let trials = evidence.trials;
    let cpus = f64::from(trials.data.environment.as_ref()?.cpus);
    let spent: u64 = trials.every().map(|trial| pick(&trial.observations.machine)).sum();
    let wall: u64 = trials.every().map(|trial| trial.observations.machine.wall_ns).sum();
    Some(spent as f64 / (wall as f64 * cpus)).filter(|share| share.is_finite())
}

pub fn steal(evidence: &Evidence) -> Vec<Check> {
    let check = |share: f64| {
        let text = format!("the hypervisor gave {} of the CPU time to others", percent(share));
        let effect = "latency tails and throughput contain waits of the virtual machine; ratios suffer less, as cases \
                      take turns";
        of_run("steal", Severity::Doubt, text, effect)
    };
    share(evidence, |usage| usage.steal_ns).filter(|&share| share >= STEAL_SHARE).map(check).into_iter().collect()
}

pub fn foreign_load(evidence: &Evidence) -> Vec<Check> {
    let check = |share: f64| {
        let text = format!("other processes used {} of the machine's CPU time", percent(share));
        let effect = "they compete with driver and services for cores and caches; stop them or expect wider intervals";
        of_run("foreign-load", Severity::Doubt, text, effect)
    };
    share(evidence, |usage| usage.foreign_ns).filter(|&share| share >= FOREIGN_SHARE).map(check).into_iter().collect()
}

pub fn placement(evidence: &Evidence) -> Vec<Check> {
    let data = evidence.trials.data;
    let cpus = data.environment.as_ref().map(|environment| environment.cpus);
    let effect_same = "driver and services take turns on one CPU: waking costs no other core, nothing runs in parallel; \
                       ratios between cores differ";
    match (&data.header.settings.placement, cpus) {
        (Placement::Apart { driver, services }, _) => {
            let shared: Vec<String> = driver.iter().filter(|cpu| services.contains(cpu)).map(u32::to_string).collect();
            let text = format!("driver and services were to be apart and share CPU {}", shared.join(", "));
            let effect = "the driver takes time from the services under test";
            (!shared.is_empty()).then(|| of_run("placement", Severity::Doubt, text, effect))
        }
        (Placement::Same { cpu }, _) => {
            Some(of_run("placement", Severity::Note, format!("everything ran on CPU {cpu}"), effect_same))
        }
        (Placement::Free, Some(1)) => {
            Some(of_run("placement", Severity::Note, "the machine has one CPU".to_owned(), effect_same))
        }
        (Placement::Free, _) => None,
    }
    .into_iter()
    .collect()
}

pub fn governor(evidence: &Evidence) -> Vec<Check> {
    let governor = evidence.trials.data.environment.as_ref().and_then(|environment| environment.governor.as_deref());
    let check = |governor: &str| {
        let text = format!("the frequency governor is {governor}");
        let effect =
            "the clock follows the load, so that idle waits make the next request slower; `performance` keeps it";
        of_run("governor", Severity::Note, text, effect)
    };
    governor.filter(|governor| *governor != "performance").map(check).into_iter().collect()
}
