//! Folders as they were read.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Files of a folder, by their path in it.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Whether a relative path stays inside its folder.
pub fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// A file of a folder, by the name that the user knows.
pub(super) fn shown(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}
