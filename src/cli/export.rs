//! `lasthop export`

use lasthop_core::{
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

/// The record of a run, or of the last run of an experiment.
fn find(wanted: &str) -> Result<std::path::PathBuf, CliError> {
    let runs = Store::new(home()?.runs());
    if !catalog()?.names().iter().any(|name| name == wanted) {
        return runs.find(wanted).map_err(CliError::usage);
    }
    let all = runs.list().map_err(CliError::failed)?;
    let of = |path: &&std::path::PathBuf| store::header(path).is_ok_and(|header| header.experiment.name == wanted);
    let last = all.iter().rev().find(of).cloned();
    last.ok_or_else(|| {
        CliError::usage(format!("no run of `{wanted}` is recorded; start one with `lasthop run {wanted}`"))
    })
}

/// The explanation first, then each file under its name.
fn shown(exported: &[Exported]) -> String {
    let text = |one: &Exported| match one.name.as_str() {
        "README.md" | "pod.yaml" => one.text.clone(),
        name => format!("\n## {name}\n\n{}", one.text),
    };
    exported.iter().map(text).collect()
}
