//! Channels are no named sockets: a server makes one for each client that connects to its Unix socket and hands over
//! the descriptors (`SCM_RIGHTS`). So no name outlives a process, and the socket tells each side when the other one
//! ends.

mod memory;
mod reader;

use std::{
    fs,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
    thread,
};

use lasthop_system::files;
use lasthop_trial::address::Transport;
use rustix::{
    fs::{FileType, OFlags, fcntl_setfl, fstat},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType,
    },
    pipe::{PipeFlags, pipe_with},
};

use self::{memory::Memory, reader::Reader};
use super::{
    Stream,
    socket::{Ready, Socket, Wait, polled, through_signals},
    watch::{Awaited, Interrupt},
};

/// The medium of a connection, seen from one side.
#[derive(Debug)]
enum Medium {
    Pipe {
        read: OwnedFd,
        write: OwnedFd,
        reader: Reader,
    },
    Memory(Memory),
}

/// A connection through a channel.
pub struct Passed {
    medium: Arc<Medium>,
    /// The socket over which the channel was handed over. Its end is the peer's end.
    control: Socket,
}

/// The server's side of a new channel; the client's side has been handed over.
enum Made {
    Socket(Socket),
    Medium(Medium),
}

/// Makes a channel for the client at the other end of `control`.
pub fn offer(channel: Transport, control: Socket) -> io::Result<Stream> {
    match make(channel, &control) {
        Ok(Made::Socket(socket)) => Ok(Stream::Plain(socket)),
        Ok(Made::Medium(own)) => Ok(Passed::through(own, control)),
        Err(error) => {
            if let Some(number) = error.raw_os_error() {
                // Otherwise the client would only see a closed connection.
                let number = u8::try_from(number).unwrap_or(u8::MAX);
                let _ = rustix::net::send(&control, &[number], SendFlags::NOSIGNAL);
            }
            Err(error)
        }
    }
}

fn make(channel: Transport, control: &Socket) -> io::Result<Made> {
    let (own, theirs) = match channel {
        Transport::Socketpair => {
            let flags = SocketFlags::CLOEXEC;
            let (own, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            (Made::Socket(Socket::waiting(own)), vec![theirs])
        }
        Transport::Pipe => {
            let ((read, their_write), (their_read, write)) = (pipe()?, pipe()?);
            (
                Made::Medium(Medium::of_pipes(read, write)),
                vec![their_read, their_write],
            )
        }
        Transport::Shm | Transport::ShmSpin => {
            let (own, theirs) = Memory::create(channel == Transport::ShmSpin)?;
            (Made::Medium(Medium::Memory(own)), vec![theirs])
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    hand_over(control, &theirs)?;
    Ok(own)
}

/// Takes the channel that the server at the other end of `control` has made.
///
/// # Errors
///
/// The error of a system call; `InvalidData` for a channel of another kind.
pub fn receive_channel(channel: Transport, control: Socket) -> io::Result<Stream> {
    let given = taken(&control)?;
    let medium = match (channel, <[OwnedFd; 2]>::try_from(given)) {
        (Transport::Socketpair, Err(given)) => {
            let socket = given.into_iter().next().filter(|fd| is(fd, FileType::Socket));
            let socket = socket.ok_or(io::ErrorKind::InvalidData)?;
            let calls = control.calls().clone();
            let watch = control.watch();
            // Before the new socket is watched, because the end of the old one ends its watch.
            drop(control);
            return Ok(Stream::Plain(match watch {
                Some(watch) => Socket::watched(socket, calls, watch),
                None => Socket::new(socket, calls),
            }));
        }
        (Transport::Pipe, Ok([read, write])) if is(&read, FileType::Fifo) && is(&write, FileType::Fifo) => {
            // So that a reply can be read while a long request is written.
            fcntl_setfl(&write, OFlags::NONBLOCK)?;
            Medium::of_pipes(read, write)
        }
        (Transport::Shm | Transport::ShmSpin, Err(given)) => {
            let file = given.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
            Medium::Memory(Memory::open(file, channel == Transport::ShmSpin)?)
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Passed::through(medium, control))
}

/// Whether a descriptor is of this kind: a server may hand over anything that it can open.
fn is(fd: &OwnedFd, kind: FileType) -> bool {
    fstat(fd).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == kind)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn hand_over(control: &Socket, given: &[OwnedFd]) -> io::Result<()> {
    control.calls().add(1);
    let given: Vec<BorrowedFd<'_>> = given.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&given));
    rustix::net::sendmsg(control, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn taken(control: &Socket) -> io::Result<Vec<OwnedFd>> {
    control.calls().add(1);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let mut byte = [0];
    rustix::io::retry_on_intr(|| rustix::net::recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut rights, flags))?;
    let rights = rights.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(given) => Some(given),
        _ => None,
    });
    let given: Vec<OwnedFd> = rights.flatten().collect();
    match byte[0] {
        _ if !given.is_empty() => Ok(given),
        0 => Err(io::ErrorKind::ConnectionReset.into()),
        number => {
            let error = io::Error::from_raw_os_error(number.into());
            Err(io::Error::other(format!(
                "the server could not make a channel: {error}"
            )))
        }
    }
}

impl Passed {
    fn through(medium: Medium, control: Socket) -> Stream {
        let medium = Arc::new(medium);
        control.watch_instead(|| Awaited::Channel(medium.clone(), control.as_raw_fd()));
        Stream::Passed(Box::new(Self { medium, control }))
    }

    pub fn control(&self) -> &Socket {
        &self.control
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match &*self.medium {
            Medium::Pipe { write, .. } => through_signals(|| rustix::io::write(write, bytes)),
            Medium::Memory(memory) => memory.send(bytes),
        };
        self.count_calls();
        sent
    }

    /// Receives bytes; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// The error of a system call; `WouldBlock` if the watch has ended the wait.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = match &*self.medium {
            Medium::Pipe { read, reader, .. } => reader.read(read, buffer, || self.control.is_overdue()),
            Medium::Memory(memory) => memory.receive(buffer),
        };
        self.count_calls();
        let count = received?;
        // The watch itself may have woken this side, and a peer may go on sending.
        if self.control.is_overdue() {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(count)
        }
    }

    /// Like [`Passed::receive`], but never waits.
    ///
    /// # Errors
    ///
    /// Also `WouldBlock` if no bytes are there.
    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.medium.is_readable()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.receive(buffer)
    }

    /// Counts the system calls: one for each call of a pipe; shared memory keeps its own count.
    #[inline]
    fn count_calls(&self) {
        let made = if let Medium::Memory(memory) = &*self.medium {
            memory.take_calls()
        } else {
            1
        };
        self.control.calls().add(made);
    }

    pub fn is_quiet(&self) -> bool {
        self.control.is_quiet() && matches!(self.medium.is_readable(), Ok(false))
    }

    /// Like [`Socket::wait`], but the watch or the peer's end ends it early.
    ///
    /// # Errors
    ///
    /// The error of a system call; `BrokenPipe` if the peer has ended.
    pub fn wait(&self, what: Wait) -> io::Result<Ready> {
        self.control.calls().add(1);
        let (read, write) = match &*self.medium {
            Medium::Memory(memory) => return memory.wait(what),
            Medium::Pipe { read, write, .. } => (read.as_raw_fd(), write.as_raw_fd()),
        };
        let reads = if what == Wait::ReadOrWrite { libc::POLLIN } else { 0 };
        let events = [
            (read, reads),
            (write, libc::POLLOUT),
            (self.control.as_raw_fd(), libc::POLLRDHUP),
        ];
        let [read, write, control] = polled(events, -1)?;
        if read == 0 && write & libc::POLLOUT == 0 && control != 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(Ready {
            readable: read != 0,
            writable: write & libc::POLLOUT != 0,
        })
    }

    /// Tells the client that no more bytes follow.
    pub fn farewell(&self) {
        if let Medium::Memory(memory) = &*self.medium {
            memory.end();
        }
    }

    /// Ends the server's waits when the client ends, if the channel itself does not tell.
    pub fn guard(&self) -> io::Result<()> {
        if let Medium::Pipe { .. } = *self.medium {
            return Ok(());
        }
        let medium = Arc::clone(&self.medium);
        let control = self.control.as_fd().try_clone_to_owned()?;
        let watch = move || {
            // The client sends nothing here: only its end, or this side's, ends the receive.
            let _ = through_signals(|| rustix::net::recv(&control, &mut [0_u8], RecvFlags::empty()).map(|(n, _)| n));
            medium.hang_up();
        };
        thread::Builder::new().stack_size(64 * 1024).spawn(watch).map(drop)
    }

    /// What the kernel says about the channel: its kind, named as by [`lasthop_trial::address::Address::family`],
    /// and its name.
    pub fn proof(&self) -> io::Result<(&'static str, String)> {
        let fd = match &*self.medium {
            Medium::Pipe { read, .. } => read.as_fd(),
            Medium::Memory(memory) => memory.file(),
        };
        let name = name_of(fd)?;
        let is_pipe = FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Fifo;
        let family = if is_pipe {
            Transport::Pipe.name()
        } else if is_mapped(&name)? {
            Transport::Shm.name()
        } else {
            "unknown"
        };
        Ok((family, name))
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        // Ends the guard, which holds a copy of the descriptor.
        let _ = self.control.options().shutdown(std::net::Shutdown::Both);
    }
}

/// The kernel's name of a descriptor.
pub fn name_of(fd: impl AsFd) -> io::Result<String> {
    let fd = fd.as_fd().as_raw_fd();
    Ok(fs::read_link(format!("/proc/self/fd/{fd}"))?.display().to_string())
}

/// Whether a file is mapped so that other processes see what is written.
fn is_mapped(name: &str) -> io::Result<bool> {
    let maps = files::text("/proc/self/maps")?;
    Ok(maps.lines().any(|line| line.ends_with(name) && line.contains(" rw-s ")))
}

impl Medium {
    fn of_pipes(read: OwnedFd, write: OwnedFd) -> Self {
        Self::Pipe {
            read,
            write,
            reader: Reader::default(),
        }
    }

    /// Whether a receive would not wait.
    fn is_readable(&self) -> io::Result<bool> {
        match self {
            Self::Pipe { read, .. } => is_readable(read.as_raw_fd()),
            Self::Memory(memory) => Ok(memory.is_readable()),
        }
    }
}

impl Interrupt for Medium {
    fn hang_up(&self) {
        match self {
            Self::Pipe { reader, .. } => reader.wake(),
            Self::Memory(memory) => memory.hang_up(),
        }
    }

    fn is_abandoned(&self, control: RawFd) -> bool {
        let silent = !matches!(self, Self::Pipe { .. });
        silent && polled([(control, libc::POLLRDHUP)], 0).is_ok_and(|[found]| found != 0)
    }
}

fn is_readable(fd: RawFd) -> io::Result<bool> {
    Ok(polled([(fd, libc::POLLIN)], 0)?[0] != 0)
}
