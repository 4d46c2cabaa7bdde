//! The protocol of `lasthop drive`: one JSON object per line, requests on standard input, replies on standard output.
//!
//! The driver first writes [`Reply::Hello`]. After that every request gets exactly one reply, in order. End of input
//! ends the driver. A foreign driver (a script of an experiment) uses the same lines: `docs/your-own-driver.md`.
//!
//! History of [`VERSION`]:
//! - 1: prepare, trial, close.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

use lasthop_trial::{
    failure::Failure,
    options::LoadStage,
    result::{ErrorClass, Proof, TrialResult},
};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::spec::Spec;

/// Increases with every change that an older peer cannot understand.
pub const VERSION: u32 = 1;

/// A request of lasthop to a driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Open the case's connections and verify two replies; the connections stay open until `Close`.
    Prepare {
        /// A name for later requests. Several cases may be prepared at once.
        case: String,
        spec: Box<Spec>,
    },
    /// One slice of load on a prepared case. Stages, if any, pace an open loop; then errors are results, and there is
    /// no warm-up.
    Trial {
        case: String,
        phases: TrialPhases,
        /// Stages of a run with overload, which only lasthop's own driver supports.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stages: Vec<LoadStage>,
    },
    /// Close the case's connections.
    Close { case: String },
}

/// Lengths of the phases of a trial: load that is not counted, then load that is. The drain lasts until the outstanding
/// replies have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialPhases {
    pub warm_up_ns: u64,
    pub measure_ns: u64,
}

impl TrialPhases {
    pub const fn without_warm_up(measure_ns: u64) -> Self {
        Self {
            warm_up_ns: 0,
            measure_ns,
        }
    }
}

/// A driver's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The driver's first line.
    Hello {
        /// Version of the line protocol: 1.
        protocol: u32,
        /// The driver's name.
        driver: String,
        version: String,
    },
    /// The connections are open, and two replies were correct.
    Prepared { case: String, proof: Proof },
    /// The result of the slice of load.
    Trial { case: String, result: Box<TrialResult> },
    /// The connections are closed.
    Closed { case: String },
    /// The request failed; the driver goes on.
    Failed {
        case: String,
        stage: Stage,
        /// The cause, in words; the report shows it.
        cause: String,
    },
}

/// Where a case failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The specification cannot be carried out.
    Spec,
    Connect,
    /// The replies before the measurement were wrong.
    Verify,
    Trial,
}

/// The error of a case that cannot be driven, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct CaseError {
    pub stage: Stage,
    /// What happened, as a lower-case fragment.
    pub cause: String,
    /// The class of the error, if a connection or a reply failed.
    pub class: Option<ErrorClass>,
}

impl CaseError {
    /// An error without a class.
    pub fn new(stage: Stage, cause: impl ToString) -> Self {
        Self {
            stage,
            cause: cause.to_string(),
            class: None,
        }
    }

    /// The error of a failed connection or reply.
    pub fn failed(stage: Stage, failure: &Failure) -> Self {
        Self {
            stage,
            cause: failure.to_string(),
            class: Some(failure.class),
        }
    }
}

/// A line between lasthop and a driver, in either direction.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
enum Line {
    /// A line that lasthop writes and the driver reads.
    Request(Request),
    /// A line that the driver writes: `hello` first, then a reply to each request, in order.
    Reply(Reply),
}

pub fn schema() -> Value {
    schema_for!(Line).to_value()
}

/// The serving side of a driver: answers requests until the input ends. `prepare` opens the connections of a case and
/// proves them, `trial` loads it; a case is closed when it is dropped.
///
/// # Errors
///
/// A line cannot be read, understood or written. A failed case is a reply, not an error.
pub fn serve<C>(
    mut input: impl BufRead,
    mut output: impl Write,
    driver: &str,
    version: &str,
    prepare: impl Fn(Spec) -> Result<(C, Proof), CaseError>,
    mut trial: impl FnMut(&mut C, TrialPhases, &[LoadStage]) -> Result<TrialResult, CaseError>,
) -> io::Result<()> {
    let hello = Reply::Hello {
        protocol: VERSION,
        driver: driver.to_owned(),
        version: version.to_owned(),
    };
    write_line(&mut output, &hello)?;
    let mut cases = BTreeMap::new();
    while let Some(request) = read_line(&mut input)? {
        let reply = match request {
            Request::Prepare { case, spec } => {
                // Preparing a case again closes its old connections first.
                cases.remove(&case);
                match prepare(*spec) {
                    Ok((prepared, proof)) => {
                        cases.insert(case.clone(), prepared);
                        Reply::Prepared { case, proof }
                    }
                    Err(error) => failed(case, error),
                }
            }
            Request::Trial { case, phases, stages } => {
                let result = match cases.get_mut(&case) {
                    Some(prepared) => trial(prepared, phases, &stages),
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
        };
        write_line(&mut output, &reply)?;
    }
    Ok(())
}

fn failed(case: String, error: CaseError) -> Reply {
    Reply::Failed {
        case,
        stage: error.stage,
        cause: error.cause,
    }
}

/// Reads the next line that is not blank; `None` at the end of the input.
///
/// # Errors
///
/// The input cannot be read, or the line is not the JSON of a `T` (`InvalidData`).
pub fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let text = line.trim();
        if !text.is_empty() {
            return parse(text.as_bytes()).map(Some).map_err(|cause| {
                let excerpt: String = text.chars().take(80).collect();
                let text =
                    format!("the other side's line is not understood: {cause}; the line begins with `{excerpt}`");
                io::Error::new(io::ErrorKind::InvalidData, text)
            });
        }
        line.clear();
    }
    Ok(None)
}

/// Reads a line.
///
/// # Errors
///
/// The line is not the JSON of a `T`: names the wrong field, and why.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        // Parsed again, because tracking the path of every field takes time.
        let mut again = serde_json::Deserializer::from_slice(line);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(with_path) => with_path.to_string(),
            Ok(_) => error.to_string(),
        }
    })
}

/// Writes `message` as one line and flushes it.
pub fn write_line<T: Serialize>(output: &mut impl Write, message: &T) -> io::Result<()> {
    // Written only when complete: an error of serialising must not leave half a line behind.
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
