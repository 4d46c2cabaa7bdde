//! Simulated coverage of the ranges for another machine, in sets of experiments.

use crate::draws::{normal, squares};

use lasthop_stats::{moderated::Scatter, random::Draws};

const SETS: u32 = 60;
const QUANTITIES: u32 = 200;

/// A simulated world: the scatter of quantities, and the part that they have in common on a machine.
#[derive(Clone, Copy)]
struct World {
    /// Degrees of freedom of the deviations; `None` for equal deviations.
    freedom: Option<u32>,
    /// Standard deviation of an error that all ratios of a machine share, in standard deviations of a ratio of 1.
    common: f64,
}

/// Percentages of quantities with the mean, and with another machine's value, in the range.
fn held(world: World, machines: u32) -> [f64; 2] {
    let mut draws = Draws::new(2_004);
    let mut held = [0, 0];
    for _ in 0..SETS {
        let shifts: Vec<f64> = (0..=machines)
            .map(|_| world.common * 0.02 * normal(&mut draws))
            .collect();
        let quantity = |draws: &mut Draws| {
            let truth = 0.5 * normal(draws);
            let common = 0.02 + 0.1 * truth.abs();
            let deviation = match world.freedom {
                None => common,
                Some(freedom) => common * (f64::from(freedom) / squares(draws, freedom)).sqrt(),
            };
            let values: Vec<f64> = shifts
                .iter()
                .map(|shift| truth + shift + deviation * normal(draws))
                .collect();
            (truth, values)
        };
        let all: Vec<(f64, Vec<f64>)> = (0..QUANTITIES).map(|_| quantity(&mut draws)).collect();
        let known: Vec<Vec<f64>> = all.iter().map(|(_, values)| values[1..].to_vec()).collect();
        let scatter = Scatter::of(&known).unwrap();
        for ((truth, values), known) in all.iter().zip(&known) {
            let said = scatter.moderate(known);
            let lies = [(said.mean, *truth), (said.next, values[0])];
            for (held, (range, value)) in held.iter_mut().zip(lies) {
                *held += u32::from((value - range.value).abs() <= range.half_width(0.95));
            }
        }
    }
    held.map(|count| 100.0 * f64::from(count) / f64::from(SETS * QUANTITIES))
}

#[test]
fn ranges_hold_as_often_as_they_say() {
    for freedom in [Some(3), Some(8), None] {
        for machines in [2, 3, 5, 10] {
            let [mean, next] = held(World { freedom, common: 0.0 }, machines);
            for (what, percent) in [("mean", mean), ("another machine", next)] {
                assert!(
                    (93.0..=97.0).contains(&percent),
                    "{what}: {percent:.1} % with {machines} machines and {freedom:?} degrees of freedom"
                );
            }
        }
    }
}

/// A common error puts ratios of another machine inside or outside together, so that a set holds more or less than 95
/// %.
#[test]
fn machines_with_something_in_common_are_covered_on_average() {
    for machines in [3, 5] {
        let world = World {
            freedom: Some(4),
            common: 1.0,
        };
        let [_, next] = held(world, machines);
        assert!((92.0..=98.0).contains(&next), "{next:.1} % with {machines} machines");
    }
}
