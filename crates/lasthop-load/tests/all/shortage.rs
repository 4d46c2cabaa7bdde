//! Shortages: of local ports, of places in a listener's backlog, of open files. Each is named, never hidden.

use crate::common;

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{net::UnixStream, process::CommandExt as _},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use common::{Running, SHORT, With, echo, run, skip, spec};
use lasthop_load::{engine::Case, serve::Pattern};
use lasthop_protocol::wire::{Stage, TrialPhases};
use lasthop_trial::{
    address::{Address, Endpoint, Transport},
    options::{Engine, Reuse},
    result::ErrorClass,
};

/// Set in the child process that owns a network namespace.
const INSIDE: &str = "LASTHOP_TEST_NAMESPACE";

/// Runs the named test of this program again in a network namespace of its own; true within that run.
fn in_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        raise_loopback();
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    // SAFETY: asks for the user, without side effects.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: between fork and exec only system calls are made, on texts prepared here.
    unsafe { again.pre_exec(move || enter_namespace(uid, gid)) };
    match again.status() {
        Ok(status) => assert!(status.success(), "within the namespace: {status}"),
        Err(error) => return skip(&format!("no network namespace is to be had: {error}")),
    }
    false
}

fn enter_namespace(uid: u32, gid: u32) -> std::io::Result<()> {
    let user = if uid == 0 { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: the call has no preconditions.
    if unsafe { libc::unshare(libc::CLONE_NEWNET | user) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if uid != 0 {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    Ok(())
}

fn raise_loopback() {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: `request` is valid for the call, which sets the flags of an interface of this test's own namespace.
    let result = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SIOCSIFFLAGS,
            &raw const request,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn sysctl(name: &str, value: &str) {
    fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
}

#[test]
fn ports_run_out_by_name_and_a_trial_waits_for_them() {
    if !in_own_network("shortage::ports_run_out_by_name_and_a_trial_waits_for_them") {
        return;
    }
    // Ports are scarce per server: ports taken towards the first server are free towards the second.
    let servers =
        [Engine::Blocking, Engine::Epoll].map(|engine| (engine, Running::start(Pattern::Echo, Transport::Tcp)));
    sysctl("ip_local_port_range", "40000 40063");
    for (engine, server) in &servers {
        let engine = *engine;
        // No reuse: 64 ports are 64 connections.
        sysctl("tcp_tw_reuse", "0");
        let spec = spec(&server.endpoint, echo(64)).engine(engine).reuse(Reuse::PerRequest);
        let phases = TrialPhases::without_warm_up(400_000_000);
        let mut case = Case::prepare(&spec).unwrap();
        let first = case.trial(phases).unwrap();
        let short = &first.errors[&ErrorClass::NoPort];
        assert_eq!(first.errors.len(), 1, "{:?}", first.errors);
        assert!(short.first.contains("no local port is left"), "{}", short.first);
        let ports = first.ports.unwrap();
        assert_eq!(ports.range, 64);
        assert!((16..=64).contains(&ports.left_before), "{ports:?}");
        assert!(first.requests_total <= 64, "{ports:?} {}", first.requests_total);
        assert!(ports.time_wait_peak >= first.requests_total, "{ports:?}");
        // Each port can be reused after a second: the next trial waits for that, and reports it.
        sysctl("tcp_tw_reuse", "1");
        let second = case.trial(phases).unwrap();
        let ports = second.ports.unwrap();
        assert!(ports.waited_ns > 0 && ports.left_before > 16, "{ports:?}");
        assert!(second.requests_total > 0, "{:?}", second.errors);
    }
}

#[test]
fn ports_are_no_matter_where_none_are_used_up() {
    let server = Running::start(Pattern::Echo, Transport::Unix);
    let unix = run(&spec(&server.endpoint, echo(64)).reuse(Reuse::PerRequest), SHORT).unwrap();
    assert_eq!(unix.ports, None);
    let server = Running::start(Pattern::Echo, Transport::Tcp);
    assert_eq!(run(&spec(&server.endpoint, echo(64)), SHORT).unwrap().ports, None);
}

/// A server with a backlog of one, which stops accepting when told.
struct Choosy {
    endpoint: Endpoint,
    accepts: Arc<AtomicBool>,
    /// Set when no more connections will be accepted.
    done: Arc<AtomicBool>,
    folder: tempfile::TempDir,
}

fn choosy() -> Choosy {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(1).unwrap();
    let (accepts, done) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (going_on, ended) = (accepts.clone(), done.clone());
    thread::spawn(move || {
        // Once told to stop, the thread parks for good: the listener stays open, and full.
        while going_on.load(SeqCst) {
            let (mut peer, _) = listener.accept().unwrap();
            let mut message = [0; 64];
            ended.store(!going_on.load(SeqCst), SeqCst);
            while peer.read_exact(&mut message).is_ok() && peer.write_all(&message).is_ok() {}
        }
        ended.store(true, SeqCst);
        loop {
            thread::park();
        }
    });
    Choosy {
        done,
        endpoint: Endpoint::plain(Address::Unix(path)),
        accepts,
        folder,
    }
}

impl Choosy {
    /// Stops accepting, and fills the backlog until no further connect succeeds.
    fn close(&self) -> Vec<UnixStream> {
        self.accepts.store(false, SeqCst);
        let mut inside = Vec::new();
        loop {
            let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let was_done = self.done.load(SeqCst);
            match socket.connect(&socket2::SockAddr::unix(self.folder.path().join("s")).unwrap()) {
                Ok(()) => inside.push(std::os::fd::OwnedFd::from(socket).into()),
                Err(_) if was_done => return inside,
                Err(_) => thread::yield_now(),
            }
        }
    }
}

#[test]
fn a_full_backlog_is_named_alike_by_both_engines() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = choosy();
        let spec = spec(&server.endpoint, echo(64)).engine(engine).reuse(Reuse::PerRequest);
        let mut case = Case::prepare(&spec).unwrap();
        assert!(case.trial(SHORT).is_ok_and(|result| result.error_total() == 0));
        let _inside = server.close();
        let error = case.trial(SHORT).map(drop).unwrap_err();
        assert_eq!(error.stage, Stage::Trial);
        assert!(
            error.cause.contains("the listener's backlog is full"),
            "{engine:?}: {error}"
        );
    }
}

#[test]
fn a_full_backlog_is_waited_for_when_connections_are_opened() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = choosy();
        let _inside = server.close();
        let mut spec = spec(&server.endpoint, echo(64)).engine(engine);
        spec.timeouts.connect_ns = 100_000_000;
        let begin = std::time::Instant::now();
        let error = Case::prepare(&spec).map(drop).unwrap_err();
        assert!(
            error.cause.contains("the listener's backlog is full"),
            "{engine:?}: {error}"
        );
        assert!(begin.elapsed().as_nanos() >= 100_000_000, "it was waited for");
    }
}

#[test]
fn too_many_connections_for_the_limit_of_open_files_are_refused_with_words() {
    let server = Running::start(Pattern::Echo, Transport::Unix);
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call to fill.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_max > 65_000 {
        return; // The limit allows every number of connections that a specification may have.
    }
    let error = Case::prepare(&spec(&server.endpoint, echo(64)).connections(65_535))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.stage, Stage::Spec);
    assert!(error.cause.contains("open files"), "{error}");
}
