//! Repeats the studies: by the study's own method, as closely as this machine allows, and by lasthop's method.
//!
//! | module | holds |
//! |---|---|
//! | [`carry_out`] | the runs: one by lasthop's method, and one by the study's |
//! | [`found`] | results of lasthop's method beyond the published figures |
//! | [`measured`] | the results, in the quantities of the study |
//! | [`why`] | why the figures differ, from facts about these runs |
//! | [`outcome`] | the result, and its JSON |
//! | [`page`] | the result for people |
//! | [`book`] | all studies in a folder, resumable |

pub mod book;
pub mod carry_out;
pub mod found;
pub mod measured;
pub mod outcome;
pub mod page;
pub mod study;
pub mod why;

use std::time::{Duration, SystemTime};

use lasthop_plan::catalog::Catalog;
use lasthop_run::event::Event;
use lasthop_stack::{container::engine::Engine, home::Home};
use lasthop_system::date;

use self::{
    carry_out::Job,
    measured::{Carried, Measured},
    outcome::{FigureRow, RepeatedExperiment, Repetition},
};
use crate::study::model::{By, Figure, Study};

/// Options of a repetition.
#[derive(Debug)]
pub struct Options<'a> {
    pub catalog: &'a Catalog,
    /// The data folder with installed packages.
    pub home: &'a Home,
    /// The data folder for records, in its `runs`.
    pub into: &'a Home,
    /// Executables chosen for recipes and tools.
    pub programs: std::collections::BTreeMap<String, std::path::PathBuf>,
    /// Budget of lasthop's own design of a study. The study's method is shortened to about the same time at most.
    pub budget: Duration,
    pub seed: Option<u64>,
    /// The end of the last finished repetition. Later runs in `into` belong to an interrupted repetition, which
    /// continues with them.
    pub since: SystemTime,
    /// Also make profile trials by lasthop's method, and report the layers by which conditions differ.
    pub explain: bool,
    pub command: Vec<String>,
    /// The requested container engine; `None` for the study's engine if usable, else the first usable one.
    pub engine: Option<lasthop_model::engine::EngineKind>,
}

/// Repeats a study. Failures are part of the result, and do not stop other parts.
pub fn repeat(study: &Study, options: &Options<'_>, tell: &mut dyn FnMut(&Event<'_>)) -> Repetition {
    let begun = std::time::Instant::now();
    let mut result = Repetition::of(study, options.budget.as_secs_f64(), date::now().to_string());
    let parts = study
        .runs
        .iter()
        // Parts that are not repeated take no time.
        .filter(|run| run.because.is_none() && options.catalog.load(&run.experiment).is_ok())
        .count()
        .max(1);
    let theirs = || study.method.engine.filter(|kind| Engine::find(Some(*kind)).is_ok());
    let job = Job {
        study,
        options,
        engine: options.engine.or_else(theirs),
        budget: options.budget / u32::try_from(parts).unwrap_or(u32::MAX),
    };
    let carried: Vec<Carried> = study.runs.iter().map(|run| job.carry_out(run, tell)).collect();
    let measured = Measured {
        study,
        carried: &carried,
    };
    let summaries = carried
        .iter()
        .flat_map(|carried| [&carried.by_study, &carried.by_lasthop]);
    result.environment = summaries.flatten().find_map(|summary| summary.environment.clone());
    let value = |figure: &Figure, by| {
        // An empty set of levels would fit any case.
        let run = study.run(&figure.runs).filter(|_| !figure.levels.is_empty())?;
        measured.value(run, by, &figure.measured, &figure.levels, &figure.unit)
    };
    let figures = study.figures.iter();
    result.figures = figures
        .map(|figure| FigureRow {
            figure: figure.clone(),
            method: value(figure, By::Study),
            lasthop: value(figure, By::Lasthop),
        })
        .collect();
    for (run, Carried { part, .. }) in study.runs.iter().zip(&carried) {
        let why = why::notes(run, &measured);
        result.parts.push(RepeatedExperiment { why, ..part.clone() });
    }
    let claims = study.claims.iter();
    result.claims = claims
        .map(|claim| result.judged(study, claim, measured.ratios(claim)))
        .collect();
    result.seconds = begun.elapsed().as_secs_f64();
    result
}
