//! The real Redis over a Unix socket, TCP and TLS.

use crate::common;

use common::{BRIEF, Lasthop, every_transport_answers, have};

#[test]
fn every_transport_answers_with_and_without_a_pipeline() {
    if !have("redis-server") {
        return;
    }
    every_transport_answers("redis");
}

/// A server that gives other bytes than were asked for is a failure, not a fast server.
#[test]
fn a_wrong_value_is_a_failure() {
    if !have("redis-server") {
        return;
    }
    let lasthop = Lasthop::new();
    let copy = lasthop.home().join("wrong");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/redis");
    std::fs::create_dir(&copy).unwrap();
    let text = std::fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let wrong = text.replace("{'bulk': 'x' * bytes}", "{'bulk': 'y' * bytes}");
    assert_ne!(text, wrong);
    std::fs::write(copy.join("experiment.toml"), wrong).unwrap();
    let mut arguments = vec!["run", "./wrong", "--only", "command=GET", "--only", "pipeline=1"];
    arguments.extend(BRIEF);
    let run = lasthop.run(arguments);
    assert!(
        run.code != Some(0) || !run.json()["failures"].as_array().unwrap().is_empty(),
        "{}",
        run.stdout
    );
    lasthop.assert_nothing_left();
}
