//! `lasthop runs --format html`

use std::{
    fs,
    path::{Path, PathBuf},
};

use lasthop_analyse::across::diff::diff;
use lasthop_page::{
    document::{Cell, Tone},
    html,
};
use lasthop_record::{RunData, store};
use lasthop_report::{Indexed, RunEntry, RunState, across};
use lasthop_system::{files, named};

use super::{
    context::on_all_cpus,
    output::{CliError, deliver_bytes, not_written, talk},
    report::{page, read},
};

/// The name of the page in a folder.
const INDEX: &str = "index.html";

/// A listed run and its record.
pub type Listed = (RunEntry, PathBuf);

/// Writes the page of all runs to a file or to standard output. In a folder, every run also gets its own page.
pub fn write(runs: &[Listed], output: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = output else {
        let all = indexed(runs, None)?;
        return deliver_bytes(None, false, |_| lasthop_report::index(&all));
    };
    let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !is_folder {
        let all = indexed(runs, path.parent())?;
        return deliver_bytes(Some(path), false, |_| lasthop_report::index(&all));
    }
    let file = path.join(INDEX);
    write_pages(runs, path, &file)?;
    put(&file, &lasthop_report::index(&indexed(runs, Some(path))?))?;
    talk(&format!("wrote {}", file.display()));
    Ok(())
}

/// Writes a page. The user named the folder and not this file, so only a page of lasthop's own is replaced.
fn put(file: &Path, page: &[u8]) -> Result<(), CliError> {
    named::replace(file, page, html::is_page).map_err(|error| not_written(file, &error))
}

fn is_readable((entry, _): &&Listed) -> bool {
    entry.state != RunState::Unreadable
}

/// The file name of a run's page. Names are distinct and differ from the index, because no run has a `~` in its name.
fn page_name(run: &str) -> String {
    match format!("{run}.html") {
        page if page == INDEX => format!("{run}~.html"),
        page => page,
    }
}

/// Writes the page of each run that has none, or whose record is newer than its page.
fn write_pages(runs: &[Listed], folder: &Path, index: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
    let file = |(entry, _): &Listed| folder.join(page_name(&entry.run));
    // Obstacles are found before the first page is written.
    for file in runs.iter().map(file).chain([index.to_owned()]) {
        named::may_replace(&file, html::is_page).map_err(|error| not_written(&file, &error))?;
    }
    let is_stale = |listed: &&Listed| {
        let made = files::facts_linked(file(listed)).and_then(|page| page.modified());
        made.ok()
            .is_none_or(|made| store::written(&listed.1).is_some_and(|written| written > made))
    };
    let wanted: Vec<&Listed> = runs.iter().filter(is_readable).filter(is_stale).collect();
    on_all_cpus(&wanted, |listed| {
        // The index says why a record cannot be read.
        let Ok(recorded) = read(&listed.1) else {
            return Ok(());
        };
        put(&file(listed), &page(&recorded))
    })?;
    Ok(())
}

/// Entries of the index for all runs. Links lead to pages in `folder`.
fn indexed(runs: &[Listed], folder: Option<&Path>) -> Result<Vec<Indexed>, CliError> {
    let places: Vec<usize> = (0..runs.len()).collect();
    on_all_cpus(&places, |place| {
        let (entry, record) = &runs[*place];
        let data = store::read(record);
        let page = page_name(&entry.run);
        Ok(Indexed {
            entry: entry.clone(),
            change: change(&runs[..*place], entry, data.as_ref()),
            environment: data.ok().and_then(|data| data.environment),
            page: folder
                .is_some_and(|folder| folder.join(&page).is_file())
                .then_some(page),
        })
    })
}

/// Changes since the previous run of the experiment, among runs of this machine.
fn change(before: &[Listed], entry: &RunEntry, data: Result<&RunData, &String>) -> Cell {
    let say = |text: &str| Cell::new(Tone::Dim, text);
    let is_before = |(other, _): &&Listed| other.is_own && other.experiment == entry.experiment;
    let new = match data {
        Ok(data) => data,
        // The headline already says so.
        Err(_) if entry.state == RunState::Unreadable => return Cell::default(),
        Err(error) => return Cell::new(Tone::Bad, error),
    };
    if !entry.is_own {
        return say("made elsewhere");
    }
    if new.header.settings.overload.is_some() {
        return say("with overload there are no ratios");
    }
    // Another experiment may have the same name.
    let is_same = |(_, record): &&Listed| {
        store::header(record).is_ok_and(|old| old.experiment.source == new.header.experiment.source)
    };
    let mut before = before.iter().filter(is_readable).filter(is_before);
    let Some((_, record)) = before.rfind(is_same) else {
        return Cell::default();
    };
    let diff = store::read(record).ok().and_then(|old| diff(&old, new).ok());
    diff.map_or_else(|| say("it has no case in common"), |diff| across::change(&diff))
}
