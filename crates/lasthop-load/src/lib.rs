//! The load generator of lasthop: a specification in, a result out.
//!
//! One engine drives any protocol over any local transport. Load model, reuse, transport and protocol are values
//! that combine. The crate knows no experiment, no recipe and no report.
//!
//! # Layout
//! - [`spec`]: what to do, with its [`options`]. Serialisable, validated before anything is opened.
//! - [`address`]: where a server listens; [`transport`]: sockets, plain or TLS; after `connect` all are the same. [`tls_request`]: words in plain before TLS.
//! - [`protocol`]: what is said, without sockets; every reply is checked. One table has all protocols.
//! - [`pacer`]: when the requests of an open loop are due.
//! - [`engine`]: the loop, blocking or epoll; [`recorder`]: what it counts and times; `cost`: what it consumes, and the run delay of any thread; [`proof`]: what it ran over.
//! - `ports`: whether a connection per request over TCP has local ports enough.
//! - [`speed`]: how fast the CPU is right before and after a trial.
//! - [`result`]: what happened in one trial, with mergeable histograms.
//! - [`url`]: an endpoint and its protocol written as a URL; [`location`]: its parts.
//! - [`wire`]: the JSON-lines protocol of `lasthop drive`; [`drive`]: its serving side.
//! - [`serve`]: lasthop's own server, the cheapest that is honest; [`null`]: one that says a known reply and does nothing.
//! - [`receipt`]: what a server says that it has received, where nothing comes back.
//! - [`udp`]: who is bound to a UDP port, and what the kernel dropped there.
//! - [`regular`]: the door to files that somebody else may have put there.
//! - [`sample`], [`mod@reference`]: the first reply of an endpoint, and what it tells about all others.

pub mod address;
pub mod clock;
mod cost;
pub mod drive;
pub mod engine;
pub mod failure;
pub mod histogram;
pub mod limits;
pub mod location;
pub mod null;
pub mod options;
pub mod pacer;
mod ports;
pub mod proof;
pub mod protocol;
pub mod receipt;
pub mod recorder;
pub mod reference;
pub mod regular;
pub mod result;
pub mod sample;
pub mod serve;
pub mod spec;
pub mod speed;
pub mod stages;
pub mod steady;
mod supervisor;
mod tally;
pub mod tls_request;
pub mod transport;
pub mod udp;
pub mod url;
pub mod wire;

pub use cost::run_delay;
pub use histogram::Histogram;
pub use result::TrialResult;
pub use spec::Spec;
