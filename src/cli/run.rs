//! `lasthop run`

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_analyse::limit::{self, Limit};
use lasthop_model::{
    driver::Remote,
    quantity::written,
    record::{Origin, Settings},
    selection::{OWN_DRIVER, Selection},
};
use lasthop_plan::{
    digest,
    model::Source,
    plan::{Plan, usual_recipes},
    settings::Overrides,
};
use lasthop_run::{Job, Outcome, RunError, resume::Unfinished};
use lasthop_stack::guard;

use super::{
    args,
    context::{catalog, command_line, home, locator},
    explain, limits,
    output::{CliError, Exit, OrExit, talk, writable},
    progress::{Progress, Talk},
    report,
    signals::watch_signals,
};

pub fn run(arguments: &args::Run) -> Exit {
    if arguments.again {
        return explain::again(arguments);
    }
    let options = &arguments.options;
    let experiment = catalog()?.load(&arguments.experiment).or_usage()?;
    let wanted = Selection {
        drivers: driver_levels(&options.drivers),
        rate: options.pace.open.rate,
        arrivals: options.pace.open.arrivals.map(Into::into),
        overload: options.pace.overload.is_some(),
        ..selection(&options.select)
    };
    let plan = Plan::new(experiment, &wanted).or_usage()?;
    report::has_format(options.pace.overload.is_some(), &options.output)?;
    let overrides = Overrides {
        overload: options.pace.overload.clone(),
        aa: options.select.aa,
        driver_at: options.drivers.driver_at.clone(),
        tools: options.drivers.tools().cloned().collect(),
        explain: explain::wanted(&options.layers)?,
        ..options.overrides.clone()
    };
    let settings = settings(&plan, overrides, &options.output)?;
    let home = home()?;
    let locator = locator(&home, &plan.experiment, &options.programs)?;
    let origin = origin(&plan, wanted, &options.programs, options.drivers.remote())?;
    let labels = options.labels.iter().cloned().collect();
    let job = Job {
        labels,
        ..Job::new(&plan, settings, &locator, &home, command_line()).with_origin(origin)
    };
    carry_out(&job, None, &options.talk, &options.output)
}

/// The settings of a run. Unless a precision is given, the run continues until its intervals are narrow enough for its
/// limits.
pub fn settings(plan: &Plan, overrides: Overrides, output: &args::OutputOptions) -> Result<Settings, CliError> {
    let is_given = overrides.precision.is_some();
    let settings = plan.settings(overrides).or_usage()?;
    let limits = output.fail_if.iter().filter(|_| !is_given);
    Ok(Settings {
        precision: limits.map(Limit::precision).fold(settings.precision, f64::min),
        ..settings
    })
}

/// A selection of an experiment, ready to run.
pub struct Ready {
    plan: Plan,
    wanted: Selection,
    settings: Settings,
}

impl Ready {
    pub fn of(experiment: &str, wanted: Selection, budget: Option<Duration>) -> Result<Self, CliError> {
        let plan = Plan::new(catalog()?.load(experiment).or_usage()?, &wanted).or_usage()?;
        let overrides = Overrides {
            budget,
            ..Overrides::default()
        };
        let settings = plan.settings(overrides).or_usage()?;
        Ok(Self { plan, wanted, settings })
    }

    /// The run in words: `nginx-gunicorn (gunicorn, nginx; 60s)`
    pub fn in_words(&self) -> String {
        let experiment = &self.plan.experiment;
        let servers = usual_recipes(experiment).unwrap_or_default();
        let servers: Vec<String> = servers.into_iter().collect();
        let budget = written(Duration::from_nanos(self.settings.budget_ns));
        format!("{} ({}; {budget})", experiment.name, servers.join(", "))
    }

    /// Runs the selection and keeps its record.
    pub fn run(self, talk: Talk) -> Result<Outcome, CliError> {
        let home = home()?;
        let programs = args::Programs::default();
        let locator = locator(&home, &self.plan.experiment, &programs)?;
        let origin = origin(&self.plan, self.wanted, &programs, Remote::default())?;
        let job = Job::new(&self.plan, self.settings, &locator, &home, command_line()).with_origin(origin);
        let outcome = measure(&job, None, talk)?;
        report::ended(&outcome.record)?;
        Ok(outcome)
    }
}

/// Runs a job, or resumes an unfinished run, and reports the result.
pub fn carry_out(
    job: &Job<'_>,
    unfinished: Option<Unfinished>,
    talk: &args::TalkOptions,
    output: &args::OutputOptions,
) -> Exit {
    // A wrong file or limit must be reported now, not after the run.
    writable(output.output.as_deref())?;
    limits::check(&output.fail_if, &limit::of_plan(&job.plan.cases))?;
    let talk = Talk::choose(talk.quiet, talk.no_progress);
    report::conclude(&measure(job, unfinished, talk)?.record, output)
}

/// Runs a job, or resumes an unfinished run, and keeps its record.
pub fn measure(job: &Job<'_>, unfinished: Option<Unfinished>, talk: Talk) -> Result<Outcome, CliError> {
    let mut progress = begin(talk)?;
    lasthop_run::carry_out(job, unfinished, &mut |event| progress.show(event)).map_err(not_run)
}

/// Prepares to measure: removes what killed runs left behind, listens for Ctrl-C, and starts to show progress.
pub fn begin(talk: Talk) -> Result<Progress, CliError> {
    sweep();
    watch_signals()?;
    Ok(Progress::new(talk))
}

/// Removes leftovers of killed lasthop processes.
pub fn sweep() {
    let guard::Sweep { swept, left } = guard::sweep();
    for swept in swept {
        talk(&format!(
            "removed {}, left behind by a killed run",
            swept.sandbox.display()
        ));
    }
    if !left.is_empty() {
        const SHOWN: usize = 3;
        let paths: Vec<String> = left
            .iter()
            .take(SHOWN)
            .map(|one| one.path.display().to_string())
            .collect();
        let more = left
            .len()
            .checked_sub(SHOWN + 1)
            .map_or_else(String::new, |more| format!(" and {} more", more + 1));
        talk(&format!(
            "not removed, because it may not be lasthop's: {}{more} (`lasthop clean` explains)",
            paths.join(", ")
        ));
    }
}

/// The error and exit code of a run that did not start.
fn not_run(error: RunError) -> CliError {
    match error {
        RunError::Interrupted => CliError::interrupted(error),
        RunError::Changed(changed) => CliError::usage(changed),
        other => CliError::failed(other),
    }
}

/// A path for the record: absolute, because the run may be resumed from another directory, and UTF-8.
pub fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    let whole = std::path::absolute(path).or_usage()?;
    let no_text = || {
        CliError::usage(format!(
            "the path {} is not UTF-8, so the record cannot hold it",
            whole.display()
        ))
    };
    if whole.to_str().is_some() {
        Ok(whole)
    } else {
        Err(no_text())
    }
}

/// The origin that another lasthop needs to resume the run. Paths are absolute, because that lasthop may start in
/// another directory.
fn origin(plan: &Plan, selection: Selection, options: &args::Programs, remote: Remote) -> Result<Origin, CliError> {
    let programs = options
        .programs
        .iter()
        .map(|(recipe, path)| Ok((recipe.clone(), absolute(path)?)));
    Ok(Origin {
        experiment: match &plan.experiment.source {
            Source::BuiltIn | Source::Given => plan.experiment.name.clone(),
            Source::Folder(path) => absolute(path)?.display().to_string(),
        },
        selection,
        programs: programs.collect::<Result<_, CliError>>()?,
        engine: options.engine,
        remote: Remote {
            config: remote.config.as_deref().map(absolute).transpose()?,
            ..remote
        },
        files: digest::of_experiment(&plan.experiment),
        ..Origin::default()
    })
}

pub fn selection(select: &args::Select) -> Selection {
    Selection {
        only: select.only.clone(),
        set: select.set.clone(),
        aa: select.aa,
        ..Selection::default()
    }
}

/// Levels of the factor `driver`; empty if only lasthop drives.
fn driver_levels(drivers: &args::Drivers) -> Vec<String> {
    let own = (!drivers.cross_check.is_empty()).then(|| OWN_DRIVER.to_owned());
    let mut levels = Vec::from_iter(own);
    for choice in drivers.tools() {
        if !levels.contains(&choice.tool) {
            levels.push(choice.tool.clone());
        }
    }
    levels
}
