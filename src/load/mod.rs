//! `lasthop load`: one endpoint, one slice of load, its figures. Without experiment, record or report.

mod figures;
mod terminal;

use lasthop_load::{
    TrialResult,
    engine::{Case, CaseError},
    reference,
    result::Proof,
    spec::{Model, Spec},
    wire::{Stage, TrialPhases},
};

pub use self::{
    figures::{Figures, schema},
    terminal::{Style, render},
};
use crate::service::{guard::Guard, null, sandbox::Sandbox};

/// Lengths of a calibration's phases.
const CALIBRATION: TrialPhases = TrialPhases { warm_up_ns: 30_000_000, measure_ns: 170_000_000 };

/// What is to be driven.
#[derive(Clone, Debug)]
pub struct Job {
    /// As it was typed.
    pub url: String,
    pub spec: Spec,
    pub phases: TrialPhases,
    /// Take the first reply as the reference of all others, where nothing else is said of it.
    pub learn: bool,
    /// Calibrate against a null server.
    pub headroom: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// With what is expected of each reply filled in.
    pub spec: Spec,
    pub proof: Proof,
    pub result: TrialResult,
    /// Whether the load was ended before its time.
    pub cut_short: bool,
    pub headroom: Headroom,
}

/// What the same load reached against a server that does nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Headroom {
    NotAsked,
    /// Why it is not known.
    Unknown(String),
    /// Requests per second.
    Reached(f64),
}

/// Drives the endpoint as long as `go_on` says yes, which is asked at least twice a second.
///
/// # Errors
/// By stage: the specification, the connect, or the answers before the load.
pub fn execute(job: &Job, mut go_on: impl FnMut() -> bool) -> Result<Outcome, CaseError> {
    let mut spec = job.spec.clone();
    spec.validate().map_err(|error| CaseError::new(Stage::Spec, error))?;
    if job.learn {
        let learnt = reference::learn(&spec);
        spec.protocol = learnt.map_err(|failure| CaseError::failed(Stage::Verify, &failure))?;
    }
    let mut case = Case::prepare(&spec)?;
    let mut cut_short = false;
    let result = case.watched_trial(job.phases, || {
        cut_short |= !go_on();
        !cut_short
    })?;
    let proof = case.proof().clone();
    drop(case);
    let headroom = match job.headroom && !cut_short && result.requests > 0 {
        true => calibrate(&spec).map_or_else(Headroom::Unknown, Headroom::Reached),
        false => Headroom::NotAsked,
    };
    Ok(Outcome { spec, proof, result, cut_short, headroom })
}

/// Requests per second of the same load, as a closed loop, against a null server on the same transport.
fn calibrate(spec: &Spec) -> Result<f64, String> {
    let sandbox = Sandbox::create().map_err(|error| error.to_string())?;
    let guard = Guard::launch(&sandbox).map_err(|error| error.to_string())?;
    let closed = Spec { model: Model::Closed, ..spec.clone() };
    let server = null::start(&guard, &sandbox, &closed, &[])?;
    let mut case = Case::prepare(&server.spec).map_err(|error| error.to_string())?;
    let result = case.trial(CALIBRATION).map_err(|error| error.to_string())?;
    Ok(result.throughput())
}
