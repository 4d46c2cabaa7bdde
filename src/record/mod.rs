//! KEEP: the directory that a run leaves, and that every report is made from.
//!
//! [`schema`] documents the files field by field, [`Writer`] puts each trial on disk before the next one starts,
//! [`store`] finds and reads what was recorded.

pub mod data;
pub mod schema;
pub mod store;
mod writer;

pub use data::RunData;
pub use store::{ReadError, Store};
pub use writer::{WriteError, Writer};
