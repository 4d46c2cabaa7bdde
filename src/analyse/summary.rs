//! What a run amounts to: the content of every report, and with serde the JSON that machines read.
//!
//! Keys are stable. More may be added; none is renamed or removed without a new [`SCHEMA`].

use indexmap::IndexMap;
use lasthop_load::spec::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::schema::{Environment, Failure, LinkObserved, LoadSummary, Placement, Stopped};

pub const SCHEMA: &str = "lasthop/1";

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// `lasthop/1`
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    pub title: String,
    pub question: String,
    /// Ends of the link under test.
    pub link: LinkEnds,
    /// Name of the run.
    pub run: String,
    /// Version of lasthop that made the record.
    pub lasthop: String,
    /// Command line that made it.
    pub command: Vec<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that the run took, pauses left out.
    pub seconds: f64,
    pub seed: u64,
    pub stopped: Stopped,
    /// Whether the record has its end; false when the run was killed.
    pub complete: bool,
    /// Where the run had ended and was taken up again, in order.
    #[serde(default)]
    pub resumed: Vec<Resumed>,
    /// Whether this run compares each reference with itself.
    pub aa: bool,
    pub settings: SettingsSummary,
    pub rounds: u32,
    /// Blocks over all rounds.
    pub blocks: u32,
    pub factors: IndexMap<String, Vec<String>>,
    /// `None` when the run died before the first round was up.
    pub environment: Option<Environment>,
    pub cases: Vec<CaseSummary>,
    pub comparisons: Vec<Comparison>,
    /// Quantities that follow from several cases.
    #[serde(default)]
    pub derived: Vec<Derived>,
    pub checks: Vec<Check>,
    pub failures: Vec<Failure>,
}

impl Summary {
    /// A case against its reference by one metric; `None` for a reference.
    #[must_use]
    pub fn comparison(&self, case: &CaseSummary, metric: Metric) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.case == case.case && comparison.metric == metric)
    }

    /// The comparison that verdicts are about.
    #[must_use]
    pub fn declared(&self, case: &CaseSummary) -> Option<&Comparison> {
        self.comparison(case, Metric::primary(&case.load))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkEnds {
    pub from: String,
    pub to: String,
}

/// A run that goes on after a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resumed {
    /// When, RFC 3339.
    pub at: String,
    /// Seconds that the run had taken before.
    pub after_seconds: f64,
    /// Seconds in which nothing ran.
    pub pause_seconds: f64,
    /// How it had ended; absent when it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsSummary {
    /// Half width of the interval at which the run may stop, as a share.
    pub precision: f64,
    pub budget_seconds: f64,
    /// Differences within this share count as none.
    pub margin: f64,
    pub trial_seconds: f64,
    pub blocks_per_round: u32,
    /// Confidence level of every interval, 0.95.
    pub confidence: f64,
    pub placement: Placement,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSummary {
    pub case: String,
    /// Level of each factor that applies.
    pub levels: IndexMap<String, String>,
    pub transport: Transport,
    /// Whether others are compared with it.
    pub reference: bool,
    pub load: LoadSummary,
    pub trials: u32,
    pub failed_trials: u32,
    /// Requests with a right answer, over all trials.
    pub requests: u64,
    /// Errors by class, over all trials.
    pub errors: IndexMap<String, u64>,
    /// `None` when no trial succeeded.
    pub metrics: Option<Metrics>,
    /// What the live connections were proven to be; `None` when the case never worked.
    pub proof: Option<ProofSummary>,
    /// How many times more the load generator could have done at least: what the same load reached against a server that
    /// does nothing (always in a closed loop), divided by the throughput, or by the rate of an open loop. `None` where it
    /// was not calibrated.
    #[serde(default)]
    pub headroom: Option<f64>,
    /// By service: what its container's CPU limit kept it from, over all trials; only those that it stopped.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub throttled: IndexMap<String, Throttled>,
}

/// How a CPU limit acted: a container that has used up its share of a period (100 ms as a rule) waits for the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Periods in which it had to wait.
    pub times: u64,
    /// Periods in which it ran.
    pub periods: u64,
    /// Seconds that it waited.
    pub seconds: f64,
    /// The same as a share of the time of the trials.
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofSummary {
    /// Address family of the driver's connection: `unix`, `inet` or `inet6`.
    pub family: String,
    pub tls_version: Option<String>,
    pub tls_cipher: Option<String>,
    /// Whether the driver's connection was kept between requests.
    pub reused: bool,
    /// The link behind the target, where the application can tell.
    pub link: Option<LinkObserved>,
    /// Hops from a client on this machine to the link's server, where the run has containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Right answers per second.
    pub throughput: Measured,
    /// Bytes of payload per second, for protocols that move bulk.
    pub bandwidth: Option<Measured>,
    /// Closed loop: service time, from the send of a request. Open loop: response time, from when it was due. `None` when
    /// the driver has no latencies.
    pub latency_p50: Option<Measured>,
    pub latency_p99: Option<Measured>,
    pub latency_max: Option<f64>,
    pub cpu_per_request: CpuPerRequest,
    /// Nanoseconds of CPU time per byte of payload, driver and services together (services alone in an open loop), for
    /// protocols that move bulk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_per_byte: Option<f64>,
    /// Context switches per request, by role; the driver is `driver`.
    pub switches_per_request: IndexMap<String, f64>,
    /// Run delay by role: how long its threads were ready to run and had no CPU. The driver is `driver`; roles of which nobody
    /// counted it are absent.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub run_delay: IndexMap<String, RunDelay>,
    /// System calls per request that the driver made by its own count.
    pub driver_system_calls_per_request: f64,
    /// The driver's CPU time as a share of one core per thread, 0 to 1, over all trials; in an open loop with the time that
    /// it waits awake.
    pub driver_load: f64,
    /// Whether the schedule was kept; absent for a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
}

impl Metrics {
    /// CPU time per request of all roles together, in microseconds. The driver of an open loop waits awake for what is due
    /// next: that is no cost of a request, and left out.
    #[must_use]
    pub fn cpu_total(&self) -> f64 {
        let services: f64 = self.cpu_per_request.roles.values().sum();
        services + if self.open_loop.is_some() { 0.0 } else { self.cpu_per_request.driver }
    }

    /// Run delay per request of the same roles together, in microseconds; `None` where it is not known of each that ran.
    #[must_use]
    pub fn run_delay_total(&self) -> Option<f64> {
        let of = |role: &str| self.run_delay.get(role).map(|delay| delay.us_per_request);
        let services = self.cpu_per_request.roles.iter();
        let ran = services.filter(|(role, cpu)| **cpu > 0.0 || of(role).is_some()).map(|(role, _)| role.as_str());
        let driver = self.open_loop.is_none().then_some("driver");
        let known: Option<Vec<f64>> = ran.chain(driver).map(of).collect();
        known.filter(|known| !known.is_empty()).map(|known| known.iter().sum())
    }
}

/// How long the threads of a role were ready to run and had no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDelay {
    /// Microseconds per right answer, all threads added up.
    pub us_per_request: f64,
    /// Run delay divided by run delay and CPU time, 0 to 1: of the time in which there was work to do, the part without a CPU.
    pub share: f64,
}

/// What an open loop was to send over all trials, and how well it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// Requests that were due in the measured time.
    pub scheduled: u64,
    /// Those of them that were sent in it.
    pub sent: u64,
    /// Whether at least 99 % of them were.
    pub reached: bool,
    /// By how much requests were sent later than they were due, in microseconds; part of the response time.
    pub lag_p50_us: Option<f64>,
    pub lag_p99_us: Option<f64>,
}

/// An estimate with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// `1/s`, `us`, `bytes/s`.
    pub unit: String,
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// CPU time per right answer, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPerRequest {
    /// `us`
    pub unit: String,
    pub driver: f64,
    /// By service.
    pub roles: IndexMap<String, f64>,
}

/// A quantity that cases are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// More is better. What verdicts of closed loops speak of; open loops are not compared by it, as it was asked for.
    Throughput,
    /// Less is better. What verdicts of open loops speak of.
    LatencyP50,
    /// Less is better.
    LatencyP99,
    /// CPU of driver and services together; of services alone in an open loop. Less is better.
    CpuPerRequest,
}

impl Metric {
    /// The one that was declared beforehand for a load, and that sentences speak of.
    #[must_use]
    pub fn primary(load: &LoadSummary) -> Self {
        if load.is_open() { Self::LatencyP50 } else { Self::Throughput }
    }
}

/// A case against its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    pub case: String,
    pub reference: String,
    pub metric: Metric,
    /// Case divided by reference.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub verdict: Verdict,
    /// True when a check says that the driver or the machine hides a part of the difference: the ratio is then nearer
    /// to 1 than the truth.
    pub lower_bound: bool,
    /// Blocks that have both cases.
    pub blocks: u32,
    /// For `undecided`: estimated further seconds of this run until it is decided.
    pub more_seconds: Option<f64>,
    /// What the difference means for a request (metric `latency_p50` and `throughput` only).
    pub materiality: Option<Materiality>,
    /// How much less the case waits for CPUs (the metric that the verdict is about only); absent where nobody counted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_saved: Option<RunDelaySaved>,
}

/// In the sense of the metric: `faster` is better, also where less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Faster,
    Slower,
    /// The whole interval lies within the margin.
    Equivalent,
    Undecided,
}

/// Whether the difference matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Materiality {
    /// Time that the case saves against its reference, in microseconds of a request; negative when it costs.
    pub saved_us: f64,
    pub saved_us_low: f64,
    pub saved_us_high: f64,
    /// A handler that takes longer than this (ms) makes the saved time less than the margin of the response.
    pub break_even_ms: f64,
    /// CPU cores saved at 1,000 requests/s, driver and services together (services alone in an open loop); negative when it
    /// costs.
    pub cores_saved_at_1000_per_second: f64,
}

/// Run delay per request that a case saves against its reference, in microseconds; negative where it waits longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDelaySaved {
    /// Driver and services together (services alone in an open loop); `None` where it is not known of each that ran.
    pub all: Option<Measured>,
    /// By role, where it is known of both; the driver is `driver`.
    pub roles: IndexMap<String, Measured>,
}

/// A quantity that follows from several cases: a difference of times, a slope, a crossover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derived {
    /// Its name in the experiment.
    pub quantity: String,
    pub help: String,
    /// Levels that all its cases share.
    pub levels: IndexMap<String, String>,
    /// Transport of its cases.
    pub transport: Transport,
    /// `us` for times; for a crossover the factor whose level it is. `None` without two blocks that have all cases.
    pub value: Option<Measured>,
    /// Of a slope: the time at 0, `us`.
    pub intercept: Option<Measured>,
    /// The value less that of the reference transport, from the same blocks; `None` for the reference and for a crossover.
    pub against_reference: Option<Measured>,
    /// Of a crossover that lies outside of the levels that were run: where.
    pub outside: Option<Outside>,
}

/// Why there is no crossover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// The difference is within the margin at every level.
    Before,
    /// It is still larger at the highest level.
    Beyond,
}

/// A test of trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name, for example `driver-saturated`.
    pub id: String,
    pub severity: Severity,
    /// The case it is about; `None` for the whole run.
    pub case: Option<String>,
    /// What was seen, with figures.
    pub evidence: String,
    /// What it does to the result.
    pub effect: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The result is weaker than it looks.
    Doubt,
    /// The result must not be used for what it says.
    Invalid,
}
