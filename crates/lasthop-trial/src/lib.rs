//! The values of a trial: where its requests go, how they are sent, and what came of them. Nothing here knows a protocol,
//! opens a socket or reads a clock.
//!
//! - [`address`]: where a server listens.
//! - [`options`]: when requests are sent, over which connections, and for how long replies are awaited.
//! - [`result`](mod@result): the result of a trial, with mergeable histograms ([`histogram`]); [`failure`]: why a
//!   request failed; [`delayed_ack`]: signs of waits for ACKs.
//! - [`random`]: random numbers for arrivals, and for the order of requests.

pub mod address;
pub mod delayed_ack;
pub mod failure;
pub mod histogram;
pub mod options;
pub mod random;
pub mod result;

pub use histogram::Histogram;
pub use result::TrialResult;
