//! START: starts real servers through a guard that outlives lasthop.
//!
//! | module | holds |
//! |---|---|
//! | [`home`] | the data folder |
//! | [`account`], [`exit`] | the account of servers; how a process ends |
//! | [`locate`] | a recipe's program: path and version |
//! | [`sandbox`], [`tls`] | the private directory of a run: sockets, ports, certificates |
//! | [`passage`] | how servers reach folders that are closed to their account |
//! | [`guard`] | the process that starts all others, and ends them |
//! | [`container`] | podman and Docker: images, networks, containers of a run, and their removal |
//! | [`namespace`], `veth` | the network namespace of a run, for a driver inside it, and its pair of links |
//! | [`stack`] | prepares, starts and stops services |
//! | [`setup`] | installs an experiment's programs |
//! | [`readiness`], [`null`] | whether a server answers; the null server |

pub mod account;
pub mod container;
pub mod exit;
pub mod guard;
pub mod home;
pub mod locate;
pub mod namespace;
pub mod null;
pub mod passage;
pub mod readiness;
pub mod sandbox;
pub mod setup;
pub mod stack;
pub mod tls;
mod veth;
