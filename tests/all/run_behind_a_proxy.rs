//! Real servers behind a real proxy, whose recipe brings its configuration.

use crate::common;

use common::{Lasthop, go_is_warm, have, have_setup};

/// Every case answers, its link is proven to be what the case is called, and both of its ends have worked.
fn every_case_is_what_it_is_called(name: &str, selected: &[&str], expected: usize) {
    if !have_setup(name) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief(name, &[selected, &["--no-headroom"]].concat());
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), expected, "{cases:?}");
    for case in cases {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert_eq!(link["connections"], if kept { 1 } else { 8 }, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles.len() == 2 && roles.values().all(|cost| cost.as_f64().unwrap() > 0.0),
            "{case}"
        );
    }
    let fired = summary["checks"].to_string();
    let never = [
        "config-differs",
        "transport-not-as-asked",
        "reuse-not-as-asked",
        "link-not-proven",
        "load-not-over-link",
    ];
    for check in never {
        assert!(!fired.contains(check), "{fired}");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn node() {
    every_case_is_what_it_is_called("nginx-node", &["--only", "connections=1"], 4);
}

#[test]
fn go() {
    if have("go") {
        go_is_warm("go-http");
        every_case_is_what_it_is_called("nginx-go", &["--only", "connections=1"], 4);
    }
}

#[test]
fn each_front_with_and_without_kept_connections() {
    every_case_is_what_it_is_called("fronts", &["--set", "reuse=per-request,keep-alive"], 20);
}

#[test]
fn puma() {
    every_case_is_what_it_is_called("nginx-puma", &["--only", "connections=1"], 4);
}

#[test]
fn uwsgi_in_both_of_its_protocols() {
    every_case_is_what_it_is_called("nginx-uwsgi", &["--only", "connections=1"], 4);
}
