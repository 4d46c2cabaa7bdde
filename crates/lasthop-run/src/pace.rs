//! The number of blocks in a round, unless the user fixes it.
//!
//! Rounds are the units of the intervals: with few of them Student's t is large, and each costs a start. Kalibera and
//! Jones ("Rigorous benchmarking in reasonable time", ISMM 2013) choose the number of blocks from costs and variances.
//! lasthop chooses a number that makes the interval of the whole budget about as narrow as possible, t included:
//!
//! ```text
//! t(rounds − 1) · √((luck + 1 / blocks) / rounds)        rounds = budget / (start + blocks · block)
//! ```
//!
//! where `luck` is the variance between rounds, as a multiple of that between the blocks of a round. Only variances
//! decide, never the ratios.

use std::time::Duration;

use lasthop_stats::{CONFIDENCE, middle, student};

/// The expected luck of a run before its first rounds: about that of nginx and gunicorn.
const EXPECTED: f64 = 0.05;
/// The weight of the expected luck, in rounds, because luck is known only after many.
const EXPECTED_ROUNDS: f64 = 6.0;
/// The factor by which an interval may be wider than the narrowest.
const NEAR: f64 = 1.05;
/// The fewest rounds: one more than a check of the precision needs.
const FEWEST: f64 = 5.0;
/// Rounds that show how a start changes the figures. Of intervals that are near the narrowest, one from as many rounds
/// is preferred.
const TELLING: f64 = 12.0;
/// Blocks of a pair: a block and its reverse.
const PAIR: u32 = 2;
/// The most blocks in a round, so that a run that is cut off has several rounds.
const MOST: u32 = 1_000;

/// Durations of starts and blocks so far, and how much rounds differ.
#[derive(Debug)]
pub struct Pace {
    starts: Vec<Duration>,
    blocks: Vec<Duration>,
    luck: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            starts: Vec::new(),
            blocks: Vec::new(),
            luck: EXPECTED,
        }
    }
}

impl Pace {
    /// Adds the duration of a round without its blocks.
    pub fn started(&mut self, took: Duration) {
        self.starts.push(took);
    }

    pub fn block(&mut self, took: Duration) {
        self.blocks.push(took);
    }

    /// Forgets the durations of blocks, because blocks take longer from now on.
    pub fn forget_blocks(&mut self) {
        self.blocks.clear();
    }

    /// Takes in the luck of each comparison over `rounds` rounds. The median stands for all.
    pub fn learn(&mut self, lucks: Vec<f64>, rounds: usize) {
        if let Some(seen) = middle(lucks) {
            let known = rounds.saturating_sub(1) as f64;
            self.luck = (EXPECTED * EXPECTED_ROUNDS + seen * known) / (EXPECTED_ROUNDS + known);
        }
    }

    /// The number of blocks for a round that has started. `left` is the rest of the run's `budget`, for this round and
    /// all others. `start` and `block` are used until earlier durations are known.
    pub fn blocks(&self, budget: Duration, left: Duration, start: Duration, block: Duration) -> u32 {
        let start = median(&self.starts).unwrap_or(start);
        let block = median(&self.blocks).unwrap_or(block);
        blocks(budget, left, start, block, self.luck)
    }
}

/// The number of blocks for a round, so that rounds are of equal length and the last ends with the budget.
fn blocks(budget: Duration, left: Duration, start: Duration, block: Duration, luck: f64) -> u32 {
    // Nothing is 0, because all but `left` are divisors.
    let [budget, left, start, block] = [budget, left, start, block].map(|time| time.as_secs_f64().max(1e-6));
    let pair = block * f64::from(PAIR);
    let round = start + pair * narrowest(budget, start, pair, luck);
    // The start of this round is over, so `left` no longer contains it.
    let more = ((left + start) / round).round().max(1.0);
    let pairs = ((left + start) / more - start) / pair;
    (pairs.floor().clamp(1.0, f64::from(MOST / PAIR)) as u32) * PAIR
}

/// Pairs of blocks in a round that make the interval about as narrow as possible.
fn narrowest(budget: f64, start: f64, pair: f64, luck: f64) -> f64 {
    let rounds = |pairs: f64| budget / (start + pairs * pair);
    let width = |pairs: f64| {
        let variance = (luck + 1.0 / (pairs * f64::from(PAIR))) / rounds(pairs);
        student::critical(CONFIDENCE, rounds(pairs) - 1.0) * variance.sqrt()
    };
    let choices = std::iter::successors(Some(1.0_f64), |pairs| Some((pairs * 1.25).max(pairs + 1.0).floor()))
        .take_while(|pairs| *pairs <= f64::from(MOST / PAIR) && rounds(*pairs) >= FEWEST);
    let widths: Vec<(f64, f64)> = choices.map(|pairs| (pairs, width(pairs))).collect();
    let least = widths.iter().map(|(_, width)| *width).fold(f64::INFINITY, f64::min);
    let is_near = |(_, width): &(f64, f64)| *width <= NEAR * least;
    let near: Vec<f64> = widths.into_iter().filter(is_near).map(|(pairs, _)| pairs).collect();
    // The minimum is flat. Of the rounds near it, the longest measure most, which helps all other figures.
    let longest = near.iter().rfind(|pairs| rounds(**pairs) >= TELLING).or(near.last());
    longest.copied().unwrap_or(1.0)
}

/// The median of the last durations. Earlier ones do not count, because a machine may get slower or a group of cases
/// may leave.
fn median(times: &[Duration]) -> Option<Duration> {
    let mut last: Vec<Duration> = times.iter().rev().take(9).copied().collect();
    last.sort_unstable();
    last.get(last.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use lasthop_stats::{Grouped, location::locate, random::Draws, variance::components};

    use super::*;

    /// Rounds of a run whose starts and blocks take this many seconds, and the share of starts.
    fn run(budget: f64, start: f64, block: f64, luck: f64) -> (u32, f64) {
        let seconds = Duration::from_secs_f64;
        let mut rounds = 0;
        let mut gone = 0.0;
        while budget - gone > start + 2.0 * block {
            gone += start;
            let number = blocks(
                seconds(budget),
                seconds(budget - gone),
                seconds(start),
                seconds(block),
                luck,
            );
            assert_eq!(number % PAIR, 0);
            gone += f64::from(number) * block;
            rounds += 1;
        }
        (rounds, f64::from(rounds) * start / gone)
    }

    #[test]
    fn starts_are_as_frequent_as_they_pay() {
        let (rounds, share) = run(60.0, 1.0, 0.23, EXPECTED);
        assert!((12..=17).contains(&rounds) && share < 0.3, "{rounds} {share}");
        let (rounds, share) = run(30.0, 0.4, 1.0, EXPECTED);
        assert!((10..=14).contains(&rounds) && share < 0.2, "{rounds} {share}");
        let (rounds, share) = run(60.0, 5.0, 0.5, EXPECTED);
        assert!((5..=6).contains(&rounds) && share < 0.5, "{rounds} {share}");
        let (lucky, _) = run(600.0, 1.0, 0.23, 1.0);
        let (unlucky, _) = run(600.0, 1.0, 0.23, 0.001);
        assert!(lucky > 3 * unlucky, "{lucky} {unlucky}");
    }

    #[test]
    fn luck_is_believed_as_rounds_show_it() {
        let mut pace = Pace::default();
        pace.learn(vec![], 9);
        assert_eq!(pace.luck, EXPECTED);
        pace.learn(vec![0.0, 8.0, 0.5], 2);
        let after_two = pace.luck;
        pace.learn(vec![0.0, 8.0, 0.5], 60);
        assert!(EXPECTED < after_two && after_two < 0.2 && (0.4..0.5).contains(&pace.luck));
    }

    #[test]
    fn every_round_has_a_pair_and_the_last_ends_with_the_budget() {
        let seconds = Duration::from_secs;
        let blocks = |budget, left, block| blocks(seconds(budget), seconds(left), seconds(1), block, EXPECTED);
        assert_eq!(blocks(30, 0, seconds(1)), PAIR);
        let many = blocks(30, 30, Duration::from_millis(1));
        assert!((200..=MOST).contains(&many), "{many}");
        assert_eq!(blocks(100, 8, seconds(1)), 8, "one round, not a round and a bit");
    }

    #[test]
    fn what_was_measured_replaces_what_was_planned() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        let blocks = |pace: &Pace| pace.blocks(second * 100, second * 5, second, second);
        assert_eq!(blocks(&pace), 4);
        [3, 9, 2].into_iter().for_each(|took| pace.started(second * took));
        pace.block(second / 4);
        assert_eq!(blocks(&pace), 20);
    }

    /// Whether the interval of a comparison covers its truth, 0, after a run of 100 s. Starts take two seconds and
    /// blocks one; `luck` is the true luck.
    fn simulated(draws: &mut Draws, luck: f64) -> bool {
        let mut normal = || (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
        let seconds = Duration::from_secs;
        let mut pace = Pace::default();
        let mut rounds: Vec<Vec<f64>> = Vec::new();
        let mut spent = 2;
        while spent + u64::from(PAIR) <= 100 {
            let blocks = pace.blocks(seconds(100), seconds(100 - spent), seconds(2), seconds(1));
            let start = luck.sqrt() * normal();
            rounds.push((0..blocks).map(|_| start + normal()).collect());
            let found = components(&Grouped::new(rounds.clone()).unwrap());
            pace.learn(
                found.map(|found| found.between / found.within).into_iter().collect(),
                rounds.len(),
            );
            spent += u64::from(blocks) + 2;
        }
        let found = locate(&Grouped::new(rounds).unwrap()).unwrap();
        found.estimate.interval(CONFIDENCE).contains(0.0)
    }

    /// The standard error is 1.1 points for 400 runs, 0.35 for the 4,000 that `script/test --all` has time for.
    #[test]
    fn rounds_that_follow_their_luck_cover_as_often() {
        let has_time = std::env::var_os("LASTHOP_TEST").is_some_and(|kind| kind == "all");
        let (runs, [least, most]) = if has_time {
            (4_000, [93.0, 97.0])
        } else {
            (400, [91.0, 99.0])
        };
        for luck in [0.0, 0.1, 1.0] {
            let mut draws = Draws::new(2_026);
            let covered = (0..runs).filter(|_| simulated(&mut draws, luck)).count();
            let percent = 100.0 * covered as f64 / f64::from(runs);
            assert!((least..=most).contains(&percent), "luck {luck}: {percent} %");
        }
    }
}
