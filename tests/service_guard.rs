//! The guard with real processes: what it starts runs, and nothing outlives lasthop.

use std::{
    fs,
    io::{BufRead, BufReader, PipeReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use lasthop_stack::{
    exit::Exit,
    guard::{Guard, GuardedChild, MARKER, SpawnRequest, Sweep, sweep_in},
    sandbox::Sandbox,
};
use lasthop_system::{
    lines::LineError,
    process::{Stat, all, descendants},
};

const LASTHOP: &str = env!("CARGO_BIN_EXE_lasthop");
const LONG: Duration = Duration::from_secs(20);

fn launch() -> (Guard, Sandbox) {
    let sandbox = Sandbox::create().unwrap();
    (Guard::launch_from(Path::new(LASTHOP), &sandbox).unwrap(), sandbox)
}

fn shell(script: &str) -> SpawnRequest {
    SpawnRequest::of(["/bin/sh", "-c", script])
}

fn sleep() -> SpawnRequest {
    SpawnRequest::of(["/bin/sleep", "1000"])
}

/// A process, and what it writes.
fn reading(guard: &Guard, request: SpawnRequest) -> (GuardedChild, BufReader<PipeReader>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let output = OwnedFd::from(writer).into();
    (guard.spawn(request, Some(output)).unwrap(), BufReader::new(reader))
}

/// Waits for a condition that must come true soon; the deadline is only there to end a test that has failed.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn lives(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state != b'Z')
}

fn read_pids(reader: impl BufRead, count: usize) -> Vec<i32> {
    reader
        .lines()
        .take(count)
        .map(|line| line.unwrap().trim().parse().unwrap())
        .collect()
}

#[test]
fn a_child_reads_writes_and_its_end_is_reported() {
    let (guard, sandbox) = launch();
    let request = SpawnRequest {
        environment: vec![("WORD".to_owned(), "there".to_owned())],
        directory: Some("/usr".into()),
        ..shell("read word; echo \"$word $PWD $WORD $LASTHOP_RUN\"; echo talk >&2; exit 7")
    };
    let (child, mut lines) = guard.spawn_with_lines(request, None, 4096).unwrap();
    assert_eq!(child.exited(), None);
    lines.say(b"hello\n", LONG).unwrap();
    let mut hear = || String::from_utf8(lines.hear(LONG).unwrap()).unwrap();
    assert_eq!(hear(), format!("hello /usr there {}", sandbox.path().display()));
    assert_eq!(hear(), "talk");
    assert!(matches!(lines.hear(LONG), Err(LineError::Ended)));
    assert_eq!(child.wait(LONG).unwrap(), Some(Exit::Code(7)));
    assert_eq!(child.exited().unwrap().to_string(), "ended with status 7");
}

#[test]
fn a_child_has_its_own_group_its_cpus_and_the_guard_as_parent() {
    let (guard, _sandbox) = launch();
    let request = SpawnRequest {
        cpus: vec![0],
        ..SpawnRequest::of(["/bin/cat"])
    };
    let (child, lines) = guard.spawn_with_lines(request, None, 4096).unwrap();
    let stat = Stat::of(child.pid).unwrap();
    assert_eq!(
        (stat.parent, stat.group, stat.session),
        (guard.pid(), child.pid, guard.pid())
    );
    let status = fs::read_to_string(format!("/proc/{}/status", child.pid)).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    drop(lines);
    assert_eq!(child.wait(LONG).unwrap(), Some(Exit::Code(0)));
}

#[test]
fn a_program_that_is_missing_is_refused_with_its_name() {
    let (guard, _sandbox) = launch();
    let error = guard
        .spawn(SpawnRequest::of(["/nowhere/server", "-x"]), None)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "cannot start `/nowhere/server`: No such file or directory (os error 2)"
    );
    let elsewhere = SpawnRequest {
        directory: Some("/nowhere".into()),
        ..shell("true")
    };
    assert!(guard.spawn(elsewhere, None).is_err());
    let child = guard.spawn(shell("true"), None).unwrap();
    assert_eq!(child.wait(LONG).unwrap(), Some(Exit::Code(0)));
}

#[test]
fn stop_is_orderly_where_the_process_obeys() {
    let (guard, _sandbox) = launch();
    let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done";
    let (child, mut reader) = reading(&guard, shell(script));
    reader.read_line(&mut String::new()).unwrap();
    child.stop(libc::SIGTERM, LONG).unwrap();
    assert_eq!(child.exited(), Some(Exit::Code(3)));
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye\n");
}

#[test]
fn stop_kills_what_does_not_obey_with_all_its_descendants() {
    let (guard, _sandbox) = launch();
    // One grandchild stays in the group, one leaves it and the session, one is orphaned besides.
    let script = "trap '' TERM; sleep 1000 & echo $!; setsid sleep 1000 & echo $!; \
                  sh -c 'setsid sleep 1000 & echo $!'; echo $$; wait; wait; wait";
    let (child, reader) = reading(&guard, shell(script));
    let other = guard.spawn(sleep(), None).unwrap();
    let pids = read_pids(reader, 4);
    assert_eq!(pids[3], child.pid);
    child.stop(libc::SIGTERM, Duration::from_millis(50)).unwrap();
    assert_eq!(child.exited().unwrap().to_string(), "was ended by signal 9 (SIGKILL)");
    assert!(!lives(pids[0]) && !lives(pids[1]) && !lives(pids[3]), "{pids:?}");
    assert!(lives(other.pid), "another child was hit");
    // The orphan belonged to nobody any more; it goes with the guard.
    drop(guard);
    assert!(!lives(pids[2]) && !lives(other.pid));
}

#[test]
fn the_group_of_a_process_that_ends_by_itself_ends_too() {
    let (guard, _sandbox) = launch();
    let (child, reader) = reading(&guard, shell("sleep 1000 & echo $!; exit 0"));
    let pids = read_pids(reader, 1);
    assert_eq!(child.wait(LONG).unwrap(), Some(Exit::Code(0)));
    eventually("the rest of the group is gone", || !lives(pids[0]));
}

#[test]
fn shared_memory_of_its_own_ends_with_a_killed_child() {
    let (guard, _sandbox) = launch();
    let name = format!("lasthop-test-{}", std::process::id());
    let script =
        format!("ipcmk -M 64 >/dev/null; touch /dev/shm/{name}; ipcs -m | grep -c 0x; ls -A /dev/shm; exec sleep 1000");
    let of_its_own = |script: &str| SpawnRequest {
        own_memory: true,
        ..shell(script)
    };
    let (child, reader) = reading(&guard, of_its_own(&script));
    let seen: Vec<_> = reader.lines().take(2).map(Result::unwrap).collect();
    assert_eq!(seen, ["1", &name], "only its own");
    let owner = child.pid.to_string();
    let there = || {
        fs::read_to_string("/proc/sysvipc/shm")
            .unwrap()
            .lines()
            .any(|line| line.contains(&owner))
    };
    assert!(!Path::new("/dev/shm").join(&name).exists() && !there());
    child.stop(libc::SIGKILL, LONG).unwrap();
    let script = "ls /dev/shm/lasthop-test-* 2>/dev/null; ipcs -m | grep -c $PPID";
    let (_child, mut reader) = reading(&guard, of_its_own(script));
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "0\n", "another has its own");
}

#[test]
fn a_dropped_child_is_killed_and_a_dropped_guard_ends_all_and_removes_the_sandbox() {
    let (guard, sandbox) = launch();
    let dropped = guard.spawn(sleep(), None).unwrap();
    let pid = dropped.pid;
    drop(dropped);
    eventually("the dropped child is gone", || !lives(pid));
    let (_daemon, reader) = reading(&guard, shell("setsid sh -c 'sleep 1000 & echo $!' "));
    let pids = read_pids(reader, 1);
    let path = sandbox.path().to_owned();
    let supervisor = guard.pid();
    drop(guard);
    assert!(!lives(pids[0]) && !lives(supervisor));
    assert!(!path.exists());
}

#[test]
fn a_signal_to_the_guard_ends_all_and_lasthop_is_told() {
    let (guard, sandbox) = launch();
    let request = SpawnRequest {
        stop_signal: Some(libc::SIGTERM),
        ..sleep()
    };
    let child = guard.spawn(request, None).unwrap();
    kill(guard.pid(), libc::SIGTERM);
    let error = child.wait(LONG);
    assert!(error.is_err() || error.unwrap().is_some());
    eventually("the guard is gone", || guard.spawn(shell("true"), None).is_err());
    assert!(!lives(child.pid));
    eventually("the sandbox is gone", || !sandbox.path().exists());
}

#[test]
fn when_the_guard_is_killed_lasthop_kills_what_is_left() {
    let (guard, _sandbox) = launch();
    // `env -i` takes the mark away: the session still tells.
    let script = "env -i /bin/sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait";
    let (child, reader) = reading(&guard, shell(script));
    let pids = read_pids(reader, 2);
    kill(guard.pid(), libc::SIGKILL);
    let error = child.stop(libc::SIGTERM, LONG).unwrap_err().to_string();
    assert!(error.starts_with("lasthop's guard process has died"), "{error}");
    eventually("all are gone", || {
        !lives(pids[0]) && !lives(pids[1]) && !lives(child.pid)
    });
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the process was started by this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// This test binary once more, as the lasthop that will be killed: only with the variable set it does anything.
const VICTIM: &str = "LASTHOP_TEST_VICTIM";

#[test]
fn victim() {
    let Ok(script) = std::env::var(VICTIM) else { return };
    let sandbox = Sandbox::create_in(Path::new(&std::env::var("LASTHOP_TEST_PARENT").unwrap())).unwrap();
    let guard = Guard::launch_from(Path::new(LASTHOP), &sandbox).unwrap();
    let request = SpawnRequest {
        stop_signal: Some(libc::SIGTERM),
        ..shell(&script)
    };
    let errors = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
    let child = guard.spawn(request, Some(errors.into())).unwrap();
    writeln!(std::io::stderr(), "guard {}", guard.pid()).unwrap();
    child.wait(Duration::from_secs(1000)).unwrap();
}

struct Victim {
    process: Child,
    guard: i32,
    lines: BufReader<std::process::ChildStderr>,
    parent: tempfile::TempDir,
}

fn start_victim(script: &str) -> Victim {
    let parent = tempfile::tempdir().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, script)
        .env("LASTHOP_TEST_PARENT", parent.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    let mut guard = 0;
    while guard == 0 {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the victim ended early");
        guard = line.strip_prefix("guard ").map_or(0, |pid| pid.trim().parse().unwrap());
    }
    Victim {
        process,
        guard,
        lines,
        parent,
    }
}

impl Victim {
    fn sandboxes(&self) -> Vec<PathBuf> {
        fs::read_dir(self.parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    fn marked(&self) -> Vec<i32> {
        let mark = format!("{MARKER}={}", self.parent.path().display());
        let is_marked = |pid: &i32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|text| text.windows(mark.len()).any(|window| window == mark.as_bytes()))
        };
        all().into_iter().filter(is_marked).filter(|pid| lives(*pid)).collect()
    }
}

#[test]
fn sigkill_of_lasthop_leaves_nothing() {
    let mut victim = start_victim("sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; wait");
    eventually("all four run", || descendants(victim.guard).len() >= 4);
    let family = descendants(victim.guard);
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    // The guard and its children hold the pipe open: its end means that they are gone.
    victim.lines.read_to_string(&mut String::new()).unwrap();
    eventually("the guard is gone", || !lives(victim.guard));
    assert!(family.iter().all(|pid| !lives(*pid)), "{family:?}");
    assert_eq!(victim.marked(), Vec::<i32>::new());
    assert_eq!(victim.sandboxes(), Vec::<PathBuf>::new());
}

#[test]
fn sigkill_of_lasthop_and_guard_leaves_what_the_next_sweep_takes_away() {
    let mut victim = start_victim("env -i /bin/sleep 1000 & setsid sleep 1000 & wait");
    eventually("all run", || descendants(victim.guard).len() >= 3);
    let family = descendants(victim.guard);
    assert_eq!(
        sweep_in(victim.parent.path()),
        Sweep::default(),
        "a living run was swept"
    );
    // The guard is stopped first, so that it cannot do its work between the two blows.
    kill(victim.guard, libc::SIGSTOP);
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    kill(victim.guard, libc::SIGKILL);
    eventually("the guard is gone", || !lives(victim.guard));
    assert_eq!(victim.sandboxes().len(), 1);
    eventually("the sandbox can be swept", || {
        let swept = sweep_in(victim.parent.path()).swept;
        swept.first().is_some_and(|swept| swept.killed.len() >= 2)
    });
    assert!(family.iter().all(|pid| !lives(*pid)), "{family:?}");
    assert_eq!(victim.sandboxes(), Vec::<PathBuf>::new());
}

/// Restless: starts and stops processes until it is killed.
#[test]
fn restless_victim() {
    let Ok(parent) = std::env::var("LASTHOP_TEST_RESTLESS") else {
        return;
    };
    loop {
        let sandbox = Sandbox::create_in(Path::new(&parent)).unwrap();
        let guard = Guard::launch_from(Path::new(LASTHOP), &sandbox).unwrap();
        let children: Vec<_> = (0..3)
            .map(|_| {
                let request = shell("setsid sh -c 'sleep 1000 & wait' & sleep 1000 & wait");
                guard.spawn(request, None).unwrap()
            })
            .collect();
        children[0].stop(libc::SIGTERM, Duration::from_millis(2)).unwrap();
    }
}

#[test]
fn sigkill_at_any_moment_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let marked = || {
        let mark = format!("{MARKER}={}", parent.path().display());
        let has_mark = |pid: &i32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|text| text.windows(mark.len()).any(|window| window == mark.as_bytes()))
        };
        all().into_iter().filter(has_mark).filter(|pid| lives(*pid)).count()
    };
    let visible = || {
        let names = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().starts_with('.')).count()
    };
    for round in 0..20 {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "restless_victim", "--nocapture", "--test-threads=1"])
            .env("LASTHOP_TEST_RESTLESS", parent.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Moments spread over start, work and stop; which is hit is chance, what is left must be nothing.
        std::thread::sleep(Duration::from_micros(3_700 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        eventually("nothing is left", || {
            // What a later lasthop does: needed where the guard had not heard of its sandbox yet.
            let _ = sweep_in(parent.path());
            marked() == 0 && visible() == 0
        });
    }
}

#[test]
fn the_workers_of_nginx_end_with_a_killed_lasthop() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("nginx.conf");
    let root = directory.path().display();
    let user = lasthop_stack::account::current().user;
    let text = format!(
        "user {user}; worker_processes 2; daemon off; pid {root}/pid; error_log {root}/error;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path {root}/a; proxy_temp_path {root}/b;\n\
         fastcgi_temp_path {root}/c; uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;\n\
         server {{ listen unix:{root}/socket; return 200; }} }}\n"
    );
    fs::write(&configuration, text).unwrap();
    for killed_too in [false, true] {
        let _ = fs::remove_file(directory.path().join("socket"));
        let mut victim = start_victim(&format!(
            "exec /usr/sbin/nginx -p {root} -c {}",
            configuration.display()
        ));
        eventually("master and both workers run", || descendants(victim.guard).len() >= 3);
        let family = descendants(victim.guard);
        if killed_too {
            kill(victim.guard, libc::SIGSTOP);
        }
        victim.process.kill().unwrap();
        victim.process.wait().unwrap();
        if killed_too {
            kill(victim.guard, libc::SIGKILL);
            eventually("the guard is gone", || !lives(victim.guard));
            eventually("the sandbox is swept", || {
                !sweep_in(victim.parent.path()).swept.is_empty()
            });
        }
        eventually("the guard is gone", || !lives(victim.guard));
        assert!(family.iter().all(|pid| !lives(*pid)), "{family:?}");
        assert_eq!(victim.sandboxes(), Vec::<PathBuf>::new());
    }
}
