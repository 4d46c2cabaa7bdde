//! What killed runs have left is removed. Nothing else is, whatever it is called.

use crate::common;

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use common::{Lasthop, Ran, copy_with, output, shows, signal, words};
use tempfile::TempDir;

/// Two cases in trials of 10 ms.
const RUN: &str = "run sockets --only pattern=echo --only transport=unix,tcp --trial=10ms -q";

/// The three places where sandboxes may be, beside /tmp.
struct Places(TempDir);

impl Places {
    fn new() -> Self {
        let places = Self(tempfile::Builder::new().prefix("lhp").tempdir_in("/tmp").unwrap());
        for (_, folder) in places.all() {
            fs::create_dir(folder).unwrap();
        }
        places
    }

    fn all(&self) -> [(&'static str, PathBuf); 3] {
        ["TMPDIR", "XDG_RUNTIME_DIR", "LASTHOP_SANDBOX"].map(|name| (name, self.0.path().join(&name[..3])))
    }

    fn command(&self, lasthop: &Lasthop, arguments: &[&str]) -> Command {
        let mut command = lasthop.command(arguments);
        command.envs(self.all());
        command
    }

    fn run(&self, lasthop: &Lasthop, arguments: &[&str]) -> Ran {
        Ran::from(self.command(lasthop, arguments).output().unwrap())
    }
}

/// The sandbox of a run that was killed together with its guard, moved to nowhere: as it was left.
fn leave_a_sandbox(lasthop: &Lasthop, place: &Path) -> PathBuf {
    let mut child = {
        let mut command = lasthop.command(RUN.split(' ').chain(["--budget=60s"]));
        command.env("LASTHOP_SANDBOX", place).spawn().unwrap()
    };
    lasthop.wait_for_run(lasthop.runs().len() + 1);
    let is_sandbox = |path: &PathBuf| path.join("guard.json").exists();
    let made = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(is_sandbox)
        .unwrap();
    let guard: serde_json::Value = serde_json::from_slice(&fs::read(made.join("guard.json")).unwrap()).unwrap();
    let guard = guard["pid"].as_i64().unwrap() as i32;
    // SAFETY: the guard is the child of a child of this test, and stopped before its parent is killed: it lives.
    let kill = |signal| assert_eq!(unsafe { libc::kill(guard, signal) }, 0);
    kill(libc::SIGSTOP);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    kill(libc::SIGKILL);
    made
}

fn folder(path: PathBuf, mode: u32) -> PathBuf {
    DirBuilder::new().mode(mode).create(&path).unwrap();
    path
}

fn file(path: &Path, content: &[u8], mode: u32) {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .unwrap();
    file.write_all(content).unwrap();
}

fn copy(from: &Path, to: PathBuf) -> PathBuf {
    copy_with("-aT", from, &to);
    to
}

fn make_old(path: &Path) {
    File::open(path)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(3600))
        .unwrap();
}

/// What lasthop writes into the tag of a sandbox.
fn tag(sandbox: &Path) -> Vec<u8> {
    let text = "This is a sandbox of lasthop, which removes it with everything in it: ";
    format!("{text}{}\n", sandbox.display()).into_bytes()
}

/// A directory that is a sandbox in everything.
fn imitate(path: PathBuf) -> PathBuf {
    let path = folder(path, 0o700);
    file(&path.join("lock"), b"", 0o600);
    file(&path.join("sandbox.tag"), &tag(&path), 0o600);
    path
}

/// Fills a place with what is no sandbox, or not surely one, or not ours; yields what is named, and why.
fn fill(place: &Path, record: &Path, sandbox: &Path) -> Vec<(PathBuf, &'static str)> {
    const NAME: &str = "sandboxes do not have such names";
    const TAG: &str = "its file `sandbox.tag` is missing or was not written by lasthop";
    const LOCK: &str = "its file `lock` is missing or was not created by lasthop";
    const CONTENT: &str = "it contains more than an unfinished sandbox would";
    let at = |name: &str| place.join(name);
    let mut named = vec![
        (copy(record, at("lasthop-result")), TAG),
        (copy(record, at("lasthop-my-result")), NAME),
        (copy(sandbox, at("lasthop-copied")), TAG),
    ];
    let sources = folder(at("lasthop-src"), 0o755);
    file(&sources.join("lock"), b"", 0o644);
    named.push((sources, NAME));
    let open = imitate(at("lasthop-opened"));
    fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    named.push((open, TAG));
    let readable = imitate(at("lasthop-lentag"));
    fs::set_permissions(readable.join("sandbox.tag"), Permissions::from_mode(0o644)).unwrap();
    named.push((readable, TAG));
    let linked = imitate(at("lasthop-linked"));
    fs::rename(linked.join("sandbox.tag"), at("tag")).unwrap();
    symlink(at("tag"), linked.join("sandbox.tag")).unwrap();
    named.push((linked, TAG));
    let longer = imitate(at("lasthop-longer"));
    OpenOptions::new()
        .append(true)
        .open(longer.join("sandbox.tag"))
        .unwrap()
        .write_all(b"mine")
        .unwrap();
    named.push((longer, TAG));
    let without = imitate(at("lasthop-nolock"));
    fs::remove_file(without.join("lock")).unwrap();
    named.push((without, LOCK));
    let waiting = imitate(at("lasthop-fifofi"));
    fs::remove_file(waiting.join("lock")).unwrap();
    output(Command::new("mkfifo").args(["-m", "600"]).arg(waiting.join("lock")));
    named.push((waiting, LOCK));
    let notes = folder(at(".lasthop-my-notes"), 0o755);
    make_old(&notes);
    named.push((notes, NAME));
    let begun = folder(at(".lasthop-begunx"), 0o700);
    file(&begun.join("lock"), b"", 0o600);
    file(&begun.join("notes"), b"mine", 0o600);
    make_old(&begun);
    named.push((begun, CONTENT));
    let written = folder(at(".lasthop-mylock"), 0o700);
    file(&written.join("lock"), b"mine", 0o600);
    make_old(&written);
    named.push((written, CONTENT));

    fill_silently(place, &at("lasthop-result"));
    named
}

/// What is not even named: it is not like a sandbox, another user's, or just being made.
fn fill_silently(place: &Path, folder_of_mine: &Path) {
    let at = |name: &str| place.join(name);
    symlink(folder_of_mine, at("lasthop-symbol")).unwrap();
    file(&at("lasthop-nofold"), b"mine", 0o600);
    folder(at("lasthop-work"), 0o755);
    folder(at(".lasthop-making"), 0o700);
    if rustix::process::geteuid().is_root() {
        let other = imitate(at("lasthop-others"));
        for path in [other.join("lock"), other.join("sandbox.tag"), other] {
            chown(path, Some(65534), Some(65534)).unwrap();
        }
    }
}

/// Everything below a folder: what it is, and its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u64, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        if metadata.is_dir() {
            all.extend(contents(&path));
        }
        all.insert(path, (metadata.ino(), metadata.mode(), content));
    }
    all
}

#[test]
fn nothing_of_the_users_is_removed_by_any_command() {
    let lasthop = Lasthop::new();
    let mut child = lasthop.start(RUN.split(' ').chain(["--rounds=1000", "--budget=60s"]));
    lasthop.wait_for_lines(5);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    lasthop.wait_until_gone();
    let record = lasthop.runs().pop().unwrap();
    let sandbox = leave_a_sandbox(&lasthop, lasthop.sandboxes());
    let places = Places::new();
    let mut named = Vec::new();
    for (_, place) in places.all() {
        named.extend(fill(&place, &record, &sandbox));
    }
    let before = contents(places.0.path());

    let said = places.run(&lasthop, &["clean"]).ok().stderr;
    for (path, why) in &named {
        let line = format!("not removed: {} may be yours, because {why}\n", path.display());
        assert!(said.contains(&line), "{line} is not in:\n{said}");
    }
    assert_eq!(
        said.matches(&places.0.path().display().to_string()).count(),
        named.len(),
        "{said}"
    );
    assert_eq!(contents(places.0.path()), before);

    let record = record.to_str().unwrap();
    let short = RUN.split(' ').chain(["--budget=1s"]).collect::<Vec<_>>();
    let repro = words("repro myhro-2017-sockets -q --program python-sockets=/nowhere");
    for command in [&short[..], &["resume", record, "--budget", "1s", "-q"], &repro[..]] {
        let ran = places.run(&lasthop, command);
        let of_repro = command[0] == "repro";
        assert!(of_repro || ran.code == Some(0), "{command:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("not removed, because it may not be lasthop's: "),
            "{command:?}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains(" more (`lasthop clean` explains)\n"),
            "{command:?}: {}",
            ran.stderr
        );
        assert_eq!(contents(places.0.path()), before, "{command:?}");
    }
    let said = lasthop.run(["clean"]).ok().stderr;
    shows(&said, [&format!("removed {} and ended ", sandbox.display())]);
}

#[test]
fn what_killed_runs_left_is_removed_in_every_place() {
    let lasthop = Lasthop::new();
    let places = Places::new();
    for (name, place) in places.all() {
        let sandbox = leave_a_sandbox(&lasthop, &place);
        assert_eq!(sandbox.join("lock").metadata().unwrap().mode() & 0o777, 0o600);
        let living = imitate(place.join("lasthop-living"));
        let lock = File::open(living.join("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
        // Cut short when it was made, and when it was removed.
        for (name, content) in [("abcdef", 0), ("bcdefg", 12), ("cdefgh", 1000)] {
            let unfinished = folder(place.join(format!(".lasthop-{name}")), 0o700);
            file(&unfinished.join("lock"), b"", 0o600);
            let tag = tag(&place.join(format!("lasthop-{name}")));
            file(&unfinished.join("sandbox.tag"), &tag[..content.min(tag.len())], 0o600);
            make_old(&unfinished);
        }
        make_old(&folder(place.join(".lasthop-defghi"), 0o700));
        let said = places.run(&lasthop, &["clean"]).ok().stderr;
        assert!(
            said.contains(&format!("removed {} and ended ", sandbox.display())),
            "{name}: {said}"
        );
        let left: Vec<PathBuf> = fs::read_dir(&place)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(left, [living], "{name}: {said}");
    }
}

/// Answers as Docker's client does with three containers; says which of them it was told to remove.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >>"HERE/asked"
case "$1 $2" in
"info --format") echo "20.10.24 []" ;;
"ps --all") case "$*" in
    *label=lasthop.owner=*) echo gone unseen foreign ;;
    *label=lasthop.sandbox=HERE/gone/lasthop-abcdef) grep -q "^rm .*gone" "HERE/asked" || echo gone ;;
    *label=lasthop.sandbox=HERE/unseen/lasthop-abcdef) echo unseen ;;
    *label=lasthop.sandbox=relative) echo foreign ;;
    esac ;;
"container inspect") case "$*" in
    *gone) echo HERE/gone/lasthop-abcdef ;;
    *unseen) echo HERE/unseen/lasthop-abcdef ;;
    *foreign) echo relative ;;
    esac ;;
esac
"#;

#[test]
fn containers_are_removed_only_where_it_is_known_that_their_sandbox_is_gone() {
    let lasthop = Lasthop::new();
    let here = TempDir::new().unwrap();
    // Nobody can look into a link to itself; for others than root a closed folder is the same.
    symlink(here.path().join("unseen"), here.path().join("unseen")).unwrap();
    file(
        &here.path().join("docker"),
        DOCKER.replace("HERE", here.path().to_str().unwrap()).as_bytes(),
        0o755,
    );
    let path = format!("{}:/usr/bin:/bin", here.path().display());
    let said = Ran::from(lasthop.command(["clean"]).env("PATH", path).output().unwrap())
        .ok()
        .stderr;
    assert!(
        said.contains("docker: removed what runs without a sandbox left behind, 1 container\n"),
        "{said}"
    );
    let asked = fs::read_to_string(here.path().join("asked")).unwrap();
    let removed: Vec<&str> = asked.lines().filter(|line| line.starts_with("rm ")).collect();
    assert_eq!(removed, ["rm --force --volumes gone"], "{asked}");
    let user = rustix::process::geteuid().as_raw();
    let whose = format!("ps --all --quiet --filter label=lasthop.owner={user}@");
    assert!(
        asked.lines().any(|line| line.starts_with(&whose)),
        "only what is this user's is looked at:\n{asked}"
    );
}
