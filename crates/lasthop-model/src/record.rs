//! The files of a run record, field by field.
//!
//! ```text
//! run.json           RunHeader       written once, before the first service starts
//! environment.json   Environment     written during the first round, when all versions are known
//! trials.jsonl       TrialRecord     a line per trial, written during the next trial, synced before the next round
//! profiles.jsonl     ProfileRecord   a line per profile trial, in runs with `--explain`
//! end.json           RunEnd          written last; missing if the run was cut off; removed when a run is resumed
//! seal               text            a line each for run.json and environment.json: proof that they were written here
//! headline.txt       text            the result in a sentence, for `lasthop runs`; exists as long as end.json does
//! services/ROUND/STACK/SERVICE/      rendered configurations, logs, and place.json: how the service was started
//! ```
//!
//! History of [`VERSION`]:
//! - 1: the first version.
//! - 2: memcached; fields that records of version 1 may lack have defaults.
//! - 3: the speed of the driver's CPU; a number of blocks for each round, and cases that have left; endpoints that
//!   lasthop did not start.
//! - 4: overload; dropped connections and retransmitted SYNs.
//! - 5: the experiment's own answer.
//! - 6: requests in a pipeline; profile trials; counts of failed trials.
//! - 7: groups of CPUs, a different group in each round; the CPUs that share a cache or a core.

use std::{collections::BTreeMap, fmt, path::PathBuf, slice, sync::Arc};

use indexmap::IndexMap;
use jiff::Timestamp;
use lasthop_protocol::{
    spec::Spec,
    wire::{self, TrialPhases},
};
use lasthop_trial::{
    TrialResult,
    address::Transport,
    options::{Arrivals, Model, Reuse},
    result::{DriverCost, ErrorClass, ErrorCount, Proof},
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

/// The version of records. Increase it with every change that an older lasthop cannot read.
pub const VERSION: u32 = 7;

/// The maximum number of cases, because all cases take turns in every block. A run against itself has each case twice.
pub const MOST_CASES: usize = 1000;

/// The file of seals, which are made with a key of the data folder and prove nothing on another machine.
pub const SEAL: &str = "seal";

/// `run.json`: the plan of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    pub record: u32,
    /// Name of the run and of its directory, unique on this machine.
    pub run: String,
    pub lasthop: String,
    /// The command line that started the run.
    pub command: Vec<String>,
    pub started: Timestamp,
    pub experiment: ExperimentSummary,
    pub settings: Settings,
    pub factors: IndexMap<String, FactorSummary>,
    pub cases: Vec<CasePlan>,
    /// Differences between the rendered services of a case and those of its reference, other than the link.
    pub differences: Vec<Difference>,
    /// Quantities derived from several cases.
    #[serde(default)]
    pub derived: Vec<DerivedPlan>,
    /// The experiment's own words on its result, besides what to choose: a template over [`ANSWERED`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "template")]
    pub answer: Option<String>,
    /// The endpoints of `lasthop compare`, whose servers lasthop did not start; `None` in a run of an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<ComparedEndpoints>,
    /// The user's labels of the machine, for reports of several machines.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// The data that `lasthop resume` needs; `None` for runs of `lasthop selftest` and `lasthop new --check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Endpoints whose servers lasthop did not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparedEndpoints {
    /// Endpoints by case; the first is the reference.
    pub endpoints: IndexMap<String, GivenEndpoint>,
    /// A shell command that restarts the servers between rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Processes by role, if the user names them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub pids: IndexMap<String, i32>,
}

/// An endpoint whose server lasthop did not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenEndpoint {
    /// The URL as typed, without passwords.
    pub url: String,
    /// The specification; in a record, secrets are `***`.
    pub spec: Spec,
    /// The program that listens at the endpoint, or its role if the user named its process; `None` if unknown.
    pub server: Option<String>,
    /// Differences between the endpoint's replies and those of the reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// Parts of the endpoint's replies that are not checked, or not byte for byte, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// Whether later replies must be like the endpoint's first replies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub learnt: bool,
    /// Whether the server closes the connection after each reply. Then every endpoint gets a connection per request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes: bool,
    /// Whether the specification holds secrets, which are never recorded.
    pub secret: bool,
}

impl ComparedEndpoints {
    /// Hides the secrets in the endpoints' specifications, and notes in `secret` whether there were any.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        for endpoint in self.endpoints.values_mut() {
            endpoint.secret = endpoint.spec.protocol.hide_secrets();
        }
        self
    }
}

/// Digests by name.
pub type Digests = BTreeMap<String, String>;

/// The origin of a run: enough to plan the run again, and to check that nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name of a built-in experiment, or the absolute path of the experiment's folder.
    pub experiment: String,
    pub selection: Selection,
    /// `--program`: executables by recipe.
    pub programs: BTreeMap<String, PathBuf>,
    /// The value of `--engine`.
    pub engine: Option<EngineKind>,
    /// How container images were made, in records of earlier versions.
    #[serde(default, skip_serializing)]
    pub images: Option<String>,
    pub remote: Remote,
    /// Digests of the files of the experiment and its recipes.
    pub files: Digests,
    /// Digests of the executables found, including lasthop.
    pub executables: Digests,
}

/// A quantity derived from several cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DerivedPlan {
    pub quantity: String,
    pub help: String,
    /// Levels shared by all cases of the quantity.
    pub levels: Levels,
    pub from: Derivation,
}

/// The parts of a result that an experiment's own answer can use in its template.
pub const ANSWERED: [&str; 4] = ["cases", "comparisons", "decision", "derived"];

/// Reads an answer. Records of earlier versions have a table in its place, which is ignored.
fn template<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let found = serde_json::Value::deserialize(deserializer)?;
    Ok(found.as_str().map(str::to_owned))
}

/// How a quantity is derived from cases, by their ids.
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
    /// The cases that the quantity is derived from.
    pub fn cases(&self) -> Vec<&String> {
        match self {
            Self::Difference { of, minus } => vec![of, minus],
            Self::Slope { points, .. } | Self::Crossover { points, .. } => {
                points.iter().map(|(_, name)| name).collect()
            }
        }
    }
}

/// The source of experiments that come with lasthop.
pub const BUILT_IN: &str = "built-in";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSummary {
    pub name: String,
    pub title: String,
    pub question: String,
    /// [`BUILT_IN`], or the experiment's folder.
    pub source: String,
    /// The ends of the link under test.
    pub from: String,
    pub to: String,
    /// Services in start order, each with its recipe.
    pub services: IndexMap<String, String>,
}

/// All settings of a run, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seed for the order of cases and for the bootstrap.
    pub seed: u64,
    /// Half the width of the interval at which the run may stop, as a share.
    pub precision: f64,
    pub budget_ns: u64,
    /// Cases that differ by less than this share are equivalent.
    pub margin: f64,
    pub trial_ns: u64,
    pub warm_up_ns: u64,
    /// Whether cases with slow replies get longer trials than `trial_ns` and longer warm-ups than `warm_up_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lengthens: bool,
    /// Time of load on the servers after each start, before anything is measured, in nanoseconds.
    #[serde(default, skip_serializing_if = "lasthop_trial::options::is_default")]
    pub settle_ns: u64,
    /// Blocks per round; `None` if lasthop chooses the number from the cost of a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Whether only reference cases run, each twice under two names.
    pub aa: bool,
    pub placement: Placement,
    /// Whether the load generator was calibrated against a null server.
    #[serde(default)]
    pub headroom: bool,
    /// The most rounds; `None` if only precision and budget decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Classic tools that drive, instead of lasthop's load generator or in addition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolChoice>,
    /// Where the driver should run, if not next to the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_at: Option<DriverAt>,
    /// The loads of a run with overload; `None` for other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadSettings>,
    /// Settings of the profile trials in each round; `None` for a run without profile trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<ExplainSettings>,
}

/// Settings of profile trials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainSettings {
    /// The user's own lines of layers, which precede the built-in ones: the text of `--layers`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub layers: String,
}

/// The loads of a run with overload. Its trials count for `trial_ns`, after queues have filled for `warm_up_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadSettings {
    /// Offered loads as multiples of capacity, ascending.
    pub times: Vec<f64>,
    /// Nanoseconds at half of capacity before each load, to show the usual state.
    pub before_ns: u64,
    /// Nanoseconds at half of capacity after each load above capacity, to show the recovery.
    pub after_ns: u64,
}

/// The load before and after an overload, as a share of capacity.
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

/// The CPUs of a round; empty if the scheduler decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus<'a> {
    pub driver: &'a [u32],
    pub services: &'a [u32],
}

impl Placement {
    /// The CPUs of round `number`, for a driver with `threads` threads.
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

    /// All CPUs that a round may use.
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
    /// The levels of this run.
    pub levels: Vec<Level>,
    pub reference: Option<Level>,
    /// Levels that no report recommends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Level>,
    /// Words of a report for each level.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
}

/// A case: one combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CasePlan {
    /// Name of the case, unique in the run, for example `unix/connections=10`.
    pub case: String,
    pub levels: Levels,
    pub transport: Transport,
    /// The case to compare this one with; `None` for a reference.
    pub reference: Option<String>,
    /// Number of the stack of services; cases with equal services share a stack.
    pub stack: usize,
    /// The load as the driver got it, without the endpoint, which differs in each round.
    pub load: LoadSummary,
    /// The conditions of TCP on loopback; absent for those of the machine.
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

    /// Whether requests follow a schedule, without waiting for replies.
    pub fn is_open(&self) -> bool {
        self.rate.is_some()
    }
}

fn one() -> u32 {
    1
}

/// A difference whose effect the comparison cannot separate from that of the transport.
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

/// `environment.json`: the machine and the programs of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The label `machine` of the run, else `machine-` and the start of the machine's digest; in older records the name
    /// of the host.
    pub host: String,
    /// Digest that identifies the machine; empty in older records.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    pub cpu_model: String,
    pub cpus: u32,
    /// Total memory in bytes.
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
    /// Kernel settings that affect the cost of a local connection or limit what may be observed, by their sysctl name.
    pub sysctl: IndexMap<String, String>,
    /// Last-level caches: sizes as the kernel writes them, by the CPUs that share one. Empty in older records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub caches: IndexMap<String, String>,
    /// CPUs that share more than a cache; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<CpuTopology>,
    /// The kernel's mitigations of the vulnerabilities that the CPUs have, by the vulnerability's name. Empty in older
    /// records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mitigations: IndexMap<String, String>,
    /// Bytes of the largest packet on loopback; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_mtu: Option<u32>,
    /// The packet filter on loopback; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_filter: Option<PacketFilter>,
    /// Every program that was started.
    pub programs: IndexMap<String, ProgramVersion>,
    /// Where the driver ran, if not next to the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverPlace>,
}

impl Environment {
    /// The container engine that ran services, with its own description. A path into a container differs between
    /// engines.
    pub fn engine(&self) -> Option<(EngineKind, &str)> {
        let mut kinds = EngineKind::ALL.into_iter();
        kinds.find_map(|kind| Some((kind, self.programs.get(kind.name())?.version.as_str())))
    }

    /// The engine in words: `podman 4.3.1`.
    pub fn engine_in_words(&self) -> Option<String> {
        let (kind, about) = self.engine()?;
        let version = about.split(',').next().unwrap_or_default();
        Some(format!("{} {version}", kind.name()))
    }
}

/// A size class of machines by number of CPUs: on few CPUs, the processes of a case share some.
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

/// The packet filter on loopback, in the network namespace of lasthop and of the services that are in no container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketFilter {
    /// Number of nf_tables chains: the chains called by hooks that packets on loopback pass, and the chains to which
    /// these may jump. `None` if only root may read them.
    pub chains: Option<u32>,
    /// Number of rules in the chains that `chains` counts; `None` if only root may read them.
    pub rules: Option<u32>,
    /// Number of rules in the chains that a hook itself calls, by the hook's name; absent in older records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub hooks: IndexMap<String, u32>,
    /// Tables of the legacy iptables, whose rules are not counted.
    pub iptables: Vec<String>,
    /// Whether the kernel tracks connections on loopback; `None` if no connection could be opened to find out.
    pub tracking: Option<bool>,
}

/// The packet filter in words: `6 chains, 5 rules (output 2, prerouting 3), connection tracking`.
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

/// The conditions of TCP on loopback in a case, in a network namespace made for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Rules of the packet filter, in the syntax of `nft -f`.
    pub rules: String,
    /// Kernel settings of the namespace, by name.
    pub sysctls: IndexMap<String, String>,
    /// Bytes of the largest packet; `None` for the kernel's default.
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

/// Suffix of a program's name in [`Environment::programs`] if the containers' image has a program that differs from
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
    /// The services of a round have started, and each case gave correct replies.
    Round(Box<RoundRecord>),
    Trial(Box<MeasuredTrial>),
    Overload(Box<OverloadTrial>),
    Failure(Box<Failure>),
    /// The run was resumed.
    Resumed(Box<Resumption>),
}

/// A resumption. The run's clock stops during the pause: `at_ns` is running time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumption {
    pub at: Timestamp,
    /// The command line that resumed the run.
    pub command: Vec<String>,
    /// Nanoseconds of running time before the pause.
    pub at_ns: u64,
    /// Nanoseconds since the earlier part was last known to run.
    pub pause_ns: u64,
    /// The new budget of the whole run: the time used so far plus the added time.
    pub budget_ns: u64,
    /// Why the earlier part ended; `None` if it was killed before it could report that.
    pub ended: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundRecord {
    pub round: u32,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// Nanoseconds for starting the services and verifying the cases.
    pub start_ns: u64,
    /// Nanoseconds of `start_ns` until the services were ready; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
    /// What the driver saw of each case. Equal proofs of several rounds can share memory.
    pub cases: IndexMap<String, Arc<CaseProof>>,
    /// Requests per second of the same load against a null server, on an endpoint of the same kind. Only in the first
    /// round, and only for protocols whose servers do more than send a known reply.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headroom: IndexMap<String, f64>,
    /// The planned number of blocks; absent in records of earlier versions, where the settings have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Cases that take no more turns, because their comparisons have reached the requested precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Cases of `lasthop compare` whose server was still the same process after the `--restart` command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_servers: Vec<String>,
}

/// The result of verifying a case at the beginning of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseProof {
    /// The specification that the driver got, with the endpoint of this round.
    pub spec: Spec,
    /// The proof of the driver's own connection.
    pub driver: Proof,
    /// The link behind the target, if the experiment has a way to ask for it.
    pub link: Option<LinkObserved>,
    /// Another way by which the link's server was reached during the driver's warm-up. Absent in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
    /// The path to the container of the link's server, in words. Only in the first round of a run with containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

impl CaseProof {
    /// Whether two proofs agree, apart from the server's path, name or port and the seed of an open loop, which are new
    /// in every round.
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

/// The connections of the link, as the application reported them for probe requests, or as the kernel's tables showed
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkObserved {
    /// `unix`, `inet` or `inet6`.
    pub family: String,
    pub requests: u32,
    /// Number of distinct connections that carried the requests.
    pub connections: u32,
    /// The reuse that the experiment expects, `per-request` or `keep-alive`, if the application reported the
    /// connections. `None` if the kernel's tables showed them, perhaps not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
}

/// Connections that reached a server at another address than the link's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The other address, as in the kernel's tables.
    pub address: String,
    /// Connections seen at the other address, and at the link's address during the same time.
    pub connections: u32,
    pub over_link: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTrial {
    pub round: u32,
    /// Number of the block within its round, from 0.
    pub block: u32,
    /// Position within the block, from 0.
    pub position: u32,
    pub case: String,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// The requested lengths; `None` for those of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<TrialPhases>,
    pub result: TrialResult,
    pub observations: Observations,
}

impl MeasuredTrial {
    /// The requested length of the measure phase, in nanoseconds.
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
    /// Offered load as a multiple of capacity; `None` for the closed loop that measured the capacity.
    pub times: Option<f64>,
    /// The stages of an offered load: the usual load, this load, and again the usual load if this load was above
    /// capacity.
    pub result: TrialResult,
    pub observations: Observations,
    /// Lines in the logs of services, by the kinds that the experiment counts.
    pub logged: IndexMap<String, u64>,
}

/// A line of `profiles.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileRecord {
    /// Titles of layers by id, on the first line.
    Layers(IndexMap<String, String>),
    Profile(Box<ProfileTrial>),
    /// Why profiling stopped: what is missing, how to allow it, and what it would show.
    Missing(String),
}

/// A trial under observation, which explains a difference but counts in no figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileTrial {
    pub round: u32,
    pub case: String,
    /// Nanoseconds since the run began, pauses left out.
    pub at_ns: u64,
    /// Correct replies in the measure phase, and its length in nanoseconds.
    pub requests: u64,
    pub elapsed_ns: u64,
    /// Correct replies in the whole trial, which the profile covers.
    pub requests_total: u64,
    /// The driver's cost of the measure phase, by its own account.
    pub cost: DriverCost,
    pub profile: Profile,
}

/// A case without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub round: u32,
    /// Number of the block within its round; `None` before the first block.
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
    /// Advice, if the failure has a usual cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Correct replies in the whole trial that failed, as far as its driver said; none in older records.
    #[serde(default, skip_serializing_if = "lasthop_trial::options::is_default")]
    pub requests: u64,
    /// Errors in the whole trial that failed, by class, as far as its driver said; none in older records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<ErrorClass, ErrorCount>,
}

/// The stage at which a case failed.
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
    /// A stage of another version's record.
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

/// `end.json`: the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub stopped: Stopped,
    pub ended: Timestamp,
    /// Nanoseconds from beginning to end, without pauses.
    pub took_ns: u64,
    /// The packet filter on loopback at the end; absent in older records, and if the cases set the filter.
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
    /// A signal ended the run, or the run died: a record without an end counts as interrupted.
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
