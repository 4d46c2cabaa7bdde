//! `lasthop runs --format html`

use std::{
    fs,
    path::{Path, PathBuf},
};

use lasthop_analyse::across::diff::diff;
use lasthop_page::document::{Cell, Tone};
use lasthop_record::{RunData, store};
use lasthop_report::{Indexed, RunEntry, RunState, across};

use super::{
    context::{deliver_bytes, not_written, on_all_cpus, page, summarise},
    output::{CliError, talk},
};

/// The name of the page in a folder.
const INDEX: &str = "index.html";

/// A listed run and its record.
pub type Listed = (RunEntry, PathBuf);

/// Writes the page of all runs to a file or to standard output. In a folder, every run has its own page beside it.
pub fn write(runs: &[Listed], output: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = output else {
        let all = indexed(runs, None)?;
        return deliver_bytes(None, false, |_| lasthop_report::index(&all));
    };
    let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let (folder, file) = if is_folder {
        write_pages(runs, path)?;
        (path, path.join(INDEX))
    } else {
        (path.parent().unwrap_or(Path::new("")), path.to_owned())
    };
    let all = indexed(runs, Some(folder))?;
    deliver_bytes(Some(&file), false, |_| lasthop_report::index(&all))?;
    if is_folder {
        talk(&format!("wrote {}", file.display()));
    }
    Ok(())
}

fn is_readable((entry, _): &&Listed) -> bool {
    entry.state != RunState::Unreadable
}

fn page_name(run: &str) -> String {
    format!("{run}.html")
}

/// The page of each run that has none, or that went on after its page.
fn write_pages(runs: &[Listed], folder: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))?;
    let file = |(entry, _): &Listed| folder.join(page_name(&entry.run));
    let is_stale = |listed: &&Listed| {
        let made = file(listed).metadata().and_then(|page| page.modified());
        made.ok()
            .is_none_or(|made| store::written(&listed.1).is_some_and(|written| written > made))
    };
    let wanted: Vec<&Listed> = runs.iter().filter(is_readable).filter(is_stale).collect();
    on_all_cpus(&wanted, |listed| {
        // The index says why a record cannot be read.
        let Ok(summary) = summarise(&listed.1) else {
            return Ok(());
        };
        let path = file(listed);
        fs::write(&path, page(&summary)?).map_err(|error| not_written(&path, &error))
    })?;
    Ok(())
}

/// Every run with what is known of it beyond the list. Links lead to pages in `folder`.
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

/// What changed since the run of the same experiment before, among those that were made here.
fn change(before: &[Listed], entry: &RunEntry, data: Result<&RunData, &String>) -> Cell {
    let say = |text: &str| Cell::new(Tone::Dim, text);
    let is_before = |(other, _): &&Listed| other.is_own && other.experiment == entry.experiment;
    let new = match data {
        Ok(data) => data,
        // Its headline says so already.
        Err(_) if entry.state == RunState::Unreadable => return Cell::default(),
        Err(error) => return Cell::new(Tone::Bad, error),
    };
    if !entry.is_own {
        return say("made elsewhere");
    }
    if new.header.settings.overload.is_some() {
        return say("with overload there are no ratios");
    }
    let Some((_, record)) = before.iter().filter(is_readable).rfind(is_before) else {
        return Cell::default();
    };
    let diff = store::read(record).ok().and_then(|old| diff(&old, new).ok());
    diff.map_or_else(|| say("it has no case in common"), |diff| across::change(&diff))
}
