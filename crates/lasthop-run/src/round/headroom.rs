//! Measures the headroom of the load generator: runs each load of the run once, briefly, against a null server.

use std::{collections::HashMap, sync::Arc, time::Duration};

use indexmap::IndexMap;
use lasthop_model::record::{CaseProof, Placement};
use lasthop_plan::settings::MOST_THREADS;
use lasthop_protocol::{spec::Spec, wire::TrialPhases};
use lasthop_stack::null;
use lasthop_system::cpus;
use lasthop_trial::{
    address::Endpoint,
    options::{Engine, Model},
};

use super::{OWN, Round};
use crate::{RunError, Runner};

/// Phases of a calibration. Starting the null server takes about as long again.
const PHASES: TrialPhases = TrialPhases {
    warm_up_ns: 20_000_000,
    measure_ns: 100_000_000,
};
/// Name of the calibration among the driver's cases.
const CASE: &str = "headroom";

/// The least headroom. Below it, the generator may limit a case.
const ENOUGH: f64 = 1.5;

/// Requests per second against a null server by case, in the first round. If CPUs are free, the driver gets more
/// threads until each case has [`ENOUGH`] headroom: the same number for all, because they are compared.
pub fn calibrate(
    round: &mut Round,
    runner: &mut Runner<'_>,
    proofs: &mut IndexMap<String, Arc<CaseProof>>,
) -> Result<IndexMap<String, f64>, RunError> {
    if !runner.job.settings.headroom || !runner.is_first_round() {
        return Ok(IndexMap::new());
    }
    loop {
        let found = reached(round, runner, proofs);
        if runner.is_cut_short() || !is_at_limit(round, runner, proofs, &found) {
            return Ok(found);
        }
        runner.threads = (runner.threads * 2).min(most_threads(runner));
        round.reopen(runner, proofs)?;
    }
}

/// The most threads that lasthop's own driver takes by default.
fn most_threads(runner: &Runner<'_>) -> u32 {
    match &runner.job.settings.placement {
        Placement::Compact { driver, .. } => *driver,
        // If the scheduler places running servers, three of four CPUs are theirs.
        Placement::Free if runner.job.plan.given.is_some() => (cpus::allowed().len() as u32 / 4).clamp(1, MOST_THREADS),
        Placement::Free | Placement::Apart { .. } | Placement::Same { .. } => 1,
    }
}

/// Whether a case needs more threads and can use them.
fn is_at_limit(
    round: &mut Round,
    runner: &Runner<'_>,
    proofs: &IndexMap<String, Arc<CaseProof>>,
    headroom: &IndexMap<String, f64>,
) -> bool {
    if runner.threads >= most_threads(runner) {
        return false;
    }
    let mut cases = headroom.iter().filter(|(case, _)| {
        let load = proofs.get(*case).map(|proof| &proof.spec);
        load.is_some_and(|spec| spec.threads < spec.connections && spec.threads <= runner.threads)
    });
    let Some(running) = round.drivers.get_mut(OWN) else {
        return false;
    };
    cases.any(|(case, most)| {
        let trial = running.driver.trial(case, PHASES);
        trial.is_ok_and(|result| result.throughput() * ENOUGH > *most)
    })
}

/// Requests per second against a null server, by case. Loads that differ only in their address share a calibration.
/// Cases without a null server (a classic tool, lasthop's own protocols, a failed start) are left out.
fn reached(round: &mut Round, runner: &Runner<'_>, proofs: &IndexMap<String, Arc<CaseProof>>) -> IndexMap<String, f64> {
    let mut known: HashMap<String, Option<f64>> = HashMap::new();
    let mut found = IndexMap::new();
    for (index, case) in runner.job.plan.cases.iter().enumerate() {
        let Some(proof) = proofs
            .get(&case.case)
            .filter(|_| round.ready[index].as_ref().is_some_and(|ready| ready.driver == OWN))
        else {
            continue;
        };
        if runner.is_cut_short() || !null::is_possible(&proof.spec) {
            continue;
        }
        let closed = closed(&proof.spec);
        let reached = *known
            .entry(kind(&closed))
            .or_insert_with(|| one(round, runner, &closed));
        found.extend(reached.map(|rate| (case.case.clone(), rate)));
    }
    found
}

/// The closed loop of a load, even if it has a rate: the maximum is measured.
fn closed(spec: &Spec) -> Spec {
    let engine = if spec.model == Model::Closed {
        spec.engine
    } else {
        Engine::Epoll
    };
    Spec {
        model: Model::Closed,
        engine,
        ..spec.clone()
    }
}

/// The load without its address.
fn kind(spec: &Spec) -> String {
    let address = spec.endpoint.address.at("", "", 0);
    let endpoint = Endpoint {
        address,
        ..spec.endpoint.clone()
    };
    format!(
        "{:?}",
        Spec {
            endpoint,
            ..spec.clone()
        }
    )
}

fn one(round: &mut Round, runner: &Runner<'_>, spec: &Spec) -> Option<f64> {
    // More threads than the services have CPUs would wait for each other.
    let cpus = if spec.threads > 1 { &[] } else { runner.cpus().services };
    let driver = runner.driver_account();
    let go_on = || !runner.is_cut_short();
    let server = null::start(runner.guard, runner.sandbox, spec, cpus, driver.as_ref(), go_on).ok()?;
    let running = round.drivers.get_mut(OWN)?;
    let prepared = running.prepare(runner.driver_place.as_ref(), CASE, &server.spec);
    let result = prepared.and_then(|_| running.driver.trial(CASE, PHASES));
    // Close the driver's connections before their server ends.
    let _ = running.driver.close(CASE);
    let _ = server.process.stop(libc::SIGTERM, Duration::from_secs(1));
    Some(result.ok()?.throughput())
}
