//! Simulated coverage of intervals for several machines, in fleets with few rounds each.

use crate::draws::{normal, squares, within};

use lasthop_stats::{
    Estimate,
    pooled::{Kinds, Pooled, kinds, pool},
    random::Draws,
};

const FLEETS: u32 = 2_000;
/// Degrees of freedom of a run with seven rounds.
const FREEDOM: u32 = 6;

/// A machine whose estimate scatters by `error`, which is itself estimated from few rounds.
fn machine(draws: &mut Draws, truth: f64, error: f64) -> Estimate {
    let squares = squares(draws, FREEDOM);
    Estimate {
        value: truth + error * normal(draws),
        standard_error: error * (squares / f64::from(FREEDOM)).sqrt(),
        freedom: f64::from(FREEDOM),
    }
}

/// Machines around 0, of which every second has errors twice as large.
fn fleet(draws: &mut Draws, machines: u32, between: f64) -> Vec<Estimate> {
    let one = |number: u32| {
        let truth = between * normal(draws);
        machine(draws, truth, 1.0 + f64::from(number % 2))
    };
    (0..machines).map(one).collect()
}

fn percent(mut holds: impl FnMut(&mut Draws) -> bool) -> f64 {
    let mut draws = Draws::new(1_982);
    100.0 * f64::from((0..FLEETS).map(|_| u32::from(holds(&mut draws))).sum::<u32>()) / f64::from(FLEETS)
}

fn of_fleets(machines: u32, between: f64, holds: impl Fn(&Pooled, &mut Draws) -> bool) -> f64 {
    percent(|draws| {
        let pooled = pool(&fleet(draws, machines, between)).unwrap();
        holds(&pooled, draws)
    })
}

const SIZES: [u32; 5] = [2, 3, 5, 10, 40];
const SPREADS: [f64; 3] = [0.0, 1.0, 4.0];

/// With two or three machines, the interval is too wide if machines do not differ, because so few cannot show that.
#[test]
fn means_are_covered() {
    for machines in SIZES {
        for between in SPREADS {
            let held = of_fleets(machines, between, |pooled, _| pooled.mean.interval(0.95).contains(0.0));
            within(&format!("mean of {machines}, spread {between}"), held, 91.5, 100.0);
        }
    }
}

#[test]
fn deviations_are_covered() {
    for machines in SIZES {
        for between in SPREADS {
            let held = of_fleets(machines, between, |pooled, _| pooled.spread.deviation.contains(between));
            within(&format!("deviation of {machines}, spread {between}"), held, 93.0, 99.0);
        }
    }
}

/// The coverage is least if machines differ as little as their estimates scatter.
#[test]
fn another_machine_is_predicted() {
    for machines in &SIZES[1..] {
        for between in SPREADS {
            let held = of_fleets(*machines, between, |pooled, draws| {
                pooled.next.unwrap().interval(0.95).contains(between * normal(draws))
            });
            within(&format!("after {machines}, spread {between}"), held, 87.5, 100.0);
        }
    }
}

#[test]
fn equal_machines_are_rarely_called_different_and_unequal_ones_often() {
    for machines in SIZES {
        let called = of_fleets(machines, 0.0, |pooled, _| pooled.spread.p < 0.05);
        within(&format!("{machines} equal machines"), called, 2.5, 7.0);
    }
    let found = of_fleets(10, 4.0, |pooled, _| pooled.spread.p < 0.05);
    within("ten machines that differ", found, 95.0, 100.0);
}

/// Three kinds of four machines, which differ by `between` within a kind.
fn of_kinds(centres: &[f64], between: f64, holds: impl Fn(&Kinds) -> bool) -> f64 {
    percent(|draws| {
        let kind = |centre: &f64| -> Vec<Estimate> {
            fleet(draws, 4, between)
                .iter()
                .map(|one| Estimate {
                    value: one.value + centre,
                    ..*one
                })
                .collect()
        };
        holds(&kinds(&centres.iter().map(kind).collect::<Vec<_>>()).unwrap())
    })
}

#[test]
fn kinds_are_covered() {
    for between in SPREADS {
        let held = of_kinds(&[0.0, 5.0, 9.0], between, |found| {
            found.means[1].interval(0.95).contains(5.0)
        });
        within(&format!("mean of a kind, spread {between}"), held, 92.5, 99.0);
        let held = of_kinds(&[0.0, 5.0, 9.0], between, |found| {
            found.within.deviation.contains(between)
        });
        within(&format!("deviation within kinds, spread {between}"), held, 93.0, 99.0);
        let called = of_kinds(&[0.0; 3], between, |found| found.between.spread.p < 0.05);
        within(&format!("equal kinds, spread {between}"), called, 1.0, 7.0);
    }
    let found = of_kinds(&[0.0, 10.0, 20.0], 1.0, |found| found.between.spread.p < 0.05);
    within("kinds that differ", found, 95.0, 100.0);
}
