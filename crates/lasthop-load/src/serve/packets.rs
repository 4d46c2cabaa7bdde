//! Sockets that carry whole messages: an echo of each, or a count of the metrics in them, served over HTTP.

use std::{
    fmt::Display,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use lasthop_system::clock;
use lasthop_trial::{address::Address, failure::Failure};
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};

use super::{ConnectionServer, Pattern, ServeSpec, Server, not_accepted, receive};
use crate::{
    listener::{Listener, Stopper},
    transport::{Socket, Stream, polled},
};

/// The counter's name on the page.
pub const RECEIVED: &str = "received_metrics_total";
/// More than the longest message that a socket takes by default.
pub const BUFFER: usize = 256 * 1024;
/// Timeout for a silent client of the page.
const QUESTION: Duration = Duration::from_secs(1);
/// Accept queue of the page.
const BACKLOG: i32 = 128;

pub fn validate(spec: &ServeSpec) -> Result<(), String> {
    let keeps_boundaries = spec.address.keeps_boundaries();
    let possible = match spec.pattern {
        Pattern::Statsd => keeps_boundaries,
        Pattern::Echo => true,
        Pattern::Hello | Pattern::Stream => !keeps_boundaries,
    };
    let refused = if !possible || keeps_boundaries && spec.tls.is_some() {
        "sockets of whole messages serve the patterns `echo` and `statsd`, without TLS; other sockets serve all but `statsd`"
    } else if spec.pattern == Pattern::Statsd && spec.counter.is_none() {
        "the pattern `statsd` needs an address where it tells what it has received"
    } else {
        return Ok(());
    };
    Err(refused.to_owned())
}

impl Server {
    /// Serves a socket that accepts no connections, until it is stopped.
    pub(super) fn run_unconnected(self) -> Result<(), String> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let (message, sender) =
                match rustix::net::recvfrom(&self.listener.socket, &mut buffer[..], RecvFlags::empty()) {
                    Ok((count, _, sender)) => (&buffer[..count], sender),
                    Err(Errno::INTR | Errno::AGAIN) => continue,
                    Err(error) => return Err(not_accepted(&error.into())),
                };
            if message.is_empty() && self.is_stopped() {
                return Ok(());
            }
            match (self.connections.pattern, sender) {
                (Pattern::Statsd, _) => self.connections.count(message),
                // A client that is gone gets no answer.
                (_, Some(sender)) => {
                    let _ = rustix::net::sendto(&self.listener.socket, message, SendFlags::NOSIGNAL, &sender);
                }
                // The sender is a Unix socket without a name: no answer can reach it.
                (_, None) => {}
            }
        }
    }

    /// Whether the socket was shut down, which a receive shows like an empty message.
    fn is_stopped(&self) -> bool {
        let asked = [(self.listener.socket.as_raw_fd(), libc::POLLRDHUP)];
        polled(asked, 0).is_ok_and(|[found]| found != 0)
    }
}

impl ConnectionServer {
    /// Counts the messages of a connection.
    pub(super) fn count_all(&self, accepted: socket2::Socket) -> Result<(), Failure> {
        let mut stream = Stream::Plain(Socket::waiting(OwnedFd::from(accepted)));
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = receive(&mut stream, &mut buffer)?;
            self.count(&buffer[..count]);
        }
    }

    fn count(&self, message: &[u8]) {
        let metrics = message
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .count();
        // Relaxed: the page reads a growing number, and nothing else depends on it.
        self.received.fetch_add(metrics as u64, Ordering::Relaxed);
        if self.pause_ns > 0 {
            clock::sleep(self.pause_ns);
        }
    }
}

/// A page with one counter.
pub struct Counter {
    stopper: Stopper,
    address: Address,
    thread: Option<JoinHandle<()>>,
}

impl Counter {
    pub fn start(at: SocketAddr, received: Arc<AtomicU64>) -> Result<Self, String> {
        let failed = |cause: &dyn Display| format!("cannot tell at {at} what was received: {cause}");
        let listener = Listener::bind(&Address::Tcp(at), BACKLOG).map_err(|cause| failed(&cause))?;
        let address = listener.address.clone();
        let stopper = listener.stopper().map_err(|cause| failed(&cause))?;
        let body = move || {
            // A listener that was shut down accepts no more.
            while let Ok(Some(client)) = listener.accept() {
                // A client's failure is its own.
                let _ = answer(client.into(), received.load(Ordering::Relaxed));
            }
        };
        let thread = thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(body)
            .map_err(|cause| failed(&cause))?;
        Ok(Self {
            stopper,
            address,
            thread: Some(thread),
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut client: TcpStream, received: u64) -> io::Result<()> {
    client.set_read_timeout(Some(QUESTION))?;
    let mut asked = Vec::new();
    let mut buffer = [0; 1024];
    while !asked.ends_with(b"\r\n\r\n") && asked.len() < 16 * 1024 {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            count => asked.extend_from_slice(&buffer[..count]),
        }
    }
    let body = format!("# TYPE {RECEIVED} counter\n{RECEIVED} {received}\n");
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
    client.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}
