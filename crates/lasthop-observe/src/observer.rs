//! Snapshots of all observations, before and after a trial.

use lasthop_model::observation::{InContainer, MachineUsage, Observations, Role};
use lasthop_system::{files, process};

use super::{
    cgroup::{Cgroup, CgroupReading},
    machine::{self, MachineReading},
    namespaces::Namespaces,
    network::NetworkReading,
    procfs::{Consumption, Meter, Usage, cpu_clock},
};

/// Takes the snapshots of one round. The services of a round keep their roles until they end.
#[derive(Debug)]
pub struct Observer {
    meter: Meter,
    /// Cgroups by number of the role.
    cgroups: Vec<Option<Cgroup>>,
    namespaces: Namespaces,
    irq_apart: bool,
    /// Foreign processes at the start of the round.
    others: Vec<i32>,
}

/// All observations at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    usage: Usage,
    /// CPU clocks of foreign processes; `None` for one that has ended.
    others: Vec<Option<u64>>,
    cgroups: Vec<Option<CgroupReading>>,
    machine: MachineReading,
    /// Counters by number of the namespace.
    network: Vec<NetworkReading>,
}

impl Observer {
    /// `roles` are the services of all running stacks. Other descendants of this process (guard, drivers) are lasthop's
    /// own, and count as neither a service nor foreign.
    pub fn new(roles: Vec<Role>) -> Self {
        let cgroups = roles
            .iter()
            .map(|role| Cgroup::of(role.pid).filter(|_| role.container != InContainer::No))
            .collect();
        let namespaces = Namespaces::of(&roles);
        let mut meter = Meter::new(roles);
        // Opens the files of all processes, so that the first real snapshot is as fast as the others.
        meter.read(None);
        Self {
            others: others(&meter),
            meter,
            cgroups,
            namespaces,
            irq_apart: machine::accounts_for_irq(),
        }
    }

    /// Adds the network namespace of a process: a driver's, if not lasthop's own.
    pub fn also_network_of(&mut self, pid: i32) {
        self.namespaces.also(pid);
    }

    /// A snapshot for one stack, which is driven while the others idle.
    pub fn snapshot(&mut self, stack: usize) -> Snapshot {
        let roles = self.meter.roles().iter();
        let cgroups = roles.zip(&self.cgroups).map(|(role, cgroup)| {
            let cgroup = cgroup.as_ref().filter(|_| role.stack == stack);
            cgroup.and_then(Cgroup::read)
        });
        Snapshot {
            cgroups: cgroups.collect(),
            usage: self.meter.read(Some(stack)),
            others: self.others.iter().map(|pid| cpu_clock(*pid)).collect(),
            machine: MachineReading::now(),
            network: self.namespaces.read(stack),
        }
    }

    /// Observations between two snapshots of this stack.
    pub fn between(&self, before: &Snapshot, after: &Snapshot, stack: usize) -> Observations {
        let roles = self.meter.roles();
        let mut consumption = before.usage.until(&after.usage, roles.len());
        add_cgroups(&mut consumption, roles, before, after);
        let others = before.others.iter().zip(&after.others);
        let spent = others.filter_map(|(before, after)| Some((*after)?.saturating_sub((*before)?)));
        Observations {
            roles: consumption.of_stack(roles, stack),
            machine: MachineUsage {
                others_ns: spent.sum(),
                ..before
                    .machine
                    .until(&after.machine, consumption.total_ns(), self.irq_apart)
            },
            network: self.namespaces.between(&before.network, &after.network, stack),
            held_ports: self.namespaces.held(&after.network, stack).map(Box::new),
        }
    }
}

/// Processes that this meter does not read, without kernel threads: these work for other processes, and have no command
/// line.
fn others(meter: &Meter) -> Vec<i32> {
    let has_command = |pid: &i32| files::text(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    let all = process::all().into_iter();
    all.filter(|pid| !meter.reads(*pid) && has_command(pid)).collect()
}

/// Adds the accounts of cgroups. They include ended processes exactly, whose time is otherwise counted in ticks or
/// lost.
fn add_cgroups(consumption: &mut Consumption, roles: &[Role], before: &Snapshot, after: &Snapshot) {
    let readings = before.cgroups.iter().zip(&after.cgroups);
    for ((role, usage), (before, after)) in roles.iter().zip(&mut consumption.roles).zip(readings) {
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let counted = before.until(*after, usage.cpu_ns);
        if role.container == InContainer::Alone {
            usage.cpu_ns = counted.cpu_ns;
        }
        usage.cgroup = Some(counted);
    }
}
