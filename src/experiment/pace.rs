//! How the requests of a load are paced: one after the reply to the other (closed loop), or at a rate (open loop).

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use lasthop_load::spec::{Address, Arrivals, Echo, Endpoint, Model, OpenLoop, Protocol, Reuse, Spec, SpecError};
use minijinja::value::Value;
use serde::{Deserialize, Serialize};

use super::{diagnostics::Diagnostic, model::Load, template};

pub(super) const CONSTANT: &str = "constant";
pub(super) const POISSON: &str = "poisson";
/// What a rate is, in words.
const EXPECTED: &str = "requests per second from 0.001 to 100,000,000, or 0 or nothing for a closed loop";

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

/// Where a rate or its arrivals were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Without a message.
    File(Box<Diagnostic>),
    /// An option of the command line, with its value.
    Option(String),
}

/// A case cannot have the pace that it is given: what is wrong, where that is written, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaceError {
    #[error("{}", .0.to_string().trim_end())]
    File(Box<Diagnostic>),
    #[error("{option}: {message}; {help}")]
    Option { option: String, message: String, help: &'static str },
}

/// What to do about what cannot be read, where a file has it and where the command line has. The message says what is
/// expected.
const UNREADABLE: [&str; 2] = ["", "choose another"];
/// What to do about a rate that the load cannot have, where a file has it and where the command line has.
const IMPOSSIBLE: [&str; 2] = [
    "exclude the combination ([[exclude]]), or make `rate` 0 there: a closed loop",
    "leave such cases out (--only), or --rate",
];

impl Place {
    fn error(&self, message: String, [in_file, in_option]: [&'static str; 2]) -> PaceError {
        match self {
            Self::File(place) => {
                let help = Some(in_file.to_owned()).filter(|help| !help.is_empty());
                PaceError::File(Box::new(place.saying(message, help)))
            }
            Self::Option(option) => PaceError::Option { option: option.clone(), message, help: in_option },
        }
    }
}

/// The pace of a case: closed loop, or open at which rate. The seed of random arrivals is the round's, and not of the
/// plan.
///
/// # Errors
/// When rate or arrivals cannot be read, or the load cannot have a rate; in the load generator's own words where it is
/// the one who refuses.
pub(super) fn of_case(load: &Load, context: &Value) -> Result<Model, PaceError> {
    let read = |key: &str, text: &str, place: &Place| {
        let rendered = template::render(key, text, context);
        rendered.map_err(|error| place.error(format!("template: {}", error.message), UNREADABLE))
    };
    let rate = read("load.rate", &load.rate, &load.rate_at)?.parse::<Rate>();
    let rate = rate.map_err(|error| load.rate_at.error(error.to_string(), UNREADABLE))?;
    let text = read("load.arrivals", &load.arrivals, &load.arrivals_at)?;
    let arrivals = arrivals(&text).ok_or_else(|| {
        let message = format!("`arrivals` is `{}`, expected {CONSTANT} or {POISSON}", text.trim());
        load.arrivals_at.error(message, UNREADABLE)
    })?;
    let model = rate.model(arrivals);
    possible(load, model, context)
        .map_err(|why| load.rate_at.error(format!("a load at {rate} requests/s: {why}"), IMPOSSIBLE))?;
    Ok(model)
}

/// Whether the pace needs more than the levels of a case: then only the plan can tell it, which has addresses.
pub(super) fn needs_addresses<'a>(load: &Load, services: impl IntoIterator<Item = &'a String>) -> bool {
    let templates = [&load.rate, &load.arrivals, &load.pipeline, &load.requests_per_connection, &load.reuse];
    let names = templates.into_iter().chain(load.driver.first()).filter_map(|text| template::names(text).ok());
    let names: BTreeSet<String> = names.flatten().collect();
    let of = |service: &String| names.iter().any(|name| name.split('.').next() == Some(service));
    services.into_iter().any(of)
}

/// Whether the load can have a rate, if it has one. What else is wrong with its parts is said where they are rendered.
fn possible(load: &Load, model: Model, context: &Value) -> Result<(), String> {
    if model == Model::Closed {
        return Ok(());
    }
    let text = |text: &str| template::render("load", text, context).ok().map(|text| text.trim().to_owned());
    if let Some(driver) = load.driver.first().and_then(|word| text(word)).filter(|word| !word.is_empty()) {
        let program = driver.rsplit('/').next().unwrap_or(&driver);
        return Err(format!("the driver `{program}` is not lasthop's own and has no open loop"));
    }
    let number = |template: &str| text(template).and_then(|text| text.parse().ok()).unwrap_or(1);
    // Whether there can be a rate is no matter of the server and the protocol.
    let stand_in = Endpoint { address: Address::Unix("/".into()), tls: None };
    let spec = Spec {
        model,
        pipeline: number(&load.pipeline),
        requests_per_connection: number(&load.requests_per_connection),
        reuse: if text(&load.reuse).as_deref() == Some("per-request") { Reuse::PerRequest } else { Reuse::KeepAlive },
        ..Spec::new(stand_in, Protocol::Echo(Echo { size: 64 }))
    };
    match spec.validate() {
        Err(error @ (SpecError::Pipeline { .. } | SpecError::Unit { .. })) => Err(error.to_string()),
        _ => Ok(()),
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
