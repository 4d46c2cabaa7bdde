//! A run record in memory: what the reader yields and the analysis takes.

use super::schema::{Environment, RunEnd, RunHeader, TrialRecord};

/// Everything that a run recorded, also of one that goes on or was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    pub header: RunHeader,
    /// `None` when the first round was never up.
    pub environment: Option<Environment>,
    /// In the order in which they were written.
    pub records: Vec<TrialRecord>,
    /// `None` while the run goes on, and when it was cut off.
    pub end: Option<RunEnd>,
}
