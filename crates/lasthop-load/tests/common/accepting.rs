//! Servers of a test's own making; also those of lasthop itself.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::{
    net::{Ipv4Addr, Shutdown, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
};

use lasthop_protocol::spec::{Address, Endpoint};
use socket2::{Domain, SockAddr, Socket, Type};

/// A server of the test's own making: each connection is served on a thread of its own. Dropping it ends the accepting, not
/// the conversations: these end with their clients.
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
            endpoint: Endpoint { address, tls: None },
            folder,
            listener,
            thread,
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // It wakes who waits in accept, also where the path leads to another listener by now.
        self.listener.shutdown(Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}
