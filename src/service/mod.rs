//! START: real servers, behind guards that outlive lasthop.

pub mod account;
pub mod bindings;
pub mod guard;
pub mod process;
pub mod sandbox;
pub mod tls;
