//! Readings of the machine during a trial.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Readings for the time from the start to the end of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// Usage by role: the services of the trial's stack, by name. The driver measures its own cost.
    pub roles: IndexMap<String, RoleUsage>,
    pub machine: MachineUsage,
    pub network: NetworkCounters,
    /// The server towards which sockets in `TIME_WAIT` hold the most local ports; `None` if they hold few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ports: Option<Box<HeldPorts>>,
}

impl Observations {
    /// CPU time of all services.
    #[must_use]
    pub fn services_cpu_ns(&self) -> u64 {
        self.roles.values().map(|role| role.cpu_ns).sum()
    }
}

/// Local ports that sockets in `TIME_WAIT` held towards one server at the end of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldPorts {
    /// Services whose network namespace has these sockets; empty for lasthop's or the driver's.
    pub roles: Vec<String>,
    /// Address of the server.
    pub server: String,
    pub held: u64,
    /// Number of ports that the kernel assigns automatically in the sockets' network namespace.
    pub range: u64,
    /// Whether the kernel reuses the ports after a second (`net.ipv4.tcp_tw_reuse`).
    pub reused: bool,
}

/// Usage by the processes of a role, including children that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleUsage {
    /// CPU time in nanoseconds: by the cgroup if the role has its own container, otherwise by its processes.
    pub cpu_ns: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because of preemption.
    pub involuntary_switches: u64,
    /// Run delay: total nanoseconds in which the role's threads were runnable but not running, without threads that
    /// ended during the trial. `None` if the kernel has no scheduler statistics, if no process of the role is alive,
    /// and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Processes alive at the end of the trial.
    pub processes: u32,
    /// Counters of the container's cgroup for all processes in it; `None` without a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupUsage>,
}

/// Usage of the whole machine, summed over all CPUs. The kernel counts in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineUsage {
    /// Monotonic nanoseconds between the two readings.
    pub wall_ns: u64,
    /// CPU time that was neither idle nor stolen.
    pub busy_ns: u64,
    /// CPU time in software interrupts.
    pub softirq_ns: u64,
    /// CPU time that the hypervisor gave to others.
    pub steal_ns: u64,
    /// CPU time of processes other than the driver, the services and lasthop. It may be below 0, because the kernel
    /// samples in ticks and misses short runs between which a CPU idles. With one request under way, the value is too
    /// low by up to a tenth of the machine. Only a sum over many trials of all cases is meaningful. Records of earlier
    /// versions have no values below 0.
    pub foreign_ns: i64,
    /// CPU time of processes other than the driver, the services and lasthop, by the clocks of these processes: exact,
    /// but only for processes that lasthop can see and that existed from before the round until after the trial. 0 in
    /// records of earlier versions.
    #[serde(default, skip_serializing_if = "lasthop_trial::options::is_default")]
    pub others_ns: u64,
}

impl MachineUsage {
    /// CPU time that the hypervisor and other processes took. It may be below 0, like `foreign_ns`.
    #[must_use]
    pub fn taken_ns(&self) -> i64 {
        self.steal_ns.cast_signed() + self.foreign_ns
    }

    /// [`taken_ns`](Self::taken_ns) as a number of CPUs, at least 0.
    #[must_use]
    pub fn taken(&self) -> f64 {
        self.taken_ns().max(0) as f64 / self.wall_ns.max(1) as f64
    }
}

/// Counters of the kernel's network stack, for all sockets in the network namespaces of lasthop, the driver and the
/// services of the trial's stack.
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
    /// Connections that a listener dropped, for a full accept queue or another reason (the kernel's `ListenDrops`).
    #[serde(default)]
    pub listen_drops: u64,
    /// SYNs sent again because they had no reply (the kernel's `TCPSynRetrans`).
    #[serde(default)]
    pub syns_retransmitted: u64,
    /// TCP sockets in `TIME_WAIT` at the end of the trial.
    pub time_wait: u64,
    /// Connections opened from a port that was in `TIME_WAIT` towards the same server (the kernel's `TWRecycled`).
    #[serde(default)]
    pub ports_reused: u64,
}

impl NetworkCounters {
    /// The sum with the counters of another namespace.
    pub fn and(self, other: Self) -> Self {
        Self {
            tcp_opened: self.tcp_opened + other.tcp_opened,
            tcp_accepted: self.tcp_accepted + other.tcp_accepted,
            tcp_segments_sent: self.tcp_segments_sent + other.tcp_segments_sent,
            tcp_retransmitted: self.tcp_retransmitted + other.tcp_retransmitted,
            listen_overflows: self.listen_overflows + other.listen_overflows,
            listen_drops: self.listen_drops + other.listen_drops,
            syns_retransmitted: self.syns_retransmitted + other.syns_retransmitted,
            time_wait: self.time_wait + other.time_wait,
            ports_reused: self.ports_reused + other.ports_reused,
        }
    }
}

/// Usage of a cgroup during a trial, including ended processes, and how often its CPU limit stopped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CgroupUsage {
    /// CPU time of the whole cgroup in nanoseconds, by the cgroup's account.
    pub cpu_ns: u64,
    /// CPU time in nanoseconds by the clocks of the role's processes, for comparison.
    pub by_process_ns: u64,
    /// Periods of the CPU limit in which a process ran; 0 without a limit.
    pub periods: u64,
    /// Periods in which the cgroup used up its share and waited for the next period.
    pub throttled: u64,
    /// Nanoseconds of waiting for the next period, summed over CPUs.
    pub throttled_ns: u64,
}

impl CgroupUsage {
    /// Adds the counters of another cgroup or another trial.
    pub fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.by_process_ns += other.by_process_ns;
        self.periods += other.periods;
        self.throttled += other.throttled;
        self.throttled_ns += other.throttled_ns;
    }
}

/// A service whose consumption is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Number of the role's stack.
    pub stack: usize,
    /// Name of the service.
    pub name: String,
    /// The process that was started; all its descendants count.
    pub pid: i32,
    /// The part of the role's CPU time that is counted by its container's cgroup.
    pub container: InContainer,
}

/// CPU time that the cgroup of a role's first process counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InContainer {
    /// None: the role runs without a container, or in that of another role.
    #[default]
    No,
    /// The role's own CPU time.
    Alone,
    /// The role's CPU time, and that of the roles that it started.
    WithOthers,
}

/// A path in words: `client → published port 127.0.0.1:8000 → docker-proxy (pid 41) → bridge lasthop-x`.
pub fn path(parts: &[String]) -> String {
    std::iter::once("client")
        .chain(parts.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" → ")
}
