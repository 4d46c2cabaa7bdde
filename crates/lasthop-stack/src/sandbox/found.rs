//! Finds this user's sandboxes. Only directories with a sandbox's tag are ever removed.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_system::files;

use super::{LETTERS, LOCK, PREFIX, WORD, lock};

/// Name of the file that identifies a directory as a sandbox.
const TAG: &str = "sandbox.tag";
/// The first bytes of the tag. The path of the sandbox follows, so that a copied or moved folder does not count as a
/// sandbox.
const SIGNATURE: &[u8] = b"This is a sandbox of lasthop, which removes it with everything in it: ";
/// The age from which an unfinished sandbox is abandoned: its creator has died.
const LONG_AGO: Duration = Duration::from_secs(60);

/// A directory of this user that is named like a sandbox.
#[derive(Debug)]
pub(crate) enum Candidate {
    /// A sandbox, dead or alive, with its lock file.
    Sandbox(PathBuf, File),
    /// A sandbox whose creation or removal was cut short. It contains only its lock and its tag.
    Unfinished(PathBuf),
    /// Possibly not a sandbox.
    Doubtful(Doubtful),
}

/// A directory that is named like a sandbox but may be something else. It is left alone.
#[derive(Debug, PartialEq, Eq)]
pub struct Doubtful {
    pub path: PathBuf,
    pub why: String,
}

/// Directories of this user in `parent`, a canonical path, that are named like sandboxes.
pub(crate) fn candidates_in(parent: &Path) -> Vec<Candidate> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter_map(|entry| examine(&entry.path())).collect()
}

/// `None` if the path is not named like a sandbox, is not a directory, belongs to another user, or is just being
/// created.
fn examine(path: &Path) -> Option<Candidate> {
    let name = path.file_name()?.to_str()?;
    let (is_hidden, rest) = match name.strip_prefix('.') {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let word = rest.strip_prefix(PREFIX)?;
    let directory = files::facts(path)
        .ok()
        .filter(|found| found.is_dir() && is_own(found))?;
    let doubtful = |why: &str| {
        Some(Candidate::Doubtful(Doubtful {
            path: path.to_owned(),
            why: why.to_owned(),
        }))
    };
    let is_named = word.len() == WORD && word.bytes().all(|byte| LETTERS.contains(&byte));
    match (is_named, is_hidden) {
        // Probably the user's own folder, such as a copy of lasthop's sources. Reported only if it also has a lock
        // file.
        (false, false) if files::facts(path.join(LOCK)).is_err() => None,
        (false, _) => doubtful("sandboxes do not have such names"),
        // Creating a sandbox takes milliseconds.
        (true, true)
            if directory
                .modified()
                .is_ok_and(|made| made.elapsed().unwrap_or_default() < LONG_AGO) =>
        {
            None
        }
        (true, true) if !holds_only_the_beginning(path, &path.with_file_name(rest)) => {
            doubtful("it contains more than an unfinished sandbox would")
        }
        (true, true) => Some(Candidate::Unfinished(path.to_owned())),
        // Others may at most pass (0711, if servers run as another account): lasthop never lets them read or write.
        (true, false) if directory.mode() & 0o066 != 0 || !is_tagged(path) => {
            doubtful(&format!("its file `{TAG}` is missing or was not written by lasthop"))
        }
        (true, false) => match open_own(&path.join(LOCK)) {
            Ok(file) => Some(Candidate::Sandbox(path.to_owned(), file)),
            Err(_) => doubtful(&format!("its file `{LOCK}` is missing or was not created by lasthop")),
        },
    }
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Opens a file that belongs to this user and that nobody else can open.
fn open_own(path: &Path) -> io::Result<File> {
    let file = files::open(path)?;
    let metadata = files::facts_of(&file)?;
    if is_own(&metadata) && metadata.mode() & 0o7777 == 0o600 {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn tag_of(sandbox: &Path) -> Vec<u8> {
    [SIGNATURE, sandbox.as_os_str().as_bytes(), b"\n"].concat()
}

/// Writes the tag of a sandbox with this path.
pub(super) fn write_tag(directory: &Path, sandbox: &Path) -> io::Result<()> {
    files::create_new_private(&directory.join(TAG))?.write_all(&tag_of(sandbox))
}

/// Reads the tag of this sandbox, and one byte more to detect a longer file.
fn read_tag(file: &Path, sandbox: &Path) -> io::Result<Vec<u8>> {
    files::first(open_own(file)?, tag_of(sandbox).len() as u64 + 1)
}

fn is_tagged(sandbox: &Path) -> bool {
    read_tag(&sandbox.join(TAG), sandbox).is_ok_and(|content| content == tag_of(sandbox))
}

/// Whether a directory holds only an empty, unlocked lock file and the beginning of a sandbox's tag.
fn holds_only_the_beginning(directory: &Path, sandbox: &Path) -> bool {
    let is_beginning = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let path = entry.path();
        Ok::<_, io::Error>(match entry.file_name() {
            name if name == LOCK => {
                let file = open_own(&path)?;
                files::facts_of(&file)?.len() == 0 && lock(&file).is_ok()
            }
            name if name == TAG => tag_of(sandbox).starts_with(&read_tag(&path, sandbox)?),
            _ => false,
        })
    };
    let entries = fs::read_dir(directory);
    entries.is_ok_and(|mut entries| entries.all(|entry| is_beginning(entry).unwrap_or(false)))
}

/// Removes a sandbox whose processes are gone. The lock and the tag go last, so that an interrupted removal leaves a
/// recognisable sandbox.
pub(crate) fn remove(sandbox: &Path) -> io::Result<()> {
    let hidden = match sandbox.file_name() {
        Some(name) => sandbox.with_file_name(OsStr::from_bytes(&[b".", name.as_bytes()].concat())),
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    // From now on no other account enters, which could write as long as files remain.
    let _ = fs::set_permissions(sandbox, fs::Permissions::from_mode(0o700));
    or_gone(empty(sandbox).and_then(|()| fs::rename(sandbox, &hidden)))?;
    // An interrupted start may hold the folder open and make another folder in it, before or after this.
    or_gone(empty(&hidden))?;
    remove_unfinished(&hidden)
}

/// Removes an unfinished sandbox, but no files that were put into it meanwhile.
pub(crate) fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for file in [TAG, LOCK] {
        or_gone(fs::remove_file(directory.join(file)))?;
    }
    or_gone(fs::remove_dir(directory))
}

/// Removes everything except lock and tag. Tries again if files were added meanwhile.
fn empty(sandbox: &Path) -> io::Result<()> {
    remove_content(sandbox).or_else(|_| remove_content(sandbox))
}

fn remove_content(sandbox: &Path) -> io::Result<()> {
    for entry in fs::read_dir(sandbox)? {
        let entry = entry?;
        if [LOCK, TAG].iter().any(|kept| entry.file_name() == *kept) {
            continue;
        }
        or_gone(if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        })?;
    }
    Ok(())
}

fn or_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            Ok(())
        } else {
            Err(error)
        }
    })
}
