//! OBSERVE: what the machine did during a trial, and what machine it is.

pub mod cgroup;
pub mod doctor;
pub mod environment;
pub mod facts;
pub mod machine;
pub mod namespaces;
pub mod nat;
pub mod network;
pub mod observer;
pub mod path;
pub mod procfs;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Readings between the start and the end of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// By role: the services of the trial's stack by name. The driver counts its own cost.
    pub roles: IndexMap<String, RoleUsage>,
    pub machine: MachineUsage,
    pub network: NetworkCounters,
    /// Where most local ports are held by `TIME_WAIT`; `None` where it is few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ports: Option<HeldPorts>,
}

/// Local ports that sockets in `TIME_WAIT` held towards one server at the end of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldPorts {
    /// Services in whose network namespace it is; none in lasthop's or the driver's.
    pub roles: Vec<String>,
    /// Address of the server.
    pub server: String,
    pub held: u64,
    /// Ports that the kernel gives out by itself there.
    pub range: u64,
    /// Whether they serve again after a second (`net.ipv4.tcp_tw_reuse`).
    pub reused: bool,
}

/// What the processes of one role consumed, children included, ended ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleUsage {
    /// CPU time in nanoseconds: of the cgroup where the role has a container to itself, otherwise of its processes.
    pub cpu_ns: u64,
    /// Context switches by waiting.
    pub voluntary_switches: u64,
    /// Context switches by preemption.
    pub involuntary_switches: u64,
    /// Run delay: nanoseconds in which its threads were ready to run and had no CPU, added up; without threads that ended
    /// during the trial. `None` where nobody counts it: a kernel without scheduler statistics, or a role of which nothing
    /// lives; records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Processes alive at the end of the trial.
    pub processes: u32,
    /// What the cgroup of its container counted, all processes in it; `None` without a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<cgroup::CgroupUsage>,
}

/// The whole machine, all CPUs added up. The kernel counts these in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineUsage {
    /// Monotonic nanoseconds between the readings.
    pub wall_ns: u64,
    /// CPU time spent on anything: neither idle nor stolen.
    pub busy_ns: u64,
    /// CPU time in software interrupts.
    pub softirq_ns: u64,
    /// CPU time that the hypervisor gave to others.
    pub steal_ns: u64,
    /// CPU time of processes that are neither the driver nor a service nor lasthop.
    pub foreign_ns: u64,
}

/// Counters of the kernel's network stack: all sockets of the network namespaces of lasthop, the driver, and the services of
/// the trial's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkCounters {
    /// TCP connections opened by `connect`.
    pub tcp_opened: u64,
    /// TCP connections that reached an accept queue.
    pub tcp_accepted: u64,
    pub tcp_segments_sent: u64,
    pub tcp_retransmitted: u64,
    /// Connections that found an accept queue full.
    pub listen_overflows: u64,
    /// TCP sockets in `TIME_WAIT` at the end.
    pub time_wait: u64,
    /// Connections opened from a port that was in `TIME_WAIT` towards the same server (the kernel's `TWRecycled`).
    #[serde(default)]
    pub ports_reused: u64,
}
