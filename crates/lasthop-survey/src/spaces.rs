//! The network namespaces of this machine's processes. Sockets are listed in each; a netlink socket stays in its
//! namespace wherever it is used.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    thread,
};

use lasthop_system::{
    conntrack::Conntrack,
    limits::Lifted,
    namespace::{self, go_into, made_by_user},
    process,
    sock_diag::{Destroyed, SockDiag},
};

use super::is_out_of_time;

/// The most namespaces of one user that are examined. Any user may make thousands, and the kernel takes some
/// milliseconds for each.
const EACH: usize = 32;
/// Descriptors reserved for other uses.
const SPARE: u64 = 64;

/// A network namespace.
#[derive(Debug)]
pub struct Space {
    pub diag: SockDiag,
    /// Reports of destroyed sockets; `None` if lasthop may not receive them.
    pub destroyed: Option<Destroyed>,
    pub conntrack: Option<Conntrack>,
}

/// Why a namespace is not examined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unseen {
    Forbidden,
    /// The user with this id has made too many namespaces.
    Many(u32),
    /// lasthop may open no more than this many files.
    Files(u64),
    Refused(String),
}

/// The known namespaces.
#[derive(Debug)]
pub struct Spaces {
    pub all: Vec<Space>,
    /// The number of each namespace, or why it is not examined, by id.
    known: HashMap<PathBuf, Result<usize, Unseen>>,
    /// The number of examined namespaces by user.
    of_users: HashMap<u32, usize>,
    /// The limit of open files: each namespace takes three descriptors.
    files: Lifted,
}

impl Spaces {
    /// lasthop's own namespace.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            all: vec![Space::here()?],
            known: namespace::id("self").map(|id| (id, Ok(0))).into_iter().collect(),
            of_users: HashMap::new(),
            files: Lifted::begin(),
        })
    }

    /// Adds namespaces of new processes.
    pub fn look_for_more(&mut self) {
        let is_new = |pid: &i32| namespace::id(pid).is_some_and(|id| !self.known.contains_key(&id));
        let all = process::all().into_iter().take_while(|_| !is_out_of_time());
        let mut new: Vec<i32> = all.filter(is_new).collect();
        // The machine's namespaces first: users may make too many.
        new.sort_by_cached_key(|pid| {
            let made = namespace::of_process(*pid).and_then(|file| made_by_user(&file));
            !matches!(made, Ok(None))
        });
        for pid in new.into_iter().take_while(|_| !is_out_of_time()) {
            self.number(pid);
        }
    }

    /// The number of a process's namespace, which is added if new. `None` if it is not examined, or if the process is
    /// gone.
    pub fn number(&mut self, pid: i32) -> Option<usize> {
        let id = namespace::id(pid)?;
        if let Some(known) = self.known.get(&id) {
            return known.as_ref().ok().copied();
        }
        let entered = match self.enter(pid) {
            Ok(entered) => entered,
            Err(error) => {
                // An error after the process's end says nothing about its namespace.
                namespace::id(pid)?;
                Err(match error.kind() {
                    io::ErrorKind::PermissionDenied => Unseen::Forbidden,
                    _ => Unseen::Refused(error.to_string()),
                })
            }
        };
        let number = entered.as_ref().ok().copied();
        self.known.insert(id, entered);
        number
    }

    fn enter(&mut self, pid: i32) -> io::Result<Result<usize, Unseen>> {
        let file = namespace::of_process(pid)?;
        if let Some(user) = made_by_user(&file)? {
            let has = self.of_users.entry(user).or_default();
            if *has == EACH {
                return Ok(Err(Unseen::Many(user)));
            }
            *has += 1;
        }
        let space = Space::of(file)?;
        // The kernel assigns the lowest free descriptor.
        if space.diag.as_fd().as_raw_fd() as u64 + SPARE > self.files.descriptors {
            return Ok(Err(Unseen::Files(self.files.descriptors)));
        }
        self.all.push(space);
        Ok(Ok(self.all.len() - 1))
    }

    /// The number of namespaces that are not examined, by reason.
    #[must_use]
    pub fn unseen(&self) -> BTreeMap<Unseen, usize> {
        let mut unseen = BTreeMap::new();
        for why in self.known.values().filter_map(|known| known.as_ref().err()) {
            *unseen.entry(why.clone()).or_default() += 1;
        }
        unseen
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden => f.write_str("it takes the rights of root to enter them (CAP_SYS_ADMIN, CAP_SYS_PTRACE)"),
            Self::Many(user) => write!(f, "user {user} has made more than the {EACH} that lasthop looks into"),
            Self::Files(files) => write!(f, "lasthop may open no more than {files} files (`ulimit -n`)"),
            Self::Refused(cause) => f.write_str(cause),
        }
    }
}

impl Space {
    /// The namespace of the calling thread.
    fn here() -> io::Result<Self> {
        Ok(Self {
            diag: SockDiag::open()?,
            destroyed: Destroyed::open().ok(),
            conntrack: Conntrack::open().ok(),
        })
    }

    /// Opens the sockets in a thread, which enters the namespace and ends there.
    fn of(namespace: File) -> io::Result<Self> {
        let inside = move || {
            go_into(&namespace)?;
            Self::here()
        };
        let thread = thread::Builder::new().spawn(inside)?;
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}
