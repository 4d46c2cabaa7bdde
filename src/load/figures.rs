//! The figures of a load as JSON. `lasthop load --format json` prints one such object. Keys are stable; more may be
//! added.

use std::{cmp::Reverse, collections::BTreeMap};

use lasthop_load::engine::CaseError;
use lasthop_model::record::Stage;
use lasthop_page::units::{Bytes, Micros};
use lasthop_protocol::{spec::Spec, steady::Little};
use lasthop_trial::{
    Histogram, TrialResult, delayed_ack,
    options::{Engine, Model, Reuse},
    result::{ErrorClass, ErrorCount, Longest, OneWay, Proof, ReportedError},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Headroom, Job, Outcome, Take};

/// Name and version of the format.
const SCHEMA: &str = "lasthop-load/1";

/// One endpoint's figures.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Figures {
    /// `lasthop-load/1`
    pub schema: String,
    /// The URL, with `***` instead of a password.
    pub url: String,
    /// Length of the measure phase.
    pub seconds: f64,
    /// Correct replies in the measure phase, whenever their requests began.
    pub requests: u64,
    /// Correct replies in the whole load, warm-up and drain included.
    pub requests_total: u64,
    /// The number of requests to send; absent without such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_asked: Option<u64>,
    /// Errors of the whole load, by class.
    pub errors: BTreeMap<String, u64>,
    /// The first error of each class, in words.
    pub first_errors: BTreeMap<String, String>,
    /// What may be done about the errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Errors that the server itself reports, grouped by status or text, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_errors: Vec<ReportedError>,
    /// Requests that had no reply yet when the load was interrupted.
    pub unanswered: u64,
    /// Requests that the server did not take before it ended their connection, and that were sent again over another
    /// one, in the whole load. They are no errors; their times count from when they were first sent.
    pub sent_again: u64,
    /// Requests that had no reply yet when the measure phase ended, and how long the oldest of them took until it was
    /// answered, failed or was given up. In a closed loop, most connections then have such a request.
    pub open_at_end: Longest,
    /// Requests that began in the warm-up and ended after it: no latency includes them.
    pub untimed: Longest,
    /// Why `latency_ns` is `null` although requests were answered: the service times contradict the throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsteady: Option<String>,
    /// That replies wait for delayed ACKs, and what to do; absent if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<String>,
    /// That the server serves only some of the connections at a time, and what to do; absent if it serves all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_at_once: Option<String>,
    /// Timeout of a request, or of a connect if that is shorter. Requests that took longer are in `errors`, and in no
    /// latency.
    pub timeout_ns: u64,
    /// Correct replies per second.
    pub throughput: f64,
    /// Payload bytes received per second.
    pub bytes_per_second: f64,
    /// Service time: from the actual send to the last byte.
    pub latency_ns: Option<Percentiles>,
    /// Open loop: from the scheduled send to the last byte.
    pub response_ns: Option<Percentiles>,
    /// Open loop: actual minus scheduled send.
    pub lag_ns: Option<Percentiles>,
    pub offered: Option<OfferedFigures>,
    /// Only for a protocol without replies: `requests` are then the requests that the server counted as received, and
    /// the service time is the time in `send`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayFigures>,
    /// Parts of a request: `connect`, `tls`, `auth`, `first_byte`. A part that did not occur is absent.
    pub phases_ns: BTreeMap<String, Percentiles>,
    /// CPU time of the generator in the measure phase.
    pub driver_cpu_seconds: f64,
    pub driver_cpu_ns_per_request: f64,
    /// How long the generator's threads were runnable but not running, added up over all threads. `null` if the kernel
    /// keeps no scheduler statistics.
    pub driver_run_delay_seconds: Option<f64>,
    /// Socket and wait calls of the generator's loop, as it counts them itself.
    pub system_calls_per_request: f64,
    pub connections: u32,
    pub threads: u32,
    pub pipeline: u32,
    /// If more than 1, each time covers a connection with this many requests.
    pub requests_per_connection: u32,
    /// `blocking` or `epoll`.
    pub engine: Engine,
    pub reuse: Reuse,
    /// Whether `reuse` is `per-request` because the server closes each connection after a reply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub server_closes: bool,
    /// Connections opened during the load, in addition to those open when it began.
    pub connections_opened: u64,
    /// Connects that took a second or longer, those before the load included. After a second the kernel repeats a SYN
    /// that was not answered.
    pub slow_connects: Longest,
    /// Properties of the live connection; `null` if no connection could be opened.
    pub proof: Option<ProofFigures>,
    /// What every reply was checked against.
    pub checked: String,
    /// The parts of replies that are not checked, or not byte for byte, because the first replies differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// The headroom of the generator; `null` without `--headroom`.
    pub headroom: Option<HeadroomFigures>,
    /// Whether the load was interrupted. The figures then cover the time until the interruption.
    pub cut_short: bool,
    /// Why there was no load at all. An error that has a class is in `errors` too.
    pub failure: Option<FailureFigures>,
}

/// What failed before the load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FailureFigures {
    /// `connect`, `verify` or `trial`.
    pub stage: String,
    pub cause: String,
}

/// Percentiles and other statistics of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Percentiles {
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The number of durations in the histogram. `latency_ns` has the correct replies to requests that began in the
    /// measure phase: `requests`, which ended in the phase, minus `untimed`, plus the correct replies in `open_at_end`.
    pub count: u64,
}

/// A figure of [`Percentiles`] in nanoseconds: its name in CSV, and its name in a terminal, empty if it is not shown
/// there.
pub type Summary = (&'static str, &'static str, fn(&Percentiles) -> f64);

pub const SUMMARY: [Summary; 9] = [
    ("p50", "p50", |times| times.p50 as f64),
    ("p75", "p75", |times| times.p75 as f64),
    ("p90", "p90", |times| times.p90 as f64),
    ("p95", "p95", |times| times.p95 as f64),
    ("p99", "p99", |times| times.p99 as f64),
    ("p999", "p99.9", |times| times.p999 as f64),
    ("max", "max", |times| times.max as f64),
    ("mean", "", |times| times.mean),
    ("sd", "std dev", |times| times.sd),
];

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OfferedFigures {
    /// Requests per second that were asked for.
    pub rate: f64,
    pub scheduled: u64,
    pub sent: u64,
    /// Whether at least 99 % of the scheduled requests were sent.
    pub reached: bool,
}

/// Counts of requests in a protocol without replies, warm-up included.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OneWayFigures {
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    /// Requests in `sent` that the kernel dropped because the server's buffer was full; `null` if the kernel drops
    /// none, or does not tell.
    pub dropped: Option<u64>,
    /// Requests of the measure phase that found no room and waited for it.
    pub waited: u64,
}

impl From<&OneWay> for OneWayFigures {
    fn from(sending: &OneWay) -> Self {
        let OneWay {
            sent_total,
            received_total,
            dropped_total,
            waited,
            ..
        } = *sending;
        Self {
            sent: sent_total,
            received: received_total,
            lost: sending.lost(),
            dropped: dropped_total,
            waited,
        }
    }
}

/// What the live connection turned out to be.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProofFigures {
    /// Address family of the connected socket: `unix`, `inet` or `inet6`; `unixgram`, `seqpacket`, `udp` or `udp6`; or
    /// a channel.
    pub family: String,
    pub peer: String,
    pub tls_version: Option<String>,
    pub tls_cipher: Option<String>,
    /// Any certificate was accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_insecure: bool,
    /// Whether a second request went over the same connection as the first.
    pub reused: bool,
    pub nodelay: Option<bool>,
    /// `SO_SNDBUF` and `SO_RCVBUF` in bytes as read back, if they were set.
    pub send_buffer: Option<u64>,
    pub receive_buffer: Option<u64>,
}

/// How many times more load the generator reaches against a null server than against the endpoint. Each of several
/// takes loads the null server, then the endpoint.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HeadroomFigures {
    /// Requests per second of the same load against the null server: the median of the takes.
    pub null_throughput: Option<f64>,
    /// Requests per second against the null server, divided by those against the endpoint: the median of the takes.
    /// `times_low` and `times_high` are the lowest and highest.
    pub times: Option<f64>,
    pub times_low: Option<f64>,
    pub times_high: Option<f64>,
    pub takes: usize,
    /// Why the headroom is unknown.
    pub unknown: Option<String>,
}

/// The JSON schema of [`Figures`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Figures).to_value()
}

impl Figures {
    pub fn new(job: &Job, outcome: &Outcome) -> Self {
        let spec = &outcome.spec;
        let result = &outcome.result;
        // Avoids a division by 0 without requests.
        let requests = result.requests.max(1) as f64;
        let (errors, first_errors) = errors(&result.errors);
        // A fixed number of requests is timed completely, and at its end fewer and fewer are in flight.
        let unsteady = Little::of([result], spec)
            .filter(|little| job.requests.is_none() && !little.holds())
            .map(unsteady);
        Self {
            seconds: result.elapsed_ns as f64 / 1e9,
            requests: result.requests,
            requests_total: result.requests_total,
            errors,
            first_errors,
            server_errors: server_errors(&result.errors),
            advice: advice(job, &result.errors).map(str::to_owned),
            throughput: result.throughput(),
            bytes_per_second: result.bytes_received as f64 * 1e9 / result.elapsed_ns as f64,
            unanswered: result.unanswered,
            sent_again: result.sent_again,
            open_at_end: result.open_at_end,
            untimed: result.untimed,
            latency_ns: percentiles(result.service_time.as_ref().filter(|_| unsteady.is_none())),
            unsteady,
            delayed_acks: delayed_acks(spec, &outcome.proof, result),
            few_at_once: outcome.few_at_once.map(|few| few.in_words()),
            response_ns: percentiles(result.response_time.as_ref()),
            lag_ns: percentiles(result.lag.as_ref()),
            offered: offered(outcome),
            one_way: result.one_way.as_deref().map(OneWayFigures::from),
            phases_ns: phases(outcome),
            driver_cpu_seconds: result.cost.cpu_ns() as f64 / 1e9,
            driver_cpu_ns_per_request: result.cost.cpu_ns() as f64 / requests,
            driver_run_delay_seconds: result.cost.run_delay_ns.map(|delay| delay as f64 / 1e9),
            system_calls_per_request: result.cost.system_calls as f64 / requests,
            engine: result.engine,
            connections_opened: result.connections_opened,
            slow_connects: result.slow_connects,
            proof: Some(proof(outcome)),
            headroom: headroom(&outcome.headroom),
            cut_short: outcome.cut_short,
            unchecked: outcome.unchecked.clone(),
            server_closes: outcome.server_closes,
            ..Self::without_load(job, spec)
        }
    }

    /// The figures of a load that could not begin.
    pub fn failed(job: &Job, error: &CaseError) -> Self {
        let name = error.class.map(lasthop_analyse::name_of);
        Self {
            errors: name.iter().map(|name| (name.clone(), 1)).collect(),
            first_errors: name.into_iter().map(|name| (name, error.cause.clone())).collect(),
            failure: Some(FailureFigures {
                stage: Stage::from(error.stage).to_string(),
                cause: error.cause.clone(),
            }),
            ..Self::without_load(job, &job.spec)
        }
    }

    /// The figures of the requested load, without any measurement.
    fn without_load(job: &Job, spec: &Spec) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            url: job.url.clone(),
            requests_asked: job.requests,
            connections: spec.connections,
            threads: spec.threads,
            pipeline: spec.pipeline,
            requests_per_connection: spec.requests_per_connection,
            engine: spec.engine,
            timeout_ns: spec.timeouts.connect_ns.min(spec.timeouts.request_ns),
            reuse: spec.reuse,
            checked: spec.protocol.checked(&|bytes| Bytes(bytes).to_string()),
            ..Self::default()
        }
    }

    /// Whether there was no error, and the rate was reached.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none()
            && self.requests > 0
            && self.errors.is_empty()
            && self.offered.is_none_or(|offered| offered.reached)
    }

    /// All requests sent, with or without a reply.
    pub fn sent(&self) -> u64 {
        let received = |sending: &OneWayFigures| sending.sent;
        let answered = self.one_way.as_ref().map_or(self.requests_total, received);
        answered + self.unanswered + self.errors.values().sum::<u64>()
    }

    /// A JSON object with line breaks.
    pub fn json(&self) -> Vec<u8> {
        lasthop_page::text::json(self)
    }
}

/// Says how the figures contradict Little's law.
fn unsteady(little: Little) -> String {
    format!(
        "no service times: by Little's law they and the throughput make {:.1} requests under way at a time, where the \
         connections had up to {:.0}; a longer load (--duration, --warm-up) would show both",
        little.under_way,
        little.possible.end()
    )
}

/// The likely cause if most replies over TCP take as long as a delayed ACK while the generator idles.
fn delayed_acks(spec: &Spec, proof: &Proof, result: &TrialResult) -> Option<String> {
    let times = result
        .service_time
        .as_ref()
        .filter(|times| delayed_ack::is_usual(times))?;
    let busy_ns = result.cost.cpu_ns() + result.cost.run_delay_ns.unwrap_or(0);
    // The driver of an open loop spins.
    let is_idle = spec.model != Model::Closed || busy_ns < result.elapsed_ns / 2;
    if !proof.family.starts_with("inet") || !is_idle {
        return None;
    }
    let remedy = "set TCP_NODELAY in the server, or write each reply at once";
    let median = |times: &Histogram| Micros(times.quantile(0.5) as f64 / 1e3);
    match &result.phases.first_byte {
        Some(first) if delayed_ack::begins_early(first, times) => Some(format!(
            "most replies begin after {} and end after {}: Nagle's algorithm in the server waits for delayed ACKs; {remedy}",
            median(first),
            median(times)
        )),
        // Several requests at once may wait for each other for as long.
        _ if spec.connections * spec.pipeline == 1 => Some(format!(
            "most replies take 38 to 48 ms, which is typical of Nagle's algorithm with delayed ACKs behind this server: unless \
             it works so long itself, {remedy} there"
        )),
        _ => None,
    }
}

type Errors = (BTreeMap<String, u64>, BTreeMap<String, String>);

fn errors(found: &BTreeMap<ErrorClass, ErrorCount>) -> Errors {
    let name = |class: &ErrorClass| lasthop_analyse::name_of(*class);
    (
        found.iter().map(|(class, error)| (name(class), error.count)).collect(),
        found
            .iter()
            .map(|(class, error)| (name(class), error.first.clone()))
            .collect(),
    )
}

/// Advice on wrong content. If the first replies defined the expected reply, the first replies may be the wrong ones.
fn advice(job: &Job, found: &BTreeMap<ErrorClass, ErrorCount>) -> Option<&'static str> {
    let is_wrong = job.learn && found.contains_key(&ErrorClass::WrongContent);
    is_wrong.then_some(
        "replies are held against the first ones; if these are correct, too: --no-reference, or --expect what all have",
    )
}

fn server_errors(found: &BTreeMap<ErrorClass, ErrorCount>) -> Vec<ReportedError> {
    let mut all: Vec<ReportedError> = found.values().flat_map(|error| error.reported.clone()).collect();
    all.sort_by_key(|error| Reverse(error.count));
    all
}

fn percentiles(histogram: Option<&Histogram>) -> Option<Percentiles> {
    let histogram = histogram.filter(|histogram| !histogram.is_empty())?;
    Some(Percentiles {
        p50: histogram.quantile(0.5),
        p75: histogram.quantile(0.75),
        p90: histogram.quantile(0.9),
        p95: histogram.quantile(0.95),
        p99: histogram.quantile(0.99),
        p999: histogram.quantile(0.999),
        max: histogram.max(),
        mean: histogram.mean(),
        sd: histogram.deviation(),
        count: histogram.count(),
    })
}

fn offered(outcome: &Outcome) -> Option<OfferedFigures> {
    let Model::Open(_) = outcome.spec.model else {
        return None;
    };
    let offered = outcome.result.offered?;
    let reached = offered.is_reached();
    Some(OfferedFigures {
        rate: offered.rate,
        scheduled: offered.scheduled,
        sent: offered.sent,
        reached,
    })
}

fn phases(outcome: &Outcome) -> BTreeMap<String, Percentiles> {
    let phases = &outcome.result.phases;
    [
        ("connect", &phases.connect),
        ("tls", &phases.tls),
        ("auth", &phases.auth),
        ("first_byte", &phases.first_byte),
    ]
    .into_iter()
    .filter_map(|(name, histogram)| Some((name.to_owned(), percentiles(histogram.as_ref())?)))
    .collect()
}

fn proof(outcome: &Outcome) -> ProofFigures {
    let proof = outcome.proof.clone();
    ProofFigures {
        family: proof.family,
        peer: proof.peer,
        tls_version: proof.tls_version,
        tls_cipher: proof.tls_cipher,
        tls_insecure: outcome.spec.endpoint.tls.as_ref().is_some_and(|tls| tls.insecure),
        reused: proof.reused,
        nodelay: proof.nodelay,
        send_buffer: proof.send_buffer,
        receive_buffer: proof.receive_buffer,
    }
}

fn headroom(headroom: &Headroom) -> Option<HeadroomFigures> {
    match headroom {
        Headroom::NotAsked => None,
        Headroom::Unknown(why) => Some(HeadroomFigures {
            unknown: Some(why.clone()),
            ..HeadroomFigures::default()
        }),
        Headroom::Reached(takes) => {
            let times = sorted(takes, |take| take.null / take.own);
            let rates = sorted(takes, |take| take.null);
            let middle = takes.len() / 2;
            Some(HeadroomFigures {
                null_throughput: rates.get(middle).copied(),
                times: times.get(middle).copied(),
                times_low: times.first().copied(),
                times_high: times.last().copied(),
                takes: takes.len(),
                unknown: None,
            })
        }
    }
}

fn sorted(takes: &[Take], of: impl Fn(&Take) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = takes.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use lasthop_protocol::url::{UrlOptions, parse};

    use super::*;

    #[test]
    fn replies_that_wait_for_delayed_acks() {
        let said = |family: &str, connections: u32, [first, whole]: [u64; 2], busy_ns: u64| {
            let (endpoint, protocol) = parse("http://127.0.0.1:80/", &UrlOptions::default()).unwrap();
            let spec = Spec {
                connections,
                ..Spec::new(endpoint, protocol)
            };
            let proof = Proof {
                family: family.to_owned(),
                peer: String::new(),
                tls_version: None,
                tls_cipher: None,
                reused: true,
                password_asked: None,
                nodelay: None,
                send_buffer: None,
                receive_buffer: None,
            };
            let times = |us: u64| {
                let mut times = Histogram::new();
                times.record_n(us * 1_000, 10);
                Some(times)
            };
            let mut result = TrialResult::empty(Engine::Blocking, 1_000_000_000);
            result.service_time = times(whole);
            result.phases.first_byte = times(first);
            result.cost.user_ns = busy_ns;
            delayed_acks(&spec, &proof, &result).unwrap_or_default()
        };
        let split = said("inet", 10, [70, 44_000], 0);
        assert!(
            split.starts_with("most replies begin after 70.") && split.contains("TCP_NODELAY"),
            "{split}"
        );
        assert!(said("inet6", 1, [43_900, 44_000], 0).contains("typical of Nagle's algorithm"));
        for none in [
            said("unix", 1, [70, 44_000], 0),
            said("inet", 1, [70, 20_000], 0),
            said("inet", 10, [43_900, 44_000], 0),
            said("inet", 1, [70, 44_000], 900_000_000),
        ] {
            assert_eq!(none, "");
        }
    }
}
