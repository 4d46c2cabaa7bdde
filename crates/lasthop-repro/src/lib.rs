//! Repeats the studies: by the study's own method, as closely as this machine allows, and by lasthop's method.
//!
//! | module | holds |
//! |---|---|
//! | [`carry_out`] | the runs: one per condition as in the study, and one by lasthop's method |
//! | [`found`] | what lasthop's method found in addition to the published figures |
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

use std::time::Duration;

use lasthop_plan::catalog::Catalog;
use lasthop_run::event::Event;
use lasthop_stack::{container::engine::Engine, home::Home};
use lasthop_system::date;

use self::{
    carry_out::{Carried, Job},
    measured::MeasuredPart,
    outcome::{FigureRow, Part, Repetition},
};
use crate::study::model::Study;

/// How studies are repeated.
#[derive(Debug)]
pub struct Options<'a> {
    pub catalog: &'a Catalog,
    /// What is installed there is used.
    pub home: &'a Home,
    /// Records go there, into `runs`.
    pub into: &'a Home,
    /// Executables given for recipes and tools.
    pub programs: std::collections::BTreeMap<String, std::path::PathBuf>,
    /// Time for lasthop's own design of a study; the study's method is shortened to take about as long at most.
    pub budget: Duration,
    pub seed: Option<u64>,
    /// Also make profile trials by lasthop's method, and say by which layers conditions differ.
    pub explain: bool,
    pub command: Vec<String>,
    /// The container engine that is wanted; `None` takes the study's if it can be used, else the first that can.
    pub engine: Option<lasthop_model::engine::EngineKind>,
}

/// Repeats a study. What fails is part of the result; other parts go on.
pub fn repeat(study: &Study, options: &Options<'_>, tell: &mut dyn FnMut(&Event<'_>)) -> Repetition {
    let begun = std::time::Instant::now();
    let mut result = Repetition::of(study, options.budget.as_secs_f64(), date::now().to_string());
    let parts = study
        .runs
        .iter()
        // What is not repeated takes none of the time.
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
    let carried: Vec<(Part, Carried)> = study.runs.iter().map(|run| job.carry_out(run, tell)).collect();
    let measured = all_measured(study, &carried);
    let find = |id: &str| study.runs.iter().position(|run| run.id == id).map(|at| &measured[at]);
    result.environment = carried.iter().find_map(|(_, carried)| carried.environment().cloned());
    result.figures = study
        .figures
        .iter()
        .map(|figure| FigureRow {
            figure: figure.clone(),
            method: find(&figure.runs)
                // No levels would fit any case.
                .filter(|_| !figure.levels.is_empty())
                .and_then(|part| part.method_value(&figure.measured, &figure.levels, &figure.unit)),
            lasthop: find(&figure.runs)
                .filter(|_| !figure.levels.is_empty())
                .and_then(|part| part.design_value(&figure.measured, &figure.levels, &figure.unit)),
        })
        .collect();
    for (at, (part, carried)) in carried.iter().enumerate() {
        let mut part = part.clone();
        part.why = why::notes(study, &measured[at], carried);
        result.parts.push(part);
    }
    let claims = study.claims.iter();
    result.claims = claims
        .map(|claim| {
            let part = find(&claim.runs).filter(|part| part.design.is_some());
            result.judged(study, claim, part.map(|part| part.ratios(claim)))
        })
        .collect();
    result.seconds = begun.elapsed().as_secs_f64();
    result
}

/// What was measured, each with that which is subtracted from it.
fn all_measured<'a>(study: &'a Study, carried: &'a [(Part, Carried)]) -> Vec<MeasuredPart<'a>> {
    let plain = |at: usize| MeasuredPart {
        run: &study.runs[at],
        method: &carried[at].1.method,
        design: carried[at].1.design.as_ref(),
        minus: None,
    };
    (0..study.runs.len())
        .map(|at| MeasuredPart {
            minus: study.runs[at]
                .minus
                .as_ref()
                .and_then(|id| study.runs.iter().position(|run| run.id == *id))
                .map(|other| Box::new(plain(other))),
            ..plain(at)
        })
        .collect()
}
