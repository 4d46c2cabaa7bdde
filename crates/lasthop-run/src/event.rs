//! Events of a run. Reporters consume them; the runner never prints.

use std::time::Duration;

use lasthop_model::record::{Failure, PacketFilter, Resumption};

use lasthop_analyse::ProgressLine;
use lasthop_stack::guard::GuardError;

/// An event, in order of time.
#[derive(Debug)]
pub enum Event<'a> {
    /// The record is open, and `cases` cases will take turns for at most `budget`.
    Began {
        run: &'a str,
        cases: usize,
        budget: Duration,
    },
    /// A run was resumed.
    Resumed { run: &'a str, resumption: &'a Resumption },
    /// The container engine creates what the run needs: image, network, volumes.
    Containing,
    /// Services are being started for a round.
    Starting { services: usize },
    /// The user's command restarts servers that lasthop did not start: `patience` for the command, and as long again
    /// until they answer.
    Restarting { patience: Duration },
    /// The next trial begins.
    Trial { case: &'a str, elapsed: Duration },
    /// The next profile trial begins.
    Profiling { case: &'a str },
    /// Profile trials stop: what is missing, how to allow it, and what it would show.
    NotObserved { why: &'a str },
    /// The trial that has just ended was interrupted by a pause and is discarded.
    Paused { case: &'a str },
    /// A case has no results in this round.
    CaseFailed(&'a Failure),
    /// The drivers and services of a round are being stopped.
    Stopping { services: usize },
    /// The guard ends what still runs and removes the sandbox.
    Clearing { guard: i32 },
    /// The guard was lost, which ends the run, or the guard does not end.
    GuardFailed(&'a GuardError),
    /// The packet filter has rules of a container engine that it did not have before the run.
    RulesLeft {
        before: &'a PacketFilter,
        after: &'a PacketFilter,
    },
    /// The results so far, at the end of a round.
    Progress {
        elapsed: Duration,
        comparisons: &'a [ProgressLine],
    },
    /// The trials are over.
    Ended,
}
