//! What goes wrong between containers: ports that run out, limits, the study's tool.

mod common;

use std::{fs, path::Path};

use common::{
    engines::{World, have_engine},
    have, have_python,
};
use serde_json::Value;

const EXPERIMENT: &str = "containers";

fn ready() -> bool {
    have("nginx") && have_python(EXPERIMENT) && have_engine("podman")
}

/// Trials of the newest record that yielded a number, of a case.
fn trials(world: &World, case: &str) -> Vec<Value> {
    let Some(run) = world.lasthop.runs().pop() else { return Vec::new() };
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
    // The last line may still be on its way.
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter_map(|mut row| row.get_mut("trial").map(Value::take)).filter(|trial| trial["case"] == case).collect()
}

/// Checks `time-wait` of a case with this level of `tw_reuse`.
fn trap<'a>(summary: &'a Value, level: &str) -> Vec<&'a str> {
    let mut cases = summary["cases"].as_array().unwrap().iter();
    let name = &cases.find(|case| case["levels"]["tw_reuse"] == level).unwrap()["case"];
    let checks = summary["checks"].as_array().unwrap().iter();
    let found = checks.filter(|check| check["id"] == "time-wait" && check["case"] == *name);
    found.map(|check| check["evidence"].as_str().unwrap()).collect()
}

/// Most ports that trials of this level found held, as the record has them, and whether they serve again.
fn most_held(world: &World, level: &str) -> Option<(u64, bool)> {
    let trials = trials(world, &format!("bridge/tw_reuse={level}"));
    let held = trials.iter().filter_map(|trial| {
        let held = &trial["observations"]["held_ports"];
        Some((held["held"].as_u64()?, held["reused"].as_bool()?))
    });
    held.max()
}

/// nginx in its container, a connection per request to the application in another: no port of lasthop's own namespace is
/// ever held. The two cases differ in one setting of one container.
#[test]
fn ports_held_between_containers_are_seen_where_they_hurt_and_only_there() {
    if !ready() {
        return;
    }
    let world = World::new("podman");
    let which = ["run", EXPERIMENT, "--engine", "podman", "--only", "path=bridge", "--set", "tw_reuse=on,off"];
    let how = ["--set", "connections=4", "--rounds", "1", "--blocks", "14", "--trial", "700ms", "--budget", "40s"];
    let summary = world.run(&[&which[..], &how, &["--format", "json"]].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));

    let seen = trap(&summary, "off");
    assert_eq!(seen.len(), 1, "{:?} {}", most_held(&world, "off"), summary["checks"]);
    let text = seen[0];
    assert!(text.contains("of 28232 local ports of the network namespace of nginx towards 10."), "{text}");
    assert_eq!(trap(&summary, "on"), Vec::<&str>::new(), "{}", summary["checks"]);
    assert!(most_held(&world, "off").is_some_and(|(held, reused)| held >= 14_116 && !reused));
    let report = world.run(&["report", "last"]).ok().stdout;
    assert!(report.contains("TIME_WAIT held up to"), "{report}");
    world.lasthop.assert_nothing_left();
}

/// A whole CPU each: the limit is the cgroup's, and what it is called in a report.
#[test]
fn a_limit_of_one_cpu_holds_and_is_named() {
    if !ready() {
        return;
    }
    let world = World::new("podman");
    let which =
        ["run", EXPERIMENT, "--engine", "podman", "--only", "path=bridge,combined-unix", "--set", "cpu_limit=1"];
    let how = ["--rounds", "1", "--blocks", "2", "--trial", "300ms", "--budget", "10s"];
    let report = world.run(&[&which[..], &how].concat()).ok().stdout;
    assert!(report.contains("CPU limit 1"), "{report}");
    assert!(report.contains("Unix socket within one container"), "{report}");
    let periods = |role: &str| {
        let trials = trials(&world, "bridge");
        trials
            .iter()
            .filter_map(|trial| trial["observations"]["roles"][role]["cgroup"]["periods"].as_u64())
            .sum::<u64>()
    };
    // A cgroup without a limit counts no periods.
    assert!(periods("nginx") > 0 && periods("gunicorn") > 0, "{:?}", trials(&world, "bridge").last());
    world.lasthop.assert_nothing_left();
}

#[test]
fn abs_of_the_study_drives_containers() {
    if !ready() || !have("ab") {
        return;
    }
    let world = World::new("podman");
    let which = ["run", EXPERIMENT, "--engine", "podman", "--only", "path=bridge,shared-volume,combined-unix"];
    let how = ["--driver", "ab -n 1000 -c 1 -l", "--set", "client=per-request", "--rounds", "1", "--blocks", "1"];
    let summary = world.run(&[&which[..], &how, &["--budget", "30s", "--format", "json"]].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        assert_eq!((&case["load"]["driver"], &case["requests"]), (&"ab".into(), &1_000.into()), "{case}");
        assert_eq!(case["errors"], serde_json::json!({}), "{case}");
    }
    world.lasthop.assert_nothing_left();
}

/// The experiment with another recipe for its application, in a home of its own.
fn with_recipe(home: &Path, change: impl Fn(String) -> String) {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = home.join("experiments").join(EXPERIMENT);
    for part in ["services/gunicorn", "app"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    for name in ["experiment.toml", "nginx.conf.j2", "haproxy.cfg.j2", "app/application.py"] {
        fs::copy(built_in.join("experiments").join(EXPERIMENT).join(name), folder.join(name)).unwrap();
    }
    let recipe = fs::read_to_string(built_in.join("services/gunicorn/recipe.toml")).unwrap();
    fs::write(folder.join("services/gunicorn/recipe.toml"), change(recipe)).unwrap();
}

/// Found when the file is read, not when supervisord has started it as root.
#[test]
fn a_supervised_service_cannot_run_as_another_user() {
    let lasthop = common::Lasthop::new();
    with_recipe(lasthop.home(), |recipe| recipe.replace("[start]\n", "[start]\nrun_as = \"unprivileged\"\n"));
    let ran = lasthop.run(["show", EXPERIMENT]);
    let ran = ran.fails(2, "service gunicorn: recipe gunicorn runs as an unprivileged user (`run_as`)");
    assert!(ran.stderr.contains("network = \"service:supervisor\""), "{}", ran.stderr);
    lasthop.run(["run", EXPERIMENT, "--only", "path=combined-unix"]).fails(2, "inside `supervisor`");
    assert!(lasthop.runs().is_empty(), "nothing was run");
}
