//! Loads beyond capacity on real stacks: errors are results, and the kernel's counters agree with the client's.

use crate::common;

use common::{Lasthop, have, have_python, list, needs, one_line, signal, slow, words};
use serde_json::Value;

/// A backlog of a few connections overflows with little load. nginx gives a connection up after a second, so queues have more
/// than that to fill.
const SMALL: &str = "--overload=0.5,3 --set=backlog=8 --set=connections=200 --rounds=1 --trial=1s --warm-up=1300ms \
                     --budget=3m -q --format=json";

/// Trials with a load of the newest run.
fn trials(lasthop: &Lasthop) -> Vec<Value> {
    let trials = lasthop.recorded("overload").into_iter();
    trials.filter(|trial| !trial["times"].is_null()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Errors of every class but the driver's own time-outs, of which a busy machine adds some.
fn wrong(trial: &Value) -> u64 {
    let classes = trial["result"]["errors"].as_object().unwrap().iter();
    let others = classes.filter(|(class, _)| *class != "timeout");
    others.map(|(_, error)| error["count"].as_u64().unwrap()).sum()
}

/// Replies with this status in all stages of a trial that count.
fn with_status(trial: &Value, status: u64) -> u64 {
    let stages = list(&trial["result"]["stages"]).iter();
    let all = stages.flat_map(|stage| list(&stage["wrong"]));
    all.filter(|wrong| wrong["status"] == status)
        .map(|wrong| wrong["count"].as_u64().unwrap())
        .sum()
}

fn point<'a>(summary: &'a Value, case: &str, times: f64) -> &'a Value {
    let cases = list(&summary["overload"]["cases"]);
    let case = cases
        .iter()
        .find(|found| found["case"] == case)
        .unwrap_or_else(|| panic!("no {case} in {summary}"));
    list(&case["points"])
        .iter()
        .find(|point| point["times"] == times)
        .unwrap()
}

fn refuses_at_once_or_later(experiment: &str) {
    let lasthop = Lasthop::new();
    let summary = lasthop
        .run(["run", experiment].into_iter().chain(SMALL.split(' ')))
        .ok()
        .json();
    lasthop.assert_nothing_left();
    assert_eq!(list(&summary["overload"]["cases"]).len(), 2, "{summary}");
    let trials = trials(&lasthop);
    assert_eq!(trials.len(), 4, "two loads of two cases");
    let of = |case: &str| {
        trials
            .iter()
            .find(|trial| trial["case"] == case && trial["times"] == 3.0)
            .unwrap()
    };
    let (unix, tcp) = (of("unix"), of("tcp"));
    assert_eq!(
        unix["result"]["stages"][1]["rate"], tcp["result"]["stages"][1]["rate"],
        "the same load"
    );

    // Every connect that the kernel refused with EAGAIN is a 502, and nothing else is.
    let refused = unix["logged"]["EAGAIN on connect"].as_u64().unwrap();
    assert!(
        refused > 0 && wrong(unix).abs_diff(refused) <= 2 + refused / 100,
        "{refused}: {}",
        unix["result"]["errors"]
    );
    assert!(with_status(unix, 502) > 0 && with_status(unix, 504) == 0, "{unix}");

    // TCP drops the SYN instead: it is sent again, or nginx answers 504 after its timeout. Nobody is refused.
    let network = &tcp["observations"]["network"];
    let overflows = network["listen_overflows"].as_u64().unwrap();
    assert!(
        overflows > 0 && network["listen_drops"].as_u64().unwrap() >= overflows,
        "{network}"
    );
    let timed_out = tcp["logged"]["connect timed out"].as_u64().unwrap();
    assert!(timed_out + network["syns_retransmitted"].as_u64().unwrap() > 0, "{tcp}");
    assert!(
        with_status(tcp, 504) > 0 && wrong(tcp).abs_diff(timed_out) <= 2 + timed_out / 100,
        "{tcp}"
    );
    assert_eq!(tcp["logged"]["EAGAIN on connect"], 0);

    let after = |case: &str, status: &str| number(&point(&summary, case, 3.0)["wrong"][status]["after_ms"]);
    assert!(
        after("tcp", "status-504") > after("unix", "status-502"),
        "a timeout is later than a refusal"
    );
    for case in ["unix", "tcp"] {
        let [usual, over] = [0.5, 3.0].map(|times| point(&summary, case, times));
        assert!(number(&over["offered"]) > 5.9 * number(&usual["offered"]));
        assert!(
            number(&over["right"]["most"]) < number(&usual["right"]["least"]),
            "{over} {usual}"
        );
        assert_eq!(over["served"], false, "{over}");
    }
    for trial in &trials {
        let stages = list(&trial["result"]["stages"]);
        assert_eq!(
            stages.len(),
            if trial["times"] == 3.0 { 3 } else { 2 },
            "a recovery is seen after an overload"
        );
    }
    reports(&lasthop, &summary);
}

fn reports(lasthop: &Lasthop, summary: &Value) {
    let report = |format: &str| lasthop.run(["report", "last", "--format", format]).ok().stdout;
    assert_eq!(
        serde_json::from_str::<Value>(&report("json")).unwrap(),
        *summary,
        "made from the record"
    );
    for format in ["terminal", "markdown", "html"] {
        let text = one_line(&report(format));
        for said in [
            "goodput/s at 3×",
            "% 502 after",
            "% 504 after",
            "ListenOverflows",
            "EAGAIN on connect",
        ] {
            assert!(text.contains(said), "{format} does not say {said}: {text}");
        }
    }
    let csv = report("csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(
        rows.len() == 5 && rows.iter().all(|row| row.len() == rows[0].len()),
        "{csv}"
    );
    assert!(report("html").contains("id=\"goodput\""));
    lasthop
        .run(["report", "last", "--format", "svg"])
        .fails(2, "has no format `svg`");
    // It has as many rounds as asked for.
    lasthop
        .run(["resume", "last"])
        .fails(2, "as many rounds as you asked for");
}

#[test]
fn an_overloaded_gunicorn_refuses_by_unix_socket_and_times_out_by_tcp() {
    if have("nginx") && have_python("nginx-gunicorn") {
        refuses_at_once_or_later("nginx-gunicorn");
    }
}

#[test]
fn an_overloaded_php_fpm_refuses_by_unix_socket_and_times_out_by_tcp() {
    if have("nginx") && common::have_setup("php-fpm") {
        refuses_at_once_or_later("php-fpm");
    }
}

/// A run that was interrupted goes on with the loads that it had.
#[test]
fn a_run_with_overload_can_be_resumed() {
    needs!(slow());
    let lasthop = Lasthop::new();
    let mut arguments = words("run sockets --only pattern=echo --only transport=unix,tcp");
    arguments.extend("--overload=0.5,2 --rounds=2 --trial=200ms --warm-up=100ms -q".split(' '));
    let mut child = lasthop.start(&arguments);
    // A round, four capacities, one load.
    lasthop.wait_for_lines(6);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = trials(&lasthop);
    let summary = lasthop
        .run(["resume", "last", "--budget=3m", "--format", "json"])
        .ok()
        .json();
    let after = trials(&lasthop);
    assert_eq!(after[..before.len()], before, "what was measured stays");
    let rate = |trial: &Value| number(&trial["result"]["stages"][1]["rate"]) / number(&trial["times"]);
    let first = rate(&after[0]);
    assert!(
        after.iter().all(|trial| (rate(trial) / first - 1.0).abs() < 1e-9),
        "the same loads in every round"
    );
    for case in ["unix", "tcp"] {
        // Two whole rounds, and perhaps what the interrupted one had.
        let trials = point(&summary, case, 2.0)["trials"].as_u64().unwrap();
        assert!((2..=3).contains(&trials), "{trials}");
    }
    lasthop.assert_nothing_left();
}
