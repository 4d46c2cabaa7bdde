//! Servers that close, serve one connection at a time, or delay their replies, written in Python.

use crate::{
    common,
    compare::{SHORT, folder, has},
    load_peers::{Server, free_port},
};

use std::{fs, net::TcpStream, os::unix::net::UnixStream, path::Path, process::Command};

use common::{Lasthop, have, list, needs, one_line, shows};

/// What comes after `talk(peer)`.
const SERVER: &str = r#"
import socket, sys, threading

def take(peer):
    try:
        talk(peer)
    except OSError:
        pass
    peer.close()

def serve(listener):
    while True:
        taken = threading.Thread(target=take, args=listener.accept()[:1], daemon=True)
        taken.start() if sys.argv[3] == "all" else taken.run()

tcp = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
unix = socket.socket(socket.AF_UNIX)
unix.bind(sys.argv[2])
unix.listen(100)
threading.Thread(target=serve, args=(unix,), daemon=True).start()
serve(tcp)
"#;

/// A server of Python at a port and on a socket, and its URLs. At each it serves `one` connection at a time, or `all`.
fn python_server(folder: &Path, talk: &str, at_once: &str) -> ([String; 2], Server) {
    let (file, path, port) = (folder.join("server.py"), folder.join("s"), free_port());
    fs::write(&file, talk.to_owned() + SERVER).unwrap();
    let mut command = Command::new("python3");
    command.arg(&file).arg(port.to_string()).arg(&path).arg(at_once);
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
def talk(peer):
    if peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello")
"#;
    needs!(have("python3"));
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), CLOSES, "one");
    let lasthop = Lasthop::new();
    let compare = ["compare", &tcp, &unix, "--fail-if", "unix slower > 99 %"];
    let summary = lasthop.run(compare.iter().chain(&SHORT)).ok().json();
    for case in list(&summary["cases"]) {
        assert!(case["metrics"]["throughput"]["estimate"].as_f64() > Some(0.0), "{case}");
        assert_eq!(case["proof"]["reused"], false, "{case}");
    }
    assert_eq!(summary["limits"][0]["case"], "unix");
    assert!(has(&summary, "server-closes"), "{}", summary["checks"]);
    for wrong in ["errors", "reuse-not-as-asked"] {
        assert!(!has(&summary, wrong), "{}", summary["checks"]);
    }
}

/// A worker with keep-alive, such as php-fpm with `fastcgi_keep_conn`.
#[test]
fn a_server_that_serves_one_connection_at_a_time_is_refused_before_anything_is_measured() {
    const ONE_AT_A_TIME: &str = r#"
def talk(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello")
"#;
    needs!(have("python3"));
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), ONE_AT_A_TIME, "one");
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
}

/// Head and body apart, without TCP_NODELAY: what a reply by TCP waits for is no cost of TCP.
#[test]
fn replies_that_wait_for_delayed_acks_are_no_reason_for_a_socket() {
    const APART: &str = r#"
def talk(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        peer.sendall(b"Hello")
"#;
    needs!(have("python3"));
    let folder = folder();
    let ([tcp, unix], _server) = python_server(folder.path(), APART, "all");
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
    shows(&by_tcp, ["Nagle's algorithm", "TCP_NODELAY"]);
    assert!(!by_unix.contains("Nagle"), "{by_unix}");
}
