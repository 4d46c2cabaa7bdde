//! Stores behind real applications and their client libraries: HTTP in front, the link behind it.

use crate::common;

use std::{fs, path::Path};

use common::{BRIEF, Lasthop, go_is_warm, have, have_setup};

const FEW: [&str; 5] = [
    "--only=statements=5",
    "--set=pool=2",
    "--set=connections=2",
    "--settle=100ms",
    "--no-headroom",
];

/// Every case answers, its link is proven, and nothing but the link differs between cases.
fn every_transport_answers(name: &str, expected: usize) {
    if !have_setup(name) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief(name, &FEW);
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), expected, "{cases:?}");
    for case in cases {
        let family = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], family, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles.len() >= 2 && roles.values().all(|cost| cost.as_f64().unwrap() > 0.0),
            "{case}"
        );
    }
    let fired = summary["checks"].to_string();
    for never in [
        "config-differs",
        "transport-not-as-asked",
        "link-not-proven",
        "load-not-over-link",
    ] {
        assert!(!fired.contains(never), "{fired}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn node_and_redis() {
    every_transport_answers("node-redis", 3);
}

#[test]
fn python_and_redis() {
    every_transport_answers("python-redis", 3);
}

#[test]
fn python_and_postgres() {
    every_transport_answers("python-postgres", 3);
}

#[test]
fn go_and_postgres() {
    if have("go") {
        go_is_warm("go-http");
        every_transport_answers("go-postgres", 3);
    }
}

#[test]
fn java_and_postgres() {
    every_transport_answers("java-postgres", 3);
}

#[test]
fn php_and_mariadb() {
    every_transport_answers("php-mariadb", 6);
}

/// An application that reads something else says so, and is no fast one.
#[test]
fn a_wrong_value_is_a_failure() {
    if !have_setup("python-redis") {
        return;
    }
    let lasthop = Lasthop::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/python-redis");
    // Its packages are found by the name.
    let copy = lasthop.home().join("experiments/python-redis");
    fs::create_dir_all(&copy).unwrap();
    fs::copy(folder.join("application.py"), copy.join("application.py")).unwrap();
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let wrong = text.replace("key = \"lasthop\"", "key = \"lasthop\", bytes = 4");
    assert_ne!(text, wrong);
    fs::write(copy.join("experiment.toml"), wrong).unwrap();
    let run = lasthop.run(["run", "python-redis"].iter().chain(&BRIEF).chain(&FEW));
    assert!(
        run.stdout.contains("500") || run.stderr.contains("500"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    assert!(
        run.code != Some(0) || run.json()["failures"].as_array().unwrap().len() == 3,
        "{}",
        run.stdout
    );
    lasthop.assert_nothing_left();
}
