//! lasthop and the tools that people use measure the same server at about the same time: they must roughly agree.
//! Timings never fail a test, so only what is absurd does; docs/performance.md has the figures.

use crate::{both_sides_count::python, common};

use std::{
    fmt::Display,
    fs,
    net::TcpListener,
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Lasthop, have, have_python, installed, needs, output, servers};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;

/// Factor between lasthop's figure and the other tool's that only a wrong unit or a wrong count explains. A client that
/// costs less than another reaches more than twice its rate where the client is the limit, which is no fault.
const ABSURD: f64 = 20.0;

/// A server that lasthop does not start.
pub struct Server(pub Child);

impl Server {
    pub fn start(command: &mut Command, ready: impl Fn() -> bool) -> Self {
        let mut server = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let begin = Instant::now();
        while !ready() {
            assert!(server.0.try_wait().unwrap().is_none(), "{command:?} ended at once");
            assert!(begin.elapsed() < Duration::from_secs(60), "{command:?} is not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Started by this test and not waited for yet: the number is its own.
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// Whether a program of PostgreSQL is there; without it a test may be skipped.
pub fn have_postgres(program: &str) -> bool {
    servers() && (Path::new(POSTGRES).join(program).exists() || installed(program))
}

/// PostgreSQL of another user where this one is root, whom it refuses.
pub struct Postgres {
    pub folder: TempDir,
    pub port: u16,
    server: Option<Server>,
}

impl Postgres {
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lhp").tempdir_in("/tmp").unwrap();
        let mut postgres = Self {
            folder,
            port: free_port(),
            server: None,
        };
        let data = postgres.folder.path().join("data");
        fs::create_dir(&data).unwrap();
        if geteuid().is_root() {
            for path in [postgres.folder.path(), &data] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        output(
            postgres
                .command("initdb")
                .args(["-U", "postgres", "-A", "trust", "-N", "-D"])
                .arg(&data),
        );
        let mut command = postgres.command("postgres");
        command
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-c", "fsync=off", "-p", &postgres.port.to_string()]);
        command.arg("-k").arg(postgres.folder.path());
        let (lasthop, url) = (Lasthop::new(), postgres.by_socket());
        let answers = || lasthop.run(["load", &url, "-d", "10ms", "--warm-up", "1ms"]).code == Some(0);
        postgres.server = Some(Server::start(&mut command, answers));
        postgres
    }

    pub fn by_socket(&self) -> String {
        format!(
            "postgres:///postgres?host={}&port={}&user=postgres",
            self.folder.path().display(),
            self.port
        )
    }

    /// One of its programs, as its user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(Path::new(POSTGRES).join(program));
        if geteuid().is_root() {
            command.uid(NOBODY);
        }
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its fast shutdown: if it is killed, it leaves shared memory behind.
        let Some(server) = &mut self.server else { return };
        let pid = Pid::from_raw(server.0.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        server.0.wait().unwrap();
    }
}

/// On a port, which may have options of `listen`.
pub fn nginx(folder: &Path, port: impl Display) -> Server {
    let http = format!(
        "keepalive_requests 1000000000; server {{ listen unix:{0}/s; listen 127.0.0.1:{port}; \
         location / {{ return 200 \"ok\\n\"; }} \
         location /logged/ {{ access_log {0}/access; return 200 \"$uri\\n\"; }} }}",
        folder.display()
    );
    let is_up = || UnixStream::connect(folder.join("s")).is_ok();
    nginx_with(folder, "master_process off;", &http, is_up)
}

/// With lines of the configuration for the whole and for its `http`.
pub fn nginx_with(folder: &Path, main: &str, http: &str, is_up: impl Fn() -> bool) -> Server {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};", folder.display()))
        .join(" ");
    let text = format!(
        "daemon off; {main} pid {}/pid; events {{}} http {{ access_log off; {temporary} {http} }}",
        folder.display()
    );
    let (log, conf) = (folder.join("log"), folder.join("conf"));
    fs::write(&conf, text).unwrap();
    let mut command = Command::new("/usr/sbin/nginx");
    Server::start(command.arg("-e").arg(log).arg("-c").arg(conf), is_up)
}

/// Redis with these options, which writes nothing to disk.
pub fn redis_with(folder: &Path, options: &str, is_up: impl Fn() -> bool) -> Server {
    let mut command = Command::new("redis-server");
    command
        .args(["--save", "", "--dir"])
        .arg(folder)
        .args(options.split(' '));
    Server::start(&mut command, is_up)
}

fn number_after(text: &str, mark: &str) -> f64 {
    let rest = text
        .split_once(mark)
        .unwrap_or_else(|| panic!("`{mark}` is not in:\n{text}"))
        .1
        .trim_start();
    rest[..rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len())]
        .parse()
        .unwrap()
}

fn number_before(text: &str, mark: &str) -> f64 {
    let head = text
        .split_once(mark)
        .unwrap_or_else(|| panic!("`{mark}` is not in:\n{text}"))
        .0;
    head[head
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| at + 1)..]
        .parse()
        .unwrap()
}

/// Runs both in turns; prints the ratio of throughputs, and fails where it is absurd.
#[expect(clippy::print_stderr, reason = "the ratio is the point")]
fn agree(name: &str, lasthop: &Lasthop, load: &[&str], peer: impl Fn(f64) -> f64) {
    let mut ratios: Vec<f64> = (0..3)
        .map(|_| {
            let arguments = ["load"].iter().chain(load).chain(&["-d", "1s", "--format", "json"]);
            let ours = lasthop.run(arguments).ok().json()["throughput"].as_f64().unwrap();
            ours / peer(ours)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    eprintln!("lasthop / {name}: {ratios:.2?}");
    assert!(
        (1.0 / ABSURD..ABSURD).contains(&ratios[1]),
        "lasthop / {name}: {ratios:?}"
    );
}

#[test]
fn wrk_and_h2load_agree_on_nginx() {
    needs!(have("nginx"), have("wrk"), have("h2load"));
    let lasthop = Lasthop::new();
    let folder = tempfile::Builder::new().prefix("lhn").tempdir_in("/tmp").unwrap();
    let port = free_port();
    let _server = nginx(folder.path(), port);
    let url = format!("http://127.0.0.1:{port}/");
    agree("wrk", &lasthop, &[&url, "-c", "10"], |_| {
        number_after(
            &output(Command::new("wrk").args(["-t1", "-c10", "-d1", &url])),
            "Requests/sec:",
        )
    });
    let socket = format!("unix:{}/s", folder.path().display());
    let ours = format!("http+unix:{}/s:/", folder.path().display());
    agree("h2load", &lasthop, &[&ours, "-c", "10"], |_| {
        let mut command = Command::new("h2load");
        command.args(["--h1", "-t1", "-c10", "-m1", "-D1", "-B", &socket, "http://localhost/"]);
        number_before(&output(&mut command), " req/s,")
    });
}

/// By the server's own log.
#[test]
fn nginx_receives_as_many_of_each_request_as_were_asked_for() {
    needs!(have("nginx"));
    let lasthop = Lasthop::new();
    let folder = tempfile::Builder::new().prefix("lhn").tempdir_in("/tmp").unwrap();
    let _server = nginx(folder.path(), free_port());
    let file = folder.path().join("some.http");
    fs::write(&file, "# @weight 3\n/logged/a?x=1\nHEAD /logged/b\n").unwrap();
    let url = format!("http+unix:{}/s:/", folder.path().display());
    let load = ["load", &url, "--requests", file.to_str().unwrap(), "--format", "json"];
    let ran = lasthop
        .run(
            load.iter()
                .chain(&["-n", "4000", "-c", "4", "-d", "1m", "--no-reference"]),
        )
        .ok();
    assert_eq!(ran.json()["requests"], 4000);
    // Before come two that show whether the connection is kept, and two that verify.
    let wanted = [3000 + 2 + 2, 1000];
    let numbers = || {
        let log = fs::read_to_string(folder.path().join("access")).unwrap();
        let number = |request: &str| log.lines().filter(|line| line.contains(request)).count();
        [number("\"GET /logged/a?x=1 "), number("\"HEAD /logged/b ")]
    };
    // A line is written once the reply is.
    let deadline = Instant::now() + Duration::from_secs(60);
    while numbers().iter().sum::<usize>() < wanted.iter().sum() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(numbers(), wanted);
}

#[test]
fn h2load_agrees_on_grpc() {
    needs!(have("h2load"), have_python("grpc"));
    let lasthop = Lasthop::new();
    let folder = tempfile::Builder::new().prefix("lhg").tempdir_in("/tmp").unwrap();
    let [socket, message] = ["s", "message"].map(|name| folder.path().join(name).display().to_string());
    let _server = python(&format!("unix:{socket}"), || UnixStream::connect(&socket).is_ok());
    // A field 1 of three bytes, and what precedes a message.
    fs::write(&message, b"\0\0\0\0\x05\x0a\x03abc").unwrap();
    let url = format!("grpc+unix:{socket}:/lasthop.Echo/Call");
    agree("h2load", &lasthop, &[&url, "--body", "abc", "-c", "4"], |_| {
        let mut command = Command::new("h2load");
        command.args([
            "-t1",
            "-c4",
            "-m1",
            "-D1",
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
        ]);
        command.args([
            "-d",
            &message,
            "-B",
            &format!("unix:{socket}"),
            "http://localhost/lasthop.Echo/Call",
        ]);
        number_before(&output(&mut command), " req/s,")
    });
}

#[test]
fn redis_benchmark_agrees_on_redis() {
    needs!(have("redis-server"), have("redis-benchmark"));
    let lasthop = Lasthop::new();
    let folder = tempfile::Builder::new().prefix("lhr").tempdir_in("/tmp").unwrap();
    let socket = folder.path().join("s");
    let options = format!("--port 0 --unixsocket {}", socket.display());
    let _server = redis_with(folder.path(), &options, || UnixStream::connect(&socket).is_ok());
    let url = format!("redis+unix:{}", socket.display());
    agree("redis-benchmark", &lasthop, &[&url, "--command", "GET key"], |rate| {
        let count = (rate.max(1000.0) as u64).to_string();
        let mut command = Command::new("redis-benchmark");
        command
            .arg("-s")
            .arg(&socket)
            .args(["-q", "-c", "1", "-n", &count, "GET", "key"]);
        let text = output(&mut command);
        let last = text
            .rsplit(['\r', '\n'])
            .find(|line| line.contains("requests per second"));
        number_before(last.unwrap(), " requests per second")
    });
}

#[test]
fn pgbench_agrees_on_postgresql() {
    needs!(have_postgres("pgbench"));
    let lasthop = Lasthop::new();
    let postgres = Postgres::start();
    let url = postgres.by_socket();
    fs::write(postgres.folder.path().join("q.sql"), "select 1;\n").unwrap();
    agree("pgbench", &lasthop, &[&url, "-c", "4"], |_| {
        let mut command = postgres.command("pgbench");
        let port = postgres.port.to_string();
        command.args([
            "-n", "-M", "simple", "-c4", "-j1", "-t1000", "-U", "postgres", "-p", &port, "-h",
        ]);
        number_after(
            &output(command.arg(postgres.folder.path()).args(["-f", "q.sql", "postgres"])),
            "tps =",
        )
    });
}
