//! Common code of the integration tests: lasthop with its own home, and checks that nothing is left behind.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses a part of it"
)]

pub mod engines;
pub mod hops;
mod skip;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

pub use skip::{installed, leave_out, servers, skip, slow};
use tempfile::TempDir;

/// Leaves a test that cannot run here. Each condition has said why.
macro_rules! needs {
    ($($here:expr),+ $(,)?) => {
        $(if !$here {
            return;
        })+
    };
}
pub(crate) use needs;

/// Options of a short run: too short for a verdict, long enough for every trial to count real replies. The budget never
/// ends it.
pub const BRIEF: [&str; 10] = [
    "--rounds", "1", "--blocks", "2", "--trial", "30ms", "--budget", "120s", "--format", "json",
];

/// Generous, because the machine may be busy.
pub const LONG: Duration = Duration::from_secs(300);

/// Waits until this is so.
#[track_caller]
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Replaces a text in a file that has it.
#[track_caller]
pub fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has no `{from}`", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

/// Makes `to` a copy of a file or folder that is this account's own, whoever owns the original.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    copy_with("-rT", from, to);
}

/// Makes `to` a copy with these options of `cp`.
#[track_caller]
pub fn copy_with(options: &str, from: &Path, to: &Path) {
    output(Command::new("cp").arg(options).args([from, to]));
}

/// Writes a program that begins with the name of its interpreter.
pub fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a program of these lines of a shell.
pub fn script(path: &Path, lines: &str) {
    executable(path, &format!("#!/bin/sh\n{lines}\n"));
}

/// Standard output of a command that must succeed.
#[track_caller]
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The words of a command.
pub fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// A text in one line, because text for a terminal may break anywhere.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The elements of a list in JSON.
#[track_caller]
pub fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// What each element of a list says for a key: the names of cases, the ids of checks.
#[track_caller]
pub fn texts<'a>(value: &'a serde_json::Value, key: &str) -> Vec<&'a str> {
    let text = |one: &'a serde_json::Value| one[key].as_str().unwrap_or_else(|| panic!("no {key}: {one}"));
    list(value).iter().map(text).collect()
}

/// Fails unless the text has every part.
#[track_caller]
pub fn shows<const N: usize>(text: &str, parts: [&str; N]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

/// Fails if the text has one of these parts.
#[track_caller]
pub fn lacks<const N: usize>(text: &str, parts: [&str; N]) {
    for part in parts {
        assert!(!text.contains(part), "`{part}` is in:\n{text}");
    }
}

/// lasthop with its own data folder and sandbox parent, both removed on drop, when nothing else may be left.
pub struct Lasthop {
    home: TempDir,
    sandboxes: TempDir,
    /// Shared memory that already existed.
    shared: BTreeSet<String>,
    /// Whether the test leaves something on purpose.
    pub leaves: bool,
}

impl Lasthop {
    /// The report of an experiment's run of one round with two blocks.
    pub fn brief(&self, experiment: &str, choices: &[&str]) -> serde_json::Value {
        self.run([&["run", experiment], &BRIEF[..], choices].concat())
            .ok()
            .json()
    }

    /// A lasthop that uses the environments of this user's `lasthop setup`.
    pub fn new() -> Self {
        let lasthop = Self::without_environments();
        for installed in ["python", "gems", "npm", "maven", "go"] {
            let real = user_data().join(installed);
            if real.is_dir() {
                std::os::unix::fs::symlink(real, lasthop.home().join(installed)).unwrap();
            }
        }
        lasthop
    }

    pub fn without_environments() -> Self {
        let home = TempDir::new().unwrap();
        // Servers run as an account without rights, and some tests keep their program here.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let sandboxes = tempfile::Builder::new().prefix("lh").tempdir_in("/tmp").unwrap();
        // Servers run as that account, which must pass.
        fs::set_permissions(sandboxes.path(), fs::Permissions::from_mode(0o711)).unwrap();
        Self {
            home,
            sandboxes,
            shared: unused_shared_memory(),
            leaves: false,
        }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Copies a built-in experiment into the home, where a test can change it.
    pub fn own_copy(&self, experiment: &str) -> PathBuf {
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("experiments")
            .join(experiment);
        let own = self.home().join("experiments");
        fs::create_dir_all(&own).unwrap();
        copy(&built_in, &own.join(experiment));
        own.join(experiment)
    }

    pub fn sandboxes(&self) -> &Path {
        self.sandboxes.path()
    }

    pub fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lasthop"));
        command
            .args(arguments)
            .env("LASTHOP_HOME", self.home())
            .env("LASTHOP_SANDBOX", self.sandboxes())
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .env("GOCACHE", go_cache())
            .env_remove("GITHUB_STEP_SUMMARY")
            .current_dir(self.home())
            .stdin(Stdio::null());
        command
    }

    /// Runs lasthop until it ends.
    pub fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    pub fn start<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Child {
        self.command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Directories of the recorded runs.
    pub fn runs(&self) -> Vec<PathBuf> {
        let mut runs: Vec<PathBuf> = fs::read_dir(self.home().join("runs"))
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        runs.sort();
        runs
    }

    /// The newest run's name.
    pub fn last(&self) -> String {
        let newest = self.runs().pop().unwrap();
        newest.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// The newest run's record of its trials, if it has one. The last line may be incomplete.
    pub fn trials(&self) -> String {
        let newest = self.runs().pop().map(|run| run.join("trials.jsonl"));
        newest
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap_or_default()
    }

    /// The whole lines of this kind in the newest run's record of its trials.
    pub fn recorded(&self, kind: &str) -> Vec<serde_json::Value> {
        let text = self.trials();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter_map(|mut line: serde_json::Value| line.get_mut(kind).map(serde_json::Value::take))
            .collect()
    }

    /// Waits until there are so many runs.
    #[track_caller]
    pub fn wait_for_run(&self, number: usize) {
        eventually("a run", || self.runs().len() >= number);
    }

    /// Waits until the newest run has recorded so many lines.
    #[track_caller]
    pub fn wait_for_lines(&self, least: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let lines = || self.trials().lines().count();
        while lines() < least {
            assert!(Instant::now() < deadline, "{least} lines in a minute: only {}", lines());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits up to half a minute for processes to end, because the guard needs a moment.
    pub fn wait_until_gone(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline
            && (!self.processes().is_empty() || fs::read_dir(self.sandboxes()).unwrap().next().is_some())
        {
            thread::sleep(Duration::from_millis(20));
        }
        self.assert_nothing_left();
    }

    /// Panics if a process, a sandbox or a socket of this home is left, or unused shared memory. The latter may belong
    /// to a concurrent test, which then removes the segment, and may leave others. Every test ends with this, by `drop`;
    /// in between it says more, because the next run sweeps.
    pub fn assert_nothing_left(&self) {
        let left: Vec<String> = fs::read_dir(self.sandboxes())
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect();
        assert!(left.is_empty(), "sandboxes left: {left:?}");
        let processes = self.processes();
        assert!(processes.is_empty(), "processes left: {processes:?}");
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut left: BTreeSet<_> = unused_shared_memory().difference(&self.shared).cloned().collect();
        while !left.is_empty() {
            assert!(Instant::now() < deadline, "shared memory left: {left:?}");
            thread::sleep(Duration::from_millis(100));
            left = left.intersection(&unused_shared_memory()).cloned().collect();
        }
    }

    /// Processes that carry this home in their environment, as `PID COMMAND`.
    pub fn processes(&self) -> BTreeSet<String> {
        marked(self.sandboxes())
    }
}

impl Drop for Lasthop {
    fn drop(&mut self) {
        if !self.leaves && !thread::panicking() {
            self.assert_nothing_left();
        }
    }
}

/// Pid and command of each process whose environment names a sandbox below this folder.
pub fn marked(sandboxes: &Path) -> BTreeSet<String> {
    let mark = format!("LASTHOP_SANDBOX={}", sandboxes.display());
    let own = std::process::id().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
        })
        .map(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .collect()
}

/// System V segments that nobody has attached, and files of PostgreSQL in /dev/shm that nobody has mapped.
fn unused_shared_memory() -> BTreeSet<String> {
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    // The columns are key, shmid, perms, size, cpid, lpid, nattch, and others.
    let columns = segments
        .lines()
        .skip(1)
        .map(|line| line.split_ascii_whitespace().take(7).collect::<Vec<_>>());
    let mut unused: BTreeSet<String> = columns
        .filter(|segment| segment[6] == "0")
        .map(|segment| format!("System V segment {}", segment[1]))
        .collect();
    let files = fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().display().to_string());
    let files: Vec<String> = files.filter(|path| path.starts_with("/dev/shm/PostgreSQL.")).collect();
    if !files.is_empty() {
        let maps: String = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("maps")).ok())
            .collect();
        unused.extend(files.into_iter().filter(|path| !maps.contains(path.as_str())));
    }
    unused
}

/// Sends a signal to a process that this test started.
pub fn signal(child: &Child, signal: i32) {
    // SAFETY: the child is ours and not yet waited for, so its pid cannot have been reused.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Resets signals that end a process. A shell's background commands ignore some of them, which children inherit.
pub fn default_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the default disposition; the tests install no handlers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

pub fn user_data() -> PathBuf {
    std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")))
        .unwrap_or_default()
        .join("lasthop")
}

/// The result of a lasthop that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> Self {
        let failures = serde_json::from_str(&self.stdout)
            .map_or(serde_json::Value::Null, |summary: serde_json::Value| {
                summary["failures"].clone()
            });
        assert_eq!(
            self.code,
            Some(0),
            "failures: {failures:#}\nstderr:\n{}\nstdout:\n{}",
            self.stderr,
            self.stdout
        );
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32, text: &str) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        assert!(self.stderr.contains(text), "`{text}` is not in:\n{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }
}

/// Number of moments for kills: few, or many for `script/test --all`. `script/attack` kills for as long as requested.
#[must_use]
pub fn moments(few: u64, many: u64) -> u64 {
    let all = std::env::var_os("LASTHOP_TEST").is_some_and(|asked| asked == "all");
    if all { many } else { few }
}

/// Whether the test can run here: it may start servers, and this program exists.
#[must_use]
pub fn have(program: &str) -> bool {
    servers() && installed(program)
}

/// Whether the test can run here: `lasthop setup` can install packages of the system, if only on paper.
#[must_use]
pub fn may_install() -> bool {
    rustix::process::geteuid().is_root() || installed("sudo")
}

/// Like [`have`], for the environment of `lasthop setup EXPERIMENT`.
#[must_use]
pub fn have_python(experiment: &str) -> bool {
    let python = user_data().join("python").join(experiment).join("bin/python");
    servers()
        && (python.exists()
            || skip(&format!(
                "the Python environment of {experiment} is missing; run `lasthop setup {experiment}`"
            )))
}

/// Like [`have`], for all requirements of an experiment.
#[must_use]
pub fn have_setup(experiment: &str) -> bool {
    servers()
        && (is_set_up(experiment)
            || skip(&format!(
                "something is missing for {experiment}; run `lasthop setup {experiment}`"
            )))
}

/// Whether all requirements of an experiment are there.
pub fn is_set_up(experiment: &str) -> bool {
    Lasthop::new().run(["doctor", experiment]).code == Some(0)
}

/// The uid of servers if lasthop is root.
pub const NOBODY: u32 = 65_534;

/// Go's cache in a folder of the tests, because lasthop uses only its own.
pub fn go_cache() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-objects");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a recipe's Go server as the recipe does, once for all runs, so that no run spends time on it.
pub fn go_is_warm(recipe: &str) {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("services")
        .join(recipe)
        .join("server.go");
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-o", "/dev/null"]).arg(server);
    command.envs([("GOCACHE", go_cache()), ("HOME", go_cache())]).envs([
        ("CGO_ENABLED", "0"),
        ("GO111MODULE", "off"),
        ("GOPATH", "/usr/share/gocode"),
    ]);
    assert!(command.status().unwrap().success(), "go build");
}
