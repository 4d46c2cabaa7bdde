//! epoll with a timer among its descriptors, so that a wait needs no timeout.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::transport::Calls;

/// The token of the timer.
pub const TICK: u64 = u64::MAX;
const EVENTS: usize = 256;

/// What happened on a socket.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The peer has closed, or the socket is broken. Reading tells which.
    pub closed: bool,
}

pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    events: Vec<libc::epoll_event>,
    calls: Calls,
    /// Whether the kernel supports waits in nanoseconds.
    fine: bool,
}

impl Poller {
    pub fn new(calls: Calls) -> io::Result<Self> {
        // SAFETY: the call has no preconditions.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the call has no preconditions.
        let timer =
            owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
        let poller = Self {
            epoll,
            timer,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            calls,
            fine: true,
        };
        let timer = poller.timer.as_raw_fd();
        poller.control(libc::EPOLL_CTL_ADD, timer, TICK, libc::EPOLLIN as u32)?;
        Ok(poller)
    }

    /// Makes the timer report [`TICK`] every `nanoseconds`; 0 stops it.
    pub fn tick_every(&self, nanoseconds: u64) -> io::Result<()> {
        self.calls.add(1);
        let time = timespec(nanoseconds);
        let setting = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: `setting` is valid; the old setting is not asked for.
        let result =
            unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) };
        checked(result).map(drop)
    }

    /// Acknowledges a tick, so that the next one is reported.
    pub fn tick_seen(&self) {
        self.calls.add(1);
        let mut count = [0_u8; 8];
        // SAFETY: eight writable bytes, as a timer wants them; a failed read means that there was no tick.
        unsafe { libc::read(self.timer.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Registers a socket. Each change is reported once (edge-triggered), writability only if `writable`.
    pub fn add(&self, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, flags(writable))
    }

    pub fn modify(&self, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, flags(writable))
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        self.calls.add(1);
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: both descriptors are open and `event` is valid.
        checked(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) }).map(drop)
    }

    /// Waits for events, for `nanoseconds` or without limit. Returns their number.
    #[inline]
    pub fn wait(&mut self, nanoseconds: Option<u64>) -> io::Result<usize> {
        self.calls.add(1);
        let waited = match nanoseconds {
            // Without a timeout the kernel arms no timer, which would cost something for every wait.
            None => self.wait_milliseconds(-1),
            Some(nanoseconds) if self.fine => self.wait_finely(nanoseconds),
            Some(nanoseconds) => self.wait_milliseconds(coarse(nanoseconds)),
        };
        match waited {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other.map(|count| count as usize),
        }
    }

    #[inline]
    fn wait_milliseconds(&mut self, milliseconds: libc::c_int) -> io::Result<libc::c_int> {
        let capacity = self.events.len() as libc::c_int;
        // SAFETY: the pointer and capacity are those of a live, writable vector.
        checked(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), capacity, milliseconds) })
    }

    /// `epoll_pwait2` (Linux 5.11). If the kernel refuses it once, all later waits are coarse.
    fn wait_finely(&mut self, nanoseconds: u64) -> io::Result<libc::c_int> {
        let timeout = timespec(nanoseconds);
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the vector and the timeout are live; no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                &raw const timeout,
                no_mask,
                0_usize,
            )
        };
        match checked(count as libc::c_int) {
            // Seccomp filters, such as Docker's, answer unknown calls with `EPERM`.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                self.fine = false;
                self.wait_milliseconds(coarse(nanoseconds))
            }
            other => other,
        }
    }

    /// The event at `index` of the last wait.
    #[inline]
    pub fn event(&self, index: usize) -> Event {
        let libc::epoll_event { events, u64: token } = self.events[index];
        let closed = events & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        Event {
            token,
            readable: closed || events & libc::EPOLLIN as u32 != 0,
            writable: events & libc::EPOLLOUT as u32 != 0,
            closed,
        }
    }
}

/// Whole milliseconds, rounded down, because waiting again is better than sleeping too long.
fn coarse(nanoseconds: u64) -> libc::c_int {
    libc::c_int::try_from(nanoseconds / 1_000_000).unwrap_or(libc::c_int::MAX)
}

fn flags(writable: bool) -> u32 {
    // Edge-triggered: otherwise every wait would report that sockets have room to write.
    let read = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
    let write = if writable { libc::EPOLLOUT } else { 0 };
    (read | write) as u32
}

fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    let fd = checked(fd)?;
    // SAFETY: the descriptor was created just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
