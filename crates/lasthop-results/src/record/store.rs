//! Finds and reads recorded runs.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use lasthop_model::record::{RunEnd, RunHeader, TrialRecord, VERSION};
use serde::de::DeserializeOwned;

use super::{
    RunData,
    writer::{END, HEADLINE, TRIALS},
};

/// Limit for a line of a record, or for a file without lines, in bytes. Usual lines have a few kB.
const LONGEST: u64 = 64 << 20;

/// A record cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no run `{wanted}` in {}{}", store.display(), hint(suggestion.as_deref()))]
    Unknown { wanted: String, store: PathBuf, suggestion: Option<String> },
    #[error("`{wanted}` matches {} runs: {}; give more of the name", matches.len(), matches.join(", "))]
    Ambiguous { wanted: String, matches: Vec<String> },
    #[error("no run is recorded yet in {}; start one with `lasthop run`", store.display())]
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
    #[error(
        "{} was made by a newer lasthop: its record has version {found}, and this lasthop reads up to {VERSION}; use a newer \
         lasthop",
        path.display()
    )]
    TooNew { path: PathBuf, found: u32 },
}

fn hint(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(name) => format!(" (did you mean `{name}`?); see `lasthop runs`"),
        None => "; see `lasthop runs`".to_owned(),
    }
}

/// Whether a record is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is complete.
    Complete,
    /// Its lasthop is still alive.
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
    pub fn new(runs: PathBuf) -> Self {
        Self { runs }
    }

    /// Directories of all runs, oldest first (names begin with the time of the run).
    /// Errors: [`ReadError::Io`] if the folder exists but cannot be listed.
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

    /// The directory of the run that `wanted` names: a path, `last`, a whole name, or a part that matches only one run.
    /// Errors: [`ReadError::Unknown`], [`ReadError::Ambiguous`] or [`ReadError::Empty`].
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

/// Whether the record is complete, still being written, or cut off.
pub fn state(directory: &Path) -> State {
    if directory.join(END).is_file() {
        return State::Complete;
    }
    match open(&directory.join("lock")).map(|lock| lock.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => State::Running,
        _ => State::CutOff,
    }
}

/// How the run ended; `None` if it was cut off or is still running.
/// Errors: as [`read`].
pub fn end(directory: &Path) -> Result<Option<RunEnd>, ReadError> {
    optional(&directory.join(END))
}

/// The result of a run that ended, in one sentence; `None` if its record has none.
pub fn headline(directory: &Path) -> Option<String> {
    String::from_utf8(whole(&directory.join(HEADLINE)).ok()?).ok()
}

/// Only the header of a record.
/// Errors: as [`read`].
pub fn header(directory: &Path) -> Result<RunHeader, ReadError> {
    let path = directory.join("run.json");
    let text = whole(&path).map_err(|source| ReadError::Io { path: path.clone(), source })?;
    // The version first: a newer record may have fields that the strict types refuse.
    let loose: serde_json::Value = parse(&path, 1, &text)?;
    let found = loose.get("record").and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
    if found > VERSION {
        return Err(ReadError::TooNew { path, found });
    }
    parse(&path, 1, &text)
}

/// Reads a whole record. Skips an incomplete last line, which a killed run leaves behind.
/// Errors: [`ReadError::Io`], [`ReadError::Malformed`] or [`ReadError::TooNew`].
pub fn read(directory: &Path) -> Result<RunData, ReadError> {
    let mut data = RunData {
        header: header(directory)?,
        environment: optional(&directory.join("environment.json"))?,
        records: Vec::new(),
        end: end(directory)?,
    };
    lines(&directory.join(TRIALS), |record| data.keep(record))?;
    Ok(data)
}

/// Reads line by line, because the file of a long run is larger than what is kept of it.
fn lines(path: &Path, mut keep: impl FnMut(TrialRecord)) -> Result<(), ReadError> {
    let refused = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = match open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(refused(source)),
    };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        (&mut file).take(LONGEST).read_until(b'\n', &mut line).map_err(refused)?;
        if line.len() as u64 == LONGEST {
            return Err(refused(too_long(&format!("line {number}"))));
        }
        if !line.ends_with(b"\n") {
            break;
        }
        keep(parse(path, number, &line)?);
    }
    Ok(())
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    match whole(path) {
        Ok(text) => parse(path, 1, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReadError::Io { path: path.to_owned(), source }),
    }
}

fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LONGEST { Err(too_long("it")) } else { Ok(bytes) }
}

fn too_long(what: &str) -> io::Error {
    io::Error::other(format!("{what} is longer than {} MiB, the limit for records", LONGEST >> 20))
}

/// Opens a file of a record. Refuses anything else, because opening a pipe would block for ever.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn parse<T: DeserializeOwned>(path: &Path, first_line: usize, text: &[u8]) -> Result<T, ReadError> {
    serde_json::from_slice(text).map_err(|source| ReadError::Malformed {
        path: path.to_owned(),
        line: first_line + source.line().saturating_sub(1),
        source,
    })
}
