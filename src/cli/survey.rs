//! `lasthop survey`

use std::{collections::BTreeMap, path::Path, sync::atomic::Ordering};

use lasthop_analyse::{answers::answers, summary::Standing};
use lasthop_load::speed::Speedometer;
use lasthop_model::{quantity::written, record::Stopped};
use lasthop_record::{Store, store};
use lasthop_report::{Format, answers::answer_of};
use lasthop_stats::middle;
use lasthop_survey::{
    diff::{self, SurveyDiff},
    limit::Limit,
    links::Survey,
    page, saved,
    saving::{Ask, Known, Stacks, judge, unmeasured},
    survey,
    watch::Timing,
};

use super::{
    args,
    context::{catalog, deliver_bytes, document_bytes, has_document_format, home, is_run_of, writable},
    output::{CliError, DONE, Exit, FAILED, INTERRUPTED, LIMIT, OrExit, counted, talk},
    run::Ready,
    signals::watch_signals,
};

/// Readings of the speed of a CPU, half a millisecond each.
const READINGS: usize = 9;

pub fn watch(arguments: &args::Survey) -> Exit {
    has_format(arguments.format)?;
    arguments.output.as_deref().map_or(Ok(()), writable)?;
    let interrupt = watch_signals()?;
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
    let (stacks, speed) = (Stacks::of(&catalog()?), speed());
    let mut book = Book::default();
    judge(&mut result.links, &stacks, speed, |experiment| book.of(experiment));
    let mut failed = false;
    if arguments.measure && !interrupt.load(Ordering::Relaxed) {
        failed = !measure(&result, &mut book, arguments)?;
        judge(&mut result.links, &stacks, speed, |experiment| book.of(experiment));
    }
    deliver(
        &result,
        arguments.format,
        arguments.output.as_deref(),
        arguments.verbose,
    )?;
    Ok(match hold(&arguments.fail_if, &result) {
        _ if interrupt.load(Ordering::Relaxed) => INTERRUPTED,
        DONE if failed => FAILED,
        code => code,
    })
}

/// # Errors
/// A survey does not have the format.
fn has_format(format: Format) -> Result<(), CliError> {
    match format {
        Format::Csv => Ok(()),
        format => has_document_format("a survey", format),
    }
}

fn deliver(survey: &Survey, format: Format, file: Option<&Path>, verbose: bool) -> Result<(), CliError> {
    deliver_bytes(file, verbose, |options| match format {
        Format::Csv => page::csv(survey),
        Format::Html => page::page(survey, verbose),
        format => document_bytes(survey, &page::document(survey, verbose), format, options),
    })
}

/// What was found of experiments, each read once.
#[derive(Default)]
struct Book(BTreeMap<String, Vec<Known>>);

impl Book {
    fn of(&mut self, experiment: &str) -> Vec<Known> {
        let known = || known(experiment);
        self.0.entry(experiment.to_owned()).or_insert_with(known).clone()
    }

    fn has_run(&mut self, experiment: &str) -> bool {
        self.of(experiment).iter().any(|known| known.run.is_some())
    }
}

/// Runs the experiments that say more of these links. Whether all of them did.
///
/// # Errors
/// An experiment cannot be run in the time.
fn measure(survey: &Survey, book: &mut Book, arguments: &args::Survey) -> Result<bool, CliError> {
    let wanted = unmeasured(&survey.links);
    let ready = |ask: &Ask| Ready::of(&ask.experiment, ask.selection.clone(), arguments.budget);
    let runs: Vec<Ready> = wanted.iter().map(ready).collect::<Result<_, _>>()?;
    if runs.is_empty() {
        talk("--measure: there is no experiment to run that you have not run already");
        return Ok(true);
    }
    let told: Vec<String> = runs.iter().map(Ready::told).collect();
    talk(&format!(
        "--measure starts servers of its own, and ends them; they share the CPUs with what runs: {}",
        told.join(", ")
    ));
    let options = args::TalkOptions {
        quiet: arguments.quiet,
        no_progress: false,
    };
    let mut all = true;
    for (Ask { experiment, .. }, run) in wanted.iter().zip(runs) {
        match run.run(&options) {
            Ok(outcome) if matches!(outcome.stopped, Stopped::Interrupted) => return Ok(true),
            Ok(_) => drop(book.0.remove(experiment)),
            Err(error) if error.code == INTERRUPTED => return Ok(true),
            Err(error) => talk(&format!("{experiment} was not run: {}", error.text)),
        }
        if !book.has_run(experiment) {
            all = false;
            talk(&format!(
                "{experiment} has no result: `lasthop doctor {experiment}` says what is missing"
            ));
        }
    }
    Ok(all)
}

/// Those of these words that are files and so surveys, if one is.
///
/// # Errors
/// Some are files and others are runs.
pub fn files<'a>(words: &[&'a str]) -> Result<Option<Vec<&'a Path>>, CliError> {
    let is_file = |word: &&str| *word != "last" && Path::new(word).is_file();
    let files: Vec<&Path> = words.iter().copied().filter(is_file).map(Path::new).collect();
    match files.len() {
        0 => Ok(None),
        all if all == words.len() => Ok(Some(files)),
        _ => Err(CliError::usage(format!(
            "{} is a file, which can only be a survey: name no run beside it, and two of them to compare",
            files[0].display()
        ))),
    }
}

/// A survey that was kept. Who made it does not matter: it is only shown.
fn kept(file: &Path, output: &args::OutputOptions) -> Result<Survey, CliError> {
    if !output.fail_if.is_empty() {
        let instead = "`lasthop survey --fail-if 'saved > 10% of a CPU'` has limits of its own";
        return Err(CliError::usage(format!("a survey has no such limit; {instead}")));
    }
    let wrong = |cause: String| CliError::failed(format!("{}: {cause}", file.display()));
    let json = lasthop_system::files::read(file, saved::LONGEST).map_err(|error| wrong(error.to_string()))?;
    saved::read(&json).map_err(wrong)
}

/// The report of a survey that was kept.
pub fn report(file: &Path, output: &args::OutputOptions) -> Exit {
    has_format(output.format)?;
    deliver(
        &kept(file, output)?,
        output.format,
        output.output.as_deref(),
        output.verbose,
    )?;
    Ok(DONE)
}

/// What changed from one survey to another.
pub fn diff(files: [&Path; 2], output: &args::OutputOptions) -> Exit {
    has_document_format("a comparison of surveys", output.format)?;
    let [before, after] = files.map(|file| kept(file, output));
    let diff = SurveyDiff::of(&before?, &after?);
    deliver_bytes(output.output.as_deref(), output.verbose, |options| {
        let document = diff::document(&diff, output.verbose);
        document_bytes(&diff, &document, output.format, options)
    })?;
    Ok(DONE)
}

/// What was found of an experiment: by the last run here that has an answer, and by the run that came with lasthop.
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

/// How fast a CPU is here, in steps per microsecond: the median, because others may take a part of a reading.
fn speed() -> f64 {
    let mut meter = Speedometer::default();
    middle((0..READINGS).map(|_| meter.read())).expect("there are readings")
}

/// Says how each link stands to each limit, and fails if one is beyond it.
fn hold(limits: &[Limit], survey: &Survey) -> u8 {
    let mut code = DONE;
    for limit in limits {
        let judged: Vec<_> = survey.links.iter().filter_map(|link| limit.judge(link)).collect();
        if judged.is_empty() {
            talk(&format!("{limit}: undecided: no figures say what a link would save"));
        }
        for (standing, text) in judged {
            talk(&text);
            if standing == Standing::Beyond {
                code = LIMIT;
            }
        }
    }
    code
}
