//! Opens connections to one endpoint.

use std::{io, os::fd::OwnedFd, sync::Arc};

use lasthop_protocol::{spec::Spec, tls_request::TlsRequest};
use lasthop_system::clock;
use lasthop_trial::{
    address::Transport,
    failure::Failure,
    options::{SocketOptions, Timeouts},
};
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{Domain, SockAddr, Type};

use super::{Calls, Handshake, Socket, Stream, TlsStream, Watch, channel, client_config};

/// Everything needed to open a connection, prepared once and shared by all threads.
#[derive(Clone)]
pub struct Connector {
    address: SockAddr,
    domain: Domain,
    kind: Type,
    options: SocketOptions,
    timeouts: Timeouts,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Plaintext messages before TLS.
    tls_request: Option<TlsRequest>,
    channel: Option<Transport>,
}

/// A connection, and the times to open it.
pub struct Opened {
    pub stream: Stream,
    pub connect_ns: u64,
    pub tls_ns: Option<u64>,
}

impl Connector {
    pub fn new(spec: &Spec) -> Result<Self, String> {
        let endpoint = &spec.endpoint;
        let mut tls = endpoint.tls.as_ref().map(client_config).transpose()?;
        // The application protocol's name in the handshake (ALPN), if it has one.
        if let (Some((config, _)), Some(name)) = (&mut tls, spec.protocol.application()) {
            Arc::make_mut(config).alpn_protocols = vec![name.to_vec()];
        }
        Ok(Self {
            address: endpoint.address.socket_name()?,
            domain: endpoint.address.domain(),
            kind: endpoint.address.kind(),
            options: spec.socket.clone(),
            timeouts: spec.timeouts,
            tls_request: spec.protocol.tls_request().filter(|_| tls.is_some()),
            tls,
            channel: endpoint.address.channel(),
        })
    }

    pub fn asks_for_tls(&self) -> bool {
        self.tls_request.is_some()
    }

    /// Whether the server sends plaintext before it is asked for TLS.
    pub fn listens_first(&self) -> bool {
        self.tls_request.is_some_and(|request| request.server_first)
    }

    /// Asks for TLS on a new connection, unless the server speaks first.
    pub fn ask_for_tls(&self, socket: &Socket) -> Result<(), Failure> {
        match self.tls_request {
            Some(asked) if !asked.server_first => say(socket, asked.request),
            _ => Ok(()),
        }
    }

    /// Receives the server's plaintext, and no byte beyond. True when the handshake may begin, false when there is
    /// nothing more to receive yet.
    pub fn hear(&self, socket: &Socket, heard: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(asked) = self.tls_request else {
            return Ok(true);
        };
        loop {
            let had = heard.len();
            let more = (asked.missing)(heard)?;
            if more == 0 {
                if asked.server_first {
                    say(socket, asked.request)?;
                }
                return Ok(true);
            }
            heard.resize(had + more, 0);
            let received = socket.receive(&mut heard[had..]);
            heard.truncate(had + received.as_ref().map_or(0, |count| *count));
            match received {
                Ok(0) => {
                    return Err(Failure::reset("request for TLS: the peer closed the connection"));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::io("request for TLS", &error)),
            }
        }
    }

    pub fn is_unix(&self) -> bool {
        self.domain == Domain::UNIX
    }

    pub fn options(&self) -> &SocketOptions {
        &self.options
    }

    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Connects, with a TLS handshake if configured, on a blocking socket. `watch` enforces its deadlines; that of the
    /// first request begins here.
    ///
    /// # Errors
    ///
    /// Classes: refused, backlog full, no port, timeout, TLS.
    pub fn open(&self, calls: &Calls, watch: &Arc<Watch>) -> Result<Opened, Failure> {
        let begin = clock::now();
        watch.expect_by(begin.saturating_add(self.timeouts.connect_ns));
        let socket = self.connect(calls, watch).map_err(|error| {
            if watch.is_overdue() {
                Failure::timeout("connect")
            } else {
                Failure::connect(&error)
            }
        })?;
        if let Some(channel) = self.channel {
            let name = channel.name();
            let taken = channel::receive_channel(channel, socket).map_err(|error| match error.kind() {
                _ if watch.is_overdue() => Failure::timeout("connect"),
                io::ErrorKind::InvalidData => Failure::protocol(format!("what the server hands over is no {name}")),
                _ => Failure::connect(&error),
            })?;
            return Ok(self.opened(taken, clock::now() - begin, None, watch));
        }
        let connected = clock::now();
        let deadline = connected.saturating_add(self.timeouts.connect_ns);
        watch.expect_by(deadline);
        self.ask_for_tls(&socket)?;
        let mut heard = Vec::new();
        if !self.hear(&socket, &mut heard)? {
            return Err(Failure::timeout("request for TLS"));
        }
        let mut stream = self.wrap(socket, heard)?;
        let mut tls_ns = None;
        if let Stream::Tls(tls) = &mut stream {
            finish_handshake(tls, deadline)?;
            tls_ns = Some(clock::now() - connected);
        }
        Ok(self.opened(stream, connected - begin, tls_ns, watch))
    }

    /// Starts the deadline of the first request.
    fn opened(&self, stream: Stream, connect_ns: u64, tls_ns: Option<u64>, watch: &Watch) -> Opened {
        watch.expect_by(clock::now().saturating_add(self.timeouts.request_ns));
        Opened {
            stream,
            connect_ns,
            tls_ns,
        }
    }

    /// A connected socket whose receives wait. A full backlog of a Unix socket fails at once, as in
    /// [`Connector::start`]: waiting in the kernel would hide from one engine what the other counts.
    fn connect(&self, calls: &Calls, watch: &Arc<Watch>) -> io::Result<Socket> {
        calls.add(1);
        let kind = if self.is_unix() {
            self.kind.nonblocking()
        } else {
            self.kind
        };
        let socket = Socket::watched(self.socket(kind, calls)?.into(), calls.clone(), Arc::clone(watch));
        connect_through_signals(&socket.options(), &self.address)?;
        if self.is_unix() {
            calls.add(1);
            rustix::fs::fcntl_setfl(&*socket.options(), rustix::fs::OFlags::empty())?;
        }
        Ok(socket)
    }

    /// Starts to connect on a non-blocking socket; true when the connection is already open.
    ///
    /// # Errors
    ///
    /// The connect fails, at once for a Unix socket with a full backlog.
    pub fn start(&self, calls: &Calls) -> Result<(Socket, bool), Failure> {
        let socket = self
            .socket(self.kind.nonblocking(), calls)
            .map_err(|error| Failure::connect(&error))?;
        calls.add(1);
        let connected = match socket.connect(&self.address) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
            Err(error) => return Err(Failure::connect(&error)),
        };
        Ok((Socket::new(OwnedFd::from(socket), calls.clone()), connected))
    }

    /// A stream over a connected socket, on which the server sent the plaintext `heard`. Its TLS handshake, if any, is
    /// still to come.
    pub fn wrap(&self, socket: Socket, heard: Vec<u8>) -> Result<Stream, Failure> {
        let Some((config, name)) = &self.tls else {
            return Ok(Stream::Plain(socket));
        };
        let tls = TlsStream::client(socket, Arc::clone(config), name.clone(), heard)?;
        Ok(Stream::Tls(Box::new(tls)))
    }

    fn socket(&self, kind: Type, calls: &Calls) -> io::Result<socket2::Socket> {
        calls.add(1);
        let socket = socket2::Socket::new_raw(self.domain, kind.cloexec(), None)?;
        if !self.is_unix() && self.kind == Type::STREAM && self.options.nodelay {
            calls.add(1);
            socket.set_tcp_nodelay(true)?;
        }
        if self.is_unix() && self.kind == Type::DGRAM {
            // Binds a name (unix(7), "autobind"), without which a server could not answer.
            calls.add(1);
            socket.bind(&SockAddr::unix("")?)?;
        }
        // Before `connect`: TCP negotiates its window scale there, and later sizes do not change that (tcp(7)).
        if let Some(size) = self.options.send_buffer {
            calls.add(1);
            socket.set_send_buffer_size(size as usize)?;
        }
        if let Some(size) = self.options.receive_buffer {
            calls.add(1);
            socket.set_recv_buffer_size(size as usize)?;
        }
        Ok(socket)
    }
}

/// Sends a message so short that a new socket takes it at once.
fn say(socket: &Socket, words: &[u8]) -> Result<(), Failure> {
    socket
        .send(words)
        .map(drop)
        .map_err(|error| Failure::io("request for TLS", &error))
}

/// Connects even if a signal interrupts: a TCP connect then goes on by itself.
fn connect_through_signals(socket: &socket2::Socket, address: &SockAddr) -> io::Result<()> {
    loop {
        match socket.connect(address) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The connect was completed between the interruption and this second call.
            Err(error) if error.raw_os_error() == Some(libc::EISCONN) => return Ok(()),
            other => return other,
        }
    }
}

fn finish_handshake(tls: &mut TlsStream, deadline: u64) -> Result<(), Failure> {
    loop {
        let left = deadline.saturating_sub(clock::now());
        if left == 0 {
            return Err(Failure::timeout("TLS handshake"));
        }
        match tls.handshake()? {
            Handshake::Done => return Ok(()),
            Handshake::WantsRead => return Err(Failure::timeout("TLS handshake")),
            Handshake::WantsWrite => {
                let waited = tls.socket().wait(super::Wait::Write, Some(left));
                waited.map_err(|error| Failure::io("TLS handshake", &error))?;
            }
            Handshake::Progress => {}
        }
    }
}
