//! Whether a difference matters is predicted from an application that does next to nothing. Here it gets real handlers.

mod common;

use common::{Lasthop, have, have_python};
use serde_json::Value;

/// Of the handlers that are measured.
const HANDLER_US: f64 = 10_000.0;
/// What the machine may add to an interval, on either side, however busy it is.
const TOLERANCE: f64 = 0.04;

struct Run(Value);

impl Run {
    fn levels(&self, case: &Value) -> [&str; 4] {
        let cases = self.0["cases"].as_array().unwrap();
        let levels = &cases.iter().find(|other| other["case"] == *case).unwrap()["levels"];
        ["transport", "worker", "connections", "handler"].map(|factor| levels[factor].as_str().unwrap())
    }

    fn comparison(&self, worker: &str, connections: &str, handler: &str, metric: &str) -> &Value {
        let mut all = self.0["comparisons"].as_array().unwrap().iter();
        let wanted = ["unix", worker, connections, handler];
        all.find(|one| one["metric"] == metric && self.levels(&one["case"]) == wanted).unwrap()
    }

    /// The logarithm of the throughputs' ratio with a handler, if each request saves what it saved without.
    fn predicted(&self, without: &Value) -> [f64; 2] {
        let mut cases = self.0["cases"].as_array().unwrap().iter();
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
    [low.ln() * 2.0 - ratio.ln() - TOLERANCE, high.ln() * 2.0 - ratio.ln() + TOLERANCE]
}

/// One, two and ten connections to one worker: whoever takes the time saved in a queue for what a handler leaves of it
/// predicts several times too much.
#[test]
fn a_handler_leaves_of_the_difference_what_was_predicted() {
    if !(have("nginx") && have_python("nginx-gunicorn")) {
        return;
    }
    let lasthop = Lasthop::new();
    let mut arguments = vec!["run", "nginx-gunicorn", "--only", "worker=sync,gthread", "--set", "connections=1,2,10"];
    arguments.extend(["--set", "handler=none,sleep-10ms,busy-10ms", "--precision", "0.1%", "--format", "json"]);
    arguments.extend(["--budget", "60s", "--trial", "80ms", "--blocks", "2"]);
    let run = Run(lasthop.run(arguments).ok().json());
    for worker in ["sync", "gthread"] {
        let alone = run.comparison(worker, "1", "none", "throughput");
        assert_eq!(alone["materiality"]["break_even"]["unit"], "ms", "{alone}");
        for connections in ["1", "2", "10"] {
            let cpu = run.comparison(worker, connections, "none", "cpu_per_request");
            let loaded = run.comparison(worker, connections, "none", "throughput");
            let queues = loaded["materiality"]["break_even"].is_null();
            assert_eq!(queues, connections != "1", "{loaded}");
            for (handler, without) in [("sleep-10ms", alone), ("busy-10ms", cpu)] {
                let found = run.comparison(worker, connections, handler, "throughput");
                let (predicted, measured) = (run.predicted(without), measured(found));
                assert!(
                    predicted[0] <= measured[1] && measured[0] <= predicted[1],
                    "{worker}, {connections} connections, {handler}: predicted {predicted:?}, measured {measured:?}"
                );
            }
        }
    }
    lasthop.assert_nothing_left();
}
