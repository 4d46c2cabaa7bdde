//! MariaDB and a WebSocket server that lasthop did not start are loaded and compared.

use crate::{
    common,
    compare::{compared, folder},
    load_peers::{Server, free_port},
};

use std::{
    fs,
    net::TcpStream,
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{Lasthop, NOBODY, have, list, needs, output, skip};
use rustix::process::geteuid;
use tempfile::TempDir;

/// MariaDB of another user where this one is root, whom it refuses.
struct Mariadb {
    folder: TempDir,
    port: u16,
    _server: Server,
}

impl Mariadb {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lhm").tempdir_in("/tmp").unwrap();
        let (data, port) = (folder.path().join("data"), free_port());
        fs::create_dir(&data).unwrap();
        if geteuid().is_root() {
            for path in [folder.path(), &data] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut init = command("mariadb-install-db", folder.path());
        init.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=4M"]);
        output(init.arg(format!("--datadir={}", data.display())).stdout(Stdio::null()));
        let accounts = "CREATE DATABASE numbers;\nCREATE USER me@'%' IDENTIFIED BY 'secret';\nGRANT SELECT ON numbers.* TO me@'%';\n";
        fs::write(folder.path().join("accounts.sql"), accounts).unwrap();
        let mut server = command("mariadbd", folder.path());
        server.args("--bind-address=127.0.0.1 --skip-name-resolve --innodb-use-native-aio=OFF".split(' '));
        server.arg("--innodb-log-file-size=4M").arg(format!("--port={port}"));
        for (option, name) in [
            ("datadir", "data"),
            ("socket", "s"),
            ("init-file", "accounts.sql"),
            ("pid-file", "pid"),
        ] {
            server.arg(format!("--{option}={}", folder.path().join(name).display()));
        }
        let socket = folder.path().join("s");
        let server = Server::start(&mut server, || UnixStream::connect(&socket).is_ok());
        Self {
            folder,
            port,
            _server: server,
        }
    }

    fn by_socket(&self, parameters: &str) -> String {
        format!("mysql+unix:{}?{parameters}", self.folder.path().join("s").display())
    }
}

/// A program of MariaDB, as its user.
fn command(program: &str, folder: &Path) -> Command {
    let path = ["/usr/sbin", "/usr/bin"].map(|place| PathBuf::from(place).join(program));
    let mut command = Command::new(path.iter().find(|path| path.exists()).unwrap());
    command.arg("--no-defaults").current_dir(folder);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[test]
fn a_server_that_is_up_is_loaded_and_compared() {
    needs!(have("mariadbd"));
    let server = Mariadb::start();
    let lasthop = Lasthop::new();
    let (unix, tcp) = (
        server.by_socket("user=me&db=numbers"),
        format!("mysql://me@127.0.0.1:{}/numbers", server.port),
    );
    let with = |password: &str, arguments: &[&str]| {
        let output = lasthop.command(arguments).env("MYSQL_PWD", password).output().unwrap();
        common::Ran::from(output)
    };
    for url in [&unix, &tcp] {
        for query in [
            &["--simple"][..],
            &[
                "--query",
                "select seq from seq_1_to_50 where seq > ?",
                "--prepared",
                "--parameter",
                "7",
            ],
        ] {
            let loaded = with(
                "secret",
                &[&["load", url, "-d", "50ms", "--format", "json"], query].concat(),
            )
            .ok()
            .json();
            assert!(loaded["requests"].as_u64().unwrap() > 0, "{loaded}");
        }
        with("wrong", &["load", url, "-d", "50ms"]).fails(1, "error 1045, SQLSTATE 28000: Access denied for user 'me'");
        with("secret", &["load", url, "-d", "50ms", "--query", "selekt"]).fails(1, "error 1064, SQLSTATE 42000");
        with("secret", &["load", url, "-d", "50ms", "--extended"]).fails(2, "use `--prepared`");
        with("secret", &["load", url, "-d", "50ms", "--pipeline", "4"]).fails(2, "after it has answered the last");
    }
    let nowhere = server.by_socket("user=me&db=nowhere");
    with("secret", &["load", &nowhere, "-d", "50ms"])
        .fails(1, "error 1044, SQLSTATE 42000: Access denied for user 'me'");
    let secure = tcp.replace("mysql:", "mysql+tls:");
    with("secret", &["load", &secure, "-d", "50ms"]).fails(1, "the server does not offer TLS on this socket");
    let compared = with(
        "secret",
        &[
            "compare", &unix, &tcp, "--budget", "3s", "--trial", "20ms", "--format", "json",
        ],
    );
    let compared = compared.ok().json();
    assert!(list(&compared["failures"]).is_empty(), "{compared}");
    assert_eq!(list(&compared["cases"]).len(), 2, "{compared}");
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
