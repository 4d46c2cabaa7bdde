//! Checks that lasthop's answers hold on this machine, by many short runs with a known answer. It uses the stages, like
//! the command line.
//!
//! | module | holds |
//! |---|---|
//! | [`chance`] | intervals for a share of runs |
//! | [`outcome`] | the result, and its JSON |
//! | [`page`] | the result for people |

pub mod chance;
pub mod outcome;
pub mod page;

use std::time::{Duration, Instant};

use lasthop_analyse::summary::{Comparison, Summary};
use lasthop_model::record::TrialRecord;
use lasthop_plan::{plan::Plan, settings::Overrides};
use lasthop_record::{RunData, store};
use lasthop_run::event::Event;
use lasthop_stack::{home::Home, locate::Locator};
use lasthop_system::interrupt;

use self::outcome::{Answer, Planted, SelfTest};

/// Options of a selftest.
#[derive(Debug)]
pub struct Options<'a> {
    /// A plan that compares each reference with itself.
    pub plan: &'a Plan,
    /// Cost planted in a second reading of each run, as a share of a request.
    pub plant: f64,
    pub runs: u32,
    /// The budget of each run.
    pub budget: Duration,
    pub locator: &'a Locator,
    /// The data folder for records, in its `runs`.
    pub into: &'a Home,
    pub command: Vec<String>,
}

/// Makes all runs. An interrupt ends the selftest with the runs so far.
pub fn run(
    options: &Options<'_>,
    tell: &mut dyn FnMut(&Event<'_>),
    done: &mut dyn FnMut(u32, &[Answer]),
) -> Result<SelfTest, String> {
    let begun = Instant::now();
    let mut result = SelfTest::new(
        &options.plan.experiment.name,
        options.plant,
        options.budget.as_secs_f64(),
    );
    while result.runs < options.runs && !interrupt::heard() {
        let Some(answers) = ask(options, &mut result.failures, tell)? else {
            break;
        };
        done(result.runs, &answers);
        result.runs += 1;
        result.answers.extend(answers);
    }
    result.conclude();
    result.interrupted = interrupt::heard();
    result.seconds = begun.elapsed().as_secs_f64();
    Ok(result)
}

/// Makes a run. `None` if it was interrupted.
fn ask(
    options: &Options<'_>,
    failures: &mut Vec<String>,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Option<Vec<Answer>>, String> {
    let overrides = Overrides {
        budget: Some(options.budget),
        // Never reached: each run uses its whole budget, so that widths of intervals can be compared.
        precision: Some(1e-6),
        aa: true,
        ..Overrides::default()
    };
    let settings = options.plan.settings(overrides)?;
    let job = lasthop_run::Job {
        whole_round: true,
        ..lasthop_run::Job::new(
            options.plan,
            settings,
            options.locator,
            options.into,
            options.command.clone(),
        )
    };
    let outcome = lasthop_run::carry_out(&job, None, tell);
    // An interrupted run has another width for a reason other than chance.
    if interrupt::heard() {
        return Ok(None);
    }
    let mut data = store::read(&outcome.map_err(|error| error.to_string())?.guarded()?)?;
    let summary = lasthop_analyse::summarise(&data);
    failures.extend(
        summary
            .failures
            .iter()
            .map(|failure| format!("{}: {}", failure.case, failure.cause)),
    );
    plant(&mut data, options.plant);
    Ok(Some(answers(&summary, &lasthop_analyse::summarise(&data))))
}

/// Lowers the number of requests of each case with a reference, so that a counted request costs `share` more, in time
/// and in CPU time. The uncounted requests were sent and answered like all others.
fn plant(data: &mut RunData, share: f64) {
    let cases = data.header.cases.iter().filter(|case| case.reference.is_some());
    let twins: Vec<String> = cases.map(|case| case.case.clone()).collect();
    for record in &mut data.records {
        if let TrialRecord::Trial(trial) = record
            && twins.contains(&trial.case)
        {
            trial.result.requests = (trial.result.requests as f64 / (1.0 + share)).round() as u64;
        }
    }
}

/// The declared comparison of every case that has one, without and with the planted cost.
fn answers(summary: &Summary, planted: &Summary) -> Vec<Answer> {
    let declared = |summary: &Summary, name: &str| {
        let case = summary.cases.iter().find(|case| case.case == name)?;
        summary.declared(case).cloned()
    };
    let one = |name: &str| {
        let found = declared(summary, name)?;
        let Comparison { ratio, verdict, .. } = declared(planted, name)?;
        Some(Answer {
            run: summary.run.clone(),
            case: found.case,
            ratio: found.ratio,
            verdict: found.verdict,
            planted: Planted { ratio, verdict },
            rounds: summary.rounds,
        })
    };
    summary.cases.iter().filter_map(|case| one(&case.case)).collect()
}
