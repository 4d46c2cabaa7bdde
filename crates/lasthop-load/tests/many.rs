//! Ten thousand connections in one process, with a server on one thread in another.

mod common;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, ErrorKind, Lines, Read as _, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use common::{SHORT, With, echo, run, spec};
use lasthop_load::engine::Case;
use lasthop_protocol::wire::TrialPhases;
use lasthop_trial::address::{Address, Endpoint, Transport};
use rustix::{buffer::spare_capacity, event::epoll};
use socket2::Socket;

/// Set in the child process that serves: the transport, and the path of the socket.
const SERVE: &str = "LASTHOP_TEST_SERVE";
const CONNECTIONS: u32 = 10_000;

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

/// Starts this test program again, as a server.
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
    let address = if transport.is_unix() {
        Address::Unix(path)
    } else {
        Address::Tcp(said.parse().unwrap())
    };
    Serving {
        child,
        endpoint: Endpoint::plain(address),
        _said: lines,
        _folder: folder,
    }
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn serve(what: &str) {
    let (transport, path) = what.split_once(' ').unwrap();
    let address = if transport == "unix" {
        Address::Unix(path.into())
    } else {
        Address::Tcp("127.0.0.1:0".parse().unwrap())
    };
    let listener = Socket::new(address.domain(), address.kind(), None).unwrap();
    listener.bind(&address.socket_name().unwrap()).unwrap();
    listener.listen(4096).unwrap();
    let tcp = listener.local_addr().unwrap().as_socket();
    println!(
        "\nlistening on {}",
        tcp.map_or_else(|| path.to_owned(), |tcp| tcp.to_string())
    );
    thread::spawn(move || echo_to_all(&listener));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Bytes still to be sent back to a client.
type Unsent = Vec<u8>;

/// Echoes all bytes on every connection, on this thread. A buffer exists only while it holds bytes.
fn echo_to_all(listener: &Socket) {
    const LISTENER: u64 = u64::MAX;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let watch = |socket: &Socket, name| {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&epoll, socket, epoll::EventData::new_u64(name), flags).unwrap();
    };
    listener.set_nonblocking(true).unwrap();
    watch(listener, LISTENER);
    let mut connections: HashMap<u64, (Socket, Unsent)> = HashMap::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 256 * 1024];
    for next in 0.. {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None).unwrap();
        for name in events.iter().map(|event: &epoll::Event| event.data.u64()) {
            if let Some((socket, unsent)) = connections.get_mut(&name)
                && !matches!(send_back(socket, unsent, &mut buffer), Ok(true))
            {
                connections.remove(&name);
            }
        }
        for (at, (socket, _)) in std::iter::from_fn(|| listener.accept().ok()).enumerate() {
            let name = (next << 32) + at as u64;
            socket.set_nonblocking(true).unwrap();
            watch(&socket, name);
            connections.insert(name, (socket, Unsent::new()));
        }
    }
}

/// Reads and writes until the socket would block; false when the client has closed.
fn send_back(mut socket: &Socket, unsent: &mut Unsent, buffer: &mut [u8]) -> std::io::Result<bool> {
    let done = |error: std::io::Error| {
        if error.kind() == ErrorKind::WouldBlock {
            Ok(true)
        } else {
            Err(error)
        }
    };
    loop {
        while !unsent.is_empty() {
            match socket.write(unsent) {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(error) => return done(error),
            }
        }
        *unsent = Unsent::new();
        match socket.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => unsent.extend_from_slice(&buffer[..count]),
            Err(error) => return done(error),
        }
    }
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
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call to fill.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let connections = CONNECTIONS.min(u32::try_from(limit.rlim_max).unwrap_or(u32::MAX).saturating_sub(200));
    for transport in [Transport::Unix, Transport::Tcp] {
        let server = serving(transport);
        // The last reply comes after the work of all others.
        let few = spec(&server.endpoint, echo(64))
            .connections(2)
            .timeouts_ms(60_000, 60_000);
        drop(run(&few, SHORT).unwrap());
        let before = resident();
        let mut case = Case::prepare(&few.connections(connections)).unwrap();
        let phases = TrialPhases {
            warm_up_ns: 50_000_000,
            measure_ns: 300_000_000,
        };
        // Trials until each connection has had a turn, however slow the machine is.
        let mut requests = 0;
        while requests < u64::from(connections) {
            let result = case.trial(phases).unwrap();
            println!(
                "{transport}: {connections} connections, {} requests/s",
                result.throughput()
            );
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            assert!(result.requests_total > 0, "the connections stand still");
            requests += result.requests_total;
        }
        let each = resident().saturating_sub(before) / u64::from(connections);
        println!("{transport}: {each} bytes for a connection");
        assert!(each <= 4096, "{each} bytes per connection");
    }
}
