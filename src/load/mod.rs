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
    Protocol, TrialResult,
    failure::Failure,
    result::Proof,
    several::Several,
    spec::{Model, Reuse, Spec},
    wire::{Stage, TrialPhases},
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
    /// Stop after so many requests, if the phases are not over before.
    pub requests: Option<u64>,
    /// Compare all replies with the first one, unless something else is expected.
    pub learn: bool,
    /// Calibrate against a null server.
    pub headroom: bool,
}

/// The result of a load.
#[derive(Debug)]
pub struct Outcome {
    /// The load, with the expected reply filled in.
    pub spec: Spec,
    pub proof: Proof,
    pub result: TrialResult,
    /// Whether the load was interrupted.
    pub cut_short: bool,
    pub headroom: Headroom,
    /// What is not checked because the first replies differ, in words.
    pub unchecked: Option<String>,
    /// Whether each request has a connection of its own because the server closes it after each reply.
    pub server_closes: bool,
    /// Whether the server served only some of the connections.
    pub few_at_once: Option<AtOnce>,
}

/// What the same load achieved against a server that does nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Headroom {
    NotAsked,
    /// Why it is unknown.
    Unknown(String),
    Reached(Vec<Take>),
}

/// Requests per second of a short load on a server that does nothing, and of one on the endpoint right after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Take {
    pub null: f64,
    pub own: f64,
}

/// How many takes a calibration has.
const TAKES: usize = 5;

/// After correct replies, so many wrong ones in a row are none of the first requests' fault: the load counts them.
const TRIES: u32 = 16;

/// With so many requests, a take on the endpoint says how fast that is now.
const MANY: f64 = 50.0;

/// Drives the endpoint as long as `go_on` returns true. It is called every 50 ms, with what shows the load once that
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
    // Not where so much is sent at once that a connection would have several requests all the same.
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

/// How many requests are named of which something is not checked.
const UNCHECKED_SHOWN: usize = 3;

/// What the first replies teach, of each request by itself: the protocol with its expectations, what is not checked, and
/// whether the server closes each connection after a reply.
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

/// The same load, as a closed loop, against a null server on the same transport and against the endpoint in turn,
/// because one take of each is a matter of luck. An endpoint whose rate is given, or too low for a take, has the `rate`
/// of the load.
fn calibrate(spec: &Spec, case: &mut Case, rate: f64, mut go_on: impl FnMut() -> bool) -> Result<Vec<Take>, String> {
    let sandbox = Sandbox::create().map_err(|error| error.to_string())?;
    let guard = Guard::launch(&sandbox).map_err(|error| error.to_string())?;
    // Its one reply fits the first of several requests.
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
