//! Endpoints of real servers that lasthop did not start.

use crate::{
    common,
    load_peers::{Postgres, Server, free_port, have_postgres, nginx_with, redis_with},
    your_own_stack::replay,
};

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use common::{Lasthop, executable, have, list, needs, one_line, output, shows, texts, words};
use serde_json::Value;
use tempfile::TempDir;

pub const SHORT: [&str; 12] = [
    "--rounds", "2", "--blocks", "2", "--budget", "60s", "--trial", "20ms", "--format", "json", "--seed", "7",
];

pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("lhc").tempdir_in("/tmp").unwrap()
}

/// nginx on a socket, at a port and at one with TLS, with pages that answer, are not there, ask who one is, and differ by way.
pub struct Nginx {
    folder: TempDir,
    port: u16,
    tls: u16,
    /// Where a connection carries as many requests as nginx allows by default.
    stock: u16,
    server: Server,
}

impl Nginx {
    pub fn start() -> Self {
        let (folder, [port, tls, stock]) = (folder(), [(); 3].map(|()| free_port()));
        let path = folder.path().display().to_string();
        let mut certificate = Command::new("openssl");
        certificate.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost".split(' '));
        certificate.args("-addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:127.0.0.1".split(' '));
        let files = format!("-keyout {path}/key -out {path}/certificate");
        output(certificate.args(files.split(' ')));
        let http = format!(
            "default_type text/plain; keepalive_requests 1000000000; \
             server {{ listen unix:{path}/s; listen 127.0.0.1:{port}; \
             listen 127.0.0.1:{tls} ssl; ssl_protocols TLSv1.3; ssl_certificate {path}/certificate; ssl_certificate_key {path}/key; \
             location = / {{ return 200 \"ok\\n\"; }} location = /gone {{ return 404; }} \
             location = /closed {{ return 401; }} location = /way {{ return 200 \"$server_port$remote_addr\\n\"; }} \
             location = /other {{ if ($remote_addr = \"unix:\") {{ return 200 \"Jello\\n\"; }} return 200 \"Hello\\n\"; }} \
             location = /moved {{ if ($remote_addr = \"unix:\") {{ return 302 /a; }} return 302 /b; }} \
             location = /random {{ return 200 \"$request_id\\n\"; }} }} \
             server {{ keepalive_requests 1000; listen unix:{path}/stock; listen 127.0.0.1:{stock}; location / {{ return 200 \"ok\\n\"; }} }} \
             server {{ keepalive_requests 50; listen unix:{path}/few; listen unix:{path}/few2 http2; location / {{ return 200 \"ok\\n\"; }} }}"
        );
        let socket = folder.path().join("s");
        let is_up = || UnixStream::connect(&socket).is_ok();
        let server = nginx_with(folder.path(), "worker_processes 1;", &http, is_up);
        Self {
            folder,
            port,
            tls,
            stock,
            server,
        }
    }

    pub fn tcp(&self, uri: &str) -> String {
        format!("http://127.0.0.1:{}{uri}", self.port)
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn unix(&self, uri: &str) -> String {
        format!("http+unix:{}:{uri}", self.socket().display())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that is killed leaves its workers; at this signal it ends them first.
        let pid = rustix::process::Pid::from_raw(self.server.0.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.server.0.wait().unwrap();
    }
}

pub fn has(summary: &Value, id: &str) -> bool {
    texts(&summary["checks"], "id").contains(&id)
}

/// Compares two endpoints of one server, of whose program this must be the name.
#[track_caller]
pub fn compared(urls: [&str; 2], program: &str, options: &[&str]) -> Value {
    let lasthop = Lasthop::new();
    let ran = lasthop.run(["compare"].iter().chain(&urls).chain(options).chain(&SHORT));
    let summary = ran.ok().json();
    assert_eq!(list(&summary["cases"]).len(), 2);
    for case in list(&summary["cases"]) {
        assert!(
            case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert!(
            case["metrics"]["cpu_per_request"]["roles"][program].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    assert_eq!(summary["comparisons"][0]["reference"], summary["cases"][0]["case"]);
    for wrong in [
        "transport-not-as-asked",
        "reuse-not-as-asked",
        "server-unknown",
        "config-differs",
    ] {
        assert!(!has(&summary, wrong), "{}", summary["checks"]);
    }
    assert!(has(&summary, "not-restarted"), "{}", summary["checks"]);
    summary
}

#[test]
fn a_connection_that_nginx_ends_under_way_is_no_error() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let tcp = format!("http://127.0.0.1:{}/", nginx.stock);
    let unix = format!("http+unix:{}/stock:/", nginx.folder.path().display());
    let summary = compared([&tcp, &unix], "nginx", &["--pipeline", "16"]);
    for wrong in ["errors", "sent-again"] {
        assert!(!has(&summary, wrong), "{}", summary["checks"]);
    }
    let lasthop = Lasthop::new();
    let load = |socket: &str, options: &[&str]| {
        let url = format!("http+unix:{}/{socket}:/", nginx.folder.path().display());
        let arguments = ["load", &url, "-n", "800", "--pipeline", "16", "--format", "json"];
        lasthop.run(arguments.iter().chain(options)).ok().json()
    };
    for connections in ["1", "3"] {
        for (socket, version) in [("few", &[][..]), ("few2", &["--http2"])] {
            let figures = load(socket, &[&["-c", connections], version].concat());
            assert_eq!(
                (&figures["requests_total"], &figures["errors"]),
                (&800.into(), &serde_json::json!({}))
            );
            assert!(figures["sent_again"].as_u64() > Some(0), "{figures}");
        }
    }
    let url = format!("http+unix:{}/few:/", nginx.folder.path().display());
    let said = lasthop.run(["load", &url, "-n", "800", "--pipeline", "16"]).ok().stdout;
    let of_few = "which the server did not take before it ended their connection";
    assert!(said.contains("no errors.") && said.contains(of_few), "{said}");
}

#[test]
fn nginx_is_compared_by_socket_and_port_and_the_record_reported_again() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let summary = compared([&nginx.tcp("/"), &nginx.unix("/")], "nginx", &[]);
    assert_eq!(
        (&summary["cases"][0]["case"], &summary["cases"][1]["case"]),
        (&"tcp".into(), &"unix".into())
    );
    let lasthop = Lasthop::new();
    let with = |word: &'static str| SHORT.iter().copied().filter(move |option| *option != word);
    let arguments = ["compare", &nginx.tcp("/"), &nginx.unix("/")].map(str::to_owned);
    let plain = arguments
        .iter()
        .map(String::as_str)
        .chain(with("json").filter(|option| *option != "--format"));
    let said = lasthop.run(plain).ok().stdout;
    let title = format!("compare: {} and {} · driver → nginx", nginx.tcp("/"), nginx.unix("/"));
    assert!(one_line(&said).contains(&title), "{said}");
    assert_eq!(lasthop.run(["report", "last"]).ok().stdout, said);
    let verbose = one_line(&lasthop.run(["report", "last", "--verbose"]).ok().stdout);
    assert!(verbose.contains("were not restarted between rounds"), "{verbose}");
    shows(
        &lasthop.run(["report", "last", "--format", "html"]).ok().stdout,
        ["</html>"],
    );
}

#[test]
fn tls_is_compared_and_a_process_that_was_named_is_measured() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let https = format!("https://127.0.0.1:{}/", nginx.tls);
    let pid = format!("web={}", nginx.server.0.id());
    let own = nginx.folder.path().join("certificate").display().to_string();
    let summary = compared([&nginx.tcp("/"), &https], "web", &["--pid", &pid, "--authority", &own]);
    let proofs = [&summary["cases"][0]["proof"], &summary["cases"][1]["proof"]];
    assert!(proofs[0]["tls_version"].is_null(), "{}", proofs[0]);
    assert_eq!(proofs[1]["tls_version"], "TLSv1.3");
    assert_eq!(summary["cases"][1]["transport"], "tls");
}

#[test]
fn every_form_of_a_socket_is_the_same_endpoint() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let lasthop = Lasthop::new();
    let path = nginx.socket().display().to_string();
    let encoded = path.replace('/', "%2F");
    for url in [
        format!("http+unix:{path}"),
        format!("http+unix:{path}:/"),
        format!("http+unix://{path}"),
        format!("http+unix://{encoded}/"),
        format!("http://unix:{path}:/"),
        format!("unix:{path}"),
    ] {
        let figures = lasthop
            .run(["load", &url, "-d", "50ms", "--warm-up", "5ms", "--format", "json"])
            .ok()
            .json();
        assert_eq!(figures["proof"]["family"], "unix", "{url}");
    }
}

#[test]
fn what_cannot_be_compared_is_said_before_anything_is_measured() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let lasthop = Lasthop::new();
    let compare = |one: &str, other: &str| lasthop.run(["compare", one, other, "--budget", "3s"]);
    let down = format!("http://127.0.0.1:{}/", free_port());
    let ran = compare(&nginx.tcp("/"), &down).fails(1, "nothing listens at ");
    assert!(ran.stderr.contains(&down), "{}", ran.stderr);
    compare(&nginx.tcp("/gone"), &nginx.unix("/gone")).fails(1, "status 404");
    compare(&nginx.tcp("/"), &nginx.unix("/closed")).fails(1, "the server requires authentication");
    let ran = compare(&nginx.tcp("/"), &nginx.unix("/way")).fails(2, "do not answer alike");
    shows(&ran.stderr, ["length of the body: 3 bytes at", "--differing"]);
    let ran = compare(&nginx.tcp("/other"), &nginx.unix("/other")).fails(2, "do not answer alike");
    shows(&ran.stderr, [r#"body, from byte 0 on: "Hello\n" at"#]);
    let moved = [&nginx.tcp("/moved"), &nginx.unix("/moved"), "--expect-status", "302"];
    let ran = lasthop
        .run(["compare"].iter().chain(&moved))
        .fails(2, "do not answer alike");
    assert!(ran.stderr.contains("location: /b at"), "{}", ran.stderr);
    assert!(lasthop.runs().is_empty(), "nothing was recorded");
}

/// Replies slower than the budget allows: the run does not begin, and the budget that would do is said.
#[test]
fn a_budget_without_room_for_two_blocks_is_refused_with_one_that_has_it() {
    const SLOW: Duration = Duration::from_millis(300);
    let lasthop = Lasthop::new();
    let folder = folder();
    let urls = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                thread::spawn(move || {
                    while let Ok(1..) = peer.read(&mut [0; 4096]) {
                        thread::sleep(SLOW);
                        let _ = peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
                    }
                });
            }
        });
        format!("http+unix:{}:/", path.display())
    });
    let [one, other] = &urls;
    let ran = lasthop
        .run(["compare", one, other, "--no-reference", "--budget", "1s"])
        .fails(2, "which is more than the budget of 1s: use a larger one (--budget ");
    assert!(ran.stderr.starts_with("error: a reply takes 0."), "{}", ran.stderr);
    assert!(lasthop.runs().is_empty());
}

/// A server that writes each reply at once: `server.py ADDRESS` is `HOST:PORT`.
const BUILD: &str = r#"#!/usr/bin/env python3
import socket, sys, threading

def talk(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(65536):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello")

host, port = sys.argv[1].split(":")
listener = socket.create_server((host, int(port)), backlog=100)
while True:
    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Two builds of one server, each at its port.
fn builds(folder: &Path) -> [(u16, Server); 2] {
    let file = folder.join("server.py");
    fs::write(&file, BUILD).unwrap();
    [free_port(), free_port()].map(|port| {
        let mut command = Command::new("python3");
        command.arg(&file).arg(format!("127.0.0.1:{port}"));
        let server = Server::start(&mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        (port, server)
    })
}

/// The two as `compare` takes them, with names.
fn named([old, new]: [u16; 2]) -> [String; 2] {
    [("old", old), ("new", new)].map(|(name, port)| format!("{name}=http://127.0.0.1:{port}/"))
}

#[test]
fn endpoints_have_the_names_that_the_user_gives_them() {
    needs!(have("python3"));
    let folder = folder();
    let [(old, _one), (new, _other)] = &builds(folder.path());
    let [old, new] = named([*old, *new]);
    let lasthop = Lasthop::new();
    let compare = |limit: &str, options: &[&str]| {
        let words = ["compare", &old, &new, "--fail-if", limit];
        lasthop.run(words.iter().chain(options).chain(&SHORT))
    };
    let summary = compare("new slower > 99 %", &[]).ok().json();
    let case = &summary["cases"][1];
    assert_eq!(
        (&case["case"], &case["levels"]["endpoint"]),
        (&"new".into(), &"new".into())
    );
    assert_eq!(summary["comparisons"][0]["reference"], "old");
    assert_eq!(
        (&summary["compared"], &summary["limits"][0]["case"]),
        (&"endpoint".into(), &"new".into())
    );
    assert!(!has(&summary, "config-differs"), "{}", summary["checks"]);
    let said = lasthop.run(["report", "last"]).ok().stdout;
    assert!(said.contains("instead of old") && said.contains("new/s"), "{said}");
}

#[test]
fn a_limit_that_could_not_be_judged_is_no_success() {
    needs!(have("python3"));
    let folder = folder();
    let [(old, _one), (new, _other)] = &builds(folder.path());
    let [old, new] = named([*old, *new]);
    let lasthop = Lasthop::new();
    let one_block = ["--rounds", "1", "--blocks", "1", "--trial", "20ms"];
    let ran = lasthop.run(
        ["compare", &old, &new, "--fail-if", "new slower > 2%"]
            .iter()
            .chain(&one_block),
    );
    ran.fails(4, "new slower > 2%: not judged for new: too few blocks have both");
    lasthop
        .run(["report", "last", "--fail-if", "any slower > 2%"])
        .fails(4, "not judged for new");
}

#[test]
fn the_page_on_ci_compares_two_builds() {
    needs!(have("python3"));
    let page = include_str!("../../docs/in-ci.md");
    let (_, section) = page.split_once("\n## An old build and a new one\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let folder = folder();
    let [(old, _one), (new, _other)] = &builds(folder.path());
    let section = section
        .replace("127.0.0.1:8001", &format!("127.0.0.1:{old}"))
        .replace("127.0.0.1:8002", &format!("127.0.0.1:{new}"));
    let lasthop = Lasthop::new();
    let app = lasthop.home().join("builds/app");
    fs::create_dir_all(&app).unwrap();
    for build in ["server-old", "server-new"] {
        executable(&app.join(build), BUILD);
    }
    assert_eq!(replay(&section, &lasthop), 2, "commands");
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(
        (&summary["compared"], &summary["comparisons"][0]["reference"]),
        (&"build".into(), &"old".into())
    );
    assert!(!has(&summary, "config-differs"), "{}", summary["checks"]);
}

#[test]
fn replies_that_differ_are_compared_on_demand_and_doubted() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let lasthop = Lasthop::new();
    let (tcp, unix) = (nginx.tcp("/way"), nginx.unix("/way"));
    let ran = lasthop.run(["compare", &tcp, &unix, "--differing"].iter().chain(&SHORT));
    let summary = ran.ok().json();
    let doubt = list(&summary["checks"])
        .iter()
        .find(|check| check["id"] == "config-differs")
        .unwrap();
    shows(doubt["evidence"].as_str().unwrap(), ["length of the body"]);
}

#[test]
fn a_check_that_is_weak_is_said() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let lasthop = Lasthop::new();
    let said = "not checked of the body: bytes";
    let (tcp, unix) = (nginx.tcp("/random"), nginx.unix("/random"));
    let summary = lasthop.run(["compare", &tcp, &unix].iter().chain(&SHORT)).ok().json();
    let doubts: Vec<_> = list(&summary["checks"])
        .iter()
        .filter(|one| one["id"] == "weak-check")
        .collect();
    assert_eq!(doubts.len(), 2, "one for each endpoint");
    assert!(
        doubts[0]["evidence"].as_str().unwrap().starts_with(said),
        "{}",
        doubts[0]
    );
    let short = ["-d", "50ms", "--warm-up", "5ms"];
    let ran = lasthop.run(["load", &tcp].iter().chain(&short)).ok();
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    let figures = lasthop
        .run(["load", &tcp, "--format", "json"].iter().chain(&short))
        .ok()
        .json();
    assert!(figures["unchecked"].as_str().unwrap().starts_with(said), "{figures}");
    let whole = ["compare", &nginx.tcp("/"), &nginx.unix("/")];
    let summary = lasthop.run(whole.iter().chain(&SHORT)).ok().json();
    assert!(!has(&summary, "weak-check"), "{}", summary["checks"]);
    let summary = lasthop
        .run(whole.iter().chain(&SHORT).chain(&["--no-reference"]))
        .ok()
        .json();
    assert!(has(&summary, "weak-check"), "{}", summary["checks"]);
}

#[test]
fn a_comparison_at_a_rate_of_several_of_one_transport() {
    needs!(have("nginx"));
    let (one, other) = (Nginx::start(), Nginx::start());
    let lasthop = Lasthop::new();
    let urls = [one.tcp("/"), other.tcp("/"), one.unix("/")];
    let arguments = ["compare", &urls[0], &urls[1], &urls[2], "-R", "500", "-c", "2"];
    let arguments = arguments
        .iter()
        .copied()
        .chain(SHORT)
        .map(|word| if word == "20ms" { "50ms" } else { word });
    let summary = lasthop.run(arguments).ok().json();
    let names = texts(&summary["cases"], "case");
    assert_eq!(
        names,
        [
            &format!("tcp 127.0.0.1:{}", one.port),
            &format!("tcp 127.0.0.1:{}", other.port),
            "unix"
        ]
    );
    assert_eq!(summary["cases"][0]["load"]["rate"], 500.0);
}

/// Secrets are neither in the record nor shown, and a resumed comparison asks for them again.
#[test]
fn a_comparison_is_restarted_and_resumed_and_keeps_no_password() {
    needs!(have("redis-server"));
    let (folder, port) = (folder(), free_port());
    let socket = folder.path().join("s");
    let place = format!("--bind 127.0.0.1 --port {port} --unixsocket {}", socket.display());
    let options = format!("{place} --requirepass s3cret");
    let _server = redis_with(folder.path(), &options, || UnixStream::connect(&socket).is_ok());
    let (tcp, unix) = (
        format!("redis://127.0.0.1:{port}"),
        format!("redis+unix:{}", socket.display()),
    );
    let lasthop = Lasthop::new();
    let with_password = |arguments: &[&str]| {
        let output = lasthop
            .command(arguments)
            .env("REDISCLI_AUTH", "s3cret")
            .output()
            .unwrap();
        common::Ran::from(output)
    };
    lasthop.run(["compare", &tcp, &unix]).fails(1, "NOAUTH");
    let mark = folder.path().join("restarted").display().to_string();
    let restart = format!(": t0ken; echo again >> {mark}");
    let short = words("--blocks 2 --budget 6s --trial 20ms --format json");
    let summary = with_password(&[&["compare", &tcp, &unix, "--restart", &restart], &short[..]].concat())
        .ok()
        .json();
    assert!(
        has(&summary, "not-restarted"),
        "the command restarts nothing: {}",
        summary["checks"]
    );
    let rounds = summary["rounds"].as_u64().unwrap();
    let restarts = fs::read_to_string(&mark).unwrap().lines().count() as u64;
    assert!(
        rounds > 1 && restarts + 1 >= rounds,
        "{restarts} restarts for {rounds} rounds"
    );
    let record = lasthop.runs().pop().unwrap();
    for file in ["run.json", "trials.jsonl"] {
        assert!(
            !fs::read_to_string(record.join(file)).unwrap().contains("s3cret"),
            "{file}"
        );
    }
    for format in ["terminal", "markdown", "json", "csv", "html"] {
        let report = lasthop.run(["report", "last", "--format", format]).ok().stdout;
        assert!(
            !report.contains("t0ken"),
            "the command that restarts is in a report: {format}"
        );
    }
    lasthop
        .run(["resume", "last", "--budget", "2s"])
        .fails(2, "put it in REDISCLI_AUTH");
    let again = with_password(&["resume", "last", "--budget", "4s", "--format", "json"])
        .ok()
        .json();
    assert!(again["rounds"].as_u64().unwrap() > rounds, "{again}");
    let failing = ["compare", &tcp, &unix, "--restart", "echo broken; exit 3"];
    let ran = with_password(&[&failing[..], &words("--blocks 2 --rounds 2")].concat()).fails(1, "");
    assert!(ran.stdout.contains("broken"), "{}", ran.stdout);
}

/// A Redis that a script starts in the background, afresh each time.
struct Restarted {
    folder: TempDir,
    port: u16,
}

impl Restarted {
    fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        let script = format!(
            "cd {}; old=$(cat pid 2>/dev/null) && kill -9 $old; while grep -qs '^State:.[RSD]' /proc/$old/status; do :; done\n\
             redis-server --bind 127.0.0.1 --port {port} --unixsocket s --save '' & echo $! >new; mv new pid\n",
            folder.path().display()
        );
        fs::write(folder.path().join("restart.sh"), script).unwrap();
        let new = Self { folder, port };
        let status = Command::new("sh")
            .arg("-c")
            .arg(new.command())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        while UnixStream::connect(new.folder.path().join("s")).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        new
    }

    fn command(&self) -> String {
        format!("sh {}/restart.sh", self.folder.path().display())
    }

    fn pid(&self) -> i32 {
        fs::read_to_string(self.folder.path().join("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    fn urls(&self) -> [String; 2] {
        [
            format!("redis://127.0.0.1:{}", self.port),
            format!("redis+unix:{}/s", self.folder.path().display()),
        ]
    }
}

impl Drop for Restarted {
    fn drop(&mut self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(self.pid()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
}

#[test]
fn servers_that_the_restart_command_starts_live_on_and_keep_their_role() {
    needs!(have("redis-server"));
    let (lasthop, server) = (Lasthop::new(), Restarted::start());
    let ([tcp, unix], first) = (server.urls(), server.pid());
    let (restart, role) = (server.command(), format!("app={first}"));
    let arguments = ["compare", &tcp, &unix, "--restart", &restart, "--pid", &role];
    let short = words("--blocks 2 --rounds 3 --budget 60s --trial 20ms --format json");
    let summary = lasthop.run([&arguments[..], &short].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    assert!(
        !has(&summary, "not-restarted") && !has(&summary, "server-unknown"),
        "{}",
        summary["checks"]
    );
    for case in list(&summary["cases"]) {
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert_eq!(roles.keys().collect::<Vec<_>>(), ["app"]);
    }
    assert_ne!(server.pid(), first);
    assert!(
        TcpStream::connect(("127.0.0.1", server.port)).is_ok(),
        "it is left running"
    );
    let hanging = ["compare", &tcp, &unix, "--restart", "sleep 1000"];
    let short = words("--blocks 1 --budget 5s --no-headroom");
    let said = lasthop.run([&hanging[..], &short].concat()).stderr;
    assert!(said.contains("restarting the servers, for at most 5 s"), "{said}");
    shows(&said, ["the restart command did not end within 5 s and was killed"]);
}

/// A resumed comparison needs the body, so the record has it; reports do not.
#[test]
fn what_may_be_secret_is_not_passed_on() {
    needs!(have("nginx"));
    let nginx = Nginx::start();
    let lasthop = Lasthop::new();
    let headers = nginx.folder.path().join("headers");
    fs::write(&headers, "X-Mine: s3cret\nX-Other: s3cret\n").unwrap();
    let uri = "/?page=2&X-Amz-Signature=s3cret&x=hidden";
    let (tcp, unix, headers) = (nginx.tcp(uri), nginx.unix(uri), format!("@{}", headers.display()));
    let asked = ["compare", &tcp, &unix, "-X", "POST", "-H", &headers, "--body", "b0dy"];
    let ran = lasthop.run(asked.iter().chain(&SHORT)).ok();
    shows(&ran.stdout, ["page=2&X-Amz-Signature=***&x=***"]);
    let record = lasthop.runs().pop().unwrap();
    for file in ["run.json", "trials.jsonl"] {
        let text = fs::read_to_string(record.join(file)).unwrap();
        assert!(!text.contains("s3cret") && text.contains("X-Mine"), "{file}: {text}");
    }
    for format in ["terminal", "markdown", "json", "csv", "html"] {
        let report = lasthop.run(["report", "last", "--format", format]).ok().stdout;
        assert!(
            !report.contains("b0dy") && !report.contains("x=hidden"),
            "{format}: {report}"
        );
    }
}

#[test]
fn memcached_is_compared() {
    needs!(have("memcached"));
    let (folder, port) = (folder(), free_port());
    let socket = folder.path().join("s");
    let own = |command: &mut Command| {
        // It refuses to run as root.
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
    };
    // It listens on one kind of socket only, so there are two.
    let mut by_port = Command::new("memcached");
    own(by_port.args(["-l", "127.0.0.1", "-p", &port.to_string()]));
    let _one = Server::start(&mut by_port, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mut by_socket = Command::new("memcached");
    own(by_socket.arg("-s").arg(&socket));
    let _other = Server::start(&mut by_socket, || UnixStream::connect(&socket).is_ok());
    let (tcp, unix) = (
        format!("memcached://127.0.0.1:{port}"),
        format!("memcached+unix:{}", socket.display()),
    );
    compared([&tcp, &unix], "memcached", &[]);
}

#[test]
fn postgresql_of_another_user_is_compared() {
    needs!(have_postgres("initdb"));
    let postgres = Postgres::start();
    let tcp = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port);
    compared(
        [&tcp, &postgres.by_socket()],
        "postgres",
        &["--query", "select 42", "--prepared"],
    );
}

#[test]
fn parameters_of_a_url_are_settings_of_postgresql() {
    needs!(have_postgres("initdb"));
    let postgres = Postgres::start();
    let lasthop = Lasthop::new();
    let by_tcp = format!("postgres://postgres@127.0.0.1:{}/postgres?", postgres.port);
    for begin in [by_tcp, postgres.by_socket() + "&"] {
        for (parameters, setting, value) in [
            ("application_name=bench&connect_timeout=5", "application_name", "bench"),
            ("options=-c%20geqo%3Doff", "geqo", "off"),
            ("connect_timeout=5", "application_name", "lasthop"),
        ] {
            let (url, query) = (format!("{begin}{parameters}"), format!("show {setting}"));
            let load = [
                "load", &url, "--query", &query, "--expect", value, "-n", "5", "--format", "json",
            ];
            let figures = lasthop.run(load).ok().json();
            assert_eq!(figures["requests"], 5, "{url}: {figures}");
        }
    }
    let url = postgres.by_socket();
    let copy = ["load", &url, "--query", "copy (select 1) to stdout", "-n", "5"];
    lasthop
        .run(copy)
        .fails(1, "COPY is not supported: use a query that returns rows");
}

/// Node with one worker that needs 20 ms for each request, at a port and on a socket.
const ONE_WORKER: &str = "const http = require('http'); \
     const serve = place => { let busy = Promise.resolve(); http.createServer((_, reply) => { \
     busy = busy.then(() => new Promise(done => setTimeout(() => { reply.end('ok'); done() }, 20))) }).listen(place) }; \
     serve({ host: '127.0.0.1', port: +process.argv[1] }); serve(process.argv[2])";

#[test]
fn a_queue_longer_than_a_trial_is_measured_or_not_at_all() {
    needs!(have("node"));
    let (folder, port) = (folder(), free_port());
    let socket = folder.path().join("s");
    let mut command = Command::new("node");
    command.args(["-e", ONE_WORKER, &port.to_string()]).arg(&socket);
    let _server = Server::start(&mut command, || UnixStream::connect(&socket).is_ok());
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("http+unix:{}:/", socket.display()),
    ];
    let lasthop = Lasthop::new();
    let compare = |budget: &str| {
        let options = ["-c", "10", "--format", "json", "--no-headroom", "--budget", budget];
        lasthop
            .run(["compare", &urls[0], &urls[1]].iter().chain(&options))
            .ok()
            .json()
    };
    let summary = compare("12s");
    for case in list(&summary["cases"]) {
        // Ten requests wait for each other: 200 ms, and more where other work slows the machine down.
        let throughput = case["metrics"]["throughput"]["estimate"].as_f64().unwrap();
        // Beside other work so few long trials would say nothing, and that they were short is said.
        let is_long = case["trial_seconds"].as_f64().unwrap() > 0.4;
        assert!(is_long || has(&summary, "short-trials"), "{case}");
        if let Some(median) = case["metrics"]["latency_p50"]["estimate"].as_f64() {
            assert!((150e3..1e6).contains(&median), "{case}");
            assert!((0.7..1.4).contains(&(median / 1e6 * throughput / 10.0)), "{case}");
        } else {
            let says_why = ["littles-law", "short-trials"].iter().any(|id| has(&summary, id));
            assert!(says_why, "{}", summary["checks"]);
        }
    }
    let summary = compare("3s");
    assert!(has(&summary, "short-trials"), "{}", summary["checks"]);
    shows(&summary["checks"].to_string(), ["--budget"]);
}
