//! Interrupts (Ctrl-C, SIGTERM, SIGHUP). The state is one for the whole process, like its signals.
//!
//! An interrupt ends every wait that serves a measurement. Clean-up must not be cut off, so it holds a [`Shield`] that
//! hides the interrupt from its thread, like disabled cancellation of a POSIX thread.

use std::{
    cell::Cell,
    io,
    marker::PhantomData,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};

/// Interval at which a wait that cannot be woken checks for an interrupt.
pub const LOOK: Duration = Duration::from_millis(50);

/// Becomes readable with the first signal, and stays readable. There is none before [`listen`].
static BELL: OnceLock<UnixStream> = OnceLock::new();
/// The number of signals so far.
static TIMES: AtomicUsize = AtomicUsize::new(0);
/// The process that cleans up if the last signal ends this one; 0: none.
static HEIR: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static SHIELDS: Cell<usize> = const { Cell::new(0) };
}

/// Handles these signals from now on. The first one to arrive is the interrupt, and the `last`-th ends the process with
/// `code`.
pub fn listen(signals: &[i32], last: usize, code: i32) -> io::Result<()> {
    if BELL.get().is_some() {
        return Ok(());
    }
    let (bell, ring) = UnixStream::pair()?;
    for signal in signals {
        // SAFETY: counting, `kill` and `_exit` are allowed in a signal handler.
        unsafe {
            signal_hook::low_level::register(*signal, move || {
                if TIMES.fetch_add(1, Ordering::Relaxed) + 1 == last {
                    let heir = HEIR.load(Ordering::Relaxed);
                    if heir > 0 {
                        libc::kill(heir, libc::SIGCONT);
                    }
                    signal_hook::low_level::exit(code);
                }
            })
        }?;
        // Actions run in the order of registration: a thread woken by the bell must find the signal counted.
        signal_hook::low_level::pipe::register(*signal, ring.try_clone()?)?;
    }
    let _ = BELL.set(bell);
    Ok(())
}

/// Sets the process that cleans up after this one. The last signal also continues that process, which may be stopped.
/// Pass `None` once it has ended, because its pid may then belong to another process.
pub fn leave_to(pid: Option<i32>) {
    HEIR.store(pid.unwrap_or(0), Ordering::Relaxed);
}

/// The number of signals so far.
pub fn times() -> usize {
    TIMES.load(Ordering::Relaxed)
}

/// Whether this thread must stop waiting.
pub fn heard() -> bool {
    times() > 0 && SHIELDS.get() == 0
}

/// The bell, unless this thread is shielded from it.
fn bell() -> Option<BorrowedFd<'static>> {
    BELL.get().filter(|_| SHIELDS.get() == 0).map(AsFd::as_fd)
}

/// Makes this thread ignore interrupts while it lives.
#[derive(Debug)]
pub struct Shield(PhantomData<*const ()>);

/// A shield for work that must be completed.
pub fn shield() -> Shield {
    SHIELDS.set(SHIELDS.get() + 1);
    Shield(PhantomData)
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.set(SHIELDS.get() - 1);
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Ready,
    Late,
    Interrupted,
}

/// Waits until a descriptor is ready, the deadline passes, or there is an interrupt.
pub fn wait_for(fd: impl AsFd, wanted: PollFlags, deadline: Instant) -> io::Result<Waited> {
    match poll(&[(Some(fd.as_fd()), wanted), (bell(), PollFlags::IN)], Some(deadline))?[..] {
        // First, so that a descriptor that is always ready cannot hide an interrupt.
        [_, true] => Ok(Waited::Interrupted),
        [true, _] => Ok(Waited::Ready),
        _ => Ok(Waited::Late),
    }
}

/// Waits for an interrupt; for ever if signals are not handled.
pub fn wait() {
    while !heard() {
        match bell() {
            Some(bell) => drop(poll(&[(Some(bell), PollFlags::IN)], None)),
            None => std::thread::park(),
        }
    }
}

/// Sleeps; false if interrupted.
pub fn pause(duration: Duration) -> bool {
    !poll(&[(bell(), PollFlags::IN)], Some(Instant::now() + duration)).is_ok_and(|ready| ready[0])
}

/// Runs work that cannot be woken in a separate thread. `None` after `limit` or an interrupt; the thread is then
/// abandoned.
pub fn aside<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let deadline = Instant::now() + limit;
    let (sender, done) = mpsc::channel();
    std::thread::Builder::new()
        .name("aside".to_owned())
        .spawn(move || drop(sender.send(work())))
        .ok()?;
    while !heard() {
        let left = deadline.saturating_duration_since(Instant::now());
        // A channel cannot be polled together with the bell, hence the interval.
        match done.recv_timeout(left.min(LOOK)) {
            Ok(result) => return Some(result),
            Err(mpsc::RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => return None,
        }
    }
    None
}

/// Whether each descriptor is ready; none at the deadline.
fn poll(wanted: &[(Option<BorrowedFd<'_>>, PollFlags)], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let there = wanted
        .iter()
        .filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd((*fd)?, *flags)));
    let mut polled: Vec<PollFd<'_>> = there.collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(wanted
        .iter()
        .map(|(fd, _)| fd.is_some() && ready.next() == Some(true))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_aside_is_waited_for_so_long_and_no_longer() {
        assert_eq!(aside(Duration::from_secs(60), || 7), Some(7));
        let (hold, held) = mpsc::channel::<()>();
        assert_eq!(
            aside(Duration::from_millis(1), move || held.recv()),
            None,
            "it still waits"
        );
        drop(hold);
    }

    #[test]
    fn a_descriptor_is_ready_or_late() {
        let (reader, mut writer) = io::pipe().unwrap();
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(wait_for(&reader, PollFlags::IN, soon).unwrap(), Waited::Late);
        io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!(
            wait_for(&reader, PollFlags::IN, soon).unwrap(),
            Waited::Ready,
            "late, and there all the same"
        );
    }
}
