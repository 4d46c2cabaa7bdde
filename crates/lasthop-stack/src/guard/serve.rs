//! The guard process: the parent of all processes of a run, which it ends.
//!
//! The guard is single-threaded, because the parent-death signal of a child is bound to the thread that started it.

use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lasthop_system::{
    files,
    namespace::go_into,
    process::{self, Handle, Stat, descendants, kill_descendants},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags},
    process::{Gid, Pid, Signal, Uid, WaitId, WaitIdOptions, WaitOptions, waitid},
    thread::{UnshareFlags, unshare_unsafe},
};

use super::{
    MARKER,
    channel::Channel,
    message::{Report, Request, SpawnRequest},
    sweep::GuardRecord,
};
use crate::{
    container::leftovers,
    exit::{Exit, send_signal},
    passage::Passage,
    sandbox, veth,
};

/// The time for servers to end in order after lasthop has died.
const GRACE: Duration = Duration::from_secs(1);
/// The time after which the guard gives up on processes that survive SIGKILL.
const GIVE_UP: Duration = Duration::from_secs(10);
/// The interval of checks whether the descendants of a stopped process are gone.
const TICK: Duration = Duration::from_millis(5);
/// The folder of POSIX shared memory.
const SHARED_FILES: &str = "/dev/shm";

/// Runs the guard until lasthop is gone, then ends every descendant and removes the sandbox.
pub fn serve() -> Result<(), String> {
    let end = io::stdin().as_fd().try_clone_to_owned();
    let channel = end.and_then(Channel::inherited).map_err(|error| {
        format!("`lasthop guard` is started by lasthop itself, with a channel as standard input: {error}")
    })?;
    let mut supervisor = Supervisor::new(channel).map_err(|error| format!("cannot set up the guard: {error}"))?;
    supervisor.watch();
    supervisor.finish()
}

/// A process that lasthop started.
struct Child {
    /// Id of the request that started the process.
    id: u64,
    program: String,
    stop_signal: Option<i32>,
    as_group: bool,
    stopping: Option<Stopping>,
}

impl Child {
    fn signal(&self, pid: i32, signal: i32) {
        send_signal(pid, signal);
        if self.as_group {
            signal_group(pid, signal);
        }
    }
}

/// A stop in progress.
struct Stopping {
    /// Id of the request, if its completion must be reported.
    id: Option<u64>,
    deadline: Instant,
    /// The descendants at the start of the stop and, after the process has ended, the members of its group.
    family: Vec<Stat>,
}

struct Supervisor {
    channel: Channel,
    /// Becomes readable when a child has ended.
    ended: UnixStream,
    /// Becomes readable when a signal tells the guard to end.
    told_to_end: UnixStream,
    children: HashMap<i32, Child>,
    /// Stops whose process has ended, but whose descendants may still live.
    leaving: Vec<Stopping>,
    sandbox: Option<PathBuf>,
    /// Keeps the sandbox locked for as long as the guard lives.
    _lock: Option<OwnedFd>,
}

impl Supervisor {
    fn new(channel: Channel) -> io::Result<Self> {
        rustix::process::chdir("/")?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        unblock_signals();
        let ended = signal_pipe(&[libc::SIGCHLD])?;
        let told_to_end = signal_pipe(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT])?;
        Ok(Self {
            channel,
            ended,
            told_to_end,
            children: HashMap::new(),
            leaving: Vec::new(),
            sandbox: None,
            _lock: None,
        })
    }

    /// Serves requests until lasthop is gone or a signal arrives.
    fn watch(&mut self) {
        loop {
            let timeout = self.next_deadline();
            let Ok([asked, ended, told]) = self.wait(timeout) else {
                return;
            };
            if told {
                return;
            }
            if ended {
                drain(&self.ended);
                self.reap();
            }
            self.advance_stops();
            if asked && !self.answer() {
                return;
            }
        }
    }

    /// Waits for a message, the end of a child, or a signal, in this order.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<[bool; 3]> {
        let mut polled = [
            PollFd::new(&self.channel, PollFlags::IN),
            PollFd::new(&self.ended, PollFlags::IN),
            PollFd::new(&self.told_to_end, PollFlags::IN),
        ];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            // After EINTR no `revents` is set, and the loop polls again.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(polled.map(|fd| !fd.revents().is_empty())),
            Err(error) => Err(error.into()),
        }
    }

    /// Carries out one request; false when lasthop is gone.
    fn answer(&mut self) -> bool {
        match self.channel.receive::<Request>() {
            Ok(Some((Request::Begin { sandbox }, descriptors))) => self.begin(sandbox, descriptors),
            Ok(Some((Request::Spawn(request), descriptors))) => self.spawn(request, descriptors),
            Ok(Some((
                Request::Stop {
                    id,
                    child,
                    signal,
                    timeout_ms,
                },
                _,
            ))) => {
                self.stop(id, child, signal, Duration::from_millis(timeout_ms));
            }
            Ok(None) | Err(_) => return false,
        }
        true
    }

    /// Sends a report. A failure means that lasthop is gone, which the next read notices.
    fn report(&self, report: &Report) {
        let _ = self.channel.send(report, &[]);
    }

    fn report_answer(&self, id: u64, answer: io::Result<i32>) {
        let answer = answer.map_err(|error| error.to_string());
        self.report(&Report::Answered { id, answer });
    }

    fn report_stopped(&self, id: Option<u64>) {
        if let Some(id) = id {
            self.report_answer(id, Ok(0));
        }
    }

    fn begin(&mut self, sandbox: PathBuf, mut descriptors: Vec<OwnedFd>) {
        self._lock = descriptors.pop();
        let written = GuardRecord::of_this_process().write(&sandbox);
        self.report_answer(0, written.map(|()| 0));
        self.sandbox = Some(sandbox);
    }

    fn spawn(&mut self, request: SpawnRequest, descriptors: Vec<OwnedFd>) {
        let id = request.id;
        let started = self.start(&request, descriptors);
        if let Ok(pid) = started {
            let child = Child {
                id,
                program: request.command.into_iter().next().unwrap_or_default(),
                stop_signal: request.stop_signal,
                as_group: request.as_group,
                stopping: None,
            };
            self.children.insert(pid, child);
        }
        self.report_answer(id, started);
    }

    fn start(&self, request: &SpawnRequest, descriptors: Vec<OwnedFd>) -> io::Result<i32> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (program, arguments) = request
            .command
            .split_first()
            .ok_or_else(|| wrong("the command is empty"))?;
        let [input, output, error]: [OwnedFd; 3] = descriptors
            .try_into()
            .map_err(|_| wrong("it takes three descriptors"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(request.environment.iter().map(|(name, value)| (name, value)));
        if let Some(sandbox) = &self.sandbox {
            command.env(MARKER, sandbox);
        }
        command
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(error));
        // A group of its own, so that one signal reaches a server with its workers and nothing else.
        command.process_group(0);
        let identity = request
            .user
            .map(|ids| Identity::new(ids, &request.needed))
            .transpose()?;
        let directory = request
            .directory
            .as_ref()
            .map(|path| CString::new(path.as_os_str().as_bytes()))
            .transpose()?;
        let memory = OwnMemory::of(request, self.sandbox.as_deref());
        let network = request.network.as_deref().map(files::open_linked).transpose()?;
        before_exec(&mut command, memory, network, identity, directory, &request.cpus);
        // `reap` waits for every child, both those started here and adopted ones.
        command.spawn().map(|child| child.id() as i32)
    }

    fn stop(&mut self, id: Option<u64>, spawn: u64, signal: i32, timeout: Duration) {
        let Some((&pid, child)) = self.children.iter_mut().find(|(_, child)| child.id == spawn) else {
            return self.report_stopped(id);
        };
        // Before the signal: descendants whose parent has ended become children of the guard, and are no longer known
        // as the process's.
        let family = descendants(pid).into_iter().filter_map(Stat::of).collect();
        child.stopping = Some(Stopping {
            id,
            deadline: Instant::now() + timeout,
            family,
        });
        child.signal(pid, signal);
        self.advance_stops();
    }

    fn next_deadline(&self) -> Option<Duration> {
        if !self.leaving.is_empty() {
            return Some(TICK);
        }
        let deadline = self
            .children
            .values()
            .filter_map(|child| child.stopping.as_ref())
            .map(|s| s.deadline)
            .min()?;
        // The deadline of a killed process that has not ended is past, and poll would not wait.
        Some(deadline.saturating_duration_since(Instant::now()).max(TICK))
    }

    /// Kills processes past their deadline, and reports completed stops.
    fn advance_stops(&mut self) {
        let now = Instant::now();
        for (pid, child) in &mut self.children {
            if let Some(stopping) = child.stopping.as_mut().filter(|stopping| stopping.deadline <= now) {
                stopping
                    .family
                    .extend(descendants(*pid).into_iter().filter_map(Stat::of));
                signal_group(*pid, libc::SIGKILL);
                send_signal(*pid, libc::SIGKILL);
                stopping.family.iter().for_each(kill_same);
            }
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain_mut(|stopping| {
            stopping.family.retain(is_same);
            let gone = stopping.family.is_empty();
            if gone {
                self.report_stopped(stopping.id);
            } else {
                let new = stopping.family.iter().flat_map(|stat| descendants(stat.pid));
                let new: Vec<Stat> = new.filter_map(Stat::of).collect();
                stopping.family.extend(new);
                stopping.family.iter().for_each(kill_same);
            }
            !gone
        });
        self.leaving = leaving;
    }

    /// Reaps every child that has ended, started here or adopted.
    fn reap(&mut self) {
        while let Some(pid) = ended_child() {
            let mut child = self.children.remove(&pid);
            if let Some(child) = &mut child {
                // The pid of a zombie cannot be reused. Nothing can join its group after this, so waiting for the
                // current members suffices.
                signal_group(pid, libc::SIGKILL);
                if let Some(stopping) = &mut child.stopping {
                    let group = process::all().into_iter().filter_map(Stat::of);
                    stopping
                        .family
                        .extend(group.filter(|stat| stat.group == pid && stat.pid != pid));
                }
            }
            let Some(number) = Pid::from_raw(pid) else { continue };
            let Ok(Some((_, status))) = rustix::process::waitpid(Some(number), WaitOptions::NOHANG) else {
                continue;
            };
            if let Some(child) = child {
                let exit = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, signal) => Exit::Signal(signal.unwrap_or(0)),
                };
                self.report(&Report::Exited { child: child.id, exit });
                self.leaving.extend(child.stopping);
            }
        }
        self.advance_stops();
    }

    /// Ends all descendants, and removes the sandbox.
    fn finish(&mut self) -> Result<(), String> {
        self.remove_containers();
        self.end_orderly();
        let left = self.kill_all();
        let mut contained = Vec::new();
        if let Some(sandbox) = &self.sandbox {
            // Containers that a killed client had asked for.
            contained = leftovers::remove(sandbox).left;
            veth::remove(sandbox);
        }
        if let Some(path) = self.sandbox.take() {
            sandbox::remove(&path).map_err(|cause| format!("cannot remove the sandbox {}: {cause}", path.display()))?;
        }
        if !left.is_empty() {
            Err(format!("could not end the processes {left:?}; they are still running"))
        } else if !contained.is_empty() {
            Err(format!(
                "the container engine did not remove {}; run `lasthop clean` when it answers again",
                contained.join(", ")
            ))
        } else {
            Ok(())
        }
    }

    /// Removes containers until no client of their engine is left. A client ends by itself when its container is
    /// removed. A client killed while it sets up a network leaves links and rules behind that nobody removes.
    fn remove_containers(&mut self) {
        let Some(sandbox) = self.sandbox.clone() else { return };
        let Some(client) = leftovers::client(&sandbox) else {
            return;
        };
        let deadline = Instant::now() + GIVE_UP;
        loop {
            leftovers::remove(&sandbox);
            self.reap_for(TICK);
            let waiting = self.children.values().any(|child| Path::new(&child.program) == client);
            if !waiting || Instant::now() > deadline {
                return;
            }
        }
    }

    /// Lets servers with a stop signal remove their shared memory or files elsewhere; kills all others at once.
    fn end_orderly(&mut self) {
        for (pid, child) in &self.children {
            match child.stop_signal {
                Some(signal) => child.signal(*pid, signal),
                None => signal_group(*pid, libc::SIGKILL),
            }
        }
        let deadline = Instant::now() + GRACE;
        while !self.children.is_empty() && Instant::now() < deadline {
            self.reap_for(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Kills until no child is left. Returns processes that could not be killed. A subreaper inherits every orphan
    /// below it, so without a child it has no descendant.
    fn kill_all(&mut self) -> Vec<i32> {
        let me = rustix::process::getpid().as_raw_pid();
        let deadline = Instant::now() + GIVE_UP;
        // waitid fails if there is no child.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::All, look).is_ok() {
            let left = kill_descendants(me);
            if Instant::now() > deadline {
                return left;
            }
            self.reap_for(TICK);
        }
        Vec::new()
    }

    fn reap_for(&mut self, timeout: Duration) {
        let mut polled = [PollFd::new(&self.ended, PollFlags::IN)];
        let _ = rustix::event::poll(&mut polled, Timespec::try_from(timeout).ok().as_ref());
        drain(&self.ended);
        self.reap();
    }
}

/// Shared memory that only a child and its descendants see. The kernel removes it with the last of them.
struct OwnMemory {
    namespaces: UnshareFlags,
    /// The mapping that keeps the child's ids in a user namespace; `None` if no user namespace is needed.
    mapping: Option<[(&'static CStr, String); 3]>,
}

impl OwnMemory {
    fn of(request: &SpawnRequest, sandbox: Option<&Path>) -> Self {
        let mut namespaces = UnshareFlags::empty();
        let needed = [
            sandbox,
            request.directory.as_deref(),
            request.command.first().map(Path::new),
        ];
        if request.own_ipc || request.own_memory {
            namespaces |= UnshareFlags::NEWIPC;
        }
        // A mount over /dev/shm would hide a sandbox or program there.
        if request.own_memory && !needed.into_iter().flatten().any(|path| path.starts_with(SHARED_FILES)) {
            namespaces |= UnshareFlags::NEWNS;
        }
        let user = rustix::process::geteuid();
        let group = rustix::process::getegid();
        let mapping = (request.own_memory && !user.is_root()).then(|| {
            namespaces |= UnshareFlags::NEWUSER;
            [
                // An ordinary user may write gid_map only after setgroups is denied (user_namespaces(7)).
                (c"/proc/self/setgroups", "deny".to_owned()),
                (c"/proc/self/uid_map", format!("{user} {user} 1")),
                (c"/proc/self/gid_map", format!("{group} {group} 1")),
            ]
        });
        Self { namespaces, mapping }
    }

    /// Enters the namespaces. If the kernel refuses, the child shares memory as every process does. Makes system calls
    /// only.
    fn enter(&self) -> io::Result<()> {
        // SAFETY: unshare has no memory effects.
        if self.namespaces.is_empty() || unsafe { unshare_unsafe(self.namespaces) }.is_err() {
            return Ok(());
        }
        for (file, text) in self.mapping.iter().flatten() {
            let file = rustix::fs::open(*file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(file, text.as_bytes())?;
        }
        if self.namespaces.contains(UnshareFlags::NEWNS) {
            // Mounts made here do not propagate to other namespaces.
            rustix::mount::mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            // If this folder is missing, there is nothing to hide.
            let _ = rustix::mount::mount(c"lasthop", SHARED_FILES, c"tmpfs", flags, c"mode=1777");
        }
        Ok(())
    }
}

/// The user and group that a child switches to.
struct Identity {
    user: Uid,
    group: Gid,
    passage: Passage,
}

impl Identity {
    fn new((user, group): (u32, u32), needed: &[PathBuf]) -> io::Result<Self> {
        let passage = Passage::to(needed, (user, group))?;
        Ok(Self {
            user: Uid::from_raw(user),
            group: Gid::from_raw(group),
            passage,
        })
    }

    /// Switches to the user and group. Opens the passage before the switch, which gives up the rights to open it.
    fn assume(&mut self) -> io::Result<()> {
        self.passage.open()?;
        // The user comes last: without root's rights the kernel would refuse to change the groups.
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_gid(self.group)?;
        Ok(rustix::thread::set_thread_uid(self.user)?)
    }
}

/// Runs in the child between fork and exec. It must not allocate.
fn before_exec(
    command: &mut Command,
    memory: OwnMemory,
    network: Option<File>,
    mut identity: Option<Identity>,
    directory: Option<CString>,
    cpus: &[u32],
) {
    let guard = rustix::process::getpid();
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().map(|cpu| *cpu as usize) {
        if cpu < rustix::thread::CpuSet::MAX_CPU {
            set.set(cpu);
        }
    }
    let prepare = move || {
        memory.enter()?;
        if let Some(network) = &network {
            go_into(network)?;
        }
        if let Some(identity) = &mut identity {
            identity.assume()?;
        }
        // With the rights of the process's account, which may have put a link there.
        if let Some(directory) = &directory {
            rustix::process::chdir(directory)?;
        }
        // The kernel forgets this when the user changes.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The guard may have died before this request, and the signal would never come.
        if rustix::process::getppid() != Some(guard) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if set.count() > 0 {
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Unblocks all signals: the mask was inherited from the thread of lasthop that started the guard.
fn unblock_signals() {
    // SAFETY: the set is initialised by sigemptyset before it is read.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// A socket that receives a byte for each of these signals.
fn signal_pipe(signals: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

fn drain(pipe: &UnixStream) {
    let mut bytes = [0; 64];
    while io::Read::read(&mut &*pipe, &mut bytes).is_ok_and(|read| read > 0) {}
}

/// A child that has ended and has not been waited for.
fn ended_child() -> Option<i32> {
    // SAFETY: siginfo_t is plain data; waitid fills it or leaves it zero, and si_pid is valid after waitid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let result = libc::waitid(libc::P_ALL, 0, &mut info, options);
        (result == 0 && info.si_pid() != 0).then(|| info.si_pid())
    }
}

/// Sends a signal to the group of a child that has not been waited for.
fn signal_group(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; a negative number is that of one group, never 0 or -1.
    unsafe {
        if pid > 1 {
            libc::kill(-pid, signal);
        }
    }
}

/// Whether the pid still belongs to the same process, alive or a zombie.
fn is_same(stat: &Stat) -> bool {
    Stat::of(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks)
}

fn kill_same(stat: &Stat) {
    // Opened before the check, so that the pid cannot be reused in between.
    if let Some(handle) = Handle::open(stat.pid).filter(|_| is_same(stat)) {
        handle.kill();
    }
}
