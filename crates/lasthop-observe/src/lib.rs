//! OBSERVE: the machine's activity during a trial, and its description.

pub mod cgroup;
pub mod environment;
pub mod link;
pub mod machine;
pub mod namespaces;
pub mod network;
pub mod observer;
pub mod procfs;
