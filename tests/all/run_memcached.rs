//! The real memcached over a Unix socket, TCP and its own TLS.

use crate::common;

use common::{BRIEF, Lasthop, every_transport_answers, have};

#[test]
fn every_transport_answers_with_and_without_a_pipeline() {
    if !have("memcached") {
        return;
    }
    every_transport_answers("memcached");
}

/// A value that the server refuses is a failure with the server's own words.
#[test]
fn a_value_that_is_too_large_is_a_failure() {
    if !have("memcached") {
        return;
    }
    let lasthop = Lasthop::new();
    let copy = lasthop.home().join("small");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/memcached");
    std::fs::create_dir(&copy).unwrap();
    let text = std::fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let small = text.replace(
        "recipe = \"memcached\"",
        "recipe = \"memcached\"\nsettings = { largest = \"1m\" }",
    );
    let small = small.replace("'x' * bytes", "'x' * (2000000 + bytes)");
    assert!(small.contains("2000000") && small.contains("1m"));
    std::fs::write(copy.join("experiment.toml"), small).unwrap();
    let mut arguments = vec!["run", "./small", "--only", "command=get", "--only", "pipeline=1"];
    arguments.extend(BRIEF);
    let run = lasthop.run(arguments);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("SERVER_ERROR object too large for cache"), "{said}");
    lasthop.assert_nothing_left();
}
