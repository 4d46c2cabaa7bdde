//! A run record in memory.

use super::schema::{Environment, RunEnd, RunHeader, TrialRecord};

/// Everything that one run left on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    pub header: RunHeader,
    /// `None` when the run died before its first round was up.
    pub environment: Option<Environment>,
    /// In the order in which they were made.
    pub records: Vec<TrialRecord>,
    /// `None` when the run was cut off, or is still going on.
    pub end: Option<RunEnd>,
}
