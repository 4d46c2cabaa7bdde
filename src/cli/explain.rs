//! `lasthop explain`

use std::path::Path;

use lasthop_model::record::ExplainSettings;
use lasthop_plan::plan::Plan;
use lasthop_profile::Layers;
use lasthop_record::{Store, store};
use lasthop_run::{Job, repeat::Repeat};

use super::{
    args,
    context::{catalog, command_line, deliver, home, locator_with, summarise},
    diff,
    output::{CliError, Exit, OrExit, talk},
    run,
};

/// Tells the layers of a run, or makes the run again to see them.
pub fn explain(arguments: &args::Explain) -> Exit {
    let home = home()?;
    let own = Store::new(home.path());
    let directory = own.find(&arguments.run).or_usage()?;
    let data = store::read(&directory).or_failed()?;
    if arguments.layers.is_none() && data.profile_trials().next().is_some() {
        let summary = diff::with_limits(&arguments.output.fail_if, summarise(&directory)?)?;
        deliver(&summary, &arguments.output)?;
        return Ok(diff::hold(&summary.limits));
    }
    let repeat = Repeat::of(&data, &directory, &own).or_usage()?;
    let experiment = catalog()?.load(&repeat.origin.experiment).or_usage()?;
    repeat.same_experiment(&experiment).or_usage()?;
    let plan = Plan::new(experiment, &repeat.origin.selection).or_usage()?;
    let mut settings = repeat.settings(self::settings(arguments.layers.as_deref())?);
    if let Some(budget) = arguments.budget {
        settings.budget_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
    }
    lasthop_profile::Profiler::available().or_failed()?;
    talk(&format!(
        "{} has no profile trials: it is made again with them",
        repeat.header.run
    ));
    let locator = locator_with(&home, &plan.experiment, repeat.origin.programs.clone())?;
    let job = Job {
        labels: repeat.header.labels.clone(),
        ..Job::new(&plan, settings, &locator, &home, command_line()).with_origin(repeat.origin)
    };
    run::carry_out(&job, None, &arguments.talk, &arguments.output)
}

/// How profile trials are made, if they are to be.
pub fn wanted(options: &args::LayerOptions) -> Result<Option<ExplainSettings>, CliError> {
    let settings = options.explain.then(|| settings(options.layers.as_deref()));
    settings.transpose()
}

/// How profile trials are made, with the user's own lines of layers.
fn settings(layers: Option<&Path>) -> Result<ExplainSettings, CliError> {
    let Some(file) = layers else {
        return Ok(ExplainSettings::default());
    };
    let text = Layers::text_of(file).or_usage()?;
    Layers::with(&file.display().to_string(), &text).or_usage()?;
    Ok(ExplainSettings { layers: text })
}
