//! What a profile trial saw: where the CPU time of each role went, by samples, and how often what happened.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// What was seen in one profile trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Monotonic nanoseconds for which samples were taken.
    pub wall_ns: u64,
    /// Nanoseconds between two samples of one CPU.
    pub period_ns: u64,
    /// Samples of all roles.
    pub samples: u64,
    /// Records that the kernel could not hand over.
    pub lost: u64,
    /// By role: services by name, the driver as [`DRIVER`], what the kernel did in nobody's context as [`KERNEL`].
    pub roles: IndexMap<String, RoleProfile>,
}

/// The role of who drives.
pub const DRIVER: &str = "driver";

/// The role of kernel work in nobody's context: `ksoftirqd`, `kworker`, softirqs while a CPU is idle.
pub const KERNEL: &str = "kernel";

/// One role of a profile trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleProfile {
    /// CPU time by the kernel's own account in the same window, to hold the samples against; 0 for [`KERNEL`].
    pub cpu_ns: u64,
    /// CPU time in nanoseconds by samples, by id of the layer.
    pub layers: BTreeMap<String, u64>,
    /// The largest functions that no layer has, with nanoseconds.
    pub unassigned: Vec<(String, u64)>,
    /// The largest stacks, largest first.
    pub stacks: Vec<FoldedStack>,
    /// Nanoseconds of all other stacks.
    pub truncated_ns: u64,
    /// By name: `syscalls:read`, `switches`, `wakeups`, `migrations`, `softirq:net-rx`, `page-faults`, …
    pub counts: BTreeMap<String, u64>,
    /// `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// Samples with the same stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldedStack {
    pub frames: Frames,
    /// Id of its layer; `None` if none has it.
    pub layer: Option<String>,
    pub ns: u64,
}

/// Functions, the outermost first. Foreign text. Copies share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Frames(Arc<[String]>);

impl From<Vec<String>> for Frames {
    fn from(frames: Vec<String>) -> Self {
        Self(frames.into())
    }
}

impl From<Frames> for Vec<String> {
    fn from(frames: Frames) -> Self {
        frames.0.to_vec()
    }
}

impl Deref for Frames {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

/// The time of a role's threads, added up, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// On a CPU.
    pub running_ns: u64,
    /// Runnable, but without a CPU.
    pub runnable_ns: u64,
    /// Waiting for something else.
    pub sleeping_ns: u64,
}
