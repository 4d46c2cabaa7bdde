//! The services of a stack: prepared, started, ready, and stopped again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use lasthop_load::spec::{Address, Endpoint};
use serde::{Deserialize, Serialize};

use super::{
    bindings::{Bindings, LOG, ServiceBinding},
    guard::{Exit, Guard, GuardError, GuardedChild, Output, Spawn, signal},
    listener::{self, Owner},
    process,
    readiness::{self, NotReady},
};
use crate::experiment::model::{RenderedService, Stop};

/// The longest that one command of a recipe's preparation may take.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);
/// Lines of a log that an error shows.
const TAIL: usize = 20;

/// A stack that is to be started.
#[derive(Clone, Debug)]
pub struct StackPlan {
    pub bindings: Bindings,
    /// In start order; each has its binding under its name.
    pub services: Vec<RenderedService>,
}

/// Where the life of a service went wrong. The words are those of `record::schema::Failure::stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Locate,
    Prepare,
    Start,
    Ready,
    Stop,
}

impl Stage {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Locate => "locate",
            Self::Prepare => "prepare",
            Self::Start => "start",
            Self::Ready => "ready",
            Self::Stop => "stop",
        }
    }
}

/// A service that could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[error("service `{service}` failed ({}): {cause}{}", stage.name(), shown(log))]
pub struct StartError {
    pub service: String,
    pub stage: Stage,
    pub cause: StartCause,
    /// The last 20 lines of its log.
    pub log: String,
}

fn shown(log: &str) -> String {
    let lines = log.lines().map(|line| format!("\n    {line}")).collect::<String>();
    if lines.is_empty() { lines } else { format!("\n  last lines of its log:{lines}") }
}

#[derive(Debug, thiserror::Error)]
pub enum StartCause {
    #[error("the program has no binding: the plan and the sandbox do not agree")]
    Unbound,
    #[error("cannot write {path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("the file name {0} leads out of the service's directory")]
    Outside(PathBuf),
    #[error("`{command}` {exit}")]
    Prepare { command: String, exit: Exit },
    #[error("`{command}` did not end within {} s", PREPARE_TIMEOUT.as_secs())]
    PrepareTimedOut { command: String },
    #[error("somebody answers at {address} already{}: a stranger's server would be measured", by(owner))]
    AlreadyAnswered { address: String, owner: Option<Owner> },
    #[error("not it but {owner} answers at {address}: a stranger's server would be measured")]
    Stranger { address: String, owner: Owner },
    #[error("unknown signal `{0}` to stop it")]
    Signal(String),
    #[error("it has been stopped, but somebody still answers at {address}{}", by(owner))]
    StillAnswers { address: String, owner: Option<Owner> },
    #[error(transparent)]
    NotReady(NotReady),
    #[error(transparent)]
    Guard(#[from] GuardError),
}

fn by(owner: &Option<Owner>) -> String {
    owner.as_ref().map_or_else(String::new, |owner| format!(", {owner}"))
}

/// A running service. Dropping it kills it.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    pub recipe: String,
    /// The process that was started; others may descend from it.
    pub pid: i32,
    pub endpoint: Endpoint,
    pub log: PathBuf,
    /// Time from its start until it was ready.
    pub ready_after: Duration,
    stop: Stop,
    child: GuardedChild,
}

impl Instance {
    /// How it ended, if it has.
    #[must_use]
    pub fn exited(&self) -> Option<Exit> {
        self.child.exited()
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Stops it: its signal, then after its time a kill of all that descends from it. All are gone afterwards.
    ///
    /// # Errors
    /// The guard is gone, or somebody still answers at its address.
    pub fn stop(&self) -> Result<(), StartError> {
        let stop = || {
            self.child.stop(stop_signal(&self.stop)?, self.stop.timeout)?;
            match readiness::answers(&self.endpoint.address) {
                true => Err(StartCause::StillAnswers {
                    address: shown_address(&self.endpoint.address),
                    owner: listener::owners(&self.endpoint.address).pop(),
                }),
                false => Ok(()),
            }
        };
        stop().map_err(|cause| StartError {
            service: self.name.clone(),
            stage: Stage::Stop,
            cause,
            log: self.log_tail(),
        })
    }
}

/// The running services of a stack, in start order. Dropping it kills them; [`Stack::stop`] is the orderly way.
#[derive(Debug)]
pub struct Stack {
    pub round: u32,
    pub stack: usize,
    pub instances: Vec<Instance>,
}

impl Stack {
    /// Writes the files of each service, runs its preparation, starts it and waits until it is ready, one after the
    /// other. On an error those that run already are stopped.
    ///
    /// # Errors
    /// The service that failed, the stage, the cause and the end of its log.
    pub fn start(guard: &Guard, plan: &StackPlan) -> Result<Self, StartError> {
        let mut stack = Self { round: plan.bindings.round, stack: plan.bindings.stack, instances: Vec::new() };
        for service in &plan.services {
            match start_service(guard, &plan.bindings, service) {
                Ok(instance) => stack.instances.push(instance),
                Err(error) => {
                    let _ = stack.stop();
                    return Err(error);
                }
            }
        }
        Ok(stack)
    }

    /// Starts several stacks at the same time; the results are in the order of the plans.
    #[must_use]
    pub fn start_all(guard: &Guard, plans: &[StackPlan]) -> Vec<Result<Self, StartError>> {
        in_parallel(plans.iter(), |plan| Self::start(guard, plan))
    }

    /// Stops several stacks at the same time, and yields the first error of each.
    #[must_use]
    pub fn stop_all(stacks: Vec<Self>) -> Vec<Result<(), StartError>> {
        in_parallel(stacks.into_iter(), Self::stop)
    }

    #[must_use]
    pub fn instance(&self, name: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.name == name)
    }

    /// The first service that has ended by itself, if one has.
    #[must_use]
    pub fn died(&self) -> Option<(&Instance, Exit)> {
        self.instances.iter().find_map(|instance| Some((instance, instance.exited()?)))
    }

    /// Stops the services in reverse order; all of them, also when one fails.
    ///
    /// # Errors
    /// The first that went wrong.
    pub fn stop(mut self) -> Result<(), StartError> {
        let mut result = Ok(());
        while let Some(instance) = self.instances.pop() {
            result = result.and(instance.stop());
        }
        result
    }
}

fn in_parallel<T: Send, R: Send>(items: impl ExactSizeIterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn start_service(guard: &Guard, bindings: &Bindings, service: &RenderedService) -> Result<Instance, StartError> {
    let failed = |stage, cause, log| StartError { service: service.name.clone(), stage, cause, log };
    let Some(binding) = bindings.services.get(&service.name) else {
        return Err(failed(Stage::Start, StartCause::Unbound, String::new()));
    };
    let log = binding.record.join(LOG);
    let at = |stage| {
        let log = log.clone();
        move |cause| failed(stage, cause, tail(&log))
    };
    write_files(binding, service).map_err(at(Stage::Prepare))?;
    write_place(binding, service).map_err(at(Stage::Prepare))?;
    prepare(guard, binding, service, &log).map_err(at(Stage::Prepare))?;
    let stop_signal = stop_signal(&service.stop).map_err(at(Stage::Start))?;
    nobody_answers(&service.endpoint.address).map_err(at(Stage::Start))?;
    let spawn = spawn(binding, service, &service.command, &log)
        .map_err(at(Stage::Start))?
        .stop_signal(stop_signal)
        .cpus(bindings.cpus.iter().map(|cpu| *cpu as usize));
    let child = guard.spawn(spawn).map_err(StartCause::from).map_err(at(Stage::Start))?;
    let run = |command: &[String]| guard.spawn(in_place(binding, service, command));
    let ready_after =
        readiness::wait_until_ready(&service.ready, &service.endpoint, &run, || child.exited()).map_err(|cause| {
            // What it still writes while it ends belongs to the log that is shown.
            let _ = child.stop(stop_signal, service.stop.timeout);
            at(Stage::Ready)(StartCause::NotReady(cause))
        })?;
    no_stranger_answers(&service.endpoint.address, child.pid).map_err(at(Stage::Ready))?;
    Ok(Instance {
        name: service.name.clone(),
        recipe: service.recipe.clone(),
        pid: child.pid,
        endpoint: service.endpoint.clone(),
        log,
        ready_after,
        stop: service.stop.clone(),
        child,
    })
}

fn stop_signal(stop: &Stop) -> Result<i32, StartCause> {
    signal::number(&stop.signal).ok_or_else(|| StartCause::Signal(stop.signal.clone()))
}

fn write_files(binding: &ServiceBinding, service: &RenderedService) -> Result<(), StartCause> {
    for (name, content) in &service.files {
        if !name.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(StartCause::Outside(name.clone()));
        }
        for folder in [&binding.directory, &binding.record] {
            let path = folder.join(name);
            write_file(&path, content).map_err(|cause| StartCause::File { path, cause })?;
            if binding.directory == binding.record {
                break;
            }
        }
    }
    Ok(())
}

/// File name, in a service's folder of the run record, of how and where it was started.
pub const PLACE: &str = "place.json";

/// How and where a service was started: what `lasthop export` makes a configuration of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub directory: PathBuf,
    pub runtime: PathBuf,
    pub endpoint: Endpoint,
    /// Where the transport uses TLS: certificate and key.
    pub tls: Option<[PathBuf; 2]>,
    /// Rendered files but those of the application, relative to the folder.
    pub files: Vec<PathBuf>,
}

fn write_place(binding: &ServiceBinding, service: &RenderedService) -> Result<(), StartCause> {
    let files = service.files.iter().map(|(path, _)| path.clone());
    let place = Place {
        command: service.command.clone(),
        environment: service.environment.clone(),
        directory: binding.directory.clone(),
        runtime: binding.runtime.clone(),
        endpoint: service.endpoint.clone(),
        tls: binding.tls.as_ref().map(|tls| [tls.certificate.clone(), tls.key.clone()]),
        files: files.filter(|path| !path.starts_with("app")).collect(),
    };
    let path = binding.record.join(PLACE);
    let text = serde_json::to_vec_pretty(&place).expect("plain data with text keys");
    write_file(&path, &text).map_err(|cause| StartCause::File { path, cause })
}

/// Scripts are made executable.
fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)?;
    let mode = if content.starts_with(b"#!") { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn prepare(guard: &Guard, binding: &ServiceBinding, service: &RenderedService, log: &Path) -> Result<(), StartCause> {
    for command in &service.prepare {
        let child = guard.spawn(spawn(binding, service, command, log)?)?;
        let shown = || command.join(" ");
        match child.wait(PREPARE_TIMEOUT)? {
            Some(exit) if exit.success() => {}
            Some(exit) => return Err(StartCause::Prepare { command: shown(), exit }),
            None => return Err(StartCause::PrepareTimedOut { command: shown() }),
        }
    }
    Ok(())
}

/// Runs in the service's directory and writes to its log.
fn spawn(
    binding: &ServiceBinding,
    service: &RenderedService,
    command: &[String],
    log: &Path,
) -> Result<Spawn, StartCause> {
    let file = OpenOptions::new().create(true).append(true).open(log);
    let file = file.map_err(|cause| StartCause::File { path: log.to_owned(), cause })?;
    Ok(in_place(binding, service, command).stdout(Output::File(file)).stderr(Output::Same))
}

fn in_place(binding: &ServiceBinding, service: &RenderedService, command: &[String]) -> Spawn {
    let mut spawn = Spawn::new(command).directory(&binding.directory);
    if let Some(account) = &binding.account {
        spawn = spawn.user(account.ids.0, account.ids.1);
    }
    service.environment.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value))
}

fn nobody_answers(address: &Address) -> Result<(), StartCause> {
    match readiness::answers(address) {
        true => Err(StartCause::AlreadyAnswered {
            address: shown_address(address),
            owner: listener::owners(address).into_iter().next(),
        }),
        false => Ok(()),
    }
}

/// Between the question before the start and now another process may have taken the address.
fn no_stranger_answers(address: &Address, pid: i32) -> Result<(), StartCause> {
    let owners = listener::owners(address);
    let family = process::descendants(pid);
    let is_ours = |owner: &Owner| owner.pid == pid || family.contains(&owner.pid);
    match owners.into_iter().try_fold(None, |_, owner| if is_ours(&owner) { Err(()) } else { Ok(Some(owner)) }) {
        Ok(Some(owner)) => Err(StartCause::Stranger { address: shown_address(address), owner }),
        Ok(None) | Err(()) => Ok(()),
    }
}

fn shown_address(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Abstract(name) => format!("@{name}"),
        Address::Tcp(address) => address.to_string(),
    }
}

/// The last 20 lines of a log, of at most 64 KiB.
#[must_use]
pub fn tail(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_twenty_lines() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(tail(&log), "");
        fs::write(&log, (1..=30).map(|line| format!("line {line}\n")).collect::<String>()).unwrap();
        let shown = tail(&log);
        assert_eq!((shown.lines().count(), shown.lines().next()), (20, Some("line 11")));
        assert!(shown.ends_with("line 30"));
    }
}
