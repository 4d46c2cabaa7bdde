//! The layouts of Pods: how the services of an experiment reach each other in a cluster.
//!
//! All layouts exist at once. The driver, in one Pod with the front ends of all, lets them take turns: idle servers
//! cost nothing, and only the link differs. Services are rendered as in any run, with the cluster's addresses; their
//! files reach the containers as annotations of the Pod.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Account, Bindings, SOCKET, ServiceBinding},
    record::{ComparedEndpoints, GivenEndpoint},
    service::RenderedService,
};
use lasthop_plan::plan::{Plan, Stack};
use lasthop_system::random;
use lasthop_trial::address::{Address, Transport};
use minijinja::context;
use serde::Serialize;

use crate::{
    files::{FOLDER, Files},
    manifest::{Fleet, NOBODY, NodeAffinity, POD_ADDRESS, SERVICE, SOCKETS, Server, render},
};

/// The endpoints that the driver compares.
pub const GIVEN: &str = "given.json";
/// The first port; each layout has a hundred.
const PORTS: u16 = 18_000;
/// The listening address of servers that other Pods reach. In arguments, and in configurations that can read variables,
/// it becomes the address of the server's Pod.
const EVERYWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// The path of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// To another container of the Pod, over TCP. The reference.
    Tcp,
    /// To another container of the Pod, over a Unix socket in an `emptyDir`.
    Unix,
    /// To a Pod on the same node, over the address of a Service.
    Service,
    /// To a Pod on another node, over its address.
    OtherNode,
}

impl Layout {
    /// All layouts, the reference first.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Unix, Self::Service, Self::OtherNode];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Service => "service",
            Self::OtherNode => "other-node",
        }
    }

    /// Whether the link leads to another Pod.
    pub fn is_apart(self) -> bool {
        matches!(self, Self::Service | Self::OtherNode)
    }

    fn transport(self) -> Transport {
        if self == Self::Unix {
            Transport::Unix
        } else {
            Transport::Tcp
        }
    }
}

/// Addresses of the servers in other Pods, by layout.
pub type Addresses = BTreeMap<Layout, IpAddr>;

/// A Pod beside the driver's.
#[derive(Clone, Debug, PartialEq)]
pub struct Companion {
    pub layout: Layout,
    /// The Pod's Job, as YAML.
    pub job: String,
    /// The Service that leads to the Pod; the Job must own it.
    pub service: Option<Service>,
}

/// A Kubernetes Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Service {
    fleet: String,
    name: String,
    ports: Vec<u16>,
}

impl Service {
    /// The Service as YAML, owned by the Job with this uid.
    pub fn owned_by(&self, uid: &str) -> String {
        render(
            SERVICE,
            context! { uid, fleet => self.fleet, name => self.name, ports => self.ports },
        )
    }
}

/// The layouts of an experiment.
#[derive(Clone, Debug)]
pub struct Layouts {
    plan: Plan,
    pub chosen: Vec<Layout>,
    /// The servers' password.
    secret: String,
}

/// A service in its layout.
struct Placed {
    layout: Layout,
    service: RenderedService,
}

impl Layouts {
    pub fn new(plan: Plan, chosen: &[Layout]) -> Result<Self, String> {
        let chosen = Layout::ALL
            .into_iter()
            .filter(|layout| chosen.contains(layout))
            .collect();
        let layouts = Self {
            plan,
            chosen,
            secret: random::secret().map_err(|error| format!("cannot make a password: {error}"))?,
        };
        // Rendering errors show before any object is created.
        layouts.pod(&Addresses::new())?;
        Ok(layouts)
    }

    fn stack(&self, layout: Layout) -> Result<&Stack, String> {
        let stack = self
            .plan
            .stacks
            .iter()
            .find(|stack| stack.transport == layout.transport());
        stack.ok_or_else(|| {
            format!(
                "there is no case with a link over {}: choose other layouts with --pods, or other cases",
                layout.transport().name()
            )
        })
    }

    /// The bindings of a layout's services.
    fn bindings(&self, layout: Layout, addresses: &Addresses) -> Result<Bindings, String> {
        let stack = self.stack(layout)?;
        let everywhere = IpAddr::from(EVERYWHERE);
        let mut services = IndexMap::new();
        for (index, (name, service)) in stack.services.iter().enumerate() {
            let runtime = PathBuf::from(format!("{SOCKETS}/{}/{name}", layout.name()));
            let port = PORTS + 100 * layout as u16 + index as u16;
            let [listen, reached] = match (
                layout.is_apart() && *name == self.plan.experiment.link.to,
                service.transport,
            ) {
                (true, _) => [everywhere, addresses.get(&layout).copied().unwrap_or(everywhere)]
                    .map(|ip| Address::Tcp((ip, port).into())),
                (_, known @ (Transport::Unix | Transport::Tcp)) => {
                    [(); 2].map(|()| known.address().at(runtime.join(SOCKET), "", port))
                }
                (_, other) => {
                    return Err(format!(
                        "the service `{name}` listens with {other}, and a Pod can have only Unix sockets and TCP: choose \
                         another experiment"
                    ));
                }
            };
            // The image finds the program on its PATH.
            let program = self
                .plan
                .experiment
                .recipes
                .get(&service.recipe)
                .and_then(|recipe| recipe.program.names.first());
            let Some(program) = program else {
                return Err(format!(
                    "the service `{name}` is lasthop itself, and a Pod needs a real server: choose another experiment"
                ));
            };
            let directory = PathBuf::from(format!("{FOLDER}/{}/{name}", layout.name()));
            let binding = ServiceBinding {
                name: name.clone(),
                directory: directory.clone(),
                record: directory,
                account: None,
                needed: Vec::new(),
                packages: Default::default(),
                cache: runtime.join("cache"),
                runtime,
                outside: None,
                in_container: false,
                transport: service.transport,
                address: reached,
                listen,
                tls: None,
                program: program.into(),
                own_authority: None,
                spare_port: Ok(port + 50),
            };
            services.insert(name.clone(), binding);
        }
        let account = Account {
            user: "nobody".to_owned(),
            group: "nogroup".to_owned(),
            is_root: false,
            ids: (NOBODY, NOBODY),
        };
        Ok(Bindings {
            round: 0,
            stack: stack.number,
            services,
            account,
            secret: self.secret.clone(),
            cpus: Vec::new(),
        })
    }

    /// The services of a layout: those up to the link's server, and those in front.
    fn services(&self, layout: Layout, addresses: &Addresses) -> Result<[Vec<Placed>; 2], String> {
        let bindings = self.bindings(layout, addresses)?;
        let rendered = self.plan.services(self.stack(layout)?, &bindings)?;
        for service in &rendered {
            // A server that only checks its own configuration also does so at its start.
            if let Some(other) = service
                .prepare
                .iter()
                .flat_map(|words| words.first())
                .find(|word| **word != service.command[0])
            {
                return Err(format!(
                    "the service `{}` runs `{other}` before its server, and a Pod starts the server alone: choose another \
                     experiment",
                    service.name
                ));
            }
        }
        let to = rendered
            .iter()
            .position(|service| service.name == self.plan.experiment.link.to)
            .unwrap_or(0);
        let mut behind: Vec<Placed> = rendered
            .into_iter()
            .map(|service| self.at_its_pod(Placed { layout, service }))
            .collect();
        let front = behind.split_off(to + 1);
        Ok([behind, front])
    }

    /// Replaces the wildcard address by a variable with the Pod's address, if the configuration can read variables.
    fn at_its_pod(&self, mut placed: Placed) -> Placed {
        let recipe = self.plan.experiment.recipes.get(&placed.service.recipe);
        if placed.layout.is_apart() && recipe.is_some_and(|recipe| recipe.start.reads_variables) {
            for (_, content) in &mut placed.service.files {
                let own = String::from_utf8_lossy(content);
                *content = own
                    .replace(&EVERYWHERE.to_string(), &format!("${{{POD_ADDRESS}}}"))
                    .into_bytes();
            }
        }
        placed
    }

    /// The companions of the driver's Pod.
    pub fn companions(&self, fleet: &Fleet, number: usize, node: &str, runs: u32) -> Result<Vec<Companion>, String> {
        let apart = self.chosen.iter().filter(|layout| layout.is_apart());
        apart
            .map(|layout| self.companion(fleet, number, node, *layout, runs))
            .collect()
    }

    fn companion(
        &self,
        fleet: &Fleet,
        number: usize,
        node: &str,
        layout: Layout,
        runs: u32,
    ) -> Result<Companion, String> {
        let [behind, _] = self.services(layout, &Addresses::new())?;
        let affinity = match layout {
            Layout::OtherNode => NodeAffinity::NotOn(node.to_owned()),
            _ => NodeAffinity::Node(node.to_owned()),
        };
        let name = format!("{}-{}", fleet.name(number), layout.name());
        let port = |placed: &Placed| match placed.service.endpoint.address {
            Address::Tcp(address) => Some(address.port()),
            _ => None,
        };
        let service = (layout == Layout::Service).then(|| Service {
            fleet: fleet.id.clone(),
            name: name.clone(),
            ports: behind.iter().filter_map(port).collect(),
        });
        let pod = Servers::new(&behind)?;
        let mut job = fleet.driver(number, &affinity, &[]);
        job.name = name;
        // The Pod serves every run of the node, one after another.
        job.deadline = (fleet.deadline() * runs).as_secs();
        job.driver = None;
        (job.files, job.servers) = (&pod.files, &pod.servers);
        Ok(Companion {
            layout,
            job: job.render(),
            service,
        })
    }

    /// The endpoints that the driver compares: the layouts.
    pub fn given(&self, addresses: &Addresses) -> Result<ComparedEndpoints, String> {
        let mut endpoints = IndexMap::new();
        for layout in &self.chosen {
            let stack = self.stack(*layout)?;
            let case = self.plan.cases.iter().find(|case| case.stack == stack.number);
            let case = case.expect("a stack is of its cases");
            let rendered = self.plan.render(case, &self.bindings(*layout, addresses)?)?;
            let endpoint = GivenEndpoint {
                url: format!("{} by {}", self.plan.experiment.link.to, layout.name()),
                spec: rendered.spec,
                server: Some(rendered.target),
                differs: Vec::new(),
                unchecked: None,
                closes: false,
                learnt: false,
                secret: false,
            };
            endpoints.insert(layout.name().to_owned(), endpoint);
        }
        Ok(ComparedEndpoints {
            endpoints,
            restart: None,
            pids: IndexMap::new(),
        })
    }

    /// The servers in the driver's Pod, and the endpoints to compare.
    fn pod(&self, addresses: &Addresses) -> Result<Servers, String> {
        let mut servers = Vec::new();
        for layout in &self.chosen {
            let [behind, front] = self.services(*layout, addresses)?;
            servers.extend(if layout.is_apart() { Vec::new() } else { behind });
            servers.extend(front);
        }
        let mut pod = Servers::new(&servers)?;
        let given = serde_json::to_vec(&self.given(addresses)?).expect("endpoints are plain data");
        pod.files.add(Path::new(GIVEN), given)?;
        Ok(pod)
    }

    /// The Job of the driver as YAML, once the other Pods have addresses.
    pub fn job(
        &self,
        fleet: &Fleet,
        number: usize,
        affinity: &NodeAffinity,
        labels: &[(String, String)],
        addresses: &Addresses,
    ) -> Result<String, String> {
        let pod = self.pod(addresses)?;
        let mut job = fleet.driver(number, affinity, labels);
        (job.files, job.servers) = (&pod.files, &pod.servers);
        Ok(job.render())
    }
}

/// The servers of a Pod and their files.
struct Servers {
    servers: Vec<Server>,
    files: Files,
}

impl Servers {
    fn new(placed: &[Placed]) -> Result<Self, String> {
        let mut files = Files::default();
        let mut servers = Vec::new();
        for one in placed {
            let service = &one.service;
            let folder = Path::new(one.layout.name()).join(&service.name);
            for (path, content) in &service.files {
                files.add(&folder.join(path), content.clone())?;
            }
            let own = |word: &String| word.replace(&EVERYWHERE.to_string(), &format!("$({POD_ADDRESS})"));
            let environment = service.environment.iter();
            servers.push(Server {
                name: format!("{}-{}", one.layout.name(), service.name),
                command: service.command.iter().map(own).collect(),
                environment: environment.map(|(name, value)| (name.clone(), own(value))).collect(),
                folder,
            });
        }
        Ok(Self { servers, files })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lasthop_model::selection::Selection;
    use lasthop_plan::catalog::Catalog;

    use super::*;

    fn layouts(experiment: &str, chosen: &[Layout]) -> Result<Layouts, String> {
        let experiment = Catalog::new(None).load(experiment).unwrap();
        Layouts::new(Plan::new(experiment, &Selection::default()).unwrap(), chosen)
    }

    fn fleet() -> Fleet {
        let second = Duration::from_secs(1);
        Fleet {
            id: "id".to_owned(),
            image: "i".to_owned(),
            arguments: Vec::new(),
            files: Files::default(),
            cpus: 0,
            memory: String::new(),
            budget: second,
            wait: second,
            keep: second,
            root: false,
        }
    }

    /// Names of the containers in a Job.
    fn names(job: &str) -> Vec<&str> {
        let names = job.lines().filter_map(|line| line.strip_prefix("        - name: "));
        names
            .map(|name| name.trim_matches('"'))
            .filter(|name| !["tmp", "run", "files"].contains(name))
            .collect()
    }

    #[test]
    fn the_driver_has_every_front_and_other_pods_have_what_is_behind_the_link() {
        let layouts = layouts("nginx-gunicorn", &Layout::ALL).unwrap();
        let addresses = Addresses::from([
            (Layout::Service, "10.1.0.1".parse().unwrap()),
            (Layout::OtherNode, "10.2.0.2".parse().unwrap()),
        ]);
        let job = layouts.job(&fleet(), 0, &NodeAffinity::Any, &[], &addresses).unwrap();
        let expected = [
            "tcp-gunicorn",
            "tcp-nginx",
            "unix-gunicorn",
            "unix-nginx",
            "service-nginx",
            "other-node-nginx",
            "lasthop",
        ];
        assert_eq!(names(&job), expected);
        assert_eq!(
            job.matches("restartPolicy: Always").count(),
            6,
            "all but the driver: {job}"
        );
        for address in [
            "10.1.0.1:18200",
            "10.2.0.2:18300",
            "127.0.0.1:18000",
            "unix:/run/lasthop/unix/gunicorn/socket",
        ] {
            assert!(job.contains(&format!("server {address} ")), "{address}: {job}");
        }
        let companions = layouts.companions(&fleet(), 0, "n1", 3).unwrap();
        let [service, other] = &companions[..] else {
            panic!("{companions:?}")
        };
        assert_eq!(names(&service.job), ["service-gunicorn"]);
        let part = "lasthop/part: \"lasthop-id-0-service\"\n";
        let leads = service.service.as_ref().unwrap().owned_by("the uid");
        assert!(leads.contains(part) && service.job.contains(part), "{leads}");
        for line in [
            "      uid: \"the uid\"\n",
            "    - name: \"p18200\"\n      port: 18200\n",
        ] {
            assert!(leads.contains(line), "{line}: {leads}");
        }
        assert!(service.job.contains("operator: \"In\"") && other.job.contains("operator: \"NotIn\""));
        assert!(other.service.is_none());
        let deadline = format!("activeDeadlineSeconds: {}\n", (fleet().deadline() * 3).as_secs());
        assert!(service.job.contains(&deadline), "of three runs");
    }

    #[test]
    fn a_database_has_a_new_password_and_listens_where_its_pod_is() {
        let server = || {
            let layouts = layouts("redis", &Layout::ALL).unwrap();
            let job = layouts.companions(&fleet(), 0, "n1", 1).unwrap().remove(0).job;
            (job, layouts.secret)
        };
        let (job, secret) = server();
        assert_eq!(secret.len(), 32);
        assert!(job.contains(&secret), "{job}");
        assert_ne!(secret, server().1);
        assert!(job.contains(r#""--bind","$(LASTHOP_POD_ADDRESS)""#), "{job}");
        assert!(job.contains("fieldPath: status.podIP"), "{job}");
    }

    #[test]
    fn a_server_that_reads_variables_listens_where_its_pod_is_too() {
        let layouts = layouts("php-fpm", &Layout::ALL).unwrap();
        let job = layouts.companions(&fleet(), 0, "n1", 1).unwrap().remove(0).job;
        assert!(
            job.contains("listen = ${LASTHOP_POD_ADDRESS}:18200") && !job.contains("0.0.0.0"),
            "{job}"
        );
    }

    #[test]
    fn every_pod_is_one_that_the_restricted_standard_admits() {
        let layouts = layouts("redis", &Layout::ALL).unwrap();
        let companions = layouts.companions(&fleet(), 0, "n1", 1).unwrap();
        let driver = layouts
            .job(&fleet(), 0, &NodeAffinity::Any, &[], &Addresses::new())
            .unwrap();
        for job in companions.into_iter().map(|one| one.job).chain([driver]) {
            let count = |part: &str| job.matches(part).count();
            for part in ["runAsNonRoot: true", "runAsUser: 65534", "type: RuntimeDefault"] {
                assert_eq!(count(part), 1, "{part}: {job}");
            }
            for part in ["allowPrivilegeEscalation: false", "drop: [ALL]"] {
                assert_eq!(count(part), names(&job).len(), "{part}: {job}");
            }
        }
    }

    #[test]
    fn what_a_pod_cannot_start_is_refused() {
        let refused = |experiment, chosen: &[Layout]| layouts(experiment, chosen).unwrap_err();
        assert!(refused("sockets", &[Layout::Tcp]).contains("lasthop itself"));
        assert!(refused("postgres", &[Layout::Tcp]).contains("before its server"));
        assert!(refused("nginx-starlette", &[Layout::Tcp]).contains("listens with tls"));
    }
}
