//! Executables: how to find them, and what installs them.

use std::path::PathBuf;

/// The executable of a recipe.
#[derive(Clone, Debug)]
pub struct Program {
    pub kind: ProgramKind,
    /// Arguments that print the version; empty for lasthop itself.
    pub version_arguments: Vec<String>,
    /// Regular expression with one group: the version.
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
    /// Debian package names.
    pub debian: Vec<String>,
    /// Requirements for pip, versions pinned.
    pub python: Vec<String>,
    /// Ruby gems, `name:version`.
    pub gems: Vec<String>,
}
