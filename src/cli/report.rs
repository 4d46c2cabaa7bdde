//! `lasthop report`, and the end of every run: the record is read once, the limits are judged, the report is written, and
//! the exit code is chosen.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
};

use lasthop_analyse::{
    checks::known::{self, CheckMeaning},
    plots::plots,
    rows::rows,
    summary::Summary,
};
use lasthop_model::record::Stopped;
use lasthop_plan::diagnostics::meant;
use lasthop_record::{
    RunData, Store,
    store::{self, State},
};
use lasthop_report::{Extras, Format, configuration, explained};

use super::{
    args::{self, OutputOptions},
    context::home,
    diff, limits,
    output::{
        CliError, DONE, Exit, FAILED, INTERRUPTED, OF_ROWS, OrExit, deliver_bytes, is_a_format, not_written, print,
        talk, terminal,
    },
};

pub fn report(arguments: &args::Report) -> Exit {
    if let Some(id) = &arguments.check {
        return explain_check(id.as_deref()).map(|()| DONE);
    }
    let wanted: Vec<&str> = arguments.runs.iter().map(String::as_str).collect();
    recorded(&diff::find(&wanted)?, &arguments.by, &arguments.output)
}

/// Reports recorded runs by their directories: one by itself, several together.
pub fn recorded(directories: &[PathBuf], by: &[String], output: &OutputOptions) -> Exit {
    match directories {
        [one] if by.is_empty() => of_one(&mut read(one)?, output),
        several => diff::fleet_of(several, by, output),
    }
}

/// Reports a run that has just ended, and chooses the exit code.
pub fn conclude(record: &Path, output: &OutputOptions) -> Exit {
    let mut recorded = ended(record)?;
    let held = of_one(&mut recorded, output)?;
    let summary = &recorded.summary;
    Ok(match summary.stopped {
        Stopped::Interrupted => {
            talk(&format!("to continue this run: lasthop resume {}", summary.run));
            INTERRUPTED
        }
        _ if summary.failures.is_empty()
            && (summary.overload.is_some() || summary.cases.iter().any(|case| case.metrics.is_some())) =>
        {
            held
        }
        _ => FAILED,
    })
}

/// Judges the limits of a run and writes its report. Returns the exit code of the limits.
fn of_one(recorded: &mut Recorded, output: &OutputOptions) -> Exit {
    recorded.summary.limits = limits::judge_run(&output.fail_if, &recorded.summary)?;
    deliver(recorded, output)?;
    Ok(limits::exit_status(&recorded.summary.limits))
}

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

/// The record of a run that has just ended, after its headline is stored.
pub fn ended(record: &Path) -> Result<Recorded, CliError> {
    let recorded = read(record)?;
    lasthop_record::keep_headline(record, &lasthop_report::headline(&recorded.summary)).or_failed()?;
    Ok(recorded)
}

/// Renders a result and writes it to the requested file, or to standard output. A report for people is also added to
/// the page of a GitHub Actions job.
fn deliver(recorded: &Recorded, output: &OutputOptions) -> Result<(), CliError> {
    let summary = &recorded.summary;
    add_to_job(summary)?;
    has_format(summary.overload.is_some(), output)?;
    let extras = extras(recorded, output.format);
    deliver_bytes(output.output.as_deref(), output.verbose, |options| {
        lasthop_report::render(summary, &extras, output.format, options)
    })
}

pub fn has_format(overload: bool, output: &OutputOptions) -> Result<(), CliError> {
    if overload {
        return is_a_format("a run with overload", output.format, &OF_ROWS);
    }
    Ok(())
}

/// The variable with the file that GitHub Actions shows as the page of a job, in Markdown.
const JOB_PAGE: &str = "GITHUB_STEP_SUMMARY";

fn add_to_job(summary: &Summary) -> Result<(), CliError> {
    let Some(page) = env::var_os(JOB_PAGE).filter(|page| !page.is_empty()) else {
        return Ok(());
    };
    let markdown = lasthop_report::render(
        summary,
        &Extras::default(),
        Format::Markdown,
        &lasthop_page::Options::default(),
    );
    let file = fs::OpenOptions::new().append(true).create(true).open(&page);
    file.and_then(|mut file| file.write_all(&[&markdown[..], b"\n"].concat()))
        .map_err(|error| not_written(page.as_ref(), &error))
}

/// The page of a run.
pub fn page(recorded: &Recorded) -> Vec<u8> {
    let extras = extras(recorded, Format::Html);
    let options = lasthop_page::Options::default();
    lasthop_report::render(&recorded.summary, &extras, Format::Html, &options)
}

/// The parts of a report that only the record has: trials, plots, and the configuration of the winner, if any.
fn extras(Recorded { data, summary }: &Recorded, format: Format) -> Extras<'_> {
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

/// Prints the meaning of a check, or all checks.
fn explain_check(id: Option<&str>) -> Result<(), CliError> {
    let document = match id {
        None => explained::list(),
        Some(id) => explained::check(CheckMeaning::of(id).ok_or_else(|| {
            let known = known::all().map(|known| known.id);
            let help = meant(id, known, "`lasthop report --check` lists all");
            CliError::usage(format!("there is no check `{id}`; {help}"))
        })?),
    };
    print(&lasthop_page::document_terminal(&document, &terminal()))
}
