//! Reads from a pipe that another thread can end. Only bytes or the end of all writers wake a thread that reads from a
//! pipe. This side can bring about neither: the pipe is the server's, and opening it for writing would use this user's
//! rights. So a signal wakes the thread.

use std::{
    cell::Cell,
    io,
    os::fd::AsFd,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering, fence},
    },
    thread,
    time::Duration,
};

use rustix::io::Errno;

/// Ignored by default, so that a late signal does no harm.
const WAKE: libc::c_int = libc::SIGURG;
/// Interval between signals to a thread that does not wait yet.
const AGAIN: Duration = Duration::from_micros(100);

/// The thread that reads from a pipe; 0 if none does.
#[derive(Debug, Default)]
pub struct Reader(AtomicI32);

impl Reader {
    /// # Errors
    ///
    /// The error of the system call; `WouldBlock` once the wait is `over`.
    #[inline]
    pub fn read(&self, pipe: impl AsFd, buffer: &mut [u8], over: impl Fn() -> bool) -> io::Result<usize> {
        self.0.store(own_thread(), Ordering::Relaxed);
        // Either this thread sees that the wait is over, or `wake` sees this thread.
        fence(Ordering::SeqCst);
        let received = loop {
            if over() {
                break Err(io::ErrorKind::WouldBlock.into());
            }
            match rustix::io::read(&pipe, &mut *buffer) {
                Err(Errno::INTR) => {}
                other => break other.map_err(io::Error::from),
            }
        };
        self.0.store(0, Ordering::Release);
        received
    }

    /// Ends the read of another thread, whose wait must be over.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        loop {
            let reader = self.0.load(Ordering::Acquire);
            if reader == 0 {
                return;
            }
            // SAFETY: the call takes no pointers; a thread that is gone gets no signal.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), reader, WAKE) };
            // A signal after the reader's check and before its `read` is lost, so it is repeated until the reader has
            // left.
            thread::sleep(AGAIN);
        }
    }
}

thread_local! {
    static OWN: Cell<i32> = const { Cell::new(0) };
}

#[inline]
fn own_thread() -> i32 {
    match OWN.get() {
        0 => listen(),
        known => known,
    }
}

/// Lets the signal interrupt this thread's calls, without other effects. Returns the thread's id.
#[cold]
fn listen() -> i32 {
    static HANDLED: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all-zero is a valid sigaction and a valid set; the handler does nothing, so it may run anywhere.
    unsafe {
        HANDLED.call_once(|| {
            // Flags of zero: with SA_RESTART the kernel would resume the read instead of failing it with `EINTR`.
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            libc::sigaction(WAKE, &raw const action, std::ptr::null_mut());
        });
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, WAKE);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    OWN.set(own);
    own
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_read_ends_when_its_wait_is_over() {
        let (pipe, writer) = rustix::pipe::pipe().unwrap();
        let reader = Reader::default();
        let over = AtomicBool::new(false);
        for round in 0..200 {
            over.store(false, Ordering::SeqCst);
            thread::scope(|scope| {
                let wait = || reader.read(&pipe, &mut [0; 8], || over.load(Ordering::SeqCst));
                let ended = scope.spawn(wait);
                // Before the read, while it begins, and within it.
                thread::sleep(Duration::from_micros(round));
                over.store(true, Ordering::SeqCst);
                reader.wake();
                assert_eq!(ended.join().unwrap().unwrap_err().kind(), io::ErrorKind::WouldBlock);
            });
        }
        over.store(false, Ordering::SeqCst);
        rustix::io::write(&writer, b"abc").unwrap();
        assert_eq!(
            reader.read(&pipe, &mut [0; 8], || false).unwrap(),
            3,
            "nothing was written to wake it"
        );
    }
}
