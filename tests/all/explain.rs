//! Where the CPU time of a request goes, as the kernel of this machine says it.

use crate::{common, driver_at::have_namespaces, load_peers::free_port};

use std::{
    fs,
    net::TcpStream,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command},
};

use common::{Lasthop, Ran, copy, eventually, have, list, needs, one_line, shows, signal, skip, words};
use serde_json::Value;

/// Two cases, over a Unix socket and over TCP.
const RUN: &str = "run sockets --only=pattern=echo --only=transport=unix,tcp --trial=20ms --blocks=4 --budget=60s -q";
/// An account without rights.
const DAEMON: u32 = 1;

fn may_observe() -> bool {
    let may = rustix::process::geteuid().is_root() && lasthop_profile::Profiler::available().is_ok();
    may || skip("this machine does not let lasthop observe processes")
}

fn explained(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    let all = RUN.split(' ').chain(arguments.iter().copied());
    lasthop.run(all.chain(["--explain", "--format=json"])).ok().json()
}

fn lines(run: &Path, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(run.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum(values: &Value) -> f64 {
    values.as_object().unwrap().values().map(number).sum()
}

#[test]
fn each_transport_has_its_own_layer_and_the_parts_add_up() {
    needs!(may_observe());
    let lasthop = Lasthop::new();
    let summary = explained(&lasthop, &["--rounds=3"]);
    lasthop.assert_nothing_left();
    let found = &summary["explained"];
    for (case, own, other) in [("unix", "unix", "tcp"), ("tcp", "tcp", "unix")] {
        let (_, of) = found["cases"]
            .as_object()
            .unwrap()
            .iter()
            .find(|(name, _)| name.starts_with(case))
            .unwrap();
        let roles = ["driver", "server"].map(|role| &of["roles"][role]);
        let sampled = |role: &Value| sum(&role["layers"]) + number(&role["not_attributed_us"]);
        let both: f64 = roles.iter().map(|role| sampled(role)).sum();
        let cpu: f64 = roles.iter().map(|role| number(&role["cpu_us"])).sum();
        // Where other programs are busy, the kernel books a part of their time to whoever is woken.
        assert!(
            (0.25..1.5).contains(&(both / cpu)),
            "{case}: {both} of {cpu} µs: {of:#}"
        );
        let share = |layer: &str| {
            let of_layer = |role: &&Value| role["layers"].get(layer).map_or(0.0, number);
            roles.iter().map(of_layer).sum::<f64>() / both
        };
        assert!(share(own) > 0.03, "{case}: {of:#}");
        assert!(share(other) < 0.01, "{case}: {of:#}");
        for role in roles {
            let calls = role["counts"]
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| name.starts_with("syscalls:"));
            // A round trip is one call to send and one to receive, more if it waits by epoll.
            let calls: f64 = calls.map(|(_, count)| number(count)).sum();
            assert!(
                (1.9..8.0).contains(&calls),
                "{case}: {calls} calls per request: {role:#}"
            );
        }
        assert!(number(&of["speed"]["estimate"]) > 0.0, "{of:#}");
    }
    let difference = &found["differences"][0];
    let layers = list(&difference["layers"]);
    let estimate = |saving: &Value| number(&saving["saved"]["estimate"]);
    let all = layers.iter().map(estimate).sum::<f64>()
        + number(&difference["others_us"])
        + estimate(&difference["not_attributed"]);
    assert!((all - estimate(difference)).abs() < 1e-6, "{difference:#}");
    assert!(
        (sum(&difference["roles"]) - estimate(difference)).abs() < 1e-6,
        "{difference:#}"
    );
    let text = one_line(&lasthop.run(["report", "last"]).ok().stdout);
    shows(&text, ["In the profile trials", "not attributed"]);
}

/// The case of an explained run whose name begins like this.
fn case<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let cases = summary["explained"]["cases"].as_object().unwrap();
    let found = cases.iter().find(|(known, _)| known.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {cases:#?}")).1
}

/// Microseconds per request of all roles in a layer.
fn in_layer(case: &Value, layer: &str) -> f64 {
    let roles = case["roles"].as_object().unwrap();
    roles
        .values()
        .map(|role| role["layers"].get(layer).map_or(0.0, number))
        .sum()
}

/// The server's head and body leave in two pieces, and the second waits for the client's delayed acknowledgement.
#[test]
fn what_nagle_delays_is_waiting_and_no_work() {
    needs!(may_observe(), have("python3"));
    let lasthop = Lasthop::new();
    lasthop.run(["new", "pieces"]).ok();
    let server = lasthop.home().join("pieces/app/server.py");
    let text = fs::read_to_string(&server).unwrap();
    let disabled = "self.disable_nagle_algorithm = self.server.address_family != socket.AF_UNIX";
    assert!(text.contains("wbufsize = -1") && text.contains(disabled));
    let planted = text.replace("wbufsize = -1", "wbufsize = 0");
    fs::write(
        &server,
        planted.replace(disabled, "self.disable_nagle_algorithm = False"),
    )
    .unwrap();
    let run = "run ./pieces --only connections=1 --rounds 1 --blocks 2 --trial 200ms --budget 60s --explain -q";
    let summary = lasthop.run(run.split(' ').chain(["--format=json"])).ok().json();
    let time = |name: &str| {
        let time = &case(&summary, name)["roles"]["driver"]["time"];
        ["working_us", "runnable_us", "waiting_us"].map(|part| number(&time[part]))
    };
    let ([working, runnable, waiting], [.., unix]) = (time("tcp"), time("unix"));
    // Linux delays an acknowledgement by 40 ms, for which every thread of the driver waits.
    assert!(waiting > 30_000.0, "{waiting} µs");
    assert!(unix < waiting / 5.0, "{unix} µs over a Unix socket");
    assert!(working + runnable < waiting / 10.0, "{working} and {runnable} µs");
    let work: f64 = case(&summary, "tcp")["roles"]
        .as_object()
        .unwrap()
        .values()
        .map(|role| sum(&role["layers"]))
        .sum();
    assert!(work < waiting / 5.0, "{work} µs of CPU");
}

#[test]
fn what_tls_costs_is_in_its_own_layer() {
    needs!(may_observe());
    let lasthop = Lasthop::new();
    let run =
        "run sockets --only pattern=echo --only transport=tcp,tls --trial 20ms --blocks 2 --rounds 3 --budget 60s -q";
    let run = run.split(' ').chain(["--explain", "--format=json"]);
    let summary = lasthop.run(run).ok().json();
    let [tls, tcp] = ["tls", "tcp"].map(|name| in_layer(case(&summary, name), "crypto"));
    assert!(tls > 0.5 && tcp < tls / 50.0, "{tls} and {tcp} µs");
    // Records are built and copied by the program; the kernel's way is the same.
    for layer in ["tcp", "ip", "loopback", "unix", "netfilter"] {
        let [with, without] = ["tls", "tcp"].map(|name| in_layer(case(&summary, name), layer));
        assert!(
            (with - without).abs() < tls,
            "{layer}: {with} and {without} µs, crypto {tls}"
        );
    }
}

/// Ends with the test.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_relay_between_given_endpoints_is_a_role_of_its_own() {
    needs!(may_observe(), have("socat"));
    let lasthop = Lasthop::new();
    let [direct, relayed] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let _server = Beside(lasthop.start(["serve", "--pattern", "echo", "--tcp", &direct]));
    let mut socat = Command::new("socat");
    let (listen, to) = relayed.split_once(':').unwrap();
    socat.arg(format!("TCP-LISTEN:{to},bind={listen},fork,reuseaddr,nodelay"));
    let relay = Beside(socat.arg(format!("TCP:{direct},nodelay")).spawn().unwrap());
    for address in [&direct, &relayed] {
        eventually("a listener", || TcpStream::connect(address).is_ok());
    }
    let urls = [format!("echo://{direct}"), format!("echo://{relayed}")];
    let pid = format!("--pid=relay={}", relay.0.id());
    let options = "--explain --rounds=2 --blocks=2 --trial=20ms --budget=60s -q --format=json";
    let words = ["compare", &urls[0], &urls[1], &pid]
        .into_iter()
        .chain(options.split(' '));
    let summary = lasthop.run(words).ok().json();
    let difference = &summary["explained"]["differences"][0];
    let roles = difference["roles"].as_object().unwrap();
    // Its own work is most of what the way through it costs.
    let cost = |role: &str| -number(&roles[role]);
    let all = -number(&difference["saved"]["estimate"]);
    assert!(cost("relay") > all / 2.0, "{difference:#}");
    let [direct, relayed] = ["reference", "case"].map(|which| case(&summary, difference[which].as_str().unwrap()));
    let spent = |case: &Value| case["roles"].get("relay").map_or(0.0, |role| sum(&role["layers"]));
    assert!(spent(direct) < spent(relayed) / 20.0, "{direct:#} {relayed:#}");
    assert!(number(&relayed["roles"]["relay"]["layers"]["tcp"]) > 0.0, "{relayed:#}");
    lasthop.run(["run", "last", "--again"]).fails(2, "compare them again");
}

#[test]
fn a_driver_in_a_network_namespace_goes_over_veth() {
    needs!(may_observe(), have_namespaces());
    let lasthop = Lasthop::new();
    // Long enough for samples of what takes little, also while other tests have the CPUs.
    let run =
        "run sockets --only pattern=echo --only transport=unix,tcp --rounds 1 --blocks 1 --trial 5s --budget 60s -q";
    let elsewhere = ["--driver-at=netns:new", "--explain", "--format=json"];
    let summary = lasthop.run(run.split(' ').chain(elsewhere)).ok().json();
    let [tcp, unix] = ["tcp", "unix"].map(|name| case(&summary, name));
    assert!(in_layer(tcp, "bridge") > 0.05, "{tcp:#}");
    assert!(in_layer(unix, "bridge") < in_layer(tcp, "bridge") / 10.0, "{unix:#}");
    for case in [tcp, unix] {
        assert!(sum(&case["roles"]["driver"]["layers"]) > 0.5, "{case:#}");
    }
}

#[test]
fn what_is_observed_is_in_no_figure() {
    needs!(may_observe());
    let lasthop = Lasthop::new();
    let summary = explained(&lasthop, &["--rounds=2"]);
    let run = lasthop.runs().pop().unwrap();
    let trials = lines(&run, "trials.jsonl");
    let trials = trials.iter().filter(|line| line.get("trial").is_some()).count();
    assert_eq!(trials, 2 * 4 * 2, "rounds, blocks, cases");
    let shown: u64 = list(&summary["cases"])
        .iter()
        .map(|case| case["trials"].as_u64().unwrap())
        .sum();
    assert_eq!(shown, 2 * 4 * 2);
    let profiles = lines(&run, "profiles.jsonl");
    let profiles = profiles.iter().filter(|line| line.get("profile").is_some()).count();
    assert_eq!(
        profiles,
        2 * 2 + 2,
        "a trial of each case in each round, and one that counts in the first"
    );
}

#[test]
fn a_killed_run_keeps_its_profiles() {
    needs!(may_observe());
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(RUN.split(' ').chain(["--explain", "--rounds=3"]));
    // The second round has begun, so the first has its profile trials.
    lasthop.wait_for_lines(11);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    lasthop.wait_until_gone();
    let file = lasthop.runs().pop().unwrap().join("profiles.jsonl");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}{{\"profile\":{{\"round\":1,\"ca")).unwrap();
    let summary = lasthop.run(["resume", "last", "-q", "--format=json"]).ok().json();
    assert!(
        fs::read_to_string(&file).unwrap().starts_with(&before),
        "nothing is rewritten"
    );
    let rounds: Vec<u64> = lines(file.parent().unwrap(), "profiles.jsonl")
        .iter()
        .filter_map(|line| line["profile"]["round"].as_u64())
        .collect();
    assert!(
        rounds.is_sorted() && rounds.iter().filter(|round| **round == 0).count() == 4,
        "{rounds:?}"
    );
    assert!(!list(&summary["explained"]["differences"]).is_empty(), "{summary:#}");
}

#[test]
fn a_run_without_layers_is_made_again() {
    needs!(may_observe());
    let lasthop = Lasthop::new();
    lasthop.run(RUN.split(' ').chain(["--rounds=2"])).ok();
    let plain = lasthop.runs();
    let ran = lasthop.run(["run", "last", "--again", "--explain", "-q"]).ok();
    assert!(ran.stderr.contains("is made again"), "{}", ran.stderr);
    shows(&one_line(&ran.stdout), ["In the profile trials"]);
    assert_eq!(lasthop.runs().len(), 2);
    let copied = lasthop.home().join("copy");
    copy(&plain[0], &copied);
    lasthop
        .run([Path::new("run"), &copied, Path::new("--again")])
        .fails(2, "may be somebody else's");
    assert_eq!(lasthop.runs().len(), 2, "nothing of it was executed");
}

/// As an account without rights, which this machine does not let observe others.
fn without_rights(lasthop: &Lasthop, arguments: &[&str]) -> Ran {
    // That of the build may be where it cannot go.
    let program = lasthop.home().join("lasthop");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    }
    let asked = lasthop.command(arguments);
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    command.envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::from(command.uid(DAEMON).gid(DAEMON).output().unwrap())
}

#[test]
fn who_may_not_observe_is_told_what_is_missing() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !rustix::process::geteuid().is_root() || paranoid.trim() == "-1" {
        skip("only root can try what another user cannot do, and only where something is forbidden");
        return;
    }
    let lasthop = Lasthop::new();
    for folder in [lasthop.home(), lasthop.sandboxes()] {
        chown(folder, Some(DAEMON), Some(DAEMON)).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = [&words(RUN)[..], &["--rounds=2", "--explain"]].concat();
    let ran = without_rights(&lasthop, &run).ok();
    assert!(ran.stdout.contains("(not-observed)"), "{}", ran.stdout);
    let report = without_rights(&lasthop, &["report", "last", "--verbose"]).ok();
    for text in [&ran.stderr, &one_line(&report.stdout)] {
        shows(text, ["CAP_PERFMON", "kernel.perf_event_paranoid"]);
    }
    let summary = without_rights(&lasthop, &["report", "last", "--format=json"])
        .ok()
        .json();
    assert_eq!(summary["explained"]["cases"], serde_json::json!({}));
    assert_eq!(summary["failures"], serde_json::json!([]));
    let doctor = without_rights(&lasthop, &["doctor", "sockets"]).stdout;
    shows(&one_line(&doctor), ["`run --explain` would see no layers"]);
}
