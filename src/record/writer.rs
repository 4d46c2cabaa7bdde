//! Writes a record while the run goes on.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::schema::{Environment, Resumption, RunEnd, RunHeader, TrialRecord};

/// One line a trial.
pub(super) const TRIALS: &str = "trials.jsonl";
/// There when the run ended in order.
pub(super) const END: &str = "end.json";

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
        let trials = appending(&directory.join(TRIALS))?;
        Ok(Self { directory, trials, _lock: lock })
    }

    /// Opens the record of a run that is over and changes nothing yet; `None` while another lasthop writes it.
    ///
    /// # Errors
    /// [`WriteError`] when it cannot be written.
    pub fn reopen(directory: &Path) -> Result<Option<Self>, WriteError> {
        let path = directory.join("lock");
        let refused = |source| WriteError { path: path.clone(), source };
        let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(refused)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(refused(source)),
            Ok(()) => {}
        }
        let trials = appending(&directory.join(TRIALS))?;
        Ok(Some(Self { directory: directory.to_owned(), trials, _lock: lock }))
    }

    /// Takes the record up again: without the half line that a killed run leaves, and without its end.
    ///
    /// # Errors
    /// [`WriteError`] when a file cannot be written.
    pub fn resume(&mut self, resumption: &Resumption) -> Result<(), WriteError> {
        self.cut_half_line().map_err(|source| WriteError { path: self.directory.join(TRIALS), source })?;
        self.append(&TrialRecord::Resumed(resumption.clone()))?;
        let end = self.directory.join(END);
        match fs::remove_file(&end) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WriteError { path: end, source }),
            _ => Ok(()),
        }
    }

    fn cut_half_line(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        File::open(self.directory.join(TRIALS))?.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.trials.set_len(whole as u64)
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
        self.trials.write_all(&line).map_err(|source| WriteError { path: self.directory.join(TRIALS), source })
    }

    /// # Errors
    /// [`WriteError`] when the file cannot be written.
    pub fn end(self, end: &RunEnd) -> Result<(), WriteError> {
        write_whole(&self.directory.join(END), end)
    }
}

fn appending(path: &Path) -> Result<File, WriteError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|source| WriteError { path: path.to_owned(), source })
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
