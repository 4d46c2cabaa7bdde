//! The deadline of blocking receives, enforced by another thread. The kernel's timeout (`SO_RCVTIMEO`) would arm and
//! disarm a timer with every receive; this way a request costs one store.

use std::{
    fmt,
    os::fd::RawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lasthop_system::clock;

use crate::live::Live;

/// After an early end, replies in flight may still arrive for this long.
const GRACE_NS: u64 = 50_000_000;

/// A value of `given_up` that asks for progress.
const ASKED: u64 = u64::MAX - 1;

/// A channel that is no socket, as seen by its watch.
pub(super) trait Interrupt: fmt::Debug + Send + Sync {
    /// Ends every wait of this side. Called by another thread.
    fn hang_up(&self);

    /// Whether the channel itself does not tell that the peer has ended, and the socket `control` does.
    fn is_abandoned(&self, control: RawFd) -> bool;
}

/// The object that a worker waits for.
#[derive(Debug)]
pub(super) enum Awaited {
    Socket(RawFd),
    /// A channel, and the socket that tells whether the peer has ended.
    Channel(Arc<dyn Interrupt>, RawFd),
}

impl Awaited {
    /// Ends the wait.
    fn end(&self) {
        match self {
            // SAFETY: the descriptor is open: its owner takes the lock before it closes it.
            Self::Socket(fd) => drop(unsafe { libc::shutdown(*fd, libc::SHUT_RDWR) }),
            Self::Channel(channel, _) => channel.hang_up(),
        }
    }
}

/// One worker's deadline and the socket that is shut down when it passes.
#[derive(Debug)]
pub struct Watch {
    /// Monotonic nanoseconds; `u64::MAX` if no deadline is set.
    deadline: AtomicU64,
    /// Locked while a socket is opened or closed, so that another socket with the same number is never hit.
    awaited: Mutex<Option<Awaited>>,
    overdue: AtomicBool,
    /// When to give up waiting because of an early end; `u64::MAX` if there is none, and [`ASKED`] if somebody asks for
    /// progress. So a loop that checks for both reads one word.
    given_up: AtomicU64,
    /// The worker's counts when it was asked.
    live: Mutex<Live>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            deadline: AtomicU64::new(u64::MAX),
            awaited: Mutex::new(None),
            overdue: AtomicBool::new(false),
            given_up: AtomicU64::new(u64::MAX),
            live: Mutex::default(),
        }
    }
}

impl Watch {
    /// Sets the deadline of the next receive, in monotonic nanoseconds.
    #[inline]
    pub fn expect_by(&self, deadline: u64) {
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Removes the deadline.
    pub fn rest(&self) {
        self.expect_by(u64::MAX);
    }

    /// Asks the worker to end its trial as soon as it can, and ends its waits soon after.
    pub fn cut_short(&self) {
        // The first call counts, however often it is repeated.
        self.given_up.fetch_min(clock::now() + GRACE_NS, Ordering::Relaxed);
    }

    /// Cancels an early end, before a trial.
    pub fn carry_on(&self) {
        self.given_up.store(u64::MAX, Ordering::Relaxed);
        self.tell(Live::default());
    }

    /// Ends every wait of the worker, now and later, because nobody needs its results.
    pub fn abandon(&self) {
        self.given_up.store(0, Ordering::Relaxed);
        self.check();
    }

    /// Whether the trial must end early.
    #[inline]
    pub fn is_cut_short(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) < ASKED
    }

    /// Whether the worker must check for an early end or a question.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) < u64::MAX
    }

    /// Asks the worker for progress.
    pub fn ask(&self) {
        self.turn(u64::MAX, ASKED);
    }

    /// Takes a question, and returns whether there was one.
    pub fn is_asked(&self) -> bool {
        self.turn(ASKED, u64::MAX)
    }

    fn turn(&self, from: u64, to: u64) -> bool {
        let turned = self
            .given_up
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        turned.is_ok()
    }

    pub fn tell(&self, live: Live) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }

    /// The last progress report.
    pub fn answer(&self) -> Live {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether outstanding replies no longer count.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) <= clock::now()
    }

    /// Whether the current socket was shut down because its deadline had passed.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Checks the deadline. The supervising thread calls this regularly.
    pub fn check(&self) {
        let is_late = || self.deadline.load(Ordering::Relaxed) <= clock::now() || self.is_given_up();
        match &*self.lock() {
            Some(awaited) if is_late() => {
                // First the reason, then the wake-up: the woken thread checks the reason.
                self.overdue.store(true, Ordering::Release);
                awaited.end();
            }
            Some(Awaited::Channel(channel, control)) if channel.is_abandoned(*control) => channel.hang_up(),
            _ => {}
        }
    }

    pub(super) fn adopt(&self, awaited: Awaited) {
        *self.lock() = Some(awaited);
        self.overdue.store(false, Ordering::Release);
        // Cut short while no socket was open: the next tick may be 50 ms away.
        if self.is_cut_short() {
            self.check();
        }
    }

    pub(super) fn release(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::{fd::AsRawFd as _, unix::net::UnixStream},
    };

    use super::*;

    #[test]
    fn only_a_late_socket_is_shut_down() {
        let (mut own, _peer) = UnixStream::pair().unwrap();
        let watch = Watch::default();
        watch.adopt(Awaited::Socket(own.as_raw_fd()));
        watch.check();
        watch.expect_by(clock::now() + 3_600_000_000_000);
        watch.check();
        assert!(!watch.is_overdue());
        watch.expect_by(clock::now());
        watch.check();
        assert!(watch.is_overdue());
        assert_eq!(own.read(&mut [0]).unwrap(), 0);
        watch.adopt(Awaited::Socket(own.as_raw_fd()));
        assert!(!watch.is_overdue(), "a new socket begins anew");
        watch.release();
        watch.check();
        assert!(!watch.is_overdue(), "there is no socket any more");
    }

    #[test]
    fn an_early_end_is_that_of_every_wait() {
        let (own, _peer) = UnixStream::pair().unwrap();
        let watch = Watch::default();
        watch.adopt(Awaited::Socket(own.as_raw_fd()));
        watch.cut_short();
        assert!(watch.is_cut_short());
        while !watch.is_given_up() {
            std::thread::yield_now();
        }
        watch.check();
        assert!(watch.is_overdue());
        watch.carry_on();
        let (later, _peer) = UnixStream::pair().unwrap();
        watch.adopt(Awaited::Socket(later.as_raw_fd()));
        assert!(!watch.is_overdue() && !watch.is_cut_short());
        watch.abandon();
        assert!(watch.is_overdue());
        let (last, _peer) = UnixStream::pair().unwrap();
        watch.adopt(Awaited::Socket(last.as_raw_fd()));
        assert!(watch.is_overdue(), "a socket that comes too late is not waited for");
    }
}
