//! The real gRPC servers in Go and Python by Unix socket, TCP and TLS; and what a server counts.

use crate::{
    common,
    load_peers::{Server, free_port},
};

use std::{net::TcpStream, os::unix::net::UnixStream, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{Lasthop, go_is_warm, have, have_python, is_right, user_data};
use lasthop_load::{
    engine::Case,
    protocol::grpc::{Grpc, GrpcExpect},
    reference,
    spec::{Address, Endpoint, Reuse, Spec},
    wire::TrialPhases,
};

#[test]
fn every_transport_answers_with_one_stream_and_with_many() {
    if !have("go") || !have_python("grpc") {
        return;
    }
    go_is_warm("grpc-go");
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("grpc", &["--set", "bytes=64", "--set", "connections=2"], "12s");
    is_right(&summary, 12);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(case["proof"]["tls_version"].as_str(), tls.then_some("TLSv1.3"), "{case}");
        assert_eq!(case["proof"]["reused"], true, "{case}");
        assert!(case["metrics"]["cpu_per_request"]["roles"]["server"].as_f64().unwrap() > 0.0, "{case}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn connections_for_one_call_and_messages_beyond_a_window() {
    if !have_python("grpc") {
        return;
    }
    let lasthop = Lasthop::new();
    let python = ["--only", "language=python", "--set", "bytes=300000", "--set", "reuse=per-request,keep-alive"];
    let summary = lasthop.brief("grpc", &python, "10s");
    is_right(&summary, 9);
    for case in summary["cases"].as_array().unwrap() {
        assert_eq!(case["proof"]["reused"], case["levels"]["reuse"] != "per-request", "{case}");
    }
    lasthop.assert_nothing_left();
}

fn calling(endpoint: &Endpoint, method: &str, expect: GrpcExpect, size: u32) -> Spec {
    let (method, host) = (format!("lasthop.Echo/{method}"), "localhost".to_owned());
    Spec::new(endpoint.clone(), Grpc { method, host, size, text: None, expect }.into())
}

/// How many calls there were, as the server says in field 1.
fn counted(endpoint: &Endpoint) -> u64 {
    let protocol = reference::learn(&calling(endpoint, "Calls", GrpcExpect::Any, 0), || true).unwrap();
    let Some(Grpc { expect: GrpcExpect::Message(text), .. }) = protocol.get() else { panic!("{protocol:?}") };
    String::from_utf8(STANDARD.decode(text).unwrap().split_off(2)).unwrap().parse().unwrap()
}

#[test]
fn both_sides_count_the_same_calls() {
    if !have_python("grpc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (socket, port) = (folder.path().join("s"), free_port());
    let tcp = format!("127.0.0.1:{port}");
    let endpoints = [
        (format!("unix:{}", socket.display()), Address::Unix(socket.clone())),
        (tcp.clone(), Address::Tcp(tcp.parse().unwrap())),
    ];
    for (listen, address) in endpoints {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/grpc-python/server.py");
        let mut command = Command::new(user_data().join("python/grpc/bin/python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(&listen);
        let _server = Server::start(&mut command, || match &address {
            Address::Unix(path) => UnixStream::connect(path).is_ok(),
            _ => TcpStream::connect(&tcp).is_ok(),
        });
        let endpoint = Endpoint { address, tls: None };
        for (reuse, pipeline, size) in [
            (Reuse::KeepAlive, 1, 10),
            (Reuse::KeepAlive, 8, 10),
            (Reuse::PerRequest, 1, 0),
            (Reuse::KeepAlive, 2, 200_000),
        ] {
            let spec = Spec { reuse, pipeline, ..calling(&endpoint, "Call", GrpcExpect::Echo, size) };
            let before = counted(&endpoint);
            let result = Case::prepare(&spec)
                .unwrap()
                .trial(TrialPhases { warm_up_ns: 1_000_000, measure_ns: 50_000_000 })
                .unwrap();
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            // Two batches verify the case before.
            let calls = result.requests_total + 2 * u64::from(pipeline);
            assert_eq!(counted(&endpoint) - before, calls, "{reuse:?}, {pipeline} streams, {size} bytes");
        }
    }
}
