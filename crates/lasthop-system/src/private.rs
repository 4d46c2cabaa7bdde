//! Files that no other user can read, whatever the mode of their folder.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a file for writing, empty.
/// Errors: when it cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Opens a file for writing that was not there.
/// Errors: when it is there, or cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)
}

/// Writes a whole file.
/// Errors: when it cannot be created or written.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create(path)?.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn others_read_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        write(&path, b"first and long").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
