//! However lasthop ends, nothing of the run is left and the record can be read.

mod common;

use std::{thread, time::Duration};

use common::{Lasthop, have, have_python, signal};

/// Moments of the kills, spread over start, verification and several rounds by a fixed sequence.
fn moments() -> impl Iterator<Item = Duration> {
    (0..20_u64).map(|n| Duration::from_millis(60 + n * 2_654_435_761 % 4_000))
}

#[test]
fn sigkill_at_twenty_moments_leaves_nothing() {
    if !have("nginx") || !have_python("nginx-gunicorn") {
        return;
    }
    let lasthop = Lasthop::new();
    let mut readable = 0;
    for (number, moment) in moments().enumerate() {
        let before = lasthop.runs().len();
        let mut child = lasthop.start(["run", "nginx-gunicorn", "--budget", "60s", "--trial", "20ms", "--blocks", "2"]);
        if number % 2 == 0 {
            // A busy machine is still starting the servers at most of the moments.
            lasthop.wait_for_run(before + 1);
        }
        thread::sleep(moment);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        lasthop.wait_until_gone();
        if lasthop.runs().len() > before {
            let report = lasthop.run(["report", "last"]).ok().stdout;
            assert!(report.contains("cut off"), "after {moment:?}:\n{report}");
            readable += 1;
        }
    }
    assert!(readable >= 10, "only {readable} of 20 runs had begun their record");
}

#[test]
fn ctrl_c_ends_in_order_and_keeps_what_was_measured() {
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(["run", "sockets", "--budget", "60s", "--trial", "10ms", "--blocks", "2"]);
    lasthop.wait_for_lines(12);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    lasthop.wait_until_gone();
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(summary["stopped"], "interrupted");
    assert_eq!(summary["complete"], true);
    assert!(summary["cases"][0]["requests"].as_u64().unwrap() > 0);
}
