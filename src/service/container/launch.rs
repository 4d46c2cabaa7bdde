//! The command lines of one container.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::{
    RUN_LABEL, SANDBOX_LABEL,
    engine::{Engine, EngineError, Kind},
    network,
    volume::Volume,
};
use crate::experiment::container::{Network, RenderedContainer};

/// netavark leaves chains of a network behind when several of its containers go at the same time.
static REMOVING: Mutex<()> = Mutex::new(());

/// A place on a bridge network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnBridge {
    pub network: String,
    pub address: Ipv4Addr,
    pub gateway: Ipv4Addr,
}

/// A container that is to be started, or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub engine: Engine,
    /// Unique on the machine.
    pub name: String,
    pub image: String,
    /// Folders of programs, where the image does not say them itself.
    pub path: Option<&'static str>,
    pub run: String,
    pub sandbox: String,
    pub container: RenderedContainer,
    /// Its place on the run's bridge.
    pub bridge: Option<OnBridge>,
    /// `ADDRESS:PORT:PORT`
    pub publish: Option<String>,
    pub volume: Option<Volume>,
    /// Name of the container whose network namespace it joins.
    pub joined: Option<String>,
    /// Whether it is a supervisor's, with other services in it.
    pub holds_others: bool,
    /// Folders that are mounted at their own paths.
    pub writable: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
    /// Working directory.
    pub directory: PathBuf,
    pub cpus: Vec<u32>,
    /// `USER:GROUP` in numbers, where it is not the engine's or the image's choice.
    pub user: Option<String>,
}

impl Launch {
    /// Runs the service in the foreground.
    #[must_use]
    pub fn run(&self, command: &[String], environment: &[(String, String)], stop_signal: &str) -> Vec<String> {
        let mut words = self.begin(environment);
        words.extend(["--name".to_owned(), self.name.clone()]);
        words.extend(self.network());
        words.extend(self.publish.iter().flat_map(|publish| ["--publish".to_owned(), publish.clone()]));
        words.extend(self.limits());
        words.extend(["--stop-signal".to_owned(), stop_signal.to_owned()]);
        // Its output goes to the client's, and from there to the service's log: no second copy.
        words.push("--log-driver=none".to_owned());
        self.end(words, command)
    }

    /// The container of a command of the preparation, which has a name of its own so that it can be removed.
    #[must_use]
    pub fn for_preparation(&self, command: usize) -> Self {
        Self { name: format!("{}-prepare-{command}", self.name), ..self.clone() }
    }

    /// Runs a command of the preparation to its end, without a network.
    #[must_use]
    pub fn prepare(&self, command: &[String], environment: &[(String, String)]) -> Vec<String> {
        let mut words = self.begin(environment);
        words.extend(["--name".to_owned(), self.name.clone(), "--rm".to_owned(), "--network=none".to_owned()]);
        self.end(words, command)
    }

    /// Runs a command in the running container.
    #[must_use]
    pub fn exec(&self, command: &[String]) -> Vec<String> {
        let directory = self.directory.display().to_string();
        let mut words = vec![self.engine.client(), "exec".to_owned(), "--workdir".to_owned(), directory];
        words.push(self.name.clone());
        words.extend_from_slice(command);
        words
    }

    /// Removes the container, whatever state it is in.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn remove(&self) -> Result<(), EngineError> {
        let mut words = vec!["rm", "--force", "--volumes"];
        if self.engine.kind == Kind::Podman {
            words.extend(["--time", "0", "--depend"]);
        }
        words.push(&self.name);
        let _one_at_a_time = REMOVING.lock().unwrap_or_else(PoisonError::into_inner);
        match self.engine.remove(&words) {
            Err(_) if self.pid().is_err() => Ok(()),
            removed => removed,
        }
    }

    /// The address of this machine that its port is published at.
    #[must_use]
    pub fn published(&self) -> Option<SocketAddr> {
        self.publish.as_ref()?.rsplit_once(':')?.0.parse().ok()
    }

    /// Number of its first process in the host's numbering.
    ///
    /// # Errors
    /// There is no such container.
    pub fn pid(&self) -> Result<i32, EngineError> {
        let answer = self.inspect("{{.State.Pid}}")?;
        let wrong = || EngineError::Failed {
            command: format!("{} inspect {}", self.engine.kind.name(), self.name),
            cause: format!("its process number is `{}`", answer.trim()),
        };
        answer.trim().parse().map_err(|_| wrong())
    }

    /// Whether load to it stays on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.engine.rootless || self.bridge.as_ref().is_none_or(|place| network::is_local(place.address, place.gateway))
    }

    /// Whether the kernel killed it for its memory limit.
    #[must_use]
    pub fn out_of_memory(&self) -> bool {
        self.inspect("{{.State.OOMKilled}}").is_ok_and(|answer| answer.trim() == "true")
    }

    fn inspect(&self, format: &str) -> Result<String, EngineError> {
        self.engine.ask(["container", "inspect", "--format", format, &self.name])
    }

    fn begin(&self, environment: &[(String, String)]) -> Vec<String> {
        let mut words = vec![self.engine.client(), "run".to_owned(), "--pull=never".to_owned()];
        words.push(format!("--label={RUN_LABEL}={}", self.run));
        words.push(format!("--label={SANDBOX_LABEL}={}", self.sandbox));
        words.extend(["--workdir".to_owned(), self.directory.display().to_string()]);
        words.extend(self.path.map(|path| format!("--env=PATH={path}")));
        words.extend(environment.iter().map(|(name, value)| format!("--env={name}={value}")));
        words.extend(self.user.iter().map(|user| format!("--user={user}")));
        let mount = |path: &PathBuf, options: &str| format!("--volume={0}:{0}{options}", path.display());
        words.extend(self.readable.iter().map(|path| mount(path, ":ro")));
        words.extend(self.writable.iter().map(|path| mount(path, "")));
        let volume = self.volume.iter().map(|volume| format!("--volume={}:{}", volume.name, volume.folder.display()));
        words.extend(volume);
        words
    }

    fn network(&self) -> Vec<String> {
        match (&self.container.network, &self.bridge, &self.joined) {
            (Network::Bridge, Some(place), _) => {
                vec![format!("--network={}", place.network), format!("--ip={}", place.address)]
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
        words.extend(self.container.sysctls.iter().map(|(name, value)| format!("--sysctl={name}={value}")));
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
            words.push(format!("--cpuset-cpus={}", cpus.join(",")));
        }
        words
    }

    /// The program takes the place of whatever the image would start.
    fn end(&self, mut words: Vec<String>, command: &[String]) -> Vec<String> {
        let (program, arguments) = command.split_first().map_or(("", &[][..]), |(program, rest)| (program, rest));
        words.push(format!("--entrypoint={program}"));
        words.push(self.image.clone());
        words.extend_from_slice(arguments);
        words
    }
}
