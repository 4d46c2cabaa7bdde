//! `lasthop export`

use std::{
    fs,
    path::{Path, PathBuf},
};

use lasthop_model::record::RunHeader;
use lasthop_record::{Store, store};
use lasthop_report::export::{self, Exported};

use super::{
    args,
    context::{catalog, home, is_run_of},
    output::{CliError, OrExit, print, talk},
};

pub fn export(arguments: &args::Export) -> Result<(), CliError> {
    let record = find(&arguments.run)?;
    let data = store::read(&record).or_failed()?;
    let summary = lasthop_analyse::summarise(&data);
    let case = arguments.case.as_deref();
    let exported = export::export(&record, &data, &summary, case).or_failed()?;
    match &arguments.into {
        None => print(shown(&exported).as_bytes()),
        Some(folder) => {
            let written = export::write(folder, &exported, arguments.force).or_failed()?;
            written
                .iter()
                .for_each(|path| talk(&format!("wrote {}", path.display())));
            Ok(())
        }
    }
}

/// The record of a run, or of the last run of an experiment, which may be a folder. A run with overload has no winner,
/// so only its name finds it.
fn find(wanted: &str) -> Result<PathBuf, CliError> {
    let runs = Store::new(home()?.path());
    let catalog = catalog()?;
    let is_name = catalog.names().iter().any(|name| name == wanted);
    let is_folder = !is_name && Path::new(wanted).join("experiment.toml").is_file();
    let folder = is_folder.then(|| fs::canonicalize(wanted)).transpose().or_usage()?;
    let is_wanted = |header: &RunHeader| match (&folder, &header.origin) {
        (Some(folder), Some(origin)) => Path::new(&origin.experiment) == folder,
        (Some(_), None) => false,
        (None, _) => wanted == "last" || (is_name && is_run_of(header, wanted, &catalog)),
    };
    let of =
        |path: &Path| store::header(path).is_ok_and(|header| header.settings.overload.is_none() && is_wanted(&header));
    let last = runs.newest(of).or_failed()?;
    match last {
        Some(last) => Ok(last),
        None if is_name || is_folder => Err(CliError::usage(format!(
            "no run of `{wanted}` is recorded (one with --overload has no winner); start one with `lasthop run {wanted}`"
        ))),
        None => runs.find(wanted).or_usage(),
    }
}

/// The explanation first, then each file under its name.
fn shown(exported: &[Exported]) -> String {
    exported
        .iter()
        .map(|one: &Exported| match one.name.as_str() {
            "README.md" => one.text.clone(),
            name => format!("\n## {name}\n\n{}", one.text),
        })
        .collect()
}
