//! The one door to files in folders that somebody else may write in, such as those of a server. There a name may become a
//! pipe, a device or a link at any time, and a file may have any length: only regular files are opened, without waiting,
//! and no more of them is read than is asked for.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// A limit for files that are short: certificates, the notes of a process, the end of a log. In bytes.
pub const SHORT: u64 = 1 << 20;

/// Opens a file for reading.
/// Errors: it is a link or no regular file, or the system's own.
pub fn open(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true), path)
}

/// Opens a file for writing at its end, and creates it if it is missing.
/// Errors: it is a link or no regular file, or the system's own.
pub fn append(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().append(true).create(true), path)
}

/// Reads a whole file.
/// Errors: as [`open`], or it is longer than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {most} B"))),
        false => Ok(bytes),
    }
}

/// Reads at most `most` bytes at the end of a file.
/// Errors: as [`open`].
pub fn read_end(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn opened(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let irregular = || io::Error::other("it is not a regular file");
    // A pipe opens at once or not at all, a socket never; regular files do not know the difference.
    let file = options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => irregular(),
        _ => error,
    })?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(irregular())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{fs::symlink, net::UnixListener},
        path::PathBuf,
    };

    use super::*;

    /// Everything that a server could put in the place of a file.
    fn irregular(folder: &Path) -> Vec<PathBuf> {
        let at = |name: &str| folder.join(name);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        fs::write(at("file"), "content").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        drop(UnixListener::bind(at("socket")).unwrap());
        ["pipe", "zero", "link", "folder", "socket"].map(at).into()
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        for path in irregular(folder.path()) {
            assert!(
                open(&path).is_err() && read(&path, 9).is_err() && append(&path).is_err(),
                "{path:?}"
            );
            assert!(read_end(&path, 9).is_err(), "{path:?}");
        }
        for path in ["pipe", "zero", "link"] {
            assert_eq!(
                open(&folder.path().join(path)).unwrap_err().to_string(),
                "it is not a regular file"
            );
        }
        assert_eq!(
            open(&folder.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for part in ["begin,", "end"] {
            io::Write::write_all(&mut append(&path).unwrap(), part.as_bytes()).unwrap();
        }
        assert_eq!(read(&path, 9).unwrap(), b"begin,end");
        assert_eq!(read(&path, 8).unwrap_err().to_string(), "it is longer than 8 B");
        assert_eq!(
            (read_end(&path, 3).unwrap(), read_end(&path, 99).unwrap()),
            (b"end".into(), b"begin,end".into())
        );
    }
}
