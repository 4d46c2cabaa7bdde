//! Whether a difference matters is predicted from an application that does next to nothing. Here it gets real handlers.

use crate::common;

use std::sync::{Mutex, PoisonError};

use common::{Lasthop, have, have_python, have_setup, list};
use serde_json::Value;

/// Of the handlers that are measured.
const HANDLER_US: f64 = 10_000.0;
/// What the machine may add to an interval, on either side, however busy it is.
const TOLERANCE: f64 = 0.04;

/// Two runs at the same time would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

struct Run(Value);

/// A factor, and one of its levels.
type Level = (&'static str, &'static str);

impl Run {
    fn levels(&self, case: &Value) -> &Value {
        let cases = list(&self.0["cases"]);
        &cases.iter().find(|other| other["case"] == *case).unwrap()["levels"]
    }

    /// Of the case with these levels, and those of `server`.
    fn comparison(&self, server: Option<Level>, connections: &str, handler: &str, metric: &str) -> &Value {
        let mut wanted = vec![
            ("transport", "unix"),
            ("connections", connections),
            ("handler", handler),
        ];
        wanted.extend(server);
        let is_wanted = |case: &Value| {
            wanted
                .iter()
                .all(|(factor, level)| self.levels(case)[*factor] == *level)
        };
        let mut all = list(&self.0["comparisons"]).iter();
        all.find(|one| one["metric"] == metric && is_wanted(&one["case"]))
            .unwrap()
    }

    /// The logarithm of the throughputs' ratio with a handler, if each request saves what it saved without.
    fn predicted(&self, without: &Value) -> [f64; 2] {
        let mut cases = list(&self.0["cases"]).iter();
        let metrics = &cases.find(|case| case["case"] == without["reference"]).unwrap()["metrics"];
        let spent_us = match without["metric"].as_str().unwrap() {
            "throughput" => 1e6 / metrics["throughput"]["estimate"].as_f64().unwrap(),
            _ => {
                let roles = metrics["cpu_per_request"]["roles"].as_object().unwrap();
                roles.values().map(|us| us.as_f64().unwrap()).sum()
            }
        };
        ["saved_us_low", "saved_us_high"].map(|end| {
            let saved_us = without["materiality"][end].as_f64().unwrap();
            (saved_us / (HANDLER_US + spent_us - saved_us)).ln_1p()
        })
    }
}

/// Its logarithm, with twice the width of the interval and more, because a dozen must hold at once.
fn measured(comparison: &Value) -> [f64; 2] {
    let [ratio, low, high] = ["ratio", "low", "high"].map(|end| comparison[end].as_f64().unwrap());
    [
        low.ln() * 2.0 - ratio.ln() - TOLERANCE,
        high.ln() * 2.0 - ratio.ln() + TOLERANCE,
    ]
}

/// One, two and ten connections to one or two workers: whoever takes the time saved in a queue for what a handler leaves
/// of it predicts several times too much.
fn a_handler_leaves_what_was_predicted(experiment: &[&str], servers: &[Option<Level>]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lasthop = Lasthop::new();
    let mut arguments = [&["run"], experiment, &["--set", "connections=1,2,10"]].concat();
    arguments.extend("--set handler=none,sleep-10ms,busy-10ms --precision 0.1% --format json".split(' '));
    arguments.extend(["--trial", "80ms", "--blocks", "2"]);
    let run = Run(lasthop.run(arguments).ok().json());
    for server in servers {
        let alone = run.comparison(*server, "1", "none", "throughput");
        assert_eq!(alone["materiality"]["break_even"]["unit"], "ms", "{alone}");
        for connections in ["1", "2", "10"] {
            let cpu = run.comparison(*server, connections, "none", "cpu_per_request");
            let loaded = run.comparison(*server, connections, "none", "throughput");
            let queues = loaded["materiality"]["break_even"].is_null();
            assert_eq!(queues, connections != "1", "{loaded}");
            for (handler, without) in [("sleep-10ms", alone), ("busy-10ms", cpu)] {
                let found = run.comparison(*server, connections, handler, "throughput");
                let (predicted, measured) = (run.predicted(without), measured(found));
                assert!(
                    predicted[0] <= measured[1] && measured[0] <= predicted[1],
                    "{server:?}, {connections} connections, {handler}: predicted {predicted:?}, measured {measured:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "a validation that takes a minute; script/test --all"]
fn a_handler_of_a_python_worker_leaves_of_the_difference_what_was_predicted() {
    if have("nginx") && have_python("nginx-gunicorn") {
        let servers = [Some(("worker", "sync")), Some(("worker", "gthread"))];
        let experiment = ["nginx-gunicorn", "--only", "worker=sync,gthread", "--budget", "60s"];
        a_handler_leaves_what_was_predicted(&experiment, &servers);
    }
}

#[test]
#[ignore = "a validation that takes a minute; script/test --all"]
fn a_handler_of_two_php_processes_leaves_of_the_difference_what_was_predicted() {
    if have_setup("php-fpm") {
        a_handler_leaves_what_was_predicted(&["php-fpm", "--only", "reuse=per-request", "--budget", "30s"], &[None]);
    }
}
