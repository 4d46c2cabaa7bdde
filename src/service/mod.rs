//! START: real servers, behind guards that outlive lasthop.

pub mod bindings;
