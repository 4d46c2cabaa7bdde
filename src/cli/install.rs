//! `lasthop doctor` and `lasthop setup`

use std::collections::BTreeSet;

use lasthop_classic::{TOOLS, Tool};
use lasthop_model::{engine::EngineKind, program::Program};
use lasthop_page::{Page, text};
use lasthop_plan::model::Experiment;
use lasthop_stack::{
    home::Home,
    locate::Locator,
    setup::{self, Need, SetupError, SetupStep, System},
};
use lasthop_system::facts::Facts;

use super::{
    args,
    context::{catalog, home, locator, locator_of_tools},
    doctor::{self, Finding, Severity},
    list,
    output::{CliError, DONE, Exit, FAILED, OrExit, agreed, can_ask, counted, print, talk, terminal},
    selftest,
};

/// Prints which experiments are ready and how to make others ready, or everything about one experiment. Exits with 1 if
/// that experiment, or every experiment, cannot run.
pub fn doctor(arguments: &args::Doctor) -> Exit {
    let args::Doctor {
        experiment,
        measure,
        programs,
    } = arguments;
    let home = home()?;
    let measured = measure.then(|| selftest::in_short(experiment.as_deref())).transpose()?;
    let mut machine = vec![doctor::home(&home), doctor::folders()];
    machine.extend(doctor::privileges());
    let mut noise = doctor::noise(&Facts::here());
    let mut missing = lacks_something(&machine);
    let sections = if let Some(name) = experiment {
        let found = of_experiment(name, &home, programs)?;
        missing |= lacks_something(&found);
        noise.extend(measured);
        vec![
            (format!("Experiment {name}"), found),
            ("This machine".to_owned(), machine),
            ("Containers".to_owned(), doctor::engines()),
            ("Noise".to_owned(), noise),
        ]
    } else {
        machine.extend(noise);
        let mut found = readiness(&home, programs)?;
        found.extend(shortened(machine));
        found.extend(measured);
        vec![("This machine (details: lasthop doctor EXPERIMENT)".to_owned(), found)]
    };
    print(&page(&sections))?;
    Ok(if missing { FAILED } else { DONE })
}

/// The programs and packages of an experiment.
fn of_experiment(name: &str, home: &Home, programs: &args::Programs) -> Result<Vec<Finding>, CliError> {
    let experiment = catalog()?.load(name).or_usage()?;
    let locator = locator(home, &experiment, programs)?;
    let recipes = experiment.recipes.iter();
    let found = recipes.map(|(name, recipe)| doctor::program(name, &recipe.program, &locator));
    let services = experiment.services.iter();
    let lacking = services.filter_map(|(name, service)| doctor::packages(name, &service.packages, &locator));
    Ok(found.chain(lacking).collect())
}

/// Readiness of experiments, tools and container engines.
fn readiness(home: &Home, programs: &args::Programs) -> Result<Vec<Finding>, CliError> {
    let is_ready = |experiment: Experiment| {
        let locator = locator(home, &experiment, programs)?;
        let is_ready = list::missing(&experiment, &locator, true).is_empty();
        Ok((experiment.name, is_ready))
    };
    let experiments = experiments(None)?.into_iter().map(is_ready);
    let experiments = experiments.collect::<Result<Vec<_>, CliError>>()?;
    let locator = locator_of_tools(home, programs);
    let is_good = |finding: &Finding| finding.severity == Severity::Good;
    let tools = TOOLS
        .iter()
        .map(|tool| (tool.name.to_owned(), is_good(&doctor::tool(tool, &locator))));
    let tools: Vec<(String, bool)> = tools.collect();
    let engines = EngineKind::ALL.map(|kind| (kind.name().to_owned(), is_good(&doctor::engine(kind))));
    let all = Some("lasthop setup --all");
    let tools_alone = Some("lasthop setup --tools");
    Ok(vec![
        count_ready("experiments", &experiments, Severity::Missing, all),
        count_ready("classic tools", &tools, Severity::Note, tools_alone),
        count_ready("container engines", &engines, Severity::Note, None),
    ])
}

/// The most names shown of things that are not ready.
const SHOWN: usize = 8;

/// Counts what is ready, and names the rest with their remedy.
fn count_ready(what: &str, all: &[(String, bool)], otherwise: Severity, remedy: Option<&str>) -> Finding {
    let lacking = all.iter().filter(|(_, is_ready)| !is_ready);
    let mut lacking: Vec<&str> = lacking.map(|(name, _)| name.as_str()).collect();
    let text = format!("{} of {} {what} are ready", all.len() - lacking.len(), all.len());
    if lacking.is_empty() {
        return Severity::Good.finding(text);
    }
    if lacking.len() > SHOWN {
        lacking.splice(SHOWN.., ["…"]);
    }
    Finding {
        text: format!("{text}; not {}", lacking.join(", ")),
        remedy: remedy.map(str::to_owned),
        severity: otherwise,
    }
}

/// Only findings that prevent runs, and a count of the others.
fn shortened(findings: Vec<Finding>) -> Vec<Finding> {
    let (mut shown, others): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .filter(|finding| finding.severity > Severity::Good)
        .partition(|finding| finding.severity == Severity::Missing);
    if let Some(worst) = others.iter().map(|finding| finding.severity).max() {
        let count = counted(others.len(), "finding");
        shown.push(worst.finding(format!("{count} on what disturbs measurements here")));
    }
    shown
}

fn lacks_something(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Missing)
}

fn page(sections: &[(String, Vec<Finding>)]) -> Vec<u8> {
    let mut page = Page::new(&lasthop_page::Options {
        color: false,
        ..terminal()
    });
    for (title, findings) in sections.iter().filter(|(_, findings)| !findings.is_empty()) {
        page.wrapped(&title.into(), 0, 2);
        for finding in findings {
            let mark = match finding.severity {
                Severity::Good => "ok      ",
                Severity::Note => "note    ",
                Severity::Warning => "warning ",
                Severity::Missing => "MISSING ",
            };
            page.wrapped(&format!("{mark}{}", finding.text).into(), 2, 10);
            if let Some(remedy) = &finding.remedy {
                page.wrapped(&format!("→ {remedy}").into(), 10, 12);
            }
        }
        page.blank();
    }
    page.finish()
}

/// The experiment of this name, or all experiments that can be loaded.
fn experiments(name: Option<&str>) -> Result<Vec<Experiment>, CliError> {
    let catalog = catalog()?;
    match name {
        Some(name) => Ok(vec![catalog.load(name).or_usage()?]),
        None => Ok(catalog
            .list()
            .into_iter()
            .filter_map(|entry| entry.experiment.ok())
            .collect()),
    }
}

/// The steps of `lasthop setup`, and the work left to the user.
#[derive(Default)]
struct Work {
    steps: Vec<SetupStep>,
    left: BTreeSet<String>,
}

impl Work {
    fn add(&mut self, name: &str, needs: &[Need], home: &Home) -> Result<(), CliError> {
        let system = System::look(needs);
        self.left.extend(setup::by_hand(needs, &system));
        match setup::plan(name, needs, home, &system) {
            Ok(planned) => self.steps.extend(planned),
            Err(error @ SetupError::NoTool { .. }) => drop(self.left.insert(error.to_string())),
            Err(error) => return Err(CliError::failed(error)),
        }
        Ok(())
    }
}

/// Shows the commands that install missing packages, asks, and runs them.
pub fn setup(arguments: &args::Setup) -> Exit {
    let home = home()?;
    let mut work = Work::default();
    let only_tools = arguments.tools && !arguments.all && arguments.experiment.is_none();
    let wanted = if only_tools {
        Vec::new()
    } else {
        experiments(arguments.experiment.as_deref())?
    };
    for experiment in wanted {
        let locator = locator(&home, &experiment, &args::Programs::default())?;
        work.left.extend(by_hand(&experiment, &locator));
        work.add(&experiment.place(), &needs(&experiment, &locator), &home)?;
    }
    if arguments.all || arguments.tools {
        let locator = locator_of_tools(&home, &args::Programs::default());
        let needs: Vec<Need> = TOOLS.iter().map(|tool| tool_need(tool, &locator)).collect();
        work.add("tools", &needs, &home)?;
    }
    let Work { mut steps, left } = work;
    // Experiments may share packages, and updating the package lists once is enough.
    let mut seen = Vec::new();
    steps.retain(|step| {
        !seen.contains(&step.command) && {
            seen.push(step.command.clone());
            true
        }
    });
    left.iter()
        .for_each(|what| talk(&format!("cannot be installed by lasthop: {what}")));
    // A setup of everything is useful even if incomplete.
    let done = if left.is_empty() || arguments.experiment.is_none() {
        DONE
    } else {
        FAILED
    };
    if steps.is_empty() {
        if left.is_empty() {
            talk("nothing to install");
        }
        return Ok(done);
    }
    print(commands(&steps).as_bytes())?;
    if arguments.dry_run {
        return Ok(DONE);
    }
    if !arguments.yes {
        confirm()?;
    }
    home.writable("").or_failed()?;
    if rustix::process::geteuid().is_root() {
        home.let_pass().or_failed()?;
    }
    let mut started = |step: &SetupStep| talk(&format!("$ {}", step.shown()));
    setup::execute(&steps, &mut started, &mut |line| talk(&format!("  {line}"))).or_failed()?;
    Ok(done)
}

/// Instructions for missing programs and modules that are in no package.
fn by_hand(experiment: &Experiment, locator: &Locator) -> Vec<String> {
    let of_no_package = |program: &Program| program.obtain.is_some() || program.packages.is_empty();
    let recipes = experiment
        .recipes
        .iter()
        .filter(|(_, recipe)| of_no_package(&recipe.program));
    recipes
        .filter_map(|(name, recipe)| Some(locator.locate(name, &recipe.program).err()?.brief()))
        .collect()
}

fn tool_need(tool: &Tool, locator: &Locator) -> Need {
    Need {
        of: tool.name.to_owned(),
        located: locator.locate(tool.name, &tool.program).is_ok(),
        packages: tool.program.packages.clone(),
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
    steps
        .iter()
        .map(|step| format!("# {}\n{}\n", text::line(&step.why), text::line(&step.shown())))
        .collect()
}

/// Asks for consent. Any answer but yes is an error, so that `lasthop setup X && lasthop run X` stops here.
fn confirm() -> Result<(), CliError> {
    if !can_ask() {
        return Err(CliError::failed(
            "nothing was installed, because there is no terminal to ask on; add --yes",
        ));
    }
    if agreed("Run these commands? [y/N] ") {
        Ok(())
    } else {
        Err(CliError::failed("nothing was installed"))
    }
}
