//! Published studies repeated by one command.

use crate::common;

use std::{collections::BTreeSet, fs, path::PathBuf};

use common::{Lasthop, eventually, have, have_python, list, needs, script, shows, slow, texts, words};
use lasthop_repro::study::model::Study;
use regex::Regex;
use serde_json::Value;

#[test]
fn the_list_has_every_study() {
    let lasthop = Lasthop::new();
    let list = lasthop.run(["repro"]).ok().stdout;
    for name in lasthop_repro::study::catalog::names() {
        assert!(list.contains(&name), "{name} is not in:\n{list}");
    }
}

#[test]
fn a_repetition_says_from_layers_where_its_figures_come_from() {
    if !have("python3") || lasthop_profile::Profiler::available().is_err() {
        return;
    }
    let lasthop = Lasthop::new();
    let repro = "repro myhro-2017-sockets --explain --budget 16s --format json -q --into book";
    let result = lasthop.run(repro.split(' ')).ok().json();
    let layers = list(&result["parts"][0]["layers"]);
    let said = layers[0].as_str().unwrap().replace('\u{a0}', " ");
    assert!(
        said.starts_with("In the profile trials, Unix socket takes "),
        "{layers:?}"
    );
    // What differs, and what the transport does not touch.
    shows(&said, ["TCP ", "in layers that do not differ"]);
}

#[test]
fn the_programs_of_2017_run_by_their_method_and_by_ours() {
    needs!(have("python3"));
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    let arguments = "repro myhro-2017-sockets --budget 5s --format json -q --into";
    let result = lasthop
        .run(arguments.split(' ').chain([book.to_str().unwrap()]))
        .ok()
        .json();
    assert_eq!(result["schema"], "lasthop-repro/1");
    let figures = list(&result["figures"]);
    let rates: Vec<&Value> = figures
        .iter()
        .filter(|row| row["figure"]["quantity"] == "requests-per-second")
        .collect();
    assert_eq!(rates.len(), 2);
    for row in rates {
        assert!(row["method"]["value"].as_f64().unwrap() > 100.0, "{row}");
        let lasthop = &row["lasthop"];
        assert!(
            lasthop["low"].as_f64().unwrap() <= lasthop["value"].as_f64().unwrap(),
            "{row}"
        );
    }
    let claim = &result["claims"][0];
    assert!((claim["published"].as_f64().unwrap() - 2.172).abs() < 0.001, "{claim}");
    assert!(
        claim["method"].is_f64() && claim["lasthop"]["value"].is_f64() && claim["sample"]["blocks"].is_u64(),
        "{claim}"
    );
    let part = &result["parts"][0];
    let notes = texts(&part["why"], "id");
    assert!(
        !notes.contains(&"machine"),
        "the speed of a machine is no reason: {notes:?}"
    );
    let record = book
        .join("myhro-2017-sockets")
        .join(part["method_records"][0].as_str().unwrap());
    let again = lasthop
        .run(["report", record.to_str().unwrap(), "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (again["rounds"].as_u64(), again["blocks"].as_u64()),
        (Some(1), Some(1)),
        "one run, as published"
    );
    assert_eq!(again["settings"]["trial_seconds"], 1.0);
    assert_eq!(list(&again["cases"]).len(), 2, "both conditions");
    assert_eq!(list(&part["method_records"]).len(), 1, "{part}");
}

/// What it has measured stays: a run that was over is taken as it is, and another is resumed.
#[test]
fn an_interrupted_repetition_goes_on_where_it_was() {
    needs!(have("python3"));
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    let repro = "repro myhro-2017-sockets --budget 6s --format json -q --into";
    let repro: Vec<&str> = repro.split(' ').chain([book.to_str().unwrap()]).collect();
    let runs = book.join("myhro-2017-sockets/runs");
    let records = || -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(&runs).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let interrupt_after = |number: usize, lines: usize| {
        let mut child = lasthop.start(&repro);
        let written = |record: &PathBuf| fs::read_to_string(record.join("trials.jsonl")).unwrap_or_default();
        eventually("a record with so many lines", || {
            records().len() >= number && written(records().last().unwrap()).lines().count() >= lines
        });
        common::signal(&child, libc::SIGINT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
    };
    // lasthop's own design, then the study's method.
    interrupt_after(1, 3);
    interrupt_after(2, 1);
    let result = lasthop.run(&repro).ok().json();
    let names: Vec<String> = records().iter().map(|record| record.display().to_string()).collect();
    let [design, method] = &names[..] else {
        panic!("{names:?}")
    };
    let part = &result["parts"][0];
    assert!(design.ends_with(part["design_record"].as_str().unwrap()), "{part}");
    assert!(method.ends_with(part["method_records"][0].as_str().unwrap()), "{part}");
    for record in [design, method] {
        let report = lasthop.run(["report", record, "--format", "json"]).ok().json();
        assert_eq!(report["complete"], true, "{report}");
        assert_eq!(list(&report["resumed"]).len(), 1, "{report}");
    }
    assert!(result["claims"][0]["method"].is_f64(), "{}", result["claims"]);
    // What is over is measured anew.
    lasthop.run(&repro).ok();
    assert_eq!(records().len(), 4);
}

#[test]
fn nginx_and_gunicorn_with_the_flags_of_the_study() {
    needs!(have("nginx"), have("wrk"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let arguments = "repro myhro-2017-gunicorn --budget 8s --format json -q".split(' ');
    let result = lasthop.run(arguments).ok().json();
    let part = &result["parts"][0];
    assert!(part["method"].as_str().unwrap().starts_with("wrk -d"), "{part}");
    assert!(
        part["shortened"].as_str().unwrap().contains("of 5 s"),
        "8 s have no room for 5 s of each: {part}"
    );
    for row in list(&result["figures"]) {
        let quantity = row["figure"]["quantity"].as_str().unwrap();
        if ["requests-per-second", "latency-mean", "requests", "transfer"].contains(&quantity) {
            assert!(row["method"]["value"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let notes = list(&part["why"]);
    let note = |id: &str| {
        notes.iter().find(|note| note["id"] == id).unwrap()["text"]
            .as_str()
            .unwrap()
    };
    assert!(
        note("reuse").contains("8 requests over 8 connections"),
        "a sync worker: {}",
        note("reuse")
    );
    shows(note("versions"), ["gunicorn 19.6.0 then"]);
    shows(note("resolution"), ["wrk resolves 1 µs"]);
}

/// Where the study fitted a line or subtracted, lasthop's column is the quantity of the experiment, from one record.
#[test]
fn postgres_is_answered_by_lines_and_differences_within_blocks() {
    needs!(have("postgres"), have("psql"));
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    let arguments = "repro dr-knz-2020-postgres --budget 12s --format json -q --into";
    let result = lasthop
        .run(arguments.split(' ').chain([book.to_str().unwrap()]))
        .ok()
        .json();
    let parts = list(&result["parts"]);
    let quantities = [
        ("queries", "query", "time-per-request", 1.0),
        ("handshake", "handshake", "handshake", 1e3),
        ("authentication", "authentication", "authentication", 1e3),
        ("rows", "row", "time-per-row", 1.0),
    ];
    for (runs, derived, quantity, microseconds) in quantities {
        let part = parts.iter().find(|part| part["runs"] == runs).unwrap();
        let record = book
            .join("dr-knz-2020-postgres")
            .join(part["design_record"].as_str().unwrap());
        let own = lasthop
            .run(["report", record.to_str().unwrap(), "--format", "json"])
            .ok()
            .json();
        let of = |transport: &str| {
            let mut all = list(&own["derived"]).iter();
            let fits = |found: &&Value| {
                let auth = &found["levels"]["auth"];
                let hashed = runs == "authentication" && auth != "password-cleartext";
                found["quantity"] == derived && found["transport"] == transport && !hashed
            };
            all.find(fits)
                .unwrap_or_else(|| panic!("{runs}, {transport}: {}", own["derived"]))
                .clone()
        };
        // One block has no interval, and a slow machine may have no time for two.
        let blocks = own["blocks"].as_u64().unwrap();
        assert!(
            of("tcp")["value"].is_object(),
            "TCP without TLS, which the study left out: {own}"
        );
        let of_part = |row: &&Value| row["figure"]["runs"] == runs && row["figure"]["quantity"] == quantity;
        let rows: Vec<&Value> = list(&result["figures"]).iter().filter(of_part).collect();
        assert_eq!(rows.len(), 4, "two machines, two transports: {rows:?}");
        for row in rows {
            let wanted = &of(row["figure"]["levels"]["transport"].as_str().unwrap())["value"];
            assert_eq!(row["lasthop"]["low"].is_f64(), blocks > 1, "{row}");
            assert!(
                row["method"]["value"].is_f64() && row["method"]["low"].is_null(),
                "{row}"
            );
            let ends = [("value", "estimate"), ("low", "low"), ("high", "high")];
            for (ours, theirs) in ends.into_iter().take(if blocks > 1 { 3 } else { 1 }) {
                let (ours, theirs) = (row["lasthop"][ours].as_f64().unwrap(), wanted[theirs].as_f64().unwrap());
                assert!(
                    (ours * microseconds / theirs - 1.0).abs() < 1e-9,
                    "{runs}: {row} is not {wanted}"
                );
            }
        }
        let found = list(&part["found"]);
        assert!(found.len() >= 3, "{found:?}");
        assert!(
            blocks < 2 || found.iter().any(|found| found["against"]["low"].is_f64()),
            "{found:?}"
        );
    }
    // Their method is a run like any: psql asked for both lengths, in one round of a block for each repetition.
    let queries = parts.iter().find(|part| part["runs"] == "queries").unwrap();
    let record = book
        .join("dr-knz-2020-postgres")
        .join(queries["method_records"][0].as_str().unwrap());
    let theirs = lasthop
        .run(["report", record.to_str().unwrap(), "--format", "json"])
        .ok()
        .json();
    let cases = list(&theirs["cases"]);
    assert_eq!((theirs["rounds"].as_u64(), cases.len()), (Some(1), 4), "{theirs}");
    for case in cases {
        let blocks = theirs["blocks"].as_u64().unwrap();
        let sent: u64 = case["levels"]["queries"].as_str().unwrap().parse().unwrap();
        assert_eq!(case["requests"].as_u64(), Some(sent * blocks), "{case}");
        assert_eq!(case["reported"]["tool"], "psql", "{case}");
    }
    // A share: two quantities of one transport.
    let figure = |quantity: &str| {
        let mut all = list(&result["figures"]).iter();
        let row = all.find(|row| {
            row["figure"]["runs"] == "authentication"
                && row["figure"]["quantity"] == quantity
                && row["figure"]["levels"]["transport"] == "unix"
        });
        row.unwrap()["method"]["value"].as_f64().unwrap()
    };
    let mut claims = list(&result["claims"]).iter();
    let share = claims
        .find(|row| row["claim"]["against_quantity"] == "time-without-password")
        .unwrap();
    let wanted = figure("authentication") / figure("time-without-password");
    match share["method"].as_f64() {
        Some(share) => assert!((share / wanted - 1.0).abs() < 1e-9, "{share} is not {wanted}"),
        None => assert!(
            wanted <= 0.0,
            "a difference may come out as less than nothing: {wanted}"
        ),
    }
    let design = |runs: &str| {
        parts.iter().find(|part| part["runs"] == runs).unwrap()["design"]
            .as_str()
            .unwrap()
    };
    assert!(
        design("queries").starts_with("queries of 1000 and 2000, "),
        "{}",
        design("queries")
    );
    assert!(
        design("rows").starts_with("rows of 50000 and 100000, "),
        "{}",
        design("rows")
    );
}

#[test]
fn thin_is_asked_by_more_than_one_connection_too() {
    needs!(have("nginx"), have("thin"), have("httperf"));
    let lasthop = Lasthop::new();
    let result = lasthop
        .run(["repro", "ecentryx-thin", "--budget", "3s", "--format", "json", "-q"])
        .ok()
        .json();
    let rates: Vec<&Value> = list(&result["figures"])
        .iter()
        .filter(|row| row["method"].is_object())
        .collect();
    assert_eq!(
        rates.len(),
        16,
        "eight conditions by httperf, rate and time of each: {rates:?}"
    );
    assert!(
        rates.iter().all(|row| row["lasthop"]["value"].as_f64().unwrap() > 0.0),
        "{rates:?}"
    );
    let beyond = &result["parts"][1];
    assert!(
        beyond["method"].is_null() && beyond["beyond"].as_str().unwrap().contains("more than one"),
        "{beyond}"
    );
    let found = list(&beyond["found"]);
    assert_eq!(found.len(), 32, "the eight conditions by 1, 8, 24 and 64 connections");
    for concurrency in ["1", "8", "24", "64"] {
        let name = format!("concurrency={concurrency}");
        let of = |found: &&Value| {
            found["condition"]
                .as_str()
                .unwrap()
                .split('/')
                .any(|level| level == name)
        };
        let of: Vec<&Value> = found.iter().filter(of).collect();
        assert_eq!(of.len(), 8, "{found:?}");
        assert!(
            of.iter().all(|found| found["value"]["value"].as_f64().unwrap() > 0.0),
            "{of:?}"
        );
        assert_eq!(
            of.iter().filter(|found| found["verdict"].is_string()).count(),
            4,
            "unix against tcp: {of:?}"
        );
    }
}

#[test]
fn databases_are_asked_by_more_than_one_connection() {
    needs!(have("pgbench"), have("sysbench"), have("mariadbd"));
    let lasthop = Lasthop::new();
    for (study, method) in [
        ("cybertec-2016-postgres", "pgbench -c10 -j5 -T"),
        ("percona-2020-mysql", "sysbench"),
    ] {
        let result = lasthop
            .run(["repro", study, "--budget", "3s", "--format", "json", "-q"])
            .ok()
            .json();
        assert!(
            result["parts"][0]["method"].as_str().unwrap().starts_with(method),
            "{}",
            result["parts"][0]
        );
        for claim in list(&result["claims"]) {
            assert!(claim["method"].as_f64().unwrap() > 0.0, "{claim}");
            assert!(claim["lasthop"]["value"].as_f64().unwrap() > 0.0, "{claim}");
        }
    }
}

#[test]
fn redis_is_repeated_by_its_own_tool_and_with_pipelines() {
    needs!(have("redis-server"), have("redis-benchmark"));
    let lasthop = Lasthop::new();
    let result = lasthop
        .run(["repro", "redis-docs", "--budget", "3s", "--format", "json", "-q"])
        .ok()
        .json();
    let claims = list(&result["claims"]);
    assert!(
        claims[0]["method"].as_f64().unwrap() > 0.0,
        "redis-benchmark: {claims:?}"
    );
    assert!(claims[0]["lasthop"]["value"].as_f64().unwrap() > 0.0, "{claims:?}");
    assert_eq!(claims[1]["word"], "not-repeated", "a comparison of comparisons");
    assert_eq!(list(&result["parts"][1]["found"]).len(), 32, "{}", result["parts"][1]);
}

#[test]
fn the_book_is_whole_and_is_taken_up_again() {
    needs!(slow());
    let lasthop = Lasthop::new();
    let book = lasthop.home().join("book");
    // A recipe's program that fails or is too old keeps its studies from being repeated, and no other: those of channels,
    // gRPC and the programs of 2017 are. The tests beside this one repeat the rest.
    let old = lasthop.home().join("old-nginx");
    script(&old, "echo nginx version: nginx/1.10.3 >&2");
    let old = format!("nginx={}", old.display());
    let others = ["psql", "redis", "postgres", "mariadb"].map(|recipe| format!("{recipe}=/bin/false"));
    let broken = [&[old], &others[..]].concat();
    let all = format!("repro --all --budget 2s -q --into {}", book.display());
    let programs = broken.iter().flat_map(|given| ["--program", given]);
    let arguments: Vec<&str> = all.split(' ').chain(programs).collect();
    let first = lasthop.run(&arguments);
    assert_eq!(
        first.code,
        Some(1),
        "programs of no use are failures:\n{}",
        first.stderr
    );
    let results: Vec<Value> = serde_json::from_slice(&fs::read(book.join("book.json")).unwrap()).unwrap();
    let page = fs::read_to_string(book.join("book.md")).unwrap();
    let studies: Vec<Study> = lasthop_repro::study::catalog::names()
        .iter()
        .map(|name| lasthop_repro::study::catalog::load(name).unwrap())
        .collect();
    let published: usize = studies.iter().map(|study| study.numbers().len()).sum();
    assert_eq!(
        published,
        in_data_files(),
        "every number of the files is one of a study"
    );
    let printed: usize = studies.iter().map(|study| in_markdown(study, &page)).sum();
    assert_eq!(printed, published, "numbers of the Markdown book");
    assert_eq!(
        results.iter().map(in_json).sum::<usize>(),
        published,
        "numbers of the JSON book"
    );
    let sockets = results
        .iter()
        .find(|result| result["study"] == "myhro-2017-sockets")
        .unwrap();
    assert!(
        sockets["claims"][0]["lasthop"]["value"].is_f64(),
        "others went on: {sockets}"
    );
    for name in ["myhro-2017-gunicorn", "ecentryx-thin"] {
        let text = results.iter().find(|result| result["study"] == name).unwrap()["parts"].to_string();
        assert!(
            text.contains("has version 1.10.3, but at least 1.19.5 is needed"),
            "{name}: {text}"
        );
    }
    let missing = |result: &&Value| list(&result["parts"]).iter().any(|part| part["missing"] == true);
    let absent = results.iter().filter(missing).count();
    let again = lasthop.run(&arguments);
    assert_eq!(
        again.stderr.matches("already finished").count(),
        results.len() - absent,
        "{}",
        again.stderr
    );
    let pages = [fs::read_to_string(book.join("book.md")).unwrap(), page];
    let [now, then] = pages.map(|page| {
        Regex::new("repeated in [0-9.]+ m?s")
            .unwrap()
            .replace_all(&page, "")
            .into_owned()
    });
    assert_eq!(now, then);
}

/// Numbers of the data files, counted without the reader of studies: values of figures, and the numbers of claims.
fn in_data_files() -> usize {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let list = |file: &toml::Table, key: &str| {
        let tables = file
            .get(key)
            .and_then(toml::Value::as_array)
            .cloned()
            .unwrap_or_default();
        tables
            .into_iter()
            .map(|table| table.as_table().unwrap().clone())
            .collect::<Vec<_>>()
    };
    let count = |path: PathBuf| {
        let file: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let figures: usize = list(&file, "figures")
            .iter()
            .map(|table| table["values"].as_table().unwrap().len())
            .sum();
        let printed = |claim: &toml::Table| {
            claim
                .get("printed")
                .map_or(0, |printed| printed.as_array().unwrap().len())
        };
        figures + list(&file, "claims").iter().map(printed).sum::<usize>()
    };
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .map(count)
        .sum()
}

fn in_json(result: &Value) -> usize {
    let printed = |row: &Value| list(&row["claim"]["printed"]).len();
    let figures = list(&result["figures"]);
    assert!(
        figures.iter().all(|row| row["figure"]["printed"].is_string()),
        "{figures:?}"
    );
    figures.len() + list(&result["claims"]).iter().map(printed).sum::<usize>()
}

/// Figures by the rows of the study's own tables: each must be there as often as it was published. Numbers of claims by their
/// texts.
fn in_markdown(study: &Study, page: &str) -> usize {
    let page = page.replace('\\', "");
    let start = page
        .find(&format!("## {}: ", study.name))
        .unwrap_or_else(|| panic!("{} is not there", study.name));
    let own = &page[start..];
    let own = own.find("\n## ").map_or(own, |end| &own[..end + 1]);
    let row = |figure: &lasthop_repro::study::model::Figure| {
        let number = format!("{} {}", figure.printed, figure.unit);
        (figure.words.clone(), number)
    };
    let mut rows: Vec<(String, String)> = own
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            (line.starts_with('|') && cells.len() > 2).then(|| (cells[0].to_owned(), cells[1].to_owned()))
        })
        .collect();
    let mut found = 0;
    for (words, number) in study.figures.iter().map(row) {
        let at = rows
            .iter()
            .position(|(first, second)| *first == words && *second == number);
        rows.swap_remove(at.unwrap_or_else(|| panic!("{}: {words} {number} is not in:\n{own}", study.name)));
        found += 1;
    }
    for claim in &study.claims {
        assert!(own.contains(&claim.text), "{} is not in:\n{own}", claim.text);
        found += claim.printed.len();
    }
    found
}

/// The user's own experiment of a name comes before the built-in one.
#[test]
fn a_study_is_not_repeated_at_a_rate() {
    let lasthop = Lasthop::new();
    let folder = lasthop.home().join("experiments/redis");
    fs::create_dir_all(&folder).unwrap();
    let redis = include_str!("../../experiments/redis/experiment.toml");
    let rate = "[load]\nrate = \"{{ 500 if pipeline == 1 else 0 }}\"\n";
    fs::write(folder.join("experiment.toml"), redis.replace("[load]\n", rate)).unwrap();
    let result = lasthop
        .run(["repro", "redis-docs", "--budget", "4s", "--format", "json", "-q"])
        .ok()
        .json();
    for part in list(&result["parts"]) {
        let skipped = part["skipped"].as_str().unwrap();
        assert!(
            skipped.contains("has 500 requests/s in the case unix") && skipped.contains("set its `rate` to 0"),
            "{part}"
        );
        assert!(skipped.contains(&folder.display().to_string()), "{part}");
        assert_eq!(part["design_record"], Value::Null, "{part}");
    }
}

#[test]
fn a_missing_program_keeps_one_study_from_being_repeated_and_is_said() {
    let lasthop = Lasthop::new();
    let folder = tempfile::tempdir().unwrap();
    // No server and no tool is on this PATH.
    let run = |arguments: &[&str]| {
        let output = lasthop
            .command(arguments.iter().copied())
            .env("PATH", folder.path())
            .output()
            .unwrap();
        common::Ran::from(output)
    };
    let one = run(&words("repro dr-knz-2020-cockroachdb --budget 4s --format json -q"));
    assert_eq!(
        one.code,
        Some(1),
        "nothing of what was asked for is there: {}",
        one.stdout
    );
    let part = &one.json()["parts"][0];
    shows(part["skipped"].as_str().unwrap(), ["`cockroach` was not found"]);
    assert_eq!(
        (part["missing"].as_bool(), list(&part["failures"]).len()),
        (Some(true), 0),
        "{part}"
    );
}
