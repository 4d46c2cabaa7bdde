//! Shared by the integration tests: lasthop's servers on private addresses, and specifications for them.
#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

mod accepting;
#[path = "../../../../tests/common/skip.rs"]
mod skip;

use std::{
    net::SocketAddr,
    path::PathBuf,
    thread::{self, JoinHandle},
};

pub use accepting::Accepting;
use lasthop_load::{
    engine::{Case, CaseError},
    serve::{Pattern, ServeSpec, ServeTls, Server, Stopper},
};
use lasthop_protocol::{
    Protocol, ProtocolSpec,
    echo::Echo,
    hello::Hello,
    spec::Spec,
    stream::Stream,
    url::{UrlOptions, parse},
    wire::TrialPhases,
};
use lasthop_trial::{
    address::{Address, Endpoint, Tls, Transport},
    options::{Arrivals, Engine, Model, OpenLoop, Reuse, Timeouts},
    result::{ErrorClass, TrialResult},
};
pub use skip::{servers, skip};

pub const SHORT: TrialPhases = TrialPhases {
    warm_up_ns: 1_000_000,
    measure_ns: 10_000_000,
};

/// `SHORT` with a measure phase of this length.
pub const fn for_ms(milliseconds: u64) -> TrialPhases {
    TrialPhases {
        measure_ns: milliseconds * 1_000_000,
        ..SHORT
    }
}

/// A certificate authority, and a certificate for `lasthop.test` signed by it.
pub struct Certificates {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificates {
    /// How a client trusts them.
    pub fn tls(&self) -> Tls {
        Tls {
            authority: Some(self.authority.clone()),
            server_name: "lasthop.test".to_owned(),
            resumption: false,
            insecure: false,
        }
    }
}

pub fn certificates(folder: &std::path::Path) -> Certificates {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(params, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["lasthop.test".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
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

/// A running server of lasthop; dropping it ends the server.
pub struct Running {
    pub endpoint: Endpoint,
    pub folder: tempfile::TempDir,
    /// Address of a counting server's counter.
    pub counter: Option<SocketAddr>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(pattern: Pattern, transport: Transport) -> Self {
        Self::slow(pattern, transport, 0)
    }

    /// A counting server sleeps after each message.
    pub fn slow(pattern: Pattern, transport: Transport, pause_ns: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("lasthop-test{}", folder.path().display());
        let address = transport.address().at(folder.path().join("socket"), name, 0);
        let files = transport.is_tls().then(|| certificates(folder.path()));
        let tls = files.as_ref().map(|files| ServeTls {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        });
        let counter = (pattern == Pattern::Statsd).then(|| "127.0.0.1:0".parse().unwrap());
        let server = Server::bind(&ServeSpec {
            tls,
            pause_ns,
            counter,
            ..ServeSpec::new(pattern, address)
        })
        .unwrap();
        let counter = server.counter().map(|address| address.to_string().parse().unwrap());
        let tls = files.map(|files| files.tls());
        let endpoint = Endpoint {
            address: server.address().clone(),
            tls,
        };
        let stopper = server.stopper().unwrap();
        let thread = Some(thread::spawn(move || server.run().unwrap()));
        Self {
            endpoint,
            folder,
            counter,
            stopper,
            thread,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub fn spec(endpoint: &Endpoint, protocol: impl Into<Protocol>) -> Spec {
    Spec::new(endpoint.clone(), protocol.into()).timeouts_ms(3_000, 3_000)
}

pub fn open(rate: f64, arrivals: Arrivals) -> Model {
    Model::Open(OpenLoop {
        rate,
        arrivals,
        seed: 1,
    })
}

macro_rules! setters {
    ($($field:ident: $kind:ty,)+) => {
        /// Fields of a specification, each set by a method of its name.
        pub trait With {
            $(fn $field(self, $field: $kind) -> Self;)+

            fn timeouts_ms(self, connect: u64, request: u64) -> Self;
        }

        impl With for Spec {
            $(fn $field(self, $field: $kind) -> Self {
                Self { $field, ..self }
            })+

            fn timeouts_ms(self, connect: u64, request: u64) -> Self {
                let (connect_ns, request_ns) = (connect * 1_000_000, request * 1_000_000);
                let timeouts = Timeouts { connect_ns, request_ns };
                Self { timeouts, ..self }
            }
        }
    };
}

setters! {
    endpoint: Endpoint,
    protocol: Protocol,
    reuse: Reuse,
    model: Model,
    engine: Engine,
    connections: u32,
    threads: u32,
    pipeline: u32,
    requests_per_connection: u32,
}

/// Bytes of a client's greeting of a server that has `said_first`, and of a request.
pub fn lengths_of(protocol: &Protocol, said_first: &[u8]) -> [usize; 2] {
    let nowhere = Endpoint::plain(Address::Abstract("nowhere".into()));
    let mut exchange = spec(&nowhere, protocol.clone()).factory().exchange();
    let mut greeting = Vec::new();
    exchange.reset();
    exchange.greet(said_first, &mut greeting).unwrap();
    exchange.begin();
    [greeting.len(), exchange.request().len()]
}

/// A protocol as `lasthop load` reads its URL.
pub fn of_url(url: &str) -> Protocol {
    parse(url, &UrlOptions::default()).unwrap().1
}

/// A protocol as an experiment names it.
pub fn of_json(protocol: serde_json::Value) -> Protocol {
    serde_json::from_value(protocol).unwrap()
}

/// The parameters of a protocol's URL.
pub fn parameters<T: ProtocolSpec + Clone>(url: &str) -> T {
    of_url(url).get::<T>().unwrap().clone()
}

pub fn hello() -> Protocol {
    Protocol::from(Hello {
        expect: "Hello there!".to_owned(),
    })
}

pub fn echo(size: u32) -> Protocol {
    Protocol::from(Echo { size })
}

pub fn stream(size: u64, chunk: u32) -> Protocol {
    Protocol::from(Stream { size, chunk })
}

/// A load of `requests` requests, without a warm-up.
pub fn counted(spec: &Spec, requests: u64) -> TrialResult {
    let hour = TrialPhases::without_warm_up(3_600_000_000_000);
    let mut case = Case::prepare(spec).unwrap();
    case.counted_trial(hour, Some(requests), || true).unwrap()
}

/// Requests with a reply, requests lost, each by a reset, and requests sent again.
#[track_caller]
pub fn some_lost(result: &TrialResult) -> (u64, u64, u64) {
    assert_eq!(result.errors.keys().collect::<Vec<_>>(), [&ErrorClass::Reset]);
    (result.requests_total, result.error_total(), result.sent_again)
}

pub fn run(spec: &Spec, phases: TrialPhases) -> Result<TrialResult, CaseError> {
    Case::prepare(spec)?.trial(phases)
}
