//! The real nginx in front of one and of four real Thin servers.

use crate::common;

use common::{Lasthop, have};

fn checks(summary: &serde_json::Value) -> Vec<&str> {
    summary["checks"].as_array().unwrap().iter().map(|check| check["id"].as_str().unwrap()).collect()
}

#[test]
fn all_eight_conditions_answer_and_reuse_is_what_was_asked_for() {
    if !(have("nginx") && have("thin")) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop
        .run(["run", "nginx-thin", "--budget", "20s", "--trial", "30ms", "--blocks", "2", "--format", "json"])
        .ok()
        .json();
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8, "{cases:?}");
    for case in cases {
        let link = &case["proof"]["link"];
        assert_eq!(link["family"], if case["transport"] == "unix" { "unix" } else { "inet" }, "{case}");
        let backends = case["levels"]["backends"].as_str().unwrap().parse::<u64>().unwrap();
        let kept = case["levels"]["http"] == "1.1";
        // Backends take turns: with eight requests each is asked, over one connection of its own if they are kept.
        assert_eq!(link["connections"], if kept { backends } else { 8 }, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert_eq!(roles.len(), 2, "four servers are one role: {roles:?}");
        assert!(roles["thin"].as_f64().unwrap() > 0.0, "{case}");
    }
    let wrong = ["config-differs", "reuse-not-as-asked", "transport-not-as-asked", "failed-trials"];
    assert!(!checks(&summary).iter().any(|id| wrong.contains(id)), "{:?}", checks(&summary));
    assert!(summary["failures"].as_array().unwrap().is_empty(), "{}", summary["failures"]);
    lasthop.assert_nothing_left();
}

#[test]
fn concurrent_clients_are_what_the_study_could_not_do() {
    if !(have("nginx") && have("thin")) {
        return;
    }
    let lasthop = Lasthop::new();
    let mut arguments = vec!["run", "nginx-thin", "--only", "backends=4", "--only", "http=1.1"];
    arguments.extend(["--set", "concurrency=24,64", "--budget", "6s", "--trial", "30ms", "--blocks", "2"]);
    arguments.extend(["--format", "json"]);
    let summary = lasthop.run(arguments).ok().json();
    assert_eq!(summary["cases"].as_array().unwrap().len(), 4);
    assert!(summary["failures"].as_array().unwrap().is_empty(), "{}", summary["failures"]);
    lasthop.assert_nothing_left();
}
