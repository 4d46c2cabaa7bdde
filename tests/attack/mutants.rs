//! Randomly changed records and experiments.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_stats::random::Draws;

use crate::{
    arena::Arena,
    common::copy,
    draw::{between, pick},
    ended::finish,
    kills::SUBJECTS,
    tried::Tried,
};

/// The longest time for a command on a busy machine.
const BOUND: Duration = Duration::from_secs(60);
const MEMORY: u64 = 500_000_000;
/// Mutants per step.
const MUTANTS: u32 = 4;

/// Replacements for numbers and strings, as JSON and TOML write them.
const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "18446744073709551616",
    "9223372036854775807",
    "1e308",
    "1e-320",
    "4294967296",
    "null",
    "[]",
];
const WORDS: [&str; 12] = [
    r"\u001b]0;PWNED\u0007\u001b[2J",
    r"\u009b31m\u202etxt",
    r"\nerror: forged",
    "",
    "../../../../etc/passwd",
    "/etc/shadow",
    "-oDPkg::Pre-Invoke::=touch /tmp/canary",
    "$(touch /tmp/canary)",
    "{{ 1 / 0 }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
    "=HYPERLINK(1)",
    "netns:new",
];

/// Makes one random change.
fn mutate(mut bytes: Vec<u8>, draws: &mut Draws) -> Vec<u8> {
    if bytes.is_empty() {
        return vec![b'{'];
    }
    let at = draws.below(bytes.len() as u32) as usize;
    let until = (at + 1 + draws.below(40) as usize).min(bytes.len());
    match draws.below(9) {
        0 => bytes[at] ^= 1 << draws.below(8),
        1 => drop(bytes.drain(at..until)),
        2 => drop(bytes.splice(at..at, bytes[at..until].to_vec())),
        3 => bytes.truncate(at),
        4 => drop(bytes.splice(at..at, [0xff, 0xc3, 0x28, 0])),
        5 => drop(bytes.splice(at..at, "[".repeat(100_000).into_bytes())),
        6 => return swap_lines(&bytes, draws),
        7 => replace(&mut bytes, at, u8::is_ascii_digit, pick::<&str>(draws, &NUMBERS)),
        _ => replace(
            &mut bytes,
            at,
            |byte| *byte != b'"' && *byte != b'\n',
            pick::<&str>(draws, &WORDS),
        ),
    }
    bytes
}

/// Replaces the next run of matching bytes.
fn replace(bytes: &mut Vec<u8>, at: usize, is: fn(&u8) -> bool, with: &str) {
    let Some(begin) = (at..bytes.len()).find(|at| is(&bytes[*at])) else {
        return;
    };
    let start = (0..begin)
        .rev()
        .take_while(|at| is(&bytes[*at]))
        .last()
        .unwrap_or(begin);
    let end = (begin..bytes.len()).find(|at| !is(&bytes[*at])).unwrap_or(bytes.len());
    bytes.splice(start..end, with.bytes());
}

fn swap_lines(bytes: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, other) = (
        draws.below(lines.len() as u32) as usize,
        draws.below(lines.len() as u32) as usize,
    );
    lines.swap(one, other);
    lines.concat()
}

/// Changes a file of a folder a few times.
fn mutate_in(folder: &Path, files: &[PathBuf], draws: &mut Draws) -> String {
    let file = pick(draws, files);
    let times = between(draws, 1, 3);
    let mut bytes = fs::read(folder.join(file)).unwrap();
    for _ in 0..times {
        bytes = mutate(bytes, draws);
    }
    fs::write(folder.join(file), bytes).unwrap();
    format!("{}, {times} times", file.display())
}

pub fn records(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let runs = arena.world.lasthop.home().join("runs");
    arena.world.run(&SUBJECTS[0].words(arena.world.engine)).ok();
    let made = arena.world.lasthop.runs().pop().unwrap();
    let kept = arena.world.root().join("kept");
    fs::rename(&made, &kept).unwrap();
    let files = ["run.json", "environment.json", "trials.jsonl", "end.json"].map(PathBuf::from);
    let one = |_| {
        copy(&kept, &made);
        let mut tried = Tried::new("record", "sockets", mutate_in(&made, &files, draws));
        for words in [
            &["report", "last"][..],
            &["report", "last", "--format", "json"],
            &["report", "last", "--format", "csv"],
            &["report", "last", "--format", "markdown"],
            &["show", "last"],
            &["runs"],
            &["resume", "last", "--budget", "1s", "-q"],
        ] {
            command(arena, words, &mut tried);
        }
        fs::remove_dir_all(&made).unwrap();
        tried
    };
    let mut all: Vec<Tried> = (0..MUTANTS).map(one).collect();
    fs::remove_dir_all(kept).unwrap();
    fs::remove_dir_all(&runs).unwrap();
    fs::create_dir(&runs).unwrap();
    all.last_mut().unwrap().left(arena.left(false));
    all
}

pub fn experiments(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mine = arena.world.lasthop.home().join("mine");
    let one = |_| {
        let subject = pick(draws, &SUBJECTS).experiment;
        copy(&built_in.join(subject), &mine);
        let files: Vec<PathBuf> = files_of(&mine);
        // All else follows from the definition, so it is changed half of the time.
        let files = if draws.below(2) == 0 {
            vec![PathBuf::from("experiment.toml")]
        } else {
            files
        };
        let mut tried = Tried::new("experiment", subject, mutate_in(&mine, &files, draws));
        let at = mine.to_str().unwrap();
        command(arena, &["show", at], &mut tried);
        command(arena, &["setup", at, "--dry-run"], &mut tried);
        if subject == "sockets" {
            command(
                arena,
                &["run", at, "--rounds", "1", "--blocks", "1", "--budget", "2s", "-q"],
                &mut tried,
            );
        }
        fs::remove_dir_all(&mine).unwrap();
        tried
    };
    let mut all: Vec<Tried> = (0..MUTANTS).map(one).collect();
    let runs = arena.world.lasthop.runs();
    runs.iter().for_each(|run| fs::remove_dir_all(run).unwrap());
    all.last_mut().unwrap().left(arena.left(false));
    all
}

fn command(arena: &Arena, words: &[&str], tried: &mut Tried) {
    let mut own = Tried::default();
    let ended = finish(&mut arena.world.lasthop(words), &arena.world.root().join("said"), BOUND);
    ended.judge(&mut own, MEMORY);
    if !own.wrong.is_empty() {
        tried.wrong(format!("{words:?}: {}", own.wrong));
    }
    if arena.at("/tmp/canary").exists() {
        tried.wrong(format!("{words:?} ran a command of the mutant"));
        fs::remove_file(arena.at("/tmp/canary")).unwrap();
    }
    let code = ended.code.map_or_else(|| ended.shown(), |code| code.to_string());
    tried.ended += &format!("{}{} {code}", if tried.ended.is_empty() { "" } else { ", " }, words[0]);
}

/// All files below a folder, as relative paths.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = PathBuf::from(entry.file_name());
        if entry.path().is_dir() {
            files.extend(files_of(&entry.path()).into_iter().map(|file| name.join(file)));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}
