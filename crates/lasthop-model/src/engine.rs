//! Container engines, and how their images are made.

use serde::{Deserialize, Serialize};

/// A container engine, by the name of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    Podman,
    Docker,
}

impl EngineKind {
    /// In the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// How images are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Images {
    /// From the experiment's Containerfile, or from this machine's packages if its base image cannot be pulled
    #[default]
    Auto,
    /// Only from the experiment's Containerfile
    Containerfile,
    /// From this machine's Debian packages, without a registry
    Packages,
}
