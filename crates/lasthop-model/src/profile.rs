//! The profile of a trial: the CPU time of each role by samples, and counts of events.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The profile of one profile trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Monotonic nanoseconds of sampling.
    pub wall_ns: u64,
    /// Nanoseconds between two samples of one CPU.
    pub period_ns: u64,
    /// Samples of all roles together.
    pub samples: u64,
    /// Records that the kernel could not deliver.
    pub lost: u64,
    /// Profiles by role: services by name, the driver as [`DRIVER`], kernel work outside of any process as [`KERNEL`].
    pub roles: IndexMap<String, RoleProfile>,
}

/// The role of the driver.
pub const DRIVER: &str = "driver";

/// The role of kernel work outside of any process: `ksoftirqd`, `kworker`, softirqs on an idle CPU.
pub const KERNEL: &str = "kernel";

/// The profile of one role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleProfile {
    /// CPU time in nanoseconds by the kernel's account for the same time, to compare with the samples; 0 for
    /// [`KERNEL`].
    pub cpu_ns: u64,
    /// CPU time in nanoseconds by samples, by the id of the layer.
    pub layers: BTreeMap<String, u64>,
    /// The largest functions without a layer, with nanoseconds.
    pub unassigned: Vec<(String, u64)>,
    /// The largest stacks, largest first.
    pub stacks: Vec<FoldedStack>,
    /// Nanoseconds in the stacks that `stacks` leaves out.
    pub truncated_ns: u64,
    /// Counts of events by name: `syscalls:read`, `switches`, `wakeups`, `migrations`, `softirq:net-rx`, `page-faults`,
    /// …
    pub counts: BTreeMap<String, u64>,
    /// Times of the role's threads by state; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// The samples of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldedStack {
    /// Functions, outermost first. Foreign text. Copies share the memory.
    pub frames: Arc<[String]>,
    /// Id of the stack's layer; `None` if no layer has it.
    pub layer: Option<String>,
    pub ns: u64,
}

/// Times of a role's threads, summed, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Time on a CPU.
    pub running_ns: u64,
    /// Time runnable, but without a CPU.
    pub runnable_ns: u64,
    /// Time asleep, waiting for something other than a CPU.
    pub sleeping_ns: u64,
}
