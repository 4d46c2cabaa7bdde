//! The input of checks, their findings, and the words for figures.

use lasthop_model::quantity::thousands;

use crate::{pairs::Compared, summary::Severity, trials::Trials};

/// The input of checks.
pub struct Evidence<'a> {
    pub trials: &'a Trials<'a>,
    pub compared: &'a [Compared],
}

/// The finding of a check about its subject.
pub struct Finding {
    pub severity: Severity,
    /// Observations, with figures.
    pub evidence: String,
    /// The effect on the result.
    pub effect: String,
    /// The id, if different from the check's.
    pub id: Option<&'static str>,
}

impl Finding {
    pub fn of(severity: Severity, evidence: impl Into<String>, effect: impl Into<String>) -> Self {
        Self {
            severity,
            evidence: evidence.into(),
            effect: effect.into(),
            id: None,
        }
    }
}

/// A finding worth knowing.
pub fn note(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Note, evidence, effect)
}

/// A finding that makes the result weaker than it looks.
pub fn doubt(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Doubt, evidence, effect)
}

/// A finding by which the result must not be used.
pub fn invalid(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Invalid, evidence, effect)
}

/// A number with separated thousands: `12,345`.
pub fn grouped(count: u64) -> String {
    thousands(&count.to_string())
}

/// A share in percent, with enough digits that it does not read 0.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if value >= 10.0 => format!("{value:.0} %"),
        _ if value >= 0.1 || value == 0.0 => format!("{value:.1} %"),
        _ if value >= 0.001 => format!("{value:.3} %"),
        _ => format!("{value:.1e} %"),
    }
}
