//! The real Pgpool-II over two real PostgreSQL servers.

use crate::common;

use common::{Lasthop, have, is_right};

#[test]
fn every_transport_reaches_a_server_through_the_pool() {
    if !(have("pgpool") && have("postgres")) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("pgpool", &["--set", "rows=5000,10000"]);
    is_right(&summary, 21);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        let roles = &case["metrics"]["cpu_per_request"]["roles"];
        // The pool does not answer by itself.
        assert!(
            roles["pgpool"].as_f64().unwrap() > 0.0 && roles["postgres"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    assert_eq!(
        summary["derived"].as_array().unwrap().len(),
        12,
        "{}",
        summary["derived"]
    );
    lasthop.assert_nothing_left();
}
