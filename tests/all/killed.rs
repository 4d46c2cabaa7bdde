//! However lasthop ends, nothing of the run is left and the record can be read.

use crate::common;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use common::{Lasthop, default_signals, eventually, have, have_python, moments, needs, output, signal};
use serde_json::Value;

use crate::other_users::can_be_somebody_else;

/// Most of the time passes in waiting for the moments, so that two at a time take half of it.
fn two_at_a_time(kills: u64, kill: impl Fn(&Lasthop, u64) + Sync) {
    let kill = &kill;
    thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || {
                let lasthop = Lasthop::new();
                (first..kills).step_by(2).for_each(|number| kill(&lasthop, number));
            });
        }
    });
}

/// Moments are spread over start, verification and several rounds by a fixed sequence.
#[test]
fn sigkill_at_any_moment_leaves_nothing() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let (kills, readable) = (moments(6, 20), AtomicU64::new(0));
    two_at_a_time(kills, |lasthop, number| {
        let before = lasthop.runs().len();
        let mut child = lasthop.start("run nginx-gunicorn --budget 60s --trial 20ms --blocks 2".split(' '));
        // Its folder alone is no record yet.
        let has_begun = || {
            lasthop
                .runs()
                .into_iter()
                .nth(before)
                .is_some_and(|run| run.join("run.json").exists())
        };
        if number % 2 == 0 {
            // A busy machine is still starting the servers at most of the moments.
            lasthop.wait_for_run(before + 1);
            eventually("a record", &has_begun);
        }
        let moment = Duration::from_millis(60 + number * 2_654_435_761 % 4_000);
        thread::sleep(moment);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        let begun = has_begun();
        if !begun {
            // If it had no guard yet, it leaves an empty sandbox to the next start or to this.
            lasthop.run(["clean"]).ok();
        }
        lasthop.wait_until_gone();
        if begun {
            let report = lasthop.run(["report", "last"]).ok().stdout;
            assert!(report.contains("cut off"), "after {moment:?}:\n{report}");
            readable.fetch_add(1, Ordering::Relaxed);
        }
    });
    let readable = readable.into_inner();
    assert!(
        readable >= kills / 2,
        "only {readable} of {kills} runs had begun their record"
    );
}

/// The guard of the only run of this lasthop, if it has got so far.
fn guard_of(lasthop: &Lasthop) -> Option<i32> {
    let sandbox = fs::read_dir(lasthop.sandboxes()).unwrap().next()?.ok()?.path();
    let guard: Value = serde_json::from_slice(&fs::read(sandbox.join("guard.json")).ok()?).ok()?;
    guard["pid"].as_i64()?.try_into().ok()
}

fn kill_while_it_starts(lasthop: &Lasthop, number: u64) {
    let before = lasthop.runs().len();
    let mut child = lasthop.start(["run", "pgpool", "--budget", "60s", "--trial", "20ms", "--blocks", "2"]);
    lasthop.wait_for_run(before + 1);
    thread::sleep(Duration::from_millis(number * 2_654_435_761 % 5_000));
    match (number % 4, guard_of(lasthop)) {
        // SAFETY: the guard is a child of the child, which lives.
        (0, Some(guard)) => assert_eq!(unsafe { libc::kill(guard, libc::SIGKILL) }, 0),
        (1, _) => signal(&child, libc::SIGQUIT),
        (2, _) => {
            signal(&child, libc::SIGINT);
            thread::sleep(Duration::from_millis(100));
            signal(&child, libc::SIGINT);
        }
        _ => signal(&child, libc::SIGKILL),
    }
    child.wait().unwrap();
    lasthop.wait_until_gone();
}

/// Moments are spread over making the first cluster, its copies, their roles, their start, and the first trials.
#[test]
fn kills_while_pgpool_and_two_postgres_start_leave_no_shared_memory() {
    if have("postgres") && have("pgpool") {
        default_signals();
        two_at_a_time(moments(8, 24), kill_while_it_starts);
    }
}

/// An ordinary user that every system has. PostgreSQL refuses one without a name.
const DAEMON: u32 = 1;

/// lasthop, guard and servers at once: only the kernel can remove what they leave in memory.
#[test]
fn an_ordinary_users_killed_postgres_leaves_no_shared_memory() {
    needs!(have("postgres"), can_be_somebody_else());
    let lasthop = Lasthop::new();
    let program = lasthop.home().join("lasthop");
    fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    for folder in [lasthop.home(), lasthop.sandboxes()] {
        chown(folder, Some(DAEMON), Some(DAEMON)).unwrap();
    }
    for moment in [300, 900, 2_000] {
        let before = lasthop.runs().len();
        let run = lasthop.command("run postgres --budget=60s --trial=20ms --blocks=2 --only=work=query".split(' '));
        let mut command = Command::new(&program);
        command
            .args(run.get_args())
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = command
            .uid(DAEMON)
            .gid(DAEMON)
            .current_dir("/")
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        lasthop.wait_for_run(before + 1);
        thread::sleep(Duration::from_millis(moment));
        // Until all have ended: what is still ending holds its sandbox, and `clean` leaves that alone.
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline && !lasthop.processes().is_empty() {
            for process in lasthop.processes() {
                let pid: i32 = process.split(' ').next().unwrap().parse().unwrap();
                // SAFETY: kill has no memory effects; the process carries the mark of this test.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        let mut clean = Command::new(&program);
        clean
            .arg("clean")
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        output(clean.uid(DAEMON).gid(DAEMON).current_dir("/"));
        lasthop.wait_until_gone();
    }
}

#[test]
fn ctrl_c_ends_in_order_and_keeps_what_was_measured() {
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(["run", "sockets", "--budget", "60s", "--trial", "10ms", "--blocks", "2"]);
    lasthop.wait_for_lines(12);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    lasthop.wait_until_gone();
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(summary["stopped"], "interrupted");
    assert_eq!(summary["complete"], true);
    assert!(summary["cases"][0]["requests"].as_u64().unwrap() > 0);
}

/// The files of a killed run are swept by the next one; memory has no name from the beginning.
#[test]
fn a_killed_run_leaves_no_memory() {
    let names = || -> BTreeSet<String> {
        fs::read_dir("/dev/shm")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("lasthop"))
            .collect()
    };
    let lasthop = Lasthop::new();
    let mut child = lasthop.start("run ipc --only=transport=unix,shm --budget=60s --trial=10ms".split(' '));
    lasthop.wait_for_run(1);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    lasthop.wait_until_gone();
    assert_eq!(names(), BTreeSet::new());
}
