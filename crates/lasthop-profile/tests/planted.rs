//! A server and a client with planted, known work: the profile shows it, in its layer and with its size.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lasthop_model::profile::{Profile, RoleProfile};
use lasthop_profile::{Profiler, Settings};
use rustix::thread::{CpuSet, UnshareFlags, sched_getaffinity, sched_setaffinity, unshare_unsafe};

const BYTES: usize = 64;

/// Work of a pair in each request.
#[derive(Clone, Copy, Default)]
struct Plan {
    requests: u64,
    /// Nanoseconds that the server computes.
    computes: u64,
    /// System calls of the server besides reading and writing.
    calls: u64,
}

/// A server and its client: processes that share a connection, and wait for a start signal.
struct Pair {
    children: [Child; 2],
    client: UnixStream,
}

/// Either side of a pair: this executable, started again by [`Pair::of`].
#[test]
#[ignore = "a process of the other tests"]
#[expect(clippy::exit, reason = "its input and output are not those of the harness")]
fn peer() {
    stay_on_one_cpu();
    let number = |name: &str| -> u64 { std::env::var(name).unwrap().parse().unwrap() };
    // SAFETY: the parent passes a connection as standard input, and a socket as standard output.
    let [mut connection, mut parent] = [0, 1].map(|fd| unsafe { UnixStream::from(OwnedFd::from_raw_fd(fd)) });
    let mut message = [0; BYTES];
    if std::env::var("SIDE").unwrap() == "client" {
        parent.read_exact(&mut [0]).unwrap();
        for _ in 0..number("REQUESTS") {
            connection.write_all(&message).unwrap();
            connection.read_exact(&mut message).unwrap();
        }
        parent.write_all(b"\ndone\n").unwrap();
        // Stays alive until the parent has looked at this process.
        let _ = parent.read(&mut [0]);
    } else {
        let (computes, calls) = (Duration::from_nanos(number("COMPUTES")), number("CALLS"));
        while connection.read_exact(&mut message).is_ok() {
            let begun = Instant::now();
            while begun.elapsed() < computes {}
            for _ in 0..calls {
                let _ = rustix::process::getppid();
            }
            connection.write_all(&message).unwrap();
        }
    }
    std::process::exit(0);
}

/// Pairs share a CPU: only one runs at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts both sides on one CPU: in a virtual machine, if one side lets a CPU idle, samples may be late.
fn stay_on_one_cpu() {
    let allowed = sched_getaffinity(None).unwrap();
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).unwrap();
}

impl Pair {
    fn of(connection: [OwnedFd; 2], plan: Plan) -> Self {
        let [server, client] = connection;
        let (parent, child) = UnixStream::pair().unwrap();
        let start = |side: &str, connection: OwnedFd, output: Stdio| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "peer", "--ignored", "--nocapture", "--test-threads=1"]);
            let numbers = [
                ("REQUESTS", plan.requests),
                ("COMPUTES", plan.computes),
                ("CALLS", plan.calls),
            ];
            command
                .envs(numbers.map(|(name, number)| (name, number.to_string())))
                .env("SIDE", side);
            command.stdin(connection).stdout(output).spawn().unwrap()
        };
        let children = [
            start("server", server, Stdio::null()),
            start("client", client, OwnedFd::from(child).into()),
        ];
        Self {
            children,
            client: parent,
        }
    }

    fn unix(plan: Plan) -> Self {
        let (server, client) = UnixStream::pair().unwrap();
        Self::of([server.into(), client.into()], plan)
    }

    fn tcp(plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for side in [&client, &server] {
            side.set_nodelay(true).unwrap();
        }
        Self::of([server.into(), client.into()], plan)
    }

    /// Runs all requests under observation; `beside` is called before and after.
    fn observed<T>(mut self, settings: Settings, beside: impl Fn(&Self) -> T) -> (Profile, [T; 2]) {
        let _turn = turn();
        let pids = self.children.each_ref().map(|child| child.id() as i32);
        let roles = [("server", pids[0]), ("driver", pids[1])].map(|(name, pid)| (name.to_owned(), vec![pid]));
        let mut lines = BufReader::new(self.client.try_clone().unwrap()).lines();
        let mut profiler = Profiler::open(&roles, settings).unwrap();
        // Both have printed the test harness's first lines, and wait.
        thread::sleep(Duration::from_millis(200));
        let before = beside(&self);
        profiler.start().unwrap();
        self.client.write_all(b"!").unwrap();
        assert!(lines.any(|line| line.unwrap() == "done"));
        let profile = profiler.stop().unwrap();
        let after = beside(&self);
        (profile, [before, after])
    }

    fn samples(self) -> Profile {
        self.observed(Settings::default(), |_| ()).0
    }

    fn counts(self) -> Profile {
        self.observed(counting(), |_| ()).0
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.client.shutdown(std::net::Shutdown::Both);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn counting() -> Settings {
    Settings {
        samples: false,
        counts: true,
        ..Settings::default()
    }
}

/// Nanoseconds of a layer in both roles and in the kernel, summed.
fn layer(profile: &Profile, id: &str) -> f64 {
    profile
        .roles
        .values()
        .map(|role| *role.layers.get(id).unwrap_or(&0) as f64)
        .sum()
}

fn unassigned(role: &RoleProfile) -> u64 {
    role.unassigned.iter().map(|(_, ns)| ns).sum()
}

fn sampled(role: &RoleProfile) -> u64 {
    role.layers.values().sum::<u64>() + unassigned(role)
}

fn near(found: f64, expected: f64, share: f64) -> bool {
    (found - expected).abs() <= share * expected
}

/// Retries with more requests: samples are few, and the machine may be busy.
fn holds(judge: impl Fn(u64) -> Result<(), String>) {
    let mut found = Vec::new();
    for requests in [100_000, 200_000, 400_000] {
        match judge(requests) {
            Ok(()) => return,
            Err(figures) => found.push(figures),
        }
    }
    panic!("{found:#?}");
}

fn check(holds: bool, figures: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(figures) }
}

#[test]
fn what_a_server_computes_is_in_its_program() {
    holds(|requests| {
        let plan = Plan {
            requests,
            ..Plan::default()
        };
        let without = Pair::unix(plan).samples();
        let with = Pair::unix(Plan {
            computes: 5_000,
            ..plan
        })
        .samples();
        let of = |profile: &Profile, role: &str| profile.roles[role].layers["program"] as f64 / requests as f64;
        let added = ["server", "driver"].map(|role| of(&with, role) - of(&without, role));
        check(
            near(added[0], 5_000.0, 0.15) && added[1].abs() < 500.0,
            format!("{added:?} ns"),
        )
    });
}

#[test]
fn layers_add_up_to_the_cpu_time_of_the_kernel() {
    holds(|requests| {
        let plan = Plan {
            requests,
            computes: 3_000,
            calls: 0,
        };
        let profile = Pair::tcp(plan).samples();
        let roles = ["server", "driver"].map(|name| &profile.roles[name]);
        for role in roles {
            let stacks: u64 = role.stacks.iter().map(|stack| stack.ns).sum();
            assert_eq!(
                stacks + role.truncated_ns,
                sampled(role),
                "stacks and layers are the same samples"
            );
        }
        // Summed over roles: if a wake-up preempts, the kernel begins the woken process's time before the switch.
        let sum = |of: fn(&RoleProfile) -> u64| roles.iter().map(|role| of(role) as f64).sum::<f64>();
        let [layers, cpu, rest] = [sum(sampled), sum(|role| role.cpu_ns), sum(unassigned)];
        let right = near(layers, cpu, 0.05) && rest <= 0.05 * cpu;
        let missing = &profile.roles["server"].unassigned;
        check(
            right && profile.lost == 0,
            format!("{layers} of {cpu} ns, {rest} unassigned: {missing:?}"),
        )
    });
}

#[test]
fn tcp_goes_through_layers_that_a_unix_socket_does_not() {
    // An interrupt of the pair may receive packets of other processes.
    holds(|requests| {
        let plan = Plan {
            requests,
            ..Plan::default()
        };
        let [unix, tcp] = [Pair::unix(plan), Pair::tcp(plan)].map(Pair::samples);
        for id in ["tcp", "ip", "loopback"] {
            let [unix, tcp] = [&unix, &tcp].map(|profile| layer(profile, id) / requests as f64);
            check(tcp > 300.0 && unix < tcp / 10.0, format!("{id}: {unix} and {tcp} ns"))?;
        }
        let switching = |profile| layer(profile, "scheduling");
        check(
            layer(&tcp, "unix") < layer(&unix, "unix") / 10.0 && switching(&unix) > 0.0 && switching(&tcp) > 0.0,
            "unix or scheduling".into(),
        )
    });
}

#[test]
fn each_system_call_is_counted_once() {
    let requests = 5_000;
    let count = |profile: &Profile, name: &str| *profile.roles["server"].counts.get(name).unwrap_or(&0);
    let plain = Pair::unix(Plan {
        requests,
        ..Plan::default()
    })
    .counts();
    let more = Pair::unix(Plan {
        requests,
        calls: 2,
        ..Plan::default()
    })
    .counts();
    assert_eq!((plain.lost, more.lost), (0, 0));
    let calls = |name: &str| count(&plain, &format!("syscalls:{name}"));
    assert_eq!([calls("sendto"), calls("getppid")], [requests, 0]);
    // The server begins to wait for the first request before observation, and may begin to wait for one more after the
    // last.
    assert!(
        (requests - 1..=requests).contains(&calls("recvfrom")),
        "{}",
        calls("recvfrom")
    );
    assert_eq!(count(&more, "syscalls:getppid"), 2 * requests);
    assert!(count(&more, "wakeups") > requests / 2);
    assert!(plain.roles["server"].layers.is_empty());
}

/// Context switches of both processes, from `/proc`, and packets of the network namespace.
fn outside(pair: &Pair) -> [u64; 2] {
    let number = |text: &str, name: &str| -> u64 {
        let (_, rest) = text.split_once(name).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let of_thread = |folder: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(folder.unwrap().path().join("status")).unwrap();
        number(&text, "\nvoluntary_ctxt_switches:") + number(&text, "\nnonvoluntary_ctxt_switches:")
    };
    let switches = |child: &Child| -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        threads.map(of_thread).sum()
    };
    let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let segments = snmp.lines().filter(|line| line.starts_with("Tcp:")).nth(1).unwrap();
    let sent = segments.split_whitespace().nth(11).unwrap().parse().unwrap();
    [pair.children.iter().map(switches).sum(), sent]
}

/// Moves this thread into a network namespace of its own.
fn alone() {
    // SAFETY: only the network changes, and only for this thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    sh("ip link set lo up");
}

fn sh(command: &str) {
    assert!(
        Command::new("sh").args(["-ec", command]).status().unwrap().success(),
        "{command}"
    );
}

#[test]
fn counts_are_those_of_other_counters() {
    alone();
    let plan = Plan {
        requests: 5_000,
        ..Plan::default()
    };
    let (profile, [before, after]) = Pair::tcp(plan).observed(counting(), outside);
    let sum = |name: &str| -> u64 { profile.roles.values().filter_map(|role| role.counts.get(name)).sum() };
    let of = |name: &str| -> u64 {
        let roles = ["server", "driver"].map(|role| profile.roles[role].counts.get(name));
        roles.into_iter().flatten().sum()
    };
    let found = [of("switches"), sum("packets")].map(|count| count as f64);
    let expected = [0, 1].map(|index| (after[index] - before[index]) as f64);
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(near(found, expected, 0.02), "{found} and {expected}: {profile:#?}");
    }
    assert!(sum("softirq:net-rx") > plan.requests, "{profile:#?}");
}

/// strace, attached to a process; counts its system calls until stopped.
struct Strace {
    child: Child,
    table: tempfile::NamedTempFile,
}

impl Strace {
    fn attach(pid: u32) -> Self {
        let table = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.args(["-c", "-f", "-qq", "-o"]).arg(table.path());
        let child = command.args(["-p", &pid.to_string()]).spawn().unwrap();
        let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while status().contains("\nTracerPid:\t0\n") {
            assert!(Instant::now() < deadline, "strace does not attach");
            thread::sleep(Duration::from_millis(5));
        }
        Self { child, table }
    }

    /// Calls by name.
    fn end(mut self) -> Vec<(String, u64)> {
        // SAFETY: this test started the child and has not waited for it yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }, 0);
        self.child.wait().unwrap();
        let text = std::fs::read_to_string(self.table.path()).unwrap();
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some(((*words.last()?).to_owned(), words.get(3)?.parse().ok()?))
        };
        text.lines().filter_map(row).collect()
    }
}

#[test]
fn system_calls_are_those_of_strace() {
    let plan = Plan {
        requests: 2_000,
        calls: 1,
        ..Plan::default()
    };
    let strace = std::cell::RefCell::new(None);
    let (profile, [_, calls]) = Pair::unix(plan).observed(counting(), |pair| {
        let attached: Option<Strace> = strace.borrow_mut().take();
        match attached {
            None => {
                *strace.borrow_mut() = Some(Strace::attach(pair.children[0].id()));
                Vec::new()
            }
            Some(strace) => strace.end(),
        }
    });
    let counts = &profile.roles["server"].counts;
    for name in ["recvfrom", "sendto", "getppid"] {
        let found = counts[&format!("syscalls:{name}")] as f64;
        let (_, expected) = calls.iter().find(|(known, _)| known == name).unwrap();
        assert!(
            near(found, *expected as f64, 0.02),
            "{name}: {found}, by strace {calls:?}"
        );
    }
}

#[test]
fn rules_of_a_packet_filter_cost_what_they_add() {
    alone();
    holds(|requests| {
        let plan = Plan {
            requests: requests / 16,
            ..Plan::default()
        };
        let rules = "for i in $(seq 200); do echo \"add rule t c ip saddr 192.0.2.$i drop\"; done";
        let (mut without, mut with) = (Vec::new(), Vec::new());
        // In turns: if the machine becomes slower or faster, both are affected.
        for filtered in [false, true, true, false, true, false, false, true] {
            if filtered {
                sh(&format!(
                    "(echo 'add table t; add chain t c {{ type filter hook input priority 0; }}'; {rules}) | nft -f -"
                ));
                with.push(Pair::tcp(plan).samples());
                sh("nft delete table t");
            } else {
                without.push(Pair::tcp(plan).samples());
            }
        }
        let cpu = |all: &[Profile]| -> f64 {
            let roles = all.iter().flat_map(|profile| profile.roles.values());
            roles.map(|role| role.cpu_ns as f64).sum()
        };
        let more = |id: &str| -> f64 {
            let of = |all: &[Profile]| all.iter().map(|profile| layer(profile, id)).sum::<f64>();
            of(&with) - of(&without)
        };
        let added = more("netfilter");
        let expected = cpu(&with) - cpu(&without);
        let others = ["tcp", "ip", "unix", "files"].map(more);
        let figures = format!("netfilter {added}, all {expected}, others {others:?} ns");
        // Total CPU time varies between runs.
        let apart = 0.15 * expected + 0.05 * cpu(&without);
        check(
            (added - expected).abs() <= apart && others.iter().all(|other| *other < added / 4.0),
            figures,
        )
    });
}

#[test]
fn encryption_is_told_from_the_program() {
    let _turn = turn();
    let mut child = Command::new("openssl")
        .args(["speed", "-seconds", "3", "-bytes", "16384", "-evp", "aes-256-gcm"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let roles = [("server".to_owned(), vec![child.id() as i32])];
    let mut profiler = Profiler::open(&roles, Settings::default()).unwrap();
    profiler.start().unwrap();
    thread::sleep(Duration::from_secs(2));
    let profile = profiler.stop().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let role = &profile.roles["server"];
    let share = role
        .layers
        .get("crypto")
        .map_or(0.0, |ns| *ns as f64 / sampled(role) as f64);
    assert!(share > 0.9, "{:?}", role.layers);
}

#[test]
fn forked_children_and_what_they_execute_belong_to_their_parent() {
    // Waits for a line, so that all of its children start under observation.
    let mut child = Command::new("sh")
        .args([
            "-c",
            "read -r _; (openssl speed -seconds 2 -bytes 16384 sha256) & wait; read -r _",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let roles = [("server".to_owned(), vec![child.id() as i32])];
    let mut profiler = Profiler::open(&roles, Settings::default()).unwrap();
    profiler.start().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    thread::sleep(Duration::from_millis(1_500));
    let profile = profiler.stop().unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let role = &profile.roles["server"];
    assert!(
        role.layers.get("crypto").is_some_and(|ns| 2 * ns > sampled(role)),
        "{:?}",
        role.layers
    );
}
