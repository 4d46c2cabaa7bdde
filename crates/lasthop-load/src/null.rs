//! A server that does nothing: it counts the bytes of requests and says the same reply for each. What the load generator
//! reaches against it is what the generator could do at most on that transport.
//!
//! Its replies are those of the real server, byte for byte, so that the generator has the same to check.

use std::{
    fs, io,
    net::Shutdown,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::Errno,
};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Type};

use crate::{
    address::AddressError,
    failure::Failure,
    limits,
    protocol::Greeting,
    result::ErrorClass,
    sample::Sample,
    spec::{Address, Spec},
    transport::{Handshake, Socket, Stream, TlsError, TlsStream, server_config},
};

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;
/// Events taken from epoll at once.
const EVENTS: usize = 256;
const BUFFER: usize = 256 * 1024;
/// Rounds of a greeting, at most: more would be a conversation that does not end.
const GREETING_MAX: usize = 8;

/// What is said on a connection: an answer whenever so many bytes have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Answers before the first request.
    pub greeting: Vec<Step>,
    /// The request, over and over, and its reply. One of no bytes is answered as soon as the connection stands.
    pub request: Step,
    /// Whether the reply is the request itself, whatever it is.
    #[serde(default)]
    pub echoes: bool,
    /// Whether the connection is closed after a reply.
    pub closes: bool,
    /// Asked in plain before TLS, and the byte that grants it.
    pub tls_request: Option<Step>,
}

/// So many bytes come in, these go out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub bytes: usize,
    pub answer: Vec<u8>,
}

impl Script {
    /// The script for the load of `spec`, whose real endpoint answered with `sample`. Whoever asks is let in: what
    /// authentication costs is not part of it.
    /// Errors: the greeting of the protocol is not understood.
    pub fn learn(spec: &Spec, sample: &Sample) -> Result<Self, Failure> {
        let tls_request = spec.protocol.tls_request().filter(|_| spec.endpoint.tls.is_some());
        Ok(Self {
            greeting: greeting(spec)?,
            request: Step { bytes: sample.request, answer: sample.reply.clone() },
            echoes: spec.protocol.echoes(),
            closes: sample.closes,
            tls_request: tls_request.map(|(bytes, grant)| Step { bytes: bytes.len(), answer: vec![grant] }),
        })
    }

    /// Whether the server says its only reply unasked.
    fn speaks_first(&self) -> bool {
        self.request.bytes == 0
    }
}

/// Plays the greeting of `spec` through without a socket, and keeps how many bytes each step of it has.
fn greeting(spec: &Spec) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    if !spec.protocol.greets() {
        return Ok(steps);
    }
    let unusable = |error: io::Error| Failure::new(ErrorClass::Os, error.to_string());
    let mut exchange = spec.factory().map_err(unusable)?.exchange();
    exchange.reset();
    let mut input = Vec::new();
    while steps.len() < GREETING_MAX {
        let mut output = Vec::new();
        let greeting = exchange.greet(&input, &mut output)?;
        input = spec.protocol.welcome(steps.len());
        if !output.is_empty() {
            steps.push(Step { bytes: output.len(), answer: input.clone() });
        }
        if greeting == Greeting::Done {
            return Ok(steps);
        }
    }
    Err(Failure::protocol("the greeting does not end"))
}

/// Everything that the server needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullSpec {
    pub address: Address,
    /// Certificate chain and private key, PEM files; with them the server speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// `TCP_NODELAY` on accepted connections; ignored on Unix sockets.
    pub nodelay: bool,
    pub script: Script,
}

/// The server cannot be started or go on.
#[derive(Debug, thiserror::Error)]
pub enum NullError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the null server cannot listen on {address}: {cause}")]
    Listen { address: Address, cause: io::Error },
    #[error("the null server cannot go on: {0}")]
    Broken(#[from] io::Error),
}

/// A bound and listening server: one thread, one epoll instance.
pub struct NullServer {
    listener: socket2::Socket,
    epoll: OwnedFd,
    address: Address,
    own_path: Option<PathBuf>,
    script: Script,
    tls: Option<Arc<ServerConfig>>,
    nodelay: bool,
}

/// By descriptor.
type Connections = Vec<Option<Conversation>>;

impl NullServer {
    /// Errors: the address is taken or not usable, or TLS cannot be set up.
    pub fn bind(spec: NullSpec) -> Result<Self, NullError> {
        limits::lift_descriptors();
        let name = spec.address.socket_name()?;
        let domain = spec.address.domain();
        let tls = spec.tls.as_ref().map(|(certificate, key)| server_config(certificate, key)).transpose()?;
        let refused = |cause| NullError::Listen { address: spec.address.clone(), cause };
        let listener = socket2::Socket::new(domain, Type::STREAM.nonblocking(), None).map_err(refused)?;
        if domain != Domain::UNIX {
            listener.set_reuse_address(true).map_err(refused)?;
        }
        listener.bind(&name).map_err(refused)?;
        listener.listen(BACKLOG).map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        let own_path = spec.address.path().map(Path::to_owned);
        let server = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from)?,
            address: bound.as_socket().map_or_else(|| spec.address.clone(), Address::Tcp),
            own_path,
            script: spec.script,
            tls,
            nodelay: spec.nodelay && spec.address.ip().is_some(),
            listener,
        };
        server.watch(&server.listener)?;
        Ok(server)
    }

    /// The address that is listened on, with the port that the kernel chose where 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Lets another thread end [`NullServer::run`].
    /// Errors: no descriptor is left.
    pub fn stopper(&self) -> io::Result<NullStopper> {
        Ok(NullStopper(self.listener.try_clone()?))
    }

    /// Serves until stopped.
    /// Errors: waiting or accepting fails for good.
    pub fn run(self) -> Result<(), NullError> {
        let mut connections = Connections::new();
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(NullError::Broken(error.into())),
            }
            for Event { flags, data } in events.drain(..) {
                let fd = data.u64() as RawFd;
                if fd != self.listener.as_raw_fd() {
                    self.serve(&mut connections, fd, &mut buffer);
                } else if !flags.contains(EventFlags::HUP) {
                    self.accept(&mut connections, &mut buffer)?;
                } else {
                    // That is what shutting down a listener leads to.
                    return Ok(());
                }
            }
        }
    }

    /// Takes every connection that waits.
    fn accept(&self, connections: &mut Connections, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let socket = match self.listener.accept_raw() {
                Ok((socket, _)) => socket,
                Err(error) => match error.raw_os_error() {
                    // Nobody waits any more; or out of descriptors, and clients wait until one is free.
                    Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE) => return Ok(()),
                    Some(libc::EINTR | libc::ECONNABORTED) => continue,
                    _ => return Err(error),
                },
            };
            socket.set_nonblocking(true)?;
            if self.nodelay {
                socket.set_tcp_nodelay(true)?;
            }
            self.watch(&socket)?;
            let fd = socket.as_raw_fd();
            let slot = fd as usize;
            if connections.len() <= slot {
                connections.resize_with(slot + 1, || None);
            }
            connections[slot] = Some(Conversation::new(OwnedFd::from(socket)));
            if self.script.speaks_first() {
                self.serve(connections, fd, buffer);
            }
        }
    }

    /// A connection that is over, in whatever way, is forgotten: its descriptor closes, and epoll with it.
    fn serve(&self, connections: &mut Connections, fd: RawFd, buffer: &mut [u8]) {
        let Some(slot) = connections.get_mut(fd as usize) else { return };
        let Some(conversation) = slot else { return };
        if !matches!(conversation.go_on(&self.script, self.tls.as_ref(), buffer), Ok(true)) {
            *slot = None;
        }
    }

    fn watch(&self, fd: &impl AsFd) -> io::Result<()> {
        let data = EventData::new_u64(fd.as_fd().as_raw_fd() as u64);
        Ok(epoll::add(&self.epoll, fd, data, EventFlags::IN)?)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        if let Some(path) = &self.own_path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Ends a running null server.
pub struct NullStopper(socket2::Socket);

impl NullStopper {
    pub fn stop(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// One connection and how far it is.
struct Conversation {
    state: State,
    /// Steps of the greeting that are done.
    step: usize,
    /// Bytes of the step under way that have come.
    have: usize,
}

enum State {
    /// Nothing has been said.
    Raw(Socket),
    Shaking(Box<TlsStream>),
    Open(Stream),
    /// Only while one state becomes another.
    Gone,
}

impl Conversation {
    fn new(fd: OwnedFd) -> Self {
        Self { state: State::Raw(Socket::waiting(fd)), step: 0, have: 0 }
    }

    /// Does what can be done without waiting; false when the connection is to be closed.
    fn go_on(&mut self, script: &Script, tls: Option<&Arc<ServerConfig>>, buffer: &mut [u8]) -> Result<bool, Failure> {
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Gone) {
                State::Raw(socket) => match tls {
                    None => State::Open(Stream::Plain(socket)),
                    Some(config) => begin_tls(socket, config, script.tls_request.as_ref())?,
                },
                State::Shaking(mut stream) => match stream.handshake()? {
                    Handshake::Done => State::Open(Stream::Tls(stream)),
                    Handshake::Progress => State::Shaking(stream),
                    Handshake::WantsRead | Handshake::WantsWrite => {
                        self.state = State::Shaking(stream);
                        return Ok(true);
                    }
                },
                State::Open(stream) => {
                    self.state = State::Open(stream);
                    return self.answer(script, buffer);
                }
                State::Gone => return Ok(false),
            };
        }
    }

    fn answer(&mut self, script: &Script, buffer: &mut [u8]) -> Result<bool, Failure> {
        let Self { state: State::Open(stream), step, have } = self else { return Ok(false) };
        if script.speaks_first() {
            stream.send_all(&script.request.answer)?;
            stream.farewell();
            return Ok(false);
        }
        loop {
            let received = match stream.receive(buffer) {
                Ok(0) => return Ok(false),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(Failure::io("receive", &error)),
            };
            if script.echoes {
                stream.send_all(&buffer[..received])?;
            }
            *have += received;
            while let Some(now) = script.greeting.get(*step).filter(|now| *have >= now.bytes) {
                *have -= now.bytes;
                *step += 1;
                stream.send_all(&now.answer)?;
            }
            if *step == script.greeting.len() && !answer_requests(stream, script, have)? {
                continue;
            }
            if script.closes && *step == script.greeting.len() {
                stream.farewell();
                return Ok(false);
            }
            if received < buffer.len() && stream.short_means_empty() {
                return Ok(true);
            }
        }
    }
}

/// Answers all whole requests with one send, unless they were echoed; false where there is none.
fn answer_requests(stream: &mut Stream, script: &Script, have: &mut usize) -> Result<bool, Failure> {
    let request = &script.request;
    let whole = *have / request.bytes.max(1);
    *have %= request.bytes.max(1);
    match whole {
        0 => return Ok(false),
        _ if script.echoes => {}
        1 => stream.send_all(&request.answer)?,
        several => stream.send_all(&request.answer.repeat(several))?,
    }
    Ok(true)
}

/// Grants TLS where it is asked for in plain. The request is so short that it comes in one piece.
fn begin_tls(socket: Socket, config: &Arc<ServerConfig>, request: Option<&Step>) -> Result<State, Failure> {
    if let Some(request) = request {
        let mut asked = vec![0; request.bytes];
        match socket.receive(&mut asked) {
            Ok(count) if count == request.bytes => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(State::Raw(socket)),
            _ => return Err(Failure::protocol("not a request for TLS")),
        }
        socket.send(&request.answer).map_err(|error| Failure::io("grant TLS", &error))?;
    }
    let session = TlsStream::server(socket, Arc::clone(config));
    Ok(State::Shaking(Box::new(session.map_err(|error| Failure::protocol(error.to_string()))?)))
}
