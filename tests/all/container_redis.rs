//! Redis in a container by every path, on both engines, and the study of a published port.

use crate::common;

use common::{
    BRIEF,
    engines::{World, have_engine},
    have,
    hops::{goes_over, path_of},
};
use serde_json::{Value, json};

const EXPERIMENT: &str = "redis-published-port";

fn every_path(engine: &'static str, published: &[&str]) {
    if !have("redis-server") || !have_engine(engine) {
        return;
    }
    let world = World::new(engine);
    let summary = world
        .run(&[&["run", EXPERIMENT, "--engine", engine], &BRIEF[..]].concat())
        .ok()
        .json();
    world.lasthop.assert_nothing_left();
    assert_eq!(summary["failures"], json!([]));
    let cases = summary["cases"].as_array().unwrap();
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
        &["DNAT", "bridge", "veth", "redis-server"],
    );
    goes_over(&summary, &case("bridge"), &["bridge", "veth", "redis-server"]);
    goes_over(
        &summary,
        &case("host-network"),
        &["loopback", "redis-server", "in a container on the host's network"],
    );
    goes_over(
        &summary,
        &case("shared-volume"),
        &["Unix socket on the volume", "redis-server", "in a container"],
    );
    for outside in ["no-container-tcp", "no-container-unix"] {
        assert!(!path_of(&summary, &case(outside)).to_string().contains("in a container"));
    }
    // Docker starts a proxy for whatever is published; for the host's address on the bridge it has nothing to do.
    for case in cases {
        let proxy = case["metrics"]["cpu_per_request"]["roles"]["docker-proxy"].as_f64();
        match (engine, case["levels"]["path"].as_str().unwrap()) {
            ("docker", "published-port") => assert!(proxy.is_some_and(|time| time > 0.0), "{case}"),
            ("docker", "published-host") => {}
            _ => assert_eq!(proxy, None, "{case}"),
        }
    }
    assert!(
        !summary["checks"].to_string().contains("config-differs"),
        "{}",
        summary["checks"]
    );
}

#[test]
fn redis_answers_by_every_path_of_podman() {
    every_path("podman", &["DNAT", "bridge", "veth", "redis-server"]);
}

#[test]
fn redis_answers_by_every_path_of_docker() {
    every_path("docker", &["docker-proxy", "bridge", "veth", "redis-server"]);
}

#[test]
fn the_published_port_of_2015_is_repeated_with_docker() {
    if !have("redis-server") || !have("redis-benchmark") || !have_engine("docker") {
        return;
    }
    let world = World::new("docker");
    let arguments = [
        "repro",
        "moby-11911-redis",
        "--engine",
        "docker",
        "--budget",
        "8s",
        "--format",
        "json",
        "-q",
    ];
    let result = world.run(&arguments).ok().json();
    world.lasthop.assert_nothing_left();
    let rows = result["figures"].as_array().unwrap().iter();
    let rates: Vec<&Value> = rows
        .filter(|row| row["figure"]["quantity"] == "requests-per-second")
        .collect();
    assert_eq!(rates.len(), 3);
    for row in rates {
        assert!(row["method"]["value"].as_f64().unwrap() > 0.0, "redis-benchmark: {row}");
        assert!(row["lasthop"]["value"].as_f64().unwrap() > 0.0, "{row}");
    }
    let claims = result["claims"].as_array().unwrap();
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
