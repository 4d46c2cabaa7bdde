//! `lasthop load` and `lasthop run` side by side for a long time: memory and descriptors stay flat, and nothing is
//! lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    common::{Lasthop, signal},
    ended::finish,
    processes::{Role, of_run},
};

/// The most bytes of any process.
const MEMORY: u64 = 100_000_000;
/// The longest time for a report of a long run, on a busy machine.
const BOUND: Duration = Duration::from_secs(600);
/// The most growth of memory from the warm-up to the end, in bytes.
const GROWTH: f64 = 10e6;
/// Additional growth allowed for each trial of a run, in bytes.
const OF_A_TRIAL: f64 = 2e3;
/// The most growth in open descriptors: a round has more than the pause between two rounds.
const MORE_DESCRIPTORS: f64 = 5.0;
/// The share of the time after which memory must be flat.
const WARM_UP: f64 = 0.2;

/// A process at a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    seconds: f64,
    process: String,
    pid: i32,
    resident_bytes: u64,
    peak_bytes: u64,
    descriptors: usize,
}

/// Runs for this time, writes the samples into a file, and returns errors. A rate leaves CPU time to other work.
pub fn soak(time: Duration, rate: Option<u32>, data: &Path) -> Vec<String> {
    let lasthop = Lasthop::new();
    let socket = lasthop.home().join("echo");
    let seconds = format!("{}s", time.as_secs());
    let start = |mut command: Command, output: &str| {
        let file = |end: &str| fs::File::create(lasthop.home().join(format!("{output}.{end}"))).unwrap();
        command.stdout(file("json")).stderr(file("err")).spawn().unwrap()
    };
    // Without a rate the load never rests. A lower priority keeps CPU time for the run, as on a machine with more CPUs.
    let niceness = if rate.is_some() { "0" } else { "19" };
    let aside = |words: &[&str]| {
        let plain = lasthop.command(words);
        let mut command = Command::new("nice");
        command
            .args(["-n", niceness])
            .arg(plain.get_program())
            .args(words)
            .stdin(Stdio::null());
        command
    };
    let mut server = start(
        aside(&["serve", "--pattern", "echo", "--unix", socket.to_str().unwrap()]),
        "serve",
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "the server does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    let url = format!("echo+unix:{}", socket.display());
    let rate = rate.map(|rate| {
        [
            "--rate".to_owned(),
            rate.to_string(),
            "--spin".to_owned(),
            "0".to_owned(),
        ]
    });
    let mut words = vec!["load", &url, "-c", "10", "-d", &seconds, "--format", "json"];
    words.extend(rate.iter().flatten().map(String::as_str));
    let mut load = start(aside(&words), "load");
    let limits = ["--budget", &seconds, "--precision", "0.001%", "-q", "--format", "json"];
    let mut run = start(lasthop.command(["run", "sockets"].iter().chain(&limits)), "run");
    let samples = watch(&server, &mut load, &mut run, time, data);
    let codes = [&mut load, &mut run].map(|child| child.wait().unwrap().code());
    signal(&server, libc::SIGTERM);
    server.wait().unwrap();
    let mut wrong = Vec::new();
    if codes[0] != Some(0) || !matches!(codes[1], Some(0 | 1)) {
        let said = ["load.err", "run.err"].map(|name| fs::read_to_string(lasthop.home().join(name)).unwrap());
        wrong.push(format!("load and run ended with {codes:?}: {said:?}"));
    }
    wrong.extend(grown(&samples, time, trials(&lasthop)));
    wrong.extend(lost(&lasthop));
    wrong.extend(costly_reports(&lasthop));
    lasthop.wait_until_gone();
    wrong
}

/// Samples until both have ended; at least ten times, at most once a second.
fn watch(server: &Child, load: &mut Child, run: &mut Child, time: Duration, data: &Path) -> Vec<Sample> {
    let (begin, every) = (Instant::now(), (time / 360).max(Duration::from_secs(1)));
    let bound = time * 2 + Duration::from_secs(120);
    let mut writer = csv::Writer::from_path(data).unwrap();
    let mut samples = Vec::new();
    while load.try_wait().unwrap().is_none() | run.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < bound, "not over after {:?}", begin.elapsed());
        let id = run.id() as i32;
        let mut all = vec![("serve", server.id() as i32), ("load", load.id() as i32), ("run", id)];
        all.extend(of_run(id).into_iter().filter_map(|(role, pid)| match role {
            Role::Guard => Some(("guard", pid)),
            Role::Driver => Some(("driver", pid)),
            _ => None,
        }));
        for (process, pid) in all {
            if let Some(sample) = sample(begin.elapsed().as_secs_f64(), process, pid) {
                writer.serialize(&sample).unwrap();
                samples.push(sample);
            }
        }
        writer.flush().unwrap();
        thread::sleep(every);
    }
    samples
}

/// A sample of a process; `None` if it has ended.
fn sample(seconds: f64, process: &str, pid: i32) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
            .map(|kib| kib * 1024)
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Sample {
        seconds,
        process: process.to_owned(),
        pid,
        resident_bytes: bytes("VmRSS:")?,
        peak_bytes: bytes("VmHWM:")?,
        descriptors,
    })
}

/// Number of lines in the run's record.
fn trials(lasthop: &Lasthop) -> usize {
    let record = lasthop.runs().pop().expect("the run has a record");
    fs::read_to_string(record.join("trials.jsonl")).unwrap().lines().count()
}

fn grown(samples: &[Sample], time: Duration, trials: usize) -> Vec<String> {
    let names: BTreeSet<&str> = samples.iter().map(|sample| &sample.process[..]).collect();
    let mut wrong = Vec::new();
    for name in ["serve", "load", "run", "guard", "driver"] {
        if !names.contains(name) {
            wrong.push(format!("{name} was never seen"));
        }
    }
    for name in names {
        let all = || samples.iter().filter(|sample| sample.process == name);
        let peak = all().map(|sample| sample.peak_bytes).max().unwrap_or_default();
        if peak > MEMORY {
            wrong.push(format!("{name} needed {peak} bytes of memory, {MEMORY} are allowed"));
        }
        let settled = || all().filter(|sample| sample.seconds > time.as_secs_f64() * WARM_UP);
        let growth = |of: fn(&Sample) -> f64| growth(settled().map(|sample| (sample.seconds, of(sample))).collect());
        let memory = growth(|sample| sample.resident_bytes as f64);
        let kept = if name == "run" {
            OF_A_TRIAL * trials as f64 * (1.0 - WARM_UP)
        } else {
            0.0
        };
        if memory > GROWTH + kept {
            wrong.push(format!("the memory of {name} grew by {memory:.0} bytes"));
        }
        let descriptors = growth(|sample| sample.descriptors as f64);
        if descriptors > MORE_DESCRIPTORS {
            wrong.push(format!("the descriptors of {name} grew by {descriptors:.0}"));
        }
    }
    wrong
}

/// Growth along the line of least squares, from first to last point.
fn growth(points: Vec<(f64, f64)>) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (products, squares) = points.iter().fold((0.0, 0.0), |(products, squares), point| {
        (
            products + (point.0 - x) * (point.1 - y),
            squares + (point.0 - x).powi(2),
        )
    });
    let span = points.iter().map(|point| point.0).fold(0.0, f64::max) - points.first().map_or(0.0, |point| point.0);
    if squares > 0.0 { products / squares * span } else { 0.0 }
}

/// A table with a line for each process.
pub fn table(samples: &[Sample]) -> String {
    let end = samples.iter().map(|sample| sample.seconds).fold(0.0, f64::max);
    let mut text = format!(
        "{:.0} minutes.\n\n| process | samples | memory at the end of the warm-up, MB | at the end | most | descriptors |\n\
         |---|---:|---:|---:|---:|---:|\n",
        end / 60.0
    );
    for name in ["serve", "load", "run", "guard", "driver"] {
        let all: Vec<&Sample> = samples.iter().filter(|sample| sample.process == name).collect();
        let settled = all.iter().find(|sample| sample.seconds > end * WARM_UP);
        let (Some(settled), Some(last)) = (settled, all.last()) else {
            continue;
        };
        let descriptors = |pick: fn(usize, usize) -> usize| all.iter().map(|sample| sample.descriptors).reduce(pick);
        let _ = writeln!(
            text,
            "| {name} | {} | {:.1} | {:.1} | {:.1} | {} to {} |",
            all.len(),
            settled.resident_bytes as f64 / 1e6,
            last.resident_bytes as f64 / 1e6,
            all.iter().map(|sample| sample.peak_bytes).max().unwrap_or_default() as f64 / 1e6,
            descriptors(usize::min).unwrap_or_default(),
            descriptors(usize::max).unwrap_or_default(),
        );
    }
    text
}

/// Checks that every block of every round has a line for every case that did not fail, and that figures use all lines.
fn lost(lasthop: &Lasthop) -> Vec<String> {
    let mut wrong = Vec::new();
    let figures = |name: &str| -> Value {
        let text = fs::read_to_string(lasthop.home().join(format!("{name}.json"))).unwrap();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let (load, run) = (figures("load"), figures("run"));
    if load["errors"] != serde_json::json!({}) || load["requests"].as_u64().is_none_or(|requests| requests == 0) {
        wrong.push(format!(
            "load: {} requests, errors {}",
            load["requests"], load["errors"]
        ));
    }
    let record = lasthop.runs().pop().expect("the run has a record");
    let text = fs::read_to_string(record.join("trials.jsonl")).unwrap();
    let mut blocks = BTreeMap::<(u64, u64), BTreeSet<String>>::new();
    let mut failed = BTreeMap::<u64, BTreeSet<String>>::new();
    let mut trials = 0_u64;
    for line in text.lines() {
        let line: Value = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                wrong.push(format!("a line of the record is broken: {error}"));
                continue;
            }
        };
        let at = |kind: &str, key: &str| line[kind][key].as_u64().unwrap_or_default();
        if let Some(case) = line["trial"]["case"].as_str() {
            blocks
                .entry((at("trial", "round"), at("trial", "block")))
                .or_default()
                .insert(case.to_owned());
            trials += 1;
        }
        // On a busy machine a reply may time out. The case is then left out until the next round.
        if let Some(case) = line["failure"]["case"].as_str() {
            failed
                .entry(at("failure", "round"))
                .or_default()
                .insert(case.to_owned());
        }
    }
    let cases = run["cases"].as_array().map_or(0, Vec::len);
    // The budget may end the last block.
    blocks.pop_last();
    for ((round, block), measured) in blocks {
        let known = measured.union(failed.entry(round).or_default()).count();
        if known != cases {
            wrong.push(format!(
                "round {round}, block {block}: {known} of {cases} cases are on disk"
            ));
        }
    }
    let told = |case: &Value| case["trials"].as_u64().unwrap_or_default();
    let counted: u64 = run["cases"].as_array().into_iter().flatten().map(told).sum();
    if counted != trials || trials == 0 || run["complete"] != true {
        wrong.push(format!(
            "{trials} trials are on disk, {counted} are in the figures; complete: {}",
            run["complete"]
        ));
    }
    wrong
}

/// Errors if a report, or the list of runs, takes too many resources.
fn costly_reports(lasthop: &Lasthop) -> Vec<String> {
    let mut wrong = Vec::new();
    for words in [
        &["report", "last"][..],
        &["report", "last", "--format", "json"],
        &["runs"],
    ] {
        let ended = finish(&mut lasthop.command(words), &lasthop.home().join("report"), BOUND);
        if ended.code != Some(0) || ended.peak > MEMORY {
            wrong.push(format!("{words:?}: {}, {} bytes of memory", ended.shown(), ended.peak));
        }
    }
    wrong
}
