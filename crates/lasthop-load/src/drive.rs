//! The serving side of `lasthop drive`: requests in, replies out, one JSON object a line.

use std::io::{self, BufRead, Write};

use lasthop_protocol::{
    spec::Spec,
    wire::{self, TrialPhases},
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
/// Those of [`wire::serve`].
pub fn serve(input: impl BufRead, output: impl Write) -> io::Result<()> {
    let mut speedometer = Speedometer::default();
    wire::serve(
        input,
        output,
        "lasthop",
        env!("CARGO_PKG_VERSION"),
        |spec| {
            let case = Case::prepare(&spec)?;
            let proof = case.proof().clone();
            Ok((case, proof))
        },
        |case, phases, stages| trial(case, &mut speedometer, phases, stages),
    )
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
