//! A run stays on the CPUs that it may use.

use crate::common;

use std::process::Command;

use common::{BRIEF, Lasthop, Ran, engines::take_environment, installed, list, needs};
use serde_json::Value;

#[test]
fn a_run_stays_on_the_cpus_that_it_may_use() {
    needs!(installed("taskset"));
    let lasthop = Lasthop::new();
    let placed = |mask: &str| {
        let mut arguments = vec!["run", "sockets", "--only", "pattern=echo"];
        arguments.extend(BRIEF);
        let run = lasthop.command(arguments);
        let mut bound = Command::new("taskset");
        bound
            .args(["--cpu-list", mask])
            .arg(run.get_program())
            .args(run.get_args());
        take_environment(&mut bound, &run);
        let summary = Ran::from(bound.output().unwrap()).ok().json();
        assert_eq!(summary["failures"], Value::Array(vec![]));
        summary["settings"]["placement"].clone()
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(placed("0"), "free", "there is one");
    if cpus >= 2 {
        let two = serde_json::json!({"apart": {"driver": [1], "services": [0]}});
        assert_eq!(placed("0-1"), two);
    }
    if cpus >= 4 {
        let many = placed("0-3");
        let groups = list(&many["compact"]["groups"]);
        assert!(
            groups.iter().all(|group| group.as_array().unwrap().len() == 2),
            "{many}"
        );
    }
}
