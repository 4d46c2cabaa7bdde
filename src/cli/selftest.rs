//! `lasthop selftest`

use std::{process::ExitCode, time::Duration};

use lasthop_host::service::home::Home;
use lasthop_model::selection::Selection;
use lasthop_plan::plan::Plan;
use lasthop_results::{
    report::{self, Format},
    text,
};
use lasthop_selftest::{
    Options, noise,
    outcome::{Answer, Part, Question},
    page,
};

use super::{
    args,
    context::{catalog, command_line, home, locator},
    output::{CliError, FAILED, INTERRUPTED, print, talk, terminal},
    progress::{Progress, Talk},
    run::sweep,
    signals::watch_signals,
};

/// Default time for everything.
const BUDGET: Duration = Duration::from_secs(120);
/// The shortest run that starts its servers more than once.
const SHORTEST: Duration = Duration::from_secs(1);

pub fn selftest(arguments: &args::SelfTest) -> Result<ExitCode, CliError> {
    if arguments.format.is_of_runs() {
        return Err(CliError::usage("a selftest has no such format; use terminal, markdown, html or json"));
    }
    let experiment = catalog()?.load(&arguments.experiment).map_err(CliError::usage)?;
    let (question, runs) = match arguments.repeat {
        Some(runs) => (Question::Again, runs),
        None => (Question::Itself { plant: arguments.plant }, arguments.runs),
    };
    let aa = question != Question::Again;
    let selection = Selection { only: arguments.only.clone(), set: arguments.set.clone(), aa, ..Selection::default() };
    let plan = Plan::new(experiment, &selection).map_err(CliError::usage)?;
    let noise = if arguments.no_noise { vec![None] } else { vec![None, Some(arguments.noise)] };
    let budget = arguments.budget.unwrap_or(BUDGET) / (runs * noise.len() as u32);
    if budget < SHORTEST {
        return Err(CliError::usage("each run would have less than 1 s: allow a longer --budget or fewer runs"));
    }
    sweep();
    watch_signals()?;
    let home = home()?;
    let options = Options {
        plan: &plan,
        question,
        runs,
        budget,
        noise,
        over: arguments.over.unwrap_or_default(),
        locator: &locator(&home, &plan.experiment.name, &args::Programs::default()),
        into: &Home::at(home.writable("selftest").map_err(CliError::failed)?),
        command: command_line(),
    };
    let mut progress = Progress::new(Talk::Warnings);
    let mut done = |number: u32, part: &Part, answers: &[Answer]| {
        if !arguments.quiet {
            talk(&line(number, runs, part, answers));
        }
    };
    let result = lasthop_selftest::run(&options, &mut |event| progress.show(event), &mut done);
    let result = result.map_err(CliError::failed)?;
    let document = page::document(&result);
    print(&match arguments.format {
        Format::Json => text::json(&result),
        Format::Markdown => report::document_markdown(&document),
        Format::Html => report::document_html(&document),
        _ => report::document_terminal(&document, &terminal()),
    })?;
    Ok(match (result.interrupted, result.passed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(FAILED),
    })
}

/// `run 3 of 10, with noise: tcp-again 0.993 (0.951 to 1.037)`
fn line(number: u32, runs: u32, part: &Part, answers: &[Answer]) -> String {
    let shown =
        |answer: &Answer| format!("{} {:.3} ({:.3} to {:.3})", answer.case, answer.ratio, answer.low, answer.high);
    let noise = if part.noise.is_some() { ", with noise" } else { "" };
    let answers: Vec<String> = answers.iter().map(shown).collect();
    format!("run {} of {runs}{noise}: {}", number + 1, answers.join(", "))
}

/// The process of the noise.
pub fn make_noise(arguments: &args::NoiseArgs) {
    noise::make(arguments.share.clamp(0.001, 1.0), Duration::from_secs(arguments.seconds));
}
