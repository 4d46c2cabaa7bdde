//! `lasthop survey`

use std::{collections::BTreeMap, path::Path, rc::Rc};

use lasthop_analyse::answers::answers;
use lasthop_load::speed::Speedometer;
use lasthop_model::{quantity::written, record::Stopped};
use lasthop_observe::environment;
use lasthop_record::{Store, store};
use lasthop_report::{
    Format,
    answers::{answer_of, conditions_of},
};
use lasthop_stats::middle;
use lasthop_survey::{
    links::Survey,
    page,
    saving::{Ask, Findings, Here, Known, Stacks, judge, unmeasured},
    survey,
    watch::Timing,
};
use lasthop_system::{facts::Facts, interrupt};

use super::{
    args,
    context::{catalog, home, is_run_of},
    output::{
        CliError, Exit, INTERRUPTED, OF_ROWS, OrExit, counted, deliver_bytes, document_bytes, exit_code, is_a_format,
        talk, writable,
    },
    progress::Talk,
    run::Ready,
    signals::watch_signals,
};

/// Number of readings of a CPU's speed, half a millisecond each.
const READINGS: usize = 9;

pub fn watch(arguments: &args::Survey) -> Exit {
    is_a_format("a survey", arguments.format, &OF_ROWS)?;
    writable(arguments.output.as_deref())?;
    watch_signals()?;
    let timing = Timing {
        watch: arguments.watch,
        interval: arguments.interval,
    };
    let begun = || {
        if !arguments.quiet {
            talk(&format!("watching for {}", written(arguments.watch)));
        }
    };
    let mut result = survey(timing, begun).or_failed()?;
    let found = result.links.len();
    if !arguments.only.is_empty() {
        result
            .links
            .retain(|link| arguments.only.iter().any(|name| link.has(name)));
        if result.links.is_empty() && found > 0 {
            let all = counted(found, "link");
            return Err(CliError::failed(format!(
                "none of {all} has {}",
                arguments.only.join(" or ")
            )));
        }
    }
    let (stacks, here) = (Stacks::of(&catalog()?), here());
    let mut book = Book::default();
    let judge = |survey: &mut Survey, book: &mut Book| {
        judge(&mut survey.links, &stacks, answers(), &here, |experiment| {
            book.findings(experiment)
        });
    };
    judge(&mut result, &mut book);
    let mut failed = false;
    if arguments.measure && !interrupt::heard() {
        failed = !measure(&result, &mut book, arguments)?;
        judge(&mut result, &mut book);
    }
    deliver(&result, arguments)?;
    Ok(exit_code(interrupt::heard(), failed))
}

fn deliver(survey: &Survey, arguments: &args::Survey) -> Result<(), CliError> {
    let verbose = arguments.verbose;
    deliver_bytes(arguments.output.as_deref(), verbose, |options| match arguments.format {
        Format::Csv => page::csv(survey),
        Format::Html => page::page(survey, verbose),
        format => document_bytes(survey, &page::document(survey, verbose), format, options),
    })
}

/// Findings of experiments, each read once.
#[derive(Default)]
struct Book(BTreeMap<String, Rc<Findings>>);

impl Book {
    fn findings(&mut self, experiment: &str) -> Rc<Findings> {
        let found = || {
            Rc::new(Findings {
                known: known(experiment),
                undecided: None,
            })
        };
        Rc::clone(self.0.entry(experiment.to_owned()).or_insert_with(found))
    }

    /// Reads the findings of an experiment again after a run. Returns whether the run has an answer.
    fn renew(&mut self, experiment: &str, run: &str) -> bool {
        self.0.remove(experiment);
        let found = self.findings(experiment);
        let has_answer = found.known.iter().any(|known| known.run.as_deref() == Some(run));
        if !has_answer {
            let undecided = Some(run.to_owned());
            let known = found.known.clone();
            self.0
                .insert(experiment.to_owned(), Rc::new(Findings { known, undecided }));
        }
        has_answer
    }
}

/// Runs the experiments that answer more of these links. Returns whether all succeeded.
fn measure(survey: &Survey, book: &mut Book, arguments: &args::Survey) -> Result<bool, CliError> {
    let wanted = unmeasured(&survey.links);
    let ready = |ask: &Ask| Ready::of(&ask.experiment, ask.selection.clone(), arguments.budget);
    let runs: Vec<Ready> = wanted.iter().map(ready).collect::<Result<_, _>>()?;
    if runs.is_empty() {
        talk("--measure: there is no experiment to run that you have not run already");
        return Ok(true);
    }
    let told: Vec<String> = runs.iter().map(Ready::in_words).collect();
    talk(&format!(
        "--measure starts servers of its own, and ends them; they share the CPUs with what runs: {}",
        told.join(", ")
    ));
    let mut all = true;
    for (Ask { experiment, .. }, run) in wanted.iter().zip(runs) {
        match run.run(Talk::choose(arguments.quiet, false)) {
            Ok(outcome) if matches!(outcome.stopped, Stopped::Interrupted) => return Ok(true),
            Ok(outcome) => {
                let name = outcome.record.file_name().unwrap_or_default().to_string_lossy();
                if !book.renew(experiment, &name) {
                    all = false;
                    talk(&match outcome.stopped {
                        Stopped::Failed => format!("{experiment} failed: `lasthop report {name}` says why"),
                        _ => format!(
                            "{experiment} ended undecided: `lasthop report {name}` says how far it came; it takes a larger \
                             --budget"
                        ),
                    });
                }
            }
            Err(error) if error.code == INTERRUPTED => return Ok(true),
            Err(error) => {
                all = false;
                talk(&format!("{experiment} was not run: {}", error.text));
            }
        }
    }
    Ok(all)
}

/// The findings of an experiment: of the last run here that has an answer, and of the kept answer.
fn known(experiment: &str) -> Vec<Known> {
    let catalog = catalog().ok();
    let answer = |record: &Path| {
        let header = store::header(record).ok()?;
        if !is_run_of(&header, experiment, catalog.as_ref()?) {
            return None;
        }
        let summary = lasthop_analyse::summarise(&store::read(record).ok()?);
        Some(Known {
            answer: answer_of(&summary, "", None)?,
            run: Some(summary.run),
        })
    };
    let own = || {
        let store = Store::new(home().ok()?.path());
        answer(&store.newest(|record| answer(record).is_some()).ok()??)
    };
    let shipped = answers().get(experiment).map(|answer| Known {
        answer: answer.clone(),
        run: None,
    });
    own().into_iter().chain(shipped).collect()
}

/// This machine's speed and conditions. The speed is the median of several readings, because other processes may
/// disturb a reading.
fn here() -> Here {
    let mut meter = Speedometer::default();
    Here {
        speed: middle((0..READINGS).map(|_| meter.read())).expect("there are readings"),
        conditions: conditions_of(&environment::read(&Facts::here(), Default::default())),
    }
}
