//! Servers that close, serve one connection at a time, or delay their replies, written in Python.

use crate::{
    common,
    compare::{SHORT, folder, has},
    load_peers::{Server, free_port},
};

use std::{fs, net::TcpStream, os::unix::net::UnixStream, path::Path, process::Command};

use common::{Lasthop, have, one_line};

/// A server of Python at a port and on a socket, and its URLs. `serve(listener)` is a function of `source`.
fn python_server(folder: &Path, source: &str) -> ([String; 2], Server) {
    let (file, path, port) = (folder.join("server.py"), folder.join("s"), free_port());
    let text = format!(
        "import socket, sys, threading\n{source}\n\
         tcp = socket.create_server((\"127.0.0.1\", int(sys.argv[1])), backlog=100)\n\
         unix = socket.socket(socket.AF_UNIX)\n\
         unix.bind(sys.argv[2])\n\
         unix.listen(100)\n\
         threading.Thread(target=serve, args=(unix,), daemon=True).start()\n\
         serve(tcp)\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new("python3");
    command.arg(&file).arg(port.to_string()).arg(&path);
    let server = Server::start(&mut command, || {
        UnixStream::connect(&path).is_ok() && TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("http+unix:{}:/", path.display()),
    ];
    (urls, server)
}

/// As the default worker of gunicorn does.
#[test]
fn a_server_that_closes_after_each_reply_is_compared_with_a_connection_per_request() {
    const CLOSES: &str = r#"
def serve(listener):
    while True:
        peer = listener.accept()[0]
        try:
            if peer.recv(65536):
                peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello")
        except OSError:
            pass
        peer.close()
"#;
    if !have("python3") {
        return;
    }
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), CLOSES);
    let lasthop = Lasthop::new();
    let compare = ["compare", &tcp, &unix, "--fail-if", "unix slower > 99 %"];
    let summary = lasthop.run(compare.iter().chain(&SHORT)).ok().json();
    for case in summary["cases"].as_array().unwrap() {
        assert!(case["metrics"]["throughput"]["estimate"].as_f64() > Some(0.0), "{case}");
        assert_eq!(case["proof"]["reused"], false, "{case}");
    }
    assert_eq!(summary["limits"][0]["case"], "unix");
    assert!(has(&summary, "server-closes"), "{}", summary["checks"]);
    for wrong in ["errors", "reuse-not-as-asked"] {
        assert!(!has(&summary, wrong), "{}", summary["checks"]);
    }
    lasthop.assert_nothing_left();
}

/// A worker with keep-alive, such as php-fpm with `fastcgi_keep_conn`.
#[test]
fn a_server_that_serves_one_connection_at_a_time_is_refused_before_anything_is_measured() {
    const ONE_AT_A_TIME: &str = r#"
def serve(listener):
    while True:
        peer = listener.accept()[0]
        try:
            while peer.recv(65536):
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello")
        except OSError:
            pass
        peer.close()
"#;
    if !have("python3") {
        return;
    }
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), ONE_AT_A_TIME);
    let lasthop = Lasthop::new();
    let said = "the server serves 1 of 4 connections at a time; the others waited";
    let compare = ["compare", &tcp, &unix, "-c", "4"];
    lasthop
        .run(compare.iter().chain(&SHORT))
        .fails(1, &format!("{tcp}: {said}"));
    assert!(lasthop.runs().is_empty(), "nothing was recorded");
    let ran = lasthop.run(["load", &unix, "-c", "4", "-d", "500ms", "--warm-up", "10ms"]);
    assert!(one_line(&ran.stdout).contains(said), "{ran:?}");
    // With one connection nobody waits.
    let summary = lasthop.run(["compare", &tcp, &unix].iter().chain(&SHORT)).ok().json();
    assert!(!has(&summary, "errors"), "{}", summary["checks"]);
    lasthop.assert_nothing_left();
}

/// Head and body apart, without TCP_NODELAY: what a reply by TCP waits for is no cost of TCP.
#[test]
fn replies_that_wait_for_delayed_acks_are_no_reason_for_a_socket() {
    const APART: &str = r#"
def talk(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        peer.sendall(b"Hello")

def serve(listener):
    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"#;
    if !have("python3") {
        return;
    }
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), APART);
    let lasthop = Lasthop::new();
    // A reply takes 44 ms, so that a trial of 20 ms has none.
    let options = [
        "--rounds", "2", "--blocks", "2", "--budget", "60s", "--trial", "500ms", "--format", "json",
    ];
    let summary = lasthop.run(["compare", &tcp, &unix].iter().chain(&options)).ok().json();
    let first = summary["answer"][0].as_str().unwrap();
    assert!(first.starts_with("Nagle and delayed ACKs: "), "{}", summary["answer"]);
    assert!(has(&summary, "delayed-ack"), "{}", summary["checks"]);
    let load = |url: &str| lasthop.run(["load", url, "-d", "1s", "-q"]).ok().stdout;
    let (by_tcp, by_unix) = (load(&tcp), load(&unix));
    assert!(
        by_tcp.contains("Nagle's algorithm") && by_tcp.contains("TCP_NODELAY"),
        "{by_tcp}"
    );
    assert!(!by_unix.contains("Nagle"), "{by_unix}");
    lasthop.assert_nothing_left();
}
