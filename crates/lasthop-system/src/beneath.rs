//! Files in a folder that somebody else may have filled. No link is followed, nothing but regular files is read, nothing
//! is waited for, and what is read has a limit.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::ffi::OsStringExt as _},
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

/// Opens a file below a folder for reading.
/// Errors: it is missing, no regular file, or a link is on the way to it.
pub fn open(folder: &Path, below: &Path) -> io::Result<File> {
    let file = File::from(descriptor(
        folder,
        below,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
    )?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Reads a file below a folder that has at most so many bytes.
/// Errors: as [`open`], or it is longer.
pub fn read(folder: &Path, below: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(folder, below)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        Err(too_long("it", most))
    } else {
        Ok(bytes)
    }
}

/// Says that something is longer than a limit of so many bytes.
#[must_use]
pub fn too_long(what: &str, most: u64) -> io::Error {
    let limit = if most < 1 << 20 {
        format!("{} KiB", most >> 10)
    } else {
        format!("{} MiB", most >> 20)
    };
    io::Error::other(format!("{what} is longer than {limit}, the limit for records"))
}

/// The names in a folder below a folder.
/// Errors: it is missing, no folder, or a link is on the way to it.
pub fn names(folder: &Path, below: &Path) -> io::Result<Vec<OsString>> {
    let entries = Dir::read_from(descriptor(folder, below, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    let name = |entry: rustix::io::Result<rustix::fs::DirEntry>| Ok(entry?.file_name().to_bytes().to_vec());
    let names: io::Result<Vec<Vec<u8>>> = entries.map(name).collect();
    Ok(names?
        .into_iter()
        .filter(|name| name != b"." && name != b"..")
        .map(OsString::from_vec)
        .collect())
}

fn descriptor(folder: &Path, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // The folder was named by the user, who may use links.
    let folder = openat(
        CWD,
        folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    if below
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Err(outside());
    }
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(&folder, below, flags, Mode::empty(), resolve) {
        // An old kernel or an old sandbox lacks it; beside renames it gives up.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk(folder, below, flags),
        opened => opened,
    };
    opened.map_err(|error| {
        if matches!(error, Errno::LOOP | Errno::XDEV) {
            outside()
        } else {
            error.into()
        }
    })
}

/// Does the same one part at a time.
fn walk(folder: OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut at = folder;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let own = if parts.peek().is_some() {
            OFlags::PATH | OFlags::DIRECTORY
        } else {
            flags
        };
        at = openat(
            &at,
            Path::new(part.as_os_str()),
            own | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|error| if error == Errno::NOTDIR { Errno::LOOP } else { error })?;
    }
    Ok(at)
}

fn outside() -> io::Error {
    io::Error::other("a part of its path is a link, and records have none")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;

    /// A file in a folder, and ways that lead to it or elsewhere.
    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::write(inside.join("deep/file"), "content").unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        symlink("/etc/passwd", inside.join("absolute")).unwrap();
        symlink("../secret", inside.join("up")).unwrap();
        symlink("deep", inside.join("folder")).unwrap();
        symlink("deep/file", inside.join("near")).unwrap();
        symlink("/proc/self/cwd", inside.join("magic")).unwrap();
        symlink("/dev/zero", inside.join("zero")).unwrap();
        rustix::fs::mknodat(
            CWD,
            inside.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        folder
    }

    const REFUSED: [&str; 12] = [
        "absolute",
        "up",
        "folder/file",
        "near",
        "magic",
        "magic/x",
        "zero",
        "pipe",
        "deep",
        "../secret",
        "/etc/passwd",
        "deep/../deep/file",
    ];

    #[test]
    fn only_regular_files_below_the_folder_are_read() {
        let folder = folder();
        let inside = folder.path().join("inside");
        assert_eq!(read(&inside, Path::new("deep/file"), 7).unwrap(), b"content");
        assert!(
            read(&inside, Path::new("deep/file"), 6)
                .unwrap_err()
                .to_string()
                .contains("longer than 0 KiB")
        );
        for refused in REFUSED {
            let error = read(&inside, Path::new(refused), 1 << 20).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{refused}: {error}");
        }
        assert_eq!(
            open(&inside, Path::new("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        symlink(&inside, folder.path().join("named")).unwrap();
        assert!(
            open(&folder.path().join("named"), Path::new("deep/file")).is_ok(),
            "the user's own link"
        );
        assert_eq!(names(&inside, Path::new("deep")).unwrap(), ["file"]);
        assert!(names(&inside, Path::new("folder")).is_err() && names(&inside, Path::new("pipe")).is_err());
    }

    #[test]
    fn one_part_at_a_time_gives_the_same() {
        let folder = folder();
        let inside = folder.path().join("inside");
        let walked = |below: &str| {
            let start = openat(CWD, &inside, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            walk(start, Path::new(below), OFlags::RDONLY | OFlags::NONBLOCK)
        };
        let mut content = String::new();
        File::from(walked("deep/file").unwrap())
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, "content");
        for link in ["absolute", "up", "folder/file", "near", "magic", "magic/x", "zero"] {
            assert_eq!(walked(link).unwrap_err(), Errno::LOOP, "{link}");
        }
        assert_eq!(walked("none").unwrap_err(), Errno::NOENT);
    }
}
