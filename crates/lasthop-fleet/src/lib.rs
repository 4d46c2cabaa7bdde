//! Runs of an experiment on the nodes of a Kubernetes cluster, without anything installed there.
//!
//! A Job for each node runs lasthop itself in a Pod. Nothing can be copied out of a Pod that has ended, so the record
//! comes back through its log: [`worker`] writes it there while the run goes on, as [`wire`] says, and the client reads
//! and verifies it. [`manifest`] makes the objects, as plain values that [`yaml`] prints, and [`files`] go with them.
//!
//! `client` is a feature: it is the only part that needs the cluster's client library, and with it an asynchronous
//! runtime, which is idle while something is measured: that happens in another process, on another machine.

#[cfg(feature = "client")]
pub mod client;
pub mod files;
pub mod layout;
pub mod manifest;
pub mod wire;
pub mod worker;
pub mod yaml;
