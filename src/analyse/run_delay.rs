//! Run delay: how long the threads of each role were ready to run and had no CPU.
//!
//! Per right answer, as CPU time is: the driver's in the measure phase, the services' in the whole trial. Trials in which
//! nobody counted it say nothing about it.

use indexmap::IndexMap;
use lasthop_stats::totals::{self, Fraction, PairedTotals, Totals};

use super::{
    cases,
    comparisons::Pairs,
    summary::{Measured, Metric, RunDelay, RunDelaySaved},
    trials::{self, Trials, grouped},
};
use crate::record::schema::MeasuredTrial;

/// The role that counts its own cost.
const DRIVER: &str = "driver";

/// What was counted of one role in one or more trials.
#[derive(Clone, Copy, Default)]
struct Waited {
    delay_ns: u64,
    cpu_ns: u64,
    requests: f64,
}

impl Waited {
    /// `None` where nobody counted it.
    fn of(trial: &MeasuredTrial, role: &str) -> Option<Self> {
        if role == DRIVER {
            let cost = &trial.result.cost;
            return Some(Self {
                delay_ns: cost.run_delay_ns?,
                cpu_ns: cost.cpu_ns(),
                requests: trial.result.requests as f64,
            });
        }
        let usage = trial.observations.roles.get(role)?;
        Some(Self { delay_ns: usage.run_delay_ns?, cpu_ns: usage.cpu_ns, requests: trials::served(trial) })
    }

    fn and(self, other: Self) -> Self {
        Self {
            delay_ns: self.delay_ns + other.delay_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            requests: self.requests + other.requests,
        }
    }

    /// Microseconds by requests.
    fn fraction(self) -> Fraction {
        Fraction { numerator: self.delay_ns as f64 / 1e3, denominator: self.requests }
    }
}

/// The driver, then the services that were observed with a case.
fn roles<'a>(trials: &Trials<'a>, case: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    std::iter::once(DRIVER).chain(cases::roles(trials, case))
}

/// Of the roles that were counted at least once.
pub fn by_role(trials: &Trials, case: &str) -> IndexMap<String, RunDelay> {
    let of_role = |role: &str| {
        let sum = trials.of(case).filter_map(|trial| Waited::of(trial, role)).reduce(Waited::and)?;
        let busy_ns = (sum.delay_ns + sum.cpu_ns).max(1);
        Some(RunDelay {
            us_per_request: sum.delay_ns as f64 / 1e3 / sum.requests,
            share: sum.delay_ns as f64 / busy_ns as f64,
        })
    };
    roles(trials, case).filter_map(|role| Some((role.to_owned(), of_role(role)?))).collect()
}

/// With the metric that the verdict is about; `None` for the others, and where less than two blocks know it of both.
pub fn saved(trials: &Trials, pairs: &Pairs, metric: Metric) -> Option<RunDelaySaved> {
    if metric != Metric::primary(&pairs.case.load) {
        return None;
    }
    let of_role = |role: &str| {
        let totals = |trial: &MeasuredTrial| Some(Totals(vec![Waited::of(trial, role)?.fraction()]));
        Some((role.to_owned(), difference(trials, pairs, role, totals)?))
    };
    let saved = RunDelaySaved {
        all: difference(trials, pairs, "", all),
        roles: roles(trials, &pairs.case.case).filter_map(of_role).collect(),
    };
    (saved.all.is_some() || !saved.roles.is_empty()).then_some(saved)
}

/// Of all roles in a trial, the same that [`trials::cpu`] adds up; `None` where it is not known of each that ran.
fn all(trial: &MeasuredTrial) -> Option<Totals> {
    let services = trial.observations.roles.values();
    let ran = services.filter(|usage| usage.cpu_ns > 0 || usage.run_delay_ns.is_some());
    let known: Option<Vec<u64>> = ran.map(|usage| usage.run_delay_ns).collect();
    let delay_ns = known?.iter().sum();
    let services = Waited { delay_ns, cpu_ns: 0, requests: trials::served(trial) };
    let driver = match trial.result.offered {
        Some(_) => None,
        None => Some(Waited::of(trial, DRIVER)?),
    };
    Some(Totals(driver.into_iter().chain([services]).map(Waited::fraction).collect()))
}

/// The reference's less the case's, in microseconds per request, over the blocks that have both.
fn difference(
    trials: &Trials,
    pairs: &Pairs,
    role: &str,
    totals: impl Fn(&MeasuredTrial) -> Option<Totals>,
) -> Option<Measured> {
    let pair = |ours, theirs| Some(PairedTotals { case: totals(ours)?, reference: totals(theirs)? });
    let known = pairs.blocks.iter().filter_map(|&(place, ours, theirs)| Some((place.0, pair(ours, theirs)?)));
    let how = trials.resampling(&pairs.case.case, &format!("run delay {role}"));
    let more = totals::difference(&grouped(known)?, how)?.interval(trials.confidence());
    let less = |micros: f64| 0.0 - micros;
    Some(Measured { unit: "us".to_owned(), estimate: less(more.estimate), low: less(more.high), high: less(more.low) })
}
