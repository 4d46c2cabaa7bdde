//! Starts one service whose folders are ready: preparation, process or container, until it answers at its address.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant},
};

use lasthop_model::{
    binding::{LOG, ServiceBinding},
    record::Stage,
    service::RenderedService,
};
use lasthop_protocol::spec::Address;
use lasthop_system::{
    files::{self, Folder},
    interrupt, listener, process,
};

use super::{Instance, Life, Log, StartCause, StartError, ground::Ground, stop_signal};
use crate::{
    container::{launch::Launch, site::Housing},
    exit::Exit,
    guard::{Guard, GuardError, GuardedChild, Output, Spawn},
    readiness::{self, NotReady},
};

/// A service during its start.
struct Start<'a> {
    guard: &'a Guard,
    binding: &'a ServiceBinding,
    service: &'a RenderedService,
    housing: Option<&'a Housing>,
    cpus: &'a [u32],
    output: &'a File,
}

/// A service that is ready.
struct ReadyService {
    after: Duration,
    pid: i32,
    helpers: Vec<(String, i32)>,
}

/// Starts a service and waits until it is ready. If it does not become ready, it is ended.
/// Errors: the stage, the cause and the end of its log.
pub(super) fn service(guard: &Guard, cpus: &[u32], ground: &Ground<'_>) -> Result<Instance, StartError> {
    let Ground {
        binding,
        service,
        housing,
        log: output,
    } = ground;
    let log = binding.record.join(LOG);
    let start = Start {
        guard,
        binding,
        service,
        housing: *housing,
        cpus,
        output,
    };
    let at = |stage| {
        let (service, log) = (service.name.clone(), &log);
        move |cause| StartError {
            service,
            stage,
            cause: Box::new(cause),
            log: Log::read(log),
        }
    };
    start.prepare().map_err(at(Stage::Prepare))?;
    let signal = stop_signal(&service.stop).map_err(at(Stage::Start))?;
    start.address_is_free().map_err(at(Stage::Start))?;
    let life = start.begin(signal).map_err(at(Stage::Start))?;
    let ready = start
        .wait_until_ready(&life)
        .map_err(|cause| at(Stage::Ready)(start.give_up(&life, signal, cause)))?;
    Ok(Instance {
        name: service.name.clone(),
        recipe: service.recipe.clone(),
        pid: ready.pid,
        helpers: ready.helpers,
        container: start.container().cloned(),
        endpoint: service.endpoint.clone(),
        log,
        ready_after: ready.after,
        stop: service.stop.clone(),
        life,
    })
}

impl<'a> Start<'a> {
    /// Its own, or that of its supervisor.
    fn container(&self) -> Option<&'a Launch> {
        self.housing.map(Housing::container)
    }

    /// Builds what lasthop's own account has to, then prepares.
    fn prepare(&self) -> Result<(), StartCause> {
        let Self { service, .. } = self;
        let built = service.build.iter().map(|command| (command, true));
        let prepared = service.prepare.iter().map(|command| (command, false));
        for (at, (command, builds)) in built.chain(prepared).enumerate() {
            let (container, contained) = match self.housing {
                Some(Housing::Own(container)) => {
                    let container = container.for_preparation(at);
                    let words = container.prepare(command, &self.service.environment);
                    (Some(container), Some(words))
                }
                Some(Housing::Inside(supervisor)) => (None, Some(supervisor.container.exec(command))),
                None => (None, None),
            };
            let spawn = match &contained {
                Some(contained) => self.in_place(contained),
                None if builds => self.by_lasthop(command).stop_signal(libc::SIGTERM).as_group(),
                None => self.apart(self.in_place(command)).stop_signal(libc::SIGTERM).as_group(),
            };
            let child = self.guard.spawn(self.logged(spawn)?)?;
            match child.wait(self.service.prepare_timeout) {
                Ok(Some(exit)) if exit.success() => {}
                Ok(Some(exit)) => {
                    return Err(StartCause::Prepare {
                        command: command.join(" "),
                        exit,
                    });
                }
                late => {
                    self.give_up_preparation(&child, container.as_ref())?;
                    late?;
                    let timeout = self.service.prepare_timeout;
                    return Err(StartCause::PrepareTimedOut {
                        command: command.join(" "),
                        timeout,
                    });
                }
            }
        }
        match self.adopt_authority() {
            // It may make one when it starts.
            Err(StartCause::Authority { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            adopted => adopted,
        }
    }

    /// Copies the server's own authority to where clients read it, unless that is done.
    fn adopt_authority(&self) -> Result<(), StartCause> {
        let (Some(theirs), Some(tls)) = (&self.binding.own_authority, &self.binding.tls) else {
            return Ok(());
        };
        if tls.authority.exists() {
            return Ok(());
        }
        let adopt = || {
            let own = self.binding.runtime.parent().unwrap_or(Path::new("/"));
            let mut text = Vec::new();
            let file = Folder::open(own)?.read(theirs.strip_prefix(own).unwrap_or(theirs))?;
            file.take(files::SHORT).read_to_end(&mut text)?;
            let (folder, name) = (
                tls.authority.parent().unwrap_or(own),
                tls.authority.file_name().unwrap_or_default(),
            );
            Folder::open(folder)?.create(Path::new(name), 0o644)?.write_all(&text)
        };
        adopt().map_err(|cause| StartCause::Authority {
            path: theirs.clone(),
            cause,
        })
    }

    /// Ends the client first, because it may still ask the engine for the container. A service inside a supervisor's
    /// container is removed with the stack.
    fn give_up_preparation(&self, child: &GuardedChild, container: Option<&Launch>) -> Result<(), StartCause> {
        let _ = match self.housing {
            Some(_) => child.stop(libc::SIGKILL, Duration::ZERO),
            None => child.stop(libc::SIGTERM, self.service.stop.timeout),
        };
        container.map_or(Ok(()), Launch::remove).map_err(StartCause::Engine)
    }

    /// Checks that nobody else listens at the service's address.
    fn address_is_free(&self) -> Result<(), StartCause> {
        let (container, address) = (self.container(), &self.service.endpoint.address);
        // Until the bridge exists, its addresses would be routed off this machine, where anybody may answer.
        if is_loopback(address) || container.is_none_or(Launch::is_local) {
            nobody_answers(address)
        } else {
            Ok(())
        }
    }

    /// Starts it as a process, as a container, or through a container's supervisor.
    fn begin(&self, stop_signal: i32) -> Result<Life, StartCause> {
        let service = self.service;
        let command = match self.housing {
            None => service.command.clone(),
            Some(Housing::Own(container)) => {
                container.run(&service.command, &service.environment, &service.stop.signal)
            }
            Some(Housing::Inside(supervisor)) => {
                return Ok(Life::Supervised(Box::new(supervisor.start(&service.name)?)));
            }
        };
        let spawn = self
            .logged(self.in_place(&command))?
            .stop_signal(stop_signal)
            .cpus(self.cpus.iter().map(|cpu| *cpu as usize));
        Ok(Life::Child(self.guard.spawn(if self.housing.is_some() {
            spawn
        } else {
            self.apart(spawn)
        })?))
    }

    /// Waits until it is ready, and checks that it is the one that answers.
    fn wait_until_ready(&self, life: &Life) -> Result<ReadyService, StartCause> {
        let Self { service, .. } = self;
        let container = self.container();
        if let Some(container) = container {
            wait_until_local(container, life, service.ready.timeout)?;
        }
        let run = |command: &[String]| self.check(command);
        let after = readiness::wait_until_ready(&service.ready, &service.endpoint, &run, || life.exited())?;
        self.adopt_authority()?;
        let (pid, helpers) = processes(life, container, &service.endpoint.address)?;
        if container.is_none_or(|container| container.publish.is_none()) {
            no_stranger_answers(&service.endpoint.address, pid)?;
        }
        Ok(ReadyService { after, pid, helpers })
    }

    /// Ends a service that did not become ready. Replaces the cause by the engine's if that explains more.
    fn give_up(&self, life: &Life, stop_signal: i32, cause: StartCause) -> StartCause {
        // It may still write to its log while it ends.
        let _ = life.stop(stop_signal, self.service.stop.timeout);
        let Some(Housing::Own(container)) = self.housing else {
            return cause;
        };
        let explained = container_died(container, &cause);
        let _ = container.remove();
        explained.unwrap_or(cause)
    }

    /// Starts a command of the readiness check.
    fn check(&self, command: &[String]) -> Result<GuardedChild, GuardError> {
        self.guard.spawn(match self.container() {
            Some(container) => self.in_place(&container.exec(command)),
            None => self.in_place(command),
        })
    }

    /// Writes to the service's log.
    fn logged(&self, spawn: Spawn) -> Result<Spawn, StartCause> {
        let file = self.output.try_clone();
        let file = file.map_err(|cause| StartCause::File {
            path: self.binding.record.join(LOG),
            cause,
        })?;
        Ok(spawn.stdout(Output::File(file)).stderr(Output::Same))
    }

    /// Runs where only lasthop's own account can have written.
    fn by_lasthop(&self, command: &[String]) -> Spawn {
        self.in_environment(Spawn::new(command).directory(&self.binding.record))
    }

    /// With shared memory that ends with it.
    fn apart(&self, spawn: Spawn) -> Spawn {
        if self.service.own_memory {
            spawn.own_memory()
        } else {
            spawn.own_ipc()
        }
    }

    fn in_environment(&self, spawn: Spawn) -> Spawn {
        self.service
            .environment
            .iter()
            .fold(spawn, |spawn, (name, value)| spawn.env(name, value))
    }

    /// Runs in the service's directory with its account and environment. For the client of an engine these are
    /// lasthop's.
    fn in_place(&self, command: &[String]) -> Spawn {
        let spawn = Spawn::new(command).directory(&self.binding.directory);
        if self.housing.is_some() {
            return spawn;
        }
        let spawn = match &self.binding.account {
            Some(account) => spawn.user(account.ids, &self.binding.needed),
            None => spawn,
        };
        self.in_environment(spawn)
    }
}

/// Waits for the bridge. Without it, some other machine might answer instead of the container.
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
        if !interrupt::pause(Duration::from_millis(5)) {
            return Err(GuardError::Interrupted.into());
        }
    }
    Ok(())
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

/// The first process of a container, and what the engine put between it and its published port.
fn container_processes(container: &Launch, address: &Address) -> Result<(i32, Vec<(String, i32)>), StartCause> {
    let pid = container.pid().map_err(StartCause::Engine)?;
    let family = process::descendants(pid);
    let owners = listener::owners(address)
        .into_iter()
        .filter(|owner| owner.pid != pid && !family.contains(&owner.pid));
    let helpers: Vec<(String, i32)> = match container.publish {
        // conmon reserves the port of rootful podman. No traffic goes through it.
        Some(_) => owners
            .filter(|owner| owner.command != "conmon")
            .map(|owner| (owner.command, owner.pid))
            .collect(),
        None => Vec::new(),
    };
    Ok((pid, helpers))
}

/// What the engine says about a container that ended before it was ready.
fn container_died(container: &Launch, cause: &StartCause) -> Option<StartCause> {
    let StartCause::NotReady(NotReady::Died(exit)) = cause else {
        return None;
    };
    let engine = container.engine.kind.name();
    if let Some(address) = container.published().filter(|address| is_taken(*address)) {
        return Some(StartCause::PortTaken {
            address,
            owner: listener::owners(&Address::Tcp(address)).pop(),
        });
    }
    // Exit codes of `run` in both engines: 125 means that the engine failed, 126 and 127 the program.
    let text = match exit {
        _ if container.out_of_memory() => {
            "its container was killed because it reached its memory limit; raise container.memory".to_owned()
        }
        Exit::Code(125) => format!("{engine} could not start its container; see its log"),
        Exit::Code(126 | 127) => format!("its program cannot be run in the container's image {}", container.image),
        exit => format!("its container {exit} before it was ready"),
    };
    Some(StartCause::Container(text))
}

/// Whether somebody has bound this address, listening or not.
fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// A port published on loopback belongs to this machine, with or without a bridge.
fn is_loopback(address: &Address) -> bool {
    address.ip().is_some_and(|ip| ip.is_loopback())
}

fn nobody_answers(address: &Address) -> Result<(), StartCause> {
    match readiness::answers(address) {
        true => Err(StartCause::AlreadyAnswered {
            address: address.to_string(),
            owner: listener::owners(address).into_iter().next(),
        }),
        false => Ok(()),
    }
}

/// Another process may have taken the address since the check before the start.
fn no_stranger_answers(address: &Address, pid: i32) -> Result<(), StartCause> {
    let mut family = process::descendants(pid);
    family.push(pid);
    if listener::is_held_by(address, family) {
        return Ok(());
    }
    match listener::owners(address).pop() {
        Some(owner) => Err(StartCause::Stranger {
            address: address.to_string(),
            owner,
        }),
        None => Ok(()),
    }
}
