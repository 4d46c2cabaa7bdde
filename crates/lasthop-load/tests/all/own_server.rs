//! Every pattern over every transport, with every engine and both kinds of reuse, against lasthop's own server.

use std::path::PathBuf;

use crate::common;

use common::{Running, SHORT, With, echo, hello, run, spec, stream};
use lasthop_load::{
    engine::{Case, CaseError},
    serve::{Pattern, ServeSpec, ServeTls, Server},
};
use lasthop_protocol::{Protocol, spec::Spec, wire::Stage};
use lasthop_trial::{
    address::{Address, Endpoint, Tls, Transport},
    options::{Engine, Reuse},
    result::{ErrorClass, TrialResult},
};

/// Checks that hold for every trial without an error.
fn check(result: &TrialResult, spec: &Spec, payload: u64) {
    assert_eq!(result.error_total(), 0, "{:?}", result.errors);
    assert!(result.requests > 0 && result.requests_total > result.requests);
    assert_eq!(result.bytes_received, result.requests * payload);
    let timed = result.service_time.as_ref().unwrap().count();
    // Requests may be under way when the window opens or shuts.
    assert!(
        timed.abs_diff(result.requests) <= 2 * u64::from(spec.connections * spec.pipeline),
        "{timed}"
    );
    assert_eq!(result.phases.first_byte.as_ref().unwrap().count(), timed);
    assert!(result.elapsed_ns >= SHORT.measure_ns);
    let in_memory = spec.endpoint.address.family() == "shm";
    assert!(result.cost.cpu_ns() > 0 && (in_memory || result.cost.system_calls >= 2 * result.requests));
    let own = spec.closes_each_time();
    // On a crowded machine each connection may have been opened before the measure phase and answered within it.
    if !own || result.requests > u64::from(spec.connections) {
        assert_eq!(result.phases.connect.is_some(), own);
        assert_eq!(result.phases.tls.is_some(), own && spec.endpoint.tls.is_some());
    }
    if own {
        assert!(result.connections_opened >= result.requests_total);
    } else {
        assert_eq!(result.connections_opened, 0);
    }
}

fn engines(base: &Spec) -> Vec<Spec> {
    let with = |engine, connections, threads| base.clone().engine(engine).connections(connections).threads(threads);
    let all = [
        with(Engine::Blocking, 1, 1),
        with(Engine::Epoll, 1, 1),
        with(Engine::Auto, 7, 1),
        with(Engine::Auto, 5, 2),
        with(Engine::Auto, 2, 2),
    ];
    let is_channel = base.endpoint.address.channel().is_some();
    all.into_iter()
        .filter(|spec| !is_channel || (spec.engine != Engine::Epoll && spec.connections == spec.threads))
        .collect()
}

/// Whether the transport can carry the message: a packet holds a whole message or nothing.
fn carries(transport: Transport, pattern: Pattern, payload: u64) -> bool {
    !transport.address().keeps_boundaries() || (pattern == Pattern::Echo && payload <= 1 << 10)
}

fn every_engine(pattern: Pattern, protocol: Protocol, payload: u64) {
    for transport in Transport::ALL
        .into_iter()
        .filter(|transport| carries(*transport, pattern, payload))
    {
        let server = Running::start(pattern, transport);
        for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
            let base = spec(&server.endpoint, protocol.clone()).reuse(reuse);
            for spec in engines(&base) {
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{transport} {spec:?}: {error}"));
                check(&result, &spec, payload);
            }
        }
    }
}

#[test]
fn hello_over_everything() {
    every_engine(Pattern::Hello, hello(), 12);
}

#[test]
fn echo_over_everything() {
    every_engine(Pattern::Echo, echo(64), 64);
}

#[test]
fn big_echoes_over_everything() {
    every_engine(Pattern::Echo, echo(1 << 20), 1 << 20);
}

#[test]
fn streams_over_everything() {
    every_engine(Pattern::Stream, stream(300_001, 70_000), 300_001);
}

#[test]
fn the_proof_is_of_the_live_connection() {
    for transport in Transport::ALL {
        let server = Running::start(Pattern::Echo, transport);
        let spec = spec(&server.endpoint, echo(64));
        let proof = Case::prepare(&spec).unwrap().proof().clone();
        let family = match transport {
            Transport::Tcp6 => "inet6",
            Transport::ShmSpin => "shm",
            other if other.address().channel().is_some() || other.address().keeps_boundaries() => other.name(),
            other if other.is_unix() => "unix",
            _ => "inet",
        };
        assert_eq!(proof.family, family);
        assert_eq!(proof.tls_version.as_deref(), transport.is_tls().then_some("TLSv1.3"));
        assert_eq!(proof.tls_cipher.is_some(), transport.is_tls());
        let is_stream = !transport.is_unix() && !transport.address().keeps_boundaries();
        assert_eq!(proof.nodelay, is_stream.then_some(true));
        assert!(proof.reused);
        let peer = match proof.family.as_str() {
            "pipe" => "pipe:[",
            "socketpair" => "socket:[",
            "shm" => "/memfd:lasthop",
            _ => "",
        };
        assert!(!proof.peer.is_empty() && proof.peer.starts_with(peer), "{proof:?}");
    }
}

#[test]
fn nodelay_off_and_reuse_off_are_proven_too() {
    let server = Running::start(Pattern::Echo, Transport::Tcp);
    let mut spec = spec(&server.endpoint, echo(64));
    spec.socket.nodelay = false;
    spec.reuse = Reuse::PerRequest;
    let proof = Case::prepare(&spec).unwrap().proof().clone();
    assert_eq!((proof.nodelay, proof.reused), (Some(false), false));
}

#[test]
fn buffers_are_what_was_asked_for() {
    for transport in [Transport::Unix, Transport::Tcp, Transport::Tcp6] {
        let server = Running::start(Pattern::Echo, transport);
        let mut spec = spec(&server.endpoint, echo(64));
        let proof = Case::prepare(&spec).unwrap().proof().clone();
        assert_eq!((proof.send_buffer, proof.receive_buffer), (None, None));
        (spec.socket.send_buffer, spec.socket.receive_buffer) = (Some(20_000), Some(30_000));
        for engine in [Engine::Blocking, Engine::Epoll] {
            let mut case = Case::prepare(&spec.clone().engine(engine)).unwrap();
            // The kernel doubles both, for its own needs.
            assert_eq!(
                (case.proof().send_buffer, case.proof().receive_buffer),
                (Some(40_000), Some(60_000))
            );
            assert_eq!(case.trial(SHORT).unwrap().error_total(), 0);
        }
    }
}

#[test]
fn connections_live_on_from_trial_to_trial() {
    let server = Running::start(Pattern::Echo, Transport::Tls);
    let mut case = Case::prepare(&spec(&server.endpoint, echo(64)).connections(4)).unwrap();
    for _ in 0..3 {
        let result = case.trial(SHORT).unwrap();
        assert_eq!((result.connections_opened, result.error_total()), (0, 0));
    }
}

#[test]
fn another_authority_or_name_is_not_trusted() {
    let server = Running::start(Pattern::Echo, Transport::Tls);
    let other = tempfile::tempdir().unwrap();
    let mut wrong_authority = spec(&server.endpoint, echo(64));
    wrong_authority.endpoint.tls.as_mut().unwrap().authority = Some(common::certificates(other.path()).authority);
    let mut wrong_name = spec(&server.endpoint, echo(64));
    wrong_name.endpoint.tls.as_mut().unwrap().server_name = "example.org".to_owned();
    for spec in [wrong_authority, wrong_name] {
        let error = Case::prepare(&spec).map(drop).unwrap_err();
        assert_eq!(error.stage, Stage::Connect);
        assert!(error.cause.contains("certificate"), "{error}");
    }
}

#[test]
fn a_socket_path_is_removed_in_the_end() {
    let server = Running::start(Pattern::Echo, Transport::Unix);
    let path = server.folder.path().join("socket");
    assert!(path.exists());
    let Running { .. } = &server;
    let folder = {
        let mut server = server;
        std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap())
    };
    assert!(!folder.path().join("socket").exists());
}

/// The client's outcome against a server whose self-signed certificate is also an authority's, as `openssl req -x509`
/// makes it. `tls` gets the path of the certificate.
fn outcome_of(params: &rcgen::CertificateParams, tls: impl Fn(PathBuf) -> Tls) -> Result<(), CaseError> {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::KeyPair::generate().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, params.self_signed(&own).unwrap().pem()).unwrap();
    std::fs::write(&key, own.serialize_pem()).unwrap();
    let address = Address::Unix(folder.path().join("s"));
    let server = Server::bind(&ServeSpec {
        tls: Some(ServeTls {
            certificate: certificate.clone(),
            key,
        }),
        backlog: 8,
        ..ServeSpec::new(Pattern::Echo, address.clone())
    })
    .unwrap();
    let stopper = server.stopper().unwrap();
    let serving = std::thread::spawn(move || server.run().unwrap());
    let tls = Some(tls(certificate));
    let outcome = Case::prepare(&spec(&Endpoint { address, tls }, echo(64))).map(drop);
    stopper.stop();
    serving.join().unwrap();
    outcome
}

#[test]
fn an_authority_that_serves_itself_is_trusted_if_it_is_given() {
    let mut params = rcgen::CertificateParams::new(vec!["lasthop.test".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let tls = |authority, server_name: &str, insecure| Tls {
        authority,
        server_name: server_name.into(),
        resumption: false,
        insecure,
    };
    let own = |authority| tls(Some(authority), "lasthop.test", false);
    outcome_of(&params, own).unwrap_or_else(|error| panic!("{error}"));
    outcome_of(&params, |_| tls(None, "another", true)).unwrap_or_else(|error| panic!("{error}"));
    let refused = |params: &rcgen::CertificateParams, tls: &dyn Fn(PathBuf) -> Tls, text: &str| {
        let error = outcome_of(params, tls).unwrap_err();
        assert_eq!(error.class, Some(ErrorClass::Tls));
        assert!(error.cause.contains(text), "{error}");
    };
    refused(&params, &|own| tls(Some(own), "another", false), "not valid for name");
    let folder = tempfile::tempdir().unwrap();
    let other = common::certificates(folder.path()).authority;
    let text = "the server's certificate is that of a certificate authority, and not one that you trust";
    refused(&params, &|_| tls(Some(other.clone()), "lasthop.test", false), text);
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    refused(&params, &own, "expired");
}
