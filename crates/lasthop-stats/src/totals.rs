//! Quantities per request: a total divided by another total, such as CPU time by requests.
//!
//! The result is a quotient of sums, not a mean of quotients: a block with twice the requests counts twice, as the
//! phrase "CPU time per request of this run" implies. If parts of a quantity have different divisors (the driver's CPU
//! time is counted for the measure phase, the servers' for the whole trial), the quotients of the parts are added.

use crate::{
    bootstrap::{self, Resampling, weighted},
    grouped::{BlockValue, Grouped},
    interval::Estimate,
};

/// One part of a block: a dividend and its divisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction {
    /// The dividend, 0 or more.
    pub numerator: f64,
    /// The divisor, 0 or more, but above 0 in at least one block.
    pub denominator: f64,
}

/// The parts of a block; every block has the same number of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals(pub Vec<Fraction>);

impl Totals {
    #[must_use]
    pub fn of(numerator: f64, denominator: f64) -> Self {
        Self(vec![Fraction { numerator, denominator }])
    }

    /// The block counted `weight` times, 0 or more.
    #[must_use]
    pub fn times(mut self, weight: f64) -> Self {
        for part in &mut self.0 {
            part.numerator *= weight;
            part.denominator *= weight;
        }
        self
    }
}

impl BlockValue for Totals {
    fn is_valid(&self) -> bool {
        let usable = |x: f64| x.is_finite() && x >= 0.0;
        let mut parts = self.0.iter();
        !self.0.is_empty() && parts.all(|part| usable(part.numerator) && usable(part.denominator))
    }
}

/// Two cases in the same block.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedTotals {
    pub case: Totals,
    pub reference: Totals,
}

impl BlockValue for PairedTotals {
    fn is_valid(&self) -> bool {
        self.case.is_valid() && self.reference.is_valid()
    }
}

/// Sums by part and unit, for resampling.
struct UnitTotals(Vec<(Vec<f64>, Vec<f64>)>);

impl UnitTotals {
    fn new<'a, T: BlockValue + 'a>(blocks: &'a Grouped<T>, pick: impl Fn(&'a T) -> &'a Totals) -> Self {
        let units = blocks.units();
        let parts = blocks.values().map(|block| pick(block).0.len()).min().unwrap_or(0);
        let sum = |part: usize, field: fn(&Fraction) -> f64| -> Vec<f64> {
            units
                .iter()
                .map(|unit: &&'a [T]| unit.iter().map(|block| field(&pick(block).0[part])).sum())
                .collect()
        };
        Self(
            (0..parts)
                .map(|part| (sum(part, |part| part.numerator), sum(part, |part| part.denominator)))
                .collect(),
        )
    }

    /// The sum of the parts' quotients; not finite if a divisor is 0.
    fn quotient(&self, times: &[u32]) -> f64 {
        let parts = self.0.iter();
        parts
            .map(|(above, below)| weighted(times, above) / weighted(times, below))
            .sum()
    }
}

/// The quotient without an interval; `None` if a divisor is 0.
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

/// The logarithm of the case's quotient divided by the reference's, with the same blocks drawn for both.
#[must_use]
pub fn log_ratio(blocks: &Grouped<PairedTotals>, how: Resampling) -> Option<Estimate> {
    let (case, reference) = paired(blocks);
    bootstrap::estimate(&blocks.sizes(), how, |times| {
        Some((case.quotient(times) / reference.quotient(times)).ln())
    })
}

/// The case's quotient minus the reference's, with the same blocks drawn for both.
#[must_use]
pub fn difference(blocks: &Grouped<PairedTotals>, how: Resampling) -> Option<Estimate> {
    let (case, reference) = paired(blocks);
    bootstrap::estimate(&blocks.sizes(), how, |times| {
        Some(case.quotient(times) - reference.quotient(times))
    })
}

fn paired(blocks: &Grouped<PairedTotals>) -> (UnitTotals, UnitTotals) {
    (
        UnitTotals::new(blocks, |block| &block.case),
        UnitTotals::new(blocks, |block| &block.reference),
    )
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
    fn parts_are_divided_apart_and_added() {
        let fraction = |numerator, denominator| Fraction { numerator, denominator };
        let block = || Totals(vec![fraction(8.0, 4.0), fraction(9.0, 3.0)]);
        assert_eq!(point(&Grouped::new(vec![vec![block(), block()]]).unwrap()), Some(5.0));
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
        let block = |luck: f64| PairedTotals {
            case: Totals::of(13.0 * luck, 1.0),
            reference: Totals::of(10.0 * luck, 1.0),
        };
        let rounds = [1.0, 1.4, 0.7, 2.0]
            .map(|luck| vec![block(luck), block(luck * 1.1)])
            .to_vec();
        let ratio = log_ratio(&Grouped::new(rounds).unwrap(), Resampling::new(1)).unwrap();
        assert!((ratio.value - 1.3_f64.ln()).abs() < 1e-12);
        assert!(ratio.standard_error < 1e-12);
    }
}
