//! Every wait of a run ends: by a signal of the user, with the guard, or at a deadline.

use crate::common;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use common::{
    LONG, Lasthop, edit,
    engines::{World, have_engine},
    eventually, have, have_python, lacks, list, needs, script, shows, signal, slow, words,
};

const RUN: &str = "run sockets --only=pattern=echo --only=transport=unix,tcp --trial=20ms --blocks=10 --no-progress";
const WORD: &str = "interrupted: stopping the servers; press Ctrl-C again to stop at once";

/// A lasthop whose standard error is read.
struct Heard {
    child: Child,
    lines: Receiver<String>,
    all: Vec<String>,
}

impl Heard {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            child,
            lines,
            all: Vec::new(),
        }
    }

    /// Waits until lasthop prints this.
    #[track_caller]
    fn says(&mut self, text: &str) {
        let deadline = Instant::now() + LONG;
        while !self.all.iter().any(|line| line.contains(text)) {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.all.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("`{text}` was not said within {LONG:?}: {:#?}", self.all),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without `{text}`: {:#?}", self.all),
            }
        }
    }

    /// Waits for the end. Returns the exit code and the whole output.
    #[track_caller]
    fn ends(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.all.extend(self.lines.iter());
        (code, self.all.join("\n"))
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the pid is of a process that this test started.
    unsafe { libc::kill(pid, signal) };
}

fn guard(lasthop: &Lasthop) -> i32 {
    let guards = lasthop
        .processes()
        .into_iter()
        .find(|line| line.split(' ').nth(2) == Some("guard"));
    guards
        .expect("a guard runs")
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Failures in the newest record.
fn failures(lasthop: &Lasthop) -> String {
    lasthop.run(["report", "last", "--format=json"]).ok().json()["failures"].to_string()
}

/// Signals a run, and checks that it says so, ends as interrupted, and has neither failed nor left anything. Returns
/// the output.
#[track_caller]
fn interrupt(mut run: Heard, word: i32, lasthop: &Lasthop) -> String {
    signal(&run.child, word);
    run.says(WORD);
    let (code, said) = run.ends();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(failures(lasthop), "[]");
    lasthop.assert_nothing_left();
    said
}

/// Checks that the run was interrupted, lost nothing and left nothing, and that it resumes and completes.
#[track_caller]
fn goes_on(lasthop: &Lasthop) {
    lasthop.assert_nothing_left();
    assert_eq!(failures(lasthop), "[]");
    let summary = lasthop.run(["resume", "last", "--format=json", "-q"]).ok().json();
    assert_eq!(
        (&summary["stopped"], &summary["failures"]),
        (&"rounds".into(), &serde_json::json!([]))
    );
    lasthop.assert_nothing_left();
}

/// The experiment of `lasthop new`, whose server listens only once a file `gate` exists.
struct Gated {
    lasthop: Lasthop,
    waiting: PathBuf,
    gate: PathBuf,
}

impl Gated {
    fn new() -> Self {
        let lasthop = Lasthop::new();
        lasthop.run(["new", "mine"]).ok();
        // A folder that the server's account can write.
        let folder = lasthop.home().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let (waiting, gate) = (folder.join("waiting"), folder.join("gate"));
        let wait = format!(
            "def main():\n    import time\n    open({waiting:?}, 'w').close()\n    \
             while not os.path.exists({gate:?}):\n        time.sleep(0.01)\n"
        );
        edit(&lasthop.home().join("mine/app/server.py"), "def main():\n", &wait);
        let recipe = lasthop.home().join("mine/services/python-app/recipe.toml");
        edit(&recipe, "timeout = \"10s\"", "timeout = \"600s\"");
        Self { lasthop, waiting, gate }
    }

    /// Starts a run, and waits until its server runs without listening.
    fn start(&self) -> Heard {
        let arguments = "run ./mine --rounds=1 --blocks=2 --trial=20ms --no-progress".split(' ');
        let heard = Heard::start(self.lasthop.command(arguments));
        eventually("a server that begins", || self.waiting.exists());
        heard
    }

    fn open(&self) {
        fs::write(&self.gate, "").unwrap();
    }
}

#[test]
fn a_server_that_is_awaited_is_not_awaited_after_the_word() {
    let gated = Gated::new();
    let run = gated.start();
    let said = interrupt(run, libc::SIGINT, &gated.lasthop);
    assert!(!gated.gate.exists(), "it would never have been ready");
    assert!(said.contains("to continue this run: lasthop resume "), "{said}");
    gated.open();
    goes_on(&gated.lasthop);
}

/// A server's traps in its folder: pipes without a writer, and an endless file.
const TRAPS: &str = "def main():
    runtime = os.environ['RUNTIME']
    os.makedirs(runtime + '/data', exist_ok=True)
    open(runtime + '/data/PG_VERSION', 'w').close()
    for name in 'data/postmaster.pid', 'ca.pem', 'guard.json', 'lock':
        os.mkfifo(runtime + '/' + name)
    os.symlink('/dev/zero', runtime + '/place.json')
";

#[test]
fn a_server_that_makes_pipes_and_links_to_devices_is_not_waited_for() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let replace = |file: &str, from: &str, to: &str| edit(&lasthop.home().join("mine").join(file), from, to);
    replace("app/server.py", "def main():\n", TRAPS);
    let recipe = "services/python-app/recipe.toml";
    let tls = "[listen.tls]\nauthority = \"ca.pem\"\narguments = [\"--tcp\", \"{{ listen.host }}\", \"{{ listen.port }}\"]\n\n[start]\n\
               environment = { RUNTIME = \"{{ runtime }}\" }\n";
    replace(recipe, "[start]\n", tls);
    replace(recipe, "check = \"http\"\npath = \"/\"", "check = \"connect\"");
    replace("experiment.toml", r#"["unix", "tcp"]"#, r#"["unix", "tcp", "tls"]"#);
    let mut run = Heard::start(lasthop.command(["run", "./mine", "--rounds=1", "--blocks=2", "--trial=20ms", "-q"]));
    eventually("the end of the run", || run.has_ended());
    let (_, said) = run.ends();
    shows(&said, ["ca.pem, which", "it is not a regular file"]);
    lacks(&said, ["unix"]);
    let report = lasthop.run(["report", "last", "--format=json"]).ok().json();
    assert!(
        list(&report["cases"])
            .iter()
            .filter(|case| case["requests"].as_u64() > Some(0))
            .count()
            == 2
    );
}

#[test]
fn a_second_word_ends_at_once_and_leaves_nothing() {
    let gated = Gated::new();
    let mut run = gated.start();
    send(guard(&gated.lasthop), libc::SIGSTOP);
    signal(&run.child, libc::SIGTERM);
    run.says(WORD);
    signal(&run.child, libc::SIGTERM);
    assert_eq!(run.ends().0, Some(130));
    gated.lasthop.wait_until_gone();
}

/// Both signals arrive before lasthop does anything else.
#[test]
fn two_words_at_once_leave_nothing_if_the_guard_is_stopped() {
    let gated = Gated::new();
    let run = gated.start();
    send(guard(&gated.lasthop), libc::SIGSTOP);
    signal(&run.child, libc::SIGINT);
    signal(&run.child, libc::SIGTERM);
    assert_eq!(run.ends().0, Some(130));
    gated.lasthop.wait_until_gone();
}

#[test]
fn a_preparation_is_cut_off() {
    needs!(have("psql"));
    let lasthop = Lasthop::new();
    let run = "run postgres --rounds=1 --blocks=1 --trial=20ms --no-progress --budget=60s".split(' ');
    let run = Heard::start(lasthop.command(run));
    // Versions of programs are read before.
    lasthop.wait_for_run(1);
    let prepares = |line: &String| line.contains("initdb") || line.contains("/bin/postgres");
    eventually("a preparation", || lasthop.processes().iter().any(prepares));
    interrupt(run, libc::SIGINT, &lasthop);
}

#[test]
fn a_guard_that_was_stopped_ends_everything_all_the_same() {
    let lasthop = Lasthop::new();
    let run = Heard::start(lasthop.command(RUN.split(' ').chain(["--rounds=1000", "--budget=600s"])));
    lasthop.wait_for_lines(3);
    send(guard(&lasthop), libc::SIGSTOP);
    interrupt(run, libc::SIGINT, &lasthop);
}

#[test]
fn without_its_guard_a_run_is_interrupted_and_goes_on_later() {
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let lasthop = Lasthop::new();
        let run = Heard::start(lasthop.command(RUN.split(' ').chain(["--rounds=3", "--budget=600s"])));
        lasthop.wait_for_lines(3);
        send(guard(&lasthop), signal);
        let (code, said) = run.ends();
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("warning: lasthop's guard process has died"), "{said}");
        shows(&said, ["to continue this run: lasthop resume "]);
        lacks(&said, ["failed"]);
        goes_on(&lasthop);
    }
}

#[test]
fn a_guard_that_does_not_answer_ends_the_run() {
    let gated = Gated::new();
    let run = gated.start();
    send(guard(&gated.lasthop), libc::SIGSTOP);
    // The server listens: a driver is requested.
    gated.open();
    let (code, said) = run.ends();
    assert_eq!(code, Some(130), "{said}");
    shows(&said, ["warning: lasthop's guard process does not answer"]);
    goes_on(&gated.lasthop);
}

#[test]
fn a_container_that_docker_does_not_remove_is_named_and_given_up() {
    const EXPERIMENT: &str = "redis-published-port";
    needs!(have_engine("docker"), have("redis-server"));
    let world = World::new("docker");
    let (bin, gate) = (world.root().join("bin"), world.root().join("gate"));
    fs::create_dir(&bin).unwrap();
    let real = world.inside("sh").args(["-c", "command -v docker"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let stub = format!(
        "[ \"$1\" = rm ] && while [ -e '{}' ]; do sleep 0.05; done\nexec {} \"$@\"",
        gate.display(),
        real.trim()
    );
    script(&bin.join("docker"), &stub);
    let before = world.inventory();
    let run = format!(
        "run {EXPERIMENT} --engine=docker --only=path=bridge --set=connections=1 --no-progress --trial=20ms --budget=600s"
    );
    let mut command = world.lasthop(&words(&run));
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let mut run = Heard::start(command);
    world.lasthop.wait_for_lines(2);
    fs::write(&gate, "").unwrap();
    signal(&run.child, libc::SIGINT);
    run.says(WORD);
    run.says("waiting for ");
    assert!(!run.has_ended(), "it waits for docker");
    // The engine never replies.
    let (code, said) = run.ends();
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("the container engine did not remove container ") && said.contains("`lasthop clean`"),
        "{said}"
    );
    fs::remove_file(&gate).unwrap();
    let cleaned = world.run(&["clean"]).ok();
    assert!(cleaned.stderr.contains("1 container"), "{}", cleaned.stderr);
    let after = world.inventory();
    // dockerd keeps the chains of its first network.
    for what in ["containers", "networks", "volumes", "links", "mounts", "cgroups"] {
        assert_eq!(after[what], before[what], "{what}");
    }
    world.lasthop.wait_until_gone();
}

/// The experiment of `lasthop new` with this script as its driver. Returns exit code and causes of failure.
fn driven_by(text: &str) -> (Option<i32>, String) {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let driver = lasthop.home().join("driver");
    script(&driver, text);
    let load = format!("[load]\ndriver = [\"{}\"]\n", driver.display());
    edit(&lasthop.home().join("mine/experiment.toml"), "[load]\n", &load);
    let ran = lasthop.run("run ./mine --rounds=1 --blocks=1 --trial=20ms --format=json -q".split(' '));
    lasthop.assert_nothing_left();
    (ran.code, ran.json()["failures"].to_string())
}

/// A driver that prints its first line, and runs `after` once the first request has come. `asked` reads a request, and
/// `$name` is its case.
fn answering(after: &str) -> String {
    format!(
        "asked() {{ read -r line && name=${{line#*'\"case\":\"'}} && name=${{name%%'\"'*}}; }}\n\
         echo '{{\"hello\":{{\"protocol\":1,\"driver\":\"test\",\"version\":\"0\"}}}}'\nasked\n{after}"
    )
}

#[test]
fn a_driver_of_others_can_neither_hang_nor_fill_the_memory() {
    needs!(slow());
    let endless = "exec tr '\\0' x </dev/zero";
    for (driver, cause) in [
        (
            endless.to_owned(),
            "the driver wrote a line of more than 16777216 bytes",
        ),
        (
            answering(endless),
            "the driver wrote a line of more than 16777216 bytes",
        ),
        ("exec sleep 1000".to_owned(), "the driver did not answer within 10s"),
        (
            answering("echo Traceback; exec sleep 1000"),
            "the driver wrote `Traceback`, which does not follow the protocol",
        ),
    ] {
        let (code, failures) = driven_by(&driver);
        assert_eq!(code, Some(1), "{failures}");
        assert!(failures.contains(cause), "{driver}: {failures}");
    }
}

#[test]
fn numbers_that_cannot_be_are_a_failure() {
    let proof = "{\"prepared\":{\"case\":\"'$name'\",\"proof\":{\"family\":\"unix\",\"peer\":\"p\",\"tls_version\":null,\
                 \"tls_cipher\":null,\"reused\":true,\"nodelay\":null}}}";
    let trial = |elapsed: u64| {
        format!(
            "{{\"trial\":{{\"case\":\"'$name'\",\"result\":{{\"elapsed_ns\":{elapsed},\"requests\":7,\"requests_total\":7,\
             \"bytes_received\":1,\"service_time\":null,\"phases\":{{}},\"errors\":{{}},\"connections_opened\":1,\
             \"cost\":{{}},\"engine\":\"blocking\"}}}}}}"
        )
    };
    for elapsed in [0, u64::MAX] {
        let trial = trial(elapsed);
        let (code, failures) = driven_by(&answering(&format!(
            "echo '{proof}'\nwhile asked; do echo '{trial}'; done"
        )));
        assert_eq!(code, Some(1), "{failures}");
        assert!(
            failures.contains(&format!(
                "the driver's result is impossible: `elapsed_ns` is {elapsed}, "
            )),
            "{failures}"
        );
    }
}

/// A new driver would not know the cases that the dead one had prepared.
#[test]
fn a_driver_that_dies_in_a_preparation_takes_the_other_cases_along() {
    let (code, failures) = driven_by(&answering(
        "echo '{\"prepared\":{\"case\":\"'$name'\",\"proof\":{\"family\":\"unix\",\"peer\":\"p\",\"tls_version\":null,\
         \"tls_cipher\":null,\"reused\":true,\"nodelay\":null}}}'\nasked\n\
         echo '{\"trial\":{\"case\":\"'$name'\",\"result\":{\"elapsed_ns\":1000,\"requests\":7,\"requests_total\":7,\
         \"bytes_received\":1,\"service_time\":null,\"phases\":{},\"errors\":{},\"connections_opened\":1,\
         \"cost\":{},\"engine\":\"blocking\"}}}'\nread -r _\nexit 3",
    ));
    assert_eq!(code, Some(1), "{failures}");
    assert_eq!(
        failures.matches("the driver ended unexpectedly").count(),
        2,
        "{failures}"
    );
}

/// A run with this script as its ssh.
fn over(lasthop: &Lasthop, text: &str) -> Heard {
    let bin = lasthop.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    script(&bin.join("ssh"), text);
    let mut command = lasthop.command(RUN.split(' ').chain(["--driver-at=ssh:there"]));
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    Heard::start(command)
}

#[test]
fn a_host_that_floods_or_hangs_is_given_up() {
    needs!(slow());
    for (ssh, cause) in [
        ("exec tr '\\0' x </dev/zero", "it wrote a line of more than 65536 bytes"),
        ("exec yes", "it printed more than 200 lines"),
        // The script asks for an executable that is longer than a pipe holds, and never reads it.
        (
            "echo folder /tmp/none; echo kernel; exec sleep 1000",
            "it did not answer within 30s",
        ),
    ] {
        let lasthop = Lasthop::new();
        let (code, said) = over(&lasthop, ssh).ends();
        assert_eq!(code, Some(1), "{said}");
        shows(&said, ["ssh to there did not end: ", cause]);
    }
}

#[test]
fn a_host_is_not_awaited_after_the_word() {
    let lasthop = Lasthop::new();
    let marker = lasthop.home().join("asked");
    let mut run = over(
        &lasthop,
        &format!("echo folder /tmp/none; : >'{}'; exec sleep 1000", marker.display()),
    );
    eventually("the host is asked", || marker.exists());
    signal(&run.child, libc::SIGINT);
    run.says(WORD);
    let (code, said) = run.ends();
    assert_eq!(code, Some(130), "{said}");
    shows(&said, ["interrupted before the first round; nothing was recorded"]);
    assert!(lasthop.runs().is_empty());
}

#[test]
fn a_trial_that_spans_a_pause_does_not_count() {
    let lasthop = Lasthop::new();
    let mut run = Heard::start(lasthop.command(RUN.split(' ').chain(["--rounds=1000", "--budget=600s"])));
    lasthop.wait_for_lines(2);
    let deadline = Instant::now() + LONG;
    while !run.all.iter().any(|line| line.starts_with("discarded a trial of ")) {
        assert!(Instant::now() < deadline, "{:?}", run.all);
        signal(&run.child, libc::SIGSTOP);
        thread::sleep(Duration::from_millis(30));
        signal(&run.child, libc::SIGCONT);
        run.all.extend(run.lines.recv_timeout(Duration::from_millis(100)));
    }
    interrupt(run, libc::SIGINT, &lasthop);
}

#[test]
fn the_word_is_heard_in_every_stack_of_a_starting_round() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let run = Heard::start(lasthop.command(["run", "nginx-gunicorn", "--no-progress", "--budget=600s"]));
    lasthop.wait_for_run(1);
    interrupt(run, libc::SIGHUP, &lasthop);
}
