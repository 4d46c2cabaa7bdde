//! What a server counts is what its client counts: gRPC calls, also through nginx, and StatsD metrics.

use crate::{
    common,
    load_peers::{Server, free_port, nginx_with},
};

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{have, have_python, needs, user_data};
use lasthop_load::{engine::Case, receipt::total, reference};
use lasthop_protocol::{
    grpc::{Grpc, GrpcExpect},
    spec::Spec,
    statsd::Statsd,
    wire::TrialPhases,
};
use lasthop_trial::{
    address::{Address, Endpoint, Transport},
    options::Reuse,
};

fn calling(endpoint: &Endpoint, method: &str, expect: GrpcExpect, size: u32) -> Spec {
    let (method, host) = (format!("lasthop.Echo/{method}"), "localhost".to_owned());
    Spec::new(
        endpoint.clone(),
        Grpc {
            method,
            host,
            size,
            expect,
            ..Grpc::default()
        }
        .into(),
    )
}

/// How many calls there were, as the server says in field 1.
fn counted(endpoint: &Endpoint) -> u64 {
    let protocol = reference::learn(&calling(endpoint, "Calls", GrpcExpect::Any, 0), || true)
        .unwrap()
        .protocol;
    let Some(Grpc {
        expect: GrpcExpect::Message(text),
        ..
    }) = protocol.get()
    else {
        panic!("{protocol:?}")
    };
    String::from_utf8(STANDARD.decode(text).unwrap().split_off(2))
        .unwrap()
        .parse()
        .unwrap()
}

/// The gRPC server in Python at an address as gRPC writes it.
pub fn python(listen: &str, is_up: impl Fn() -> bool) -> Server {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/grpc-python/server.py");
    let mut command = Command::new(user_data().join("python/grpc/bin/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(listen);
    Server::start(&mut command, is_up)
}

/// Calls of all kinds at an endpoint: the server counts as many as the client.
fn both_count_the_same(endpoint: &Endpoint) {
    for (reuse, pipeline, size) in [
        (Reuse::KeepAlive, 1, 10),
        (Reuse::KeepAlive, 8, 10),
        (Reuse::PerRequest, 1, 0),
        (Reuse::KeepAlive, 2, 200_000),
    ] {
        let spec = Spec {
            reuse,
            pipeline,
            ..calling(endpoint, "Call", GrpcExpect::Echo, size)
        };
        let before = counted(endpoint);
        let result = Case::prepare(&spec)
            .unwrap()
            .trial(TrialPhases {
                warm_up_ns: 1_000_000,
                measure_ns: 50_000_000,
            })
            .unwrap();
        assert_eq!(result.error_total(), 0, "{:?}", result.errors);
        // Two batches verify the case before.
        let calls = result.requests_total + 2 * u64::from(pipeline);
        assert_eq!(
            counted(endpoint) - before,
            calls,
            "{reuse:?}, {pipeline} streams, {size} bytes"
        );
    }
}

#[test]
fn both_sides_count_the_same_calls() {
    needs!(have_python("grpc"));
    let folder = tempfile::tempdir().unwrap();
    let (socket, tcp) = (folder.path().join("s"), format!("127.0.0.1:{}", free_port()));
    for address in [Address::Unix(socket.clone()), Address::Tcp(tcp.parse().unwrap())] {
        let listen = if address.path().is_some() {
            format!("unix:{}", socket.display())
        } else {
            tcp.clone()
        };
        let _server = python(&listen, || match &address {
            Address::Unix(path) => UnixStream::connect(path).is_ok(),
            _ => TcpStream::connect(&tcp).is_ok(),
        });
        both_count_the_same(&Endpoint::plain(address));
    }
}

/// nginx, which passes calls on to a socket.
fn nginx(folder: &Path, port: u16, to: &Path) -> Server {
    let http = format!(
        "upstream server {{ server unix:{}; keepalive 8; }} \
         server {{ listen 127.0.0.1:{port} http2; location / {{ grpc_pass grpc://server; }} }}",
        to.display()
    );
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    nginx_with(folder, "master_process off;", &http, is_up)
}

#[test]
fn both_sides_count_the_same_calls_through_nginx() {
    needs!(have("nginx"), have_python("grpc"));
    let folder = tempfile::Builder::new().prefix("lhg").tempdir_in("/tmp").unwrap();
    let (socket, port) = (folder.path().join("s"), free_port());
    let _server = python(&format!("unix:{}", socket.display()), || {
        UnixStream::connect(&socket).is_ok()
    });
    // Its worker is nobody where it is started by root.
    for path in [folder.path(), &socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let _nginx = nginx(folder.path(), port, &socket);
    let address = Address::Tcp(([127, 0, 0, 1], port).into());
    both_count_the_same(&Endpoint::plain(address));
}

/// The real StatsD server, and its own count of the metrics that it has received.
const PROGRAM: &str = "statsd_exporter";
const LINES: &str = "statsd_exporter_lines_total";

/// What the server says that it has received.
fn received(page: u16) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", page)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    total(&reply, LINES).unwrap()
}

#[test]
fn both_sides_count_the_same_metrics() {
    needs!(have(PROGRAM));
    for transport in [Transport::Unixgram, Transport::Udp, Transport::Udp6, Transport::Tcp] {
        let folder = tempfile::tempdir().unwrap();
        let page = free_port();
        let address = transport.address().at(folder.path().join("s"), "", free_port());
        let place = address.to_string().replace("unixgram:", "").replace("udp:", "");
        let mut command = Command::new(PROGRAM);
        command
            .arg(format!("--web.listen-address=127.0.0.1:{page}"))
            .arg("--log.level=warn");
        command.args([Transport::Unixgram, Transport::Udp, Transport::Tcp].map(|one| {
            let is_this = one == transport || (one, transport) == (Transport::Udp, Transport::Udp6);
            let listen = if is_this { place.as_str() } else { "" };
            format!("--statsd.listen-{one}={listen}")
        }));
        let _server = Server::start(&mut command, || TcpStream::connect(("127.0.0.1", page)).is_ok());
        for metrics in [1, 20] {
            let before = received(page);
            let counter = format!("http://127.0.0.1:{page}/metrics");
            let statsd = Statsd {
                metrics,
                counter,
                counts: LINES.to_owned(),
            };
            let spec = Spec::new(Endpoint::plain(address.clone()), statsd.into());
            let mut case = Case::prepare(&spec).unwrap_or_else(|error| panic!("{transport}: {error}"));
            let result = case
                .trial(TrialPhases {
                    warm_up_ns: 1_000_000,
                    measure_ns: 30_000_000,
                })
                .unwrap();
            let one_way = result.one_way.unwrap();
            assert_eq!(
                one_way.lost(),
                one_way.dropped_total.unwrap_or(0),
                "{transport}: {one_way:?}"
            );
            // Two datagrams verify the case before.
            let metrics_received = (one_way.received_total + 2) * u64::from(metrics);
            assert_eq!(
                received(page) - before,
                metrics_received,
                "{transport}, {metrics} metrics"
            );
        }
    }
}
