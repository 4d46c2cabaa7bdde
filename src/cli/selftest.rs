//! `lasthop selftest`

use std::time::Duration;

use crate::selftest::{
    Options,
    outcome::{Answer, SelfTest},
    page,
};
use lasthop_model::selection::{Choice, Selection};
use lasthop_plan::plan::Plan;
use lasthop_stack::home::Home;

use super::{
    args,
    context::{catalog, command_line, home, locator},
    doctor::{Finding, Severity},
    output::{CliError, Exit, OF_DOCUMENTS, OrExit, exit_code, is_a_format, print_document, talk},
    progress::Talk,
    run::begin,
};

/// Default time for all runs.
const BUDGET: Duration = Duration::from_secs(120);
/// The shortest run that starts its servers more than once.
const SHORTEST: Duration = Duration::from_secs(1);

pub fn selftest(arguments: &args::SelfTest) -> Exit {
    is_a_format("a selftest", arguments.format, &OF_DOCUMENTS)?;
    let runs = arguments.runs;
    let budget = arguments.budget.unwrap_or(BUDGET) / runs;
    if budget < SHORTEST {
        return Err(CliError::usage(
            "each run would have less than 1 s: use a longer --budget or fewer --runs",
        ));
    }
    let choices = (arguments.only.clone(), arguments.set.clone());
    let wanted = Wanted {
        plant: arguments.plant,
        runs,
        budget,
    };
    let mut done = |number: u32, answers: &[Answer]| {
        if !arguments.quiet {
            talk(&line(number, runs, answers));
        }
    };
    let result = measure(&arguments.experiment, choices, wanted, &mut done)?;
    print_document(&result, &page::document(&result), arguments.format, false)?;
    Ok(exit_code(result.interrupted, !result.passed))
}

/// The advice of `lasthop doctor` on the length of runs, from a selftest of a few seconds.
pub fn in_short(experiment: Option<&str>) -> Result<Finding, CliError> {
    let experiment = experiment.unwrap_or(args::SelfTest::EXPERIMENT);
    let wanted = Wanted {
        plant: 0.05,
        runs: 2,
        budget: Duration::from_secs(6),
    };
    talk(&format!("comparing {experiment} with itself, twice for 6 s"));
    let result = measure(experiment, (Vec::new(), Vec::new()), wanted, &mut |_, _| {})?;
    let failure = result.failures.first();
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

/// The runs of a selftest: their number, length and planted cost.
struct Wanted {
    plant: f64,
    runs: u32,
    budget: Duration,
}

fn measure(
    experiment: &str,
    (only, set): (Vec<Choice>, Vec<Choice>),
    wanted: Wanted,
    done: &mut dyn FnMut(u32, &[Answer]),
) -> Result<SelfTest, CliError> {
    let experiment = catalog()?.load(experiment).or_usage()?;
    let plan = Plan::new(
        experiment,
        &Selection {
            only,
            set,
            aa: true,
            ..Selection::default()
        },
    )
    .or_usage()?;
    let mut progress = begin(Talk::Warnings)?;
    let home = home()?;
    let Wanted { plant, runs, budget } = wanted;
    let options = Options {
        plan: &plan,
        plant,
        runs,
        budget,
        locator: &locator(&home, &plan.experiment, &args::Programs::default())?,
        into: &Home::at(home.writable("selftest").or_failed()?),
        command: command_line(),
    };
    crate::selftest::run(&options, &mut |event| progress.show(event), done).or_failed()
}

/// The result of a run in a line: `run 3 of 10: tcp-again 0.993 (0.951 to 1.037)`
fn line(number: u32, runs: u32, answers: &[Answer]) -> String {
    let answers: Vec<String> = answers
        .iter()
        .map(|answer| {
            format!(
                "{} {:.3} ({:.3} to {:.3})",
                answer.case, answer.ratio.estimate, answer.ratio.low, answer.ratio.high
            )
        })
        .collect();
    format!("run {} of {runs}: {}", number + 1, answers.join(", "))
}
