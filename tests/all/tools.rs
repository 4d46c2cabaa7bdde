//! Classic tools as drivers and as cross-checks, against the real servers.

use crate::common;

use common::{Lasthop, have, have_python, list, may_install, needs, shows, texts, words};
use serde_json::Value;

fn nginx() -> bool {
    have("nginx") && have_python("nginx-gunicorn")
}

fn run(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    let short = [
        "--budget", "30s", "--rounds", "1", "--blocks", "2", "--format", "json", "--seed", "1", "-q",
    ];
    lasthop.run(["run"].iter().chain(arguments).chain(&short)).ok().json()
}

/// Every case has more requests per second than this, and TLS where that is its transport.
#[track_caller]
fn measured(summary: &Value, least: f64) {
    assert_eq!(summary["failures"], Value::Array(vec![]));
    for case in list(&summary["cases"]) {
        let throughput = &case["metrics"]["throughput"]["estimate"];
        assert!(throughput.as_f64().unwrap() > least, "{case}");
        let is_tls = case["transport"] == "tls";
        assert_eq!(case["proof"]["tls_version"].is_string(), is_tls, "{case}");
    }
}

#[test]
fn each_http_tool_drives_the_link_behind_nginx() {
    needs!(nginx());
    for (tool, connections) in [("wrk", "10"), ("ab", "10"), ("h2load", "10"), ("httperf", "1")] {
        if !have(tool) {
            continue;
        }
        let lasthop = Lasthop::new();
        let only = format!("connections={connections}");
        let summary = run(&lasthop, &["nginx-gunicorn", "--only", &only, "--driver", tool]);
        let cases = list(&summary["cases"]);
        assert_eq!(cases.len(), 2, "{tool}: {cases:?}");
        for case in cases {
            assert!(
                case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0,
                "{tool}: {case}"
            );
            assert_eq!(case["load"]["driver"], tool);
            assert!(
                case["metrics"]["latency_p50"].is_null(),
                "{tool} has no histogram: {case}"
            );
            let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
            assert_eq!(case["proof"]["link"]["family"], wanted, "{tool}: {case}");
        }
        let version = summary["environment"]["programs"][tool]["version"].as_str().unwrap();
        assert!(
            version.chars().any(|character| character.is_ascii_digit()),
            "{tool} {version}"
        );
        let ids = texts(&summary["checks"], "id");
        assert!(ids.contains(&"tool-trials"), "the longer trials are said: {ids:?}");
    }
}

#[test]
fn a_tool_takes_its_turn_beside_lasthop_and_they_are_compared() {
    needs!(nginx(), have("wrk"));
    let lasthop = Lasthop::new();
    let summary = run(
        &lasthop,
        &["nginx-gunicorn", "--only", "connections=10", "--cross-check", "wrk"],
    );
    let names = texts(&summary["cases"], "case");
    assert_eq!(
        names,
        [
            "unix/driver=lasthop",
            "unix/driver=wrk",
            "tcp/driver=lasthop",
            "tcp/driver=wrk"
        ]
    );
    let checks = list(&summary["checks"]);
    let crossed: Vec<&Value> = checks
        .iter()
        .filter(|check| check["id"].as_str().unwrap().starts_with("cross-check-"))
        .collect();
    assert_eq!(crossed.len(), 2, "{checks:?}");
    for check in crossed {
        shows(check["evidence"].as_str().unwrap(), ["times lasthop's requests/s"]);
    }
}

#[test]
fn h2load_drives_calls_of_grpc_in_turn_with_lasthop() {
    needs!(have("h2load"), have_python("grpc"));
    let lasthop = Lasthop::new();
    let one = words("grpc --only language=python --only streams=1 --cross-check h2load");
    let summary = run(&lasthop, &one);
    measured(&summary, 0.0);
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 6, "{cases:?}");
    for case in cases {
        assert_eq!(case["errors"], serde_json::json!({}), "{case}");
    }
    let crossed = list(&summary["checks"]).iter().filter(|check| {
        let is_crossed = check["id"].as_str().unwrap().starts_with("cross-check-");
        is_crossed
            && check["evidence"]
                .as_str()
                .unwrap()
                .contains("times lasthop's requests/s")
    });
    assert_eq!(crossed.count(), 3, "{}", summary["checks"]);
}

#[test]
fn redis_benchmark_drives_redis_over_every_transport() {
    needs!(have("redis-server"), have("redis-benchmark"));
    let lasthop = Lasthop::new();
    let one = words("redis --only command=GET --only pipeline=1 --driver redis-benchmark");
    let summary = run(&lasthop, &one);
    measured(&summary, 1_000.0);
}

#[test]
fn psql_and_pgbench_drive_postgres_over_every_transport() {
    for tool in ["psql", "pgbench"] {
        if !have(tool) {
            continue;
        }
        let lasthop = Lasthop::new();
        let summary = run(&lasthop, &["postgres", "--only", "work=query", "--driver", tool]);
        measured(&summary, 50.0);
    }
}

/// sysbench cannot verify the server's certificate without one of its own.
#[test]
fn sysbench_drives_mariadb() {
    needs!(have("mariadbd"), have("sysbench"));
    let lasthop = Lasthop::new();
    let plain = ["mariadb", "--only", "transport=unix,tcp", "--driver", "sysbench"];
    for what in [
        &["--only", "work=query", "--set", "mode=prepared-once"][..],
        &["--only", "work=connect"],
    ] {
        let summary = run(&lasthop, &[&plain, what].concat());
        measured(&summary, 50.0);
    }
    let refused = "run mariadb --only transport=tls --only work=query --driver sysbench".split(' ');
    lasthop
        .run(refused)
        .fails(1, "sysbench cannot use TLS without a client's certificate");
}

#[test]
fn flags_of_a_study_are_passed_on_and_what_is_wrong_with_them_is_said() {
    needs!(nginx(), have("ab"));
    let lasthop = Lasthop::new();
    let chosen = ["nginx-gunicorn", "--only", "connections=1", "--only", "transport=tcp"];
    let summary = run(&lasthop, &[&chosen[..], &["--driver", "ab -n 100 -c 1 -l"]].concat());
    assert_eq!(summary["cases"][0]["requests"], 200, "two trials of 100 requests");
    let wrong =
        ["run"]
            .iter()
            .chain(&chosen)
            .chain(&["--driver", "ab --no-such-flag", "--rounds", "1", "--budget", "20s"]);
    lasthop.run(wrong).fails(1, "ab ended with status");
}

/// The lines of README that let a tool drive: whoever types them gets an answer.
#[test]
fn what_readme_says_of_tools_has_an_answer() {
    needs!(nginx(), have("ab"), have("wrk"));
    let lines = include_str!("../../README.md")
        .lines()
        .filter_map(|line| line.strip_prefix("$ lasthop run "));
    let lines: Vec<&str> = lines
        .filter(|line| line.contains("--driver '") || line.contains("--cross-check"))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let lasthop = Lasthop::new();
        let words = shlex::split(line.split(" # ").next().unwrap()).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let summary = run(&lasthop, &[&words[..], &["--only", "connections=1"]].concat());
        let invalid = list(&summary["checks"])
            .iter()
            .filter(|check| check["severity"] == "invalid");
        assert_eq!(invalid.collect::<Vec<_>>(), Vec::<&Value>::new(), "{line}");
        let answer = lasthop.run(["report", "last"]).ok().stdout;
        assert!(
            !answer.contains("No answer") && !answer.contains("No case has a result"),
            "{line}: {answer}"
        );
    }
}

#[test]
fn doctor_and_setup_know_the_tools() {
    let lasthop = Lasthop::new();
    let page = lasthop.run(["doctor"]).stdout;
    assert!(page.contains("of 8 classic tools are ready"), "{page}");
    needs!(may_install());
    let shown = lasthop.run(["setup", "--tools", "--dry-run"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
}

/// Every user of the machine can read the arguments of a process.
#[test]
fn a_password_is_no_argument_of_a_tool() {
    needs!(have("postgres"), have("pgbench"));
    let lasthop = Lasthop::new();
    let cases = "--only=work=connect --only=auth=password-scram --only=transport=tcp";
    let short = ["--driver=pgbench", "--budget=30s", "--rounds=1", "--blocks=2", "-q"];
    let mut child = lasthop.start(["run", "postgres"].into_iter().chain(cases.split(' ')).chain(short));
    let mut seen = 0;
    while child.try_wait().unwrap().is_none() {
        for process in lasthop.processes() {
            let (pid, command) = process.split_once(' ').unwrap();
            if command
                .split(' ')
                .next()
                .is_some_and(|program| program.ends_with("/pgbench"))
            {
                assert!(!command.contains("password"), "{command}");
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                seen += usize::from(String::from_utf8_lossy(&environment).contains("PGPASSWORD="));
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(seen > 0, "it got its password");
}
