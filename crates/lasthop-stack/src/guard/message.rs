//! Messages between lasthop and its guard: one JSON object per packet, with file descriptors attached.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// From lasthop to the guard.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// The first message, with the locked file of the sandbox attached.
    Begin { sandbox: PathBuf },
    /// Start a process. Standard input, output and error are attached.
    Spawn(SpawnRequest),
    /// Send `signal` to the process that `Spawn` number `child` started, and kill the rest of its group and descendants
    /// `timeout_ms` later. Answered when all of them are gone; without `id`, never.
    Stop {
        id: Option<u64>,
        child: u64,
        signal: i32,
        timeout_ms: u64,
    },
}

/// A process to start.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Set when it is sent.
    pub id: u64,
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    /// Variables added to the environment that the guard inherited from lasthop.
    pub environment: Vec<(String, String)>,
    pub directory: Option<PathBuf>,
    /// CPUs that the process may run on; empty means all of lasthop's.
    pub cpus: Vec<u32>,
    /// File of the network namespace to run in, if not lasthop's own. Needs root.
    pub network: Option<PathBuf>,
    /// User and group id to run as. Needs root.
    pub user: Option<(u32, u32)>,
    /// Paths that the process needs in folders that `user` cannot enter.
    pub needed: Vec<PathBuf>,
    /// The signal for an orderly end after lasthop has died. Without it, the process is killed at once.
    pub stop_signal: Option<i32>,
    /// Send stop signals to the whole process group, so that they reach a script and its children.
    pub as_group: bool,
    /// Give the process private System V shared memory and semaphores, if the guard has the rights. They end with it.
    pub own_ipc: bool,
    /// Like `own_ipc`, with a private `/dev/shm` too. A guard without the rights makes a user namespace to get them,
    /// which knows only this user: programs that switch to another user do not work there.
    pub own_memory: bool,
}

impl SpawnRequest {
    /// `command` is the absolute path of the program, then its arguments.
    pub fn of(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// From the guard to lasthop.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// A request is done, or was refused. The answer to `Spawn` is a pid, to any other request 0. `Begin` has no id and
    /// is answered as 0.
    Answered { id: u64, answer: Result<i32, String> },
    /// The process that `Spawn` number `child` started has ended.
    Exited { child: u64, exit: Exit },
}
