//! Finds and reads recorded runs.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

use super::{
    RunData,
    schema::{RunHeader, TrialRecord, VERSION},
    writer::{END, TRIALS},
};

/// A record cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no run `{wanted}` in {}{}", store.display(), hint(suggestion.as_deref()))]
    Unknown { wanted: String, store: PathBuf, suggestion: Option<String> },
    #[error("`{wanted}` names {} runs: {}; write more of the name", matches.len(), matches.join(", "))]
    Ambiguous { wanted: String, matches: Vec<String> },
    #[error("no run is recorded yet in {}; make one with `lasthop run`", store.display())]
    Empty { store: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}:{line}: not a lasthop record: {source}", path.display())]
    Malformed {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("{}: record version {found}, this lasthop reads up to {VERSION}; use a newer lasthop", path.display())]
    TooNew { path: PathBuf, found: u32 },
}

fn hint(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(name) => format!(" (did you mean `{name}`?); see `lasthop runs`"),
        None => "; see `lasthop runs`".to_owned(),
    }
}

/// Whether a record is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has its end.
    Complete,
    /// Its lasthop is alive.
    Running,
    /// Its lasthop died before the end.
    CutOff,
}

/// The folder that holds all records of this user.
#[derive(Clone, Debug)]
pub struct Store {
    runs: PathBuf,
}

impl Store {
    #[must_use]
    pub fn new(runs: PathBuf) -> Self {
        Self { runs }
    }

    /// Directories of all runs, oldest first (names begin with the time of day they were made).
    ///
    /// # Errors
    /// [`ReadError::Io`] when the folder exists and cannot be listed.
    pub fn list(&self) -> Result<Vec<PathBuf>, ReadError> {
        let entries = match fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(ReadError::Io { path: self.runs.clone(), source }),
        };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("run.json").is_file())
            .collect();
        found.sort();
        Ok(found)
    }

    /// The directory of a run named by `wanted`: a path, `last`, a whole name, or any part of a name that fits one run.
    ///
    /// # Errors
    /// [`ReadError::Unknown`], [`ReadError::Ambiguous`] or [`ReadError::Empty`].
    pub fn find(&self, wanted: &str) -> Result<PathBuf, ReadError> {
        let as_path = Path::new(wanted);
        if as_path.join("run.json").is_file() {
            return Ok(as_path.to_owned());
        }
        let runs = self.list()?;
        let Some(newest) = runs.last() else { return Err(ReadError::Empty { store: self.runs.clone() }) };
        if wanted == "last" {
            return Ok(newest.clone());
        }
        let matches: Vec<&PathBuf> = runs.iter().filter(|path| name_of(path).contains(wanted)).collect();
        match matches.as_slice() {
            [only] => Ok((*only).clone()),
            [] => Err(self.unknown(wanted, &runs)),
            several => match several.iter().find(|path| name_of(path) == wanted) {
                Some(exact) => Ok((**exact).clone()),
                None => Err(ReadError::Ambiguous {
                    wanted: wanted.to_owned(),
                    matches: several.iter().map(|path| name_of(path)).collect(),
                }),
            },
        }
    }

    fn unknown(&self, wanted: &str, runs: &[PathBuf]) -> ReadError {
        let suggestion = runs
            .iter()
            .map(|path| name_of(path))
            .max_by(|a, b| strsim::jaro_winkler(a, wanted).total_cmp(&strsim::jaro_winkler(b, wanted)));
        ReadError::Unknown { wanted: wanted.to_owned(), store: self.runs.clone(), suggestion }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the record is whole, still being written, or cut off.
#[must_use]
pub fn state(directory: &Path) -> State {
    if directory.join(END).is_file() {
        return State::Complete;
    }
    match File::open(directory.join("lock")).map(|lock| lock.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => State::Running,
        _ => State::CutOff,
    }
}

/// Only the header of a record.
///
/// # Errors
/// As [`read`].
pub fn header(directory: &Path) -> Result<RunHeader, ReadError> {
    let path = directory.join("run.json");
    let text = fs::read_to_string(&path).map_err(|source| ReadError::Io { path: path.clone(), source })?;
    // The version first: a newer record may have fields that the strict types refuse.
    let loose: serde_json::Value = parse(&path, 1, &text)?;
    let found = loose.get("record").and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
    if found > VERSION {
        return Err(ReadError::TooNew { path, found });
    }
    parse(&path, 1, &text)
}

/// Reads a whole record. A last line without its end, which a killed run leaves, is passed over.
///
/// # Errors
/// [`ReadError::Io`], [`ReadError::Malformed`] or [`ReadError::TooNew`].
pub fn read(directory: &Path) -> Result<RunData, ReadError> {
    Ok(RunData {
        header: header(directory)?,
        environment: optional(&directory.join("environment.json"))?,
        records: trials(&directory.join(TRIALS))?,
        end: optional(&directory.join(END))?,
    })
}

fn trials(path: &Path) -> Result<Vec<TrialRecord>, ReadError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
    };
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().enumerate().map(|(index, line)| parse(path, index + 1, line)).collect()
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(path, 1, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReadError::Io { path: path.to_owned(), source }),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, first_line: usize, text: &str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|source| ReadError::Malformed {
        path: path.to_owned(),
        line: first_line + source.line().saturating_sub(1),
        source,
    })
}
