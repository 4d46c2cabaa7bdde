//! Requests and replies as values: the specification of a load, what a correct reply is, endpoints as URLs. Nothing here
//! opens a socket, reads a clock or knows an experiment.
//!
//! # Layout
//! - [`spec`]: the load. Serialisable, validated before anything is opened.
//! - [`url`]: an endpoint and its protocol written as a URL; [`location`]: the parts of such URLs.
//! - `protocol`: requests and checked replies, without sockets. [`PROTOCOLS`] lists all protocols; each is a module
//!   here.
//! - [`tls_request`]: plaintext before TLS.
//! - [`steady`]: whether trials were long enough.
//! - [`wire`]: the JSON-lines protocol of `lasthop drive`.

pub mod location;
mod protocol;
pub mod spec;
pub mod steady;
pub mod tls_request;
pub mod url;
pub mod wire;

pub use protocol::*;
pub use spec::Spec;
