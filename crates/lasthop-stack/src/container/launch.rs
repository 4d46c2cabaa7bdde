//! Command lines for one container.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use lasthop_model::{
    container::{Network, RenderedContainer},
    started::ServiceContainer,
};
use lasthop_system::interrupt;
use lasthop_trial::address::Address;

use super::{
    engine::{Engine, EngineError, REMOVAL},
    labels, network,
    volume::Volume,
};

/// Serialises removals, because netavark leaves chains behind when several containers of a network are removed at the
/// same time. Holds the time of a removal that hung: for as long again, all other removals are left to the guard.
static REMOVING: Mutex<Option<Instant>> = Mutex::new(None);

/// A place on a bridge network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnBridge {
    pub network: String,
    pub address: Ipv4Addr,
    pub gateway: Ipv4Addr,
}

/// A container, before or after its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub engine: Engine,
    /// Unique on the machine.
    pub name: String,
    pub image: String,
    pub run: String,
    pub sandbox: String,
    pub container: RenderedContainer,
    /// The address on the run's bridge.
    pub bridge: Option<OnBridge>,
    /// The address of this machine at which the port is published.
    pub publish: Option<SocketAddr>,
    pub volume: Option<Volume>,
    /// Name of the container whose network namespace this one joins.
    pub joined: Option<String>,
    /// Whether a supervisor runs other services in the container.
    pub holds_others: bool,
    /// Folders mounted at their own paths.
    pub writable: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
    /// Working directory.
    pub directory: PathBuf,
    pub cpus: Vec<u32>,
    /// `USER:GROUP` in numbers.
    pub user: String,
}

impl Launch {
    /// The container as the record has it.
    pub fn as_recorded(&self) -> ServiceContainer {
        ServiceContainer {
            image: self.image.clone(),
            host: self
                .readable
                .iter()
                .filter(|path| !path.starts_with(&self.sandbox))
                .cloned()
                .collect(),
            host_network: self.container.network == Network::Host,
            cpus: self.container.cpus.clone(),
            memory: self.container.memory.clone(),
            user: Some(self.user.clone()),
            shared: self.holds_others,
        }
    }

    /// The command that runs the service in the foreground.
    pub fn run(&self, command: &[String], environment: &[(String, String)], stop_signal: &str) -> Vec<String> {
        let mut words = self.begin(environment);
        words.extend(self.network());
        words.extend(self.publish.iter().map(|at| format!("--publish={at}:{}", at.port())));
        words.extend(self.limits());
        words.push(format!("--stop-signal={stop_signal}"));
        // The client already writes the output to the service's log, so the engine need not keep a copy.
        words.push("--log-driver=none".to_owned());
        self.end(words, command)
    }

    /// The container for a preparation command. It has its own name, so that it can be removed.
    pub fn for_preparation(&self, command: usize) -> Self {
        Self {
            name: format!("{}-prepare-{command}", self.name),
            ..self.clone()
        }
    }

    /// The command that runs a preparation command to its end, without a network.
    pub fn prepare(&self, command: &[String], environment: &[(String, String)]) -> Vec<String> {
        let mut words = self.begin(environment);
        words.extend(["--rm", "--network=none"].map(str::to_owned));
        self.end(words, command)
    }

    /// The command that runs another one in the running container.
    pub fn exec(&self, command: &[String]) -> Vec<String> {
        let workdir = format!("--workdir={}", self.directory.display());
        let own = [self.engine.client(), "exec".to_owned(), workdir, self.name.clone()];
        [&own[..], command].concat()
    }

    /// Removes the container in any state.
    pub fn remove(&self) -> Result<(), EngineError> {
        let mut words = self.engine.dialect().rm();
        words.push(&self.name);
        let _shield = interrupt::shield();
        let mut hung = REMOVING.lock().unwrap_or_else(PoisonError::into_inner);
        if hung.is_some_and(|at| at.elapsed() < REMOVAL) {
            return Err(EngineError::Hangs(self.engine.kind.name()));
        }
        match self.engine.remove(&words) {
            Err(error @ EngineError::Hangs(_)) => {
                *hung = Some(Instant::now());
                Err(error)
            }
            // The engine may have refused only because the container no longer exists.
            Err(_) if self.pid().is_err() => Ok(()),
            removed => removed,
        }
    }

    /// Name of the container whose network namespace this one uses.
    pub fn namespace(&self) -> &str {
        self.joined.as_deref().unwrap_or(&self.name)
    }

    /// Pid of the first process, in the host's pid namespace.
    pub fn pid(&self) -> Result<i32, EngineError> {
        let answer = self.inspect("{{.State.Pid}}")?;
        answer.trim().parse().map_err(|_| {
            let said = format!("its pid is `{}`", answer.trim());
            self.engine.failed(&format!("inspect {}", self.name), &said)
        })
    }

    /// Whether traffic to the container stays on this machine.
    pub fn is_local(&self) -> bool {
        self.engine.rootless
            || self
                .bridge
                .as_ref()
                .is_none_or(|place| network::is_local(place.address, place.gateway))
    }

    /// Whether this is the container's own address on a bridge. The address exists only while the container runs:
    /// nobody else can answer there, and connecting to it afterwards takes seconds.
    pub fn owns(&self, address: &Address) -> bool {
        let place = self.bridge.as_ref();
        place.is_some_and(|place| address.ip() == Some(place.address.into()))
    }

    /// Whether the kernel killed the container at its memory limit.
    pub fn out_of_memory(&self) -> bool {
        self.inspect("{{.State.OOMKilled}}")
            .is_ok_and(|answer| answer.trim() == "true")
    }

    fn inspect(&self, format: &str) -> Result<String, EngineError> {
        self.engine
            .ask(["container", "inspect", "--format", format, &self.name])
    }

    fn begin(&self, environment: &[(String, String)]) -> Vec<String> {
        let mut words = vec![self.engine.client(), "run".to_owned(), "--pull=never".to_owned()];
        words.extend(self.engine.process_limits());
        words.extend(labels(&self.run, &self.sandbox));
        words.push(format!("--name={}", self.name));
        words.push(format!("--workdir={}", self.directory.display()));
        words.extend(environment.iter().map(|(name, value)| format!("--env={name}={value}")));
        words.push(format!("--user={}", self.user));
        for (paths, options) in [(&self.readable, ":ro"), (&self.writable, "")] {
            words.extend(
                paths
                    .iter()
                    .map(|path| format!("--volume={0}:{0}{options}", path.display())),
            );
        }
        if let Some(Volume { name, folder }) = &self.volume {
            words.push(format!("--volume={name}:{}", folder.display()));
        }
        words
    }

    fn network(&self) -> Vec<String> {
        match (&self.container.network, &self.bridge, &self.joined) {
            (Network::Bridge, Some(place), _) => {
                vec![
                    format!("--network={}", place.network),
                    format!("--ip={}", place.address),
                ]
            }
            (Network::Service(_), _, Some(container)) => vec![format!("--network=container:{container}")],
            (Network::Host, ..) => vec!["--network=host".to_owned()],
            _ => vec!["--network=none".to_owned()],
        }
    }

    fn limits(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.container.cpus.iter().map(|cpus| format!("--cpus={cpus}")));
        words.extend(self.container.memory.iter().map(|memory| format!("--memory={memory}")));
        words.extend(
            self.container
                .sysctls
                .iter()
                .map(|(name, value)| format!("--sysctl={name}={value}")),
        );
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
            words.push(format!("--cpuset-cpus={}", cpus.join(",")));
        }
        words
    }

    /// Runs the program instead of the image's entry point.
    fn end(&self, mut words: Vec<String>, command: &[String]) -> Vec<String> {
        let mut command = command.iter().cloned();
        words.push(format!("--entrypoint={}", command.next().unwrap_or_default()));
        words.push(self.image.clone());
        words.extend(command);
        words
    }
}
