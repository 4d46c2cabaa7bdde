//! The driver at another place: in a network namespace, or on another host.

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use common::{Lasthop, Ran, eventually, have, have_python, list, needs, output, script, shows, skip, words};
use serde_json::Value;
use tempfile::TempDir;

/// A short run of lasthop's own server.
const SHORT: &str = "run sockets --only pattern=echo --rounds 1 --blocks 2 --trial=20ms";

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT
        .split(' ')
        .chain(["--quiet", "--format=json"])
        .chain(more.iter().copied())
        .collect()
}

pub fn have_namespaces() -> bool {
    have("ip") && (rustix::process::geteuid().is_root() || skip("network namespaces need root"))
}

fn ip(words: &[&str]) -> Output {
    Command::new("ip").args(words).output().unwrap()
}

#[track_caller]
fn ip_ok(words: &[&str]) {
    output(Command::new("ip").args(words));
}

/// Links that lasthop made for runs of this home. Sandboxes of other tests have other names.
fn links(names: &[String]) -> Vec<String> {
    let text = String::from_utf8(ip(&["-o", "link", "show"]).stdout).unwrap();
    names
        .iter()
        .filter(|name| text.contains(name.as_str()))
        .cloned()
        .collect()
}

/// Name of the link of each present sandbox.
fn link_names(lasthop: &Lasthop) -> Vec<String> {
    let names = fs::read_dir(lasthop.sandboxes())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| Some(format!("lh-{}", name.to_str()?.strip_prefix("lasthop-")?)))
        .collect()
}

/// The driver's target addresses, by case.
fn addresses(lasthop: &Lasthop) -> Vec<(String, String)> {
    let text = lasthop.trials();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let round = lines
        .into_iter()
        .find_map(|line| line.get("round").cloned())
        .expect("a round came up");
    let address = |(case, proof): (&String, &Value)| (case.clone(), proof["spec"]["endpoint"]["address"].to_string());
    round["cases"].as_object().unwrap().iter().map(address).collect()
}

#[track_caller]
fn all_measured(summary: &Value, cases: usize) {
    assert_eq!(list(&summary["failures"]).len(), 0, "{}", summary["failures"]);
    let measured = list(&summary["cases"])
        .iter()
        .filter(|case| !case["metrics"].is_null())
        .count();
    assert_eq!(measured, cases, "{}", summary["cases"]);
}

fn kill(child: &Child) {
    // SAFETY: the child is ours and not yet waited for, so its pid cannot have been reused.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGKILL) }, 0);
}

#[test]
fn a_namespace_of_its_own_has_the_driver_and_goes_with_the_run() {
    needs!(have_namespaces());
    let lasthop = Lasthop::new();
    let child = lasthop
        .command(short(&["--driver-at", "netns:new"]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut names = Vec::new();
    eventually("the link", || {
        names = link_names(&lasthop);
        !links(&names).is_empty()
    });
    let summary = Ran::from(child.wait_with_output().unwrap()).ok().json();
    all_measured(&summary, 3);
    let driver = &summary["environment"]["driver"];
    shows(driver["place"].as_str().unwrap(), ["that lasthop created"]);
    for (case, address) in addresses(&lasthop) {
        assert!(
            case.starts_with("unix") || address.contains("\"198.1"),
            "{case}: {address}"
        );
        assert_eq!(case.starts_with("unix"), address.contains("unix"), "{case}: {address}");
    }
    // Segments of both ends are counted; the driver's are in its own namespace.
    let tcp = lasthop.trials();
    let tcp = tcp
        .lines()
        .find(|line| line.starts_with("{\"trial\"") && line.contains("\"case\":\"tcp"));
    let tcp: Value = serde_json::from_str(tcp.expect("a trial over TCP")).unwrap();
    let sent = tcp["trial"]["observations"]["network"]["tcp_segments_sent"]
        .as_u64()
        .unwrap();
    let requests = tcp["trial"]["result"]["requests"].as_u64().unwrap();
    assert!(sent >= requests * 2, "{sent} segments of {requests} requests");
    let report = lasthop.run(["report", "last", "--format", "markdown"]).ok().stdout;
    assert!(report.contains("network namespace that lasthop created"), "{report}");
    assert_eq!(links(&names), Vec::<String>::new());
}

#[test]
fn an_abstract_socket_is_not_reached_from_another_namespace_and_says_so() {
    needs!(have_namespaces());
    let lasthop = Lasthop::new();
    let ran = lasthop.run(short(&["--set", "transport=abstract,tcp", "--driver-at", "netns:new"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let failures = ran.json()["failures"].to_string();
    shows(&failures, ["abstract socket names belong to a network namespace"]);
}

#[test]
fn killed_with_its_guard_a_run_leaves_no_namespace() {
    needs!(have_namespaces());
    let lasthop = Lasthop::new();
    for with_guard in [false, true] {
        let before = lasthop.runs().len();
        let run = "run sockets --only=pattern=echo --trial=20ms --driver-at=netns:new --budget=60s";
        let mut child = lasthop.start(run.split(' '));
        eventually("a trial", || {
            lasthop.runs().len() > before && lasthop.trials().contains("{\"trial\"")
        });
        let names = link_names(&lasthop);
        assert_eq!(links(&names).len(), 1, "{names:?}");
        let guards: Vec<String> = lasthop
            .processes()
            .into_iter()
            .filter(|line| line.contains(" guard"))
            .collect();
        kill(&child);
        if with_guard {
            let pid: i32 = guards[0].split(' ').next().unwrap().parse().unwrap();
            // SAFETY: kill has no memory effects; the guard of this test's own run lives as long as its parent's
            // record.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        child.wait().unwrap();
        if with_guard {
            lasthop.run(["clean"]).ok();
        }
        eventually("the end of everything", || {
            lasthop.processes().is_empty() && links(&names).is_empty()
        });
        eventually("the end of the sandbox", || {
            fs::read_dir(lasthop.sandboxes()).unwrap().next().is_none()
        });
    }
}

#[test]
fn a_run_with_a_namespace_of_its_own_goes_on_in_another_one() {
    needs!(have_namespaces());
    let lasthop = Lasthop::new();
    let run = "run sockets --only=pattern=echo --only=transport=unix,tcp --trial=20ms --blocks=5 -q";
    let more = ["--driver-at=netns:new", "--rounds=2", "--budget=60s"];
    let mut child = lasthop.start(run.split(' ').chain(more));
    lasthop.wait_for_lines(3);
    common::signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    lasthop.wait_until_gone();
    let summary = lasthop.run(["resume", "last", "--quiet", "--format=json"]).ok().json();
    all_measured(&summary, 2);
    assert_eq!(
        (&summary["stopped"], list(&summary["resumed"]).len()),
        (&"rounds".into(), 1)
    );
    shows(
        summary["environment"]["driver"]["place"].as_str().unwrap(),
        ["that lasthop created"],
    );
}

/// A named namespace of the test, removed on drop.
struct Named(String);

impl Named {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lht{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip_ok(&["netns", "add", &name]);
        Self(name)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

#[test]
fn a_namespace_that_is_there_is_used_and_stays() {
    needs!(have_namespaces());
    let named = Named::new();
    let (name, link) = (named.0.as_str(), format!("lt{}", std::process::id()));
    ip_ok(&[
        "link", "add", &link, "type", "veth", "peer", "name", "inside", "netns", name,
    ]);
    ip_ok(&["address", "add", "198.19.255.253/30", "dev", &link]);
    ip_ok(&["link", "set", &link, "up"]);
    ip_ok(&["-n", name, "address", "add", "198.19.255.254/30", "dev", "inside"]);
    ip_ok(&["-n", name, "link", "set", "inside", "up"]);
    let lasthop = Lasthop::new();
    let place = format!("netns:{name}");
    let summary = lasthop.run(short(&["--driver-at", &place])).ok().json();
    all_measured(&summary, 3);
    let driver = &summary["environment"]["driver"];
    assert_eq!(driver["place"], format!("in the network namespace {name}"));
    assert_eq!(driver["reaches"], "198.19.255.253");
    assert!(
        ip(&["-n", name, "link", "show", "inside"]).status.success(),
        "it was there before"
    );
}

#[test]
fn a_namespace_that_is_missing_or_reaches_nothing_is_named() {
    needs!(have_namespaces());
    let lasthop = Lasthop::new();
    let named = Named::new();
    let ran = lasthop.run(short(&["--driver-at", "netns:lasthop-none"]));
    let text = ran.fails(1, "there is no network namespace `lasthop-none`").stderr;
    assert!(text.contains(&named.0) && text.contains("netns:new"), "{text}");
    let ran = lasthop.run(short(&["--driver-at", &format!("netns:{}", named.0)]));
    ran.fails(1, "cannot reach any address of this machine");
    let ran = lasthop.run(short(&["--driver-at", "netns:/proc/self/ns/net"]));
    ran.fails(1, "is lasthop's own network namespace");
    assert!(lasthop.runs().is_empty(), "nothing was run");
}

#[test]
fn behind_a_proxy_the_link_stays_where_it_was() {
    needs!(have_namespaces(), have("nginx"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let words = "run nginx-gunicorn --rounds=1 --blocks=1 --trial=30ms --format=json --driver-at=netns:new".split(' ');
    let summary = lasthop.run(words).ok().json();
    assert_eq!(list(&summary["failures"]).len(), 0);
    for case in list(&summary["cases"]) {
        let family = case["proof"]["link"]["family"].as_str().unwrap();
        assert_eq!(family == "unix", case["transport"] == "unix", "{case}");
    }
    assert!(
        addresses(&lasthop)
            .iter()
            .all(|(_, address)| address.contains("\"198.1")),
        "nginx listens for the driver"
    );
}

/// An sshd on loopback with the test's own keys and configuration.
struct Sshd {
    root: TempDir,
    process: Child,
    port: u16,
}

fn have_ssh() -> bool {
    have("ssh") && have("sshd") && have("ssh-keygen")
}

fn sshd_program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("sshd"))
        .find(|path| path.is_file())
        .unwrap()
}

fn keygen(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    output(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path));
}

impl Sshd {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("lhs").tempdir_in("/tmp").unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        for key in ["host", "user"] {
            keygen(Path::new(&at(key)));
        }
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        fs::create_dir(at("tmp")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nSetEnv TMPDIR={}\n",
            at("host"),
            at("authorized"),
            at("tmp")
        );
        fs::write(at("sshd_config"), config).unwrap();
        let host_key = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let log = fs::File::create(at("log")).unwrap();
        // Privilege separation needs a folder that Debian creates at boot.
        let _ = fs::create_dir("/run/sshd");
        let process = Command::new(sshd_program())
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut sshd = Self { root, process, port };
        eventually("sshd", || {
            assert!(sshd.process.try_wait().unwrap().is_none(), "{}", sshd.text("log"));
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        sshd
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn place(&self) -> String {
        format!("--driver-at=ssh:127.0.0.1:{}", self.port)
    }

    /// Options with this key and these known hosts, and nothing from the user's own configuration.
    fn options(&self, key: &str, known: &str) -> Vec<String> {
        let option = |name: &str, value: String| format!("--ssh-option={name}={value}");
        vec![
            self.place(),
            "--ssh-config=/dev/null".to_owned(),
            option("IdentityFile", self.path(key)),
            option("IdentitiesOnly", "yes".to_owned()),
            option("UserKnownHostsFile", self.path(known)),
            option("GlobalKnownHostsFile", "/dev/null".to_owned()),
        ]
    }

    fn good(&self) -> Vec<String> {
        self.options("user", "known")
    }

    /// Leftovers of a driver on the other host.
    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("tmp"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// Pids of processes whose program is in the other host's folder for temporary files.
    fn drivers(&self) -> Vec<i32> {
        let folder = self.path("tmp");
        let processes = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_there = |pid: &i32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.to_string_lossy().starts_with(&folder))
        };
        processes.filter(is_there).collect()
    }

    /// Pids of sshd's session processes.
    fn sessions(&self) -> Vec<i32> {
        let own = self.process.id() as i32;
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        children
            .split_ascii_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        eventually("the end of the driver's folder", || self.left().is_empty());
        eventually("the end of the drivers", || self.drivers().is_empty());
    }

    fn words(&self, options: Vec<String>, more: &[&str]) -> Vec<String> {
        short(more).into_iter().map(str::to_owned).chain(options).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Sessions end after their clients; the listener is killed by its pid.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the pid is of a process that this test started, directly or by sshd.
    unsafe { libc::kill(pid, signal) };
}

#[test]
fn over_ssh_the_driver_measures_every_transport_and_leaves_nothing() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    let summary = lasthop.run(sshd.words(sshd.good(), &[])).ok().json();
    all_measured(&summary, 3);
    let place = summary["environment"]["driver"]["place"].as_str().unwrap();
    shows(place, ["which is this machine", "over ssh"]);
    assert_eq!(summary["environment"]["driver"]["reaches"], "loopback");
    sshd.assert_nothing_left();
}

#[test]
fn what_ssh_refuses_is_said_with_its_remedy() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    keygen(Path::new(&sshd.path("stranger")));
    fs::write(sshd.path("nobody"), "").unwrap();
    let run = |options| lasthop.run(sshd.words(options, &[]));
    run(sshd.options("stranger", "known")).fails(1, "refuses the login");
    run(sshd.options("user", "nobody")).fails(1, "the host key of 127.0.0.1 is unknown or has changed");
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = run(vec![format!("--driver-at=ssh:127.0.0.1:{closed}")])
        .fails(1, "ssh to 127.0.0.1 failed")
        .stderr;
    assert!(text.contains("refused"), "{text}");
    let mut without = lasthop.command(sshd.words(sshd.good(), &[]));
    let ran = Ran::from(without.env("PATH", "/nonexistent").output().unwrap());
    ran.fails(1, "`ssh` is missing; install openssh-client");
    assert!(lasthop.runs().is_empty(), "nothing was run");
    sshd.assert_nothing_left();
}

#[test]
fn another_version_or_protocol_is_refused() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    let script = |name: &str, text: &str| {
        let path = sshd.path(name);
        script(Path::new(&path), text);
        let mut options = sshd.good();
        options.push(format!("--driver-program={path}"));
        sshd.words(options, &["--only=transport=tcp"])
    };
    let old = lasthop.run(script("old", "echo lasthop 0.0.1"));
    old.fails(
        1,
        &format!("has lasthop 0.0.1, but this is lasthop {}", env!("CARGO_PKG_VERSION")),
    );
    lasthop
        .run(script("broken", "echo cannot execute >&2; exit 126"))
        .fails(1, "lasthop does not run on 127.0.0.1");
    let other = format!(
        "[ \"$1\" = --version ] && exec echo lasthop {}\necho '{{\"hello\":{{\"protocol\":9,\"driver\":\"x\",\"version\":\"0\"}}}}'; cat >/dev/null",
        env!("CARGO_PKG_VERSION")
    );
    let ran = lasthop.run(script("other", &other));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let failures = ran.json()["failures"].to_string();
    assert!(failures.contains("speaks protocol version 9"), "{failures}");
    let same = script("same", &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_lasthop")));
    all_measured(&lasthop.run(same).ok().json(), 1);
    sshd.assert_nothing_left();
}

/// A run over ssh that continues until disturbed.
fn long_run(lasthop: &Lasthop, sshd: &Sshd) -> Child {
    let words = "run sockets --only=pattern=echo --trial=20ms --budget=60s --quiet";
    let words = words.split(' ').map(str::to_owned).chain(sshd.good());
    let child = lasthop
        .command(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a trial", || lasthop.trials().contains("{\"trial\""));
    child
}

fn failures(lasthop: &Lasthop) -> String {
    lasthop.run(["report", "last", "--format=json"]).ok().json()["failures"].to_string()
}

#[test]
fn a_driver_that_dies_there_is_a_failure_and_the_next_round_has_another() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    let child = long_run(&lasthop, &sshd);
    let drivers = sshd.drivers();
    assert_eq!(drivers.len(), 1, "{drivers:?}");
    send(drivers[0], libc::SIGKILL);
    eventually("another driver", || sshd.drivers().iter().any(|pid| *pid != drivers[0]));
    send(child.id() as i32, libc::SIGINT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let failures = failures(&lasthop);
    assert!(
        failures.contains("the driver ended unexpectedly on 127.0.0.1: it was killed there"),
        "{failures}"
    );
    sshd.assert_nothing_left();
}

#[test]
fn a_connection_that_is_lost_ends_the_run_and_what_is_there() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    let child = long_run(&lasthop, &sshd);
    let sessions = sshd.sessions();
    assert!(sessions.len() >= 2, "{sessions:?}");
    sessions.into_iter().for_each(|pid| send(pid, libc::SIGKILL));
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let failures = failures(&lasthop);
    shows(&failures, ["the ssh connection to 127.0.0.1 was lost"]);
    sshd.assert_nothing_left();
}

#[test]
fn killed_a_run_over_ssh_leaves_nothing_there() {
    needs!(have_ssh());
    let (lasthop, sshd) = (Lasthop::new(), Sshd::new());
    let mut child = long_run(&lasthop, &sshd);
    assert!(!sshd.left().is_empty() && !sshd.drivers().is_empty());
    kill(&child);
    child.wait().unwrap();
    sshd.assert_nothing_left();
    eventually("the end of everything here", || lasthop.processes().is_empty());
    eventually("the end of the sandbox", || {
        fs::read_dir(lasthop.sandboxes()).unwrap().next().is_none()
    });
}

/// The driver's peer depends on the case, and must listen where the driver is.
#[test]
fn a_load_balancer_in_front_is_reached_from_another_namespace() {
    needs!(
        have_namespaces(),
        have("nginx"),
        have("haproxy"),
        have_python("containers")
    );
    let lasthop = Lasthop::new();
    let cases = ["--only", "path=no-container-tcp", "--set", "front=none,haproxy"];
    let short = words("--rounds=1 --blocks=2 --trial=20ms --quiet --format=json --driver-at netns:new");
    let summary = lasthop
        .run([&["run", "containers"], &cases[..], &short[..]].concat())
        .ok()
        .json();
    all_measured(&summary, 2);
    let told = addresses(&lasthop);
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().all(|(_, address)| !address.contains("127.0.0.1")),
        "{told:?}"
    );
    assert_ne!(told[0].1, told[1].1, "{told:?}");
}
