//! What lasthop and its guard say to each other: one JSON object a packet, file descriptors beside it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// From lasthop to the guard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first message; with it comes the locked file of the sandbox.
    Begin { sandbox: PathBuf },
    /// Start a process; with it come its standard input, output and error.
    Spawn(SpawnRequest),
    /// Send `signal` to the process that `Spawn` number `child` started, and kill what is left of its group and
    /// descendants `timeout_ms` later. Without `id` no report is wanted.
    Stop { id: Option<u64>, child: u64, signal: i32, timeout_ms: u64 },
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SpawnRequest {
    pub id: u64,
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    /// Beside what the guard inherited from lasthop.
    pub environment: Vec<(String, String)>,
    pub without: Vec<String>,
    pub directory: Option<PathBuf>,
    /// CPUs that it may run on; empty means all that lasthop may use.
    pub cpus: Vec<usize>,
    /// User and group number to run as.
    pub user: Option<(u32, u32)>,
    /// What ends it in an orderly way when lasthop has died; without it is killed at once.
    pub stop_signal: Option<i32>,
}

/// From the guard to lasthop.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The guard is ready for requests.
    Begun,
    Refused {
        id: u64,
        cause: String,
    },
    Spawned {
        id: u64,
        pid: i32,
    },
    /// The process that `Spawn` number `child` started has ended.
    Exited {
        child: u64,
        exit: Exit,
    },
    /// The process and everything that descended from it is gone.
    Stopped {
        id: u64,
        forced: bool,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with status {code}"),
            Self::Signal(signal) => match super::signal::name(*signal) {
                Some(name) => write!(f, "was ended by signal {signal} (SIG{name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}
