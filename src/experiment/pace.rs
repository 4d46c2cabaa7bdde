//! How the requests of a load are paced: one after the reply to the other (closed loop), or at a rate (open loop).

use std::{fmt, str::FromStr, time::Duration};

use lasthop_load::spec::{Address, Arrivals, Echo, Endpoint, Model, OpenLoop, Protocol, Reuse, Spec, SpecError};
use minijinja::value::Value;
use serde::{Deserialize, Serialize};

use super::{
    model::{Levels, Load},
    template,
};

pub(super) const CONSTANT: &str = "constant";
pub(super) const POISSON: &str = "poisson";
/// What a rate is, in words.
pub(super) const EXPECTED: &str = "requests per second from 0.001 to 100,000,000, or 0 or nothing for a closed loop";

/// Fewer requests than this in a trial, on average, and a trial may have none.
pub const LEAST_IN_A_TRIAL: f64 = 10.0;

/// Requests per second over all connections, 0.001 to 100 million; 0 is a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

/// It is never NaN.
impl Eq for Rate {}

/// The text or number is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate: write {EXPECTED}")]
pub struct NoRate(String);

impl Rate {
    /// What a driver is told; the seed is put in by the round.
    #[must_use]
    pub fn model(self, arrivals: Arrivals) -> Model {
        if self.0 > 0.0 { Model::Open(OpenLoop { rate: self.0, arrivals, seed: 0 }) } else { Model::Closed }
    }
}

impl TryFrom<f64> for Rate {
    type Error = NoRate;

    fn try_from(rate: f64) -> Result<Self, NoRate> {
        if rate == 0.0 || (0.001..=1e8).contains(&rate) { Ok(Self(rate.abs())) } else { Err(NoRate(rate.to_string())) }
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl FromStr for Rate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Self, NoRate> {
        let text = text.trim();
        let number = if text.is_empty() { Ok(0.0) } else { text.parse::<f64>() };
        number.ok().and_then(|rate| Self::try_from(rate).ok()).ok_or_else(|| NoRate(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How requests are spread over time, by its name.
#[must_use]
pub fn arrivals(text: &str) -> Option<Arrivals> {
    match text.trim() {
        CONSTANT => Some(Arrivals::Constant),
        POISSON => Some(Arrivals::Poisson),
        _ => None,
    }
}

#[must_use]
pub fn arrivals_name(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Constant => CONSTANT,
        Arrivals::Poisson => POISSON,
    }
}

/// The shortest trial with enough requests at a rate, in whole tens of milliseconds.
#[must_use]
pub fn shortest_trial(rate: f64) -> Duration {
    Duration::from_millis((LEAST_IN_A_TRIAL / rate * 100.0).ceil() as u64 * 10)
}

/// Whether a load with a rate can be made.
///
/// # Errors
/// `at RATE requests/s: ` and why not, in the load generator's own words where it is the one who refuses.
pub(super) fn possible(spec: &Spec, driver: Option<&[String]>) -> Result<(), String> {
    let Model::Open(open) = spec.model else { return Ok(()) };
    if let Some(words) = driver {
        let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
        let rate = open.rate;
        return Err(format!("at {rate} requests/s: the driver `{program}` is not lasthop's own and has no open loop"));
    }
    match spec.validate() {
        Err(error @ (SpecError::Pipeline { .. } | SpecError::Unit { .. })) => {
            Err(format!("at {} requests/s: {error}", open.rate))
        }
        _ => Ok(()),
    }
}

/// What is wrong with the rate of a combination of levels.
pub(super) enum PaceFlaw {
    Rate(String),
    Arrivals(String),
    Impossible(String),
}

/// Looks at the rate of a combination as far as its levels tell: what needs the address of a service is left to the plan.
///
/// # Errors
/// The first flaw.
pub(super) fn of_levels(load: &Load, levels: &Levels) -> Result<(), PaceFlaw> {
    let context = Value::from(template::levels_context(levels));
    let text = |text: &str| template::render("load", text, &context).ok().map(|text| text.trim().to_owned());
    let Some(rate) = text(&load.rate) else { return Ok(()) };
    let model = |arrivals| rate.parse::<Rate>().map(|rate| rate.model(arrivals));
    let model = match text(&load.arrivals).map(|text| arrivals(&text).ok_or(text)) {
        Some(Err(text)) => {
            return Err(PaceFlaw::Arrivals(format!("`arrivals` is `{text}`, expected {CONSTANT} or {POISSON}")));
        }
        Some(Ok(arrivals)) => model(arrivals),
        None => model(Arrivals::Constant),
    };
    let model = model.map_err(|error| PaceFlaw::Rate(error.to_string()))?;
    let number = |template: &str| text(template).and_then(|text| text.parse().ok()).unwrap_or(1);
    let stand_in = Endpoint { address: Address::Unix("/".into()), tls: None };
    let spec = Spec {
        model,
        pipeline: number(&load.pipeline),
        requests_per_connection: number(&load.requests_per_connection),
        reuse: if text(&load.reuse).as_deref() == Some("per-request") { Reuse::PerRequest } else { Reuse::KeepAlive },
        ..Spec::new(stand_in, Protocol::Echo(Echo { size: 64 }))
    };
    let driver = load.driver.first().and_then(|word| text(word)).filter(|word| !word.is_empty());
    possible(&spec, driver.map(|word| vec![word]).as_deref()).map_err(PaceFlaw::Impossible)
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
            assert!(error.starts_with(&format!("`{text}` is not a rate: write requests per second")), "{error}");
        }
        assert_eq!("0".parse::<Rate>().unwrap().model(Arrivals::Poisson), Model::Closed);
    }

    #[test]
    fn a_rate_survives_its_record() {
        let rate: Rate = "1234.5".parse().unwrap();
        assert_eq!(serde_json::from_str::<Rate>(&serde_json::to_string(&rate).unwrap()).unwrap(), rate);
        assert!(serde_json::from_str::<Rate>("-3.0").is_err());
    }

    #[test]
    fn a_trial_has_at_least_ten_requests() {
        assert_eq!(shortest_trial(50.0), Duration::from_millis(200));
        assert_eq!(shortest_trial(3.0), Duration::from_millis(3340));
    }
}
