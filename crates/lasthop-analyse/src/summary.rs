//! The summary of a run: the content of every report and, through serde, the JSON for programs.
//!
//! Keys are stable: keys may be added, but none is renamed or removed without a new [`SCHEMA`].

use std::path::PathBuf;

use indexmap::IndexMap;
use lasthop_model::{
    level::{Levels, as_text},
    profile::KERNEL,
    record::{Environment, Failure, LinkObserved, LoadSummary, Placement, Stopped},
    selection::TRANSPORT,
};
pub use lasthop_stats::Verdict;
use lasthop_stats::{CONFIDENCE, Interval};
use lasthop_trial::{address::Transport, result::Reported};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{self, Decision, Perhaps};

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
    /// What to do, by the verdicts.
    #[serde(default)]
    pub decision: Decision,
    /// The answer to the question, line by line, in the words of reports.
    #[serde(default)]
    pub answer: Vec<String>,
    /// Results of the `--fail-if` limits, one for each limit and case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<JudgedLimit>,
    /// Ends of the link under test.
    pub link: LinkEnds,
    /// Name of the run.
    pub run: String,
    /// Version of lasthop that wrote the record.
    pub lasthop: String,
    /// Command line that started it.
    pub command: Vec<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that the run took, without pauses.
    pub seconds: f64,
    /// What the time of the run was used for; absent in a run with overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeUse>,
    pub seed: u64,
    pub stopped: Stopped,
    /// Whether the record is complete; false if the run was killed or is still running.
    pub complete: bool,
    /// Whether the run was still running when this summary was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// The run's folder on this machine, which reports for programs leave out.
    #[serde(skip)]
    pub folder: PathBuf,
    /// How a command names the run: its name, or its folder if it is in no store.
    #[serde(skip)]
    pub word: String,
    /// Where the run was resumed, in order.
    #[serde(default)]
    pub resumed: Vec<Resumed>,
    /// Whether this run compares each reference with itself.
    pub aa: bool,
    pub settings: SettingsSummary,
    pub rounds: u32,
    /// Blocks over all rounds.
    pub blocks: u32,
    pub factors: IndexMap<String, Vec<String>>,
    /// Name of the factor that is compared: `transport`, `path`, or another that has the reference.
    #[serde(default = "transport")]
    pub compared: String,
    /// Levels in the words of the experiment, by factor and level, where it has such words.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, IndexMap<String, String>>,
    /// Cases that are only controls, which no report advises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<String>,
    /// `None` if the run died before the first round was up.
    pub environment: Option<Environment>,
    pub cases: Vec<CaseSummary>,
    pub comparisons: Vec<Comparison>,
    /// Comparisons of every two alternatives with a common reference, without controls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Comparison>,
    /// Quantities that follow from several cases.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Further text of the experiment: a template that reports render.
    #[serde(skip)]
    pub template: Option<String>,
    /// Results of a run with overload, whose cases have no metrics and no comparisons; absent in every other run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// Where the CPU time of requests goes, layer by layer; absent unless the run has profile trials or should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
    pub checks: Vec<Check>,
    pub failures: Vec<Failure>,
}

/// The compared factor in reports of earlier versions, which do not name it.
fn transport() -> String {
    TRANSPORT.to_owned()
}

impl Summary {
    /// Makes the decision, from the present verdicts and checks.
    pub fn decide(&mut self) {
        let perhaps: Vec<_> = self
            .comparisons
            .iter()
            .map(|one| decision::perhaps(self, one))
            .collect();
        for (one, perhaps) in self.comparisons.iter_mut().zip(perhaps) {
            one.perhaps = perhaps;
        }
        self.decision = decision::decide(self);
    }

    #[must_use]
    pub fn case(&self, name: &str) -> Option<&CaseSummary> {
        self.cases.iter().find(|case| case.case == name)
    }

    /// The comparison of a case with its reference by a metric; `None` for a reference.
    #[must_use]
    pub fn comparison(&self, case: &CaseSummary, metric: Metric) -> Option<&Comparison> {
        let mut all = self.comparisons.iter();
        all.find(|one| one.case == case.case && one.metric == metric)
    }

    /// The check by which a case or its reference must not be used.
    #[must_use]
    pub fn invalid(&self, case: &str, reference: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.forbids(case, reference))
    }

    /// The verdict on a case against another alternative, if they were compared; undecided if the difference may be
    /// chance among so many.
    #[must_use]
    pub fn against(&self, case: &str, other: &str, metric: Metric) -> Option<Verdict> {
        let is = |one: &&Comparison, case: &str, other: &str| (one.case == case) && (one.reference == other);
        let mut of_metric = self.alternatives.iter().filter(|one| one.metric == metric);
        // Every two alternatives are compared once, in either order.
        let found = of_metric.find(|one| is(one, case, other) || is(one, other, case))?;
        Some(match found.verdict {
            _ if found.may_be_chance() => Verdict::Undecided,
            verdict if found.case == case => verdict,
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            verdict => verdict,
        })
    }

    /// The comparison that verdicts are about.
    #[must_use]
    pub fn declared(&self, case: &CaseSummary) -> Option<&Comparison> {
        self.comparison(case, Metric::primary(&case.load))
    }
}

/// The result of a limit for a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Standing {
    /// The whole interval is beyond the limit.
    #[serde(rename = "exceeded")]
    Beyond,
    /// A part of the interval is beyond the limit.
    #[serde(rename = "undecided")]
    Undecided,
    /// There is no ratio that may be used.
    #[serde(rename = "not-judged")]
    Unjudged,
    /// No part of the interval is beyond the limit.
    #[serde(rename = "kept")]
    Within,
}

/// The result of a limit for a case, for reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedLimit {
    /// The limit as typed: `unix slower > 5%`
    pub limit: String,
    pub case: String,
    pub standing: Standing,
    /// The limit and its result in a sentence, with the figures.
    pub text: String,
}

/// What a run with overload found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Seconds of each trial that count.
    pub counted_seconds: f64,
    /// Seconds of the same load before the counted seconds, in which queues fill.
    pub fill_seconds: f64,
    /// Seconds after an overload in which a recovery is seen.
    pub recovery_seconds: f64,
    /// CPU time that other processes and the hypervisor used during the trials, as a share of the machine's.
    pub foreign_share: f64,
    pub cases: Vec<OverloadCase>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadCase {
    pub case: String,
    /// Correct replies per second in a closed loop; `None` if that was not measured.
    pub capacity: Option<Span>,
    /// Results by offered load, in ascending order.
    pub points: Vec<OverloadPoint>,
}

/// A case at one offered load. Shares are of the requests that were due in the counted seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadPoint {
    /// Multiple of the lowest capacity of the compared cases.
    pub times: f64,
    /// Requests per second.
    pub offered: f64,
    /// Repetitions.
    pub trials: u32,
    /// Whether in each repetition no more than 1 % of the requests had no correct reply.
    pub served: bool,
    /// Correct replies per second.
    pub goodput: Span,
    /// Correct replies as a share.
    pub right: Span,
    /// How other requests ended, the most frequent first: `status-502`, `timeout`, `reset`, `refused`, `backlog-full`,
    /// …
    pub wrong: IndexMap<String, Wrong>,
    /// Share that was not sent, because every connection was busy.
    pub not_sent: Span,
    /// Increase in outstanding requests, as a share.
    pub unanswered: Span,
    /// Response times of correct replies in milliseconds; `None` without any.
    pub p50_ms: Option<Span>,
    pub p99_ms: Option<Span>,
    /// The 99th percentile of the lag over each whole trial, in milliseconds: the driver's own limit.
    pub lag_p99_ms: Option<Span>,
    /// Counters of the kernel over each whole trial: connections that found a full accept queue, connections that
    /// listeners dropped, and SYNs sent again.
    pub listen_overflows: Span,
    pub listen_drops: Span,
    pub syns_retransmitted: Span,
    /// Number of lines in the logs of services over each whole trial, by meaning.
    pub logged: IndexMap<String, Span>,
    /// Recovery after the load; `None` below capacity, or if the usual load before was not served.
    pub recovery: Option<Recovery>,
}

/// Requests that ended in one way other than a correct reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wrong {
    /// Number of these requests over all repetitions.
    pub count: u64,
    pub share: Span,
    /// Median time from the scheduled send to the outcome, in milliseconds.
    pub after_ms: f64,
    /// The first of these outcomes, in words.
    pub first: String,
}

/// The time after an overload until a load of half the capacity is served as before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// Seconds until the recovery, of the repetitions that recovered within the observed time.
    pub seconds: Option<Span>,
    /// Number of repetitions that did not recover within the observed time.
    pub late: u32,
}

/// A figure over all repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// Where the CPU time of requests goes, by profile trials. Times are microseconds per correct reply of the whole trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The last reason why profile trials were impossible, and how to allow them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Titles of layers by id.
    pub layers: IndexMap<String, String>,
    /// By case.
    pub cases: IndexMap<String, ProfiledCase>,
    /// By comparison, as far as both of its cases have profile trials in the same rounds.
    pub differences: Vec<LayerDifference>,
}

/// What profile trials saw of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledCase {
    pub trials: u32,
    /// Samples of all roles.
    pub samples: u64,
    /// Throughput of its profile trials divided by that of the measured trials of the same rounds: what observing
    /// costs. Absent in an open loop, whose rate was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Measured>,
    /// Profiles by role: services by name, the driver as `driver`, kernel work outside of any process as `kernel`.
    pub roles: IndexMap<String, ProfiledRole>,
}

/// What profile trials saw of a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledRole {
    /// CPU time by the kernel's account of the processes; 0 for `kernel`.
    pub cpu_us: f64,
    /// CPU time by samples, by id of the layer, largest first.
    pub layers: IndexMap<String, f64>,
    /// CPU time of samples without a layer, and its largest functions.
    pub not_attributed_us: f64,
    pub unassigned: IndexMap<String, f64>,
    /// Events per correct reply: `syscalls:read`, `switches`, …
    pub counts: IndexMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<ThreadTime>,
    /// The largest stacks, largest first, and CPU time in all others.
    pub stacks: Vec<Stack>,
    pub other_stacks_us: f64,
}

/// The time of a role's threads, added up, in microseconds per correct reply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// On a CPU.
    pub working_us: f64,
    /// Runnable, but without a CPU.
    pub runnable_us: f64,
    /// Waiting for something else, mostly the other side.
    pub waiting_us: f64,
}

impl Explained {
    /// The title of a layer, or its id if there is no title.
    #[must_use]
    pub fn title<'a>(&'a self, layer: &'a str) -> &'a str {
        self.layers.get(layer).map_or(layer, String::as_str)
    }
}

impl ProfiledCase {
    /// Microseconds per correct reply by id of the layer, over driver and services; `None` is the key for samples
    /// without a layer.
    #[must_use]
    pub fn by_layer(&self) -> IndexMap<Option<&str>, f64> {
        let mut sums = IndexMap::new();
        let roles = self.roles.iter().filter(|(role, _)| *role != KERNEL);
        for (_, role) in roles {
            for (layer, us) in &role.layers {
                *sums.entry(Some(layer.as_str())).or_default() += us;
            }
            *sums.entry(None).or_default() += role.not_attributed_us;
        }
        sums
    }
}

impl ThreadTime {
    #[must_use]
    pub fn total(&self) -> f64 {
        self.working_us + self.runnable_us + self.waiting_us
    }
}

/// CPU time of one stack of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Folded: functions separated by `;`, the outermost first.
    pub stack: String,
    /// Id of the stack's layer; `None` if no layer has it.
    pub layer: Option<String>,
    pub us: f64,
}

/// The difference in CPU time between a case and its reference by layer, of the roles that cases are compared by. A
/// saving is the reference's time minus the case's, so that a negative saving is a cost. The savings of all layers,
/// `others_us` and `not_attributed` add up to `saved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerDifference {
    pub case: String,
    pub reference: String,
    pub saved: Measured,
    /// Saving by role, in microseconds per correct reply.
    pub roles: IndexMap<String, f64>,
    /// Layers that differ or may differ by much, the largest first.
    pub layers: Vec<LayerSaving>,
    /// All other layers together.
    pub others_us: f64,
    pub not_attributed: LayerSaving,
    /// Saving of kernel work outside of any process, which is in no sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Measured>,
    /// Events per correct reply that differ, of the compared roles: the case's number, then the reference's.
    pub counts: IndexMap<String, [f64; 2]>,
    /// Number of events per correct reply that the case saves, if events were counted in two rounds or more.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub events: IndexMap<String, Measured>,
}

/// What a case saves in one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerSaving {
    /// Its id.
    pub layer: String,
    pub saved: Measured,
    pub roles: IndexMap<String, f64>,
    /// The functions that differ most, largest first.
    pub functions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkEnds {
    pub from: String,
    pub to: String,
}

/// Use of a run's time, as shares of the whole. The rest passed before the first round, between rounds and at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeUse {
    /// The measure phases of trials.
    pub measured: f64,
    /// The warm-up phases of trials.
    pub warm_up: f64,
    /// Drain phases, and the time between trials.
    pub between: f64,
    /// Until the services of each round were ready. In records of earlier versions, verifying is a part of it.
    pub starting: f64,
    /// Verifying, proving and warming up each case after a start.
    pub verifying: f64,
}

/// A run that was resumed after a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resumed {
    /// When the run was resumed, RFC 3339.
    pub at: String,
    /// Seconds that the run had taken before.
    pub after_seconds: f64,
    /// Seconds in which nothing ran.
    pub pause_seconds: f64,
    /// How the run had ended before the pause; absent if it was killed.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_per_round: Option<u32>,
    /// Confidence level of every interval, 0.95.
    pub confidence: f64,
    pub placement: Placement,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSummary {
    pub case: String,
    /// Level of each factor that applies.
    #[serde(with = "as_text")]
    #[schemars(with = "IndexMap<String, String>")]
    pub levels: Levels,
    #[schemars(with = "String")]
    pub transport: Transport,
    /// Whether other cases are compared with it.
    pub reference: bool,
    pub load: LoadSummary,
    pub trials: u32,
    pub failed_trials: u32,
    /// Requests with a correct reply, over all trials.
    pub requests: u64,
    /// Errors by class, over all trials.
    pub errors: IndexMap<String, u64>,
    /// `None` if no trial succeeded.
    pub metrics: Option<Metrics>,
    /// What the live connections turned out to be; `None` if the case never worked.
    pub proof: Option<ProofSummary>,
    /// The load generator can generate at least this many times the load: the throughput against a server that does
    /// nothing (always in a closed loop), divided by the throughput of the case, or by the rate of an open loop. `None`
    /// if it was not calibrated.
    #[serde(default)]
    pub headroom: Option<f64>,
    /// Length of its trials in seconds, where its replies needed longer ones than those of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_seconds: Option<f64>,
    /// Latencies that a classic tool reports: means over the trials, because the tool's percentiles cannot be merged.
    /// Absent where lasthop's load generator drives. A figure that the tool did not print every time is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// How much its container's CPU limit throttled each service, over all trials. Services that were not throttled are
    /// absent.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub throttled: IndexMap<String, Throttled>,
    /// The wait of the case's requests while nothing works, beyond the time of a compared case; absent without a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// A wait that is no work: CPU time, run delay and waking do not explain it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    pub cause: WaitCause,
    /// Mean over all requests, in microseconds.
    pub us: f64,
    /// Mean time of a request without the wait, in microseconds.
    pub left_us: f64,
}

/// What explains most of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// Nagle's algorithm held a part of a message back until the ACK of the part before, which the receiver delayed.
    DelayedAck,
    /// Nobody answered SYNs, and they were sent again after a second or more.
    SynRepeated,
    /// Segments were lost and sent again.
    Retransmission,
    /// A CPU limit stopped a service.
    Throttled,
    /// Something else: a sleep, a lock, a timeout.
    Unknown,
}

/// The effect of a CPU limit: a container that has used up its share of a period (usually 100 ms) waits for the next
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Periods in which it had to wait.
    pub times: u64,
    /// Periods in which it ran.
    pub periods: u64,
    /// Seconds that it waited.
    pub seconds: f64,
    /// Share of the time of the trials that the container waited.
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
    /// The link behind the target, if the application can tell.
    pub link: Option<LinkObserved>,
    /// The path to the container of the link's server, in words, if the run has containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Correct replies per second.
    pub throughput: Measured,
    /// Bytes of payload per second, for protocols that move bulk.
    pub bandwidth: Option<Measured>,
    /// Closed loop: service time, from when a request was sent. Open loop: response time, from when it was due. `None`
    /// if the driver has no latencies.
    pub latency_p50: Option<Measured>,
    pub latency_p99: Option<Measured>,
    /// Mean over all correct replies, in microseconds. Multiplied by the throughput, it gives about the number of
    /// connections of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_mean: Option<f64>,
    pub latency_max: Option<f64>,
    /// Bytes of payload per reply; absent where nothing comes back, or the driver does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_bytes: Option<f64>,
    pub cpu_per_request: CpuPerRequest,
    /// Nanoseconds of CPU time per byte of payload, of the roles that cases are compared by, for protocols that move
    /// bulk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_per_byte: Option<f64>,
    /// Context switches per request, by role; the driver is `driver`.
    pub switches_per_request: IndexMap<String, f64>,
    /// Run delay by role: how long its threads were runnable but not running. The driver is `driver`. Roles for which
    /// it was not measured are absent.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub run_delay: IndexMap<String, RunDelay>,
    /// System calls per request of the driver, as it counts them itself.
    pub driver_system_calls_per_request: f64,
    /// The driver's CPU time as a share of one core per thread, 0 to 1, over all trials. In an open loop this includes
    /// busy-waiting.
    pub driver_load: f64,
    /// Whether the schedule was kept; absent for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// Outcome of requests without replies; absent where replies come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
}

impl Metrics {
    /// CPU time of the services per request, in microseconds.
    #[must_use]
    pub fn cpu_total(&self) -> f64 {
        self.cpu_per_request.total()
    }

    /// Context switches of the services per request.
    #[must_use]
    pub fn switches_total(&self) -> f64 {
        let all = self.switches_per_request.iter();
        let services = all.filter(|(role, _)| self.cpu_per_request.roles.contains_key(*role));
        services.map(|(_, switches)| switches).sum()
    }

    /// Number of CPUs that the services keep busy.
    #[must_use]
    pub fn cpus_busy(&self) -> f64 {
        self.cpu_total() * self.throughput.interval.estimate / 1e6
    }

    /// Run delay of the services per request, in microseconds; `None` unless known for each service that ran.
    #[must_use]
    pub fn run_delay_total(&self) -> Option<f64> {
        let of = |role: &str| self.run_delay.get(role).map(|delay| delay.us_per_request);
        let services = self.cpu_per_request.roles.iter();
        let ran = services
            .filter(|(role, cpu)| **cpu > 0.0 || of(role).is_some())
            .map(|(role, _)| role.as_str());
        let known: Option<Vec<f64>> = ran.map(of).collect();
        known.filter(|known| !known.is_empty()).map(|known| known.iter().sum())
    }
}

/// A metric of each role per correct reply, as reports show it. To add a metric, add an entry to [`PER_REQUEST`] and a
/// field to [`Metrics`].
#[derive(Debug)]
pub struct PerRequest {
    /// Title of the column for all services together.
    pub title: &'static str,
    /// Name in headings.
    pub heading: &'static str,
    /// The roles that have the metric.
    pub roles: fn(&Metrics) -> Vec<&str>,
    /// The total of the services; `None` if unknown.
    pub total: fn(&Metrics) -> Option<f64>,
    /// Columns of CSV, with `ROLE` in place of the role.
    pub csv: &'static [(&'static str, ValueOf)],
}

/// The value of a role.
type ValueOf = fn(&Metrics, &str) -> Option<f64>;

pub static PER_REQUEST: [PerRequest; 3] = [
    PerRequest {
        title: "services",
        heading: "CPU µs",
        roles: |metrics| metrics.cpu_per_request.of_all().map(|(role, _)| role).collect(),
        total: |metrics| Some(metrics.cpu_total()),
        csv: &[("cpu_ROLE_us", |metrics, role| metrics.cpu_per_request.of_role(role))],
    },
    PerRequest {
        title: "switches",
        heading: "context switches",
        roles: |metrics| metrics.switches_per_request.keys().map(String::as_str).collect(),
        total: |metrics| Some(metrics.switches_total()),
        csv: &[("switches_ROLE_per_request", |metrics, role| {
            metrics.switches_per_request.get(role).copied()
        })],
    },
    PerRequest {
        title: "run delay",
        heading: "run delay µs",
        roles: |metrics| metrics.run_delay.keys().map(String::as_str).collect(),
        total: Metrics::run_delay_total,
        // Run delay per request, and as a share of run delay and CPU time.
        csv: &[
            ("run_delay_ROLE_us", |metrics, role| {
                Some(metrics.run_delay.get(role)?.us_per_request)
            }),
            ("run_delay_ROLE_share", |metrics, role| {
                Some(metrics.run_delay.get(role)?.share)
            }),
        ],
    },
];

/// A figure of a case, as reports show it. To add a figure, add an entry to [`COLUMNS`] and a field.
#[derive(Debug)]
pub struct CaseColumn {
    /// Name in CSV, which includes the unit.
    pub name: &'static str,
    pub value: CaseValue,
    /// The form for people; `None` if only programs read the figure.
    pub shown: Option<Shown>,
}

/// The source of a column's values.
#[derive(Debug)]
pub enum CaseValue {
    Of(fn(&CaseSummary) -> Option<f64>),
    /// A value with an interval, whose ends have columns of their own in CSV.
    Measured(fn(&Metrics) -> Option<&Measured>),
    /// A value of loads that send one way.
    OneWay(fn(&OneWay) -> Option<f64>),
}

/// A column of a table for people, which is left out if no case has a value.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Position among the other columns.
    pub place: u8,
    pub title: &'static str,
    pub writing: Writing,
}

/// The format of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Three significant digits.
    Rate,
    /// As requested.
    Asked,
    /// Bytes, with the unit that suits the column.
    Bytes,
    /// Microseconds; all such columns have a common unit.
    Latency,
    Lag,
    /// Per cent.
    Share,
}

impl CaseColumn {
    #[must_use]
    pub fn value_of(&self, case: &CaseSummary) -> Option<f64> {
        match self.value {
            CaseValue::Of(of) => of(case),
            CaseValue::Measured(of) => Some(of(case.metrics.as_ref()?)?.interval.estimate),
            CaseValue::OneWay(of) => of(case.metrics.as_ref()?.one_way.as_ref()?),
        }
    }

    const fn new(name: &'static str, value: CaseValue) -> Self {
        Self {
            name,
            value,
            shown: None,
        }
    }

    const fn shown(self, place: u8, title: &'static str, writing: Writing) -> Self {
        Self {
            shown: Some(Shown { place, title, writing }),
            ..self
        }
    }
}

fn open_loop(case: &CaseSummary) -> Option<&OpenLoop> {
    case.metrics.as_ref()?.open_loop.as_ref()
}

/// Requests/s, replaced by bytes/s for bulk transfers.
pub const THROUGHPUT: &str = "throughput_per_s";
pub const BANDWIDTH: &str = "bandwidth_bytes_per_s";
/// In CSV, the metrics of [`PER_REQUEST`] follow this column.
pub const LATENCY_MAX: &str = "latency_max_us";

/// All columns in the order of CSV. Those of open loops and of one-way loads are empty for other loads.
pub static COLUMNS: [CaseColumn; 22] = {
    use CaseValue::{Measured, Of, OneWay};
    [
        CaseColumn::new("trials", Of(|case| Some(f64::from(case.trials)))),
        CaseColumn::new("failed_trials", Of(|case| Some(f64::from(case.failed_trials)))),
        CaseColumn::new("requests", Of(|case| Some(case.requests as f64))),
        CaseColumn::new("errors", Of(|case| Some(case.errors.values().sum::<u64>() as f64))),
        CaseColumn::new(THROUGHPUT, Measured(|metrics| Some(&metrics.throughput))).shown(
            1,
            "requests/s",
            Writing::Rate,
        ),
        CaseColumn::new(BANDWIDTH, Measured(|metrics| metrics.bandwidth.as_ref())).shown(2, "bytes/s", Writing::Bytes),
        CaseColumn::new("latency_p50_us", Measured(|metrics| metrics.latency_p50.as_ref())).shown(
            5,
            "p50",
            Writing::Latency,
        ),
        CaseColumn::new("latency_p99_us", Measured(|metrics| metrics.latency_p99.as_ref())).shown(
            6,
            "p99",
            Writing::Latency,
        ),
        CaseColumn::new("latency_mean_us", Of(|case| case.metrics.as_ref()?.latency_mean)),
        CaseColumn::new(LATENCY_MAX, Of(|case| case.metrics.as_ref()?.latency_max)),
        CaseColumn::new(
            "driver_system_calls_per_request",
            Of(|case| Some(case.metrics.as_ref()?.driver_system_calls_per_request)),
        ),
        CaseColumn::new("driver_load", Of(|case| Some(case.metrics.as_ref()?.driver_load))),
        CaseColumn::new("rate_per_s", Of(|case| case.load.rate)).shown(0, "asked/s", Writing::Asked),
        CaseColumn::new("scheduled", Of(|case| Some(open_loop(case)?.scheduled as f64))),
        CaseColumn::new("sent", Of(|case| Some(open_loop(case)?.sent as f64))),
        CaseColumn::new("lag_p50_us", Of(|case| open_loop(case)?.lag_p50_us)),
        CaseColumn::new("lag_p99_us", Of(|case| open_loop(case)?.lag_p99_us)).shown(7, "lag", Writing::Lag),
        CaseColumn::new("sent_per_s", OneWay(|sending| Some(sending.sent_per_s))).shown(3, "sent/s", Writing::Rate),
        CaseColumn::new("lost_share", OneWay(|sending| Some(sending.lost))).shown(4, "lost", Writing::Share),
        CaseColumn::new("dropped", OneWay(|sending| Some(sending.dropped? as f64))),
        CaseColumn::new("waited_share", OneWay(|sending| Some(sending.waited))),
        CaseColumn::new("cpu_per_sent_us", OneWay(|sending| Some(sending.cpu_us_per_sent))),
    ]
};

impl CpuPerRequest {
    /// The driver's CPU time, then that of the services.
    pub fn of_all(&self) -> impl Iterator<Item = (&str, f64)> {
        let services = self.roles.iter().map(|(role, cpu)| (role.as_str(), *cpu));
        std::iter::once(("driver", self.driver)).chain(services)
    }

    /// The total of the services, by which cases are compared.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.roles.values().sum()
    }

    /// Multiplies the services' CPU times.
    pub fn scale(&mut self, factor: f64) {
        self.roles.values_mut().for_each(|cpu| *cpu *= factor);
    }

    #[must_use]
    pub fn of_role(&self, role: &str) -> Option<f64> {
        Some(self.of_all().find(|(name, _)| *name == role)?.1)
    }
}

/// How long the threads of a role were runnable but not running.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDelay {
    /// Microseconds per correct reply, all threads added up.
    pub us_per_request: f64,
    /// Run delay divided by the sum of run delay and CPU time, 0 to 1: the share of its work time that it waited for a
    /// CPU.
    pub share: f64,
}

/// What an open loop should have sent over all trials, and what it did send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// Requests that were due in the measured time.
    pub scheduled: u64,
    /// Due requests that were sent in the measured time.
    pub sent: u64,
    /// Whether at least 99 % of the due requests were sent.
    pub reached: bool,
    /// The lag, from the scheduled to the actual send, in microseconds. Part of the response time.
    pub lag_p50_us: Option<f64>,
    pub lag_p99_us: Option<f64>,
}

/// Outcome of requests without replies, over all trials with their warm-ups. The throughput counts the requests that
/// the server received, and latencies are times in `send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWay {
    pub sent: u64,
    /// Requests that the server received.
    pub received: u64,
    /// Requests that the kernel dropped because the server's buffer was full; `None` if unknown.
    pub dropped: Option<u64>,
    /// Share of the sent requests that never arrived, 0 to 1.
    pub lost: f64,
    /// Requests sent per second of the measure phases, in which the throughput is what the server received.
    pub sent_per_s: f64,
    /// Share of the sent requests that had to wait for room in the socket, 0 to 1.
    pub waited: f64,
    /// Microseconds of the services' CPU time per request sent. The other figures of CPU time are per request received.
    /// 0 in reports of earlier versions.
    #[serde(default)]
    pub cpu_us_per_sent: f64,
}

/// An estimate with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// `1/s`, `us`, `bytes/s`.
    pub unit: String,
    #[serde(flatten)]
    pub interval: Interval,
}

impl Measured {
    #[must_use]
    pub fn of(unit: &str, interval: Interval) -> Self {
        Self {
            unit: unit.to_owned(),
            interval,
        }
    }
}

/// CPU time per correct reply, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPerRequest {
    /// `us`
    pub unit: String,
    /// CPU time of the driver, which stands for the user's clients and is in no comparison.
    pub driver: f64,
    /// By service.
    pub roles: IndexMap<String, f64>,
}

/// A quantity that cases are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Correct replies per second: more is better. Verdicts of closed loops are about the throughput. Open loops are
    /// not compared by it, because their rate is set.
    Throughput,
    /// Median latency: less is better. Verdicts of open loops are about this metric.
    LatencyP50,
    /// Less is better.
    LatencyP99,
    /// CPU of the services. Less is better.
    CpuPerRequest,
}

impl Metric {
    pub const ALL: [Self; 4] = [
        Self::Throughput,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::CpuPerRequest,
    ];

    /// The metric that is declared in advance for a load, and that verdict sentences are about.
    #[must_use]
    pub fn primary(load: &LoadSummary) -> Self {
        if load.is_open() {
            Self::LatencyP50
        } else {
            Self::Throughput
        }
    }
}

/// A case against its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    pub case: String,
    pub reference: String,
    pub metric: Metric,
    #[serde(flatten, with = "lasthop_stats::AsRatio")]
    pub ratio: Interval,
    /// `undecided` also where a check says that one of the two must not be used.
    pub verdict: Verdict,
    /// Why the verdict is not firm; absent if it is, or is `undecided`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perhaps: Option<Perhaps>,
    /// True if a check found that the driver or the machine hides part of the difference. The ratio is then closer to 1
    /// than the truth.
    pub lower_bound: bool,
    /// Probability of such a difference by chance, by Holm's adjustment over all comparisons by declared metrics;
    /// absent for other metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adjusted_p: Option<f64>,
    /// Blocks that contain both cases.
    pub blocks: u32,
    /// True if all blocks are of one start of the servers: how the ratio varies from one start to the next is then
    /// unknown, and the verdict is `undecided`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_start: bool,
    /// For `undecided`: estimate of how many more seconds of this run would decide it.
    pub more_seconds: Option<f64>,
    /// What the difference means for a request; absent for `latency_p99`.
    pub materiality: Option<Materiality>,
    /// How much less the case waits for CPUs. Only with the metric that the verdict is about; absent if not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_saved: Option<RunDelaySaved>,
    /// Prediction interval (95 %) of the kept answer for the ratio on another machine. Only with the metric that the
    /// verdict is about; absent if no answer has the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Interval>,
}

impl Comparison {
    /// Whether a verdict of difference does not survive the adjustment for the number of comparisons.
    #[must_use]
    pub fn may_be_chance(&self) -> bool {
        self.verdict.differs() && self.adjusted_p.is_some_and(|p| p > 1.0 - CONFIDENCE)
    }
}

/// Whether the difference matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Materiality {
    #[serde(flatten, with = "AsSaved")]
    pub saved_us: Interval,
    /// The longest handler, in `ms`, for which the saving is at least the margin of the whole. For a time, the whole is
    /// the handler's duration plus the response time of a request that does not queue; `None` if requests queued. For
    /// `cpu_per_request`, the whole is the CPU time of the handler plus that of the services. `low` is 0 if the
    /// interval of the saving contains 0.
    #[serde(default)]
    pub break_even: Option<Measured>,
    /// CPU cores saved at 1,000 requests/s by the same roles as the CPU time; negative if it costs cores.
    pub cores_saved_at_1000_per_second: f64,
}

/// How JSON writes what is saved.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Interval")]
struct AsSaved {
    /// Time per request that the case saves compared with its reference, in microseconds; negative if it costs time.
    /// With several connections and in an open loop this includes queueing.
    #[serde(rename = "saved_us")]
    estimate: f64,
    #[serde(rename = "saved_us_low")]
    low: f64,
    #[serde(rename = "saved_us_high")]
    high: f64,
}

/// Run delay per request that a case saves compared with its reference, in microseconds; negative if it waits longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDelaySaved {
    /// Sum over the roles that cases are compared by; `None` unless the run delay is known for each role that ran.
    pub all: Option<Measured>,
    /// By role, if it is known for both cases; the driver is `driver`.
    pub roles: IndexMap<String, Measured>,
}

/// A quantity that follows from several cases: a difference of times, a slope, a crossover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derived {
    /// Its name in the experiment.
    pub quantity: String,
    pub help: String,
    /// Levels that all its cases share.
    #[serde(with = "as_text")]
    #[schemars(with = "IndexMap<String, String>")]
    pub levels: Levels,
    /// Transport of its cases.
    #[schemars(with = "String")]
    pub transport: Transport,
    /// The value in `us`; for a crossover a level, whose unit is the name of the factor. `None` without a block that
    /// has all cases. With one block there is no interval: `low` and `high` repeat the estimate. A crossover takes two
    /// blocks.
    pub value: Option<Measured>,
    /// Intercept of a slope: the time at level 0, in `us`.
    pub intercept: Option<Measured>,
    /// The value minus that of the reference transport, from the same blocks; `None` for the reference and for a
    /// crossover.
    pub against_reference: Option<Measured>,
    /// For a crossover, the factor whose level it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// For a crossover outside the levels that were run: on which side.
    pub outside: Option<Outside>,
}

/// Why there is no crossover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// The difference is within the margin at every level.
    Before,
    /// The difference is still larger than the margin at the highest level.
    Beyond,
    /// The intervals are too wide to tell.
    Open,
}

/// A finding that affects trust in the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name, for example `driver-saturated`.
    pub id: String,
    pub severity: Severity,
    /// The case it is about; `None` for the whole run.
    pub case: Option<String>,
    /// What was seen, with figures.
    pub evidence: String,
    /// Its effect on the result.
    pub effect: String,
}

impl Check {
    /// Whether the check forbids comparing a case with its reference.
    #[must_use]
    pub fn forbids(&self, case: &str, reference: &str) -> bool {
        let case_or_run = self.case.as_deref();
        self.severity == Severity::Invalid && case_or_run.is_none_or(|name| name == case || name == reference)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The result is weaker than it looks.
    Doubt,
    /// The result must not be used.
    Invalid,
}
