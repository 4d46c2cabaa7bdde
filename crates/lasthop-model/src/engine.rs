//! Container engines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A container engine, by the name of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    Podman,
    Docker,
}

impl EngineKind {
    /// All engines, in the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}
