//! Repeats a run, as a new run of the same experiment, selection and settings.

use std::path::Path;

use lasthop_model::record::{ExplainSettings, Origin, RunHeader, Settings};
use lasthop_plan::{digest, model::Experiment};
use lasthop_record::{self as record, RunData, Store, store};

use super::resume::changed_files;

/// A run of this user that can be made again.
#[derive(Debug)]
pub struct Repeat {
    pub header: RunHeader,
    pub origin: Origin,
}

impl Repeat {
    pub fn of(data: &RunData, directory: &Path, own: &Store) -> Result<Self, String> {
        let header = record::in_use(&data.header).unwrap_or_else(|_| data.header.clone());
        let run = header.run.clone();
        if let Err(because) = own.made_here(directory) {
            return Err(format!(
                "run {run} may be somebody else's: {because}. Nothing that it names is executed; make a run of your own"
            ));
        }
        if store::state(directory) == store::State::Running {
            return Err(format!("run {run} is still running: wait for its end"));
        }
        if header.given.is_some() {
            return Err(format!(
                "run {run} compared servers that lasthop did not start: compare them again"
            ));
        }
        if header.settings.overload.is_some() {
            return Err(format!(
                "run {run} is one with overload: run its experiment with --overload"
            ));
        }
        let origin = header.origin.clone().ok_or_else(|| {
            format!(
                "run {run} is one of `lasthop selftest` or `lasthop new --check` and cannot be made again: run its experiment"
            )
        })?;
        Ok(Self { header, origin })
    }

    pub fn same_experiment(&self, experiment: &Experiment) -> Result<(), String> {
        let changes = changed_files(&self.origin.files, &digest::of_experiment(experiment));
        if changes.is_empty() {
            return Ok(());
        }
        Err(format!(
            "run {} cannot be made again, because its experiment has changed: {}",
            self.header.run,
            changes.join(", ")
        ))
    }

    /// The settings of the run, with profile trials if it had some or `explain` asks for them.
    pub fn settings(&self, explain: Option<ExplainSettings>) -> Settings {
        let settings = self.header.settings.clone();
        Settings {
            explain: explain.or(settings.explain),
            ..settings
        }
    }
}
