//! `lasthop export`

use std::{
    fs,
    path::{Path, PathBuf},
};

use lasthop_results::{
    analyse,
    export::{self, Exported},
    record::{Store, store},
};

use super::{
    args,
    context::{catalog, home},
    output::{CliError, print, talk},
};

pub fn export(arguments: &args::Export) -> Result<(), CliError> {
    let record = find(&arguments.run)?;
    let data = store::read(&record).map_err(CliError::failed)?;
    let summary = analyse::summarise(&data);
    let case = arguments.case.as_deref();
    let exported = match arguments.kubernetes {
        true => {
            export::pod(&record, &data, &summary, case).map(|text| vec![Exported { name: "pod.yaml".to_owned(), text }])
        }
        false => export::export(&record, &data, &summary, case),
    };
    let exported = exported.map_err(CliError::failed)?;
    match &arguments.into {
        None => print(shown(&exported).as_bytes()),
        Some(folder) => {
            let written = export::write(folder, &exported, arguments.force).map_err(CliError::failed)?;
            written.iter().for_each(|path| talk(&format!("wrote {}", path.display())));
            Ok(())
        }
    }
}

/// The record of a run, or of the last run of an experiment, which may be a folder.
fn find(wanted: &str) -> Result<PathBuf, CliError> {
    let runs = Store::new(home()?.runs());
    let is_name = catalog()?.names().iter().any(|name| name == wanted);
    let is_folder = !is_name && Path::new(wanted).join("experiment.toml").is_file();
    let folder = is_folder.then(|| fs::canonicalize(wanted)).transpose().map_err(CliError::usage)?;
    let of = |path: &&PathBuf| {
        store::header(path).is_ok_and(|header| match &folder {
            Some(folder) => header.origin.is_some_and(|origin| Path::new(&origin.experiment) == folder),
            None => header.experiment.name == wanted,
        })
    };
    let last = runs.list().map_err(CliError::failed)?.iter().rev().find(of).cloned();
    match last {
        Some(last) => Ok(last),
        None if is_name || is_folder => {
            Err(CliError::usage(format!("no run of `{wanted}` is recorded; start one with `lasthop run {wanted}`")))
        }
        None => runs.find(wanted).map_err(CliError::usage),
    }
}

/// The explanation first, then each file under its name.
fn shown(exported: &[Exported]) -> String {
    let text = |one: &Exported| match one.name.as_str() {
        "README.md" | "pod.yaml" => one.text.clone(),
        name => format!("\n## {name}\n\n{}", one.text),
    };
    exported.iter().map(text).collect()
}
