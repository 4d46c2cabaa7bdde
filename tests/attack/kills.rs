//! Runs that are killed, stopped or interrupted at random moments, in any of their processes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use lasthop_stats::random::Draws;
use serde_json::Value;

use crate::{
    arena::Arena,
    common::Ran,
    draw::pick,
    ended::short,
    processes::{Role, of_run},
    tried::{Record, Resumed, Tried},
};

/// An experiment, and what makes it short; each has every kind of server and link that it can have here.
pub struct Subject {
    pub experiment: &'static str,
    arguments: &'static [&'static str],
    pub containers: bool,
}

const fn subject(experiment: &'static str, arguments: &'static [&'static str]) -> Subject {
    Subject {
        experiment,
        arguments,
        containers: false,
    }
}

const fn in_containers(experiment: &'static str, arguments: &'static [&'static str]) -> Subject {
    Subject {
        experiment,
        arguments,
        containers: true,
    }
}

/// What is asked of a link through an application.
const APPLICATION: &[&str] = &[
    "--only",
    "statements=1",
    "--only",
    "transport=unix,tcp",
    "--no-headroom",
];

/// Every built-in experiment but [`NOT_HERE`].
pub const SUBJECTS: &[Subject] = &[
    subject(
        "sockets",
        &["--only", "transport=unix,tcp,tls", "--only", "pattern=echo"],
    ),
    subject("sockets", &["--only", "pattern=echo", "--driver-at", "netns:new"]),
    subject("ipc", &["--only", "transport=unix,pipe,shm", "--only", "pattern=echo"]),
    subject("nginx-gunicorn", &["--only", "connections=1", "--no-headroom"]),
    subject("nginx-starlette", &["--only", "client=keep-alive", "--no-headroom"]),
    subject(
        "nginx-thin",
        &["--only", "http=1.1", "--only", "backends=1", "--no-headroom"],
    ),
    subject("php-fpm", &["--only", "connections=1", "--no-headroom"]),
    subject("file-transfer", &["--set", "size=1024", "--no-headroom"]),
    subject(
        "postgres",
        &[
            "--only",
            "work=query,connect",
            "--only",
            "transport=unix,tls",
            "--no-headroom",
        ],
    ),
    subject(
        "mariadb",
        &["--only", "work=query", "--only", "transport=unix,tls", "--no-headroom"],
    ),
    subject(
        "pgpool",
        &["--only", "work=query", "--only", "transport=unix,tcp", "--no-headroom"],
    ),
    subject(
        "redis",
        &[
            "--set",
            "connections=4",
            "--only",
            "command=GET",
            "--only",
            "pipeline=1",
        ],
    ),
    subject(
        "memcached",
        &[
            "--set",
            "connections=4",
            "--only",
            "command=get",
            "--only",
            "pipeline=1",
        ],
    ),
    subject("grpc", &["--only", "language=python", "--only", "streams=16"]),
    subject(
        "nginx-grpc",
        &["--only", "language=python", "--only", "streams=16", "--no-headroom"],
    ),
    subject(
        "pgbouncer",
        &["--only", "work=query", "--only", "transport=unix,tcp", "--no-headroom"],
    ),
    subject("nginx-uwsgi", &["--only", "connections=1", "--no-headroom"]),
    subject(
        "nginx-node",
        &["--only", "connections=1", "--only", "reuse=keep-alive", "--no-headroom"],
    ),
    subject(
        "nginx-go",
        &["--only", "connections=1", "--only", "reuse=keep-alive", "--no-headroom"],
    ),
    subject(
        "nginx-puma",
        &["--only", "connections=1", "--only", "reuse=keep-alive", "--no-headroom"],
    ),
    subject("fronts", &["--no-headroom"]),
    subject("datagrams", &["--only", "receiver=lasthop", "--only", "reader=0us"]),
    in_containers(
        "redis-published-port",
        &["--set", "connections=1", "--only", "path=published-port,shared-volume"],
    ),
    in_containers(
        "nginx-gunicorn-containers",
        &["--set", "connections=1", "--only", "path=bridge,no-container-unix"],
    ),
    in_containers(
        "containers",
        &["--only", "path=host-network,shared-volume", "--no-headroom"],
    ),
    in_containers(
        "containers",
        &["--only", "path=combined-unix,no-container-tcp", "--no-headroom"],
    ),
    subject("clamd", &["--only", "command=ping", "--no-headroom"]),
    subject("node-redis", APPLICATION),
    subject("python-redis", APPLICATION),
    subject("python-postgres", APPLICATION),
    subject("go-postgres", APPLICATION),
    subject("java-postgres", APPLICATION),
    subject("php-mariadb", APPLICATION),
    subject(
        "nginx-websocket",
        &["--only", "connections=1", "--only", "size=64", "--no-headroom"],
    ),
    subject("sockets", &[PYTHON[0], PYTHON[1], "--only", "pattern=echo"]),
    subject(
        "loopback",
        &[
            "--only",
            "path=kernel-defaults,engine-rules,unix",
            "--only",
            "pattern=echo",
        ],
    ),
];

/// The client is a driver of the experiment's own.
const PYTHON: [&str; 2] = ["--set", "implementation=python"];

/// Those that start within a second or two.
const QUICK: [usize; 6] = [0, 1, 2, 3, 11, 12];

/// One of those.
pub fn quick(draws: &mut Draws) -> &'static Subject {
    &SUBJECTS[*pick(draws, &QUICK)]
}

/// The program cannot be installed everywhere.
pub const NOT_HERE: [&str; 1] = ["cockroachdb"];

/// What every attacked run has: a few rounds, so that there is something to go on with, and time for all of them.
const SHORT: [&str; 9] = [
    "--trial", "20ms", "--blocks", "2", "--rounds", "2", "--budget", "600s", "-q",
];

/// Signals in turn, each followed by a pause.
#[derive(Clone, Debug)]
struct Deed {
    victims: Vec<Role>,
    signals: Vec<(&'static str, i32, Duration)>,
}

/// Longer than any end may take on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

/// How long each subject takes from its begin to its end, by its place in the table.
#[derive(Default)]
pub struct Lengths(BTreeMap<usize, Duration>);

pub fn kill(arena: &mut Arena, draws: &mut Draws, lengths: &mut Lengths, quick: bool) -> Vec<Tried> {
    let deed = kills(draws);
    attack(arena, draws, lengths, quick, ("kill", deed))
}

pub fn stop(arena: &mut Arena, draws: &mut Draws, lengths: &mut Lengths, quick: bool) -> Vec<Tried> {
    let deed = stops(draws);
    attack(arena, draws, lengths, quick, ("stop", deed))
}

fn kills(draws: &mut Draws) -> Deed {
    const NO: Duration = Duration::ZERO;
    let signals = [
        ("KILL", libc::SIGKILL),
        ("TERM", libc::SIGTERM),
        ("INT", libc::SIGINT),
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
    ];
    // Twice as often lasthop itself, as people do; both together is what only the next start can clear away.
    let victims = [
        &[Role::Lasthop][..],
        &[Role::Lasthop],
        &[Role::Guard],
        &[Role::Driver],
        &[Role::Server],
        &[Role::Guard, Role::Lasthop],
    ];
    let victims = pick(draws, &victims).to_vec();
    let (name, signal) = *pick(draws, &signals);
    let mut signals = vec![(name, signal, NO)];
    if signal == libc::SIGINT && draws.below(2) == 0 {
        signals = vec![
            (name, signal, Duration::from_millis(u64::from(draws.below(500)))),
            (name, signal, NO),
        ];
    }
    Deed { victims, signals }
}

fn stops(draws: &mut Draws) -> Deed {
    let victims = vec![*pick(
        draws,
        &[Role::Lasthop, Role::Guard, Role::Driver, Role::Server, Role::Holder],
    )];
    let pause = Duration::from_millis(100 + u64::from(draws.below(4000)));
    let then = *pick(
        draws,
        &[("CONT", libc::SIGCONT), ("KILL", libc::SIGKILL), ("INT", libc::SIGINT)],
    );
    let mut signals = vec![("STOP", libc::SIGSTOP, pause), (then.0, then.1, Duration::ZERO)];
    if then.0 == "INT" {
        // Who is stopped hears it when it goes on.
        signals.push(("CONT", libc::SIGCONT, Duration::ZERO));
    }
    Deed { victims, signals }
}

/// `quick`: only such as start within a second or two.
fn attack(
    arena: &mut Arena,
    draws: &mut Draws,
    lengths: &mut Lengths,
    quick: bool,
    (part, mut deed): (&str, Deed),
) -> Vec<Tried> {
    let chosen = if quick {
        *pick(draws, &QUICK)
    } else {
        draws.below(SUBJECTS.len() as u32) as usize
    };
    let subject = &SUBJECTS[chosen];
    if deed.victims == [Role::Holder] && !subject.has("netns:new") {
        deed.victims = vec![Role::Server];
    }
    let (is_early, share) = (draws.below(3) == 0, draws.unit());
    let mut tried = Vec::new();
    if !lengths.0.contains_key(&chosen) {
        lengths
            .0
            .extend(undisturbed(arena, subject, &mut tried).map(|length| (chosen, length)));
    }
    if let Some(length) = lengths.0.get(&chosen) {
        let moment = if is_early { Duration::from_secs(1) } else { *length }.mul_f64(share);
        tried.push(disturbed(arena, subject, &deed, moment, part));
    }
    tried
}

impl Subject {
    pub fn words(&self, engine: &'static str) -> Vec<&'static str> {
        let mut words = vec!["run", self.experiment];
        words.extend(self.arguments);
        words.extend(SHORT);
        if self.containers {
            words.extend(["--engine", engine]);
        }
        words
    }

    pub fn name(&self) -> String {
        match ["netns:new", PYTHON[1]].into_iter().find(|word| self.has(word)) {
            Some(word) => format!("{}, {word}", self.experiment),
            None => self.experiment.to_owned(),
        }
    }

    pub fn has(&self, argument: &str) -> bool {
        self.arguments.contains(&argument)
    }
}

/// How long a run takes that nobody attacks. Nothing may be left of it either.
fn undisturbed(arena: &mut Arena, subject: &Subject, tried: &mut Vec<Tried>) -> Option<Duration> {
    let words = subject.words(arena.world.engine);
    if subject.containers {
        // The first one makes images, and what an engine keeps for itself.
        arena.world.run(&words);
        arena.accept(true);
    }
    let begin = Instant::now();
    let ran = arena.world.run(&words);
    let took = begin.elapsed();
    forget(arena);
    let mut nothing = Tried::new("none", subject.name(), format!("{} ms", took.as_millis()));
    nothing.ended = format!("exit {:?}", ran.code);
    let works = ran.code == Some(0);
    if !works && std::env::var_os("LASTHOP_ALLOW_SKIP").is_none() {
        nothing.wrong(format!("cannot be attacked: {}", short(ran.stderr.as_bytes())));
    }
    nothing.left(arena.left(subject.containers));
    tried.push(nothing);
    works.then_some(took)
}

fn disturbed(arena: &mut Arena, subject: &Subject, deed: &Deed, moment: Duration, part: &str) -> Tried {
    let signals: Vec<&str> = deed.signals.iter().map(|(name, ..)| *name).collect();
    let what = format!(
        "{} to {:?} after {} ms",
        signals.join(" "),
        deed.victims,
        moment.as_millis()
    );
    let mut tried = Tried::new(part, subject.name(), what);
    let said = arena.world.root().join("said");
    let output = || fs::File::create(&said).unwrap();
    let mut command = arena.world.lasthop(&subject.words(arena.world.engine));
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(output())
        .spawn()
        .unwrap();
    let struck = strike(&mut child, deed, moment);
    match wait(&mut child) {
        Some(status) => {
            tried.ended = shown(status);
            if !is_right(status, deed) {
                tried.wrong(format!(
                    "ended with {}: {}",
                    tried.ended.clone(),
                    short(&fs::read(&said).unwrap())
                ));
            }
        }
        None => tried.wrong(format!("did not end within {BOUND:?}")),
    }
    if !struck {
        tried.part = "none".to_owned();
        tried.ended += ", before the attack";
    }
    if deed.victims.len() > 1 {
        // Nobody is left who could clear away: the next start does.
        arena.world.run(&["clean"]);
    }
    tried.left(left(arena, subject));
    examine(arena, &mut tried);
    tried.left(left(arena, subject));
    forget(arena);
    tried
}

/// Who is killed while a sandbox is made or removed leaves a hidden, empty one: that the next start removes once it is old.
fn left(arena: &mut Arena, subject: &Subject) -> Vec<String> {
    let mut left = arena.left(subject.containers);
    if !left.is_empty() {
        arena.world.run(&["clean"]);
        let is_hidden = |thing: &String| thing.strip_prefix("sandboxes: .lasthop-").is_some();
        let is_there = |thing: &str| arena.world.lasthop.sandboxes().join(thing).exists();
        left.retain(|thing| !is_hidden(thing) || is_there(&thing["sandboxes: ".len()..]));
    }
    left
}

/// Whether there was anything to strike.
fn strike(child: &mut Child, deed: &Deed, moment: Duration) -> bool {
    thread::sleep(moment);
    let lasthop = child.id() as i32;
    let deadline = Instant::now() + BOUND;
    let mut victims = Vec::new();
    while victims.len() < deed.victims.len() {
        if child.try_wait().unwrap().is_some() || Instant::now() > deadline {
            return false;
        }
        // The last of a kind is the youngest, which has most to lose.
        let all = of_run(lasthop);
        let found = |role: &Role| all.iter().rev().find(|(own, _)| own == role).map(|(_, pid)| *pid);
        victims = deed.victims.iter().filter_map(found).collect();
        thread::sleep(Duration::from_millis(2));
    }
    for (_, signal, pause) in &deed.signals {
        for victim in &victims {
            // SAFETY: no memory is involved. A descendant of our child was there two milliseconds ago.
            unsafe { libc::kill(*victim, *signal) };
        }
        thread::sleep(*pause);
    }
    true
}

/// `None`, and an end by force, where it does not end.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + BOUND;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn shown(status: ExitStatus) -> String {
    status.code().map_or_else(
        || format!("signal {}", status.signal().unwrap_or_default()),
        |code| format!("exit {code}"),
    )
}

/// Only who was struck by a signal that cannot be caught, or is not, ends by it.
fn is_right(status: ExitStatus, deed: &Deed) -> bool {
    match (status.code(), status.signal()) {
        (Some(code), _) => matches!(code, 0 | 1 | 130),
        (None, Some(signal)) => {
            deed.victims.contains(&Role::Lasthop)
                && matches!(
                    signal,
                    libc::SIGKILL | libc::SIGQUIT | libc::SIGINT | libc::SIGTERM | libc::SIGHUP
                )
                && deed.signals.iter().any(|(_, sent, _)| *sent == signal)
        }
        _ => false,
    }
}

/// The record can be read, and the run goes on to its end, unless it was at its end.
fn examine(arena: &Arena, tried: &mut Tried) {
    let Some(run) = arena.world.lasthop.runs().pop() else {
        return;
    };
    if !run.join("trials.jsonl").exists() {
        return;
    }
    let report = arena.world.run(&["report", "last", "--format", "json"]);
    tried.record = if report.code == Some(0) {
        Record::Readable
    } else {
        Record::Broken
    };
    if tried.record == Record::Broken {
        tried.wrong(format!("report: {:?} {}", report.code, short(report.stderr.as_bytes())));
    }
    let before = fs::read(run.join("trials.jsonl")).unwrap();
    let resumed = arena.world.run(&["resume", "last", "--format", "json", "-q"]);
    (tried.resumed, tried.wrong) = match judge(&run, &resumed, &before) {
        Ok(resumed) => (resumed, std::mem::take(&mut tried.wrong)),
        Err(wrong) => {
            tried.wrong(format!("resume: {wrong}"));
            (Resumed::Refused, std::mem::take(&mut tried.wrong))
        }
    };
}

fn judge(run: &Path, resumed: &Ran, before: &[u8]) -> Result<Resumed, String> {
    let after = fs::read(run.join("trials.jsonl")).unwrap();
    let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if !after.starts_with(&before[..whole]) {
        return Err("what was recorded is not there any more".to_owned());
    }
    let said = || format!("exit {:?}: {}", resumed.code, short(resumed.stderr.as_bytes()));
    match resumed.code {
        Some(2) if resumed.stderr.contains("is finished: it has as many rounds") => Ok(Resumed::None),
        Some(0 | 1) => {
            let summary: Value =
                serde_json::from_str(&resumed.stdout).map_err(|error| format!("{error}, {}", said()))?;
            let is_complete = summary["stopped"] == "rounds" && summary["complete"] == true;
            if is_complete {
                Ok(Resumed::Complete)
            } else {
                Err(format!("stopped: {}, {}", summary["stopped"], said()))
            }
        }
        _ => Err(said()),
    }
}

/// Records take room, and `last` is to be the next one.
pub fn forget(arena: &Arena) {
    for run in arena.world.lasthop.runs() {
        fs::remove_dir_all(run).unwrap();
    }
}
