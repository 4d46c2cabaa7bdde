//! The real servers, each in a private directory, on a socket and on a loopback port, all on the first CPU.

use std::{
    fs, io,
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixStream,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    Settings,
    scenario::{Scenario, Server},
    tool::command,
};

/// Debian's uid of `nobody`, who runs PostgreSQL and MariaDB if we are root.
const NOBODY: u32 = 65_534;

/// A running server. It ends when this value is dropped, or with this program.
struct Running {
    server: Server,
    /// The server's processes, one per address if a process can have only one.
    children: Vec<Child>,
    port: u16,
    folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // MariaDB ignores SIGINT; PostgreSQL needs it, so as not to wait for clients.
        let signal = if self.server == Server::Mariadb {
            libc::SIGTERM
        } else {
            libc::SIGINT
        };
        for child in &mut self.children {
            // SAFETY: a signal to a child that has not been waited for, so no other process has its pid.
            unsafe { libc::kill(child.id().cast_signed(), signal) };
            let _ = child.wait();
        }
    }
}

pub struct Servers(Vec<Running>);

const ALL: [Server; 11] = [
    Server::Http,
    Server::Http2,
    Server::Echo,
    Server::Pipe,
    Server::Postgres,
    Server::Mariadb,
    Server::Redis,
    Server::Memcached,
    Server::Grpc,
    Server::Statsd,
    Server::WebSocket,
];

impl Servers {
    /// Starts the servers that the scenarios need, and always HTTP, for the special measurements.
    pub fn start(settings: &Settings, scenarios: &[Scenario]) -> Result<Self, String> {
        let mut running = Vec::new();
        for server in ALL {
            let needed = server == Server::Http
                || (settings.is_wanted("sockperf") || settings.is_wanted("uring")) && server == Server::Echo
                || scenarios.iter().any(|scenario| scenario.server == server);
            if needed {
                running.push(start(settings, server).map_err(|error| format!("cannot start {server:?}: {error}"))?);
            }
        }
        Ok(Self(running))
    }

    fn running(&self, server: Server) -> &Running {
        self.0
            .iter()
            .find(|running| running.server == server)
            .expect("it was started")
    }

    pub fn socket(&self, server: Server) -> PathBuf {
        let running = self.running(server);
        socket(server, running.folder.path(), running.port)
    }

    pub fn folder(&self, server: Server) -> &Path {
        self.running(server).folder.path()
    }

    /// The process of a server with a single one.
    pub fn pid(&self, server: Server) -> u32 {
        self.running(server).children[0].id()
    }

    pub fn port(&self, server: Server) -> u16 {
        self.running(server).port
    }
}

/// The path of a server's socket. PostgreSQL names its socket itself.
fn socket(server: Server, folder: &Path, port: u16) -> PathBuf {
    if server == Server::Postgres {
        folder.join(format!(".s.PGSQL.{port}"))
    } else {
        folder.join("socket")
    }
}

fn start(settings: &Settings, server: Server) -> io::Result<Running> {
    let folder = tempfile::Builder::new().prefix("lhb").tempdir_in("/tmp")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (path, at) = (folder.path(), folder.path().display());
    let socket = socket(server, path, port);
    let commands = match server {
        Server::Http => vec![nginx(path, port, "")?],
        Server::Http2 => vec![nginx(path, port, " http2")?],
        Server::WebSocket => vec![websocket(path, port)?],
        Server::Redis => vec![redis(path, port)],
        Server::Postgres => vec![postgres(path, port)?],
        Server::Mariadb => vec![mariadb(path, port)?],
        Server::Statsd => vec![statsd(settings, path, port)],
        Server::Echo => vec![
            echo(settings, &format!("--unix {at}/socket")),
            echo(settings, &format!("--tcp 127.0.0.1:{port}")),
        ],
        Server::Pipe => vec![echo(settings, &format!("--unix {at}/socket --channel=pipe"))],
        Server::Memcached => vec![
            memcached(&format!("-s {at}/socket")),
            memcached(&format!("-l 127.0.0.1 -p {port}")),
        ],
        Server::Grpc => grpc(path, port)?,
    };
    let mut running = Running {
        server,
        children: Vec::new(),
        port,
        folder,
    };
    for mut command in commands {
        running.children.push(launch(&mut command)?);
    }
    wait_for(&mut running.children, || {
        // A server that only counts opens its TCP port once it can receive.
        let by_path = || server == Server::Statsd || UnixStream::connect(&socket).is_ok();
        let by_tcp = || server == Server::Pipe || TcpStream::connect(("127.0.0.1", port)).is_ok();
        by_path() && by_tcp()
    })?;
    if server == Server::Memcached {
        store(UnixStream::connect(&socket)?)?;
        store(TcpStream::connect(("127.0.0.1", port))?)?;
    }
    Ok(running)
}

/// Starts a program on the first CPU. The kernel ends the program when this one dies.
pub fn launch(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // A shell makes background processes ignore SIGINT, and servers would inherit that and not end.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            crate::tool::pin(0)
        })
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

pub fn wait_for(children: &mut [Child], ready: impl Fn() -> bool) -> io::Result<()> {
    let begin = Instant::now();
    while !ready() {
        for child in children.iter_mut() {
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("it ended at once: {status}")));
            }
        }
        if begin.elapsed() > Duration::from_secs(30) {
            return Err(io::Error::other("it is not ready after 30 s"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// nginx; `kind` is the protocol for `listen`.
fn nginx(folder: &Path, port: u16, kind: &str) -> io::Result<Command> {
    let at = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};"))
        .join(" ");
    let text = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/log; worker_rlimit_nofile 15000;\n\
         events {{ worker_connections 12000; }}\n\
         http {{ access_log off; keepalive_requests 2000000000; keepalive_timeout 600; {temporary}\n\
         server {{ listen unix:{at}/socket{kind} backlog=4096; listen 127.0.0.1:{port}{kind} backlog=4096; \
         location / {{ return 200 \"ok\\n\"; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text)?;
    Ok(command("/usr/sbin/nginx", &format!("-e {at}/log -c {at}/nginx.conf")))
}

fn redis(folder: &Path, port: u16) -> Command {
    let at = folder.display();
    let line = format!("--bind 127.0.0.1 --port {port} --unixsocket {at}/socket --dir {at} --save");
    let mut command = command("redis-server", &line);
    command.arg("");
    command
}

/// memcached, which listens on a path or on a port, never on both.
fn memcached(address: &str) -> Command {
    // Run as the current user, because the folder is closed to others.
    command("memcached", &format!("-u root -t 1 {address}"))
}

/// Stores the 100 bytes that every `get` finds.
fn store(mut server: impl io::Read + io::Write) -> io::Result<()> {
    write!(server, "set key 0 0 100\r\n{:100}\r\n", "")?;
    let mut reply = [0; 8];
    server.read_exact(&mut reply)?;
    if reply == *b"STORED\r\n" {
        Ok(())
    } else {
        Err(io::Error::other("the value was not stored"))
    }
}

/// The server of lasthop's recipe.
fn grpc(folder: &Path, port: u16) -> io::Result<Vec<Command>> {
    let program = compiled(
        folder,
        concat!(env!("CARGO_MANIFEST_DIR"), "/services/grpc-go/server.go"),
    )?;
    Ok(vec![
        command(&program, &format!("unix {}/socket", folder.display())),
        command(&program, &format!("tcp 127.0.0.1:{port}")),
    ])
}

/// A program that is its own client, too.
fn websocket(folder: &Path, port: u16) -> io::Result<Command> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/websocket/echo.go");
    let line = format!("serve unix {}/socket tcp 127.0.0.1:{port}", folder.display());
    Ok(command(compiled(folder, source)?, &line))
}

/// A Go program, compiled in this folder with the packages of the system.
fn compiled(folder: &Path, source: &str) -> io::Result<PathBuf> {
    let program = folder.join("server");
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(source);
    finished(build.envs([
        ("GO111MODULE", "off"),
        ("GOPATH", "/usr/share/gocode"),
        ("CGO_ENABLED", "0"),
    ]))?;
    Ok(program)
}

fn echo(settings: &Settings, address: &str) -> Command {
    command(&settings.lasthop, &format!("serve --pattern echo {address}"))
}

fn statsd(settings: &Settings, folder: &Path, port: u16) -> Command {
    let at = folder.display();
    let line = format!("serve --pattern statsd --counter 127.0.0.1:{port} --unixgram {at}/socket");
    command(&settings.lasthop, &line)
}

/// Programs run by an unprivileged user, which databases insist on, and a folder owned by that user.
fn unprivileged(folder: &Path) -> io::Result<impl Fn(&str, &str) -> Command> {
    let data = folder.join("data");
    fs::create_dir(&data)?;
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    // SAFETY: the call only returns a number.
    let root = unsafe { libc::geteuid() } == 0;
    if root {
        chown(folder, Some(NOBODY), Some(NOBODY))?;
        chown(&data, Some(NOBODY), Some(NOBODY))?;
    }
    let folder = folder.to_owned();
    Ok(move |program: &str, arguments: &str| {
        let mut command = command(program, arguments);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(&folder);
        command
    })
}

fn finished(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    let complaint = || io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned());
    if output.status.success() {
        Ok(())
    } else {
        Err(complaint())
    }
}

/// MariaDB with an account for everybody without a password, as on the other servers. Each connection has its thread.
fn mariadb(folder: &Path, port: u16) -> io::Result<Command> {
    let as_user = unprivileged(folder)?;
    let options = format!("--no-defaults --skip-name-resolve --datadir={}/data", folder.display());
    let init = format!("{options} --skip-test-db");
    finished(&mut as_user("/usr/bin/mariadb-install-db", &init))?;
    fs::write(
        folder.join("accounts.sql"),
        "CREATE DATABASE bench;\nCREATE USER bench;\nGRANT ALL ON bench.* TO bench;\n",
    )?;
    let at = folder.display();
    let line = format!(
        "{options} --bind-address=127.0.0.1 --port={port} --socket={at}/socket --pid-file={at}/pid \
         --init-file={at}/accounts.sql --innodb-use-native-aio=OFF"
    );
    Ok(as_user("/usr/sbin/mariadbd", &line))
}

fn postgres(folder: &Path, port: u16) -> io::Result<Command> {
    let (as_user, at) = (unprivileged(folder)?, folder.display());
    let init = format!("-U postgres -A trust -N --no-instructions -D {at}/data");
    finished(&mut as_user("/usr/lib/postgresql/15/bin/initdb", &init))?;
    let line = format!("-D {at}/data -k {at} -h 127.0.0.1 -p {port} -c fsync=off -c max_connections=40");
    Ok(as_user("/usr/lib/postgresql/15/bin/postgres", &line))
}
