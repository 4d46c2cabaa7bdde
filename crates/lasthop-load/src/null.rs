//! The null server counts the bytes of requests and sends the same reply to each. The load that the generator reaches
//! against it is the most that the generator can do on that transport.
//!
//! Replies equal those of the real server, byte for byte, so that the generator has the same to check.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    panic::resume_unwind,
    path::PathBuf,
    sync::Arc,
    thread,
};

use lasthop_protocol::{Exchange, spec::Spec, tls_request::TlsRequest};
use lasthop_trial::{address::Address, failure::Failure};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::Errno,
};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};

use crate::{
    listener::{Listener, Stopper},
    sample::Sample,
    transport::{Handshake, Socket, Stream, TlsStream, server_config},
};

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;
/// Events taken from epoll at once.
const EVENTS: usize = 256;
const BUFFER: usize = 256 * 1024;
/// Maximum rounds of a greeting; more would be a conversation without end.
const GREETING_MAX: usize = 16;

/// The conversation on a connection: an answer whenever a number of bytes has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Answers before the first request.
    pub greeting: Vec<Step>,
    /// The repeated request and its reply. An empty request is answered as soon as the connection is open.
    pub request: Step,
    /// Whether the reply repeats the request.
    #[serde(default)]
    pub echoes: bool,
    /// Whether the connection is closed after a reply.
    pub closes: bool,
    /// Plaintext answers before TLS.
    #[serde(default)]
    pub plain: Vec<Step>,
    /// Offsets in the reply of the four bytes that number its request: 1, 3, 5 and so on.
    #[serde(default)]
    pub numbers: Vec<usize>,
}

/// An answer to send after `bytes` more bytes have arrived; at once if 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub bytes: usize,
    pub answer: Vec<u8>,
}

impl Script {
    /// The script for the load of `spec`, whose real endpoint answered with `sample`. The server accepts every client:
    /// the script leaves out the cost of authentication.
    pub fn learn(spec: &Spec, sample: &Sample) -> Result<Self, Failure> {
        let tls_request = spec.protocol.tls_request().filter(|_| spec.endpoint.tls.is_some());
        let (greeting, request) = conversation(spec, tls_request)?;
        let (answer, numbers) = spec.protocol.repeatable(sample.reply.clone());
        Ok(Self {
            greeting,
            request: Step { bytes: request, answer },
            numbers,
            echoes: spec.protocol.echoes(),
            closes: sample.closes,
            plain: tls_request.map(plain).unwrap_or_default(),
        })
    }

    /// Whether the server sends its only reply unasked.
    fn only_speaks(&self) -> bool {
        self.request.bytes == 0
    }

    /// Whether the server sends something before it has received anything.
    fn speaks_first(&self) -> bool {
        let first = self.plain.first().or(self.greeting.first()).unwrap_or(&self.request);
        first.bytes == 0
    }
}

/// The steps before TLS: the server's plaintext and the request for TLS, in order.
fn plain(tls: TlsRequest) -> Vec<Step> {
    let bytes = tls.request.len();
    let answer = tls.granted.to_vec();
    if !tls.server_first {
        return vec![Step { bytes, answer }];
    }
    let asked = Step {
        bytes,
        answer: Vec::new(),
    };
    vec![Step { bytes: 0, answer }, asked]
}

/// Plays the greeting of `spec` without a socket. Returns the bytes of each step, and those of a request.
fn conversation(spec: &Spec, tls_request: Option<TlsRequest>) -> Result<(Vec<Step>, usize), Failure> {
    let spec = &Spec {
        // One request and not a batch: each is answered as soon as its bytes are there.
        pipeline: 1,
        ..spec.clone()
    };
    let mut exchange = spec.factory().exchange();
    exchange.reset();
    let steps = if spec.protocol.greets() {
        greeting(spec, exchange.as_mut(), tls_request)?
    } else {
        Vec::new()
    };
    exchange.begin();
    Ok((steps, exchange.request().len()))
}

fn greeting(spec: &Spec, exchange: &mut dyn Exchange, tls_request: Option<TlsRequest>) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    // The server's plaintext before TLS is its first welcome.
    let said = usize::from(tls_request.is_some_and(|request| request.server_first));
    if let Some(request) = tls_request {
        exchange.secured(&[], request.granted);
    }
    let mut input = Vec::new();
    while steps.len() < GREETING_MAX {
        let mut output = Vec::new();
        let is_over = exchange.greet(&input, &mut output)?;
        input = spec.protocol.welcome(said + steps.len(), tls_request.is_some());
        if !output.is_empty() || !is_over {
            steps.push(Step {
                bytes: output.len(),
                answer: input.clone(),
            });
        }
        if is_over {
            return Ok(steps);
        }
    }
    Err(Failure::protocol("the greeting does not end"))
}

/// Settings of the null server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullSpec {
    pub address: Address,
    /// Certificate chain and private key, PEM files; with them the server speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// `TCP_NODELAY` on accepted connections; ignored on Unix sockets.
    pub nodelay: bool,
    pub script: Script,
    /// As many threads as the driver has, so that the server is not the bottleneck.
    pub threads: u32,
}

/// A bound and listening server, with an epoll instance for each thread.
pub struct NullServer {
    listener: Listener,
    threads: u32,
    script: Script,
    tls: Option<Arc<ServerConfig>>,
    nodelay: bool,
}

/// Conversations by descriptor.
type Connections = Vec<Option<Conversation>>;

impl NullServer {
    pub fn bind(spec: NullSpec) -> Result<Self, String> {
        let tls = spec
            .tls
            .as_ref()
            .map(|(certificate, key)| server_config(certificate, key))
            .transpose()?;
        let listener = Listener::bind(&spec.address, BACKLOG).map_err(|cause| format!("the null server: {cause}"))?;
        listener.socket.set_nonblocking(true).map_err(broken)?;
        Ok(Self {
            threads: spec.threads,
            script: spec.script,
            tls,
            nodelay: spec.nodelay && spec.address.ip().is_some(),
            listener,
        })
    }

    /// The address that the server listens on, with the port that the kernel chose if port 0 was requested.
    pub fn address(&self) -> &Address {
        &self.listener.address
    }

    /// Lets another thread end [`NullServer::run`].
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.listener.stopper()
    }

    /// Serves until stopped.
    pub fn run(self) -> Result<(), String> {
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(|| self.work())).collect();
            let own = self.work();
            let ended = others.into_iter().map(|other| other.join());
            ended.fold(own, |so_far, other| {
                so_far.and(other.unwrap_or_else(|panic| resume_unwind(panic)))
            })
        })
        .map_err(broken)
    }

    fn work(&self) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        watch(&epoll, &self.listener.socket)?;
        let mut connections = Connections::new();
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            match epoll::wait(&epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for Event { flags, data } in events.drain(..) {
                let fd = data.u64() as RawFd;
                if fd != self.listener.socket.as_raw_fd() {
                    self.serve(&mut connections, fd, &mut buffer);
                } else if !flags.contains(EventFlags::HUP) {
                    self.accept(&epoll, &mut connections, &mut buffer)?;
                } else {
                    // epoll reports a hang-up for a listener that was shut down.
                    return Ok(());
                }
            }
        }
    }

    /// Accepts one connection. Connections still waiting are reported again and go to any free thread.
    fn accept(&self, epoll: &OwnedFd, connections: &mut Connections, buffer: &mut [u8]) -> io::Result<()> {
        let Some(socket) = self.listener.accept()? else {
            return Ok(());
        };
        socket.set_nonblocking(true)?;
        if self.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        watch(epoll, &socket)?;
        let fd = socket.as_raw_fd();
        let slot = fd as usize;
        if connections.len() <= slot {
            connections.resize_with(slot + 1, || None);
        }
        connections[slot] = Some(Conversation::new(OwnedFd::from(socket)));
        // No event will come: such a client sends nothing before the server has spoken.
        if self.script.speaks_first() {
            self.serve(connections, fd, buffer);
        }
        Ok(())
    }

    /// Serves a connection. When it is over for any reason, it is dropped: the descriptor closes, and epoll forgets it.
    fn serve(&self, connections: &mut Connections, fd: RawFd, buffer: &mut [u8]) {
        let Some(slot) = connections.get_mut(fd as usize) else {
            return;
        };
        let Some(conversation) = slot else { return };
        if !matches!(conversation.go_on(&self.script, self.tls.as_ref(), buffer), Ok(true)) {
            *slot = None;
        }
    }
}

fn watch(epoll: &OwnedFd, fd: &impl AsFd) -> io::Result<()> {
    let data = EventData::new_u64(fd.as_fd().as_raw_fd() as u64);
    Ok(epoll::add(epoll, fd, data, EventFlags::IN)?)
}

fn broken(cause: io::Error) -> String {
    format!("the null server cannot continue: {cause}")
}

/// One connection and its place in the script.
struct Conversation {
    state: Connected,
    /// Greeting steps completed.
    step: usize,
    /// Bytes received of the current step.
    have: usize,
    /// Requests answered.
    answered: u32,
}

enum Connected {
    /// Nothing has been said.
    Raw(Socket),
    Shaking(Box<TlsStream>),
    Open(Stream),
    /// A placeholder during a change of state.
    Gone,
}

impl Conversation {
    fn new(fd: OwnedFd) -> Self {
        Self {
            state: Connected::Raw(Socket::waiting(fd)),
            step: 0,
            have: 0,
            answered: 0,
        }
    }

    /// Proceeds as far as possible without waiting; false when the connection is to be closed.
    fn go_on(&mut self, script: &Script, tls: Option<&Arc<ServerConfig>>, buffer: &mut [u8]) -> Result<bool, Failure> {
        loop {
            self.state = match std::mem::replace(&mut self.state, Connected::Gone) {
                Connected::Raw(socket) => match tls {
                    None => Connected::Open(Stream::Plain(socket)),
                    Some(config) => {
                        if !self.say_in_plain(&socket, script, buffer)? {
                            self.state = Connected::Raw(socket);
                            return Ok(true);
                        }
                        Connected::Shaking(Box::new(TlsStream::server(socket, Arc::clone(config))?))
                    }
                },
                Connected::Shaking(mut stream) => match stream.handshake()? {
                    Handshake::Done => Connected::Open(Stream::Tls(stream)),
                    Handshake::Progress => Connected::Shaking(stream),
                    Handshake::WantsRead | Handshake::WantsWrite => {
                        self.state = Connected::Shaking(stream);
                        return Ok(true);
                    }
                },
                Connected::Open(stream) => {
                    self.state = Connected::Open(stream);
                    return self.answer(script, buffer);
                }
                Connected::Gone => return Ok(false),
            };
        }
    }

    /// Exchanges the plaintext before TLS; false when the client's turn comes. The client's messages are short enough
    /// to arrive in one piece.
    fn say_in_plain(&mut self, socket: &Socket, script: &Script, buffer: &mut [u8]) -> Result<bool, Failure> {
        while let Some(now) = script.plain.get(self.step) {
            if now.bytes > 0 {
                // No byte more: the following bytes belong to the TLS handshake, which reads from the socket itself.
                match socket.receive(&mut buffer[..now.bytes]) {
                    Ok(count) if count == now.bytes => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    _ => return Err(Failure::protocol("not a request for TLS")),
                }
            }
            socket
                .send(&now.answer)
                .map_err(|error| Failure::io("grant TLS", &error))?;
            self.step += 1;
        }
        self.step = 0;
        Ok(true)
    }

    fn answer(&mut self, script: &Script, buffer: &mut [u8]) -> Result<bool, Failure> {
        let Self {
            state: Connected::Open(stream),
            step,
            have,
            answered,
        } = self
        else {
            return Ok(false);
        };
        if script.only_speaks() {
            stream.send_all(&script.request.answer)?;
            stream.farewell();
            return Ok(false);
        }
        welcome(stream, script, have, step)?;
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
            welcome(stream, script, have, step)?;
            if *step == script.greeting.len() && !answer_requests(stream, script, have, answered)? {
                continue;
            }
            if script.closes && *step == script.greeting.len() {
                stream.farewell();
                return Ok(false);
            }
            // Saves a receive that would find nothing; epoll reports bytes that arrive meanwhile.
            if received < buffer.len() && stream.short_means_empty() {
                return Ok(true);
            }
        }
    }
}

/// Answers every step of the greeting whose bytes have arrived.
fn welcome(stream: &mut Stream, script: &Script, have: &mut usize, step: &mut usize) -> Result<(), Failure> {
    while let Some(now) = script.greeting.get(*step).filter(|now| *have >= now.bytes) {
        *have -= now.bytes;
        *step += 1;
        stream.send_all(&now.answer)?;
    }
    Ok(())
}

/// Answers all complete requests with one send, unless they were echoed; false if there are none.
fn answer_requests(
    stream: &mut Stream,
    script: &Script,
    have: &mut usize,
    answered: &mut u32,
) -> Result<bool, Failure> {
    let request = &script.request;
    // A request of no bytes never gets here (`only_speaks`); `max` only keeps the division defined.
    let whole = *have / request.bytes.max(1);
    *have %= request.bytes.max(1);
    match whole {
        0 => return Ok(false),
        _ if script.echoes => {}
        _ if !script.numbers.is_empty() => stream.send_all(&numbered(script, whole, answered))?,
        1 => stream.send_all(&request.answer)?,
        several => stream.send_all(&request.answer.repeat(several))?,
    }
    Ok(true)
}

/// `count` answers, each with the number of its request.
fn numbered(script: &Script, count: usize, answered: &mut u32) -> Vec<u8> {
    let mut answers = script.request.answer.repeat(count);
    for answer in answers.chunks_mut(script.request.answer.len().max(1)) {
        for at in &script.numbers {
            // Streams that a client opens have odd numbers, in ascending order (RFC 9113, section 5.1.1).
            answer[*at..at + 4].copy_from_slice(&(answered.wrapping_mul(2) + 1).to_be_bytes());
        }
        *answered = answered.wrapping_add(1);
    }
    answers
}
