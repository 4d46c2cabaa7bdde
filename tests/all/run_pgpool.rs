//! The real Pgpool-II over two real PostgreSQL servers.

use crate::common;

use common::{Lasthop, have};

#[test]
fn every_transport_reaches_a_server_through_the_pool() {
    if !(have("pgpool") && have("postgres")) {
        return;
    }
    let lasthop = Lasthop::new();
    let mut arguments = vec!["run", "pgpool", "--set", "rows=5000,10000", "--budget", "25s", "--trial", "30ms"];
    arguments.extend(["--blocks", "2", "--format", "json"]);
    let summary = lasthop.run(arguments).ok().json();
    assert!(summary["failures"].as_array().unwrap().is_empty(), "{}", summary["failures"]);
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 21, "{cases:?}");
    for case in cases {
        let tls = case["transport"] == "tls";
        assert_eq!(case["proof"]["tls_version"].as_str(), tls.then_some("TLSv1.3"), "{case}");
        let roles = &case["metrics"]["cpu_per_request"]["roles"];
        // The pool does not answer by itself.
        assert!(roles["pgpool"].as_f64().unwrap() > 0.0 && roles["postgres"].as_f64().unwrap() > 0.0, "{case}");
    }
    let checks = summary["checks"].as_array().unwrap();
    let wrong = ["config-differs", "reuse-not-as-asked", "transport-not-as-asked"];
    assert!(!checks.iter().any(|check| wrong.contains(&check["id"].as_str().unwrap())), "{checks:?}");
    assert_eq!(summary["derived"].as_array().unwrap().len(), 12, "{}", summary["derived"]);
    lasthop.assert_nothing_left();
}
