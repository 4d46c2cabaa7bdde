//! Processes of the servers' account that exchange files for their own links, pipes, programs and sockets, during whole
//! runs. Nothing outside may change, none of their programs may run as another account, no process may be led to a
//! socket of root, and no trial may count replies of anyone but the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use jiff::Timestamp;
use lasthop_stats::random::Draws;
use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    arena::Arena,
    common::{NOBODY, engines::have_engine, have, have_python, needs},
    ended::{finish, short},
    kills::{SUBJECTS, Subject, forget},
    tried::Tried,
};

/// A long time: racers take CPUs, and services that fail take their time.
const BOUND: Duration = Duration::from_secs(900);

/// Number of racers. The last tries ports; each of the others exchanges the files of a share of the services.
const RACERS: usize = 3;

/// The content of root's files, which no record may contain.
const SECRET: &str = "root's own, which nobody may read";

/// A user's own experiment.
struct Own {
    name: &'static str,
    /// Additional options of `lasthop new`.
    words: &'static str,
    /// A replacement in the experiment's file.
    change: (&'static str, &'static str),
}

const OWN: [Own; 3] = [
    Own {
        name: "own-driver",
        words: "--driver",
        change: ("", ""),
    },
    Own {
        name: "own-driver-of-node",
        words: "--driver",
        change: (
            r#"["python3", "{{ server.directory }}/app/driver.py"]"#,
            r#"["node", "{{ server.directory }}/app/driver.mjs"]"#,
        ),
    },
    // Each request connects, and could be led elsewhere.
    Own {
        name: "own-connections",
        words: "",
        change: (r#"reuse = "keep-alive""#, r#"reuse = "per-request""#),
    },
];

impl Own {
    /// Creates the experiment if it does not exist, and returns the words of its run.
    fn words(&self, arena: &Arena) -> Vec<String> {
        let folder = arena.world.root().join(self.name);
        if !folder.exists() {
            let root = arena.world.root().display();
            let made = arena
                .script(&format!("cd {root} && $1 new {} {}", self.name, self.words))
                .status();
            assert!(made.unwrap().success());
            let file = folder.join("experiment.toml");
            let text = fs::read_to_string(&file).unwrap();
            let (from, to) = self.change;
            assert!(text.contains(from), "`{from}` is not in:\n{text}");
            fs::write(&file, text.replace(from, to)).unwrap();
        }
        ["run", folder.to_str().unwrap(), "--no-headroom", "-q"]
            .map(str::to_owned)
            .to_vec()
    }
}

/// The words of a run of a built-in experiment.
fn words(arena: &Arena, subject: &Subject) -> Vec<String> {
    let words = subject.words(arena.world.engine);
    words.into_iter().map(str::to_owned).collect()
}

/// Races against a random experiment.
pub fn race(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let chosen = draws.below((SUBJECTS.len() + OWN.len()) as u32) as usize;
    let (name, words) = SUBJECTS.get(chosen).map_or_else(
        || {
            let own = &OWN[chosen - SUBJECTS.len()];
            (own.name.to_owned(), own.words(arena))
        },
        |subject| (subject.name(), words(arena, subject)),
    );
    let (tried, _) = one(arena, &name, words, u64::from(draws.below(u32::MAX)));
    vec![tried]
}

/// Runs of an experiment, because a run whose servers fail to start ends early.
const RUNS: usize = 3;
/// Length of each run. With many short trials, exchanges always hit some of them.
const LENGTH: [&str; 4] = ["--rounds=4", "--blocks=6", "--trial=50ms", "--budget=600s"];

/// Runs during a race, and the results of both.
fn one(arena: &mut Arena, name: &str, mut words: Vec<String>, seed: u64) -> (Tried, Raced) {
    for option in LENGTH.map(|word| word.split_once('=').unwrap().0) {
        if let Some(at) = words.iter().position(|word| word == option) {
            words.drain(at..at + 2);
        }
    }
    words.extend(LENGTH.map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut tried = Tried::new(
        "race",
        name,
        format!("the servers' account exchanges what it can, {RUNS} runs"),
    );
    let race = Race::start(arena, seed);
    let mut ends = Vec::new();
    for _ in 0..RUNS {
        let ended = finish(
            &mut arena.world.lasthop(&words),
            &arena.world.root().join("said"),
            BOUND,
        );
        // A server that finds an empty folder does not start, which harms only the account itself.
        if !matches!(ended.code, Some(0 | 1)) {
            tried.wrong(format!("{}: {}", ended.shown(), short(&ended.stderr)));
        }
        ends.push(ended.shown());
    }
    let raced = race.judge(&arena.world.lasthop.runs());
    tried.ended = format!(
        "{}; {} correct replies counted, {}",
        ends.join(", "),
        raced.counted,
        raced.shown()
    );
    for wrong in &raced.wrong {
        tried.wrong(wrong);
    }
    forget(arena);
    tried.left(arena.left(words.contains(&"--engine")));
    (tried, raced)
}

/// A race that lasts until it is judged.
struct Race {
    /// Root's `folder`, `file` and `closed`, a folder of sockets; and the account's own `marks`.
    place: TempDir,
    before: BTreeSet<String>,
    racers: Vec<Child>,
    over: Arc<AtomicBool>,
    telling: Option<JoinHandle<()>>,
    /// Counts connections to root's sockets.
    listening: Option<JoinHandle<BTreeMap<String, u64>>>,
}

/// The results of a race.
#[derive(Debug, Default)]
struct Raced {
    done: BTreeMap<String, u64>,
    /// Correct replies in all trials of the record.
    counted: u64,
    wrong: Vec<String>,
}

/// A racer's output at its end.
#[derive(Deserialize)]
struct Said {
    done: BTreeMap<String, u64>,
    /// Connections that the racer passed on: source, millisecond since 1970, count.
    passed: Vec<(String, i64, u64)>,
}

impl Race {
    fn start(arena: &Arena, seed: u64) -> Self {
        let place = tempfile::Builder::new()
            .prefix("race")
            .tempdir_in(arena.world.root())
            .unwrap();
        let at = |name: &str| place.path().join(name);
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for (name, open) in [("", 0o755), ("folder", 0o755), ("closed", 0o700), ("marks", 0o1777)] {
            let folder = at(name);
            fs::create_dir_all(&folder).unwrap();
            mode(&folder, open);
        }
        for name in ["file", "folder/file", "folder/key.pem"] {
            fs::write(at(name), SECRET).unwrap();
            mode(&at(name), 0o600);
        }
        let sockets = [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET].map(|kind| {
            let path = at("closed").join(kind.as_raw().to_string());
            let socket = rustix::net::socket_with(
                AddressFamily::UNIX,
                kind,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
            if kind != SocketType::DGRAM {
                rustix::net::listen(&socket, 128).unwrap();
            }
            mode(&path, 0o600);
            socket
        });
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let listening = thread::spawn(move || met(&sockets, &is_over));
        let user = NOBODY.to_string();
        let racer = |number: usize| {
            let (role, share) = match RACERS - 1 {
                ports if number == ports => ("ports", "0/1".to_owned()),
                files => ("files", format!("{number}/{files}")),
            };
            let mut command = arena.world.inside("setpriv");
            command
                .args([
                    "--reuid",
                    &user,
                    "--regid",
                    &user,
                    "--clear-groups",
                    "/usr/bin/python3",
                    "-I",
                    "-c",
                ])
                .arg(include_str!("race.py"))
                .args([role, &format!("{}", seed + number as u64), &share])
                .args(["folder", "file", "closed", "marks"].map(at))
                .args(rendered())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut racers: Vec<Child> = (0..RACERS).map(racer).collect();
        let mut inputs: Vec<_> = racers.iter_mut().map(|racer| racer.stdin.take().unwrap()).collect();
        let (is_over, sandboxes) = (Arc::clone(&over), arena.world.lasthop.sandboxes().to_owned());
        let telling = thread::spawn(move || {
            let mut told = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                let now = places(&sandboxes);
                let new: String = now
                    .difference(&told)
                    .map(|path| format!("{}\n", path.display()))
                    .collect();
                for input in &mut inputs {
                    // A racer that died is detected at the end.
                    let _ = input.write_all(new.as_bytes());
                }
                told = now;
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            before: state(&[at("file"), at("folder"), at("closed")]),
            place,
            racers,
            over,
            telling: Some(telling),
            listening: Some(listening),
        }
    }

    /// Ends and judges the race.
    fn judge(mut self, records: &[PathBuf]) -> Raced {
        self.over.store(true, Ordering::Relaxed);
        self.telling.take().unwrap().join().unwrap();
        let mut raced = Raced::default();
        let mut passed = Vec::new();
        for racer in std::mem::take(&mut self.racers) {
            let output = racer.wait_with_output().unwrap();
            let said: Said = serde_json::from_slice(&output.stdout).expect("a racer says what it did");
            for (what, times) in said.done {
                *raced.done.entry(what).or_default() += times;
            }
            passed.extend(said.passed);
        }
        let mut wrong = Vec::new();
        for what in raced.done.keys().filter(|what| what.contains(": ")) {
            wrong.push(format!("the account can change what is root's: {what}"));
        }
        let at = |name: &str| self.place.path().join(name);
        let after = state(&[at("file"), at("folder"), at("closed")]);
        wrong.extend(
            self.before
                .symmetric_difference(&after)
                .map(|one| format!("outside of the sandbox: {one}")),
        );
        for mark in names(&at("marks")) {
            let user = at("marks").join(&mark).metadata().unwrap().uid();
            *raced.done.entry("own programs run".to_owned()).or_default() += 1;
            if user != NOBODY {
                wrong.push(format!(
                    "user {user} ran a program of the account's in the place of {mark}"
                ));
            }
        }
        for (who, times) in self.listening.take().unwrap().join().unwrap() {
            wrong.push(format!("{who} came to root's socket, {times} times"));
        }
        for record in records {
            let (counted, strange) = counted(record, &passed);
            raced.counted += counted;
            wrong.extend(strange);
            wrong.extend(files(record).into_iter().filter(|file| holds_secret(file)).map(|file| {
                format!(
                    "root's secret is in the record: {}",
                    file.strip_prefix(record).unwrap().display()
                )
            }));
        }
        *raced.done.entry("requests passed on".to_owned()).or_default() +=
            passed.iter().map(|(.., times)| times).sum::<u64>();
        raced.wrong = wrong;
        raced
    }
}

impl Raced {
    fn shown(&self) -> String {
        let done: Vec<String> = self
            .done
            .iter()
            .map(|(what, times)| format!("{times} {what}"))
            .collect();
        done.join(", ")
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for racer in &mut self.racers {
            let _ = racer.kill();
            let _ = racer.wait();
        }
    }
}

/// Counts connections to these sockets by user, and datagrams, until the race is over. A connection gets a text that a
/// client might take for a reply, and is closed.
fn met(sockets: &[OwnedFd], is_over: &AtomicBool) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::<String, u64>::new();
    while !is_over.load(Ordering::Relaxed) {
        for socket in sockets {
            let mut one = |who: String| *all.entry(who).or_default() += 1;
            match rustix::net::accept(socket) {
                Ok(client) => {
                    one(format!("user {}", sockopt::socket_peercred(&client).unwrap().uid));
                    let _ = rustix::net::send(&client, b"Hello there!", SendFlags::NOSIGNAL);
                }
                Err(Errno::AGAIN) => {}
                // The datagram socket accepts no connections.
                Err(Errno::OPNOTSUPP) => {
                    if rustix::net::recv(socket, &mut [0; 16], RecvFlags::empty()).is_ok() {
                        one("a datagram".to_owned());
                    }
                }
                Err(error) => panic!("root's socket: {error}"),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    all
}

/// The number of correct replies in a record's trials, and those trials during which a racer passed on connections.
fn counted(record: &Path, passed: &[(String, i64, u64)]) -> (u64, Vec<String>) {
    let read = |name: &str| fs::read_to_string(record.join(name)).unwrap_or_default();
    let header: Value = serde_json::from_str(&read("run.json")).unwrap_or_default();
    let Some(started) = header["started"]
        .as_str()
        .map(|text| text.parse::<Timestamp>().unwrap())
    else {
        return (0, Vec::new());
    };
    let (mut all, mut wrong) = (0, Vec::new());
    for line in read("trials.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let trial = &line["trial"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let requests = number(&trial["result"]["requests"]);
        all += requests;
        // Caddy shares its port with every process of its account, as SECURITY.md says.
        let is_shared = trial["case"].as_str().is_some_and(|case| case.contains("front=caddy"));
        if requests == 0 || is_shared {
            continue;
        }
        // Both clocks agree within a few milliseconds. The warm-up comes before, so this range lies within the load.
        let begin = started.as_millisecond() + (number(&trial["at_ns"]) / 1_000_000) as i64 + 5;
        let end = begin + (number(&trial["result"]["elapsed_ns"]) / 1_000_000) as i64 - 5;
        let mut by = BTreeMap::<&str, u64>::new();
        for (place, _, times) in passed.iter().filter(|(_, at, _)| (begin..end).contains(at)) {
            *by.entry(place).or_default() += times;
        }
        let all_of_it: Vec<String> = by.iter().map(|(place, times)| format!("{times} of {place}")).collect();
        if !by.is_empty() {
            wrong.push(format!(
                "{requests} requests are counted in round {} of {}, with what a stranger answered: {}",
                trial["round"],
                trial["case"],
                all_of_it.join(", ")
            ));
        }
    }
    // One of many similar messages is enough.
    let more = wrong.len().saturating_sub(1);
    wrong.truncate(1);
    wrong.extend((more > 0).then(|| format!("and {more} more trials of this run")));
    (all, wrong)
}

/// Names of files that recipes and experiments render.
fn rendered() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        ["services", "experiments"].map(|kind| names(&root.join(kind)).map(move |name| root.join(kind).join(name)));
    let files = folders
        .into_iter()
        .flatten()
        .flat_map(|folder| names(&folder).collect::<Vec<_>>());
    files.map(|name| name.trim_end_matches(".j2").to_owned()).collect()
}

/// Places to tell the racers, as seen by root. The account itself would learn them from its own processes, or guess. A
/// racer sees the content of the account's folders by itself.
fn places(sandboxes: &Path) -> BTreeSet<PathBuf> {
    const DEEP: usize = 5;
    let (mut all, mut folders) = (BTreeSet::new(), vec![(sandboxes.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for path in names(&folder).map(|name| folder.join(name)) {
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_dir() && found.uid() != NOBODY && depth + 1 < DEEP {
                folders.push((path.clone(), depth + 1));
            }
            all.insert(path);
        }
    }
    all
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Files below a folder, without following links.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut all, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in names(&folder).map(|name| folder.join(name)) {
            match path.symlink_metadata().unwrap().file_type() {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() => all.push(path),
                _ => {}
            }
        }
    }
    all
}

fn holds_secret(file: &Path) -> bool {
    let text = fs::read(file).unwrap();
    text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

/// Mode, user, time of change and content of everything below these paths.
fn state(paths: &[PathBuf]) -> BTreeSet<String> {
    let (mut all, mut left) = (BTreeSet::new(), paths.to_vec());
    while let Some(path) = left.pop() {
        let found = path.symlink_metadata().unwrap();
        let text = if found.is_file() {
            fs::read_to_string(&path).unwrap()
        } else {
            String::new()
        };
        let (mode, user, changed) = (found.mode(), found.uid(), (found.ctime(), found.ctime_nsec()));
        all.insert(format!(
            "{}: mode {mode:o}, user {user}, changed {changed:?}, `{text}`",
            path.display()
        ));
        if found.is_dir() {
            left.extend(names(&path).map(|name| path.join(name)));
        }
    }
    all
}

/// Exchanges by the servers' account lead nowhere. A failed run is no harm.
#[test]
fn what_the_servers_account_exchanges_leads_nowhere() {
    const WANTED: [(&str, &str); 3] = [
        ("sockets", "implementation=python"),
        ("redis", ""),
        ("nginx-gunicorn", ""),
    ];
    needs!(
        have_engine("podman"),
        have("redis-server"),
        have("nginx"),
        have_python("nginx-gunicorn")
    );
    let mut arena = Arena::new("podman");
    let subject = |(name, argument): &(&str, &str)| {
        let is_it = |subject: &&Subject| subject.experiment == *name && (argument.is_empty() || subject.has(argument));
        let subject = SUBJECTS.iter().find(is_it).unwrap();
        (subject.name(), words(&arena, subject))
    };
    let mut all: Vec<(String, Vec<String>)> = WANTED.iter().map(subject).collect();
    let own = [&OWN[0], &OWN[2]].map(|own| (own.name.to_owned(), own.words(&arena)));
    all.extend(own);
    let (mut done, mut wrong) = (BTreeMap::<String, u64>::new(), Vec::new());
    for (seed, (name, words)) in (1..).zip(all) {
        let (tried, raced) = one(&mut arena, &name, words, seed);
        assert!(raced.counted > 0, "nothing was measured: {}", tried.line());
        wrong.extend((!tried.wrong.is_empty()).then(|| tried.line()));
        for (what, times) in raced.done {
            *done.entry(what).or_default() += times;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for what in TRIED {
        assert!(
            done.get(what).is_some_and(|times| *times > 0),
            "nothing was tried: {what}, {done:?}"
        );
    }
}

/// Attempts that a race of a minute must have had a chance for.
const TRIED: [&str; 8] = [
    "files exchanged for links to root's",
    "files exchanged for pipes",
    "folders exchanged for links to root's",
    "folders exchanged for own with links",
    "links planted",
    "own programs run",
    "sockets exchanged for links to root's",
    "sockets exchanged for own",
];
