//! Simulated rounds that are not alike or not independent: in two states, or each like the previous one. Most of these
//! figures are in the table of `docs/methodology/statistics.md`.
//!
//! With 2,000 simulated runs, each figure has a standard error of 0.5 to 1 percentage points. The seeds are fixed, so
//! that a figure changes only with the method.

use crate::draws::{normal, student};

use lasthop_stats::{Grouped, location::locate, random::Draws, serial, states};

const RUNS: u64 = 2_000;

/// Bursts of other work in a fifth of each case's trials.
fn bursts(draws: &mut Draws) -> f64 {
    let mut burst = || if draws.unit() < 0.2 { 14.0 * draws.unit() } else { 0.0 };
    let both = burst() - burst();
    both + normal(draws)
}

/// A simulated world of rounds and blocks.
#[derive(Clone, Copy, Debug)]
struct World {
    rounds: usize,
    blocks: usize,
    /// Draws the noise of a block, in units of 5 %.
    noise: fn(&mut Draws) -> f64,
    /// Standard deviation of a round's luck.
    luck: f64,
    /// Autocorrelation of the luck of neighbouring rounds.
    memory: f64,
    /// Share of rounds whose ratio is 1.3 times that of the others.
    other_state: f64,
}

const ALIKE: World = World {
    rounds: 12,
    blocks: 6,
    noise: normal,
    luck: 0.02,
    memory: 0.0,
    other_state: 0.0,
};

impl World {
    fn truth(&self) -> f64 {
        self.other_state * 1.3_f64.ln()
    }

    fn run(&self, draws: &mut Draws) -> Grouped<f64> {
        let mut luck = normal(draws);
        let mut round = || {
            luck = self.memory * luck + (1.0 - self.memory * self.memory).sqrt() * normal(draws);
            let state = f64::from(u8::from(draws.unit() < self.other_state)) * 1.3_f64.ln();
            let blocks = (0..self.blocks).map(|_| state + self.luck * luck + 0.05 * (self.noise)(draws));
            blocks.collect()
        };
        Grouped::new((0..self.rounds).map(|_| round()).collect()).unwrap()
    }

    fn simulate(&self) -> Seen {
        let mut draws = Draws::new(20_170);
        let mut seen = Seen::default();
        for _ in 0..RUNS {
            let blocks = self.run(&mut draws);
            let holds = locate(&blocks).unwrap().estimate.interval(0.95).contains(self.truth());
            let doubted = states::two_states(&blocks).is_some() || serial::correlated(&blocks).is_some();
            let share = 100.0 / RUNS as f64;
            seen.covered += share * f64::from(u8::from(holds));
            seen.doubted += share * f64::from(u8::from(doubted));
            seen.missed_in_silence += share * f64::from(u8::from(!holds && !doubted));
        }
        seen
    }
}

/// Percentages of the runs.
#[derive(Debug, Default)]
struct Seen {
    covered: f64,
    doubted: f64,
    missed_in_silence: f64,
}

#[test]
fn what_intervals_cover() {
    let state = |rounds, blocks, other_state| World {
        rounds,
        blocks,
        other_state,
        ..ALIKE
    };
    let correlated = |luck, memory| World { luck, memory, ..ALIKE };
    let noisy = |noise| World { noise, ..ALIKE };
    let (right, rare) = ([93.0, 97.0], [0.0, 5.0]);
    let worlds = [
        (state(2, 6, 0.0), right, rare, 7.0),
        (state(3, 6, 0.0), right, rare, 7.0),
        (state(4, 4, 0.0), right, rare, 7.0),
        (state(8, 10, 0.0), right, rare, 7.0),
        (ALIKE, right, rare, 7.0),
        (state(20, 8, 0.0), right, rare, 7.0),
        (noisy(student::<2>), right, rare, 7.0),
        (noisy(bursts), right, rare, 7.0),
        (correlated(0.2, 0.0), [93.0, 97.5], [0.0, 6.0], 7.0),
        (state(10, 8, 0.3), right, [80.0, 90.0], 5.0),
        (state(12, 6, 0.3), right, [85.0, 95.0], 6.0),
        (state(10, 8, 0.5), right, [94.0, 100.0], 3.0),
        (state(12, 6, 0.5), [93.0, 97.5], [96.0, 100.0], 2.0),
        (correlated(0.03, 0.5), [87.0, 92.0], [10.0, 20.0], 12.0),
        (correlated(0.2, 0.5), [85.0, 90.0], [30.0, 45.0], 14.0),
        (correlated(0.03, 0.9), [55.0, 65.0], [5.0, 20.0], 42.0),
        (correlated(0.2, 0.9), [55.0, 65.0], [65.0, 80.0], 25.0),
    ];
    for (number, (world, covered, doubted, missed)) in (1..).zip(worlds) {
        let seen = world.simulate();
        let what = format!("world {number}, {world:?}: {seen:?}");
        let within = |[low, high]: [f64; 2], value| low <= value && value <= high;
        assert!(within(covered, seen.covered), "{what}");
        assert!(within(doubted, seen.doubted), "{what}");
        assert!(seen.missed_in_silence <= missed, "{what}");
    }
}
