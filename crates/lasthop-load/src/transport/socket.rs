//! A stream socket and the few calls that the loop makes on it, each counted.

use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    rc::Rc,
    sync::Arc,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags},
};

use super::watch::{Awaited, Watch};

/// System calls made by one thread's loop.
#[derive(Clone, Debug, Default)]
pub struct Calls(Rc<Cell<u64>>);

impl Calls {
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }

    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// What to wait for on one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Write,
    ReadOrWrite,
}

/// What [`Socket::wait`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub readable: bool,
    pub writable: bool,
}

/// What the end of a stream tells about the bytes sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed the stream before it had read everything.
    Unread,
    /// The peer sends no more, but has not closed the stream: it may drop what it still reads.
    HalfClosed,
    /// The peer closed the stream. Whether it had read everything may be unknown.
    Closed,
    /// The peer reset the stream.
    Reset,
}

pub struct Socket {
    fd: OwnedFd,
    calls: Calls,
    send_flags: SendFlags,
    /// Enforces the deadline of receives that wait.
    watch: Option<Arc<Watch>>,
}

impl Socket {
    /// A client's socket. Sends never wait, so that a reply can be read while a long request is written.
    pub fn new(fd: OwnedFd, calls: Calls) -> Self {
        Self {
            fd,
            calls,
            send_flags: SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            watch: None,
        }
    }

    /// A client's socket whose receives wait until the deadline that `watch` enforces.
    pub fn watched(fd: OwnedFd, calls: Calls, watch: Arc<Watch>) -> Self {
        watch.adopt(Awaited::Socket(fd.as_raw_fd()));
        let mut socket = Self::new(fd, calls);
        socket.watch = Some(watch);
        socket
    }

    /// A server's socket. Sends wait until the kernel has taken everything.
    pub fn waiting(fd: OwnedFd) -> Self {
        Self {
            fd,
            calls: Calls::default(),
            send_flags: SendFlags::NOSIGNAL,
            watch: None,
        }
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(super) fn watch(&self) -> Option<Arc<Watch>> {
        self.watch.clone()
    }

    /// Makes the watch, if there is one, end another wait from now on.
    pub(super) fn watch_instead(&self, awaited: impl FnOnce() -> Awaited) {
        if let Some(watch) = &self.watch {
            watch.adopt(awaited());
        }
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.calls.add(1);
        through_signals(|| rustix::net::send(&self.fd, bytes, self.send_flags))
    }

    /// Sends several slices with one call.
    pub fn send_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.calls.add(1);
        let mut no_rights = SendAncillaryBuffer::default();
        through_signals(|| rustix::net::sendmsg(&self.fd, slices, &mut no_rights, self.send_flags))
    }

    /// # Errors
    ///
    /// The error of the system call; `WouldBlock` if nothing came (in time).
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time(self.receive_with(buffer, RecvFlags::empty()))
    }

    /// Turns any result from a socket that the watch has shut down into a timeout: its end, and bytes of a peer that
    /// goes on sending, which the kernel still hands over.
    #[inline]
    fn in_time(&self, received: io::Result<usize>) -> io::Result<usize> {
        if self.is_overdue() {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            received
        }
    }

    #[inline]
    fn receive_with(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        self.calls.add(1);
        through_signals(|| rustix::net::recv(&self.fd, &mut *buffer, flags).map(|(count, _)| count))
    }

    /// Receives the bytes already there, without waiting, even on a blocking socket.
    ///
    /// # Errors
    ///
    /// The error of the system call; `WouldBlock` if nothing is there.
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time(self.receive_with(buffer, RecvFlags::DONTWAIT))
    }

    /// Whether an idle connection is open and silent.
    pub fn is_quiet(&self) -> bool {
        let peeked = self.receive_with(&mut [0], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the socket is ready, at most `nanoseconds` (`None`: for ever).
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the time limit.
    pub fn wait(&self, what: Wait, nanoseconds: Option<u64>) -> io::Result<Ready> {
        self.calls.add(1);
        let events = match what {
            Wait::Write => libc::POLLOUT,
            Wait::ReadOrWrite => libc::POLLIN | libc::POLLOUT,
        };
        // Rounded up: rounded down, the last millisecond would be spent spinning.
        let milliseconds = nanoseconds.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as libc::c_int);
        let [found] = polled([(self.fd.as_raw_fd(), events)], milliseconds)?;
        if found == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Ready {
            readable: found & (libc::POLLERR | libc::POLLHUP | libc::POLLIN) != 0,
            writable: found & libc::POLLOUT != 0,
        })
    }

    /// The error of a connect in the background.
    pub fn take_error(&self) -> io::Result<()> {
        self.calls.add(1);
        match socket2::SockRef::from(&self.fd).take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn is_unix(&self) -> bool {
        self.options()
            .domain()
            .is_ok_and(|domain| domain == socket2::Domain::UNIX)
    }

    /// How a stream without further bytes to receive ended.
    pub fn ending(&self) -> Ending {
        if !self.is_unix() {
            // A closed peer answered later sends with an RST, which hides behind the end.
            return self.take_error().map_or(Ending::Unread, |()| Ending::Closed);
        }
        match polled([(self.fd.as_raw_fd(), 0)], 0) {
            Ok([found]) if found & libc::POLLHUP == 0 => Ending::HalfClosed,
            _ => Ending::Closed,
        }
    }

    /// How a stream ended that failed with `error` after it had taken `sent` bytes of the request.
    pub fn ending_by(&self, error: &io::Error, sent: usize) -> Option<Ending> {
        match error.raw_os_error()? {
            libc::EPIPE => Some(Ending::Unread),
            // A Unix socket reports this if the peer left bytes unread.
            libc::ECONNRESET if sent == 0 || self.is_unix() => Some(Ending::Unread),
            libc::ECONNRESET => Some(Ending::Reset),
            _ => None,
        }
    }

    /// Whether the watch has shut the socket down.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_overdue())
    }

    pub fn options(&self) -> socket2::SockRef<'_> {
        socket2::SockRef::from(&self.fd)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.calls.add(1);
        if let Some(watch) = &self.watch {
            // Before the descriptor is closed: otherwise the watch could hit another socket with the same number.
            watch.release();
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Repeats a call that a signal interrupted.
#[inline]
pub(super) fn through_signals(call: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    rustix::io::retry_on_intr(call).map_err(io::Error::from)
}

/// Polls several descriptors, until an event or for at most `milliseconds` (-1: for ever). Returns the events of each.
pub fn polled<const N: usize>(
    wanted: [(RawFd, libc::c_short); N],
    milliseconds: libc::c_int,
) -> io::Result<[libc::c_short; N]> {
    let mut all = wanted.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
    loop {
        // SAFETY: the array has as many valid entries as stated.
        if unsafe { libc::poll(all.as_mut_ptr(), N as libc::nfds_t, milliseconds) } >= 0 {
            return Ok(all.map(|entry| entry.revents));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
