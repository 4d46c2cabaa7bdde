//! Runs of an experiment on the nodes of a Kubernetes cluster, without anything installed there.
//!
//! A Job for each node runs lasthop itself in a Pod. Nothing can be copied out of a Pod that has ended, so the record
//! comes back through its log: [`worker`] writes it there while the run goes on, as [`wire`] says, and the client reads
//! and verifies it. [`manifest`] makes the objects from templates, and [`files`] go with them.
//!
//! [`client`] asks the cluster by kubectl's own verbs.

pub mod client;
pub mod files;
pub mod layout;
pub mod manifest;
pub mod wire;
pub mod worker;
