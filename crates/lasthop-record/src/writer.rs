//! Writes a record while the run goes on.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use lasthop_model::{
    record::{Environment, ProfileRecord, Resumption, RunEnd, RunHeader, TrialRecord},
    run_name,
};
use lasthop_system::{files, names::Names, seal::Key};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::seal;

/// Locked by the lasthop that writes the record.
pub(super) const LOCK: &str = "lock";
/// One line per trial.
pub(super) const TRIALS: &str = "trials.jsonl";
/// One line per profile trial. Missing if there are none.
pub(super) const PROFILES: &str = "profiles.jsonl";
/// Written when the run ends in order.
pub(super) const END: &str = "end.json";
/// The result in one sentence. Written when the run ends in order.
pub(super) const HEADLINE: &str = "headline.txt";

/// A file of the record could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}; set LASTHOP_HOME to another place")]
pub struct WriteError(String);

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> WriteError {
    move |error| WriteError(format!("cannot write the run record {}: {error}", path.display()))
}

/// The open record of a run.
pub struct Writer {
    directory: PathBuf,
    trials: File,
    /// Seals files that `lasthop resume` relies on; `None` if seals would prove nothing.
    key: Option<Key>,
    /// Locked while the run lives, so that readers can tell a running record from one that was cut off.
    _lock: File,
}

impl Writer {
    /// Creates the directory `runs/RUN` and writes the header, sealed with the key. Only its owner may read it:
    /// rendered files may contain passwords, and anyone who can open the lock can hold it.
    pub fn create(runs: &Path, key: Option<Key>, header: &RunHeader) -> Result<Self, WriteError> {
        let directory = runs.join(&header.run);
        if !run_name::is_valid(&header.run) {
            return Err(cannot_write(&directory)(io::Error::other(
                "that is not the name of a run",
            )));
        }
        fs::create_dir_all(runs).map_err(cannot_write(runs))?;
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(cannot_write(&directory))?;
        // Locked before the header exists, or readers would take the new record for one that was cut off.
        let path = directory.join(LOCK);
        let lock = appending(&path)?;
        lock.lock().map_err(cannot_write(&path))?;
        write_sealed(key.as_ref(), &directory, "run.json", header)?;
        // The entry of the new folder is on disk only after its parent is.
        files::sync_folder(runs).map_err(cannot_write(runs))?;
        let trials = appending(&directory.join(TRIALS))?;
        Ok(Self {
            directory,
            trials,
            key,
            _lock: lock,
        })
    }

    /// Opens the record of a run that has ended, without changing it yet; `None` while another lasthop writes it.
    pub fn reopen(directory: &Path) -> Result<Option<Self>, WriteError> {
        let path = directory.join(LOCK);
        let lock = appending(&path)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(cannot_write(&path)(error)),
            Ok(()) => {}
        }
        let trials = appending(&directory.join(TRIALS))?;
        Ok(Some(Self {
            directory: directory.to_owned(),
            trials,
            key: None,
            _lock: lock,
        }))
    }

    /// Seals further files. Only for a record that this key has sealed so far.
    pub fn seal_with(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// Prepares the record for more lines: removes incomplete lines of a killed run, and the record's end.
    pub fn resume(&mut self, resumption: &Resumption) -> Result<(), WriteError> {
        for lines in [TRIALS, PROFILES].map(|name| self.directory.join(name)) {
            match cut_half_line(&lines) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_write(&lines)(error)),
                _ => {}
            }
        }
        // Before the end is removed: from then on only this line says how the previous part ended.
        self.append(&TrialRecord::Resumed(Box::new(resumption.clone())))?;
        for path in [HEADLINE, END].map(|name| self.directory.join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_write(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Folder for the rendered configuration and the log of a service.
    pub fn services(&self) -> PathBuf {
        self.directory.join("services")
    }

    pub fn environment(&self, environment: &Environment) -> Result<(), WriteError> {
        write_sealed(self.key.as_ref(), &self.directory, "environment.json", environment)
    }

    /// Appends one line. The kernel has the line when this returns, so it survives the end of lasthop. The first line
    /// of a round also syncs all lines to disk, so that they survive a power failure. Syncing each trial would take too
    /// long and disturb the measurement.
    pub fn append(&mut self, record: &TrialRecord) -> Result<(), WriteError> {
        let written = self.trials.write_all(&line(record)).and_then(|()| match record {
            TrialRecord::Trial(_) | TrialRecord::Overload(_) | TrialRecord::Failure(_) => Ok(()),
            TrialRecord::Round(_) | TrialRecord::Resumed(_) => self.trials.sync_data(),
        });
        written.map_err(cannot_write(&self.directory.join(TRIALS)))
    }

    /// Appends a line about a profile trial. The first line creates the file.
    pub fn append_profile(&mut self, record: &ProfileRecord) -> Result<(), WriteError> {
        let path = self.directory.join(PROFILES);
        appending(&path)?.write_all(&line(record)).map_err(cannot_write(&path))
    }

    pub fn end(self, end: &RunEnd) -> Result<(), WriteError> {
        // `end.json` means that every line is there, so the lines are synced first.
        let synced = self.trials.sync_data();
        synced.map_err(cannot_write(&self.directory.join(TRIALS)))?;
        write_bytes(&self.directory.join(END), &whole(end))
    }
}

/// Writes the result of a run into its record, so that a list of runs need not read their trials.
pub fn keep_headline(directory: &Path, headline: &str) -> Result<(), WriteError> {
    write_bytes(
        &directory.join(HEADLINE),
        &Names::here().without_home(headline.as_bytes()),
    )
}

/// Removes the bytes after the last end of a line.
fn cut_half_line(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    let mut end = files::facts_of(&file)?.len();
    let mut piece = [0; 8192];
    while end > 0 {
        let start = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..(end - start) as usize];
        file.read_exact_at(piece, start)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte == b'\n') {
            return file.set_len(start + last as u64 + 1);
        }
        end = start;
    }
    file.set_len(0)
}

fn appending(path: &Path) -> Result<File, WriteError> {
    private().append(true).open(path).map_err(cannot_write(path))
}

/// Options that open a file, and create it for its owner alone. They follow no link and do not block on a pipe.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    options
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(value).expect("records hold no maps with keys other than text");
    let mut text = Names::here().json_without_home(&text).into_owned();
    text.push(b'\n');
    text
}

fn whole(value: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec_pretty(value).expect("records hold no maps with keys other than text");
    let mut text = Names::here().json_without_home(&text).into_owned();
    text.push(b'\n');
    text
}

/// A part of a record as a reader gets it: with `~` in place of this user's home folder.
pub fn recorded<T: Serialize + DeserializeOwned>(part: &T) -> T {
    serde_json::from_slice(&whole(part)).expect("what is written can be read")
}

/// A part of a record for use: with this user's home folder in place of `~`.
pub fn in_use<T: Serialize + DeserializeOwned>(part: &T) -> serde_json::Result<T> {
    fn expand(value: &mut Value) {
        match value {
            Value::String(text) => *text = Names::here().with_home(text),
            Value::Array(parts) => parts.iter_mut().for_each(expand),
            Value::Object(parts) => parts.values_mut().for_each(expand),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(part)?;
    expand(&mut value);
    serde_json::from_value(value)
}

fn write_sealed(key: Option<&Key>, record: &Path, file: &str, value: &impl Serialize) -> Result<(), WriteError> {
    let path = record.join(file);
    let text = whole(value);
    let sealed = key.map_or(Ok(()), |key| seal::write(key, record, file, &text));
    sealed.map_err(cannot_write(&path))?;
    write_bytes(&path, &text)
}

/// Writes to a temporary file and renames it, so that readers never see an incomplete file. The file is on disk when
/// this returns.
fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let beside = path.with_extension("part");
    let write = || {
        let mut file = private().write(true).truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // The rename is on disk only after the folder is.
        files::sync_folder(path.parent().unwrap_or(Path::new(".")))
    };
    write().map_err(cannot_write(path))
}
