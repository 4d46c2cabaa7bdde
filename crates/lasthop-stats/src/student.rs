//! Student's t distribution for any positive degrees of freedom, including fractions, and the F distribution.

/// Natural logarithm of the gamma function for `x` > 0, to about 15 digits.
///
/// Lanczos' approximation with g = 7 and nine terms (Lanczos 1964; coefficients by Godfrey).
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series: f64 = TERMS[0]
        + (1..)
            .zip(&TERMS[1..])
            .map(|(k, term)| term / (x + f64::from(k)))
            .sum::<f64>();
    let base = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + series.ln()
}

/// Regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22) and Lentz' method.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // Up to this x, the fraction converges quickly (DLMF 8.17(v)); beyond, I_x(a, b) = 1 − I_(1−x)(b, a).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    // `ln_1p` preserves the digits of ln(1 − x) for small x.
    let ln_front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    ln_front.exp() / (a * beta_fraction(a, b, x))
}

/// The continued fraction 1 + d₁/(1 + d₂/(1 + …)) of DLMF 8.17.22.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    // Lentz' method must not divide by 0; a replacement this small changes no digit.
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut fraction = 1.0;
    let mut c = 1.0;
    let mut d = 0.0;
    for step in 1..10_000 {
        let m = f64::from(step / 2);
        let term = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / guard(1.0 + term * d);
        c = guard(1.0 + term / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// Probability that a t variable with `freedom` degrees of freedom exceeds `t`, for `t` ≥ 0.
#[must_use]
pub fn upper_tail(t: f64, freedom: f64) -> f64 {
    0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Probability that a t variable is farther from 0 than `t`, on either side.
#[must_use]
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    2.0 * upper_tail(t.abs(), freedom)
}

/// Probability that an F variable with these degrees of freedom exceeds `f`, for `f` ≥ 0.
#[must_use]
pub fn f_upper_tail(f: f64, above: f64, below: f64) -> f64 {
    incomplete_beta(below / 2.0, above / 2.0, below / (below + above * f))
}

/// The t that is exceeded with probability (1 − `confidence`)/2: the half width of an interval in standard errors.
///
/// # Panics
/// If `confidence` is not within (0, 1) or `freedom` is not positive.
#[must_use]
pub fn critical(confidence: f64, freedom: f64) -> f64 {
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence of {confidence} is not within (0, 1)"
    );
    assert!(freedom > 0.0, "{freedom} degrees of freedom are not positive");
    let tail = (1.0 - confidence) / 2.0;
    let mut high = 1.0;
    // t² must stay finite, even if t would not for so few degrees of freedom.
    while upper_tail(high, freedom) > tail && high < 1e150 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Bisection to 12 digits, which is safe because the tail is monotone.
    while high - low > 1e-12 * high {
        let middle = 0.5 * (low + high);
        if upper_tail(middle, freedom) > tail {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64, tolerance: f64) {
        assert!(
            (left - right).abs() <= tolerance * right.abs().max(1.0),
            "{left} is not {right}"
        );
    }

    /// NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2, column 0.975, three decimals.
    #[test]
    fn critical_values_are_those_of_the_published_table() {
        let table = [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (9.0, 2.262),
            (19.0, 2.093),
            (30.0, 2.042),
            (100.0, 1.984),
        ];
        for (freedom, expected) in table {
            assert!(
                (critical(0.95, freedom) - expected).abs() < 0.000_5,
                "freedom {freedom}"
            );
        }
        assert!((critical(0.99, 5.0) - 4.032).abs() < 0.000_5);
        assert!((critical(0.90, 10.0) - 1.812).abs() < 0.000_5);
    }

    #[test]
    fn many_degrees_of_freedom_are_the_normal_distribution() {
        assert!((critical(0.95, 1e6) - 1.959_964).abs() < 5e-6);
        assert!((critical(0.99, 1e6) - 2.575_829).abs() < 1e-5);
    }

    /// With 1 and 2 degrees of freedom, the distribution has a closed form.
    #[test]
    fn tails_have_their_closed_forms() {
        for t in [0.0, 0.1, 0.7, 1.0, 3.0, 50.0, 1e4] {
            close(upper_tail(t, 1.0), 0.5 - t.atan() / std::f64::consts::PI, 1e-13);
            close(upper_tail(t, 2.0), 0.5 * (1.0 - t / (2.0 + t * t).sqrt()), 1e-13);
        }
    }

    /// NIST/SEMATECH e-Handbook, table 1.3.6.7.3, upper 5 %; F(1, n) is also the square of t(n).
    #[test]
    fn the_f_distribution_has_its_published_values() {
        for (f, above, below) in [
            (4.965, 1.0, 10.0),
            (3.326, 5.0, 10.0),
            (2.711, 5.0, 20.0),
            (2.165, 10.0, 30.0),
        ] {
            close(f_upper_tail(f, above, below), 0.05, 5e-5);
        }
        close(f_upper_tail(6.25, 1.0, 7.0), two_sided(2.5, 7.0), 1e-12);
    }

    #[test]
    fn gamma_of_whole_and_half_numbers() {
        close(ln_gamma(1.0), 0.0, 1e-14);
        close(ln_gamma(5.0), 24_f64.ln(), 1e-14);
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        close(ln_gamma(100.0), 359.134_205_369_575_4, 1e-14);
    }

    #[test]
    fn fractional_freedom_lies_between() {
        let between = critical(0.95, 2.5);
        assert!(between < critical(0.95, 2.0) && between > critical(0.95, 3.0));
        close(two_sided(between, 2.5), 0.05, 1e-12);
    }
}
