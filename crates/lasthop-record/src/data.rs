//! A run record in memory.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use jiff::{SignedDuration, Timestamp};
use lasthop_model::record::{
    Environment, Failure, MeasuredTrial, OverloadTrial, ProfileRecord, ProfileTrial, Resumption, RoundRecord, RunEnd,
    RunHeader, TrialRecord,
};
use lasthop_trial::{delayed_ack, result::Phases};

/// The whole record of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    pub header: RunHeader,
    /// `None` if the run died before its first round had started.
    pub environment: Option<Environment>,
    /// Trials, rounds, failures and resumptions, in the order of the run.
    pub records: Vec<TrialRecord>,
    /// Profile trials, in the order of the run; empty unless the run is explained.
    pub profiles: Vec<ProfileRecord>,
    /// `None` if the run was cut off or is still running.
    pub end: Option<RunEnd>,
}

/// The longest text of a failure in bytes. Real ones have a few hundred.
const LONGEST_TEXT: usize = 64 << 10;

/// Cuts a long text off.
fn shorten(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let more = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("… ({more} more bytes in the record)"));
        text.shrink_to_fit();
    }
}

impl RunData {
    /// Adds a line of the record, without parts that no report uses, because a run of an hour has tens of thousands of
    /// lines.
    pub fn keep(&mut self, mut record: TrialRecord) {
        match &mut record {
            TrialRecord::Trial(trial) => {
                let result = &mut trial.result;
                let times = result.service_time.as_ref();
                let is_slow = times.is_some_and(|times| times.quantile(0.5) >= delayed_ack::WINDOW_NS.start);
                result.phases = Phases {
                    // Shows what slow replies wait for, of which there are few.
                    first_byte: result.phases.first_byte.take().filter(|_| is_slow),
                    ..Phases::default()
                };
                trial.observations.roles.shrink_to_fit();
            }
            TrialRecord::Round(_) => self.share_proofs(),
            TrialRecord::Overload(trial) => trial.result.phases = Phases::default(),
            TrialRecord::Failure(failure) => {
                let Failure { cause, log, hint, .. } = &mut **failure;
                [Some(cause), Some(log), hint.as_mut()]
                    .into_iter()
                    .flatten()
                    .for_each(shorten);
            }
            TrialRecord::Resumed(_) => {}
        }
        self.records.push(record);
    }

    /// Shares equal proofs of the last two rounds, with the addresses of the earlier round. The newest round, which is
    /// added afterwards, stays unchanged.
    fn share_proofs(&mut self) {
        let mut rounds = self.records.iter_mut().rev().filter_map(|record| match record {
            TrialRecord::Round(round) => Some(round),
            _ => None,
        });
        let (Some(last), Some(before)) = (rounds.next(), rounds.next()) else {
            return;
        };
        for (case, seen) in &mut last.cases {
            match before.cases.get(case) {
                Some(earlier) if earlier.says_the_same(seen) => *seen = earlier.clone(),
                _ => {}
            }
        }
    }

    /// Trials, in order.
    pub fn trials(&self) -> impl Iterator<Item = &MeasuredTrial> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Trial(trial) => Some(&**trial),
            _ => None,
        })
    }

    /// Trials of a run with overload, in order.
    pub fn overloads(&self) -> impl Iterator<Item = &OverloadTrial> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Overload(trial) => Some(&**trial),
            _ => None,
        })
    }

    /// Profile trials, in order.
    pub fn profile_trials(&self) -> impl Iterator<Item = &ProfileTrial> {
        self.profiles.iter().filter_map(|record| match record {
            ProfileRecord::Profile(trial) => Some(&**trial),
            _ => None,
        })
    }

    /// Titles of layers by id.
    pub fn layers(&self) -> IndexMap<String, String> {
        let tables = self.profiles.iter().filter_map(|record| match record {
            ProfileRecord::Layers(titles) => Some(titles),
            _ => None,
        });
        tables
            .flatten()
            .map(|(id, title)| (id.clone(), title.clone()))
            .collect()
    }

    /// The last reason why profile trials were impossible.
    pub fn not_observed(&self) -> Option<&str> {
        self.profiles.iter().rev().find_map(|record| match record {
            ProfileRecord::Missing(why) => Some(why.as_str()),
            _ => None,
        })
    }

    /// Whether there is any result.
    pub fn has_measured(&self) -> bool {
        self.trials().next().is_some() || self.overloads().next().is_some()
    }

    /// Rounds whose services were up, in order.
    pub fn rounds(&self) -> impl Iterator<Item = &RoundRecord> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Round(round) => Some(&**round),
            _ => None,
        })
    }

    /// Trials and starts that failed, in order.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Failure(failure) => Some(&**failure),
            _ => None,
        })
    }

    /// Resumptions of the run, in order.
    pub fn resumptions(&self) -> impl Iterator<Item = &Resumption> {
        self.records.iter().filter_map(|record| match record {
            TrialRecord::Resumed(resumption) => Some(&**resumption),
            _ => None,
        })
    }

    /// For each round with a trial, the number of resumptions before it.
    pub fn parts(&self) -> BTreeMap<u32, usize> {
        let mut part = 0;
        let mut found = BTreeMap::new();
        for record in &self.records {
            match record {
                TrialRecord::Resumed(_) => part += 1,
                TrialRecord::Trial(trial) => {
                    found.insert(trial.round, part);
                }
                TrialRecord::Overload(trial) => {
                    found.insert(trial.round, part);
                }
                _ => {}
            }
        }
        found
    }

    /// The number of reports of this run: the final one, and one for each earlier part that ended in order with
    /// results.
    pub fn reports(&self) -> u32 {
        let first = self.trials().next().map(|trial| trial.at_ns);
        let earlier = self
            .resumptions()
            // A part before the first trial had nothing to report.
            .filter(|resumption| first.is_some_and(|first| first < resumption.at_ns))
            .filter(|resumption| resumption.ended.is_some())
            .count();
        u32::try_from(earlier).unwrap_or(u32::MAX - 1) + 1
    }

    /// Running time in nanoseconds, as far as known if the run was cut off.
    pub fn took_ns(&self) -> u64 {
        let until = |record: &TrialRecord| match record {
            TrialRecord::Round(round) => round.at_ns + round.start_ns,
            TrialRecord::Trial(trial) => trial.at_ns + trial.result.elapsed_ns,
            TrialRecord::Overload(trial) => trial.at_ns + trial.result.elapsed_ns,
            TrialRecord::Resumed(resumption) => resumption.at_ns,
            TrialRecord::Failure(_) => 0,
        };
        self.end
            .as_ref()
            .map_or_else(|| self.records.iter().map(until).max().unwrap_or(0), |end| end.took_ns)
    }

    /// When the run was last known to be running.
    pub fn last_seen(&self) -> Timestamp {
        let begun = (self.header.started, 0);
        let (at, before) = self
            .resumptions()
            .last()
            .map_or(begun, |resumption| (resumption.at, resumption.at_ns));
        let since = i64::try_from(self.took_ns().saturating_sub(before)).unwrap_or(i64::MAX);
        at.saturating_add(SignedDuration::from_nanos(since)).unwrap_or(at)
    }

    /// The budget of the whole run in nanoseconds: as planned, or as set by the last resumption.
    pub fn budget_ns(&self) -> u64 {
        self.resumptions()
            .last()
            .map_or(self.header.settings.budget_ns, |resumption| resumption.budget_ns)
    }

    /// The number of complete rounds, in which every case that started has its last trial or has failed.
    pub fn whole_rounds(&self) -> u32 {
        let usual = self.header.settings.blocks;
        let blocks: BTreeMap<u32, u32> = self
            .rounds()
            .filter_map(|round| Some((round.round, round.blocks.or(usual)?)))
            .collect();
        let is_last = |trial: &MeasuredTrial| blocks.get(&trial.round) == Some(&(trial.block + 1));
        let loads = |trial: &OverloadTrial| {
            u32::try_from(
                self.overloads()
                    .filter(|other| other.times.is_some() && (other.round, &other.case) == (trial.round, &trial.case))
                    .count(),
            )
            .ok()
        };
        let done: BTreeSet<(u32, &str)> = self
            .records
            .iter()
            .filter_map(|record| match record {
                TrialRecord::Trial(trial) => is_last(trial).then_some((trial.round, &trial.case[..])),
                TrialRecord::Overload(trial) => {
                    (loads(trial) == blocks.get(&trial.round).copied()).then_some((trial.round, &trial.case[..]))
                }
                TrialRecord::Failure(failure) => Some((failure.round, &failure.case[..])),
                _ => None,
            })
            .collect();
        let tried: BTreeSet<u32> = done.iter().map(|(round, _)| *round).collect();
        u32::try_from(
            self.rounds()
                .filter(|round| {
                    tried.contains(&round.round)
                        && round.cases.keys().all(|case| done.contains(&(round.round, &case[..])))
                })
                .count(),
        )
        .unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_that_nobody_reads_is_shortened() {
        let mut usual = "é".repeat(LONGEST_TEXT / 2);
        let mut long = format!("x{}", "é".repeat(30 << 20));
        let before = usual.clone();
        shorten(&mut usual);
        assert_eq!(usual, before);
        shorten(&mut long);
        assert!(
            long.len() < LONGEST_TEXT + 64 && long.ends_with("é… (62849026 more bytes in the record)"),
            "{}",
            long.len()
        );
    }
}
