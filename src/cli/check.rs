//! `lasthop new --check`

use std::{
    fs,
    io::{self, IsTerminal},
    time::Duration,
};

use lasthop_analyse::{decision::Advice, summary::Summary};
use lasthop_model::record::{Difference, Stopped};
use lasthop_plan::{plan::Plan, settings::Overrides};
use lasthop_run::Job;
use lasthop_stack::home::Home;

use super::{
    args,
    context::{catalog, command_line, home, locator},
    output::{CliError, DONE, Exit, FAILED, INTERRUPTED, OrExit, counted, print, talk, terminal},
    progress::Talk,
    report::read,
    run::{measure, selection},
};

/// Trials of each case, and their length: two seconds in all.
const BLOCKS: u32 = 4;
const TRIAL: Duration = Duration::from_millis(500);

/// Reports all errors in the files of an experiment. Then starts its servers and loads every case for a short time.
pub fn check(arguments: &args::New) -> Exit {
    let experiment = catalog()?.load(&arguments.name).or_usage()?;
    let plan = Plan::new(experiment, &selection(&arguments.select)).or_usage()?;
    talk(&format!(
        "{}: no error in its files; {}",
        plan.experiment.name,
        counted(plan.cases.len(), "case")
    ));
    for difference in &plan.differences {
        let Difference {
            case,
            reference,
            place,
            diff,
        } = difference;
        talk(&format!(
            "warning: {case} differs from {reference} in {place}, not only in the link:\n{diff}"
        ));
    }
    if arguments.no_run {
        return Ok(DONE);
    }
    let summary = ask(&plan, arguments)?;
    print(&lasthop_report::checked(&summary, &terminal()))?;
    let answered = summary.cases.iter().filter(|case| case.metrics.is_some()).count();
    if summary.stopped == Stopped::Interrupted {
        return Ok(INTERRUPTED);
    }
    if answered < plan.cases.len() || !summary.failures.is_empty() {
        talk(&format!(
            "{answered} of {} answer correctly",
            counted(plan.cases.len(), "case")
        ));
        return Ok(FAILED);
    }
    if summary.decision.advice == Advice::Wait {
        talk(&format!("note: {}", lasthop_report::headline(&summary)));
    }
    // The logs are useless now, and nobody would look for a record here.
    let _ = fs::remove_dir_all(&summary.folder);
    let name = shlex::try_quote(&arguments.name).unwrap_or_default();
    talk(&format!("every case answers; next: lasthop run {name}"));
    Ok(DONE)
}

/// Starts the servers once, and loads each case for two seconds.
fn ask(plan: &Plan, arguments: &args::New) -> Result<Summary, CliError> {
    let overrides = Overrides {
        trial: Some(TRIAL),
        blocks: Some(BLOCKS),
        rounds: Some(1),
        budget: Some(TRIAL * BLOCKS * plan.cases.len() as u32),
        no_headroom: true,
        ..Overrides::default()
    };
    let settings = plan.settings(overrides).or_usage()?;
    let home = home()?;
    let locator = locator(&home, &plan.experiment, &arguments.programs)?;
    let into = Home::at(home.writable("check").or_failed()?);
    let job = Job {
        // Completes the round, because starting the servers may take longer than the budget.
        whole_round: true,
        engine: arguments.programs.engine,
        ..Job::new(plan, settings, &locator, &into, command_line())
    };
    let talk = Talk::choose(!io::stderr().is_terminal(), false);
    Ok(read(&measure(&job, None, talk)?.record)?.summary)
}
