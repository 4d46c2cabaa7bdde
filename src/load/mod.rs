//! `lasthop load`: loads a single endpoint once and returns its figures. There is no experiment, record or report.

mod csv;
mod figures;
pub mod requests;
mod terminal;
mod variables;

use lasthop_load::{
    at_once::AtOnce,
    engine::{Case, CaseError, Onlooker},
    reference,
};
use lasthop_protocol::{
    Protocol,
    several::Several,
    spec::Spec,
    wire::{Stage, TrialPhases},
};
use lasthop_trial::{
    TrialResult,
    failure::Failure,
    options::{Model, Reuse},
    result::Proof,
};

pub use self::{
    csv::render as csv,
    figures::{Figures, schema},
    terminal::render,
};
use lasthop_stack::{guard::Guard, null, sandbox::Sandbox};

/// Lengths of a calibration's phases.
const CALIBRATION: TrialPhases = TrialPhases {
    warm_up_ns: 30_000_000,
    measure_ns: 170_000_000,
};

/// The load to generate.
#[derive(Clone, Debug)]
pub struct Job {
    /// The URL as typed, without passwords.
    pub url: String,
    pub spec: Spec,
    pub phases: TrialPhases,
    /// The most requests, if the phases do not end before.
    pub requests: Option<u64>,
    /// Compare all replies with the first one, unless another is expected.
    pub learn: bool,
    /// Calibrate against a null server.
    pub headroom: bool,
}

/// The result of a load.
#[derive(Debug)]
pub struct Outcome {
    /// The load, with the learned reply filled in.
    pub spec: Spec,
    pub proof: Proof,
    pub result: TrialResult,
    /// Whether the load was interrupted.
    pub cut_short: bool,
    pub headroom: Headroom,
    /// In words, the parts of replies that are not checked because the first replies differ.
    pub unchecked: Option<String>,
    /// Whether each request has its own connection because the server closes it after each reply.
    pub server_closes: bool,
    /// Whether the server served only some of the connections.
    pub few_at_once: Option<AtOnce>,
}

/// The rate of a similar load against a null server.
#[derive(Clone, Debug, PartialEq)]
pub enum Headroom {
    NotAsked,
    /// Why the headroom is unknown.
    Unknown(String),
    Reached(Vec<Take>),
}

/// Requests per second of a short load on a null server, and of a load on the endpoint right after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Take {
    pub null: f64,
    pub own: f64,
}

/// How many takes a calibration has.
const TAKES: usize = 5;

/// Attempts to get each correct reply before the load. A server may err now and then; the load counts those errors.
const TRIES: u32 = 16;

/// The fewest requests with which a take on the endpoint tells its present speed.
const MANY: f64 = 50.0;

/// Drives the endpoint as long as `go_on` returns true. Calls `go_on` every 50 ms, with an [`Onlooker`] once the load
/// has begun.
///
/// # Errors
/// By stage: the specification, the connect, or the replies before the load. If `go_on` returned false before
/// the load began, the error has no meaning.
pub fn execute(job: &Job, mut go_on: impl FnMut(Option<&Onlooker>) -> bool) -> Result<Outcome, CaseError> {
    let mut spec = job.spec.clone();
    spec.validate().map_err(|error| CaseError::new(Stage::Spec, error))?;
    let learnt = learn(&spec, job.learn, || go_on(None));
    let (protocol, unchecked, closes) = learnt.map_err(|failure| CaseError::failed(Stage::Verify, &failure))?;
    spec.protocol = protocol;
    let one_each = Spec {
        reuse: Reuse::PerRequest,
        ..spec.clone()
    };
    // Only if a connection then has a single request.
    let server_closes = closes && spec.pipeline == 1 && one_each.validate().is_ok();
    if server_closes {
        spec = one_each;
    }
    let mut case = Case::patient_prepare(&spec, TRIES, || go_on(None))?;
    let onlooker = case.onlooker();
    let mut cut_short = false;
    let result = case.counted_trial(job.phases, job.requests, || {
        cut_short |= !go_on(Some(&onlooker));
        !cut_short
    })?;
    let proof = case.proof().clone();
    let few_at_once = case.few_at_once(job.phases, &result).filter(|_| !cut_short);
    let headroom = if job.headroom && !cut_short && result.requests > 0 {
        calibrate(&spec, &mut case, result.throughput(), || go_on(None))
            .map_or_else(Headroom::Unknown, Headroom::Reached)
    } else {
        Headroom::NotAsked
    };
    Ok(Outcome {
        spec,
        proof,
        result,
        cut_short,
        headroom,
        unchecked,
        server_closes,
        few_at_once,
    })
}

/// The most requests named for unchecked parts.
const UNCHECKED_SHOWN: usize = 3;

/// Learns from the first replies to each request: the protocol with expected replies, the unchecked parts, and whether
/// the server closes each connection after a reply.
fn learn(spec: &Spec, learn: bool, go_on: impl FnMut() -> bool) -> Result<(Protocol, Option<String>, bool), Failure> {
    let several = spec.protocol.get::<Several>();
    if !learn {
        return Ok((spec.protocol.clone(), None, reference::closes(spec, go_on)?));
    }
    let Some(several) = several else {
        let reference = reference::learn(spec, go_on)?;
        return Ok((reference.protocol, reference.unchecked, reference.closes));
    };
    let (several, mut unchecked, closes) = reference::learn_each(spec, several, go_on)?;
    let more = unchecked.len().saturating_sub(UNCHECKED_SHOWN);
    unchecked.truncate(UNCHECKED_SHOWN);
    if more > 0 {
        unchecked.push(format!("and {more} more"));
    }
    let text = (!unchecked.is_empty()).then(|| unchecked.join("; "));
    Ok((several.into(), text, closes))
}

/// Loads a null server on the same transport and the endpoint in turn, in a closed loop, for several takes, because a
/// single take is a matter of luck. An open loop, or an endpoint too slow for a take, is not loaded again: `rate`, the
/// throughput of the load, stands for the endpoint.
fn calibrate(spec: &Spec, case: &mut Case, rate: f64, mut go_on: impl FnMut() -> bool) -> Result<Vec<Take>, String> {
    let sandbox = Sandbox::create().map_err(|error| error.to_string())?;
    let guard = Guard::launch(&sandbox).map_err(|error| error.to_string())?;
    // The null server's single reply fits the first of several requests.
    let several = spec.protocol.get::<Several>();
    let closed = Spec {
        model: Model::Closed,
        protocol: several
            .map_or(&spec.protocol, |several| &several.requests[0].protocol)
            .clone(),
        ..spec.clone()
    };
    let server = null::start(&guard, &sandbox, &closed, &[], None, &mut go_on)?;
    let mut null = Case::watched_prepare(&server.spec, &mut go_on).map_err(|error| error.to_string())?;
    let is_many = rate * CALIBRATION.measure_ns as f64 / 1e9 >= MANY;
    let takes_turns = is_many && spec.model == Model::Closed && spec.protocol.receipt().is_none();
    let mut trial = |case: &mut Case| -> Result<f64, String> {
        let result = case.watched_trial(CALIBRATION, &mut go_on);
        let result = result.map_err(|error| error.to_string())?;
        let rate = (result.requests > 0).then(|| result.throughput());
        rate.ok_or_else(|| "a take had no correct reply".to_owned())
    };
    let take = |_| -> Result<Take, String> {
        Ok(Take {
            null: trial(&mut null)?,
            own: if takes_turns { trial(case)? } else { rate },
        })
    };
    (0..TAKES).map(take).collect()
}
