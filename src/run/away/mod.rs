//! A driver that is not beside the services: in another network namespace, or on another host.
//!
//! | module | holds |
//! |---|---|
//! | `wish` | the words of `--driver-at` |
//! | [`space`] | a network namespace, found or made, and this machine's address as seen from it |
//! | [`host`] | another host: lasthop is copied there, its driver speaks the same lines over ssh |
//!
//! What clients reach over TCP must then listen at an address that the driver reaches; everything behind it stays where it
//! was. Unix sockets with a path belong to the file system and are reached from every network namespace of the machine;
//! abstract ones belong to a network namespace.

pub mod host;
pub mod space;
mod wish;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use indexmap::IndexMap;
use lasthop_load::spec::{Address, Spec};
use serde::{Deserialize, Serialize};

pub use self::wish::{DriverAt, Login, NoPlace};
use self::{
    host::{Host, HostError},
    space::{Space, SpaceError},
};
use crate::{
    experiment::container::Network,
    record::schema::DriverPlace,
    service::{
        bindings::{Bindings, service_of},
        container::site::Housing,
        guard::Guard,
        sandbox::Sandbox,
    },
};

/// What a driver on another host needs beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// `KEY=VALUE`, as ssh's `-o` takes them.
    pub options: Vec<String>,
    /// As ssh's `-F`.
    pub config: Option<PathBuf>,
    /// lasthop on that host, in the place of a copy of this one.
    pub program: Option<String>,
    /// Address of this machine at which services listen for it.
    pub listen: Option<IpAddr>,
}

/// The driver cannot be had where it is wanted.
#[derive(Debug, thiserror::Error)]
pub enum AwayError {
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot find lasthop's own executable: {0}")]
    Executable(String),
}

/// Where the driver is.
#[derive(Debug)]
pub enum Away {
    Space(Space),
    Host(Box<Host>),
}

impl Away {
    /// Makes the place ready for drivers.
    ///
    /// # Errors
    /// [`AwayError`], with what to do.
    pub fn open(wish: &DriverAt, remote: &Remote, guard: &Guard, sandbox: &Sandbox) -> Result<Self, AwayError> {
        let own = super::round::own_executable().map_err(AwayError::Executable)?;
        Ok(match wish {
            DriverAt::NewNamespace => Self::Space(Space::make(guard, own, sandbox.path())?),
            DriverAt::Namespace(name) => {
                let file = wish.namespace_file().expect("it names a namespace");
                Self::Space(Space::find(name, &file, own)?)
            }
            DriverAt::Host(login) => Self::Host(Box::new(Host::open(login, remote, guard, &own, sandbox.path())?)),
        })
    }

    /// For the record.
    #[must_use]
    pub fn describe(&self) -> DriverPlace {
        match self {
            Self::Space(space) => DriverPlace { place: space.place.clone(), reaches: space.reaches() },
            Self::Host(host) => DriverPlace { place: host.place(), reaches: host.reaches() },
        }
    }

    /// The command line that starts a driver there; `None` stands for lasthop's own.
    ///
    /// # Errors
    /// In words, why that driver cannot run there.
    pub fn command(&self, own: &str, command: Option<Vec<String>>) -> Result<Vec<String>, String> {
        match self {
            Self::Space(space) => Ok(space.enter(command.unwrap_or_else(|| vec![own.to_owned(), "drive".to_owned()]))),
            Self::Host(host) if command.is_none() => host.drive(),
            Self::Host(host) => Err(format!(
                "only lasthop's own driver is copied to another host, not `{}`; run it without --driver-at, or in a network \
                 namespace (--driver-at netns:new), to compare them away from {}",
                command.unwrap_or_default().first().map_or("", String::as_str),
                host.name()
            )),
        }
    }

    /// Lets the servers of `target` listen where the driver reaches them.
    ///
    /// # Errors
    /// In words, why it will not reach one.
    pub fn place(
        &self,
        bindings: &mut Bindings,
        target: &str,
        containers: &IndexMap<String, Housing>,
    ) -> Result<(), String> {
        let targets = bindings.services.iter_mut().filter(|(name, _)| service_of(name) == target);
        for (name, binding) in targets {
            let Address::Tcp(address) = &mut binding.address else { continue };
            let contained =
                containers.get(name).is_some_and(|housing| housing.container().container.network != Network::Host);
            let reached = self.reached(address.ip())?;
            if contained && reached != address.ip() {
                return Err(format!(
                    "the driver is {} and reaches no container address of this machine; choose a case on the host's network, \
                     or leave --driver-at out",
                    self.describe().place
                ));
            }
            address.set_ip(reached);
            if let Address::Tcp(listen) = &mut binding.listen
                && listen.ip().is_loopback()
            {
                *listen = SocketAddr::new(reached, listen.port());
            }
        }
        Ok(())
    }

    /// The address in the place of one of this machine's own.
    fn reached(&self, own: IpAddr) -> Result<IpAddr, String> {
        match self {
            Self::Space(space) => space.reached(own),
            Self::Host(host) => host.reached(own),
        }
    }

    /// Why the driver cannot connect to an address; `None` where nothing is known against it.
    #[must_use]
    pub fn refuses(&self, address: &Address) -> Option<String> {
        let place = || self.describe().place;
        match (self, address) {
            (Self::Space(_), Address::Abstract(_)) => Some(format!(
                "abstract socket names belong to a network namespace, and the driver is {}: leave the transport out with \
                 --only, or use a Unix socket with a path",
                place()
            )),
            (Self::Host(host), Address::Unix(_)) if !host.shares_files() => Some(format!(
                "the driver is {} and a Unix socket is reached from its own machine only: leave the transport out with --only",
                place()
            )),
            (Self::Host(host), Address::Abstract(_)) if !host.shares_network() => Some(format!(
                "the driver is {} and an abstract socket is reached from its own network namespace only: leave the transport \
                 out with --only",
                place()
            )),
            _ => None,
        }
    }

    /// The load with paths of files as they are where the driver is.
    ///
    /// # Errors
    /// In words: a file could not be copied.
    pub fn localise(&self, spec: &Spec) -> Result<Spec, String> {
        match self {
            Self::Space(_) => Ok(spec.clone()),
            Self::Host(host) => host.localise(spec),
        }
    }

    /// Whether the driver runs in a network namespace of its own on this machine, whose counters can be read.
    #[must_use]
    pub fn is_space(&self) -> bool {
        matches!(self, Self::Space(_))
    }

    /// Whether the driver uses this machine's CPUs without descending from lasthop.
    #[must_use]
    pub fn is_stranger_here(&self) -> bool {
        matches!(self, Self::Host(host) if host.is_this_machine())
    }

    /// What the end of a driver there may mean.
    #[must_use]
    pub fn explain_end(&self) -> String {
        match self {
            Self::Space(_) => String::new(),
            Self::Host(host) => host.explain_end(),
        }
    }
}
