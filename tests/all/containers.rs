//! Real containers on both engines: every path replies and has the right name, and nothing is left, however a run ends.

use crate::common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use common::{
    Lasthop, Ran,
    engines::{World, have_engine},
    eventually, have, have_python,
    hops::{goes_over, path_of},
    lacks, list, moments, needs, shows, signal, words,
};
use lasthop_stack::container::owner_seeing;
use serde_json::Value;

const EXPERIMENT: &str = "nginx-gunicorn-containers";
/// Options of a run of one round, which is enough for the tests.
const SHORT: [&str; 8] = ["--rounds", "1", "--trial", "30ms", "--blocks", "2", "--budget", "120s"];

fn ready(engine: &str) -> bool {
    have("nginx") && have_python(EXPERIMENT) && have_engine(engine)
}

/// Microseconds per request that a role waited for a CPU, which is counted for every process, in containers too.
fn run_delay(case: &Value, role: &str) -> f64 {
    let delay = &case["metrics"]["run_delay"][role];
    assert!(
        (0.0..=1.0).contains(&delay["share"].as_f64().unwrap_or(-1.0)),
        "{role}: {case}"
    );
    delay["us_per_request"].as_f64().unwrap()
}

/// Every case shows the path to the link's server.
fn is_shown(world: &World) {
    let text = world.run(&["show", "last"]).ok().stdout;
    for condition in [
        "nginx can reach gunicorn, as at ",
        "share the loopback interface, or the container of gunicorn publishes its port there",
        "may enter",
    ] {
        assert!(text.contains(condition), "{condition}: {text}");
    }
}

fn every_path(engine: &'static str, published: &[&str]) {
    needs!(ready(engine));
    let world = World::new(engine);
    let which = ["run", EXPERIMENT, "--engine", engine, "--set", "connections=2"];
    let arguments = [&which[..], &["--format", "json"], &SHORT].concat();
    // The first run creates the chains that an engine keeps permanently.
    let summary = world.run(&arguments).ok().json();
    is_shown(&world);
    let before = world.inventory();
    world.run(&arguments).ok();
    assert_eq!(world.inventory(), before);
    world.lasthop.assert_nothing_left();

    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 7);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["gunicorn"].as_f64().unwrap() > 0.0,
            "CPU time in the container is counted: {case}"
        );
        assert!(run_delay(case, "gunicorn") >= 0.0);
    }
    goes_over(&summary, "published-port", published);
    goes_over(&summary, "published-host", &["published port", "bridge lasthop-"]);
    goes_over(&summary, "bridge", &["bridge lasthop-"]);
    assert!(!path_of(&summary, "bridge").to_string().contains("published"));
    goes_over(&summary, "host-network", &["loopback of the host's network"]);
    goes_over(
        &summary,
        "shared-volume",
        &["Unix socket on the volume lasthop-", "-run"],
    );
    assert!(path_of(&summary, "no-container-tcp").is_null());
    let programs = summary["environment"]["programs"].as_object().unwrap();
    assert!(programs.contains_key(engine), "{programs:?}");
    let fired = summary["checks"].to_string();
    lacks(&fired, ["config-differs", "transport-not-as-asked"]);
}

/// Restrictions of this machine, such as podman's own limit of open files, lasthop has to detect by itself.
#[test]
fn podman_as_it_is_found_runs_every_layout() {
    needs!(
        have("nginx"),
        have("supervisord"),
        have_python("containers"),
        have_engine("podman")
    );
    let world = World::as_found();
    let arguments = words("run containers --engine podman --format json --no-headroom");
    let summary = world.run(&[&arguments[..], &SHORT].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    assert!(
        list(&summary["cases"]).iter().all(|case| case["metrics"].is_object()),
        "{summary:#}"
    );
    assert_eq!(world.ask(&["ps", "--all", "--quiet"]), "");
    world.lasthop.assert_nothing_left();
}

#[test]
fn every_path_of_podman_is_named_as_what_it_is() {
    every_path("podman", &["published port 127.0.0.1:", "bridge lasthop-"]);
}

#[test]
fn every_path_of_docker_is_named_as_what_it_is() {
    every_path(
        "docker",
        &["published port 127.0.0.1:", "docker-proxy (pid ", "bridge lasthop-"],
    );
}

/// Two containers and the link between them, in every layout.
fn every_layout(engine: &'static str) {
    needs!(have("nginx"), have_python("containers"), have_engine(engine));
    let world = World::new(engine);
    let arguments = ["run", "containers", "--engine", engine, "--format", "json"];
    let summary = world.run(&[&arguments[..], &SHORT].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    is_shown(&world);
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 9);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["gunicorn"].as_f64().unwrap() > 0.0 && roles["nginx"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        assert!(run_delay(case, "gunicorn") >= 0.0 && run_delay(case, "nginx") >= 0.0);
    }
    lacks(&summary["checks"].to_string(), ["config-differs"]);
    goes_over(&summary, "bridge", &["bridge lasthop-"]);
    assert!(!path_of(&summary, "bridge").to_string().contains("published"));
    goes_over(&summary, "published-host", &["published port", "bridge lasthop-"]);
    for within in ["shared-namespace", "combined-tcp"] {
        goes_over(&summary, within, &["loopback of the shared network namespace"]);
    }
    goes_over(&summary, "host-network", &["loopback of the host's network"]);
    goes_over(
        &summary,
        "shared-volume",
        &["Unix socket on the volume lasthop-", "-app"],
    );
    let before = world.inventory();
    limited(&world, engine);
    balanced(&world, engine);
    assert_eq!(world.inventory(), before);
    world.lasthop.assert_nothing_left();
}

/// A quarter of a CPU is used up: the cgroup says so, and a doubled limit does not count as equal. Several connections,
/// because a single one also waits for the driver, and may use up nothing on a busy machine.
fn limited(world: &World, engine: &str) {
    let which =
        words("--only path=bridge,combined-unix,combined-unix-doubled --set cpu_limit=0.25 --set connections=8");
    let how = words("--rounds 1 --trial 300ms --blocks 2 --budget 120s --format json");
    let summary = world
        .run(&[&["run", "containers", "--engine", engine], &which[..], &how].concat())
        .ok()
        .json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let throttled = |path: &str, role: &str| {
        let cases = list(&summary["cases"]);
        let case = cases.iter().find(|case| case["levels"]["path"] == path).unwrap();
        case["throttled"][role]["times"].as_u64().unwrap_or(0)
    };
    // The server that needs more CPU time for a request is stopped first, and the other then has enough.
    assert!(
        throttled("bridge", "gunicorn") + throttled("bridge", "nginx") > 0,
        "{}",
        summary["cases"]
    );
    assert!(throttled("combined-unix", "supervisor") > 0, "{}", summary["cases"]);
    let checks = list(&summary["checks"]).iter();
    let differ: Vec<&str> = checks
        .filter(|check| check["id"] == "config-differs")
        .filter_map(|check| check["case"].as_str())
        .collect();
    assert_eq!(differ.len(), 1, "{differ:?}");
    assert!(differ[0].starts_with("combined-unix-doubled"), "{differ:?}");
}

/// HAProxy in a further container: the driver talks to HAProxy, and the containers behind are unchanged.
fn balanced(world: &World, engine: &str) {
    needs!(have("haproxy"));
    let engine = ["run", "containers", "--engine", engine, "--format", "json"];
    let which = words("--set front=none,haproxy --only path=bridge,host-network,shared-volume,no-container-unix");
    let summary = world.run(&[&engine[..], &which, &SHORT].concat()).ok().json();
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 8);
    for case in cases {
        let wanted = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], wanted, "{case}");
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        let front = roles.get("haproxy").and_then(Value::as_f64);
        assert_eq!(
            front.is_some_and(|cpu| cpu > 0.0),
            case["levels"]["front"] == "haproxy",
            "{case}"
        );
        assert!(roles["nginx"].as_f64().unwrap() > 0.0, "{case}");
    }
    lacks(&summary["checks"].to_string(), ["config-differs"]);
}

#[test]
fn every_layout_of_two_containers_works_with_podman() {
    every_layout("podman");
}

#[test]
fn every_layout_of_two_containers_works_with_docker() {
    every_layout("docker");
}

/// Another user's objects in the engine: a running container with its own network and volume, and a published port.
/// They include a veth pair, rules, mounts and cgroup folders.
struct Bystander<'a> {
    world: &'a World,
    /// Pid and start of the container.
    alive: String,
    kept: PathBuf,
}

const BYSTANDER: &str = "bystander";
const VOLUME_TEXT: &str = "what somebody else has written";

impl<'a> Bystander<'a> {
    /// A container from one of the engine's images.
    fn new(world: &'a World) -> Self {
        world.ask(&["network", "create", BYSTANDER]);
        world.ask(&["volume", "create", BYSTANDER]);
        let images = world.ask(&["images", "--quiet"]);
        let image = images.split_whitespace().next().expect("a world has images");
        let run = format!(
            "run --detach --pull=never --name {BYSTANDER} --network {BYSTANDER} --volume={BYSTANDER}:/kept \
             --publish=127.0.0.1::8000 --stop-signal=KILL --entrypoint=python3 {image}"
        );
        world.ask(&[&words(&run)[..], &["-c", "import signal; signal.pause()"]].concat());
        let folder = world.ask(&["volume", "inspect", "--format", "{{.Mountpoint}}", BYSTANDER]);
        let kept = Path::new(folder.trim()).join("kept");
        fs::write(&kept, VOLUME_TEXT).unwrap();
        // A rule and a pair of links that no engine knows.
        let tool = |words: &[&str]| assert!(world.inside(words[0]).args(&words[1..]).status().unwrap().success());
        tool(&words("iptables -t nat -A OUTPUT -d 192.0.2.1 -j RETURN"));
        tool(&words("ip link add bystander0 type veth peer name bystander1"));
        let mut made = Self {
            world,
            alive: String::new(),
            kept,
        };
        made.alive = made.life();
        made
    }

    fn life(&self) -> String {
        let format = "{{.State.Running}} {{.State.Pid}} {{.State.StartedAt}}";
        self.world.ask(&["container", "inspect", "--format", format, BYSTANDER])
    }

    #[track_caller]
    fn assert_untouched(&self) {
        assert!(self.alive.starts_with("true"), "{}", self.alive);
        assert_eq!(self.life(), self.alive);
        assert_eq!(fs::read_to_string(&self.kept).unwrap(), VOLUME_TEXT);
    }
}

impl Drop for Bystander<'_> {
    fn drop(&mut self) {
        let _ = self
            .world
            .inside(self.world.engine)
            .args(["rm", "--force", BYSTANDER])
            .output();
    }
}

/// Some of the paths of `containers`, so that each kill meets a different set of unfinished objects.
const SOME_PATHS: [&str; 4] = [
    "path=bridge,published-host,shared-volume",
    "path=shared-namespace,combined-unix,host-network",
    "path=shared-volume,combined-tcp,no-container-tcp",
    "path=published-host,shared-folder,shared-namespace",
];

/// Kills a run some time after its start, or not before a trial.
fn kill_a_run(world: &World, lasthop: &Lasthop, arguments: &[&str], n: usize) {
    let known = lasthop.runs().len();
    let mut child = world
        .lasthop_of(lasthop, arguments)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    if n % 5 == 4 {
        lasthop.wait_for_run(known + 1);
        lasthop.wait_for_lines(3);
    } else {
        thread::sleep(Duration::from_millis(100 + n as u64 * 2_654_435_761 % 3_500));
    }
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    eventually("the end of the guard", || lasthop.processes().is_empty());
}

/// Kills lasthop at moments spread over network, volume, start and trials of a run, two at a time.
fn sigkill(engine: &'static str) {
    needs!(have("nginx"), have_python("containers"), have_engine(engine));
    let world = World::new(engine);
    let arguments = |only: &'static str| {
        let which = ["run", "containers", "--engine", engine, "--quiet", "--only", only];
        [&which[..], &["--budget", "60s", "--trial", "30ms", "--blocks", "2"]].concat()
    };
    let kills = moments(6, 20) as usize;
    // The first run creates the chains that an engine keeps permanently.
    let first = arguments("path=published-host,shared-volume,combined-unix,host-network");
    world.run(&[&first[..], &["--rounds", "1"]].concat()).ok();
    let bystander = Bystander::new(&world);
    let before = world.inventory();
    for kind in [
        "containers",
        "networks",
        "volumes",
        "links",
        "rules",
        "mounts",
        "cgroups",
    ] {
        assert!(!before[kind].is_empty(), "there are {kind} that could be hurt");
    }
    thread::scope(|scope| {
        let (world, arguments) = (&world, &arguments);
        for first in 0..2 {
            scope.spawn(move || {
                let lasthop = Lasthop::new();
                for n in (first..kills).step_by(2) {
                    kill_a_run(world, &lasthop, &arguments(SOME_PATHS[n % 4]), n);
                }
                // A lasthop killed before its guard starts leaves an empty sandbox, which the next start or `clean`
                // removes.
                Ran::from(world.lasthop_of(&lasthop, &["clean"]).output().unwrap()).ok();
                lasthop.assert_nothing_left();
            });
        }
    });
    let after = world.inventory();
    for (kind, things) in &before {
        assert_eq!(&after[kind], things, "{kind}");
    }
    bystander.assert_untouched();
}

#[track_caller]
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
    needs!(ready("podman"));
    let world = World::new("podman");
    let run = format!("run {EXPERIMENT} --engine podman --quiet --only path=shared-volume,no-container-unix");
    let mut child = world
        .lasthop(&words(&run))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let volumes = || world.ask(&["volume", "ls", "--quiet"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while volumes().is_empty() {
        assert!(
            Instant::now() < deadline && child.try_wait().unwrap().is_none(),
            "it made no volume"
        );
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

/// A container of the test itself, from one of the engine's images.
fn stranger(world: &World, name: &str, options: &[&str]) -> String {
    let images = world.ask(&["images", "--quiet"]);
    let image = images.split_whitespace().next().expect("a world has images");
    let words = [
        &["create", "--pull=never", "--network=none", "--name", name],
        options,
        &[image, "true"],
    ]
    .concat();
    world.ask(&words).trim().to_owned()
}

#[test]
fn clean_removes_what_lost_its_sandbox_and_nothing_else() {
    needs!(ready("podman"));
    let world = World::new("podman");
    let which = words("--engine podman --quiet --set connections=2 --only path=host-network,no-container-tcp");
    world.run(&[&["run", EXPERIMENT], &which[..], &SHORT].concat()).ok();
    let kept = stranger(&world, "kept", &[]);
    let owner = format!("--label=lasthop.owner={}", owner_seeing(&world.files()));
    stranger(
        &world,
        "lost",
        &[
            "--label=lasthop.run=lasthop-x",
            "--label=lasthop.sandbox=/nowhere/lasthop-x",
            &owner,
        ],
    );
    let volume = |name: &str, labels: &[&str]| {
        world.ask(&[&["volume", "create"], labels, &[name]].concat());
    };
    volume("kept", &[]);
    volume(
        "lost",
        &[
            "--label=lasthop.run=lasthop-y",
            "--label=lasthop.sandbox=/nowhere/lasthop-y",
            &owner,
        ],
    );
    volume(
        "of-somebody-else",
        &[
            "--label=lasthop.run=lasthop-z",
            "--label=lasthop.sandbox=/nowhere/lasthop-z",
        ],
    );
    let talk = world.run(&["clean"]).ok().stderr;
    assert!(talk.contains("1 container") && talk.contains("1 volume"), "{talk}");
    assert_eq!(world.ask(&["volume", "ls", "--quiet"]).trim(), "kept\nof-somebody-else");
    assert_eq!(world.ask(&["ps", "--all", "--quiet", "--no-trunc"]).trim(), kept);
}

fn failures(summary: &Value) -> BTreeMap<String, String> {
    let text = |failure: &Value| format!("{} {} {}", failure["stage"], failure["cause"], failure["log"]);
    let failures = list(&summary["failures"]).iter();
    failures
        .map(|failure| (failure["case"].as_str().unwrap().to_owned(), text(failure)))
        .collect()
}

#[test]
fn without_an_engine_the_other_cases_are_measured_and_the_reason_is_said() {
    needs!(have("nginx"), have_python(EXPERIMENT));
    let lasthop = Lasthop::new();
    let only = "path=bridge,no-container-tcp";
    let run = |engine: &[&str], path: &str| {
        let mut command = lasthop.command(["run", EXPERIMENT, "--only", only]);
        command
            .args(SHORT)
            .args(engine)
            .args(["--format", "json"])
            .env("PATH", path);
        let ran = Ran::from(
            command
                .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let summary = ran.json();
        assert!(
            list(&summary["cases"])
                .iter()
                .any(|case| case["requests"].as_u64() > Some(0)),
            "{summary}"
        );
        failures(&summary)["bridge"].clone()
    };
    let empty = lasthop.home().display().to_string();
    let none = run(&[], &empty);
    assert!(
        none.contains("no container engine was found: neither `podman` nor `docker` is on PATH; install one"),
        "{none}"
    );
    let missing = run(&["--engine", "podman"], &empty);
    assert!(
        missing.contains("`podman` is not on PATH; install it, or choose another engine with --engine"),
        "{missing}"
    );
    if have("docker") {
        let unusable = run(&["--engine", "docker"], &std::env::var("PATH").unwrap());
        shows(&unusable, ["start the daemon", "DOCKER_HOST"]);
    }
}
