//! The pace of requests: each after the previous reply (closed loop), or at a rate (open loop).

use std::{collections::BTreeSet, time::Duration};

use lasthop_model::rate::{CONSTANT, POISSON, Rate, arrivals};
use lasthop_protocol::{Protocol, echo::Echo, spec::Spec};
use lasthop_trial::{
    address::{Address, Endpoint},
    options::{Model, Reuse},
};
use minijinja::value::Value;

use super::{
    diagnostics::Diagnostic,
    model::{Load, SettingSource},
    template,
};

/// The fewest requests per trial, on average. With fewer, a trial may have none.
pub const LEAST_IN_A_TRIAL: f64 = 10.0;

/// The shortest trial with enough requests at a rate, in whole tens of milliseconds.
pub fn shortest_trial(rate: f64) -> Duration {
    Duration::from_millis((LEAST_IN_A_TRIAL / rate * 100.0).ceil() as u64 * 10)
}

/// The error of a case that cannot have its pace: the flaw, its place, and advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaceError {
    #[error("{}", .0.to_string().trim_end())]
    File(Box<Diagnostic>),
    #[error("{0}")]
    Option(String),
}

impl From<PaceError> for String {
    fn from(error: PaceError) -> Self {
        error.to_string()
    }
}

/// Advice for an unreadable value, in a file and on the command line. The message itself says what is expected.
const UNREADABLE: [&str; 2] = ["", "choose another"];
/// Advice for a load that cannot have a rate, in a file and on the command line.
const IMPOSSIBLE: [&str; 2] = [
    "exclude the combination ([[exclude]]), or set `rate` to 0 there, for a closed loop",
    "leave such cases out with --only, or leave out this option",
];

impl SettingSource {
    fn error(&self, message: String, [in_file, in_option]: [&'static str; 2]) -> PaceError {
        match self {
            Self::File(place) => {
                let help = Some(in_file.to_owned()).filter(|help| !help.is_empty());
                PaceError::File(Box::new(place.saying(message, help)))
            }
            Self::Option(option) => PaceError::Option(format!("{option}: {message}; {in_option}")),
        }
    }
}

/// The pace of a case: a closed loop, or an open loop at a rate. The seed of random arrivals is chosen by the round,
/// not by the plan.
pub(super) fn of_case(load: &Load, context: &Value) -> Result<Model, PaceError> {
    let read = |key: &str, text: &str, source: &SettingSource| {
        let rendered = template::render(key, text, context);
        rendered.map_err(|error| source.error(format!("template: {}", error.message), UNREADABLE))
    };
    let rate = read("load.rate", &load.rate, &load.rate_at)?.parse::<Rate>();
    let rate = rate.map_err(|error| load.rate_at.error(error.to_string(), UNREADABLE))?;
    let text = read(
        "load.arrivals",
        load.arrivals.as_deref().unwrap_or(CONSTANT),
        &load.arrivals_at,
    )?;
    let arrivals = arrivals(&text).ok_or_else(|| {
        let message = format!("`arrivals` is `{}`, expected {CONSTANT} or {POISSON}", text.trim());
        load.arrivals_at.error(message, UNREADABLE)
    })?;
    let model = rate.model(arrivals);
    possible(load, model, context).map_err(|why| {
        load.rate_at
            .error(format!("a load at {rate} requests/s: {why}"), IMPOSSIBLE)
    })?;
    Ok(model)
}

/// The templates that decide whether a case has a rate, and whether it can have one.
pub(super) fn templates(load: &Load) -> impl Iterator<Item = &String> {
    [&load.rate, &load.pipeline, &load.requests_per_connection, &load.reuse]
        .into_iter()
        .chain(&load.arrivals)
        .chain(load.driver.first())
}

/// Whether the pace depends on more than the levels of a case. Then only the plan, which has addresses, can determine
/// it.
pub(super) fn needs_addresses<'a>(load: &Load, mut services: impl Iterator<Item = &'a String>) -> bool {
    let names = templates(load).filter_map(|text| template::names(text).ok());
    let names: BTreeSet<String> = names.flatten().collect();
    services.any(|service| names.iter().any(|name| name.split('.').next() == Some(service)))
}

/// Checks that a load with a rate can have one. Errors of its other parts are reported where they are rendered.
fn possible(load: &Load, model: Model, context: &Value) -> Result<(), String> {
    if model == Model::Closed {
        return Ok(());
    }
    let text = |text: &str| {
        template::render("load", text, context)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if let Some(driver) = load
        .driver
        .first()
        .and_then(|word| text(word))
        .filter(|word| !word.is_empty())
    {
        let program = driver.rsplit('/').next().unwrap_or(&driver);
        return Err(format!(
            "the driver `{program}` is not lasthop's own, and only that has an open loop"
        ));
    }
    let number = |template: &str| text(template).and_then(|text| text.parse().ok()).unwrap_or(1);
    // Any endpoint will do, because the server and the protocol do not decide whether a rate is possible.
    let stand_in = Endpoint::plain(Address::Unix("/".into()));
    let spec = Spec {
        model,
        pipeline: number(&load.pipeline),
        requests_per_connection: number(&load.requests_per_connection),
        reuse: if text(&load.reuse).as_deref() == Some("per-request") {
            Reuse::PerRequest
        } else {
            Reuse::KeepAlive
        },
        ..Spec::new(stand_in, Protocol::from(Echo { size: 64 }))
    };
    spec.validate_pipeline()?;
    spec.validate_unit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_has_at_least_ten_requests() {
        assert_eq!(shortest_trial(50.0), Duration::from_millis(200));
        assert_eq!(shortest_trial(3.0), Duration::from_millis(3340));
    }
}
