//! The real PgBouncer in front of the real PostgreSQL.

use crate::common;

use common::{Lasthop, have_setup};

#[test]
fn both_of_its_links_are_what_the_case_says() {
    if !have_setup("pgbouncer") {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("pgbouncer", &["--only", "auth=password-scram", "--no-headroom"]);
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12, "{cases:?}");
    for case in cases {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        // PgBouncer does not answer by itself, and one of the two servers is there.
        let server = if case["levels"]["server"] == "unix" {
            "postgres"
        } else {
            "postgres_tcp"
        };
        assert!(
            roles["pgbouncer"].as_f64().unwrap() > 0.0 && roles[server].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert_eq!(roles.len(), 2, "{case}");
    }
    let fired = summary["checks"].to_string();
    for check in ["config-differs", "transport-not-as-asked", "reuse-not-as-asked"] {
        assert!(!fired.contains(check), "{fired}");
    }
    let derived: Vec<&str> = summary["derived"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["quantity"].as_str().unwrap())
        .collect();
    assert!(
        derived.contains(&"client_link") && derived.contains(&"server_link"),
        "{derived:?}"
    );
    lasthop.assert_nothing_left();
}
