//! Real WebSocket servers: Node's behind nginx, over a Unix socket and TCP, and Python's at two URLs.

use crate::{
    common,
    compare::{compared, folder},
    load_peers::{Server, free_port},
};

use std::{fs, net::TcpStream, os::unix::net::UnixStream, process::Command};

use common::{Lasthop, have_setup, is_right, skip};

#[test]
fn messages_go_over_what_the_case_is_called() {
    if !have_setup("nginx-websocket") {
        return;
    }
    let lasthop = Lasthop::new();
    let chosen = ["--set", "size=64,65536", "--set", "reuse=keep-alive,per-request"];
    let summary = lasthop.brief("nginx-websocket", &[&chosen[..], &["--only", "connections=1"]].concat());
    is_right(&summary, 8);
    for case in summary["cases"].as_array().unwrap() {
        let family = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], family, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["node"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

const SERVER: &str = "
import asyncio, sys, websockets

async def serve(socket, path):
    async for message in socket:
        await socket.send('pong' if message == 'ping' else message)

async def main():
    await websockets.serve(serve, '127.0.0.1', int(sys.argv[2]))
    await websockets.unix_serve(serve, sys.argv[1])
    await asyncio.Future()

asyncio.run(main())
";

#[test]
fn two_urls_are_compared_and_a_load_says_what_it_checks() {
    let python = "/usr/bin/python3";
    let has_module = Command::new(python).args(["-c", "import websockets"]).status();
    if !has_module.is_ok_and(|status| status.success()) {
        skip("websockets of Python is missing; script/setup installs it");
        return;
    }
    let folder = folder();
    let (socket, port) = (folder.path().join("s"), free_port());
    let source = folder.path().join("server.py");
    fs::write(&source, SERVER).unwrap();
    let _server = Server::start(
        Command::new(python).arg(source).arg(&socket).arg(port.to_string()),
        || UnixStream::connect(&socket).is_ok() && TcpStream::connect(("127.0.0.1", port)).is_ok(),
    );
    let tcp = format!("ws://127.0.0.1:{port}/chat");
    let unix = format!("ws+unix:{}:/chat", socket.display());
    compared([&tcp, &unix], "python3", &["--size", "300", "--binary"]);
    compared([&tcp, &unix], "python3", &["--reuse", "per-request"]);
    let lasthop = Lasthop::new();
    let load = |options: &[&str]| {
        let all = ["load", &unix, "-d", "100ms", "--warm-up", "1ms"];
        lasthop.run(all.iter().chain(options))
    };
    for (options, checked) in [
        (&[][..], "a text of 64 B and its echo, byte for byte"),
        (&["--send", "ping"], "a text of 4 B, byte for byte"),
        (
            &["--send", r"\xff\0", "-P", "8"],
            "a binary message of 2 B and its echo, byte for byte",
        ),
    ] {
        let said = load(options).ok().stdout;
        let line = said.lines().find_map(|line| line.trim().strip_prefix("checked"));
        assert_eq!(line.unwrap_or_else(|| panic!("{said}")).trim(), checked);
    }
    let differs = "the reply differs from the expected one at byte 1: expected \"ping\", received \"pong\"";
    load(&["--send", "ping", "--expect", "ping"]).fails(1, differs);
    load(&["--header", "Upgrade: x"]).fails(2, "the header `Upgrade` belongs to the handshake");
}
