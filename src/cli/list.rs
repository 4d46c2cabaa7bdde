//! `lasthop list`, `lasthop show`, `lasthop runs`

use std::{fmt::Write as _, path::Path};

use super::{CliError, args, catalog, home, locator, print, run::selection, summarise, talk, terminal};
use crate::{
    experiment::{
        cases,
        catalog::Entry,
        model::{Experiment, Factor},
        plan::Plan,
    },
    record::{
        Store,
        schema::Stopped,
        store::{self, State},
    },
    report::{self, ExperimentEntry, RunEntry, RunState, units::rate_text},
    service::{home::Home, locate::Locator},
};

pub fn experiments() -> Result<(), CliError> {
    let home = home()?;
    let entries = catalog()?.list();
    let (good, bad): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.experiment.is_ok());
    let listed: Vec<ExperimentEntry> = good.iter().filter_map(|entry| listed(&home, entry)).collect();
    print(&report::experiments_table(&listed, &terminal()))?;
    for entry in bad {
        if let Err(error) = entry.experiment {
            talk(&format!("warning: {} cannot be loaded:\n{error}", entry.name));
        }
    }
    Ok(())
}

fn listed(home: &Home, entry: &Entry) -> Option<ExperimentEntry> {
    let experiment = entry.experiment.as_ref().ok()?;
    let locator = locator(home, &entry.name, &args::Programs::default());
    let transports =
        experiment.factors[cases::compared(&experiment.factors)].levels.iter().map(ToString::to_string).collect();
    Some(ExperimentEntry {
        name: entry.name.clone(),
        question: experiment.question.clone(),
        transports,
        source: entry.source.to_string(),
        missing: missing(experiment, &locator),
    })
}

/// Programs of the default cases that cannot be found, a sentence each.
pub fn missing(experiment: &Experiment, locator: &Locator) -> Vec<String> {
    let Ok(plan) = Plan::new(experiment.clone(), &Default::default()) else { return Vec::new() };
    let mut recipes: Vec<&str> =
        plan.stacks.iter().flat_map(|stack| stack.services.values()).map(|service| &service.recipe[..]).collect();
    recipes.sort_unstable();
    recipes.dedup();
    recipes
        .into_iter()
        .filter(|recipe| locator.locate(recipe, &plan.experiment.recipes[*recipe].program).is_err())
        .map(str::to_owned)
        .collect()
}

pub fn show(arguments: &args::Show) -> Result<(), CliError> {
    let experiment = catalog()?.load(&arguments.experiment).map_err(CliError::usage)?;
    let plan = Plan::new(experiment, &selection(&arguments.select)).map_err(CliError::usage)?;
    print(describe(&plan).as_bytes())
}

fn describe(plan: &Plan) -> String {
    let experiment = &plan.experiment;
    let mut text = format!("{}: {}\n", experiment.name, experiment.title);
    let _ = writeln!(text, "  {}", experiment.question);
    let _ = writeln!(text, "\nLink under test: {} → {}", experiment.link.from, experiment.link.to);
    text.push_str("\nServices, in start order\n");
    for (name, recipe) in &plan.summary().services {
        let _ = writeln!(text, "  {name} (recipe {recipe})");
    }
    text.push_str("\nFactors (* runs now)\n");
    for (name, factor) in &experiment.factors {
        describe_factor(&mut text, name, factor, plan);
    }
    let _ = writeln!(text, "\nCases: {}, on {} stacks of services", plan.cases.len(), plan.stacks.len());
    for case in &plan.cases {
        let against =
            case.reference.as_ref().map_or("reference".to_owned(), |reference| format!("against {reference}"));
        let at = case.load.rate.map_or(String::new(), |rate| format!(", at {} requests/s", rate_text(rate)));
        let _ = writeln!(text, "  {:<40} {against}{at}", case.case);
    }
    let defaults = &experiment.defaults;
    let _ = writeln!(
        text,
        "\nTrials of {:?}, {} blocks a round, at most {:?}, until ±{} % is reached",
        defaults.trial,
        defaults.blocks,
        defaults.budget,
        (defaults.precision * 1e4).round() / 1e2
    );
    text
}

fn describe_factor(text: &mut String, name: &str, factor: &Factor, plan: &Plan) {
    let chosen = plan.factors.get(name).map(|chosen| &chosen.levels[..]).unwrap_or_default();
    let level = |level| format!("{level}{}", if chosen.contains(level) { "*" } else { "" });
    let mut levels: Vec<String> = factor.levels.iter().map(level).collect();
    levels.extend(chosen.iter().filter(|level| !factor.levels.contains(level)).map(|level| format!("{level}*")));
    let range = factor.range.map_or(String::new(), |(low, high)| format!("; any from {low} to {high} with --set"));
    let _ = writeln!(text, "  {name}: {}{range}", levels.join(" "));
    let _ = writeln!(text, "      {}", factor.help);
}

pub fn runs() -> Result<(), CliError> {
    let directories = Store::new(home()?.runs()).list().map_err(CliError::failed)?;
    if directories.is_empty() {
        talk("no run is recorded yet; make one with `lasthop run`");
        return Ok(());
    }
    let entries: Vec<RunEntry> = directories.iter().map(|directory| run_entry(directory)).collect();
    print(&report::runs_table(&entries, &terminal()))
}

fn run_entry(directory: &Path) -> RunEntry {
    let run = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match store::header(directory) {
        Ok(header) => {
            let (state, headline) = outcome(directory);
            let when = header.started.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
            RunEntry { run, experiment: header.experiment.name, when, state, headline }
        }
        Err(error) => RunEntry {
            run,
            experiment: String::new(),
            when: String::new(),
            state: RunState::Unreadable(error.to_string()),
            headline: String::new(),
        },
    }
}

fn outcome(directory: &Path) -> (RunState, String) {
    match summarise(directory) {
        Ok(summary) => {
            let state = match (store::state(directory), summary.stopped) {
                (State::Running, _) => RunState::Running,
                (State::CutOff, _) => RunState::CutOff,
                (State::Complete, Stopped::Interrupted) => RunState::Interrupted,
                (State::Complete, Stopped::Failed) => RunState::Failed,
                (State::Complete, _) => RunState::Complete,
            };
            (state, report::headline(&summary))
        }
        Err(error) => (RunState::Unreadable(error.text), String::new()),
    }
}
