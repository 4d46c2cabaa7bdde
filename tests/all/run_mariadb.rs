//! The real MariaDB over a Unix socket, TCP and TLS, with every way to authenticate.

use crate::common;

use std::{fs, path::Path};

use common::{BRIEF, Lasthop, have, is_right};
use serde_json::Value;

#[test]
fn queries_connections_and_rows_over_every_transport() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let set = [
        "--set",
        "auth=none",
        "--set",
        "rows=5000,10000",
        "--set",
        "queries=50,100",
        "--set",
        "mode=as-text,prepared-once",
    ];
    let summary = lasthop.brief("mariadb", &set);
    is_right(&summary, 21);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        let kept = case["levels"]["work"] != "connect" && case["levels"]["work"] != "queries";
        assert_eq!(case["proof"]["reused"], kept, "{case}");
        assert!(
            case["metrics"]["cpu_per_request"]["roles"]["mariadb"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn every_way_to_authenticate() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let all = ["--only", "work=connect", "--only", "auth=none,native-password,ed25519"];
    let summary = lasthop.brief("mariadb", &all);
    is_right(&summary, 9);
    let derived = summary["derived"].as_array().unwrap();
    let authentication = derived
        .iter()
        .filter(|derived| derived["quantity"] == "authentication")
        .count();
    assert_eq!(
        authentication, 6,
        "every way but none, over each transport: {derived:?}"
    );
    // A report says who lets anybody in, and nobody else.
    let open = summary["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["id"] == "open-to-everybody");
    let mut open: Vec<&str> = open.map(|check| check["case"].as_str().unwrap()).collect();
    open.sort_unstable();
    assert_eq!(open.len(), 2, "{open:?}");
    assert!(
        open.iter()
            .all(|case| case.contains("auth=none") && !case.contains("unix")),
        "{open:?}"
    );
    lasthop.assert_nothing_left();
}

#[test]
fn a_wrong_password_fails_and_the_rest_goes_on() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/mariadb");
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let (old, copy) = ("else secret }}", lasthop.home().join("changed"));
    assert!(text.contains(old));
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("experiment.toml"), text.replace(old, "else 'wrong' }}")).unwrap();
    let choices = [
        "run",
        "./changed",
        "--only",
        "work=connect",
        "--only",
        "transport=unix,tcp",
    ];
    let summary = lasthop.run(choices.iter().chain(&BRIEF)).json();
    let failures = summary["failures"].as_array().unwrap();
    assert!(!failures.is_empty());
    for failure in failures {
        assert!(
            failure["case"].as_str().unwrap().contains("native-password"),
            "{failure}"
        );
        let cause = failure["cause"].as_str().unwrap();
        assert!(
            cause.contains("error 1045, SQLSTATE 28000: Access denied for user 'lasthop'"),
            "{cause}"
        );
    }
    let trials = |case: &Value| case["trials"].as_u64().unwrap();
    let cases = summary["cases"].as_array().unwrap().iter();
    assert!(
        cases
            .filter(|case| case["levels"]["auth"] == "none")
            .all(|case| trials(case) > 0),
        "{summary}"
    );
    lasthop.assert_nothing_left();
}
