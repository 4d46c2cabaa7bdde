//! The plan of a run: its cases, the stacks of services that they run on, and what differs beside the transport.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use indexmap::IndexMap;
use lasthop_load::spec::{Address, Protocol, Reuse, Transport};
use serde_json::Value;
use similar::TextDiff;

use super::{
    cases::{self, Chosen, Excluded, NamedCase, Selection, SelectionError},
    model::{Experiment, Levels, RenderedService, Source},
    render::{RenderError, RenderedLoad, RenderedProof, Renderer, address_text, url_text},
    template::TemplateError,
};
use crate::{
    record::schema::{CasePlan, Difference, ExperimentSummary, FactorSummary, LoadSummary},
    service::bindings::{Account, Bindings, ServiceBinding, TlsFiles},
};

/// What a run will do, before any service is started.
#[derive(Clone, Debug)]
pub struct Plan {
    pub experiment: Experiment,
    /// Levels of this run.
    pub factors: IndexMap<String, FactorSummary>,
    pub cases: Vec<CasePlan>,
    pub stacks: Vec<Stack>,
    /// Combinations of the chosen levels that make no sense.
    pub excluded: Vec<Excluded>,
    /// What differs between a case and its reference beside the link.
    pub differences: Vec<Difference>,
}

/// The services of one or more cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub number: usize,
    /// Transport of the link.
    pub transport: Transport,
    /// Levels that its services are rendered with.
    pub levels: Levels,
    /// In start order.
    pub services: IndexMap<String, StackService>,
}

/// What is known of a service before it has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackService {
    pub recipe: String,
    /// Transport that it listens on.
    pub transport: Transport,
}

/// A run that cannot be planned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("case {case}: {cause}")]
    Render { case: String, cause: RenderError },
    #[error("the chosen levels leave no case{}", reasons(.0))]
    Nothing(Vec<Excluded>),
}

fn reasons(excluded: &[Excluded]) -> String {
    let mut reasons: Vec<&str> = excluded.iter().map(|excluded| excluded.because.as_str()).collect();
    reasons.dedup();
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

impl Plan {
    /// Plans a run of an experiment.
    ///
    /// # Errors
    /// When the selection names what the experiment does not have, nothing is left of it, or a template of a case
    /// cannot be rendered.
    pub fn new(experiment: Experiment, selection: &Selection) -> Result<Self, PlanError> {
        let chosen = cases::choose(&experiment, selection)?;
        let (combinations, excluded) = cases::combinations(&experiment, &chosen)?;
        if combinations.is_empty() {
            return Err(PlanError::Nothing(excluded));
        }
        let mut named = cases::name_cases(&experiment, &chosen, &combinations);
        if selection.aa {
            named = cases::against_themselves(named);
        }
        let mut stacks = Vec::new();
        let mut plans = Vec::new();
        let mut portraits = BTreeMap::new();
        for case in &named {
            let (portrait, load) =
                portray(&experiment, case).map_err(|cause| PlanError::Render { case: case.id.clone(), cause })?;
            let stack = stack_for(&experiment, &mut stacks, case, &portrait);
            plans.push(case_plan(&experiment, case, stack, &load));
            portraits.insert(case.id.clone(), portrait);
        }
        let differences = named.iter().flat_map(|case| differences(case, &portraits)).collect();
        let stacks = stacks.into_iter().map(|(_, stack)| stack).collect();
        Ok(Self { factors: summaries(&experiment, &chosen), experiment, cases: plans, stacks, excluded, differences })
    }

    /// The services of a stack in start order, with the addresses of a round filled in.
    ///
    /// # Errors
    /// When a template cannot be rendered, or a service has no binding.
    pub fn services(&self, stack: &Stack, bindings: &Bindings) -> Result<Vec<RenderedService>, RenderError> {
        self.renderer(&stack.levels, bindings).services()
    }

    /// What the driver is told for a case in a round.
    ///
    /// # Errors
    /// When a template cannot be rendered, or a service has no binding.
    pub fn load(&self, case: &CasePlan, bindings: &Bindings) -> Result<RenderedLoad, RenderError> {
        self.renderer(&case.levels, bindings).load()
    }

    /// What the link of a case must be proven to be; `None` where the experiment has no way to ask.
    ///
    /// # Errors
    /// When a template cannot be rendered.
    pub fn proof(&self, case: &CasePlan, bindings: &Bindings) -> Result<Option<RenderedProof>, RenderError> {
        self.renderer(&case.levels, bindings).proof()
    }

    fn renderer<'a>(&'a self, levels: &'a Levels, bindings: &'a Bindings) -> Renderer<'a> {
        Renderer { experiment: &self.experiment, levels, bindings, symbolic: false }
    }

    /// The experiment as the record keeps it.
    #[must_use]
    pub fn summary(&self) -> ExperimentSummary {
        let experiment = &self.experiment;
        let recipes = |name: &String| {
            let mut recipes: Vec<&str> = self.stacks.iter().map(|stack| &stack.services[name].recipe[..]).collect();
            recipes.sort_unstable();
            recipes.dedup();
            recipes.join(", ")
        };
        ExperimentSummary {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            question: experiment.question.clone(),
            source: experiment.source.to_string(),
            from: experiment.link.from.clone(),
            to: experiment.link.to.clone(),
            services: experiment.services.keys().map(|name| (name.clone(), recipes(name))).collect(),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}

fn summaries(experiment: &Experiment, chosen: &Chosen) -> IndexMap<String, FactorSummary> {
    let summary = |(name, levels): (&String, &Vec<_>)| {
        let factor = &experiment.factors[name];
        let (help, levels) = (factor.help.clone(), levels.clone());
        (name.clone(), FactorSummary { help, levels, reference: factor.reference.clone() })
    };
    chosen.iter().map(summary).collect()
}

fn case_plan(experiment: &Experiment, case: &NamedCase, stack: usize, load: &RenderedLoad) -> CasePlan {
    CasePlan {
        case: case.id.clone(),
        levels: case.levels.clone(),
        transport: case.transport,
        reference: case.reference.clone(),
        stack,
        load: LoadSummary {
            target: experiment.load.target.clone(),
            protocol: load.protocol.clone(),
            connections: load.spec.connections,
            threads: load.spec.threads,
            reuse: match load.spec.reuse {
                Reuse::PerRequest => "per-request".to_owned(),
                Reuse::KeepAlive => "keep-alive".to_owned(),
            },
            bytes: reply_bytes(&load.spec.protocol),
            driver: load.driver.as_ref().map_or_else(|| "lasthop".to_owned(), |words| driver_name(words)),
        },
    }
}

/// Command of a foreign driver without the directories of this run.
fn driver_name(words: &[String]) -> String {
    let short = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
    words.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// Payload bytes of a reply, where the protocol fixes them.
fn reply_bytes(protocol: &Protocol) -> Option<u64> {
    match protocol {
        Protocol::Hello(hello) => Some(hello.expect.len() as u64),
        Protocol::Echo(echo) => Some(u64::from(echo.size)),
        Protocol::Stream(stream) => Some(stream.size),
        Protocol::Http(http) => http.expect.length.or_else(|| Some(http.expect.body.as_ref()?.len() as u64)),
    }
}

/// A case's services and load as text by place, with the same symbol wherever the link's endpoint stands.
type Portrait = BTreeMap<String, String>;

/// Parts of a [`Portrait`] that belong to the load and not to the services.
const LOAD: &str = "driver: load";
/// Only where the transport is TCP: on a Unix socket the option means nothing.
const NODELAY: &str = "driver: nodelay";

fn portray(experiment: &Experiment, case: &NamedCase) -> Result<(Portrait, RenderedLoad), RenderError> {
    let bindings = placeholders(experiment, &case.levels)?;
    let renderer = Renderer { experiment, levels: &case.levels, bindings: &bindings, symbolic: true };
    let mut portrait = Portrait::new();
    for service in renderer.services()? {
        draw_service(&service, &mut portrait);
    }
    let load = renderer.load()?;
    portrait.insert(LOAD.to_owned(), draw_load(&load));
    if !case.transport.is_unix() {
        portrait.insert(NODELAY.to_owned(), format!("{}\n", load.spec.socket.nodelay));
    }
    let forms = link_forms(&bindings.services[&experiment.link.to]);
    for text in portrait.values_mut() {
        for form in &forms {
            *text = text.replace(form, "@link@");
        }
    }
    Ok((portrait, load))
}

fn draw_service(service: &RenderedService, portrait: &mut Portrait) {
    let name = &service.name;
    portrait.insert(format!("{name}: command"), lines(&service.command));
    for (at, words) in service.prepare.iter().enumerate() {
        portrait.insert(format!("{name}: preparation {}", at + 1), lines(words));
    }
    for (key, value) in &service.environment {
        portrait.insert(format!("{name}: environment {key}"), format!("{value}\n"));
    }
    for (path, content) in &service.files {
        portrait.insert(format!("{name}: {}", path.display()), String::from_utf8_lossy(content).into_owned());
    }
}

fn lines(words: &[String]) -> String {
    words.iter().map(|word| format!("{word}\n")).collect()
}

/// The load without what belongs to the transport: the endpoint and the option of TCP.
fn draw_load(load: &RenderedLoad) -> String {
    let mut spec = serde_json::to_value(&load.spec).expect("a specification is plain data");
    spec.as_object_mut().and_then(|fields| fields.shift_remove("endpoint"));
    spec.pointer_mut("/socket").and_then(Value::as_object_mut).and_then(|socket| socket.shift_remove("nodelay"));
    let text = serde_json::to_string_pretty(&spec).expect("a JSON value is printable");
    format!("{text}\n{}", lines(load.driver.as_deref().unwrap_or_default()))
}

/// Every way in which a configuration names the link's endpoint, the longest first.
fn link_forms(binding: &ServiceBinding) -> Vec<String> {
    let address = address_text(&binding.address);
    let bare = match &binding.address {
        Address::Unix(path) => path.display().to_string(),
        Address::Abstract(name) => name.clone(),
        Address::Tcp(address) => address.port().to_string(),
    };
    vec![url_text(binding), format!("http://{address}"), address, bare]
}

/// Bindings that no run has, the same for every case but for the link's address.
fn placeholders(experiment: &Experiment, levels: &Levels) -> Result<Bindings, RenderError> {
    let none = Bindings { round: 0, stack: 0, services: IndexMap::new(), account: account(), cpus: Vec::new() };
    let renderer = Renderer { experiment, levels, bindings: &none, symbolic: true };
    let mut services = IndexMap::new();
    for (at, (name, service)) in experiment.services.iter().enumerate() {
        let recipe = renderer.recipe_name(name, service)?;
        let transport = service.listen.unwrap_or_else(|| cases::transport(levels));
        services.insert(name.clone(), placeholder(name, &recipe, transport, 60001 + at as u16));
    }
    Ok(Bindings { services, ..none })
}

fn account() -> Account {
    Account { user: "@user@".to_owned(), group: "@group@".to_owned(), is_root: false }
}

fn placeholder(name: &str, recipe: &str, transport: Transport, port: u16) -> ServiceBinding {
    let runtime = PathBuf::from("/@run@").join(name);
    let address = match transport {
        Transport::Unix | Transport::TlsUnix => Address::Unix(runtime.join("socket")),
        Transport::Abstract => Address::Abstract(format!("@run@-{name}")),
        Transport::Tcp | Transport::Tls => Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Transport::Tcp6 => Address::Tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
    };
    let file = |name: &str| PathBuf::from("/@run@/tls").join(name);
    let tls = transport.is_tls().then(|| TlsFiles {
        authority: file("authority.pem"),
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    });
    ServiceBinding {
        name: name.to_owned(),
        directory: PathBuf::from("/@record@").join(name),
        runtime,
        transport,
        address,
        tls,
        program: PathBuf::from("/@program@").join(recipe),
    }
}

/// The stack whose services are the same, or a new one. A case that is compared with itself has one of its own.
fn stack_for(
    experiment: &Experiment,
    stacks: &mut Vec<(Option<Portrait>, Stack)>,
    case: &NamedCase,
    portrait: &Portrait,
) -> usize {
    let mut services = portrait.clone();
    services.remove(LOAD);
    services.remove(NODELAY);
    let same = |(portrait, stack): &&(Option<Portrait>, Stack)| {
        stack.transport == case.transport && portrait.as_ref() == Some(&services)
    };
    if let Some((_, stack)) = stacks.iter().find(same).filter(|_| !case.again) {
        return stack.number;
    }
    let number = stacks.len();
    let program = |name: &String| services[&format!("{name}: command")].lines().next().map(str::to_owned);
    let service = |(name, service): (&String, &super::model::Service)| {
        let recipe = program(name).unwrap_or_default().trim_start_matches("/@program@/").to_owned();
        (name.clone(), StackService { recipe, transport: service.listen.unwrap_or(case.transport) })
    };
    let described = experiment.services.iter().map(service).collect();
    let stack = Stack { number, transport: case.transport, levels: case.levels.clone(), services: described };
    stacks.push(((!case.again).then_some(services), stack));
    number
}

fn differences(case: &NamedCase, portraits: &BTreeMap<String, Portrait>) -> Vec<Difference> {
    let Some(reference) = &case.reference else { return Vec::new() };
    let (ours, theirs) = (&portraits[&case.id], &portraits[reference]);
    let both = |place: &str| ours.contains_key(place) && theirs.contains_key(place);
    let mut places: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    places.retain(|place| *place != NODELAY || both(place));
    let text = |portrait: &Portrait, place: &String| portrait.get(place).cloned().unwrap_or_default();
    let differ = |place: &String| {
        let (old, new) = (text(theirs, place), text(ours, place));
        (old != new).then(|| Difference {
            case: case.id.clone(),
            reference: reference.clone(),
            place: place.clone(),
            diff: TextDiff::from_lines(&old, &new).unified_diff().header(reference, &case.id).to_string(),
        })
    };
    places.into_iter().filter_map(differ).collect()
}
