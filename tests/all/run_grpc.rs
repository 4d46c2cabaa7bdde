//! The real gRPC servers in Go and Python over a Unix socket, TCP and TLS, alone and behind the real nginx; and what a server counts.

use crate::{
    common,
    load_peers::{Server, free_port},
};

use std::{
    fs,
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{Lasthop, go_is_warm, have, have_python, have_setup, is_right, user_data};
use lasthop_load::{engine::Case, reference};
use lasthop_protocol::{
    grpc::{Grpc, GrpcExpect},
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
    let summary = lasthop.brief("grpc", &["--set", "bytes=64", "--set", "connections=2"]);
    is_right(&summary, 12);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        assert_eq!(case["proof"]["reused"], true, "{case}");
        assert!(
            case["metrics"]["cpu_per_request"]["roles"]["server"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn connections_for_one_call_and_messages_beyond_a_window() {
    if !have_python("grpc") {
        return;
    }
    let lasthop = Lasthop::new();
    let python = [
        "--only",
        "language=python",
        "--set",
        "bytes=300000",
        "--set",
        "reuse=per-request,keep-alive",
    ];
    let summary = lasthop.brief("grpc", &python);
    is_right(&summary, 9);
    for case in summary["cases"].as_array().unwrap() {
        assert_eq!(
            case["proof"]["reused"],
            case["levels"]["reuse"] != "per-request",
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

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

/// A server in Python at such an address.
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
    if !have_python("grpc") {
        return;
    }
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
        both_count_the_same(&Endpoint { address, tls: None });
    }
}

/// nginx, which passes calls on to a socket.
fn nginx(folder: &Path, port: u16, to: &Path) -> Server {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};", folder.display()))
        .join(" ");
    let text = format!(
        "daemon off; master_process off; pid {0}/pid; events {{}} http {{ access_log off; {temporary} \
         upstream server {{ server unix:{1}; keepalive 8; }} server {{ listen 127.0.0.1:{port} http2; \
         location / {{ grpc_pass grpc://server; }} }} }}",
        folder.display(),
        to.display()
    );
    fs::write(folder.join("conf"), text).unwrap();
    let mut command = Command::new("/usr/sbin/nginx");
    command
        .arg("-e")
        .arg(folder.join("log"))
        .arg("-c")
        .arg(folder.join("conf"));
    Server::start(&mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok())
}

#[test]
fn both_sides_count_the_same_calls_through_nginx() {
    if !have("nginx") || !have_python("grpc") {
        return;
    }
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
    both_count_the_same(&Endpoint { address, tls: None });
}

#[test]
fn nginx_reaches_the_server_over_what_the_case_is_called() {
    if !have("go") || !have_setup("nginx-grpc") {
        return;
    }
    go_is_warm("grpc-go");
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("nginx-grpc", &["--set", "reuse=keep-alive,per-request"]);
    is_right(&summary, 16);
    for case in summary["cases"].as_array().unwrap() {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let [seen, calls] = ["connections", "requests"].map(|key| link[key].as_u64().unwrap());
        let streams: u64 = case["levels"]["streams"].as_str().unwrap().parse().unwrap();
        let kept = case["levels"]["reuse"] == "keep-alive";
        // nginx closes a connection on which more than the reply has come.
        assert!(
            !kept || seen <= streams + calls / 4,
            "a connection is kept for each call at once: {case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["server"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}
