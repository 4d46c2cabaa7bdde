//! What is left of runs whose guard was itself killed: found by their sandboxes, ended, removed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::{MARKER, serve::send_signal};
use crate::service::{
    container::leftovers::{self, Removed},
    namespace,
    process::{self, Stat},
    sandbox,
};

/// Name of the guard's file in a sandbox.
const RECORD: &str = "guard.json";

/// Which process guards a sandbox.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuardRecord {
    pid: i32,
    start_ticks: u64,
    /// Where and when process numbers mean something: this boot, this process namespace.
    world: String,
}

impl GuardRecord {
    pub fn of_this_process() -> Self {
        let pid = rustix::process::getpid().as_raw_pid();
        Self { pid, start_ticks: Stat::of(pid).map_or(0, |stat| stat.start_ticks), world: world() }
    }

    pub fn write(&self, sandbox: &Path) -> io::Result<()> {
        fs::write(sandbox.join(RECORD), serde_json::to_vec(self)?)
    }

    fn read(sandbox: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(sandbox.join(RECORD)).ok()?).ok()
    }

    /// Whether a process is in the session that the guard led. A number stays taken while a session has members, so
    /// a living process of the guard's number that is not the guard means that the session is a stranger's.
    fn led(&self, stat: &Stat) -> bool {
        stat.session == self.pid
            && stat.start_ticks >= self.start_ticks
            && Stat::of(self.pid).is_none_or(|leader| leader.start_ticks == self.start_ticks)
    }
}

fn world() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// A sandbox that was cleared away.
#[derive(Debug, PartialEq, Eq)]
pub struct Swept {
    pub sandbox: PathBuf,
    /// Processes that were killed.
    pub killed: Vec<i32>,
    /// What a container engine still had.
    pub removed: Removed,
}

/// Clears away what killed runs of this user have left: their processes and their sandboxes.
///
/// A sandbox is dead when nobody holds the lock of its lock file, which lasthop and its guard do as long as one lives.
#[must_use]
pub fn sweep() -> Vec<Swept> {
    sandbox::parents().iter().flat_map(|parent| sweep_in(parent)).collect()
}

/// As [`sweep`], in one directory.
#[must_use]
pub fn sweep_in(parent: &Path) -> Vec<Swept> {
    let mut swept = Vec::new();
    for path in sandbox::unfinished_in(parent) {
        if fs::remove_dir_all(&path).is_ok() {
            swept.push(Swept { sandbox: path, killed: Vec::new(), removed: Removed::default() });
        }
    }
    for path in sandbox::found_in(parent) {
        let Ok(lock) = File::open(path.join(sandbox::LOCK)) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let killed = kill_strays(&path);
            let removed = leftovers::remove(&path);
            namespace::remove(&path);
            if fs::remove_dir_all(&path).is_ok() {
                swept.push(Swept { sandbox: path, killed, removed });
            }
        }
    }
    swept
}

/// Kills the processes of a run whose guard is dead, until none is found, and returns their numbers.
///
/// They are known by the mark in their environment, or, since nginx and PostgreSQL overwrite theirs with a title, by
/// the session that the guard led.
pub(super) fn kill_strays(sandbox: &Path) -> Vec<i32> {
    let record = GuardRecord::read(sandbox).filter(|record| record.world == world());
    let mut killed = Vec::new();
    for _ in 0..1000 {
        let strays = strays(sandbox, record.as_ref());
        if strays.is_empty() {
            break;
        }
        for pid in strays {
            send_signal(pid, libc::SIGKILL);
            if !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    killed
}

fn strays(sandbox: &Path, record: Option<&GuardRecord>) -> Vec<i32> {
    let mark = [MARKER.as_bytes(), b"=", sandbox.as_os_str().as_encoded_bytes()].concat();
    let me = rustix::process::getpid().as_raw_pid();
    let is_stray = |stat: &Stat| {
        stat.state != b'Z'
            && stat.pid != me
            && (record.is_some_and(|record| record.led(stat)) || is_marked(stat.pid, &mark))
    };
    process::all().into_iter().filter_map(Stat::of).filter(is_stray).map(|stat| stat.pid).collect()
}

fn is_marked(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == mark))
}
