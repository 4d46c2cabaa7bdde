//! Where the CPU time of a request goes, as the kernel of this machine says it.

use crate::common;

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use common::{Lasthop, Ran, one_line, signal, skip};
use serde_json::Value;

/// Two cases, by Unix socket and by TCP.
const RUN: [&str; 8] = [
    "run",
    "sockets",
    "--only=pattern=echo",
    "--only=transport=unix,tcp",
    "--trial=20ms",
    "--blocks=4",
    "--budget=60s",
    "-q",
];
/// An account without rights.
const DAEMON: u32 = 1;

fn may_observe() -> bool {
    let may = rustix::process::geteuid().is_root() && lasthop_profile::Profiler::available().is_ok();
    may || skip("this machine does not let lasthop observe processes")
}

fn explained(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    let all = RUN.iter().chain(arguments).chain(&["--explain", "--format=json"]);
    lasthop.run(all).ok().json()
}

fn lines(run: &Path, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(run.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum(values: &Value) -> f64 {
    values.as_object().unwrap().values().map(number).sum()
}

#[test]
fn each_transport_has_its_own_layer_and_the_parts_add_up() {
    if !may_observe() {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = explained(&lasthop, &["--rounds=3"]);
    lasthop.assert_nothing_left();
    let found = &summary["explained"];
    for (case, own, other) in [("unix", "unix", "tcp"), ("tcp", "tcp", "unix")] {
        let (_, of) = found["cases"]
            .as_object()
            .unwrap()
            .iter()
            .find(|(name, _)| name.starts_with(case))
            .unwrap();
        let roles = ["driver", "server"].map(|role| &of["roles"][role]);
        let sampled = |role: &Value| sum(&role["layers"]) + number(&role["not_attributed_us"]);
        let both: f64 = roles.iter().map(|role| sampled(role)).sum();
        let cpu: f64 = roles.iter().map(|role| number(&role["cpu_us"])).sum();
        // Where other programs are busy, the kernel books a part of their time to whoever is woken.
        assert!(
            (0.25..1.5).contains(&(both / cpu)),
            "{case}: {both} of {cpu} µs: {of:#}"
        );
        let share = |layer: &str| {
            let of_layer = |role: &&Value| role["layers"].get(layer).map_or(0.0, number);
            roles.iter().map(of_layer).sum::<f64>() / both
        };
        assert!(share(own) > 0.03, "{case}: {of:#}");
        assert!(share(other) < 0.01, "{case}: {of:#}");
        for role in roles {
            let calls = role["counts"]
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| name.starts_with("syscalls:"));
            // A round trip is one call to send and one to receive, more if it waits by epoll.
            let calls: f64 = calls.map(|(_, count)| number(count)).sum();
            assert!(
                (1.9..8.0).contains(&calls),
                "{case}: {calls} calls per request: {role:#}"
            );
        }
        assert!(number(&of["speed"]["estimate"]) > 0.0, "{of:#}");
    }
    let difference = &found["differences"][0];
    let layers = difference["layers"].as_array().unwrap();
    let estimate = |saving: &Value| number(&saving["saved"]["estimate"]);
    let all = layers.iter().map(estimate).sum::<f64>()
        + number(&difference["others_us"])
        + estimate(&difference["not_attributed"]);
    assert!((all - estimate(difference)).abs() < 1e-6, "{difference:#}");
    assert!(
        (sum(&difference["roles"]) - estimate(difference)).abs() < 1e-6,
        "{difference:#}"
    );
    let text = one_line(&lasthop.run(["report", "last"]).ok().stdout);
    assert!(
        text.contains("In the profile trials") && text.contains("not attributed"),
        "{text}"
    );
}

#[test]
fn what_is_observed_is_in_no_figure() {
    if !may_observe() {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = explained(&lasthop, &["--rounds=2"]);
    let run = lasthop.runs().pop().unwrap();
    let trials = lines(&run, "trials.jsonl");
    let trials = trials.iter().filter(|line| line.get("trial").is_some()).count();
    assert_eq!(trials, 2 * 4 * 2, "rounds, blocks, cases");
    let shown: u64 = summary["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["trials"].as_u64().unwrap())
        .sum();
    assert_eq!(shown, 2 * 4 * 2);
    let profiles = lines(&run, "profiles.jsonl");
    let profiles = profiles.iter().filter(|line| line.get("profile").is_some()).count();
    assert_eq!(
        profiles,
        2 * 2 + 2,
        "a trial of each case in each round, and one that counts in the first"
    );
}

#[test]
fn a_killed_run_keeps_its_profiles() {
    if !may_observe() {
        return;
    }
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(RUN.iter().chain(&["--explain", "--rounds=3"]));
    // The second round has begun, so the first has its profile trials.
    lasthop.wait_for_lines(11);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    lasthop.wait_until_gone();
    let file = lasthop.runs().pop().unwrap().join("profiles.jsonl");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}{{\"profile\":{{\"round\":1,\"ca")).unwrap();
    let summary = lasthop.run(["resume", "last", "-q", "--format=json"]).ok().json();
    assert!(
        fs::read_to_string(&file).unwrap().starts_with(&before),
        "nothing is rewritten"
    );
    let rounds: Vec<u64> = lines(file.parent().unwrap(), "profiles.jsonl")
        .iter()
        .filter_map(|line| line["profile"]["round"].as_u64())
        .collect();
    assert!(
        rounds.is_sorted() && rounds.iter().filter(|round| **round == 0).count() == 4,
        "{rounds:?}"
    );
    assert!(
        !summary["explained"]["differences"].as_array().unwrap().is_empty(),
        "{summary:#}"
    );
}

#[test]
fn a_run_without_layers_is_made_again() {
    if !may_observe() {
        return;
    }
    let lasthop = Lasthop::new();
    lasthop.run(RUN.iter().chain(&["--rounds=2"])).ok();
    let plain = lasthop.runs();
    let ran = lasthop.run(["explain", "last", "-q"]).ok();
    assert!(ran.stderr.contains("is made again"), "{}", ran.stderr);
    assert!(
        one_line(&ran.stdout).contains("In the profile trials"),
        "{}",
        ran.stdout
    );
    assert_eq!(lasthop.runs().len(), 2);
    // Now it has them.
    lasthop.run(["explain", "last", "-q"]).ok();
    assert_eq!(lasthop.runs().len(), 2);
    let copy = lasthop.home().join("copy");
    assert!(
        Command::new("cp")
            .arg("-r")
            .args([&plain[0], &copy])
            .status()
            .unwrap()
            .success()
    );
    lasthop
        .run([Path::new("explain"), &copy])
        .fails(2, "may be somebody else's");
    assert_eq!(lasthop.runs().len(), 2, "nothing of it was executed");
}

#[test]
fn mistakes_in_layers_are_told_before_anything_runs() {
    let lasthop = Lasthop::new();
    let file = lasthop.home().join("mine.toml");
    fs::write(&file, "[[layer]]\nid = \"mine\"\nkernel = [\"tcp_ack\"]\n").unwrap();
    let layers = ["--layers", file.to_str().unwrap()];
    lasthop
        .run(RUN.iter().chain(&["--explain"]).chain(&layers))
        .fails(2, "mine.toml:2: `mine` is a new layer");
    lasthop.run(RUN.iter().chain(&layers)).fails(2, "--explain");
    assert!(lasthop.runs().is_empty());
}

/// As an account without rights, which this machine does not let observe others.
fn without_rights(lasthop: &Lasthop, arguments: &[&str]) -> Ran {
    // That of the build may be where it cannot go.
    let program = lasthop.home().join("lasthop");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    }
    let asked = lasthop.command(arguments);
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    command.envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::from(command.uid(DAEMON).gid(DAEMON).output().unwrap())
}

#[test]
fn who_may_not_observe_is_told_what_is_missing() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !rustix::process::geteuid().is_root() || paranoid.trim() == "-1" {
        skip("only root can try what another user cannot do, and only where something is forbidden");
        return;
    }
    let lasthop = Lasthop::new();
    for folder in [lasthop.home(), lasthop.sandboxes()] {
        chown(folder, Some(DAEMON), Some(DAEMON)).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = [&RUN[..], &["--rounds=2", "--explain"]].concat();
    let ran = without_rights(&lasthop, &run).ok();
    assert!(ran.stdout.contains("(not-observed)"), "{}", ran.stdout);
    let report = without_rights(&lasthop, &["report", "last", "--verbose"]).ok();
    for text in [&ran.stderr, &one_line(&report.stdout)] {
        assert!(
            text.contains("CAP_PERFMON") && text.contains("kernel.perf_event_paranoid"),
            "{text}"
        );
    }
    let summary = without_rights(&lasthop, &["report", "last", "--format=json"])
        .ok()
        .json();
    assert_eq!(summary["explained"]["cases"], serde_json::json!({}));
    assert_eq!(summary["failures"], serde_json::json!([]));
    let doctor = without_rights(&lasthop, &["doctor"]).stdout;
    assert!(
        one_line(&doctor).contains("`run --explain` would see no layers"),
        "{doctor}"
    );
}
