//! Another user of the machine, while root measures.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    time::Duration,
};

use lasthop_stats::random::Draws;

use crate::{
    arena::Arena,
    common::Ran,
    draw::pick,
    ended::{finish, short},
    kills::{SUBJECTS, Subject},
    tried::Tried,
};

const BOUND: Duration = Duration::from_secs(60);
/// A uid that is probably unused.
const USER: &str = "60125";

/// A script that tries whatever another user could do, and prints each success.
const TRY: &str = r#"
import glob, os, socket, struct, sys
sandboxes, run = sys.argv[1:]
def readable(path):
    try:
        open(path, "rb").close()
        return True
    except OSError:
        return False
def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []
for box in sys.stdin.read().split("\0"):
    kind, _, path = box.partition(" ")
    if kind == "file" and readable(path):
        print("reads", path)
    if kind == "folder" and listed(path):
        print("lists", path)
    if kind == "socket":
        try:
            socket.socket(socket.AF_UNIX).connect(path)
            print("connects to", path)
        except OSError:
            pass
def ask(port, bytes):
    try:
        peer = socket.create_connection(("127.0.0.1", port), 2)
        peer.settimeout(2)
        peer.sendall(bytes)
        return peer.recv(100)
    except OSError:
        return b""
for line in open("/proc/net/tcp").readlines()[1:]:
    words = line.split()
    if words[3] != "0A":
        continue
    port = int(words[1].split(":")[1], 16)
    for command in ["PING", "FLUSHALL", "REPLICAOF 127.0.0.1 1", "EVAL 1 0", "SAVE", "CONFIG GET dir"]:
        answer = ask(port, command.encode() + b"\r\n")
        if answer[:1] in (b"+", b"*", b"$", b":"):
            print("commands Redis:", command, answer)
    body = struct.pack("!i", 196608) + b"user\0lasthop\0database\0lasthop\0\0"
    answer = ask(port, struct.pack("!i", len(body) + 4) + body)
    if answer[:9] == b"R\0\0\0\x08\0\0\0\0":
        print("enters PostgreSQL without a password")
"#;

pub fn intrude(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let wanted = ["sockets", "redis", "postgres", "nginx-gunicorn"];
    let subjects: Vec<&Subject> = SUBJECTS
        .iter()
        .filter(|subject| wanted.contains(&subject.experiment))
        .collect();
    let subject = *pick(draws, &subjects);
    let mut tried = Tried::new(
        "neighbour",
        subject.name(),
        "another user looks, connects, commands and cleans",
    );
    // Opened, so that only the record's own mode keeps others out.
    let home = arena.world.lasthop.home().to_owned();
    for folder in [home.clone(), home.join("runs")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut words = subject.words(arena.world.engine);
    let blocks = words.iter().position(|word| *word == "--blocks").unwrap();
    words[blocks + 1] = "20";
    let mut command = arena.world.lasthop(&words);
    let run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    arena.world.lasthop.wait_for_lines(3);
    let let_in = attempt(arena);
    let let_in: Vec<&str> = let_in.lines().filter(|line| !is_harmless(line)).collect();
    for what in let_in.iter().take(10) {
        tried.wrong(format!("another user {what}"));
    }
    if let_in.len() > 10 {
        tried.wrong(format!("and {} more", let_in.len() - 10));
    }
    let cleaned = as_user(arena, &[env!("CARGO_BIN_EXE_lasthop"), "clean"]);
    tried.ended = format!("clean: {}", cleaned.shown());
    let ran = Ran::from(run.wait_with_output().unwrap());
    tried.ended += &format!(", run: exit {:?}", ran.code);
    if ran.code != Some(0) {
        tried.wrong(format!("the run was hurt: {}", short(ran.stderr.as_bytes())));
    }
    arena
        .world
        .lasthop
        .runs()
        .iter()
        .for_each(|run| fs::remove_dir_all(run).unwrap());
    // podman creates these folders for any user.
    arena
        .script(&format!("rm -rf /tmp/containers-user-{USER} /tmp/podman-run-{USER}"))
        .status()
        .unwrap();
    tried.left(arena.left(false));
    vec![tried]
}

/// Whether a success is harmless: other users may see which process is the guard, and that a folder is a sandbox.
fn is_harmless(line: &str) -> bool {
    line.starts_with("reads ")
        && ["/guard.json", "/lasthop-sandbox"]
            .iter()
            .any(|end| line.ends_with(end))
}

/// The successes of the other user, a line each.
fn attempt(arena: &Arena) -> String {
    let (sandboxes, run) = (
        arena.world.lasthop.sandboxes(),
        arena.world.lasthop.runs().pop().unwrap(),
    );
    let find = |kind: &str, word: &str| {
        format!(
            "find \"$LASTHOP_SANDBOX\"/* '{}' -type {kind} -printf '{word} %p\\0' 2>/dev/null;",
            run.display()
        )
    };
    let list = arena
        .script(
            &[
                find("f", "file"),
                find("d", "folder"),
                find("s", "socket"),
                "true".to_owned(),
            ]
            .concat(),
        )
        .output()
        .unwrap();
    let listed = arena.world.root().join("listed");
    fs::write(&listed, list.stdout).unwrap();
    let mut command = as_user_command(arena, &["/usr/bin/python3", "-c", TRY]);
    command.arg(sandboxes).arg(run).stdin(fs::File::open(&listed).unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn as_user(arena: &Arena, words: &[&str]) -> crate::ended::Ended {
    let mut command = as_user_command(arena, words);
    command
        .env("LASTHOP_HOME", "/tmp/nobody")
        .env("LASTHOP_SANDBOX", arena.world.lasthop.sandboxes());
    finish(&mut command, &arena.world.root().join("said"), BOUND)
}

fn as_user_command(arena: &Arena, words: &[&str]) -> Command {
    let mut command = arena.world.inside("setpriv");
    command
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .args(words);
    command
}
