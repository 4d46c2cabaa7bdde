//! Options of a load, whatever the protocol; and errors of a specification.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options set on the client's sockets before use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SocketOptions {
    /// `TCP_NODELAY`; ignored on Unix sockets.
    pub nodelay: bool,
    /// `SO_SNDBUF` in bytes (the kernel doubles it); `None` leaves the kernel's autotuning on.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF` in bytes (the kernel doubles it); `None` leaves the kernel's autotuning on.
    pub receive_buffer: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            send_buffer: None,
            receive_buffer: None,
        }
    }
}

/// What happens to a connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// A connection for each request.
    PerRequest,
    /// Connections are kept and used again.
    #[default]
    KeepAlive,
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The next request follows the reply.
    #[default]
    Closed,
    /// Requests are due at scheduled times, whatever happened to earlier ones.
    Open(OpenLoop),
}

/// A rate, and how the requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenLoop {
    /// Requests per second over all connections, 0.001 to 100 million.
    pub rate: f64,
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Seed of random arrivals.
    #[serde(default)]
    pub seed: u64,
}

/// A part of a load with one rate; the rate changes from stage to stage.
///
/// Errors are results. A request that is due while every connection is busy is counted and not sent. So there are never
/// more outstanding requests than connections, whatever the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadStage {
    /// Requests per second over all connections, evenly spaced.
    pub rate: f64,
    pub length_ns: u64,
    /// Beginning of the stage that is not counted, because queues fill.
    #[serde(default)]
    pub fill_ns: u64,
    /// Length of a slot; 0 for none.
    #[serde(default)]
    pub slot_ns: u64,
}

impl LoadStage {
    /// Total length of the stages in nanoseconds.
    pub fn total_ns(stages: &[Self]) -> u64 {
        stages.iter().map(|stage| stage.length_ns).sum()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Equal gaps between requests.
    #[default]
    Constant,
    /// Independent requests: exponentially distributed gaps.
    Poisson,
}

/// The way a worker waits for its sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Blocking for one connection, epoll for several.
    #[default]
    Auto,
    Blocking,
    Epoll,
}

/// Timeouts of the phases of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Nanoseconds for connect and TLS handshake, each.
    pub connect_ns: u64,
    /// Nanoseconds from the request to the last byte of its reply.
    pub request_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ns: 5_000_000_000,
            request_ns: 10_000_000_000,
        }
    }
}

impl Timeouts {
    pub fn request(&self) -> Duration {
        Duration::from_nanos(self.request_ns)
    }
}

/// About the longest time that a sleeping thread takes to wake up on an idle CPU of a virtual machine; a request that
/// becomes due in this time would be sent that much too late.
pub const SPIN_BEFORE_DUE_NS: u64 = 50_000;

/// Error text for a pipeline of `depth` requests.
pub fn pipelined(depth: u32, why: &str) -> String {
    format!("{depth} requests in a pipeline: {why}")
}

pub fn possible_rate(rate: f64) -> Result<(), String> {
    if (0.001..=1e8).contains(&rate) {
        Ok(())
    } else {
        Err(format!(
            "the rate must be 0.001 to 100,000,000 requests per second, not {rate}"
        ))
    }
}

/// Whether a field has its default, so that it is left out where it is written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} must be {least} to {most}, not {value}"))
    }
}
