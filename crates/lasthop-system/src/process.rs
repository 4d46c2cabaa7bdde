//! Reads `/proc` about processes: state, descendants, identity.

use std::{collections::HashSet, fs, io, os::fd::OwnedFd, path::Path};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal},
};

use crate::{clock, facts::Facts, files};

/// The most bytes read of a command line. A process may give it any length.
const COMMAND_LINE: u64 = 32 << 10;
/// The longest environment that Linux starts a program with, in bytes (`bprm_stack_limits` in fs/exec.c). A process may
/// give itself a longer one.
const ENVIRONMENT: u64 = 6 << 20;

/// The parts of `/proc/PID/stat` that lasthop needs. Times are in ticks of `sysconf(_SC_CLK_TCK)`, usually 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: i32,
    /// `Z` for a process that has ended and has not been waited for.
    pub state: u8,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// User and system CPU time of children that have ended and were waited for, and of their children likewise.
    pub ended_children_ticks: u64,
    /// Living threads.
    pub threads: u32,
    /// Ticks from boot to the process's start. Together with the pid, this identifies a process uniquely.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads the stat of a process; `None` if the process does not exist.
    pub fn of(pid: i32) -> Option<Self> {
        files::text(format!("/proc/{pid}/stat"))
            .ok()
            .as_deref()
            .and_then(Self::parse)
    }

    /// Parses `/proc/PID/stat`. The command in parentheses may hold spaces and parentheses, so fields count from the
    /// last `)`.
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

    /// Start time in monotonic nanoseconds; too early by a tick at most.
    pub fn began(&self) -> u64 {
        (self.start_ticks * clock::tick()).saturating_sub(clock::slept())
    }
}

/// A process that may be killed. Open the handle first and check the process afterwards: then no other process that
/// gets the pid later is hit.
#[derive(Debug)]
pub struct Handle {
    pid: Pid,
    /// `None` before Linux 5.3.
    descriptor: Option<OwnedFd>,
}

impl Handle {
    /// `None` if the process does not exist.
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

    /// Kills the process, unless it is already gone.
    pub fn kill(&self) {
        let _ = match &self.descriptor {
            Some(descriptor) => rustix::process::pidfd_send_signal(descriptor, Signal::KILL),
            None => rustix::process::kill_process(self.pid, Signal::KILL),
        };
    }
}

/// Kills all present descendants of a process. Returns their pids.
pub fn kill_descendants(root: i32) -> Vec<i32> {
    let mut opened: Vec<Handle> = descendants(root).into_iter().filter_map(Handle::open).collect();
    // Listed again, because a pid that is no longer a descendant's may have been a stranger's when it was opened.
    let still = descendants(root);
    opened.retain(|handle| still.contains(&handle.pid.as_raw_pid()));
    opened.iter().for_each(Handle::kill);
    still
}

/// The words of a process's command line, from its first 32 KiB. A title that a server gave itself is one word.
pub fn arguments(pid: i32) -> Vec<String> {
    let bytes = beginning(pid, "cmdline", COMMAND_LINE).unwrap_or_default();
    let mut words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    // The empty word after the last zero byte.
    words.pop_if(|word| word.is_empty());
    words
}

/// Whether a process was started with this variable, `NAME=value`. Only root sees other users' variables.
pub fn has_variable(pid: i32, variable: &[u8]) -> bool {
    beginning(pid, "environ", ENVIRONMENT)
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|other| other == variable))
}

fn beginning(pid: i32, file: &str, most: u64) -> io::Result<Vec<u8>> {
    files::first(files::open(Path::new(&format!("/proc/{pid}/{file}")))?, most)
}

/// The user of a process; `None` for a program that runs as another user than its caller (set-user-ID).
pub fn user_of(pid: i32) -> Option<u32> {
    let users = Facts::here().field(&format!("/proc/{pid}/status"), "Uid")?;
    let mut users = users.split_ascii_whitespace();
    let real = users.next()?;
    users.all(|user| user == real).then(|| real.parse().ok())?
}

/// The pids of all processes.
pub fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// All descendants of a process, without the process, parents before children.
///
/// Processes that start or end meanwhile may be missed. To get all, repeat until there is nothing new.
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
            let text = match files::text(task.path().join("children")) {
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

    /// A process whose command line and environment are 8 GiB long, until its input ends. Any process may do that.
    fn endless() -> Option<std::process::Child> {
        const PROGRAM: &str = r#"
import ctypes, mmap, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
stat = lambda number: int(fields[number - 3])
length = 8 << 30
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = libc.mmap(None, length, 3, 0x4022, -1, 0)
ctypes.memmove(at, b"endless\0", 8)
libc.sbrk.restype = ctypes.c_void_p
# struct prctl_mm_map: code, data, brk, stack, arguments, environment, auxv, executable
numbers = [stat(26), stat(27), stat(45), stat(46), stat(47), libc.sbrk(0), stat(28)]
map = struct.pack("11QQIi", *numbers, at, at + length, at, at + length, 0, 0, -1)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
buffer = ctypes.create_string_buffer(map)
done = libc.prctl(35, 14, ctypes.addressof(buffer), len(map), 0)
print(done, flush=True)
sys.stdin.read()
"#;
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut said = [0; 2];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        (said == *b"0\n").then_some(child)
    }

    #[test]
    fn a_command_line_without_end_is_read_no_further_than_a_limit() {
        let Some(mut child) = endless() else { return };
        let pid = child.id() as i32;
        let words = arguments(pid);
        assert_eq!(words[0], "endless");
        assert_eq!(
            words.iter().map(|word| word.len() + 1).sum::<usize>() as u64,
            COMMAND_LINE
        );
        assert!(!has_variable(pid, b"NAME=value") && has_variable(pid, b"endless"));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_seen_whatever_it_is_called() {
        let mut child = Command::new("sh")
            .args(["-c", r#"printf '\377)' > /proc/$$/comm; echo; read -r _"#, "word"])
            // After many other variables.
            .envs((0..15).map(|number| (format!("LONG_{number}"), "x".repeat(100_000))))
            .env("NAME", "value")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = child.id() as i32;
        assert_eq!(Stat::of(pid).unwrap().parent, std::process::id() as i32);
        assert_eq!(
            (&arguments(pid)[0][..], &arguments(pid)[3..]),
            ("sh", &["word".to_owned()][..])
        );
        assert!(has_variable(pid, b"NAME=value") && !has_variable(pid, b"NAME=val"));
        assert_eq!(user_of(pid), Some(rustix::process::getuid().as_raw()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!((user_of(i32::MAX), arguments(i32::MAX)), (None, Vec::new()));
    }

    #[test]
    fn a_process_that_gets_the_number_of_a_dead_one_is_not_hit() {
        let begin = || Command::new("sleep").arg("1000").spawn().unwrap();
        // Only root may choose the next pid, and another process may be faster.
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
        // The line shows that the grandchild runs.
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
