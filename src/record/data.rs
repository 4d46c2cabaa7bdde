//! A run record in memory.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::schema::{Environment, Failure, MeasuredTrial, Resumption, RoundRecord, RunEnd, RunHeader, TrialRecord};

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

impl RunData {
    /// Trials that were made, in order.
    pub fn trials(&self) -> impl Iterator<Item = &MeasuredTrial> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Trial(trial) => Some(&**trial),
            _ => None,
        })
    }

    /// Rounds whose services were up, in order.
    pub fn rounds(&self) -> impl Iterator<Item = &RoundRecord> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Round(round) => Some(round),
            _ => None,
        })
    }

    /// Trials and starts that failed, in order.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Failure(failure) => Some(failure),
            _ => None,
        })
    }

    /// Where the run was taken up again, in order.
    pub fn resumptions(&self) -> impl Iterator<Item = &Resumption> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Resumed(resumption) => Some(resumption),
            _ => None,
        })
    }

    /// By number of each round with a trial: after how many resumptions it was made.
    #[must_use]
    pub fn parts(&self) -> BTreeMap<u32, usize> {
        let mut part = 0;
        let mut found = BTreeMap::new();
        for record in &self.records {
            match record {
                TrialRecord::Resumed(_) => part += 1,
                TrialRecord::Trial(trial) => {
                    found.insert(trial.round, part);
                }
                _ => {}
            }
        }
        found
    }

    /// Reports that the results of this run have: its own, and one for each time that it had ended in order with
    /// something measured.
    #[must_use]
    pub fn reports(&self) -> u32 {
        let first = self.trials().next().map(|trial| trial.at_ns);
        let measured = |resumption: &&Resumption| first.is_some_and(|first| first < resumption.at_ns);
        let earlier = self.resumptions().filter(measured).filter(|resumption| resumption.ended.is_some()).count();
        u32::try_from(earlier).unwrap_or(u32::MAX - 1) + 1
    }

    /// Nanoseconds in which the run ran, as far as is known where it was cut off.
    #[must_use]
    pub fn took_ns(&self) -> u64 {
        let until = |record: &TrialRecord| match record {
            TrialRecord::Round(round) => round.at_ns + round.start_ns,
            TrialRecord::Trial(trial) => trial.at_ns + trial.result.elapsed_ns,
            TrialRecord::Resumed(resumption) => resumption.at_ns,
            TrialRecord::Failure(_) => 0,
        };
        let last = || self.records.iter().map(until).max().unwrap_or(0);
        self.end.as_ref().map_or_else(last, |end| end.took_ns)
    }

    /// Time of day of the last that is known of the run.
    #[must_use]
    pub fn last_seen(&self) -> Timestamp {
        let begun = (self.header.started, 0);
        let (at, before) = self.resumptions().last().map_or(begun, |resumption| (resumption.at, resumption.at_ns));
        let since = i64::try_from(self.took_ns().saturating_sub(before)).unwrap_or(i64::MAX);
        at.saturating_add(SignedDuration::from_nanos(since)).unwrap_or(at)
    }

    /// Nanoseconds that the whole run may take: as planned, or as it was last resumed with.
    #[must_use]
    pub fn budget_ns(&self) -> u64 {
        self.resumptions().last().map_or(self.header.settings.budget_ns, |resumption| resumption.budget_ns)
    }

    /// How many rounds came to their end: every case that was up has its last trial or failed.
    #[must_use]
    pub fn whole_rounds(&self) -> u32 {
        let last = self.header.settings.blocks.saturating_sub(1);
        let done: BTreeSet<(u32, &str)> = self
            .records
            .iter()
            .filter_map(|record| match record {
                TrialRecord::Trial(trial) => (trial.block == last).then_some((trial.round, &trial.case[..])),
                TrialRecord::Failure(failure) => Some((failure.round, &failure.case[..])),
                _ => None,
            })
            .collect();
        let tried = |round: u32| done.iter().any(|(number, _)| *number == round);
        let whole = |round: &&RoundRecord| {
            tried(round.round) && round.cases.keys().all(|case| done.contains(&(round.round, &case[..])))
        };
        u32::try_from(self.rounds().filter(whole).count()).unwrap_or(u32::MAX)
    }
}
