//! Writes a record while the run goes on.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::schema::{Environment, RunEnd, RunHeader, TrialRecord};

/// A file of the record could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the run record {}: {source}; choose another place with LASTHOP_HOME", path.display())]
pub struct WriteError {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// The open record of a run.
pub struct Writer {
    directory: PathBuf,
    trials: File,
    /// Held locked while the run lives, so that readers can tell a running record from one that was cut off.
    _lock: File,
}

impl Writer {
    /// Creates the directory `runs/RUN` and writes the header.
    ///
    /// # Errors
    /// [`WriteError`] when the directory exists already or cannot be written.
    pub fn create(runs: &Path, header: &RunHeader) -> Result<Self, WriteError> {
        let directory = runs.join(&header.run);
        fs::create_dir_all(runs).map_err(|source| WriteError { path: runs.to_owned(), source })?;
        fs::create_dir(&directory).map_err(|source| WriteError { path: directory.clone(), source })?;
        let lock = create(&directory.join("lock"))?;
        lock.lock().map_err(|source| WriteError { path: directory.join("lock"), source })?;
        write_whole(&directory.join("run.json"), header)?;
        let path = directory.join("trials.jsonl");
        let trials = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(|source| WriteError { path, source })?;
        Ok(Self { directory, trials, _lock: lock })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the rendered configuration and the log of a service go.
    #[must_use]
    pub fn services(&self) -> PathBuf {
        self.directory.join("services")
    }

    /// # Errors
    /// [`WriteError`] when the file cannot be written.
    pub fn environment(&self, environment: &Environment) -> Result<(), WriteError> {
        write_whole(&self.directory.join("environment.json"), environment)
    }

    /// Appends one line. It is in the kernel's hands when this returns: it outlives lasthop, however lasthop ends.
    ///
    /// # Errors
    /// [`WriteError`] when the line cannot be written.
    pub fn append(&mut self, record: &TrialRecord) -> Result<(), WriteError> {
        let mut line = serde_json::to_vec(record).expect("records hold no maps with keys other than text");
        line.push(b'\n');
        self.trials.write_all(&line).map_err(|source| WriteError { path: self.directory.join("trials.jsonl"), source })
    }

    /// # Errors
    /// [`WriteError`] when the file cannot be written.
    pub fn end(self, end: &RunEnd) -> Result<(), WriteError> {
        write_whole(&self.directory.join("end.json"), end)
    }
}

fn create(path: &Path) -> Result<File, WriteError> {
    File::create(path).map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Writes beside the target and renames, so that a reader never sees half a file.
fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), WriteError> {
    let mut text = serde_json::to_vec_pretty(value).expect("records hold no maps with keys other than text");
    text.push(b'\n');
    let beside = path.with_extension("part");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|source| WriteError { path: path.to_owned(), source })
}
