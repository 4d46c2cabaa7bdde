//! Records that are large, damaged, or not what they seem.

mod common;

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufWriter, Write as _},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    time::Instant,
};

use common::{Lasthop, lacks, needs, shows, signal, slow};
use serde_json::Value;

/// A run of two blocks.
const SHORT: &str = "run sockets --only pattern=echo --trial=20ms --rounds=1 --blocks=2 -q";

/// What a report of [`LINES`] may take, in kB; with a dense histogram for each it would be gigabytes.
const MOST_MEMORY: i64 = 64 << 10;
/// About half an hour's.
const LINES: usize = 6_000;

/// A short run whose trials have as many different latencies as others have.
fn short_run(lasthop: &Lasthop) {
    lasthop
        .run("run sockets --trial=20ms --rounds=2 --blocks=2 --no-headroom --budget=300s -q".split(' '))
        .ok();
}

/// The lines of a record over and over, as rounds that follow each other.
fn repeat(run: &Path, least: usize) {
    let path = run.join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let body = |line: &Value, key: &str| line.as_object().unwrap().values().next().unwrap()[key].as_u64();
    let rounds = lines.iter().filter_map(|line| body(line, "round")).max().unwrap() + 1;
    let span = lines.iter().filter_map(|line| body(line, "at_ns")).max().unwrap() + 50_000_000;
    let mut out = BufWriter::new(File::create(&path).unwrap());
    for times in 0..(least.div_ceil(lines.len()) as u64) {
        for line in &lines {
            let mut line = line.clone();
            let body = line.as_object_mut().unwrap().values_mut().next().unwrap();
            for (key, step) in [("round", rounds), ("at_ns", span)] {
                if let Some(value) = body[key].as_u64() {
                    body[key] = (value + times * step).into();
                }
            }
            writeln!(out, "{line}").unwrap();
        }
    }
}

/// Starts its arguments and prints the most memory that they had, in kB.
const MEASURE: &str = "
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

/// The most memory that a command had at a time, in kB. The kernel counts that of the process that started it, too, and this
/// one has whatever its other tests hold.
fn most_memory(command: &Command) -> i64 {
    let mut measured = Command::new("python3");
    measured
        .args(["-c", MEASURE])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => measured.env(name, value),
            None => measured.env_remove(name),
        };
    }
    let output = measured
        .current_dir(command.get_current_dir().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn a_long_record_is_read_in_little_memory() {
    needs!(slow());
    let lasthop = Lasthop::new();
    short_run(&lasthop);
    let run = lasthop.runs().pop().unwrap();
    repeat(&run, LINES);
    for command in [&["report", "last"][..], &["report", "last", "--format=json"], &["runs"]] {
        let most = most_memory(&lasthop.command(command));
        assert!(most <= MOST_MEMORY, "{command:?} took {most} kB");
    }
}

/// The most memory that the report of [`MACHINES`] may take, in kB.
const MOST_OF_A_FLEET: i64 = 200 << 10;
const MACHINES: usize = 200;

#[test]
#[expect(
    clippy::print_stdout,
    reason = "time is told, and not asserted: this executable is not optimised"
)]
fn a_fleet_is_reported_in_little_memory() {
    needs!(slow());
    let lasthop = Lasthop::new();
    // As many trials as a run of half a minute has.
    lasthop
        .run("run sockets --trial=20ms --rounds=4 --blocks=2 --no-headroom --budget=300s -q".split(' '))
        .ok();
    let run = lasthop.runs().pop().unwrap();
    let folder = lasthop.home().join("machines");
    for number in 0..MACHINES {
        let copy = folder.join(format!("machine-{number}"));
        fs::create_dir_all(&copy).unwrap();
        for name in ["environment.json", "trials.jsonl", "end.json"] {
            fs::hard_link(run.join(name), copy.join(name)).unwrap();
        }
        let mut header: Value = serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        header["run"] = format!("machine-{number}").into();
        header["labels"] =
            serde_json::json!({"machine": format!("m{number}"), "instance": format!("kind-{}", number % 4)});
        fs::write(copy.join("run.json"), header.to_string()).unwrap();
    }
    let runs = (0..MACHINES).map(|number| folder.join(format!("machine-{number}")).into_os_string());
    let arguments: Vec<OsString> = ["report"].map(Into::into).into_iter().chain(runs).collect();
    let page = lasthop.home().join("fleet.html");
    let to_page = ["--format", "html", "--output"]
        .map(Into::into)
        .into_iter()
        .chain([page.clone().into_os_string()]);
    let begun = Instant::now();
    let most = most_memory(lasthop.command(&arguments).args(to_page.collect::<Vec<OsString>>()));
    println!(
        "{MACHINES} machines: {:.1} s, {} MB",
        begun.elapsed().as_secs_f64(),
        most >> 10
    );
    assert!(most <= MOST_OF_A_FLEET, "{most} kB");
    let told = fs::read_to_string(page).unwrap();
    shows(&told, ["on 200&#160;machines", "<th scope=\"row\">m199</th>", "kind-3"]);
}

/// Of a file or folder.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_record_is_its_owners_alone() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let run = lasthop.runs().pop().unwrap();
    assert_eq!(mode(&run), 0o700);
    for name in [
        "run.json",
        "environment.json",
        "trials.jsonl",
        "end.json",
        "lock",
        "seal",
    ] {
        assert_eq!(mode(&run.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&lasthop.home().join("key")), 0o600);
}

#[test]
fn a_run_that_goes_on_is_not_called_cut_off() {
    let lasthop = Lasthop::new();
    let mut child = lasthop.start("run sockets --only pattern=echo --trial=20ms --budget=600s -q".split(' '));
    lasthop.wait_for_lines(5);
    let report = lasthop.run(["report", "last"]).ok().stdout;
    let json = lasthop.run(["report", "last", "--format=json"]).ok().json();
    signal(&child, libc::SIGINT);
    child.wait().unwrap();
    shows(&report, ["is still running"]);
    lacks(&report, ["cut off"]);
    assert_eq!(json["running"], true);
    let report = lasthop.run(["report", "last"]).ok().stdout;
    assert!(report.contains("interrupted"), "{report}");
}

#[test]
fn a_list_of_runs_reads_no_trials() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let entry = || lasthop.run(["runs", "--format=json"]).ok().json()["runs"][0].clone();
    let listed = entry();
    assert_eq!(listed["state"], "complete", "{listed}");
    assert!(!listed["headline"].as_str().unwrap().is_empty(), "{listed}");
    fs::write(lasthop.runs().pop().unwrap().join("trials.jsonl"), "no trial\n").unwrap();
    assert_eq!(entry()["headline"], listed["headline"]);
    lasthop.run(["report", "last"]).fails(1, "trials.jsonl:1");
}

#[test]
fn runs_are_listed_for_programs_too() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let listed = lasthop.run(["runs", "--format=json"]).ok().json();
    let schema = schemars::schema_for!(lasthop_report::Runs).to_value();
    assert!(
        jsonschema::validator_for(&schema).unwrap().is_valid(&listed),
        "{listed}"
    );
    let run = &listed["runs"][0];
    let trials = lasthop.runs().pop().unwrap().join("trials.jsonl").metadata().unwrap();
    assert!(run["bytes"].as_u64() > Some(trials.len()), "{run}");
    assert!(run["is_own"] == true && run["state"] == "complete", "{run}");
    let name = run["run"].as_str().unwrap();
    let csv = lasthop.run(["runs", "--format=csv"]).ok().stdout;
    assert!(csv.starts_with("run,experiment,started,") && csv.contains(&format!("\r\n{name},sockets,20")));
    let markdown = lasthop.run(["runs", "--format=markdown"]).ok().stdout;
    assert!(markdown.contains("| run |") && markdown.contains(name), "{markdown}");
    lasthop
        .run(["runs", "--format=svg"])
        .fails(2, "use one of terminal, json, csv, markdown, html");
}

#[test]
fn a_run_is_removed_if_nobody_writes_it() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let done = lasthop.runs().pop().unwrap();
    lasthop
        .run(["runs", "--remove", "last"])
        .fails(1, "no terminal to ask on; add --yes");
    let copy = lasthop.home().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(done.join("run.json"), copy.join("run.json")).unwrap();
    lasthop
        .run(["runs", "--remove", "./copy", "--yes"])
        .fails(1, "remove it yourself");
    let mut going = lasthop.start(["run", "sockets", "--only", "pattern=echo", "--budget=60s"]);
    lasthop.wait_for_run(2);
    lasthop.wait_for_lines(1);
    let running = lasthop.runs().pop().unwrap();
    let name = running.file_name().unwrap().to_str().unwrap();
    lasthop
        .run(["runs", "--remove", name, "--yes"])
        .fails(1, "is being written");
    signal(&going, libc::SIGINT);
    going.wait().unwrap();
    assert_eq!(lasthop.runs(), [done.clone(), running.clone()]);
    let removed = lasthop.run(["runs", "--remove", name, "--yes"]).ok();
    assert!(removed.stderr.contains("removed 1 run, "), "{}", removed.stderr);
    assert_eq!(lasthop.runs(), [done]);
}

#[test]
fn a_line_without_end_is_named() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let path = lasthop.runs().pop().unwrap().join("trials.jsonl");
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_len(10 << 30)
        .unwrap();
    lasthop
        .run(["report", "last"])
        .fails(1, &format!("line {} is longer than", lines + 1));
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let run = lasthop.runs().pop().unwrap();
    for name in ["trials.jsonl", "end.json", "environment.json"] {
        let (path, aside) = (run.join(name), run.join("aside"));
        fs::rename(&path, &aside).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let said = format!("{}: it is not a regular file", path.display());
        lasthop
            .run(["report", run.file_name().unwrap().to_str().unwrap()])
            .fails(1, &said);
        let listed = lasthop.run(["runs"]).ok().stdout;
        assert_eq!(listed.contains("not a regular file"), name == "end.json", "{listed}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
}

/// What is made of cases takes time and memory for each pair of them.
#[test]
fn a_record_of_more_cases_than_a_run_has_is_refused() {
    let lasthop = Lasthop::new();
    lasthop.run(SHORT.split(' ')).ok();
    let path = lasthop.runs().pop().unwrap().join("run.json");
    let header: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let grow = |cases: usize| {
        let mut header = header.clone();
        let known = header["cases"].as_array_mut().unwrap();
        for number in known.len()..cases {
            let mut case = known[0].clone();
            case["case"] = format!("unix/number={number}").into();
            case["levels"]["number"] = number.into();
            known.push(case);
        }
        fs::write(&path, header.to_string()).unwrap();
    };
    let run = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let listed = || lasthop.run(["runs"]).ok().stdout;
    grow(2_000);
    assert!(!listed().contains("unreadable"), "{}", listed());
    for more in [2_001, 20_000] {
        grow(more);
        let said = format!("run.json: it has {more} cases, and no run has more than 2000");
        lasthop.run(["report", run]).fails(1, &said);
        lasthop.run(["show", run]).fails(1, &said);
        assert!(listed().contains("unreadable"), "{}", listed());
    }
}
