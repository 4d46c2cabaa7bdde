//! Cleans up after runs whose guard was killed: finds their sandboxes, kills their processes, and removes their
//! containers and the sandboxes.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use lasthop_system::{
    files,
    process::{self, Handle, Stat},
};
use serde::{Deserialize, Serialize};

use super::MARKER;
use crate::{
    container::leftovers::{self, Removed},
    sandbox::{self, Candidate, Doubtful},
    veth,
};

/// Name of the guard's file in a sandbox.
const RECORD: &str = "guard.json";

/// The process that guards a sandbox.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuardRecord {
    pid: i32,
    start_ticks: u64,
    /// The scope of pids: this boot and this pid namespace.
    world: String,
}

impl GuardRecord {
    pub fn of_this_process() -> Self {
        let pid = rustix::process::getpid().as_raw_pid();
        Self {
            pid,
            start_ticks: Stat::of(pid).map_or(0, |stat| stat.start_ticks),
            world: world(),
        }
    }

    pub fn write(&self, sandbox: &Path) -> io::Result<()> {
        files::write_private(&sandbox.join(RECORD), &serde_json::to_vec(self)?)
    }

    fn read(sandbox: &Path) -> Option<Self> {
        serde_json::from_slice(&files::read(&sandbox.join(RECORD), files::SHORT).ok()?).ok()
    }

    /// Whether a process is in the guard's session. A pid is not reused while its session has members, so if a living
    /// process has the guard's pid but is not the guard, the session belongs to somebody else.
    fn led(&self, stat: &Stat) -> bool {
        stat.session == self.pid
            && stat.start_ticks >= self.start_ticks
            && Stat::of(self.pid).is_none_or(|leader| leader.start_ticks == self.start_ticks)
    }
}

fn world() -> String {
    let boot = files::text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// The result of a sweep.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    pub swept: Vec<Swept>,
    /// Directories that are named like sandboxes but may be something else.
    pub left: Vec<Doubtful>,
}

/// A sandbox that was removed.
#[derive(Debug, PartialEq, Eq)]
pub struct Swept {
    pub sandbox: PathBuf,
    /// Processes that were killed.
    pub killed: Vec<i32>,
    /// What was removed from a container engine.
    pub removed: Removed,
}

/// Removes remaining processes and sandboxes of this user's killed runs.
///
/// A sandbox is dead if its lock is free. lasthop and its guard both hold the lock as long as they live.
pub fn sweep() -> Sweep {
    let parents = sandbox::parents().into_iter();
    let parents: BTreeSet<PathBuf> = parents.filter_map(|parent| parent.canonicalize().ok()).collect();
    let mut all = Sweep::default();
    for parent in parents {
        let one = sweep_in(&parent);
        all.swept.extend(one.swept);
        all.left.extend(one.left);
    }
    all
}

/// Like [`sweep`], in one directory.
pub fn sweep_in(parent: &Path) -> Sweep {
    let mut sweep = Sweep::default();
    let Ok(parent) = parent.canonicalize() else {
        return sweep;
    };
    for found in sandbox::candidates_in(&parent) {
        match found {
            Candidate::Doubtful(doubtful) => sweep.left.push(doubtful),
            Candidate::Unfinished(path) if sandbox::remove_unfinished(&path).is_ok() => {
                sweep.swept.push(Swept {
                    sandbox: path,
                    killed: Vec::new(),
                    removed: Removed::default(),
                });
            }
            Candidate::Sandbox(path, file) if sandbox::lock(&file).is_ok() => sweep.swept.extend(clear_away(path)),
            Candidate::Unfinished(_) | Candidate::Sandbox(..) => {}
        }
    }
    sweep
}

fn clear_away(sandbox: PathBuf) -> Option<Swept> {
    let killed = kill_strays(&sandbox);
    let removed = leftovers::remove(&sandbox);
    veth::remove(&sandbox);
    // Last, because the sandbox records the engine and the link to clear up.
    sandbox::remove(&sandbox).ok()?;
    Some(Swept {
        sandbox,
        killed,
        removed,
    })
}

/// Kills the processes of a run whose guard is dead, until none is found or about a second has passed. Returns their
/// pids.
///
/// The processes are recognised by the mark in their environment or by the guard's session, because nginx and
/// PostgreSQL overwrite their environment with a title.
pub(super) fn kill_strays(sandbox: &Path) -> Vec<i32> {
    let record = GuardRecord::read(sandbox).filter(|record| record.world == world());
    let mut killed = Vec::new();
    for _ in 0..1000 {
        let strays = strays(sandbox, record.as_ref());
        if strays.is_empty() {
            break;
        }
        for (pid, handle) in strays {
            handle.kill();
            if !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    killed
}

fn strays(sandbox: &Path, record: Option<&GuardRecord>) -> Vec<(i32, Handle)> {
    let mark = [MARKER.as_bytes(), b"=", sandbox.as_os_str().as_encoded_bytes()].concat();
    let me = rustix::process::getpid().as_raw_pid();
    let mut strays = Vec::new();
    for pid in process::all() {
        // Opened before the check, so that the pid cannot be reused in between.
        let handle = Handle::open(pid);
        if let (Some(handle), Some(stat)) = (handle, Stat::of(pid))
            && stat.state != b'Z'
            && pid != me
            && (record.is_some_and(|record| record.led(&stat)) || process::has_variable(pid, &mark))
        {
            strays.push((pid, handle));
        }
    }
    strays
}
