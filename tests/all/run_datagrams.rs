//! Datagrams to the real StatsD server and to a slow reader: losses are seen, senders wait.

use crate::common;

use common::{Lasthop, have, is_right};
use serde_json::Value;

const PROGRAM: &str = "statsd_exporter";

/// The cases of a run in which what is sent is received, or known to be dropped.
fn run(lasthop: &Lasthop, only: &[&str], cases: usize) -> Vec<Value> {
    let summary = lasthop.brief("datagrams", only);
    is_right(&summary, cases);
    let checks = summary["checks"].as_array().unwrap();
    let cases = summary["cases"].as_array().unwrap();
    for case in cases {
        let is_doubted = checks
            .iter()
            .any(|check| check["id"] == "lost" && check["case"] == case["case"]);
        let sending = &case["metrics"]["one_way"];
        let lost = sending["sent"].as_u64().unwrap() - sending["received"].as_u64().unwrap();
        assert_eq!(is_doubted, lost > 0, "{case}");
        let dropped = case["transport"].as_str().unwrap().starts_with("udp").then_some(lost);
        assert_eq!(sending["dropped"].as_u64(), dropped, "{case}");
        assert_eq!(lost - dropped.unwrap_or(0), 0, "{case}");
        assert_eq!(case["proof"]["family"], case["transport"], "{case}");
        assert_eq!(case["errors"].as_object().unwrap().len(), 0, "{case}");
    }
    lasthop.assert_nothing_left();
    cases.clone()
}

#[test]
fn what_the_real_server_does_not_count_the_kernel_has_dropped() {
    if !have(PROGRAM) {
        return;
    }
    let lasthop = Lasthop::new();
    run(
        &lasthop,
        &[
            "--only",
            "receiver=statsd-exporter",
            "--set",
            "transport=unixgram,udp,udp6",
        ],
        6,
    );
}

#[test]
fn a_slow_reader_loses_udp_and_holds_up_unix_senders() {
    let lasthop = Lasthop::new();
    for case in run(&lasthop, &["--only", "receiver=lasthop", "--only", "reader=1ms"], 6) {
        let (metrics, sending) = (&case["metrics"], &case["metrics"]["one_way"]);
        let (lost, waited) = (sending["lost"].as_f64().unwrap(), sending["waited"].as_f64().unwrap());
        if case["transport"] == "udp" {
            assert!(lost > 0.0 && waited == 0.0, "{case}");
        } else {
            assert!(
                waited > 0.0 && metrics["latency_max"].as_f64().unwrap() >= 500.0,
                "{case}"
            );
        }
    }
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    let compared = summary["comparisons"].as_array().unwrap();
    assert!(
        compared
            .iter()
            .all(|one| one["metric"] != "cpu_per_request" && one["materiality"].is_null()),
        "who loses more saves nothing: {compared:?}"
    );
}

#[test]
fn a_rate_is_refused_in_words() {
    let lasthop = Lasthop::new();
    let rate = [
        "run",
        "datagrams",
        "--only=receiver=lasthop",
        "--only=reader=0us",
        "--rate=100",
        "--budget=1s",
    ];
    lasthop
        .run(rate)
        .fails(1, "a protocol without replies (StatsD) is driven like");
    lasthop.assert_nothing_left();
}
