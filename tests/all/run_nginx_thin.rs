//! The real nginx in front of one and of four real Thin servers.

use crate::common;

use common::{Lasthop, have, is_right};

#[test]
fn all_eight_conditions_answer_and_reuse_is_what_was_asked_for() {
    if !(have("nginx") && have("thin")) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("nginx-thin", &[]);
    is_right(&summary, 8);
    for case in summary["cases"].as_array().unwrap() {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let backends = case["levels"]["backends"].as_str().unwrap().parse::<u64>().unwrap();
        let kept = case["levels"]["http"] == "1.1";
        // Backends take turns: with eight requests each is asked, over one connection of its own if they are kept.
        assert_eq!(link["connections"], if kept { backends } else { 8 }, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert_eq!(roles.len(), 2, "four servers are one role: {roles:?}");
        assert!(roles["thin"].as_f64().unwrap() > 0.0, "{case}");
    }
    assert!(
        !summary["checks"].to_string().contains("failed-trials"),
        "{}",
        summary["checks"]
    );
    lasthop.assert_nothing_left();
}

#[test]
fn concurrent_clients_are_what_the_study_could_not_do() {
    if !(have("nginx") && have("thin")) {
        return;
    }
    let lasthop = Lasthop::new();
    let choices = [
        "--only",
        "backends=4",
        "--only",
        "http=1.1",
        "--set",
        "concurrency=24,64",
    ];
    let summary = lasthop.brief("nginx-thin", &choices);
    assert_eq!(summary["cases"].as_array().unwrap().len(), 4);
    assert!(
        summary["failures"].as_array().unwrap().is_empty(),
        "{}",
        summary["failures"]
    );
    lasthop.assert_nothing_left();
}
