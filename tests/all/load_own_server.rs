//! `lasthop load` on lasthop's own server: figures, forms of output, exit codes. Nothing to install.

use crate::common;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::{Child, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use common::{Lasthop, Ran, lacks, list, shows, skip, words};
use lasthop_load::{
    null::{NullServer, NullSpec, Script, Step},
    serve::{Pattern, ServeSpec, Server, Stopper},
};
use lasthop_trial::address::Address;
use regex::Regex;

/// An echo server in this process.
struct Echo {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(path: &Path) -> Self {
        let address = Address::Unix(path.to_owned());
        let spec = ServeSpec {
            backlog: 64,
            ..ServeSpec::new(Pattern::Echo, address)
        };
        let server = Server::bind(&spec).unwrap();
        let stopper = server.stopper().unwrap();
        Self {
            stopper,
            thread: Some(std::thread::spawn(move || server.run().unwrap())),
        }
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
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// The request is the one that `lasthop load` makes of a socket's URL.
    fn start(path: &Path, reply: &str) -> Self {
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".len();
        let script = Script {
            greeting: Vec::new(),
            request: Step {
                bytes: request,
                answer: reply.as_bytes().to_vec(),
            },
            echoes: false,
            closes: false,
            plain: Vec::new(),
            numbers: vec![],
        };
        let address = Address::Unix(path.to_owned());
        let server = NullServer::bind(NullSpec {
            address,
            tls: None,
            nodelay: true,
            script,
            threads: 2,
        })
        .unwrap();
        let stopper = server.stopper().unwrap();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self {
            url: format!("http+unix:{}:/", path.display()),
            stopper,
            thread,
        }
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
    let socket = lasthop.home().join("s");
    let _server = Echo::start(&socket);
    let url = format!("echo+unix:{}", socket.display());
    let load = format!("load {url} --size 512 -d 100ms -c 3 --headroom --format json");
    let ran = lasthop.run(words(&load)).ok();
    let figures = ran.json();
    // An echo has a null server, too; its own one may be as quick.
    assert!(
        figures["headroom"]["times"].as_f64().unwrap() > 0.0,
        "{}",
        figures["headroom"]
    );
    assert_eq!(
        (figures["schema"].as_str(), figures["url"].as_str()),
        (Some("lasthop-load/1"), Some(url.as_str()))
    );
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
    assert_eq!(
        (figures["engine"].as_str(), figures["connections"].as_u64()),
        (Some("epoll"), Some(3))
    );
    assert_eq!(
        (figures["proof"]["family"].as_str(), &figures["proof"]["reused"]),
        (Some("unix"), &true.into())
    );
    assert_eq!(figures["checked"], "all 512\u{a0}B of each message");
}

#[test]
fn the_terminal_says_what_was_proven_and_checked() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.home().join("s"), OK);
    let ran = lasthop
        .run(["load", &server.url, "-d", "50ms", "--warm-up", "1ms", "--headroom"])
        .ok();
    for text in [
        "requests/s",
        "no errors",
        "service time",
        "Unix socket to",
        "connections are reused",
        "status 200 and a body of 3 B, byte for byte",
        "system calls per request",
        "times: against a server that does nothing, this load reached",
        "p75",
        "p95",
        "std dev",
    ] {
        assert!(ran.stdout.contains(text), "`{text}` is not in:\n{}", ran.stdout);
    }
    drop(server);
}

#[test]
fn a_rate_that_is_reached_is_shown_and_one_that_is_not_is_a_failure() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.home().join("s"), OK);
    let open = |rate: &str| {
        let options = words("-d 200ms --warm-up 1ms --arrivals poisson --format json --rate");
        lasthop.run([&["load", &server.url], &options[..], &[rate]].concat())
    };
    let figures = open("20").ok().json();
    assert_eq!(figures["offered"]["reached"], true);
    assert!(
        figures["lag_ns"]["p99"].is_u64() && figures["response_ns"]["p99"].is_u64(),
        "{figures}"
    );
    let ran = open("90000000");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["offered"]["reached"], false);
}

#[test]
fn a_wrong_answer_is_an_error_and_a_server_that_is_not_there_too() {
    let lasthop = Lasthop::new();
    let server = Http::start(
        &lasthop.home().join("s"),
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    );
    lasthop.run(["load", &server.url]).fails(1, "500");
    let right = Http::start(&lasthop.home().join("r"), OK);
    lasthop
        .run(["load", &right.url, "--expect", "other", "-d", "50ms"])
        .fails(1, "body");
}

/// Waits until the generator's thread has worked for 5 ms: connections stand and the warm-up is over.
fn wait_for_load(pid: i32) {
    let worked = |task: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let cpu_ns = read("schedstat")
            .split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok())
            .unwrap_or(0_u64);
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
    let socket = lasthop.home().join("s");
    let _server = Echo::start(&socket);
    let url = format!("echo+unix:{}", socket.display());
    for options in [["-c", "1"], ["-c", "3"], ["--rate", "500"]] {
        let command = ["load", &url, "-d", "1h", "--warm-up", "1ms", "--format", "json"]
            .into_iter()
            .chain(options);
        let child = lasthop
            .command(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        wait_for_load(pid);
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{options:?}: {output:?}");
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&figures["cut_short"], &figures["errors"]),
            (&true.into(), &serde_json::json!({})),
            "{figures}"
        );
        let seconds = figures["seconds"].as_f64().unwrap();
        assert!(
            figures["requests"].as_u64().unwrap() > 0 && seconds < 3000.0,
            "{figures}"
        );
    }
}

/// A server on a Unix socket; its threads end with the test.
fn serve(socket: &Path, converse: impl Fn(UnixStream) + Clone + Send + 'static) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let converse = converse.clone();
            thread::spawn(move || converse(peer.unwrap()));
        }
    });
}

/// Answers so many requests over all connections, then says that it is silent from now on.
fn answering(most: u32, silent: Sender<()>) -> impl Fn(UnixStream) + Clone + Send {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    move |mut peer| {
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            text.extend_from_slice(&buffer[..read]);
            if text.ends_with(b"\r\n\r\n") {
                text.clear();
                match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < most {
                    true => peer.write_all(OK.as_bytes()).unwrap(),
                    false => drop(silent.send(())),
                }
            }
        }
    }
}

/// Ends it where a minute was not enough.
fn output_within_a_minute(mut child: Child) -> Output {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("lasthop still waited after a minute");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn spawn_load(lasthop: &Lasthop, arguments: &[&str]) -> Child {
    let command = ["load"].iter().chain(arguments);
    lasthop
        .command(command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn ctrl_c_ends_the_wait_for_a_server_that_says_nothing() {
    let lasthop = Lasthop::new();
    let socket = |name: &str| lasthop.home().join(name);
    let (tell, silent) = channel();
    let notices = tell.clone();
    serve(&socket(".s.PGSQL.1"), move |mut peer| {
        let _ = notices.send(());
        while peer.write_all(b"N\0\0\0\x0cMhello\0\0").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let http = |name: &str, most: u32| {
        serve(&socket(name), answering(most, tell.clone()));
        format!("http+unix:{}:/", socket(name).display())
    };
    let postgres = format!("postgres:///d?host={}&port=1&user=u", lasthop.home().display());
    // Nothing at all; the two first replies; those and the two that are verified.
    for (url, connections, begun) in [
        (postgres, "1", false),
        (http("a", 0), "1", false),
        (http("b", 2), "1", false),
        (http("c", 4), "1", true),
        (http("d", 4), "3", true),
    ] {
        let options = words("-d 1h --timeout 1h --warm-up 1ms --no-reference --format json -c");
        let json = spawn_load(&lasthop, &[&options[..], &[connections, &url]].concat());
        silent.recv_timeout(Duration::from_secs(60)).unwrap();
        common::signal(&json, libc::SIGINT);
        let output = output_within_a_minute(json);
        assert_eq!(output.status.code(), Some(130), "{url}: {output:?}");
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = (&figures["cut_short"], &figures["errors"], &figures["requests"]);
        assert_eq!(found, (&true.into(), &serde_json::json!({}), &0.into()), "{figures}");
        assert_eq!(figures["failure"].is_null(), begun, "{figures}");
        while silent.try_recv().is_ok() {}
    }
}

#[test]
fn ctrl_c_before_the_load_says_that_nothing_was_measured() {
    let lasthop = Lasthop::new();
    let (tell, silent) = channel();
    let socket = lasthop.home().join("s");
    serve(&socket, answering(0, tell));
    let child = spawn_load(
        &lasthop,
        &["--timeout", "1h", &format!("http+unix:{}:/", socket.display())],
    );
    silent.recv_timeout(Duration::from_secs(60)).unwrap();
    common::signal(&child, libc::SIGINT);
    let ran = common::Ran::from(output_within_a_minute(child));
    assert_eq!(ran.stdout, "");
    ran.fails(130, "interrupted before the load began; nothing was measured");
}

#[test]
fn a_greeting_without_end_and_interim_replies_without_end_are_refused() {
    let lasthop = Lasthop::new();
    let repeat = |name: &str, bytes: &'static [u8]| {
        serve(
            &lasthop.home().join(name),
            move |mut peer| while peer.write_all(bytes).is_ok() {},
        );
    };
    repeat(".s.PGSQL.1", b"N\0\0\0\x0cMhello\0\0");
    repeat("s", b"HTTP/1.1 100 Continue\r\n\r\n");
    let postgres = format!("postgres:///d?host={}&port=1&user=u", lasthop.home().display());
    lasthop
        .run(["load", "--timeout", "300ms", &postgres])
        .fails(1, "authentication: timed out");
    let http = format!("http+unix:{}:/", lasthop.home().join("s").display());
    lasthop
        .run(["load", &http])
        .fails(1, "does not end within 64 KiB, interim replies (1xx) included");
}

#[test]
fn json_says_why_nothing_was_right() {
    let lasthop = Lasthop::new();
    let figures = |url: &str| {
        let ran = lasthop.run(["load", url, "-d", "50ms", "--format", "json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.json()
    };
    let server = Http::start(
        &lasthop.home().join("s"),
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    );
    let wrong = figures(&server.url);
    assert_eq!(
        (&wrong["errors"], &wrong["requests"]),
        (&serde_json::json!({"wrong-status": 1}), &0.into()),
        "{wrong}"
    );
    assert_eq!(wrong["failure"]["stage"], "verify");
    let nobody = figures("http+unix:/nonexistent/socket:/");
    assert_eq!(nobody["errors"], serde_json::json!({"refused": 1}));
    shows(nobody["first_errors"]["refused"].as_str().unwrap(), ["No such file"]);
    assert!(nobody["proof"].is_null());
}

/// Lets in whoever sends the secret.
fn authorised(mut peer: UnixStream) {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = peer.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
        if text.ends_with(b"\r\n\r\n") {
            let request = String::from_utf8(std::mem::take(&mut text)).unwrap();
            let known =
                request.contains("\r\nAuthorization: Bearer s3cret\r\n") && request.contains("\r\nX-Two: 2\r\n");
            let refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
            peer.write_all(if known { OK } else { refused }.as_bytes()).unwrap();
        }
    }
}

#[test]
fn headers_come_from_a_file_where_nobody_else_sees_them() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    serve(&socket, authorised);
    let (url, file) = (
        format!("http+unix:{}:/", socket.display()),
        lasthop.home().join("headers"),
    );
    let load = ["load", &url, "-d", "20ms", "--warm-up", "1ms"];
    lasthop.run(load).fails(1, "401");
    fs::write(&file, "Authorization: Bearer s3cret\n\nX-Two: 2\n").unwrap();
    lasthop
        .run(load.iter().chain(&["-H", &format!("@{}", file.display())]))
        .ok();
    let input = fs::File::open(&file).unwrap();
    let piped = lasthop
        .command(load.iter().chain(&["-H", "@-"]))
        .stdin(input)
        .output()
        .unwrap();
    common::Ran::from(piped).ok();
}

/// Every server of HTTP/1.0 does this.
#[test]
fn a_server_without_tls_brings_no_advice_on_certificates() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            // PostgreSQL's word for a server without TLS.
            let _ = peer.read_exact(&mut [0; 8]).and_then(|()| peer.write_all(b"N"));
        }
    });
    let url = format!("postgres://me@127.0.0.1:{port}/db?sslmode=require");
    let ran = Lasthop::new()
        .run(["load", &url])
        .fails(1, "the server does not offer TLS on this socket");
    shows(&ran.stderr, ["turn TLS on in the server"]);
    lacks(&ran.stderr, ["--authority"]);
}

/// Replies that are too long to be compared can be loaded without that.
#[test]
fn a_long_reply_needs_no_reference() {
    const LENGTH: usize = 65 << 20;
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    serve(&socket, |mut peer| {
        let head = format!("HTTP/1.1 200 Fine\r\nContent-Length: {LENGTH}\r\n\r\n");
        let mut buffer = [0; 4096];
        while let Ok(1..) = peer.read(&mut buffer) {
            if peer
                .write_all(head.as_bytes())
                .and_then(|()| peer.write_all(&vec![b'x'; LENGTH]))
                .is_err()
            {
                return;
            }
        }
    });
    let url = format!("http+unix:{}:/", socket.display());
    let load = ["load", &url, "-n", "2"];
    lasthop.run(load).fails(1, "`--no-reference` loads it all the same");
    let figures = lasthop
        .run(load.iter().chain(&["--no-reference", "--format", "json"]))
        .ok()
        .json();
    assert_eq!(figures["requests"], 2, "{figures}");
}

/// Where the limit cannot be raised, that is said.
#[test]
fn a_stack_limit_that_is_too_low_is_raised_or_told() {
    let lasthop = Lasthop::new();
    let program = lasthop.command(["list"]).get_program().to_owned();
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -s 128 && exec \"$@\"", "sh"])
        .arg(program)
        .arg("list");
    limited.env("LASTHOP_HOME", lasthop.home());
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(rustix::process::geteuid().is_root(), "{said}"),
        Some(1) => assert!(said.contains("set it with `ulimit -s 1024`"), "{said}"),
        _ => panic!("{:?}: {said}", output.status),
    }
}

#[test]
fn a_server_that_closes_connections_is_not_said_to_keep_them() {
    let lasthop = Lasthop::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let server = thread::spawn(move || {
        for stream in listener.incoming().take_while(|_| !stopped.load(Ordering::Relaxed)) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let load = format!("load http://{address}/ -d 100ms --warm-up 10ms");
    let ran = lasthop.run(words(&load)).ok();
    stop.store(true, Ordering::Relaxed);
    TcpStream::connect(address).unwrap();
    server.join().unwrap();
    shows(
        &ran.stdout,
        ["1 connection, closed by the server after each reply, 1 thread"],
    );
    shows(&ran.stdout, ["each request has its own connection"]);
}

#[test]
fn a_body_comes_from_a_file() {
    let lasthop = Lasthop::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let mut received = [0; 1024];
        let length = listener.accept().unwrap().0.read(&mut received).unwrap();
        received[..length].to_vec()
    });
    let file = lasthop.home().join("body");
    fs::write(&file, b"\x89PNG\r\n\xff\0\xfe\n").unwrap();
    let load = format!("load http://{address}/ -X POST --body @{}", file.display());
    lasthop.run(words(&load));
    let request = server.join().unwrap();
    let shown = request.escape_ascii();
    assert!(
        request.ends_with(b"Content-Length: 10\r\n\r\n\x89PNG\r\n\xff\0\xfe\n"),
        "{shown}"
    );
}

/// The path as a whole has more bytes than the kernel takes.
#[test]
fn a_path_may_begin_at_the_current_folder_or_the_home() {
    let lasthop = Lasthop::new();
    let (silent, _heard) = channel();
    let folder = lasthop.home().join("d".repeat(107));
    fs::create_dir(&folder).unwrap();
    let short = lasthop.home().join("s");
    let served = answering(u32::MAX, silent);
    serve(&short, served);
    // Bound by a short path, and there by a long one.
    fs::hard_link(&short, folder.join("app.sock")).unwrap();
    let load = |url: &str, folder: &Path| {
        let mut command = lasthop.command(["load", url, "-n", "5", "--format", "json"]);
        let output = command.env("HOME", lasthop.home()).current_dir(folder).output();
        Ran::from(output.unwrap())
    };
    for (url, folder) in [
        ("http+unix:./app.sock:/", folder.as_path()),
        ("http://unix:./app.sock:/", &folder),
        ("http+unix:../s:/", &folder),
        ("unix:~/s", &folder),
        ("HTTP+UNIX:./s", lasthop.home()),
    ] {
        let figures = load(url, folder).ok().json();
        assert_eq!(
            (&figures["requests"], &figures["url"]),
            (&5.into(), &url.into()),
            "{figures}"
        );
    }
    let compare = ["compare", "http+unix:./app.sock:/", "http+unix:../s:/"];
    let ran = Ran::from(lasthop.command(compare).current_dir(&folder).output().unwrap());
    ran.fails(2, "the whole path of ./app.sock has more than the 107 bytes");
    let whole = format!("http+unix:{}:/", folder.join("app.sock").display());
    let figures = load(&whole, &folder).json();
    let why = figures["failure"]["cause"].as_str().unwrap_or_default();
    assert!(why.contains("more than the 107 that the kernel allows"), "{figures}");
}

#[test]
fn a_name_that_haproxy_pads_is_found() {
    let lasthop = Lasthop::new();
    let name = format!("lasthop-{}", lasthop.home().file_name().unwrap().display());
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    let padded = format!("\0{name:\0<107}");
    listener.bind(&socket2::SockAddr::unix(padded).unwrap()).unwrap();
    listener.listen(8).unwrap();
    let listener = std::os::unix::net::UnixListener::from(std::os::fd::OwnedFd::from(listener));
    let (silent, _heard) = channel();
    let converse = answering(u32::MAX, silent);
    thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            let converse = converse.clone();
            thread::spawn(move || converse(peer));
        }
    });
    let url = format!("http+unix:abns@{name}:/");
    let figures = lasthop.run(["load", &url, "-n", "5", "--format", "json"]).ok().json();
    assert_eq!(figures["proof"]["peer"], format!("abns@{name}"), "{figures}");
    let ran = lasthop.run(["load", &format!("http+unix:@{name}:/"), "-n", "5"]).ok();
    shows(&ran.stderr, [&format!("`@{name}` is `abns@{name}` here")]);
}

/// Where `localhost` is two addresses, as on many systems, a server may listen at one of them.
#[test]
fn a_host_with_two_addresses_is_loaded_where_it_listens() {
    if !rustix::process::geteuid().is_root() || TcpListener::bind("[::1]:0").is_err() {
        skip("only root can mount a file over /etc/hosts, and its other address is that of IPv6");
        return;
    }
    let lasthop = Lasthop::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            thread::spawn(move || {
                while matches!(peer.read(&mut [0; 1024]), Ok(1..)) {
                    let _ = peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
                }
            });
        }
    });
    let hosts = lasthop.home().join("hosts");
    fs::write(&hosts, "::1 localhost\n127.0.0.1 localhost\n").unwrap();
    let own = lasthop.command(["load"]).get_program().to_owned();
    let load = |port: u16| {
        let url = format!("http://localhost:{port}/");
        let mut command = std::process::Command::new("unshare");
        command
            .args(["-m", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""])
            .arg(&hosts)
            .arg(&own)
            .args(["load", &url, "-n", "5", "--format", "json"])
            .env("LASTHOP_HOME", lasthop.home());
        Ran::from(command.output().unwrap())
    };
    let ran = load(port);
    if ran.stderr.contains("unshare failed") {
        skip("no mount namespace may be made");
        return;
    }
    let ran = ran.ok();
    assert_eq!(ran.json()["proof"]["peer"], format!("127.0.0.1:{port}"));
    let said = format!("`localhost` is 127.0.0.1:{port} here: no connection to [::1]:{port} (Connection refused");
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let both = format!("`localhost` accepts no connection at any of its addresses: [::1]:{free} (");
    let ran = load(free);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(&both), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("127.0.0.1:{free} (")), "{}", ran.stderr);
}

/// As a stream of events.
#[test]
fn a_reply_without_an_end_is_named_in_words_of_its_protocol() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    serve(&socket, |mut peer| {
        while matches!(peer.read(&mut [0; 1024]), Ok(1..)) {
            let _ = peer.write_all(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n");
        }
    });
    let url = format!("http+unix:{}:/", socket.display());
    let ran = lasthop.run(["load", &url, "--timeout", "200ms"]).fails(
        1,
        "the end of the reply, which has no length and ends with the connection: timed out",
    );
    shows(&ran.stderr, ["a stream of events has no end"]);
    lacks(&ran.stderr, ["--until"]);
}

/// Answers right away and counts, but keeps the reply to one request back until it has heard nothing for a second.
fn counting(asked: &Arc<AtomicU64>, kept_back: u64) -> impl Fn(UnixStream) + Clone + Send + 'static {
    let asked = Arc::clone(asked);
    move |mut peer| {
        let mut buffer = [0; 4096];
        while let Ok(1..) = peer.read(&mut buffer) {
            if asked.fetch_add(1, Ordering::SeqCst) + 1 == kept_back {
                let mut heard = 0;
                while heard != asked.load(Ordering::SeqCst) {
                    heard = asked.load(Ordering::SeqCst);
                    thread::sleep(Duration::from_secs(1));
                }
            }
            let _ = peer.write_all(OK.as_bytes());
        }
    }
}

#[test]
fn a_number_of_requests_is_sent_and_no_more() {
    let lasthop = Lasthop::new();
    let asked = Arc::new(AtomicU64::new(0));
    let socket = lasthop.home().join("s");
    serve(&socket, counting(&asked, u64::MAX));
    let url = format!("http+unix:{}:/", socket.display());
    for options in [
        &["-n", "1"][..],
        &["-n", "100"],
        &["-n", "3", "-c", "8"],
        &["-n", "101", "-c", "8", "-t", "2"],
        &["-n", "50", "-c", "3", "-t", "3"],
        &["-n", "50", "--reuse", "per-request"],
        &["-n", "50", "-c", "4", "--reuse", "per-request"],
        &["-n", "40", "--rate", "2000", "-c", "2"],
        &[
            "-n",
            "40",
            "-c",
            "3",
            "--reuse",
            "per-request",
            "--requests-per-connection",
            "4",
        ],
    ] {
        asked.store(0, Ordering::SeqCst);
        let begin = ["load", &url, "-d", "1h", "--no-reference", "--format", "json"];
        let figures = lasthop.run(begin.iter().chain(options)).ok().json();
        let count = options[1].parse::<u64>().unwrap();
        assert_eq!(figures["requests"], count, "{options:?}: {figures}");
        assert_eq!(figures["requests_total"], count, "{options:?}: {figures}");
        assert!(
            figures["latency_ns"]["count"].as_u64().unwrap() >= count / 4,
            "{options:?}: {figures}"
        );
        // Four requests of each come before: the first two, and two that verify.
        let before = if options.contains(&"4") && options.contains(&"--requests-per-connection") {
            2 + 2 * 4
        } else {
            4
        };
        assert_eq!(asked.load(Ordering::SeqCst), count + before, "{options:?}");
    }
    let ran = lasthop.run(["load", &url, "-n", "1000000000", "-d", "50ms"]).ok();
    shows(
        &ran.stdout,
        [" of 1,000,000,000 requests were sent in the time of --duration"],
    );
}

#[test]
fn a_request_that_is_open_at_the_end_is_said() {
    let lasthop = Lasthop::new();
    let load = |name: &str, kept_back: u64, format: &str| {
        let socket = lasthop.home().join(name);
        serve(&socket, counting(&Arc::default(), kept_back));
        let url = format!("http+unix:{}:/", socket.display());
        let load = format!("load {url} -c 4 -d 300ms --no-reference --format {format}");
        lasthop.run(words(&load)).ok()
    };
    let figures = load("json", 10, "json").json();
    let open = &figures["open_at_end"];
    assert!(open["count"].as_u64().unwrap() >= 1, "{figures}");
    assert!(open["longest_ns"].as_u64().unwrap() > 300_000_000, "{figures}");
    let ran = load("terminal", 10, "terminal");
    assert!(ran.stdout.contains("no reply yet, the oldest for "), "{}", ran.stdout);
    assert!(ran.stdout.contains("which no figure below includes"), "{}", ran.stdout);
}

#[test]
fn a_redirect_says_where_it_leads() {
    let lasthop = Lasthop::new();
    let reply = "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n";
    let server = Http::start(&lasthop.home().join("s"), reply);
    let ran = lasthop.run(["load", &server.url]);
    ran.fails(1, "status 302, a redirect to \"/login\", expected 200")
        .fails(1, "load the URL that it leads to, or expect the redirect itself");
    let ran = lasthop
        .run(["load", &server.url, "--expect-status", "302", "-n", "10"])
        .ok();
    shows(&ran.stdout, ["status 302 (a redirect, not followed)"]);
}

/// Whether some client of the port has sent a SYN that was not answered.
fn is_awaited(port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let awaiting = format!(":{port:04X} 02 ");
    sockets.lines().any(|line| line.contains(&awaiting))
}

/// Its accept queue is full when the last connection is opened, so that the kernel drops the SYN.
#[test]
fn a_connect_that_took_a_second_is_said() {
    let lasthop = Lasthop::new();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into())
        .unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut waiting = None;
        // The first is asked first, and the second verifies.
        for (index, peer) in listener.incoming().enumerate() {
            let mut peer = peer.unwrap();
            if index == 1 {
                waiting = Some(TcpStream::connect(address).unwrap());
            }
            let answer = move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = peer.read(&mut buffer) {
                    let _ = peer.write_all(OK.as_bytes());
                }
            };
            thread::spawn(answer);
            while index == 1 && !is_awaited(address.port()) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        drop(waiting);
    });
    let ran = lasthop
        .run(["load", &format!("http://{address}/"), "-n", "10", "--no-reference"])
        .ok();
    shows(&ran.stdout, ["1 connect took 1 s or longer, the longest 1."]);
    shows(&ran.stdout, ["the kernel repeats a SYN only after 1 s"]);
}

#[test]
fn a_weaker_check_is_said() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    let count = Arc::new(AtomicU64::new(0));
    serve(&socket, move |mut peer| {
        let mut buffer = [0; 4096];
        while let Ok(1..) = peer.read(&mut buffer) {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{number:08}");
            let _ = peer.write_all(reply.as_bytes());
        }
    });
    let ran = lasthop
        .run(["load", &format!("http+unix:{}:/", socket.display()), "-n", "10"])
        .ok();
    let text = "not checked of the body: bytes 0 to 7 (\"00000000\"), which changed within the first 32 replies";
    assert!(ran.stdout.contains(text), "{}", ran.stdout);
}

/// Answers HTTP over a Unix socket; what it says depends on how many requests came before, over all connections.
fn by_number(lasthop: &Lasthop, name: &str, reply: fn(u64) -> String) -> String {
    let socket = lasthop.home().join(name);
    let count = Arc::new(AtomicU64::new(0));
    serve(&socket, move |mut peer| {
        while let Ok(1..) = peer.read(&mut [0; 4096]) {
            let _ = peer.write_all(reply(count.fetch_add(1, Ordering::SeqCst)).as_bytes());
        }
    });
    format!("http+unix:{}:/", socket.display())
}

fn page(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn replies_that_change_have_figures_and_other_pages_are_errors() {
    let lasthop = Lasthop::new();
    // A counter that gets longer, and every tenth reply is another page.
    let url = by_number(&lasthop, "s", |number| match number % 10 {
        7 => page("200 OK", "<h1>Sorry</h1>"),
        _ => page("200 OK", &format!(r#"{{"visits":{number},"up":true}}"#)),
    });
    let ran = lasthop.run(["load", &url, "-n", "200"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    for said in [
        "180 correct replies",
        "20 × wrong-content; the first: the body has 14 bytes, expected",
        "not checked of the body: byte 10 (\"0\"), which changed within the first 32 replies",
        "--no-reference",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    let ran = lasthop.run(["load", &url, "-n", "200", "--no-reference"]).ok();
    assert!(ran.stdout.contains("200 correct replies"), "{}", ran.stdout);
}

#[test]
fn errors_of_the_server_are_counted_by_status() {
    let lasthop = Lasthop::new();
    let by_turns = |number: u64| match number {
        0..8 => page("200 OK", ""),
        _ => page(["200 OK", "502 Bad", "504 Slow", "429 Many"][number as usize % 4], ""),
    };
    let [one, other] = ["s", "t"].map(|name| by_number(&lasthop, name, by_turns));
    let ran = lasthop.run(["load", &one, "-n", "40"]);
    for said in [
        "30 × wrong-status",
        "10 × status 429",
        "10 × status 502",
        "10 × status 504",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    let figures = lasthop.run(["load", &other, "-n", "40", "--format", "json"]).json();
    let errors = list(&figures["server_errors"]);
    let counts: BTreeMap<_, _> = errors
        .iter()
        .map(|error| (error["status"].as_u64(), error["count"].as_u64()))
        .collect();
    let wanted = [429, 502, 504].map(|status| (Some(status), Some(10)));
    assert_eq!(counts, BTreeMap::from(wanted), "{figures}");
}

#[test]
fn advice_names_only_options_that_help() {
    let lasthop = Lasthop::new();
    // As nginx with `return 444`.
    let url = by_number(&lasthop, "closes", |_| String::new());
    serve(&lasthop.home().join("s"), drop);
    let silent = format!("http+unix:{}:/", lasthop.home().join("s").display());
    let ran = lasthop.run(["load", &silent, "-n", "5"]);
    shows(&ran.stderr, ["-H 'Host: NAME'"]);
    lacks(&ran.stderr, ["--reuse"]);
    let ran = lasthop.run(["load", &url, "-n", "5", "--timeout", "200ms"]);
    shows(&ran.stderr, ["raise `--timeout`"]);
    lacks(&ran.stderr, ["--until"]);
    let url = by_number(&lasthop, "endless", |_| {
        "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n".to_owned()
    });
    let ran = lasthop.run(["load", &url, "-n", "5", "--timeout", "200ms"]);
    shows(&ran.stderr, ["has no length"]);
    lacks(&ran.stderr, ["--until"]);
}

#[test]
fn a_row_for_spreadsheets_has_every_figure() {
    let lasthop = Lasthop::new();
    let server = Http::start(&lasthop.home().join("s"), OK);
    let row = |arguments: &[&str]| {
        let ran = lasthop.run(["load", "--format", "csv"].iter().chain(arguments));
        let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
        let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1, "{}", ran.stdout);
        rows[0].clone()
    };
    let load = row(&[&server.url, "-n", "100"]);
    let number = |column: &str| load[column].parse::<f64>().unwrap();
    assert_eq!((load["url"].as_str(), number("requests")), (server.url.as_str(), 100.0));
    let rising = ["p50", "p75", "p90", "p95", "p99", "p999", "max"].map(|name| number(&format!("latency_{name}_us")));
    assert!(rising.is_sorted() && rising[0] > 0.0, "{rising:?}");
    assert!(
        number("latency_sd_us") < rising[6] && number("latency_mean_us") < rising[6],
        "{load:?}"
    );
    assert_eq!(load["response_p50_us"], "");
    let failed = row(&["http+unix:/nonexistent/socket:/"]);
    assert!(failed["failure"].contains("No such file"), "{failed:?}");
    assert!(failed.keys().eq(load.keys()));
}

/// Answers with the path and the body of a request, with 201 to a POST.
fn mirror(mut peer: UnixStream) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = peer.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
        let request = String::from_utf8(std::mem::take(&mut text)).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let status = if head.starts_with("POST ") { 201 } else { 200 };
        let has = ["X-All: 1", "X-Own: 2"].map(|header| u32::from(head.contains(header)));
        let answer = format!("{path} {body} {has:?}");
        let length = answer.len();
        let reply = format!("HTTP/1.1 {status} Fine\r\nContent-Length: {length}\r\n\r\n{answer}");
        peer.write_all(reply.as_bytes()).unwrap();
    }
}

#[test]
fn several_requests_come_from_a_file_and_each_is_checked_by_itself() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    serve(&socket, move |peer| {
        let own = Arc::clone(&told);
        let (mut to_mirror, mirrored) = UnixStream::pair().unwrap();
        thread::spawn(move || mirror(mirrored));
        let (mut peer, mut buffer) = (peer, [0; 4096]);
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            let line = String::from_utf8_lossy(&buffer[..read])
                .lines()
                .next()
                .unwrap()
                .to_owned();
            own.lock().unwrap().push(line);
            to_mirror.write_all(&buffer[..read]).unwrap();
            let answered = to_mirror.read(&mut buffer).unwrap();
            let _ = peer.write_all(&buffer[..answered]);
        }
    });
    let file = lasthop.home().join("some.http");
    fs::write(lasthop.home().join("ada.json"), "{\"name\": \"Ada\"}\n").unwrap();
    let text = "# @weight 2\nGET /a\nX-Own: 2\n###\n# @status 201\nPOST /b?x=1\n\n< ada.json\n###\n/c\n";
    fs::write(&file, text).unwrap();
    let url = format!("http+unix:{}:/", socket.display());
    let load = ["load", &url, "-H", "X-All: 1", "--requests", file.to_str().unwrap()];
    for (options, order) in [
        (&["-n", "40"][..], true),
        (&["-n", "400", "-c", "3", "--order", "random", "--seed", "7"], false),
        (&["-n", "40", "-c", "2", "--reuse", "per-request"], true),
        (&["-n", "40", "-c", "2", "--rate", "2000"], true),
    ] {
        heard.lock().unwrap().clear();
        let figures = lasthop
            .run(load.iter().chain(options).chain(&["--format", "json"]))
            .ok()
            .json();
        let count = options[1].parse::<u64>().unwrap();
        assert_eq!(
            (figures["requests"].as_u64(), &figures["unchecked"]),
            (Some(count), &serde_json::Value::Null),
            "{figures}"
        );
        assert!(
            figures["checked"]
                .as_str()
                .unwrap()
                .starts_with("3 requests, each by itself: status 200 and a body of"),
            "{figures}"
        );
        // Some teach before, and two verify.
        let heard = heard.lock().unwrap();
        let heard = heard[heard.len() - count as usize..].to_vec();
        let number = |path: &str| heard.iter().filter(|line| line.split(' ').nth(1) == Some(path)).count() as u64;
        let sent = [number("/a"), number("/b?x=1"), number("/c")];
        assert_eq!(sent.iter().sum::<u64>(), count);
        if order {
            assert_eq!(sent, [count / 2, count / 4, count / 4]);
        } else {
            assert!(
                sent[0] > sent[1] && sent[0] > sent[2] && sent[1] > count / 8 && sent[2] > count / 8,
                "{sent:?}"
            );
        }
    }
    let ran = lasthop.run(load.iter().chain(&["-n", "40", "--headroom"])).ok();
    shows(&ran.stdout, ["times: against a server that does nothing"]);
    // With the mark that Windows writes before a text.
    fs::write(&file, "\u{feff}/a\nPOST /b\n").unwrap();
    lasthop.run(load).fails(1, "POST /b: status 201, expected 200");
}

/// Where a colon is missing before what is asked of a server.
#[test]
fn a_path_through_a_socket_says_where_the_path_ends() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    serve(&socket, mirror);
    let url = format!("http+unix:{}/users", socket.display());
    let wanted = format!("comes behind a colon: `{}:/…`", socket.display());
    lasthop.run(["load", &url, "-n", "1"]).fails(2, &wanted);
}

#[test]
fn a_reply_to_another_request_is_wrong() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    serve(&socket, move |mut peer| {
        let (mut buffer, mut asked) = ([0; 4096], 0);
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            let is_first = buffer[..read].starts_with(b"GET /a");
            // Over no connection more than two requests teach or verify; then the replies are exchanged.
            let exchanged = asked >= 2;
            asked += 1;
            let body = if is_first == exchanged { "b" } else { "a" };
            let _ = peer.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{body}").as_bytes());
        }
    });
    let file = lasthop.home().join("paths");
    fs::write(&file, "/a\n/b\n").unwrap();
    let url = format!("http+unix:{}:/", socket.display());
    let load = format!("load {url} -n 20 --requests {} --format json", file.display());
    let ran = lasthop.run(words(&load));
    let figures = ran.json();
    assert_eq!(
        (ran.code, &figures["errors"]),
        (Some(1), &serde_json::json!({"wrong-content": 18})),
        "{figures}"
    );
    let first = figures["first_errors"]["wrong-content"].as_str().unwrap();
    assert!(first.starts_with("GET /a: the body differs"), "{first}");
}

/// What a server says with its error is shown, also in JSON.
#[test]
fn a_wrong_status_is_shown_with_the_words_of_the_server() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    let asked = Arc::new(AtomicU64::new(0));
    serve(&socket, move |mut peer| {
        let mut buffer = [0; 4096];
        while let Ok(1..) = peer.read(&mut buffer) {
            let is_right = asked.fetch_add(1, Ordering::Relaxed) < 10;
            let reply = if is_right {
                "HTTP/1.1 200 Fine\r\nContent-Length: 1\r\n\r\na"
            } else {
                "HTTP/1.1 400 No\r\nContent-Length: 10\r\n\r\n\"id\" is é"
            };
            let _ = peer.write_all(reply.as_bytes());
        }
    });
    let url = format!("http+unix:{}:/", socket.display());
    let load = ["load", &url, "-n", "20", "--no-reference", "--format", "json"];
    let figures = lasthop.run(load).json();
    let wanted = r#"status 400, expected 200: "\"id\" is \xc3\xa9""#;
    assert_eq!(figures["first_errors"]["wrong-status"], wanted, "{figures}");
    lasthop.run(["load", &url]).fails(1, wanted);
}

#[test]
fn a_line_a_second_says_how_it_goes() {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("s");
    let _server = Echo::start(&socket);
    let url = format!("echo+unix:{}", socket.display());
    let line = Regex::new(r"(?m)^[1-9] s: [\d.,]+ requests/s, p50 .*, p99 .*, max .*, 0 errors$").unwrap();
    for engine in ["blocking", "epoll"] {
        let load = ["load", &url, "--warm-up", "1ms", "--engine", engine];
        let ran = lasthop.run(load.iter().chain(&["-d", "3s"])).ok();
        assert!(line.find_iter(&ran.stderr).count() >= 1, "{engine}: {}", ran.stderr);
        let ran = lasthop.run(load.iter().chain(&["-d", "1500ms", "--quiet"])).ok();
        assert_eq!(ran.stderr, "");
    }
}
