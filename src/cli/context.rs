//! The common beginning of commands: the data folder, experiments, programs, records.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread,
};

use lasthop_model::record::RunHeader;
use lasthop_plan::{
    catalog::Catalog,
    model::{Experiment, Source},
};
use lasthop_protocol::url::redacted;
use lasthop_record::recorded;
use lasthop_stack::{home::Home, locate::Locator};
use lasthop_system::owner;

use super::{
    args::Programs,
    output::{CliError, OrExit, talk},
};

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
