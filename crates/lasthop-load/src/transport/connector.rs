//! Opens connections to one endpoint.

use std::{io, os::fd::OwnedFd, sync::Arc};

use lasthop_protocol::{
    failure::Failure,
    spec::{Endpoint, SocketOptions, Timeouts, Transport},
    tls_request::TlsRequest,
};
use lasthop_system::clock;
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{Domain, SockAddr, Type};

use super::{Calls, Handshake, Socket, Stream, TlsStream, Watch, channel, client_config};

/// Everything needed to open one more connection, prepared once. Shared by all threads.
#[derive(Clone)]
pub struct Connector {
    address: SockAddr,
    domain: Domain,
    kind: Type,
    options: SocketOptions,
    timeouts: Timeouts,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// What is said in plain before TLS.
    tls_request: Option<TlsRequest>,
    channel: Option<Transport>,
}

/// A connection, and how long its parts took.
pub struct Opened {
    pub stream: Stream,
    pub connect_ns: u64,
    pub tls_ns: Option<u64>,
}

impl Connector {
    pub fn new(endpoint: &Endpoint, options: &SocketOptions, timeouts: Timeouts) -> Result<Self, String> {
        let tls = endpoint.tls.as_ref().map(client_config).transpose()?;
        Ok(Self {
            address: endpoint.address.socket_name()?,
            domain: endpoint.address.domain(),
            kind: endpoint.address.kind(),
            options: options.clone(),
            timeouts,
            tls,
            tls_request: None,
            channel: endpoint.address.channel(),
        })
    }

    /// Says `request` in plain before a TLS handshake.
    pub fn asking_for_tls(mut self, request: Option<TlsRequest>) -> Self {
        self.tls_request = request.filter(|_| self.tls.is_some());
        self
    }

    /// Names the protocol in a TLS handshake (ALPN), where there is a name.
    pub fn speaking(mut self, application: Option<&[u8]>) -> Self {
        if let (Some((config, _)), Some(name)) = (&mut self.tls, application) {
            Arc::make_mut(config).alpn_protocols = vec![name.to_vec()];
        }
        self
    }

    pub fn asks_for_tls(&self) -> bool {
        self.tls_request.is_some()
    }

    /// Whether the server speaks in plain before it is asked for TLS.
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

    /// Takes what the server says in plain, and no byte of what follows; true when the handshake may begin, false when
    /// there is nothing more to receive yet.
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

    /// Connects, and shakes hands where TLS is asked for, on a blocking socket whose deadlines `watch` keeps: that of
    /// the first request begins here.
    ///
    /// # Errors
    ///
    /// By class: refused, backlog full, no port, timeout, TLS.
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
            let taken = channel::take(channel, socket).map_err(|error| match error.kind() {
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

    /// The deadline of the first request begins.
    fn opened(&self, stream: Stream, connect_ns: u64, tls_ns: Option<u64>, watch: &Watch) -> Opened {
        watch.expect_by(clock::now().saturating_add(self.timeouts.request_ns));
        Opened {
            stream,
            connect_ns,
            tls_ns,
        }
    }

    /// A connected socket whose receives wait. A Unix socket with a full backlog is refused at once, as it is for
    /// [`Connector::start`]: waiting in the kernel would hide in one engine what the other counts.
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
    /// By class; a Unix socket with a full backlog fails at once.
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

    /// The stream over a connected socket, on which the server said what was `heard`; with TLS its handshake is still
    /// to be made.
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
            // Gives it a name (unix(7), "autobind"), or a server could not answer.
            calls.add(1);
            socket.bind(&SockAddr::unix("")?)?;
        }
        // Before `connect`: TCP negotiates its window scale there, and later sizes have no effect on it (tcp(7)).
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

/// The words are so short that a new socket takes them at once.
fn say(socket: &Socket, words: &[u8]) -> Result<(), Failure> {
    socket
        .send(words)
        .map(drop)
        .map_err(|error| Failure::io("request for TLS", &error))
}

/// A signal interrupts a connect over TCP, which then goes on by itself.
fn connect_through_signals(socket: &socket2::Socket, address: &SockAddr) -> io::Result<()> {
    loop {
        match socket.connect(address) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It was completed between the interruption and this second call.
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
