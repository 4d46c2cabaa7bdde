//! What a check looks at, and how it words what it finds.

use lasthop_model::{quantity::thousands, record::CasePlan};

use crate::{
    pairs::Compared,
    summary::{Check, Metric, Severity},
    trials::Trials,
};

/// What checks look at.
pub struct Evidence<'a> {
    pub trials: &'a Trials<'a>,
    pub compared: &'a [Compared],
}

impl Evidence<'_> {
    /// Whether a comparison is by the metric of its load, which the run was planned for.
    pub fn is_primary(&self, compared: &Compared) -> bool {
        let comparison = &compared.comparison;
        self.trials
            .plan(&comparison.case)
            .is_some_and(|plan| Metric::primary(&plan.load) == comparison.metric)
    }

    /// Cases that may use TCP. What happens to TCP during the others is somebody else's.
    pub fn with_tcp(&self) -> impl Iterator<Item = &CasePlan> {
        self.trials
            .cases()
            .iter()
            .filter(|plan| self.trials.may_use_tcp(&plan.case))
    }
}

/// A finding about one case.
pub fn of_case(id: &str, severity: Severity, case: &str, evidence: String, effect: &str) -> Check {
    Check {
        case: Some(case.to_owned()),
        ..of_run(id, severity, evidence, effect)
    }
}

/// A finding about the whole run.
pub fn of_run(id: &str, severity: Severity, evidence: String, effect: &str) -> Check {
    Check {
        id: id.to_owned(),
        severity,
        case: None,
        evidence,
        effect: effect.to_owned(),
    }
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
