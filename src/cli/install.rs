//! `lasthop doctor` and `lasthop setup`

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, BufRead, IsTerminal},
    process::ExitCode,
};

use super::{CliError, FAILED, args, catalog, home, locator, print, talk, terminal};
use crate::{
    experiment::model::Experiment,
    observe::{
        doctor::{self, Finding, Severity},
        facts::Facts,
    },
    service::{
        locate::Locator,
        setup::{self, Need, SetupStep, System},
    },
    tool::Tool,
};

/// What this machine can run, what is missing, what makes it noisy. Exits with 1 when something is missing.
pub fn doctor(arguments: &args::Doctor) -> Result<ExitCode, CliError> {
    let home = home()?;
    let facts = Facts::here();
    let mut sections = Vec::new();
    for experiment in experiments(arguments.experiment.as_deref())? {
        let locator = locator(&home, &experiment.name, &arguments.programs);
        let programs = experiment.recipes.iter().map(|(name, recipe)| doctor::program(name, &recipe.program, &locator));
        sections.push((format!("Experiment {}", experiment.name), programs.collect::<Vec<_>>()));
    }
    if arguments.experiment.is_none() {
        let locator = locator(&home, "--tools", &arguments.programs);
        let found = Tool::ALL.iter().map(|tool| doctor::tool(*tool, &locator));
        sections.push(("Classic tools (for --driver, --cross-check and repro)".to_owned(), found.collect()));
    }
    let mut machine = vec![doctor::home(&home)];
    machine.extend(doctor::privileges(&facts));
    sections.push(("This machine".to_owned(), machine));
    sections.push(("Containers".to_owned(), doctor::engines()));
    sections.push(("Noise".to_owned(), doctor::noise(&facts)));
    let missing = sections.iter().flat_map(|(_, findings)| findings).any(|one| one.severity == Severity::Missing);
    print(page(&sections).as_bytes())?;
    Ok(if missing { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn page(sections: &[(String, Vec<Finding>)]) -> String {
    let width = terminal().width;
    let mut text = String::new();
    for (title, findings) in sections.iter().filter(|(_, findings)| !findings.is_empty()) {
        let _ = writeln!(text, "{title}");
        for finding in findings {
            let mark = match finding.severity {
                Severity::Good => "ok      ",
                Severity::Note => "note    ",
                Severity::Warning => "warning ",
                Severity::Missing => "MISSING ",
            };
            let first = format!("  {mark}");
            let options = textwrap::Options::new(width).initial_indent(&first).subsequent_indent("          ");
            let _ = writeln!(text, "{}", textwrap::fill(&finding.text, options));
            if let Some(remedy) = &finding.remedy {
                let options =
                    textwrap::Options::new(width).initial_indent("          → ").subsequent_indent("            ");
                let _ = writeln!(text, "{}", textwrap::fill(remedy, options));
            }
        }
        text.push('\n');
    }
    text
}

/// The experiment of that name, or all that can be loaded.
fn experiments(name: Option<&str>) -> Result<Vec<Experiment>, CliError> {
    let catalog = catalog()?;
    match name {
        Some(name) => Ok(vec![catalog.load(name).map_err(CliError::usage)?]),
        None => Ok(catalog.list().into_iter().filter_map(|entry| entry.experiment.ok()).collect()),
    }
}

/// Shows the commands that install what is missing, asks, and runs them.
pub fn setup(arguments: &args::Setup) -> Result<ExitCode, CliError> {
    let home = home()?;
    let mut steps = Vec::new();
    let mut left = BTreeSet::new();
    let only_tools = arguments.tools && !arguments.all && arguments.experiment.is_none();
    let wanted = if only_tools { Vec::new() } else { experiments(arguments.experiment.as_deref())? };
    for experiment in wanted {
        let locator = locator(&home, &experiment.name, &args::Programs::default());
        left.extend(by_hand(&experiment, &locator));
        let needs = needs(&experiment, &locator);
        let planned = setup::plan(&experiment.name, &needs, &home, &System::look(&needs)).map_err(CliError::failed)?;
        steps.extend(planned.into_iter().filter(|step| !step.satisfied));
    }
    if arguments.all || arguments.tools {
        let locator = locator(&home, "--tools", &args::Programs::default());
        let needs: Vec<Need> = Tool::ALL.iter().map(|tool| tool_need(*tool, &locator)).collect();
        let planned = setup::plan("tools", &needs, &home, &System::look(&needs)).map_err(CliError::failed)?;
        steps.extend(planned.into_iter().filter(|step| !step.satisfied));
    }
    // Two experiments may need the same packages, and the lists are read once.
    let mut seen = Vec::new();
    steps.retain(|step| {
        !seen.contains(&step.command) && {
            seen.push(step.command.clone());
            true
        }
    });
    left.iter().for_each(|what| talk(&format!("cannot be installed by lasthop: {what}")));
    // Whoever asked for everything wants the rest all the same.
    let done = if left.is_empty() || arguments.experiment.is_none() { ExitCode::SUCCESS } else { FAILED.into() };
    if steps.is_empty() {
        if left.is_empty() {
            talk("everything that is needed is there");
        }
        return Ok(done);
    }
    print(commands(&steps).as_bytes())?;
    if arguments.dry_run || !(arguments.yes || agreed()) {
        return Ok(ExitCode::SUCCESS);
    }
    home.writable("").map_err(CliError::failed)?;
    let mut started = |step: &SetupStep| talk(&format!("$ {}", step.shown()));
    setup::execute(&steps, &mut started, &mut |line| talk(line)).map_err(CliError::failed)?;
    Ok(done)
}

/// What is missing and no package manager has: how to get it.
fn by_hand(experiment: &Experiment, locator: &Locator) -> Vec<String> {
    let recipes = experiment.recipes.iter().filter(|(_, recipe)| recipe.program.obtain.is_some());
    recipes.filter_map(|(name, recipe)| Some(locator.locate(name, &recipe.program).err()?.to_string())).collect()
}

fn tool_need(tool: Tool, locator: &Locator) -> Need {
    let program = tool.program();
    Need {
        of: tool.name().to_owned(),
        located: locator.locate(tool.name(), &program).is_ok(),
        packages: program.packages,
    }
}

fn needs(experiment: &Experiment, locator: &Locator) -> Vec<Need> {
    let recipes = experiment.recipes.iter().map(|(name, recipe)| Need {
        of: name.clone(),
        located: locator.locate(name, &recipe.program).is_ok(),
        packages: recipe.program.packages.clone(),
    });
    let services = experiment.services.iter().map(|(name, service)| Need {
        of: name.clone(),
        located: false,
        packages: service.packages.clone(),
    });
    recipes.chain(services).collect()
}

fn commands(steps: &[SetupStep]) -> String {
    steps.iter().map(|step| format!("# {}\n{}\n", step.why, step.shown())).collect()
}

/// Without a terminal there is nobody to ask: then the commands are only shown.
fn agreed() -> bool {
    if !io::stdin().is_terminal() {
        talk("these commands were not run; run them with --yes");
        return false;
    }
    talk("Run these commands? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
