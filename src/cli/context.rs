//! What commands begin with: the data folder, experiments, programs, records.

use std::{collections::BTreeMap, fs, path::Path};

use lasthop_host::service::{home::Home, locate::Locator};
use lasthop_load::url::redacted;
use lasthop_plan::catalog::Catalog;
use lasthop_results::{
    analyse::{self, summary::Summary},
    export,
    record::store::{self, State},
    report,
};

use super::{
    args::{OutputOptions, Programs},
    output::{CliError, WIDTH, print, terminal},
};

/// The result of a record on disk. Every report is made from it.
pub fn summarise(directory: &Path) -> Result<Summary, CliError> {
    // Ask before reading: if the run ends in between, the record read says so.
    let running = store::state(directory) == State::Running;
    let data = store::read(directory).map_err(CliError::failed)?;
    let running = running && data.end.is_none();
    Ok(Summary { running, folder: directory.to_owned(), ..analyse::summarise(&data) })
}

/// The command line for the record, which other people may read: passwords are removed from URLs.
pub fn command_line() -> Vec<String> {
    let kept = |word: String| if word.contains("://") { redacted(&word) } else { word };
    std::env::args_os().map(|word| kept(word.to_string_lossy().into_owned())).collect()
}

pub fn home() -> Result<Home, CliError> {
    Home::find().map_err(CliError::failed)
}

pub fn catalog() -> Result<Catalog, CliError> {
    Ok(Catalog::new(Some(home()?.path().to_owned())))
}

pub fn locator(home: &Home, experiment: &str, programs: &Programs) -> Locator {
    Locator::new(home, experiment, programs.programs.iter().cloned().collect::<BTreeMap<_, _>>())
}

/// Renders a result and writes it to the file asked for, or to standard output.
pub fn deliver(summary: &Summary, output: &OutputOptions) -> Result<(), CliError> {
    deliver_bytes(output, |options| match output.format {
        report::Format::Html => Ok(report::page(summary, &extras(summary)?)),
        format => Ok(report::render(summary, format, options)),
    })
}

/// Writes what `bytes` renders.
pub fn deliver_bytes(
    output: &OutputOptions,
    bytes: impl Fn(&report::Options) -> Result<Vec<u8>, CliError>,
) -> Result<(), CliError> {
    let verbose = output.verbose;
    let Some(path) = &output.output else { return print(&bytes(&report::Options { verbose, ..terminal() })?) };
    let plain = report::Options { color: false, width: WIDTH, verbose };
    let bytes = bytes(&plain)?;
    fs::write(path, bytes).map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

/// What a page shows besides: plots, and the configuration of the winner if there is one.
fn extras(summary: &Summary) -> Result<report::Extras, CliError> {
    let data = store::read(&summary.folder).map_err(CliError::failed)?;
    let files = export::export(&summary.folder, &data, summary, None).unwrap_or_default();
    let configuration = files.into_iter().map(|file| (file.name, file.text)).collect();
    Ok(report::Extras { plots: analyse::plots::plots(&data), configuration })
}
