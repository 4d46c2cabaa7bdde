//! Requests, replies and results as values: where a server listens, the specification of a load, what a correct reply
//! is, the result of a trial. Nothing here opens a socket, reads a clock or knows an experiment.
//!
//! # Layout
//! - [`spec`]: the load, with its [`options`]. Serialisable, validated before anything is opened.
//! - [`address`]: where a server listens; [`url`]: an endpoint and its protocol written as a URL; [`location`]: the
//!   parts of such URLs.
//! - `protocol`: requests and checked replies, without sockets. [`PROTOCOLS`] lists all protocols; each is a module
//!   here.
//! - [`tls_request`]: plaintext before TLS.
//! - [`result`](mod@result): the result of a trial, with mergeable histograms ([`histogram`]); [`failure`]: why a
//!   request failed; [`steady`]: whether trials were long enough; [`delayed_ack`]: signs of waits for ACKs.
//! - [`random`]: random numbers for arrivals, and for the order of requests.
//! - [`wire`]: the JSON-lines protocol of `lasthop drive`.

pub mod address;
pub mod delayed_ack;
pub mod failure;
pub mod histogram;
pub mod location;
pub mod options;
mod protocol;
pub mod random;
pub mod result;
pub mod spec;
pub mod steady;
pub mod tls_request;
pub mod url;
pub mod wire;

pub use histogram::Histogram;
pub use protocol::*;
pub use result::TrialResult;
pub use spec::Spec;
