//! Opens files and folders safely, although others may have made them or may change them meanwhile: a server, the maker
//! of a record, another user. A name may become a pipe, a device or a link at any time, and a file may have any length,
//! even in `/proc` (`PR_SET_MM_MAP`). So only regular files are opened, without waiting, no link is followed below a
//! folder, reads are limited, and files are made below an open [`Folder`] and nowhere else. Only a file that the user
//! [named](fn@named) may be a pipe.
//!
//! Also writes files that no other user can read, whatever the mode of their folder.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom, Write as _},
    iter,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::OpenOptionsExt as _},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, openat},
    io::Errno,
};

use crate::interrupt::{self, Waited};

/// A limit for short files, in bytes: certificates, notes of a process, the end of a log.
pub const SHORT: u64 = 1 << 20;
/// The most bytes read from the end of a log.
const END: u64 = 64 * 1024;
/// A limit for files of the kernel and the system, in bytes: the pids of as many processes as Linux can have.
const TEXT: u64 = 32 << 20;
/// The longest line, in bytes.
const LINE: u64 = 64 << 10;
/// The longest single wait for a file that the user named. Another wait follows.
const PATIENCE: Duration = Duration::from_secs(3600);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a file for reading. Links in its folders are followed.
///
/// # Errors
///
/// The file is a link or not regular, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    regular(CWD, path, OFlags::NOFOLLOW, irregular)
}

/// Like [`open`], but follows a link. For paths where nobody else can put a link, or where the link's target does not
/// matter.
pub fn open_linked(path: &Path) -> io::Result<File> {
    regular(CWD, path, OFlags::empty(), irregular)
}

/// Reads a whole file.
///
/// # Errors
///
/// See [`open`]; also if the file is longer than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

/// The text of a small file of the kernel or the system (`/proc`, `/sys`, `/etc`), or in this user's own folder.
/// Invalid UTF-8 is replaced: any process may have such a name.
///
/// # Errors
///
/// See [`open_linked`]; also if the file is longer than 32 MiB.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = whole(open_linked(path.as_ref())?, TEXT)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of a kernel table, one at a time, because there may be any number; none if the file cannot be opened.
/// Invalid UTF-8 is replaced, and a line of more than 64 KiB comes in parts.
pub fn lines(path: impl AsRef<Path>) -> impl Iterator<Item = String> {
    let mut reader = open_linked(path.as_ref()).ok().map(BufReader::new);
    iter::from_fn(move || {
        let mut line = Vec::new();
        reader.as_mut()?.take(LINE).read_until(b'\n', &mut line).ok()?;
        (!line.is_empty()).then(|| {
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            String::from_utf8_lossy(line).into_owned()
        })
    })
}

/// Reads a whole file that the user named, which may be a pipe, a terminal or `/dev/stdin`. Waits for data until an
/// interrupt.
///
/// # Errors
///
/// The file cannot be opened or is longer than `most` bytes, or there was an interrupt.
pub fn named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open_named(path)?, most)
}

/// Like [`named`], to read piece by piece, without a limit.
///
/// # Errors
///
/// The file cannot be opened. Reads fail after an interrupt.
pub fn open_named(path: &Path) -> io::Result<impl Read> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(Patient(openat(CWD, path, flags, Mode::empty())?.into()))
}

/// Waits for the next bytes of a file, or for an interrupt.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if interrupt::wait_for(&self.0, PollFlags::IN, Instant::now() + PATIENCE)? == Waited::Interrupted {
                // Not `ErrorKind::Interrupted`, after which readers try again.
                return Err(io::Error::other("interrupted"));
            }
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// The kind, owner, mode, length and times of a path; of a link itself, not its target.
pub fn facts(path: impl AsRef<Path>) -> io::Result<Metadata> {
    fs::symlink_metadata(path)
}

/// Like [`facts`], of a link's target.
pub fn facts_linked(path: impl AsRef<Path>) -> io::Result<Metadata> {
    fs::metadata(path)
}

/// Like [`facts`], of an open file, which stays the same even if its name is reused.
pub fn facts_of(file: &File) -> io::Result<Metadata> {
    file.metadata()
}

/// Reads at most `most` bytes from the end of a file.
pub fn read_end(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    end(open(path)?, most)
}

/// Opens a file below a folder for reading.
///
/// # Errors
///
/// The file is missing or not regular, or its path contains a link.
pub fn open_below(folder: &Path, below: &Path) -> io::Result<File> {
    Folder::open(folder)?.read(below)
}

/// Reads a whole file below a folder.
///
/// # Errors
///
/// See [`open_below`]; also if the file is longer than `most` bytes.
pub fn read_below(folder: &Path, below: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open_below(folder, below)?, most)
}

/// The names in a folder below a folder.
///
/// # Errors
///
/// The folder is missing or no folder, or its path contains a link.
pub fn names_below(folder: &Path, below: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::new(Folder::open(folder)?.at(below)?.0)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// The error for data longer than `most` bytes.
#[must_use]
pub fn too_long(what: &str, most: u64) -> io::Error {
    let limit = if most < 1 << 20 {
        format!("{} KiB", most >> 10)
    } else {
        format!("{} MiB", most >> 20)
    };
    io::Error::other(format!("{what} is longer than {limit}"))
}

/// Creates or empties a file that nobody else can read, and opens it for writing.
pub fn create_private(path: &Path) -> io::Result<File> {
    private().create(true).truncate(true).open(path)
}

/// Creates a file that nobody else can read, and opens it for writing. Fails if it exists.
pub fn create_new_private(path: &Path) -> io::Result<File> {
    private().create_new(true).open(path)
}

/// Writes a whole file that nobody else can read.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(content)
}

/// Opens the log of a service, whose folder may be mounted in a container, where it could be exchanged.
pub fn log(path: &Path) -> io::Result<File> {
    // The folder two levels up is lasthop's own; a server may own those below.
    let own = path.ancestors().nth(2).ok_or(io::ErrorKind::InvalidInput)?;
    Folder::open(own)?.read(path.strip_prefix(own).unwrap_or(path))
}

/// The end of a service's log, at most 64 KiB; empty if it cannot be read.
pub fn end_of_log(path: &Path) -> String {
    let end = log(path).and_then(|file| end(file, END));
    String::from_utf8_lossy(&end.unwrap_or_default()).into_owned()
}

/// Forces the entries of a folder to disk (fsync(2)).
pub fn sync_folder(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::fsync(Folder::open(path)?.0)?)
}

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder. Links in its path are followed, so nobody else may be able to exchange a part of it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// The folder at a relative path.
    ///
    /// # Errors
    ///
    /// A part of the path is missing or a link, or the path leads out.
    pub fn at(&self, path: &Path) -> io::Result<Self> {
        self.walk(path, None)
    }

    /// Like [`Self::at`]. Makes missing parts with this mode, whatever the umask is, if the file system has modes.
    pub fn make(&self, path: &Path, mode: u32) -> io::Result<Self> {
        self.walk(path, Some(mode))
    }

    /// Opens one part at a time, each without following a link. This refuses the same paths as `openat2` with
    /// `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, even if an old kernel or a sandbox lacks that call.
    fn walk(&self, path: &Path, make: Option<u32>) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(outside()),
            };
            let mut made = false;
            if let Some(mode) = make {
                match rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(mode)) {
                    Err(Errno::EXIST) => {}
                    other => made = other.map(|()| true)?,
                }
            }
            folder = match openat(&folder.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(outside()),
                opened => Self(opened?),
            };
            if let Some(mode) = make.filter(|_| made) {
                // The umask may have removed bits; some file systems have no modes.
                let _ = folder.set_mode(mode);
            }
        }
        Ok(folder)
    }

    /// Creates a file to append to, with this mode, whatever the umask is, if the file system has modes.
    ///
    /// # Errors
    ///
    /// The path exists, folders in it are missing or links, or the file cannot be created.
    pub fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        // `EXCL` also refuses a link at this path, even a dangling one (open(2)).
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (folder, name) = self.last(path)?;
        let mode = Mode::from_raw_mode(mode);
        let file = openat(&folder.0, name, flags, mode)?;
        let _ = rustix::fs::fchmod(&file, mode);
        Ok(file.into())
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// The file is a link or not regular, or a folder in its path is missing or a link.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let (folder, name) = self.last(path)?;
        regular(&folder.0, Path::new(name), OFlags::NOFOLLOW, outside)
    }

    /// Removes a file of this folder. Removes a link, not its target.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Gives a Unix socket a name in this folder, replacing any file of that name, and a mode. The new name leads to
    /// this very socket, even if its first name is reused. Both names must be on one file system.
    ///
    /// # Errors
    ///
    /// There is no socket at the absolute path `socket`, the path contains a link, or the file system has no hard
    /// links.
    pub fn link_socket(&self, socket: &Path, name: &Path, mode: Option<u32>) -> io::Result<()> {
        let below = socket.strip_prefix("/").map_err(|_| outside())?;
        let (folder, file) = Self::open(Path::new("/"))?.last(below)?;
        let found = openat(
            &folder.0,
            file,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) != FileType::Socket {
            return Err(io::Error::other("it is no socket"));
        }
        // The kernel links and changes a file opened with `O_PATH` only by this path (open(2)).
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        if let Some(mode) = mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode))?;
        }
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::NOENT) => {}
            removed => removed?,
        }
        Ok(rustix::fs::linkat(CWD, &path, &self.0, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Gives the folder to a user and a group; `None` leaves that one unchanged.
    pub fn give(&self, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        Ok(rustix::fs::fchown(
            &self.0,
            user.map(Uid::from_raw),
            group.map(Gid::from_raw),
        )?)
    }

    /// A path of the folder for calls that take no descriptor, valid as long as this [`Folder`] lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    fn last<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let name = path.file_name().ok_or_else(outside)?;
        Ok((self.at(path.parent().unwrap_or(Path::new("")))?, name))
    }
}

fn outside() -> io::Error {
    io::Error::other("a part of its path is a link, no folder, or leads out of its folder")
}

fn irregular() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// Opens a regular file. `linked` makes the error for a link that `flags` forbid to follow.
fn regular(folder: impl AsFd, path: &Path, flags: OFlags, linked: fn() -> io::Error) -> io::Result<File> {
    // Without `NONBLOCK`, opening a pipe would wait for a writer. A socket cannot be opened, and a regular file is not
    // affected.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match openat(folder, path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(linked()),
        Err(Errno::NXIO) => return Err(irregular()),
        opened => opened?.into(),
    };
    // Checked on the open file, because its name may be reused by now.
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(irregular())
    }
}

/// Reads to the end.
///
/// # Errors
///
/// There are more than `most` bytes, or a read fails.
pub fn whole(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let bytes = first(from, most.saturating_add(1))?;
    if bytes.len() as u64 > most {
        Err(too_long("it", most))
    } else {
        Ok(bytes)
    }
}

/// Reads at most the first `most` bytes.
pub fn first(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn end(mut file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    // Limited again, because a log may grow during the read.
    first(file, most)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write as _,
        os::unix::{
            fs::{MetadataExt as _, symlink},
            net::{UnixListener, UnixStream},
        },
    };

    use tempfile::{TempDir, tempdir};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    /// A folder with a file, every kind of entry that could replace a file, and paths that lead elsewhere.
    fn folder() -> TempDir {
        let folder = tempdir().unwrap();
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
        drop(UnixListener::bind(inside.join("socket")).unwrap());
        let kind = FileType::Fifo;
        rustix::fs::mknodat(CWD, inside.join("pipe"), kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
        folder
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = folder();
        let inside = folder.path().join("inside");
        assert_eq!(read(&inside.join("deep/file"), 7).unwrap(), b"content");
        for name in ["pipe", "zero", "near", "deep", "socket"] {
            let path = inside.join(name);
            assert_eq!(
                open(&path).unwrap_err().to_string(),
                "it is not a regular file",
                "{name}"
            );
            assert!(read(&path, 9).is_err() && read_end(&path, 9).is_err(), "{name}");
        }
        assert_eq!(open(&inside.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_regular_files_below_the_folder_are_read() {
        let folder = folder();
        let inside = folder.path().join("inside");
        assert_eq!(read_below(&inside, Path::new("deep/file"), 7).unwrap(), b"content");
        for refused in [
            "absolute",
            "up",
            "folder/file",
            "near",
            "magic",
            "magic/x",
            "zero",
            "pipe",
            "socket",
            "deep",
            "../secret",
            "/etc/passwd",
            "deep/../deep/file",
        ] {
            let error = read_below(&inside, Path::new(refused), 1 << 20).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{refused}: {error}");
        }
        let none = open_below(&inside, Path::new("none")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        symlink(&inside, folder.path().join("named")).unwrap();
        assert!(
            open_below(&folder.path().join("named"), Path::new("deep/file")).is_ok(),
            "the user's own link"
        );
        assert_eq!(names_below(&inside, Path::new("deep")).unwrap(), ["file"]);
        assert!(names_below(&inside, Path::new("folder")).is_err() && names_below(&inside, Path::new("pipe")).is_err());
    }

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "begin,end").unwrap();
        assert_eq!(read(&path, 9).unwrap(), b"begin,end");
        assert_eq!(read(&path, 8).unwrap_err().to_string(), "it is longer than 0 KiB");
        assert!(read_below(folder.path(), Path::new("file"), 8).is_err());
        assert_eq!(
            (read_end(&path, 3).unwrap(), read_end(&path, 99).unwrap()),
            (b"end".into(), b"begin,end".into())
        );
    }

    #[test]
    fn tables_have_lines_of_any_bytes_and_length() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("table");
        let long = "x".repeat(LINE as usize + 1);
        fs::write(&path, [b"a \xff\n\n", long.as_bytes(), b"\nend"].concat()).unwrap();
        let found: Vec<String> = lines(&path).collect();
        assert_eq!(found[..2], ["a \u{fffd}", ""]);
        assert_eq!(
            (found[2].len(), &found[3][..], &found[4][..]),
            (LINE as usize, "x", "end")
        );
        assert!(text(&path).unwrap().ends_with("x\nend"));
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!((lines(&link).count(), text(&link).is_ok()), (5, true));
        for name in ["/dev/zero", "/proc/self", "none"] {
            assert!(text(name).is_err() && lines(name).next().is_none(), "{name}");
        }
    }

    #[test]
    fn what_the_user_named_may_be_a_pipe_and_has_a_limit() {
        let folder = folder();
        let pipe = folder.path().join("inside/pipe");
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "what it says").unwrap()
        });
        assert_eq!(named(&pipe, 12).unwrap(), b"what it says");
        writer.join().unwrap();
        assert_eq!(named(&folder.path().join("inside/near"), 7).unwrap(), b"content");
        for (path, cause) in [
            ("/dev/zero", "it is longer than 1 KiB"),
            ("/proc", "Is a directory (os error 21)"),
        ] {
            assert_eq!(named(Path::new(path), 1 << 10).unwrap_err().to_string(), cause);
        }
    }

    #[test]
    fn a_link_is_itself_unless_it_is_followed() {
        let folder = folder();
        let link = folder.path().join("inside/near");
        assert!(facts(&link).unwrap().is_symlink() && facts_linked(&link).unwrap().is_file());
        assert_eq!(facts_of(&open_linked(&link).unwrap()).unwrap().len(), 7);
        assert!(open_linked(&folder.path().join("inside/zero")).is_err());
    }

    #[test]
    fn others_read_nothing() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("note");
        write_private(&path, b"first and long").unwrap();
        write_private(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(mode(&path), 0o600);
        assert!(create_new_private(&path).is_err());
    }

    #[test]
    fn what_is_made_has_its_mode_and_what_is_there_stays() {
        let root = tempdir().unwrap();
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
    fn a_second_name_leads_to_the_socket_whatever_the_first_is_exchanged_for() {
        let [server, own] = [(); 2].map(|()| tempdir().unwrap());
        let server_path = server.path().canonicalize().unwrap();
        let (first, second) = (server_path.join("socket"), own.path().join("socket"));
        let folder = Folder::open(own.path()).unwrap();
        let link = |socket: &Path| folder.link_socket(socket, Path::new("socket"), Some(0o600));
        assert_eq!(link(&first).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&first).unwrap();
        link(&first).unwrap();
        assert_eq!(mode(&first), 0o600);
        fs::remove_file(&first).unwrap();
        let _stranger = UnixListener::bind(&first).unwrap();
        let _client = UnixStream::connect(&second).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok());
        // A later socket replaces the first. Anything else is refused, and nothing changes.
        link(&first).unwrap();
        let _client = UnixStream::connect(&second).unwrap();
        assert!(listener.accept().is_err());
        let away = server_path.join("away");
        fs::rename(&first, &away).unwrap();
        symlink(&away, &first).unwrap();
        symlink(&server_path, own.path().join("way")).unwrap();
        fs::write(server_path.join("file"), "").unwrap();
        for refused in [&first, &own.path().join("way/away"), &server_path.join("file")] {
            assert!(link(refused).is_err(), "{}", refused.display());
        }
        UnixStream::connect(&second).unwrap();
    }

    #[test]
    fn nothing_leads_out() {
        let root = tempdir().unwrap();
        let outside = tempdir().unwrap();
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
