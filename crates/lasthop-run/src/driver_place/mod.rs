//! A driver that runs elsewhere: in another network namespace, or on another host.
//!
//! | module | holds |
//! |---|---|
//! | [`namespace`] | a network namespace, found or created, and this machine's address as seen from it |
//! | [`host`] | another host, to which lasthop is copied; its driver speaks the same protocol over ssh |
//!
//! The service under load must then listen on a TCP address that the driver can reach. The services behind it stay
//! unchanged. A Unix socket with a path belongs to the file system and can be reached from every network namespace of
//! the machine; an abstract socket belongs to one network namespace.

pub mod host;
pub mod namespace;

use std::{net::IpAddr, path::Path};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Bindings, service_of},
    container::Network,
    driver::{DriverAt, Remote},
    record,
};
use lasthop_protocol::spec::Spec;
use lasthop_stack::{container::site::Housing, guard::Guard, sandbox::Sandbox};
use lasthop_system::executable::own_executable;
use lasthop_trial::address::Address;

use self::{host::Host, namespace::DriverNamespace};

/// Where the driver runs.
#[derive(Debug)]
pub enum DriverPlace {
    Namespace(DriverNamespace),
    Host(Box<Host>),
}

impl DriverPlace {
    /// Prepares the place for drivers.
    pub fn open(at: &DriverAt, remote: &Remote, guard: &Guard, sandbox: &Sandbox) -> Result<Self, String> {
        let own = own_executable()?;
        Ok(match at {
            DriverAt::NewNamespace => Self::Namespace(DriverNamespace::make(guard, &own, sandbox.path())?),
            DriverAt::Namespace(name) => {
                let file = at.namespace_file().expect("it names a namespace");
                Self::Namespace(DriverNamespace::find(name, &file)?)
            }
            DriverAt::Host(login) => Self::Host(Box::new(Host::open(login, remote, guard, &own, sandbox.path())?)),
        })
    }

    /// The place as the record has it.
    pub fn describe(&self) -> record::DriverPlace {
        match self {
            Self::Namespace(namespace) => record::DriverPlace {
                place: namespace.place.clone(),
                reaches: namespace.reaches(),
            },
            Self::Host(host) => record::DriverPlace {
                place: host.place(),
                reaches: host.reaches(),
            },
        }
    }

    /// The command line that starts a driver in this place; `None` stands for lasthop's own driver.
    pub fn command(&self, own: &str, command: Option<Vec<String>>) -> Result<Vec<String>, String> {
        match self {
            Self::Namespace(_) => Ok(command.unwrap_or_else(|| vec![own.to_owned(), "drive".to_owned()])),
            Self::Host(host) if command.is_none() => host.drive(),
            Self::Host(host) => Err(format!(
                "only lasthop's own driver can run on another host, not `{}`; leave --driver-at out, or use a network \
                 namespace (--driver-at netns:new), to compare them away from {}",
                command.unwrap_or_default().first().map_or("", String::as_str),
                host.name()
            )),
        }
    }

    /// Makes the servers of `target` listen on an address that the driver can reach.
    pub fn make_reachable(
        &self,
        bindings: &mut Bindings,
        target: &str,
        containers: &IndexMap<String, Housing>,
    ) -> Result<(), String> {
        let targets = bindings
            .services
            .iter_mut()
            .filter(|(name, _)| service_of(name) == target);
        for (name, binding) in targets {
            let Some(own) = binding.address.ip() else {
                continue;
            };
            let contained = containers
                .get(name)
                .is_some_and(|housing| housing.container().container.network != Network::Host);
            let reached = self.reached(own)?;
            if contained && reached != own {
                return Err(format!(
                    "the driver is {} and cannot reach container addresses of this machine; choose a case on the \
                 host's network, or leave --driver-at out",
                    self.describe().place
                ));
            }
            binding.offer_at(reached);
        }
        Ok(())
    }

    /// The address at which the driver reaches one of this machine's addresses.
    fn reached(&self, own: IpAddr) -> Result<IpAddr, String> {
        match self {
            Self::Namespace(namespace) => namespace.reached(own),
            Self::Host(host) => host.reached(own),
        }
    }

    /// Why the driver cannot connect to an address; `None` if it probably can.
    pub fn refuses(&self, address: &Address) -> Option<String> {
        let place = || self.describe().place;
        match (self, address) {
            (Self::Namespace(_), Address::Abstract(_)) => Some(format!(
                "abstract socket names belong to a network namespace, and the driver is {}: leave the transport out with \
                 --only, or use a Unix socket with a path",
                place()
            )),
            (Self::Host(host), Address::Unix(_) | Address::Channel(..) | Address::Packets(..))
                if !host.shares_files() =>
            {
                Some(format!(
                    "the driver is {}, but a Unix socket can be reached only from its own machine: leave the transport out with --only",
                    place()
                ))
            }
            (Self::Host(host), Address::Abstract(_)) if !host.shares_network() => Some(format!(
                "the driver is {}, but an abstract socket can be reached only from its own network namespace: leave \
                 the transport out with --only",
                place()
            )),
            _ => None,
        }
    }

    /// The load, with file paths as the driver sees them.
    pub fn localise(&self, spec: &Spec) -> Result<Spec, String> {
        match self {
            Self::Namespace(_) => Ok(spec.clone()),
            Self::Host(host) => host.localise(spec),
        }
    }

    /// File of the driver's network namespace, if it is on this machine and its counters can be read.
    pub fn network(&self) -> Option<&Path> {
        match self {
            Self::Namespace(namespace) => Some(&namespace.file),
            Self::Host(_) => None,
        }
    }

    /// Whether the driver runs on this machine but does not descend from lasthop.
    pub fn is_stranger_here(&self) -> bool {
        matches!(self, Self::Host(host) if host.is_this_machine())
    }

    /// The possible cause if a driver ends unexpectedly, for error messages.
    pub fn explain_end(&self) -> String {
        match self {
            Self::Namespace(_) => String::new(),
            Self::Host(host) => host.explain_end(),
        }
    }
}
