//! Attacks by another user of the machine on the servers of a run. Root's servers run as an account without rights, and
//! nobody gets anything from them without a password.

use crate::common;

use std::{
    collections::BTreeSet,
    fs,
    io::Read as _,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use common::{Lasthop, Ran, eventually, executable, have, have_python, list, needs, signal, skip, words};
use lasthop_system::process;
use serde_json::Value;
use tempfile::TempDir;

/// A uid other than root's and the servers'.
pub const STRANGER: u32 = 65_533;

/// Whether the test can change its user, which needs root.
pub fn can_be_somebody_else() -> bool {
    rustix::process::geteuid().is_root() || skip("only root can try what another user can do")
}

/// Runs a program as another user. Returns both output streams.
fn stranger(program: impl AsRef<Path>, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(program.as_ref());
    command
        .args(arguments)
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    let output = command
        .envs(environment.iter().copied())
        .uid(STRANGER)
        .gid(STRANGER)
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A run that continues until dropped, while others try.
struct Running {
    lasthop: Lasthop,
    child: Child,
}

impl Running {
    /// Starts a run, and waits for its first recorded trial, when its server is there.
    fn start(arguments: &[&str]) -> Self {
        let lasthop = Lasthop::new();
        // One long round, so that its servers stay.
        let long = ["--budget", "10min", "--trial", "50ms", "--blocks", "2000"];
        let child = lasthop.start([&["run"], arguments, &long].concat());
        lasthop.wait_for_run(1);
        let running = Self { lasthop, child };
        running.wait_for_a_trial();
        running
    }

    fn wait_for_a_trial(&self) {
        let lines = self.lasthop.runs().pop().unwrap().join("trials.jsonl");
        let recorded = || fs::read_to_string(&lines).unwrap_or_default();
        eventually("a trial", || recorded().contains("\"elapsed_ns\""));
    }

    fn addresses(&self, service: &str) -> Vec<String> {
        addresses(&self.lasthop, service)
    }

    fn folders(&self, service: &str) -> Vec<PathBuf> {
        folders(&self.lasthop, service)
    }

    /// Processes that the run started.
    fn processes(&self) -> Vec<Process> {
        let of = |pid: i32| {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            let read = |file: &str| {
                fs::read(folder.join(file))
                    .ok()
                    .map(|text| String::from_utf8_lossy(&text).into_owned())
            };
            let (name, command) = (read("comm")?.trim().to_owned(), read("cmdline")?.replace('\0', " "));
            Some(Process {
                pid,
                name,
                command,
                user: fs::metadata(&folder).ok()?.uid(),
            })
        };
        process::descendants(self.child.id() as i32)
            .into_iter()
            .filter_map(of)
            .collect()
    }

    /// Checks that the servers run, and that only lasthop's own processes have rights.
    #[track_caller]
    fn only_lasthop_is_root(&self, servers: &[&str]) {
        let all = self.processes();
        for name in servers {
            assert!(
                all.iter()
                    .any(|process| process.name.starts_with(name) && process.user != 0),
                "no {name} in {all:#?}"
            );
        }
        // A driver shares sockets with containers, in which the server may be root.
        let contained = all.iter().any(|process| process.name == "conmon");
        let own = [" guard ", " null "].into_iter().chain(contained.then_some(" drive "));
        let own: Vec<&str> = own.collect();
        let is_own = |process: &Process| own.iter().any(|words| process.command.contains(words));
        assert!(
            all.iter().all(|process| process.user != 0 || is_own(process)),
            "{all:#?}"
        );
    }
}

/// The configured listening addresses of each server of this name, in the first round of the newest run.
pub fn addresses(lasthop: &Lasthop, service: &str) -> Vec<String> {
    let place = |folder: PathBuf| -> Value {
        serde_json::from_str(&fs::read_to_string(folder.join("place.json")).unwrap()).unwrap()
    };
    let address = |folder| place(folder)["endpoint"]["address"].clone();
    let only = |address: Value| {
        address
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .as_str()
            .unwrap()
            .into()
    };
    folders(lasthop, service).into_iter().map(address).map(only).collect()
}

/// The service's folders in the newest record, for the first round.
fn folders(lasthop: &Lasthop, service: &str) -> Vec<PathBuf> {
    let round = lasthop.runs().pop().unwrap().join("services/0");
    let stacks = fs::read_dir(round)
        .unwrap()
        .map(|entry| entry.unwrap().path().join(service));
    stacks.filter(|folder| folder.is_dir()).collect()
}

/// A process of a run.
#[derive(Debug)]
struct Process {
    pid: i32,
    name: String,
    command: String,
    user: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        signal(&self.child, libc::SIGINT);
        let _ = self.child.wait();
        self.lasthop.wait_until_gone();
    }
}

const REDIS_ATTACKS: [&[&str]; 12] = [
    &["PING"],
    &["FLUSHALL"],
    &["REPLICAOF", "127.0.0.1", "1"],
    &["EVAL", "return 1", "0"],
    &["SAVE"],
    &["CONFIG", "SET", "dir", "/tmp"],
    &["MODULE", "LOAD", "/tmp/x.so"],
    &["DEBUG", "JMAP"],
    &["ACL", "SETUSER", "default", "on"],
    &["SHUTDOWN", "NOSAVE"],
    &["KEYS", "*"],
    &["GET", "lasthop"],
];

/// Whether Redis refuses a command, by the rules of the user or to everybody.
fn is_refused(said: &str) -> bool {
    said.contains("NOPERM") || said.contains("command not allowed")
}

#[test]
fn redis_does_nothing_for_another_user() {
    needs!(have("redis-server"), can_be_somebody_else());
    let one = words("redis --only command=GET --only pipeline=1 --only transport=tcp");
    let running = Running::start(&one);
    running.only_lasthop_is_root(&["redis-server"]);
    let address = running.addresses("redis").pop().unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let ask = |user: &[&str], words: &[&str], password: &[(&str, &str)]| {
        let at = ["-h", host, "-p", port];
        stranger("/usr/bin/redis-cli", &[&at, user, words].concat(), password)
    };
    for attack in REDIS_ATTACKS {
        let said = ask(&[], attack, &[]);
        assert!(said.contains("NOAUTH") || is_refused(&said), "{attack:?}: {said}");
    }
    for guess in ["lasthop", "", "redis"] {
        let said = ask(&["--user", "lasthop"], &["PING"], &[("REDISCLI_AUTH", guess)]);
        assert!(!said.contains("PONG"), "{guess}: {said}");
    }
    // Even the driver's own user has only the rights that the load needs.
    let secret = redis_password(&running);
    let known = [("REDISCLI_AUTH", secret.as_str())];
    assert_eq!(ask(&["--user", "lasthop"], &["GET", "lasthop"], &known).trim(), "xxx");
    for attack in REDIS_ATTACKS
        .into_iter()
        .filter(|attack| !matches!(attack[0], "PING" | "GET"))
    {
        let said = ask(&["--user", "lasthop"], attack, &known);
        assert!(is_refused(&said), "{attack:?}: {said}");
    }
    // The secret is on no command line.
    assert!(
        running
            .processes()
            .iter()
            .all(|process| !process.command.contains(&secret))
    );
}

/// The password, which root can read in the record.
fn redis_password(running: &Running) -> String {
    let folder = running.folders("redis").pop().unwrap();
    let text = fs::read_to_string(folder.join("redis.conf")).unwrap();
    let (_, rest) = text.split_once("user lasthop on >").unwrap();
    let secret = rest.split(' ').next().unwrap().to_owned();
    assert!(
        secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_lowercase()),
        "{secret}"
    );
    secret
}

/// The program does not run as root, and the folder is not opened to others.
#[test]
fn a_program_in_a_closed_folder_runs_without_rights_all_the_same() {
    needs!(have("redis-server"), can_be_somebody_else());
    let folder = TempDir::new().unwrap();
    let (bin, own) = (folder.path().join("bin"), folder.path().join("lasthop"));
    fs::create_dir(&bin).unwrap();
    for name in ["redis-server", "redis-cli"] {
        fs::copy(Path::new("/usr/bin").join(name), bin.join(name)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_lasthop"), &own).unwrap();
    fs::write(folder.path().join("secret"), "").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let given = |name: &str, path: &Path| format!("--program={name}={}", path.display());
    let redis = given("redis", &bin.join("redis-server"));
    for (server, reached, arguments) in [
        (
            "redis-server",
            "bin",
            ["redis", "--only=command=GET", "--only=transport=tcp,unix", &redis],
        ),
        (
            "lasthop",
            "lasthop",
            [
                "sockets",
                "--only=pattern=echo",
                "--only=transport=unix",
                &given("lasthop", &own),
            ],
        ),
    ] {
        let running = Running::start(&arguments);
        running.only_lasthop_is_root(&[server]);
        let server = running
            .processes()
            .into_iter()
            .find(|process| process.user != 0)
            .unwrap();
        let seen = fs::read_dir(format!("/proc/{}/root{}", server.pid, folder.path().display())).unwrap();
        let seen: Vec<String> = seen
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(seen, [reached]);
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    }
}

/// As with a virtual environment below /root: the program is a script, whose interpreter is in the closed folder, too.
#[test]
fn a_script_of_an_environment_in_a_closed_folder_runs_all_the_same() {
    const SERVER: &str = r#"
import socket, sys, threading

def talk(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello")

if sys.argv[1] == "unix":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()
else:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"#;
    const EXPERIMENT: &str = r#"
title = "in a closed folder"
question = "By Unix socket or by TCP?"

[link]
from = "driver"
to = "web"

[factors.transport]
help = "how clients reach it"
levels = ["unix", "tcp"]
reference = "tcp"

[services.web]
command = ["PROGRAM", "{{ listen }}"]
bind.unix.arguments = ["unix", "{{ listen.path }}"]
bind.tcp.arguments = ["tcp", "{{ listen.port }}"]

[load]
target = "web"
protocol = "http"

[load.http]
path = "/"
expect = { status = 200, body = "Hello" }
"#;
    needs!(have("python3"), can_be_somebody_else());
    let folder = TempDir::new().unwrap();
    let environment = folder.path().join("venv");
    let mut made = Command::new("python3");
    made.args(["-m", "venv", "--without-pip"]).arg(&environment);
    if !made.status().unwrap().success() {
        skip("python3 makes no virtual environments here");
        return;
    }
    let program = environment.join("bin/web");
    let text = format!("#!{}\n{SERVER}", environment.join("bin/python3").display());
    executable(&program, &text);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let lasthop = Lasthop::new();
    let stack = lasthop.home().join("stack");
    fs::create_dir(&stack).unwrap();
    let experiment = EXPERIMENT.replace("PROGRAM", &program.display().to_string());
    fs::write(stack.join("experiment.toml"), experiment).unwrap();
    lasthop.run(["new", "--check", "./stack"]).ok();
    assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    // Its interpreter is gone: the message says so, and not that the script is missing.
    fs::remove_file(environment.join("bin/python3")).unwrap();
    let ran = lasthop.run(["new", "--check", "./stack"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let said = common::one_line(&format!("{}{}", ran.stdout, ran.stderr));
    assert!(
        said.contains("is there, but not what it starts with")
            && said.contains("`nobody`, as whom it runs, cannot see it"),
        "{said}"
    );
}

/// Recipe, the program that its test needs, experiment with its choices, and names of processes.
const SERVERS: &str = "\
redis | redis-server | redis --only=command=GET --only=pipeline=1 | redis-server
memcached | memcached | memcached --only=command=get --only=pipeline=1 | memcached
postgres | postgres | postgres --only=work=query | postgres
mariadb | mariadbd | mariadb --only=work=query | mariadbd
clamd | clamd | clamd --only=command=ping | clamd
pgpool | pgpool | pgpool --only=work=query --only=transport=unix | postgres pgpool
gunicorn | nginx | nginx-gunicorn --only=transport=unix | nginx gunicorn
php-fpm | nginx | php-fpm --only=connections=1 | nginx php-fpm8.2
nginx | nginx | file-transfer | nginx gunicorn
thin | thin | nginx-thin | nginx thin
uwsgi | uwsgi | nginx-uwsgi --only=connections=1 | nginx uwsgi
puma | puma | nginx-puma --only=connections=1 | nginx puma
go-http | go | nginx-go --only=connections=1 | nginx server
grpc-go | go | grpc --only=language=go --only=streams=1 | server
grpc-python | python3 | grpc --only=language=python --only=streams=1 | python3
java | java | java-postgres --only=statements=1 --only=transport=unix | java postgres
statsd-exporter | statsd_exporter | datagrams --only=receiver=statsd-exporter | statsd_exporter
node | node | nginx-node --only=connections=1 | nginx node
apache | apache2 | fronts --only=front=apache | apache2 node
caddy | caddy | fronts --only=front=caddy | caddy node
varnish | varnishd | fronts --only=front=varnish | varnishd cache-main node
pgbouncer | pgbouncer | pgbouncer --only=work=query --only=transport=unix | postgres pgbouncer
haproxy | haproxy | containers --only=path=no-container-unix --only=front=haproxy | haproxy nginx
lasthop-serve | sh | sockets | lasthop
python-sockets | python3 | sockets --only=implementation=python | python3";

/// Recipes only for containers, or with too large a download for every machine.
const ELSEWHERE: [&str; 2] = ["supervisor", "cockroachdb"];

#[test]
fn no_server_is_root() {
    needs!(can_be_somebody_else());
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("services"))
        .unwrap()
        .flatten();
    let recipes = folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap());
    let parts = |row: &'static str| row.split(" | ").collect::<Vec<_>>().try_into().unwrap();
    let servers: Vec<[&str; 4]> = SERVERS.lines().map(parts).collect();
    let tested: BTreeSet<&str> = servers.iter().map(|server| server[0]).chain(ELSEWHERE).collect();
    assert_eq!(
        recipes.collect::<BTreeSet<_>>(),
        tested.into_iter().map(str::to_owned).collect()
    );
    for [_, program, run, processes] in servers {
        let arguments = words(run);
        let python = ["nginx-gunicorn", "file-transfer", "containers"].contains(&arguments[0]);
        if have(program) && (!python || have_python(arguments[0])) {
            Running::start(&arguments).only_lasthop_is_root(&words(processes));
        }
    }
}

#[test]
fn no_other_user_reaches_a_unix_socket() {
    needs!(have("redis-server"), can_be_somebody_else());
    let one = words("redis --only command=GET --only pipeline=1 --only transport=unix");
    let running = Running::start(&one);
    running.only_lasthop_is_root(&["redis-server"]);
    let socket = running.addresses("redis").pop().unwrap();
    let said = stranger("/usr/bin/redis-cli", &["-s", &socket, "PING"], &[]);
    assert!(said.contains("Permission denied"), "{said}");
    let said = stranger(
        "/bin/ls",
        &[Path::new(&socket).parent().unwrap().to_str().unwrap()],
        &[],
    );
    assert!(said.contains("Permission denied"), "{said}");
}

/// Binds every abstract name by which lasthop holds spans of ports, and prints a line.
const HOLD_NAMES: &str = r#"
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
os.setgid(65533)
os.setuid(65533)
held = []
for first in range(0, 65536, 16):
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    held[-1].bind(f"\0lasthop-ports-{first}")
print("held", flush=True)
sys.stdin.read()
"#;

/// Locks every span, as runs of the same user would.
const HOLD_LOCKS: &str = r#"
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"#;

/// A Python script that holds names or locks until dropped, in a network namespace that it shares with others.
struct Holder {
    child: Child,
}

impl Holder {
    fn start(mut command: Command, script: &str, arguments: &[&Path]) -> Self {
        command.args(["/usr/bin/python3", "-c", script]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 4];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Self { child }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Anybody may bind abstract names. The error names the user's own processes that do.
#[test]
fn another_user_who_holds_all_names_of_ports_stops_no_run() {
    needs!(
        have("unshare"),
        have("nsenter"),
        have("python3"),
        can_be_somebody_else()
    );
    let mut apart = Command::new("unshare");
    apart.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    let names = Holder::start(apart, HOLD_NAMES, &[]);
    let inside = || {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", names.child.id()));
        command
    };
    let lasthop = Lasthop::new();
    let run = |transports: &str| {
        let words = format!(
            "run sockets --only=pattern=echo --only=transport={transports} --trial=10ms --blocks=1 --rounds=1 \
             --budget=30s --no-headroom -q"
        );
        let own = lasthop.command(words.split(' '));
        let mut command = inside();
        command.arg(own.get_program()).args(own.get_args()).current_dir("/");
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    // Two runs of one user do not use the same ports then either.
    let both = [(); 2].map(|()| {
        run("tcp,unix")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for ran in both.map(|child| Ran::from(child.wait_with_output().unwrap())) {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    let locks = Holder::start(inside(), HOLD_LOCKS, &[&lasthop.home().join("ports")]);
    // A run without TCP needs no port.
    Ran::from(run("unix").output().unwrap()).ok();
    let ran = Ran::from(run("tcp,unix").output().unwrap());
    let holder = format!(
        "your other runs of lasthop hold them all, such as process {} (python3)",
        locks.child.id()
    );
    ran.fails(1, &holder);
    drop(locks);
    lasthop.wait_until_gone();
}

fn psql(address: &str, statement: &str, password: &str) -> String {
    let (host, port) = address.split_once(':').unwrap();
    let arguments = [
        "-h", host, "-p", port, "-U", "lasthop", "-w", "-X", "-A", "-t", "-c", statement, "lasthop",
    ];
    stranger("/usr/bin/psql", &arguments, &[("PGPASSWORD", password)])
}

#[test]
fn postgresql_lets_nobody_in_where_connecting_is_not_measured() {
    needs!(have("postgres"), can_be_somebody_else());
    let running = Running::start(&["postgres", "--only", "work=query", "--only", "transport=tcp"]);
    running.only_lasthop_is_root(&["postgres"]);
    let address = running.addresses("postgres").pop().unwrap();
    for guess in ["lasthop", "postgres", ""] {
        let said = psql(&address, "SELECT 7 * 6", guess);
        assert!(said.lines().all(|line| line.trim() != "42"), "{guess}: {said}");
        let authentication = said.contains("password authentication failed") || said.contains("no password supplied");
        assert!(authentication, "{guess}: {said}");
    }
}

/// If connections without a password are measured, others can connect too, but read nothing, because there is no data.
#[test]
fn whom_postgresql_trusts_may_change_nothing() {
    needs!(have("postgres"), can_be_somebody_else());
    let one = words("postgres --only work=connect --only auth=trust --only transport=tcp");
    let running = Running::start(&one);
    let address = running.addresses("postgres").pop().unwrap();
    assert_eq!(psql(&address, "SELECT 7 * 6", "").trim(), "42");
    for attack in [
        "CREATE TABLE t (x int)",
        "CREATE TEMP TABLE t (x int)",
        "CREATE SCHEMA s",
        "CREATE ROLE another",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "SELECT pg_cancel_backend(pg_backend_pid())",
        "SELECT pg_read_file('postgresql.conf')",
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/tmp/lasthop-x'",
        "ALTER SYSTEM SET fsync = on",
        "SELECT rolpassword FROM pg_authid",
    ] {
        let said = psql(&address, attack, "");
        let refused = said.contains("permission denied") || said.contains("must be superuser");
        assert!(said.contains("ERROR") && refused, "{attack}: {said}");
    }
}

/// The report names the servers that others could reach, and no more.
#[test]
fn the_report_says_who_trusted_everybody() {
    needs!(have("postgres"));
    let lasthop = Lasthop::new();
    let mut arguments = words("run postgres --only work=connect --budget 8s --trial 30ms");
    arguments.extend(["--blocks", "1", "--format", "json"]);
    let summary = lasthop.run(arguments).ok().json();
    let open = list(&summary["checks"])
        .iter()
        .filter(|check| check["id"] == "open-to-everybody");
    let mut cases: Vec<&str> = open.map(|check| check["case"].as_str().unwrap()).collect();
    cases.sort_unstable();
    assert_eq!(cases, ["tcp/auth=trust", "tls/auth=trust"], "{}", summary["checks"]);
}

/// PostgreSQL refuses to run as root; the account that it gets reaches its files all the same.
#[test]
fn a_sandbox_that_is_closed_to_others_does() {
    needs!(have("postgres"));
    let lasthop = Lasthop::new();
    fs::set_permissions(lasthop.sandboxes(), fs::Permissions::from_mode(0o700)).unwrap();
    lasthop.brief("postgres", &["--only", "work=query"]);
}
