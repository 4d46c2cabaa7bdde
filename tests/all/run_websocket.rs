//! The real WebSocket server of Node behind nginx, over a Unix socket and TCP.

use crate::common;

use common::{Lasthop, have_setup, is_right};

#[test]
fn messages_go_over_what_the_case_is_called() {
    if !have_setup("nginx-websocket") {
        return;
    }
    let lasthop = Lasthop::new();
    let chosen = ["--set", "size=64,65536", "--set", "reuse=keep-alive,per-request"];
    let summary = lasthop.brief("nginx-websocket", &[&chosen[..], &["--only", "connections=1"]].concat());
    is_right(&summary, 8);
    for case in summary["cases"].as_array().unwrap() {
        let family = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], family, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["node"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}
