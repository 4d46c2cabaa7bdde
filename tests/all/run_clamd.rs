//! The real clamd over a Unix socket and TCP, through the raw protocol of an experiment.

use crate::common;

use common::{BRIEF, Lasthop, have, is_right};

#[test]
fn both_transports_answer_and_a_virus_is_a_failure() {
    if !have("clamd") {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("clamd", &["--set", "connections=2"]);
    is_right(&summary, 6);
    let copy = lasthop.home().join("virus");
    std::fs::create_dir(&copy).unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/clamd");
    let text = std::fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let changed = text.replace(r#""x" * 1024"#, r#""lasthop test fil" * 64"#);
    assert_ne!(changed, text);
    std::fs::write(copy.join("experiment.toml"), changed).unwrap();
    let mut arguments = vec!["run", "./virus", "--only", "command=scan", "--set", "kib=1"];
    arguments.extend(BRIEF);
    let run = lasthop.run(arguments);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("FOUND"), "{said}");
    lasthop.assert_nothing_left();
}
