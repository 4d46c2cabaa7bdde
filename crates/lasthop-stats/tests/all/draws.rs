//! Random numbers of the simulations, and limits of their figures.

use lasthop_stats::random::Draws;

pub fn normal(draws: &mut Draws) -> f64 {
    (-2.0 * draws.unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * draws.unit()).cos()
}

/// Chi-square with this many degrees of freedom.
pub fn squares(draws: &mut Draws, freedom: u32) -> f64 {
    (0..freedom).map(|_| normal(draws).powi(2)).sum()
}

/// Student's t. With four degrees of freedom one draw in fifty is more than 3.7 from 0; with two the variance is
/// infinite.
pub fn student<const FREEDOM: u32>(draws: &mut Draws) -> f64 {
    let squares = squares(draws, FREEDOM);
    normal(draws) / (squares / f64::from(FREEDOM)).sqrt()
}

pub fn within(what: &str, percent: f64, low: f64, high: f64) {
    assert!(
        (low..=high).contains(&percent),
        "{what}: {percent:.1} % is not within {low} to {high} %"
    );
}
