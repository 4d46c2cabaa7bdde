//! Renders the services and the load of a case.

pub(super) mod container;

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::{
    binding::{APP, Bindings, ServiceBinding, server_name, service_of},
    container::{Network, RenderedContainer},
    level::{Level, Levels},
    manager::LANGUAGES,
    record::{Conditions, GivenEndpoint},
    service::{Ready, ReadyCheck, RenderedService, Stop},
};
use lasthop_protocol::{Protocol, spec::Spec};
use lasthop_trial::{
    address::{Address, Transport},
    options::{Reuse, SocketOptions},
};
use minijinja::{Error, ErrorKind, value::Value};
use serde_json::Value as Json;

use super::{
    model::{ConfigFile, Connect, Experiment, LoopbackNetwork, ReadyName, Recipe, RunAs, Service, Template},
    pace,
    template::{self, Named, TemplateError},
};

/// The driver's specification for a case, and the proof that its link needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedCase {
    /// The service that the driver connects to.
    pub target: String,
    pub spec: Spec,
    /// Command of the experiment's own driver; `None` if lasthop drives.
    pub driver: Option<Vec<String>>,
    /// The proof of the link; `None` if the experiment has no way to ask for it.
    pub proof: Option<RenderedProof>,
    /// The conditions of TCP on loopback, if the experiment sets them.
    pub conditions: Option<Conditions>,
}

/// Name of an unknown server.
pub(super) const SERVER: &str = "server";

impl RenderedCase {
    /// The load on an existing endpoint.
    pub(super) fn of_given(endpoint: &GivenEndpoint) -> Self {
        Self {
            target: endpoint.server.clone().unwrap_or_else(|| SERVER.to_owned()),
            spec: endpoint.spec.clone(),
            driver: None,
            proof: None,
            conditions: None,
        }
    }
}

/// How to ask for proof of a case's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedProof {
    /// HTTP path, requested through the target.
    pub path: String,
    pub reuse: Reuse,
}

/// Renders the templates for one combination of levels.
#[derive(Clone, Copy)]
pub(super) struct Renderer<'a> {
    pub experiment: &'a Experiment,
    pub levels: &'a Levels,
    pub bindings: &'a Bindings,
    /// Whether to render one symbol in place of every listening address of the link's server, for any transport, so
    /// that cases can be compared.
    pub symbolic: bool,
    /// Whether to add the URLs for client libraries. They are rendered without URLs themselves.
    pub urls: bool,
}

/// Timeouts of a command of the preparation, a start and a stop, unless the recipe sets them.
const PREPARE: Duration = Duration::from_secs(120);
const READY: Duration = Duration::from_secs(10);
const STOP: Duration = Duration::from_secs(5);

/// The most servers of one service.
const MOST_SERVERS: usize = 64;
/// Valid bytes of the largest packet on loopback: from the minimum of IPv4 to the kernel's default.
const MTU: RangeInclusive<u32> = 68..=65_536;

/// Symbol for the listening end of the link.
pub(super) const LISTEN: &str = "@listen@";
/// Symbol for the end of the link that clients connect to.
pub(super) const LINK: &str = "@link@";

impl Renderer<'_> {
    /// Renders the services in start order.
    pub(super) fn services(&self) -> Result<Vec<RenderedService>, String> {
        let mut all = Vec::new();
        for (name, service) in &self.experiment.services {
            for index in 0..self.count(name, service)? {
                all.push(self.service(&server_name(name, index), service)?);
            }
        }
        Ok(all)
    }

    /// Number of servers of a service in this case; 0 if the case does not use the service.
    pub(super) fn count(&self, name: &str, service: &Service) -> Result<usize, String> {
        let text = self.word(&format!("services.{name}.count"), &service.count)?;
        let number = text.parse().ok().filter(|number| *number <= MOST_SERVERS);
        number.ok_or_else(|| {
            format!("service {name}: `count` renders to `{text}`, expected a whole number from 0 to {MOST_SERVERS}")
        })
    }

    fn service(&self, name: &str, service: &Service) -> Result<RenderedService, String> {
        self.server(name, service)?.render()
    }

    fn server<'a>(&'a self, name: &'a str, service: &'a Service) -> Result<Server<'a>, String> {
        let binding = self.binding(name)?;
        let recipe = self.recipe(name, service)?;
        let mut server = Server {
            renderer: self,
            name,
            service,
            recipe,
            binding,
            context: Value::UNDEFINED,
        };
        server.context = Value::from(server.context()?);
        Ok(server)
    }

    /// The URL of a server for client libraries, if the recipe has one.
    fn url(
        &self,
        binding: &ServiceBinding,
        service: &Service,
        client: Option<&ServiceBinding>,
    ) -> Result<Option<String>, String> {
        let name = service_of(&binding.name);
        let listen = self.recipe(name, service)?.listen.get(&binding.transport);
        let Some(form) = listen.and_then(|listen| listen.url.as_ref()).filter(|_| self.urls) else {
            return Ok(None);
        };
        if self.symbolic && self.experiment.link.to == name {
            return Ok(Some(LINK.to_owned()));
        }
        let renderer = Self { urls: false, ..*self };
        let server = renderer.server(&binding.name, service)?;
        let mut context = server.context()?;
        let address = binding.address_for(client);
        let address = address_value(binding, address, address.to_string());
        context.insert("listen".to_owned(), address);
        let place = server.place(&format!("listen.{}.url", binding.transport));
        Ok(Some(template::render(&place, form, &Value::from(context))?))
    }

    /// Renders a word that depends only on the levels of the case.
    fn word(&self, place: &str, text: &str) -> Result<String, TemplateError> {
        template::word(place, text, &template::of_levels(self.levels))
    }

    /// The container of each service that has one.
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

    /// Checks that a supervisor may start a service. A supervisor starts everything in its container as its own user.
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
        match recipe.start.run_as {
            Some(RunAs::Unprivileged) => Err(format!(
                "service {name}: recipe {} wants an unprivileged user (`run_as`), but inside `{holder}` every service runs as \
                 the user of `{holder}`: give {name} its own container; with `network = \"service:{holder}\"` it still shares \
                 the network",
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

    pub(super) fn recipe(&self, name: &str, service: &Service) -> Result<&Recipe, String> {
        let recipe = self.word(&format!("services.{name}.recipe"), &service.recipe)?;
        self.experiment.recipes.get(&recipe).ok_or_else(|| {
            let known: Vec<&str> = self.experiment.recipes.keys().map(String::as_str).collect();
            format!(
                "service {name}: there is no recipe `{recipe}` (known: {})",
                known.join(", ")
            )
        })
    }

    /// The context of templates: levels, the addresses of all services in their reader's form, and the run's secret.
    /// Without a `client`, the addresses are those for the driver.
    fn context(&self, reader: &Connect, client: Option<&ServiceBinding>) -> Result<BTreeMap<String, Value>, String> {
        let mut context = template::levels_context(self.levels);
        context.insert(SECRET.to_owned(), self.bindings.secret.as_str().into());
        for (name, service) in &self.experiment.services {
            let servers: Vec<&ServiceBinding> = (0..)
                .map_while(|index| self.bindings.services.get(&server_name(name, index)))
                .collect();
            let mut all = Vec::new();
            for server in &servers {
                let address = server.address_for(client);
                let text = address_text(reader, address)?;
                let mut attributes = address_attributes(server, address);
                attributes.insert("address", text.as_str().into());
                if let (None, Some(outside)) = (client, &server.outside) {
                    attributes.insert("directory", shown(outside));
                }
                if let Some(url) = self.url(server, service, client)? {
                    attributes.extend(["url", "dsn"].map(|name| (name, url.as_str().into())));
                }
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

    pub(super) fn case(&self) -> Result<RenderedCase, String> {
        let load = &self.experiment.load;
        let context = Value::from(self.context(&Connect::default(), None)?);
        let word = |key: &str, text: &str| template::word(&format!("load.{key}"), text, &context);
        let number = |key: &str, template: &str| -> Result<u32, String> {
            let text = word(key, template)?;
            let positive = text.parse().ok().filter(|number| *number > 0);
            positive.ok_or_else(|| wrong(key, &text, "a whole number from 1"))
        };
        let nodelay = word("nodelay", &load.nodelay)?;
        let target = self.word("load.target", &load.target)?;
        let protocol = self.protocol(&word("protocol", &load.protocol)?, &context)?;
        // Options that the experiment does not set have the load generator's defaults.
        let spec = Spec {
            socket: SocketOptions {
                nodelay: nodelay
                    .to_lowercase()
                    .parse()
                    .map_err(|_| wrong("nodelay", &nodelay, "true or false"))?,
                ..SocketOptions::default()
            },
            reuse: reuse(&word("reuse", &load.reuse)?)?,
            connections: number("connections", &load.connections)?,
            threads: number("threads", &load.threads)?,
            pipeline: number("pipeline", &load.pipeline)?,
            requests_per_connection: number("requests_per_connection", &load.requests_per_connection)?,
            model: pace::of_case(load, &context)?,
            ..Spec::new(self.binding(&target)?.endpoint(), protocol)
        };
        let proof = self.experiment.link.proof.as_ref();
        let proof = proof.map(|proof| -> Result<_, String> {
            Ok(RenderedProof {
                path: proof.path.clone(),
                reuse: reuse(&template::word("link.proof.reuse", &proof.reuse, &context)?)?,
            })
        });
        Ok(RenderedCase {
            target,
            spec,
            driver: self.driver(&context)?,
            proof: proof.transpose()?,
            conditions: self
                .experiment
                .network
                .as_ref()
                .map(|of| self.conditions(of))
                .transpose()?,
        })
    }

    fn conditions(&self, network: &LoopbackNetwork) -> Result<Conditions, String> {
        let context = template::of_levels(self.levels);
        let text = |key: &str, text: &str| -> Result<String, TemplateError> {
            let rendered = template::render(&format!("network.{key}"), text, &context)?;
            Ok(rendered.trim().to_owned())
        };
        let mut sysctls = IndexMap::new();
        for (name, value) in &network.sysctls {
            sysctls.insert(name.clone(), text(&format!("sysctls.{name}"), value)?);
        }
        let mtu = text("mtu", &network.mtu)?;
        let bytes = mtu.parse().ok().filter(|bytes| MTU.contains(bytes));
        if bytes.is_none() && !mtu.is_empty() {
            let [least, most] = [MTU.start(), MTU.end()];
            return Err(format!(
                "network: `mtu` renders to `{mtu}`, expected a whole number from {least} to {most}"
            ));
        }
        Ok(Conditions {
            rules: text("rules", &network.rules)?,
            sysctls,
            mtu: bytes,
        })
    }

    fn driver(&self, context: &Value) -> Result<Option<Vec<String>>, String> {
        let driver = &self.experiment.load.driver;
        let Some(first) = driver.first() else { return Ok(None) };
        if template::render("load.driver", first, context)?.is_empty() {
            return Ok(None);
        }
        list("load.driver", driver, context).map(Some)
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
}

/// A server that is being rendered.
struct Server<'a> {
    renderer: &'a Renderer<'a>,
    name: &'a str,
    service: &'a Service,
    recipe: &'a Recipe,
    binding: &'a ServiceBinding,
    /// The context of the server's templates.
    context: Value,
}

impl Server<'_> {
    fn render(&self) -> Result<RenderedService, String> {
        let Recipe {
            name: recipe,
            start,
            ready,
            stop,
            conditions,
            ..
        } = self.recipe;
        let lists = |part: &str, lists: &[Vec<Template>]| -> Result<Vec<_>, String> {
            lists.iter().map(|words| self.list(part, words)).collect()
        };
        let table = |part: &str, table: &IndexMap<String, Template>| -> Result<Vec<_>, TemplateError> {
            table
                .iter()
                .map(|(key, text): (&String, &Template)| Ok((key.clone(), self.text(part, text)?)))
                .collect()
        };
        let program = match &start.program {
            Some(made) => self.text("start.program", made)?,
            None => self.binding.program.display().to_string(),
        };
        let mut command = vec![program];
        command.extend(self.arguments()?);
        Ok(RenderedService {
            name: self.name.to_owned(),
            recipe: recipe.clone(),
            command,
            build: lists("start.build", &start.build)?,
            prepare: lists("start.prepare", &start.prepare)?,
            prepare_timeout: start.prepare_timeout.map_or(PREPARE, |time| time.0),
            environment: table("start.environment", &start.environment)?,
            own_memory: start.own_memory,
            workers: self.workers(),
            files: self.files()?,
            ready: Ready {
                check: self.ready()?,
                timeout: ready.timeout.map_or(READY, |time| time.0),
            },
            stop: Stop {
                signal: stop.signal.clone().unwrap_or_else(|| "TERM".to_owned()),
                timeout: stop.timeout.map_or(STOP, |time| time.0),
            },
            endpoint: self.binding.endpoint(),
            secret: self.renderer.bindings.secret.clone(),
            conditions: self.list("conditions", conditions)?,
        })
    }

    /// The place of a template in messages.
    fn place(&self, part: &str) -> String {
        format!("{}: {part} of recipe {}", self.name, self.recipe.name)
    }

    fn text(&self, part: &str, text: &str) -> Result<String, TemplateError> {
        template::render(&self.place(part), text, &self.context)
    }

    fn list(&self, part: &str, items: &[Template]) -> Result<Vec<String>, String> {
        list(&self.place(part), items, &self.context)
    }

    fn context(&self) -> Result<BTreeMap<String, Value>, String> {
        let Self { renderer, binding, .. } = self;
        let mut context = renderer.context(&self.recipe.connect, Some(binding))?;
        let account = binding.account.as_ref().unwrap_or(&renderer.bindings.account);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        // The path may be a link. Other programs of the package are next to its target.
        let program = std::fs::canonicalize(&binding.program).unwrap_or_else(|_| binding.program.clone());
        let own = [
            ("directory", shown(&binding.directory)),
            ("runtime", shown(&binding.runtime)),
            ("run_cache", shown(&binding.cache)),
            (
                "packages",
                binding
                    .packages
                    .iter()
                    .map(|(language, folder)| (*language, shown(folder)))
                    .collect(),
            ),
            ("program", shown(&binding.program)),
            ("program_folder", program.parent().map(shown).unwrap_or_default()),
            ("user", account.user.as_str().into()),
            ("group", account.group.as_str().into()),
            ("is_root", account.is_root.into()),
            ("cpus", cpus.into()),
            ("spare_port", spare_port(binding)),
        ];
        context.extend(own.map(|(name, value)| (name.to_owned(), value)));
        context.extend(tls_value(binding).map(|tls| ("tls".to_owned(), tls)));
        self.add_settings(&mut context)?;
        let listen = self.listen_text(&context)?;
        context.insert("listen".to_owned(), address_value(binding, &binding.listen, listen));
        Ok(context)
    }

    fn add_settings(&self, context: &mut BTreeMap<String, Value>) -> Result<(), String> {
        // Settings do not see each other, so that their order has no effect.
        let outer = Value::from(context.clone());
        let mut settings: IndexMap<&String, Option<&Level>> = IndexMap::new();
        settings.extend(
            self.recipe
                .settings
                .iter()
                .map(|(key, own)| (key, own.default.as_ref())),
        );
        settings.extend(self.service.settings.iter().map(|(key, level)| (key, Some(level))));
        for (key, level) in settings {
            let name = self.name;
            let value = match level {
                Some(Level::Text(text)) => template::typed(&format!("services.{name}.settings.{key}"), text, &outer)?,
                Some(plain) => template::value_of(plain),
                None => {
                    let recipe = &self.recipe.name;
                    return Err(format!("service {name}: recipe {recipe} needs the setting `{key}`"));
                }
            };
            context.insert(key.clone(), value);
        }
        Ok(())
    }

    fn workers(&self) -> u32 {
        // A factor may also be named `workers`.
        let has_setting = self.recipe.settings.contains_key("workers");
        let setting = self.context.get_attr("workers").ok().filter(|_| has_setting);
        let workers = setting.and_then(|setting| setting.to_string().parse().ok());
        workers.unwrap_or(1).max(1)
    }

    fn is_link(&self) -> bool {
        self.renderer.symbolic && self.renderer.experiment.link.to == service_of(self.name)
    }

    fn listen_text(&self, context: &BTreeMap<String, Value>) -> Result<String, String> {
        let Self {
            name, recipe, binding, ..
        } = self;
        let listen = recipe.listen.get(&binding.transport).ok_or_else(|| {
            let known: Vec<&str> = recipe.listen.keys().map(|transport| transport.name()).collect();
            format!(
                "service {name}: recipe {} cannot listen on {} (it can listen on: {})",
                recipe.name,
                binding.transport,
                known.join(", ")
            )
        })?;
        if self.is_link() {
            return Ok(LISTEN.to_owned());
        }
        // For the template that makes the text of `listen`, `listen` is the plain address.
        let address = address_value(binding, &binding.listen, binding.listen.to_string());
        let mut context = context.clone();
        context.insert("listen".to_owned(), address);
        let place = self.place(&format!("listen.{}", binding.transport));
        Ok(template::render(&place, &listen.config, &Value::from(context))?)
    }

    fn arguments(&self) -> Result<Vec<String>, String> {
        let mut arguments = Vec::new();
        for item in &self.recipe.start.arguments {
            let listen = self.recipe.listen.get(&self.binding.transport);
            arguments.extend(match listen.filter(|_| template::is_listen(item)) {
                Some(_) if self.is_link() => vec![LISTEN.to_owned()],
                Some(listen) => self.list("listen", &listen.arguments)?,
                None => self.list("start.arguments", std::slice::from_ref(item))?,
            });
        }
        Ok(arguments)
    }

    /// Configuration files, where the experiment's override the recipe's, and the application's files.
    fn files(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
        let mut config: BTreeMap<&PathBuf, &ConfigFile> = self.recipe.config.iter().collect();
        config.extend(&self.service.config);
        let mut files = Vec::new();
        for (path, file) in config {
            let text = template::render(&file.source, &file.text, &self.context)?;
            files.push((path.clone(), text.into_bytes()));
        }
        let Some(app) = &self.service.app else { return Ok(files) };
        for (path, content) in &self.renderer.experiment.files {
            if let Ok(inner) = path.strip_prefix(app) {
                files.push((Path::new(APP).join(inner), content.clone()));
            }
        }
        Ok(files)
    }

    fn ready(&self) -> Result<ReadyCheck, String> {
        let ready = &self.recipe.ready;
        Ok(match ready.check.unwrap_or_default() {
            ReadyName::Connect => ReadyCheck::Connect,
            ReadyName::Http => ReadyCheck::Http {
                path: self.text("ready", ready.path.as_deref().unwrap_or("/"))?,
                status: ready.status.unwrap_or(200),
            },
            ReadyName::Command => {
                ReadyCheck::Command(self.list("ready", ready.command.as_deref().unwrap_or_default())?)
            }
        })
    }
}

/// Renders a list, without items that render to nothing.
fn list(place: &str, items: &[Template], context: &Value) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for item in items {
        words.push(template::render(place, item, context)?);
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

fn shown(path: &Path) -> Value {
    path.display().to_string().into()
}

/// The message for a part of the load that renders to an invalid value.
fn wrong(key: &str, text: &str, expected: &str) -> String {
    format!("load: `{key}` renders to `{text}`, expected {expected}")
}

fn reuse(text: &str) -> Result<Reuse, String> {
    match text {
        "keep-alive" => Ok(Reuse::KeepAlive),
        "per-request" => Ok(Reuse::PerRequest),
        _ => Err(wrong("reuse", text, "keep-alive or per-request")),
    }
}

/// Renders every text in a JSON value.
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
        Json::Object(map) => Json::Object(
            map.iter()
                .map(|(key, item): (&String, &Json)| {
                    Ok((key.clone(), render_json(&format!("{place}.{key}"), item, context)?))
                })
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

/// An address in the form that its reader needs.
pub(super) fn address_text(reader: &Connect, address: &Address) -> Result<String, String> {
    let form = match address {
        Address::Tcp(_) | Address::Udp(_) => &reader.tcp,
        Address::Abstract(_) => &reader.abstract_,
        _ => &reader.unix,
    };
    Ok(match form {
        Some(form) => template::render("connect", form, &Value::from_iter(address_parts(address)))?,
        None => address.to_string(),
    })
}

/// An address and its parts, by their names in templates.
fn address_parts(address: &Address) -> Vec<(&'static str, Value)> {
    let mut parts = vec![("address", Value::from(address.to_string()))];
    match address {
        Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
            parts.extend([("folder", shown(path.parent().unwrap_or(path))), ("path", shown(path))]);
        }
        Address::Abstract(name) => parts.push(("name", name.as_str().into())),
        Address::Tcp(at) | Address::Udp(at) => {
            parts.extend([
                ("host", Value::from(at.ip().to_string())),
                ("port", Value::from(at.port())),
            ]);
        }
    }
    parts
}

/// The URL in nginx's form: `http://127.0.0.1:8000`, `https://…`, `http://unix:/path`.
pub(super) fn url_text(transport: Transport, address: &Address) -> String {
    let scheme = if transport.is_tls() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Attributes of a service's address, for templates.
pub(super) const ADDRESS_ATTRIBUTES: [&str; 14] = [
    "address",
    "host",
    "port",
    "spare_port",
    "path",
    "folder",
    "name",
    "url",
    "dsn",
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

/// The spare port. A missing port is an error only for templates that use it, and most servers do not.
fn spare_port(binding: &ServiceBinding) -> Value {
    match &binding.spare_port {
        Ok(port) => (*port).into(),
        Err(why) => Error::new(ErrorKind::InvalidOperation, why.clone()).into(),
    }
}

fn address_attributes(binding: &ServiceBinding, address: &Address) -> BTreeMap<&'static str, Value> {
    let mut attributes = BTreeMap::from([
        ("url", Value::from(url_text(binding.transport, address))),
        ("transport", Value::from(binding.transport.name())),
        ("directory", shown(&binding.directory)),
        ("runtime", shown(&binding.runtime)),
        ("spare_port", spare_port(binding)),
    ]);
    attributes.extend(address_parts(address));
    attributes.extend(tls_value(binding).map(|tls| ("tls", tls)));
    attributes
}

/// Attributes of `packages`, for templates.
pub(super) static PACKAGE_ATTRIBUTES: LazyLock<Vec<&str>> =
    LazyLock::new(|| LANGUAGES.iter().map(|language| language.name).collect());

/// Attributes of `tls`, for templates.
pub(super) const TLS_ATTRIBUTES: [&str; 3] = ["authority", "certificate", "key"];

fn tls_value(binding: &ServiceBinding) -> Option<Value> {
    let files = binding.tls.as_ref()?;
    let paths = [&files.authority, &files.certificate, &files.key];
    let attributes = TLS_ATTRIBUTES.into_iter().zip(paths.map(|path| shown(path))).collect();
    Some(Value::from_object(Named {
        text: files.certificate.display().to_string(),
        attributes,
    }))
}

/// Name of the run's password, for templates of services and of the load.
pub(super) const SECRET: &str = "secret";

/// Names in a service's templates besides factors, services and settings.
pub(super) const SERVICE_NAMES: [&str; 14] = [
    "listen",
    "directory",
    "runtime",
    "run_cache",
    "packages",
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
