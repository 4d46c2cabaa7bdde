//! The pattern `echo` for thousands of connections on one thread: what a connection costs is its descriptor and a few
//! words, and a buffer only while a message is on its way.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use lasthop_protocol::failure::Failure;
use lasthop_system::clock;

use super::{Pattern, ServeError, Server, Shared, is_passing, is_shortage, message_size};
use crate::{
    engine::poller::{Event, Interest, Poller},
    transport::{Calls, Socket},
};

/// The token of the listener.
const LISTENER: u64 = u64::MAX - 1;
const BUFFER: usize = 256 * 1024;
const SHORTAGE_PAUSE_NS: u64 = 10_000_000;

struct Connection {
    socket: Socket,
    /// The begin of a message that is not whole.
    part: Vec<u8>,
    /// What the socket did not take, from `sent` on. Nothing is received meanwhile.
    unsent: Vec<u8>,
    sent: usize,
}

struct Many {
    server: Server,
    poller: Poller,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

impl Server {
    /// Serves all connections on the calling thread until it is stopped: the pattern `echo` without TLS only.
    /// Errors: another pattern or TLS is asked for, or accepting fails for good.
    pub fn run_many(self) -> Result<(), ServeError> {
        let Shared { pattern, tls, channel, keeps_boundaries, .. } = &*self.shared;
        if *pattern != Pattern::Echo || tls.is_some() || channel.is_some() || *keeps_boundaries {
            return Err(ServeError::NotMany);
        }
        let poller = Poller::new(Calls::default()).map_err(ServeError::Accept)?;
        self.listener.set_nonblocking(true).map_err(ServeError::Accept)?;
        poller.add(self.listener.as_raw_fd(), LISTENER, Interest::Read).map_err(ServeError::Accept)?;
        let buffer = vec![0; BUFFER];
        let mut many = Many { server: self, poller, connections: Vec::new(), free: Vec::new(), buffer };
        loop {
            let count = many.poller.wait(None).map_err(ServeError::Accept)?;
            for index in 0..count {
                let event = many.poller.event(index);
                let goes_on = match event.token {
                    // An accept that does not wait would not tell that a Unix listener was shut down.
                    LISTENER if event.closed => false,
                    LISTENER => many.accept_all()?,
                    _ => many.serve(event),
                };
                if !goes_on {
                    return Ok(());
                }
            }
        }
    }
}

impl Many {
    /// False when the listener was shut down.
    fn accept_all(&mut self) -> Result<bool, ServeError> {
        loop {
            match self.server.listener.accept_raw() {
                Ok((accepted, _)) => self.add(accepted),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if is_passing(&error) => {}
                Err(error) if is_shortage(&error) => clock::sleep(SHORTAGE_PAUSE_NS),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(false),
                Err(error) => return Err(ServeError::Accept(error)),
            }
        }
    }

    /// A connection that cannot be set up is closed; its client counts that.
    fn add(&mut self, accepted: socket2::Socket) {
        let nodelay = self.server.shared.nodelay;
        if accepted.set_nonblocking(true).is_err() || (nodelay && accepted.set_tcp_nodelay(true).is_err()) {
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let socket = Socket::new(OwnedFd::from(accepted), Calls::default());
        if self.poller.add(socket.as_raw_fd(), index as u64, Interest::ReadWrite).is_ok() {
            self.connections[index] = Some(Connection { socket, part: Vec::new(), unsent: Vec::new(), sent: 0 });
        } else {
            self.free.push(index);
        }
    }

    /// A client's failure is its own: it is closed and not talked about. Always goes on.
    fn serve(&mut self, event: Event) -> bool {
        let index = event.token as usize;
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return true };
        let closed = !matches!(connection.advance(&mut self.buffer), Ok(true));
        if closed {
            self.connections[index] = None;
            self.free.push(index);
        }
        true
    }
}

impl Connection {
    /// Sends and receives until neither goes on; false when the peer has closed.
    fn advance(&mut self, buffer: &mut [u8]) -> Result<bool, Failure> {
        while self.flush()? {
            let count = match self.socket.receive(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(Failure::io("receive", &error)),
            };
            self.take(&buffer[..count])?;
            if count < buffer.len() && self.unsent.is_empty() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// True when nothing is left to send.
    fn flush(&mut self) -> Result<bool, Failure> {
        while self.sent < self.unsent.len() {
            match self.socket.send(&self.unsent[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::io("send", &error)),
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
        Ok(true)
    }

    /// Echoes the whole messages of what was received, and keeps the rest.
    fn take(&mut self, received: &[u8]) -> Result<(), Failure> {
        if self.part.is_empty() {
            let whole = whole_messages(received)?;
            self.echo(&received[..whole])?;
            self.part.extend_from_slice(&received[whole..]);
            return Ok(());
        }
        self.part.extend_from_slice(received);
        let whole = whole_messages(&self.part)?;
        if whole > 0 {
            let mut messages = std::mem::take(&mut self.part);
            self.part = messages.split_off(whole);
            self.echo(&messages)?;
        }
        Ok(())
    }

    fn echo(&mut self, messages: &[u8]) -> Result<(), Failure> {
        if messages.is_empty() {
            return Ok(());
        }
        let sent = match self.socket.send(messages) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(Failure::io("send", &error)),
        };
        self.unsent.extend_from_slice(&messages[sent..]);
        Ok(())
    }
}

/// Bytes of the whole messages that `bytes` begin with.
fn whole_messages(bytes: &[u8]) -> Result<usize, Failure> {
    let mut whole = 0;
    while let Some(size) = message_size(&bytes[whole..])? {
        if size > bytes.len() - whole {
            break;
        }
        whole += size;
    }
    Ok(whole)
}
