//! A network namespace for the driver, found or created.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{IpAddr, TcpListener},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_model::driver::NAMESPACES;
use lasthop_trial::address::Address;

use lasthop_stack::{guard::Guard, namespace::Namespace};
use lasthop_system::{
    connect,
    facts::Facts,
    files,
    namespace::{go_into, own_addresses},
};

/// The longest time to connect from inside the namespace to one address.
const REACH: Duration = Duration::from_secs(2);

/// A namespace that the driver enters.
#[derive(Debug)]
pub struct DriverNamespace {
    /// The namespace, in words.
    pub place: String,
    /// The file that opens the namespace.
    pub file: PathBuf,
    /// The addresses at which the driver reaches this machine.
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
    /// The namespace, if lasthop created it: kept until the run ends.
    _made: Option<Namespace>,
}

impl DriverNamespace {
    /// Creates a namespace for the run.
    pub fn make(guard: &Guard, lasthop: &str, sandbox: &Path) -> Result<Self, String> {
        let made = Namespace::make(guard, lasthop, sandbox)
            .map_err(|error| format!("cannot create a network namespace for the driver: {error}"))?;
        let place = "in a network namespace that lasthop created".to_owned();
        let v4 = Some(made.outside.into());
        let v6 = made.outside6.map(IpAddr::from);
        Ok(Self {
            place,
            file: made.file(),
            v4,
            v6,
            _made: Some(made),
        })
    }

    /// Uses an existing namespace, and tries which addresses of this machine can be reached from it.
    pub fn find(name: &str, path: &Path) -> Result<Self, String> {
        let file = files::open_linked(path).map_err(|cause| {
            let others = match &Facts::here().names(NAMESPACES)[..] {
                [] => String::new(),
                names => format!("; there are: {}", names.join(", ")),
            };
            format!(
                "there is no network namespace `{name}` ({cause}){others}; create it with `ip netns add {name}`, or use \
                 netns:new"
            )
        })?;
        let inode = |path: &Path| files::facts_linked(path).map(|data| (data.dev(), data.ino())).ok();
        if inode(path) == inode(Path::new("/proc/self/ns/net")) {
            return Err(format!(
                "`{name}` is lasthop's own network namespace: leave --driver-at out, or use netns:new"
            ));
        }
        let addresses = own_addresses()?;
        let reached = reached_from(file, addresses.clone()).map_err(|cause| {
            format!("cannot enter the network namespace `{name}`: {cause}; you need root, or CAP_SYS_ADMIN")
        })?;
        let v4 = reached.iter().copied().find(IpAddr::is_ipv4);
        let v6 = reached.iter().copied().find(IpAddr::is_ipv6);
        if reached.is_empty() {
            let tried = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let tried = if tried.is_empty() {
                "it has only loopback".to_owned()
            } else {
                format!("tried: {tried}")
            };
            return Err(format!(
                "the network namespace `{name}` cannot reach any address of this machine ({tried}): connect it, for \
                 example with a veth pair, or use netns:new"
            ));
        }
        let place = format!("in the network namespace {name}");
        Ok(Self {
            place,
            file: path.to_owned(),
            v4,
            v6,
            _made: None,
        })
    }

    /// The addresses at which the driver reaches this machine.
    pub fn reaches(&self) -> String {
        [self.v4, self.v6]
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    }

    pub fn reached(&self, own: IpAddr) -> Result<IpAddr, String> {
        let family = if own.is_ipv4() { "IPv4" } else { "IPv6" };
        let found = if own.is_ipv4() { self.v4 } else { self.v6 };
        found.ok_or_else(|| {
            format!(
                "the driver is {} and cannot reach any {family} address of this machine",
                self.place
            )
        })
    }
}

/// The addresses of this machine that a thread in the namespace can reach, with this process at the other end.
fn reached_from(namespace: File, addresses: Vec<IpAddr>) -> io::Result<Vec<IpAddr>> {
    let listeners: Vec<(IpAddr, TcpListener)> = addresses
        .into_iter()
        .filter_map(|address| Some((address, TcpListener::bind((address, 0)).ok()?)))
        .collect();
    // Namespaces belong to threads: this thread enters the namespace and ends.
    let tried = std::thread::Builder::new().spawn(move || {
        go_into(&namespace)?;
        let reached = listeners
            .into_iter()
            .filter(|(_, listener)| answers(listener))
            .map(|(address, _)| address);
        Ok(reached.collect())
    })?;
    tried.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Connects to a listener of this process, and proves with an exchange that this listener accepted the connection.
fn answers(listener: &TcpListener) -> bool {
    let word = std::process::id().to_le_bytes();
    let exchange = || -> io::Result<bool> {
        let mut client = connect(&Address::Tcp(listener.local_addr()?), REACH)?;
        client.write_all(&word)?;
        listener.set_nonblocking(true)?;
        // The connection is established. If this listener took it, it is in the listener's queue.
        let (mut server, from) = listener.accept()?;
        server.set_nonblocking(false)?;
        server.set_read_timeout(Some(REACH))?;
        let mut heard = [0; 4];
        server.read_exact(&mut heard)?;
        Ok(heard == word && Some(from) == client.local_addr()?.as_socket())
    };
    exchange().unwrap_or(false)
}
