//! Open loops in experiments: requests at a rate, whether or not replies came.

use crate::common;

use std::{collections::BTreeSet, fs};

use common::{Lasthop, lacks, list, one_line, shows};
use serde_json::Value;

const SOCKETS: &str = "run sockets --only pattern=echo --only transport=unix,tcp";
const SHORT: [&str; 5] = ["--trial=300ms", "--blocks=3", "--rounds=2", "--budget=20s", "-q"];

fn run(lasthop: &Lasthop, arguments: &[&str]) -> Value {
    let all = SOCKETS.split(' ').chain(SHORT).chain(arguments.iter().copied());
    lasthop.run(all.chain(["--format", "json"])).ok().json()
}

/// In one line: the terminal's are broken anywhere.
fn report(lasthop: &Lasthop, format: &str) -> String {
    let text = lasthop.run(["report", "last", "--format", format]).ok().stdout;
    one_line(&text)
}

fn checks<'a>(summary: &'a Value, id: &str) -> Vec<&'a Value> {
    list(&summary["checks"])
        .iter()
        .filter(|check| check["id"] == id)
        .collect()
}

fn metrics_of<'a>(summary: &'a Value, case: &str) -> BTreeSet<&'a str> {
    let all = list(&summary["comparisons"])
        .iter()
        .filter(|found| found["case"] == case);
    all.map(|found| found["metric"].as_str().unwrap()).collect()
}

#[test]
fn cases_are_compared_by_the_response_time_at_a_rate() {
    let lasthop = Lasthop::new();
    let summary = run(&lasthop, &["--rate=2000", "--arrivals=poisson", "--seed=5"]);
    lasthop.assert_nothing_left();
    assert_eq!(
        metrics_of(&summary, "unix"),
        BTreeSet::from(["latency_p50", "latency_p99", "cpu_per_request"])
    );
    let mut not_reached = BTreeSet::new();
    for case in list(&summary["cases"]) {
        assert_eq!(
            (&case["load"]["rate"], &case["load"]["arrivals"]),
            (&2000.0.into(), &"poisson".into())
        );
        let open = &case["metrics"]["open_loop"];
        let [scheduled, sent] = ["scheduled", "sent"].map(|key| open[key].as_f64().unwrap());
        // 600 in a trial on average, and five standard deviations.
        let expected = 600.0 * case["trials"].as_f64().unwrap();
        assert!((scheduled - expected).abs() < 5.0 * expected.sqrt(), "{open}");
        assert!(sent > 0.0 && sent <= scheduled, "{open}");
        // How much of it a busy machine sends is its affair; what is said of it must be right.
        assert_eq!(open["reached"], sent >= 0.99 * scheduled, "{open}");
        if open["reached"] == false {
            not_reached.insert(case["case"].as_str().unwrap());
        }
        let latency = |key: &str| case["metrics"][key]["estimate"].as_f64().unwrap();
        assert!(
            latency("latency_p99") >= open["lag_p99_us"].as_f64().unwrap() * 0.99,
            "{case}"
        );
        assert!(
            case["metrics"]["latency_max"].as_f64().unwrap() >= latency("latency_p50"),
            "{case}"
        );
    }
    assert_eq!(checks(&summary, "rate-not-reached").len(), not_reached.len());
    // It waits awake: only where the rate was not reached may it be the reason.
    for check in checks(&summary, "driver-saturated") {
        assert!(not_reached.contains(check["case"].as_str().unwrap()), "{check}");
    }
    same_schedule(&lasthop);
    reports_speak_of_time(&lasthop);
}

/// Both cases of a round had the same schedule, and every round another.
fn same_schedule(lasthop: &Lasthop) {
    let rounds = lasthop.recorded("round");
    let seed = |round: &Value, case: &str| round["cases"][case]["spec"]["model"]["open"]["seed"].as_u64().unwrap();
    let seeds: BTreeSet<u64> = rounds.iter().map(|round| seed(round, "unix")).collect();
    assert_eq!(seeds.len(), 2, "{rounds:?}");
    assert!(rounds.iter().all(|round| seed(round, "unix") == seed(round, "tcp")));
    let trials = lasthop.recorded("trial");
    for trial in trials.iter().filter(|trial| trial["case"] == "unix") {
        let same =
            |other: &&Value| ["round", "block"].iter().all(|key| other[*key] == trial[*key]) && other["case"] == "tcp";
        let Some(twin) = trials.iter().find(same) else { continue };
        let scheduled = |trial: &Value| trial["result"]["offered"]["scheduled"].as_u64().unwrap();
        assert_eq!(scheduled(trial), scheduled(twin), "the same requests were due");
    }
}

fn reports_speak_of_time(lasthop: &Lasthop) {
    for format in ["terminal", "markdown"] {
        let text = report(lasthop, format);
        shows(&text, ["open loop at 2,000 requests/s, Poisson arrivals"]);
        shows(&text, ["refer to the response time, from when a request was due"]);
        lacks(&text, ["more requests/s", "fewer requests/s"]);
    }
    let csv = lasthop.run(["report", "last", "--format", "csv"]).ok().stdout;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|title| *title == name).unwrap();
    assert_eq!(rows[1][column("rate_per_s")], "2000");
    assert_eq!(
        (rows[1][column("reference")], rows[1][column("throughput_ratio")]),
        ("tcp", "")
    );
}

#[test]
fn a_rate_that_cannot_be_reached_is_invalid_and_said() {
    let lasthop = Lasthop::new();
    // A request each microsecond on one connection.
    let summary = run(&lasthop, &["--rate=1000000"]);
    lasthop.assert_nothing_left();
    let found = checks(&summary, "rate-not-reached");
    assert_eq!(found.len(), 2, "{summary}");
    for check in found {
        assert_eq!(check["severity"], "invalid");
        shows(check["evidence"].as_str().unwrap(), ["due at 1,000,000 requests/s"]);
    }
    assert_eq!(summary["cases"][0]["metrics"]["open_loop"]["reached"], false);
    for format in ["terminal", "markdown"] {
        let text = report(&lasthop, format).replace("**", "");
        assert!(
            text.contains("must not be used: The rate was not reached: latencies are those of an overload"),
            "{text}"
        );
    }
}

/// An experiment of one's own, with more lines.
fn own(lasthop: &Lasthop, factors: &str, load: &str) {
    lasthop.run(["new", "mine"]).ok();
    let path = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("[load]\n", &format!("{factors}\n[load]\n{load}\n"));
    fs::write(path, text).unwrap();
}

#[test]
fn a_rate_is_a_factor_like_any_other_and_survives_a_pause() {
    let lasthop = Lasthop::new();
    let factor = "[factors.rate]\nhelp = \"requests per second\"\nlevels = [500, 2000]\n";
    own(&lasthop, factor, "rate = \"{{ rate }}\"");
    let shown = lasthop.run(["show", "./mine"]).ok().stdout;
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(
        words.join(" ").contains("against tcp/rate=500, at 500 requests/s"),
        "{shown}"
    );
    let short = "run ./mine --trial=300ms --blocks=2 --budget=8s -q --format=json".split(' ');
    let first = lasthop.run(short).ok().json();
    let rates = |summary: &Value| -> Vec<(String, f64)> {
        let cases = list(&summary["cases"]).iter();
        cases
            .map(|case| {
                (
                    case["case"].as_str().unwrap().to_owned(),
                    case["load"]["rate"].as_f64().unwrap(),
                )
            })
            .collect()
    };
    let expected = [
        ("unix/rate=500", 500.0),
        ("unix/rate=2000", 2000.0),
        ("tcp/rate=500", 500.0),
        ("tcp/rate=2000", 2000.0),
    ];
    assert_eq!(rates(&first), expected.map(|(case, rate)| (case.to_owned(), rate)));
    let text = report(&lasthop, "terminal");
    shows(&text, ["500 requests/s", "2,000 requests/s"]);
    lasthop
        .run(["run", "./mine", "--rate=100"])
        .fails(2, "this experiment sets its rate by the factor `rate`");
    let second = lasthop
        .run(["resume", "last", "--budget=6s", "-q", "--format=json"])
        .ok()
        .json();
    assert_eq!(rates(&second), rates(&first));
    assert!(second["rounds"].as_u64().unwrap() > first["rounds"].as_u64().unwrap());
}

#[test]
fn a_rate_of_the_command_line_survives_a_pause() {
    let lasthop = Lasthop::new();
    let short = "--trial=300ms --blocks=2 --budget=8s -q --rate=1500 --format=json";
    lasthop.run(SOCKETS.split(' ').chain(short.split(' '))).ok();
    let summary = lasthop
        .run(["resume", "last", "--budget=6s", "-q", "--format=json"])
        .ok()
        .json();
    assert_eq!(list(&summary["resumed"]).len(), 1);
    for round in lasthop.recorded("round") {
        assert_eq!(round["cases"]["unix"]["spec"]["model"]["open"]["rate"], 1500.0);
    }
}
