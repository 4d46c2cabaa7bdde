//! The network namespaces of this machine's processes. Sockets are asked for in each; what asks stays in its namespace
//! wherever it is used.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::PathBuf,
    thread,
};

use lasthop_system::{
    conntrack::Conntrack,
    namespace::go_into,
    process,
    sock_diag::{Destroyed, SockDiag},
};

/// A network namespace.
#[derive(Debug)]
pub struct Space {
    pub diag: SockDiag,
    /// `None` where lasthop may not listen.
    pub destroyed: Option<Destroyed>,
    pub conntrack: Option<Conntrack>,
}

/// All that are known so far.
#[derive(Debug)]
pub struct Spaces {
    pub all: Vec<Space>,
    /// Their numbers; `None` for one that lasthop may not enter.
    known: HashMap<PathBuf, Option<usize>>,
}

impl Spaces {
    /// lasthop's own.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            all: vec![Space::here()?],
            known: id_of("self").map(|id| (id, Some(0))).into_iter().collect(),
        })
    }

    /// Adds those of processes that have begun since.
    pub fn look_for_more(&mut self) {
        for pid in process::all() {
            self.number(pid);
        }
    }

    /// The number of the namespace of a process, which is added if it is new. `None` if lasthop may not enter it, or if
    /// the process is gone.
    pub fn number(&mut self, pid: i32) -> Option<usize> {
        let id = id_of(&pid.to_string())?;
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let entered = Space::of(pid).ok().map(|space| {
            self.all.push(space);
            self.all.len() - 1
        });
        self.known.insert(id, entered);
        entered
    }

    /// How many lasthop may not enter.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.known.values().filter(|number| number.is_none()).count()
    }
}

impl Space {
    /// That of the calling thread.
    fn here() -> io::Result<Self> {
        Ok(Self {
            diag: SockDiag::open()?,
            destroyed: Destroyed::open().ok(),
            conntrack: Conntrack::open().ok(),
        })
    }

    /// That of a process. A thread goes there, and ends there.
    fn of(pid: i32) -> io::Result<Self> {
        let inside = move || {
            go_into(&File::open(format!("/proc/{pid}/ns/net"))?)?;
            Self::here()
        };
        let thread = thread::Builder::new().spawn(inside)?;
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

fn id_of(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}
