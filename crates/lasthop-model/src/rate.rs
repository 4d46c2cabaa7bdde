//! The pace of requests: each after the previous reply (closed loop), or at a rate (open loop).

use std::{fmt, str::FromStr};

use lasthop_trial::options::{Arrivals, Model, OpenLoop};
use serde::{Deserialize, Serialize};

pub const CONSTANT: &str = "constant";

pub const POISSON: &str = "poisson";

/// A rate in words.
const EXPECTED: &str = "requests per second from 0.001 to 100,000,000, or 0 (or nothing) for a closed loop";

/// Requests per second over all connections, from 0.001 to 100 million, or 0 for a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

/// Sound, because a rate is never NaN.
impl Eq for Rate {}

impl Rate {
    /// The load model for the driver. The round sets the seed later.
    pub fn model(self, arrivals: Arrivals) -> Model {
        if self.0 > 0.0 {
            Model::Open(OpenLoop {
                rate: self.0,
                arrivals,
                seed: 0,
            })
        } else {
            Model::Closed
        }
    }
}

impl TryFrom<f64> for Rate {
    type Error = String;

    fn try_from(rate: f64) -> Result<Self, String> {
        if rate == 0.0 || (0.001..=1e8).contains(&rate) {
            // Negative zero is a closed loop too, but would be written with its sign.
            Ok(Self(rate.abs()))
        } else {
            Err(no_rate(rate))
        }
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = if text.is_empty() { Ok(0.0) } else { text.parse::<f64>() };
        number
            .ok()
            .and_then(|rate| Self::try_from(rate).ok())
            .ok_or_else(|| no_rate(text))
    }
}

fn no_rate(text: impl fmt::Display) -> String {
    format!("`{text}` is not a rate: write {EXPECTED}")
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Arrivals by name.
pub fn arrivals(text: &str) -> Option<Arrivals> {
    match text.trim() {
        CONSTANT => Some(Arrivals::Constant),
        POISSON => Some(Arrivals::Poisson),
        _ => None,
    }
}

pub fn arrivals_name(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Constant => CONSTANT,
        Arrivals::Poisson => POISSON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_requests_per_second() {
        for (text, rate) in [("", 0.0), ("0", 0.0), (" 2000 ", 2000.0), ("0.5", 0.5), ("1e8", 1e8)] {
            assert_eq!(f64::from(text.parse::<Rate>().unwrap()), rate, "{text}");
        }
        for text in ["-1", "NaN", "inf", "1e9", "0.0001", "fast", "10 per second"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not a rate: write requests per second")),
                "{error}"
            );
        }
        assert_eq!("0".parse::<Rate>().unwrap().model(Arrivals::Poisson), Model::Closed);
    }

    #[test]
    fn a_rate_survives_its_record() {
        let rate: Rate = "1234.5".parse().unwrap();
        assert_eq!(
            serde_json::from_str::<Rate>(&serde_json::to_string(&rate).unwrap()).unwrap(),
            rate
        );
        assert!(serde_json::from_str::<Rate>("-3.0").is_err());
    }
}
