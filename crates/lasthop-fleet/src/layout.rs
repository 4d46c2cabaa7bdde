//! The layouts of Pods: how the services of an experiment reach each other in a cluster.
//!
//! All layouts are there at once, and the driver, which is in one Pod with the front ends of all, lets them take turns:
//! idle servers cost nothing, and everything but the link is the same. An experiment's services are rendered as in any
//! run, with the addresses of the cluster; their files reach their containers as annotations of the Pod.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Account, Bindings, SOCKET, ServiceBinding},
    record::{Given, GivenEndpoint},
    service::RenderedService,
};
use lasthop_plan::plan::{Plan, Stack};
use lasthop_protocol::spec::{Address, Transport};
use lasthop_system::random;
use serde_json::{Value, json};

use crate::{
    files::{FOLDER, Files},
    manifest::{Fleet, LABEL, NOBODY, Place, without_privileges},
};

/// Where sockets are in every container.
const SOCKETS: &str = "/run/lasthop";
/// The endpoints that the driver compares.
pub const GIVEN: &str = "given.json";
/// Label of the Pods that a Service leads to.
const PART: &str = "lasthop/part";
/// Ports from here on, for each layout a hundred.
const PORTS: u16 = 18_000;
/// Where a server listens that other Pods reach. In arguments, and in the configuration of servers that read variables
/// there, this becomes the address of its own Pod, which is known there alone, in this variable.
const EVERYWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const POD_ADDRESS: &str = "LASTHOP_POD_ADDRESS";

/// How the link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// To another container of the Pod, over TCP. The reference.
    Tcp,
    /// The same over a Unix socket in an `emptyDir`.
    Unix,
    /// To a Pod on the same node, over the address of a Service.
    Service,
    /// To a Pod on another node, over its address.
    OtherNode,
}

impl Layout {
    /// All of them, the reference first.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Unix, Self::Service, Self::OtherNode];

    /// As options and reports call it.
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

/// Where the servers of other Pods are reached.
pub type Addresses = BTreeMap<Layout, IpAddr>;

/// A Pod beside the driver's.
#[derive(Clone, Debug, PartialEq)]
pub struct Companion {
    pub layout: Layout,
    pub job: Value,
    /// Its Service, which the Job is to own.
    pub service: Option<Value>,
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

impl Placed {
    fn name(&self) -> String {
        format!("{}-{}", self.layout.name(), self.service.name)
    }
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
        // Whatever cannot be rendered is known before anything is made.
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
                "the experiment has no case whose link is {}; choose others with --pods",
                layout.transport().name()
            )
        })
    }

    /// What the services of a layout are told.
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
                (_, Transport::Unix) => [(); 2].map(|()| Address::Unix(runtime.join(SOCKET))),
                (_, Transport::Tcp) => [(); 2].map(|()| Address::Tcp(([127, 0, 0, 1], port).into())),
                (_, other) => {
                    return Err(format!(
                        "its service {name} listens with {other}, and in a Pod only Unix sockets and TCP are possible"
                    ));
                }
            };
            // The image finds it on its PATH.
            let program = self
                .plan
                .experiment
                .recipes
                .get(&service.recipe)
                .and_then(|recipe| recipe.program.names.first());
            let Some(program) = program else {
                return Err(format!(
                    "its service {name} is lasthop itself, and a layout of Pods takes real servers"
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

    /// The services of a layout: those up to the link's server, and those in front of it.
    fn services(&self, layout: Layout, addresses: &Addresses) -> Result<[Vec<Placed>; 2], String> {
        let bindings = self.bindings(layout, addresses)?;
        let rendered = self.plan.services(self.stack(layout)?, &bindings)?;
        for service in &rendered {
            // A server that only checks its own configuration does so when it starts, too.
            if let Some(other) = service
                .prepare
                .iter()
                .flat_map(|words| words.first())
                .find(|word| **word != service.command[0])
            {
                return Err(format!(
                    "its service {} needs `{other}` to be run first, which no Pod does",
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

    /// With the address of its Pod in the place of all addresses, where its configuration can name it.
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

    /// The Pods that the driver's needs.
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
        let place = match layout {
            Layout::OtherNode => Place::NotOn(node.to_owned()),
            _ => Place::Node(node.to_owned()),
        };
        let name = format!("{}-{}", fleet.name(number), layout.name());
        let mut job = fleet.job(number, &place, &[]);
        job["metadata"]["name"] = json!(name);
        // It serves every run of the node, one after another.
        job["spec"]["activeDeadlineSeconds"] = json!((fleet.deadline() * runs).as_secs());
        job["spec"]["template"]["metadata"]["labels"][PART] = json!(name);
        let ports: Vec<Value> = behind
            .iter()
            .filter_map(|placed| match placed.service.endpoint.address {
                Address::Tcp(address) => {
                    Some(json!({ "name": format!("p{}", address.port()), "port": address.port() }))
                }
                _ => None,
            })
            .collect();
        let service = (layout == Layout::Service).then(|| {
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": { "name": name, "labels": { LABEL: fleet.id } },
                "spec": { "selector": { PART: name }, "ports": ports },
            })
        });
        let pod = Servers::new(behind)?;
        pod.add_to(fleet, &mut job, false);
        Ok(Companion { layout, job, service })
    }

    /// The servers of the driver's Pod, and what it compares.
    fn pod(&self, addresses: &Addresses) -> Result<Servers, String> {
        let mut servers = Vec::new();
        let mut endpoints = IndexMap::new();
        for layout in &self.chosen {
            let [behind, front] = self.services(*layout, addresses)?;
            servers.extend(if layout.is_apart() { Vec::new() } else { behind });
            servers.extend(front);
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
        let given = Given {
            endpoints,
            restart: None,
            pids: IndexMap::new(),
        };
        let mut pod = Servers::new(servers)?;
        let given = serde_json::to_vec(&given).expect("endpoints are plain data");
        pod.files.add(Path::new(GIVEN), given)?;
        Ok(pod)
    }

    /// The Job of the driver, once the other Pods have addresses.
    pub fn job(
        &self,
        fleet: &Fleet,
        number: usize,
        place: &Place,
        labels: &[(String, String)],
        addresses: &Addresses,
    ) -> Result<Value, String> {
        let mut job = fleet.job(number, place, labels);
        self.pod(addresses)?.add_to(fleet, &mut job, true);
        Ok(job)
    }
}

/// The servers of a Pod and their files.
struct Servers {
    placed: Vec<Placed>,
    files: Files,
}

impl Servers {
    fn new(placed: Vec<Placed>) -> Result<Self, String> {
        let mut files = Files::default();
        for one in &placed {
            let folder = Path::new(one.layout.name()).join(&one.service.name);
            for (path, content) in &one.service.files {
                files.add(&folder.join(path), content.clone())?;
            }
        }
        Ok(Self { placed, files })
    }

    /// Adds the servers to a Job: beside its driver, or in its place.
    fn add_to(&self, fleet: &Fleet, job: &mut Value, with_driver: bool) {
        let template = &mut job["spec"]["template"];
        self.files.give(template);
        let spec = &mut template["spec"];
        // lasthop reads the CPU time of the servers, as the same user.
        spec["shareProcessNamespace"] = json!(true);
        if let Value::Array(all) = &mut spec["volumes"] {
            all.push(json!({ "name": "run", "emptyDir": {} }));
        }
        let mut servers: Vec<Value> = self.placed.iter().map(|placed| self.container(fleet, placed)).collect();
        if !with_driver {
            spec["containers"] = json!(servers);
            return;
        }
        if let Value::Array(all) = &mut spec["containers"][0]["volumeMounts"] {
            all.extend(self.mounts());
        }
        for server in &mut servers {
            // Sidecars end with the driver.
            server["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!(servers);
    }

    /// Its files, and a folder for each server of the Pod.
    fn mounts(&self) -> Vec<Value> {
        std::iter::once(Files::mount())
            .chain(self.placed.iter().map(|placed| {
                let below = format!("{}/{}", placed.layout.name(), placed.service.name);
                json!({ "name": "run", "mountPath": format!("{SOCKETS}/{below}"), "subPath": below })
            }))
            .collect()
    }

    fn container(&self, fleet: &Fleet, placed: &Placed) -> Value {
        let service = &placed.service;
        let here = json!({ "name": POD_ADDRESS, "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } });
        let own = |word: &String| word.replace(&EVERYWHERE.to_string(), &format!("$({POD_ADDRESS})"));
        let environment = service
            .environment
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": own(value) }));
        let tmp = json!({ "name": "tmp", "mountPath": "/tmp" });
        let mut container = json!({
            "name": placed.name(),
            "image": fleet.image,
            "imagePullPolicy": "IfNotPresent",
            "command": service.command.iter().map(own).collect::<Vec<String>>(),
            "env": std::iter::once(here).chain(environment).collect::<Vec<Value>>(),
            "securityContext": without_privileges(),
            "volumeMounts": self.mounts().into_iter().chain([tmp]).collect::<Vec<Value>>(),
        });
        fleet.request(&mut container);
        container
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

    fn names(containers: &Value) -> Vec<&str> {
        containers
            .as_array()
            .unwrap()
            .iter()
            .map(|container| container["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn the_driver_has_every_front_and_other_pods_have_what_is_behind_the_link() {
        let layouts = layouts("nginx-gunicorn", &Layout::ALL).unwrap();
        let addresses = Addresses::from([
            (Layout::Service, "10.1.0.1".parse().unwrap()),
            (Layout::OtherNode, "10.2.0.2".parse().unwrap()),
        ]);
        let job = layouts.job(&fleet(), 0, &Place::Any, &[], &addresses).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        let expected = [
            "tcp-gunicorn",
            "tcp-nginx",
            "unix-gunicorn",
            "unix-nginx",
            "service-nginx",
            "other-node-nginx",
        ];
        assert_eq!(
            (names(&pod["initContainers"]), names(&pod["containers"])),
            (expected.to_vec(), vec!["lasthop"])
        );
        let files = job["spec"]["template"]["metadata"]["annotations"].to_string();
        for address in [
            "10.1.0.1:18200",
            "10.2.0.2:18300",
            "127.0.0.1:18000",
            "unix:/run/lasthop/unix/gunicorn/socket",
        ] {
            assert!(files.contains(&format!("server {address} ")), "{address}: {files}");
        }
        let companions = layouts.companions(&fleet(), 0, "n1", 3).unwrap();
        let [service, other] = &companions[..] else {
            panic!("{companions:?}")
        };
        assert_eq!(
            names(&service.job["spec"]["template"]["spec"]["containers"]),
            ["service-gunicorn"]
        );
        let selector = &service.service.as_ref().unwrap()["spec"]["selector"];
        assert_eq!(
            selector[PART],
            service.job["spec"]["template"]["metadata"]["labels"][PART]
        );
        let affinity = |companion: &Companion| companion.job["spec"]["template"]["spec"]["affinity"].to_string();
        assert!(affinity(service).contains("\"In\"") && affinity(other).contains("\"NotIn\""));
        assert!(other.service.is_none());
        assert_eq!(
            service.job["spec"]["activeDeadlineSeconds"],
            (fleet().deadline() * 3).as_secs(),
            "of three runs"
        );
    }

    #[test]
    fn a_database_has_a_new_password_and_listens_where_its_pod_is() {
        let server = || {
            let layouts = layouts("redis", &Layout::ALL).unwrap();
            let job = layouts.companions(&fleet(), 0, "n1", 1).unwrap().remove(0).job;
            let template = &job["spec"]["template"];
            (
                template["spec"]["containers"][0].clone(),
                template["metadata"]["annotations"].to_string(),
                layouts.secret,
            )
        };
        let (container, files, secret) = server();
        assert_eq!(secret.len(), 32);
        assert!(files.contains(&secret), "{files}");
        assert_ne!(secret, server().2);
        let command: Vec<&str> = container["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(
            command
                .windows(2)
                .any(|words| words == ["--bind", "$(LASTHOP_POD_ADDRESS)"]),
            "{command:?}"
        );
        assert_eq!(
            container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
            "status.podIP"
        );
    }

    #[test]
    fn a_server_that_reads_variables_listens_where_its_pod_is_too() {
        let job = layouts("php-fpm", &Layout::ALL)
            .unwrap()
            .companions(&fleet(), 0, "n1", 1)
            .unwrap()
            .remove(0)
            .job;
        let files = job["spec"]["template"]["metadata"]["annotations"].to_string();
        assert!(
            files.contains("listen = ${LASTHOP_POD_ADDRESS}:18200") && !files.contains("0.0.0.0"),
            "{files}"
        );
    }

    #[test]
    fn every_pod_is_one_that_the_restricted_standard_admits() {
        let layouts = layouts("redis", &Layout::ALL).unwrap();
        let jobs = layouts
            .companions(&fleet(), 0, "n1", 1)
            .unwrap()
            .into_iter()
            .map(|one| one.job);
        for job in jobs.chain([layouts.job(&fleet(), 0, &Place::Any, &[], &Addresses::new()).unwrap()]) {
            let pod = &job["spec"]["template"]["spec"];
            let of_pod = &pod["securityContext"];
            assert_eq!(
                (&of_pod["runAsNonRoot"], &of_pod["runAsUser"]),
                (&json!(true), &json!(65_534))
            );
            assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault");
            let containers = ["initContainers", "containers"].map(|kind| pod[kind].as_array());
            for container in containers.into_iter().flatten().flatten() {
                let own = &container["securityContext"];
                assert_eq!(own["allowPrivilegeEscalation"], false, "{container}");
                assert_eq!(own["capabilities"]["drop"], json!(["ALL"]), "{container}");
            }
        }
    }

    #[test]
    fn what_a_pod_cannot_start_is_refused() {
        let refused = |experiment, chosen: &[Layout]| layouts(experiment, chosen).unwrap_err();
        assert!(refused("sockets", &[Layout::Tcp]).contains("lasthop itself"));
        assert!(refused("postgres", &[Layout::Tcp]).contains("to be run first"));
        assert!(refused("nginx-starlette", &[Layout::Tcp]).contains("listens with tls"));
    }
}
