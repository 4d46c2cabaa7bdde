//! Runs a tool instead of `lasthop drive`, with the same lines in and out.
//!
//! Before a tool drives a case, lasthop's own engine opens its connections, verifies its replies and proves its
//! transport, because tools check little more than a status. The caller provides that engine.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
    path::PathBuf,
    time::Duration,
};

use lasthop_model::driver::ToolChoice;
use lasthop_protocol::{
    spec::Spec,
    wire::{self, CaseError, Stage, TrialPhases},
};
use lasthop_trial::{
    TrialResult,
    options::Engine,
    result::{ErrorCount, Proof},
};
use serde::{Deserialize, Serialize};

use super::{Order, Reading, Tool, named, process};

/// Time for a tool beyond the length of a trial: its start, and one hanging request.
const GRACE: Duration = Duration::from_secs(15);

/// A tool to run as a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    pub choice: ToolChoice,
    pub program: PathBuf,
    pub version: String,
    /// A private folder.
    pub scratch: PathBuf,
}

/// Verifies the replies of a case. Returns the proof of its transport, and correct replies per second, which give the
/// number of requests for a tool that stops by count.
pub type Gauge<'a> = &'a dyn Fn(&Spec) -> Result<(Proof, f64), CaseError>;

/// A prepared case.
struct Prepared {
    spec: Spec,
    /// Correct replies per second so far.
    rate: f64,
}

impl Foreign {
    /// Serves until the input ends.
    ///
    /// # Errors
    ///
    /// Those of [`wire::serve`].
    pub fn serve(&self, input: impl BufRead, output: impl Write, gauge: Gauge<'_>) -> io::Result<()> {
        wire::serve(
            input,
            output,
            &self.choice.tool,
            &self.version,
            |spec| self.prepare(spec, gauge),
            |prepared, phases, _| self.trial(prepared, phases),
        )
    }

    fn tool(&self) -> Result<&'static Tool, CaseError> {
        named(&self.choice.tool).map_err(|cause| CaseError::new(Stage::Spec, cause))
    }

    /// Checks that the tool can drive the case, and that the replies are right.
    fn prepare(&self, spec: Spec, gauge: Gauge<'_>) -> Result<(Prepared, Proof), CaseError> {
        let order = Order {
            spec: &spec,
            seconds: 1,
            count: 1,
            flags: &self.choice.flags,
            scratch: &self.scratch,
        };
        self.tool()?
            .arguments(&order)
            .map_err(|cause| CaseError::new(Stage::Spec, cause))?;
        let (proof, rate) = gauge(&spec)?;
        Ok((Prepared { rate, spec }, proof))
    }

    /// Runs a trial. It includes the warm-up, because none of these tools excludes it.
    fn trial(&self, prepared: &mut Prepared, phases: TrialPhases) -> Result<TrialResult, CaseError> {
        let seconds = Duration::from_nanos(phases.measure_ns).as_secs().max(1);
        let count = self
            .choice
            .count
            .unwrap_or(((prepared.rate * seconds as f64) as u64).max(1));
        let spec = &prepared.spec;
        let order = Order {
            spec,
            seconds,
            count,
            flags: &self.choice.flags,
            scratch: &self.scratch,
        };
        let result = run(self.tool()?, &self.program, &order).map_err(|cause| CaseError::new(Stage::Trial, cause))?;
        if result.requests > 0 {
            // From now on the tool's own speed: the gauge measured lasthop's engine.
            prepared.rate = result.throughput();
        }
        Ok(result)
    }
}

/// Runs one trial with a tool.
fn run(tool: &Tool, program: &std::path::Path, order: &Order<'_>) -> Result<TrialResult, String> {
    let arguments = tool.arguments(order)?;
    let limit = Duration::from_secs(order.seconds) + GRACE;
    let name = tool.name;
    let runs = tool.runs(order)?;
    let environment = tool.environment(order)?;
    let once = || {
        let ended = process::run(program, &arguments, &environment, order.scratch, limit);
        ended.map_err(|error| format!("{name}: {error}"))
    };
    let mut total = once()?;
    for _ in 1..runs {
        if total.elapsed_ns > limit.as_nanos() as u64 || total.code != 0 {
            return Err(format!("{name}: {runs} runs did not end within {limit:?}"));
        }
        let next = once()?;
        total.output.push_str(&next.output);
        total.code = next.code;
        total.elapsed_ns += next.elapsed_ns;
        total.cost += next.cost;
    }
    let last = || {
        total
            .output
            .trim_end()
            .lines()
            .last()
            .unwrap_or("nothing")
            .chars()
            .take(160)
            .collect::<String>()
    };
    if total.code != 0 {
        return Err(format!(
            "{name} ended with status {}; its last line: {}",
            total.code,
            last()
        ));
    }
    let mut reading = tool
        .read(&total.output, order, total.elapsed_ns)
        .map_err(|misread| format!("{name}: {misread}"))?;
    reading.reported.tool = name.to_owned();
    Ok(TrialResult {
        cost: total.cost,
        ..result(reading, total.elapsed_ns, order.spec)
    })
}

fn result(reading: Reading, ran_ns: u64, spec: &Spec) -> TrialResult {
    let mut errors = BTreeMap::new();
    for (class, count, first) in reading.errors.into_iter().filter(|(_, count, _)| *count > 0) {
        let empty = ErrorCount {
            first,
            ..ErrorCount::default()
        };
        errors.entry(class).or_insert(empty).count += count;
    }
    // By the tool's own clock, which excludes its start.
    let elapsed = (reading.requests as f64 / reading.rate * 1e9) as u64;
    // A tool without a reply reports no rate.
    let elapsed = if elapsed > 0 { elapsed } else { ran_ns };
    let engine = if spec.connections > 1 {
        Engine::Epoll
    } else {
        Engine::Blocking
    };
    TrialResult {
        requests: reading.requests,
        requests_total: reading.requests,
        bytes_received: reading.bytes,
        errors,
        connections_opened: reading.connections,
        ran_ns: Some(ran_ns),
        reported: Some(Box::new(reading.reported)),
        ..TrialResult::empty(engine, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::spec;

    #[test]
    fn what_a_tool_cannot_do_is_refused_before_anything_is_opened() {
        let foreign = Foreign {
            choice: ToolChoice::plain("wrk"),
            program: "/nonexistent".into(),
            version: "0".into(),
            scratch: "/nonexistent".into(),
        };
        let refused = |spec| foreign.prepare(spec, &|_| panic!("it was opened")).err().unwrap();
        let CaseError { stage, cause, .. } = refused(spec("postgres://u@127.0.0.1/d", &json!({})));
        assert_eq!(
            (stage, cause.as_str()),
            (Stage::Spec, "wrk speaks HTTP, but the case's protocol is PostgreSQL")
        );
        let unix = refused(spec("http+unix:/x:/", &json!({})));
        assert!(unix.cause.contains("cannot open a Unix socket"), "{unix}");
    }
}
