//! What the machine did during a trial.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Readings between the start and the end of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// By role: the services of the trial's stack, by name. The driver measures its own cost.
    pub roles: IndexMap<String, RoleUsage>,
    pub machine: MachineUsage,
    pub network: NetworkCounters,
    /// Where `TIME_WAIT` holds most local ports; `None` if there are few.
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
    /// Services in whose network namespace they are; none for lasthop's or the driver's.
    pub roles: Vec<String>,
    /// Address of the server.
    pub server: String,
    pub held: u64,
    /// Number of ports that the kernel assigns by itself there.
    pub range: u64,
    /// Whether the kernel reuses them after a second (`net.ipv4.tcp_tw_reuse`).
    pub reused: bool,
}

/// What the processes of one role consumed, including children that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleUsage {
    /// CPU time in nanoseconds: of the cgroup if the role has its own container, otherwise of its processes.
    pub cpu_ns: u64,
    /// Context switches by waiting.
    pub voluntary_switches: u64,
    /// Context switches by preemption.
    pub involuntary_switches: u64,
    /// Run delay: nanoseconds in which its threads were runnable but not running, added up, without threads that ended
    /// during the trial. `None` if the kernel has no scheduler statistics, or if no process of the role is alive. Records of
    /// earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Processes alive at the end of the trial.
    pub processes: u32,
    /// What the cgroup of its container counted for all processes in it; `None` without a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupUsage>,
}

/// The whole machine, added up over all CPUs. The kernel counts in ticks of 10 ms.
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
    /// CPU time of processes that are neither the driver nor a service nor lasthop, or below 0: the kernel samples in
    /// ticks, and misses short runs between which a CPU idles. With one request under way it is up to a tenth of the
    /// machine too low. Only a sum over many trials of all cases means something. Records of earlier versions have none
    /// below 0.
    pub foreign_ns: i64,
    /// The same, by the clocks of the processes: exact, but only of those that lasthop can see, and that were there
    /// before the round and after the trial. 0 in records of earlier versions.
    #[serde(default, skip_serializing_if = "crate::record::is_zero")]
    pub others_ns: u64,
}

impl MachineUsage {
    /// CPU time that the hypervisor and other processes took; it may be below 0, as `foreign_ns` may.
    #[must_use]
    pub fn taken_ns(&self) -> i64 {
        self.steal_ns.cast_signed() + self.foreign_ns
    }

    /// The same in CPUs.
    #[must_use]
    pub fn taken(&self) -> f64 {
        self.taken_ns().max(0) as f64 / self.wall_ns.max(1) as f64
    }
}

/// Counters of the kernel's network stack, for all sockets in the network namespaces of lasthop, the driver, and the
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
    /// SYNs that were sent again, because nobody had answered them (the kernel's `TCPSynRetrans`).
    #[serde(default)]
    pub syns_retransmitted: u64,
    /// TCP sockets in `TIME_WAIT` at the end.
    pub time_wait: u64,
    /// Connections opened from a port that was in `TIME_WAIT` towards the same server (the kernel's `TWRecycled`).
    #[serde(default)]
    pub ports_reused: u64,
}

impl NetworkCounters {
    /// The sum with another namespace.
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

/// What a cgroup consumed during a trial, ended processes included, and how often its limit stopped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CgroupUsage {
    /// CPU time of the whole cgroup in nanoseconds, by its own account.
    pub cpu_ns: u64,
    /// The same by the clocks of the role's processes, for comparison.
    pub by_process_ns: u64,
    /// Periods of the CPU limit that passed while something ran; 0 without a limit.
    pub periods: u64,
    /// Periods in which it had used up its share and had to wait for the next.
    pub throttled: u64,
    /// Nanoseconds that it waited for the next period, its CPUs added up.
    pub throttled_ns: u64,
}

impl CgroupUsage {
    /// Adds what another cgroup, or the same in another trial, counted.
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
    /// Number of its stack.
    pub stack: usize,
    /// Name of the service.
    pub name: String,
    /// The process that was started; all that descend from it count.
    pub pid: i32,
    /// Whose container it runs in.
    pub container: InContainer,
}

/// What the cgroup of a role's first process says of the role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InContainer {
    /// Nothing: it runs without a container, or in that of another role.
    #[default]
    No,
    /// Its CPU time.
    Alone,
    /// That of the roles that it started, too.
    WithOthers,
}

/// `client → published port 127.0.0.1:8000 → docker-proxy (pid 41) → bridge lasthop-x`
pub fn path(parts: &[String]) -> String {
    std::iter::once("client")
        .chain(parts.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" → ")
}
