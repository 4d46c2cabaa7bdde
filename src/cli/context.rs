//! The common beginning of commands: the data folder, experiments, programs, records.

use std::{
    collections::BTreeMap,
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    thread,
};

use lasthop_analyse::{plots::plots, rows::rows, summary::Summary};
use lasthop_model::record::RunHeader;
use lasthop_page::{document::Document, text};
use lasthop_plan::{
    catalog::Catalog,
    model::{Experiment, Source},
};
use lasthop_protocol::url::redacted;
use lasthop_record::{
    RunData, Store, recorded,
    store::{self, State},
};
use lasthop_report::{Extras, Format, configuration};
use lasthop_stack::{home::Home, locate::Locator};
use lasthop_system::{files, named, owner};
use serde::Serialize;

use super::{
    args::{OutputOptions, Programs},
    output::{CliError, OrExit, print, talk, terminal},
};

/// A record, read once for all reports, and its summary.
pub struct Recorded {
    data: RunData,
    pub summary: Summary,
}

/// Reads a record on disk. Every report is made from a record.
pub fn read(directory: &Path) -> Result<Recorded, CliError> {
    // The state is read first: if the run ends in between, the record shows that.
    let running = store::state(directory) == State::Running;
    let data = store::read(directory).or_failed()?;
    let running = running && data.end.is_none();
    // A record given by its path needs no data folder.
    let word = home().map_or_else(
        |_| store::word_for_folder(directory),
        |home| Store::new(home.path()).word_for(directory),
    );
    let summary = Summary {
        running,
        folder: directory.to_owned(),
        word,
        ..lasthop_analyse::summarise(&data)
    };
    Ok(Recorded { data, summary })
}

/// The command line for the record, without passwords in URLs, because others may read it.
pub fn command_line() -> Vec<String> {
    let kept = |word: String| if word.contains("://") { redacted(&word) } else { word };
    std::env::args_os()
        .map(|word| kept(word.to_string_lossy().into_owned()))
        .collect()
}

pub fn home() -> Result<Home, CliError> {
    Home::find().or_failed()
}

pub fn catalog() -> Result<Catalog, CliError> {
    Ok(Catalog::new(Some(home()?.path().to_owned())))
}

pub fn locator(home: &Home, experiment: &Experiment, programs: &Programs) -> Result<Locator, CliError> {
    locator_with(home, experiment, given(programs))
}

/// A locator with the programs that a record names.
pub fn locator_with(
    home: &Home,
    experiment: &Experiment,
    programs: BTreeMap<String, PathBuf>,
) -> Result<Locator, CliError> {
    let place = experiment.place();
    home.check_packages(&place).or_failed()?;
    let locator = Locator::new(home, &place, programs);
    let Source::Folder(folder) = &experiment.source else {
        return Ok(locator);
    };
    if !folder.starts_with(home.path().join("experiments")) {
        warn_root(folder);
    }
    Ok(locator.called(from_here(folder).display().to_string()))
}

/// Warns that root will execute files that another account can change. The user named the folder, so this is no error.
fn warn_root(folder: &Path) {
    if rustix::process::geteuid().is_root()
        && let Some(foreign) = owner::changeable(folder)
    {
        talk(&format!(
            "warning: you are root, and another account may change what {} says: {foreign}",
            folder.display()
        ));
    }
}

/// Whether a record is of the experiment that has this name now, and not of an older one with that name.
pub fn is_run_of(header: &RunHeader, name: &str, catalog: &Catalog) -> bool {
    let source = catalog.source(name).to_string();
    header.experiment.name == name && header.experiment.source == recorded(&source)
}

/// Removes other users' write permission in the data folder.
pub fn tighten() {
    let Ok(home) = Home::find() else { return };
    for folder in home.tighten() {
        talk(&format!(
            "note: others could write {}; now they cannot",
            folder.display()
        ));
    }
}

/// A short path of a folder, as a user would type it.
fn from_here(folder: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    folder
        .strip_prefix(here)
        .map_or_else(|_| folder.to_owned(), |below| Path::new(".").join(below))
}

/// A locator of classic tools.
pub fn locator_of_tools(home: &Home, programs: &Programs) -> Locator {
    Locator::new(home, "--tools", given(programs))
}

fn given(programs: &Programs) -> BTreeMap<String, PathBuf> {
    programs.programs.iter().cloned().collect()
}

/// Renders a result and writes it to the requested file, or to standard output. A report for people is also added to
/// the page of a GitHub Actions job.
pub fn deliver(recorded: &Recorded, output: &OutputOptions) -> Result<(), CliError> {
    let summary = &recorded.summary;
    add_to_job(
        summary,
        std::env::var_os(JOB_PAGE)
            .filter(|path| !path.is_empty())
            .as_deref()
            .map(Path::new),
    )?;
    has_format(summary.overload.is_some(), output)?;
    let extras = extras(recorded, output.format);
    deliver_bytes(output.output.as_deref(), output.verbose, |options| {
        lasthop_report::render(summary, &extras, output.format, options)
    })
}

pub fn has_format(overload: bool, output: &OutputOptions) -> Result<(), CliError> {
    if overload && matches!(output.format, Format::Trials | Format::Svg) {
        let others = "use html for plots, csv, or json, which has every figure";
        return Err(CliError::usage(format!(
            "a run with overload has no such format: {others}"
        )));
    }
    Ok(())
}

/// Checks that a report can be written, before anything is started for it.
pub fn ready(output: &OutputOptions) -> Result<(), CliError> {
    output.output.as_deref().map_or(Ok(()), writable)
}

pub fn writable(path: &Path) -> Result<(), CliError> {
    let there = files::facts(path);
    // Opening a pipe would wait for its reader.
    if there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    // Opened without truncation: an older report stays until there is a new one.
    named::open(path).map_err(|error| not_written(path, &error))?;
    match there {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::remove_file(path).map_err(|error| not_written(path, &error))
        }
        _ => Ok(()),
    }
}

/// Writes the output of `bytes` to a file, or to standard output.
pub fn deliver_bytes(
    file: Option<&Path>,
    verbose: bool,
    bytes: impl Fn(&lasthop_page::Options) -> Vec<u8>,
) -> Result<(), CliError> {
    let Some(path) = file else {
        return print(&bytes(&lasthop_page::Options { verbose, ..terminal() }));
    };
    let plain = lasthop_page::Options {
        verbose,
        ..lasthop_page::Options::default()
    };
    named::write(path, &bytes(&plain)).map_err(|error| not_written(path, &error))
}

pub fn has_document_format(what: &str, format: Format) -> Result<(), CliError> {
    if format.is_of_runs() {
        return Err(CliError::usage(format!(
            "{what} has no such format; use terminal, markdown, html or json"
        )));
    }
    Ok(())
}

/// Prints a result that is no run, as a document or as its own JSON.
pub fn print_document(
    result: &impl Serialize,
    document: &Document,
    format: Format,
    verbose: bool,
) -> Result<(), CliError> {
    let options = lasthop_page::Options { verbose, ..terminal() };
    print(&document_bytes(result, document, format, &options))
}

/// A result that is no run, as a document or as its own JSON.
pub fn document_bytes(
    result: &impl Serialize,
    document: &Document,
    format: Format,
    options: &lasthop_page::Options,
) -> Vec<u8> {
    match format {
        Format::Json => text::json(result),
        Format::Markdown => lasthop_page::document_markdown(document),
        Format::Html => lasthop_page::html::document(document),
        _ => lasthop_page::document_terminal(document, options),
    }
}

/// The variable with the file that GitHub Actions shows as the page of a job, in Markdown.
const JOB_PAGE: &str = "GITHUB_STEP_SUMMARY";

fn add_to_job(summary: &Summary, page: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = page else { return Ok(()) };
    let markdown = lasthop_report::render(
        summary,
        &Extras::default(),
        Format::Markdown,
        &lasthop_page::Options::default(),
    );
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(&[&markdown[..], b"\n"].concat()))
        .map_err(|error| not_written(path, &error))
}

pub fn not_written(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

/// The page of a run.
pub fn page(recorded: &Recorded) -> Vec<u8> {
    let extras = extras(recorded, Format::Html);
    let options = lasthop_page::Options::default();
    lasthop_report::render(&recorded.summary, &extras, Format::Html, &options)
}

/// Maps items in order. Each CPU works through a share, item by item, so that few records are in memory at a time.
pub fn on_all_cpus<One: Sync, Made: Send>(
    all: &[One],
    work: impl Fn(&One) -> Result<Made, CliError> + Sync,
) -> Result<Vec<Made>, CliError> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    // At least one, because `chunks` panics for a length of 0.
    let shares = all.chunks(all.len().div_ceil(cpus).max(1));
    thread::scope(|scope| {
        let work = |share: &[One]| share.iter().map(&work).collect::<Result<Vec<_>, CliError>>();
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || work(share))).collect();
        let made = workers
            .into_iter()
            .map(|worker| worker.join().expect("no worker panics"));
        Ok(made.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    })
}

/// The parts of a report that only the record has: trials, plots, and the configuration of the winner, if any.
fn extras(Recorded { data, summary }: &Recorded, format: Format) -> Extras {
    match format {
        Format::Trials => Extras {
            trials: rows(data),
            ..Extras::default()
        },
        Format::Html => Extras {
            plots: plots(data),
            configuration: configuration::of_winner(&summary.folder, data, summary),
            ..Extras::default()
        },
        _ => Extras::default(),
    }
}
