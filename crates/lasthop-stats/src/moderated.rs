//! Predictions for another machine, from many quantities with few values each: one value from each machine.
//!
//! The variance of three values is poorly known, so it is moderated by those of all other quantities (G. K. Smyth,
//! *Stat. Appl. Genet. Mol. Biol.* 3:3, 2004). A quantity's values scatter by a standard deviation σ of its own. Over
//! the quantities, 1/σ² is distributed as χ²(d₀)/(d₀ s₀²), so that their sample variances are s₀² F(d, d₀). Quantities
//! farther from 0 scatter more: s₀ = a + b·|mean|. The likelihood of all sample variances gives a, b and d₀. A
//! quantity's variance is then the mean of its sample variance and s₀², weighted by their degrees of freedom, d and d₀,
//! and has d + d₀ of them.
//!
//! Values of one machine are treated as independent of each other, which is not quite true: a machine with cheap TCP
//! has many low ratios. `tests/moderated.rs` simulates the coverage of the ranges.

use crate::{interval::Estimate, mean::centred, student::ln_gamma};

/// The fewest quantities with several values that show how scatter varies.
const FEWEST: usize = 10;
/// Degrees of freedom beyond which all quantities scatter alike.
const MOST_FREEDOM: f64 = 1e3;
/// The least deviation, so that values that are equal to all digits have a variance with a finite logarithm.
const LEAST_DEVIATION: f64 = 1e-6;

/// The scatter of a quantity's values from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// Standard deviation of a quantity that is 0.
    pub base: f64,
    /// Increase of the deviation per unit of the quantity's distance from 0.
    pub slope: f64,
    /// Degrees of freedom: how far quantities share this scatter.
    pub freedom: f64,
}

/// The result for one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moderated {
    /// The mean of all machines.
    pub mean: Estimate,
    /// The prediction for another machine.
    pub next: Estimate,
}

/// Statistics of a quantity's values.
#[derive(Clone, Copy)]
struct Sample {
    values: f64,
    mean: f64,
    variance: f64,
}

impl Sample {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let (mean, squares) = centred(values);
        Self {
            values: count,
            mean,
            variance: if count > 1.0 { squares / (count - 1.0) } else { 0.0 },
        }
    }

    fn freedom(&self) -> f64 {
        self.values - 1.0
    }
}

impl Scatter {
    /// The scatter of these quantities, from the values of each; `None` if fewer than ten quantities have two or more
    /// values.
    #[must_use]
    pub fn of(quantities: &[Vec<f64>]) -> Option<Self> {
        let several = quantities.iter().filter(|values| values.len() > 1);
        let samples: Vec<Sample> = several.map(|values| Sample::of(values)).collect();
        if samples.len() < FEWEST {
            return None;
        }
        let common = samples.iter().map(|sample| sample.variance).sum::<f64>() / samples.len() as f64;
        let start = [
            common.sqrt().max(LEAST_DEVIATION),
            common.sqrt().max(LEAST_DEVIATION),
            4.0,
        ];
        let best = maximum(start.map(f64::ln), |[base, slope, freedom]| {
            let scatter = Self {
                base: base.exp(),
                slope: slope.exp(),
                freedom: freedom.exp(),
            };
            samples.iter().map(|sample| scatter.log_likelihood(sample)).sum()
        });
        let [base, slope, freedom] = best.map(f64::exp);
        Some(Self {
            base,
            slope,
            freedom: freedom.min(MOST_FREEDOM),
        })
    }

    /// The mean and the prediction from one or more values of a quantity.
    ///
    /// # Panics
    /// Without values.
    #[must_use]
    pub fn moderate(&self, values: &[f64]) -> Moderated {
        assert!(!values.is_empty(), "a quantity without values");
        let sample = Sample::of(values);
        let freedom = self.freedom + sample.freedom();
        let variance = (self.freedom * self.variance(&sample) + sample.freedom() * sample.variance) / freedom;
        let with = |share: f64| Estimate {
            value: sample.mean,
            standard_error: (variance * share).sqrt(),
            freedom,
        };
        Moderated {
            mean: with(1.0 / sample.values),
            next: with(1.0 + 1.0 / sample.values),
        }
    }

    /// s₀², the prior variance.
    fn variance(&self, sample: &Sample) -> f64 {
        (self.base + self.slope * sample.mean.abs()).powi(2)
    }

    /// Log-likelihood of the sample variance, as s₀² F(d, d₀), without constant terms.
    fn log_likelihood(&self, sample: &Sample) -> f64 {
        let (own, prior) = (sample.freedom(), self.freedom.min(MOST_FREEDOM));
        let common = self.variance(sample);
        let f = sample.variance.max(LEAST_DEVIATION.powi(2)) / common;
        ln_gamma(0.5 * (own + prior)) - ln_gamma(0.5 * prior) + 0.5 * own * (f / prior).ln()
            - 0.5 * (own + prior) * (own * f / prior).ln_1p()
    }
}

/// The maximum of a smooth function, by the pattern search of R. Hooke and T. A. Jeeves (*J. ACM* 8, 1961) along the
/// axes.
fn maximum<const N: usize>(start: [f64; N], value: impl Fn([f64; N]) -> f64) -> [f64; N] {
    let mut best = (start, value(start));
    let mut step = 1.0;
    while step > 1e-4 {
        let mut moved = false;
        for (axis, way) in (0..N).flat_map(|axis| [(axis, step), (axis, -step)]) {
            let mut place = best.0;
            place[axis] += way;
            let found = value(place);
            if found > best.1 + 1e-9 {
                best = (place, found);
                moved = true;
            }
        }
        if !moved {
            step /= 2.0;
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum according to SciPy's optimiser (Nelder and Mead) with `scipy.stats.f.logpdf`.
    #[test]
    fn the_likelihood_has_the_maximum_that_another_program_finds() {
        let quantities = [
            [0.02, -0.03, 0.01],
            [0.11, 0.16, 0.10],
            [-0.20, -0.05, -0.17],
            [0.31, 0.33, 0.36],
            [0.45, 0.37, 0.52],
            [-0.08, -0.07, -0.07],
            [0.61, 0.70, 0.55],
            [0.05, 0.04, 0.07],
            [-0.33, -0.42, -0.36],
            [0.90, 0.75, 0.84],
            [0.00, 0.03, -0.02],
            [0.24, 0.22, 0.27],
        ];
        let scatter = Scatter::of(&quantities.map(Vec::from)).unwrap();
        let found = [scatter.base, scatter.slope, scatter.freedom];
        for (found, expected) in found.into_iter().zip([0.024_318, 0.074_887, 16.581]) {
            assert!((found / expected - 1.0).abs() < 0.01, "{scatter:?}");
        }
    }

    #[test]
    fn few_quantities_say_nothing() {
        assert_eq!(Scatter::of(&vec![vec![0.1, 0.2]; FEWEST - 1]), None);
        assert_eq!(Scatter::of(&vec![vec![0.1]; 50]), None);
    }

    #[test]
    fn a_quantity_that_scatters_by_itself_is_believed_the_more_values_it_has() {
        let scatter = Scatter {
            base: 0.03,
            slope: 0.0,
            freedom: 4.0,
        };
        let width =
            |values: &[f64]| scatter.moderate(values).next.standard_error / (1.0 + 1.0 / values.len() as f64).sqrt();
        assert!((width(&[0.2]) - 0.03).abs() < 1e-12);
        let wild = [0.1, 0.3, 0.1, 0.3, 0.1, 0.3, 0.1, 0.3];
        assert!(width(&wild[..2]) < width(&wild[..4]) && width(&wild[..4]) < width(&wild));
        let calm = [0.2; 8];
        assert!(width(&calm[..2]) > width(&calm));
        let moderated = scatter.moderate(&wild);
        assert_eq!(
            (moderated.next.freedom, moderated.mean.value),
            (11.0, moderated.next.value)
        );
        assert!(moderated.mean.standard_error < moderated.next.standard_error);
    }

    #[test]
    fn equal_values_give_finite_figures() {
        let scatter = Scatter::of(&vec![vec![0.1, 0.1, 0.1]; 20]).unwrap();
        assert!(
            scatter.base > 0.0 && scatter.moderate(&[0.1, 0.1]).next.standard_error.is_finite(),
            "{scatter:?}"
        );
    }
}
