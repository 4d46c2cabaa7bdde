//! What a check looks at, what it finds, and how it words that.

use lasthop_model::quantity::thousands;

use crate::{
    pairs::Compared,
    summary::{Metric, Severity},
    trials::Trials,
};

/// What checks look at.
pub struct Evidence<'a> {
    pub trials: &'a Trials<'a>,
    pub compared: &'a [Compared],
}

impl Evidence<'_> {
    /// Whether a comparison is by the metric of its load, which the run was planned for.
    pub fn is_primary(&self, one: &Compared) -> bool {
        let plan = self.trials.plan(&one.comparison.case);
        plan.is_some_and(|plan| Metric::primary(&plan.load) == one.comparison.metric)
    }
}

/// What a check found of its subject.
pub struct Finding {
    pub severity: Severity,
    /// What was seen, with figures.
    pub evidence: String,
    /// Its effect on the result.
    pub effect: String,
    /// The id, if it is not that of the check.
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

/// Worth knowing.
pub fn note(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Note, evidence, effect)
}

/// The result is weaker than it looks.
pub fn doubt(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Doubt, evidence, effect)
}

/// The result must not be used.
pub fn invalid(evidence: impl Into<String>, effect: impl Into<String>) -> Finding {
    Finding::of(Severity::Invalid, evidence, effect)
}

/// `12,345`
pub fn grouped(count: u64) -> String {
    thousands(&count.to_string())
}

/// A share in percent, with enough digits not to read 0.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if value >= 10.0 => format!("{value:.0} %"),
        _ if value >= 0.1 || value == 0.0 => format!("{value:.1} %"),
        _ if value >= 0.001 => format!("{value:.3} %"),
        _ => format!("{value:.1e} %"),
    }
}
