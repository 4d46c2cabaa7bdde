//! Redis in a container over every path, on both engines, and the study of a published port.

use crate::common;

use common::{
    BRIEF,
    engines::{World, have_engine},
    have,
    hops::{goes_over, path_of},
    lacks, list, needs, words,
};
use lasthop_profile::Profiler;
use serde_json::{Value, json};

const EXPERIMENT: &str = "redis-published-port";

fn every_path(engine: &'static str, published: &[&str]) {
    needs!(have("redis-server"), have_engine(engine));
    let world = World::new(engine);
    let summary = world
        .run(&[&["run", EXPERIMENT, "--engine", engine], &BRIEF[..]].concat())
        .ok()
        .json();
    world.lasthop.assert_nothing_left();
    assert_eq!(summary["failures"], json!([]));
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 14, "7 paths with 1 and with 50 connections");
    for case in cases {
        assert!(
            case["metrics"]["throughput"]["estimate"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert!(
            case["metrics"]["cpu_per_request"]["roles"]["redis"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    let case = |path: &str| format!("{path}/connections=50");
    goes_over(&summary, &case("published-port"), published);
    goes_over(
        &summary,
        &case("published-host"),
        &["published port", "bridge lasthop-"],
    );
    goes_over(&summary, &case("bridge"), &["bridge lasthop-"]);
    goes_over(&summary, &case("host-network"), &["loopback of the host's network"]);
    goes_over(&summary, &case("shared-volume"), &["Unix socket on the volume"]);
    for outside in ["no-container-tcp", "no-container-unix"] {
        assert!(path_of(&summary, &case(outside)).is_null());
    }
    // Docker starts a proxy for every published port. The proxy has no work for the host's address on the bridge.
    for case in cases {
        let proxy = case["metrics"]["cpu_per_request"]["roles"]["docker-proxy"].as_f64();
        match (engine, case["levels"]["path"].as_str().unwrap()) {
            ("docker", "published-port") => assert!(proxy.is_some_and(|time| time > 0.0), "{case}"),
            ("docker", "published-host") => {}
            _ => assert_eq!(proxy, None, "{case}"),
        }
    }
    lacks(&summary["checks"].to_string(), ["config-differs"]);
}

#[test]
fn redis_answers_by_every_path_of_podman() {
    every_path("podman", &["published port 127.0.0.1:", "bridge lasthop-"]);
}

#[test]
fn redis_answers_by_every_path_of_docker() {
    every_path(
        "docker",
        &["published port 127.0.0.1:", "docker-proxy (pid ", "bridge lasthop-"],
    );
}

/// Microseconds of a role in a layer; `*` stands for all roles.
fn in_layer(summary: &Value, path: &str, role: &str, layer: &str) -> f64 {
    let roles = summary["explained"]["cases"][path]["roles"].as_object().unwrap();
    let wanted = roles.iter().filter(|(name, _)| role == "*" || *name == role);
    wanted.filter_map(|(_, role)| role["layers"][layer].as_f64()).sum()
}

fn layers_of_containers(engine: &'static str, paths: &str) -> Option<Value> {
    if !have("redis-server") || !have_engine(engine) || Profiler::available().is_err() {
        return None;
    }
    let world = World::new(engine);
    // Long enough to sample layers that take little time.
    let options = "--rounds 1 --blocks 1 --trial 1500ms --budget 120s --format json --explain --set connections=1";
    let mut words = vec!["run", EXPERIMENT, "--engine", engine, "--set", paths];
    words.extend(options.split(' '));
    let summary = world.run(&words).ok().json();
    world.lasthop.assert_nothing_left();
    let seen = &summary["explained"]["cases"];
    assert!(in_layer(&summary, "bridge", "redis", "tcp") > 0.0, "{seen:#}");
    let [bridge, none] = ["bridge", "no-container-tcp"].map(|path| in_layer(&summary, path, "*", "bridge"));
    assert!(bridge > 0.0 && none < bridge / 10.0, "{bridge} and {none} µs: {seen:#}");
    Some(summary)
}

#[test]
fn layers_of_podman_have_the_bridge() {
    layers_of_containers("podman", "path=bridge,no-container-tcp");
}

#[test]
fn layers_of_docker_have_the_bridge_and_its_proxy() {
    let paths = "path=bridge,published-port,no-container-tcp";
    if let Some(summary) = layers_of_containers("docker", paths) {
        assert!(
            in_layer(&summary, "published-port", "docker-proxy", "tcp") > 0.0,
            "{:#}",
            summary["explained"]["cases"]
        );
    }
}

#[test]
fn the_published_port_of_2015_is_repeated_with_docker() {
    needs!(have("redis-server"), have("redis-benchmark"), have_engine("docker"));
    let world = World::new("docker");
    let arguments = words("repro moby-11911-redis --engine docker --budget 8s --format json -q");
    let result = world.run(&arguments).ok().json();
    world.lasthop.assert_nothing_left();
    let rows = list(&result["figures"]).iter();
    let rates: Vec<&Value> = rows
        .filter(|row| row["figure"]["quantity"] == "requests-per-second")
        .collect();
    assert_eq!(rates.len(), 3);
    for row in rates {
        assert!(row["method"]["value"].as_f64().unwrap() > 0.0, "redis-benchmark: {row}");
        assert!(row["lasthop"]["value"].as_f64().unwrap() > 0.0, "{row}");
    }
    let claims = list(&result["claims"]);
    assert!(
        (claims[0]["published"].as_f64().unwrap() - 0.4455).abs() < 0.001,
        "{}",
        claims[0]
    );
    assert!(
        claims.iter().all(|claim| claim["lasthop"]["value"].is_f64()),
        "{claims:?}"
    );
    let why = result["parts"][0]["why"].to_string();
    assert!(
        why.contains("docker-proxy"),
        "the path that the port had is named: {why}"
    );
}
