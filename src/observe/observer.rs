//! One look at everything, before and after a trial.

use super::{
    Observations,
    machine::MachineReading,
    network::NetworkReading,
    procfs::{Meter, Role, Usage},
};

/// Takes the snapshots of one round. The services of a round keep their roles until they end.
#[derive(Debug)]
pub struct Observer {
    meter: Meter,
    /// A process in another network namespace whose counters belong to the load, too.
    elsewhere: Option<i32>,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    usage: Usage,
    machine: MachineReading,
    network: NetworkReading,
}

impl Observer {
    /// The roles are the services of all stacks that are up. Whatever else descends from this process (guard, drivers)
    /// is lasthop's own, and counts as neither a service nor foreign.
    #[must_use]
    pub fn new(roles: Vec<Role>) -> Self {
        let mut meter = Meter::new(roles);
        // Opens the files of all processes, so that the first real snapshot is as quick as the others.
        meter.read();
        Self { meter, elsewhere: None }
    }

    /// Adds the counters of the network namespace of a process: that of a driver that is not in lasthop's own.
    pub fn also_network_of(&mut self, pid: i32) {
        self.elsewhere = Some(pid);
    }

    pub fn snapshot(&mut self) -> Snapshot {
        Snapshot { usage: self.meter.read(), machine: MachineReading::now(), network: self.network() }
    }

    fn network(&self) -> NetworkReading {
        let here = NetworkReading::now();
        self.elsewhere.map_or(here, |pid| here.and(NetworkReading::of(pid)))
    }

    /// What happened between two snapshots of this observer; roles are those of this stack.
    #[must_use]
    pub fn between(&self, before: &Snapshot, after: &Snapshot, stack: usize) -> Observations {
        let roles = self.meter.roles();
        let consumption = before.usage.until(&after.usage, roles.len());
        Observations {
            roles: consumption.of_stack(roles, stack),
            machine: before.machine.until(&after.machine, consumption.total_ns()),
            network: before.network.until(&after.network),
        }
    }
}
