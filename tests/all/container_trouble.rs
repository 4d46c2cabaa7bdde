//! Problems between containers: exhausted ports, limits, the study's tool.

use crate::common;

use std::fs;

use common::{
    engines::{World, have_engine},
    have, have_python, list, needs, words,
};
use serde_json::Value;

const EXPERIMENT: &str = "containers";

fn ready() -> bool {
    have("nginx") && have_python(EXPERIMENT) && have_engine("podman")
}

/// A case's successful trials in the newest record.
fn trials(world: &World, case: &str) -> Vec<Value> {
    let trials = world.lasthop.recorded("trial").into_iter();
    trials.filter(|trial| trial["case"] == case).collect()
}

/// Checks `time-wait` of a case with this level of `tw_reuse`.
fn trap<'a>(summary: &'a Value, level: &str) -> Vec<&'a str> {
    let mut cases = list(&summary["cases"]).iter();
    let name = &cases.find(|case| case["levels"]["tw_reuse"] == level).unwrap()["case"];
    let checks = list(&summary["checks"]).iter();
    let found = checks.filter(|check| check["id"] == "time-wait" && check["case"] == *name);
    found.map(|check| check["evidence"].as_str().unwrap()).collect()
}

/// The recorded trials of a level of `tw_reuse`.
fn observed(world: &World, level: &str) -> Vec<Value> {
    let trials = trials(world, &format!("bridge/tw_reuse={level}"));
    trials
        .into_iter()
        .map(|mut trial| trial["observations"].take())
        .collect()
}

/// Held ports in trials, as recorded: their number, and whether they can be reused.
fn held(observed: &[Value]) -> Vec<(u64, bool)> {
    let held = observed.iter().filter_map(|trial| trial.get("held_ports"));
    held.map(|held| (held["held"].as_u64().unwrap(), held["reused"].as_bool().unwrap()))
        .collect()
}

/// Connections that reused a port in `TIME_WAIT`, as counted by the kernel.
fn reused(observed: &[Value]) -> u64 {
    observed
        .iter()
        .map(|trial| trial["network"]["ports_reused"].as_u64().unwrap())
        .sum()
}

/// nginx in a container opens a connection per request to the application in another container: lasthop's own namespace
/// never holds a port. The two cases differ in one setting of one container. More than half of the 4,096 ports in
/// nginx's namespace are held at the end, but never all, on a machine of any speed: the rate is fixed. Other namespaces
/// have all of their ports.
#[test]
fn ports_held_between_containers_are_seen_where_they_hurt_and_only_there() {
    needs!(ready());
    let world = World::new("podman");
    let folder = world.lasthop.own_copy(EXPERIMENT);
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let (before, nginx) = text.split_once("[services.nginx.container]").unwrap();
    let few = nginx.replacen(
        "sysctls = {",
        "sysctls = { \"net.ipv4.ip_local_port_range\" = \"32768 36863\",",
        1,
    );
    assert_ne!(few, nginx);
    fs::write(
        folder.join("experiment.toml"),
        format!("{before}[services.nginx.container]{few}"),
    )
    .unwrap();

    let which = words("run containers --engine podman --only path=bridge --set tw_reuse=on,off --set connections=4");
    let how = words("--rate 600 --rounds 1 --blocks 11 --trial 500ms --budget 60s --format json");
    let summary = world.run(&[which, how].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));

    let off = observed(&world, "off");
    let seen = trap(&summary, "off");
    assert_eq!(seen.len(), 1, "{:?} {}", held(&off), summary["checks"]);
    let text = seen[0];
    assert!(
        text.contains("of 4,096 local ports of the network namespace of nginx towards 10."),
        "{text}"
    );
    assert!(
        held(&off).iter().all(|(_, serves_again)| !serves_again),
        "{:?}",
        held(&off)
    );
    assert!(held(&off).iter().any(|(held, _)| *held >= 2_048), "{:?}", held(&off));
    assert_eq!(reused(&off), 0);

    // No finding because reuse works, and not because few ports were held.
    let on = observed(&world, "on");
    assert_eq!(trap(&summary, "on"), Vec::<&str>::new(), "{}", summary["checks"]);
    assert!(
        held(&on).iter().all(|(_, serves_again)| *serves_again),
        "{:?}",
        held(&on)
    );
    assert!(reused(&on) > 0, "{on:?}");

    let report = world.run(&["report", "last", "--verbose"]).ok().stdout;
    assert!(report.contains("TIME_WAIT held up to"), "{report}");
    world.lasthop.assert_nothing_left();
}

/// A whole CPU each: the cgroup has the limit, and the report names it.
#[test]
fn a_limit_of_one_cpu_holds_and_is_named() {
    needs!(ready());
    let world = World::new("podman");
    let which = words("run containers --engine podman --only path=bridge,combined-unix --set cpu_limit=1");
    let how = words("--rounds 1 --blocks 2 --trial 300ms --budget 10s");
    let report = world.run(&[which, how].concat()).ok().stdout;
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
    assert!(
        periods("nginx") > 0 && periods("gunicorn") > 0,
        "{:?}",
        trials(&world, "bridge").last()
    );
    world.lasthop.assert_nothing_left();
}

#[test]
fn abs_of_the_study_drives_containers() {
    needs!(ready(), have("ab"));
    let world = World::new("podman");
    let which = words("run containers --engine podman --only path=bridge,shared-volume,combined-unix");
    let how = words("--set client=per-request --rounds 1 --blocks 1 --budget 30s --format json");
    let summary = world
        .run(&[&which[..], &how, &["--driver", "ab -n 1000 -c 1 -l"]].concat())
        .ok()
        .json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 3);
    for case in cases {
        assert_eq!(
            (&case["load"]["driver"], &case["requests"]),
            (&"ab".into(), &1_000.into()),
            "{case}"
        );
        assert_eq!(case["errors"], serde_json::json!({}), "{case}");
    }
    world.lasthop.assert_nothing_left();
}
