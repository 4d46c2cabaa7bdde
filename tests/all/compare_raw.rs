//! Real servers whose protocols lasthop does not know, each at a port and on a socket, by what is sent and where the
//! reply ends.

use crate::{
    common,
    compare::{compared, folder},
    load_peers::{Server, free_port},
};

use std::{
    fs,
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use common::{BRIEF, Lasthop, have, needs};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server with a port and a socket in a folder of its own.
struct Place {
    folder: TempDir,
    port: u16,
    server: Option<Server>,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: folder(),
            port: free_port(),
            server: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, `DIR` and `PORT` in it replaced.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.folder.path().to_str().unwrap();
        let text = text.replace("DIR", folder).replace("PORT", &self.port.to_string());
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn start(mut self, command: &mut Command) -> Self {
        let ready =
            || UnixStream::connect(self.path("s")).is_ok() && TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        self.server = Some(Server::start(command, ready));
        self
    }

    fn urls(&self) -> [String; 2] {
        let socket = self.path("s");
        [
            format!("raw://127.0.0.1:{}", self.port),
            format!("raw+unix:{}", socket.display()),
        ]
    }

    /// Compares both ways to the server; what every reply is held against, in its words.
    #[track_caller]
    fn compared(&self, program: &str, options: &[impl AsRef<str>]) {
        let [tcp, unix] = self.urls();
        let options: Vec<&str> = options.iter().map(AsRef::as_ref).collect();
        compared([&tcp, &unix], program, &options);
    }

    fn checked(&self, options: &[&str]) -> String {
        let lasthop = Lasthop::new();
        let load = ["load", &self.urls()[1], "-d", "100ms", "--warm-up", "1ms"];
        let said = lasthop.run(load.iter().chain(options)).ok().stdout;
        let line = said.lines().find_map(|line| line.trim().strip_prefix("checked"));
        line.unwrap_or_else(|| panic!("{said}")).trim().to_owned()
    }
}

/// The options with which docs/raw.md asks the server at a port, as a shell reads them.
fn of_the_page(port: u16) -> Vec<String> {
    let begin = format!("$ lasthop compare raw://127.0.0.1:{port} raw+unix:");
    let mut lines = include_str!("../../docs/raw.md").lines();
    let options = lines
        .find_map(|line| line.strip_prefix(&begin)?.split_once(' '))
        .unwrap()
        .1;
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("printf '%s\\n' {options}")]);
    let words = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    words.lines().map(str::to_owned).collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        // A master that is killed leaves its workers; at this signal it ends them first.
        let Some(server) = &mut self.server else { return };
        kill_process(Pid::from_raw(server.0.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        server.0.wait().unwrap();
    }
}

#[test]
fn clamd_answers_a_ping_and_scans() {
    needs!(have("clamd"));
    let place = Place::new();
    fs::create_dir(place.path("db")).unwrap();
    place.write("db/own.ndb", "lasthop.Test:0:*:6c617374686f702074657374\n");
    let conf = place.write(
        "conf",
        "Foreground yes\nDatabaseDirectory DIR/db\nLocalSocket DIR/s\nTCPSocket PORT\nTCPAddr 127.0.0.1\n",
    );
    let place = place.start(Command::new("clamd").arg("-c").arg(conf));
    place.compared("clamd", &of_the_page(3310));
    let scanned = |text: &[u8]| [b"zINSTREAM\0", &(text.len() as u32).to_be_bytes()[..], text, &[0; 4]].concat();
    fs::write(place.path("clean"), scanned(&[b'x'; 1000])).unwrap();
    fs::write(place.path("virus"), scanned(b"a lasthop test")).unwrap();
    let [clean, virus] = ["clean", "virus"].map(|name| format!("@{}", place.path(name).display()));
    place.compared("clamd", &["--send", &clean, "--until", r"\0", "--reuse", "per-request"]);
    for (send, reply) in [
        (clean, r"stream: OK\x00"),
        (virus, r"stream: lasthop.Test.UNOFFICIAL FOUND\x00"),
    ] {
        let checked = place.checked(&["--send", &send, "--until-close"]);
        assert_eq!(checked, format!("the reply \"{reply}\", byte for byte"));
    }
    let lasthop = Lasthop::new();
    let [tcp, unix] = place.urls();
    let secret = ["compare", &tcp, &unix, "--send", r"zPING\0", "--until-close"];
    lasthop.run(secret.iter().chain(&BRIEF)).ok();
    for format in ["terminal", "markdown", "json", "html"] {
        let report = lasthop.run(["report", "last", "--format", format]).ok().stdout;
        assert!(!report.contains("zPING"), "{format}: {report}");
    }
    let ping = ["load", &place.urls()[1], "--send", r"zPING\0"];
    let ran = lasthop.run(ping.iter().chain(&["--until", r"\0", "-n", "9"])).ok();
    let closed = "1 connection, closed by the server after each reply, 1 thread";
    assert!(ran.stdout.contains(closed), "{}", ran.stdout);
    for (options, said) in [
        (
            &["--until-close", "--expect", r"PANG\0"][..],
            r#"the reply differs from the expected one at byte 1: expected "PANG\x00", received "PONG\x00""#,
        ),
        (
            &["--until", "!"],
            r#"the peer closed after 5 bytes of a reply, before its end (--until '!'); it begins with "PONG\x00""#,
        ),
        (&["--bytes", "3", "--reuse", "per-request"], "2 bytes follow the reply"),
    ] {
        let ran = lasthop.run(ping.iter().chain(options));
        assert!(
            ran.code == Some(1) && ran.stderr.contains(said),
            "{options:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn mosquitto_answers_pings_of_a_client_that_has_connected_once() {
    needs!(have("mosquitto"));
    let place = Place::new();
    let conf = place.write(
        "conf",
        "listener PORT 127.0.0.1\nlistener 0 DIR/s\nallow_anonymous true\npersistence false\nuser root\n",
    );
    let place = place.start(Command::new("mosquitto").arg("-c").arg(conf));
    let connect = r"\x10\x0c\0\4MQTT\4\2\0\0\0\0";
    let page = of_the_page(1883);
    let options: Vec<&str> = page.iter().map(String::as_str).collect();
    place.compared("mosquitto", &options);
    let reply = r#"the reply "\xd0\x00", byte for byte; of the greeting where it ends"#;
    assert_eq!(place.checked(&options), reply);
    assert_eq!(
        place.checked(&[&options[..], &["--headroom", "-c", "3"]].concat()),
        reply
    );
    let by_count = [
        "--greet",
        connect,
        "--greet-bytes",
        "4",
        "--send",
        r"\xc0\0",
        "--bytes",
        "2",
    ];
    assert_eq!(place.checked(&by_count), reply);
    // A client that has not connected is sent away.
    let lasthop = Lasthop::new();
    let ran = lasthop.run(["load", &place.urls()[0]].iter().chain(&options[2..]));
    assert!(
        ran.code == Some(1) && ran.stderr.contains("say it with `--greet`"),
        "{}",
        ran.stderr
    );
}

const MAIL: &str = "\
import threading
from aiosmtpd.controller import Controller, UnixSocketController
port = Controller(object(), hostname='127.0.0.1', port=PORT)
socket = UnixSocketController(object(), unix_socket='DIR/s')
port.start(), socket.start(), threading.Event().wait()
";

#[test]
fn a_mail_server_that_speaks_first_does_nothing_when_asked() {
    let has_package = Path::new("/usr/lib/python3/dist-packages/aiosmtpd").exists();
    if !has_package && !have("python3-aiosmtpd") {
        return;
    }
    let place = Place::new();
    let script = place.write("mail.py", MAIL);
    let place = place.start(Command::new("/usr/bin/python3").arg(script));
    let page = of_the_page(25);
    let options: Vec<&str> = page.iter().map(String::as_str).collect();
    place.compared("python3", &options);
    let reply = r#"the reply "250 OK\r\n", byte for byte; of the greeting where it ends"#;
    assert_eq!(place.checked(&[&options[..], &["--pipeline", "4"]].concat()), reply);
}

#[test]
fn php_fpm_runs_a_script_for_records_from_a_file() {
    let Some(program) = ["php-fpm8.2", "php-fpm"].into_iter().find(|name| have(name)) else {
        return;
    };
    let place = Place::new();
    let script = place.write("hello.php", "<?php echo 'Hello';");
    let pool = |name: &str, listen: &str| {
        format!("[{name}]\nlisten = {listen}\nuser = root\npm = static\npm.max_children = 2\npm.max_requests = 500\n")
    };
    let pools = pool("port", "127.0.0.1:PORT") + &pool("socket", "DIR/s");
    let conf = place.write(
        "conf",
        &format!("[global]\nerror_log = DIR/log\ndaemonize = no\n{pools}"),
    );
    // -R: as root, which only the tests' own folder is for.
    let place = place.start(Command::new(program).args(["-R", "-n", "-y"]).arg(conf));
    let record = |kind: u8, text: &[u8]| {
        let head = [1, kind, 0, 1, 0, text.len() as u8, 0, 0];
        [&head, text].concat()
    };
    let parameter = |name: &str, value: &str| {
        let lengths = [name.len() as u8, value.len() as u8];
        [&lengths, name.as_bytes(), value.as_bytes()].concat()
    };
    let parameters = [
        parameter("SCRIPT_FILENAME", script.to_str().unwrap()),
        parameter("REQUEST_METHOD", "GET"),
    ]
    .concat();
    let page = of_the_page(9000);
    let page: Vec<&str> = page.iter().map(String::as_str).collect();
    assert_eq!(page[..2], ["--send", "@request"]);
    for (keep, end) in [(1, &page[2..]), (0, &["--until-close"])] {
        let begin = record(1, &[0, 1, keep, 0, 0, 0, 0, 0]);
        let request = [begin, record(4, &parameters), record(4, b""), record(5, b"")].concat();
        fs::write(place.path("request"), request).unwrap();
        let send = format!("@{}", place.path("request").display());
        let options = [&["--send", &send], end].concat();
        place.compared(program, &options);
        // A process ends after 500 requests, and drops what it is sent then. Its connection fails no request.
        for url in place.urls().iter().filter(|_| keep == 1) {
            let load = ["load", url, "-n", "1200", "--format", "json"];
            let figures = Lasthop::new().run(load.iter().chain(&options)).ok().json();
            assert_eq!(figures["requests_total"], 1200, "{figures}");
        }
    }
}
