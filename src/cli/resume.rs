//! `lasthop resume`

use std::process::ExitCode;

use lasthop_core::{
    experiment::plan::Plan,
    record::Store,
    run::{self, Job, consent::Consent, resume::Unfinished},
};

use super::{
    args,
    context::{catalog, command_line, home, locator},
    output::{CliError, agreed, can_ask, talk},
    progress::{Progress, Talk},
    run::{conclude, not_run, sweep},
    signals::watch_signals,
};

/// Asks for consent to execute what a record names.
fn confirm(consent: &Consent) -> Result<(), CliError> {
    if !can_ask() {
        return Err(CliError::usage(format!("{consent}\nCheck these, then run the command again with --trust-record")));
    }
    talk(&consent.to_string());
    if agreed("Execute these? [y/N] ") { Ok(()) } else { Err(CliError::usage("nothing was executed")) }
}

pub fn resume(arguments: &args::Resume) -> Result<ExitCode, CliError> {
    let home = home()?;
    let directory = Store::new(home.runs()).find(&arguments.run).map_err(CliError::usage)?;
    let unfinished = Unfinished::open(&directory).map_err(CliError::usage)?;
    let origin = unfinished.origin.clone();
    let experiment = catalog()?.load(&origin.experiment).map_err(CliError::usage)?;
    unfinished.same_experiment(&experiment).map_err(CliError::usage)?;
    let plan = Plan::new(experiment, &origin.selection).map_err(CliError::usage)?;
    unfinished.same_plan(&plan).map_err(CliError::usage)?;
    if let Some(consent) = unfinished.to_confirm(&home.runs(), &plan.experiment).filter(|_| !arguments.trust_record) {
        confirm(&consent)?;
    }
    let settings = unfinished.settings(arguments.budget).map_err(CliError::usage)?;
    let programs = args::Programs {
        programs: origin.programs.clone().into_iter().collect(),
        engine: origin.engine,
        images: origin.images,
    };
    let locator = locator(&home, &plan.experiment.name, &programs);
    sweep();
    watch_signals()?;
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
        command: command_line(),
        origin: Some(origin),
    };
    let outcome = run::resume(&job, unfinished, &mut |event| progress.show(event)).map_err(not_run)?;
    conclude(&outcome, &arguments.output)
}
