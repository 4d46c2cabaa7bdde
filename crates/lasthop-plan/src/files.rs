//! Folders as they were read.

use std::{collections::BTreeMap, path::PathBuf};

/// Files of a folder, by their path in it.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A file of a folder, by the name that the user knows.
pub(super) fn shown(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}
