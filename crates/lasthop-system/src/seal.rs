//! A secret key in a file, and seals (HMAC-SHA-256) that prove to its owner what was written with it.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use super::{digest, files};

/// Bytes of a key.
const LENGTH: usize = 32;

/// A key that only this user has.
pub struct Key(hmac::Key);

impl Key {
    /// Reads the key in a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = files::open(path)?;
        let facts = files::facts_of(&file)?;
        if facts.len() != LENGTH as u64 {
            return Err(io::Error::other("it is not a key"));
        }
        if facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o077 != 0 {
            return Err(io::Error::other("it is not yours alone"));
        }
        let mut bytes = [0; LENGTH];
        file.read_exact(&mut bytes)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Reads the key in a file, which is made if missing. Processes that do so at once get the same key.
    pub fn of_or_new(path: &Path) -> io::Result<Self> {
        match Self::of(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)?,
            found => return found,
        }
        Self::of(path)
    }

    /// The seal of some texts, in hexadecimal digits.
    #[must_use]
    pub fn seal(&self, texts: &[&[u8]]) -> String {
        digest::hexadecimal(hmac::sign(&self.0, &joined(texts)).as_ref())
    }

    /// Whether a seal is that of these texts.
    #[must_use]
    pub fn fits(&self, texts: &[&[u8]], seal: &str) -> bool {
        // `verify` compares bytes in constant time, unlike a comparison of texts.
        let bytes: Option<Vec<u8>> = (0..seal.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(seal.get(at..at + 2)?, 16).ok())
            .collect();
        bytes.is_some_and(|bytes| hmac::verify(&self.0, &joined(texts), &bytes).is_ok())
    }
}

/// The texts with their lengths, so that no two lists become the same bytes.
fn joined(texts: &[&[u8]]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| [&(text.len() as u64).to_le_bytes()[..], *text].concat())
        .collect()
}

/// Makes a key atomically: a reader never sees a part of it.
fn make(path: &Path) -> io::Result<()> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    // Readable by its owner alone.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(&bytes)?;
    // On disk before it has its name: after a crash, an empty key would make every record foreign.
    file.as_file().sync_all()?;
    // The first process has made the key; a second key would break its seals.
    match file.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => Err(failed.error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
        thread,
    };

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_seal_fits_what_was_sealed_and_nothing_else() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        let key = Key::of_or_new(&path).unwrap();
        let seal = key.seal(&[b"run", b"content"]);
        assert!(key.fits(&[b"run", b"content"], &seal) && Key::of(&path).unwrap().fits(&[b"run", b"content"], &seal));
        for other in [
            &[&b"run"[..], b"contents"][..],
            &[b"ru", b"ncontent"],
            &[b"runcontent"],
            &[],
        ] {
            assert!(!key.fits(other, &seal), "{other:?}");
        }
        for other in [
            "",
            "00",
            &seal[2..],
            &format!("{seal}00"),
            &"é".repeat(32),
            &"g".repeat(64),
        ] {
            assert!(!key.fits(&[b"run", b"content"], other), "{other}");
        }
        fs::remove_file(&path).unwrap();
        assert!(
            !Key::of_or_new(&path).unwrap().fits(&[b"run", b"content"], &seal),
            "another key"
        );
    }

    #[test]
    fn a_key_is_its_owners_alone_and_made_once() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("key");
        assert_eq!(Key::of(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
        let make = || Key::of_or_new(&path).unwrap().seal(&[b"x"]);
        let seals: Vec<String> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(seals.iter().all(|seal| *seal == seals[0]), "{seals:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");

        let refused = |path: &Path| Key::of_or_new(path).err().unwrap().to_string();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(refused(&path).contains("not yours alone"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(Key::of_or_new(&folder.path().join("link")).is_err());
        fs::write(folder.path().join("short"), "short").unwrap();
        assert!(refused(&folder.path().join("short")).contains("not a key"));
    }
}
