//! Observation of real processes: what they consumed is what is counted.

use std::{
    fs,
    io::Write,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lasthop_model::observation::{InContainer, Observations, Role, RoleUsage};
use lasthop_observe::observer::Observer;
use lasthop_stack::{
    guard::{Guard, GuardedChild, SpawnRequest},
    sandbox::Sandbox,
};
use lasthop_system::{cpus, lines::Lines};

/// Works for each line that it gets, `KIND MS`, and answers with the CPU milliseconds that it took, by its own account.
const WORKER: &str = r"
import os, sys, time, threading
def burn(ms, clock):
    begin = clock()
    while (clock() - begin) * 1000 < ms: pass
def ended(ms):
    pid = os.fork()
    if pid == 0:
        burn(ms, time.process_time)
        os._exit(0)
    os.waitpid(pid, 0)
kept = []
for line in sys.stdin:
    kind, ms = line.split()
    ms = int(ms)
    if kind == 'self': burn(ms, time.process_time)
    if kind == 'ended': ended(ms)
    if kind == 'thread':
        thread = threading.Thread(target=burn, args=(ms, time.thread_time))
        thread.start()
        thread.join()
    if kind == 'sleep':
        for _ in range(ms): time.sleep(0.0001)
    if kind == 'child':
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            burn(ms, time.process_time)
            os.write(writer, b'x')
            time.sleep(1000)
        os.read(reader, 1)
        kept.append(pid)
    if kind == 'reap':
        os.kill(kept[-1], 9)
        os.waitpid(kept.pop(), 0)
    print('done', flush=True)
";

/// The longest time for a piece of work; it is only there to end a test that has failed.
const LONG: Duration = Duration::from_secs(60);

struct Worker {
    child: GuardedChild,
    lines: Lines,
}

impl Worker {
    fn start(guard: &Guard) -> Self {
        let python = ["/usr/bin/env", "python3", "-c", WORKER];
        let (child, lines) = guard.spawn_with_lines(SpawnRequest::of(python), None, 4096).unwrap();
        let mut worker = Self { child, lines };
        worker.work("self", 1);
        worker
    }

    fn work(&mut self, kind: &str, ms: u64) {
        self.lines.say(format!("{kind} {ms}\n").as_bytes(), LONG).unwrap();
        assert_eq!(self.lines.hear(LONG).unwrap(), b"done");
    }
}

fn launch() -> (Guard, Sandbox) {
    let sandbox = Sandbox::create().unwrap();
    (
        Guard::launch_from(Path::new(env!("CARGO_BIN_EXE_lasthop")), &sandbox).unwrap(),
        sandbox,
    )
}

fn role(stack: usize, name: &str, worker: &Worker) -> Role {
    Role {
        stack,
        name: name.into(),
        pid: worker.child.pid,
        container: InContainer::No,
    }
}

fn observed(observer: &mut Observer, stack: usize, work: impl FnOnce()) -> Observations {
    let before = observer.snapshot(stack);
    work();
    let after = observer.snapshot(stack);
    observer.between(&before, &after, stack)
}

/// What a role consumed beyond the wanted, milliseconds. Python itself takes some; the accounts of ended children are
/// in ticks.
fn assert_ms(usage: RoleUsage, wanted: u64, below: u64, above: u64) {
    let ms = usage.cpu_ns / 1_000_000;
    assert!(
        (wanted - below..=wanted + above).contains(&ms),
        "{ms} ms instead of {wanted}"
    );
}

#[test]
fn each_kind_of_work_is_counted_once_and_for_its_role() {
    let (guard, _sandbox) = launch();
    let (mut busy, other, mut third) = (Worker::start(&guard), Worker::start(&guard), Worker::start(&guard));
    let mut observer = Observer::new(vec![
        role(0, "busy", &busy),
        role(0, "idle", &other),
        role(1, "busy", &third),
    ]);

    let seen = observed(&mut observer, 0, || busy.work("self", 100));
    assert_ms(seen.roles["busy"], 100, 0, 15);
    assert!(seen.roles["idle"].cpu_ns < 2_000_000, "{seen:?}");
    assert_eq!((seen.roles["busy"].processes, seen.roles.len()), (1, 2));
    assert!(seen.machine.wall_ns >= 100_000_000);

    let seen = observed(&mut observer, 0, || busy.work("thread", 60));
    assert_ms(seen.roles["busy"], 60, 0, 15);

    // A child that begins, works and ends between two looks.
    let seen = observed(&mut observer, 0, || busy.work("ended", 200));
    assert_ms(seen.roles["busy"], 200, 20, 40);

    // A child that works before the first look, and ends after it: nothing of it may be counted again.
    let seen = observed(&mut observer, 0, || busy.work("child", 150));
    assert_ms(seen.roles["busy"], 150, 0, 15);
    assert_eq!(seen.roles["busy"].processes, 2);
    let seen = observed(&mut observer, 0, || busy.work("reap", 0));
    assert_ms(seen.roles["busy"], 0, 0, 35);
    assert_eq!(seen.roles["busy"].processes, 1);

    let seen = observed(&mut observer, 0, || busy.work("sleep", 50));
    assert!(seen.roles["busy"].voluntary_switches >= 50, "{seen:?}");

    // What a server does while another stack is driven is no part of its next trial.
    observed(&mut observer, 0, || third.work("child", 150));
    let seen = observed(&mut observer, 1, || third.work("self", 60));
    assert_ms(seen.roles["busy"], 60, 0, 15);
    assert_eq!(seen.roles["busy"].processes, 2);
}

#[test]
fn work_of_lasthop_itself_is_not_foreign() {
    let (guard, _sandbox) = launch();
    let mut driver = Worker::start(&guard);
    let mut observer = Observer::new(vec![]);
    let begin = Instant::now();
    let seen = observed(&mut observer, 0, || driver.work("self", 300));
    assert!(seen.roles.is_empty());
    // Other tests and builders run on this machine: only what is certain is asserted. The clock of a process counts the
    // time that the hypervisor steals from it, too.
    let spent = seen.machine.busy_ns + seen.machine.steal_ns;
    let others = spent.cast_signed() - 290_000_000;
    for reading in [seen.machine.foreign_ns, seen.machine.others_ns.cast_signed()] {
        assert!(reading <= others, "{seen:?} in {:?}", begin.elapsed());
    }
}

/// A process that nobody of ours started: its shell ends, and leaves it to the first one of the machine.
struct Stranger(i32);

impl Stranger {
    fn start(script: &str) -> Self {
        let shell = format!("timeout 60 sh -c '{script}' >/dev/null 2>&1 & echo $!");
        let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
        Self(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Beside a server and a driver that wake each other, most of whose runs are shorter than a tick.
#[test]
fn what_others_take_is_seen_by_their_clocks() {
    let (guard, _sandbox) = launch();
    let mut server = Worker::start(&guard);
    let _busy = Stranger::start("while :; do :; done");
    thread::sleep(Duration::from_millis(100));
    let mut observer = Observer::new(vec![role(0, "server", &server)]);
    let seen = observed(&mut observer, 0, || server.work("sleep", 2_000));
    assert!(seen.machine.others_ns > seen.machine.wall_ns / 10, "{seen:?}");
}

/// Burns in its second thread; the first sleeps.
const SPINNER: &str = r"
import threading, time
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
time.sleep(1000)
";

/// By the kernel's own file of a process, which is that of its first thread only.
fn run_delay_of_first_thread(child: &GuardedChild) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", child.pid)).unwrap();
    text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Two that never sleep on one CPU wait for each other; one that sleeps waits for nobody.
#[test]
fn processes_that_share_a_cpu_have_a_run_delay() {
    let (guard, _sandbox) = launch();
    let cpu = cpus::allowed()[0];
    let pinned = |command: &[&str]| {
        let request = SpawnRequest {
            cpus: vec![cpu],
            ..SpawnRequest::of(command.iter().copied())
        };
        guard.spawn(request, None).unwrap()
    };
    let loops = pinned(&["/bin/sh", "-c", "while :; do :; done"]);
    let spins = pinned(&["/usr/bin/env", "python3", "-c", SPINNER]);
    let sleeper = Worker::start(&guard);
    let of = |name: &str, child: &GuardedChild| Role {
        name: name.into(),
        pid: child.pid,
        ..Role::default()
    };
    let roles = vec![of("loops", &loops), of("spins", &spins), of("sleeper", &sleeper.child)];
    let mut observer = Observer::new(roles);

    // An interval in which each is what it is meant to be: started, and asleep again.
    let (mut waited, mut slept) = (false, false);
    let begin = Instant::now();
    while !(waited && slept) {
        let first_before = run_delay_of_first_thread(&spins);
        let before = observer.snapshot(0);
        thread::sleep(Duration::from_millis(20));
        let after = observer.snapshot(0);
        let first = run_delay_of_first_thread(&spins) - first_before;
        let seen = observer.between(&before, &after, 0).roles;
        let run_delay = |name: &str| seen[name].run_delay_ns.expect("this kernel counts it");
        waited |= run_delay("loops") > 0 && run_delay("spins") > 0 && first == 0;
        slept |= run_delay("sleeper") == 0;
        assert!(
            begin.elapsed().as_secs() < 120,
            "{seen:?}, of which the first thread of spins {first}"
        );
    }
}

#[test]
fn a_snapshot_has_every_one_of_twenty_processes() {
    let (guard, _sandbox) = launch();
    let children: Vec<GuardedChild> = (0..20)
        .map(|_| guard.spawn(SpawnRequest::of(["/bin/sleep", "1000"]), None).unwrap())
        .collect();
    let role = |child: &GuardedChild| Role {
        stack: 0,
        name: child.pid.to_string(),
        pid: child.pid,
        container: InContainer::No,
    };
    let roles = children.iter().map(role).collect();
    let mut observer = Observer::new(roles);
    let (before, after) = (observer.snapshot(0), observer.snapshot(0));
    assert_eq!(
        observer
            .between(&before, &after, 0)
            .roles
            .values()
            .map(|usage| usage.processes)
            .sum::<u32>(),
        20
    );
    // Said, not judged: the machine may be slow.
    let begin = Instant::now();
    observer.snapshot(0);
    writeln!(std::io::stderr(), "a snapshot takes {:?}", begin.elapsed()).unwrap();
}
