//! lasthop's side of the guard.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, PipeReader, PipeWriter},
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
    time::{Duration, Instant},
};

use super::{
    channel::Channel,
    message::{Exit, Report, Request, SpawnRequest},
    sweep::kill_strays,
};
use crate::service::{container::leftovers, namespace, sandbox::Sandbox};

/// The longest that the guard may take for an answer that needs no waiting.
const ANSWER: Duration = Duration::from_secs(10);

/// What went wrong between lasthop and its guard.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("cannot start lasthop's guard process: {0}")]
    Launch(io::Error),
    #[error("lasthop's guard process has died, and with it everything it had started; start the run again")]
    Lost,
    #[error("lasthop's guard process does not answer")]
    Silent,
    #[error("cannot start `{program}`: {cause}")]
    Refused { program: String, cause: String },
    #[error("cannot make a pipe or open /dev/null: {0}")]
    Streams(io::Error),
    #[error("cannot ask the guard: {0}")]
    Ask(io::Error),
}

/// The running guard. When it is dropped everything that it started is ended, and the sandbox removed.
#[derive(Debug)]
pub struct Guard {
    link: Arc<Link>,
    process: Mutex<Child>,
}

/// The conversation with the guard, shared by all children.
#[derive(Debug)]
struct Link {
    channel: Channel,
    news: Mutex<News>,
    changed: Condvar,
    next: AtomicU64,
    closing: AtomicBool,
}

/// What the guard has reported and nobody has asked for yet.
#[derive(Debug, Default)]
struct News {
    begun: bool,
    lost: bool,
    spawned: HashMap<u64, Result<i32, String>>,
    stopped: HashMap<u64, bool>,
    /// By the number of the request that started the process.
    exits: HashMap<u64, Exit>,
}

impl Guard {
    /// Starts the guard of a sandbox from lasthop's own executable.
    ///
    /// # Errors
    /// The process cannot be started, or does not answer.
    pub fn launch(sandbox: &Sandbox) -> Result<Self, GuardError> {
        Self::launch_from(Path::new("/proc/self/exe"), sandbox)
    }

    /// As [`Guard::launch`], from another executable of lasthop; for tests.
    ///
    /// # Errors
    /// As [`Guard::launch`].
    pub fn launch_from(lasthop: &Path, sandbox: &Sandbox) -> Result<Self, GuardError> {
        let (channel, theirs) = Channel::pair().map_err(GuardError::Launch)?;
        let process = start_guard(lasthop, theirs).map_err(GuardError::Launch)?;
        let link = Arc::new(Link {
            channel,
            news: Mutex::default(),
            changed: Condvar::new(),
            next: AtomicU64::new(1),
            closing: AtomicBool::new(false),
        });
        let guard = Self { link: Arc::clone(&link), process: Mutex::new(process) };
        listen(link, sandbox.path().to_owned()).map_err(GuardError::Launch)?;
        let begin = Request::Begin { sandbox: sandbox.path().to_owned() };
        guard.link.channel.send(&begin, &[sandbox.lock()]).map_err(GuardError::Ask)?;
        let refused = guard.link.wait_for(ANSWER, |news| match news.spawned.remove(&0) {
            Some(Err(cause)) => Some(Some(cause)),
            _ => news.begun.then_some(None),
        })?;
        match refused {
            Some(cause) => Err(GuardError::Launch(io::Error::other(cause))),
            None => Ok(guard),
        }
    }

    /// Number of the guard process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        lock(&self.process).id() as i32
    }

    /// Starts a process under the guard.
    ///
    /// # Errors
    /// The program cannot be started, or the guard is gone.
    pub fn spawn(&self, spawn: Spawn) -> Result<GuardedChild, GuardError> {
        let program = spawn.request.command.first().cloned().unwrap_or_default();
        let (stdin, input) = spawn.stdin.open().map_err(GuardError::Streams)?;
        let (stdout, output) = spawn.stdout.open(None).map_err(GuardError::Streams)?;
        let (stderr, error) = spawn.stderr.open(Some(&output)).map_err(GuardError::Streams)?;
        let id = self.link.next.fetch_add(1, Ordering::Relaxed);
        let request = Request::Spawn(SpawnRequest { id, ..spawn.request });
        self.link.ask(&request, &[input.as_fd(), output.as_fd(), error.as_fd()])?;
        let answer = self.link.wait_for(ANSWER, |news| news.spawned.remove(&id))?;
        let pid = answer.map_err(|cause| GuardError::Refused { program, cause })?;
        Ok(GuardedChild { id, pid, stdin, stdout, stderr, link: Arc::clone(&self.link) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.link.closing.store(true, Ordering::Relaxed);
        self.link.channel.shut_down();
        let _ = lock(&self.process).wait();
    }
}

fn start_guard(lasthop: &Path, channel: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(lasthop);
    command.arg0("lasthop").arg("guard").stdin(Stdio::from(channel)).stdout(Stdio::null());
    let own_session = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(own_session) };
    command.spawn()
}

/// Sorts the reports of the guard until it is gone.
fn listen(link: Arc<Link>, sandbox: PathBuf) -> io::Result<()> {
    let channel = link.channel.try_clone()?;
    let listen = move || {
        while let Ok(Some((report, _))) = channel.receive::<Report>() {
            link.note(report);
        }
        if !link.closing.load(Ordering::Relaxed) {
            // The guard was killed: what it guarded must not live on.
            kill_strays(&sandbox);
            leftovers::remove(&sandbox);
            namespace::remove(&sandbox);
        }
        lock(&link.news).lost = true;
        link.changed.notify_all();
    };
    std::thread::Builder::new().name("guard".to_owned()).spawn(listen).map(drop)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), GuardError> {
        self.channel.send(request, descriptors).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => GuardError::Lost,
            _ => GuardError::Ask(error),
        })
    }

    fn note(&self, report: Report) {
        let mut news = lock(&self.news);
        match report {
            Report::Begun => news.begun = true,
            Report::Refused { id, cause } => drop(news.spawned.insert(id, Err(cause))),
            Report::Spawned { id, pid } => drop(news.spawned.insert(id, Ok(pid))),
            Report::Exited { child, exit } => drop(news.exits.insert(child, exit)),
            Report::Stopped { id, forced } => drop(news.stopped.insert(id, forced)),
        }
        drop(news);
        self.changed.notify_all();
    }

    /// Waits until `find` yields something.
    fn wait_for<T>(&self, timeout: Duration, mut find: impl FnMut(&mut News) -> Option<T>) -> Result<T, GuardError> {
        let deadline = Instant::now() + timeout;
        let mut news = lock(&self.news);
        loop {
            if let Some(found) = find(&mut news) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match (news.lost, left.is_zero()) {
                (true, _) => return Err(GuardError::Lost),
                (false, true) => return Err(GuardError::Silent),
                (false, false) => {
                    news = self.changed.wait_timeout(news, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

/// A process to be started. Its environment is lasthop's own, changed by [`Spawn::env`] and [`Spawn::without`].
#[derive(Debug, Default)]
pub struct Spawn {
    request: SpawnRequest,
    stdin: Input,
    stdout: Output,
    stderr: Output,
}

impl Spawn {
    /// `command` is the absolute path of the program, then its arguments.
    #[must_use]
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { request: SpawnRequest { command, ..SpawnRequest::default() }, ..Self::default() }
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.environment.push((name.into(), value.into()));
        self
    }

    /// Takes a variable away that lasthop has.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.request.without.push(name.into());
        self
    }

    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.request.directory = Some(directory.into());
        self
    }

    /// CPUs that it may run on; none means all.
    #[must_use]
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.request.cpus = cpus.into_iter().collect();
        self
    }

    /// User and group number to run as; needs root.
    #[must_use]
    pub fn user(mut self, user: u32, group: u32) -> Self {
        self.request.user = Some((user, group));
        self
    }

    /// The signal for an orderly end when lasthop has died. Without one it is killed at once.
    #[must_use]
    pub fn stop_signal(mut self, signal: i32) -> Self {
        self.request.stop_signal = Some(signal);
        self
    }

    #[must_use]
    pub fn stdin(mut self, input: Input) -> Self {
        self.stdin = input;
        self
    }

    #[must_use]
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    #[must_use]
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }
}

/// What a process reads.
#[derive(Debug, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    Null,
    /// What lasthop writes.
    Pipe,
}

/// Where a process writes to.
#[derive(Debug, Default)]
pub enum Output {
    /// Nowhere.
    #[default]
    Null,
    /// To lasthop.
    Pipe,
    File(File),
    /// As the standard output, for the standard error.
    Same,
    /// To lasthop's own standard error.
    Inherit,
}

fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

impl Input {
    fn open(self) -> io::Result<(Option<PipeWriter>, OwnedFd)> {
        match self {
            Self::Null => Ok((None, null()?)),
            Self::Pipe => io::pipe().map(|(reader, writer)| (Some(writer), reader.into())),
        }
    }
}

impl Output {
    fn open(self, same: Option<&OwnedFd>) -> io::Result<(Option<PipeReader>, OwnedFd)> {
        match self {
            Self::Null => Ok((None, null()?)),
            Self::Pipe => io::pipe().map(|(reader, writer)| (Some(reader), writer.into())),
            Self::File(file) => Ok((None, file.into())),
            Self::Same => Ok((None, same.map_or_else(null, OwnedFd::try_clone)?)),
            Self::Inherit => Ok((None, io::stderr().as_fd().try_clone_to_owned()?)),
        }
    }
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub exit: Option<Exit>,
    /// It, or something that descended from it, had to be killed.
    pub forced: bool,
}

/// A process under the guard. Dropping it kills it with its group, without waiting.
#[derive(Debug)]
pub struct GuardedChild {
    /// Number of the request that started it.
    id: u64,
    pub pid: i32,
    pub stdin: Option<PipeWriter>,
    pub stdout: Option<PipeReader>,
    pub stderr: Option<PipeReader>,
    link: Arc<Link>,
}

impl GuardedChild {
    /// How it ended, if it has.
    #[must_use]
    pub fn exited(&self) -> Option<Exit> {
        lock(&self.link.news).exits.get(&self.id).copied()
    }

    /// Waits for its end; `None` if it still runs when the time is over.
    ///
    /// # Errors
    /// The guard is gone.
    pub fn wait(&self, timeout: Duration) -> Result<Option<Exit>, GuardError> {
        match self.link.wait_for(timeout, |news| news.exits.get(&self.id).copied()) {
            Ok(exit) => Ok(Some(exit)),
            Err(GuardError::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a signal to the process, waits for its end, and kills what is left of its group and its descendants, at
    /// once when it has ended in time, or else after `timeout`. All of them are gone when this returns.
    ///
    /// # Errors
    /// The guard is gone or does not answer.
    pub fn stop(&self, signal: i32, timeout: Duration) -> Result<Stopped, GuardError> {
        let id = self.link.next.fetch_add(1, Ordering::Relaxed);
        self.ask_to_stop(Some(id), signal, timeout)?;
        let forced = self.link.wait_for(timeout + ANSWER, |news| news.stopped.remove(&id))?;
        Ok(Stopped { exit: self.exited(), forced })
    }

    fn ask_to_stop(&self, id: Option<u64>, signal: i32, timeout: Duration) -> Result<(), GuardError> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.link.ask(&Request::Stop { id, child: self.id, signal, timeout_ms }, &[])
    }
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        if lock(&self.link.news).exits.remove(&self.id).is_none() {
            let _ = self.ask_to_stop(None, libc::SIGKILL, Duration::ZERO);
        }
    }
}
