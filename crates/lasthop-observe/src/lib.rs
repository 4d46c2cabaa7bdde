//! OBSERVE: what the machine did during a trial, and which machine it is.

pub mod cgroup;
pub mod environment;
pub mod link;
pub mod machine;
pub mod namespaces;
pub mod network;
pub mod observer;
pub mod procfs;
