//! The serving side of `lasthop drive`: requests in, replies out, one JSON object a line.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

use lasthop_protocol::{
    spec::Spec,
    wire::{self, Reply, Request, Stage, TrialPhases},
};
use lasthop_trial::{
    TrialResult,
    options::LoadStage,
    result::{Proof, Speed},
};

use crate::{
    engine::{Case, CaseError},
    speed::Speedometer,
};

/// Serves until the input ends.
///
/// # Errors
///
/// A line cannot be read, understood or written. A failed case is a reply, not an error.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let hello = Reply::Hello {
        protocol: wire::VERSION,
        driver: "lasthop".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    wire::write_line(&mut output, &hello)?;
    let mut cases = BTreeMap::new();
    let mut speedometer = Speedometer::default();
    while let Some(request) = wire::read_line(&mut input)? {
        wire::write_line(&mut output, &answer(&mut cases, &mut speedometer, request))?;
    }
    Ok(())
}

fn answer(cases: &mut BTreeMap<String, Case>, speedometer: &mut Speedometer, request: Request) -> Reply {
    match request {
        Request::Prepare { case, spec } => {
            // Preparing a case again closes its old connections first.
            cases.remove(&case);
            match Case::prepare(&spec) {
                Ok(prepared) => {
                    let proof = prepared.proof().clone();
                    cases.insert(case.clone(), prepared);
                    Reply::Prepared { case, proof }
                }
                Err(error) => failed(case, error),
            }
        }
        Request::Trial { case, phases, stages } => {
            let result = match cases.get_mut(&case) {
                Some(prepared) => trial(prepared, speedometer, phases, &stages),
                None => Err(CaseError::new(Stage::Trial, format!("no case `{case}` is prepared"))),
            };
            match result {
                Ok(result) => Reply::Trial {
                    case,
                    result: Box::new(result),
                },
                Err(error) => failed(case, error),
            }
        }
        Request::Close { case } => {
            cases.remove(&case);
            Reply::Closed { case }
        }
    }
}

/// Runs a short trial for a driver that does not verify replies itself. Returns the proof of the connection and correct
/// replies per second.
pub fn gauge(spec: &Spec) -> Result<(Proof, f64), CaseError> {
    const PHASES: TrialPhases = TrialPhases {
        warm_up_ns: 10_000_000,
        measure_ns: 50_000_000,
    };
    let mut case = Case::prepare(spec)?;
    let rate = case.trial(PHASES)?.throughput();
    Ok((case.proof().clone(), rate))
}

/// Runs a trial between two readings of the CPU's speed.
fn trial(
    case: &mut Case,
    speedometer: &mut Speedometer,
    phases: TrialPhases,
    stages: &[LoadStage],
) -> Result<TrialResult, CaseError> {
    let before = speedometer.recent();
    let result = if stages.is_empty() {
        case.trial(phases)?
    } else {
        case.staged(stages)?
    };
    Ok(TrialResult {
        speed: Some(Speed {
            before,
            after: speedometer.read(),
        }),
        ..result
    })
}

fn failed(case: String, error: CaseError) -> Reply {
    Reply::Failed {
        case,
        stage: error.stage,
        cause: error.cause,
    }
}
