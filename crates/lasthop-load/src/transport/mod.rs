//! The interface between engines and sockets: connect, send, receive, close. After `connect`, the same code drives
//! every transport.

mod channel;
mod connector;
mod socket;
mod tls;
mod watch;

use std::io;

pub use channel::{Passed, name_of, offer};
pub use connector::{Connector, Opened};
use lasthop_trial::failure::Failure;
pub use socket::{Calls, Ending, Socket, Wait, polled};
pub use tls::{Handshake, TlsStream, client_config, server_config};
pub use watch::Watch;

use self::socket::Ready;

/// A connected byte stream, plain or encrypted.
pub enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream>),
    Passed(Box<Passed>),
}

impl Stream {
    /// Passes as many of `bytes` as the socket takes without waiting. A shorter count means that the socket is full;
    /// encrypted bytes may then still wait for [`Stream::flush`].
    ///
    /// # Errors
    ///
    /// The error of a system call; never `WouldBlock`.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Self::Plain(socket) => socket.send(bytes),
            Self::Tls(tls) => tls.send(bytes),
            Self::Passed(passed) => passed.send(bytes),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Whether the socket has taken all bytes given to [`Stream::send`].
    ///
    /// # Errors
    ///
    /// The error of a system call; never `WouldBlock`.
    #[inline]
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) | Self::Passed(_) => Ok(true),
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// Fills the beginning of `buffer`; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// The error of a system call. `WouldBlock` on a non-blocking socket without bytes, and on a blocking socket after
    /// its timeout; `InvalidData` when TLS is violated.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(tls) => tls.receive(buffer),
            Self::Passed(passed) => passed.receive(buffer),
        }
    }

    /// Like [`Stream::receive`], but never waits.
    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive_now(buffer),
            Self::Tls(tls) => tls.receive_now(buffer),
            Self::Passed(passed) => passed.receive_now(buffer),
        }
    }

    /// Whether a receive that did not fill its buffer has emptied the socket, so that no second one is needed.
    #[inline]
    pub fn short_means_empty(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether all bytes of the peer were received before this error: a peer that closes a Unix socket with bytes
    /// unread causes a reset after its last byte, and nothing is lost.
    pub fn has_said_all(&self, error: &io::Error) -> bool {
        matches!(self, Self::Plain(socket) if error.kind() == io::ErrorKind::ConnectionReset && socket.is_unix())
    }

    /// Whether all further bytes to receive are still in the socket, so that epoll reports them.
    pub fn is_drained(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Passed(_) => true,
            Self::Tls(tls) => tls.is_drained(),
        }
    }

    /// The server's certificate (DER) on an encrypted stream, and the server's plaintext before TLS.
    pub fn secured(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Plain(_) | Self::Passed(_) => None,
            Self::Tls(tls) => Some((tls.session().peer_certificates()?.first()?.as_ref(), tls.heard())),
        }
    }

    /// The socket that carries the bytes, or over which their channel was handed over.
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
            Self::Passed(passed) => passed.control(),
        }
    }

    /// Waits until the stream is ready, at most `nanoseconds` (`None`: for ever), or until its watch or its peer ends
    /// the wait.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after the time limit, or the error of a system call.
    pub fn wait(&self, what: Wait, nanoseconds: Option<u64>) -> io::Result<Ready> {
        match self {
            Self::Passed(passed) => passed.wait(what),
            other => other.socket().wait(what, nanoseconds),
        }
    }

    /// Whether an idle connection is open and the peer has sent nothing.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_quiet(),
            Self::Tls(tls) => tls.is_quiet(),
            Self::Passed(passed) => passed.is_quiet(),
        }
    }

    /// Sends a goodbye if closing alone tells nothing (TLS has `close_notify`), without waiting for an answer.
    pub fn farewell(&mut self) {
        match self {
            Self::Plain(_) => {}
            Self::Tls(tls) => tls.farewell(),
            Self::Passed(passed) => passed.farewell(),
        }
    }

    /// Ends a server's waits when its client ends, if the stream itself does not tell.
    pub fn guard(&self) -> io::Result<()> {
        if let Self::Passed(passed) = self {
            passed.guard()
        } else {
            Ok(())
        }
    }

    /// Sends all of `bytes`; waits as long as needed, or as the watch allows.
    pub fn send_all(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = self.try_send_all(bytes);
        sent.map_err(|error| {
            if self.socket().is_overdue() {
                Failure::timeout("send")
            } else {
                Failure::io("send", &error)
            }
        })
    }

    fn try_send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let sent = self.send(bytes)?;
            bytes = &bytes[sent..];
            if bytes.is_empty() && self.flush()? {
                return Ok(());
            }
            self.wait(Wait::Write, None)?;
        }
    }
}
