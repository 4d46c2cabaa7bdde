//! What is said and heard, as values: where a server listens, what a driver is asked to do, what a reply must be, what
//! one trial yielded. Nothing here opens a socket, reads a clock or knows an experiment.
//!
//! # Layout
//! - [`spec`]: what to do, with its [`options`]. Serialisable, validated before anything is opened.
//! - [`address`]: where a server listens; [`url`]: an endpoint and its protocol written as a URL; [`location`]: its parts.
//! - `protocol`: what is said, without sockets; every reply is checked. [`PROTOCOLS`] has all protocols, and each is a
//!   module here.
//! - [`tls_request`]: words in plain before TLS.
//! - [`result`](mod@result): what happened in one trial, with mergeable histograms ([`histogram`]); [`failure`]: why a
//!   request failed; [`steady`]: whether trials were long enough; [`delayed_ack`]: what replies wait for.
//! - [`random`]: draws for arrivals, and for the order of requests.
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
