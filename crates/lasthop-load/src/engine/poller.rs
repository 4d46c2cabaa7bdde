//! epoll with a timer among its descriptors, so that a wait needs no timeout.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime},
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
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        calls.add(1);
        epoll::add(&epoll, &timer, EventData::new_u64(TICK), EventFlags::IN)?;
        Ok(Self {
            epoll,
            timer,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            calls,
            fine: true,
        })
    }

    /// Makes the timer report [`TICK`] every `nanoseconds`; 0 stops it.
    pub fn tick_every(&self, nanoseconds: u64) -> io::Result<()> {
        self.calls.add(1);
        let time = timespec(nanoseconds);
        let setting = Itimerspec {
            it_interval: time,
            it_value: time,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// Acknowledges a tick, so that the next one is reported.
    pub fn tick_seen(&self) {
        self.calls.add(1);
        // The eight bytes that a timer wants; a failed read means that there was no tick.
        let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
    }

    /// Registers a socket. Each change is reported once (edge-triggered), writability only if `writable`.
    pub fn add(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        self.calls.add(1);
        Ok(epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            flags(writable),
        )?)
    }

    pub fn modify(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        self.calls.add(1);
        Ok(epoll::modify(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            flags(writable),
        )?)
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

fn flags(writable: bool) -> EventFlags {
    // Edge-triggered: otherwise every wait would report that sockets have room to write.
    let read = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writable { read | EventFlags::OUT } else { read }
}

fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as _,
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
