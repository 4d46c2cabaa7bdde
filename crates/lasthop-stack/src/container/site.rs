//! The engine, image and network for a run's containers, and the container of each service.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Bindings, ServiceBinding},
    container::{Network, Publish, RenderedContainer},
    program::Program,
};
use lasthop_trial::address::Address;

use super::{
    containerfile::{self, Context, FILE, Image},
    engine::Engine,
    launch::{Launch, OnBridge},
    leftovers,
    network::Bridge,
    supervisor::Supervisor,
    volume::Volume,
};

/// The containers of a run.
#[derive(Debug)]
pub struct Site {
    pub engine: Engine,
    pub image: Image,
    run: String,
    sandbox: PathBuf,
    bridge: Option<Bridge>,
    /// The most containers in a stack.
    most: u32,
    /// Volumes by name in the experiment.
    volumes: BTreeMap<String, Volume>,
}

/// The place of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Housing {
    /// In its own container.
    Own(Launch),
    /// In a supervisor's container.
    Inside(Supervisor),
}

impl Housing {
    /// The container of the service: its own or the supervisor's.
    pub fn container(&self) -> &Launch {
        match self {
            Self::Own(launch) => launch,
            Self::Inside(supervisor) => &supervisor.container,
        }
    }
}

/// What a run needs for its containers.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// The experiment's folder, if it has a Containerfile.
    pub context: Option<Context<'a>>,
    /// Programs by recipe.
    pub programs: BTreeMap<String, Program>,
    pub bridge: bool,
    /// The most containers in a stack.
    pub most: u32,
    /// Names of volumes.
    pub volumes: BTreeSet<String>,
}

impl Site {
    /// Creates the image, the network and the volumes.
    pub fn open(engine: Engine, sandbox: &Path, needs: &Needs<'_>) -> Result<Self, String> {
        leftovers::announce(&engine, sandbox).map_err(|error| format!("cannot write to the sandbox: {error}"))?;
        let image = image(&engine, sandbox, needs)?;
        let run = sandbox.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = sandbox.display().to_string();
        let mut bridge = None;
        if needs.bridge {
            bridge = Some(Bridge::create(&engine, &run, &path)?);
        }
        let mut volumes = BTreeMap::new();
        for name in &needs.volumes {
            volumes.insert(name.clone(), Volume::create(&engine, &run, &path, name)?);
        }
        Ok(Self {
            engine,
            image,
            run,
            sandbox: sandbox.to_owned(),
            bridge,
            most: needs.most,
            volumes,
        })
    }

    /// Version and components of the engine, for the record.
    pub fn describe(&self) -> String {
        let rootless = if self.engine.rootless { ", rootless" } else { "" };
        format!("{}{rootless}, {}", self.engine.version, self.engine.parts)
    }

    /// Assigns the services of a stack to their containers and corrects their addresses. Returns the container of each.
    pub fn place(
        &self,
        bindings: &mut Bindings,
        containers: &IndexMap<String, RenderedContainer>,
    ) -> Result<IndexMap<String, Housing>, String> {
        let mut launches: IndexMap<String, Housing> = IndexMap::new();
        for (number, (name, container)) in containers.iter().enumerate() {
            if let Network::Inside(holder) = &container.network {
                let supervisor = supervisor(bindings, &mut launches, name, holder)?;
                launches.insert(name.clone(), Housing::Inside(supervisor));
                continue;
            }
            let place = self.addresses(bindings, name, container, number as u32)?;
            if let Some(volume) = &container.volume {
                put_on(&self.volumes[volume], bindings, name)?;
            }
            let joined = match &container.network {
                Network::Service(other) if !containers.contains_key(other) => {
                    return Err(format!(
                        "service `{name}` should share the network of `{other}`, but `{other}` does not run in a container"
                    ));
                }
                Network::Service(other) => Some(self.name(bindings, other)),
                _ => None,
            };
            launches.insert(
                name.clone(),
                Housing::Own(self.launch(bindings, name, container, place, joined)),
            );
        }
        Ok(launches)
    }

    fn name(&self, bindings: &Bindings, service: &str) -> String {
        format!("{}-{}.{}-{service}", self.run, bindings.round, bindings.stack)
    }

    /// The address on which the server listens, and the address for clients.
    fn addresses(
        &self,
        bindings: &mut Bindings,
        name: &str,
        container: &RenderedContainer,
        number: u32,
    ) -> Result<ContainerAddress, String> {
        if let Network::Service(other) = &container.network {
            share_address(bindings, name, other);
        }
        let Some(bridge) = self.bridge.as_ref().filter(|_| container.network == Network::Bridge) else {
            return Ok(ContainerAddress::default());
        };
        let unreachable = self.engine.rootless && container.publish != Some(Publish::Loopback);
        let over_tcp = matches!(bindings.services[name].address, Address::Tcp(_));
        if unreachable && over_tcp {
            let engine = self.engine.kind.name();
            return Err(format!(
                "rootless {engine} gives containers addresses that this machine cannot reach: a bridge address needs \
                 {engine} as root"
            ));
        }
        // Stacks of one run are up at the same time; rounds are not.
        let own = bridge
            .address(bindings.stack as u32 * self.most + number)
            .ok_or_else(|| format!("the network {} has no free address", bridge.name))?;
        let place = ContainerAddress {
            bridge: Some(OnBridge {
                network: bridge.name.clone(),
                address: own,
                gateway: bridge.gateway,
            }),
            publish: None,
        };
        let binding = bindings.services.get_mut(name).expect("the plan and the sandbox agree");
        let Address::Tcp(address) = binding.address else {
            return Ok(place);
        };
        let reached = match container.publish {
            None => own,
            Some(Publish::Loopback) => Ipv4Addr::LOCALHOST,
            Some(Publish::Gateway) => bridge.gateway,
        };
        binding.listen_behind(reached.into());
        Ok(ContainerAddress {
            publish: container.publish.map(|_| (reached, address.port()).into()),
            ..place
        })
    }

    fn launch(
        &self,
        bindings: &Bindings,
        name: &str,
        container: &RenderedContainer,
        place: ContainerAddress,
        joined: Option<String>,
    ) -> Launch {
        let binding = &bindings.services[name];
        // Sockets, and rendered files that another service reads, keep the paths that they have without containers. A
        // container cannot write to the folders of other services, which may run on the host with root's rights.
        let folder = |path: &Path| path.parent().unwrap_or(path).to_owned();
        let writable = own_folders(binding);
        let mut readable = vec![folder(&binding.directory), folder(&binding.runtime)];
        readable.dedup();
        // The service's own files may be in its folder of the sandbox.
        readable.retain(|path| path.exists() && !writable.contains(path));
        readable.push(self.sandbox.join("tls"));
        let root = rustix::process::geteuid().is_root();
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let as_own = binding.account.as_ref().map(|account| account.ids);
        // Only a daemon has root's rights if this user does not.
        let stranger = !self.engine.rootless && !root;
        // A user named in the Containerfile could not enter the run's private folders.
        let (user, group) = as_own.or(stranger.then_some(ids)).unwrap_or((0, 0));
        Launch {
            engine: self.engine.clone(),
            name: self.name(bindings, name),
            image: self.image.name.clone(),
            run: self.run.clone(),
            sandbox: self.sandbox.display().to_string(),
            container: container.clone(),
            bridge: place.bridge,
            publish: place.publish,
            joined,
            holds_others: false,
            writable,
            readable,
            volume: container.volume.as_ref().map(|volume| self.volumes[volume].clone()),
            directory: binding.directory.clone(),
            cpus: bindings.cpus.clone(),
            user: format!("{user}:{group}"),
        }
    }
}

/// The image of a run, built from the experiment's Containerfile.
fn image(engine: &Engine, sandbox: &Path, needs: &Needs<'_>) -> Result<Image, String> {
    let context = needs.context.ok_or_else(|| {
        format!(
            "the experiment has no file `{FILE}` to build the image of its containers from: put one into its folder"
        )
    })?;
    let bases = containerfile::obtain_bases(engine, context)?;
    let name = containerfile::build(engine, context, &bases, sandbox)?;
    let programs = containerfile::programs(engine, &name, &needs.programs, sandbox)?;
    Ok(Image { name, programs })
}

/// Moves a service's socket, if there is one, to a volume, where it has the same path for everyone.
fn put_on(volume: &Volume, bindings: &mut Bindings, name: &str) -> Result<(), String> {
    let folder = format!("{}.{}.{name}", bindings.round, bindings.stack);
    let binding = bindings.services.get_mut(name).expect("the plan and the sandbox agree");
    let Address::Unix(path) = &binding.listen else {
        return Ok(());
    };
    let file = PathBuf::from(path.file_name().unwrap_or_default());
    let path = volume.socket(&folder, &file, binding.account.as_ref().map(|account| account.ids))?;
    let mut second = None;
    if binding.outside.is_some() {
        second = Some(volume.outside(&folder, &file)?);
    }
    binding.move_socket(path, second);
    Ok(())
}

/// Folders that a service may write to.
fn own_folders(binding: &ServiceBinding) -> Vec<PathBuf> {
    let folders = [&binding.directory, &binding.runtime, &binding.cache];
    folders.into_iter().filter(|path| path.exists()).cloned().collect()
}

/// The supervisor of a service. The service is reached at the address of its container.
fn supervisor(
    bindings: &mut Bindings,
    launches: &mut IndexMap<String, Housing>,
    service: &str,
    holder: &str,
) -> Result<Supervisor, String> {
    let Some(Housing::Own(launch)) = launches.get_mut(holder) else {
        return Err(format!(
            "service `{service}` should run inside `{holder}`, but `{holder}` does not have its own container or starts \
             later"
        ));
    };
    launch.holds_others = true;
    launch.writable.extend(own_folders(&bindings.services[service]));
    let binding = bindings
        .services
        .get_mut(service)
        .expect("the plan and the sandbox agree");
    if let Some(place) = &launch.bridge {
        binding.listen_behind(place.address.into());
    }
    let directory = bindings.services[holder].directory.clone();
    Ok(Supervisor {
        container: launch.clone(),
        directory,
    })
}

/// Gives a service in another's network namespace the other's address, with its own port.
fn share_address(bindings: &mut Bindings, name: &str, other: &str) {
    let host = match bindings
        .services
        .get(other)
        .map(|binding| (&binding.address, &binding.listen))
    {
        // A service that listens on all addresses is not reached on loopback.
        Some((Address::Tcp(address), Address::Tcp(listen))) if listen.ip().is_unspecified() => address.ip(),
        _ => return,
    };
    let binding = bindings.services.get_mut(name).expect("the plan and the sandbox agree");
    binding.listen_behind(host);
}

/// Network and published port of one container.
#[derive(Debug, Default)]
struct ContainerAddress {
    bridge: Option<OnBridge>,
    publish: Option<SocketAddr>,
}

#[cfg(test)]
mod tests {
    use lasthop_model::{
        binding::{Account, ServiceBinding},
        engine::EngineKind,
    };
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::container::network;

    fn site(most: u32) -> Site {
        let engine = Engine {
            kind: EngineKind::Podman,
            program: "/usr/bin/podman".into(),
            version: String::new(),
            rootless: false,
            parts: String::new(),
        };
        let image = Image {
            name: "image".into(),
            programs: BTreeMap::new(),
        };
        let bridge = network::parse("10.89.4.0/24 10.89.4.1", "run");
        Site {
            engine,
            image,
            run: "run".into(),
            sandbox: "/sandbox".into(),
            bridge,
            most,
            volumes: BTreeMap::new(),
        }
    }

    fn bindings(stack: usize, names: &[String]) -> Bindings {
        let binding = |name: &String| {
            let address = Address::Tcp("127.0.0.1:8080".parse().unwrap());
            let binding = ServiceBinding {
                name: name.clone(),
                directory: "/record".into(),
                record: "/record".into(),
                account: None,
                needed: Vec::new(),
                packages: BTreeMap::new(),
                cache: "/cache".into(),
                runtime: "/runtime".into(),
                outside: None,
                in_container: true,
                transport: Transport::Tcp,
                listen: address.clone(),
                address,
                tls: None,
                program: "/program".into(),
                own_authority: None,
                spare_port: Ok(0),
            };
            (name.clone(), binding)
        };
        let account = Account {
            user: String::new(),
            group: String::new(),
            is_root: false,
            ids: (0, 0),
        };
        Bindings {
            round: 0,
            stack,
            services: names.iter().map(binding).collect(),
            account,
            secret: String::new(),
            cpus: vec![],
        }
    }

    #[test]
    fn no_two_containers_of_a_round_have_one_address() {
        let names: Vec<String> = (0..20).map(|number| format!("app-{number}")).collect();
        let container = RenderedContainer {
            network: Network::Bridge,
            publish: None,
            volume: None,
            cpus: None,
            memory: None,
            sysctls: IndexMap::new(),
        };
        let containers: IndexMap<_, _> = names.iter().map(|name| (name.clone(), container.clone())).collect();
        let mut addresses = BTreeSet::new();
        for stack in 0..3 {
            let mut bindings = bindings(stack, &names);
            site(20).place(&mut bindings, &containers).unwrap();
            addresses.extend(bindings.services.values().map(|binding| match binding.address {
                Address::Tcp(address) => address.ip(),
                _ => unreachable!(),
            }));
        }
        assert_eq!(addresses.len(), 60);
    }
}
