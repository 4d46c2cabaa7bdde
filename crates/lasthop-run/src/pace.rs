//! How many blocks a round gets, where nobody has fixed it.
//!
//! Rounds are the units of the intervals: with few of them Student's t is large, and each costs a start. Kalibera and
//! Jones ("Rigorous benchmarking in reasonable time", ISMM 2013) give the optimum from costs and variances: the root of
//! (start / block) · (variance within rounds / variance between them). For nginx and gunicorn that is 4 to 14 blocks of
//! two cases, so starts would take 20 to 50 % of the time. The variance between starts is not known before many rounds,
//! and time spent on starts serves no other figure, so lasthop goes by the costs alone and stays below that: as many
//! rounds as starts take no more than a share of the time, somewhat more where that would make few of them, and
//! whatever it costs a least number.

use std::time::Duration;

/// Share of the time that starts may take.
const STARTS: f64 = 0.15;
/// The same, to come up to [`ENOUGH`] rounds.
const STARTS_OF_FEW: f64 = 0.18;
/// With so many rounds Student's t is within a sixth of its limit.
const ENOUGH: f64 = 10.0;
/// One more than a look at the precision takes.
const FEWEST: f64 = 5.0;
/// A block and its reverse.
const PAIR: u32 = 2;
/// The longest round, so that a run that is cut off has several.
const MOST: u32 = 1_000;

/// What rounds and blocks have taken so far.
#[derive(Debug, Default)]
pub struct Pace {
    starts: Vec<Duration>,
    blocks: Vec<Duration>,
}

impl Pace {
    /// Everything in a round except its blocks took this long.
    pub fn started(&mut self, took: Duration) {
        self.starts.push(took);
    }

    pub fn block(&mut self, took: Duration) {
        self.blocks.push(took);
    }

    /// Blocks take longer from now on.
    pub fn forget_blocks(&mut self) {
        self.blocks.clear();
    }

    /// What a round costs beside its blocks: as before, or as the first start took.
    pub fn start(&self, first: Duration) -> Duration {
        median(&self.starts).unwrap_or(first)
    }

    /// A block's length: as before, or as planned.
    pub fn block_or(&self, planned: Duration) -> Duration {
        median(&self.blocks).unwrap_or(planned)
    }
}

/// Blocks of the round whose start is over, with `left` of the run's `budget` for it and all others. Rounds are of
/// equal length, and the last ends with the budget.
pub fn blocks(budget: Duration, left: Duration, start: Duration, block: Duration) -> u32 {
    // None is 0, because all but `left` are divided by.
    let [budget, left, start, block] = [budget, left, start, block].map(|time| time.as_secs_f64().max(1e-6));
    let rounds = |share: f64| budget * share / start;
    let rounds = rounds(STARTS).max(rounds(STARTS_OF_FEW).min(ENOUGH)).max(FEWEST);
    // The start of this round is over, so `left` no longer contains it.
    let more = ((left + start) / (budget / rounds)).round().max(1.0);
    let pairs = ((left + start) / more - start) / (block * f64::from(PAIR));
    (pairs.floor().clamp(1.0, f64::from(MOST / PAIR)) as u32) * PAIR
}

/// Of the last ones: a machine gets slower, or a group of cases leaves.
fn median(times: &[Duration]) -> Option<Duration> {
    let mut last: Vec<Duration> = times.iter().rev().take(9).copied().collect();
    last.sort_unstable();
    last.get(last.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a run whose starts and blocks take this many seconds, and the share of starts.
    fn run(budget: f64, start: f64, block: f64) -> (u32, f64) {
        let seconds = Duration::from_secs_f64;
        let mut rounds = 0;
        let mut gone = 0.0;
        while budget - gone > start + 2.0 * block {
            gone += start;
            let number = blocks(seconds(budget), seconds(budget - gone), seconds(start), seconds(block));
            assert_eq!(number % PAIR, 0);
            gone += f64::from(number) * block;
            rounds += 1;
        }
        (rounds, f64::from(rounds) * start / gone)
    }

    #[test]
    fn cheap_starts_make_many_rounds_and_dear_ones_few() {
        let (rounds, share) = run(60.0, 1.0, 0.23);
        assert!((8..=11).contains(&rounds) && share < 0.2, "{rounds} {share}");
        let (rounds, share) = run(30.0, 0.4, 1.0);
        assert!((9..=13).contains(&rounds) && share < 0.2, "{rounds} {share}");
        let (rounds, share) = run(600.0, 1.0, 0.23);
        assert!((85..=95).contains(&rounds) && share < 0.16, "{rounds} {share}");
        let (rounds, share) = run(60.0, 5.0, 0.5);
        assert!((4..=5).contains(&rounds) && share < 0.45, "{rounds} {share}");
    }

    #[test]
    fn every_round_has_a_pair_and_the_last_ends_with_the_budget() {
        let seconds = Duration::from_secs;
        assert_eq!(blocks(seconds(30), seconds(0), seconds(1), seconds(1)), PAIR);
        assert_eq!(blocks(seconds(30), seconds(30), seconds(1), Duration::ZERO), MOST);
        assert_eq!(
            blocks(seconds(100), seconds(8), seconds(1), seconds(1)),
            8,
            "one round, not a round and a bit"
        );
    }

    #[test]
    fn what_was_measured_replaces_what_was_planned() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        assert_eq!((pace.start(second), pace.block_or(second)), (second, second));
        [3, 9, 2].into_iter().for_each(|took| pace.started(second * took));
        pace.block(second * 4);
        assert_eq!((pace.start(second), pace.block_or(second)), (second * 3, second * 4));
    }
}
