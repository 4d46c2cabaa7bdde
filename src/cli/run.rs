//! `lasthop run`

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{
    CliError, FAILED, INTERRUPTED, args, catalog, deliver, home, locator,
    progress::{Progress, Talk},
    summarise, talk,
};
use crate::{
    experiment::{
        cases::{OWN_DRIVER, Selection},
        digest::{self, Digests},
        model::{Defaults, Source},
        plan::Plan,
    },
    record::schema::{Origin, Placement, Settings, Stopped},
    run::{
        self, Job, Outcome,
        away::{DriverAt, Remote},
        placement::{self, Wish},
    },
    service::guard,
};

pub fn run(arguments: &args::Run) -> Result<ExitCode, CliError> {
    let options = &arguments.options;
    let experiment = catalog()?.load(&arguments.experiment).map_err(CliError::usage)?;
    let wanted = Selection {
        drivers: driver_levels(&options.drivers),
        rate: options.pace.rate,
        arrivals: options.pace.arrivals.map(Into::into),
        ..selection(&options.select)
    };
    let plan = Plan::new(experiment, &wanted).map_err(CliError::usage)?;
    let settings = settings(&plan, options)?;
    let home = home()?;
    let locator = locator(&home, &plan.experiment.name, &options.programs);
    let origin = origin(&plan, wanted, options)?;
    sweep();
    let interrupt = watch_signals()?;
    let mut progress = Progress::new(Talk::choose(options.talk.quiet, options.talk.no_progress));
    let job = Job {
        plan: &plan,
        settings,
        locator: &locator,
        engine: options.programs.engine,
        images: options.programs.images,
        remote: options.drivers.remote(),
        home: &home,
        command: std::env::args().collect(),
        whole_round: false,
        interrupt: &interrupt,
        origin: Some(origin),
    };
    let outcome = run::execute(&job, &mut |event| progress.show(event)).map_err(CliError::failed)?;
    conclude(&outcome, &options.output)
}

/// Ends what lasthop processes that were killed have left.
pub fn sweep() {
    for swept in guard::sweep() {
        talk(&format!("a killed run had left {}; it is removed", swept.sandbox.display()));
    }
}

/// Reports a run that has just ended, and says how in the exit code.
pub fn conclude(outcome: &Outcome, output: &args::OutputOptions) -> Result<ExitCode, CliError> {
    let summary = summarise(&outcome.record)?;
    deliver(&summary, output)?;
    Ok(match outcome.stopped {
        Stopped::Interrupted => {
            talk(&format!("`lasthop resume {}` goes on with this run", summary.run));
            ExitCode::from(INTERRUPTED)
        }
        _ if summary.failures.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

/// What another lasthop needs to go on with the run. Paths are absolute: it may be started elsewhere.
fn origin(plan: &Plan, selection: Selection, options: &args::RunOptions) -> Result<Origin, CliError> {
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(CliError::usage);
    let programs = options.programs.programs.iter().map(|(recipe, path)| Ok((recipe.clone(), absolute(path)?)));
    let remote = options.drivers.remote();
    Ok(Origin {
        experiment: match &plan.experiment.source {
            Source::BuiltIn => plan.experiment.name.clone(),
            Source::Folder(path) => path.display().to_string(),
        },
        selection,
        programs: programs.collect::<Result<_, CliError>>()?,
        engine: options.programs.engine,
        images: options.programs.images,
        remote: Remote { config: remote.config.as_ref().map(absolute).transpose()?, ..remote },
        files: digest::of_experiment(&plan.experiment),
        executables: Digests::new(),
    })
}

pub fn selection(select: &args::Select) -> Selection {
    Selection { only: select.only.clone(), set: select.set.clone(), aa: select.aa, ..Selection::default() }
}

/// Levels of the factor `driver`; none where lasthop alone drives.
fn driver_levels(drivers: &args::Drivers) -> Vec<String> {
    if let Some(choice) = &drivers.driver {
        return vec![choice.tool.name().to_owned()];
    }
    let mut levels: Vec<String> = Vec::new();
    if !drivers.cross_check.is_empty() {
        levels.push(OWN_DRIVER.to_owned());
    }
    for choice in &drivers.cross_check {
        if !levels.iter().any(|level| level == choice.tool.name()) {
            levels.push(choice.tool.name().to_owned());
        }
    }
    levels
}

/// What was asked for, the experiment's defaults, and a seed.
fn settings(plan: &Plan, options: &args::RunOptions) -> Result<Settings, CliError> {
    let Defaults { trial, budget, precision, margin, blocks } = plan.experiment.defaults.clone();
    let schedule = &options.schedule;
    let trial = schedule.trial.unwrap_or(trial);
    plan.check_trial(trial).map_err(CliError::usage)?;
    let budget = schedule.budget.unwrap_or(budget);
    let services = plan.stacks.iter().map(|stack| stack.services.len()).max().unwrap_or(1);
    let placement = placement(options, services)?;
    Ok(Settings {
        seed: schedule.seed.unwrap_or_else(drawn_seed),
        precision: schedule.precision.unwrap_or(precision),
        budget_ns: budget.as_nanos() as u64,
        margin: schedule.margin.unwrap_or(margin),
        trial_ns: trial.as_nanos() as u64,
        // Long enough for caches and the scheduler to settle on the case after another one's turn.
        warm_up_ns: (trial / 10).as_nanos() as u64,
        blocks: schedule.blocks.unwrap_or(blocks),
        aa: options.select.aa,
        placement,
        headroom: !schedule.no_headroom,
        rounds: schedule.rounds,
        driver_at: options.drivers.driver_at.clone(),
        tools: options.drivers.driver.iter().chain(&options.drivers.cross_check).cloned().collect(),
    })
}

/// On another host there are other CPUs: those here are the services' alone.
fn placement(options: &args::RunOptions, services: usize) -> Result<Placement, CliError> {
    let choice = options.schedule.placement;
    if !matches!(options.drivers.driver_at, Some(DriverAt::Host(_))) {
        return placement::place(wish(choice), &placement::allowed(), services).map_err(CliError::usage);
    }
    match choice {
        args::PlacementChoice::Auto | args::PlacementChoice::Free => Ok(Placement::Free),
        _ => Err(CliError::usage("a driver on another host has the CPUs there: leave --placement out")),
    }
}

fn wish(choice: args::PlacementChoice) -> Wish {
    match choice {
        args::PlacementChoice::Auto => Wish::Auto,
        args::PlacementChoice::Apart => Wish::Apart,
        args::PlacementChoice::Same => Wish::Same,
        args::PlacementChoice::Free => Wish::Free,
    }
}

/// Any number will do, as long as it is recorded; short ones are easier to type again.
fn drawn_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000
}

/// The first signal asks for an end in order, the second ends lasthop at once: its guard ends everything else.
pub fn watch_signals() -> Result<Arc<AtomicBool>, CliError> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .map_err(|error| CliError::failed(format!("cannot watch for signals: {error}")))?;
    }
    debug_assert!(!interrupt.load(Ordering::Relaxed));
    Ok(interrupt)
}
