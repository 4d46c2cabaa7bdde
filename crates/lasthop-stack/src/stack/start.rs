//! Starts one service whose folders are ready: preparation, process or container, and checks until it answers at its
//! address.

use std::{
    fs::File,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant},
};

use lasthop_model::{binding::LOG, record::Stage};
use lasthop_system::{
    files::{self, Folder},
    interrupt, listener,
    process::{self, Stat},
};
use lasthop_trial::address::Address;

use super::{
    Instance, Life, Log, StartError, by,
    ground::{Ground, cannot_write},
    stop_signal,
};
use crate::{
    container::{launch::Launch, site::Housing},
    exit::Exit,
    guard::{GuardError, GuardedChild, SpawnRequest},
    readiness,
};

/// Starts a service and waits until it is ready. Ends a service that does not become ready.
pub(super) fn service(ground: &Ground<'_>) -> Result<Instance, StartError> {
    let service = ground.service;
    let log = ground.binding.record.join(LOG);
    let at = |stage| {
        let service = service.name.clone();
        let log = &log;
        move |cause| StartError {
            service,
            stage,
            cause,
            log: Log::read(log),
        }
    };
    ground.prepare().map_err(at(Stage::Prepare))?;
    let signal = stop_signal(&service.stop).map_err(at(Stage::Start))?;
    ground.address_is_free().map_err(at(Stage::Start))?;
    let life = ground.begin(signal).map_err(at(Stage::Start))?;
    let (pid, helpers) = ground
        .wait_until_ready(&life)
        .map_err(|cause| at(Stage::Ready)(ground.give_up(&life, signal, cause)))?;
    Ok(Instance {
        name: service.name.clone(),
        recipe: service.recipe.clone(),
        pid,
        helpers,
        container: ground.container().cloned(),
        endpoint: service.endpoint.clone(),
        log,
        stop: service.stop.clone(),
        life,
        sockets: listener::inodes(&service.endpoint.address),
    })
}

impl<'a> Ground<'a> {
    /// The service's container, or that of its supervisor.
    fn container(&self) -> Option<&'a Launch> {
        self.housing.map(Housing::container)
    }

    /// Runs builds as lasthop's own account, then the preparation.
    fn prepare(&self) -> Result<(), String> {
        let service = self.service;
        let built = service.build.iter().map(|command| (command, true));
        let prepared = service.prepare.iter().map(|command| (command, false));
        for (at, (command, builds)) in built.chain(prepared).enumerate() {
            let mut container = None;
            let request = match self.housing {
                Some(Housing::Own(own)) => {
                    let own = container.insert(own.for_preparation(at));
                    self.in_place(&own.prepare(command, &service.environment))
                }
                Some(Housing::Inside(supervisor)) => self.in_place(&supervisor.container.exec(command)),
                // A folder where only lasthop's own account can have written.
                None if builds => SpawnRequest {
                    directory: Some(self.binding.record.clone()),
                    environment: service.environment.clone(),
                    ..SpawnRequest::of(command)
                },
                None => self.apart(command),
            };
            // A PostgreSQL that makes a cluster leaves shared memory if it is killed. The signal must also reach one
            // that a script runs.
            let request = SpawnRequest {
                stop_signal: self.housing.is_none().then_some(libc::SIGTERM),
                as_group: self.housing.is_none(),
                ..request
            };
            let child = self.guard.spawn(request, Some(self.open_log()?))?;
            match child.wait(service.prepare_timeout) {
                Ok(Some(exit)) if exit.success() => {}
                Ok(Some(exit)) => return Err(format!("`{}` {exit}", command.join(" "))),
                late => {
                    self.give_up_preparation(&child, container.as_ref())?;
                    late?;
                    return Err(format!(
                        "`{}` did not end within {:?} (start.prepare_timeout of its recipe) and was killed",
                        command.join(" "),
                        service.prepare_timeout
                    ));
                }
            }
        }
        // The server may make an authority when it starts.
        self.adopt_authority(true)
    }

    /// Copies the server's own authority to where clients read it, unless the copy exists.
    fn adopt_authority(&self, may_be_missing: bool) -> Result<(), String> {
        let (Some(theirs), Some(tls)) = (&self.binding.own_authority, &self.binding.tls) else {
            return Ok(());
        };
        if tls.authority.exists() {
            return Ok(());
        }
        let adopt = || {
            let own = self.binding.runtime.parent().unwrap_or(Path::new("/"));
            let file = Folder::open(own)?.read(theirs.strip_prefix(own).unwrap_or(theirs))?;
            // The server owns the file, and may write without end.
            let text = files::first(file, files::SHORT)?;
            let folder = Folder::open(tls.authority.parent().unwrap_or(own))?;
            let name = tls.authority.file_name().unwrap_or_default();
            folder.create(Path::new(name), 0o644)?.write_all(&text)
        };
        match adopt() {
            Err(cause) if may_be_missing && cause.kind() == io::ErrorKind::NotFound => Ok(()),
            adopted => adopted.map_err(|cause| {
                let path = theirs.display();
                format!("cannot read {path}, which clients of the server are to trust: {cause}")
            }),
        }
    }

    /// Ends the preparation's process or client, then removes its container. The order matters: a client may still ask
    /// the engine for the container. A service in a supervisor's container is removed with the stack.
    fn give_up_preparation(&self, child: &GuardedChild, container: Option<&Launch>) -> Result<(), String> {
        let _ = match self.housing {
            Some(_) => child.stop(libc::SIGKILL, Duration::ZERO),
            None => child.stop(libc::SIGTERM, self.service.stop.timeout),
        };
        Ok(container.map_or(Ok(()), Launch::remove)?)
    }

    /// Checks that no other process listens at the service's address.
    fn address_is_free(&self) -> Result<(), String> {
        let container = self.container();
        let address = &self.service.endpoint.address;
        if matches!(self.housing, Some(Housing::Own(container)) if container.owns(address)) {
            return Ok(());
        }
        // Until the bridge exists, its addresses would be routed off this machine, where anybody may answer. A port
        // published on loopback belongs to this machine, with or without a bridge.
        let is_loopback = address.ip().is_some_and(|ip| ip.is_loopback());
        if (is_loopback || container.is_none_or(Launch::is_local)) && readiness::answers(address) {
            let owner = by(address);
            return Err(format!(
                "{address} is already answered by {owner}; refusing to measure it"
            ));
        }
        Ok(())
    }

    /// Starts the service as a process, as a container, or through a container's supervisor.
    fn begin(&self, stop_signal: i32) -> Result<Life, String> {
        let service = self.service;
        let request = match self.housing {
            None => self.apart(&service.command),
            Some(Housing::Own(container)) => {
                self.in_place(&container.run(&service.command, &service.environment, &service.stop.signal))
            }
            Some(Housing::Inside(supervisor)) => {
                return Ok(Life::Supervised(Box::new(supervisor.start(&service.name)?)));
            }
        };
        let request = SpawnRequest {
            stop_signal: Some(stop_signal),
            cpus: self.cpus.to_vec(),
            ..request
        };
        Ok(Life::Child(self.guard.spawn(request, Some(self.open_log()?))?))
    }

    /// Waits until the service is ready, and checks that it is the one that answers. Returns what [`processes`] does.
    fn wait_until_ready(&self, life: &Life) -> Result<(i32, Vec<(String, i32)>), String> {
        let service = self.service;
        let container = self.container();
        if let Some(container) = container {
            wait_until_local(container, life, service.ready.timeout)?;
        }
        let run = |command: &[String]| {
            let request = match container {
                Some(container) => self.in_place(&container.exec(command)),
                None => self.in_place(command),
            };
            self.guard.spawn(request, None)
        };
        let found = || {
            self.name_outside().map_err(|cause| cause.to_string())?;
            match (life, &service.endpoint.address) {
                // Before anything is sent to the listener.
                (Life::Child(child), address) if container.is_none() && address.path().is_some() => {
                    no_stranger_answers(address, child.pid)
                }
                _ => Ok(()),
            }
        };
        readiness::wait_until_ready(&service.ready, &service.endpoint, &found, &run, || life.exited())?;
        self.adopt_authority(false)?;
        let (pid, helpers) = processes(life, container, &service.endpoint.address)?;
        // At a published port the engine's proxy answers, or a DNAT rule with no process at all.
        if container.is_none_or(|container| container.publish.is_none()) {
            no_stranger_answers(&service.endpoint.address, pid)?;
        }
        Ok((pid, helpers))
    }

    /// Links the service's Unix socket to the path for clients, if that differs. The link leads to the present socket,
    /// whose owner is then checked; a server may replace its socket during its start.
    fn name_outside(&self) -> io::Result<()> {
        let Some((socket, name)) = self.binding.listen.path().zip(self.binding.address.path()) else {
            return Ok(());
        };
        if socket == name {
            return Ok(());
        }
        let folder = Folder::open(name.parent().unwrap_or(name))?;
        // The link's folder is open to the group, but the server's own folder was closed to it.
        let mode = self.binding.account.as_ref().map(|_| 0o600);
        folder.link_socket(socket, Path::new(name.file_name().unwrap_or_default()), mode)
    }

    /// Ends a service that did not become ready. Returns the engine's explanation if it has a better one than `cause`.
    fn give_up(&self, life: &Life, stop_signal: i32, cause: String) -> String {
        // Asked before the stop, after which everything has ended.
        let died = life.exited();
        // The service may still write to its log while it ends.
        let _ = life.stop(stop_signal, self.service.stop.timeout);
        let Some(Housing::Own(container)) = self.housing else {
            return cause;
        };
        let explained = died.map(|exit| container_died(container, exit));
        let _ = container.remove();
        explained.unwrap_or(cause)
    }

    fn open_log(&self) -> Result<File, String> {
        let file = self.log.try_clone();
        file.map_err(|cause| cannot_write(&self.binding.record.join(LOG), &cause))
    }

    /// Like [`Self::in_place`], with shared memory that ends with the process.
    fn apart(&self, command: &[String]) -> SpawnRequest {
        SpawnRequest {
            own_ipc: true,
            own_memory: self.service.own_memory,
            ..self.in_place(command)
        }
    }

    /// Runs a command in the service's directory, with the service's account and environment. The client of a container
    /// engine keeps lasthop's account and environment.
    fn in_place(&self, command: &[String]) -> SpawnRequest {
        let request = SpawnRequest {
            directory: Some(self.binding.directory.clone()),
            ..SpawnRequest::of(command)
        };
        if self.housing.is_some() {
            return request;
        }
        SpawnRequest {
            environment: self.service.environment.clone(),
            user: self.binding.account.as_ref().map(|account| account.ids),
            needed: self.binding.needed.clone(),
            ..request
        }
    }
}

/// Waits for the bridge. Without it, another machine might answer instead of the container.
fn wait_until_local(container: &Launch, child: &Life, timeout: Duration) -> Result<(), String> {
    let begin = Instant::now();
    while !container.is_local() {
        if let Some(exit) = child.exited() {
            return Err(readiness::died_early(exit));
        }
        if begin.elapsed() > timeout {
            let last = "packets to its address would leave this machine; choose other address pools for the engine";
            return Err(readiness::timed_out(timeout, last));
        }
        if !interrupt::pause(Duration::from_millis(5)) {
            return Err(GuardError::Interrupted.into());
        }
    }
    Ok(())
}

/// The first process of a service, and the engine's processes between it and its published port.
fn processes(life: &Life, container: Option<&Launch>, address: &Address) -> Result<(i32, Vec<(String, i32)>), String> {
    let container = match (life, container) {
        (Life::Supervised(program), _) => return Ok((program.pid, Vec::new())),
        (Life::Child(child), None) => return Ok((child.pid, Vec::new())),
        (Life::Child(_), Some(container)) => container,
    };
    let pid = container.pid()?;
    let mut helpers = Vec::new();
    if container.publish.is_some() {
        let family = process::descendants(pid);
        // conmon reserves the port of rootful podman, but carries no traffic.
        for owner in listener::owners(address) {
            if owner.pid != pid && !family.contains(&owner.pid) && owner.command != "conmon" {
                helpers.push((owner.command, owner.pid));
            }
        }
    }
    Ok((pid, helpers))
}

/// The engine's explanation for a container that ended before it was ready.
fn container_died(container: &Launch, exit: Exit) -> String {
    let engine = container.engine.kind.name();
    if let Some(address) = container.publish.filter(|address| is_taken(*address)) {
        let owner = by(&Address::Tcp(address));
        return format!("{address}, where its port was to be published, was taken meanwhile by {owner}; try again");
    }
    // Exit codes of `run` in both engines: 125 means that the engine failed, 126 and 127 the program.
    match exit {
        _ if container.out_of_memory() => {
            "its container was killed because it reached its memory limit; raise container.memory".to_owned()
        }
        Exit::Code(125) => format!("{engine} could not start its container; see its log"),
        Exit::Code(126 | 127) => format!("its program cannot be run in the container's image {}", container.image),
        exit => format!("its container {exit} before it was ready"),
    }
}

/// Whether a socket is bound to this address, listening or not.
fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// Checks that no other process has taken the address since the check before the start.
pub(super) fn no_stranger_answers(address: &Address, pid: i32) -> Result<(), String> {
    let mut family = process::descendants(pid);
    family.push(pid);
    if listener::is_held_by(address, family.iter().copied()) {
        return Ok(());
    }
    // A container's socket is in no table of this network namespace.
    let stranger = listener::owners(address)
        .into_iter()
        .map(|owner| owner.pid)
        // A daemon's parent may have begun to listen and then ended.
        .chain(listener::who_listens(address).filter(|pid| Stat::of(*pid).is_some()))
        .find(|pid| !family.contains(pid));
    match stranger {
        Some(stranger) => Err(format!(
            "{address} is answered by {}, not by the service just started; refusing to measure it",
            listener::owner(stranger)
        )),
        None => Ok(()),
    }
}
