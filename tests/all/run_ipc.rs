//! Channels beside sockets: each is what it is called, and every reply is right.

use crate::common;

use common::Lasthop;
use serde_json::Value;

fn run(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    lasthop.brief("ipc", arguments)
}

#[test]
fn every_pattern_answers_through_every_channel() {
    let lasthop = Lasthop::new();
    let summary = run(&lasthop, &[]);
    assert_eq!(summary["failures"], Value::Array(vec![]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 18);
    for case in cases {
        assert!(
            case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert_eq!(case["errors"].as_object().unwrap().len(), 0, "{case}");
        let family = match case["transport"].as_str().unwrap() {
            "tcp" => "inet",
            "shm-spin" => "shm",
            other => other,
        };
        assert_eq!(case["proof"]["family"], family, "{case}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn messages_larger_than_a_channel_come_back_whole() {
    let lasthop = Lasthop::new();
    let summary = run(&lasthop, &["--only", "pattern=echo", "--set", "size=8,9000,1048576"]);
    assert_eq!(summary["cases"].as_array().unwrap().len(), 18);
    assert_eq!(summary["failures"], Value::Array(vec![]));
    lasthop.assert_nothing_left();
}

#[test]
fn spinning_on_one_cpu_is_measured_and_doubted() {
    let lasthop = Lasthop::new();
    let only = [
        "--only",
        "pattern=echo",
        "--only",
        "transport=unix,shm-spin",
        "--placement",
        "same",
    ];
    let summary = run(&lasthop, &only);
    let checks = summary["checks"].as_array().unwrap();
    let doubted: Vec<&Value> = checks
        .iter()
        .filter(|check| check["id"] == "spins-in-vain")
        .map(|check| &check["case"])
        .collect();
    assert_eq!(doubted.len(), 1, "{checks:?}");
    assert!(doubted[0].as_str().unwrap().contains("shm-spin"), "{doubted:?}");
    lasthop.assert_nothing_left();
}

#[test]
fn an_open_loop_over_a_channel_is_refused_in_words() {
    let lasthop = Lasthop::new();
    let rate = [
        "run",
        "ipc",
        "--only=transport=unix,pipe",
        "--only=pattern=echo",
        "--rate=100",
        "--budget=1s",
    ];
    let ran = lasthop.run(rate);
    ran.fails(1, "a channel (pipe) is driven like");
    lasthop.assert_nothing_left();
}
