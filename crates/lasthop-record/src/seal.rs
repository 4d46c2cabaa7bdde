//! Proof that a record was made with this data folder. Records are shared, and one that comes back may name commands.
//! So each file that decides what `lasthop resume` executes has a seal, made with a key that no record holds.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use lasthop_model::record::SEAL;
use lasthop_system::{files, seal::Key};

use super::{store::LONGEST, writer};

/// The files of a record that have a seal.
const SEALED: [&str; 2] = ["run.json", "environment.json"];

/// The longest file of seals, in bytes.
const MOST: u64 = 4 << 10;

/// Seals a file before it is written, so that a run killed in between still has its proof.
pub(super) fn write(key: &Key, record: &Path, file: &str, content: &[u8]) -> io::Result<()> {
    let seal = key.seal(&[name_of(record)?.as_bytes(), file.as_bytes(), content]);
    let mut seals = writer::private().append(true).open(record.join(SEAL))?;
    seals.write_all(format!("{seal}\n").as_bytes())?;
    seals.sync_all()
}

/// The key of a data folder, if it proves that this record was made there and is unchanged.
pub(super) fn made_here(record: &Path, runs: &Path, key: &Path) -> Result<Key, String> {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    let record = whole(record).ok_or("it cannot be found")?;
    if record.parent() != whole(runs).as_deref() {
        return Err(format!("it is not in your own store, {}", runs.display()));
    }
    if let Some(path) = [record.clone(), record.join("run.json")]
        .into_iter()
        .find(may_be_others)
    {
        return Err(format!("others can write to {}", path.display()));
    }
    let proof = Key::of(key).map_err(|error| format!("the key {} cannot be used: {error}", key.display()))?;
    let refused = |file: &str, error: &io::Error| format!("its {file} cannot be read: {error}");
    let seals = match files::read_below(&record, Path::new(SEAL), MOST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NO_SEAL.to_owned()),
        seals => String::from_utf8_lossy(&seals.map_err(|error| refused(SEAL, &error))?).into_owned(),
    };
    let name = name_of(&record).map_err(|error| error.to_string())?;
    for file in SEALED {
        let content = match files::read_below(&record, Path::new(file), LONGEST) {
            // The file was not written yet. Trials without it cannot be continued.
            Err(error) if error.kind() == io::ErrorKind::NotFound && file != SEALED[0] => continue,
            content => content.map_err(|error| refused(file, &error))?,
        };
        let texts = [name.as_bytes(), file.as_bytes(), &content];
        if !seals.lines().any(|seal| proof.fits(&texts, seal)) {
            return Err(format!(
                "its {file} was not written here as it is now, or not under this name"
            ));
        }
    }
    Ok(proof)
}

const NO_SEAL: &str = "it has no seal: it was copied into your store, or made by an older lasthop";

/// Whether another user may have written the file.
fn may_be_others(path: &PathBuf) -> bool {
    let me = rustix::process::geteuid().as_raw();
    files::facts(path).map_or(true, |facts| {
        facts.uid() != me || facts.is_symlink() || facts.permissions().mode() & 0o022 != 0
    })
}

/// The name of a record. Seals hold for one name, so a copy under another name is not this user's run.
fn name_of(record: &Path) -> io::Result<&str> {
    record
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| io::Error::other("its name is not UTF-8"))
}
