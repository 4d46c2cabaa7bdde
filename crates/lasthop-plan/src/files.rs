//! Files of a folder, in memory.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use include_dir::Dir;
use lasthop_system::{
    bounded,
    files::{self, Folder},
};

/// Files of a folder, by path.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The most bytes for all files of an experiment, which are in memory more than once.
const LARGEST: u64 = 512 << 20;
/// The most bytes for the file of an experiment or a recipe, and for a template.
pub(super) const LONGEST_TEXT: u64 = 256 << 10;

/// The file that makes a folder an experiment.
pub(crate) const EXPERIMENT_FILE: &str = "experiment.toml";
/// The file that makes a folder a recipe.
pub(crate) const RECIPE_FILE: &str = "recipe.toml";

/// Limits on planning an experiment, in bytes besides its files and in time. Usual experiments take some MB and some
/// milliseconds.
const MEMORY: u64 = 1 << 30;
const TIME: Duration = Duration::from_secs(30);

/// Runs work whose length an experiment decides, such as rendering its templates. Beyond the limit of memory or time,
/// this process ends with a message.
pub(super) fn bounded<T>(experiment: &str, size: usize, work: impl FnOnce() -> T) -> T {
    let what = format!("planning `{}`", experiment.escape_debug());
    let advice = "shorten its templates, or give its factors fewer levels";
    bounded::bounded(&what, advice, MEMORY + 4 * size as u64, TIME, work)
}

/// Total bytes of files.
pub(super) fn size(files: &Files) -> usize {
    files.values().map(Vec::len).sum()
}

/// A file of a folder, by the name that the user knows.
pub(super) fn shown(folder: &str, file: &str) -> String {
    if folder.is_empty() {
        file.to_owned()
    } else {
        format!("{folder}/{file}")
    }
}

pub(super) fn unread(path: &Path, cause: &io::Error) -> String {
    format!("cannot read {}: {cause}", path.display())
}

/// Whether a file is part of an experiment, rather than left by a build or an editor.
fn is_part(name: &str) -> bool {
    !name.starts_with('.') && name != "__pycache__" && !name.ends_with('~')
}

pub(super) fn embedded(root: &'static Dir<'static>, name: &str, file: &str) -> Option<Files> {
    let folder = root.get_dir(name).filter(|folder| folder.path() == Path::new(name))?;
    folder.get_file(Path::new(name).join(file))?;
    let mut files = BTreeMap::new();
    collect_embedded(folder, folder.path(), &mut files);
    Some(files)
}

fn collect_embedded(folder: &Dir<'static>, base: &Path, files: &mut Files) {
    let part = |path: &Path| path.file_name().is_some_and(|name| is_part(&name.to_string_lossy()));
    for file in folder.files().filter(|file| part(file.path())) {
        let path = file.path().strip_prefix(base).unwrap_or(file.path());
        files.insert(path.to_owned(), file.contents().to_vec());
    }
    folder
        .dirs()
        .filter(|dir| part(dir.path()))
        .for_each(|dir| collect_embedded(dir, base, files));
}

/// A file of a folder, found but not yet read.
struct Found {
    name: PathBuf,
    /// The path of the content: for a link, another file of the folder.
    source: PathBuf,
    size: u64,
}

/// Reads the files of a folder. Each is read once, by a path without links below the folder, so that nothing outside is
/// read even if files are exchanged meanwhile.
pub(super) fn read_folder(folder: &Path) -> Result<Files, String> {
    let base = folder.canonicalize().map_err(|cause| unread(folder, &cause))?;
    let root = Folder::open(&base).map_err(|cause| unread(folder, &cause))?;
    let mut found = Vec::new();
    collect_folder(&root, Path::new(""), &base, &mut found)?;
    if found.iter().map(|file| file.size).sum::<u64>() > LARGEST {
        let largest = found.into_iter().max_by_key(|file| file.size);
        let Found { name, size, .. } = largest.expect("they have a size");
        return Err(format!(
            "{} has more than {} MiB of files, and an experiment is read as a whole (the largest is {} with {} MiB); move \
             what no server needs out of the folder, or to a name that begins with a dot",
            folder.display(),
            LARGEST >> 20,
            base.join(name).display(),
            size >> 20
        ));
    }
    let mut room = LARGEST;
    let mut read = |Found { name, source, .. }: Found| {
        let describes = [EXPERIMENT_FILE, RECIPE_FILE].iter().any(|file| name.ends_with(file));
        let most = if describes { LONGEST_TEXT } else { room };
        let content = root.read(&source).and_then(|file| files::whole(file, most));
        let content = content.map_err(|cause| unread(&base.join(&name), &cause))?;
        room -= content.len() as u64;
        Ok((name, content))
    };
    found.into_iter().map(&mut read).collect()
}

/// Finds the files of a folder. Links to folders are not followed, because they may form a circle.
fn collect_folder(root: &Folder, below: &Path, base: &Path, found: &mut Vec<Found>) -> Result<(), String> {
    let unlisted = |cause: io::Error| unread(&base.join(below), &cause);
    let folder = root.at(below).map_err(unlisted)?;
    for entry in fs::read_dir(folder.path()).map_err(unlisted)? {
        let entry = entry.map_err(unlisted)?;
        if !is_part(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let name = below.join(entry.file_name());
        let path = base.join(&name);
        let unseen = |cause| unread(&path, &cause);
        let kind = entry.file_type().map_err(unseen)?;
        if kind.is_dir() {
            collect_folder(root, &name, base, found)?;
        } else if kind.is_file() {
            let size = files::facts(entry.path()).map_err(unseen)?.len();
            found.push(Found {
                source: name.clone(),
                name,
                size,
            });
        } else if kind.is_symlink() && path.is_file() {
            let to = path.canonicalize().map_err(unseen)?;
            let source = inside(&path, &to, base)?;
            let size = files::facts_linked(&to).map_err(unseen)?.len();
            found.push(Found { name, source, size });
        }
    }
    Ok(())
}

/// The path in the folder that a link leads to.
fn inside(path: &Path, to: &Path, base: &Path) -> Result<PathBuf, String> {
    // A file outside would be copied into the record, which may be shared.
    to.strip_prefix(base).map(Path::to_owned).map_err(|_| {
        format!(
            "{} is a link to {}, outside its folder; copy the file into the folder instead",
            path.display(),
            to.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_out_of_the_folder_is_refused_by_name() {
        let folder = tempfile::TempDir::new().unwrap();
        let inside = folder.path().join("experiment");
        let outside = folder.path().join("secret");
        fs::create_dir_all(inside.join("app")).unwrap();
        fs::write(inside.join("experiment.toml"), "").unwrap();
        fs::write(&outside, "root:x").unwrap();
        let link = |to: &str| {
            let _ = fs::remove_file(inside.join("app/x"));
            std::os::unix::fs::symlink(to, inside.join("app/x")).unwrap();
            read_folder(&inside)
        };
        assert_eq!(
            link("../experiment.toml").unwrap().len(),
            2,
            "within it a link is a file like any other"
        );
        for to in ["../../secret", outside.to_str().unwrap()] {
            let error = link(to).unwrap_err();
            assert!(
                error.contains("app/x is a link to ") && error.contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_folder_that_is_too_large_is_refused_before_it_is_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("experiment.toml"), "").unwrap();
        // A sparse file takes no space on the disk.
        fs::File::create(path("dump")).unwrap().set_len(3 << 30).unwrap();
        let error = read_folder(folder.path()).unwrap_err();
        assert!(
            error.contains("more than 512 MiB") && error.contains("dump with 3072 MiB"),
            "{error}"
        );
        fs::rename(path("dump"), path("experiment.toml")).unwrap();
        fs::File::options()
            .write(true)
            .open(path("experiment.toml"))
            .unwrap()
            .set_len(300_000)
            .unwrap();
        let error = read_folder(folder.path()).unwrap_err();
        assert!(error.ends_with("experiment.toml: it is longer than 256 KiB"), "{error}");
        fs::write(path("experiment.toml"), "").unwrap();
        fs::File::create(path("dump")).unwrap().set_len(3 << 30).unwrap();
        fs::rename(path("dump"), path(".dump")).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap().len(), 1);
    }
}
