//! `lasthop repro`

use std::{process::ExitCode, sync::Arc, sync::atomic::Ordering, time::Duration};

use super::{
    CliError, FAILED, INTERRUPTED, args, catalog, home, list, locator, print,
    progress::{Progress, Talk},
    run::watch_signals,
    talk, terminal,
};
use crate::{
    experiment::{catalog::LoadError, model::Experiment},
    report::{self, Format},
    repro::{self, Options, book::Book, outcome::Repetition, page},
    service::{guard, home::Home},
    study::{catalog as studies, model::Study},
};

/// Time for lasthop's own design of a study, unless told otherwise.
const BUDGET: Duration = Duration::from_secs(120);

pub fn repro(arguments: &args::Repro) -> Result<ExitCode, CliError> {
    if let Some(name) = &arguments.study {
        let study = studies::load(name).map_err(CliError::usage)?;
        return one(&study, arguments);
    }
    if arguments.all {
        return all(arguments);
    }
    table().map(|()| ExitCode::SUCCESS)
}

fn table() -> Result<(), CliError> {
    let (catalog, home) = (catalog()?, home()?);
    let state = |study: &Study| {
        let missing = study.runs.iter().find_map(|run| match catalog.load(&run.experiment) {
            Err(LoadError::Unknown { .. }) => Some(format!("`{}` is not there yet", run.experiment)),
            Err(error) => Some(error.to_string()),
            Ok(experiment) => run.because.clone().or_else(|| lacking(study, &experiment, &home)),
        });
        missing.unwrap_or_else(|| "can be repeated".to_owned())
    };
    let mut listed = Vec::new();
    for name in studies::names() {
        let study = studies::load(&name).map_err(CliError::failed)?;
        let state = state(&study);
        listed.push((study, state));
    }
    print(&report::document_terminal(&page::listing(&listed), &terminal()))
}

/// Programs that are not installed, and what installs them.
fn lacking(study: &Study, experiment: &Experiment, home: &Home) -> Option<String> {
    let locator = locator(home, &experiment.name, &args::Programs::default());
    let missing = list::missing(experiment, &locator);
    if !missing.is_empty() {
        return Some(format!("needs {} (lasthop setup {})", missing.join(", "), experiment.name));
    }
    let tool = study.method.tool?;
    let found = locator.locate(tool.name(), &tool.program());
    found.is_err().then(|| format!("needs {tool} (lasthop setup --tools)"))
}

fn one(study: &Study, arguments: &args::Repro) -> Result<ExitCode, CliError> {
    let book = book(arguments)?;
    let result = repeat(study, &book, arguments)?;
    let bytes = match arguments.format {
        Format::Json => {
            let mut text = serde_json::to_vec_pretty(&result).expect("plain data with text keys");
            text.push(b'\n');
            text
        }
        Format::Markdown => report::document_markdown(&page::document(&result)),
        Format::Terminal => report::document_terminal(&page::document(&result), &terminal()),
        Format::Csv => return Err(CliError::usage("a study has no CSV form; use terminal, markdown or json")),
    };
    print(&bytes)?;
    Ok(code_of_one(&result))
}

fn all(arguments: &args::Repro) -> Result<ExitCode, CliError> {
    let book = book(arguments)?;
    let mut results = Vec::new();
    let mut interrupted = false;
    for name in studies::names() {
        let study = studies::load(&name).map_err(CliError::failed)?;
        let finished = book.finished(&name).filter(|found| !arguments.again && !is_missing(found));
        let result = match finished {
            Some(result) => {
                talk(&format!("{name}: finished before (--again repeats it)"));
                result
            }
            None if interrupted => continue,
            None => {
                talk(&format!("{name}: {}", study.question));
                let result = repeat(&study, &book, arguments)?;
                interrupted = was_interrupted(&result);
                result
            }
        };
        results.push(result);
        book.write(&results).map_err(CliError::failed)?;
    }
    let [markdown, json] = book.write(&results).map_err(CliError::failed)?;
    print(format!("{}\n{}\n", markdown.display(), json.display()).as_bytes())?;
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { code(&results) })
}

fn book(arguments: &args::Repro) -> Result<Book, CliError> {
    let folder = match &arguments.into {
        Some(folder) => std::path::absolute(folder).map_err(CliError::usage)?,
        None => home()?.writable("repro").map_err(CliError::failed)?,
    };
    Ok(Book::at(folder))
}

fn repeat(study: &Study, book: &Book, arguments: &args::Repro) -> Result<Repetition, CliError> {
    for swept in guard::sweep() {
        talk(&format!("a killed run had left {}; it is removed", swept.sandbox.display()));
    }
    let (home, catalog) = (home()?, catalog()?);
    let interrupt = watch_signals()?;
    let mut progress = Progress::new(Talk::choose(arguments.quiet, false));
    let options = Options {
        catalog: &catalog,
        home: &home,
        into: &Home::at(book.of(&study.name)),
        programs: arguments.programs.programs.iter().cloned().collect(),
        budget: arguments.budget.unwrap_or(BUDGET),
        seed: arguments.seed,
        command: std::env::args().collect(),
        interrupt: &interrupt,
        engine: arguments.programs.engine,
        images: arguments.programs.images,
    };
    let result = repro::repeat(study, &options, &mut |event| progress.show(event));
    // What was cut short is repeated the next time.
    if !Arc::as_ref(&interrupt).load(Ordering::Relaxed) {
        book.keep(&result).map_err(CliError::failed)?;
    }
    Ok(result)
}

fn was_interrupted(result: &Repetition) -> bool {
    let cut = |text: &String| text == "interrupted";
    result.parts.iter().any(|part| part.skipped.as_ref().is_some_and(cut) || part.failures.iter().any(cut))
}

/// A program that is missing keeps a study from being repeated; in a book it is said, and is no reason to fail.
fn code_of_one(result: &Repetition) -> ExitCode {
    let nothing = result.parts.iter().all(|part| part.skipped.is_some());
    if nothing && is_missing(result) { ExitCode::from(FAILED) } else { code(std::slice::from_ref(result)) }
}

fn is_missing(result: &Repetition) -> bool {
    result.parts.iter().any(|part| part.missing)
}

/// A part that is not there is no failure; one that failed is.
fn code(results: &[Repetition]) -> ExitCode {
    let failed = results.iter().flat_map(|result| &result.parts).any(|part| !part.failures.is_empty());
    if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}
