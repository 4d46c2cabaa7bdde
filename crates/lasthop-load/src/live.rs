//! Progress of a running trial.

use std::ops::AddAssign;

use lasthop_trial::Histogram;

/// Counts since a trial began, and when they were read.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Monotonic nanoseconds; 0 if nothing has been read.
    pub at: u64,
    /// Correct replies.
    pub requests: u64,
    pub errors: u64,
    /// Times of the measure phase so far: response times in an open loop, otherwise service times.
    pub times: Histogram,
}

impl AddAssign for Live {
    fn add_assign(&mut self, other: Self) {
        self.at = self.at.max(other.at);
        self.requests += other.requests;
        self.errors += other.errors;
        self.times.merge(&other.times);
    }
}
