//! Runs of several machines, in every format.

use crate::common;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use common::{Lasthop, Ran, engines::take_environment, eventually, executable, list, shows, words};
use jsonschema::validator_for;
use serde_json::Value;

/// A short run that calls this machine by another name.
fn run_on(lasthop: &Lasthop, name: &str, more: &[&str]) -> String {
    let machine = format!("machine={name}");
    let all = "run sockets --only transport=unix,tcp --set pattern=echo --rounds 4 --budget 60s --trial";
    let all = all
        .split(' ')
        .chain(["10ms", "--blocks", "2", "--quiet", "--label", &machine]);
    lasthop.run(all.chain(more.iter().copied())).ok();
    lasthop.runs().pop().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn machines_are_reported_together() {
    let lasthop = Lasthop::new();
    let runs: Vec<String> = [
        ("one", "instance=small"),
        ("two", "instance=small"),
        ("three", "instance=large"),
    ]
    .map(|(name, kind)| run_on(&lasthop, name, &["--label", kind]))
    .to_vec();
    lasthop.assert_nothing_left();
    let report = |more: &[&str]| {
        lasthop.run(
            ["report"]
                .into_iter()
                .chain(runs.iter().map(String::as_str))
                .chain(more.iter().copied()),
        )
    };
    let json = report(&["--format", "json"]).ok().json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/fleet.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let errors: Vec<String> = validator_for(&schema)
        .unwrap()
        .iter_errors(&json)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        (&json["by"], list(&json["kinds"]).len()),
        (&serde_json::json!(["instance"]), 2)
    );
    assert_eq!(json["machines"][2]["name"], "three");
    let declared = list(&json["comparisons"])
        .iter()
        .find(|one| one["declared"] == true)
        .unwrap();
    let mean = |end: &str| declared["mean"][end].as_f64().unwrap();
    let ratios: Vec<f64> = (0..3)
        .map(|at| declared["machines"][at]["ratio"].as_f64().unwrap())
        .collect();
    assert!(
        ratios.iter().all(|ratio| *ratio > 0.0) && mean("low") < mean("estimate") && mean("estimate") < mean("high")
    );
    assert_eq!(list(&declared["kinds"]["means"]).len(), 2, "{declared}");

    let terminal = report(&[]).ok().stdout;
    shows(&terminal, ["All machines", "three"]);
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    assert!(report(&["--format", "markdown"]).ok().stdout.contains("### Kinds"));
    assert!(report(&["--format", "html"]).ok().stdout.contains("class=\"forest\""));
    assert!(report(&["--by", "architecture"]).ok().stdout.contains("on 3 machines"));
    report(&["--by", "colour"]).fails(2, "no record has `colour`");
    report(&["--fail-if", "tls slower > 5%"]).fails(2, "names no case");
    report(&[&runs[0]]).fails(2, "is named twice");
}

/// The log of a run as in a Pod.
fn log_of_a_run(pod: &Lasthop, more: &[&str]) -> String {
    let run = words("run sockets --only transport=unix,tcp --set pattern=echo --budget 4s --trial");
    let usual = ["10ms", "--blocks", "2", "--no-progress", "--label", "machine=n1"];
    pod.run([&["fleet", "worker", "--"], &run[..], &usual, more].concat())
        .ok()
        .stdout
}

#[test]
fn a_record_comes_back_through_a_log() {
    let (pod, here) = (Lasthop::new(), Lasthop::new());
    let log = log_of_a_run(&pod, &[]);
    pod.assert_nothing_left();
    let saved = here.home().join("log");
    let collect = |text: &str| {
        fs::write(&saved, text).unwrap();
        here.run(["fleet", "collect", saved.to_str().unwrap()])
    };
    let half: String = log
        .lines()
        .take(log.lines().count() / 2)
        .map(|line| format!("{line}\n"))
        .collect();
    collect(&half).fails(1, "ends before the record does");
    fs::remove_dir_all(&here.runs()[0]).unwrap();
    shows(
        &collect(&format!("some other line\n{log}")).ok().stderr,
        ["complete and verified"],
    );
    let (there, run) = (pod.runs().remove(0), here.runs().remove(0));
    assert_eq!(there.file_name(), run.file_name());
    for file in [
        "run.json",
        "trials.jsonl",
        "environment.json",
        "end.json",
        "headline.txt",
    ] {
        assert_eq!(
            fs::read(there.join(file)).unwrap(),
            fs::read(run.join(file)).unwrap(),
            "{file}"
        );
    }
    let name = run.file_name().unwrap().to_str().unwrap();
    assert!(here.run(["report", name]).ok().stdout.contains("Unix socket"));
    here.run(["report", "last"]).fails(2, "no run in ");
    collect(&log).fails(1, "there is a record");
}

/// Makes a program the `kubectl` of a lasthop. Returns the search path with it.
fn search_path(lasthop: &Lasthop, kubectl: &str) -> String {
    let bin = lasthop.home().join("bin");
    fs::create_dir(&bin).unwrap();
    executable(&bin.join("kubectl"), kubectl);
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// `kubectl` of a cluster whose only Pod has written `log` in the home.
const CLUSTER: &str = r#"#!/bin/sh
# After --cache-dir and its folder.
case "$3 $5" in
create*) echo '{ "kind": "Job", "metadata": { "name": "job", "uid": "its uid" } }' ;;
logs*) cat log ;;
delete*) touch deleted ;;
"get jobs,pods")
    if [ -e deleted ]; then
        echo '{ "items": [] }'
    else
        echo '{ "items": [{ "kind": "Pod", "metadata": { "name": "pod", "ownerReferences": [{ "uid": "its uid" }] },
            "status": { "phase": "Running" } }] }'
    fi ;;
get*) echo '{ "items": [] }' ;;
esac
"#;

#[test]
fn a_record_that_comes_back_is_reported_as_report_does() {
    // The ratio rests on one start, so no limit can be judged.
    let log = log_of_a_run(&Lasthop::new(), &["--rounds", "1"]);
    let run = |more: &[&str]| {
        let here = Lasthop::new();
        fs::write(here.home().join("log"), &log).unwrap();
        let mut run = here.command([&["fleet", "run", "sockets", "--node", "n1"], more].concat());
        Ran::from(run.env("PATH", search_path(&here, CLUSTER)).output().unwrap())
    };
    assert!(run(&[]).ok().stdout.contains("Unix socket"));
    run(&["--fail-if", "unix slower > 99%"]).fails(4, "unix slower > 99%: ");
    let by = run(&["--by", "architecture", "--format", "json"]).ok().json();
    assert_eq!(by["by"], serde_json::json!(["architecture"]));
}

/// `kubectl` that keeps something, and never answers.
const KUBECTL: &str = r#"#!/bin/sh
[ "$1" = --cache-dir ] && mkdir -p "$2" && exec sleep 60
"#;

#[test]
fn what_a_killed_client_left_on_this_machine_is_private_and_removed_by_clean() {
    let lasthop = Lasthop::new();
    let path = search_path(&lasthop, KUBECTL);
    let plain = lasthop.command(["fleet", "run", "sockets", "--budget", "5s"]);
    let mut client = Command::new("sh");
    client.args(["-c", "umask 000; exec \"$@\"", "sh"]);
    client.arg(plain.get_program()).args(plain.get_args());
    take_environment(&mut client, &plain);
    client.env("PATH", path).current_dir(lasthop.home());
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kept = || {
        let folders = fs::read_dir(lasthop.sandboxes()).unwrap();
        folders
            .map(|entry| entry.unwrap().path())
            .find(|folder| folder.join("kubectl").exists())
    };
    let mut folder = None;
    eventually("a kubectl", || {
        folder = kept();
        folder.is_some()
    });
    let folder = folder.unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(folder.exists());
    assert!(lasthop.run(["clean"]).ok().stderr.contains(folder.to_str().unwrap()));
}

#[test]
fn no_log_stops_its_reader() {
    let here = Lasthop::new();
    let collect = |log: &[u8]| {
        let saved = here.home().join("log");
        fs::write(&saved, log).unwrap();
        here.run(["fleet", "collect", saved.to_str().unwrap()])
    };
    collect(&vec![b'x'; 2 << 20]).fails(1, "a line of the log is longer than 1024 KiB");
    // What is no text is no line of the record.
    let log = b"\xff\xfe\n\xff\nlasthop-record 0 bm8gc3RyZWFt\n";
    collect(log).fails(1, "line 0 of the record is not one that lasthop writes");
}

#[test]
fn an_export_says_all_that_a_run_would_ask_for() {
    let lasthop = Lasthop::new();
    let export = |more: &[&str]| lasthop.run(["fleet", "export"].into_iter().chain(more.iter().copied()));
    let job = export(&words("sockets --node n1 --budget 30s --only transport=unix,tcp"))
        .ok()
        .stdout;
    for line in [
        "kind: Job",
        "backoffLimit: 0",
        "restartPolicy: Never",
        "automountServiceAccountToken: false",
    ] {
        assert!(job.contains(line), "{line}: {job}");
    }
    assert!(
        job.contains("\"run\",\"sockets\",\"--only=transport=unix,tcp\",\"--budget=30s\""),
        "{job}"
    );
    let pod = export(&["nginx-gunicorn", "--pods=tcp,unix", "--image", "i"])
        .ok()
        .stdout;
    shows(&pod, ["name: \"unix-nginx\"", "restartPolicy: Always"]);
    assert!(
        pod.contains("unix:/run/lasthop/unix/gunicorn/socket"),
        "the link is rendered: {pod}"
    );
    export(&["memcached", "--pods=tcp,unix"]).ok();
    export(&["php-fpm", "--pods=tcp,unix"]).ok();
    lasthop.run(["new", "mine", "--from", "nginx-gunicorn"]).ok();
    let own = export(&["./mine"]).ok().stdout;
    for part in [
        "\"run\",\"/etc/lasthop/experiment/mine\"",
        "experiment/mine/experiment.toml",
        "Hello there!",
    ] {
        assert!(own.contains(part), "{part}: {own}");
    }
}
