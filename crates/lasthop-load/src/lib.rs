//! The load generator of lasthop: a specification in, a result out.
//!
//! One engine drives any protocol over any local transport. Load model, reuse, transport and protocol are values
//! that combine; `lasthop-protocol` has them. The crate knows no experiment, no recipe and no report.
//!
//! # Layout
//! - [`transport`]: sockets, plain or TLS, and channels; after `connect` all are the same.
//! - [`pacer`]: when the requests of an open loop are due.
//! - [`engine`]: the loop, blocking or epoll; [`recorder`]: its counts and times; `stage_recorder`: the same for a load
//!   in stages; `cost`: its CPU time and system calls; [`proof`]: its transport, read from a connection.
//! - `listener`: the listening socket of this crate's servers; `supervisor`: enforces the workers' deadlines.
//! - [`live`]: progress of a running trial.
//! - `ports`: whether local ports suffice for a connection per request over TCP.
//! - [`speed`]: how fast the CPU is right before and after a trial.
//! - [`drive`]: the serving side of `lasthop drive`.
//! - [`serve`]: lasthop's own server, the cheapest that is honest; [`null`]: a server that only sends a known reply.
//! - [`receipt`]: a server's count of received requests, for protocols without replies.
//! - [`reach`]: which address of a host accepts connections.
//! - [`sample`], [`mod@reference`]: the first reply of an endpoint, and what it tells about all others.

pub mod at_once;
mod cost;
pub mod drive;
pub mod engine;
mod listener;
pub mod live;
pub mod null;
pub mod pacer;
mod ports;
pub mod proof;
pub mod reach;
pub mod receipt;
pub mod recorder;
pub mod reference;
pub mod sample;
pub mod serve;
pub mod speed;
mod stage_recorder;
mod supervisor;
mod tally;
pub mod transport;
