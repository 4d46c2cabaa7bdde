//! The real HAProxy as the client of a link.

use crate::common;

use common::{Lasthop, have};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/haproxy-redis");

/// It writes `unix@/path` where nginx writes `unix:/path`, and Redis cannot tell over which connection it was asked.
#[test]
fn haproxy_reaches_both_addresses_in_its_own_form() {
    if !(have("haproxy") && have("redis-server")) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief(FOLDER, &["--no-headroom"]);
    assert_eq!(summary["failures"], serde_json::json!([]));
    for case in summary["cases"].as_array().unwrap() {
        let family = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], family, "{case}");
    }
    let fired = summary["checks"].to_string();
    assert!(
        !fired.contains("config-differs") && !fired.contains("link-not-proven"),
        "{fired}"
    );
    lasthop.assert_nothing_left();
}
