//! Lengths of the trials of each case: as set, or longer if its replies are slow.
//!
//! Compared cases have trials of the same length, set by the slowest. The warm-up after verification gives a first
//! estimate of reply times, and the trials a better one. Lengths only grow, and shorter trials of the same cases then
//! no longer count.

use std::time::Duration;

use lasthop_model::{
    quantity::{budget_of, written},
    record::{MeasuredTrial, Settings},
};
use lasthop_protocol::{
    steady::{LEAST_TRIALS, Slow},
    wire::TrialPhases,
};
use lasthop_trial::{Histogram, TrialResult};

/// Lengths of longer trials as multiples of the slow replies: the measure phase, and the warm-up.
const TRIAL: u64 = LEAST_TRIALS + 1;
const WARM_UP: u64 = 2;
/// The drain after the measure phase, as a multiple of the slow replies.
const DRAIN: u64 = 1;
/// The least number of blocks for which the budget must have room.
const LEAST_BLOCKS: u64 = 4;
/// The least number of blocks if replies may have waited for a CPU that others had. Such replies scatter most, and few
/// blocks say nothing.
const LEAST_BLOCKS_DISTURBED: u64 = 20;
/// CPUs used by others from which a trial counts as disturbed. The kernel counts in ticks; one tick is 0.2 of 50 ms.
const DISTURBED: f64 = 0.25;

/// Sequential replies that a case needs for two blocks: two to verify, one to three to settle and warm up, and one
/// before each trial that does not count.
const LEAST_REPLIES: u64 = 8;
/// Further replies that show how long trials must be.
const TELLING_REPLIES: u64 = 6;

/// Checks that twice the budget has room for two blocks. `replies` holds nanoseconds per reply for each case, 0 if
/// little or unknown.
///
/// # Errors
/// The time that two blocks take, and a sufficient budget.
pub fn check_room(replies: &[u64], budget_ns: u64) -> Result<(), String> {
    let seconds = |count: u64| (replies.iter().sum::<u64>() * count) as f64 / 1e9;
    // A run that ends a little later than asked is better than none.
    if seconds(LEAST_REPLIES) <= 2.0 * budget_ns as f64 / 1e9 {
        return Ok(());
    }
    let slowest = replies.iter().max().map_or(0.0, |slowest| *slowest as f64 / 1e9);
    // The others are likely to be as slow.
    let enough = (LEAST_REPLIES + TELLING_REPLIES + LEAST_BLOCKS * (WARM_UP + TRIAL + DRAIN)) * replies.len() as u64;
    Err(format!(
        "a reply takes {slowest:.1} s, so that two blocks take {:.0} s, which is more than the budget of {}: use a larger one \
         (--budget {})",
        seconds(LEAST_REPLIES),
        written(Duration::from_nanos(budget_ns)),
        written(budget_of(slowest * enough as f64))
    ))
}

#[derive(Debug)]
pub struct Lengths {
    /// Groups of compared cases, by index; `None` if all trials are as long as the settings say.
    groups: Option<Vec<Vec<usize>>>,
    usual: TrialPhases,
    /// Lengths by index of the case.
    phases: Vec<TrialPhases>,
    /// The fastest reply of each case in nanoseconds, if longer than a trial.
    fastest: Vec<u64>,
    quiet: Vec<Replies>,
    disturbed: Vec<Replies>,
}

/// Times of a case's slow replies.
#[derive(Clone, Debug, Default)]
struct Replies {
    /// Time in the warm-up, in nanoseconds.
    expected: u64,
    /// Times in trials of the present length.
    seen: Slow,
}

impl Replies {
    fn slow_ns(&self) -> u64 {
        self.expected.max(self.seen.ns())
    }
}

/// Whether trials may still become longer. Earlier trials then no longer count, so after the first round half of the
/// budget must be left. The check `short-trials` explains what trials that stay short mean.
pub fn may_grow(round: u32, left: Duration, budget: Duration) -> bool {
    round == 0 || left >= budget / 2
}

impl Lengths {
    /// `groups` holds the indices of compared cases.
    pub fn new(settings: &Settings, groups: Vec<Vec<usize>>) -> Self {
        let cases = groups.iter().map(Vec::len).sum();
        let usual = TrialPhases {
            warm_up_ns: settings.warm_up_ns,
            measure_ns: settings.trial_ns,
        };
        Self {
            groups: settings.lengthens.then_some(groups),
            usual,
            phases: vec![usual; cases],
            fastest: vec![0; cases],
            quiet: vec![Replies::default(); cases],
            disturbed: vec![Replies::default(); cases],
        }
    }

    pub fn phases(&self, case: usize) -> TrialPhases {
        self.phases[case]
    }

    /// The length of a trial, if it differs from the settings.
    pub fn unusual(&self, case: usize) -> Option<TrialPhases> {
        Some(self.phases[case]).filter(|phases| *phases != self.usual)
    }

    /// Takes over the length of a trial when a run is resumed.
    pub fn resume(&mut self, case: usize, trial: &MeasuredTrial) {
        if let Some(phases) = trial.phases {
            self.phases[case] = phases;
        }
    }

    /// Checks with a case's first replies whether `budget` has room for all cases known so far.
    ///
    /// # Errors
    /// See [`check_room`].
    pub fn check_first(&mut self, case: usize, first: &TrialResult, budget_ns: u64) -> Result<(), String> {
        let fastest = replies(first).map_or(0, |latencies| latencies.quantile(0.0));
        if fastest > self.phases[case].measure_ns {
            self.fastest[case] = fastest;
        }
        check_room(&self.fastest, budget_ns)
    }

    /// Whether `budget` also has room for trials that show how long trials must be.
    pub fn may_ask_more(&self, budget_ns: u64) -> bool {
        self.fastest.iter().sum::<u64>() * (LEAST_REPLIES + TELLING_REPLIES) <= budget_ns
    }

    /// Whether this case's replies are too slow for its trials.
    pub fn is_short_for(&self, case: usize, result: &TrialResult) -> bool {
        self.groups.is_some() && slow_ns(result) * LEAST_TRIALS > self.phases[case].measure_ns
    }

    /// Learns the slow replies of a case from two warm-ups: the faster one counts. `taken` is the CPU use of others
    /// meanwhile, in CPUs.
    pub fn expect(&mut self, case: usize, [one, other]: [&TrialResult; 2], taken: f64) {
        let expected = &mut self.replies(case, taken).expected;
        *expected = slow_ns(one).min(slow_ns(other)).max(*expected);
    }

    fn replies(&mut self, case: usize, taken: f64) -> &mut Replies {
        if taken < DISTURBED {
            &mut self.quiet[case]
        } else {
            &mut self.disturbed[case]
        }
    }

    /// Learns from a finished trial.
    pub fn see(&mut self, case: usize, trial: &MeasuredTrial) {
        let is_of_now = trial.phases.unwrap_or(self.usual) == self.phases[case];
        if let Some(latencies) = replies(&trial.result).filter(|_| self.groups.is_some() && is_of_now) {
            self.replies(case, trial.observations.machine.taken())
                .seen
                .see(latencies);
        }
    }

    /// Lengthens trials of cases that run (`runs`) and whose replies are too slow, as far as the rest of the `budget`
    /// holds a few blocks of all cases. Returns whether any became longer.
    pub fn adapt(&mut self, budget: Duration, runs: impl Fn(usize) -> bool) -> bool {
        let Some(groups) = self.groups.take() else { return false };
        let budget = budget.as_nanos() as u64;
        let mut changed = false;
        for group in &groups {
            let members: Vec<usize> = group.iter().copied().filter(|case| runs(*case)).collect();
            let slow = |known: &[Replies]| {
                members
                    .iter()
                    .map(|case| known[*case].slow_ns())
                    .max()
                    .unwrap_or_default()
            };
            let quiet = slow(&self.quiet);
            let disturbed = slow(&self.disturbed);
            let now = members.first().map_or(self.usual, |case| self.phases[*case]);
            if quiet.max(disturbed) * LEAST_TRIALS <= now.measure_ns {
                continue;
            }
            let others = (0..self.phases.len()).filter(|case| runs(*case) && !members.contains(case));
            let taken: u64 = others.map(|case| length(self.phases[case])).sum();
            let fitting = |slow: u64, blocks: u64| {
                let room = (budget / blocks).saturating_sub(taken) / members.len() as u64;
                slow.min(room / (WARM_UP + TRIAL + DRAIN))
            };
            let unit = fitting(quiet, LEAST_BLOCKS).max(fitting(disturbed, LEAST_BLOCKS_DISTURBED));
            let longer = TrialPhases {
                warm_up_ns: self.usual.warm_up_ns.max(unit * WARM_UP),
                measure_ns: self.usual.measure_ns.max(unit * TRIAL),
            };
            // A slightly longer trial is not worth starting over.
            if longer.measure_ns * LEAST_TRIALS > now.measure_ns * TRIAL {
                changed = true;
                group.iter().for_each(|case| {
                    self.phases[*case] = longer;
                    self.quiet[*case].seen = Slow::default();
                    self.disturbed[*case].seen = Slow::default();
                });
            }
        }
        self.groups = Some(groups);
        changed
    }
}

/// Latencies of a trial's replies. `None` without replies: a longer trial would not show more of a send that waits for
/// the receiver.
fn replies(result: &TrialResult) -> Option<&Histogram> {
    result.latency().filter(|_| result.one_way.is_none())
}

fn slow_ns(result: &TrialResult) -> u64 {
    let mut slow = Slow::default();
    // Twice, because one trial says nothing.
    (0..2).for_each(|_| replies(result).into_iter().for_each(|latencies| slow.see(latencies)));
    slow.ns()
}

fn length(phases: TrialPhases) -> u64 {
    phases.warm_up_ns + phases.measure_ns
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::OneWay;

    use super::*;

    const MS: u64 = 1_000_000;
    const USUAL: TrialPhases = TrialPhases {
        warm_up_ns: 10 * MS,
        measure_ns: 50 * MS,
    };

    /// Two pairs of cases.
    fn lengths(is_fixed: bool) -> Lengths {
        let groups = (!is_fixed).then(|| vec![vec![0, 1], vec![2, 3]]);
        let none = vec![Replies::default(); 4];
        Lengths {
            groups,
            usual: USUAL,
            phases: vec![USUAL; 4],
            fastest: vec![0; 4],
            quiet: none.clone(),
            disturbed: none,
        }
    }

    fn result(milliseconds: u64) -> TrialResult {
        let mut latencies = Histogram::new();
        latencies.record_n(milliseconds * MS, 10);
        TrialResult {
            service_time: Some(latencies),
            ..TrialResult::default()
        }
    }

    fn warm(lengths: &mut Lengths, case: usize, milliseconds: [u64; 2]) {
        warm_beside(lengths, case, milliseconds, 0.0);
    }

    fn warm_beside(lengths: &mut Lengths, case: usize, milliseconds: [u64; 2], taken: f64) {
        let [one, other] = milliseconds.map(result);
        assert!(lengths.is_short_for(case, &one));
        lengths.expect(case, [&one, &other], taken);
    }

    /// How many blocks of all cases fit into 20 seconds.
    fn blocks(lengths: &Lengths) -> u64 {
        20_000 * MS / (0..4).map(|case| length(lengths.phases(case))).sum::<u64>()
    }

    #[test]
    fn a_run_that_is_half_over_keeps_what_it_has() {
        let second = Duration::from_secs(1);
        let may = |round, left| may_grow(round, left * second, 60 * second);
        assert!(may(0, 2) && may(1, 30) && !may(1, 29) && !may(7, 6));
    }

    #[test]
    fn slow_replies_lengthen_the_trials_of_those_that_are_compared() {
        let mut lengths = lengths(false);
        let minute = Duration::from_secs(60);
        assert!(!lengths.is_short_for(0, &result(16)) && !lengths.adapt(minute, |_| true));
        warm(&mut lengths, 1, [200, 201]);
        assert!(lengths.adapt(minute, |_| true) && !lengths.adapt(minute, |_| true));
        assert_eq!(lengths.phases(0), lengths.phases(1));
        let TrialPhases { warm_up_ns, measure_ns } = lengths.phases(0);
        assert!((399 * MS..=401 * MS).contains(&warm_up_ns) && (799 * MS..=801 * MS).contains(&measure_ns));
        assert_eq!((lengths.unusual(2), lengths.unusual(3)), (None, None));
    }

    #[test]
    fn a_first_reply_that_is_slow_is_no_slow_case() {
        let mut lengths = lengths(false);
        warm(&mut lengths, 0, [900, 1]);
        assert!(!lengths.adapt(Duration::from_secs(60), |_| true));
    }

    #[test]
    fn sends_that_wait_lengthen_nothing() {
        let lengths = lengths(false);
        let sends = TrialResult {
            one_way: Some(Box::new(OneWay::default())),
            ..result(900)
        };
        assert!(lengths.is_short_for(0, &result(900)) && !lengths.is_short_for(0, &sends));
    }

    #[test]
    fn a_budget_holds_four_blocks() {
        let mut lengths = lengths(false);
        warm(&mut lengths, 0, [2_000, 2_000]);
        assert!(lengths.adapt(Duration::from_secs(20), |_| true));
        assert!((4..6).contains(&blocks(&lengths)), "{lengths:?}");
        let cut = lengths.phases(0);
        warm(&mut lengths, 0, [2_000, 2_000]);
        assert!(!lengths.adapt(Duration::from_secs(20), |_| true));
        assert_eq!(lengths.phases(0), cut);
    }

    #[test]
    fn replies_that_others_may_have_held_up_leave_room_for_blocks() {
        let mut lengths = lengths(false);
        warm_beside(&mut lengths, 0, [2_000, 2_000], 1.3);
        assert!(lengths.adapt(Duration::from_secs(20), |_| true));
        assert!((20..30).contains(&blocks(&lengths)), "{lengths:?}");
        warm(&mut lengths, 0, [2_000, 2_000]);
        assert!(
            lengths.adapt(Duration::from_secs(20), |_| true),
            "they are slow by themselves"
        );
        assert!((4..6).contains(&blocks(&lengths)), "{lengths:?}");
    }

    #[test]
    fn a_budget_without_room_for_slow_replies_is_told_at_once() {
        let mut lengths = lengths(false);
        let budget = 10_000 * MS;
        assert_eq!(lengths.check_first(0, &result(40), 1), Ok(()), "a trial has several");
        assert_eq!(lengths.check_first(0, &result(1_200), budget), Ok(()));
        assert!(lengths.may_ask_more(17_000 * MS) && !lengths.may_ask_more(16_000 * MS));
        assert_eq!(lengths.check_first(1, &result(1_200), budget), Ok(()));
        assert!(!lengths.may_ask_more(33_000 * MS));
        let error = lengths.check_first(2, &result(1_200), budget).unwrap_err();
        assert!(
            error.contains("a reply takes 1.2 s, so that two blocks take 29 s, which is more than the budget of 10s")
                && error.contains("(--budget 4m)"),
            "{error}"
        );
    }

    #[test]
    fn a_length_that_was_given_stays() {
        let mut lengths = lengths(true);
        assert!(!lengths.is_short_for(0, &result(900)));
        lengths.expect(0, [&result(900), &result(900)], 0.0);
        assert!(!lengths.adapt(Duration::from_secs(60), |_| true));
        assert_eq!(lengths.unusual(0), None);
    }
}
