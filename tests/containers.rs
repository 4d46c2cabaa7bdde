//! Real containers on both engines: every path answers and is what it is called, and nothing is left, however a run ends.

mod common;

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use common::{
    engines::{World, have_engine},
    have, have_python,
    hops::{goes_over, path_of},
};
use serde_json::Value;

const EXPERIMENT: &str = "nginx-gunicorn-containers";
const SHORT: [&str; 8] = ["--budget", "6s", "--trial", "30ms", "--blocks", "2", "--set", "connections=2"];

fn ready(engine: &str) -> bool {
    have("nginx") && have_python(EXPERIMENT) && have_engine(engine)
}

fn every_path(engine: &'static str, published: &[&str]) {
    if !ready(engine) {
        return;
    }
    let world = World::new(engine);
    let arguments = [&["run", EXPERIMENT, "--engine", engine, "--format", "json"], &SHORT[..]].concat();
    // The first run makes the image, and the chains that an engine keeps for good.
    let summary = world.run(&arguments).ok().json();
    let before = world.inventory();
    world.run(&arguments).ok();
    assert_eq!(world.inventory(), before);
    world.lasthop.assert_nothing_left();

    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(roles["gunicorn"].as_f64().unwrap() > 0.0, "CPU time in the container is counted: {case}");
    }
    goes_over(&summary, "published-port", published);
    goes_over(&summary, "published-host", &["DNAT", "bridge", "veth", "gunicorn"]);
    goes_over(&summary, "bridge", &["bridge", "veth", "gunicorn"]);
    assert!(!path_of(&summary, "bridge").to_string().contains("DNAT"));
    goes_over(&summary, "host-network", &["loopback", "gunicorn", "in a container on the host's network"]);
    goes_over(&summary, "shared-volume", &["Unix socket on the volume lasthop-", "-run", "gunicorn", "in a container"]);
    assert!(!path_of(&summary, "no-container-tcp").to_string().contains("in a container"));
    let programs = summary["environment"]["programs"].as_object().unwrap();
    assert!(programs.contains_key(engine), "{programs:?}");
    let fired = summary["checks"].to_string();
    assert!(!fired.contains("config-differs") && !fired.contains("transport-not-as-asked"), "{fired}");
}

#[test]
fn every_path_of_podman_is_named_as_what_it_is() {
    every_path("podman", &["DNAT", "NETAVARK", "bridge", "veth", "gunicorn"]);
}

#[test]
fn every_path_of_docker_is_named_as_what_it_is() {
    every_path("docker", &["docker-proxy", "bridge", "veth", "gunicorn"]);
}

/// Two containers and the link between them, in every layout.
fn every_layout(engine: &'static str, published: &[&str]) {
    if !have("nginx") || !have_python("containers") || !have_engine(engine) {
        return;
    }
    let world = World::new(engine);
    let arguments = ["run", "containers", "--engine", engine, "--format", "json", "--budget", "8s", "--blocks", "2"];
    let summary = world.run(&arguments).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(roles["gunicorn"].as_f64().unwrap() > 0.0 && roles["nginx"].as_f64().unwrap() > 0.0, "{case}");
    }
    assert!(!summary["checks"].to_string().contains("config-differs"), "{}", summary["checks"]);
    goes_over(&summary, "bridge", &["veth", "bridge", "veth", "gunicorn"]);
    assert!(!path_of(&summary, "bridge").to_string().contains("DNAT"));
    goes_over(&summary, "published-host", published);
    for within in ["shared-namespace", "combined-tcp"] {
        goes_over(&summary, within, &["loopback of the shared network namespace", "gunicorn"]);
    }
    goes_over(&summary, "host-network", &["loopback", "gunicorn", "in a container on the host's network"]);
    goes_over(&summary, "shared-volume", &["Unix socket on the volume lasthop-", "-app", "gunicorn", "in a container"]);
    let before = world.inventory();
    limited(&world, engine);
    balanced(&world, engine);
    assert_eq!(world.inventory(), before);
    world.lasthop.assert_nothing_left();
}

/// A quarter of a CPU is used up: the cgroup says so, and a doubled limit is no equal one.
fn limited(world: &World, engine: &str) {
    let only = "path=bridge,combined-unix,combined-unix-doubled";
    let arguments = ["run", "containers", "--engine", engine, "--format", "json", "--only", only];
    let more = ["--set", "cpu_limit=0.25", "--budget", "6s", "--trial", "300ms", "--blocks", "1"];
    let summary = world.run(&[&arguments[..], &more].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let throttled = |path: &str, role: &str| {
        let cases = summary["cases"].as_array().unwrap();
        let case = cases.iter().find(|case| case["levels"]["path"] == path).unwrap();
        case["throttled"][role]["times"].as_u64().unwrap_or(0)
    };
    assert!(throttled("bridge", "gunicorn") > 0, "{}", summary["cases"]);
    assert!(throttled("combined-unix", "supervisor") > 0, "{}", summary["cases"]);
    let checks = summary["checks"].as_array().unwrap().iter();
    let differ: Vec<&str> =
        checks.filter(|check| check["id"] == "config-differs").filter_map(|check| check["case"].as_str()).collect();
    assert_eq!(differ.len(), 1, "{differ:?}");
    assert!(differ[0].starts_with("combined-unix-doubled"), "{differ:?}");
}

/// HAProxy in a further container: the driver talks to it, and what is behind it is as without.
fn balanced(world: &World, engine: &str) {
    if !have("haproxy") {
        return;
    }
    let arguments = ["run", "containers", "--engine", engine, "--format", "json", "--set", "front=none,haproxy"];
    let more =
        ["--only", "path=bridge,host-network,shared-volume,no-container-unix", "--budget", "8s", "--blocks", "2"];
    let summary = world.run(&[&arguments[..], &more].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        let front = roles.get("haproxy").and_then(Value::as_f64);
        assert_eq!(front.is_some_and(|cpu| cpu > 0.0), case["levels"]["front"] == "haproxy", "{case}");
        assert!(roles["nginx"].as_f64().unwrap() > 0.0, "{case}");
    }
    assert!(!summary["checks"].to_string().contains("config-differs"), "{}", summary["checks"]);
}

#[test]
fn every_layout_of_two_containers_works_with_podman() {
    every_layout("podman", &["veth", "bridge", "DNAT", "NETAVARK", "bridge", "veth", "gunicorn"]);
}

#[test]
fn every_layout_of_two_containers_works_with_docker() {
    every_layout("docker", &["veth", "bridge", "docker-proxy", "bridge", "veth", "gunicorn"]);
}

/// Kills lasthop at moments spread over image, network, start and trials.
fn sigkill(engine: &'static str) {
    if !ready(engine) {
        return;
    }
    let world = World::new(engine);
    let arguments = [&["run", EXPERIMENT, "--engine", engine, "--quiet"], &SHORT[..]].concat();
    world.run(&arguments).ok();
    let stranger = stranger(&world, "bystander", &[]);
    let before = world.inventory();
    for n in 0..20_u64 {
        let mut child = world.lasthop(&arguments).stdout(std::process::Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(100 + n * 2_654_435_761 % 3_500));
        // SAFETY: the child is ours and not yet waited for; `nsenter` has become lasthop.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGKILL) }, 0);
        child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !world.lasthop.processes().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(world.lasthop.processes().is_empty(), "{:?}", world.lasthop.processes());
    }
    // One that was killed before it had its guard leaves an empty sandbox, which the next start or this removes.
    world.run(&["clean"]).ok();
    world.lasthop.assert_nothing_left();
    assert_eq!(world.inventory(), before);
    assert!(world.ask(&["ps", "--all", "--quiet", "--no-trunc"]).contains(&stranger));
}

#[test]
fn sigkill_with_podman_leaves_nothing() {
    sigkill("podman");
}

#[test]
fn sigkill_with_docker_leaves_nothing() {
    sigkill("docker");
}

#[test]
fn a_volume_goes_with_a_run_that_was_killed() {
    if !ready("podman") {
        return;
    }
    let world = World::new("podman");
    let run = ["run", EXPERIMENT, "--engine", "podman", "--quiet", "--only", "path=shared-volume,no-container-unix"];
    let mut child = world.lasthop(&run).stdout(std::process::Stdio::null()).spawn().unwrap();
    let volumes = || world.ask(&["volume", "ls", "--quiet"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while volumes().is_empty() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "it made no volume");
    }
    let name = volumes().trim().to_owned();
    let labels = world.ask(&["volume", "inspect", "--format", "{{json .Labels}}", &name]);
    assert!(
        name.starts_with("lasthop-") && labels.contains("lasthop.run") && labels.contains("lasthop.sandbox"),
        "{labels}"
    );
    // SAFETY: the child is ours and not yet waited for; `nsenter` has become lasthop.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGKILL) }, 0);
    child.wait().unwrap();
    while !world.lasthop.processes().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", world.lasthop.processes());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(volumes(), "");
    world.lasthop.assert_nothing_left();
}

/// A container that the test itself makes, of lasthop's image.
fn stranger(world: &World, name: &str, options: &[&str]) -> String {
    let images = world.ask(&["images", "--quiet"]);
    let image = images.split_whitespace().next().expect("a run has made an image");
    let words = [&["create", "--pull=never", "--network=none", "--name", name], options, &[image, "true"]].concat();
    world.ask(&words).trim().to_owned()
}

#[test]
fn clean_removes_what_lost_its_sandbox_and_nothing_else() {
    if !ready("podman") {
        return;
    }
    let world = World::new("podman");
    let only = ["--only", "path=host-network,no-container-tcp"];
    world.run(&[&["run", EXPERIMENT, "--engine", "podman", "--quiet"], &SHORT[..], &only].concat()).ok();
    let kept = stranger(&world, "kept", &[]);
    stranger(&world, "lost", &["--label=lasthop.run=lasthop-x", "--label=lasthop.sandbox=/nowhere/lasthop-x"]);
    let volume = |name: &str, labels: &[&str]| {
        world.ask(&[&["volume", "create"], labels, &[name]].concat());
    };
    volume("kept", &[]);
    volume("lost", &["--label=lasthop.run=lasthop-y", "--label=lasthop.sandbox=/nowhere/lasthop-y"]);
    let talk = world.run(&["clean"]).ok().stderr;
    assert!(talk.contains("1 container") && talk.contains("1 volume"), "{talk}");
    assert_eq!(world.ask(&["volume", "ls", "--quiet"]).trim(), "kept");
    assert_eq!(world.ask(&["ps", "--all", "--quiet", "--no-trunc"]).trim(), kept);
}

/// Says why, and ends.
const UNWILLING: &str = r#"
summary = "a server that does not want to"
[program]
names = ["sh"]
version = { arguments = ["-c", "echo sh/1"], pattern = 'sh/(\d)' }
[listen.tcp]
[listen.unix]
[settings.application]
help = "none"
[settings.workers]
help = "none"
[settings.worker_class]
help = "none"
[settings.backlog]
help = "none"
[start]
arguments = ["-c", "echo the application does not want to; exit 3"]
"#;

/// The experiment with another server, in the home of the world.
fn with_server(world: &World, recipe: &str) {
    let built_in = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments").join(EXPERIMENT);
    let folder = world.lasthop.home().join("experiments").join(EXPERIMENT);
    fs::create_dir_all(folder.join("services/gunicorn")).unwrap();
    fs::create_dir_all(folder.join("app")).unwrap();
    for name in ["experiment.toml", "nginx.conf.j2", "app/application.py"] {
        fs::copy(built_in.join(name), folder.join(name)).unwrap();
    }
    fs::write(folder.join("services/gunicorn/recipe.toml"), recipe).unwrap();
}

fn failures(summary: &Value) -> BTreeMap<String, String> {
    let text = |failure: &Value| format!("{} {} {}", failure["stage"], failure["cause"], failure["log"]);
    let failures = summary["failures"].as_array().unwrap().iter();
    failures.map(|failure| (failure["case"].as_str().unwrap().to_owned(), text(failure))).collect()
}

#[test]
fn a_container_that_exits_at_once_shows_its_last_lines() {
    if !ready("podman") {
        return;
    }
    let world = World::new("podman");
    with_server(&world, UNWILLING);
    let folder = world.lasthop.home().join("experiments").join(EXPERIMENT);
    let arguments = [
        "run",
        folder.to_str().unwrap(),
        "--engine",
        "podman",
        "--only",
        "path=bridge",
        "--budget",
        "5s",
        "--format",
        "json",
    ];
    let ran = world.run(&arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = failures(&ran.json());
    let text = &failures["bridge"];
    assert!(text.contains("ended with status 3"), "{text}");
    assert!(text.contains("the application does not want to"), "{text}");
    world.lasthop.assert_nothing_left();
}

#[test]
fn without_an_engine_the_other_cases_are_measured_and_the_reason_is_said() {
    if !have("nginx") || !have_python(EXPERIMENT) {
        return;
    }
    let lasthop = common::Lasthop::new();
    let only = "path=bridge,no-container-tcp";
    let run = |engine: &str, path: &str| {
        let mut command = lasthop.command(["run", EXPERIMENT, "--only", only, "--budget", "4s", "--trial", "20ms"]);
        command.args(["--engine", engine, "--format", "json"]).env("PATH", path);
        let ran = common::Ran::from(command.env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let summary = ran.json();
        assert!(
            summary["cases"].as_array().unwrap().iter().any(|case| case["requests"].as_u64() > Some(0)),
            "{summary}"
        );
        failures(&summary)["bridge"].clone()
    };
    let empty = lasthop.home().display().to_string();
    let missing = run("podman", &empty);
    assert!(missing.contains("`podman` is not on PATH; install it, or choose another with --engine"), "{missing}");
    if have("docker") {
        let unusable = run("docker", &std::env::var("PATH").unwrap());
        assert!(unusable.contains("start the daemon") && unusable.contains("DOCKER_HOST"), "{unusable}");
    }
    lasthop.assert_nothing_left();
}
