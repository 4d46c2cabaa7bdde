//! ANALYSE: from a run record to estimates, comparisons, checks and verdicts.

pub mod summary;
