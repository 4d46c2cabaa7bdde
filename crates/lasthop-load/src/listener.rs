//! A server's listening socket and its file.

use std::{
    fs, io,
    net::Shutdown,
    path::{Path, PathBuf},
};

use lasthop_system::limits;
use lasthop_trial::address::Address;
use socket2::{Domain, Socket, Type};

/// A bound socket, listening unless it takes datagrams. Dropping it removes its file.
pub struct Listener {
    pub socket: Socket,
    /// The address, with the port that the kernel chose if port 0 was requested.
    pub address: Address,
    own_path: Option<PathBuf>,
}

impl Listener {
    /// `backlog` is the length of the accept queue; the kernel caps it at `net.core.somaxconn`.
    pub fn bind(address: &Address, backlog: i32) -> Result<Self, String> {
        // Every client takes a descriptor, and the usual soft limit is 1,024.
        limits::lift_descriptors();
        let name = address.socket_name()?;
        let domain = address.domain();
        let kind = address.kind();
        let listen = || {
            let socket = Socket::new(domain, kind, None)?;
            // Otherwise `bind` fails while old connections are in `TIME_WAIT`. Not for UDP: there `SO_REUSEADDR` lets a
            // second server bind the same port.
            if domain != Domain::UNIX && kind == Type::STREAM {
                socket.set_reuse_address(true)?;
            }
            socket.bind(&name)?;
            if kind != Type::DGRAM {
                socket.listen(backlog)?;
            }
            let bound = socket.local_addr()?;
            Ok((socket, bound.as_socket()))
        };
        let (socket, bound) = listen().map_err(|cause: io::Error| format!("cannot listen on {address}: {cause}"))?;
        let own_path = address.path().map(Path::to_owned);
        let address = bound.map_or_else(|| address.clone(), |bound| address.at("", "", bound.port()));
        Ok(Self {
            socket,
            address,
            own_path,
        })
    }

    /// Accepts the next client. `None` if there is none now: no client waits at a non-blocking listener, or descriptors
    /// or memory have run out while clients wait in the queue.
    ///
    /// # Errors
    ///
    /// The error of the system call; `EINVAL` after [`Stopper::stop`].
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        loop {
            let error = match self.socket.accept_raw() {
                Ok((client, _)) => return Ok(Some(client)),
                Err(error) => error,
            };
            match error.raw_os_error() {
                // `ECONNABORTED`: this client left the queue; the next one may be waiting.
                Some(libc::EINTR | libc::ECONNABORTED) => {}
                Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    /// Lets another thread end the server.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper(self.socket.try_clone()?))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.own_path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Ends a running server.
pub struct Stopper(Socket);

impl Stopper {
    pub fn stop(&self) {
        // Closing would not wake a thread inside `accept`. On UDP the call fails (`ENOTCONN`) and wakes the receiver
        // all the same.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
