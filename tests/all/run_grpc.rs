//! The real gRPC servers in Go and Python over a Unix socket, TCP and TLS, alone and behind the real nginx.

use crate::common;

use common::{Lasthop, go_is_warm, have, have_python, have_setup, is_right};

#[test]
fn every_transport_answers_with_one_stream_and_with_many() {
    if !have("go") || !have_python("grpc") {
        return;
    }
    go_is_warm("grpc-go");
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("grpc", &["--set", "bytes=64", "--set", "connections=2"]);
    is_right(&summary, 12);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        assert_eq!(case["proof"]["reused"], true, "{case}");
        assert!(
            case["metrics"]["cpu_per_request"]["roles"]["server"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn connections_for_one_call_and_messages_beyond_a_window() {
    if !have_python("grpc") {
        return;
    }
    let lasthop = Lasthop::new();
    let python = [
        "--only",
        "language=python",
        "--set",
        "bytes=300000",
        "--set",
        "reuse=per-request,keep-alive",
    ];
    let summary = lasthop.brief("grpc", &python);
    is_right(&summary, 9);
    for case in summary["cases"].as_array().unwrap() {
        assert_eq!(
            case["proof"]["reused"],
            case["levels"]["reuse"] != "per-request",
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn nginx_reaches_the_server_over_what_the_case_is_called() {
    if !have("go") || !have_setup("nginx-grpc") {
        return;
    }
    go_is_warm("grpc-go");
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("nginx-grpc", &["--set", "reuse=keep-alive,per-request"]);
    is_right(&summary, 16);
    for case in summary["cases"].as_array().unwrap() {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let [seen, calls] = ["connections", "requests"].map(|key| link[key].as_u64().unwrap());
        let streams: u64 = case["levels"]["streams"].as_str().unwrap().parse().unwrap();
        let kept = case["levels"]["reuse"] == "keep-alive";
        // nginx closes a connection on which more than the reply has come.
        assert!(
            !kept || seen <= streams + calls / 4,
            "a connection is kept for each call at once: {case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["server"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}
