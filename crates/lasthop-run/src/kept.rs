//! Stores identical files of a service's servers once. Each server gets a folder of its own, which may hold hundreds of
//! megabytes of libraries. After the server has ended, each file that it left unchanged becomes a hard link to the
//! first copy.
//!
//! Names of this machine and user are then removed too, because records are shared.
//!
//! Running servers share no files: a server that writes to its file would write to those of all.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::{self, DirEntry, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use lasthop_model::binding::{APP, LOG, service_of};
use lasthop_system::{files, names::Names};

/// Bytes of the longest file that is searched for names. Longer files are data.
const LONGEST: u64 = 16 << 20;
/// Temporary name of a link or a new file until it replaces the file.
const NEW: &str = ".lasthop-link";

/// The first copy of each service's application in this run.
#[derive(Debug, Default)]
pub struct Kept(BTreeMap<String, PathBuf>);

impl Kept {
    /// The applications in the folder of a finished round, each after the first copy of its service.
    pub fn copies(&mut self, round: &Path) -> Vec<(PathBuf, PathBuf)> {
        let mut copies = Vec::new();
        for server in folders(round).iter().flat_map(|stack| folders(stack)) {
            let app = server.join(APP);
            let name = server.file_name().unwrap_or_default().to_string_lossy();
            // A server may have replaced its folder by a link.
            if files::facts(&app).is_ok_and(|found| found.is_dir()) {
                let first = self
                    .0
                    .entry(service_of(&name).to_owned())
                    .or_insert_with(|| app.clone());
                copies.push((first.clone(), app));
            }
        }
        copies
    }
}

fn entries(folder: &Path) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(DirEntry::file_name);
    entries
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder)
        .into_iter()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Replaces files below `copy` by hard links to identical files below `first`. Both trees must be at rest.
///
/// # Errors
/// The file system has no hard links, or a folder cannot be changed; files that are not yet links remain copies.
pub fn share(first: &Path, copy: &Path) -> io::Result<()> {
    for entry in entries(copy) {
        let first = first.join(entry.file_name());
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            share(&first, &path)?;
        } else if kind.is_file() && are_alike(&first, &path).unwrap_or(false) {
            // The rename is atomic, so a run that is killed here lacks no file.
            let new = copy.join(NEW);
            fs::hard_link(&first, &new)?;
            fs::rename(&new, &path).inspect_err(|_| drop(fs::remove_file(&new)))?;
        }
    }
    Ok(())
}

/// Removes the user's home folder from the files below a folder of the record, and the host's name from logs. The
/// folder must be at rest. Files that cannot be rewritten stay unchanged.
pub fn hide_names(folder: &Path) {
    for entry in entries(folder) {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => hide_names(&path),
            Ok(kind) if kind.is_file() => drop(hide_names_in(&path)),
            _ => {}
        }
    }
}

fn hide_names_in(path: &Path) -> io::Result<()> {
    let text = files::read(path, LONGEST)?;
    let is_log = path.file_name().is_some_and(|name| name == LOG) || path.extension().is_some_and(|end| end == LOG);
    let names = Names::here();
    let hidden = if is_log {
        names.without_both(&text)
    } else {
        names.without_home(&text)
    };
    if matches!(&hidden, Cow::Borrowed(_)) {
        return Ok(());
    }
    // The compiled form of a script cannot be changed and is not needed.
    if text.contains(&0) {
        return if path.extension().is_some_and(|end| end == "pyc") {
            fs::remove_file(path)
        } else {
            Ok(())
        };
    }
    let new = path.with_file_name(NEW);
    let mode = files::facts(path)?.permissions();
    fs::write(&new, &hidden)?;
    fs::set_permissions(&new, mode)?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Whether two different files have the same content, owner and mode.
fn are_alike(one: &Path, other: &Path) -> io::Result<bool> {
    let [one, other] = [files::open(one)?, files::open(other)?];
    let [its, theirs] = [files::facts_of(&one)?, files::facts_of(&other)?];
    // The device too: a hard link cannot leave its file system.
    let facts = |found: &fs::Metadata| (found.len(), found.mode(), found.uid(), found.gid(), found.dev());
    Ok(its.ino() != theirs.ino() && facts(&its) == facts(&theirs) && have_same_content(one, other)?)
}

fn have_same_content(one: File, other: File) -> io::Result<bool> {
    const PIECE: u64 = 1 << 16;
    loop {
        let [its, theirs] = [files::first(&one, PIECE)?, files::first(&other, PIECE)?];
        if its.is_empty() || its != theirs {
            return Ok(its == theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_unchanged_is_on_disk_once_and_what_a_server_changed_stays_its_own() {
        let services = tempfile::tempdir().unwrap();
        let app = |place: &str| services.path().join(place).join("app");
        for place in ["0/0/web-1", "0/1/web-1", "1/0/web-2", "1/0/other"] {
            fs::create_dir_all(app(place).join("libraries")).unwrap();
            fs::write(app(place).join("libraries/big"), "same").unwrap();
            fs::write(app(place).join("counter"), "0").unwrap();
        }
        fs::write(app("0/1/web-1").join("counter"), "1").unwrap();
        fs::write(app("0/1/web-1").join("new"), "its own").unwrap();
        symlink("/etc/passwd", app("1/0/web-2").join("link")).unwrap();
        let mut kept = Kept::default();
        for round in ["0", "1"] {
            for (first, copy) in kept.copies(&services.path().join(round)) {
                share(&first, &copy).unwrap();
            }
        }
        let inode = |place: &str, file: &str| app(place).join(file).metadata().unwrap().ino();
        let big = ["0/0/web-1", "0/1/web-1", "1/0/web-2", "1/0/other"].map(|place| inode(place, "libraries/big"));
        assert!(big[0] == big[1] && big[0] == big[2] && big[0] != big[3], "{big:?}");
        assert_ne!(inode("0/0/web-1", "counter"), inode("0/1/web-1", "counter"));
        assert_eq!(fs::read_to_string(app("0/1/web-1").join("counter")).unwrap(), "1");
        assert_eq!(fs::read_to_string(app("0/1/web-1").join("new")).unwrap(), "its own");
        assert!(app("1/0/web-2").join("link").is_symlink());
    }
}
