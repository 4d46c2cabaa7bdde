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

use indexmap::IndexMap;
use lasthop_plan::catalog::Catalog;
use lasthop_run::event::Event;
use lasthop_stack::home::Home;
use lasthop_system::date;

use self::{
    carry_out::{Carried, Job},
    measured::MeasuredPart,
    outcome::{ClaimRow, FigureRow, Part, Repetition, Word, judge},
};
use crate::study::model::{Base, Claim, Study};

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
    /// The container engine that is wanted; `None` takes the first that can be used.
    pub engine: Option<lasthop_model::engine::EngineKind>,
}

/// Repeats a study. What fails is part of the result; other parts go on.
pub fn repeat(study: &Study, options: &Options<'_>, tell: &mut dyn FnMut(&Event<'_>)) -> Repetition {
    let begun = std::time::Instant::now();
    let mut result = Repetition::of(study, options.budget.as_secs_f64(), date::now().to_string());
    let parts = study
        .runs
        .iter()
        // What has no experiment here takes none of the time.
        .filter(|run| options.catalog.load(&run.experiment).is_ok())
        .count()
        .max(1);
    let job = Job {
        study,
        options,
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
    result.claims = study
        .claims
        .iter()
        .map(|claim| claim_row(study, claim, find(&claim.runs)))
        .collect();
    for (at, (part, carried)) in carried.iter().enumerate() {
        let mut part = part.clone();
        part.why = why::notes(study, &measured[at], carried, part.shortened.is_some(), &result);
        result.parts.push(part);
    }
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

fn claim_row(study: &Study, claim: &Claim, part: Option<&MeasuredPart<'_>>) -> ClaimRow {
    let published = published_ratio(study, claim);
    let lasthop = part.and_then(|part| part.design_ratio(&claim.measured, &claim.case, &claim.against));
    let claimed = match (claim.least, claim.most, published) {
        (None, None, Some(ratio)) => (ratio * 0.98, ratio * 1.02),
        (least, most, _) => (least.unwrap_or(0.0), most.unwrap_or(f64::INFINITY)),
    };
    ClaimRow {
        claim: claim.clone(),
        published,
        method: part.and_then(|part| part.method_ratio(&claim.measured, &claim.case, &claim.against)),
        lasthop,
        // What was run and has no ratio (too few blocks, a difference that may as well be negative) is not decided.
        word: match (lasthop, part.and_then(|part| part.design)) {
            (None, Some(_)) => Word::Undecided,
            _ => judge(claimed, lasthop),
        },
    }
}

/// Ratio of the figures that were published of the two conditions; their mean where there are several of each.
fn published_ratio(study: &Study, claim: &Claim) -> Option<f64> {
    let figure = |wanted: &IndexMap<String, String>| {
        let fitting = study.figures.iter().filter(|figure| {
            figure.runs == claim.runs
                && figure.system == claim.system
                && !figure.levels.is_empty()
                && wanted
                    .iter()
                    .all(|(factor, level)| figure.levels.get(factor) == Some(level))
        });
        let exact: Vec<f64> = fitting
            .clone()
            .filter(|figure| figure.quantity == claim.quantity)
            .map(|figure| figure.value)
            .collect();
        // A study that counts requests for a second publishes the rate, too.
        let counted = || {
            let counts = fitting.clone().filter(|figure| figure.measured.is(Base::Requests));
            counts.map(|figure| figure.value).collect::<Vec<_>>()
        };
        let values = if exact.is_empty() { counted() } else { exact };
        lasthop_stats::mean::of(values)
    };
    Some(figure(&claim.case)? / figure(&claim.against)?)
}
