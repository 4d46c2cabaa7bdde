//! ANALYSE: from a run record to estimates, comparisons, checks and verdicts.
//!
//! - [`summarise`]: the whole record → [`summary::Summary`], deterministic for a record.
//! - [`look`]: the ratios so far that verdicts are about, for the progress line and for stopping at a precision.
//! - [`groups`]: cases by their references.
//! - [`decision`]: the recommendation of a run.
//! - [`across`]: several runs: changes, and differences between runs.
//! - [`answers`]: figures of the records that the project keeps.
//! - [`limit`]: whether a result exceeds the user's limits.
//! - [`checks`]: reasons to doubt the result.
//! - [`plots`]: additional data for the plots of a page.
//! - [`rows`]: every trial, for other tools.

mod absolute;
pub mod across;
pub mod answers;
mod cases;
pub mod checks;
mod comparisons;
pub mod decision;
mod derived;
mod explained;
pub mod groups;
pub mod limit;
mod materiality;
mod overload;
mod pairs;
pub mod plots;
mod progress;
pub mod rows;
mod run_delay;
mod steady;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;
mod trials;
mod waits;

use std::path::PathBuf;

pub use cases::name_of;
use lasthop_model::{
    record::{BUILT_IN, Resumption, RunHeader, Stopped},
    selection,
};
use lasthop_record::data::RunData;
pub use progress::{Look, ProgressLine, is_due, look, seconds_to};

use self::{
    absolute::Absolute,
    decision::Decision,
    pairs::Compared,
    summary::{Check, Comparison, LinkEnds, Resumed, SCHEMA, SettingsSummary, Summary, Verdict},
    trials::Trials,
};

/// The results of a run so far.
#[must_use]
pub fn summarise(data: &RunData) -> Summary {
    let trials = Trials::new(data);
    summary(&trials, comparisons::compare_all(&trials))
}

fn summary(trials: &Trials, compared: Vec<Compared>) -> Summary {
    let data = trials.data;
    let checks = checks::all(&checks::Evidence {
        trials,
        compared: &compared,
    });
    let cases = cases::summarise_all(trials, &Absolute::of(trials, &compared));
    let mut comparisons: Vec<_> = compared.into_iter().map(|one| one.comparison).collect();
    checks::driver::mark_lower_bounds(trials, &mut comparisons);
    withhold_verdicts(&checks, &mut comparisons);
    let header = &data.header;
    let mut summary = Summary {
        schema: SCHEMA.to_owned(),
        experiment: header.experiment.name.clone(),
        title: header.experiment.title.clone(),
        question: header.experiment.question.clone(),
        decision: Decision::default(),
        answer: Vec::new(),
        limits: Vec::new(),
        link: LinkEnds {
            from: header.experiment.from.clone(),
            to: header.experiment.to.clone(),
        },
        run: header.run.clone(),
        lasthop: header.lasthop.clone(),
        command: header.command.clone(),
        started: header.started.to_string(),
        seconds: trials.seconds(),
        time: time::time_use(data),
        seed: header.settings.seed,
        stopped: data.end.as_ref().map_or(Stopped::Interrupted, |end| end.stopped),
        complete: data.end.is_some(),
        running: false,
        folder: PathBuf::new(),
        word: header.run.clone(),
        resumed: data.resumptions().map(resumed).collect(),
        aa: header.settings.aa,
        settings: settings(data),
        rounds: trials.rounds(),
        blocks: trials.blocks(),
        factors: header
            .factors
            .iter()
            .map(|(name, factor)| (name.clone(), factor.levels.iter().map(ToString::to_string).collect()))
            .collect(),
        compared: selection::compared(&header.factors, |factor| factor.reference.is_some()).to_owned(),
        labels: header
            .factors
            .iter()
            .filter(|(_, factor)| !factor.labels.is_empty())
            .map(|(name, factor)| (name.clone(), factor.labels.clone()))
            .collect(),
        controls: controls(header),
        alternatives: unless_ratios_only(trials, comparisons::alternatives),
        template: header.answer.clone(),
        environment: data.environment.clone(),
        cases,
        comparisons,
        derived: unless_ratios_only(trials, derived::derive_all),
        overload: overload::summarise(data),
        explained: explained::summarise(trials),
        checks,
        failures: data.failures().cloned().collect(),
    };
    // The kept answers are not read for other experiments, because they cover only built-in ones.
    if header.experiment.source == BUILT_IN
        && let Some(answer) = answers::answers().get(&summary.experiment)
    {
        answers::placed::place(&mut summary, answer);
    }
    summary.decide();
    summary
}

/// Removes verdicts from comparisons that must not be used.
fn withhold_verdicts(checks: &[Check], comparisons: &mut [Comparison]) {
    let forbidden = |one: &Comparison| checks.iter().any(|check| check.forbids(&one.case, &one.reference));
    for comparison in comparisons.iter_mut().filter(|one| forbidden(one)) {
        (comparison.verdict, comparison.more_seconds) = (Verdict::Undecided, None);
    }
}

fn resumed(resumption: &Resumption) -> Resumed {
    Resumed {
        at: resumption.at.to_string(),
        after_seconds: resumption.at_ns as f64 / 1e9,
        pause_seconds: resumption.pause_ns as f64 / 1e9,
        ended: resumption.ended,
    }
}

fn settings(data: &RunData) -> SettingsSummary {
    let settings = &data.header.settings;
    SettingsSummary {
        precision: settings.precision,
        budget_seconds: data.budget_ns() as f64 / 1e9,
        margin: settings.margin,
        trial_seconds: settings.trial_ns as f64 / 1e9,
        blocks_per_round: settings.blocks,
        confidence: lasthop_stats::CONFIDENCE,
        placement: settings.placement.clone(),
    }
}

fn unless_ratios_only<T>(trials: &Trials, all: fn(&Trials) -> Vec<T>) -> Vec<T> {
    if trials.ratios_only { Vec::new() } else { all(trials) }
}

fn controls(header: &RunHeader) -> Vec<String> {
    header
        .cases
        .iter()
        .filter(|case| {
            case.levels
                .iter()
                .any(|(factor, level)| header.factors.get(factor).is_some_and(|of| of.controls.contains(level)))
        })
        .map(|case| case.case.clone())
        .collect()
}

#[cfg(test)]
mod tests;
