//! Unguessable words.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// 128 random bits as letters: a password that needs no quoting in any shell, file format or database.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|half| char::from(b'a' + half))
        .collect())
}
