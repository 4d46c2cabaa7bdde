//! SHA-256 of bytes and files.

use std::{
    io::{self, Read as _},
    path::Path,
};

use crate::files;

/// The SHA-256 of some bytes in hexadecimal digits.
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a file's content. Links are followed.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = files::open_linked(path)?;
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hexadecimal(digest.finish().as_ref())),
            Ok(read) => digest.update(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_usual_one() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), abc);
    }
}
