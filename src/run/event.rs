//! What a run tells while it goes on. Reporters consume events; the runner never prints.

use std::{path::PathBuf, time::Duration};

use crate::{
    analyse::ProgressLine,
    record::schema::{Failure, Stopped},
};

/// One thing that happened, in one linear order.
#[derive(Debug)]
pub enum Event<'a> {
    /// The record is open; `cases` cases will take turns for at most `budget`.
    Began { run: &'a str, cases: usize, stacks: usize, budget: Duration },
    /// The experiment's Containerfile cannot be used; an image of this machine's packages takes its place.
    Instead { because: &'a str },
    /// Services are being started for a round.
    Starting { round: u32, services: usize },
    /// The next trial begins.
    Trial { round: u32, block: u32, case: &'a str, elapsed: Duration },
    /// A case yields no numbers in this round.
    CaseFailed(&'a Failure),
    /// A round is over: this is what is known by now.
    Progress { round: u32, elapsed: Duration, comparisons: &'a [ProgressLine] },
    /// No further trial will be made.
    Ended { stopped: Stopped, record: PathBuf, elapsed: Duration },
}
