//! The real PostgreSQL over a Unix socket, TCP and TLS, with every way to authenticate.

use crate::common;

use std::fs;

use common::{BRIEF, Lasthop, have, is_right};
use serde_json::Value;

#[test]
fn queries_connections_and_rows_over_every_transport() {
    if !have("postgres") {
        return;
    }
    let lasthop = Lasthop::new();
    let set = [
        "--set",
        "auth=trust",
        "--set",
        "rows=5000,10000",
        "--set",
        "queries=50,100",
    ];
    let summary = lasthop.brief("postgres", &set);
    is_right(&summary, 18);
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
            case["metrics"]["cpu_per_request"]["roles"]["postgres"]
                .as_f64()
                .unwrap()
                > 0.0,
            "{case}"
        );
    }
    let derived = summary["derived"].as_array().unwrap();
    let names: Vec<&str> = derived
        .iter()
        .map(|derived| derived["quantity"].as_str().unwrap())
        .collect();
    // Without a second way to authenticate nothing follows about the first.
    assert_eq!(
        names,
        [
            "query",
            "query",
            "query",
            "handshake",
            "handshake",
            "handshake",
            "row",
            "row",
            "row"
        ]
    );
    for quantity in derived {
        let value = &quantity["value"];
        let at = |key: &str| value[key].as_f64().unwrap();
        assert!(
            at("low") <= at("estimate") && at("estimate") <= at("high"),
            "{quantity}"
        );
        // A connection takes longer than a query on one that is there, by far: PostgreSQL starts a process.
        assert!(
            quantity["quantity"] != "handshake" || at("estimate") > 0.0,
            "{quantity}"
        );
        assert_eq!(
            quantity["against_reference"].is_null(),
            quantity["transport"] == "tcp",
            "{quantity}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn every_way_to_authenticate() {
    if !have("postgres") {
        return;
    }
    let lasthop = Lasthop::new();
    let all = "auth=trust,password-scram,password-md5,password-cleartext,peer";
    let summary = lasthop.brief(
        "postgres",
        &["--only", "work=connect", "--only", all, "--only", "transport=unix,tls"],
    );
    // Four over TLS: peer is known of Unix sockets only.
    is_right(&summary, 9);
    let derived = summary["derived"].as_array().unwrap();
    let authentication = derived
        .iter()
        .filter(|derived| derived["quantity"] == "authentication")
        .count();
    assert_eq!(
        authentication, 7,
        "every way but trust, over each transport: {derived:?}"
    );
    lasthop.assert_nothing_left();
}

/// The same experiment with a text replaced.
fn changed(lasthop: &Lasthop, old: &str, new: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/postgres");
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    assert!(text.contains(old), "{old}");
    let copy = lasthop.home().join("changed");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("experiment.toml"), text.replace(old, new)).unwrap();
}

#[test]
fn a_wrong_password_fails_and_the_rest_goes_on() {
    if !have("postgres") {
        return;
    }
    let lasthop = Lasthop::new();
    changed(&lasthop, "password = \"{{ secret }}\"", "password = \"wrong\"");
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
            failure["case"].as_str().unwrap().contains("password-scram"),
            "{failure}"
        );
        let cause = failure["cause"].as_str().unwrap();
        assert!(
            cause.contains("28P01") && cause.contains("password authentication failed"),
            "{cause}"
        );
    }
    let trials = |case: &Value| case["trials"].as_u64().unwrap();
    let cases = summary["cases"].as_array().unwrap().iter();
    assert!(
        cases
            .filter(|case| case["levels"]["auth"] == "trust")
            .all(|case| trials(case) > 0),
        "{summary}"
    );
    lasthop.assert_nothing_left();
}
