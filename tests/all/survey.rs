//! `lasthop survey` beside real programs with known links.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    common::{Lasthop, Ran, have, have_python, list, needs, one_line, signal, skip, slow, words},
    compare::folder,
    driver_at::have_namespaces,
    load_peers::{Server, free_port, nginx, redis_with},
    page::{have_web, node},
};

/// Uncounted requests of `lasthop load`, from which it learns the expected reply.
const LEARNT: u32 = 2;

/// A survey that runs until the test asks for its links.
pub struct Watching {
    lasthop: Lasthop,
    child: Child,
}

impl Watching {
    /// Starts a survey of links with one of these texts in a name or in the address.
    pub fn start(only: &[&str]) -> Self {
        Self::start_in(Lasthop::new(), only)
    }

    fn start_in(lasthop: Lasthop, only: &[&str]) -> Self {
        let command = lasthop.command(survey(only));
        Self::begin(lasthop, command)
    }

    /// Starts a survey. From the return on, all new connections are counted.
    pub fn begin(lasthop: Lasthop, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "watching for 5m\n");
        Self { lasthop, child }
    }

    /// Ends the survey, and returns its links.
    #[track_caller]
    pub fn links(self) -> Vec<Link> {
        signal(&self.child, libc::SIGINT);
        let ran = Ran::from(self.child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(130), "{}", ran.stderr);
        drop(self.lasthop);
        links_of(&ran.json())
    }
}

/// Options of a survey in JSON that runs until interrupted.
pub fn survey<'a>(only: &[&'a str]) -> Vec<&'a str> {
    let options = ["survey", "--for", "5m", "--interval", "100ms", "--format", "json"];
    let only = only.iter().flat_map(|name| ["--only", name]);
    options.into_iter().chain(only).collect()
}

/// The links of a survey in JSON.
#[track_caller]
pub fn links_of(survey: &Value) -> Vec<Link> {
    assert_eq!(survey["schema"], "lasthop-survey/1");
    let seconds = survey["seconds"].as_f64().unwrap();
    let link = |link: &Value| Link {
        link: link.clone(),
        seconds,
    };
    list(&survey["links"]).iter().map(link).collect()
}

#[derive(Debug)]
pub struct Link {
    pub link: Value,
    seconds: f64,
}

impl Link {
    pub fn name(&self) -> String {
        let name = |end: &str| self.link[end]["name"].as_str().unwrap_or("?").to_owned();
        format!("{} → {}", name("client"), name("server"))
    }

    pub fn shape(&self) -> &str {
        self.link["load"]["shape"].as_str().unwrap_or("none")
    }

    /// Number of requests during the survey.
    pub fn requests(&self) -> f64 {
        self.link["load"]["requests_per_second"].as_f64().unwrap_or(f64::NAN) * self.seconds
    }

    /// Checks the number of requests, which may be wrong by this share.
    #[track_caller]
    pub fn requested(&self, number: u32, share: f64) {
        let off = self.requests() / f64::from(number) - 1.0;
        assert!(
            off.abs() <= share,
            "{number} were sent, {} seen: {self:#?}",
            self.requests()
        );
    }
}

#[track_caller]
pub fn the_only(links: &[Link]) -> &Link {
    assert_eq!(links.len(), 1, "{links:#?}");
    &links[0]
}

/// Checks that there is a link of these two over this transport.
#[track_caller]
pub fn has(links: &[Link], name: &str, transport: &str) {
    let found = |link: &Link| link.name() == name && link.link["transport"] == transport;
    assert!(links.iter().any(found), "no {name} over {transport}: {links:#?}");
}

/// Runs an experiment with trials long enough for several looks.
fn run(experiment: &str, choices: &[&str]) {
    let fixed = [
        "run", experiment, "--rounds", "1", "--blocks", "2", "--trial", "1s", "--budget", "2m", "--quiet",
    ];
    Lasthop::new().run([&fixed, choices].concat()).ok();
}

pub struct Redis {
    pub port: u16,
    _folder: TempDir,
    _server: Server,
}

impl Redis {
    pub fn start() -> Self {
        let (port, folder) = (free_port(), folder());
        let options = format!("--bind 127.0.0.1 ::1 --port {port}");
        let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let server = redis_with(folder.path(), &options, is_up);
        Self {
            port,
            _folder: folder,
            _server: server,
        }
    }

    /// The text that the server's addresses contain.
    pub fn colon(&self) -> String {
        format!(":{}", self.port)
    }

    /// Sends so many requests.
    fn load(&self, host: &str, requests: u32, options: &[&str]) {
        let url = format!("redis://{host}:{}", self.port);
        // Without a reference, because learning the reply would change the number of requests.
        let fixed = format!("load {url} -n {requests} -d 2m --quiet --no-reference");
        Lasthop::new().run([&words(&fixed), options].concat()).ok();
    }
}

#[test]
fn requests_over_kept_connections_are_counted() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    // Two seconds each, so that a look falls into them.
    for (host, transport, requests, rate) in [("127.0.0.1", "tcp", 40_000, "20000"), ("[::1]", "tcp6", 6_000, "3000")] {
        let watching = Watching::start(&[&redis.colon()]);
        redis.load(host, requests, &["--command", "PING", "-c", "2", "--rate", rate]);
        let links = watching.links();
        has(&links, "lasthop → redis-server", transport);
        let link = the_only(&links);
        assert_eq!(link.shape(), "keep-alive");
        link.requested(requests + LEARNT, 0.05);
    }
}

/// Ten per second, over an existing connection.
#[test]
fn requests_that_are_few_are_counted() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    let mut client = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    let watching = Watching::start(&[&redis.colon()]);
    for _ in 0..20 {
        client.write_all(b"PING\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    let links = watching.links();
    let link = the_only(&links);
    assert_eq!((link.shape(), &link.link["connections"]), ("keep-alive", &1.into()));
    link.requested(20, 0.01);
}

/// The survey multiplies the saving that a run on this machine found.
#[test]
fn a_saving_is_that_of_the_last_run_here() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    let lasthop = Lasthop::new();
    lasthop.brief("redis", &["--set", "pipeline=1", "--set", "transport=unix,tcp"]);
    let watching = Watching::start_in(lasthop, &[&redis.colon()]);
    redis.load(
        "127.0.0.1",
        20_000,
        &["--command", "PING", "-c", "1", "--rate", "10000"],
    );
    let links = watching.links();
    let link = the_only(&links);
    let outlook = &link.link["outlook"];
    assert_eq!(
        (&outlook["experiment"], &outlook["saving"]["here"]),
        (&"redis".into(), &true.into()),
        "{link:?}"
    );
    let ends = |figure: &str| ["low", "estimate", "high"].map(|end| outlook["saving"][figure][end].as_f64().unwrap());
    let rate = link.link["load"]["requests_per_second"].as_f64().unwrap();
    for (us, cpus) in ends("cpu_us").into_iter().zip(ends("cpus")) {
        assert!((us * rate / 1e6 - cpus).abs() <= cpus.abs() * 1e-3, "{outlook:#}");
    }
    let next = outlook["next"].as_str().unwrap_or("lasthop show ");
    assert!(
        ["lasthop show ", "lasthop run redis"]
            .iter()
            .any(|command| next.starts_with(command)),
        "{outlook:#}"
    );
}

/// Thousands per second, of which a look sees one or none.
#[test]
fn connections_of_one_request_are_counted_and_have_a_client() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    let watching = Watching::start(&[&redis.colon()]);
    // Some seconds each, so that a look falls into them.
    let each = words("--command PING --reuse per-request -c 4 --rate 3000");
    redis.load("127.0.0.1", 8_000, &each);
    let links = watching.links();
    has(&links, "lasthop → redis-server", "tcp");
    let link = the_only(&links);
    assert_eq!(link.shape(), "per-request");
    link.requested(8_000, 0.1);
}

/// How a connection ends, and which side ends it.
#[derive(Clone, Copy)]
enum End {
    Client,
    Server,
    /// A reset, after which that end has no state.
    ClientResets,
    ServerResets,
    /// A client that closes before reading the reply.
    ClientLeaves,
}

/// Makes so many connections of so many requests, one after the other.
fn talk(listener: &TcpListener, ends: End, connections: u32, requests: u32) {
    let reset = |socket: &TcpStream| {
        socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..connections {
                let (mut server, _) = listener.accept().unwrap();
                for _ in 0..requests {
                    server.read_exact(&mut [0; 4]).unwrap();
                    server.write_all(b"pong").unwrap();
                }
                match ends {
                    End::Server => {}
                    End::ServerResets => reset(&server),
                    // Until the client has closed.
                    _ => while server.read(&mut [0; 9]).is_ok_and(|read| read > 0) {},
                }
            }
        });
        for _ in 0..connections {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            for left in (0..requests).rev() {
                client.write_all(b"ping").unwrap();
                match ends {
                    End::ClientLeaves if left == 0 => client.peek(&mut [0; 4]).map(drop).unwrap(),
                    _ => client.read_exact(&mut [0; 4]).unwrap(),
                }
                if requests > 1 {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            match ends {
                End::ClientResets => reset(&client),
                End::Server | End::ServerResets => while client.read(&mut [0; 9]).is_ok_and(|read| read > 0) {},
                End::Client | End::ClientLeaves => {}
            }
        }
    });
}

/// Connections that end by FIN or RST from either end, short or long, have a correct count, the same two ends, and one
/// address.
#[test]
fn connections_are_counted_however_they_end() {
    let is_root = rustix::process::geteuid().is_root() || skip("the kernel reports closed connections only to root");
    if !slow() || !is_root {
        return;
    }
    for ends in [
        End::Client,
        End::Server,
        End::ClientResets,
        End::ServerResets,
        End::ClientLeaves,
    ] {
        for (connections, requests, shape) in [(200, 1, "per-request"), (2, 300, "keep-alive")] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let watching = Watching::start(&[&address, ":0"]);
            talk(&listener, ends, connections, requests);
            let links = watching.links();
            let link = the_only(&links);
            assert_eq!(
                (&link.link["address"], &link.link["published"]),
                (&address.into(), &Value::Null)
            );
            assert_eq!(link.shape(), shape, "{link:#?}");
            assert_eq!(link.link["client"], link.link["server"], "{link:#?}");
            link.requested(connections * requests, 0.01);
            let opened = link.link["opened_per_second"].as_f64().unwrap() * link.seconds;
            assert!((opened - f64::from(connections)).abs() < 0.1, "{opened}: {link:#?}");
        }
    }
}

/// Two daemons with a common parent: one listens at a port, the other at a path. No suggested command leads to the
/// other daemon, nor to a socket that takes commands.
#[test]
fn nothing_is_compared_with_another_server() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    let folder = folder();
    let unix = |name: &str, port: u16| {
        let path = folder.path().join(name);
        let options = format!("--port {port} --unixsocket {}", path.display());
        redis_with(folder.path(), &options, || path.exists())
    };
    let _other = unix("other.sock", 0);
    let (both, control) = (free_port(), free_port());
    let _both = unix("both.sock", both);
    let _control = unix("redis.ctl", control);
    let at = [redis.port, both, control].map(|port| format!("127.0.0.1:{port}"));
    let clients = at.each_ref().map(|at| TcpStream::connect(at).unwrap());
    let links = Watching::start(&at.each_ref().map(String::as_str)).links();
    let of = |at: &String| {
        let link = links.iter().find(|link| link.link["address"] == *at).unwrap();
        (link.link["also"].clone(), link.link["outlook"]["compare"].clone())
    };
    assert_eq!(of(&at[0]), (Value::Null, Value::Null));
    let path = folder.path().join("both.sock").display().to_string();
    let command = format!("lasthop compare 'redis://{}' 'redis+unix:{path}'", at[1]);
    assert_eq!(of(&at[1]), (path.into(), command.into()));
    assert_eq!(of(&at[2]), (Value::Null, Value::Null));
    drop(clients);
}

/// Segments do not show how many requests they contain.
#[test]
fn a_pipeline_counts_as_one() {
    needs!(have("redis-server"));
    let redis = Redis::start();
    let watching = Watching::start(&[&redis.colon()]);
    redis.load("127.0.0.1", 32_000, &["--command", "PING", "--pipeline", "16"]);
    let links = watching.links();
    let link = the_only(&links);
    assert_eq!(link.shape(), "keep-alive");
    link.requested(2_000, 0.05);
}

/// Streams that are sent together share a segment: the count never exceeds the sent requests.
#[test]
fn streams_of_http2_count_as_batches() {
    needs!(have("nginx"), have("h2load"));
    let (port, folder) = (free_port(), folder());
    let _server = nginx(folder.path(), format!("{port} http2"));
    let colon = format!(":{port}");
    let watching = Watching::start(&[&colon]);
    let url = format!("http://127.0.0.1{colon}/");
    let ran = Command::new("h2load")
        .args(["-n400000", "-c2", "-m10", &url])
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(said.contains("400000 succeeded"), "{said}");
    let links = watching.links();
    let link = the_only(&links);
    assert_eq!(link.name(), "h2load → nginx");
    let turns = link.link["load"]["turns_per_second_at_most"].as_f64().unwrap() * link.seconds;
    assert!((20_000.0..=420_000.0).contains(&turns), "{link:#?}");
}

/// A run of lasthop starts the servers of both links.
#[test]
fn a_proxy_has_two_links_over_both_transports() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let watching = Watching::start(&["gunicorn"]);
    run(
        "nginx-gunicorn",
        &["--set", "worker=gthread", "--set", "reuse=keep-alive"],
    );
    let links = watching.links();
    has(&links, "nginx → gunicorn", "tcp");
    has(&links, "nginx → gunicorn", "unix");
}

#[test]
fn a_pooler_has_two_links() {
    needs!(have("pgbouncer"), crate::load_peers::have_postgres("postgres"));
    let watching = Watching::start(&["pgbouncer"]);
    run("pgbouncer", &["--only", "work=query"]);
    let links = watching.links();
    has(&links, "lasthop → pgbouncer", "tcp");
    has(&links, "lasthop → pgbouncer", "unix");
    has(&links, "pgbouncer → postgres", "tcp");
    has(&links, "pgbouncer → postgres", "unix");
}

#[test]
fn a_link_between_namespaces_is_found() {
    needs!(have_namespaces());
    let watching = Watching::start(&["lasthop"]);
    run("sockets", &["--driver-at", "netns:new", "--only", "pattern=echo"]);
    let links = watching.links();
    let crosses = |link: &&Link| link.link["crosses"] == true && link.link["transport"] == "tcp";
    let link = links.iter().find(crosses).unwrap_or_else(|| panic!("{links:#?}"));
    assert_eq!(link.name(), "lasthop → lasthop");
    assert!(link.requests() > 0.0, "{link:?}");
}

/// Connections within a process; most of them carry nothing.
#[test]
fn idle_connections_are_idle() {
    const MANY: usize = 5_000;
    lasthop_system::limits::lift_descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ends: Vec<_> = (0..MANY)
        .map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0))
        .collect();
    let links = Watching::start(&[&address.to_string()]).links();
    let link = the_only(&links);
    assert_eq!(
        (link.link["connections"].as_u64(), link.shape()),
        (Some(MANY as u64), "idle")
    );
    assert_eq!(link.link["client"], link.link["server"]);

    let watching = Watching::start(&[&address.to_string()]);
    for (client, server) in &ends[..10] {
        (&mut &*client).write_all(b"ping").unwrap();
        (&mut &*server).read_exact(&mut [0; 4]).unwrap();
    }
    let links = watching.links();
    assert_eq!(the_only(&links).shape(), "stream", "nobody replied");
}

/// A socket connected to an address without a peer, like one to another machine: in repair mode the kernel contacts
/// nobody.
#[test]
fn a_connection_with_one_end_here_is_left_out() {
    const TCP_REPAIR: i32 = 19;
    let on = 1i32;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // SAFETY: an option of a socket of this test's own; the value is an int.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_REPAIR,
            (&raw const on).cast(),
            4,
        )
    } != 0;
    if refused {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    socket
        .bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into())
        .unwrap();
    // The address is that of a listener, which knows nothing of the socket.
    socket.connect(&address.into()).unwrap();
    let ran = Lasthop::new()
        .run(["survey", "--for", "300ms", "--quiet", "--format", "json"])
        .ok();
    let links = ran.json();
    let addresses: Vec<&Value> = list(&links["links"]).iter().map(|link| &link["address"]).collect();
    assert!(!addresses.contains(&&Value::from(address.to_string())), "{addresses:?}");
    drop(listener);
}

#[test]
fn every_format_is_written() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let talker = thread::spawn(move || {
        let (mut server, _) = listener.accept().unwrap();
        while server.read(&mut [0; 64]).unwrap() > 0 {
            server.write_all(b"pong").unwrap();
        }
    });
    let mut client = TcpStream::connect(address).unwrap();
    let told = address.to_string();
    let lasthop = Lasthop::new();
    for (format, mark) in [
        ("terminal", "Local links of this machine"),
        ("markdown", "\n\nLocal links of this machine"),
        ("html", "<!doctype html>"),
        ("csv", "client,client_place,server"),
        ("json", "lasthop-survey/1"),
    ] {
        let mut child = lasthop
            .command(words(&format!(
                "survey --for 500ms --only {told} --format {format} --verbose"
            )))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() {
            client.write_all(b"ping").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
        let ran = Ran::from(child.wait_with_output().unwrap()).ok();
        assert!(
            ran.stdout.to_lowercase().contains(&mark.to_lowercase()),
            "{format}: {}",
            ran.stdout
        );
        assert!(ran.stdout.contains(&told), "{format}: {}", ran.stdout);
        if format == "html" && have_web() {
            let page = lasthop.home().join("links.html");
            fs::write(&page, &ran.stdout).unwrap();
            node(&["test.mjs", "text", page.to_str().unwrap()]);
        }
        let is_a_table = !["csv", "json"].contains(&format);
        assert_eq!(
            one_line(&ran.stdout).contains("counts as one"),
            is_a_table,
            "{format}: {}",
            ran.stdout
        );
    }
    lasthop
        .run(["survey", "--for", "100ms", "--only", "no such name"])
        .fails(1, "has no such name");
    drop(client);
    talker.join().unwrap();
}
