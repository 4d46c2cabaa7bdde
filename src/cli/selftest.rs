//! `lasthop selftest`

use std::{iter, time::Duration};

use crate::selftest::{
    Options, noise,
    outcome::{Answer, Part, Question, SelfTest},
    page,
};
use lasthop_model::selection::{Choice, Selection};
use lasthop_plan::plan::Plan;
use lasthop_stack::home::Home;

use super::{
    args,
    context::{catalog, command_line, has_document_format, home, locator, print_document},
    doctor::{Finding, Severity},
    output::{CliError, DONE, Exit, FAILED, INTERRUPTED, OrExit, talk},
    progress::{Progress, Talk},
    run::sweep,
    signals::watch_signals,
};

/// Default time for everything.
const BUDGET: Duration = Duration::from_secs(120);
/// The shortest run that starts its servers more than once.
const SHORTEST: Duration = Duration::from_secs(1);

pub fn selftest(arguments: &args::SelfTest) -> Exit {
    has_document_format("a selftest", arguments.format)?;
    let (question, runs) = match arguments.repeat {
        Some(runs) => (Question::Again, runs),
        None => (Question::Itself { plant: arguments.plant }, arguments.runs),
    };
    let with_noise = arguments
        .noise
        .iter()
        .filter(|_| !arguments.no_noise)
        .map(|share| Some(*share));
    let noise: Vec<Option<f64>> = iter::once(None).chain(with_noise).collect();
    let budget = arguments.budget.unwrap_or(BUDGET) / (runs * noise.len() as u32);
    if budget < SHORTEST {
        return Err(CliError::usage(
            "each run would have less than 1 s: allow a longer --budget or fewer runs",
        ));
    }
    let choices = (arguments.only.clone(), arguments.set.clone());
    let wanted = Wanted {
        question,
        runs,
        budget,
        noise,
        over: arguments.over.unwrap_or_default(),
    };
    let mut done = |number: u32, part: &Part, answers: &[Answer]| {
        if !arguments.quiet {
            talk(&line(number, runs, part, answers));
        }
    };
    let result = measure(&arguments.experiment, choices, wanted, &mut done)?;
    print_document(&result, &page::document(&result), arguments.format, false)?;
    Ok(match (result.interrupted, result.passed) {
        (true, _) => INTERRUPTED,
        (false, true) => DONE,
        (false, false) => FAILED,
    })
}

/// What `lasthop doctor` says of a few seconds: how long a run must be here.
pub fn in_short(experiment: Option<&str>) -> Result<Finding, CliError> {
    let experiment = experiment.unwrap_or(args::SelfTest::EXPERIMENT);
    let wanted = Wanted {
        question: Question::Itself { plant: 0.05 },
        runs: 2,
        budget: Duration::from_secs(6),
        noise: vec![None],
        over: Duration::ZERO,
    };
    talk(&format!("comparing {experiment} with itself, twice for 6 s"));
    let result = measure(experiment, (Vec::new(), Vec::new()), wanted, &mut |_, _, _| {})?;
    let failure = result.parts.iter().flat_map(|part| &part.failures).next();
    let text = page::resolution(&result).map(|found| format!("{experiment} compared with itself. {found}"));
    let (severity, text) = match (text, failure) {
        (_, Some(failure)) => (
            Severity::Warning,
            format!("{experiment} cannot be compared with itself: {failure}"),
        ),
        (Some(text), None) => (Severity::Note, text),
        (None, None) => (
            Severity::Warning,
            format!("{experiment} compared with itself gave no interval"),
        ),
    };
    let remedy = Some(format!(
        "`lasthop selftest {experiment}` takes two minutes and knows more"
    ));
    Ok(Finding { severity, text, remedy })
}

/// What is asked, how often and for how long.
struct Wanted {
    question: Question,
    runs: u32,
    budget: Duration,
    noise: Vec<Option<f64>>,
    over: Duration,
}

fn measure(
    experiment: &str,
    (only, set): (Vec<Choice>, Vec<Choice>),
    wanted: Wanted,
    done: &mut dyn FnMut(u32, &Part, &[Answer]),
) -> Result<SelfTest, CliError> {
    let experiment = catalog()?.load(experiment).or_usage()?;
    let aa = wanted.question != Question::Again;
    let plan = Plan::new(
        experiment,
        &Selection {
            only,
            set,
            aa,
            ..Selection::default()
        },
    )
    .or_usage()?;
    sweep();
    watch_signals()?;
    let home = home()?;
    let Wanted {
        question,
        runs,
        budget,
        noise,
        over,
    } = wanted;
    let options = Options {
        plan: &plan,
        question,
        runs,
        budget,
        noise,
        over,
        locator: &locator(&home, &plan.experiment, &args::Programs::default())?,
        into: &Home::at(home.writable("selftest").or_failed()?),
        command: command_line(),
    };
    let mut progress = Progress::new(Talk::Warnings);
    crate::selftest::run(&options, &mut |event| progress.show(event), done).or_failed()
}

/// `run 3 of 10, beside noise of 20 %: tcp-again 0.993 (0.951 to 1.037)`
fn line(number: u32, runs: u32, part: &Part, answers: &[Answer]) -> String {
    let noise = part
        .noise
        .map(|share| format!(", beside noise of {:.0} %", share * 100.0))
        .unwrap_or_default();
    let answers: Vec<String> = answers
        .iter()
        .map(|answer| {
            format!(
                "{} {:.3} ({:.3} to {:.3})",
                answer.case, answer.ratio, answer.low, answer.high
            )
        })
        .collect();
    format!("run {} of {runs}{noise}: {}", number + 1, answers.join(", "))
}

/// The process of the noise.
pub fn make_noise(arguments: &args::NoiseArgs) {
    noise::make(
        // The pauses of a share of 0 would be endless.
        arguments.share.clamp(0.001, 1.0),
        Duration::from_secs(arguments.seconds),
    );
}
