//! Checks of trust and failures, provoked on real runs.

use crate::common;

use std::{fs, path::PathBuf};

use common::{Lasthop, copy, edit, have, have_python, list, needs};
use serde_json::Value;

const SHORT: [&str; 6] = ["--budget", "4s", "--trial", "20ms", "--format", "json"];

/// A fresh experiment of `lasthop new`, with a file changed.
fn changed(lasthop: &Lasthop, file: &str, from: &str, to: &str) -> PathBuf {
    lasthop.run(["new", "mine"]).ok();
    let folder = lasthop.home().join("mine");
    edit(&folder.join(file), from, to);
    folder
}

fn run(lasthop: &Lasthop, experiment: &str, code: i32) -> Value {
    let ran = lasthop.run(["run", experiment].iter().chain(&SHORT));
    assert_eq!(ran.code, Some(code), "{ran:?}");
    lasthop.assert_nothing_left();
    ran.json()
}

/// The fresh experiment in one round, which is made whole on a busy machine, too.
fn one_round(lasthop: &Lasthop, trial: &str, code: i32) -> Value {
    let run = format!("run ./mine --rounds=1 --budget=30s --format=json --trial={trial}");
    let ran = lasthop.run(run.split(' '));
    assert_eq!(ran.code, Some(code), "{ran:?}");
    lasthop.assert_nothing_left();
    ran.json()
}

/// Ids and severities of the findings.
fn checks(summary: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list(&summary["checks"])
        .iter()
        .map(|one| (text(&one["id"]), text(&one["severity"])))
        .collect()
}

fn has(summary: &Value, id: &str, severity: &str) -> bool {
    checks(summary).contains(&(id.to_owned(), severity.to_owned()))
}

#[test]
fn a_wrong_answer_is_a_failure_row_and_no_number() {
    let lasthop = Lasthop::new();
    changed(&lasthop, "app/server.py", "b\"Hello there!\"", "b\"Hello where?\"");
    let summary = run(&lasthop, "./mine", 1);
    assert_eq!(summary["stopped"], "failed");
    assert!(
        list(&summary["cases"]).iter().all(|case| case["metrics"].is_null()),
        "{summary}"
    );
    let failure = &summary["failures"][0];
    assert_eq!(failure["stage"], "verify", "{failure}");
    assert!(failure["cause"].as_str().unwrap().contains("body"), "{failure}");
}

#[test]
fn a_server_that_is_wrong_now_and_then_makes_its_numbers_invalid() {
    let lasthop = Lasthop::new();
    let sometimes = "Hello.count = getattr(Hello, \"count\", 0) + 1\n        \
                     body = b\"Hello there!\" if Hello.count % 50 else b\"Hello where?\"";
    changed(&lasthop, "app/server.py", "body = b\"Hello there!\"", sometimes);
    // Long enough for many more than ten answers on a busy machine: with a tenth wrong a trial would have failed.
    let summary = one_round(&lasthop, "400ms", 0);
    assert!(has(&summary, "errors", "invalid"), "{:?}", checks(&summary));
    let errors = &summary["cases"][0]["errors"];
    assert!(errors["wrong-content"].as_u64().unwrap() > 0, "{errors}");
}

/// A server that ends itself after so many answers, each after a pause of so many seconds.
fn dies_under_load(limit: u32, pause: &str) {
    let lasthop = Lasthop::new();
    let dies = format!(
        "import sys, time\n        \
         Hello.count = getattr(Hello, \"count\", 0) + 1\n        \
         time.sleep({pause})\n        \
         if Hello.count > {limit}:\n            \
         print(\"out of luck\", file=sys.stderr, flush=True)\n            os._exit(7)\n        \
         body = b\"Hello there!\""
    );
    changed(&lasthop, "app/server.py", "body = b\"Hello there!\"", &dies);
    let summary = one_round(&lasthop, "20ms", 1);
    let failure = &summary["failures"][0];
    assert!(failure["log"].as_str().unwrap().contains("out of luck"), "{failure}");
    assert!(failure["cause"].as_str().unwrap().contains("status 7"), "{failure}");
}

#[test]
fn a_server_that_dies_under_load_is_named_with_its_log() {
    dies_under_load(30, "0");
}

/// Two answers fit into a trial: it dies in one that has a correct reply already.
#[test]
fn so_is_one_that_dies_between_right_answers_and_errors() {
    dies_under_load(12, "0.01");
}

#[test]
fn a_configuration_that_differs_in_more_than_the_link_is_reported() {
    let lasthop = Lasthop::new();
    let with_notes = "recipe = \"python-app\"\nconfig = { \"notes\" = \"notes.j2\" }";
    let folder = changed(&lasthop, "experiment.toml", "recipe = \"python-app\"", with_notes);
    fs::write(
        folder.join("notes.j2"),
        "{{ 'log everything' if transport == 'unix' else 'log nothing' }}\n",
    )
    .unwrap();
    let summary = run(&lasthop, "./mine", 0);
    let found = list(&summary["checks"])
        .iter()
        .find(|one| one["id"] == "config-differs");
    let evidence = found.unwrap_or_else(|| panic!("{:?}", checks(&summary)))["evidence"].to_string();
    assert!(evidence.contains("notes"), "{evidence}");
}

#[test]
fn reuse_that_is_not_what_was_asked_for_is_proven() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let folder = lasthop.home().join("stack");
    copy(
        &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("experiments/nginx-gunicorn"),
        &folder,
    );
    let path = folder.join("experiment.toml");
    let asked = fs::read_to_string(&path).unwrap();
    let line = asked
        .lines()
        .find(|line| line.starts_with("proof"))
        .expect("the experiment proves its link");
    edit(
        &path,
        line,
        "proof = { path = \"/connection\", reuse = \"keep-alive\" }",
    );
    // The environment of the real experiment under the name of this copy.
    let ran = lasthop.run(
        ["run", "./stack", "--only", "connections=1", "--program"]
            .into_iter()
            .map(str::to_owned)
            .chain([format!(
                "gunicorn={}",
                lasthop.home().join("python/nginx-gunicorn/bin/gunicorn").display()
            )])
            .chain(SHORT.map(str::to_owned)),
    );
    let summary = ran.ok().json();
    assert!(has(&summary, "reuse-not-as-asked", "invalid"), "{:?}", checks(&summary));
}
