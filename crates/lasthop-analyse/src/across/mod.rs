//! Several runs of one experiment: two runs as before and after ([`diff`]), any number of runs of one machine or many
//! ([`fleet`]), and differences in their records ([`facts`]).
//!
//! Runs are independent, so the logarithm of a change is the difference of two estimates, with the scatter of both. A
//! ratio is taken within blocks, so that the machine's state on a day cancels out of the ratio and its change. It does
//! not cancel out of absolute figures: a change of those has an interval, but no verdict.

mod apart;
pub mod diff;
pub mod facts;
pub mod fleet;
#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use lasthop_model::{quantity::joined, record::Stopped};
use lasthop_record::data::RunData;
use lasthop_stats::{Estimate, Interval, verdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    absolute::Absolute,
    cases::{self, KnownFigure},
    comparisons::{self, better},
    pairs::Compared,
    summary::{CaseSummary, Comparison, Metric, Severity, Summary, Verdict},
    trials::Trials,
};

/// The error for runs that cannot be compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAlike {
    #[error("`{}` is a run of {} and `{}` one of {}; compare runs of the same experiment", .0[0], .1[0], .0[1], .1[1])]
    Experiments([String; 2], [String; 2]),
    #[error("`{0}` is named twice; compare two runs")]
    Same(String),
    #[error("`{}` and `{}` have no case in common; the former has {}, the latter {}", .0[0], .0[1], .1[0], .1[1])]
    NothingShared([String; 2], [String; 2]),
}

/// One of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// Name of the run.
    pub run: String,
    /// Version of lasthop that wrote the record.
    pub lasthop: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Where it ran; `null` if the run died before its first round was up.
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub seconds: f64,
    pub rounds: u32,
    pub blocks: u32,
    pub stopped: Stopped,
    /// Ids of the run's checks with the severity doubt or invalid.
    pub doubts: Vec<String>,
}

impl Side {
    fn of(summary: &Summary) -> Self {
        let environment = summary.environment.as_ref();
        let grave = summary.checks.iter().filter(|check| check.severity > Severity::Note);
        let mut doubts: Vec<String> = grave.map(|check| check.id.clone()).collect();
        doubts.sort();
        doubts.dedup();
        Self {
            run: summary.run.clone(),
            lasthop: summary.lasthop.clone(),
            started: summary.started.clone(),
            host: environment.map(|environment| environment.host.clone()),
            kernel: environment.map(|environment| environment.kernel.clone()),
            seconds: summary.seconds,
            rounds: summary.rounds,
            blocks: summary.blocks,
            stopped: summary.stopped,
            doubts,
        }
    }
}

/// A run, with the logarithms behind its figures.
pub struct Analysed {
    pub summary: Summary,
    /// Logarithms of the comparisons of the summary, in their order.
    logs: Vec<Estimate>,
    /// Figures of each case of the summary.
    cases: Vec<Vec<KnownFigure>>,
    confidence: f64,
}

impl Analysed {
    /// Analyses a whole record.
    #[must_use]
    pub fn of(data: &RunData) -> Self {
        let trials = Trials::new(data);
        let compared = comparisons::compare_all(&trials);
        let absolute = Absolute::of(&trials, &compared);
        let cases = trials.cases().iter();
        Self {
            cases: cases.map(|plan| cases::known(&trials, &absolute, plan)).collect(),
            ..Self::of_compared(&trials, compared)
        }
    }

    /// Analyses a run without the quantities that only absolute figures need.
    fn of_compared(trials: &Trials<'_>, compared: Vec<Compared>) -> Self {
        let logs = compared.iter().map(|compared| compared.log_ratio).collect();
        Self {
            summary: super::summary(trials, compared),
            logs,
            cases: Vec::new(),
            confidence: trials.confidence(),
        }
    }

    /// Gives cases the names that another run has for the same levels. Names differ because they leave out factors with
    /// one level.
    fn rename_like(&mut self, other: &Summary) {
        let names = self.names_in(other);
        let Summary {
            cases,
            comparisons,
            alternatives,
            checks,
            failures,
            ..
        } = &mut self.summary;
        let judged = comparisons.iter_mut().chain(alternatives);
        let own = cases.iter_mut().map(|case| &mut case.case);
        let all = own
            .chain(judged.flat_map(|one| [&mut one.case, &mut one.reference]))
            .chain(checks.iter_mut().filter_map(|check| check.case.as_mut()))
            .chain(failures.iter_mut().map(|failure| &mut failure.case));
        for name in all {
            if let Some(new) = names.get(name) {
                name.clone_from(new);
            }
        }
    }

    /// New names of the cases whose levels have another name in the other run. Empty for a run against itself, in which
    /// cases with equal levels run twice.
    fn names_in(&self, other: &Summary) -> IndexMap<String, String> {
        let one = |case: &CaseSummary| {
            let same = |one: &&CaseSummary| one.levels == case.levels && self.summary.case(&one.case).is_none();
            Some((case.case.clone(), other.cases.iter().find(same)?.case.clone()))
        };
        let own = self.summary.cases.iter();
        let unknown = own.filter(|case| other.case(&case.case).is_none());
        if self.summary.aa || other.aa {
            IndexMap::new()
        } else {
            unknown.filter_map(one).collect()
        }
    }

    /// The comparison of the same case, reference and metric, with its logarithm.
    fn like(&self, other: &Comparison) -> Option<(&Comparison, &Estimate)> {
        self.summary
            .comparisons
            .iter()
            .zip(&self.logs)
            .find(|(one, _)| is_like(one, other))
    }

    fn case_names(&self) -> impl Iterator<Item = &String> {
        self.summary.cases.iter().map(|case| &case.case)
    }
}

fn is_like(one: &Comparison, other: &Comparison) -> bool {
    (&one.case, &one.reference, one.metric) == (&other.case, &other.reference, other.metric)
}

/// Whether verdicts are about a comparison.
fn is_declared(summary: &Summary, comparison: &Comparison) -> bool {
    let case = summary.case(&comparison.case);
    case.is_some_and(|case| Metric::primary(&case.load) == comparison.metric)
}

/// The change between two independent estimates: the quotient, the verdict on it, and the probability of such a change
/// by chance.
fn change(metric: Metric, from: &Estimate, to: &Estimate, confidence: f64, margin: f64) -> (Interval, Verdict, f64) {
    let log = to.minus(from);
    let interval = log.exponential(confidence);
    (
        interval,
        verdict::verdict(&interval, margin, better(metric)),
        log.p_value(),
    )
}

/// Checks that two runs are of the same experiment and have a case in common.
fn alike(old: &Analysed, new: &Analysed) -> Result<(), NotAlike> {
    let [one, other] = [&old.summary, &new.summary];
    let names = [one.run.clone(), other.run.clone()];
    if (&one.run, &one.started) == (&other.run, &other.started) {
        return Err(NotAlike::Same(one.run.clone()));
    }
    if one.experiment != other.experiment {
        return Err(NotAlike::Experiments(
            names,
            [one.experiment.clone(), other.experiment.clone()],
        ));
    }
    let listed = |run: &Analysed| joined(run.case_names().map(String::as_str), ", ");
    if old.case_names().any(|case| other.case(case).is_some()) {
        Ok(())
    } else {
        Err(NotAlike::NothingShared(names, [listed(old), listed(new)]))
    }
}
