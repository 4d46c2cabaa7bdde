//! KEEP: the directory that a run leaves, and that every report is made from.

pub mod data;
pub mod schema;
