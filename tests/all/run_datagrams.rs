//! Datagrams to the real StatsD server and to a slow reader: both sides count the same, losses are seen, senders wait.

use crate::{
    common,
    load_peers::{Server, free_port},
};

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use common::{Lasthop, have, is_right};
use lasthop_load::{engine::Case, receipt::total};
use lasthop_protocol::{
    spec::{Endpoint, Spec, Transport},
    statsd::Statsd,
    wire::TrialPhases,
};
use serde_json::Value;

const PROGRAM: &str = "statsd_exporter";
const LINES: &str = "statsd_exporter_lines_total";

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
    let report = lasthop.run(["report", "last", "--verbose"]).ok().stdout;
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "received/s",
        "sent/s",
        "lost",
        "never arrived",
        "the time that a send took",
        "services per sent",
    ] {
        assert!(words.contains(text), "{text}: {report}");
    }
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    let compared = summary["comparisons"].as_array().unwrap();
    assert!(
        compared
            .iter()
            .all(|one| one["metric"] != "cpu_per_request" && one["materiality"].is_null()),
        "who loses more saves nothing: {compared:?}"
    );
    let table = lasthop.run(["report", "last", "--format", "csv"]).ok().stdout;
    assert!(
        table
            .lines()
            .next()
            .unwrap()
            .contains("sent_per_s,lost_share,dropped,waited_share,cpu_per_sent_us"),
        "{table}"
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

/// What the server says that it has received.
fn counted(page: u16) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", page)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    total(&reply, LINES).unwrap()
}

#[test]
fn both_sides_count_the_same_metrics() {
    if !have(PROGRAM) {
        return;
    }
    for transport in [Transport::Unixgram, Transport::Udp, Transport::Udp6, Transport::Tcp] {
        let folder = tempfile::tempdir().unwrap();
        let page = free_port();
        let address = transport.address().at(folder.path().join("s"), "", free_port());
        let place = address.to_string().replace("unixgram:", "").replace("udp:", "");
        let mut command = Command::new(PROGRAM);
        command
            .arg(format!("--web.listen-address=127.0.0.1:{page}"))
            .arg("--log.level=warn");
        command.args([Transport::Unixgram, Transport::Udp, Transport::Tcp].map(|one| {
            let is_this = one == transport || (one, transport) == (Transport::Udp, Transport::Udp6);
            let listen = if is_this { place.as_str() } else { "" };
            format!("--statsd.listen-{one}={listen}")
        }));
        let _server = Server::start(&mut command, || TcpStream::connect(("127.0.0.1", page)).is_ok());
        for metrics in [1, 20] {
            let before = counted(page);
            let counter = format!("http://127.0.0.1:{page}/metrics");
            let statsd = Statsd {
                metrics,
                counter,
                counts: LINES.to_owned(),
            };
            let spec = Spec::new(
                Endpoint {
                    address: address.clone(),
                    tls: None,
                },
                statsd.into(),
            );
            let mut case = Case::prepare(&spec).unwrap_or_else(|error| panic!("{transport}: {error}"));
            let result = case
                .trial(TrialPhases {
                    warm_up_ns: 1_000_000,
                    measure_ns: 30_000_000,
                })
                .unwrap();
            let one_way = result.one_way.unwrap();
            assert_eq!(
                one_way.lost(),
                one_way.dropped_total.unwrap_or(0),
                "{transport}: {one_way:?}"
            );
            // Two datagrams verify the case before.
            let metrics_received = (one_way.received_total + 2) * u64::from(metrics);
            assert_eq!(
                counted(page) - before,
                metrics_received,
                "{transport}, {metrics} metrics"
            );
        }
    }
}
