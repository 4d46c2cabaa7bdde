//! podman of a user without rights.

use crate::common;

use std::{
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use common::{
    engines::{Rootless, World, have_engine},
    have,
    hops::goes_over,
    list, moments, needs, shows, signal, words,
};

/// A short run of an experiment that needs a single program.
const REDIS: &str =
    "run redis-published-port --engine podman --set connections=1 --rounds 1 --budget 10s --trial 50ms --blocks 2";

fn ready() -> bool {
    have("redis-server") && have("newuidmap") && have("slirp4netns") && have("setpriv") && have_engine("podman")
}

/// podman's possible paths are measured under their right names, and the others are explained.
#[test]
fn a_user_without_rights_has_containers_too() {
    needs!(ready());
    let world = World::new("podman");
    let user = Rootless::new(&world, true);
    let found = user.run(&["doctor", "redis-published-port"]);
    assert!(found.stdout.contains("(rootless: "), "{found:?}");
    let only = "path=published-port,bridge,host-network,shared-volume,no-container-tcp";
    let ran = user.run(&[&words(REDIS)[..], &["--only", only, "--format", "json"]].concat());
    let summary = ran.json();
    let failures = list(&summary["failures"]);
    assert_eq!(failures.len(), 1, "{failures:?}\n{}", ran.stderr);
    assert_eq!(failures[0]["case"], "bridge");
    let cause = failures[0]["cause"].as_str().unwrap();
    assert!(
        cause.contains("rootless podman gives containers addresses that this machine cannot reach"),
        "{cause}"
    );
    goes_over(&summary, "published-port", &["published port 127.0.0.1:", "(pid "]);
    goes_over(&summary, "host-network", &["loopback of the host's network"]);
    goes_over(&summary, "shared-volume", &["Unix socket on the volume"]);
    let program = summary["environment"]["programs"]["podman"].to_string();
    assert!(program.contains("rootless"), "{program}");
    for (what, list) in [
        ("containers", ["ps", "--all", "--quiet"]),
        ("volumes", ["volume", "ls", "--quiet"]),
    ] {
        assert_eq!(user.ask(&list), "", "{what} are left");
    }
    assert_eq!(user.ask(&["network", "ls", "--format", "{{.Name}}"]).trim(), "podman");
}

/// The usual reasons for which podman refuses a user.
#[test]
fn a_user_whom_podman_refuses_learns_why() {
    needs!(ready());
    let world = World::new("podman");
    let user = Rootless::new(&world, false);
    let ran = user.run(
        &[
            &words(REDIS)[..],
            &["--only", "path=published-port,no-container-tcp", "--format", "json"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let summary = ran.json();
    let failures = list(&summary["failures"]);
    assert_eq!(failures.len(), 1, "what needs no engine is measured: {failures:?}");
    let cause = failures[0]["cause"].as_str().unwrap();
    shows(cause, ["podman", "/etc/subuid", "uidmap"]);
    let found = user.run(&["doctor", "redis-published-port"]);
    assert!(found.stdout.contains("/etc/subuid"), "{found:?}");
}

/// Kills lasthop at moments spread over volume, start and trials of a run.
#[test]
fn sigkill_with_rootless_podman_leaves_nothing() {
    needs!(ready());
    let world = World::new("podman");
    let user = Rootless::new(&world, true);
    let only = ["--only", "path=published-port,host-network,shared-volume"];
    let arguments = [&words(REDIS)[..], &only].concat();
    let first = Instant::now();
    // The first run builds the image, and creates files that podman keeps permanently.
    user.run(&arguments).ok();
    let span = first.elapsed();
    let lists = [
        ["ps", "--all", "--quiet"],
        ["volume", "ls", "--quiet"],
        ["network", "ls", "--quiet"],
    ];
    let before = lists.map(|list| user.ask(&list));
    let kills = moments(4, 20);
    for number in 0..kills {
        let mut child = user
            .lasthop(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(span * (number * 2_654_435_761 % 1_000) as u32 / 1_000);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !user.processes().is_empty() {
            assert!(Instant::now() < deadline, "kill {number}: {:?}", user.processes());
            thread::sleep(Duration::from_millis(20));
        }
        // A lasthop killed before its guard starts leaves an empty sandbox, which `clean` removes.
        user.run(&["clean"]).ok();
        assert_eq!(lists.map(|list| user.ask(&list)), before, "kill {number}");
    }
}
