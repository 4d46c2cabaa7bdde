//! Servers made by tests, and by lasthop itself.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::{
    net::{Ipv4Addr, Shutdown, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
};

use lasthop_trial::address::{Address, Endpoint};
use socket2::{Domain, SockAddr, Socket, Type};

/// A server made by a test, with a thread for each connection. Dropping it stops accepting; conversations end with
/// their clients.
pub struct Accepting {
    pub endpoint: Endpoint,
    pub folder: tempfile::TempDir,
    listener: Arc<Socket>,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    /// On a Unix socket.
    pub fn unix(serve: impl Fn(Socket) + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        Self::at(Address::Unix(path), folder, listener, serve)
    }

    /// On a free port.
    pub fn tcp(serve: impl Fn(Socket) + Send + Sync + 'static) -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        Self::at(Address::Tcp(address), tempfile::tempdir().unwrap(), listener, serve)
    }

    fn at(
        address: Address,
        folder: tempfile::TempDir,
        listener: Socket,
        serve: impl Fn(Socket) + Send + Sync + 'static,
    ) -> Self {
        listener.listen(128).unwrap();
        let listener = Arc::new(listener);
        let (own, serve) = (listener.clone(), Arc::new(serve));
        let accept = move || {
            while let Ok((peer, _)) = own.accept() {
                let serve = serve.clone();
                thread::spawn(move || serve(peer));
            }
        };
        let thread = Some(thread::spawn(accept));
        Self {
            endpoint: Endpoint::plain(address),
            folder,
            listener,
            thread,
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // Wakes the thread in `accept`, even if the path now leads to another listener.
        self.listener.shutdown(Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}
