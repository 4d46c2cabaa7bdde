//! Published studies repeated by one command, and the winner's configuration for copying.

mod common;

use common::{Lasthop, have, have_python};
use regex::Regex;
use serde_json::Value;

#[test]
fn the_list_has_every_study() {
    let lasthop = Lasthop::new();
    let list = lasthop.run(["repro"]).ok().stdout;
    for name in lasthop::study::catalog::names() {
        assert!(list.contains(&name), "{name} is not in:\n{list}");
    }
    lasthop.run(["repro", "myhro-2017-socket"]).fails(2, "did you mean `myhro-2017-sockets`?");
}

#[test]
fn the_programs_of_2017_run_by_their_method_and_by_ours() {
    if !have("python3") {
        return;
    }
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    let arguments = ["repro", "myhro-2017-sockets", "--budget", "5s", "--format", "json", "-q", "--into"];
    let result = lasthop.run(arguments.iter().copied().chain([book.to_str().unwrap()])).ok().json();
    assert_eq!(result["schema"], "lasthop-repro/1");
    let figures = result["figures"].as_array().unwrap();
    let rates: Vec<&Value> = figures.iter().filter(|row| row["figure"]["quantity"] == "requests-per-second").collect();
    assert_eq!(rates.len(), 2);
    for row in rates {
        assert!(row["method"]["value"].as_f64().unwrap() > 100.0, "{row}");
        let lasthop = &row["lasthop"];
        assert!(lasthop["low"].as_f64().unwrap() <= lasthop["value"].as_f64().unwrap(), "{row}");
    }
    let claim = &result["claims"][0];
    assert!((claim["published"].as_f64().unwrap() - 2.172).abs() < 0.001, "{claim}");
    assert!(claim["method"].is_f64() && claim["lasthop"]["value"].is_f64(), "{claim}");
    let part = &result["parts"][0];
    let notes: Vec<&str> = part["why"].as_array().unwrap().iter().map(|note| note["id"].as_str().unwrap()).collect();
    for id in ["machine", "reuse", "client", "placement"] {
        assert!(notes.contains(&id), "{id} is not in {notes:?}");
    }
    let record = book.join("myhro-2017-sockets").join(part["method_records"][0].as_str().unwrap());
    let again = lasthop.run(["report", record.to_str().unwrap(), "--format", "json"]).ok().json();
    assert_eq!((again["rounds"].as_u64(), again["blocks"].as_u64()), (Some(1), Some(1)), "one run, as published");
    assert_eq!(again["settings"]["trial_seconds"], 1.0);
    lasthop.assert_nothing_left();
}

#[test]
fn nginx_and_gunicorn_with_the_flags_of_the_study() {
    if !have("nginx") || !have("wrk") || !have_python("nginx-gunicorn") {
        return;
    }
    let lasthop = Lasthop::new();
    let arguments = ["repro", "myhro-2017-gunicorn", "--budget", "8s", "--format", "json", "-q"];
    let result = lasthop.run(arguments).ok().json();
    let part = &result["parts"][0];
    assert!(part["method"].as_str().unwrap().starts_with("wrk -d"), "{part}");
    assert!(part["shortened"].as_str().unwrap().contains("of 5 s"), "8 s have no room for 5 s of each: {part}");
    for row in result["figures"].as_array().unwrap() {
        let quantity = row["figure"]["quantity"].as_str().unwrap();
        if ["requests-per-second", "latency-mean", "requests", "transfer"].contains(&quantity) {
            assert!(row["method"]["value"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let notes = part["why"].as_array().unwrap();
    let note = |id: &str| notes.iter().find(|note| note["id"] == id).unwrap()["text"].as_str().unwrap();
    assert!(note("reuse").contains("8 requests over 8 connections"), "a sync worker: {}", note("reuse"));
    assert!(note("versions").contains("gunicorn 19.6.0 then"), "{}", note("versions"));
    assert!(note("resolution").contains("wrk resolves 1 µs"), "{}", note("resolution"));
    lasthop.assert_nothing_left();
}

#[test]
fn the_book_is_whole_and_is_taken_up_again() {
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    // A recipe's program that fails keeps its study from being repeated, and no other.
    let broken = ["nginx=/bin/false", "psql=/bin/false", "redis=/bin/false", "postgres=/bin/false"];
    let programs = broken.iter().flat_map(|given| ["--program", *given]);
    let arguments: Vec<&str> = ["repro", "--all", "--budget", "4s", "-q", "--into", book.to_str().unwrap()]
        .into_iter()
        .chain(programs)
        .collect();
    let first = lasthop.run(&arguments);
    assert_eq!(first.code, Some(1), "programs of no use are failures:\n{}", first.stderr);
    let results: Vec<Value> = serde_json::from_slice(&std::fs::read(book.join("book.json")).unwrap()).unwrap();
    let page = std::fs::read_to_string(book.join("book.md")).unwrap();
    let mut numbers = 0;
    for name in lasthop::study::catalog::names() {
        let study = lasthop::study::catalog::load(&name).unwrap();
        let result = results.iter().find(|result| result["study"] == name.as_str()).unwrap();
        assert_eq!(result["figures"].as_array().unwrap().len(), study.figures.len(), "{name}");
        for figure in &study.figures {
            let printed = format!("{} {}", figure.printed, figure.unit);
            assert!(page.contains(&printed), "{name}: {printed} is not in the book");
            numbers += 1;
        }
    }
    assert!(numbers > 200, "{numbers} figures");
    let sockets = results.iter().find(|result| result["study"] == "myhro-2017-sockets").unwrap();
    assert!(sockets["claims"][0]["lasthop"]["value"].is_f64(), "others went on: {sockets}");
    let missing = |result: &&Value| result["parts"].as_array().unwrap().iter().any(|part| part["missing"] == true);
    let absent = results.iter().filter(missing).count();
    let again = lasthop.run(&arguments);
    assert_eq!(again.stderr.matches("finished before").count(), results.len() - absent, "{}", again.stderr);
    let pages = [std::fs::read_to_string(book.join("book.md")).unwrap(), page];
    let [now, then] =
        pages.map(|page| Regex::new("repeated in [0-9.]+ m?s").unwrap().replace_all(&page, "").into_owned());
    assert_eq!(now, then);
    lasthop.assert_nothing_left();
}

#[test]
fn a_missing_program_keeps_one_study_from_being_repeated_and_is_said() {
    let lasthop = Lasthop::new();
    let folder = tempfile::tempdir().unwrap();
    // No server and no tool is on this PATH.
    let run = |arguments: &[&str]| {
        let output = lasthop.command(arguments.iter().copied()).env("PATH", folder.path()).output().unwrap();
        common::Ran::from(output)
    };
    let one = run(&["repro", "dr-knz-2020-cockroachdb", "--budget", "4s", "--format", "json", "-q"]);
    assert_eq!(one.code, Some(1), "nothing of what was asked for is there: {}", one.stdout);
    let part = &one.json()["parts"][0];
    assert!(part["skipped"].as_str().unwrap().contains("`cockroach` was not found"), "{part}");
    assert_eq!((part["missing"].as_bool(), part["failures"].as_array().unwrap().len()), (Some(true), 0), "{part}");
    lasthop.assert_nothing_left();
}

#[test]
fn the_winner_is_exported_from_its_record() {
    if !have("nginx") || !have_python("nginx-gunicorn") {
        return;
    }
    let lasthop = Lasthop::new();
    let run =
        ["run", "nginx-gunicorn", "--only", "connections=1", "--budget", "8s", "--rounds", "1", "--blocks", "2", "-q"];
    lasthop.run(run).ok();
    let text = lasthop.run(["export", "nginx-gunicorn", "--case", "unix"]).ok().stdout;
    assert!(text.contains("server unix:/run/gunicorn/gunicorn.sock"), "{text}");
    assert!(text.contains("gunicorn --bind unix:/run/gunicorn/gunicorn.sock --chdir /srv/gunicorn/app"), "{text}");
    assert!(text.contains("accept queue of 1024") && text.contains("RuntimeDirectory=gunicorn"), "{text}");
    assert!(text.contains("nginx -s reload") && !text.contains("access_log"), "{text}");
    let sandboxes = lasthop.sandboxes().display().to_string();
    assert!(!text.contains(&sandboxes) && !text.contains(&lasthop.home().display().to_string()), "{text}");
    let folder = lasthop.home().join("out");
    lasthop.run(["export", "last", "--into", folder.to_str().unwrap()]).ok();
    assert!(folder.join("README.md").is_file() && folder.join("nginx/nginx.conf").is_file());
    lasthop.run(["export", "last", "--case", "udp"]).fails(1, "its cases: unix, tcp");
    lasthop.run(["export", "redis"]).fails(2, "no run of `redis` is recorded");
}
