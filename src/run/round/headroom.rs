//! How much more the load generator could do: each load of the run once, briefly, against a server that does nothing.

use std::{collections::HashMap, time::Duration};

use indexmap::IndexMap;
use lasthop_load::{
    spec::{Address, Endpoint, Engine, Model, Spec},
    wire::TrialPhases,
};

use super::{OWN, Round};
use crate::{
    record::schema::CaseProof,
    run::{Runner, placement},
    service::null,
};

/// One calibration takes these, and about as much for starting its server.
const PHASES: TrialPhases = TrialPhases { warm_up_ns: 20_000_000, measure_ns: 100_000_000 };
/// Name of the calibration among the driver's cases.
const CASE: &str = "headroom";

/// Requests per second by case, in the first round. Loads that differ in nothing but the address share a calibration.
/// A case without one (a foreign driver, lasthop's own protocols, a null server that does not come up) is left out.
pub fn calibrate(
    round: &mut Round,
    runner: &Runner<'_>,
    proofs: &IndexMap<String, CaseProof>,
) -> IndexMap<String, f64> {
    if !runner.job.settings.headroom || !runner.is_first_round() {
        return IndexMap::new();
    }
    let mut known: HashMap<String, Option<f64>> = HashMap::new();
    let mut found = IndexMap::new();
    for (index, case) in runner.job.plan.cases.iter().enumerate() {
        let Some(proof) = proofs.get(&case.case).filter(|_| round.ready[index].as_deref() == Some(OWN)) else {
            continue;
        };
        if runner.interrupted() || !null::is_possible(&proof.spec) {
            continue;
        }
        let closed = closed(&proof.spec);
        let reached = *known.entry(kind(&closed)).or_insert_with(|| one(round, runner, &closed));
        found.extend(reached.map(|rate| (case.case.clone(), rate)));
    }
    found
}

/// How much the generator could do is asked, also where a case has a rate: always a closed loop, by the engine of the case.
fn closed(spec: &Spec) -> Spec {
    let engine = if spec.model == Model::Closed { spec.engine } else { Engine::Epoll };
    Spec { model: Model::Closed, engine, ..spec.clone() }
}

/// The load without its address.
fn kind(spec: &Spec) -> String {
    let address = match &spec.endpoint.address {
        Address::Unix(_) => Address::Unix("/".into()),
        Address::Abstract(_) => Address::Abstract(String::new()),
        Address::Tcp(address) => Address::Tcp((address.ip(), 0).into()),
    };
    let endpoint = Endpoint { address, ..spec.endpoint.clone() };
    format!("{:?}", Spec { endpoint, ..spec.clone() })
}

fn one(round: &mut Round, runner: &Runner<'_>, spec: &Spec) -> Option<f64> {
    let (_, cpus) = placement::cpus(&runner.job.settings.placement);
    let server = null::start(runner.guard, runner.sandbox, spec, &cpus.unwrap_or_default()).ok()?;
    let running = round.drivers.get_mut(OWN)?;
    let prepared = running.prepare(runner.away.as_ref(), CASE, &server.spec);
    let result = prepared.and_then(|_| running.driver.trial(CASE, PHASES));
    // The driver closes its connections before their server goes.
    let _ = running.driver.close(CASE);
    let _ = server.process.stop(libc::SIGTERM, Duration::from_secs(1));
    Some(result.ok()?.throughput())
}
