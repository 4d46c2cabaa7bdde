//! The random-effects model, which pools several machines. Each machine has a true value of its own, and each estimate
//! has an error of its own.
//!
//! The variance between machines is that of R. C. Paule and J. Mandel (*J. Res. Natl. Bur. Stand.* 87, 1982): the
//! weighted sum of squares equals its degrees of freedom. The mean has the standard error of J. Hartung and G. Knapp
//! (*Stat. Med.* 20, 2001) and of K. Sidik and J. N. Jonkman (*Stat. Med.* 21, 2002), with Student's t; the interval is
//! never narrower than the estimates alone allow (C. Röver, G. Knapp and T. Friede, *BMC Med. Res. Methodol.* 15:99,
//! 2015). Another machine's value is predicted as by J. P. T. Higgins, S. G. Thompson and D. J. Spiegelhalter (*J. R.
//! Stat. Soc. A* 172, 2009).
//!
//! The test for a difference between machines is that of M. B. Brown and A. B. Forsythe (*Technometrics* 16, 1974) with
//! the degrees of freedom of D. V. Mehrotra (*Commun. Stat. Simul.* 26, 1997). Unlike Cochran's Q, it considers that
//! standard errors of few rounds are uncertain, also with hundreds of machines. For two machines it is Welch's test.
//! The interval of the deviation contains every value that this test does not reject: the Q profile of W. Viechtbauer
//! (*Stat. Med.* 26, 2007) with this statistic. For kinds of machines, the squares within kinds are summed.
//! `tests/pooled.rs` simulates the coverage of all these intervals.

use crate::{
    CONFIDENCE,
    interval::{Estimate, Interval},
    student::f_upper_tail,
};

/// Degrees of freedom beyond which F no longer changes.
const MANY: f64 = 1e5;

/// The difference between machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Standard deviation of the machines' true values, 0 or more, with its 95 % interval.
    pub deviation: Interval,
    /// Probability of this much difference by chance, if all true values are equal.
    pub p: f64,
}

/// The pooled result of several machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    /// The mean of all such machines, of which these machines are a sample.
    pub mean: Estimate,
    /// The prediction for another such machine; `None` with fewer than three machines.
    pub next: Option<Estimate>,
    pub spread: Spread,
}

/// The pooled result of several kinds of machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinds {
    /// The mean of each kind, in the given order.
    pub means: Vec<Estimate>,
    /// The difference between machines of a kind.
    pub within: Spread,
    /// The difference between kinds.
    pub between: Pooled,
}

/// The origin of standard errors.
#[derive(Clone, Copy)]
enum Errors {
    /// Each standard error is from its own data.
    Independent,
    /// All standard errors are from the same scatter, so that they are too small or too large together.
    Shared,
}

/// Pools independent machines; `None` with fewer than two.
#[must_use]
pub fn pool(machines: &[Estimate]) -> Option<Pooled> {
    pool_with(machines, Errors::Independent)
}

fn pool_with(machines: &[Estimate], errors: Errors) -> Option<Pooled> {
    // A prediction from k machines has k − 2 degrees of freedom (Higgins, Thompson and Spiegelhalter).
    let freedom = machines.len().checked_sub(2)? as f64;
    let spread = spread(&[machines], errors);
    let mean = means(&[machines], spread.deviation.estimate).pop()?;
    let error = mean.standard_error.hypot(spread.deviation.estimate);
    let next = (freedom > 0.0).then_some(Estimate {
        standard_error: error,
        freedom,
        ..mean
    });
    Some(Pooled { mean, next, spread })
}

/// Compares kinds, assuming that the machines of all kinds differ alike. `None` with fewer than two kinds, or if no
/// kind has two machines.
///
/// # Panics
/// If a kind has no machine.
#[must_use]
pub fn kinds(kinds: &[Vec<Estimate>]) -> Option<Kinds> {
    let kinds: Vec<&[Estimate]> = kinds.iter().map(Vec::as_slice).collect();
    assert!(kinds.iter().all(|kind| !kind.is_empty()), "a kind without a machine");
    if freedom(&kinds) == 0.0 {
        return None;
    }
    let within = spread(&kinds, Errors::Independent);
    let means = means(&kinds, within.deviation.estimate);
    let between = pool_with(&means, Errors::Shared)?;
    Some(Kinds { means, within, between })
}

fn freedom(kinds: &[&[Estimate]]) -> f64 {
    kinds.iter().map(|kind| kind.len() - 1).sum::<usize>() as f64
}

/// The mean of each kind, with the scatter of all kinds.
fn means(kinds: &[&[Estimate]], deviation: f64) -> Vec<Estimate> {
    let freedom = freedom(kinds);
    // At least 1: machines that agree by chance must not make the mean more certain than their own errors do.
    let scatter = (squares(kinds, deviation) / freedom).max(1.0);
    let mean = |kind: &&[Estimate]| {
        let Weighted { mean, total, .. } = Weighted::new(kind, deviation);
        Estimate {
            value: mean,
            standard_error: (scatter / total).sqrt(),
            freedom,
        }
    };
    kinds.iter().map(mean).collect()
}

/// The variance of a machine's estimate about the mean of all machines.
fn variance(one: &Estimate, deviation: f64) -> f64 {
    // A tiny minimum keeps weights finite for machines without scatter.
    one.standard_error.powi(2).max(f64::MIN_POSITIVE.sqrt()) + deviation * deviation
}

/// Degrees of freedom of [`variance`] (F. E. Satterthwaite, *Biometrics* 2, 1946).
fn certainty(one: &Estimate, deviation: f64) -> f64 {
    one.freedom * (variance(one, deviation) / variance(one, 0.0)).powi(2)
}

/// The machines of a kind, weighted by the inverse of their variances.
struct Weighted {
    mean: f64,
    total: f64,
    /// The weighted sum of squares about the mean.
    squares: f64,
}

impl Weighted {
    fn new(kind: &[Estimate], deviation: f64) -> Self {
        let total: f64 = kind.iter().map(|one| 1.0 / variance(one, deviation)).sum();
        let mean = kind.iter().map(|one| one.value / variance(one, deviation)).sum::<f64>() / total;
        let squares = kind
            .iter()
            .map(|one| (one.value - mean).powi(2) / variance(one, deviation))
            .sum();
        Self { mean, total, squares }
    }
}

/// The weighted sum of squares of all kinds.
fn squares(kinds: &[&[Estimate]], deviation: f64) -> f64 {
    kinds.iter().map(|kind| Weighted::new(kind, deviation).squares).sum()
}

/// The probability of a sum of squares at least this large, for this deviation between machines.
fn probability(kinds: &[&[Estimate]], deviation: f64, errors: Errors) -> f64 {
    let freedom = freedom(kinds);
    if let Errors::Shared = errors {
        let all = kinds.iter().flat_map(|kind| kind.iter());
        let shared = all.map(|one| certainty(one, deviation)).fold(MANY, f64::min);
        return f_upper_tail(squares(kinds, deviation) / freedom, freedom, shared);
    }
    let mut squares = 0.0;
    let mut expected = 0.0;
    let mut traces = 0.0;
    let mut uncertain = 0.0;
    for kind in kinds {
        let machines = kind.len() as f64;
        let mean = kind.iter().map(|one| one.value).sum::<f64>() / machines;
        let sum = |term: &dyn Fn(&Estimate) -> f64| kind.iter().map(term).sum::<f64>();
        let total = sum(&|one| variance(one, deviation));
        let share = 1.0 - 1.0 / machines;
        squares += sum(&|one| (one.value - mean).powi(2));
        expected += share * total;
        // The trace of the squared covariance of deviations from the mean: half of the variance of `squares`.
        traces += (1.0 - 2.0 / machines) * sum(&|one| variance(one, deviation).powi(2)) + (total / machines).powi(2);
        uncertain += sum(&|one| (share * variance(one, deviation)).powi(2) / certainty(one, deviation));
    }
    f_upper_tail(
        squares / expected,
        expected * expected / traces,
        (expected * expected / uncertain).min(MANY),
    )
}

fn spread(kinds: &[&[Estimate]], errors: Errors) -> Spread {
    let freedom = freedom(kinds);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let estimate = least(|deviation| squares(kinds, deviation) <= freedom);
    // The ends come from another statistic than the estimate, which could otherwise lie outside.
    let low = least(|deviation| probability(kinds, deviation, errors) >= tail).min(estimate);
    let high = least(|deviation| probability(kinds, deviation, errors) >= 1.0 - tail).max(estimate);
    Spread {
        deviation: Interval { estimate, low, high },
        p: probability(kinds, 0.0, errors),
    }
}

/// The least deviation that meets a condition, which holds from some deviation on; 0 if it always holds.
fn least(is_enough: impl Fn(f64) -> bool) -> f64 {
    if is_enough(0.0) {
        return 0.0;
    }
    let mut high = 1e-6;
    while !is_enough(high) && high < 1e6 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Fifty halvings give fifteen digits.
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: f64, standard_error: f64) -> Estimate {
        Estimate {
            value,
            standard_error,
            freedom: 1e9,
        }
    }

    /// For equal standard errors, Paule and Mandel's variance is that of the values minus the squared error.
    #[test]
    fn equal_errors_have_a_closed_form() {
        let machines: Vec<Estimate> = [1.0, 2.0, 4.0, 5.0].map(|value| known(value, 0.5)).to_vec();
        let pooled = pool(&machines).unwrap();
        let variance = (4.0 + 1.0 + 1.0 + 4.0) / 3.0;
        assert!(
            (pooled.spread.deviation.estimate.powi(2) - (variance - 0.25)).abs() < 1e-9,
            "{pooled:?}"
        );
        assert!((pooled.mean.value - 3.0).abs() < 1e-12);
        assert!((pooled.mean.standard_error - (variance / 4.0_f64).sqrt()).abs() < 1e-9);
        assert_eq!((pooled.mean.freedom, pooled.next.unwrap().freedom), (3.0, 2.0));
        assert!(
            pooled.spread.p < 1e-6 && pooled.spread.deviation.low > 0.5,
            "{pooled:?}"
        );
    }

    /// For two machines, the pooled test is Welch's test of a difference.
    #[test]
    fn two_machines_are_a_difference() {
        let [one, other] = [(0.1, 0.03, 7.0), (0.2, 0.05, 4.0)].map(|(value, standard_error, freedom)| Estimate {
            value,
            standard_error,
            freedom,
        });
        let pooled = pool(&[one, other]).unwrap();
        assert!(
            (pooled.spread.p - other.minus(&one).p_value()).abs() < 1e-9,
            "{pooled:?}"
        );
        assert_eq!(pooled.next, None);
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        assert_eq!(pool(&[known(1.0, 0.1)]), None);
        assert_eq!(kinds(&[vec![known(1.0, 0.1)], vec![known(2.0, 0.1)]]), None);
        assert_eq!(kinds(&[vec![known(1.0, 0.1), known(2.0, 0.1)]]), None);
    }

    #[test]
    fn machines_without_scatter_give_finite_figures() {
        let same = pool(&[known(0.3, 0.0); 3]).unwrap();
        assert_eq!((same.mean.value, same.spread.deviation.estimate), (0.3, 0.0));
        let apart = pool(&[known(0.1, 0.0), known(0.2, 0.0)]).unwrap();
        assert!(
            apart.spread.p < 1e-9 && apart.spread.deviation.high.is_finite(),
            "{apart:?}"
        );
    }

    #[test]
    fn kinds_that_differ_are_told_from_machines_that_do() {
        let kind = |centre: f64| {
            vec![
                known(centre - 0.01, 0.01),
                known(centre, 0.01),
                known(centre + 0.01, 0.01),
            ]
        };
        let found = kinds(&[kind(0.5), kind(0.8)]).unwrap();
        assert!(found.within.p > 0.2 && found.between.spread.p < 1e-4, "{found:?}");
        assert!((found.means[1].value - 0.8).abs() < 1e-9 && found.means[1].freedom == 4.0);
    }
}
