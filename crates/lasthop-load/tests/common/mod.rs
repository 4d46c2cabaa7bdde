//! What the integration tests share: own servers on private addresses, and specifications for them.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::{
    net::{Ipv4Addr, Shutdown, SocketAddr},
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
};

use lasthop_load::{
    engine::{Case, CaseError},
    result::TrialResult,
    serve::{Pattern, ServeSpec, ServeTls, Server, Stopper},
    spec::{Address, Echo, Endpoint, Hello, Protocol, Spec, Stream, Timeouts, Tls, Transport},
    wire::TrialPhases,
};

use socket2::{Domain, SockAddr, Socket, Type};

pub const SHORT: TrialPhases = TrialPhases { warm_up_ns: 1_000_000, measure_ns: 10_000_000 };

/// A certificate authority, and a certificate for `lasthop.test` signed by it.
pub struct Certificates {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub fn certificates(folder: &std::path::Path) -> Certificates {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf =
        rcgen::CertificateParams::new(vec!["lasthop.test".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    Certificates {
        authority: write("ca.pem", authority.pem()),
        certificate: write("cert.pem", leaf.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}

/// A running own server; dropping it ends it.
pub struct Running {
    pub endpoint: Endpoint,
    pub folder: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(pattern: Pattern, transport: Transport) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = match transport {
            Transport::Unix | Transport::TlsUnix => Address::Unix(folder.path().join("socket")),
            Transport::Abstract => Address::Abstract(format!("lasthop-test{}", folder.path().display())),
            Transport::Tcp | Transport::Tls => Address::Tcp("127.0.0.1:0".parse().unwrap()),
            Transport::Tcp6 => Address::Tcp("[::1]:0".parse().unwrap()),
        };
        let files = transport.is_tls().then(|| certificates(folder.path()));
        let tls =
            files.as_ref().map(|files| ServeTls { certificate: files.certificate.clone(), key: files.key.clone() });
        let server = Server::bind(&ServeSpec { pattern, address, tls, nodelay: true, backlog: 512 }).unwrap();
        let tls = files.map(|files| Tls {
            authority: Some(files.authority),
            server_name: "lasthop.test".to_owned(),
            resumption: false,
        });
        let endpoint = Endpoint { address: server.address().clone(), tls };
        let stopper = server.stopper().unwrap();
        let thread = Some(thread::spawn(move || server.run().unwrap()));
        Self { endpoint, folder, stopper, thread }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

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
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
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
        Self { endpoint: Endpoint { address, tls: None }, folder, listener, thread }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // It wakes who waits in accept, also where the path leads to another listener by now.
        self.listener.shutdown(Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub fn spec(endpoint: &Endpoint, protocol: Protocol) -> Spec {
    let timeouts = Timeouts { connect_ns: 3_000_000_000, request_ns: 3_000_000_000 };
    Spec { timeouts, ..Spec::new(endpoint.clone(), protocol) }
}

pub fn hello() -> Protocol {
    Protocol::Hello(Hello { expect: "Hello there!".to_owned() })
}

pub fn echo(size: u32) -> Protocol {
    Protocol::Echo(Echo { size })
}

pub fn stream(size: u64, chunk: u32) -> Protocol {
    Protocol::Stream(Stream { size, chunk })
}

pub fn run(spec: &Spec, phases: TrialPhases) -> Result<TrialResult, CaseError> {
    Case::prepare(spec)?.trial(phases)
}
