//! The embedded default, for real: every pattern over every transport.

use crate::common;

use std::process::Command;

use common::{BRIEF, Lasthop, Ran, engines::take_environment, installed};
use serde_json::Value;

fn run(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    lasthop.brief("sockets", arguments)
}

fn cases(summary: &Value) -> Vec<&str> {
    summary["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["case"].as_str().unwrap())
        .collect()
}

#[test]
fn every_pattern_answers_on_every_transport() {
    let lasthop = Lasthop::new();
    let summary = run(
        &lasthop,
        &[
            "--set",
            "transport=unix,abstract,tcp,tcp6,tls,tls-unix",
            "--set",
            "pattern=hello,echo,stream",
        ],
    );
    assert_eq!(cases(&summary).len(), 18, "{:?}", cases(&summary));
    assert_eq!(summary["failures"], Value::Array(vec![]));
    for case in summary["cases"].as_array().unwrap() {
        assert!(
            case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert_eq!(case["errors"].as_object().unwrap().len(), 0, "{case}");
        let family = match case["transport"].as_str().unwrap() {
            "unix" | "abstract" | "tls-unix" => "unix",
            "tcp6" => "inet6",
            _ => "inet",
        };
        assert_eq!(case["proof"]["family"], family, "{case}");
        let tls = case["transport"].as_str().unwrap().starts_with("tls");
        assert_eq!(case["proof"]["tls_version"].is_string(), tls, "{case}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn every_size_of_message_comes_back_whole() {
    let lasthop = Lasthop::new();
    let summary = run(
        &lasthop,
        &[
            "--only",
            "transport=unix,tcp,tls",
            "--set",
            "pattern=echo",
            "--set",
            "size=64,1024,16384,65536,1048576",
        ],
    );
    assert_eq!(cases(&summary).len(), 15);
    assert_eq!(summary["failures"], Value::Array(vec![]));
    lasthop.assert_nothing_left();
}

#[test]
fn the_programs_of_the_study_run_as_python() {
    let lasthop = Lasthop::new();
    let summary = run(
        &lasthop,
        &[
            "--set",
            "implementation=python",
            "--only",
            "transport=unix,tcp",
            "--set",
            "pattern=hello,echo",
        ],
    );
    assert_eq!(cases(&summary).len(), 4);
    for case in summary["cases"].as_array().unwrap() {
        assert!(case["load"]["driver"].as_str().unwrap().contains("python"), "{case}");
        assert!(case["requests"].as_u64().unwrap() > 0, "{case}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn nagle_is_a_factor() {
    let lasthop = Lasthop::new();
    let summary = run(
        &lasthop,
        &[
            "--set",
            "nodelay=true,false",
            "--set",
            "pattern=echo",
            "--only",
            "transport=unix,tcp",
        ],
    );
    assert_eq!(
        cases(&summary).len(),
        3,
        "one unix case, two tcp cases: {:?}",
        cases(&summary)
    );
    lasthop.assert_nothing_left();
}

#[test]
fn the_same_record_gives_the_same_report() {
    let lasthop = Lasthop::new();
    let first = run(
        &lasthop,
        &["--only", "transport=unix,tcp", "--set", "pattern=echo", "--seed", "7"],
    );
    let again = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(first, again);
    assert_eq!(first["seed"], 7);
}

#[test]
fn every_format_is_rendered_from_a_record() {
    let lasthop = Lasthop::new();
    run(&lasthop, &["--only", "transport=unix,tcp", "--set", "pattern=echo"]);
    let terminal = lasthop.run(["report"]).ok().stdout;
    assert!(terminal.contains("unix") && !terminal.contains('\u{1b}'), "{terminal}");
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    let markdown = lasthop.run(["report", "--format", "markdown"]).ok().stdout;
    assert!(markdown.contains("| unix"), "{markdown}");
    let csv = lasthop.run(["report", "--format", "csv"]).ok().stdout;
    assert!(csv.lines().count() > 2, "{csv}");
    let file = lasthop.home().join("out.md");
    let ran = lasthop
        .run(["report", "--format", "markdown", "--output", file.to_str().unwrap()])
        .ok();
    assert_eq!(ran.stdout, "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), markdown);
}

#[test]
fn a_run_stays_on_the_cpus_that_it_may_use() {
    if !installed("taskset") {
        return;
    }
    let lasthop = Lasthop::new();
    let placed = |mask: &str| {
        let mut arguments = vec!["run", "sockets", "--only", "pattern=echo"];
        arguments.extend(BRIEF);
        let run = lasthop.command(arguments);
        let mut bound = Command::new("taskset");
        bound
            .args(["--cpu-list", mask])
            .arg(run.get_program())
            .args(run.get_args());
        take_environment(&mut bound, &run);
        let summary = Ran::from(bound.output().unwrap()).ok().json();
        assert_eq!(summary["failures"], Value::Array(vec![]));
        summary["settings"]["placement"].clone()
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(placed("0"), "free", "there is one");
    if cpus >= 2 {
        let two = serde_json::json!({"apart": {"driver": [1], "services": [0]}});
        assert_eq!(placed("0-1"), two);
    }
    if cpus >= 4 {
        let many = placed("0-3");
        let groups = many["compact"]["groups"].as_array().unwrap();
        assert!(
            groups.iter().all(|group| group.as_array().unwrap().len() == 2),
            "{many}"
        );
    }
    lasthop.assert_nothing_left();
}
