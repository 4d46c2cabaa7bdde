//! KEEP: the directory that a run leaves behind. Every report is made from it.
//!
//! [`lasthop_model::record`] documents the files field by field, [`Writer`] writes each trial before the next one ends,
//! and [`store`] finds and reads records.

pub mod data;
mod seal;
pub mod store;
mod writer;

pub use data::RunData;
pub use store::Store;
pub use writer::{WriteError, Writer, in_use, keep_headline, recorded};
