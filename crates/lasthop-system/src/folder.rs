//! Folders by descriptor. What is made, opened or given away below one is there and nowhere else, whatever links another
//! account puts on the way meanwhile.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use super::regular;
use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid},
    io::Errno,
};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The most that is read from the end of a log, in bytes.
const END: u64 = 64 * 1024;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// A folder by its path. Links in it are followed, so nobody else may be able to exchange a part of it.
    /// Errors: it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, FOLDER, Mode::empty())?))
    }

    /// The folder at a relative path.
    /// Errors: a part of the path is missing, or a link, or leads out.
    pub fn at(&self, path: &Path) -> io::Result<Self> {
        self.walk(path, None)
    }

    /// The same. Parts that are missing are made with this mode, whatever the umask is, if the file system has modes.
    /// Errors: as [`Folder::at`]; or a part cannot be made.
    pub fn make(&self, path: &Path, mode: u32) -> io::Result<Self> {
        self.walk(path, Some(mode))
    }

    fn walk(&self, path: &Path, make: Option<u32>) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let made = match make {
                Some(mode) => made(rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(mode)))?,
                None => false,
            };
            folder = Self(rustix::fs::openat(
                &folder.0,
                name,
                FOLDER | OFlags::NOFOLLOW,
                Mode::empty(),
            )?);
            if let Some(mode) = make.filter(|_| made) {
                // The umask took some of it away; some file systems have none.
                let _ = folder.set_mode(mode);
            }
        }
        Ok(folder)
    }

    /// A new file with this mode, whatever the umask is, if the file system has modes; to append to.
    /// Errors: there is something already, the folders on the way are missing or links, or it cannot be made.
    pub fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (folder, name) = self.last(path)?;
        let mode = Mode::from_raw_mode(mode);
        let file = rustix::fs::openat(&folder.0, name, flags, mode)?;
        let _ = rustix::fs::fchmod(&file, mode);
        Ok(file.into())
    }

    /// A regular file to read.
    /// Errors: as [`regular::open`], or a folder on the way is missing or a link.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let (folder, name) = self.last(path)?;
        regular::open(&folder.path().join(name))
    }

    /// Removes a file of this folder; a link itself, not what it names.
    /// Errors: it cannot be removed.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Errors: this process may not do that.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Gives it to a user and a group; `None` leaves one as it is.
    /// Errors: this process may not do that.
    pub fn give(&self, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        Ok(rustix::fs::fchown(
            &self.0,
            user.map(Uid::from_raw),
            group.map(Gid::from_raw),
        )?)
    }

    /// Its path for calls that take no descriptor, valid as long as this lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    fn last<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a std::ffi::OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.at(path.parent().unwrap_or(Path::new("")))?, name))
    }
}

/// Whether a folder was made, and not there before.
fn made(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Err(Errno::EXIST) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

/// The log of a service: its folder may be mounted in a container, where it could be exchanged.
/// Errors: as [`Folder::read`].
pub fn log(path: &Path) -> io::Result<File> {
    let (folder, name) = log_folder(path)?;
    folder.read(name)
}

/// The end of the log of a service, at most 64 KiB; nothing if it cannot be read.
pub fn end_of_log(path: &Path) -> String {
    let end = log_folder(path).and_then(|(folder, name)| regular::read_end(&folder.path().join(name), END));
    String::from_utf8_lossy(&end.unwrap_or_default()).into_owned()
}

fn log_folder(path: &Path) -> io::Result<(Folder, &Path)> {
    let own = path.ancestors().nth(2).ok_or(io::ErrorKind::InvalidInput)?;
    let (folder, name) = (path.parent().unwrap_or(own), path.file_name().unwrap_or_default());
    Ok((
        Folder::open(own)?.at(folder.strip_prefix(own).unwrap_or(folder))?,
        Path::new(name),
    ))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Read as _, Write as _},
        os::unix::fs::{MetadataExt as _, symlink},
    };

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_has_its_mode_and_what_is_there_stays() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let inner = folder.make(Path::new("a/b"), 0o731).unwrap();
        inner
            .create(Path::new("file"), 0o666)
            .unwrap()
            .write_all(b"new")
            .unwrap();
        let [a, b] = ["a", "a/b"].map(|name| root.path().join(name));
        assert_eq!((mode(&a), mode(&b), mode(&b.join("file"))), (0o731, 0o731, 0o666));
        folder.make(Path::new("a"), 0o700).unwrap();
        assert_eq!(mode(&a), 0o731);
        let again = folder.create(Path::new("a/b/file"), 0o600).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let mut text = String::new();
        folder
            .read(Path::new("a/b/file"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "new");
        assert_eq!(fs::read(folder.path().join("a/b/file")).unwrap(), b"new");
        inner.remove(Path::new("file")).unwrap();
        assert!(!b.join("file").exists());
    }

    #[test]
    fn nothing_leads_out() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "secret").unwrap();
        symlink(outside.path(), root.path().join("folder")).unwrap();
        symlink(outside.path().join("file"), root.path().join("file")).unwrap();
        symlink(outside.path().join("new"), root.path().join("new")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        for way in ["folder", "folder/inner", "..", "/tmp"] {
            assert!(
                folder.at(Path::new(way)).is_err() && folder.make(Path::new(way), 0o755).is_err(),
                "{way}"
            );
        }
        for way in ["folder/new", "new", "file", "../file"] {
            assert!(folder.create(Path::new(way), 0o600).is_err(), "{way}");
        }
        for way in ["folder/file", "file", "../file"] {
            assert!(folder.read(Path::new(way)).is_err(), "{way}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(end_of_log(&root.path().join("folder/file")), "");
        assert_eq!(end_of_log(&outside.path().join("file")), "secret");
    }
}
