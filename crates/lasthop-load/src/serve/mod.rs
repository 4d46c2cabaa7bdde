//! Lasthop's own server: plain blocking code, the cheapest that is honest. It also counts metrics and serves the count
//! over HTTP. The generator is measured against it.

mod packets;

use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    thread,
};

use lasthop_protocol::{echo, hello, stream};
use lasthop_system::clock;
use lasthop_trial::{
    address::{Address, Transport},
    failure::Failure,
};
use packets::Counter;
pub use packets::RECEIVED;
use rustls::ServerConfig;
use socket2::Type;

pub use crate::listener::Stopper;
use crate::{
    listener::Listener,
    transport::{self, Handshake, Socket, Stream, TlsStream, server_config},
};

/// The text of the pattern `hello`.
pub const HELLO: &[u8] = hello::TEXT.as_bytes();

const SHORTAGE_PAUSE_NS: u64 = 10_000_000;

/// How the server serves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Send [`HELLO`] and close; one connection after the other.
    Hello,
    /// Send back every message once it is complete.
    Echo,
    /// Send as many bytes as requested.
    Stream,
    /// Count the lines in whole messages, without a reply.
    Statsd,
}

/// Certificate chain and private key, PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSpec {
    pub pattern: Pattern,
    pub address: Address,
    pub tls: Option<ServeTls>,
    /// `TCP_NODELAY` on accepted connections; ignored on Unix sockets.
    pub nodelay: bool,
    /// Length of the accept queue, 1 to `net.core.somaxconn`.
    pub backlog: u32,
    /// Nanoseconds for which a counting server sleeps after each message.
    pub pause_ns: u64,
    /// Address at which a counting server serves its count over HTTP.
    pub counter: Option<SocketAddr>,
}

impl ServeSpec {
    /// A server with the usual options.
    pub fn new(pattern: Pattern, address: Address) -> Self {
        Self {
            pattern,
            address,
            tls: None,
            nodelay: true,
            // The default of nginx and Redis.
            backlog: 511,
            pause_ns: 0,
            counter: None,
        }
    }
}

/// A bound and listening server.
pub struct Server {
    listener: Listener,
    connections: Arc<ConnectionServer>,
    counter: Option<Counter>,
}

struct ConnectionServer {
    pattern: Pattern,
    keeps_boundaries: bool,
    pause_ns: u64,
    /// Metrics that a counting server has received.
    received: Arc<AtomicU64>,
    tls: Option<Arc<ServerConfig>>,
    nodelay: bool,
    /// The channel handed to clients, if the address has one.
    channel: Option<Transport>,
}

/// Binds, listens and serves for ever.
pub fn run(spec: &ServeSpec) -> Result<(), String> {
    Server::bind(spec)?.run()
}

impl Server {
    pub fn bind(spec: &ServeSpec) -> Result<Self, String> {
        packets::validate(spec)?;
        let tls = spec
            .tls
            .as_ref()
            .map(|tls| server_config(&tls.certificate, &tls.key))
            .transpose()?;
        let listener = Listener::bind(&spec.address, i32::try_from(spec.backlog).unwrap_or(i32::MAX))?;
        let received = Arc::new(AtomicU64::new(0));
        let counter = spec
            .counter
            .map(|at| Counter::start(at, Arc::clone(&received)))
            .transpose()?;
        let connections = ConnectionServer {
            pattern: spec.pattern,
            keeps_boundaries: spec.address.keeps_boundaries(),
            pause_ns: spec.pause_ns,
            received,
            tls,
            nodelay: spec.nodelay && spec.address.ip().is_some() && spec.address.kind() == Type::STREAM,
            channel: spec.address.channel(),
        };
        Ok(Self {
            listener,
            connections: Arc::new(connections),
            counter,
        })
    }

    /// The address of the counter's page, with the port that the kernel chose if port 0 was requested.
    pub fn counter(&self) -> Option<&Address> {
        self.counter.as_ref().map(Counter::address)
    }

    /// The address that the server listens on, with the port that the kernel chose if port 0 was requested.
    pub fn address(&self) -> &Address {
        &self.listener.address
    }

    /// Lets another thread end [`Server::run`].
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.listener.stopper()
    }

    /// Serves until stopped.
    pub fn run(self) -> Result<(), String> {
        if self.address().kind() == Type::DGRAM {
            return self.run_unconnected();
        }
        loop {
            match self.listener.accept() {
                Ok(Some(accepted)) => self.serve_client(accepted),
                // Clients stay in the queue while descriptors or memory are lacking: without a pause this would spin.
                Ok(None) => clock::sleep(SHORTAGE_PAUSE_NS),
                // The error of `accept` after the listener was shut down.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
                Err(error) => return Err(not_accepted(&error)),
            }
        }
    }

    /// Serves a client. Its failure neither ends the server nor is reported.
    fn serve_client(&self, accepted: socket2::Socket) {
        if self.connections.pattern == Pattern::Hello {
            let _ = self.connections.hello(accepted);
            return;
        }
        let connections = Arc::clone(&self.connections);
        let serve = move || {
            let _ = match connections.pattern {
                Pattern::Stream => connections.stream(accepted),
                Pattern::Statsd => connections.count_all(accepted),
                Pattern::Echo | Pattern::Hello => connections.echo(accepted),
            };
        };
        // Without a thread the connection is closed, and the client counts that. Stacks are small, because ten thousand
        // connections take ten thousand of them.
        let _ = thread::Builder::new().stack_size(128 * 1024).spawn(serve);
    }
}

fn not_accepted(cause: &io::Error) -> String {
    format!("cannot accept a connection: {cause}")
}

impl ConnectionServer {
    fn open(&self, accepted: socket2::Socket) -> Result<Stream, Failure> {
        if self.nodelay {
            accepted
                .set_tcp_nodelay(true)
                .map_err(|error| Failure::io("set nodelay", &error))?;
        }
        let socket = Socket::waiting(OwnedFd::from(accepted));
        if let Some(channel) = self.channel {
            let offered = transport::offer(channel, socket);
            return offered.map_err(|error| Failure::io("make a channel", &error));
        }
        let Some(config) = &self.tls else {
            return Ok(Stream::Plain(socket));
        };
        let mut tls = TlsStream::server(socket, Arc::clone(config))?;
        // This does not spin: on a blocking socket every step waits for the client.
        while tls.handshake()? != Handshake::Done {}
        Ok(Stream::Tls(Box::new(tls)))
    }

    /// Opens a stream whose receives wait for the client.
    fn open_for_long(&self, accepted: socket2::Socket) -> Result<Stream, Failure> {
        let stream = self.open(accepted)?;
        stream.guard().map_err(|error| Failure::io("guard a channel", &error))?;
        Ok(stream)
    }

    fn hello(&self, accepted: socket2::Socket) -> Result<(), Failure> {
        let mut stream = self.open(accepted)?;
        stream.send_all(HELLO)?;
        stream.farewell();
        Ok(())
    }

    fn echo(&self, accepted: socket2::Socket) -> Result<(), Failure> {
        let mut stream = self.open_for_long(accepted)?;
        // The kernel drops the part of a message that does not fit.
        let mut buffer = vec![
            0;
            if self.keeps_boundaries {
                packets::BUFFER
            } else {
                64 * 1024
            }
        ];
        let mut filled = 0;
        loop {
            filled += receive(&mut stream, &mut buffer[filled..])?;
            let mut begin = 0;
            while let Some(size) = message_size(&buffer[begin..filled])? {
                if size > filled - begin {
                    // `message_size` has bounded what a client may ask for.
                    buffer.resize(buffer.len().max(size), 0);
                    break;
                }
                stream.send_all(&buffer[begin..begin + size])?;
                begin += size;
            }
            buffer.copy_within(begin..filled, 0);
            filled -= begin;
        }
    }

    fn stream(&self, accepted: socket2::Socket) -> Result<(), Failure> {
        let mut stream = self.open_for_long(accepted)?;
        let mut request = [0; stream::REQUEST];
        let mut chunk = Vec::new();
        loop {
            let mut filled = 0;
            while filled < request.len() {
                filled += receive(&mut stream, &mut request[filled..])?;
            }
            send_bytes(&mut stream, &request, &mut chunk)?;
        }
    }
}

/// Receives at least one byte; fails if the peer has closed.
fn receive(stream: &mut Stream, buffer: &mut [u8]) -> Result<usize, Failure> {
    match stream.receive(buffer) {
        Ok(0) => Err(Failure::reset("the peer closed")),
        Ok(count) => Ok(count),
        Err(error) => Err(Failure::io("receive", &error)),
    }
}

/// The size of the message that `bytes` begin with; `None` if it is incomplete.
fn message_size(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(prefix) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let size = u32::from_le_bytes(*prefix);
    // A size of 0 would be answered for ever without progress.
    if !(echo::HEADER as u32..=echo::SIZE_MAX).contains(&size) {
        return Err(Failure::protocol(format!("a message of {size} bytes")));
    }
    Ok(Some(size as usize))
}

fn send_bytes(stream: &mut Stream, request: &[u8; stream::REQUEST], chunk: &mut Vec<u8>) -> Result<(), Failure> {
    let (size, step) = request.split_at(8);
    let mut left = u64::from_le_bytes(size.try_into().expect("eight bytes"));
    let step = u32::from_le_bytes(step.try_into().expect("four bytes"));
    if left > stream::SIZE_MAX || step == 0 || step > stream::CHUNK_MAX {
        return Err(Failure::protocol(format!(
            "a transfer of {left} bytes in sends of {step}"
        )));
    }
    // The pattern repeats: a buffer that is longer by one period can be sent from any phase of it.
    let step = step as usize;
    let period = 256;
    if chunk.len() < step + period {
        *chunk = (0..(step + period) as u64).map(stream::pattern).collect();
    }
    let mut phase = 0;
    while left > 0 {
        let take = (step as u64).min(left) as usize;
        stream.send_all(&chunk[phase..phase + take])?;
        phase = (phase + take) % period;
        left -= take as u64;
    }
    Ok(())
}
