//! Two POSIX message queues, one for each direction. A stream is sent in messages; an empty one is its end.

use std::{
    ffi::CString,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The most that a user may have without privileges: 8 KiB a message; and some less than the 10 messages, so that the
/// user's limit (`RLIMIT_MSGQUEUE`, 800 KiB) has room for several connections.
const MESSAGE: usize = 8192;
const MESSAGES: usize = 8;

/// How long room for a connection's queues is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// A queue is made and loses its name at once: the name is taken for that time only.
static NAMED: Mutex<()> = Mutex::new(());

#[derive(Debug)]
pub struct Queues {
    inbound: OwnedFd,
    outbound: OwnedFd,
    message_size: usize,
    /// Whether a full queue is waited for.
    waits: bool,
    /// The peer has ended, or this side's watch has given up.
    is_over: AtomicBool,
}

impl Queues {
    /// The server's side, and the client's inbound and outbound queue.
    ///
    /// # Errors
    ///
    /// The system's own; `EMFILE` if the user's queues leave no room for more.
    pub fn create(path: &Path) -> io::Result<(Self, [OwnedFd; 2])> {
        let name = name(path)?;
        let (inbound, outbound) = pair(&name)?;
        let theirs = [outbound.try_clone()?, inbound.try_clone()?];
        let is_over = AtomicBool::new(false);
        Ok((
            Self {
                inbound,
                outbound,
                message_size: MESSAGE,
                waits: true,
                is_over,
            },
            theirs,
        ))
    }

    /// The client's side.
    ///
    /// # Errors
    ///
    /// These are no queues.
    pub fn open([inbound, outbound]: [OwnedFd; 2]) -> io::Result<Self> {
        let message_size = message_size(inbound.as_fd())?.max(message_size(outbound.as_fd())?);
        Ok(Self {
            inbound,
            outbound,
            message_size,
            waits: false,
            is_over: AtomicBool::new(false),
        })
    }

    pub fn message_size(&self) -> usize {
        self.message_size
    }

    pub fn inbound(&self) -> BorrowedFd<'_> {
        self.inbound.as_fd()
    }

    /// Inbound and outbound.
    pub fn descriptors(&self) -> (RawFd, RawFd) {
        (self.inbound.as_raw_fd(), self.outbound.as_raw_fd())
    }

    /// Sends as many messages as there is room for; at least one where this side waits.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is no room, `BrokenPipe` when the peer has ended.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        for message in bytes.chunks(self.message_size) {
            if self.is_over.load(Ordering::Acquire) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match put(&self.outbound, message, self.waits) {
                Ok(()) => sent += message.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// `buffer` has room for a whole message; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// The system's own.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_over.load(Ordering::Acquire) {
            return got(&self.inbound, buffer, true);
        }
        match got(&self.inbound, buffer, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Tells the peer that nothing more comes.
    pub fn end(&self) {
        let _ = put(&self.outbound, &[], false);
    }

    /// This side is done: nothing waits any more, and what the peer has not read yet stays.
    pub fn finish(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Ends every wait of this side, by what wakes it: a message in one queue, room in the other.
    pub fn hang_up(&self) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        let _ = put(&self.inbound, &[], false);
        let _ = got(&self.outbound, &mut vec![0; self.message_size], false);
    }
}

/// Whether the kernel knows it as a message queue.
pub fn is_one(fd: BorrowedFd<'_>) -> bool {
    message_size(fd).is_ok()
}

/// Removes the name of a queue whose server at `path` was killed between making it and taking its name away.
pub fn forget(path: &Path) {
    if let Ok(name) = name(path) {
        // SAFETY: `name` ends with a NUL.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    }
}

/// The path of the server's socket, which no other server has.
fn name(path: &Path) -> io::Result<CString> {
    let path = path
        .as_os_str()
        .as_bytes()
        .iter()
        // The name of a queue has one slash, and that at its beginning (mq_overview(7)).
        .map(|byte| if *byte == b'/' { b'.' } else { *byte });
    Ok(CString::new([b'/'].into_iter().chain(path).collect::<Vec<u8>>())?)
}

/// Two queues. The limit is shared by all processes of the user, and connections that have just ended may still count,
/// so this waits for room. It holds no queue meanwhile: two that wait must not block each other.
fn pair(name: &CString) -> io::Result<(OwnedFd, OwnedFd)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match made(name).and_then(|one| Ok((one, made(name)?))) {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) && Instant::now() < deadline => {
                thread::sleep(PAUSE)
            }
            other => return other,
        }
    }
}

/// A queue without a name.
fn made(name: &CString) -> io::Result<OwnedFd> {
    // SAFETY: all-zero is a valid mq_attr.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = MESSAGES as _;
    attributes.mq_msgsize = MESSAGE as _;
    let _named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    // Both directions for each queue: `hang_up` writes into the one that it reads from, and the reverse.
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let mode: libc::mode_t = 0o600;
    // SAFETY: `name` ends with a NUL and `attributes` is valid.
    let fd = checked(unsafe { libc::mq_open(name.as_ptr(), flags, mode, &raw mut attributes) } as isize)?;
    // SAFETY: `name` ends with a NUL.
    unsafe { libc::mq_unlink(name.as_ptr()) };
    // SAFETY: the descriptor was made just now and has no other owner; on Linux a queue is a descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn message_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: there is room for the attributes; a descriptor of another kind is refused.
    checked(unsafe { libc::mq_getattr(fd.as_raw_fd(), attributes.as_mut_ptr()) } as isize)?;
    // SAFETY: the call has filled it.
    Ok(unsafe { attributes.assume_init() }.mq_msgsize as usize)
}

/// The deadline of a call: none, or long past.
fn deadline(waits: bool) -> *const libc::timespec {
    // `O_NONBLOCK` is no alternative: the peer's descriptor is a duplicate and shares that flag.
    static PAST: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if waits { ptr::null() } else { &raw const PAST }
}

fn put(queue: &OwnedFd, message: &[u8], waits: bool) -> io::Result<()> {
    let fd = queue.as_raw_fd();
    let deadline = deadline(waits);
    // SAFETY: the message is as long as it is said to be.
    again(|| unsafe { libc::mq_timedsend(fd, message.as_ptr().cast(), message.len(), 0, deadline) } as isize).map(drop)
}

fn got(queue: &OwnedFd, buffer: &mut [u8], waits: bool) -> io::Result<usize> {
    let fd = queue.as_raw_fd();
    let deadline = deadline(waits);
    let start = buffer.as_mut_ptr();
    let length = buffer.len();
    // SAFETY: the buffer is as long as it is said to be; the priority is not asked for.
    again(|| unsafe { libc::mq_timedreceive(fd, start.cast(), length, ptr::null_mut(), deadline) })
}

fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match checked(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            other => return other,
        }
    }
}

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
