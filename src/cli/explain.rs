//! `lasthop run --explain` and `lasthop run --again`

use std::path::Path;

use lasthop_model::record::ExplainSettings;
use lasthop_plan::plan::Plan;
use lasthop_profile::Layers;
use lasthop_record::{Store, store};
use lasthop_run::{Job, repeat::Repeat};

use super::{
    args,
    context::{catalog, command_line, home, locator_with},
    output::{CliError, Exit, OrExit, talk},
    run,
};

/// Repeats a run, with profile trials if requested.
pub fn again(arguments: &args::Run) -> Exit {
    let options = &arguments.options;
    let home = home()?;
    let own = Store::new(home.path());
    let directory = own.find(&arguments.experiment).or_usage()?;
    let data = store::read(&directory).or_failed()?;
    let repeat = Repeat::of(&data, &directory, &own).or_usage()?;
    let experiment = catalog()?.load(&repeat.origin.experiment).or_usage()?;
    repeat.same_experiment(&experiment).or_usage()?;
    let plan = Plan::new(experiment, &repeat.origin.selection).or_usage()?;
    let mut settings = repeat.settings(wanted(&options.layers)?);
    if let Some(budget) = options.overrides.budget {
        settings.budget_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
    }
    if options.layers.explain {
        lasthop_profile::Profiler::available().or_failed()?;
    }
    talk(&format!("{} is made again", repeat.header.run));
    let locator = locator_with(&home, &plan.experiment, repeat.origin.programs.clone())?;
    let job = Job {
        labels: repeat.header.labels.clone(),
        ..Job::new(&plan, settings, &locator, &home, command_line()).with_origin(repeat.origin)
    };
    run::carry_out(&job, None, &options.talk, &options.output)
}

/// The settings of profile trials, if requested.
pub fn wanted(options: &args::LayerOptions) -> Result<Option<ExplainSettings>, CliError> {
    let settings = options.explain.then(|| settings(options.layers.as_deref()));
    settings.transpose()
}

/// The settings of profile trials, with the user's own lines of layers.
fn settings(layers: Option<&Path>) -> Result<ExplainSettings, CliError> {
    let Some(file) = layers else {
        return Ok(ExplainSettings::default());
    };
    let text = Layers::text_of(file).or_usage()?;
    Layers::with(&file.display().to_string(), &text).or_usage()?;
    Ok(ExplainSettings { layers: text })
}
