//! The network namespaces of this machine's processes. Sockets are asked for in each; what asks stays in its namespace
//! wherever it is used.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::PathBuf,
    thread,
};

use lasthop_system::{
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
}

/// All that are known so far.
#[derive(Debug)]
pub struct Spaces {
    pub all: Vec<Space>,
    known: HashSet<PathBuf>,
    /// Namespaces that lasthop may not enter.
    pub closed: usize,
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
            known: id_of("self").into_iter().collect(),
            closed: 0,
        })
    }

    /// Adds those of processes that have begun since.
    pub fn look_for_more(&mut self) {
        for pid in process::all() {
            let Some(id) = id_of(&pid.to_string()) else { continue };
            if self.known.insert(id) {
                match Space::of(pid) {
                    Ok(space) => self.all.push(space),
                    Err(_) => self.closed += 1,
                }
            }
        }
    }
}

impl Space {
    /// That of the calling thread.
    fn here() -> io::Result<Self> {
        Ok(Self {
            diag: SockDiag::open()?,
            destroyed: Destroyed::open().ok(),
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
