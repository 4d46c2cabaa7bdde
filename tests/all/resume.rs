//! A run that ended before its time goes on in its own record, or says why it cannot.

use crate::common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use common::{Lasthop, Ran, have, list, needs, one_line, script, shows, signal, words};
use serde_json::Value;

/// Two cases, ten blocks a round: 21 lines of the record in about half a second.
const RUN: &str = "run sockets --only pattern=echo --only transport=unix,tcp --trial=20ms --blocks=10 -q";
const JSON: [&str; 2] = ["--format", "json"];

fn json(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    lasthop.run(arguments.iter().chain(&JSON)).ok().json()
}

/// In one line: the terminal's are broken anywhere.
fn report(lasthop: &Lasthop) -> String {
    let text = lasthop.run(["report", "last", "--verbose"]).ok().stdout;
    one_line(&text)
}

/// What every line of the record is, in order: `round`, `trial`, `failure` or `resumed`, and its content.
fn lines(run: &Path) -> Vec<(String, Value)> {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    assert!(text.ends_with('\n'), "the last line is whole");
    let parse = |line: &str| -> (String, Value) {
        let Value::Object(record) = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) else {
            panic!("{line}")
        };
        record.into_iter().next().unwrap()
    };
    text.lines().map(parse).collect()
}

fn numbers(lines: &[(String, Value)], kind: &str, key: &str) -> Vec<u64> {
    lines
        .iter()
        .filter(|line| line.0 == kind)
        .map(|line| line.1[key].as_u64().unwrap())
        .collect()
}

#[test]
fn a_killed_run_goes_on_with_a_new_round() {
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(RUN.split(' ').chain(["--rounds=3", "--budget=60s"]));
    lasthop.wait_for_lines(26);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    lasthop.wait_until_gone();
    let run = lasthop.runs().pop().unwrap();
    // What a kill in the middle of a write leaves.
    let mut left = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    left.truncate(left.rfind('\n').unwrap() + 1);
    let (half_line, half_character) = (&b"{\"failure\":{\"cause\":\"f"[..], &"ü".as_bytes()[..1]);
    fs::write(
        run.join("trials.jsonl"),
        [left.as_bytes(), half_line, half_character].concat(),
    )
    .unwrap();
    assert!(report(&lasthop).contains("cut off"), "what is there is reported");
    let summary = json(&lasthop, &["resume", "last"]);
    lasthop.assert_nothing_left();

    let all = lines(&run);
    let before = left.lines().count();
    assert_eq!(
        fs::read_to_string(run.join("trials.jsonl")).unwrap()[..left.len()],
        left,
        "nothing is rewritten"
    );
    assert_eq!(all[before].0, "resumed");
    assert_eq!(all.iter().filter(|line| line.0 == "failure").count(), 0, "{all:?}");
    let rounds = numbers(&all, "round", "round");
    assert!(
        rounds.is_sorted_by(|a, b| a < b),
        "every round has a number of its own: {rounds:?}"
    );
    let times = numbers(&all, "trial", "at_ns");
    assert!(times.is_sorted_by(|a, b| a < b), "one clock: {times:?}");
    for whole in &rounds[rounds.len() - 2..] {
        assert_eq!(
            numbers(&all, "trial", "round")
                .iter()
                .filter(|round| *round == whole)
                .count(),
            20
        );
    }

    assert_eq!(summary["stopped"], "rounds");
    assert_eq!(summary["complete"], true);
    assert_eq!(list(&summary["resumed"]).len(), 1);
    assert_eq!(summary["resumed"][0]["ended"], Value::Null, "it was killed");
    assert!(summary["resumed"][0]["pause_seconds"].as_f64().unwrap() > 0.0);
    let report = report(&lasthop);
    shows(&report, ["resumed once", "it was killed after"]);
    assert!(!report.contains("cut off"), "{report}");
    assert!(lasthop.run(["runs"]).ok().stdout.contains("sockets"));
    lasthop
        .run(["resume"])
        .fails(2, "is finished: it has as many rounds as you asked for");
}

#[test]
fn an_interrupted_run_goes_on_twice_and_not_beside_itself() {
    let lasthop = Lasthop::new();
    let interrupt = |arguments: &[&str], least: usize| {
        let mut child = lasthop.start(arguments);
        lasthop.wait_for_lines(least);
        lasthop.run(["resume"]).fails(2, "is still running");
        signal(&child, libc::SIGINT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        lines(&lasthop.runs()[0]).len()
    };
    // Rounds that last until another lasthop has started.
    let longer = RUN.replace("--blocks=10", "--blocks=40");
    let run = [&words(&longer)[..], &["--rounds=3", "--budget=120s", "--seed=7"]].concat();
    let first = interrupt(&run, 3);
    interrupt(&["resume", "last"], first + 4);
    let summary = json(&lasthop, &["resume", "last"]);
    assert_eq!(lasthop.runs().len(), 1, "one record");
    assert_eq!(summary["stopped"], "rounds");
    assert_eq!(summary["seed"], 7);
    let ended: Vec<&Value> = list(&summary["resumed"]).iter().map(|one| &one["ended"]).collect();
    assert_eq!(ended, ["interrupted", "interrupted"]);
    assert!(report(&lasthop).contains("resumed 2 times"));
}

#[test]
fn a_spent_budget_wants_another_one() {
    let lasthop = Lasthop::new();
    let before = lasthop
        .run(RUN.split(' ').chain(["--precision=0.01%", "--budget=2s"]).chain(JSON))
        .ok()
        .json();
    lasthop.run(["resume"]).fails(2, "give it more time, for example");
    let after = json(&lasthop, &["resume", "last", "--budget", "2s"]);
    assert_eq!(after["stopped"], "budget");
    assert_eq!(after["resumed"][0]["ended"], "budget");
    let number = |summary: &Value, pointer: &str| summary.pointer(pointer).and_then(Value::as_f64).unwrap();
    let used = number(&before, "/seconds");
    assert!((number(&after, "/resumed/0/after_seconds") - used).abs() < 1e-6);
    assert!((number(&after, "/settings/budget_seconds") - used - 2.0).abs() < 1e-6);
    assert!(number(&after, "/seconds") > used && number(&after, "/blocks") > number(&before, "/blocks"));
}

/// A Redis that says this version, and is what is installed.
fn write_redis(path: &Path, version: &str, comment: &str) {
    let says = format!("[ \"$1\" = --version ] && exec echo 'Redis server v={version} '");
    script(path, &format!("# {comment}\n{says}\nexec redis-server \"$@\""));
}

/// Its cases were left out: measured in the second part only they would look like the others.
#[test]
fn a_program_that_was_missing_and_is_there_now_is_named_and_refused() {
    needs!(have("redis-server"));
    let lasthop = Lasthop::new();
    let (mine, bin) = (lasthop.home().join("mine"), lasthop.home().join("bin"));
    let recipe = mine.join("services/other");
    fs::create_dir_all(&recipe).unwrap();
    fs::create_dir_all(&bin).unwrap();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: &str| fs::read_to_string(built_in.join(path)).unwrap();
    let other = text("services/redis/recipe.toml").replace("[\"redis-server\"]", "[\"other-redis\"]");
    assert!(other.contains("other-redis"));
    fs::write(recipe.join("recipe.toml"), other).unwrap();
    for file in ["redis.conf.j2", "set.sh.j2"] {
        fs::copy(built_in.join("services/redis").join(file), recipe.join(file)).unwrap();
    }
    let factor = "[factors.server]\nhelp = \"which one\"\nlevels = [\"redis\", \"other\"]\n\n[services.redis]";
    let experiment = text("experiments/redis/experiment.toml").replace("[services.redis]", factor);
    let experiment = experiment.replace("recipe = \"redis\"", "recipe = \"{{ server }}\"");
    fs::write(mine.join("experiment.toml"), experiment).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        Ran::from(
            lasthop
                .command(arguments.iter().copied())
                .env("PATH", &path)
                .output()
                .unwrap(),
        )
    };
    let mut arguments = words("run ./mine --only=command=GET --only=pipeline=1 --only=transport=unix,tcp");
    arguments.extend("--set=connections=1 --trial=10ms --precision=0.01% --budget=3s --format=json".split(' '));
    let summary = run(&arguments).json();
    let failures = list(&summary["failures"]);
    let left_out = |failure: &Value| {
        failure["stage"] == "locate"
            && failure["case"]
                .as_str()
                .is_some_and(|case| case.ends_with("/server=other"))
    };
    assert!(failures.len() >= 2 && failures.iter().all(left_out), "{failures:?}");

    let record = lasthop.runs().pop().unwrap().join("trials.jsonl");
    let before = fs::read_to_string(&record).unwrap();
    script(&bin.join("redis-cli"), "exec /usr/bin/redis-cli \"$@\"");
    write_redis(&bin.join("other-redis"), "7.0.1", "now it is there");
    let refused = run(&["resume", "last", "--budget=2s"]).fails(2, "- other: was missing, is now 7.0.1 (");
    shows(&refused.stderr, ["Start a new run instead: `lasthop run ./mine"]);
    assert_eq!(fs::read_to_string(&record).unwrap(), before, "the record is as it was");

    fs::remove_file(bin.join("other-redis")).unwrap();
    let summary = run(&["resume", "last", "--budget=2s", "--format=json"]).json();
    assert_eq!(list(&summary["resumed"]).len(), 1, "everything is as it was");
}

#[test]
fn what_has_changed_is_named_and_refused() {
    needs!(have("redis-server"));
    let lasthop = Lasthop::new();
    let redis = lasthop.home().join("redis");
    write_redis(&redis, "7.0.1", "first");
    script(&lasthop.home().join("redis-cli"), "exec redis-cli \"$@\"");
    fs::create_dir(lasthop.home().join("mine")).unwrap();
    let definition = lasthop.home().join("mine/experiment.toml");
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/redis/experiment.toml"),
        &definition,
    )
    .unwrap();
    let mut arguments = words("run ./mine --only=command=GET --only=pipeline=1 --only=transport=unix,tcp");
    arguments.extend("--set=connections=1 --trial=10ms --precision=0.01% --budget=3s --program".split(' '));
    let program = format!("redis={}", redis.display());
    arguments.push(&program);
    lasthop.run(&arguments).ok();
    let run = lasthop.runs().pop().unwrap();
    let record = || fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let before = record();
    let refused = |text: &str| {
        // What was changed by hand is foreign, which comes first.
        let ran = lasthop
            .run(["resume", run.to_str().unwrap(), "--budget=2s", "--trust-record"])
            .fails(2, text);
        shows(&ran.stderr, ["Start a new run instead: `lasthop run ./mine"]);
        assert_eq!(record(), before, "the record is as it was");
        assert!(run.join("end.json").exists());
        lasthop.wait_until_gone();
    };

    let text = fs::read_to_string(&definition).unwrap();
    fs::write(&definition, format!("{text}\n# changed\n")).unwrap();
    refused("- experiment.toml has changed");
    fs::write(&definition, &text).unwrap();

    write_redis(&redis, "7.0.2", "first");
    refused("- redis: was 7.0.1, is now 7.0.2");
    write_redis(&redis, "7.0.1", "rebuilt");
    refused("- redis: its executable has changed");
    write_redis(&redis, "7.0.1", "first");

    let environment = fs::read_to_string(run.join("environment.json")).unwrap();
    let mut other: Value = serde_json::from_str(&environment).unwrap();
    other["kernel"] = "2.4.1".into();
    other["cpus"] = 99.into();
    fs::write(run.join("environment.json"), other.to_string()).unwrap();
    refused("- number of CPUs: was 99, is now ");
    refused("- kernel: was 2.4.1, is now ");
    fs::write(run.join("environment.json"), environment).unwrap();

    let summary = json(&lasthop, &["resume", "last", "--budget=2s"]);
    assert_eq!(list(&summary["resumed"]).len(), 1, "everything is as it was");
}

/// The record of a run that was interrupted.
fn interrupted(lasthop: &Lasthop) -> PathBuf {
    let mut child = lasthop.start(RUN.split(' ').chain(["--rounds=3", "--budget=60s"]));
    lasthop.wait_for_lines(3);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    lasthop.wait_until_gone();
    lasthop.runs().pop().unwrap()
}

/// An interrupted run, and a copy of its record that names a command of ssh in the place of what was run.
fn passed_on(lasthop: &Lasthop, touched: &Path) -> PathBuf {
    let own = interrupted(lasthop);
    let given = lasthop.home().join("given");
    fs::create_dir(&given).unwrap();
    for file in ["run.json", "trials.jsonl", "lock"] {
        fs::copy(own.join(file), given.join(file)).unwrap();
    }
    let mut header: Value = serde_json::from_str(&fs::read_to_string(given.join("run.json")).unwrap()).unwrap();
    header["settings"]["driver_at"] = "ssh:localhost".into();
    let command = format!("ProxyCommand=touch {}; false", touched.display());
    header["origin"]["remote"]["options"] = vec![command].into();
    header["origin"]["programs"]["nginx"] = "/opt/theirs/nginx".into();
    fs::write(given.join("run.json"), header.to_string()).unwrap();
    given
}

#[test]
fn what_somebody_elses_record_names_is_shown_and_not_executed() {
    needs!(have("ssh"));
    let lasthop = Lasthop::new();
    let touched = lasthop.home().join("touched");
    let given = passed_on(&lasthop, &touched);
    let resume = |more: &[&str]| lasthop.run(["resume", given.to_str().unwrap()].iter().chain(more));
    let before = fs::read_to_string(given.join("trials.jsonl")).unwrap();
    let ran = resume(&[]).fails(2, "may be somebody else's: it is not in your own store");
    for named in [
        "ssh:localhost",
        "ProxyCommand=touch",
        "/opt/theirs/nginx",
        "--trust-record",
        "experiment sockets",
    ] {
        assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
    }
    assert!(!touched.exists(), "its command was executed");
    assert_eq!(fs::read_to_string(given.join("trials.jsonl")).unwrap(), before);

    // Whoever has looked at it may go on.
    assert_eq!(resume(&["--trust-record"]).code, Some(1), "there is no such host");
    assert!(touched.exists(), "the command is what ssh is told");
    fs::remove_file(&touched).unwrap();

    // A copy in the own store that others may write is no more trusted.
    let stored = lasthop.home().join("runs/stored");
    fs::rename(&given, &stored).unwrap();
    for mode in [0o702, 0o720] {
        fs::set_permissions(&stored, fs::Permissions::from_mode(mode)).unwrap();
        lasthop.run(["resume", "stored"]).fails(2, "others can write to");
    }
    assert!(!touched.exists(), "its command was executed");
}

#[test]
fn a_record_without_its_environment_or_with_links_is_refused() {
    let lasthop = Lasthop::new();
    let run = interrupted(&lasthop);
    let environment = run.join("environment.json");
    let kept = run.join("kept.json");
    fs::rename(&environment, &kept).unwrap();
    lasthop.run(["resume", "last"]).fails(2, "environment.json is missing");
    fs::rename(&kept, &environment).unwrap();

    let trials = run.join("trials.jsonl");
    let elsewhere = lasthop.home().join("elsewhere");
    fs::rename(&trials, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &trials).unwrap();
    let before = fs::read_to_string(&elsewhere).unwrap();
    lasthop.run(["resume", "last"]).fails(2, "trials.jsonl is a link");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), before);
}

/// The number after the highest would be 0 again, whose folder may be a link.
#[test]
fn a_round_number_that_no_run_reaches_is_refused() {
    let (lasthop, outside) = (Lasthop::new(), tempfile::TempDir::new().unwrap());
    let run = interrupted(&lasthop);
    let services = run.join("services");
    let _ = fs::remove_dir_all(services.join("0"));
    fs::create_dir_all(services.join(u32::MAX.to_string())).unwrap();
    std::os::unix::fs::symlink(outside.path(), services.join("0")).unwrap();
    lasthop
        .run(["resume", "last", "--budget=2s"])
        .fails(2, "has a round number 4294967295, which no run reaches");
    fs::remove_dir(services.join(u32::MAX.to_string())).unwrap();
    lasthop.run(["resume", "last", "--budget=2s"]).ok();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
