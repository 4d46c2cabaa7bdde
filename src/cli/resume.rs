//! `lasthop resume`

use std::process::ExitCode;

use super::{
    CliError, args, catalog, home, locator,
    progress::{Progress, Talk},
    run::{conclude, sweep, watch_signals},
};
use crate::{
    experiment::plan::Plan,
    record::Store,
    run::{self, Job, RunError, resume::Unfinished},
};

pub fn resume(arguments: &args::Resume) -> Result<ExitCode, CliError> {
    let home = home()?;
    let directory = Store::new(home.runs()).find(&arguments.run).map_err(CliError::usage)?;
    let unfinished = Unfinished::open(&directory).map_err(CliError::usage)?;
    let origin = unfinished.origin.clone();
    let experiment = catalog()?.load(&origin.experiment).map_err(CliError::usage)?;
    unfinished.same_experiment(&experiment).map_err(CliError::usage)?;
    let plan = Plan::new(experiment, &origin.selection).map_err(CliError::usage)?;
    unfinished.same_plan(&plan).map_err(CliError::usage)?;
    let settings = unfinished.settings(arguments.budget).map_err(CliError::usage)?;
    let programs = args::Programs {
        programs: origin.programs.clone().into_iter().collect(),
        engine: origin.engine,
        images: origin.images,
    };
    let locator = locator(&home, &plan.experiment.name, &programs);
    sweep();
    let interrupt = watch_signals()?;
    let mut progress = Progress::new(Talk::choose(arguments.talk.quiet, arguments.talk.no_progress));
    let job = Job {
        plan: &plan,
        settings,
        locator: &locator,
        engine: origin.engine,
        images: origin.images,
        whole_round: false,
        remote: origin.remote.clone(),
        home: &home,
        command: std::env::args().collect(),
        interrupt: &interrupt,
        origin: Some(origin),
    };
    let outcome = run::resume(&job, unfinished, &mut |event| progress.show(event)).map_err(|error| match error {
        RunError::Changed(changed) => CliError::usage(changed),
        other => CliError::failed(other),
    })?;
    conclude(&outcome, &arguments.output)
}
