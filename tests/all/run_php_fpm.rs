//! The real nginx in front of the real PHP-FPM.

use crate::common;

use common::{Lasthop, have_setup};

#[test]
fn both_links_answer_are_proven_and_keep_connections_if_asked() {
    if !have_setup("php-fpm") {
        return;
    }
    let lasthop = Lasthop::new();
    let choices = [
        "--set",
        "reuse=per-request,keep-alive",
        "--set",
        "workers=10",
        "--no-headroom",
    ];
    let summary = lasthop.brief("php-fpm", &choices);
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8, "{cases:?}");
    for case in cases {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let [seen, requests] = ["connections", "requests"].map(|key| link[key].as_u64().unwrap());
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert!(
            !kept || seen * 2 <= requests,
            "most requests use a connection that is open: {case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["php"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    let fired = summary["checks"].to_string();
    for check in [
        "config-differs",
        "transport-not-as-asked",
        "reuse-not-as-asked",
        "link-not-proven",
    ] {
        assert!(!fired.contains(check), "{fired}");
    }
    lasthop.assert_nothing_left();
}
