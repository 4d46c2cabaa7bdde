//! Differences between two cases other than the link, found before addresses are known: services and load are rendered
//! with one symbol in place of every link's endpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Account, Bindings, SOCKET, ServiceBinding, TlsFiles, server_name, service_of},
    container::{Network, RenderedContainer},
    level::Levels,
    service::RenderedService,
};
use lasthop_trial::address::Transport;
use serde_json::Value;

use super::{
    cases::{self, NamedCase},
    model::{Experiment, Recipe},
    plan::StackService,
    render::{self, RenderedCase, Renderer, address_text, url_text},
};

/// A case as far as it can be rendered without addresses.
pub(super) struct SketchedCase {
    pub fingerprint: Fingerprint,
    pub load: RenderedCase,
    /// The services, in start order.
    pub services: IndexMap<String, StackService>,
}

/// The text of a case's services and load.
#[derive(Clone)]
pub(super) struct Fingerprint {
    /// The texts that start each server, by server and by place: the command, a file, a variable.
    services: BTreeMap<String, BTreeMap<String, String>>,
    /// The path to each service's container, which is compared and may differ.
    paths: BTreeMap<String, String>,
    /// Services whose containers also hold other services, and so belong to the paths of these services.
    holders: BTreeSet<String>,
    /// The load without the parts of the transport: the endpoint and the TCP option.
    load: String,
    /// The TCP option; `None` on a Unix socket, where it has no meaning.
    nodelay: Option<bool>,
}

pub(super) fn sketch(experiment: &Experiment, case: &NamedCase) -> Result<SketchedCase, String> {
    let bindings = placeholders(experiment, &case.levels)?;
    let renderer = Renderer {
        experiment,
        levels: &case.levels,
        bindings: &bindings,
        symbolic: true,
        urls: true,
    };
    let rendered = renderer.services()?;
    let containers = renderer.containers()?;
    if case.transport.is_unix() {
        render::container::check_volumes(&experiment.link.from, &experiment.link.to, &containers)?;
    }
    let load = renderer.case()?;
    // An experiment's own driver is not checked, because lasthop does not know what it accepts.
    if load.driver.is_none() {
        let protocol = load.spec.protocol.kind().name;
        load.spec
            .validate_protocol()
            .map_err(|cause| format!("load.{protocol}: {cause}"))?;
    }
    let mut fingerprint = Fingerprint {
        services: rendered
            .iter()
            .map(|service| (service.name.clone(), texts(service)))
            .collect(),
        paths: BTreeMap::new(),
        holders: BTreeSet::new(),
        load: load_text(&load),
        nodelay: (!case.transport.is_unix()).then_some(load.spec.socket.nodelay),
    };
    fingerprint.add_containers(&containers);
    fingerprint.replace_link(&link_forms(&renderer)?);
    let mut services = IndexMap::new();
    for service in rendered {
        let RenderedService {
            name, recipe, workers, ..
        } = service;
        let container = containers.get(service_of(&name)).cloned().flatten();
        let transport = bindings.services[&name].transport;
        services.insert(
            name,
            StackService {
                recipe,
                transport,
                container,
                workers,
            },
        );
    }
    Ok(SketchedCase {
        fingerprint,
        load,
        services,
    })
}

impl Fingerprint {
    /// Whether two cases can share their servers.
    pub(super) fn has_same_services(&self, other: &Self) -> bool {
        (&self.services, &self.paths, &self.holders) == (&other.services, &other.paths, &other.holders)
    }

    /// Differences that should not exist: the place in words, the reference's text, and this case's text.
    pub(super) fn diff(&self, reference: &Self) -> Vec<(String, String, String)> {
        let mut places: BTreeMap<String, [String; 2]> = BTreeMap::new();
        for (at, side) in [reference, self].into_iter().enumerate() {
            places.entry("driver: load".to_owned()).or_default()[at].clone_from(&side.load);
            for (server, texts) in &side.services {
                if self.holders.contains(server) || reference.holders.contains(server) {
                    continue;
                }
                for (what, text) in texts {
                    places.entry(format!("{server}: {what}")).or_default()[at].clone_from(text);
                }
            }
        }
        if let (Some(theirs), Some(ours)) = (reference.nodelay, self.nodelay) {
            places.insert(
                "driver: nodelay".to_owned(),
                [theirs, ours].map(|nodelay| format!("{nodelay}\n")),
            );
        }
        places
            .into_iter()
            .filter(|(_, [old, new])| old != new)
            .map(|(place, [old, new])| (place, old, new))
            .collect()
    }

    /// Separates the path, which may differ, from the settings that must be equal.
    fn add_containers(&mut self, containers: &IndexMap<String, Option<RenderedContainer>>) {
        for (name, container) in containers {
            let Some(container) = container else { continue };
            let RenderedContainer {
                network,
                publish,
                volume,
                sysctls,
                ..
            } = container;
            self.paths
                .insert(name.clone(), format!("{network:?} {publish:?} {volume:?} {sysctls:?}"));
            // A container that holds others is part of their path, and its limits apply to them.
            let holder = match network {
                Network::Inside(holder) => {
                    self.holders.insert(holder.clone());
                    containers.get(holder).and_then(Option::as_ref)
                }
                _ => Some(container),
            };
            if let Some(limits) = holder.and_then(RenderedContainer::limits) {
                self.services
                    .entry(name.clone())
                    .or_default()
                    .insert("container limits".to_owned(), limits);
            }
        }
    }

    fn replace_link(&mut self, forms: &[String]) {
        for text in self
            .services
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .chain([&mut self.load])
        {
            for form in forms {
                *text = text.replace(form, render::LINK);
            }
        }
    }
}

fn texts(service: &RenderedService) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::from([("command".to_owned(), lines(&service.command))]);
    for (at, words) in service.build.iter().chain(&service.prepare).enumerate() {
        texts.insert(format!("preparation {}", at + 1), lines(words));
    }
    for (key, value) in &service.environment {
        texts.insert(format!("environment {key}"), format!("{value}\n"));
    }
    for (path, content) in &service.files {
        texts.insert(
            path.display().to_string(),
            String::from_utf8_lossy(content).into_owned(),
        );
    }
    texts
}

fn lines(words: &[String]) -> String {
    words.iter().map(|word| format!("{word}\n")).collect()
}

fn load_text(load: &RenderedCase) -> String {
    let mut spec = serde_json::to_value(&load.spec).expect("a specification is plain data");
    spec.as_object_mut().and_then(|fields| fields.shift_remove("endpoint"));
    spec.pointer_mut("/socket")
        .and_then(Value::as_object_mut)
        .and_then(|socket| socket.shift_remove("nodelay"));
    let text = serde_json::to_string_pretty(&spec).expect("a JSON value is printable");
    format!("{text}\n{}", lines(load.driver.as_deref().unwrap_or_default()))
}

/// All texts by which a configuration may name the link's endpoint, longest first, because one may contain another.
fn link_forms(renderer: &Renderer<'_>) -> Result<Vec<String>, String> {
    let mut forms = Vec::new();
    for (name, server) in &renderer.bindings.services {
        if service_of(name) != renderer.experiment.link.to {
            continue;
        }
        // Clients of the link's server write the address in the form that their recipe gives.
        for (name, service) in &renderer.experiment.services {
            forms.push(address_text(&renderer.recipe(name, service)?.connect, &server.address)?);
        }
        let address = server.address.to_string();
        forms.extend([
            url_text(server.transport, &server.address),
            format!("http://{address}"),
            address,
        ]);
        forms.push(server.address.bare());
    }
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    Ok(forms)
}

/// Bindings with placeholders, equal for all cases except for the link's address.
pub(super) fn placeholders(experiment: &Experiment, levels: &Levels) -> Result<Bindings, String> {
    let none = Bindings {
        round: 0,
        stack: 0,
        services: IndexMap::new(),
        account: Account {
            user: "@user@".to_owned(),
            group: "@group@".to_owned(),
            is_root: false,
            ids: (0, 0),
        },
        secret: "@secret@".to_owned(),
        cpus: Vec::new(),
    };
    let renderer = Renderer {
        experiment,
        levels,
        bindings: &none,
        symbolic: true,
        urls: true,
    };
    let mut services = IndexMap::new();
    let mut next = 60001_u16;
    for (name, service) in &experiment.services {
        let recipe = renderer.recipe(name, service)?;
        let transport = service
            .listen
            .map_or_else(|| cases::transport(&experiment.link, levels), Ok)?;
        let count = renderer.count(name, service)?;
        for index in 0..count {
            let server = server_name(name, index);
            services.insert(
                server.clone(),
                ServiceBinding {
                    packages: service.packages(recipe, |language| Path::new("/@packages@").join(language)),
                    ..placeholder(&server, recipe, transport, next + index as u16)
                },
            );
        }
        // A service that this case lacks keeps its port, so that the other services look alike.
        next += count.max(1) as u16;
    }
    Ok(Bindings { services, ..none })
}

fn placeholder(name: &str, recipe: &Recipe, transport: Transport, port: u16) -> ServiceBinding {
    let runtime = PathBuf::from("/@run@").join(name);
    let file = recipe.listen.get(&transport).and_then(|listen| listen.file.as_deref());
    // The end of the name occurs in no other name, so that `app` is not found in `app-2`.
    let address = transport
        .address()
        .at(runtime.join(file.unwrap_or(SOCKET)), format!("@run@-{name}@"), port);
    let file = |name: &str| PathBuf::from("/@run@/tls").join(name);
    let tls = transport.is_tls().then(|| TlsFiles {
        authority: file("authority.pem"),
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    });
    ServiceBinding {
        name: name.to_owned(),
        directory: PathBuf::from("/@record@").join(name),
        record: PathBuf::from("/@record@").join(name),
        account: None,
        needed: Vec::new(),
        packages: BTreeMap::new(),
        cache: PathBuf::from("/@cache@").join(&recipe.name),
        runtime,
        outside: None,
        in_container: false,
        transport,
        listen: address.clone(),
        address,
        tls,
        program: PathBuf::from("/@program@").join(&recipe.name),
        own_authority: None,
        spare_port: Ok(port + 1000),
    }
}
