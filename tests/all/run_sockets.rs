//! The embedded default, for real: every pattern over every transport.

use crate::common;

use common::Lasthop;
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
