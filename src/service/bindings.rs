//! What the templates of a service may refer to: the places and addresses that a run gave it. Plain data.
//!
//! Each service has two directories, and everything that it writes goes into one of them:
//!
//! | directory | where | holds | afterwards |
//! |---|---|---|---|
//! | `directory` | in the run record, `services/ROUND/STACK/SERVICE` | rendered files, `app`, `log`; its working directory | kept |
//! | `runtime` | in the sandbox, `ROUND.STACK/SERVICE` | socket, pid files, temporary files, data of databases | removed |

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
}

/// The places and the address of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBinding {
    pub name: String,
    /// Its folder in the run record: absolute, kept.
    pub directory: PathBuf,
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
