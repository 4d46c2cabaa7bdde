//! What TCP on loopback meets: each case has it, and nothing of it is left on the machine.

use std::process::Command;

use serde_json::Value;

use crate::{
    common::{BRIEF, Lasthop, edit, have, have_setup, list, needs, words},
    driver_at::have_namespaces,
};

/// The rules of the machine, without their counters.
fn rules() -> Vec<u8> {
    Command::new("nft")
        .args(["--stateless", "list", "ruleset"])
        .output()
        .unwrap()
        .stdout
}

/// What a namespace may have as congestion control, as the experiment calls it.
fn allowed() -> [&'static str; 2] {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
    let has_cubic = names.split_whitespace().any(|name| name == "cubic");
    [
        "--set",
        if has_cubic {
            "congestion=cubic"
        } else {
            "congestion=reno"
        },
    ]
}

fn levels(case: &Value) -> (&str, &str) {
    let level = |factor: &str| case["levels"][factor].as_str().unwrap();
    (level("path"), level("pattern"))
}

#[test]
fn every_condition_is_asked_in_a_namespace_of_the_run() {
    needs!(have("nft"), have_setup("loopback"), have_namespaces());
    let (lasthop, before) = (Lasthop::new(), rules());
    let congestion = allowed();
    let summary = lasthop.brief("loopback", &congestion);
    let cases = list(&summary["cases"]);
    assert_eq!(cases.len(), 40);
    for case in cases {
        let (path, pattern) = levels(case);
        let failures = summary["failures"].to_string();
        if path == "bbr" && failures.contains("cannot set net.ipv4.tcp_congestion_control") {
            // Not every kernel has it.
            continue;
        }
        let throughput = &case["metrics"]["throughput"]["estimate"];
        assert!(throughput.as_f64() > Some(0.0), "{path} {pattern}: {failures}");
        let family = if path == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["family"], family, "{path} {pattern}");
    }
    let environment = &summary["environment"];
    let used = environment["sysctl"]["net.ipv4.tcp_congestion_control"]
        .as_str()
        .unwrap();
    assert_eq!(format!("congestion={used}"), congestion[1]);
    assert_eq!(environment["packet_filter"]["chains"], 0, "that of the reference");
    assert_eq!(String::from_utf8(rules()), String::from_utf8(before));
}

/// The kernel, not the file, says what a connection met: a rule that refuses it fails this case, and no other.
#[test]
fn a_case_meets_its_own_rules_and_no_other() {
    needs!(have("nft"), have_namespaces());
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine", "--from", "loopback"]).ok();
    let file = lasthop.home().join("mine/experiment.toml");
    let refusing = "tcp dport 1-65535 reject with tcp reset";
    edit(&file, "ct state established,related accept", refusing);
    let paths = words("--only path=kernel-defaults,ct-state,mtu-1500,unix --only pattern=echo");
    let paths = [&paths[..], &allowed()].concat();
    let summary = lasthop.run([&["run", "./mine"], &BRIEF[..], &paths].concat()).json();
    let works = |case: &&Value| !case["metrics"].is_null();
    let cases = list(&summary["cases"]);
    let working: Vec<&str> = cases.iter().filter(works).map(|case| levels(case).0).collect();
    assert_eq!(
        working,
        ["kernel-defaults", "mtu-1500", "unix"],
        "{}",
        summary["failures"]
    );
    edit(&file, refusing, "ct stat");
    let summary = lasthop.run([&["run", "./mine"], &BRIEF[..], &paths].concat()).json();
    let failure = summary["failures"][0]["cause"].as_str().unwrap().to_owned();
    assert!(
        failure.starts_with("cannot load the rules of the packet filter: "),
        "{failure}"
    );
}
