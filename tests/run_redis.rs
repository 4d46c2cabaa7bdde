//! The real Redis by Unix socket, TCP and TLS.

mod common;

use common::{Lasthop, have};

#[test]
fn every_transport_answers_with_and_without_a_pipeline() {
    if !have("redis-server") {
        return;
    }
    let lasthop = Lasthop::new();
    let mut arguments = vec!["run", "redis", "--set", "connections=4", "--budget", "6s", "--trial", "20ms"];
    arguments.extend(["--blocks", "2", "--format", "json"]);
    let summary = lasthop.run(arguments).ok().json();
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12, "{cases:?}");
    for case in cases {
        let tls = case["transport"] == "tls";
        assert_eq!(case["proof"]["tls_version"].as_str(), tls.then_some("TLSv1.3"), "{case}");
        assert!(case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0, "{case}");
        assert!(case["metrics"]["cpu_per_request"]["roles"]["redis"].as_f64().unwrap() > 0.0, "{case}");
    }
    let checks = summary["checks"].as_array().unwrap();
    let wrong = ["config-differs", "reuse-not-as-asked", "transport-not-as-asked"];
    assert!(!checks.iter().any(|check| wrong.contains(&check["id"].as_str().unwrap())), "{checks:?}");
    assert!(summary["failures"].as_array().unwrap().is_empty(), "{}", summary["failures"]);
    lasthop.assert_nothing_left();
}

/// A server that gives other bytes than were asked for is a failure, not a fast server.
#[test]
fn a_wrong_value_is_a_failure() {
    if !have("redis-server") {
        return;
    }
    let lasthop = Lasthop::new();
    let copy = lasthop.home().join("wrong");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/redis");
    std::fs::create_dir(&copy).unwrap();
    let text = std::fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let wrong = text.replace("{'bulk': 'x' * bytes}", "{'bulk': 'y' * bytes}");
    assert_ne!(text, wrong);
    std::fs::write(copy.join("experiment.toml"), wrong).unwrap();
    let mut arguments = vec!["run", "./wrong", "--only", "command=GET", "--only", "pipeline=1", "--budget", "4s"];
    arguments.extend(["--format", "json"]);
    let run = lasthop.run(arguments);
    assert!(run.code != Some(0) || !run.json()["failures"].as_array().unwrap().is_empty(), "{}", run.stdout);
    lasthop.assert_nothing_left();
}
