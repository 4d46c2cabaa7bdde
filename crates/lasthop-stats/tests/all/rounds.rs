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
#[derive(Clone, Copy)]
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
    for (name, world, [low, high], doubted, missed) in [
        ("independent, 2 x 6", state(2, 6, 0.0), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, 3 x 6", state(3, 6, 0.0), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, 4 x 4", state(4, 4, 0.0), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, 8 x 10", state(8, 10, 0.0), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, 12 x 6", ALIKE, [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, 20 x 8", state(20, 8, 0.0), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, t(2)", noisy(student::<2>), [93.0, 97.0], [0.0, 5.0], 7.0),
        ("independent, bursts", noisy(bursts), [93.0, 97.0], [0.0, 5.0], 7.0),
        (
            "independent, luck 20 %",
            correlated(0.2, 0.0),
            [93.0, 97.5],
            [0.0, 6.0],
            7.0,
        ),
        (
            "30 % in another state, 10 x 8",
            state(10, 8, 0.3),
            [93.0, 97.0],
            [80.0, 90.0],
            5.0,
        ),
        (
            "30 % in another state, 12 x 6",
            state(12, 6, 0.3),
            [93.0, 97.0],
            [85.0, 95.0],
            6.0,
        ),
        (
            "half in another state, 10 x 8",
            state(10, 8, 0.5),
            [93.0, 97.0],
            [94.0, 100.0],
            3.0,
        ),
        (
            "half in another state, 12 x 6",
            state(12, 6, 0.5),
            [93.0, 97.5],
            [96.0, 100.0],
            2.0,
        ),
        (
            "correlation 0.5, luck 3 %",
            correlated(0.03, 0.5),
            [87.0, 92.0],
            [10.0, 20.0],
            12.0,
        ),
        (
            "correlation 0.5, luck 20 %",
            correlated(0.2, 0.5),
            [85.0, 90.0],
            [30.0, 45.0],
            14.0,
        ),
        (
            "correlation 0.9, luck 3 %",
            correlated(0.03, 0.9),
            [55.0, 65.0],
            [5.0, 20.0],
            42.0,
        ),
        (
            "correlation 0.9, luck 20 %",
            correlated(0.2, 0.9),
            [55.0, 65.0],
            [65.0, 80.0],
            25.0,
        ),
    ] {
        let seen = world.simulate();
        let within = |[low, high]: [f64; 2], value| low <= value && value <= high;
        assert!(within([low, high], seen.covered), "{name}: {seen:?}");
        assert!(within(doubted, seen.doubted), "{name}: {seen:?}");
        assert!(seen.missed_in_silence <= missed, "{name}: {seen:?}");
    }
}
