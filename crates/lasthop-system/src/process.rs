//! Reads `/proc` about processes: their state, their descendants, their identity.

use std::{collections::HashSet, fs, io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal},
};

/// The parts of `/proc/PID/stat` that lasthop needs. Times are in ticks of `sysconf(_SC_CLK_TCK)`, 10 ms as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: i32,
    /// `Z` for a process that has ended and was not waited for.
    pub state: u8,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// CPU time of its children that have ended and were waited for, and of theirs: user and system.
    pub ended_children_ticks: u64,
    /// Its threads that are alive.
    pub threads: u32,
    /// Ticks between boot and its start. Together with the pid, this identifies a process uniquely.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads the stat of a process; `None` if there is none (any more).
    pub fn of(pid: i32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .as_deref()
            .and_then(Self::parse)
    }

    /// The command in parentheses may hold spaces and parentheses, so fields count from the last `)`.
    pub fn parse(text: &str) -> Option<Self> {
        let pid = text.split_once(' ')?.0.parse().ok()?;
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // Fields of proc_pid_stat(5): session is 6, cutime 16, cstime 17, num_threads 20, starttime 22.
        let mut fields = fields.skip(9);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let threads = fields.nth(2)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        Some(Self {
            pid,
            state,
            parent,
            group,
            session,
            ended_children_ticks: user + system,
            threads,
            start_ticks,
        })
    }
}

/// A process that may be killed. Open it first and check it afterwards: then you cannot hit another process that gets
/// its pid later.
#[derive(Debug)]
pub struct Handle {
    pid: Pid,
    /// `None` before Linux 5.3.
    descriptor: Option<OwnedFd>,
}

impl Handle {
    /// `None` if there is no such process (any more).
    pub fn open(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid).filter(|pid| !pid.is_init())?;
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(Self {
                pid,
                descriptor: Some(descriptor),
            }),
            Err(Errno::NOSYS) => Some(Self { pid, descriptor: None }),
            Err(_) => None,
        }
    }

    /// Kills it, unless it is already gone.
    pub fn kill(&self) {
        let _ = match &self.descriptor {
            Some(descriptor) => rustix::process::pidfd_send_signal(descriptor, Signal::KILL),
            None => rustix::process::kill_process(self.pid, Signal::KILL),
        };
    }
}

/// Kills all descendants of a process that are alive now, and returns their numbers.
pub fn kill_descendants(root: i32) -> Vec<i32> {
    let mut opened: Vec<Handle> = descendants(root).into_iter().filter_map(Handle::open).collect();
    // Listed again: a number that is no longer a descendant's may have been a stranger's when it was opened.
    let still = descendants(root);
    opened.retain(|handle| still.contains(&handle.pid.as_raw_pid()));
    opened.iter().for_each(Handle::kill);
    still
}

/// The numbers of all processes.
pub fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// All descendants of a process, itself excluded, parents before children.
///
/// Processes that start or end meanwhile may be missed. If you need all, ask again until there is nothing new.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for task in fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            // A child is listed with the thread that started it.
            let text = match fs::read_to_string(task.path().join("children")) {
                // The kernel was built without `CONFIG_PROC_CHILDREN`.
                Err(error) if error.kind() == io::ErrorKind::NotFound && task.path().exists() => {
                    return descendants_by_parent(root);
                }
                text => text.unwrap_or_default(),
            };
            for child in text.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
                if seen.insert(child) {
                    found.push(child);
                    next.push(child);
                }
            }
        }
    }
    found
}

fn descendants_by_parent(root: i32) -> Vec<i32> {
    let mut rest: Vec<Stat> = all().into_iter().filter_map(Stat::of).collect();
    let mut found = Vec::new();
    let mut parents = HashSet::from([root]);
    loop {
        let (new, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|stat| parents.contains(&stat.parent));
        if new.is_empty() {
            return found;
        }
        parents = new.iter().map(|stat| stat.pid).collect();
        found.extend(parents.iter());
        rest = others;
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_does_not_confuse() {
        let text = "77 (a) (b c) S 5 77 70 0 -1 4194560 1 2 0 0 10 20 3 4 20 0 6 0 9999 1 1 1";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.pid, stat.state, stat.parent, stat.group, stat.session),
            (77, b'S', 5, 77, 70)
        );
        assert_eq!(
            (stat.ended_children_ticks, stat.threads, stat.start_ticks),
            (7, 6, 9999)
        );
    }

    #[test]
    fn a_process_that_gets_the_number_of_a_dead_one_is_not_hit() {
        let begin = || Command::new("sleep").arg("1000").spawn().unwrap();
        // Only root may say which number the next process gets, and another process may be faster.
        for _ in 0..1000 {
            let mut first = begin();
            let number = first.id();
            let handle = Handle::open(number as i32).unwrap();
            first.kill().unwrap();
            first.wait().unwrap();
            if fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).is_err() {
                return;
            }
            let mut second = begin();
            handle.kill();
            let is_hit = second.try_wait().unwrap().is_some();
            second.kill().unwrap();
            let status = second.wait().unwrap();
            if second.id() == number {
                assert!(!is_hit, "{status}");
                return;
            }
        }
    }

    #[test]
    fn descendants_are_found_by_both_ways() {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'echo; read x; true'; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The line says that the grandchild runs.
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let me = std::process::id() as i32;
        let mine = child.id() as i32;
        let quick = descendants(mine);
        assert_eq!(quick.len(), 1, "{quick:?}");
        assert_eq!(descendants_by_parent(mine), quick);
        assert!(descendants(me).contains(&quick[0]));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(descendants(mine).is_empty());
    }
}
