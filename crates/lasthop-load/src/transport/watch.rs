//! The deadline of blocking receives, kept by another thread. A timeout of the kernel's own (`SO_RCVTIMEO`) would arm and
//! disarm a timer with every receive; here a request costs one store.

use std::{
    os::fd::RawFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::clock;

/// One worker's deadline and the socket that is shut down when it passes.
#[derive(Debug)]
pub struct Watch {
    /// Monotonic nanoseconds; `u64::MAX` when nothing is awaited.
    deadline: AtomicU64,
    /// Locked while a socket comes and goes, so that never another one is hit that got the same number.
    socket: Mutex<Option<RawFd>>,
    overdue: AtomicBool,
    /// Whether the trial is to end early.
    cut: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            deadline: AtomicU64::new(u64::MAX),
            socket: Mutex::new(None),
            overdue: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        }
    }
}

impl Watch {
    /// What is received next has to come before `deadline`, in monotonic nanoseconds.
    #[inline]
    pub fn expect_by(&self, deadline: u64) {
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Nothing is awaited.
    pub fn rest(&self) {
        self.expect_by(u64::MAX);
    }

    /// Asks the worker to end its trial as soon as it can, or takes that back.
    pub fn cut_short(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// Whether the trial is to end early.
    #[inline]
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Whether the present socket was shut down because its deadline had passed.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Looks at the deadline: called by the watching thread now and then.
    pub fn check(&self) {
        let is_late = || self.deadline.load(Ordering::Relaxed) <= clock::now();
        if !is_late() {
            return;
        }
        let socket = self.lock();
        if let Some(fd) = socket.filter(|_| is_late()) {
            self.overdue.store(true, Ordering::Release);
            // SAFETY: the descriptor is open: its owner takes the lock before it closes it.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        }
    }

    pub(super) fn adopt(&self, fd: RawFd) {
        *self.lock() = Some(fd);
        self.overdue.store(false, Ordering::Release);
    }

    pub(super) fn release(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<RawFd>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::fd::AsRawFd as _, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn only_a_late_socket_is_shut_down() {
        let (mut own, _peer) = UnixStream::pair().unwrap();
        let watch = Watch::default();
        watch.adopt(own.as_raw_fd());
        watch.check();
        watch.expect_by(clock::now() + 3_600_000_000_000);
        watch.check();
        assert!(!watch.is_overdue());
        watch.expect_by(clock::now());
        watch.check();
        assert!(watch.is_overdue());
        assert_eq!(own.read(&mut [0]).unwrap(), 0);
        watch.adopt(own.as_raw_fd());
        assert!(!watch.is_overdue(), "a new socket begins anew");
        watch.release();
        watch.check();
        assert!(!watch.is_overdue(), "there is no socket any more");
    }
}
