//! Trials of a protocol without replies. The result is the server's count of received requests, read before and after
//! the load, over the time between the two readings.

use lasthop_protocol::wire::{CaseError, Stage, TrialPhases};
use lasthop_trial::{
    failure::Failure,
    result::{ErrorCount, OneWay, Phases, Proof, TrialResult},
};

use crate::receipt::{CounterReading, Receipts};

/// Requests that verify a case.
const PROBES: u64 = 2;

/// Sends two requests with `probe`. The server must count these and no others.
pub fn verified(receipts: &Receipts, probe: impl FnOnce() -> Result<Proof, CaseError>) -> Result<Proof, CaseError> {
    let failed = |failure| CaseError::failed(Stage::Verify, &failure);
    let before = receipts.read(|| true).map_err(failed)?;
    let proof = probe()?;
    let received = receipts.settle(before, PROBES, || true).map_err(failed)?.received;
    if received == PROBES {
        return Ok(proof);
    }
    let text =
        format!("the server counts {received} requests where {PROBES} were sent, and nobody else may send to it");
    Err(failed(Failure::content(text)))
}

/// Runs a trial in which `load` sends for the given time. During the reading after each load, warm-up or measurement,
/// the server takes the requests still queued.
pub fn trial<G: FnMut() -> bool>(
    receipts: &Receipts,
    phases: TrialPhases,
    mut go_on: G,
    mut load: impl FnMut(TrialPhases, &mut G) -> Result<TrialResult, CaseError>,
) -> Result<TrialResult, CaseError> {
    let failed = |failure| CaseError::failed(Stage::Trial, &failure);
    let mut sending = |measure_ns, go_on: &mut G| load(TrialPhases::without_warm_up(measure_ns), go_on);
    let before = receipts.read(&mut go_on).map_err(failed)?;
    // The warm-up is a load of its own, because the counter has to be read between it and the measurement.
    let warm = if phases.warm_up_ns > 0 {
        sending(phases.warm_up_ns, &mut go_on)?
    } else {
        TrialResult::default()
    };
    let opened = receipts.read(&mut go_on).map_err(failed)?;
    let mut measured = sending(phases.measure_ns, &mut go_on)?;
    let shut = receipts.read(&mut go_on).map_err(failed)?;
    let sent_total = warm.requests_total + measured.requests_total;
    let whole = receipts.settle(before, sent_total, &mut go_on).map_err(failed)?;
    // Dropped requests count, because a full buffer also drops those of other senders.
    if whole.accounted() > sent_total {
        let text = format!(
            "the server counts {} requests and the kernel dropped {} where {sent_total} were sent: somebody else sends to \
             it, too",
            whole.received,
            whole.dropped.unwrap_or(0)
        );
        return Err(failed(Failure::content(text)));
    }
    for (class, error) in warm.errors {
        let sum = measured.errors.entry(class).or_insert(ErrorCount {
            first: error.first,
            ..ErrorCount::default()
        });
        sum.count += error.count;
    }
    Ok(counted(measured, sent_total, [opened, shut, whole]))
}

fn counted(measured: TrialResult, sent_total: u64, [opened, shut, whole]: [CounterReading; 3]) -> TrialResult {
    let one_way = OneWay {
        sent: measured.requests_total,
        waited: measured.one_way.as_ref().map_or(0, |sending| sending.waited),
        sent_total,
        received_total: whole.received,
        dropped_total: whole.dropped,
    };
    TrialResult {
        elapsed_ns: (shut.at - opened.at).max(1),
        requests: shut.since(opened).received,
        requests_total: whole.received,
        // This half would be of the requests sent, not received.
        first_half: None,
        one_way: Some(Box::new(one_way)),
        phases: Phases {
            first_byte: None,
            ..measured.phases
        },
        ..measured
    }
}
