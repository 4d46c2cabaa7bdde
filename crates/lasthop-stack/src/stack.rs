//! The services of a stack: prepares, starts and stops them, and waits until they are ready.

mod ground;
mod start;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::Bindings,
    container::Network,
    observation::InContainer,
    record::Stage,
    service::{RenderedService, Stop},
};
use lasthop_system::{files, interrupt, listener};
use lasthop_trial::address::{Address, Endpoint};

use self::ground::Ground;
use super::{
    container::{launch::Launch, site::Housing, supervisor::Supervised},
    exit::{self, Exit},
    guard::{Guard, GuardedChild},
    readiness,
};

/// Lines of a log in an error.
const TAIL: usize = 20;

/// A stack to start.
#[derive(Clone, Debug)]
pub struct StackPlan {
    pub bindings: Bindings,
    /// In start order; each name has a binding.
    pub services: Vec<RenderedService>,
    /// Services that run in containers.
    pub containers: IndexMap<String, Housing>,
}

impl StackPlan {
    /// The services with their folders, before any of them runs.
    fn grounds<'a>(&'a self, guard: &'a Guard) -> Result<Vec<Ground<'a>>, StartError> {
        let mut grounds = Vec::new();
        for service in &self.services {
            let name = &service.name;
            let binding = self.bindings.services.get(name);
            let binding = binding.expect("the sandbox has an address for each service of the plan");
            let ground = Ground::lay(guard, &self.bindings.cpus, binding, service, self.containers.get(name));
            grounds.push(ground.map_err(|cause| StartError {
                service: name.clone(),
                stage: Stage::Prepare,
                cause,
                log: Log::default(),
            })?);
        }
        Ok(grounds)
    }
}

/// A service that could not be started or stopped.
#[derive(Debug)]
pub struct StartError {
    pub service: String,
    pub stage: Stage,
    pub cause: String,
    pub log: Log,
}

/// The output of a process.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The last 20 lines, of at most 64 KiB.
    pub tail: String,
    /// The log file; `None` if it is empty.
    pub file: Option<PathBuf>,
}

/// The process that answers at an address, if it is visible.
fn by(address: &Address) -> String {
    let first = listener::owners(address).into_iter().next();
    first.map_or_else(|| "another process".to_owned(), |owner| owner.to_string())
}

/// A running service. Dropping it kills it, except a container, which stays until the run ends.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    pub recipe: String,
    /// The process that was started, which may have descendants.
    pub pid: i32,
    pub endpoint: Endpoint,
    pub log: PathBuf,
    /// Processes on the path to the container, such as docker-proxy: name and pid.
    pub helpers: Vec<(String, i32)>,
    stop: Stop,
    life: Life,
    /// The service's sockets at its address, if it has no container.
    sockets: Vec<String>,
    /// The service's container, or that of its supervisor.
    container: Option<Launch>,
}

/// The process of a service.
#[derive(Debug)]
enum Life {
    /// A process, or the client of an engine that runs the container.
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

    fn stop(&self, signal: i32, timeout: Duration) -> Result<(), String> {
        let _shield = interrupt::shield();
        match self {
            Self::Child(child) => child.stop(signal, timeout)?,
            Self::Supervised(program) => program.stop()?,
        }
        Ok(())
    }
}

impl Instance {
    /// How the service ended; `None` while it runs.
    pub fn exited(&self) -> Option<Exit> {
        self.life.exited()
    }

    /// Other processes that now listen at the service's IP address, in words: two programs of one account may share a
    /// port.
    pub fn shares_with(&self) -> Option<String> {
        let address = &self.endpoint.address;
        let is_known = |socket: &String| self.sockets.contains(socket);
        let is_its_own = self.container.is_some() || address.ip().is_none();
        // A worker may have made another socket.
        if is_its_own || listener::inodes(address).iter().all(is_known) {
            return None;
        }
        start::no_stranger_answers(address, self.pid).err()
    }

    /// Whether the service runs in a container, alone or with others.
    pub fn in_container(&self) -> InContainer {
        match (&self.life, &self.container) {
            (Life::Child(_), Some(container)) if container.holds_others => InContainer::WithOthers,
            (Life::Child(_), Some(_)) => InContainer::Alone,
            _ => InContainer::No,
        }
    }

    /// The path from a client to the container, in words: a published port and the proxy that serves it, a bridge,
    /// loopback or a Unix socket. Empty without a container.
    pub fn path(&self, client: Option<&Self>) -> Vec<String> {
        let Some(container) = &self.container else {
            return Vec::new();
        };
        if let Some(socket) = self.endpoint.address.path() {
            let volume = container
                .volume
                .as_ref()
                .map(|volume| format!(" on the volume {}", volume.name));
            return vec![format!(
                "Unix socket{} {}",
                volume.unwrap_or_default(),
                socket.display()
            )];
        }
        let beside = client.and_then(|client| client.container.as_ref());
        if beside.is_some_and(|beside| beside.namespace() == container.namespace()) {
            return vec!["loopback of the shared network namespace".to_owned()];
        }
        if container.container.network == Network::Host {
            return vec!["loopback of the host's network".to_owned()];
        }
        let port = container.publish.map(|at| format!("published port {at}"));
        let proxies = self.helpers.iter().map(|(name, pid)| format!("{name} (pid {pid})"));
        let bridge = container.bridge.as_ref().map(|on| format!("bridge {}", on.network));
        port.into_iter().chain(proxies).chain(bridge).collect()
    }

    pub fn read_log(&self) -> Log {
        Log::read(&self.log)
    }

    /// Stops the service: sends its signal, and after its timeout kills it with all its descendants. All are gone
    /// afterwards.
    pub fn stop(&self) -> Result<(), StartError> {
        let _shield = interrupt::shield();
        let stop = || {
            self.life.stop(stop_signal(&self.stop)?, self.stop.timeout)?;
            // The child was only the engine's client; a container can outlive its client.
            if let (Life::Child(_), Some(container)) = (&self.life, &self.container) {
                container.remove()?;
            }
            let address = &self.endpoint.address;
            let gone = |container: &Launch| matches!(self.life, Life::Child(_)) && container.owns(address);
            let here = |container: &Launch| container.is_local() && !gone(container);
            if self.container.as_ref().is_none_or(here) && readiness::answers(address) {
                return Err(format!(
                    "it was stopped, but {address} is still answered by {}",
                    by(address)
                ));
            }
            Ok(())
        };
        stop().map_err(|cause| StartError {
            service: self.name.clone(),
            stage: Stage::Stop,
            cause,
            log: self.read_log(),
        })
    }
}

/// The running services of a stack, in start order. Dropping it kills them; [`Stack::stop`] stops them in order.
#[derive(Debug)]
pub struct Stack {
    pub round: u32,
    pub stack: usize,
    pub instances: Vec<Instance>,
}

impl Stack {
    /// Writes the files of all services. Then runs the preparation of each, starts it and waits until it is ready, one
    /// service after the other. On an error, stops the services that already run.
    pub fn start(guard: &Guard, plan: &StackPlan) -> Result<Self, StartError> {
        let mut stack = Self {
            round: plan.bindings.round,
            stack: plan.bindings.stack,
            instances: Vec::new(),
        };
        for ground in plan.grounds(guard)? {
            match start::service(&ground) {
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
    pub fn start_all(guard: &Guard, plans: &[StackPlan]) -> Vec<Result<Self, StartError>> {
        in_parallel(plans, |plan| Self::start(guard, plan))
    }

    /// Stops several stacks at the same time, and returns the first error of each.
    pub fn stop_all(stacks: &[Self]) -> Vec<Result<(), StartError>> {
        in_parallel(stacks, Self::stop)
    }

    pub fn instance(&self, name: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.name == name)
    }

    /// The first service that has ended by itself.
    pub fn died(&self) -> Option<(&Instance, Exit)> {
        self.instances
            .iter()
            .find_map(|instance| Some((instance, instance.exited()?)))
    }

    /// Stops all services in reverse order, even if one fails to stop.
    pub fn stop(&self) -> Result<(), StartError> {
        let stopped = self.instances.iter().rev().map(Instance::stop);
        stopped.reduce(Result::and).unwrap_or(Ok(()))
    }
}

/// Handles each item in its own thread. Items for which the system has no thread are handled here, one after the other.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let begin = |item| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || work(item));
            thread.map_err(|_| item)
        };
        let begun: Vec<_> = items.iter().map(begin).collect();
        let done = begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(item) => work(item),
        });
        done.collect()
    })
}

fn stop_signal(stop: &Stop) -> Result<i32, String> {
    exit::signal_number(&stop.signal).ok_or_else(|| format!("cannot stop it: unknown signal `{}`", stop.signal))
}

impl Log {
    pub fn read(path: &Path) -> Self {
        let text = files::end_of_log(path);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        Self {
            file: (!tail.is_empty()).then(|| path.to_owned()),
            tail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_twenty_lines() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(Log::read(&log).file, None);
        std::fs::write(&log, (1..=30).map(|line| format!("line {line}\n")).collect::<String>()).unwrap();
        let Log { tail: shown, file } = Log::read(&log);
        assert_eq!(file, Some(log));
        assert_eq!((shown.lines().count(), shown.lines().next()), (20, Some("line 11")));
        assert!(shown.ends_with("line 30"));
    }
}
