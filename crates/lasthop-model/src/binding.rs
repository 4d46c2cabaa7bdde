//! The directories and addresses that a run gives to its services, for templates. Plain data.
//!
//! Each service has two directories and writes only there:
//!
//! | directory | where | holds | afterwards |
//! |---|---|---|---|
//! | `directory` | in the run record, `services/ROUND/STACK/SERVICE` | rendered files, `app`, `log`; its working directory | kept |
//! | `runtime` | in the sandbox, `ROUND.STACK/SERVICE` | socket, pid files, temporary files, data of databases | removed |
//!
//! If lasthop is root, servers run as another account, which cannot enter the run record. Then `directory` is a folder
//! in `runtime`, and the record keeps the log and a copy of the files. The same applies if the path of the record
//! contains characters with a special meaning in configuration files or in a shell.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use indexmap::IndexMap;
use lasthop_trial::address::{Address, Endpoint, Tls, Transport};

/// File name of a service's log in its `directory`: standard output and standard error.
pub const LOG: &str = "log";
/// Folder of a service's application in its `directory`.
pub const APP: &str = "app";
/// File name of a service's Unix socket in its `runtime` directory.
pub const SOCKET: &str = "socket";
/// The name that clients verify in the certificate, which is also valid for `127.0.0.1` and `::1`.
pub const SERVER_NAME: &str = "localhost";

/// The services of one stack in one round, and who runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    pub round: u32,
    pub stack: usize,
    /// By service name, in start order.
    pub services: IndexMap<String, ServiceBinding>,
    pub account: Account,
    /// The run's password: a random word that other users of this machine do not know.
    pub secret: String,
    /// CPUs that the services may run on; empty means all.
    pub cpus: Vec<u32>,
}

/// The user that services run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name of the user, or the number of a user without a name.
    pub user: String,
    /// Name of the primary group, or the number of a group without a name.
    pub group: String,
    pub is_root: bool,
    /// Numbers of the user and the group.
    pub ids: (u32, u32),
}

/// The directories and the address of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBinding {
    pub name: String,
    /// Absolute path of the folder of rendered files: the service's folder in the run record, unless its account cannot
    /// enter that.
    pub directory: PathBuf,
    /// The service's folder in the run record: absolute, kept.
    pub record: PathBuf,
    /// The account that the service runs as, if not lasthop's own.
    pub account: Option<Account>,
    /// Files that the service needs in folders that this account cannot enter.
    pub needed: Vec<PathBuf>,
    /// The folders in which `lasthop setup` installs the service's packages, by language.
    pub packages: BTreeMap<&'static str, PathBuf>,
    /// A folder in the sandbox that all services of the same recipe share during a run.
    pub cache: PathBuf,
    /// The service's folder in the sandbox: absolute, short, private, removed with the run.
    pub runtime: PathBuf,
    /// If lasthop is root: a folder of root's own with a second name of the Unix socket and the files of `app`, for
    /// clients and the driver. The service can exchange the content of its other folders at any time.
    pub outside: Option<PathBuf>,
    /// Whether the service runs in a container, which does not have `outside`.
    pub in_container: bool,
    pub transport: Transport,
    /// The address where clients reach the service. It may differ from `listen`: `outside` may have a second name of
    /// the socket, and [`Self::listen_behind`], [`Self::offer_at`] and [`Self::move_socket`] change one or both.
    pub address: Address,
    /// The address where the service listens.
    pub listen: Address,
    /// The TLS files, for transports that use TLS.
    pub tls: Option<TlsFiles>,
    /// The authority that clients trust, in the server's own file, if not that of the run. lasthop copies it to
    /// `tls.authority`, where the server's account cannot exchange it.
    pub own_authority: Option<PathBuf>,
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// A free TCP port on 127.0.0.1, for servers that need a second port, or why there is none. The error affects only
    /// these servers.
    pub spare_port: Result<u16, String>,
}

/// PEM files of the run's private certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the authority that clients trust.
    pub authority: PathBuf,
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// The server's key, readable only by its owner, which is the account that servers run as.
    pub key: PathBuf,
}

/// Name of the server number `index` of a service, from 0: `thin`, `thin-2`, `thin-3`.
pub fn server_name(service: &str, index: usize) -> String {
    if index == 0 {
        service.to_owned()
    } else {
        format!("{service}-{}", index + 1)
    }
}

/// The service that a server belongs to, as names of services have no `-`.
pub fn service_of(server: &str) -> &str {
    server.split('-').next().unwrap_or(server)
}

impl ServiceBinding {
    /// Makes a TCP server listen on every address of its own network namespace, where clients reach it at `ip`.
    pub fn listen_behind(&mut self, ip: IpAddr) {
        if let Address::Tcp(address) = &mut self.address {
            self.listen = Address::Tcp((Ipv4Addr::UNSPECIFIED, address.port()).into());
            address.set_ip(ip);
        }
    }

    /// Lets clients reach the service at `ip`, over an IP network. A service on loopback listens at `ip` instead.
    pub fn offer_at(&mut self, ip: IpAddr) {
        if self.listen.ip().is_some_and(|own| own.is_loopback()) {
            self.listen.set_ip(ip);
        }
        self.address.set_ip(ip);
    }

    /// Moves the Unix socket to a path that is equal in every container. Outside of containers, `second` replaces the
    /// path if given.
    pub fn move_socket(&mut self, path: PathBuf, second: Option<PathBuf>) {
        self.address = Address::Unix(second.unwrap_or_else(|| path.clone()));
        self.listen = Address::Unix(path);
    }

    /// The address at which another service reaches this one; `None` is the driver.
    pub fn address_for(&self, client: Option<&Self>) -> &Address {
        let sees_its_folder = client.is_some_and(|client| client.in_container) && self.listen.path().is_some();
        if sees_its_folder { &self.listen } else { &self.address }
    }

    /// The address that clients connect to.
    pub fn endpoint(&self) -> Endpoint {
        let tls = self.tls.as_ref().map(|files| Tls {
            authority: Some(files.authority.clone()),
            server_name: SERVER_NAME.to_owned(),
            resumption: false,
            insecure: false,
        });
        Endpoint {
            address: self.address.clone(),
            tls,
        }
    }
}
