//! The runs of `lasthop survey --measure`.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::Child,
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    common::{Lasthop, Ran, eventually, have, needs, shows, signal},
    compare::folder,
    load_peers::{Server, free_port, redis_with},
};

/// A Redis that listens at a port and at a path.
struct Redis {
    port: u16,
    folder: TempDir,
    server: Server,
}

impl Redis {
    fn start() -> Self {
        let (port, folder) = (free_port(), folder());
        let socket = folder.path().join("redis.sock");
        let options = format!("--bind 127.0.0.1 --port {port} --unixsocket {}", socket.display());
        let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        Self {
            port,
            server: redis_with(folder.path(), &options, is_up),
            folder,
        }
    }

    /// The number of executed commands, asked over the path that the survey does not watch.
    fn answered(&self) -> u64 {
        commands(UnixStream::connect(self.folder.path().join("redis.sock")).unwrap())
    }

    /// A survey with `--measure` while a driver loads the server over TCP at a rate.
    fn surveyed(&self, lasthop: &Lasthop) -> Ran {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let fixed = ["--command", "PING", "-c", "4", "--rate", "5000", "-d", "5m", "--quiet"];
        let driver: Child = lasthop.start([&["load", &url], &fixed[..]].concat());
        is_loaded(|| self.answered(), 2_000);
        let only = format!(":{}", self.port);
        let survey = ["survey", "--for", "2s", "--quiet", "--only", &only, "--format", "json"];
        let ran = lasthop.run([&survey[..], &["--measure", "--budget", "15s"]].concat());
        signal(&driver, libc::SIGINT);
        Server(driver);
        ran
    }
}

/// Waits until a server has answered so many further requests. The connections by which the driver tries the server
/// have then ended.
pub fn is_loaded(answered: impl Fn() -> u64, requests: u64) {
    let before = answered();
    eventually("a loaded server", || {
        // Rarely, because asking may be a request, too.
        thread::sleep(Duration::from_millis(50));
        answered() >= before + requests
    });
}

/// The number of commands that a Redis has executed, including this one.
pub fn commands(mut connection: impl Read + Write) -> u64 {
    connection.write_all(b"INFO stats\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    connection.read_to_string(&mut reply).unwrap();
    let (_, rest) = reply.split_once("total_commands_processed:").unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

/// The run starts its own server, and leaves the surveyed server alone.
#[test]
fn what_is_not_known_is_measured() {
    needs!(have("redis-server"));
    let (mut redis, lasthop) = (Redis::start(), Lasthop::new());
    let ran = redis.surveyed(&lasthop);
    shows(&ran.stderr, ["they share the CPUs with what runs: redis (redis; 15s)"]);
    assert_eq!(lasthop.runs().len(), 1, "{}", ran.stderr);
    // On a busy machine the run may have no result in that time, and says so.
    let measured = !ran.stderr.contains("redis ended undecided: `lasthop report ");
    assert_eq!(ran.code, Some(i32::from(!measured)), "{}", ran.stderr);
    let outlook = &ran.json()["links"][0]["outlook"];
    if measured {
        assert_eq!(outlook["saving"]["here"], true, "{outlook:#}");
        let again = redis.surveyed(&lasthop).ok();
        shows(&again.stderr, ["there is no experiment to run"]);
    }
    assert!(
        redis.server.0.try_wait().unwrap().is_none(),
        "the server that was surveyed has ended"
    );
}
