//! Ten thousand connections in one process, with lasthop's own server for many in another.

mod common;

use std::{
    io::{BufRead as _, BufReader, Lines, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use common::{SHORT, echo, run, spec};
use lasthop_load::{
    engine::Case,
    serve::{Pattern, ServeSpec, Server},
};
use lasthop_protocol::{
    spec::{Address, Endpoint, Reuse, Spec, Transport},
    wire::TrialPhases,
};

/// Set in the child process that serves: the transport, and the path of the socket.
const SERVE: &str = "LASTHOP_TEST_SERVE";
const CONNECTIONS: u32 = 10_000;
/// One test at a time: the memory that is compared is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

struct Serving {
    child: Child,
    endpoint: Endpoint,
    _said: Lines<BufReader<ChildStdout>>,
    _folder: tempfile::TempDir,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The server ends when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// This test program again, as a server.
fn serving(transport: Transport) -> Serving {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ten_thousand_connections_are_held_and_driven", "--nocapture"])
        .env(SERVE, format!("{transport} {}", path.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines
        .by_ref()
        .find_map(|line| line.unwrap().split_once("listening on ").map(|said| said.1.to_owned()))
        .unwrap();
    let address = if transport.is_unix() { Address::Unix(path) } else { Address::Tcp(said.parse().unwrap()) };
    Serving { child, endpoint: Endpoint { address, tls: None }, _said: lines, _folder: folder }
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn serve(what: &str) {
    let (transport, path) = what.split_once(' ').unwrap();
    let address =
        if transport == "unix" { Address::Unix(path.into()) } else { Address::Tcp("127.0.0.1:0".parse().unwrap()) };
    let spec = ServeSpec { backlog: 4096, ..ServeSpec::new(Pattern::Echo, address) };
    let server = Server::bind(&spec).unwrap();
    let stopper = server.stopper().unwrap();
    let said = if let Address::Tcp(tcp) = server.address() { tcp.to_string() } else { path.to_owned() };
    println!("\nlistening on {said}");
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    server.run_many().unwrap();
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are of interest")]
fn ten_thousand_connections_are_held_and_driven() {
    if let Ok(what) = std::env::var(SERVE) {
        return serve(&what);
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let connections = CONNECTIONS.min(u32::try_from(limit.rlim_max).unwrap_or(u32::MAX).saturating_sub(200));
    for transport in [Transport::Unix, Transport::Tcp] {
        let server = serving(transport);
        let few = Spec { connections: 2, ..spec(&server.endpoint, echo(64)) };
        drop(run(&few, SHORT).unwrap());
        let before = resident();
        let mut case = Case::prepare(&Spec { connections, ..few }).unwrap();
        let phases = TrialPhases { warm_up_ns: 50_000_000, measure_ns: 300_000_000 };
        // Trials until each connection had a turn, however slow the machine is.
        let mut requests = 0;
        while requests < u64::from(connections) {
            let result = case.trial(phases).unwrap();
            println!("{transport}: {connections} connections, {} requests/s", result.throughput());
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            assert!(result.requests_total > 0, "the connections stand still");
            requests += result.requests_total;
        }
        let each = resident().saturating_sub(before) / u64::from(connections);
        println!("{transport}: {each} bytes for a connection");
        assert!(each <= 4096, "{each} bytes per connection");
    }
}

#[test]
fn the_server_for_many_takes_messages_of_any_size_and_pipelines() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for transport in [Transport::Unix, Transport::Tcp] {
        let server = serving(transport);
        for (size, pipeline, connections) in [(64, 1, 1), (64, 16, 3), (1 << 20, 1, 3), (100_000, 8, 2)] {
            for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
                let pipeline = if reuse == Reuse::PerRequest { 1 } else { pipeline };
                let spec = Spec { connections, pipeline, reuse, ..spec(&server.endpoint, echo(size)) };
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
                assert_eq!(result.error_total(), 0, "{:?}", result.errors);
                assert_eq!(result.bytes_received, result.requests * u64::from(size));
            }
        }
    }
}
