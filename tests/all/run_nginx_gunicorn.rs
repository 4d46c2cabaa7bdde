//! The real nginx in front of the real gunicorn.

use crate::common;

use std::{fs, process::Command};

use common::{Lasthop, have, have_python};

fn ready() -> bool {
    have("nginx") && have_python("nginx-gunicorn")
}

#[test]
fn both_links_answer_and_are_proven() {
    if !ready() {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("nginx-gunicorn", &[]);
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4, "{cases:?}");
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        let link = &case["proof"]["link"];
        assert_eq!(link["family"], wanted, "{case}");
        assert_eq!(
            link["connections"], link["requests"],
            "a sync worker closes each connection: {case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["gunicorn"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        for role in ["driver", "nginx", "gunicorn"] {
            let delay = &case["metrics"]["run_delay"][role];
            assert!(
                delay["us_per_request"].as_f64().is_some_and(|us| us >= 0.0),
                "{role}: {case}"
            );
        }
    }
    let programs = summary["environment"]["programs"].as_object().unwrap();
    assert!(
        programs.contains_key("nginx") && programs.contains_key("gunicorn"),
        "{programs:?}"
    );
    let fired: Vec<&str> = summary["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert!(!fired.contains(&"config-differs"), "{fired:?}");
    assert!(
        !fired.contains(&"transport-not-as-asked") && !fired.contains(&"reuse-not-as-asked"),
        "{fired:?}"
    );
    assert!(!fired.contains(&"load-not-over-link"), "{}", summary["checks"]);
    lasthop.assert_nothing_left();
}

/// As for an application that does not know its connections: the kernel's tables show them.
#[test]
fn a_link_is_proven_without_the_applications_help() {
    if !ready() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("nginx-gunicorn");
    let copied = Command::new("cp")
        .arg("-r")
        .arg("experiments/nginx-gunicorn")
        .arg(&folder)
        .status();
    assert!(copied.unwrap().success());
    let file = folder.join("experiment.toml");
    let text = fs::read_to_string(&file).unwrap();
    let silent: String = text
        .lines()
        .filter(|line| !line.starts_with("proof"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(silent.len() < text.len());
    fs::write(&file, silent).unwrap();
    let lasthop = Lasthop::new();
    let summary = lasthop.brief(folder.to_str().unwrap(), &["--no-headroom"]);
    for case in summary["cases"].as_array().unwrap() {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        assert!(
            link["connections"].as_u64().unwrap() > 0 && link["requests"].as_u64().unwrap() > 0,
            "{case}"
        );
    }
    assert!(
        !summary["checks"].to_string().contains("link-not-proven"),
        "{}",
        summary["checks"]
    );
    lasthop.assert_nothing_left();
}

#[test]
fn a_worker_with_threads_keeps_connections_when_asked() {
    if !ready() {
        return;
    }
    let lasthop = Lasthop::new();
    let choices = ["worker=gthread", "connections=10", "reuse=per-request,keep-alive"].map(|only| ["--only", only]);
    let summary = lasthop.brief("nginx-gunicorn", &choices.concat());
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4, "{cases:?}");
    for case in cases {
        let link = &case["proof"]["link"];
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert_eq!(link["connections"], if kept { 1 } else { 8 }, "{case}");
    }
    let checks = summary["checks"].as_array().unwrap();
    let wrong = [
        "config-differs",
        "reuse-not-as-asked",
        "transport-not-as-asked",
        "load-not-over-link",
    ];
    assert!(
        !checks
            .iter()
            .any(|check| wrong.contains(&check["id"].as_str().unwrap())),
        "{checks:?}"
    );
    lasthop.assert_nothing_left();
}

#[test]
fn a_sync_worker_cannot_keep_connections_and_the_plan_says_why() {
    let lasthop = Lasthop::new();
    let run = lasthop.run(["run", "nginx-gunicorn", "--only", "reuse=keep-alive"]);
    assert!(run.code != Some(0));
    assert!(
        run.stderr.contains("a sync worker closes each connection"),
        "{}",
        run.stderr
    );
}
