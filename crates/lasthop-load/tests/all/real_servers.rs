//! Real nginx, Redis, memcached and PostgreSQL servers, each in a private directory, over Unix sockets, TCP and TLS:
//! counts agree on both sides. Without a server its tests are skipped.

use crate::common;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use common::{Certificates, SHORT, With, certificates, for_ms, parameters, run, servers, skip, spec};
use lasthop_load::{
    engine::{Case, supervised},
    reference,
    transport::{Calls, Connector, Watch},
};
use lasthop_protocol::{
    Protocol,
    exact::Exact,
    http::{Http, HttpExpect, HttpVersion},
    memcached::{Command as Asked, Memcached, MemcachedExpect},
    postgres::{ChannelBinding, Postgres, PostgresExpect, QueryMode},
    redis::{Redis, RedisExpect, Resp},
    spec::Spec,
    wire::{Stage, TrialPhases},
};
use lasthop_trial::{
    address::{Address, Endpoint, Tls},
    failure::Failure,
    options::{Engine, Reuse},
    result::{ErrorClass, TrialResult},
};

pub struct Server {
    pub child: Child,
    pub folder: tempfile::TempDir,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: signals the process that this test started and has not waited for yet.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The first of the candidates that exists; without any the test is skipped.
pub fn program(candidates: &[&str]) -> Option<PathBuf> {
    if !servers() {
        return None;
    }
    let found = candidates.iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        skip(&format!(
            "none of {candidates:?} is installed; script/setup installs it"
        ));
    }
    found
}

/// Waits until `check` holds; fails if the server ends before.
pub fn wait_until(child: &mut Child, what: &str, mut check: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !check() {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{what} ended at start: {status}");
        }
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{what} is not ready after a minute"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program with its arguments, none of which has a space. Nothing that it writes is shown.
pub fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What a command prints; fails if the command does.
pub fn said(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a database as `nobody` instead of root, which it refuses.
pub fn unprivileged(command: &mut Command) -> &mut Command {
    if is_root() {
        command.uid(65534).gid(65534)
    } else {
        command
    }
}

/// Gives files to the user that `unprivileged` runs a command as.
pub fn hand_over(paths: &[&Path]) {
    if is_root() {
        for path in paths {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
    }
}

fn is_root() -> bool {
    // SAFETY: asks for the user, without side effects.
    unsafe { libc::geteuid() == 0 }
}

/// A port of IPv4's loopback.
pub fn tcp(port: u16) -> Address {
    Address::Tcp((std::net::Ipv4Addr::LOCALHOST, port).into())
}

/// A port of IPv6's loopback.
fn six(port: u16) -> Address {
    Address::Tcp((std::net::Ipv6Addr::LOCALHOST, port).into())
}

pub fn everything(base: &Spec) -> Vec<Spec> {
    let with = |reuse, connections, pipeline| base.clone().reuse(reuse).connections(connections).pipeline(pipeline);
    vec![
        with(Reuse::KeepAlive, 1, 1),
        with(Reuse::KeepAlive, 5, 1),
        with(Reuse::KeepAlive, 1, 16),
        with(Reuse::KeepAlive, 3, 16),
        with(Reuse::KeepAlive, 4, 1).threads(2),
        with(Reuse::PerRequest, 1, 1),
        with(Reuse::PerRequest, 3, 1),
        with(Reuse::PerRequest, 2, 1).requests_per_connection(5),
    ]
}

/// Requests that verify a case before its trial: two, or two batches, or two units.
pub fn probes(spec: &Spec) -> u64 {
    2 * u64::from(spec.pipeline) * u64::from(spec.requests_per_connection)
}

pub fn check(result: &TrialResult) {
    assert_eq!(result.error_total(), 0, "{:?}", result.errors);
    let (timed, requests) = (result.service_time.as_ref().unwrap().count(), result.requests);
    assert!(
        (1..=requests + 64).contains(&timed),
        "{timed} times of {requests} requests"
    );
}

// ---- Redis

struct RedisServer {
    server: Server,
    files: Certificates,
    tls_port: u16,
}

fn redis() -> Option<RedisServer> {
    let program = program(&["/usr/bin/redis-server", "/usr/local/bin/redis-server"])?;
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let (port, tls_port) = (free_port(), free_port());
    let (program, at) = (program.display(), folder.path().display());
    let line = format!(
        "{program} --port {port} --bind 127.0.0.1 ::1 --unixsocket {at}/s --dir {at} --requirepass secret \
         --tls-port {tls_port} --tls-auth-clients no --tls-ca-cert-file {at}/ca.pem --tls-cert-file {at}/cert.pem \
         --tls-key-file {at}/key.pem --save"
    );
    let mut child = command(&line).arg("").spawn().unwrap();
    let socket = folder.path().join("s");
    wait_until(&mut child, "redis-server", || UnixStream::connect(&socket).is_ok());
    let server = RedisServer {
        server: Server { child, folder, port },
        files,
        tls_port,
    };
    server.ask("SET greeting Hello");
    Some(server)
}

impl RedisServer {
    fn socket(&self) -> PathBuf {
        self.server.folder.path().join("s")
    }

    /// Sends an inline command by hand, independent of the code under test.
    fn ask(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream
            .write_all(format!("AUTH secret\r\n{command}\r\nQUIT\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Calls of GET.
    fn gets(&self) -> u64 {
        let text = self.ask("INFO commandstats");
        let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        vec![
            Endpoint::plain(Address::Unix(self.socket())),
            Endpoint::plain(tcp(self.server.port)),
            Endpoint::plain(six(self.server.port)),
            Endpoint {
                address: tcp(self.tls_port),
                tls: Some(self.files.tls()),
            },
        ]
    }
}

fn get(expect: RedisExpect) -> Redis {
    Redis {
        command: vec!["GET".into(), "greeting".into()],
        expect,
        ..parameters("redis://:secret@127.0.0.1")
    }
}

/// Checks that authentication is timed if connections are opened for requests that count. Those of the first requests
/// may be older.
pub fn check_auth(result: &TrialResult, spec: &Spec) {
    let from_before = u64::from(spec.connections * spec.requests_per_connection);
    let own = spec.reuse == Reuse::PerRequest;
    assert!(
        result.phases.auth.is_some() || !own || result.requests <= from_before,
        "{spec:?}"
    );
    assert!(result.phases.auth.is_none() || own, "{spec:?}");
}

#[test]
fn redis_counts_what_was_checked() {
    let Some(server) = redis() else { return };
    for endpoint in server.endpoints() {
        let base = spec(&endpoint, get(RedisExpect::Bulk("Hello".into())));
        for spec in everything(&base) {
            let before = server.gets();
            let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
            check(&result);
            assert_eq!(
                server.gets() - before,
                result.requests_total + probes(&spec),
                "{spec:?}"
            );
            check_auth(&result, &spec);
        }
    }
}

#[test]
fn redis_speaks_both_versions_of_its_protocol() {
    let Some(server) = redis() else { return };
    let asking = |words: &str, protocol, expect| Redis {
        command: words.split(' ').map(str::to_owned).collect(),
        protocol,
        ..get(expect)
    };
    for endpoint in server.endpoints() {
        for redis in [
            // A map without entries: an array in the older version.
            asking("HGETALL nothing", Resp::V2, RedisExpect::Reply("*0\r\n".into())),
            asking("HGETALL nothing", Resp::V3, RedisExpect::Reply("%0\r\n".into())),
            asking("GET nothing", Resp::V3, RedisExpect::Nil),
            asking("GET greeting", Resp::V3, RedisExpect::Bulk("Hello".into())),
            // A command that changes the version itself has a map as its reply.
            asking("HELLO 3", Resp::V2, RedisExpect::Success),
        ] {
            let spec = spec(&endpoint, redis);
            let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
            check(&result);
        }
    }
}

#[test]
fn redis_errors_have_their_class() {
    let Some(server) = redis() else { return };
    let endpoint = &server.endpoints()[0];
    let prepare = |redis: Redis| Case::prepare(&spec(endpoint, redis)).map(drop).unwrap_err();
    let wrong = prepare(Redis {
        password: Some("no".into()),
        ..get(RedisExpect::Success)
    });
    assert!(wrong.cause.starts_with("authentication: WRONGPASS"), "{wrong}");
    let none = prepare(Redis {
        password: None,
        ..get(RedisExpect::Success)
    });
    assert!(none.cause.contains("NOAUTH"), "{none}");
    assert_eq!(none.stage, Stage::Verify);
    let other = prepare(get(RedisExpect::Bulk("Jello".into())));
    assert!(
        other.cause.contains("differs from the expected one at byte 4"),
        "{other}"
    );
    assert!(
        prepare(Redis {
            database: 99,
            ..get(RedisExpect::Success)
        })
        .cause
        .contains("out of range")
    );
}

// ---- memcached

/// A memcached listens on a Unix socket or on the network: each endpoint has its own server.
struct MemcachedServer {
    server: Server,
    endpoint: Endpoint,
}

fn memcached(address: impl Fn(&Path, u16) -> Address, secure: bool) -> Option<MemcachedServer> {
    let program = program(&["/usr/bin/memcached", "/usr/local/bin/memcached"])?;
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let port = free_port();
    let address = address(folder.path(), port);
    let at = folder.path().display();
    let listen = match &address {
        Address::Tcp(tcp) => format!("-l {} -p {port}", tcp.ip()),
        socket => format!("-s {}", socket.bare()),
    };
    let tls = if secure {
        format!("-Z -o ssl_chain_cert={at}/cert.pem,ssl_key={at}/key.pem")
    } else {
        String::new()
    };
    // As root it would drop its rights, and could not enter the folder.
    let line = format!("{} {listen} {tls} -u root -U 0", program.display());
    let mut child = command(&line).spawn().unwrap();
    wait_until(&mut child, "memcached", || {
        lasthop_system::connect(&address, Duration::from_secs(1)).is_ok()
    });
    let endpoint = Endpoint {
        address,
        tls: secure.then(|| files.tls()),
    };
    Some(MemcachedServer {
        server: Server { child, folder, port },
        endpoint,
    })
}

impl MemcachedServer {
    /// Reads and writes of keys, counted by the server.
    fn counts(&self) -> (u64, u64) {
        let spec = spec(&self.endpoint, asking(Asked::Get, None));
        let connector = Connector::new(&spec).unwrap();
        let ask = |watch: Arc<Watch>| -> Result<Vec<u8>, Failure> {
            let mut stream = connector.open(&Calls::default(), &watch)?.stream;
            stream.send_all(b"stats\r\nquit\r\n")?;
            let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(received @ 1..) = stream.receive(&mut buffer) {
                text.extend_from_slice(&buffer[..received]);
            }
            Ok(text)
        };
        let text = supervised(spec.timeouts, || true, ask).unwrap().unwrap();
        let text = String::from_utf8(text).unwrap();
        let count = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
            line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        (count("cmd_get"), count("cmd_set"))
    }
}

fn asking(command: Asked, value: Option<&str>) -> Memcached {
    let value = value.map(str::to_owned);
    Memcached {
        command,
        key: "greeting".into(),
        value,
        expect: MemcachedExpect::Any,
    }
}

#[test]
fn memcached_counts_what_was_checked() {
    let tcp = |_: &Path, port| tcp(port);
    let unix = |folder: &Path, _| Address::Unix(folder.join("s"));
    for server in [
        memcached(unix, false),
        memcached(tcp, false),
        memcached(|_, port| six(port), false),
        memcached(tcp, true),
    ] {
        let Some(server) = server else { return };
        // More than the buffer of a socket takes at once.
        let long = "x".repeat(600_000);
        for (asked, value) in [
            (Asked::Get, "Hello"),
            (Asked::Get, &long),
            (Asked::Set, "Hello, memcached\r\nEND\r\n"),
        ] {
            let mut specs = everything(&spec(&server.endpoint, asking(asked.clone(), Some(value))));
            // A batch of long values takes longer than the trial.
            specs.retain(|spec| value.len() < long.len() || spec.pipeline == 1);
            for spec in specs {
                let before = server.counts();
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
                check(&result);
                let after = server.counts();
                let (gets, sets) = (after.0 - before.0, after.1 - before.1);
                let requests = result.requests_total + probes(&spec);
                if asked == Asked::Set {
                    assert_eq!((gets, sets), (0, requests), "{spec:?}");
                } else {
                    // Each connection, also a probe's, stores its key once.
                    assert_eq!(gets, requests, "{spec:?}");
                    assert!(
                        (1..=result.connections_opened + requests).contains(&sets),
                        "{sets} sets: {spec:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn memcached_errors_have_their_class() {
    let Some(server) = memcached(|folder, _| Address::Unix(folder.join("s")), false) else {
        return;
    };
    assert!(server.server.folder.path().exists() && server.server.port > 0);
    let prepare = |asked: Memcached| Case::prepare(&spec(&server.endpoint, asked)).map(drop);
    let expecting = |expect| Memcached {
        expect,
        ..asking(Asked::Get, None)
    };
    prepare(expecting(MemcachedExpect::Miss)).unwrap();
    let none = prepare(expecting(MemcachedExpect::Value("Hello".into()))).unwrap_err();
    assert!(none.cause.contains("there is no value, expected one"), "{none}");
    prepare(asking(Asked::Set, Some("Hello"))).unwrap();
    let learnt = reference::learn(&spec(&server.endpoint, asking(Asked::Get, None)), || true).unwrap();
    let whole = Exact::from("VALUE greeting 0 5\r\nHello\r\nEND\r\n");
    assert_eq!(learnt.protocol, expecting(MemcachedExpect::Reply(whole)).into());
    let other = prepare(expecting(MemcachedExpect::Value("Jello".into()))).unwrap_err();
    assert!(
        other.cause.contains("differs from the expected one at byte 0"),
        "{other}"
    );
    let large = prepare(asking(Asked::Set, Some(&"x".repeat(2 << 20)))).unwrap_err();
    assert!(
        large.cause.contains("SERVER_ERROR object too large for cache"),
        "{large}"
    );
    assert_eq!(
        (large.stage, large.class),
        (Stage::Verify, Some(ErrorClass::WrongStatus))
    );
}

// ---- PostgreSQL

const POSTGRES: &[&str] = &[
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/local/pgsql/bin",
];

struct PostgresServer {
    server: Server,
    files: Certificates,
}

fn postgres() -> Option<PostgresServer> {
    let bin = program(POSTGRES)?;
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    hand_over(&[folder.path(), &data, &files.key]);
    std::fs::set_permissions(&files.key, PermissionsExt::from_mode(0o600)).unwrap();
    let (bin, at) = (bin.display(), folder.path().display());
    let line = format!("{bin}/initdb -U lasthop -A trust -N --no-instructions -D {at}/data");
    said(unprivileged(&mut command(&line)).current_dir(folder.path()));
    std::fs::write(
        data.join("pg_hba.conf"),
        "local all lasthop trust\nhost all lasthop 127.0.0.1/32 trust\nhost all lasthop ::1/128 trust\n\
         local all clear password\nlocal all md5user md5\nlocal all scramuser scram-sha-256\n\
         hostssl all scramuser 127.0.0.1/32 scram-sha-256\n",
    )
    .unwrap();
    let port = free_port();
    let line = format!(
        "{bin}/postgres -D {at}/data -h 127.0.0.1,::1 -p {port} -k {at} -c fsync=off -c max_connections=40 \
         -c shared_preload_libraries=pg_stat_statements -c ssl=on -c ssl_cert_file={at}/cert.pem \
         -c ssl_key_file={at}/key.pem"
    );
    let mut server = command(&line);
    let mut child = unprivileged(&mut server).current_dir(folder.path()).spawn().unwrap();
    let line = format!("{bin}/psql -U lasthop -d postgres -p {port} -h {at} -q -v ON_ERROR_STOP=1 -c");
    let psql = |sql: &str| command(&line).arg(sql).status().unwrap().success();
    wait_until(&mut child, "postgres", || psql("select 1"));
    for sql in [
        "create role clear login password 'secret'",
        "set password_encryption='md5'; create role md5user login password 'secret'",
        "create role scramuser login password 'secret'",
        "create extension pg_stat_statements",
        "create sequence counted cache 1",
        "grant usage on sequence counted to public",
        "create database units",
    ] {
        assert!(psql(sql), "{sql}");
    }
    Some(PostgresServer {
        server: Server { child, folder, port },
        files,
    })
}

impl PostgresServer {
    fn unix(&self) -> Endpoint {
        let name = format!(".s.PGSQL.{}", self.server.port);
        Endpoint::plain(Address::Unix(self.server.folder.path().join(name)))
    }

    fn tcp(&self, secure: bool) -> Endpoint {
        Endpoint {
            address: tcp(self.server.port),
            tls: secure.then(|| self.files.tls()),
        }
    }
}

fn query(user: &str, query: &str, mode: QueryMode) -> Postgres {
    Postgres {
        query: query.into(),
        mode,
        expect: PostgresExpect {
            rows: Some(1),
            tag: Some("SELECT 1".into()),
            ..PostgresExpect::default()
        },
        ..parameters(&format!("postgres://{user}:secret@127.0.0.1/postgres"))
    }
}

/// The next number of the server's own sequence.
fn counted(server: &PostgresServer) -> u64 {
    ask(server, "select nextval('counted')")
}

/// Calls of the sequence, from the server's own statistics.
fn calls(server: &PostgresServer) -> u64 {
    ask(
        server,
        "select coalesce(sum(calls), 0) from pg_stat_statements where query like 'select nextval(%'",
    )
}

/// The number returned by a query.
fn ask(server: &PostgresServer, sql: &str) -> u64 {
    let bin = program(POSTGRES).unwrap();
    let Server { folder, port, .. } = &server.server;
    let (bin, at) = (bin.display(), folder.path().display());
    let line = format!("{bin}/psql -U lasthop -d postgres -p {port} -h {at} -Atc");
    said(command(&line).arg(sql)).parse().unwrap()
}

/// The server's own statistics of a database used only here: connections, and statements of the load. A process reports
/// its connection only when it updates its statistics, so the first figure may come late.
fn sessions_and_statements(server: &PostgresServer, sessions: u64) -> (u64, u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let statements = "select coalesce(sum(calls), 0) from pg_stat_statements s join pg_database d on d.oid = s.dbid
                      where datname = 'units' and query like 'select%'";
    loop {
        let seen = ask(server, "select sessions from pg_stat_database where datname = 'units'");
        if seen >= sessions || Instant::now() > deadline {
            return (seen, ask(server, statements));
        }
    }
}

#[test]
fn a_unit_of_queries_is_a_connection_that_is_timed_whole() {
    let Some(server) = postgres() else { return };
    let of_units = Postgres {
        database: "units".into(),
        ..query("lasthop", "select 1", QueryMode::Simple)
    };
    let (mut sessions, mut statements) = (0, 0);
    for endpoint in [server.unix(), server.tcp(false), server.tcp(true)] {
        for (connections, threads, engine) in [(1, 1, Engine::Blocking), (1, 1, Engine::Epoll), (5, 2, Engine::Auto)] {
            let spec = spec(&endpoint, of_units.clone())
                .reuse(Reuse::PerRequest)
                .requests_per_connection(7)
                .connections(connections)
                .threads(threads)
                .engine(engine);
            let mut case = Case::prepare(&spec).unwrap();
            assert!(!case.proof().reused, "{spec:?}");
            let result = case.trial(SHORT).unwrap();
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            assert_eq!(result.requests_total, 7 * result.connections_opened, "{spec:?}");
            // A unit has one time, and its connect is within it.
            let times = result.service_time.as_ref().unwrap();
            assert_eq!(7 * times.count(), result.requests, "{spec:?}");
            check_auth(&result, &spec);
            let fastest = result.phases.auth.as_ref().map_or(0, |auth| auth.quantile(0.0));
            assert!(times.quantile(0.5) > fastest, "{spec:?}");
            // The probe made two units.
            sessions += result.connections_opened + 2;
            statements += result.requests_total + 14;
            assert_eq!(
                sessions_and_statements(&server, sessions),
                (sessions, statements),
                "{spec:?}"
            );
        }
    }
}

#[test]
fn postgres_counts_what_was_checked() {
    let Some(server) = postgres() else { return };
    let v6 = Endpoint::plain(six(server.server.port));
    for endpoint in [server.unix(), server.tcp(false), v6, server.tcp(true)] {
        for mode in [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared] {
            let base = spec(&endpoint, query("lasthop", "select nextval('counted')", mode));
            for spec in everything(&base) {
                let (before, calls_before) = (counted(&server), calls(&server));
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
                check(&result);
                let requests = result.requests_total + probes(&spec);
                assert_eq!(
                    calls(&server) - calls_before,
                    requests,
                    "by pg_stat_statements: {spec:?}"
                );
                assert_eq!(counted(&server) - before - 1, requests, "by the sequence: {spec:?}");
                check_auth(&result, &spec);
            }
        }
    }
}

#[test]
fn postgres_lets_in_by_every_method() {
    let Some(server) = postgres() else { return };
    for (user, endpoint) in [
        ("lasthop", server.unix()),
        ("clear", server.unix()),
        ("md5user", server.unix()),
        ("scramuser", server.unix()),
        ("scramuser", server.tcp(true)),
    ] {
        for connections in [1, 2] {
            let postgres = query(user, "select 1", QueryMode::Simple);
            let base = spec(&endpoint, postgres.clone()).connections(connections);
            check(&run(&base, SHORT).unwrap_or_else(|error| panic!("{user}: {error}")));
            if user != "lasthop" {
                let wrong = Protocol::from(Postgres {
                    password: Some("no".into()),
                    ..postgres.clone()
                });
                let error = Case::prepare(&base.clone().protocol(wrong)).map(drop).unwrap_err();
                assert!(error.cause.contains("SQLSTATE 28P01"), "{error}");
                let none = Protocol::from(Postgres {
                    password: None,
                    ..postgres
                });
                let error = Case::prepare(&base.protocol(none)).map(drop).unwrap_err();
                assert!(error.cause.contains("wants a password"), "{error}");
            }
        }
    }
}

#[test]
fn postgres_lets_in_by_scram_bound_to_the_channel() {
    let Some(server) = postgres() else { return };
    let bound = |user: &str, channel_binding| {
        Protocol::from(Postgres {
            channel_binding,
            ..query(user, "select 1", QueryMode::Simple)
        })
    };
    let resumed = |resumption| Endpoint {
        tls: Some(Tls {
            resumption,
            ..server.files.tls()
        }),
        ..server.tcp(true)
    };
    for channel_binding in [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require] {
        for (connections, reuse) in [(1, Reuse::PerRequest), (3, Reuse::PerRequest), (2, Reuse::KeepAlive)] {
            // A resumed session keeps the certificate of the first one.
            for resumption in [false, true] {
                let base = spec(&resumed(resumption), bound("scramuser", channel_binding));
                let spec = base.connections(connections).reuse(reuse);
                check(&run(&spec, SHORT).unwrap_or_else(|error| panic!("{channel_binding:?}: {error}")));
            }
        }
    }
    // Trusted without a password, so nothing was bound.
    let error = Case::prepare(&spec(&server.tcp(true), bound("lasthop", ChannelBinding::Require))).map(drop);
    assert!(error.unwrap_err().cause.contains("the server let us in without it"));
    let plain = Case::prepare(&spec(&server.unix(), bound("scramuser", ChannelBinding::Require))).map(drop);
    assert!(plain.unwrap_err().cause.contains("needs TLS"));
}

#[test]
fn postgres_results_are_checked() {
    let Some(server) = postgres() else { return };
    let endpoint = server.unix();
    let many = Postgres {
        expect: PostgresExpect {
            rows: Some(20_000),
            first: Some("1".into()),
            tag: Some("SELECT 20000".into()),
            ..PostgresExpect::default()
        },
        ..query(
            "lasthop",
            "select i, repeat('x', 100) from generate_series(1, 20000) i",
            QueryMode::Simple,
        )
    };
    let result = run(&spec(&endpoint, many.clone()), for_ms(100)).unwrap();
    check(&result);
    assert!(result.bytes_received > result.requests * 2_000_000);
    let sum = Postgres {
        parameters: vec!["20".into(), "22".into()],
        expect: PostgresExpect {
            first: Some("42".into()),
            ..PostgresExpect::default()
        },
        ..query("lasthop", "select $1::int + $2::int", QueryMode::Prepared)
    };
    check(&run(&spec(&endpoint, sum), SHORT).unwrap());
    let prepare = |postgres: Postgres| Case::prepare(&spec(&endpoint, postgres)).map(drop);
    let fewer = Postgres {
        expect: PostgresExpect {
            rows: Some(1),
            ..PostgresExpect::default()
        },
        ..many
    };
    assert_eq!(prepare(fewer).unwrap_err().cause, "20000 rows, expected 1");
    let unknown = prepare(query("lasthop", "select x", QueryMode::Extended)).unwrap_err();
    assert!(unknown.cause.contains("SQLSTATE 42703"), "{unknown}");
    let secure = Endpoint {
        tls: Some(server.files.tls()),
        ..endpoint.clone()
    };
    let protocol = Protocol::from(query("lasthop", "select 1", QueryMode::Simple));
    let error = Case::prepare(&spec(&secure, protocol)).map(drop).unwrap_err();
    assert_eq!(error.cause, "the server does not offer TLS on this socket");
}

#[test]
fn postgres_errors_are_counted_by_class_and_keep_the_connection() {
    let Some(server) = postgres() else { return };
    // Right for the two probes and a few more, then a division by zero.
    let sql = "select 1 / (case when nextval('counted') < 9 then 1 else 0 end)";
    let base = spec(&server.unix(), query("lasthop", sql, QueryMode::Extended));
    // Long enough for a crowded machine to reach the error.
    let result = run(&base, TrialPhases::without_warm_up(500_000_000)).unwrap();
    assert_eq!(result.requests_total, 6);
    assert_eq!(result.connections_opened, 0);
    let error = &result.errors[&ErrorClass::WrongStatus];
    assert!(error.first.contains("SQLSTATE 22012") && error.count > 1, "{error:?}");
}

// ---- nginx

struct NginxServer {
    server: Server,
    files: Certificates,
    tls_ports: [u16; 2],
    h2_ports: [u16; 2],
}

/// Plaintext on a Unix socket and TCP; TLS 1.3 and 1.2 on ports of their own; HTTP/2 on another socket, and on ports
/// without and with TLS. Every request is a line of the access log.
fn nginx() -> Option<NginxServer> {
    let program = program(&["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"])?;
    let folder = tempfile::tempdir().unwrap();
    // Workers may run as another user, who needs access to the socket.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let files = certificates(folder.path());
    let (port, tls_ports) = (free_port(), [free_port(), free_port()]);
    let h2_ports @ [h2, h2_tls] = [free_port(), free_port()];
    let at = folder.path().display();
    let secure = |port: u16, version: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_protocols {version}; ssl_certificate {at}/cert.pem;
               ssl_certificate_key {at}/key.pem; ssl_session_cache shared:s{port}:1m; location / {{ return 200 'Hello'; }} }}"
        )
    };
    std::fs::write(folder.path().join("big.txt"), "x".repeat(300_000)).unwrap();
    let text = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;
         events {{ worker_connections 256; }}
         http {{ access_log {at}/access.log; keepalive_requests 100000000;
           client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u;
           scgi_temp_path {at}/c; gzip_types text/plain; gzip_min_length 1;
           server {{ listen 127.0.0.1:{port}; listen [::1]:{port}; listen unix:{at}/s; root {at};
             location = /hello {{ return 200 'Hello'; }} location = /big.txt {{ }}
             location = /chunked.txt {{ gzip on; alias {at}/big.txt; }} location = /empty {{ return 204; }} }}
           server {{ listen 127.0.0.1:{h2} http2; listen unix:{at}/h2 http2; listen 127.0.0.1:{h2_tls} ssl http2; root {at};
             ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;
             location = /hello {{ return 200 'Hello'; }} location = /big.txt {{ }} location = /empty {{ return 204; }} }}
           {} {} }}",
        secure(tls_ports[0], "TLSv1.3"),
        secure(tls_ports[1], "TLSv1.2")
    );
    std::fs::write(folder.path().join("conf"), text).unwrap();
    let line = format!("{} -c {at}/conf -p {at} -e /dev/null", program.display());
    let mut child = command(&line).spawn().unwrap();
    let socket = folder.path().join("s");
    let mut ports = [&[port][..], &tls_ports, &h2_ports].concat();
    wait_until(&mut child, "nginx", || {
        ports.retain(|port| TcpStream::connect(("127.0.0.1", *port)).is_err());
        ports.is_empty() && UnixStream::connect(&socket).is_ok()
    });
    Some(NginxServer {
        server: Server { child, folder, port },
        files,
        tls_ports,
        h2_ports,
    })
}

impl NginxServer {
    fn endpoints(&self) -> Vec<Endpoint> {
        vec![
            Endpoint::plain(Address::Unix(self.server.folder.path().join("s"))),
            Endpoint::plain(tcp(self.server.port)),
            Endpoint::plain(six(self.server.port)),
        ]
    }

    /// Endpoints of HTTP/2.
    fn h2(&self) -> Vec<Endpoint> {
        vec![
            Endpoint::plain(Address::Unix(self.server.folder.path().join("h2"))),
            Endpoint::plain(tcp(self.h2_ports[0])),
            Endpoint {
                address: tcp(self.h2_ports[1]),
                tls: Some(self.files.tls()),
            },
        ]
    }

    fn secure(&self, index: usize, resumption: bool) -> Endpoint {
        Endpoint {
            address: tcp(self.tls_ports[index]),
            tls: Some(Tls {
                resumption,
                ..self.files.tls()
            }),
        }
    }

    /// Replies with this status in the access log. Waits for the last lines, because each is written only when its
    /// request is over.
    fn logged(&self, status: u16, at_least: u64) -> u64 {
        let count = || {
            let text = std::fs::read_to_string(self.server.folder.path().join("access.log")).unwrap_or_default();
            text.lines()
                .filter(|line| line.contains(&format!("\" {status} ")))
                .count() as u64
        };
        let begin = Instant::now();
        while count() < at_least && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        count()
    }
}

fn http(path: &str, version: HttpVersion, expect: HttpExpect) -> Http {
    Http {
        version,
        expect,
        ..parameters(&format!("http+unix:/s:{path}"))
    }
}

fn says(body: &str) -> HttpExpect {
    HttpExpect {
        status: 200,
        body: Some(body.into()),
        ..HttpExpect::default()
    }
}

#[test]
fn nginx_counts_what_was_checked() {
    let Some(server) = nginx() else { return };
    let first = server.endpoints().into_iter().chain([server.secure(0, false)]);
    let first =
        first.flat_map(|endpoint| [HttpVersion::V11, HttpVersion::V10].map(|version| (endpoint.clone(), version)));
    let second = server.h2().into_iter().map(|endpoint| (endpoint, HttpVersion::V2));
    for (endpoint, version) in first.chain(second) {
        {
            let base = spec(&endpoint, http("/hello", version, says("Hello")));
            for spec in everything(&base)
                .into_iter()
                .filter(|spec| spec.pipeline == 1 || version != HttpVersion::V10)
            {
                let before = server.logged(200, 0);
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
                check(&result);
                assert_eq!(result.bytes_received, 5 * result.requests);
                let sent = result.requests_total + probes(&spec);
                assert_eq!(server.logged(200, before + sent) - before, sent, "{spec:?}");
            }
        }
    }
}

#[test]
fn nginx_bodies_are_read_in_every_form() {
    let Some(server) = nginx() else { return };
    let unpacked = |text: &str| HttpExpect {
        status: 200,
        contains: vec![text.into()],
        ..HttpExpect::default()
    };
    for endpoint in server.endpoints() {
        for connections in [1, 3] {
            for (path, headers, expect) in [
                ("/big.txt", vec![], says(&"x".repeat(300_000))),
                (
                    "/empty",
                    vec![],
                    HttpExpect {
                        status: 204,
                        ..says("")
                    },
                ),
                // Compressed on the fly: chunked, so only the end reveals the length.
                (
                    "/chunked.txt",
                    vec![("Accept-Encoding".to_owned(), "gzip".to_owned())],
                    unpacked(""),
                ),
                (
                    "/hello",
                    vec![("Connection".to_owned(), "close".to_owned())],
                    says("Hello"),
                ),
            ] {
                let http = Http {
                    headers,
                    ..http(path, HttpVersion::V11, expect)
                };
                let spec = spec(&endpoint, http).connections(connections);
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{path}: {error}"));
                check(&result);
                assert_eq!(result.connections_opened > 0, path == "/hello", "{path}");
            }
            let wrong = Protocol::from(http("/none", HttpVersion::V11, says("Hello")));
            let error = Case::prepare(&spec(&endpoint, wrong)).map(drop).unwrap_err();
            let wanted = r#"status 404, expected 200: "<html>\r\n<head><title>404 Not Found</title>"#;
            assert!(error.cause.starts_with(wanted), "{error}");
        }
    }
}

#[test]
fn bodies_of_http_2_are_read_learnt_and_refused() {
    let Some(server) = nginx() else { return };
    let any = |status| HttpExpect {
        status,
        ..HttpExpect::default()
    };
    for endpoint in server.h2() {
        for (path, method, expect) in [
            ("/big.txt", "GET", says(&"x".repeat(300_000))),
            ("/big.txt", "HEAD", any(200)),
            (
                "/empty",
                "GET",
                HttpExpect {
                    status: 204,
                    ..says("")
                },
            ),
            ("/none", "GET", any(404)),
        ] {
            let protocol = Protocol::from(Http {
                method: method.into(),
                ..http(path, HttpVersion::V2, expect)
            });
            let spec = spec(&endpoint, protocol).pipeline(4);
            check(&run(&spec, SHORT).unwrap_or_else(|error| panic!("{path}: {error}")));
        }
        let learning = spec(&endpoint, http("/hello", HttpVersion::V2, any(200)));
        let learnt = reference::learn(&learning, || true).unwrap();
        let expect = &learnt.protocol.get::<Http>().unwrap().expect;
        assert_eq!(expect.body, Some("Hello".into()));
        assert!(expect.headers.contains_key("content-type") && learnt.unchecked.is_none());
        for (wrong, text) in [
            (
                http("/none", HttpVersion::V2, says("Hello")),
                "status 404, expected 200",
            ),
            (http("/hello", HttpVersion::V2, says("Jello")), "the body differs"),
        ] {
            let error = Case::prepare(&spec(&endpoint, wrong)).map(drop).unwrap_err();
            assert!(error.cause.starts_with(text), "{error:?}");
        }
    }
    // A server of HTTP/1 only reports that.
    let plain = server.endpoints().remove(1);
    let error = Case::prepare(&spec(&plain, http("/hello", HttpVersion::V2, says("Hello")))).map(drop);
    let cause = error.unwrap_err().cause;
    assert!(cause.contains("does not speak HTTP/2"), "{cause}");
}

#[test]
fn both_versions_of_tls_are_spoken_and_resumed_where_asked_for() {
    let Some(server) = nginx() else { return };
    for (index, version) in ["TLSv1.3", "TLSv1.2"].into_iter().enumerate() {
        for resumption in [false, true] {
            for (connections, engine) in [(1, Engine::Blocking), (1, Engine::Epoll), (3, Engine::Epoll)] {
                let endpoint = server.secure(index, resumption);
                let protocol = Protocol::from(http("/", HttpVersion::V11, says("Hello")));
                let base = spec(&endpoint, protocol);
                let mut case =
                    Case::prepare(&base.reuse(Reuse::PerRequest).connections(connections).engine(engine)).unwrap();
                assert_eq!(case.proof().tls_version.as_deref(), Some(version));
                let result = case.trial(for_ms(30)).unwrap();
                check(&result);
                let shaken = result.tls_handshakes.unwrap();
                assert_eq!(shaken.full + shaken.resumed, result.connections_opened);
                if resumption {
                    assert!(shaken.resumed > shaken.full, "{version} {engine:?}: {shaken:?}");
                } else {
                    assert_eq!(shaken.resumed, 0, "{version}: {shaken:?}");
                }
            }
        }
    }
}
