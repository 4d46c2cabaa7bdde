//! Whether lasthop's answers hold on this machine: many short runs whose answer is known, or the same question again
//! and again. A user of the stages, like the command line.
//!
//! | module | holds |
//! |---|---|
//! | [`noise`] | the load beside a run |
//! | [`chance`] | what shares of so many runs say |
//! | [`outcome`] | the result, and its JSON |
//! | [`page`] | the result for people |

pub mod chance;
pub mod noise;
pub mod outcome;
pub mod page;

use std::time::{Duration, Instant};

use lasthop_analyse::{
    checks::is_of_another_ratio,
    summary::{Comparison, Summary},
};
use lasthop_model::record::{Stopped, TrialRecord};
use lasthop_plan::{plan::Plan, settings::Overrides};
use lasthop_record::{RunData, store};
use lasthop_run::event::Event;
use lasthop_stack::{home::Home, locate::Locator};
use lasthop_system::interrupt;

use self::{
    noise::Noise,
    outcome::{Answer, Part, Planted, Question, SelfTest},
};

/// What is asked, and how often.
#[derive(Debug)]
pub struct Options<'a> {
    /// Compares each reference with itself, unless `question` is to repeat.
    pub plan: &'a Plan,
    pub question: Question,
    /// Runs of each part.
    pub runs: u32,
    /// Of each run.
    pub budget: Duration,
    /// The parts: the noise beside each, as a share of every CPU.
    pub noise: Vec<Option<f64>>,
    /// From the begin of the first run to that of the last; what the runs leave of it is waited for.
    pub over: Duration,
    pub locator: &'a Locator,
    /// Records go there, into `runs`.
    pub into: &'a Home,
    pub command: Vec<String>,
}

/// Runs everything, the parts in turn, so that what changes on the machine meets all of them. An interrupt ends it with
/// what there is.
///
/// # Errors
/// A run could not be started or recorded.
pub fn run(
    options: &Options<'_>,
    tell: &mut dyn FnMut(&Event<'_>),
    done: &mut dyn FnMut(u32, &Part, &[Answer]),
) -> Result<SelfTest, String> {
    let begun = Instant::now();
    let mut parts: Vec<Part> = options.noise.iter().map(|noise| Part::new(*noise)).collect();
    for number in 0..options.runs {
        if !wait_until(begun + options.over * number / (options.runs - 1).max(1)) {
            break;
        }
        for part in &mut parts {
            if interrupt::heard() {
                break;
            }
            let Some(answers) = ask(options, part, tell)? else {
                break;
            };
            done(number, part, &answers);
            part.runs += 1;
            part.answers.extend(answers);
        }
    }
    let Plan { experiment, .. } = options.plan;
    let mut result = SelfTest::new(&experiment.name, options.question, options.budget.as_secs_f64(), parts);
    result.interrupted = interrupt::heard();
    result.seconds = begun.elapsed().as_secs_f64();
    Ok(result)
}

/// False if there was an interrupt.
fn wait_until(begin: Instant) -> bool {
    let left = begin.saturating_duration_since(Instant::now());
    if left.is_zero() {
        !interrupt::heard()
    } else {
        interrupt::pause(left)
    }
}

/// One run. `None` if it was interrupted.
fn ask(
    options: &Options<'_>,
    part: &mut Part,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Option<Vec<Answer>>, String> {
    // Longer than a run and its starts should take: the drop below ends the noise.
    let most = options.budget * 3 + Duration::from_secs(60);
    let noise = part.noise.map(|share| Noise::start(share, most)).transpose()?;
    let aa = matches!(options.question, Question::Itself { .. });
    let overrides = Overrides {
        budget: Some(options.budget),
        // Never reached: each run uses all of its budget, so that their widths can be compared.
        precision: Some(1e-6),
        aa,
        ..Overrides::default()
    };
    let settings = options.plan.settings(overrides).map_err(|error| error.to_string())?;
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
    let outcome = match lasthop_run::carry_out(&job, None, tell) {
        Err(_) if interrupt::heard() => return Ok(None),
        other => other.map_err(|error| error.to_string())?,
    };
    drop(noise);
    // A run that was cut short is narrower or wider than the others for another reason than chance.
    if interrupt::heard() {
        return Ok(None);
    }
    if outcome.stopped == Stopped::Interrupted {
        return Err("lasthop's guard process was lost".to_owned());
    }
    let mut data = store::read(&outcome.record).map_err(|error| error.to_string())?;
    let summary = lasthop_analyse::summarise(&data);
    part.failures.extend(
        summary
            .failures
            .iter()
            .map(|failure| format!("{}: {}", failure.case, failure.cause)),
    );
    let planted = match options.question {
        Question::Itself { plant } => {
            self::plant(&mut data, plant);
            Some(lasthop_analyse::summarise(&data))
        }
        Question::Again => None,
    };
    Ok(Some(answers(&summary, planted.as_ref())))
}

/// Leaves uncounted so many of each second case's requests that a counted one costs `share` more, in time and in CPU
/// time. They were sent and answered like all others.
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

/// The declared comparison of every case that has one.
fn answers(summary: &Summary, planted: Option<&Summary>) -> Vec<Answer> {
    let declared = |summary: &Summary, name: &str| {
        let case = summary.cases.iter().find(|case| case.case == name)?;
        summary.declared(case).cloned()
    };
    let one = |name: &str| {
        let found = declared(summary, name)?;
        let planted = planted.and_then(|planted| declared(planted, name));
        let planted = planted.map(
            |Comparison {
                 ratio,
                 low,
                 high,
                 verdict,
                 ..
             }| Planted {
                ratio,
                low,
                high,
                verdict,
            },
        );
        let disturbed = summary
            .checks
            .iter()
            .filter(|check| is_of_another_ratio(check))
            .filter(|check| check.case.as_ref().is_none_or(|case| *case == found.case));
        Some(Answer {
            run: summary.run.clone(),
            disturbed_by: disturbed.map(|check| check.id.clone()).collect(),
            case: found.case,
            ratio: found.ratio,
            low: found.low,
            high: found.high,
            verdict: found.verdict,
            planted,
            rounds: summary.rounds,
        })
    };
    summary.cases.iter().filter_map(|case| one(&case.case)).collect()
}
