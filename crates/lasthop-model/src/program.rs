//! Executables: how to find them, and what installs them.

use std::{collections::BTreeMap, path::PathBuf};

/// The executable of a recipe.
#[derive(Clone, Debug)]
pub struct Program {
    pub kind: ProgramKind,
    /// Arguments that print the version; empty for lasthop itself.
    pub version_arguments: Vec<String>,
    /// Regular expression with one group: the version. Empty if nobody knows how to ask for it.
    pub version_pattern: String,
    /// The lowest version that works, if that is known.
    pub minimum: Option<String>,
    pub packages: Packages,
    /// How to get it if no package manager has it.
    pub obtain: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// lasthop's own executable.
    Lasthop,
    /// The first of `names` found in lasthop's own environments, on `PATH`, or in `folders`.
    Named { names: Vec<String>, folders: Vec<PathBuf> },
}

/// What package managers install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Names of the system's packages, by the package managers that know them.
    pub system: BTreeMap<String, Vec<String>>,
    /// Requirements for pip, versions pinned.
    pub python: Vec<String>,
    /// Ruby gems, `name:version`.
    pub gems: Vec<String>,
}

impl Packages {
    /// Names for this package manager; none if there is none.
    pub fn of(&self, manager: &str) -> &[String] {
        self.system.get(manager).map_or(&[], Vec::as_slice)
    }

    /// Whether no package is named at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.python.is_empty() && self.gems.is_empty()
    }
}
