//! `lasthop resume`

use lasthop_plan::plan::Plan;
use lasthop_record::Store;
use lasthop_run::{Job, consent::Consent, resume::Unfinished};

use super::{
    args,
    compare::plan_again,
    context::{catalog, command_line, home, locator_with},
    output::{CliError, Exit, OrExit, agreed, can_ask, talk},
    run::carry_out,
};

/// Asks for consent to execute the commands and programs of a record.
fn confirm(consent: &Consent) -> Result<(), CliError> {
    if !can_ask() {
        return Err(CliError::usage(format!(
            "{consent}\nCheck these, then run the command again with --trust-record"
        )));
    }
    talk(&consent.to_string());
    if agreed("Execute these? [y/N] ") {
        Ok(())
    } else {
        Err(CliError::usage("nothing was executed"))
    }
}

pub fn resume(arguments: &args::Resume) -> Exit {
    let home = home()?;
    let store = Store::new(home.path());
    let directory = store.find(&arguments.run).or_usage()?;
    let unfinished = Unfinished::open(&directory, &store).or_usage()?;
    let origin = unfinished.origin.clone();
    let plan = match unfinished.given() {
        Some(given) => plan_again(given, arguments.remote)?,
        None => {
            let experiment = catalog()?.load(&origin.experiment).or_usage()?;
            unfinished.same_experiment(&experiment).or_usage()?;
            Plan::new(experiment, &origin.selection).or_usage()?
        }
    };
    unfinished.same_plan(&plan).or_usage()?;
    let settings = unfinished.settings(arguments.budget).or_usage()?;
    if let Some(consent) = unfinished
        .to_confirm(&settings, &plan.experiment)
        .filter(|_| !arguments.trust_record)
    {
        confirm(&consent)?;
    }
    let locator = locator_with(&home, &plan.experiment, origin.programs.clone())?;
    let job = Job::new(&plan, settings, &locator, &home, command_line()).with_origin(origin);
    carry_out(&job, Some(unfinished), &arguments.talk, &arguments.output)
}
