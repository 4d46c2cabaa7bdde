//! A load in stages: an open loop whose rate changes from one to the next, and what became of its requests.
//!
//! Errors are results here. A request that is due while every connection is busy is not sent, and counted: so the number of
//! outstanding requests is never larger than that of connections, whatever the rate.

use serde::{Deserialize, Serialize};

pub use crate::result::{Slot, StageResult, Wrong, WrongKind};

/// A stretch of time with one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Requests per second over all connections, evenly spaced.
    pub rate: f64,
    pub length_ns: u64,
    /// What happens before this is not counted: queues fill.
    #[serde(default)]
    pub fill_ns: u64,
    /// Length of its slots; 0 without any.
    #[serde(default)]
    pub slot_ns: u64,
}

/// Length of all stages in nanoseconds.
pub fn length(stages: &[Stage]) -> u64 {
    stages.iter().map(|stage| stage.length_ns).sum()
}
