//! The files of a run record, field by field.
//!
//! ```text
//! run.json           RunHeader       written once, before the first service starts
//! environment.json   Environment     written when the first round is up: then all versions are known
//! trials.jsonl       TrialRecord     one line a trial, on disk before the next trial starts
//! end.json           RunEnd          written last; where it is missing the run was cut off; gone again once a run is resumed
//! services/ROUND/STACK/SERVICE/      rendered configurations, logs, and place.json: how it was started
//! ```
//!
//! History of [`VERSION`]:
//! - 1: first.

use std::{collections::BTreeMap, path::PathBuf};

use indexmap::IndexMap;
use jiff::Timestamp;
use lasthop_load::{
    TrialResult,
    result::Proof,
    spec::{Arrivals, Spec, Transport},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    experiment::{
        cases::Selection,
        digest::Digests,
        model::{Level, Levels},
    },
    observe::Observations,
    run::away::{DriverAt, Remote},
    service::container::{engine::Kind, image::Images},
    tool::ToolChoice,
};

/// Rises with every change that an older lasthop cannot read.
pub const VERSION: u32 = 1;

/// `run.json`: what was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    pub record: u32,
    /// Name of the run and of its directory, unique on this machine.
    pub run: String,
    pub lasthop: String,
    /// The command line that made it.
    pub command: Vec<String>,
    pub started: Timestamp,
    pub experiment: ExperimentSummary,
    pub settings: Settings,
    pub factors: IndexMap<String, FactorSummary>,
    pub cases: Vec<CasePlan>,
    /// Differences between the rendered services of a case and those of its reference, other than the link.
    pub differences: Vec<Difference>,
    /// Quantities that follow from several cases.
    #[serde(default)]
    pub derived: Vec<DerivedPlan>,
    /// What `lasthop resume` needs; `None` for a part of a repetition, which is repeated as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What a run was made from: enough to plan it again, and to see that nothing of it has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name of an experiment in the binary, or the absolute path of its folder.
    pub experiment: String,
    pub selection: Selection,
    /// `--program`: which executable was to be taken for a recipe.
    pub programs: BTreeMap<String, PathBuf>,
    /// `--engine`
    pub engine: Option<Kind>,
    /// `--images`
    pub images: Images,
    pub remote: Remote,
    /// Of the files of the experiment and its recipes.
    pub files: Digests,
    /// Of the executables that were found, and of lasthop's own.
    pub executables: Digests,
}

/// A quantity that follows from several cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DerivedPlan {
    pub quantity: String,
    pub help: String,
    /// Levels that all its cases share.
    pub levels: Levels,
    pub from: Derivation,
}

/// How a quantity follows from cases, which are given by their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Derivation {
    /// Mean time of a request of the one less that of the other.
    Difference { of: String, minus: String },
    /// Slope of the mean time of a request over a factor's level.
    Slope { per: String, points: Vec<(f64, String)> },
    /// The level of a factor from which on a case and its reference differ by no more than the margin.
    Crossover { over: String, points: Vec<(f64, String)> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSummary {
    pub name: String,
    pub title: String,
    pub question: String,
    /// `built-in` or the folder.
    pub source: String,
    /// Ends of the link under test.
    pub from: String,
    pub to: String,
    /// Services in start order, with the recipe of each.
    pub services: IndexMap<String, String>,
}

/// Everything that decides how the run went, defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seed of the order of cases and of the bootstrap.
    pub seed: u64,
    /// Half width of the interval at which the run may stop, as a share.
    pub precision: f64,
    pub budget_ns: u64,
    /// Differences within this share count as none.
    pub margin: f64,
    pub trial_ns: u64,
    pub warm_up_ns: u64,
    /// Blocks a round.
    pub blocks: u32,
    /// Whether every reference case was run twice under two names and nothing else.
    pub aa: bool,
    pub placement: Placement,
    /// Whether the load generator was calibrated against a server that does nothing.
    #[serde(default)]
    pub headroom: bool,
    /// At most so many rounds; `None` where precision and budget alone decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Tools that drive in the place of lasthop's own load generator, or beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolChoice>,
    /// Where the driver was wanted, if not beside the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_at: Option<DriverAt>,
}

/// Which CPUs the processes may use. CPU numbers as the kernel counts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scheduler decides.
    Free,
    /// The driver has CPUs of its own.
    Apart { driver: Vec<u32>, services: Vec<u32> },
    /// The driver and all services share one CPU.
    Same { cpu: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorSummary {
    pub help: String,
    /// Levels that this run uses.
    pub levels: Vec<Level>,
    pub reference: Option<Level>,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CasePlan {
    /// Unique within the run, for example `unix/connections=10`.
    pub case: String,
    pub levels: Levels,
    pub transport: Transport,
    /// The case that this one is compared with; `None` for a reference.
    pub reference: Option<String>,
    /// Number of the stack of services that it runs on; cases whose services are the same share one.
    pub stack: usize,
    /// `closed` loop connections, protocol and so on, as the driver was told; the endpoint is filled in each round.
    pub load: LoadSummary,
}

/// The load of a case without its endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSummary {
    pub target: String,
    pub protocol: String,
    pub connections: u32,
    pub threads: u32,
    pub reuse: String,
    /// Requests that a connection carries before it is closed; more than 1 only where it is not kept. What is timed is
    /// then a connection with all of them.
    #[serde(default = "one")]
    pub requests_per_connection: u32,
    /// Open loop: requests per second that are asked for, over all connections; absent for a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Open loop: how they are spread over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Payload bytes of one request's reply where the protocol fixes them: turns requests/s into bytes/s.
    pub bytes: Option<u64>,
    /// `lasthop` or the command of a foreign driver.
    pub driver: String,
}

impl LoadSummary {
    /// Whether requests are due at scheduled times, and do not wait for each other's replies.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rate.is_some()
    }
}

fn one() -> u32 {
    1
}

/// A difference that the comparison cannot tell apart from the transport's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    pub case: String,
    pub reference: String,
    /// The service and the file, argument or variable that differs.
    pub place: String,
    /// Unified diff, reference first.
    pub diff: String,
}

/// `environment.json`: where it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub host: String,
    pub cpu_model: String,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    pub kernel: String,
    pub architecture: String,
    pub distribution: String,
    /// `none`, or what `systemd-detect-virt` would say, from the CPU flags and DMI.
    pub virtualization: String,
    /// Governor of CPU 0, if the kernel shows one.
    pub governor: Option<String>,
    /// One-, five- and fifteen-minute load before the run.
    pub load_average: [f64; 3],
    /// Kernel settings that matter here, by their sysctl name.
    pub sysctl: IndexMap<String, String>,
    /// Every program that was started.
    pub programs: IndexMap<String, ProgramVersion>,
    /// Where the driver was, if not beside the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverPlace>,
}

/// Where a driver was that was not beside the services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverPlace {
    /// In words: `in the network namespace blue`, `on host ci-2 (Linux 6.1.0 x86_64), over ssh`.
    pub place: String,
    /// Address of this machine at which it reached the services.
    pub reaches: String,
}

/// End of the name, in [`Environment::programs`], of a program that is in the image of the containers and not this machine's.
pub const IN_IMAGE: &str = ", in the image";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramVersion {
    pub path: String,
    pub version: String,
}

/// A line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialRecord {
    /// The services of a round are up and each case answered rightly.
    Round(RoundRecord),
    Trial(Box<MeasuredTrial>),
    Failure(Failure),
    /// The run had ended, and goes on from here.
    Resumed(Resumption),
}

/// Where a run was taken up again. Its clock stood still meanwhile: `at_ns` counts the time in which it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumption {
    pub at: Timestamp,
    /// The command line that did it.
    pub command: Vec<String>,
    /// Nanoseconds of running time before it.
    pub at_ns: u64,
    /// Nanoseconds since the last that is known of the part before.
    pub pause_ns: u64,
    /// Running time that the whole run may take from now on: what was used, and what was given to it.
    pub budget_ns: u64,
    /// How the part before had ended; `None` when it was killed, and so had reported nothing.
    pub ended: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundRecord {
    pub round: u32,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// Nanoseconds that starting and verifying took.
    pub start_ns: u64,
    pub cases: IndexMap<String, CaseProof>,
    /// Requests per second that the same load reached against a server that does nothing, on an endpoint of the same
    /// kind; in the first round only, and only for protocols whose servers do more than that.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headroom: IndexMap<String, f64>,
}

/// What the verification of a case at the begin of a round saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseProof {
    /// What the driver was told, with the endpoint of this round.
    pub spec: Spec,
    /// The driver's own connection.
    pub driver: Proof,
    /// The link behind the target, where the experiment has a way to ask.
    pub link: Option<LinkObserved>,
    /// Hops from a client on this machine to the link's server, where a run has containers; in its first round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

/// What the application said of the connections that probe requests came over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkObserved {
    /// `unix`, `inet` or `inet6`.
    pub family: String,
    pub requests: u32,
    /// Different connections among them.
    pub connections: u32,
    /// What the experiment asked for: `per-request` or `keep-alive`.
    pub wanted: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTrial {
    pub round: u32,
    /// Number of the block within its round, from 0.
    pub block: u32,
    /// Place within the block, from 0.
    pub position: u32,
    pub case: String,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    pub result: TrialResult,
    pub observations: Observations,
}

/// A case that yielded no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub round: u32,
    /// `None` before the first block.
    pub block: Option<u32>,
    pub case: String,
    /// `locate`, `prepare`, `start`, `ready`, `connect`, `verify`, `trial`, `stop`.
    pub stage: String,
    pub cause: String,
    /// Last lines of the log of the service that failed, if one did.
    pub log: String,
}

/// `end.json`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub stopped: Stopped,
    pub ended: Timestamp,
    /// Nanoseconds from begin to end, pauses left out.
    pub took_ns: u64,
}

/// Why no further trial was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// Every comparison is as narrow as asked.
    Precision,
    /// The time is spent.
    Budget,
    /// As many rounds were made as were asked for.
    Rounds,
    /// A signal, or the run died: a record without an end reads as this.
    Interrupted,
    /// No case is left that works.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_choices_of_older_records_are_closed_loops() {
        let load = r#"{"target":"app","protocol":"http","connections":1,"threads":1,"reuse":"keep-alive",
            "requests_per_connection":1,"bytes":12,"driver":"lasthop"}"#;
        let read: LoadSummary = serde_json::from_str(load).unwrap();
        assert!(!read.is_open());
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::from_str::<serde_json::Value>(load).unwrap());
        let chosen: Selection = serde_json::from_str(r#"{"only":[],"set":[],"aa":false,"drivers":[]}"#).unwrap();
        assert_eq!(chosen, Selection::default());
    }
}
