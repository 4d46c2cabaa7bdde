//! Runs of an experiment on the nodes of a Kubernetes cluster, without anything installed there.
//!
//! A Job for each node runs lasthop itself in a Pod. Nothing can be copied out of an ended Pod, so the record comes
//! back through its log: [`worker`] writes it there during the run, in the format of [`wire`], and the client reads and
//! verifies it. [`manifest`] renders the objects from templates, with [`files`] in them.
//!
//! [`client`] talks to the cluster through kubectl.

pub mod client;
pub mod files;
pub mod layout;
pub mod manifest;
pub mod wire;
pub mod worker;
