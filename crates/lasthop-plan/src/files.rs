//! Folders as they were read.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::Dir;
use lasthop_system::files;

/// Files of a folder, by their path in it.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The most that the files of an experiment may have together, in bytes. All are in memory, more than once.
const LARGEST: u64 = 512 << 20;

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

/// Files that a build or an editor leaves among those of an experiment.
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

pub(super) fn read_folder(folder: &Path) -> Result<Files, String> {
    let base = folder.canonicalize().map_err(|cause| unread(folder, &cause))?;
    let mut found = Vec::new();
    collect_folder(&base, &base, &mut found)?;
    if found.iter().map(|(_, size)| size).sum::<u64>() > LARGEST {
        let (largest, size) = found
            .into_iter()
            .max_by_key(|(_, size)| *size)
            .expect("they have a size");
        return Err(format!(
            "{} has more than {} MiB of files, and an experiment is read as a whole (the largest is {} with {} MiB); move \
             what no server needs out of the folder, or to a name that begins with a dot",
            folder.display(),
            LARGEST >> 20,
            largest.display(),
            size >> 20
        ));
    }
    let read = |(path, _): (PathBuf, u64)| {
        // A link leads to another file of the folder.
        let content = path.canonicalize().and_then(|file| files::read(&file, LARGEST));
        let content = content.map_err(|cause| unread(&path, &cause))?;
        Ok((path.strip_prefix(&base).unwrap_or(&path).to_owned(), content))
    };
    found.into_iter().map(read).collect()
}

/// Its files with their lengths. Links to folders are not followed, because they may form a circle.
fn collect_folder(folder: &Path, base: &Path, found: &mut Vec<(PathBuf, u64)>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|cause| unread(folder, &cause))? {
        let path = entry.map_err(|cause| unread(folder, &cause))?.path();
        if !path.file_name().is_some_and(|name| is_part(&name.to_string_lossy())) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            collect_folder(&path, base, found)?;
        } else if path.is_file() {
            stays_inside(&path, base)?;
            let size = path.metadata().map_err(|cause| unread(&path, &cause))?.len();
            found.push((path, size));
        }
    }
    Ok(())
}

fn stays_inside(path: &Path, base: &Path) -> Result<(), String> {
    let to = path.canonicalize().map_err(|cause| unread(path, &cause))?;
    if to.starts_with(base) {
        return Ok(());
    }
    // Its content would be copied into the record, which may be shared.
    Err(format!(
        "{} is a link to {}, outside its folder; copy the file into the folder instead",
        path.display(),
        to.display()
    ))
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
        // A file of nothing but a hole takes no room on the disk.
        fs::File::create(path("dump")).unwrap().set_len(3 << 30).unwrap();
        let error = read_folder(folder.path()).unwrap_err();
        assert!(
            error.contains("more than 512 MiB") && error.contains("dump with 3072 MiB"),
            "{error}"
        );
        fs::rename(path("dump"), path(".dump")).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap().len(), 1);
    }
}
