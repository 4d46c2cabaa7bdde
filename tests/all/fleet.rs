//! Runs of several machines, in every format.

use crate::common;

use std::{fs, path::Path};

use common::Lasthop;
use jsonschema::validator_for;
use serde_json::Value;

/// A short run that calls this machine by another name.
fn run_on(lasthop: &Lasthop, name: &str, more: &[&str]) -> String {
    let machine = format!("machine={name}");
    let all = ["run", "sockets", "--only", "transport=unix,tcp", "--set", "pattern=echo", "--budget", "4s", "--trial"];
    let all = all.iter().copied().chain(["10ms", "--blocks", "2", "--quiet", "--label", &machine]);
    lasthop.run(all.chain(more.iter().copied())).ok();
    lasthop.runs().pop().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn machines_are_reported_together() {
    let lasthop = Lasthop::new();
    let runs: Vec<String> = [("one", "instance=small"), ("two", "instance=small"), ("three", "instance=large")]
        .map(|(name, kind)| run_on(&lasthop, name, &["--label", kind]))
        .to_vec();
    lasthop.assert_nothing_left();
    let report = |more: &[&str]| {
        lasthop.run(["fleet", "report"].into_iter().chain(runs.iter().map(String::as_str)).chain(more.iter().copied()))
    };
    let json = report(&["--format", "json"]).ok().json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/fleet.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let errors: Vec<String> =
        validator_for(&schema).unwrap().iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!((&json["by"], json["kinds"].as_array().unwrap().len()), (&serde_json::json!(["instance"]), 2));
    assert_eq!(json["machines"][2]["name"], "three");
    let declared = json["comparisons"].as_array().unwrap().iter().find(|one| one["declared"] == true).unwrap();
    let mean = |end: &str| declared["mean"][end].as_f64().unwrap();
    let ratios: Vec<f64> = (0..3).map(|at| declared["machines"][at]["ratio"].as_f64().unwrap()).collect();
    assert!(ratios.iter().all(|ratio| *ratio > 0.0) && mean("low") < mean("ratio") && mean("ratio") < mean("high"));
    assert_eq!(declared["kinds"]["means"].as_array().unwrap().len(), 2, "{declared}");

    let terminal = report(&[]).ok().stdout;
    assert!(terminal.contains("All machines") && terminal.contains("three"), "{terminal}");
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    assert!(report(&["--format", "markdown"]).ok().stdout.contains("### Kinds"));
    assert!(report(&["--format", "html"]).ok().stdout.contains("class=\"forest\""));
    assert!(report(&["--by", "architecture"]).ok().stdout.contains("on 3 machines"));
    report(&["--by", "colour"]).fails(2, "no record has `colour`");
    report(&["--fail-if", "tls slower > 5%"]).fails(2, "names no case");
    report(&[&runs[0]]).fails(2, "is named twice");
    lasthop.run(["fleet", "report", "nothing"]).fails(2, "no run `nothing`");
    lasthop.run(["run", "sockets", "--label", "small"]).fails(2, "expected NAME=VALUE");
}
