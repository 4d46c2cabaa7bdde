//! The services of a stack: prepared, started, ready, and stopped again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use lasthop_load::spec::{Address, Endpoint};
use serde::{Deserialize, Serialize};

use super::{
    bindings::{Bindings, LOG, ServiceBinding},
    container::{
        engine::EngineError,
        launch::Launch,
        site::Housing,
        supervisor::{Supervised, SupervisorError},
    },
    guard::{Exit, Guard, GuardError, GuardedChild, Output, Spawn, signal},
    listener::{self, Owner},
    process,
    readiness::{self, NotReady},
};
use crate::{
    experiment::{
        container::Network,
        model::{RenderedService, Stop},
    },
    observe::procfs::InContainer,
};

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
    /// Those that run in containers.
    pub containers: IndexMap<String, Housing>,
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
    #[error("{address}, where its port was to be published, was taken meanwhile{}; try again", by(owner))]
    PortTaken { address: SocketAddr, owner: Option<Owner> },
    #[error(
        "the folder {folder} cannot hold a Unix socket: {cause} (file system: {kind}); {}",
        if *on_volume { "let the engine keep its volumes on a local file system" }
        else { "set LASTHOP_SANDBOX to a directory on a local file system such as /tmp" }
    )]
    NoSockets { folder: PathBuf, kind: Box<str>, cause: io::Error, on_volume: bool },
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    #[error("{0}")]
    Container(String),
    #[error(transparent)]
    NotReady(#[from] NotReady),
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
    /// Processes of its container's path, such as docker-proxy: what each is, and its number.
    pub helpers: Vec<(String, i32)>,
    stop: Stop,
    life: Life,
    /// Its own, or that of its supervisor.
    container: Option<Launch>,
}

/// What was started for a service.
#[derive(Debug)]
enum Life {
    /// A process, or the client of an engine that runs its container.
    Child(GuardedChild),
    Supervised(Box<Supervised>),
}

impl Life {
    fn exited(&self) -> Option<Exit> {
        match self {
            Self::Child(child) => child.exited(),
            Self::Supervised(program) => program.exited(),
        }
    }

    fn stop(&self, signal: i32, timeout: Duration) -> Result<(), StartCause> {
        match self {
            Self::Child(child) => child.stop(signal, timeout).map(drop).map_err(StartCause::Guard),
            Self::Supervised(program) => program.stop().map_err(StartCause::Engine),
        }
    }
}

impl Instance {
    /// How it ended, if it has.
    #[must_use]
    pub fn exited(&self) -> Option<Exit> {
        self.life.exited()
    }

    /// What the cgroup of its first process says of it.
    #[must_use]
    pub fn in_container(&self) -> InContainer {
        match (&self.life, &self.container) {
            (Life::Child(_), Some(container)) if container.holds_others => InContainer::WithOthers,
            (Life::Child(_), Some(_)) => InContainer::Alone,
            _ => InContainer::No,
        }
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
            self.life.stop(stop_signal(&self.stop)?, self.stop.timeout)?;
            if let (Life::Child(_), Some(container)) = (&self.life, &self.container) {
                container.remove().map_err(StartCause::Engine)?;
            }
            // With its container a bridge address has gone from this machine.
            let here = self.container.as_ref().is_none_or(Launch::is_local);
            match here && readiness::answers(&self.endpoint.address) {
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
            match start_service(guard, plan, service) {
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

fn start_service(guard: &Guard, plan: &StackPlan, service: &RenderedService) -> Result<Instance, StartError> {
    let bindings = &plan.bindings;
    let housing = plan.containers.get(&service.name);
    let container = housing.map(Housing::container);
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
    write_place(binding, service, container).map_err(at(Stage::Prepare))?;
    prepare(guard, binding, service, housing, &log).map_err(at(Stage::Prepare))?;
    let stop_signal = stop_signal(&service.stop).map_err(at(Stage::Start))?;
    address_is_free(container, &service.endpoint.address).map_err(at(Stage::Start))?;
    let life = begin(guard, bindings, binding, service, housing, &log).map_err(at(Stage::Start))?;
    let up = come_up(guard, binding, service, container, &life).map_err(|cause| {
        // What it still writes while it ends belongs to the log that is shown.
        let _ = life.stop(stop_signal, service.stop.timeout);
        let own = container.filter(|_| matches!(life, Life::Child(_)));
        let explained = own.and_then(|container| container_died(container, &cause));
        let _ = own.map(Launch::remove);
        at(Stage::Ready)(explained.unwrap_or(cause))
    })?;
    Ok(Instance {
        name: service.name.clone(),
        recipe: service.recipe.clone(),
        pid: up.pid,
        helpers: up.helpers,
        container: container.cloned(),
        endpoint: service.endpoint.clone(),
        log,
        ready_after: up.after,
        stop: service.stop.clone(),
        life,
    })
}

/// A service that is ready.
struct Up {
    after: Duration,
    pid: i32,
    helpers: Vec<(String, i32)>,
}

/// Waits until it is ready, and sees that it is who answers.
fn come_up(
    guard: &Guard,
    binding: &ServiceBinding,
    service: &RenderedService,
    container: Option<&Launch>,
    life: &Life,
) -> Result<Up, StartCause> {
    let run = |command: &[String]| match container {
        Some(container) => guard.spawn(client_in_place(binding, &container.exec(command))),
        None => guard.spawn(in_place(binding, service, command)),
    };
    if let Some(container) = container {
        wait_until_local(container, life, service.ready.timeout)?;
    }
    let after = readiness::wait_until_ready(&service.ready, &service.endpoint, &run, || life.exited())?;
    let (pid, helpers) = processes(life, container, &service.endpoint.address)?;
    if container.is_none_or(|container| container.publish.is_none()) {
        no_stranger_answers(&service.endpoint.address, pid)?;
    }
    Ok(Up { after, pid, helpers })
}

/// Nobody else is where the service is to listen, and the place can hold a socket.
fn address_is_free(container: Option<&Launch>, address: &Address) -> Result<(), StartCause> {
    // Before the bridge is there its addresses are on the way to elsewhere, where anybody may answer.
    if is_loopback(address) || container.is_none_or(Launch::is_local) {
        nobody_answers(address)?;
    }
    match address {
        Address::Unix(path) => {
            let volume = container.and_then(|container| container.volume.as_ref());
            holds_sockets(path, volume.is_some_and(|volume| path.starts_with(&volume.folder)))
        }
        _ => Ok(()),
    }
}

/// Starts it: as a process, as a container, or by the supervisor of one.
fn begin(
    guard: &Guard,
    bindings: &Bindings,
    binding: &ServiceBinding,
    service: &RenderedService,
    housing: Option<&Housing>,
    log: &Path,
) -> Result<Life, StartCause> {
    let container = match housing {
        Some(Housing::Inside(supervisor)) => {
            return Ok(Life::Supervised(Box::new(supervisor.start(service, &binding.directory, log)?)));
        }
        Some(Housing::Own(container)) => Some(container),
        None => None,
    };
    let command = container.map_or_else(
        || service.command.clone(),
        |container| container.run(&service.command, &service.environment, &service.stop.signal),
    );
    let spawn = spawn(binding, service, container, &command, log)?
        .stop_signal(stop_signal(&service.stop)?)
        .cpus(bindings.cpus.iter().map(|cpu| *cpu as usize));
    Ok(Life::Child(guard.spawn(spawn)?))
}

/// The first process of a service, and what the engine put between it and its published port.
fn processes(
    life: &Life,
    container: Option<&Launch>,
    address: &Address,
) -> Result<(i32, Vec<(String, i32)>), StartCause> {
    match (life, container) {
        (Life::Supervised(program), _) => Ok((program.pid, Vec::new())),
        (Life::Child(_), Some(container)) => container_processes(container, address),
        (Life::Child(child), None) => Ok((child.pid, Vec::new())),
    }
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
    /// How it ran in a container, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<PlaceContainer>,
}

/// The container of a service, as far as a Pod needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceContainer {
    pub image: String,
    /// Files and folders of the host that the image lacked.
    pub host: Vec<PathBuf>,
    pub host_network: bool,
    pub cpus: Option<String>,
    pub memory: Option<String>,
    /// `USER:GROUP` in numbers, where it was not the engine's choice.
    pub user: Option<String>,
    /// Whether further services ran in it.
    #[serde(default)]
    pub shared: bool,
}

impl PlaceContainer {
    fn of(launch: &Launch) -> Self {
        let own = |path: &&PathBuf| !path.starts_with(&launch.sandbox);
        Self {
            image: launch.image.clone(),
            host: launch.readable.iter().filter(own).cloned().collect(),
            host_network: launch.container.network == Network::Host,
            cpus: launch.container.cpus.clone(),
            memory: launch.container.memory.clone(),
            user: launch.user.clone(),
            shared: launch.holds_others,
        }
    }
}

fn write_place(
    binding: &ServiceBinding,
    service: &RenderedService,
    container: Option<&Launch>,
) -> Result<(), StartCause> {
    let files = service.files.iter().map(|(path, _)| path.clone());
    let place = Place {
        command: service.command.clone(),
        environment: service.environment.clone(),
        directory: binding.directory.clone(),
        runtime: binding.runtime.clone(),
        endpoint: service.endpoint.clone(),
        tls: binding.tls.as_ref().map(|tls| [tls.certificate.clone(), tls.key.clone()]),
        files: files.filter(|path| !path.starts_with("app")).collect(),
        container: container.map(PlaceContainer::of),
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

/// What the engine says of a container that ended before it was ready.
fn container_died(container: &Launch, cause: &StartCause) -> Option<StartCause> {
    let StartCause::NotReady(NotReady::Died(exit)) = cause else { return None };
    let engine = container.engine.kind.name();
    if let Some(address) = container.published().filter(|address| is_taken(*address)) {
        return Some(StartCause::PortTaken { address, owner: listener::owners(&Address::Tcp(address)).pop() });
    }
    // Statuses of `run` that both engines share: 125 is the engine's own, 126 and 127 are of the program.
    let text = match exit {
        _ if container.out_of_memory() => {
            "its container was killed for its memory limit; raise container.memory".to_owned()
        }
        Exit::Code(125) => format!("{engine} could not start its container; the log has its reason"),
        Exit::Code(126 | 127) => format!("its program cannot be run in the container's image {}", container.image),
        exit => format!("its container {exit} before it was ready"),
    };
    Some(StartCause::Container(text))
}

/// Whether somebody has bound this address, listening or not.
fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// The first process of a container, and what the engine put between it and its published port.
fn container_processes(container: &Launch, address: &Address) -> Result<(i32, Vec<(String, i32)>), StartCause> {
    let pid = container.pid().map_err(StartCause::Engine)?;
    let family = process::descendants(pid);
    let owners = listener::owners(address).into_iter().filter(|owner| owner.pid != pid && !family.contains(&owner.pid));
    let helpers: Vec<(String, i32)> = match container.publish {
        // conmon holds the port of rootful podman so that nobody else takes it; no byte goes through it.
        Some(_) => owners.filter(|owner| owner.command != "conmon").map(|owner| (owner.command, owner.pid)).collect(),
        None => Vec::new(),
    };
    Ok((pid, helpers))
}

/// Waits for the bridge, without which somebody elsewhere might answer in the container's place.
fn wait_until_local(container: &Launch, child: &Life, timeout: Duration) -> Result<(), NotReady> {
    let begin = Instant::now();
    while !container.is_local() {
        if let Some(exit) = child.exited() {
            return Err(NotReady::Died(exit));
        }
        if begin.elapsed() > timeout {
            let last =
                "packets to its address would leave this machine; choose other address pools for the engine".to_owned();
            return Err(NotReady::TimedOut { after: timeout, last });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Not every file system can hold a socket, and not every engine shows the host's folder as it is.
fn holds_sockets(path: &Path, on_volume: bool) -> Result<(), StartCause> {
    // No name is shorter: the path of the socket itself may be as long as the kernel allows.
    let probe = path.with_file_name("p");
    let made = std::os::unix::net::UnixListener::bind(&probe);
    let _ = fs::remove_file(&probe);
    made.map(drop).map_err(|cause| {
        let folder = path.parent().unwrap_or(path).to_owned();
        StartCause::NoSockets { kind: kind_of_file_system(&folder).into(), folder, cause, on_volume }
    })
}

/// Of the mount that a folder is in, as the kernel names it.
fn kind_of_file_system(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let columns = |line: &str| -> Option<(PathBuf, String)> {
        let mut columns = line.split(' ').skip(1);
        Some((PathBuf::from(columns.next()?), columns.next()?.to_owned()))
    };
    let around = mounts.lines().filter_map(columns).filter(|(at, _)| folder.starts_with(at));
    // Of two mounts at one place the later one is on top.
    around.max_by_key(|(at, _)| at.components().count()).map_or_else(|| "unknown".to_owned(), |(_, kind)| kind)
}

fn prepare(
    guard: &Guard,
    binding: &ServiceBinding,
    service: &RenderedService,
    housing: Option<&Housing>,
    log: &Path,
) -> Result<(), StartCause> {
    let container = housing.map(Housing::container);
    for command in &service.prepare {
        let contained = housing.map(|housing| match housing {
            Housing::Own(container) => container.prepare(command, &service.environment),
            Housing::Inside(supervisor) => supervisor.container.exec(command),
        });
        let child = guard.spawn(spawn(binding, service, container, contained.as_ref().unwrap_or(command), log)?)?;
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
    container: Option<&Launch>,
    command: &[String],
    log: &Path,
) -> Result<Spawn, StartCause> {
    let file = OpenOptions::new().create(true).append(true).open(log);
    let file = file.map_err(|cause| StartCause::File { path: log.to_owned(), cause })?;
    let spawn = match container {
        Some(_) => client_in_place(binding, command),
        None => in_place(binding, service, command),
    };
    Ok(spawn.stdout(Output::File(file)).stderr(Output::Same))
}

fn in_place(binding: &ServiceBinding, service: &RenderedService, command: &[String]) -> Spawn {
    let mut spawn = Spawn::new(command).directory(&binding.directory);
    if let Some(account) = &binding.account {
        spawn = spawn.user(account.ids.0, account.ids.1);
    }
    service.environment.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value))
}

/// The client of an engine runs as lasthop does; the container has the service's own account and environment.
fn client_in_place(binding: &ServiceBinding, command: &[String]) -> Spawn {
    Spawn::new(command).directory(&binding.directory)
}

/// A published port on loopback is this machine's own, with a bridge or without.
fn is_loopback(address: &Address) -> bool {
    matches!(address, Address::Tcp(address) if address.ip().is_loopback())
}

fn nobody_answers(address: &Address) -> Result<(), StartCause> {
    match readiness::answers(address) {
        true => {
            Err(StartCause::AlreadyAnswered { address: shown_address(address), owner: listener::owners(address).pop() })
        }
        false => Ok(()),
    }
}

/// Between the question before the start and now another process may have taken the address.
fn no_stranger_answers(address: &Address, pid: i32) -> Result<(), StartCause> {
    let mut owners = listener::owners(address);
    let family = process::descendants(pid);
    let is_ours = owners.iter().any(|owner| owner.pid == pid || family.contains(&owner.pid));
    match owners.pop().filter(|_| !is_ours) {
        Some(owner) => Err(StartCause::Stranger { address: shown_address(address), owner }),
        None => Ok(()),
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
