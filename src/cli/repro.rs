//! `lasthop repro`

use std::time::Duration;

use lasthop_plan::model::Experiment;
use lasthop_repro::{
    Options,
    book::Book,
    outcome::Repetition,
    page,
    study::{catalog as studies, model::Study},
};
use lasthop_stack::home::Home;
use lasthop_system::interrupt;

use super::{
    args,
    context::{catalog, command_line, home, locator},
    list,
    output::{
        CliError, DONE, Exit, FAILED, OF_DOCUMENTS, OrExit, exit_code, is_a_format, print, print_document, talk,
        terminal,
    },
    progress::Talk,
    run::{absolute, begin},
};

/// Default time to measure a study by lasthop's method.
const BUDGET: Duration = Duration::from_secs(120);

pub fn repro(arguments: &args::Repro) -> Exit {
    is_a_format("a study", arguments.format, &OF_DOCUMENTS)?;
    if let Some(name) = &arguments.study {
        let study = studies::load(name).or_usage()?;
        return one(&study, arguments);
    }
    if arguments.all {
        return all(arguments);
    }
    table().map(|()| DONE)
}

fn table() -> Result<(), CliError> {
    let catalog = catalog()?;
    let home = home()?;
    let state = |study: &Study| {
        let missing = study.runs.iter().find_map(|run| match catalog.load(&run.experiment) {
            Err(error) => Some(error.split_whitespace().collect::<Vec<_>>().join(" ")),
            Ok(experiment) => run.because.clone().or_else(|| lacking(study, &experiment, &home)),
        });
        missing.unwrap_or_else(|| "can be repeated".to_owned())
    };
    let mut listed = Vec::new();
    for name in studies::names() {
        let study = studies::load(&name).or_failed()?;
        let state = state(&study);
        listed.push((study, state));
    }
    print(&lasthop_page::document_terminal(&page::listing(&listed), &terminal()))
}

/// Programs that are not installed, and the command that installs them.
fn lacking(study: &Study, experiment: &Experiment, home: &Home) -> Option<String> {
    let locator = match locator(home, experiment, &args::Programs::default()) {
        Ok(locator) => locator,
        Err(refused) => return Some(refused.text),
    };
    let missing = list::missing(experiment, &locator, true);
    if !missing.is_empty() {
        return Some(format!(
            "needs {} (lasthop setup {})",
            missing.join(", "),
            experiment.name
        ));
    }
    let tool = study.method.tool()?;
    let found = locator.locate(tool.name, &tool.program);
    found
        .is_err()
        .then(|| format!("needs {} (lasthop setup --tools)", tool.name))
}

fn one(study: &Study, arguments: &args::Repro) -> Exit {
    let book = book(arguments)?;
    let result = repeat(study, &book, arguments)?;
    print_document(&result, &page::document(&result), arguments.format, true)?;
    // In a book, missing programs are reported and are no failure.
    let nothing = result.parts.iter().all(|part| part.skipped.is_some());
    Ok(match code(std::slice::from_ref(&result)) {
        DONE if nothing && is_missing(&result) => FAILED,
        code => code,
    })
}

fn all(arguments: &args::Repro) -> Exit {
    let book = book(arguments)?;
    let mut results = Vec::new();
    for name in studies::names() {
        let study = studies::load(&name).or_failed()?;
        let finished = book
            .finished(&study)
            // A missing program may be installed by now.
            .filter(|found| !arguments.again && !is_missing(found));
        let result = match finished {
            Some(result) => {
                talk(&format!("{name}: already finished (--again repeats it)"));
                result
            }
            // Later studies that are finished still belong in the book.
            None if interrupt::heard() => continue,
            None => {
                talk(&format!("{name}: {}", study.question));
                repeat(&study, &book, arguments)?
            }
        };
        results.push(result);
        book.write(&results).or_failed()?;
    }
    let files = book.write(&results).or_failed()?;
    let written: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(written.as_bytes())?;
    Ok(code(&results))
}

fn book(arguments: &args::Repro) -> Result<Book, CliError> {
    let folder = match &arguments.into {
        Some(folder) => absolute(folder)?,
        None => home()?.writable("repro").or_failed()?,
    };
    Ok(Book::at(folder))
}

fn repeat(study: &Study, book: &Book, arguments: &args::Repro) -> Result<Repetition, CliError> {
    let mut progress = begin(Talk::choose(arguments.quiet, false))?;
    let home = home()?;
    let catalog = catalog()?;
    let options = Options {
        catalog: &catalog,
        home: &home,
        into: &Home::at(book.folder(&study.name)),
        programs: arguments.programs.programs.iter().cloned().collect(),
        budget: arguments.budget.unwrap_or(BUDGET),
        seed: arguments.seed,
        since: book.kept(&study.name),
        explain: arguments.explain,
        command: command_line(),
        engine: arguments.programs.engine,
    };
    let result = lasthop_repro::repeat(study, &options, &mut |event| progress.show(event));
    // An interrupted repetition continues next time.
    if !interrupt::heard() {
        book.keep(&result).or_failed()?;
    }
    Ok(result)
}

fn is_missing(result: &Repetition) -> bool {
    result.parts.iter().any(|part| part.missing)
}

/// The exit code: a failed part is a failure, a skipped part is not.
fn code(results: &[Repetition]) -> u8 {
    let mut parts = results.iter().flat_map(|result| &result.parts);
    exit_code(interrupt::heard(), parts.any(|part| !part.failures.is_empty()))
}
