//! What the templates of a service may refer to: the places and addresses that a run gave it. Plain data.
//!
//! Each service has two directories, and everything that it writes goes into one of them:
//!
//! | directory | where | holds | afterwards |
//! |---|---|---|---|
//! | `directory` | in the run record, `services/ROUND/STACK/SERVICE` | rendered files, `app`, `log`; its working directory | kept |
//! | `runtime` | in the sandbox, `ROUND.STACK/SERVICE` | socket, pid files, temporary files, data of databases | removed |
//!
//! A server that refuses to run as root runs as another account where lasthop is root. That account cannot enter the run
//! record; `directory` is then a folder beside `runtime`, and the record keeps the log and a copy of the files.

use std::path::PathBuf;

use indexmap::IndexMap;
use lasthop_load::spec::{Address, Endpoint, Tls, Transport};

/// File name of a service's log in its `directory`: standard output and standard error.
pub const LOG: &str = "log";
/// File name of a service's Unix socket in its `runtime` directory.
pub const SOCKET: &str = "socket";
/// The name that clients verify in the certificate; it also carries `127.0.0.1` and `::1`.
pub const SERVER_NAME: &str = "localhost";

/// The services of one stack in one round, and who runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    pub round: u32,
    pub stack: usize,
    /// By service name, in start order.
    pub services: IndexMap<String, ServiceBinding>,
    pub account: Account,
    /// CPUs that the services may run on; empty means all.
    pub cpus: Vec<u32>,
}

/// The user that services run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name, or the number where it has none.
    pub user: String,
    /// Name of the primary group, or the number where it has none.
    pub group: String,
    pub is_root: bool,
    /// Numbers of user and group.
    pub ids: (u32, u32),
}

/// The places and the address of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBinding {
    pub name: String,
    /// Where its rendered files are, absolute: its folder in the run record unless it has an account of its own.
    pub directory: PathBuf,
    /// Its folder in the run record: absolute, kept.
    pub record: PathBuf,
    /// The account that it runs as, where that is not lasthop's own.
    pub account: Option<Account>,
    /// A folder in the sandbox that all services of the same recipe share during a run.
    pub cache: PathBuf,
    /// Its folder in the sandbox: absolute, short, private, removed with the run.
    pub runtime: PathBuf,
    pub transport: Transport,
    /// Where clients reach it.
    pub address: Address,
    /// Where it must listen: the same, unless it runs in a container with a network of its own.
    pub listen: Address,
    /// The files of TLS, for transports that use it.
    pub tls: Option<TlsFiles>,
    /// Absolute path of its executable.
    pub program: PathBuf,
    /// A free TCP port on 127.0.0.1, for servers that need one beside the one where they listen.
    pub spare_port: u16,
}

/// PEM files of the run's private certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// What clients trust.
    pub authority: PathBuf,
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// The server's key, readable by its owner only.
    pub key: PathBuf,
}

/// Name of the server number `index` of a service, from 0: `thin`, `thin-2`, `thin-3`.
#[must_use]
pub fn server_name(service: &str, index: usize) -> String {
    if index == 0 { service.to_owned() } else { format!("{service}-{}", index + 1) }
}

/// The service that a server belongs to. Names of services have no `-`.
#[must_use]
pub fn service_of(server: &str) -> &str {
    server.split('-').next().unwrap_or(server)
}

impl ServiceBinding {
    /// Where clients connect to.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let tls = self.tls.as_ref().map(|files| Tls {
            authority: Some(files.authority.clone()),
            server_name: SERVER_NAME.to_owned(),
            resumption: false,
        });
        Endpoint { address: self.address.clone(), tls }
    }
}
