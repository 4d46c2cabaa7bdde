//! The result of a trial.

use std::{collections::BTreeMap, ops::AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, histogram::Histogram, options::Engine};

/// CPU speed: steps per microsecond of a chain of dependent shifts and multiplications, right before and right after a
/// trial, while the driver does nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    pub before: f64,
    pub after: f64,
}

/// Why a request did not get a correct reply. An error is counted here and never as a fast request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Nobody listens there (`ECONNREFUSED`, `ENOENT`).
    Refused,
    /// A Unix socket's backlog was full (`EAGAIN` on connect).
    BacklogFull,
    /// No local port was left (`EADDRNOTAVAIL`).
    NoPort,
    /// A phase took longer than its timeout.
    Timeout,
    /// The peer closed or reset the connection before the reply was complete.
    Reset,
    /// TLS failed: certificate, handshake or record.
    Tls,
    /// The server reports an error or another status than expected.
    WrongStatus,
    /// The reply has the wrong length or content.
    WrongContent,
    /// The bytes violate the protocol.
    Protocol,
    /// Any other error of the operating system.
    Os,
}

impl ErrorClass {
    /// Whether the error is in a complete reply within an intact conversation; a server may give such replies to some
    /// requests only.
    pub fn is_of_reply(self) -> bool {
        matches!(self, Self::WrongStatus | Self::WrongContent)
    }
}

/// Errors of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorCount {
    pub count: u64,
    /// Message of the first error.
    pub first: String,
    /// Errors that the server itself reports. No record keeps them.
    #[serde(skip)]
    pub reported: Vec<ReportedError>,
}

/// Errors that a server reports with the same status or, in protocols without a status, with the same text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedError {
    /// The server's status, in protocols that number them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Text of the first error.
    pub text: String,
    pub count: u64,
}

/// Maximum number of groups; further errors share one.
const REPORTED_MAX: usize = 20;

impl ErrorCount {
    /// Adds `count` failures of this class.
    pub fn add(&mut self, failure: &Failure, count: u64) {
        if self.count == 0 {
            self.first.clone_from(&failure.message);
        }
        self.count += count;
        if failure.class == ErrorClass::WrongStatus {
            self.report(failure.status, &failure.message, count);
        }
    }

    fn report(&mut self, status: Option<u16>, text: &str, count: u64) {
        let is_alike = |error: &&mut ReportedError| error.status == status && (status.is_some() || error.text == text);
        if let Some(error) = self.reported.iter_mut().find(is_alike) {
            error.count += count;
            return;
        }
        let (status, text) = if self.reported.len() < REPORTED_MAX {
            (status, text)
        } else {
            (None, "others")
        };
        match self.reported.get_mut(REPORTED_MAX) {
            Some(others) => others.count += count,
            None => self.reported.push(ReportedError {
                status,
                text: text.to_owned(),
                count,
            }),
        }
    }

    /// Adds another worker's errors; the first example of `self` stays.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        for error in other.reported {
            self.report(error.status, &error.text, error.count);
        }
    }
}

/// Times of the parts of a request; an unused part (TLS on a plain socket) is absent, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// From `connect` to the established connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Histogram>,
    /// The TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Histogram>,
    /// From the established connection (and TLS) until the protocol is ready: authentication and settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Histogram>,
    /// From the request's send to the first byte of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Histogram>,
}

/// CPU time, context switches and system calls of the driver itself in the measure phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DriverCost {
    pub user_ns: u64,
    pub system_ns: u64,
    /// Context switches when the driver waits.
    pub voluntary_switches: u64,
    /// Context switches that the kernel imposed.
    pub involuntary_switches: u64,
    /// Socket and wait calls of the loop, counted by itself.
    pub system_calls: u64,
    /// Run delay: nanoseconds in which the driver's threads were ready to run but had no CPU. `None` if it is not
    /// counted: with a kernel without scheduler statistics, or a foreign program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
}

impl DriverCost {
    /// CPU time, user and system, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

impl AddAssign for DriverCost {
    /// Adds the cost of another thread, or of a later time. A run delay known for only one of both counts alone.
    fn add_assign(&mut self, other: Self) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.system_calls += other.system_calls;
        if let Some(delay) = other.run_delay_ns {
            *self.run_delay_ns.get_or_insert_default() += delay;
        }
    }
}

/// The local ports of a case that opens a connection per request over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortUse {
    /// Ports that connections may use (`ip_local_port_range`).
    pub range: u64,
    /// Sockets in `TIME_WAIT` before the trial, in the whole network namespace.
    pub time_wait_before: u64,
    /// Maximum sockets in `TIME_WAIT` until the trial's end, in the whole network namespace.
    pub time_wait_peak: u64,
    /// Ports left towards the server when the trial began, at least.
    pub left_before: u64,
    /// Nanoseconds that the trial waited for ports.
    pub waited_ns: u64,
}

/// TLS handshakes of the whole trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsHandshakes {
    /// With certificates and signatures.
    pub full: u64,
    /// From an earlier session; only if resumption is requested and the server allows it.
    pub resumed: u64,
}

/// Outcome of requests without replies. The trial's `requests` are then the requests that the server counted as
/// received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneWay {
    /// Requests sent in the measure phase, whose service time is the time in `send`.
    pub sent: u64,
    /// Requests in `sent` that waited for room.
    pub waited: u64,
    /// Requests sent in the whole trial.
    pub sent_total: u64,
    /// Requests in `sent_total` that the server received, sooner or later.
    pub received_total: u64,
    /// Requests in `sent_total` that the kernel dropped because the server's buffer was full; `None` if the kernel
    /// drops none, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_total: Option<u64>,
}

impl OneWay {
    /// Requests that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent_total.saturating_sub(self.received_total)
    }
}

/// Whether an open loop kept its schedule during the measure phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// Target rate in requests per second.
    pub rate: f64,
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests in `scheduled` sent before the end of the phase; the others found no free connection.
    pub sent: u64,
}

impl Offered {
    /// Whether at least 99 % of the scheduled requests were sent. Otherwise a check fails: the latencies are those of
    /// an overloaded case.
    pub fn is_reached(&self) -> bool {
        self.sent as f64 >= 0.99 * self.scheduled as f64
    }
}

/// Counts of a stage by the time of each event. A reply may belong to a request of the stage before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageResult {
    /// Target rate in requests per second.
    pub rate: f64,
    /// Nanoseconds counted: the stage without its beginning.
    pub counted_ns: u64,
    /// Requests that were due.
    pub due: u64,
    /// Requests in `due` that were not sent, because every connection was busy.
    pub not_sent: u64,
    /// Correct replies that arrived.
    pub right: u64,
    /// Response times: from when the requests were due, in nanoseconds.
    pub times: Histogram,
    /// All other outcomes of requests.
    pub wrong: Vec<Wrong>,
    /// Requests by when they were due, over the whole stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
}

/// Requests of a stage that ended alike, without a correct reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    pub class: ErrorClass,
    /// The server's status, in protocols that number them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub count: u64,
    /// Message of the first failure.
    pub first: String,
    /// Times from when the requests were due, in nanoseconds.
    pub times: Histogram,
}

/// How a request ended without a correct reply: class and status.
pub type WrongKind = (ErrorClass, Option<u16>);

impl Wrong {
    pub fn kind(&self) -> WrongKind {
        (self.class, self.status)
    }
}

/// Requests that were due in a part of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    pub due: u64,
    /// Response times of correct replies, whenever they arrived.
    pub right: Histogram,
}

impl Slot {
    /// Adds another worker's counts.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.right.merge(&other.right);
    }
}

impl StageResult {
    /// Adds the failures of another worker, or of another trial.
    pub fn add_wrong(&mut self, other: Wrong) {
        match self.wrong.iter_mut().find(|own| own.kind() == other.kind()) {
            None => self.wrong.push(other),
            Some(own) => {
                own.count += other.count;
                own.times.merge(&other.times);
            }
        }
    }

    /// Requests due without an outcome: the increase in outstanding requests.
    pub fn unanswered(&self) -> u64 {
        let wrong: u64 = self.wrong.iter().map(|wrong| wrong.count).sum();
        self.due.saturating_sub(self.right + wrong + self.not_sent)
    }
}

/// The first half of a measure phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstHalf {
    pub requests: u64,
    pub elapsed_ns: u64,
}

/// A count, and the longest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Longest {
    pub count: u64,
    pub longest_ns: u64,
}

impl AddAssign for Longest {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The record of one trial on one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialResult {
    /// Monotonic nanoseconds of the measure phase. Closed loop: from the first completed request after the warm-up to
    /// the first one after the phase's length, so exactly the time of `requests`; without further completions, until
    /// the worker gave up. With several threads, each has its window: the rates add up, and this is `requests` divided
    /// by their sum. Open loop: the requested length.
    pub elapsed_ns: u64,
    /// Requests with a correct reply within `elapsed_ns`; open loop: those due within it.
    pub requests: u64,
    /// Requests with a correct reply in the whole trial, warm-up and drain included. The servers' CPU time is divided
    /// by this number.
    pub requests_total: u64,
    /// Closed loop with replies only: the part of `requests` and `elapsed_ns` up to the first completed request after
    /// half of the measure phase; `None` if that was the last request, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_half: Option<FirstHalf>,
    /// Payload bytes received within `elapsed_ns`.
    #[serde(default)]
    pub bytes_received: u64,
    /// Time from the actual send to the last byte of the reply (including the connect if each request has its own
    /// connection), for requests that began within `elapsed_ns` (open loop: that were due within it), however late
    /// their replies. `None` for a foreign driver that only counts.
    pub service_time: Option<Histogram>,
    /// Open loop only: time from the scheduled send to the last byte of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time: Option<Histogram>,
    /// Open loop only: actual send minus scheduled send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<Histogram>,
    /// Open loop only: requests due and requests sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
    /// Results of the stages; only for a load in stages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageResult>,
    /// The use of local ports; only with a connection per request over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Box<PortUse>>,
    /// TLS handshakes; only if the trial opened connections with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_handshakes: Option<TlsHandshakes>,
    /// Requests sent and received; only for a protocol without replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Box<OneWay>>,
    #[serde(default)]
    pub phases: Phases,
    /// Requests without a reply when the trial was cut short.
    #[serde(default, skip_serializing_if = "crate::options::is_default")]
    pub unanswered: u64,
    /// Requests of the whole trial that the server did not take before it ended their connection, and that were sent
    /// again over another one; each repetition counts. They are no errors; their times count from the first send.
    #[serde(default, skip_serializing_if = "crate::options::is_default")]
    pub sent_again: u64,
    /// Requests under way when the measure phase ended, and the time that the oldest of them took, whatever its
    /// outcome. In a closed loop, most connections then have a request under way. No record keeps it.
    #[serde(skip)]
    pub open_at_end: Longest,
    /// Requests in `open_at_end` that were under way during all of the measure phase, and for at least two seconds. No
    /// record keeps it.
    #[serde(skip)]
    pub unserved: Longest,
    /// Requests that began before the measure phase and ended in it or after it: no latency includes them. No record
    /// keeps it.
    #[serde(skip)]
    pub untimed: Longest,
    /// Time in the measure phase of requests that no latency includes, minus time after the phase of requests that a
    /// latency includes, in nanoseconds. No record keeps it.
    #[serde(skip)]
    pub beyond_ns: i64,
    /// Connects since the case was prepared that took a second, after which the kernel repeats an unanswered SYN. No
    /// record keeps it.
    #[serde(skip)]
    pub slow_connects: Longest,
    /// Errors of the whole trial.
    #[serde(default)]
    pub errors: BTreeMap<ErrorClass, ErrorCount>,
    /// Connections opened in the whole trial.
    #[serde(default)]
    pub connections_opened: u64,
    /// Cost of the measure phase.
    pub cost: DriverCost,
    /// The engine that ran; `auto` for a driver that is not lasthop's.
    #[serde(default)]
    pub engine: Engine,
    /// Latencies reported by a foreign tool; `None` if lasthop drove, whose histograms tell more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Box<Reported>>,
    /// How long a classic tool ran, in nanoseconds, including its work before and after the measurement. The tool's CPU
    /// time covers all of this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_ns: Option<u64>,
    /// Speed of the driver's CPU; `None` in records of earlier versions and from drivers that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
}

/// Latencies of a trial as printed by a foreign tool, in nanoseconds; `None` if not printed. They cannot be merged:
/// each is valid for its own trial only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// Name of the tool.
    pub tool: String,
    pub mean_ns: Option<f64>,
    pub deviation_ns: Option<f64>,
    pub median_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub max_ns: Option<f64>,
    /// The smallest difference that the tool's output can show.
    pub resolution_ns: f64,
    /// What a reader must know, for example that the tool corrects its histogram.
    pub caution: Option<String>,
}

impl TrialResult {
    /// A trial of `elapsed_ns` without any request.
    pub fn empty(engine: Engine, elapsed_ns: u64) -> Self {
        Self {
            elapsed_ns,
            engine,
            ..Self::default()
        }
    }

    /// Correct replies per second of the measure phase.
    pub fn throughput(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// The latencies that users of the service see: the response time for an open loop, which counts from when a
    /// request was due; the service time for a closed one. `None` if the driver has none.
    pub fn latency(&self) -> Option<&Histogram> {
        if self.offered.is_some() {
            self.response_time.as_ref()
        } else {
            self.service_time.as_ref()
        }
    }

    pub fn error_total(&self) -> u64 {
        self.errors.values().map(|error| error.count).sum()
    }

    /// The driver's CPU time as a share of a core; 1.0 is one whole core.
    pub fn driver_load(&self) -> f64 {
        self.cost.cpu_ns() as f64 / self.driven_ns() as f64
    }

    /// Time that the driver's CPU time covers, in nanoseconds: the measure phase, or a tool's whole run.
    pub fn driven_ns(&self) -> u64 {
        self.ran_ns.unwrap_or(self.elapsed_ns)
    }
}

/// Properties of a live connection, read from the socket and the TLS session, not from the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Address family of the connected socket: `unix`, `inet` or `inet6`; `unixgram`, `seqpacket`, `udp` or `udp6`; or
    /// a channel.
    pub family: String,
    /// Peer address as shown by the kernel.
    pub peer: String,
    /// Negotiated version, for example `TLSv1.3`; `None` on a plain socket.
    pub tls_version: Option<String>,
    pub tls_cipher: Option<String>,
    /// Whether the second of two requests used the same connection as the first.
    pub reused: bool,
    /// Whether the server asked for a password; `None` if the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_asked: Option<bool>,
    /// `TCP_NODELAY` as read back; `None` on Unix sockets.
    pub nodelay: Option<bool>,
    /// Bytes of `SO_SNDBUF` and `SO_RCVBUF` as read back, if set: the kernel doubles the values, up to its limits
    /// (socket(7)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_counted_and_bounded() {
        let status = |status: u16, text: &str| Failure {
            status: Some(status),
            ..Failure::refused(text)
        };
        let mut count = ErrorCount::default();
        count.add(&status(502, "status 502, to /a"), 2);
        count.add(&status(504, "status 504"), 1);
        count.add(&status(502, "status 502, to /b"), 1);
        count.add(&Failure::refused("BUSY"), 3);
        let mut other = ErrorCount::default();
        other.add(&Failure::refused("OOM"), 1);
        other.add(&Failure::refused("BUSY"), 1);
        count.merge(other);
        let said = |count: &ErrorCount| -> Vec<(String, u64)> {
            count.reported.iter().map(|one| (one.text.clone(), one.count)).collect()
        };
        let wanted = [("status 502, to /a", 3), ("status 504", 1), ("BUSY", 4), ("OOM", 1)];
        assert_eq!(said(&count), wanted.map(|(text, count)| (text.to_owned(), count)));
        assert_eq!((count.count, count.first.as_str()), (9, "status 502, to /a"));
        (0..100).for_each(|number| count.add(&Failure::refused(format!("key {number}")), 1));
        assert_eq!(said(&count)[REPORTED_MAX..], [("others".to_owned(), 84)]);
        assert_eq!(count.reported.iter().map(|error| error.count).sum::<u64>(), count.count);
        let mut content = ErrorCount::default();
        content.add(&Failure::content("the body is another"), 1);
        assert_eq!(said(&content), []);
    }
}
