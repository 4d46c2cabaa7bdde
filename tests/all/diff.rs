//! Two runs of the default experiment against each other, in every format, and limits for CI.

use crate::{
    common,
    page::{have_web, node},
};

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use common::{Lasthop, list, needs, one_line, shows, texts};
use jsonschema::validator_for;
use serde_json::Value;

/// Too short for a verdict, long enough for an interval of every case.
const SHORT: &str =
    "--only transport=unix,tcp --set pattern=echo --rounds 4 --budget 60s --trial 10ms --blocks 2 --quiet";

/// Two runs; the second has another length of trials.
struct Two {
    lasthop: Lasthop,
    old: String,
    new: String,
}

/// Shared by the tests that run beside each other. The last of them takes it away: what is static is never dropped, and its
/// folders would stay.
fn two() -> Arc<Two> {
    static SHARED: Mutex<Weak<Two>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let two = Arc::new(Two::new());
        *shared = Arc::downgrade(&two);
        two
    })
}

impl Two {
    fn new() -> Self {
        let lasthop = Lasthop::new();
        let run = |more: &[&str]| {
            let all = ["run", "sockets"]
                .into_iter()
                .chain(SHORT.split(' '))
                .chain(more.iter().copied());
            lasthop.run(all).ok();
            lasthop.last()
        };
        let (old, new) = (run(&[]), run(&["--precision", "1%"]));
        lasthop.assert_nothing_left();
        Self { lasthop, old, new }
    }

    fn diff(&self, more: &[&str]) -> common::Ran {
        self.lasthop.run(["diff", &self.old, &self.new].iter().chain(more))
    }
}

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn valid(name: &str, value: &Value) {
    let errors: Vec<String> = validator_for(&schema(name))
        .unwrap()
        .iter_errors(value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_diff_has_changes_with_intervals_in_every_format() {
    let two = &*two();
    let json = two.diff(&["--format", "json"]).ok().json();
    valid("diff.json", &json);
    assert_eq!(
        (json["old"]["run"].as_str(), json["new"]["run"].as_str()),
        (Some(&*two.old), Some(&*two.new))
    );
    let declared = &list(&json["comparisons"])
        .iter()
        .find(|one| one["declared"] == true)
        .unwrap();
    let ratio = |of: &str| declared[of]["estimate"].as_f64().unwrap();
    assert!(
        (ratio("change") - ratio("new") / ratio("old")).abs() < 1e-9,
        "{declared}"
    );
    assert!(
        declared["change"]["low"].as_f64().unwrap() < ratio("change"),
        "{declared}"
    );
    let changed = |case: &str, metric: &str| {
        let cases = list(&json["cases"]);
        cases
            .iter()
            .any(|one| one["case"] == case && one["metric"] == metric && one["change"]["estimate"].is_f64())
    };
    for metric in ["throughput", "latency_p50", "latency_p99", "cpu_per_request"] {
        assert!(changed("unix", metric) && changed("tcp", metric), "{metric}");
    }
    let differs = texts(&json["differences"], "name");
    assert_eq!(differs, ["precision"]);

    let terminal = two.diff(&[]).ok().stdout;
    shows(&terminal, ["new/old", "precision: 2 % → 1 %"]);
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    assert_eq!(terminal, two.diff(&["--format", "text"]).ok().stdout);
    let markdown = two.diff(&["--format", "markdown"]).ok().stdout;
    assert!(markdown.contains("| unix"), "{markdown}");
    let csv = two.diff(&["--format", "csv"]).ok().stdout;
    let lines: Vec<&str> = csv.lines().collect();
    let count = |name: &str| list(&json[name]).len();
    assert_eq!(lines.len(), 1 + count("comparisons") + count("cases"), "{csv}");
    assert!(
        lines
            .iter()
            .all(|line| line.split(',').count() == lines[0].split(',').count()),
        "{csv}"
    );
    assert!(two.diff(&["--format", "svg"]).ok().stdout.starts_with("<svg"));
}

#[test]
fn several_runs_of_one_machine_are_reported_together() {
    let two = &*two();
    let report = |format: &str| two.lasthop.run(["report", &two.old, &two.new, "--format", format]).ok();
    let json = report("json").json();
    valid("fleet.json", &json);
    let names = texts(&json["machines"], "name");
    assert_eq!(names, [&*two.old, &*two.new]);
    for one in list(&json["comparisons"]) {
        assert_eq!(list(&one["machines"]).len(), 2, "{one}");
        let judged = one["declared"] == true || one["metric"] == "cpu_per_request";
        assert_eq!(one["between_machines"]["differs"].is_boolean(), judged, "{one}");
    }
    let terminal = report("terminal").stdout;
    shows(&terminal, [&two.old, "All runs"]);
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    assert!(report("markdown").stdout.contains("### All runs"));
    assert!(report("csv").stdout.lines().count() > 2);
}

#[test]
fn a_limit_decides_by_the_interval() {
    let two = &*two();
    // Whether a short run on a busy machine decides it is not this test's business.
    let ran = two.diff(&["--fail-if", "unix slower > 99%"]).ok();
    shows(&ran.stderr, ["unix slower > 99%: ", "unix: requests/s"]);
    let (steady, slow) = (steady(two, "steady", 100), steady(two, "slow", 90));
    let (steady, slow) = (steady.to_str().unwrap(), slow.to_str().unwrap());
    let diff = |limits: &[&str]| {
        let limits = limits.iter().flat_map(|limit| ["--fail-if", limit]);
        two.lasthop.run(["diff", steady, slow].into_iter().chain(limits))
    };
    let failed =
        diff(&["unix slower > 5%", "any faster > 5%"]).fails(3, "unix slower > 5%: exceeded by unix: requests/s (");
    shows(&failed.stderr, ["any faster > 5%: kept by unix"]);
    let said = one_line(&failed.stdout);
    assert!(said.starts_with("Changed: the Unix socket against TCP. "), "{said}");
    diff(&["unix slower > 15%"]).ok();
    two.lasthop
        .run(["report", slow, "--fail-if", "unix slower > 5%"])
        .fails(3, "exceeded by unix");
    two.lasthop
        .run(["report", steady, "--fail-if", "unix slower > 5%"])
        .ok();
    two.lasthop
        .run(["report", steady, slow, "--fail-if", "unix slower > 5%"])
        .fails(3, "exceeded by unix");
}

/// A copy of the new run in which every trial answered 100 requests, and those over a Unix socket so many.
fn steady(two: &Two, name: &str, by_socket: u64) -> PathBuf {
    edited(
        two,
        name,
        |_| {},
        |trial| {
            let requests = if trial["case"] == "unix" { by_socket } else { 100 };
            (trial["result"]["requests"], trial["result"]["elapsed_ns"]) = (requests.into(), 10_000_000.into());
        },
    )
}

/// A copy of the new run with another header and other trials.
fn edited(two: &Two, name: &str, header: impl Fn(&mut Value), trial: impl Fn(&mut Value)) -> PathBuf {
    let (from, to) = (
        two.lasthop.home().join("runs").join(&two.new),
        two.lasthop.home().join(name),
    );
    fs::create_dir_all(&to).unwrap();
    for file in ["environment.json", "end.json"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let read = |file: &str| fs::read_to_string(from.join(file)).unwrap();
    let mut head: Value = serde_json::from_str(&read("run.json")).unwrap();
    head["run"] = name.into();
    header(&mut head);
    fs::write(to.join("run.json"), head.to_string()).unwrap();
    let line = |line: &str| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        record.get_mut("trial").into_iter().for_each(&trial);
        record.to_string() + "\n"
    };
    fs::write(
        to.join("trials.jsonl"),
        read("trials.jsonl").lines().map(line).collect::<String>(),
    )
    .unwrap();
    to
}

#[test]
fn what_cannot_be_compared_is_said() {
    let two = &*two();
    two.diff(&["--fail-if", "tls slower > 5%"])
        .fails(2, "names no case that is compared");
    two.lasthop.run(["diff", &two.old, &two.old]).fails(2, "is named twice");
    let other = edited(
        two,
        "elsewhere",
        |header| header["experiment"]["name"] = "another".into(),
        |_| {},
    );
    let other = other.to_str().unwrap();
    two.lasthop
        .run(["diff", &two.old, other])
        .fails(2, "compare runs of the same experiment");
    two.lasthop
        .run(["report", &two.old, other])
        .fails(2, "compare runs of the same experiment");
}

/// Without what a record of version 1 did not hold.
#[test]
fn a_run_of_an_older_lasthop_is_compared_too() {
    let two = &*two();
    let without = |value: &mut Value, keys: &[&str]| {
        let object = value.as_object_mut().unwrap();
        for key in keys {
            assert!(object.remove(*key).is_some(), "{key} is not in the record: {object:?}");
        }
    };
    let old = edited(
        two,
        "older",
        |header| header["record"] = 1.into(),
        |trial| without(&mut trial["result"], &["speed"]),
    );
    let old = old.to_str().unwrap();
    let json = two.lasthop.run(["diff", old, &two.new, "--format", "json"]).ok().json();
    valid("diff.json", &json);
    for one in list(&json["comparisons"]) {
        assert!(
            (one["change"]["estimate"].as_f64().unwrap() - 1.0).abs() < 1e-9,
            "the same trials: {one}"
        );
        assert_ne!(one["verdict"], "slower", "{one}");
    }
    assert_eq!(json["differences"], Value::Array(vec![]));
}

/// What was asked for is not compared: the response time is.
#[test]
fn runs_at_a_rate_are_compared_by_response_time() {
    let lasthop = Lasthop::new();
    let run = || {
        let given = "run sockets --rate 300 --only transport=unix,tcp --set pattern=echo";
        let short = [
            "--rounds", "2", "--blocks", "2", "--trial", "50ms", "--budget", "60s", "-q",
        ];
        lasthop.run(given.split(' ').chain(short)).ok();
        lasthop.last()
    };
    let (old, new) = (run(), run());
    let json = lasthop.run(["diff", &old, &new, "--format", "json"]).ok().json();
    valid("diff.json", &json);
    let comparisons = list(&json["comparisons"]);
    assert!(
        comparisons.iter().all(|one| one["metric"] != "throughput"),
        "{comparisons:?}"
    );
    let declared = comparisons.iter().find(|one| one["metric"] == "latency_p50").unwrap();
    assert_eq!(declared["declared"], true, "{declared}");
    let terminal = lasthop.run(["diff", &old, &new]).ok().stdout;
    assert!(terminal.contains("median response time"), "{terminal}");
}

#[test]
fn a_run_is_checked_against_limits() {
    let lasthop = Lasthop::new();
    let all = ["run", "sockets"].into_iter().chain(SHORT.split(' '));
    let ran = lasthop.run(all.chain(["--fail-if", "unix slower > 99%"])).ok();
    assert!(ran.stderr.contains("unix slower > 99%: "), "{}", ran.stderr);
}

#[test]
fn the_page_of_a_diff_works() {
    needs!(have_web());
    let two = &*two();
    let path = |name: &str| two.lasthop.home().join(name).to_str().unwrap().to_owned();
    let (diff, runs) = (path("diff.html"), path("runs.html"));
    two.diff(&["--format", "html", "--output", &diff]).ok();
    two.lasthop
        .run(["report", &two.old, &two.new, "--format", "html", "--output", &runs])
        .ok();
    node(&["test.mjs", "forest", &diff, &runs]);
}
