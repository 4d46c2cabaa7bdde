//! Runs with any of their processes killed, stopped or interrupted at random moments.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, ExitStatus},
    sync::LazyLock,
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

/// An experiment with options that make it short, but keep every kind of server and link that this machine has.
pub struct Subject {
    pub experiment: &'static str,
    arguments: Vec<&'static str>,
    pub containers: bool,
}

/// Every built-in experiment but [`NOT_HERE`], with its options. Those with a star run in containers.
const TABLE: &str = "\
sockets --only transport=unix,tcp,tls --only pattern=echo
sockets --only pattern=echo --driver-at netns:new
ipc --only transport=unix,pipe,shm --only pattern=echo
nginx-gunicorn --only connections=1 --no-headroom
nginx-starlette --only client=keep-alive --no-headroom
nginx-thin --only http=1.1 --only backends=1 --no-headroom
php-fpm --only connections=1 --no-headroom
file-transfer --set size=1024 --no-headroom
postgres --only work=query,connect --only transport=unix,tls --no-headroom
mariadb --only work=query --only transport=unix,tls --no-headroom
pgpool --only work=query --only transport=unix,tcp --no-headroom
redis --set connections=4 --only command=GET --only pipeline=1
memcached --set connections=4 --only command=get --only pipeline=1
grpc --only language=python --only streams=16
nginx-grpc --only language=python --only streams=16 --no-headroom
pgbouncer --only work=query --only transport=unix,tcp --no-headroom
nginx-uwsgi --only connections=1 --no-headroom
nginx-node --only connections=1 --only reuse=keep-alive --no-headroom
nginx-go --only connections=1 --only reuse=keep-alive --no-headroom
nginx-puma --only connections=1 --only reuse=keep-alive --no-headroom
fronts --no-headroom
datagrams --only receiver=lasthop --only reader=0us
* redis-published-port --set connections=1 --only path=published-port,shared-volume
* nginx-gunicorn-containers --set connections=1 --only path=bridge,no-container-unix
* containers --only path=host-network,shared-volume --no-headroom
* containers --only path=combined-unix,no-container-tcp --no-headroom
clamd --only command=ping --no-headroom
node-redis --only statements=1 --only transport=unix,tcp --no-headroom
python-redis --only statements=1 --only transport=unix,tcp --no-headroom
python-postgres --only statements=1 --only transport=unix,tcp --no-headroom
go-postgres --only statements=1 --only transport=unix,tcp --no-headroom
java-postgres --only statements=1 --only transport=unix,tcp --no-headroom
php-mariadb --only statements=1 --only transport=unix,tcp --no-headroom
nginx-websocket --only connections=1 --only size=64 --no-headroom
sockets --set implementation=python --only pattern=echo
loopback --only path=kernel-defaults,engine-rules,unix --only pattern=echo";

pub static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let subject = |line: &'static str| {
        let words = line.strip_prefix("* ").unwrap_or(line).split(' ').collect::<Vec<_>>();
        Subject {
            experiment: words[0],
            arguments: words[1..].to_vec(),
            containers: line.starts_with('*'),
        }
    };
    TABLE.lines().map(subject).collect()
});

/// A choice of the experiment's own driver.
const PYTHON: &str = "implementation=python";

/// Places of the subjects that start within a second or two.
const QUICK: [usize; 6] = [0, 1, 2, 3, 11, 12];

/// A subject that starts quickly.
pub fn quick(draws: &mut Draws) -> &'static Subject {
    &SUBJECTS[*pick(draws, &QUICK)]
}

/// Experiments whose program cannot be installed everywhere.
pub const NOT_HERE: [&str; 1] = ["cockroachdb"];

/// Options of every attacked run: two rounds, so that a resumed run has work left, and time for both.
const SHORT: [&str; 9] = [
    "--trial", "20ms", "--blocks", "2", "--rounds", "2", "--budget", "600s", "-q",
];

/// Signals in order, each followed by a pause.
#[derive(Clone, Debug)]
struct Deed {
    victims: Vec<Role>,
    signals: Vec<(&'static str, i32, Duration)>,
}

/// Longer than any process takes to end on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

/// The duration of an undisturbed run for each subject, by its place in the table.
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
    // lasthop itself is twice as likely, as with users. Leftovers of a kill of both processes need the next start.
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
        // A stopped process gets the signal when it continues.
        signals.push(("CONT", libc::SIGCONT, Duration::ZERO));
    }
    Deed { victims, signals }
}

/// `quick`: only subjects that start within a second or two.
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
        words.extend(&self.arguments);
        words.extend(SHORT);
        if self.containers {
            words.extend(["--engine", engine]);
        }
        words
    }

    pub fn name(&self) -> String {
        match ["netns:new", PYTHON].into_iter().find(|word| self.has(word)) {
            Some(word) => format!("{}, {word}", self.experiment),
            None => self.experiment.to_owned(),
        }
    }

    pub fn has(&self, argument: &str) -> bool {
        self.arguments.contains(&argument)
    }
}

/// The duration of an undisturbed run, which must leave nothing either.
fn undisturbed(arena: &mut Arena, subject: &Subject, tried: &mut Vec<Tried>) -> Option<Duration> {
    let words = subject.words(arena.world.engine);
    if subject.containers {
        // The first run builds images, and creates files that the engine keeps.
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
        // No process remains to clean up: the next start does it.
        arena.world.run(&["clean"]);
    }
    tried.left(left(arena, subject));
    examine(arena, &mut tried);
    tried.left(left(arena, subject));
    forget(arena);
    tried
}

/// Things that a run left. A kill during the creation or removal of a sandbox leaves a hidden, empty folder, which the
/// next start removes once it is old.
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

/// Sends the signals. Returns whether a process was there to get them.
fn strike(child: &mut Child, deed: &Deed, moment: Duration) -> bool {
    thread::sleep(moment);
    let lasthop = child.id() as i32;
    let deadline = Instant::now() + BOUND;
    let mut victims = Vec::new();
    while victims.len() < deed.victims.len() {
        if child.try_wait().unwrap().is_some() || Instant::now() > deadline {
            return false;
        }
        // The last process of a kind is the youngest, and has most to lose.
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

/// Waits for lasthop. `None` if it had to be killed after [`BOUND`].
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

/// Whether the exit is expected. Only lasthop itself may end by a signal, if that was sent and is not caught.
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

/// Checks that the record can be read, and that an unfinished run resumes and completes.
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

/// Removes records, which take space, and lets the last record be the next run's.
pub fn forget(arena: &Arena) {
    for run in arena.world.lasthop.runs() {
        fs::remove_dir_all(run).unwrap();
    }
}
