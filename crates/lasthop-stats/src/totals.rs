//! Quantities per request: a total divided by another total, such as CPU time by requests.
//!
//! The result is a quotient of sums, not a mean of quotients: a block with twice the requests counts twice, as the
//! phrase "CPU time per request of this run" implies.

use crate::{
    bootstrap::{self, Resampling, weighted},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// The sums of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The dividend, 0 or more.
    pub numerator: f64,
    /// The divisor, 0 or more, but above 0 in at least one block.
    pub denominator: f64,
}

impl Totals {
    #[must_use]
    pub fn of(numerator: f64, denominator: f64) -> Self {
        Self { numerator, denominator }
    }

    /// The block counted `weight` times, 0 or more.
    #[must_use]
    pub fn times(self, weight: f64) -> Self {
        Self::of(self.numerator * weight, self.denominator * weight)
    }
}

impl BlockValue for Totals {
    fn is_valid(&self) -> bool {
        [self.numerator, self.denominator]
            .iter()
            .all(|x| x.is_finite() && *x >= 0.0)
    }
}

/// Sums by unit, for resampling.
struct UnitTotals {
    numerators: Vec<f64>,
    denominators: Vec<f64>,
}

impl UnitTotals {
    fn new<'a, T: BlockValue + 'a>(blocks: &'a Grouped<T>, pick: impl Fn(&'a T) -> &'a Totals) -> Self {
        let sums = |field: fn(&Totals) -> f64| -> Vec<f64> {
            let units = blocks.units().into_iter();
            units
                .map(|unit| unit.iter().map(|block| field(pick(block))).sum())
                .collect()
        };
        Self {
            numerators: sums(|totals| totals.numerator),
            denominators: sums(|totals| totals.denominator),
        }
    }

    /// Not finite if the divisor is 0.
    fn quotient(&self, times: &[u32]) -> f64 {
        weighted(times, &self.numerators) / weighted(times, &self.denominators)
    }
}

/// The quotient without an interval; `None` if the divisor is 0.
#[must_use]
pub fn point(blocks: &Grouped<Totals>) -> Option<f64> {
    let units = UnitTotals::new(blocks, |block| block);
    bootstrap::point(blocks.units().len(), |times| Some(units.quotient(times)))
}

/// The logarithm of a case's quotient. `None` if the quotient is 0, or with fewer than two blocks.
#[must_use]
pub fn log_quotient(blocks: &Grouped<Totals>, how: Resampling) -> Option<Estimate> {
    let units = UnitTotals::new(blocks, |block| block);
    bootstrap::estimate(&blocks.sizes(), how, |times| Some(units.quotient(times).ln()))
}

/// The logarithm of the first case's quotient divided by the second's.
#[must_use]
pub fn log_ratio(blocks: &Grouped<[Totals; 2]>, how: Resampling) -> Option<Estimate> {
    compared(blocks, how, |first, second| (first / second).ln())
}

/// The first case's quotient minus the second's.
#[must_use]
pub fn difference(blocks: &Grouped<[Totals; 2]>, how: Resampling) -> Option<Estimate> {
    compared(blocks, how, |first, second| first - second)
}

/// Two cases compared by their quotients, with the same blocks drawn for both.
fn compared(blocks: &Grouped<[Totals; 2]>, how: Resampling, compare: fn(f64, f64) -> f64) -> Option<Estimate> {
    let [first, second] = [0, 1].map(|case| UnitTotals::new(blocks, move |block| &block[case]));
    bootstrap::estimate(&blocks.sizes(), how, |times| {
        Some(compare(first.quotient(times), second.quotient(times)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_quotient_of_sums() {
        let blocks = Grouped::new(vec![
            vec![Totals::of(10.0, 1.0), Totals::of(30.0, 3.0)],
            vec![Totals::of(80.0, 6.0)],
        ]);
        assert_eq!(point(&blocks.unwrap()), Some(12.0));
    }

    #[test]
    fn what_was_never_counted_has_no_estimate() {
        let none = Grouped::new(vec![vec![Totals::of(0.0, 0.0)], vec![Totals::of(0.0, 0.0)]]).unwrap();
        assert_eq!(point(&none), None);
        assert_eq!(log_quotient(&none, Resampling::new(1)), None);
        let free = Grouped::new(vec![vec![Totals::of(0.0, 5.0)], vec![Totals::of(0.0, 5.0)]]).unwrap();
        assert_eq!(
            (point(&free), log_quotient(&free, Resampling::new(1))),
            (Some(0.0), None)
        );
    }

    #[test]
    fn noise_that_both_cases_share_cancels() {
        let block = |luck: f64| [Totals::of(13.0 * luck, 1.0), Totals::of(10.0 * luck, 1.0)];
        let rounds = [1.0, 1.4, 0.7, 2.0]
            .map(|luck| vec![block(luck), block(luck * 1.1)])
            .to_vec();
        let ratio = log_ratio(&Grouped::new(rounds).unwrap(), Resampling::new(1)).unwrap();
        assert!((ratio.value - 1.3_f64.ln()).abs() < 1e-12);
        assert!(ratio.standard_error < 1e-12);
    }
}
