//! Finds and reads recorded runs.

use std::{
    collections::HashSet,
    fs::{self, TryLockError},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use lasthop_model::{
    record::{MOST_CASES, ProfileRecord, RunEnd, RunHeader, VERSION},
    run_name,
};
use lasthop_system::{date, files, seal::Key};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    RunData, seal,
    writer::{END, HEADLINE, LOCK, PROFILES, TRIALS},
};

/// Limit for a line of a record, or for a file without lines, in bytes. Usual lines have a few kB.
pub(super) const LONGEST: u64 = 64 << 20;

/// The most cases of a record, because analysis takes time and memory for each pair.
const MOST: usize = 2 * MOST_CASES;

/// The least Jaro-Winkler similarity of a name with a typo to the name that was meant.
const ALIKE: f64 = 0.9;

/// The longest headline, in bytes.
const LONGEST_HEADLINE: u64 = 64 << 10;

fn cannot_read(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("cannot read {}: {error}", path.display())
}

/// Whether a record is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The run has ended in order.
    Complete,
    /// The lasthop that writes the record is still alive.
    Running,
    /// The lasthop that wrote the record died before the end of the run.
    CutOff,
}

/// The records of a data folder, and the key that proves which were made here.
#[derive(Clone, Debug)]
pub struct Store {
    runs: PathBuf,
    key: PathBuf,
}

impl Store {
    /// The store of a data folder.
    pub fn new(home: &Path) -> Self {
        Self {
            runs: home.join("runs"),
            key: home.join("key"),
        }
    }

    /// The key for a new record, made if missing. Without a key, the record counts as somebody else's.
    pub fn key(&self) -> Option<Key> {
        Key::of_or_new(&self.key).ok()
    }

    /// The key, if it proves that this record was made with this data folder and is unchanged.
    pub fn made_here(&self, record: &Path) -> Result<Key, String> {
        seal::made_here(record, &self.runs, &self.key)
    }

    /// Directories of all runs, oldest first (names begin with the time of the run). Names beyond tomorrow, which no
    /// run has, come first, so that none counts as the newest.
    pub fn list(&self) -> Result<Vec<PathBuf>, String> {
        let entries = match fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(cannot_read(&self.runs)(error)),
        };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| run_name::is_valid(&name_of(path)) && path.join("run.json").is_file())
            .collect();
        let now = date::now();
        found.sort_by_cached_key(|path| {
            let name = name_of(path);
            (!run_name::is_of_the_future(&name, now), name)
        });
        Ok(found)
    }

    /// The newest run that was made here and that `is_wanted` accepts.
    pub fn newest(&self, is_wanted: impl Fn(&Path) -> bool) -> Result<Option<PathBuf>, String> {
        let now = date::now();
        Ok(self.list()?.into_iter().rev().find(|path| {
            !run_name::is_of_the_future(&name_of(path), now) && is_wanted(path) && self.made_here(path).is_ok()
        }))
    }

    /// The directory of the run that `wanted` names: `last` (made here), a whole name, a path, or a part of a name that
    /// matches only one run.
    pub fn find(&self, wanted: &str) -> Result<PathBuf, String> {
        let runs = self.list()?;
        if wanted == "last" {
            return self
                .newest(|_| true)?
                .ok_or_else(|| if runs.is_empty() { self.empty() } else { self.none_own() });
        }
        if let Some(exact) = runs.iter().find(|path| name_of(path) == wanted) {
            return Ok(exact.clone());
        }
        let as_path = Path::new(wanted);
        if as_path.join("run.json").is_file() {
            return Ok(as_path.to_owned());
        }
        if runs.is_empty() {
            return Err(self.empty());
        }
        let matches: Vec<&PathBuf> = runs.iter().filter(|path| name_of(path).contains(wanted)).collect();
        match matches.as_slice() {
            [only] => Ok((*only).clone()),
            [] => Err(self.unknown(wanted, &runs)),
            several => {
                let names: Vec<String> = several.iter().map(|path| name_of(path)).collect();
                let all = names.join(", ");
                Err(format!(
                    "`{wanted}` matches {} runs: {all}; give more of the name",
                    names.len()
                ))
            }
        }
    }

    /// Removes a record of this store, unless it is being written.
    pub fn remove(&self, record: &Path) -> Result<(), String> {
        let shown = record.display();
        if record.parent() != Some(&self.runs) {
            let store = self.runs.display();
            return Err(format!("{shown} is not in {store}: remove it yourself"));
        }
        // A shared lock keeps writers out, but not readers.
        let lock = files::open_below(record, Path::new(LOCK));
        if let Ok(Err(TryLockError::WouldBlock)) = lock.as_ref().map(fs::File::try_lock_shared) {
            return Err(format!("{shown} is being written: it was not removed"));
        }
        fs::remove_dir_all(record).map_err(|error| format!("cannot remove {shown}: {error}"))
    }

    /// The argument that names this record in a command: its run, or outside of the store its folder, quoted for a
    /// shell.
    pub fn word_for(&self, record: &Path) -> String {
        let name = name_of(record);
        if record.parent() == Some(&self.runs) && run_name::is_valid(&name) {
            name
        } else {
            word_for_folder(record)
        }
    }

    fn unknown(&self, wanted: &str, runs: &[PathBuf]) -> String {
        let alike = |name: &String| strsim::jaro_winkler(name, wanted);
        let names = runs.iter().map(|path| name_of(path));
        let nearest = names.max_by(|one, other| alike(one).total_cmp(&alike(other)));
        let meant = nearest
            .filter(|name| alike(name) >= ALIKE)
            .map(|name| format!(" (did you mean `{name}`?)"))
            .unwrap_or_default();
        format!(
            "no run `{wanted}` in {}{meant}; see `lasthop runs`",
            self.runs.display()
        )
    }

    fn empty(&self) -> String {
        let store = self.runs.display();
        format!("no run is recorded yet in {store}; start one with `lasthop run`")
    }

    fn none_own(&self) -> String {
        format!(
            "no run in {} is proven to be yours, so there is no last one: name the run that you mean; see `lasthop runs`",
            self.runs.display()
        )
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The argument that names a record by its folder, quoted for a shell.
pub fn word_for_folder(record: &Path) -> String {
    let whole = std::path::absolute(record)
        .unwrap_or_else(|_| record.to_owned())
        .display()
        .to_string();
    shlex::try_quote(&whole).map_or_else(|_| "RUN".to_owned(), |word| word.into_owned())
}

/// Disk space of a record's files, in bytes. A file with several names counts once.
pub fn bytes(directory: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut folders = vec![directory.to_owned()];
    let mut total = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(file) = files::facts(entry.path()) else { continue };
            if file.is_dir() {
                folders.push(entry.path());
            } else if seen.insert((file.dev(), file.ino())) {
                total += file.blocks() * 512;
            }
        }
    }
    total
}

/// When trials were last written; `None` without a file of trials.
pub fn written(directory: &Path) -> Option<SystemTime> {
    let file = files::facts(directory.join(TRIALS)).ok()?;
    file.modified().ok()
}

/// Whether the record is complete, being written, or cut off.
pub fn state(directory: &Path) -> State {
    let open = |name: &str| files::open_below(directory, Path::new(name));
    if open(END).is_ok() {
        return State::Complete;
    }
    // A shared lock, so that readers do not take each other for the writer.
    match open(LOCK).map(|lock| lock.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => State::Running,
        _ => State::CutOff,
    }
}

/// How the run ended; `None` if it was cut off or is still running.
pub fn end(directory: &Path) -> Result<Option<RunEnd>, String> {
    optional(directory, END)
}

/// The result of a run that ended, in one sentence; `None` if its record has none.
pub fn headline(directory: &Path) -> Option<String> {
    String::from_utf8(files::read_below(directory, Path::new(HEADLINE), LONGEST_HEADLINE).ok()?).ok()
}

/// Only the header of a record.
pub fn header(directory: &Path) -> Result<RunHeader, String> {
    let path = directory.join("run.json");
    let text = files::read_below(directory, Path::new("run.json"), LONGEST);
    let text = text.map_err(cannot_read(&path))?;
    // The version first: strict types would refuse new fields of a newer record.
    let loose: Version = parse(&path, 1, &text)?;
    let found = u32::try_from(loose.record).unwrap_or(u32::MAX);
    if found > VERSION {
        return Err(format!(
            "{} was made by a newer lasthop: its record has version {found}, and this lasthop reads up to {VERSION}; use a \
             newer lasthop",
            path.display()
        ));
    }
    let header: RunHeader = parse(&path, 1, &text)?;
    if !run_name::is_valid(&header.run) {
        return Err(format!(
            "{}: `{}` is not the name of a run, which has letters, digits, `.`, `_` and `-` only",
            path.display(),
            header.run.escape_debug()
        ));
    }
    if header.cases.len() > MOST {
        return Err(format!(
            "{}: it has {} cases, and no run has more than {MOST}: nothing made this record by measuring",
            path.display(),
            header.cases.len()
        ));
    }
    Ok(header)
}

/// The version field of any record.
#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    record: u64,
}

/// Reads a whole record. Skips an incomplete last line, which a killed run leaves behind.
pub fn read(directory: &Path) -> Result<RunData, String> {
    let mut data = RunData {
        header: header(directory)?,
        environment: optional(directory, "environment.json")?,
        records: Vec::new(),
        profiles: Vec::new(),
        end: end(directory)?,
    };
    lines(directory, TRIALS, |record| data.keep(record))?;
    let mut known = HashSet::new();
    lines(directory, PROFILES, |mut record| {
        share_stacks(&mut record, &mut known);
        data.profiles.push(record);
    })?;
    Ok(data)
}

/// Shares functions of stacks between trials: most stacks occur in every trial.
fn share_stacks(record: &mut ProfileRecord, known: &mut HashSet<Arc<[String]>>) {
    let ProfileRecord::Profile(trial) = record else { return };
    for stack in trial.profile.roles.values_mut().flat_map(|role| &mut role.stacks) {
        match known.get(&stack.frames) {
            Some(same) => stack.frames = same.clone(),
            None => drop(known.insert(stack.frames.clone())),
        }
    }
}

/// Reads line by line, because the file of a long run is larger than the data kept.
fn lines<T: DeserializeOwned>(directory: &Path, name: &str, mut keep: impl FnMut(T)) -> Result<(), String> {
    let path = directory.join(name);
    let refused = cannot_read(&path);
    let mut file = match files::open_below(directory, Path::new(name)) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
    };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        (&mut file)
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .map_err(&refused)?;
        if line.len() as u64 == LONGEST {
            return Err(refused(files::too_long(&format!("line {number}"), LONGEST)));
        }
        if !line.ends_with(b"\n") {
            break;
        }
        keep(parse(&path, number, &line)?);
    }
    Ok(())
}

fn optional<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<Option<T>, String> {
    let path = directory.join(name);
    match files::read_below(directory, Path::new(name), LONGEST) {
        Ok(text) => parse(&path, 1, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot_read(&path)(error)),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, first_line: usize, text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| {
        let line = first_line + error.line().saturating_sub(1);
        format!("{}:{line}: not a lasthop record: {error}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use lasthop_model::{
        profile::{FoldedStack, Profile, RoleProfile},
        record::ProfileTrial,
    };
    use lasthop_trial::result::DriverCost;

    use super::*;

    fn with_stack(function: &str) -> ProfileRecord {
        let stack = FoldedStack {
            frames: vec!["main".to_owned(), function.to_owned()].into(),
            ..FoldedStack::default()
        };
        let role = RoleProfile {
            stacks: vec![stack],
            ..RoleProfile::default()
        };
        ProfileRecord::Profile(Box::new(ProfileTrial {
            round: 0,
            case: "tcp".to_owned(),
            at_ns: 0,
            requests: 1,
            elapsed_ns: 1,
            requests_total: 1,
            cost: DriverCost::default(),
            profile: Profile {
                roles: [("server".to_owned(), role)].into_iter().collect(),
                ..Profile::default()
            },
        }))
    }

    #[test]
    fn stacks_of_several_trials_are_kept_once() {
        let mut records = ["read", "write", "read"].map(with_stack);
        let before = records.clone();
        let mut known = HashSet::new();
        records.iter_mut().for_each(|record| share_stacks(record, &mut known));
        assert_eq!(records, before);
        let place = |record: &ProfileRecord| match record {
            ProfileRecord::Profile(trial) => trial.profile.roles["server"].stacks[0].frames.as_ptr(),
            other => panic!("{other:?}"),
        };
        let [first, other, again] = records.each_ref().map(place);
        assert!(first == again && first != other);
    }
}
