//! Runs several services in one container under supervisord.
//!
//! supervisord itself is a service with its own recipe and container. Its configuration includes the folder `programs`
//! in its directory. Each service in the container has a program there, which lasthop starts in order, so preparation
//! and readiness work as for any other service.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lasthop_model::service::RenderedService;
use lasthop_system::{
    facts::Facts,
    files::{self, Folder},
    process::{self, Stat},
    shell::quoted,
};

use super::{engine::EngineError, launch::Launch};
use crate::exit::{Exit, send_signal, signal_number};

/// Folder of the programs in supervisord's directory. Its configuration includes `programs/*.conf`.
pub const PROGRAMS: &str = "programs";
/// Name of supervisord's configuration file.
const CONFIGURATION: &str = "supervisord.conf";

/// The longest time for killed processes to end.
const KILL: Duration = Duration::from_secs(2);

/// The supervisor of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    /// The container of the supervisor.
    pub container: Launch,
    /// The supervisor's directory, also its path in the container.
    pub directory: PathBuf,
}

/// A program that a supervisor started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervised {
    supervisor: Supervisor,
    name: String,
    /// The pid in the host's pid namespace. Together with the start time it is unique.
    pub pid: i32,
    start_ticks: u64,
    /// The log where supervisord writes how programs ended.
    log: PathBuf,
}

impl Supervisor {
    /// Writes the service's program file, with output to `log`, before supervisord runs.
    pub fn write(&self, service: &RenderedService, directory: &Path, log: &Path) -> Result<(), String> {
        let programs = self.directory.join(PROGRAMS);
        let script = format!("{}.sh", service.name);
        let section = format!("{}.conf", service.name);
        let write = || {
            let folder = Folder::open(&self.directory)?.make(Path::new(PROGRAMS), 0o755)?;
            let text = self::section(service, &programs.join(&script), log);
            folder
                .create(Path::new(&script), 0o644)?
                .write_all(self::script(service, directory).as_bytes())?;
            folder.create(Path::new(&section), 0o644)?.write_all(text.as_bytes())
        };
        write().map_err(|cause| format!("cannot write to {}: {cause}", programs.display()))
    }

    /// Makes supervisord start the service of this name. The service is not ready yet.
    pub fn start(&self, name: &str) -> Result<Supervised, String> {
        let control = |word| {
            self.control(&[word, name])
                .map_err(|error| format!("supervisord: {error}"))
        };
        let said = control("start")?;
        let answer = control("pid")?;
        let inner = answer.trim().parse().ok().filter(|pid| *pid > 0);
        let found = inner.and_then(|inner| outer_pid(self.container.pid().ok()?, inner));
        let started = found.and_then(|pid| Some((pid, Stat::of(pid)?.start_ticks)));
        let (pid, start_ticks) =
            started.ok_or_else(|| format!("supervisord did not start it: {} {}", said.trim(), answer.trim()))?;
        let log = self.directory.join(lasthop_model::binding::LOG);
        Ok(Supervised {
            supervisor: self.clone(),
            name: name.to_owned(),
            pid,
            start_ticks,
            log,
        })
    }

    /// Runs `supervisorctl` in the container.
    fn control(&self, words: &[&str]) -> Result<String, EngineError> {
        let configuration = self.directory.join(CONFIGURATION).display().to_string();
        let base = ["exec", &self.container.name, "supervisorctl", "-c", &configuration];
        self.container.engine.ask([&base, words].concat())
    }
}

impl Supervised {
    /// How the program ended; `None` while it runs.
    pub fn exited(&self) -> Option<Exit> {
        let alive = Stat::of(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && stat.state != b'Z');
        (!alive).then(|| end_of(&self.name, &files::end_of_log(&self.log)))
    }

    /// Makes supervisord stop the program: first with its signal, then with SIGKILL.
    pub fn stop(&self) -> Result<(), EngineError> {
        if self.exited().is_none() {
            self.supervisor.control(&["stop", &self.name])?;
        }
        self.kill_the_rest();
        Ok(())
    }

    /// Kills remaining processes of the program. supervisord gives each program a process group with the program's pid.
    fn kill_the_rest(&self) {
        let Ok(first) = self.supervisor.container.pid() else {
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < KILL {
            let mut left: Vec<Stat> = process::descendants(first).into_iter().filter_map(Stat::of).collect();
            left.retain(|stat| stat.group == self.pid && stat.state != b'Z');
            if left.is_empty() {
                return;
            }
            for stat in left {
                send_signal(stat.pid, libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How a program ended, from supervisord's log: `exited: NAME (exit status 3; not expected)` or
/// `exited: NAME (terminated by SIGKILL; not expected)`. Without such a line, it ended with its container.
fn end_of(name: &str, log: &str) -> Exit {
    let line = log
        .lines()
        .rev()
        .find_map(|line| line.split_once(&format!("exited: {name} (")))
        .map(|(_, rest)| rest);
    let word = |prefix: &str| line?.strip_prefix(prefix)?.split([';', ')', ' ']).next();
    if let Some(code) = word("exit status ").and_then(|code| code.parse().ok()) {
        return Exit::Code(code);
    }
    Exit::Signal(
        word("terminated by SIG")
            .and_then(signal_number)
            .unwrap_or(libc::SIGKILL),
    )
}

/// The program as a shell script, which handles quoting, environment and directory. supervisord's own format interprets
/// `;` and `%`.
fn script(service: &RenderedService, directory: &Path) -> String {
    let mut text = format!("cd {}\n", quoted(&directory.display().to_string()));
    for (name, value) in &service.environment {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    let words: Vec<String> = service.command.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(text, "exec {}", words.join(" "));
    text
}

/// The program's section: it starts when lasthop says so and never restarts, because a server that died is a failure of
/// the run.
fn section(service: &RenderedService, script: &Path, log: &Path) -> String {
    // stopwaitsecs takes whole seconds, and 0 would kill at once.
    let seconds = service.stop.timeout.max(Duration::from_secs(1)).as_secs();
    // startsecs=0: lasthop checks readiness, and `supervisorctl start` would wait for that long.
    // maxbytes=0: supervisord would rotate the log at 50 MB.
    format!(
        "[program:{}]\ncommand=/bin/sh {}\nautostart=false\nautorestart=false\nstartsecs=0\nstopsignal={}\nstopwaitsecs={seconds}\n\
         killasgroup=true\nredirect_stderr=true\nstdout_logfile={}\nstdout_logfile_maxbytes=0\n",
        service.name,
        script.display(),
        service.stop.signal,
        log.display()
    )
}

/// The host's pid of a process that has another pid in its container.
fn outer_pid(first: i32, inner: i32) -> Option<i32> {
    let mut family = process::descendants(first).into_iter();
    family.find(|pid| {
        let numbers = Facts::here()
            .field(&format!("/proc/{pid}/status"), "NSpid")
            .unwrap_or_default();
        // NSpid lists pids from the outermost pid namespace inwards; the last is the pid in the container (proc(5)).
        numbers.split_ascii_whitespace().last() == Some(&inner.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_from_the_log() {
        let log = "INFO exited: app (exit status 3; not expected)\nINFO spawned: 'app' with pid 9\n\
                   INFO exited: app (terminated by SIGKILL; not expected)\nINFO exited: web (exit status 0; expected)\n";
        assert_eq!(end_of("app", log), Exit::Signal(libc::SIGKILL));
        assert_eq!(end_of("web", log), Exit::Code(0));
        let first = log.lines().next().unwrap();
        assert_eq!(end_of("app", first), Exit::Code(3));
        assert_eq!(end_of("none", log), Exit::Signal(libc::SIGKILL));
    }
}
