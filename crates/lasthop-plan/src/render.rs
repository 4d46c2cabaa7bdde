//! Renders the services and the load of a case.

pub(super) mod container;

use std::{collections::BTreeMap, path::PathBuf};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{Bindings, ServiceBinding, server_name, service_of},
    container::{Network, RenderedContainer},
    level::{Level, Levels},
    record::GivenEndpoint,
    service::{Export, Ready, ReadyCheck, RenderedService},
};
use lasthop_protocol::{
    Protocol,
    spec::{Address, Reuse, SocketOptions, Spec, Transport},
};
use minijinja::value::Value;
use serde_json::Value as Json;

use super::{
    model::{ConfigFile, Connect, Experiment, Recipe, RunAs, Service, Template},
    pace,
    template::{self, Named, TemplateError},
};

/// What a driver is told for one case, and what its link must turn out to be.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedCase {
    /// The service that the driver talks to.
    pub target: String,
    pub spec: Spec,
    /// Name of the protocol.
    pub protocol: String,
    /// Command of the experiment's own driver; `None` if lasthop drives.
    pub driver: Option<Vec<String>>,
    /// `None` if the experiment has no way to ask.
    pub proof: Option<RenderedProof>,
}

/// What a server is called that is not known.
pub(super) const SERVER: &str = "server";

impl RenderedCase {
    /// The load on an endpoint that is there already.
    pub(super) fn of_given(endpoint: &GivenEndpoint) -> Self {
        Self {
            target: endpoint.server.clone().unwrap_or_else(|| SERVER.to_owned()),
            spec: endpoint.spec.clone(),
            protocol: endpoint.spec.protocol.kind().name.to_owned(),
            driver: None,
            proof: None,
        }
    }
}

/// What the link of a case must turn out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedProof {
    /// HTTP path, asked through the target.
    pub path: String,
    pub reuse: Reuse,
}

/// Renders the templates for one combination of levels.
pub(super) struct Renderer<'a> {
    pub experiment: &'a Experiment,
    pub levels: &'a Levels,
    pub bindings: &'a Bindings,
    /// Render the same symbol wherever the link's server is told where to listen, for any transport, so that cases can
    /// be compared.
    pub symbolic: bool,
}

/// The most servers of one service.
const MOST_SERVERS: usize = 64;

/// Stands for the listening end of the link in a symbolic rendering.
pub(super) const LISTEN: &str = "@listen@";

impl Renderer<'_> {
    /// The services in start order.
    pub(super) fn services(&self) -> Result<Vec<RenderedService>, String> {
        let mut all = Vec::new();
        for (name, service) in &self.experiment.services {
            for index in 0..self.count(name, service)? {
                all.push(self.service(&server_name(name, index), service)?);
            }
        }
        Ok(all)
    }

    /// How many servers a service has in this case; 0 if the case does not use it.
    pub(super) fn count(&self, name: &str, service: &Service) -> Result<usize, String> {
        let context = template::of_levels(self.levels);
        let text = template::render(&format!("services.{name}.count"), &service.count, &context)?;
        let number = text
            .trim()
            .parse()
            .ok()
            .filter(|number| (0..=MOST_SERVERS).contains(number));
        number.ok_or_else(|| {
            format!("service {name}: `count` renders to `{text}`, expected a whole number from 0 to {MOST_SERVERS}")
        })
    }

    fn service(&self, name: &str, service: &Service) -> Result<RenderedService, String> {
        let binding = self.binding(name)?;
        let recipe = self.recipe(name, service)?;
        let context = self.service_context(name, service, recipe, binding)?;
        let context = Value::from(context);
        let at = |part: &str| format!("{name}: {part} of recipe {}", recipe.name);
        let list = |part: &str, items: &[Template]| self.list(&at(part), items, &context);
        let made = recipe
            .made
            .as_ref()
            .map(|made| template::render(&at("start.program"), made, &context))
            .transpose()?;
        let mut command = vec![made.unwrap_or_else(|| binding.program.display().to_string())];
        command.extend(self.arguments(name, recipe, binding, &context)?);
        Ok(RenderedService {
            name: name.to_owned(),
            recipe: recipe.name.clone(),
            command,
            build: recipe
                .build
                .iter()
                .map(|words| list("start.build", words))
                .collect::<Result<_, _>>()?,
            prepare: recipe
                .prepare
                .iter()
                .map(|words| list("start.prepare", words))
                .collect::<Result<_, _>>()?,
            prepare_timeout: recipe.prepare_timeout,
            environment: recipe
                .environment
                .iter()
                .map(|(key, text)| Ok((key.clone(), template::render(&at("start.environment"), text, &context)?)))
                .collect::<Result<_, TemplateError>>()?,
            own_memory: recipe.own_memory,
            files: self.files(service, recipe, &context)?,
            ready: Ready {
                check: self.ready(&at("ready"), recipe, &context)?,
                timeout: recipe.ready.timeout,
            },
            stop: recipe.stop.clone(),
            endpoint: binding.endpoint(),
            secret: self.bindings.secret.clone(),
            export: Export {
                files: recipe
                    .export
                    .files
                    .iter()
                    .map(|(file, text)| Ok((file.clone(), template::render(&at("export.files"), text, &context)?)))
                    .collect::<Result<_, TemplateError>>()?,
                conditions: list("export.conditions", &recipe.export.conditions)?,
                ..recipe.export.clone()
            },
        })
    }

    /// How each service runs in a container, if it does.
    pub(super) fn containers(&self) -> Result<IndexMap<String, Option<RenderedContainer>>, String> {
        let context = template::of_levels(self.levels);
        let render = |(name, service): (&String, &Service)| {
            let container = service
                .container
                .as_ref()
                .filter(|_| self.count(name, service) != Ok(0));
            let rendered = container
                .map(|container| container::render(name, container, &context))
                .transpose()?;
            let rendered = rendered.flatten();
            self.may_be_supervised(name, service, rendered.as_ref())?;
            Ok((name.clone(), rendered))
        };
        self.experiment.services.iter().map(render).collect()
    }

    /// A supervisor starts everything in its container as its own user.
    fn may_be_supervised(
        &self,
        name: &str,
        service: &Service,
        container: Option<&RenderedContainer>,
    ) -> Result<(), String> {
        let Some(Network::Inside(holder)) = container.map(|container| &container.network) else {
            return Ok(());
        };
        let recipe = self.recipe(name, service)?;
        match recipe.run_as {
            Some(RunAs::Unprivileged) => Err(format!(
                "service {name}: recipe {} runs as an unprivileged user (`run_as`), and what runs inside `{holder}` runs as \
                 `{holder}` does; give it a container of its own: `network = \"service:{holder}\"` shares the network as well",
                recipe.name
            )),
            _ => Ok(()),
        }
    }

    fn binding(&self, name: &str) -> Result<&ServiceBinding, String> {
        self.bindings
            .services
            .get(name)
            .ok_or_else(|| format!("service {name} has no address in this run"))
    }

    /// Name of the recipe that a service has in this case.
    pub(super) fn recipe_name(&self, name: &str, service: &Service) -> Result<String, String> {
        let context = template::of_levels(self.levels);
        Ok(
            template::render(&format!("services.{name}.recipe"), &service.recipe, &context)?
                .trim()
                .to_owned(),
        )
    }

    pub(super) fn recipe(&self, name: &str, service: &Service) -> Result<&Recipe, String> {
        let recipe = self.recipe_name(name, service)?;
        self.experiment.recipes.get(&recipe).ok_or_else(|| {
            let known: Vec<&str> = self.experiment.recipes.keys().map(String::as_str).collect();
            format!(
                "service {name}: there is no recipe `{recipe}` (known: {})",
                known.join(", ")
            )
        })
    }

    /// Levels, the addresses of all services in the form that their reader takes, and the secret of the run.
    fn context(&self, reader: &Connect) -> Result<BTreeMap<String, Value>, String> {
        let mut context = template::levels_context(self.levels);
        context.insert(SECRET.to_owned(), self.bindings.secret.as_str().into());
        for name in self.experiment.services.keys() {
            let servers: Vec<&ServiceBinding> = (0..)
                .map_while(|index| self.bindings.services.get(&server_name(name, index)))
                .collect();
            let mut all = Vec::new();
            for server in &servers {
                let text = address_text(reader, &server.address)?;
                let mut attributes = address_attributes(server, &server.address);
                attributes.insert("address", text.as_str().into());
                all.push(Named { text, attributes });
            }
            let Some(Named { text, mut attributes }) = all.first().cloned() else {
                continue;
            };
            attributes.insert("all", all.into_iter().map(Value::from_object).collect());
            context.insert(name.clone(), Value::from_object(Named { text, attributes }));
        }
        Ok(context)
    }

    fn service_context(
        &self,
        name: &str,
        service: &Service,
        recipe: &Recipe,
        binding: &ServiceBinding,
    ) -> Result<BTreeMap<String, Value>, String> {
        let mut context = self.context(&recipe.connect)?;
        let account = binding.account.as_ref().unwrap_or(&self.bindings.account);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        context.insert("directory".to_owned(), binding.directory.display().to_string().into());
        context.insert("runtime".to_owned(), binding.runtime.display().to_string().into());
        context.insert("run_cache".to_owned(), binding.cache.display().to_string().into());
        context.insert("program".to_owned(), binding.program.display().to_string().into());
        // The path may be a link: other programs of the same package are next to its target.
        let program = std::fs::canonicalize(&binding.program).unwrap_or_else(|_| binding.program.clone());
        let bin = program
            .parent()
            .map(|folder| folder.display().to_string())
            .unwrap_or_default();
        context.insert("program_folder".to_owned(), bin.into());
        context.insert("user".to_owned(), account.user.as_str().into());
        context.insert("group".to_owned(), account.group.as_str().into());
        context.insert("is_root".to_owned(), account.is_root.into());
        context.insert("cpus".to_owned(), cpus.into());
        context.insert("spare_port".to_owned(), binding.spare_port.into());
        if let Some(tls) = tls_value(binding) {
            context.insert("tls".to_owned(), tls);
        }
        self.add_settings(name, service, recipe, &mut context)?;
        let listen = self.listen_text(name, recipe, binding, &context)?;
        context.insert("listen".to_owned(), address_value(binding, &binding.listen, listen));
        Ok(context)
    }

    fn add_settings(
        &self,
        name: &str,
        service: &Service,
        recipe: &Recipe,
        context: &mut BTreeMap<String, Value>,
    ) -> Result<(), String> {
        let outer = Value::from(context.clone());
        let value = |key: &str, level: &Level| match level {
            Level::Text(text) => template::typed(&format!("services.{name}.settings.{key}"), text, &outer),
            plain => Ok(template::value_of(plain)),
        };
        for (key, setting) in &recipe.settings {
            let Some(level) = service.settings.get(key).or(setting.default.as_ref()) else {
                return Err(format!(
                    "service {name}: recipe {} needs the setting `{key}`",
                    recipe.name
                ));
            };
            context.insert(key.clone(), value(key, level)?);
        }
        for (key, level) in service
            .settings
            .iter()
            .filter(|(key, _)| !recipe.settings.contains_key(*key))
        {
            context.insert(key.clone(), value(key, level)?);
        }
        Ok(())
    }

    fn is_link(&self, name: &str) -> bool {
        self.symbolic && self.experiment.link.to == service_of(name)
    }

    fn listen_text(
        &self,
        name: &str,
        recipe: &Recipe,
        binding: &ServiceBinding,
        context: &BTreeMap<String, Value>,
    ) -> Result<String, String> {
        let listen = recipe.listen.get(&binding.transport).ok_or_else(|| {
            let known: Vec<&str> = recipe.listen.keys().map(|transport| transport.name()).collect();
            format!(
                "service {name}: recipe {} cannot listen on {} (it can listen on: {})",
                recipe.name,
                binding.transport,
                known.join(", ")
            )
        })?;
        if self.is_link(name) {
            return Ok(LISTEN.to_owned());
        }
        let mut context = context.clone();
        context.insert(
            "listen".to_owned(),
            address_value(binding, &binding.listen, binding.listen.to_string()),
        );
        let place = format!("{name}: listen.{} of recipe {}", binding.transport, recipe.name);
        Ok(template::render(&place, &listen.config, &Value::from(context))?)
    }

    fn arguments(
        &self,
        name: &str,
        recipe: &Recipe,
        binding: &ServiceBinding,
        context: &Value,
    ) -> Result<Vec<String>, String> {
        let mut arguments = Vec::new();
        for item in &recipe.arguments {
            let (part, items) = match recipe.listen.get(&binding.transport) {
                Some(_) if template::is_listen(item) && self.is_link(name) => {
                    arguments.push(LISTEN.to_owned());
                    continue;
                }
                Some(listen) if template::is_listen(item) => ("listen", &listen.arguments[..]),
                _ => ("start.arguments", std::slice::from_ref(item)),
            };
            arguments.extend(self.list(&format!("{name}: {part} of recipe {}", recipe.name), items, context)?);
        }
        Ok(arguments)
    }

    /// Renders each item, and leaves out those that render to nothing.
    fn list(&self, place: &str, items: &[Template], context: &Value) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        for item in items {
            let word = template::render(place, item, context)?;
            if !word.is_empty() {
                words.push(word);
            }
        }
        Ok(words)
    }

    /// Configuration files (the experiment's override the recipe's) and the application.
    fn files(&self, service: &Service, recipe: &Recipe, context: &Value) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
        let mut config: BTreeMap<&PathBuf, &ConfigFile> = recipe.config.iter().collect();
        config.extend(service.config.iter());
        let mut files = Vec::new();
        for (path, file) in config {
            files.push((
                path.clone(),
                template::render(&file.source, &file.text, context)?.into_bytes(),
            ));
        }
        let Some(app) = &service.app else { return Ok(files) };
        for (path, content) in &self.experiment.files {
            if let Ok(inner) = path.strip_prefix(app) {
                files.push((PathBuf::from("app").join(inner), content.clone()));
            }
        }
        Ok(files)
    }

    fn ready(&self, place: &str, recipe: &Recipe, context: &Value) -> Result<ReadyCheck, String> {
        Ok(match &recipe.ready.check {
            ReadyCheck::Connect => ReadyCheck::Connect,
            ReadyCheck::Http { path, status } => ReadyCheck::Http {
                path: template::render(place, path, context)?,
                status: *status,
            },
            ReadyCheck::Command(words) => ReadyCheck::Command(self.list(place, words, context)?),
        })
    }

    pub(super) fn case(&self) -> Result<RenderedCase, String> {
        let load = &self.experiment.load;
        let context = Value::from(self.context(&Connect::default())?);
        let text = |key: &'static str, text: &str| template::render(&format!("load.{key}"), text, &context);
        let number = |key: &'static str, template: &str| -> Result<u32, String> {
            let text = text(key, template)?;
            let positive = text.trim().parse().ok().filter(|&number: &u32| number > 0);
            positive.ok_or_else(|| wrong(key, &text, "a whole number from 1"))
        };
        let protocol = text("protocol", &load.protocol)?.trim().to_owned();
        let nodelay = text("nodelay", &load.nodelay)?;
        let nodelay = nodelay
            .trim()
            .to_lowercase()
            .parse()
            .map_err(|_| wrong("nodelay", &nodelay, "true or false"))?;
        let target = self.target()?;
        // What the experiment does not say has the load generator's own defaults.
        let spec = Spec {
            socket: SocketOptions {
                nodelay,
                ..SocketOptions::default()
            },
            reuse: reuse("reuse", &text("reuse", &load.reuse)?)?,
            connections: number("connections", &load.connections)?,
            threads: number("threads", &load.threads)?,
            pipeline: number("pipeline", &load.pipeline)?,
            requests_per_connection: number("requests_per_connection", &load.requests_per_connection)?,
            model: pace::of_case(load, &context)?,
            ..Spec::new(self.binding(&target)?.endpoint(), self.protocol(&protocol, &context)?)
        };
        Ok(RenderedCase {
            target,
            spec,
            protocol,
            driver: self.driver(&context)?,
            proof: self.proof(&context)?,
        })
    }

    /// Name of the service that the driver talks to in this case.
    fn target(&self) -> Result<String, String> {
        let context = template::of_levels(self.levels);
        Ok(template::render("load.target", &self.experiment.load.target, &context)?
            .trim()
            .to_owned())
    }

    fn driver(&self, context: &Value) -> Result<Option<Vec<String>>, String> {
        let driver = &self.experiment.load.driver;
        let Some(first) = driver.first() else { return Ok(None) };
        if template::render("load.driver", first, context)?.is_empty() {
            return Ok(None);
        }
        self.list("load.driver", driver, context).map(Some)
    }

    fn protocol(&self, name: &str, context: &Value) -> Result<Protocol, String> {
        let table = format!("load.{name}");
        let (Some(kind), Some(parameters)) = (lasthop_protocol::kind(name), self.experiment.load.parameters.get(name))
        else {
            return Err(format!("{table}: there is no such table"));
        };
        let rendered = render_json(&table, parameters, context)?;
        (kind.read)(&rendered).map_err(|error| {
            let within = if error.path().iter().len() > 0 {
                format!(".{}", error.path())
            } else {
                String::new()
            };
            format!("{table}{within}: {}", error.inner())
        })
    }

    fn proof(&self, context: &Value) -> Result<Option<RenderedProof>, String> {
        let Some(proof) = &self.experiment.link.proof else {
            return Ok(None);
        };
        let text = template::render("link.proof.reuse", &proof.reuse, context)?;
        Ok(Some(RenderedProof {
            path: proof.path.clone(),
            reuse: reuse("reuse", &text)?,
        }))
    }
}

/// A part of the load renders to what it cannot be.
fn wrong(key: &str, text: &str, expected: &str) -> String {
    format!("load: `{key}` renders to `{text}`, expected {expected}")
}

fn reuse(key: &str, text: &str) -> Result<Reuse, String> {
    match text.trim() {
        "keep-alive" => Ok(Reuse::KeepAlive),
        "per-request" => Ok(Reuse::PerRequest),
        _ => Err(wrong(key, text, "keep-alive or per-request")),
    }
}

/// Renders every text of a JSON value.
fn render_json(place: &str, value: &Json, context: &Value) -> Result<Json, String> {
    Ok(match value {
        Json::String(text) => {
            let typed = template::typed(place, text, context)?;
            serde_json::to_value(&typed).unwrap_or_else(|_| Json::String(typed.to_string()))
        }
        Json::Array(items) => Json::Array(
            items
                .iter()
                .map(|item| render_json(place, item, context))
                .collect::<Result<_, _>>()?,
        ),
        Json::Object(map) => {
            let render = |(key, item): (&String, &Json)| {
                Ok((key.clone(), render_json(&format!("{place}.{key}"), item, context)?))
            };
            Json::Object(map.iter().map(render).collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// An address in the form that a server takes.
pub(super) fn address_text(reader: &Connect, address: &Address) -> Result<String, String> {
    let own = |form: &Option<Template>, key: &str, value: Value| {
        let form = form
            .as_ref()
            .map(|form| template::render("connect", form, &Value::from_iter([(key, value)])));
        form.transpose().map(|text| text.unwrap_or_else(|| address.to_string()))
    };
    Ok(match address {
        Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
            own(&reader.unix, "path", path.display().to_string().into())?
        }
        Address::Abstract(name) => own(&reader.abstract_, "name", name.as_str().into())?,
        Address::Tcp(at) | Address::Udp(at) => own(&reader.tcp, "address", at.to_string().into())?,
    })
}

/// The URL in the form that nginx takes: `http://127.0.0.1:8000`, `https://…`, `http://unix:/path`.
pub(super) fn url_text(transport: Transport, address: &Address) -> String {
    let scheme = if transport.is_tls() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Attributes of a service's address in templates.
pub(super) const ADDRESS_ATTRIBUTES: [&str; 13] = [
    "address",
    "host",
    "port",
    "spare_port",
    "path",
    "folder",
    "name",
    "url",
    "transport",
    "directory",
    "runtime",
    "tls",
    "all",
];

fn address_value(binding: &ServiceBinding, address: &Address, text: String) -> Value {
    Value::from_object(Named {
        text,
        attributes: address_attributes(binding, address),
    })
}

fn address_attributes(binding: &ServiceBinding, address: &Address) -> BTreeMap<&'static str, Value> {
    let mut attributes = BTreeMap::from([
        ("address", Value::from(address.to_string())),
        ("url", Value::from(url_text(binding.transport, address))),
        ("transport", Value::from(binding.transport.name())),
        ("directory", Value::from(binding.directory.display().to_string())),
        ("runtime", Value::from(binding.runtime.display().to_string())),
        ("spare_port", Value::from(binding.spare_port)),
    ]);
    match address {
        Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
            let folder = path.parent().unwrap_or(path);
            attributes.insert("folder", folder.display().to_string().into());
            attributes.insert("path", path.display().to_string().into());
        }
        Address::Abstract(name) => drop(attributes.insert("name", name.as_str().into())),
        Address::Tcp(address) | Address::Udp(address) => {
            attributes.insert("host", address.ip().to_string().into());
            attributes.insert("port", address.port().into());
        }
    }
    if let Some(tls) = tls_value(binding) {
        attributes.insert("tls", tls);
    }
    attributes
}

/// Attributes of `tls` in templates.
pub(super) const TLS_ATTRIBUTES: [&str; 3] = ["authority", "certificate", "key"];

fn tls_value(binding: &ServiceBinding) -> Option<Value> {
    let files = binding.tls.as_ref()?;
    let paths = [&files.authority, &files.certificate, &files.key];
    let attributes = TLS_ATTRIBUTES
        .into_iter()
        .zip(paths.map(|path| Value::from(path.display().to_string())))
        .collect();
    Some(Value::from_object(Named {
        text: files.certificate.display().to_string(),
        attributes,
    }))
}

/// Name of the run's password in the templates of services and of the load.
pub(super) const SECRET: &str = "secret";

/// Names for the templates of a service besides factors, services and settings.
pub(super) const SERVICE_NAMES: [&str; 13] = [
    "listen",
    "directory",
    "runtime",
    "run_cache",
    "program",
    "program_folder",
    "user",
    "group",
    "is_root",
    "cpus",
    "spare_port",
    "tls",
    SECRET,
];
