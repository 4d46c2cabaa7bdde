//! The files of a run record, field by field.
//!
//! ```text
//! run.json           RunHeader       written once, before the first service starts
//! environment.json   Environment     written when the first round is up: then all versions are known
//! trials.jsonl TrialRecord one line per trial, written before the next trial ends, synced before the next round
//!  profiles.jsonl     ProfileRecord   one line per profile trial, of runs that are explained (`--explain`)
//! end.json           RunEnd          written last; missing if the run was cut off; removed when a run is resumed
//! seal               text            a line for run.json and environment.json each: proof that they were written here
//! headline.txt       text            the result in one sentence, for `lasthop runs`; exists as long as end.json does
//! services/ROUND/STACK/SERVICE/      rendered configurations, logs, and place.json: how it was started
//! ```
//!
//! History of [`VERSION`]:
//! - 1: the first.
//! - 2: memcached; fields that records of version 1 may lack have defaults.
//! - 3: the speed of the driver's CPU; rounds with a number of blocks of their own, and cases that have left; endpoints
//!   that lasthop did not start.
//! - 4: overload; dropped connections and retransmitted SYNs.
//! - 5: what answers the question.
//! - 6: requests in a pipeline; profile trials; what a failed trial counted.
//! - 7: groups of CPUs, of which each round has another; which CPUs share what.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    path::PathBuf,
    slice,
    sync::Arc,
};

use indexmap::IndexMap;
use jiff::Timestamp;
use lasthop_protocol::{
    TrialResult,
    result::{DriverCost, ErrorClass, ErrorCount, Proof},
    spec::{Arrivals, Model, Reuse, Spec, Transport},
    wire::{self, TrialPhases},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    driver::{DriverAt, Remote, ToolChoice},
    engine::EngineKind,
    level::{Level, Levels},
    observation::Observations,
    profile::Profile,
    quantity::{counted, joined},
    selection::{OWN_DRIVER, Selection},
};

/// Increase this with every change that an older lasthop cannot read.
pub const VERSION: u32 = 7;

/// The most cases of a run, because all of them take turns in every block. A run against itself has each of them twice.
pub const MOST_CASES: usize = 1000;

/// Seals of files by a key of the data folder. Elsewhere they prove nothing.
pub const SEAL: &str = "seal";

/// `run.json`: what was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    pub record: u32,
    /// Name of the run and of its directory, unique on this machine.
    pub run: String,
    pub lasthop: String,
    /// The command line that started it.
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
    /// What the experiment says of its result besides what to choose: a template over [`ANSWERED`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "template")]
    pub answer: Option<String>,
    /// The endpoints of `lasthop compare`, whose servers lasthop did not start; `None` in a run of an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// What the user says of the machine, for reports of several machines.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// What `lasthop resume` needs; `None` for runs of `lasthop repro`, which repeats studies as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Endpoints that are there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// By case; the first is the reference.
    pub endpoints: IndexMap<String, GivenEndpoint>,
    /// Command for a shell that restarts their servers between rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Processes by role, where the user names them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub pids: IndexMap<String, i32>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenEndpoint {
    /// As typed, without passwords.
    pub url: String,
    /// With `***` in the place of what is secret, in a record.
    pub spec: Spec,
    /// The program that listens there, or its role if the user named its process; `None` if it could not be found out.
    pub server: Option<String>,
    /// In what its replies differ from the reference's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// What of its replies is not checked, or less than byte for byte, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// Whether its first replies are what is expected of later ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub learnt: bool,
    /// Whether its server closes the connection after each reply, so that all endpoints are asked over a connection per
    /// request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes: bool,
    /// Whether the specification holds secrets, which no record has.
    pub secret: bool,
}

impl Given {
    /// As it is recorded.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        for endpoint in self.endpoints.values_mut() {
            endpoint.secret = endpoint.spec.protocol.hide_secrets();
        }
        self
    }
}

/// Digests by the name of what they are of.
pub type Digests = BTreeMap<String, String>;

/// What a run was made from: enough to plan it again, and to check that nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name of an experiment in the binary, or the absolute path of its folder.
    pub experiment: String,
    pub selection: Selection,
    /// `--program`: executables by recipe.
    pub programs: BTreeMap<String, PathBuf>,
    /// `--engine`
    pub engine: Option<EngineKind>,
    /// How images of containers were made, in records of earlier versions.
    #[serde(default, skip_serializing)]
    pub images: Option<String>,
    pub remote: Remote,
    /// Digests of the files of the experiment and its recipes.
    pub files: Digests,
    /// Digests of the executables that were found, and of lasthop.
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

/// The parts of a result that an experiment's own answer is a template over.
pub const ANSWERED: [&str; 4] = ["cases", "comparisons", "decision", "derived"];

/// Records of earlier versions list what to say, in a table, of which reports made sentences.
fn template<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = serde_json::Value::deserialize(deserializer)?;
    Ok(found.as_str().map(str::to_owned))
}

/// How a quantity follows from cases, by their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Derivation {
    /// Mean time of a request in one case minus that in another.
    Difference { of: String, minus: String },
    /// Slope of the mean time of a request over a factor's level.
    Slope { per: String, points: Vec<(f64, String)> },
    /// The level of a factor at and above which a case and its reference differ by no more than the margin.
    Crossover { over: String, points: Vec<(f64, String)> },
}

impl Derivation {
    /// The cases that it follows from.
    pub fn cases(&self) -> Vec<&String> {
        match self {
            Self::Difference { of, minus } => vec![of, minus],
            Self::Slope { points, .. } | Self::Crossover { points, .. } => {
                points.iter().map(|(_, name)| name).collect()
            }
        }
    }
}

/// Where the experiments that come with lasthop are from.
pub const BUILT_IN: &str = "built-in";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSummary {
    pub name: String,
    pub title: String,
    pub question: String,
    /// [`BUILT_IN`] or the folder.
    pub source: String,
    /// Ends of the link under test.
    pub from: String,
    pub to: String,
    /// Services in start order, with the recipe of each.
    pub services: IndexMap<String, String>,
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Everything that decides how the run works, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seed of the order of cases and of the bootstrap.
    pub seed: u64,
    /// Half width of the interval at which the run may stop, as a share.
    pub precision: f64,
    pub budget_ns: u64,
    /// Cases that differ by less than this share count as equivalent.
    pub margin: f64,
    pub trial_ns: u64,
    pub warm_up_ns: u64,
    /// Whether cases with slow replies get longer trials and warm-ups than these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lengthens: bool,
    /// How long the servers are loaded after each start, before anything is measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settle_ns: u64,
    /// Blocks per round; `None` if lasthop chooses them by what a start costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Whether every reference case runs twice, under two names, and nothing else.
    pub aa: bool,
    pub placement: Placement,
    /// Whether the load generator was calibrated against a server that does nothing.
    #[serde(default)]
    pub headroom: bool,
    /// The most rounds; `None` if only precision and budget decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Tools that drive instead of lasthop's load generator, or in addition to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolChoice>,
    /// Where the driver should run, if not next to the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_at: Option<DriverAt>,
    /// The loads of a run with overload; `None` in every other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadSettings>,
    /// Whether each round has profile trials; `None` in a run without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<ExplainSettings>,
}

/// How profile trials are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainSettings {
    /// The user's own lines of layers, which come before the built-in ones: the text of `--layers`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub layers: String,
}

/// What a run with overload offers. Its trials count for `trial_ns`, after queues have filled for `warm_up_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadSettings {
    /// Offered loads as multiples of capacity, in rising order.
    pub times: Vec<f64>,
    /// Nanoseconds at half of capacity before each load, which show what is usual.
    pub before_ns: u64,
    /// Nanoseconds at half of capacity after each load above capacity, in which the recovery is seen.
    pub after_ns: u64,
}

/// The load before and after another one, as a share of capacity.
pub const USUAL_LOAD: f64 = 0.5;

/// Which CPUs the processes may use. CPU numbers as the kernel counts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scheduler decides.
    Free,
    /// The driver has its own CPUs.
    Apart { driver: Vec<u32>, services: Vec<u32> },
    /// Each round has the next of these groups of CPUs that are near each other. The last CPUs of a group are for the
    /// driver, which has one for each of its threads.
    Compact { groups: Vec<Vec<u32>>, driver: u32 },
    /// The driver and all services share one CPU.
    Same { cpu: u32 },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Free => f.write_str("CPUs chosen by the scheduler"),
            Self::Apart { driver, services } => {
                write!(f, "driver on CPU {}, services on CPU {}", list(driver), list(services))
            }
            Self::Compact { groups, .. } => {
                let count = groups.first().map_or(0, Vec::len);
                write!(f, "{count} neighbouring CPUs, different ones in each round")
            }
            Self::Same { cpu } => write!(f, "driver and services on CPU {cpu}"),
        }
    }
}

/// The CPUs of a round; none where the scheduler decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus<'a> {
    pub driver: &'a [u32],
    pub services: &'a [u32],
}

impl Placement {
    /// Those of a round whose driver has so many threads.
    pub fn in_round(&self, number: u32, threads: u32) -> Cpus<'_> {
        match self {
            Self::Free => Cpus::default(),
            Self::Apart { driver, services } => Cpus { driver, services },
            Self::Compact { groups, driver } => {
                let group = groups.get(number as usize % groups.len().max(1));
                let group = group.map(Vec::as_slice).unwrap_or_default();
                let (services, driver) = group.split_at(group.len().saturating_sub(*driver as usize));
                let used = driver.len().min(threads.max(1) as usize);
                Cpus {
                    driver: &driver[..used],
                    services,
                }
            }
            Self::Same { cpu } => Cpus {
                driver: slice::from_ref(cpu),
                services: slice::from_ref(cpu),
            },
        }
    }

    /// Every CPU that a round may have.
    pub fn cpus(&self) -> Vec<u32> {
        match self {
            Self::Compact { groups, .. } => groups.concat(),
            _ => {
                let Cpus { driver, services } = self.in_round(0, 1);
                [driver, services].concat()
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorSummary {
    pub help: String,
    /// Levels that this run uses.
    pub levels: Vec<Level>,
    pub reference: Option<Level>,
    /// Levels that no report advises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Level>,
    /// Levels in the words of a report, by level.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
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
    /// The load as the driver was told, without the endpoint, which differs in each round.
    pub load: LoadSummary,
    /// What TCP on loopback meets; absent where that is what the machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
}

/// The load of a case without its endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSummary {
    pub target: String,
    pub protocol: String,
    pub connections: u32,
    pub threads: u32,
    #[schemars(with = "String")]
    pub reuse: Reuse,
    /// Requests that a connection carries before it is closed; more than 1 only without keep-alive. They are then timed
    /// together.
    #[serde(default = "one")]
    pub requests_per_connection: u32,
    /// Requests that a connection sends before it waits for their replies; 1 in older records.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Open loop: requests per second asked for, over all connections; absent for a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Open loop: spacing of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Payload bytes of a reply if the protocol fixes them, to turn requests/s into bytes/s.
    pub bytes: Option<u64>,
    /// `lasthop` or the command of a foreign driver.
    pub driver: String,
}

impl LoadSummary {
    /// Whether lasthop's own load generator drives.
    pub fn is_own(&self) -> bool {
        self.driver == OWN_DRIVER
    }

    /// Whether requests are sent on schedule, without waiting for replies.
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
    /// The label `machine` of the run, else a word for this machine; in older records the name of the host.
    pub host: String,
    /// A digest that another machine does not have; empty in older records.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
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
    /// Last-level caches: sizes as the kernel writes them, by the CPUs that share one. Empty in older records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub caches: IndexMap<String, String>,
    /// CPUs that share more than a cache; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<CpuTopology>,
    /// What the kernel does about the CPUs' vulnerabilities, by the name of each that they have. Empty in older
    /// records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mitigations: IndexMap<String, String>,
    /// Bytes of the largest packet on loopback; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_mtu: Option<u32>,
    /// `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_filter: Option<PacketFilter>,
    /// Every program that was started.
    pub programs: IndexMap<String, ProgramVersion>,
    /// Where the driver ran, if not next to the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverPlace>,
}

impl Environment {
    /// The container engine that ran services, and what it told of itself: a path into a container is another one with
    /// another engine.
    pub fn engine(&self) -> Option<(EngineKind, &str)> {
        let mut kinds = EngineKind::ALL.into_iter();
        kinds.find_map(|kind| Some((kind, self.programs.get(kind.name())?.version.as_str())))
    }

    /// The same in words: `podman 4.3.1`.
    pub fn engine_in_words(&self) -> Option<String> {
        let (kind, about) = self.engine()?;
        let version = about.split(',').next().unwrap_or_default();
        Some(format!("{} {version}", kind.name()))
    }
}

/// A class of machines by their CPUs: on few, the processes of a case share some.
#[must_use]
pub const fn size(cpus: u32) -> &'static str {
    match cpus {
        0 | 1 => "1 CPU",
        2..=4 => "2 to 4 CPUs",
        5..=15 => "5 to 15 CPUs",
        16.. => "16 CPUs and more",
    }
}

/// Which CPUs share what, in lists as the kernel writes them, such as `0-3,8-11`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuTopology {
    /// CPUs of each socket.
    pub sockets: Vec<String>,
    /// CPUs of each NUMA node.
    pub nodes: Vec<String>,
    /// CPUs of each core: two or more with simultaneous multithreading.
    pub cores: Vec<String>,
}

/// What packets on loopback pass, in the network namespace of lasthop and of the services that are in no container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketFilter {
    /// Chains of nf_tables that hooks on their way call, and those that they may jump to; `None` where the kernel tells
    /// only root.
    pub chains: Option<u32>,
    /// Rules in these chains.
    pub rules: Option<u32>,
    /// By hook on their way the rules in the chains that it calls itself; absent in older records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub hooks: IndexMap<String, u32>,
    /// Tables of the older iptables, whose rules nobody counts.
    pub iptables: Vec<String>,
    /// Whether the kernel tracks their connections; `None` if it could not be tried.
    pub tracking: Option<bool>,
}

/// `6 chains, 5 rules (output 2, prerouting 3), connection tracking`
impl fmt::Display for PacketFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = joined(self.hooks.iter().map(|(hook, rules)| format!("{hook} {rules}")), ", ");
        let hooks = if hooks.is_empty() { hooks } else { format!(" ({hooks})") };
        let chains = match self.chains.zip(self.rules) {
            Some((0, _)) => None,
            Some((chains, rules)) => Some(format!(
                "{}, {}{hooks}",
                counted(chains.into(), "chain"),
                counted(rules.into(), "rule")
            )),
            None => Some("rules unknown (only root may read them)".to_owned()),
        };
        let tables = (!self.iptables.is_empty()).then(|| format!("iptables {}", self.iptables.join(", ")));
        let tracking = match self.tracking {
            Some(true) => Some("connection tracking".to_owned()),
            Some(false) => None,
            None => Some("connection tracking unknown".to_owned()),
        };
        match joined([chains, tables, tracking].into_iter().flatten(), ", ").as_str() {
            "" => f.write_str("none"),
            all => f.write_str(all),
        }
    }
}

/// What TCP on loopback meets in a case, in a network namespace that the run has for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Rules of the packet filter, as `nft -f` takes them.
    pub rules: String,
    /// Kernel settings of the namespace, by name.
    pub sysctls: IndexMap<String, String>,
    /// Bytes of the largest packet; the kernel's default without it.
    pub mtu: Option<u32>,
}

/// Where the driver ran, if not next to the services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverPlace {
    /// The place in words: `in the network namespace blue`, `on host ci-2 (Linux 6.1.0 x86_64), over ssh`.
    pub place: String,
    /// Address of this machine at which the driver reached the services.
    pub reaches: String,
}

/// Suffix, in [`Environment::programs`], of the name of a program that is in the containers' image and differs from
/// this machine's.
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
    /// The services of a round are up, and each case gave correct replies.
    Round(Box<RoundRecord>),
    Trial(Box<MeasuredTrial>),
    Overload(Box<OverloadTrial>),
    Failure(Box<Failure>),
    /// The run was resumed.
    Resumed(Box<Resumption>),
}

/// Where a run was resumed. Its clock stops during the pause: `at_ns` is running time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumption {
    pub at: Timestamp,
    /// The command line that resumed it.
    pub command: Vec<String>,
    /// Nanoseconds of running time before it.
    pub at_ns: u64,
    /// Nanoseconds since the part before was last known to be running.
    pub pause_ns: u64,
    /// The new budget of the whole run: the time used so far plus the time added.
    pub budget_ns: u64,
    /// How the part before had ended; `None` if it was killed, and so had reported nothing.
    pub ended: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundRecord {
    pub round: u32,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// How long starting and verifying took, in nanoseconds.
    pub start_ns: u64,
    /// How much of that passed until the services were ready; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
    pub cases: IndexMap<String, Seen>,
    /// Requests per second of the same load against a server that does nothing, on an endpoint of the same kind. Only
    /// in the first round, and only for protocols whose servers do more than that.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headroom: IndexMap<String, f64>,
    /// How many blocks it was to have; in records of earlier versions as many as the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Cases that take no more turns, because their comparisons are as precise as asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Cases of `lasthop compare` that were served by the same process after its `--restart` command as before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_servers: Vec<String>,
}

/// A [`CaseProof`]. Rounds that saw the same may share it in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "CaseProof", into = "CaseProof")]
pub struct Seen(Arc<CaseProof>);

impl From<CaseProof> for Seen {
    fn from(proof: CaseProof) -> Self {
        Self(Arc::new(proof))
    }
}

impl From<Seen> for CaseProof {
    fn from(seen: Seen) -> Self {
        Arc::unwrap_or_clone(seen.0)
    }
}

impl Deref for Seen {
    type Target = CaseProof;

    fn deref(&self) -> &CaseProof {
        &self.0
    }
}

impl DerefMut for Seen {
    fn deref_mut(&mut self) -> &mut CaseProof {
        Arc::make_mut(&mut self.0)
    }
}

/// What the verification of a case saw at the beginning of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseProof {
    /// What the driver was told, with the endpoint of this round.
    pub spec: Spec,
    /// The driver's own connection.
    pub driver: Proof,
    /// The link behind the target, if the experiment has a way to ask.
    pub link: Option<LinkObserved>,
    /// How else the link's server was reached while the driver warmed the case up. Records of earlier versions have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
    /// The path to the container of the link's server, in words. Only in the first round of a run with containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

impl CaseProof {
    /// Whether the two are the same except for the path, name or port of the server and the seed of an open loop, which
    /// are new in every round.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let ours = &self.spec.endpoint.address;
        let theirs = &other.spec.endpoint.address;
        let same_kind = ours.is_like(theirs);
        let mut other = other.clone();
        other.spec.endpoint.address.clone_from(ours);
        other.driver.peer.clone_from(&self.driver.peer);
        if let (Model::Open(ours), Model::Open(theirs)) = (&self.spec.model, &mut other.spec.model) {
            theirs.seed = ours.seed;
        }
        same_kind && *self == other
    }
}

/// What the application said about the connections over which probe requests came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkObserved {
    /// `unix`, `inet` or `inet6`.
    pub family: String,
    pub requests: u32,
    /// Number of distinct connections among them.
    pub connections: u32,
    /// What the experiment asked for, `per-request` or `keep-alive`, if the application was asked. Otherwise the
    /// kernel's tables showed the connections, perhaps not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
}

/// Connections by which a server was reached at another address than the link's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Where, as the kernel's tables have it.
    pub address: String,
    /// How many were seen there, and at the link's address in the same time.
    pub connections: u32,
    pub over_link: u32,
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
    /// The lengths asked for; `None` if they were those of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<TrialPhases>,
    pub result: TrialResult,
    pub observations: Observations,
}

impl MeasuredTrial {
    /// The length of the measure phase that was asked for, in nanoseconds.
    pub fn asked_ns(&self, settings: &Settings) -> u64 {
        self.phases.map_or(settings.trial_ns, |phases| phases.measure_ns)
    }
}

/// A trial of a run with overload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadTrial {
    pub round: u32,
    pub case: String,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// Offered load as a multiple of capacity. `None`: a closed loop, which measured the capacity.
    pub times: Option<f64>,
    /// The stages of an offered load: the usual load, this load, and the usual load again if this was above capacity.
    pub result: TrialResult,
    pub observations: Observations,
    /// Lines that services wrote to their logs, of the kinds that the experiment counts.
    pub logged: IndexMap<String, u64>,
}

/// A line of `profiles.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileRecord {
    /// Titles of layers by id. The first line.
    Layers(IndexMap<String, String>),
    Profile(Box<ProfileTrial>),
    /// Why nothing more was observed: what is missing, how to allow it, what it would show.
    Missing(String),
}

/// A trial under observation. It explains a difference, and is in no figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileTrial {
    pub round: u32,
    pub case: String,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// Correct replies in the measure phase, and its nanoseconds.
    pub requests: u64,
    pub elapsed_ns: u64,
    /// Correct replies in the whole trial, which is what the profile is of.
    pub requests_total: u64,
    /// What the driver consumed in the measure phase, by its own account.
    pub cost: DriverCost,
    pub profile: Profile,
}

/// A case without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub round: u32,
    /// `None` before the first block.
    pub block: Option<u32>,
    pub case: String,
    /// `locate`, `prepare`, `start`, `ready`, `connect`, `verify`, `trial`, `stop`.
    #[schemars(with = "String")]
    pub stage: Stage,
    pub cause: String,
    /// Last lines of the log of the service that failed, if one did.
    pub log: String,
    /// The whole log: a path relative to the run's folder. Absent without a log, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<PathBuf>,
    /// What to do about it, if it has a usual cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Correct replies in the whole trial that failed, as far as its driver said; none in older records.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Errors in the whole trial that failed, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<ErrorClass, ErrorCount>,
}

/// Where a case failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// A program or an image is missing.
    Locate,
    Prepare,
    Start,
    Ready,
    /// The driver cannot carry out the load.
    Spec,
    Connect,
    /// The replies before the measurement were wrong.
    Verify,
    Trial,
    Stop,
    /// In a record of another version.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl From<wire::Stage> for Stage {
    fn from(stage: wire::Stage) -> Self {
        match stage {
            wire::Stage::Spec => Self::Spec,
            wire::Stage::Connect => Self::Connect,
            wire::Stage::Verify => Self::Verify,
            wire::Stage::Trial => Self::Trial,
        }
    }
}

/// `end.json`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub stopped: Stopped,
    pub ended: Timestamp,
    /// Nanoseconds from beginning to end, without pauses.
    pub took_ns: u64,
    /// What packets on loopback passed at the end; absent in older records, and where the cases decided that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_filter: Option<PacketFilter>,
}

/// Why the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// Every interval is narrow enough.
    Precision,
    /// The budget is used up.
    Budget,
    /// There were as many rounds as asked for.
    Rounds,
    /// A signal ended the run, or it died: a record without an end is read as this.
    Interrupted,
    /// No case works, or too few to compare any.
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
        assert_eq!(read.pipeline, 1);
        let written = load.replace("\"bytes\"", "\"pipeline\":1,\"bytes\"");
        assert_eq!(
            serde_json::to_value(&read).unwrap(),
            serde_json::from_str::<serde_json::Value>(&written).unwrap()
        );
        let chosen: Selection = serde_json::from_str(r#"{"only":[],"set":[],"aa":false,"drivers":[]}"#).unwrap();
        assert_eq!(chosen, Selection::default());
    }

    #[test]
    fn failures_of_older_records_have_neither_log_file_nor_hint_nor_counts() {
        let text = r#"{"round":0,"block":null,"case":"unix","stage":"ready","cause":"it died","log":"bye"}"#;
        let read: Failure = serde_json::from_str(text).unwrap();
        assert_eq!((&read.log_file, &read.hint), (&None, &None));
        assert!(read.requests == 0 && read.errors.is_empty());
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_stage_of_another_version_is_kept() {
        let read = |text: &str| serde_json::from_str::<Stage>(text).unwrap();
        for (text, stage) in [
            ("\"ready\"", Stage::Ready),
            ("\"thaw\"", Stage::Other("thaw".to_owned())),
        ] {
            assert_eq!(read(text), stage);
            assert_eq!(serde_json::to_string(&stage).unwrap(), text);
            assert_eq!(format!("\"{stage}\""), text);
        }
    }

    fn filter(chains: Option<u32>, iptables: &[&str], tracking: Option<bool>, hooks: &[(&str, u32)]) -> String {
        let filter = PacketFilter {
            chains,
            rules: chains.map(|chains| chains * 2),
            hooks: hooks.iter().map(|(hook, rules)| ((*hook).to_owned(), *rules)).collect(),
            iptables: iptables.iter().map(|&name| name.to_owned()).collect(),
            tracking,
        };
        filter.to_string()
    }

    #[test]
    fn the_packet_filter_in_words() {
        assert_eq!(filter(Some(0), &[], Some(false), &[]), "none");
        assert_eq!(
            filter(Some(1), &[], Some(true), &[]),
            "1 chain, 2 rules, connection tracking"
        );
        assert_eq!(
            filter(Some(3), &[], Some(false), &[("output", 2), ("prerouting", 0)]),
            "3 chains, 6 rules (output 2, prerouting 0)"
        );
        assert_eq!(
            filter(Some(0), &["nat"], Some(true), &[]),
            "iptables nat, connection tracking"
        );
        assert_eq!(
            filter(None, &[], Some(false), &[]),
            "rules unknown (only root may read them)"
        );
        assert_eq!(filter(Some(0), &[], None, &[]), "connection tracking unknown");
    }
}
