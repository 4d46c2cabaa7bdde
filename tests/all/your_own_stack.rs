//! `docs/your-own-stack.md` is true: its files are written, its commands run, and what they print has the shape that the
//! page shows.

use crate::common;

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt as _, path::Path, process::Command};

use common::{Lasthop, have, needs, shows};
use regex::Regex;

/// A block of the page: its language, the file that it is, if it is one, and its text.
pub struct Fenced<'a> {
    pub language: &'a str,
    pub file: Option<&'a str>,
    pub text: &'a str,
}

pub fn fenced(page: &str) -> Vec<Fenced<'_>> {
    let form = Regex::new(r"(?m)^```(\w+)(?: (\S+))?\n((?s:.*?))^```$").unwrap();
    form.captures_iter(page)
        .map(|found| Fenced {
            language: found.get(1).unwrap().as_str(),
            file: found.get(2).map(|file| file.as_str()),
            text: found.get(3).unwrap().as_str(),
        })
        .collect()
}

/// The commands of a console with what each prints.
fn commands(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.split("   #").next().unwrap().to_owned(), String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output without a command: {line}"),
        }
    }
    all
}

/// Lines without what differs from run to run: figures, whether they are bounds, units of times, verdicts, the advice, and
/// layout.
fn shape(text: &str) -> Vec<String> {
    let figure = Regex::new(r"([≥≤] ?)?[0-9][0-9,.]*( → [0-9][0-9,.]*)?|–").unwrap();
    let unit = Regex::new(r"\b(ns|µs|ms)/req\b").unwrap();
    let verdict = Regex::new(r"\b(sure|no difference|undecided|perhaps: [a-zA-Z ]+)$").unwrap();
    let advice = Regex::new(r"^(Use|Perhaps|Stay|It|Undecided).*\.$").unwrap();
    // A long verdict leaves no room for the column of case names: its head is on a line of its own.
    let head = Regex::new(r"(?m)^( *instead of \S+)\n").unwrap();
    let text = head.replace_all(text, "$1 ");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let masked = lines.map(|line| {
        let line = advice.replace_all(line, "ADVICE");
        let line = unit.replace_all(&line, "TIME/req");
        let masked = verdict
            .replace_all(&figure.replace_all(&line, "#"), "VERDICT")
            .into_owned();
        masked.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    masked.collect()
}

/// Whether the printed lines are those of the page, where `…` stands for any number of them.
fn is_like(printed: &[String], shown: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((cut, rest)) if cut == "…" => (0..=printed.len()).any(|from| is_like(&printed[from..], rest)),
        Some((line, rest)) => printed.first() == Some(line) && is_like(&printed[1..], rest),
    }
}

/// Writes the files of a page, runs its commands, and counts these.
pub fn follow(page: &str, lasthop: &Lasthop) -> usize {
    replay(
        &fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap(),
        lasthop,
    )
}

/// The same with the text of a page.
pub fn replay(page: &str, lasthop: &Lasthop) -> usize {
    let bin = lasthop.home().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lasthop"), bin.join("lasthop")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // The shape needs no narrow interval.
    let budget = Regex::new(r"--budget \S+").unwrap();
    let mut ran = 0;
    for Fenced { language, file, text } in fenced(page) {
        if let Some(file) = file {
            fs::write(lasthop.home().join(file), text).unwrap();
        }
        for (command, shown) in if language == "console" {
            commands(text)
        } else {
            Vec::new()
        } {
            // What a run says while it goes on is for logs; the page shows what a terminal keeps.
            let goes_on = ["run", "compare", "load"].map(|name| command.starts_with(&format!("lasthop {name}")));
            let talk = if goes_on.contains(&true) { "" } else { "2>&1" };
            let command = budget.replace(&command, "--budget 6s");
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &format!("{{ {command}; }} {talk}")])
                .current_dir(lasthop.home())
                .env("PATH", &path);
            shell
                .env("LASTHOP_HOME", lasthop.home())
                .env("LASTHOP_SANDBOX", lasthop.sandboxes())
                .env("NO_COLOR", "1");
            shell.env_remove("GITHUB_STEP_SUMMARY");
            let printed = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            assert!(
                is_like(&shape(&printed), &shape(&shown)),
                "$ {command}\nprinted:\n{printed}\nthe page:\n{shown}"
            );
            ran += 1;
        }
    }
    ran
}

#[test]
fn the_page_is_what_happens() {
    needs!(have("node"), have("nginx"));
    let lasthop = Lasthop::new();
    assert_eq!(follow("docs/your-own-stack.md", &lasthop), 7, "commands");
    assert_eq!(
        fs::read_dir(lasthop.home().join("check/runs")).unwrap().count(),
        0,
        "a good check leaves no record"
    );
}

#[test]
fn a_check_finds_what_no_file_says() {
    needs!(have("python3"));
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let experiment = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&experiment).unwrap();
    fs::write(&experiment, text.replace("Hello there!", "Good day!")).unwrap();
    lasthop.run(["new", "--check", "./mine", "--no-run"]).ok();
    let ran = lasthop
        .run(["new", "--check", "./mine"])
        .fails(1, "0 of 2 cases answer correctly");
    shows(&ran.stdout, ["failed at verify", "Good day!"]);
}

#[test]
fn files_of_an_experiment_are_listed_and_printed_as_they_are() {
    let lasthop = Lasthop::new();
    let list = lasthop.run(["show", "nginx-gunicorn", "--files"]).ok().stdout;
    shows(&list, ["  nginx.conf.j2\n", "  services/nginx/recipe.toml\n"]);
    let both = ["nginx.conf.j2", "services/nginx/recipe.toml"];
    let printed = lasthop
        .run(["show", "nginx-gunicorn", "--files", both[0], both[1]])
        .ok()
        .stdout;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [
        root.join("experiments/nginx-gunicorn/nginx.conf.j2"),
        root.join(both[1]),
    ];
    assert_eq!(printed, files.map(|file| fs::read_to_string(file).unwrap()).concat());
}

#[test]
fn shapes_differ_where_more_than_figures_does() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        shape("  unix   1,990  65.5\n\n  tls  perhaps: one of many"),
        ["unix # #", "tls VERDICT"]
    );
    assert_eq!(
        shape("new/s  CPU µs/req\n2,030  ≥ 0.948  469 → 497"),
        shape("new/s  CPU ms/req\n1.2  1.01  –")
    );
    assert_eq!(
        shape("Use it.\na → b · 3 rounds, 9 blocks in 2 s\n  transport  x"),
        ["ADVICE", "a → b · # rounds, # blocks in # s", "transport x"]
    );
    assert!(is_like(&lines("a\nb\nc\nd"), &lines("a\n…\nd")) && is_like(&lines("a"), &lines("a\n…")));
    assert!(!is_like(&lines("a\nb"), &lines("a")) && !is_like(&lines("a"), &lines("…\nb")));
}

/// An application may have hundreds of megabytes of libraries.
#[test]
fn a_record_has_an_application_once() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    fs::write(lasthop.home().join("mine/app/library"), "library").unwrap();
    lasthop
        .run("run ./mine --rounds=2 --blocks=2 --trial=20ms --budget=60s -q".split(' '))
        .ok();
    let services = lasthop.runs().pop().unwrap().join("services");
    let copy = |place: &str| services.join(place).join("app/app/library").metadata().unwrap();
    let copies = ["0/0", "0/1", "1/0", "1/1"].map(copy);
    assert_eq!(copies.iter().map(|copy| copy.ino()).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(copies[0].nlink(), 4, "no running server had one of them");
}

#[test]
fn a_check_names_a_server_that_waits_for_delayed_acks() {
    const SERVER: &str = r#"
import socket, sys, threading

def talk(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        peer.sendall(b"Hello")

if sys.argv[1] == "unix":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()
else:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"#;
    const EXPERIMENT: &str = r#"
title = "Head and body apart"
question = "Does it wait?"

[link]
from = "driver"
to = "server"

[factors.transport]
help = "how clients connect"
levels = ["unix", "tcp"]
reference = "tcp"

[services.server]
command = ["python3", "app/server.py", "{{ listen }}"]
app = "app"
bind.unix.arguments = ["unix", "{{ listen.path }}"]
bind.tcp.arguments = ["tcp", "{{ listen.port }}"]

[load]
target = "server"
protocol = "http"

[load.http]
path = "/"
expect = { status = 200 }
"#;
    let lasthop = Lasthop::new();
    let stack = lasthop.home().join("stack");
    fs::create_dir_all(stack.join("app")).unwrap();
    fs::write(stack.join("app/server.py"), SERVER).unwrap();
    fs::write(stack.join("experiment.toml"), EXPERIMENT).unwrap();
    let checked = lasthop.run(["new", "--check", "./stack"]).ok();
    let note = "note: Nagle and delayed ACKs: ";
    assert!(checked.stderr.contains(note), "{}", checked.stderr);
}
