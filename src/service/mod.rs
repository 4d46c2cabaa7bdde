//! START: real servers, behind guards that outlive lasthop.
//!
//! | module | holds |
//! |---|---|
//! | [`home`] | the data folder |
//! | [`locate`] | a recipe's program: path and version |
//! | [`sandbox`], [`tls`] | the private directory of a run: sockets, ports, certificates |
//! | [`bindings`] | what templates may refer to |
//! | [`guard`] | the process that starts everything, and ends it |
//! | [`container`] | podman and Docker: images, networks, containers of a run, and their end |
//! | [`namespace`] | a network namespace of a run, for a driver that is elsewhere |
//! | [`place`] | how and where a service was started, for the record |
//! | [`stack`] | services prepared, started, ready, stopped |
//! | [`setup`] | what installs an experiment's programs |
//! | [`readiness`], [`listener`] | whether a server answers, and whose it is |

pub mod account;
pub mod bindings;
pub mod brief;
pub mod container;
pub mod guard;
pub mod home;
pub mod listener;
pub mod locate;
pub mod namespace;
pub mod null;
pub mod place;
pub mod process;
pub mod readiness;
pub mod sandbox;
pub mod setup;
pub mod shell;
pub mod stack;
pub mod tls;
