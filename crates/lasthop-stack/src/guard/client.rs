//! lasthop's side of the guard.

use std::{
    collections::HashMap,
    fmt::Display,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use lasthop_system::{
    interrupt::{self, LOOK},
    lines::Lines,
};

use super::{
    channel::Channel,
    message::{Report, Request, SpawnRequest},
    sweep::kill_strays,
};
use crate::{
    container::leftovers,
    exit::{Exit, send_signal},
    sandbox::Sandbox,
    veth,
};

/// The longest time for the guard to answer a request that needs no waiting.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest time for the guard to end. Its own limits for hanging operations are shorter.
const END: Duration = Duration::from_secs(90);
/// The id that no request has.
const NOBODY: u64 = 0;

/// Errors between lasthop and its guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("lasthop's guard process has died, and with it everything that it started")]
    Lost,
    #[error("lasthop's guard process does not answer")]
    Silent,
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Other(String),
}

/// Lets functions whose errors are text use `?`.
impl From<GuardError> for String {
    fn from(error: GuardError) -> Self {
        error.to_string()
    }
}

fn not_started(cause: impl Display) -> GuardError {
    GuardError::Other(format!("cannot start lasthop's guard process: {cause}{}", lacking()))
}

fn no_streams(cause: io::Error) -> GuardError {
    GuardError::Other(format!("cannot create a pipe or open /dev/null: {cause}"))
}

fn cannot_ask(cause: io::Error) -> GuardError {
    GuardError::Other(format!("cannot ask the guard: {cause}"))
}

/// Parts of a normal Linux system that a hand-made root file system may lack.
fn lacking() -> String {
    let lacking: Vec<&str> = ["/proc/self", "/dev/null"]
        .into_iter()
        .filter(|path| !Path::new(path).exists())
        .collect();
    if lacking.is_empty() {
        String::new()
    } else {
        format!("; mount /proc and /dev: there is no {}", lacking.join(", no "))
    }
}

/// The running guard. Dropping it ends all its processes and removes the sandbox.
#[derive(Debug)]
pub struct Guard {
    link: Arc<Link>,
    process: Mutex<Child>,
    /// The thread that receives reports, and cleans up if the guard was killed.
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// The conversation with the guard, shared by all children.
#[derive(Debug)]
struct Link {
    channel: Channel,
    /// Pid of the guard. It cannot be reused before the guard is waited for.
    guard: i32,
    reports: Mutex<PendingReports>,
    changed: Condvar,
    next: AtomicU64,
    closing: AtomicBool,
}

/// Reports of the guard that no caller has collected yet.
#[derive(Debug, Default)]
struct PendingReports {
    lost: bool,
    /// The guard has left a request unanswered, so further requests would be a waste of time.
    silent: bool,
    /// Answers by id of the request.
    answers: HashMap<u64, Result<i32, String>>,
    /// Ends of processes, by id of the request that started them.
    exits: HashMap<u64, Exit>,
}

impl Guard {
    /// Starts the guard of a sandbox from lasthop's own executable.
    pub fn launch(sandbox: &Sandbox) -> Result<Self, GuardError> {
        // The path of the executable may hold another version after an update.
        Self::launch_from(Path::new("/proc/self/exe"), sandbox)
    }

    /// Like [`Guard::launch`], with another executable, for tests.
    pub fn launch_from(lasthop: &Path, sandbox: &Sandbox) -> Result<Self, GuardError> {
        let (channel, theirs) = Channel::pair(ANSWER).map_err(not_started)?;
        let process = start_guard(lasthop, theirs).map_err(not_started)?;
        interrupt::leave_to(Some(process.id() as i32));
        let link = Arc::new(Link {
            channel,
            guard: process.id() as i32,
            reports: Mutex::default(),
            changed: Condvar::new(),
            next: AtomicU64::new(NOBODY + 1),
            closing: AtomicBool::new(false),
        });
        let listener = listen(Arc::clone(&link), sandbox.path().to_owned()).map_err(not_started)?;
        let guard = Self {
            link,
            process: Mutex::new(process),
            listener: Mutex::new(Some(listener)),
        };
        let begin = Request::Begin {
            sandbox: sandbox.path().to_owned(),
        };
        guard.link.channel.send(&begin, &[sandbox.lock()]).map_err(cannot_ask)?;
        guard.link.answer(NOBODY, ANSWER)?.map_err(not_started)?;
        Ok(guard)
    }

    /// Pid of the guard.
    pub fn pid(&self) -> i32 {
        self.link.guard
    }

    /// Starts a process without input. Its output and its errors go to the same file, or nowhere.
    pub fn spawn(&self, request: SpawnRequest, output: Option<File>) -> Result<GuardedChild, GuardError> {
        let open = || {
            let output: OwnedFd = output.map_or_else(null, |file| Ok(file.into()))?;
            Ok([null()?, output.try_clone()?, output])
        };
        self.start(request, open().map_err(no_streams)?)
    }

    /// Starts a process that lasthop talks to, in lines of at most `longest` bytes. Without a file, its errors come
    /// between its lines.
    pub fn spawn_with_lines(
        &self,
        request: SpawnRequest,
        errors: Option<File>,
        longest: usize,
    ) -> Result<(GuardedChild, Lines), GuardError> {
        let open = || {
            let (input, ours) = io::pipe()?;
            let (theirs, output) = io::pipe()?;
            let output = OwnedFd::from(output);
            let errors = errors.map_or_else(|| output.try_clone(), |file| Ok(file.into()))?;
            let lines = Lines::new(Some(ours.into()), theirs.into(), longest)?;
            Ok(([input.into(), output, errors], lines))
        };
        let (streams, lines) = open().map_err(no_streams)?;
        Ok((self.start(request, streams)?, lines))
    }

    /// `streams` are standard input, output and error.
    fn start(&self, request: SpawnRequest, streams: [OwnedFd; 3]) -> Result<GuardedChild, GuardError> {
        let program = request.command.first().cloned().unwrap_or_default();
        if interrupt::heard() {
            return Err(GuardError::Interrupted);
        }
        let id = self.link.next.fetch_add(1, Ordering::Relaxed);
        let request = Request::Spawn(SpawnRequest { id, ..request });
        self.link.ask(&request, &streams.each_ref().map(AsFd::as_fd))?;
        // If this is dropped before the pid is known, the process is still ended.
        let mut child = GuardedChild {
            id,
            pid: 0,
            link: Arc::clone(&self.link),
        };
        let answer = self.link.answer(id, ANSWER)?;
        child.pid = answer.map_err(|cause| GuardError::Other(format!("cannot start `{program}`: {cause}")))?;
        Ok(child)
    }

    /// Checks that the guard answers. An ending guard does not, and is noticed here before the processes that it ends
    /// look like failures of their own.
    ///
    /// # Errors
    ///
    /// [`GuardError::Lost`] or [`GuardError::Silent`]: none of the guard's processes can be relied on.
    pub fn check(&self) -> Result<(), GuardError> {
        let _shield = interrupt::shield();
        // No process has this id, so the guard answers at once.
        self.link.stop(NOBODY, 0, Duration::ZERO)
    }

    /// Whether the guard is known to be gone or does not answer.
    pub fn is_lost(&self) -> bool {
        let reports = lock(&self.link.reports);
        reports.lost || reports.silent
    }

    /// Ends all processes, removes the sandbox, and waits until both are done.
    ///
    /// # Errors
    ///
    /// The guard takes longer than the sum of its own limits.
    pub fn end(&self) -> Result<(), GuardError> {
        let Some(listener) = lock(&self.listener).take() else {
            return Ok(());
        };
        self.link.wake();
        // After the wake and before the shutdown: the guard may be reaped from here on, and `wake` must not signal its
        // pid.
        self.link.closing.store(true, Ordering::Relaxed);
        self.link.channel.shut_down();
        let deadline = Instant::now() + END;
        while !(matches!(lock(&self.process).try_wait(), Ok(Some(_))) && listener.is_finished()) {
            if Instant::now() > deadline {
                return Err(GuardError::Other(format!(
                    "lasthop's guard process ({}) has not ended; run `lasthop clean` to remove what it leaves behind",
                    self.pid()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        interrupt::leave_to(None);
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn start_guard(lasthop: &Path, channel: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(lasthop);
    command
        // Otherwise `ps` would show /proc/self/exe.
        .arg0("lasthop")
        .arg("guard")
        .stdin(Stdio::from(channel))
        .stdout(Stdio::null());
    // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    command.spawn()
}

/// Receives the guard's reports until the guard is gone.
fn listen(link: Arc<Link>, sandbox: PathBuf) -> io::Result<JoinHandle<()>> {
    let channel = link.channel.try_clone()?;
    std::thread::Builder::new().name("guard".to_owned()).spawn(move || {
        while let Ok(Some((report, _))) = channel.receive::<Report>() {
            link.note(report);
        }
        if !link.closing.load(Ordering::Relaxed) {
            // The guard was killed, so its processes must be killed too.
            let _shield = interrupt::shield();
            kill_strays(&sandbox);
            link.lose();
            leftovers::remove(&sandbox);
            veth::remove(&sandbox);
        }
        link.lose();
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), GuardError> {
        if lock(&self.reports).silent {
            return Err(GuardError::Silent);
        }
        self.channel
            .send(request, descriptors)
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => GuardError::Lost,
                io::ErrorKind::WouldBlock => GuardError::Silent,
                _ => cannot_ask(error),
            })
    }

    /// Continues a stopped guard, so that it can end its processes.
    fn wake(&self) {
        // After the guard has been waited for, its pid may belong to another process.
        if !self.closing.load(Ordering::Relaxed) {
            send_signal(self.guard, libc::SIGCONT);
        }
    }

    fn lose(&self) {
        lock(&self.reports).lost = true;
        self.changed.notify_all();
    }

    fn stop(&self, child: u64, signal: i32, timeout: Duration) -> Result<(), GuardError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.ask_to_stop(Some(id), child, signal, timeout)?;
        self.answer(id, timeout + ANSWER).map(drop)
    }

    fn ask_to_stop(&self, id: Option<u64>, child: u64, signal: i32, timeout: Duration) -> Result<(), GuardError> {
        let request = Request::Stop {
            id,
            child,
            signal,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.ask(&request, &[])
    }

    /// The guard's answer to a request.
    fn answer(&self, id: u64, timeout: Duration) -> Result<Result<i32, String>, GuardError> {
        let answer = self.wait_for(timeout, |reports| reports.answers.remove(&id));
        if matches!(answer, Err(GuardError::Silent)) {
            lock(&self.reports).silent = true;
        }
        answer
    }

    fn note(&self, report: Report) {
        let mut reports = lock(&self.reports);
        match report {
            Report::Answered { id, answer } => drop(reports.answers.insert(id, answer)),
            Report::Exited { child, exit } => drop(reports.exits.insert(child, exit)),
        }
        drop(reports);
        self.changed.notify_all();
    }

    /// Waits until `find` returns something.
    fn wait_for<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&mut PendingReports) -> Option<T>,
    ) -> Result<T, GuardError> {
        let deadline = Instant::now() + timeout;
        let mut reports = lock(&self.reports);
        loop {
            // First: a report counts even if the guard is gone by now.
            if let Some(found) = find(&mut reports) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if reports.lost {
                return Err(GuardError::Lost);
            }
            if interrupt::heard() {
                return Err(GuardError::Interrupted);
            }
            if left.is_zero() {
                return Err(GuardError::Silent);
            }
            let look = self.changed.wait_timeout(reports, left.min(LOOK));
            reports = look.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// A process under the guard. Dropping it kills its process group, without waiting.
#[derive(Debug)]
pub struct GuardedChild {
    /// Id of the request that started the process.
    id: u64,
    pub pid: i32,
    link: Arc<Link>,
}

impl GuardedChild {
    /// How the process ended; `None` while it runs.
    pub fn exited(&self) -> Option<Exit> {
        lock(&self.link.reports).exits.get(&self.id).copied()
    }

    /// Waits for the process to end; `None` if it still runs after `timeout`.
    pub fn wait(&self, timeout: Duration) -> Result<Option<Exit>, GuardError> {
        match self
            .link
            .wait_for(timeout, |reports| reports.exits.get(&self.id).copied())
        {
            Ok(exit) => Ok(Some(exit)),
            Err(GuardError::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a signal to the process, waits up to `timeout` for it to end, and then kills the rest of its group and its
    /// descendants. All of them are gone when this returns.
    pub fn stop(&self, signal: i32, timeout: Duration) -> Result<(), GuardError> {
        let _shield = interrupt::shield();
        self.link.wake();
        self.link.stop(self.id, signal, timeout)
    }
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        if lock(&self.link.reports).exits.remove(&self.id).is_none() {
            let _ = self.link.ask_to_stop(None, self.id, libc::SIGKILL, Duration::ZERO);
        }
    }
}
