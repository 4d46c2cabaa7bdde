//! Writes files that the user names. If other accounts can make entries in their folder, the name may become a link to
//! any file before it is opened, or another account's file.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use crate::{
    files,
    owner::{self, Foreign},
};

/// Bytes at the beginning of a file that show whether lasthop made it.
const HEAD: u64 = 4096;

/// Opens a file for writing. Creates it if it is missing, and otherwise keeps its content. Follows a link only if no
/// other account could have made the link.
pub fn open(path: &Path) -> io::Result<File> {
    let folder = folder_of(path);
    let facts = files::facts_linked(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let Some(shared) = Foreign::of(folder, &facts) else {
        return options.open(path);
    };
    let me = rustix::process::geteuid().as_raw();
    let is_own = |file: &std::fs::Metadata| file.uid() == me && (!file.is_file() || file.nlink() == 1);
    // In a sticky folder nobody else can replace this account's files.
    if owner::is_sticky(&facts) && files::facts(path).is_ok_and(|there| is_own(&there)) {
        return options.open(path);
    }
    let refused = |what: &str| io::Error::other(format!("it is {what}, and {shared}; choose another folder"));
    // Without `NONBLOCK`, opening a pipe would wait for its reader.
    let file = options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => refused("a link"),
            _ => error,
        })?;
    let there = files::facts_of(&file)?;
    if there.is_file() && is_own(&there) {
        Ok(file)
    } else {
        Err(refused("not your own file"))
    }
}

/// Writes a whole file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open(path)?;
    if files::facts_of(&file)?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}

/// Checks that lasthop may write a file with a name of its own choice in a user's folder: it does not exist, or lasthop
/// made it, as `is_made` judges by the first bytes.
///
/// # Errors
///
/// The path is a link, not a file, or not lasthop's.
pub fn may_replace(path: &Path, is_made: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    if path.is_symlink() {
        return Err(io::Error::other(
            "it is a link, which lasthop does not follow; choose another folder",
        ));
    }
    let head = match files::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => files::first(opened?, HEAD)?,
    };
    if is_made(&head) {
        Ok(())
    } else {
        Err(io::Error::other(
            "lasthop did not make the file that is there; choose another folder",
        ))
    }
}

/// Writes a file that [`may_replace`] allows, atomically: a reader never sees a part of it. No link is followed.
pub fn replace(path: &Path, bytes: &[u8], is_made: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    may_replace(path, is_made)?;
    let mut beside = tempfile::Builder::new()
        // The umask applies, as to any new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(path))?;
    beside.write_all(bytes)?;
    beside.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{lchown, symlink},
    };

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_link_counts_only_where_nobody_else_could_have_made_it() {
        let parent = tempdir().unwrap();
        let [folder, victim] = ["folder", "victim"].map(|name| parent.path().join(name));
        fs::create_dir(&folder).unwrap();
        fs::write(&victim, "secret").unwrap();
        let [link, hard, new] = ["link", "hard", "new"].map(|name| folder.join(name));
        symlink(&victim, &link).unwrap();
        fs::hard_link(&victim, &hard).unwrap();
        for (mode, refused) in [(0o755, false), (0o777, true), (0o1777, false)] {
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            fs::write(&victim, "secret").unwrap();
            assert_eq!(write(&link, b"x").is_err(), refused, "{mode:o}");
            assert_eq!(fs::read(&victim).unwrap(), if refused { &b"secret"[..] } else { b"x" });
            assert_eq!(write(&hard, b"x").is_err(), mode != 0o755, "{mode:o}");
            for content in ["long", "new"] {
                write(&new, content.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(&new).unwrap(), content, "{mode:o}");
            }
        }
        // SAFETY: geteuid has no effects and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            lchown(&link, Some(1), Some(1)).unwrap();
            lchown(&new, Some(1), Some(1)).unwrap();
            for path in [&link, &new] {
                // Some kernels refuse that themselves (`fs.protected_regular`).
                assert!(write(path, b"x").is_err(), "{}", path.display());
            }
        }
    }

    #[test]
    fn only_what_lasthop_made_is_replaced() {
        let folder = tempdir().unwrap();
        let [page, own, link] = ["page", "own", "link"].map(|name| folder.path().join(name));
        let put = |path: &Path| replace(path, b"made by x", |head| head.starts_with(b"made by x"));
        put(&page).unwrap();
        put(&page).unwrap();
        fs::write(&own, "my notes").unwrap();
        symlink(&page, &link).unwrap();
        for path in [&own, &link, folder.path()] {
            assert!(put(path).is_err(), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&own).unwrap(), "my notes");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }
}
