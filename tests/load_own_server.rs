//! `lasthop load` on lasthop's own server: figures, forms of output, exit codes. Nothing to install.

mod common;

use std::{
    path::Path,
    process::Stdio,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use common::Lasthop;
use lasthop_load::{
    null::{NullServer, NullSpec, NullStopper, Script, Step},
    serve::{Pattern, ServeSpec, Server, Stopper},
    spec::Address,
};

/// An echo server in this process.
struct Echo {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(path: &Path) -> Self {
        let address = Address::Unix(path.to_owned());
        let spec = ServeSpec { pattern: Pattern::Echo, address, tls: None, nodelay: true, backlog: 64 };
        let server = Server::bind(&spec).unwrap();
        let stopper = server.stopper().unwrap();
        Self { stopper, thread: Some(std::thread::spawn(move || server.run().unwrap())) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A server that says one HTTP reply, whatever comes.
struct Http {
    url: String,
    stopper: NullStopper,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// The request is the one that `lasthop load` makes of a socket's URL.
    fn start(path: &Path, reply: &str) -> Self {
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".len();
        let script = Script {
            greeting: Vec::new(),
            request: Step { bytes: request, answer: reply.as_bytes().to_vec() },
            echoes: false,
            closes: false,
            tls_request: None,
        };
        let address = Address::Unix(path.to_owned());
        let server = NullServer::bind(NullSpec { address, tls: None, nodelay: true, script }).unwrap();
        let stopper = server.stopper().unwrap();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { url: format!("http+unix:{}:/", path.display()), stopper, thread }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

#[test]
fn the_figures_have_the_keys_of_the_design() {
    let lasthop = Lasthop::new();
    let socket = lasthop.sandboxes().join("s");
    let _server = Echo::start(&socket);
    let url = format!("echo+unix:{}", socket.display());
    let ran =
        lasthop.run(["load", &url, "--size", "512", "-d", "100ms", "-c", "3", "--headroom", "--format", "json"]).ok();
    let figures = ran.json();
    // An echo has a null server, too; its own one may be as quick.
    assert!(figures["headroom"]["times"].as_f64().unwrap() > 0.0, "{}", figures["headroom"]);
    assert_eq!((figures["schema"].as_str(), figures["url"].as_str()), (Some("lasthop-load/1"), Some(url.as_str())));
    assert_eq!(figures["errors"], serde_json::json!({}));
    assert!(figures["seconds"].as_f64().unwrap() >= 0.1);
    let requests = figures["requests"].as_f64().unwrap();
    let product = figures["throughput"].as_f64().unwrap() * figures["seconds"].as_f64().unwrap();
    assert!((product / requests - 1.0).abs() < 1e-6, "{product} is not {requests}");
    let latency = |key: &str| figures["latency_ns"][key].as_u64().unwrap();
    let rising = ["p50", "p90", "p99", "p999", "max"].map(latency);
    assert!(rising.is_sorted() && rising[0] > 0, "{rising:?}");
    assert!(figures["driver_cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(figures["driver_run_delay_seconds"].as_f64().unwrap() >= 0.0);
    assert!(figures["system_calls_per_request"].as_f64().unwrap() >= 2.0);
    assert_eq!((figures["engine"].as_str(), figures["connections"].as_u64()), (Some("epoll"), Some(3)));
    assert_eq!((figures["proof"]["family"].as_str(), &figures["proof"]["reused"]), (Some("unix"), &true.into()));
    assert_eq!(figures["checked"], "all 512\u{a0}B of each message");
}

#[test]
fn the_terminal_says_what_was_proven_and_checked() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.sandboxes().join("s"), OK);
    let ran = lasthop.run(["load", &server.url, "-d", "50ms", "--warm-up", "1ms", "--headroom"]).ok();
    for text in [
        "requests/s",
        "0 errors",
        "service time",
        "Unix socket to",
        "connections are reused",
        "status 200 and a body of 3 B, byte for byte",
        "system calls a request",
        "times: against a server that does nothing this load reached",
    ] {
        assert!(ran.stdout.contains(text), "`{text}` is not in:\n{}", ran.stdout);
    }
    drop(server);
    lasthop.assert_nothing_left();
}

#[test]
fn a_rate_that_is_reached_is_shown_and_one_that_is_not_is_a_failure() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.sandboxes().join("s"), OK);
    let open = |rate: &str| {
        let options = ["-d", "200ms", "--warm-up", "1ms", "--arrivals", "poisson", "--format", "json", "--rate", rate];
        lasthop.run(["load", server.url.as_str()].iter().chain(&options))
    };
    let figures = open("20").ok().json();
    assert_eq!(figures["offered"]["reached"], true);
    assert!(figures["lag_ns"]["p99"].is_u64() && figures["response_ns"]["p99"].is_u64(), "{figures}");
    let ran = open("90000000");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["offered"]["reached"], false);
}

#[test]
fn a_wrong_answer_is_an_error_and_a_server_that_is_not_there_too() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.sandboxes().join("s"), "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    lasthop.run(["load", &server.url]).fails(1, "500");
    let right = Http::start(&lasthop.sandboxes().join("r"), OK);
    lasthop.run(["load", &right.url, "--expect", "other", "-d", "50ms"]).fails(1, "body");
    lasthop.run(["load", "http+unix:/nonexistent/socket:/"]).fails(1, "No such file");
    lasthop.run(["load", "http+unix:/nonexistent/socket:/"]).fails(1, "nothing listens there: start the server");
}

/// Waits until the generator's thread has worked for 5 ms: connections stand and the warm-up is over.
fn wait_for_load(pid: i32) {
    let worked = |task: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let cpu_ns = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0_u64);
        read("comm").trim() == "lasthop-load" && cpu_ns > 5_000_000
    };
    let begin = Instant::now();
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    while !tasks().any(|task| task.is_ok_and(worked)) {
        assert!(begin.elapsed() < Duration::from_secs(60), "there is no load");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_shows_what_was_measured_so_far() {
    let lasthop = Lasthop::new();
    let socket = lasthop.sandboxes().join("s");
    let _server = Echo::start(&socket);
    let url = format!("echo+unix:{}", socket.display());
    for options in [["-c", "1"], ["-c", "3"], ["--rate", "500"]] {
        let command = ["load", &url, "-d", "1h", "--warm-up", "1ms", "--format", "json"].into_iter().chain(options);
        let child = lasthop.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        wait_for_load(pid);
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{options:?}: {output:?}");
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&figures["cut_short"], &figures["errors"]), (&true.into(), &serde_json::json!({})), "{figures}");
        let seconds = figures["seconds"].as_f64().unwrap();
        assert!(figures["requests"].as_u64().unwrap() > 0 && seconds < 3000.0, "{figures}");
    }
}

#[test]
fn json_says_why_nothing_was_right() {
    let lasthop = Lasthop::new();
    let figures = |url: &str| {
        let ran = lasthop.run(["load", url, "-d", "50ms", "--format", "json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.json()
    };
    let server = Http::start(&lasthop.sandboxes().join("s"), "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let wrong = figures(&server.url);
    assert_eq!((&wrong["errors"], &wrong["requests"]), (&serde_json::json!({"wrong-status": 1}), &0.into()), "{wrong}");
    assert_eq!(wrong["failure"]["stage"], "verify");
    let nobody = figures("http+unix:/nonexistent/socket:/");
    assert_eq!(nobody["errors"], serde_json::json!({"refused": 1}));
    assert!(nobody["first_errors"]["refused"].as_str().unwrap().contains("No such file"), "{nobody}");
    assert!(nobody["proof"].is_null());
}

#[test]
fn wrong_use_says_what_is_right() {
    let lasthop = Lasthop::new();
    for (arguments, text) in [
        (["load", "127.0.0.1:80", "-c", "1"], "has no scheme"),
        (["load", "ftp://127.0.0.1", "-c", "1"], "unknown scheme"),
        (["load", "echo+unix:/s", "--query", "select 1"], "--query does not go with echo+unix:/s"),
        (["load", "echo+unix:/s", "-c", "0"], "connections is 0, must be 1 to 65535"),
        (["load", "echo+unix:/s", "-t", "2"], "2 threads for 1 connections"),
        (["load", "echo+unix:/s", "--rate", "0"], "the rate is 0"),
        (["load", "http+unix:/s", "-H", "no colon"], "expected `Name: value`"),
    ] {
        lasthop.run(arguments).fails(2, text);
    }
}
