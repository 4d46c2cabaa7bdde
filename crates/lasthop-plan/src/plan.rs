//! The plan of a run: its cases, their stacks of services, and differences other than the transport.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use indexmap::{IndexMap, IndexSet};
use lasthop_classic::tool_of;
use lasthop_model::{
    binding::Bindings,
    container::RenderedContainer,
    level::{Level, Levels},
    quantity::written,
    rate::arrivals_name,
    record::{
        BUILT_IN, CasePlan, ComparedEndpoints, DerivedPlan, Difference, ExperimentSummary, FactorSummary, LoadSummary,
        MOST_CASES,
    },
    selection::{self, DRIVER, OWN_DRIVER, Selection},
    service::RenderedService,
};
use lasthop_protocol::spec::Spec;
use lasthop_trial::{
    address::Transport,
    options::{Model, OpenLoop},
};
use similar::TextDiff;

use super::{
    cases::{self, Chosen, Excluded, NamedCase},
    derive::derive,
    files::{bounded, size},
    fingerprint::{self, Fingerprint, SketchedCase},
    model::{Experiment, Factor, SettingSource, Source},
    pace::{self, LEAST_IN_A_TRIAL},
    render::{RenderedCase, Renderer},
    template,
};

/// The shortest trial. A shorter trial would consist of little but its start and end.
const LEAST_TRIAL: Duration = Duration::from_millis(1);

/// The plan of a run, made before any service starts.
#[derive(Clone, Debug)]
pub struct Plan {
    pub experiment: Experiment,
    /// Factors with the levels of this run.
    pub factors: IndexMap<String, FactorSummary>,
    pub cases: Vec<CasePlan>,
    pub stacks: Vec<Stack>,
    /// Differences between a case and its reference other than the link.
    pub differences: Vec<Difference>,
    /// Quantities derived from several cases.
    pub derived: Vec<DerivedPlan>,
    /// The endpoints that are the cases, if lasthop starts no server.
    pub given: Option<ComparedEndpoints>,
}

/// The services of one or more cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub number: usize,
    /// Transport of the link.
    pub transport: Transport,
    /// The levels with which the services are rendered.
    pub levels: Levels,
    /// The services, in start order.
    pub services: IndexMap<String, StackService>,
}

impl Stack {
    /// The only stack of a run that starts no service.
    pub(super) fn empty() -> Self {
        Self {
            number: 0,
            transport: Transport::Unix,
            levels: Levels::new(),
            services: IndexMap::new(),
        }
    }
}

/// A service before it has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackService {
    pub recipe: String,
    /// The transport on which the service listens.
    pub transport: Transport,
    /// The container, if the service runs in one.
    pub container: Option<RenderedContainer>,
    /// Number of processes that serve at the same time.
    pub workers: u32,
}

/// The message for more cases than a run may have.
pub(crate) fn too_many(made: &str, cases: u128, advice: &str) -> String {
    format!("{made} make up to {cases} cases, more than {MOST_CASES}: {advice}")
}

fn reasons(excluded: &[Excluded]) -> String {
    let reasons: IndexSet<&str> = excluded.iter().map(|excluded| excluded.because.as_str()).collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", Vec::from_iter(reasons).join("; "))
    }
}

fn pace_text(rate: Option<f64>) -> String {
    rate.map_or_else(|| "a closed loop".to_owned(), |rate| format!("{rate} requests/s"))
}

impl Plan {
    /// Plans a run of an experiment.
    pub fn new(experiment: Experiment, selection: &Selection) -> Result<Self, String> {
        let (name, size) = (experiment.name.clone(), size(&experiment.files));
        bounded(&name, size, || Self::made(experiment, selection))
    }

    fn made(mut experiment: Experiment, selection: &Selection) -> Result<Self, String> {
        add_drivers(&mut experiment, &selection.drivers);
        set_pace(&mut experiment, selection)?;
        let chosen = cases::choose(&experiment, selection)?;
        let named = named_cases(&experiment, &chosen, selection.aa)?;
        let mut stacks = Vec::new();
        let mut plans = Vec::new();
        let mut fingerprints = BTreeMap::new();
        for (case, sketch) in named.iter().zip(sketch_all(&experiment, &named)?) {
            let load = &sketch.load;
            if let Some(tool) = tool_of(&case.levels) {
                if !tool.speaks(&load.spec.protocol) {
                    return Err(format!(
                        "{} does not speak {}, the protocol of this experiment: choose another tool",
                        tool.name,
                        load.spec.protocol.kind().name
                    ));
                }
                if load.spec.model != Model::Closed {
                    return Err(format!(
                        "{} can drive only a closed loop: leave out the rate, or --driver and --cross-check",
                        tool.name
                    ));
                }
            }
            plans.push(case_plan(case, stack_for(&mut stacks, case, &sketch), load));
            fingerprints.insert(&case.id, sketch.fingerprint);
        }
        same_rates(&plans)?;
        // Under another compared factor, differences are intended.
        let differences = if selection::is_way(experiment.compared()) {
            named.iter().flat_map(|case| differences(case, &fingerprints)).collect()
        } else {
            Vec::new()
        };
        let stacks = stacks.into_iter().map(|(.., stack)| stack).collect();
        let factors = summaries(&experiment, &chosen);
        // A run against itself has only references and their second names.
        let derived = if selection.aa {
            Vec::new()
        } else {
            derive(&experiment, &plans)?
        };
        Ok(Self {
            factors,
            experiment,
            cases: plans,
            stacks,
            differences,
            derived,
            given: None,
        })
    }

    /// Checks that trials of this length can be measured and have enough requests in every open loop.
    pub fn check_trial(&self, trial: Duration) -> Result<(), String> {
        if trial < LEAST_TRIAL {
            return Err(format!(
                "a trial of {} is too short to tell anything but the cost of starting it: --trial must be {} or longer",
                written(trial),
                written(LEAST_TRIAL)
            ));
        }
        for case in &self.cases {
            let Some(rate) = case.load.rate else { continue };
            let requests = rate * trial.as_secs_f64();
            if requests < LEAST_IN_A_TRIAL {
                return Err(format!(
                    "case {}: {rate} requests/s make {requests} in a trial of {}, fewer than {LEAST_IN_A_TRIAL}: use longer \
                     trials (--trial {})",
                    case.case,
                    written(trial),
                    written(pace::shortest_trial(rate))
                ));
            }
        }
        Ok(())
    }

    /// Checks that the smallest round, a block and its reverse, fits into the budget.
    pub(crate) fn check_budget(&self, trial: Duration, blocks: Option<u32>, budget: Duration) -> Result<(), String> {
        let cases = self.cases.len();
        let blocks = blocks.unwrap_or(2).min(2);
        let needed = trial.saturating_mul(cases as u32 * blocks);
        if needed <= budget {
            return Ok(());
        }
        Err(format!(
            "{cases} cases take {} for the {} of a round, which is more than the budget of {}: choose shorter trials \
             (--trial), fewer cases (--only), or a larger budget (--budget)",
            written(needed),
            if blocks == 1 { "block" } else { "two blocks" },
            written(budget)
        ))
    }

    /// The shortest trial with enough requests in every open loop; zero without an open loop.
    pub(crate) fn shortest_trial(&self) -> Duration {
        self.cases
            .iter()
            .filter_map(|case| case.load.rate)
            .map(pace::shortest_trial)
            .max()
            .unwrap_or_default()
    }

    /// Renders the services of a stack in start order, with the addresses of a round.
    pub fn services(&self, stack: &Stack, bindings: &Bindings) -> Result<Vec<RenderedService>, String> {
        self.renderer(&stack.levels, bindings).services()
    }

    /// Renders a case with the addresses of a round.
    pub fn render(&self, case: &CasePlan, bindings: &Bindings) -> Result<RenderedCase, String> {
        if let Some(endpoint) = self.given.as_ref().and_then(|given| given.endpoints.get(&case.case)) {
            return Ok(RenderedCase::of_given(endpoint));
        }
        self.renderer(&case.levels, bindings).case()
    }

    fn renderer<'a>(&'a self, levels: &'a Levels, bindings: &'a Bindings) -> Renderer<'a> {
        Renderer {
            experiment: &self.experiment,
            levels,
            bindings,
            symbolic: false,
            urls: true,
        }
    }

    /// The experiment as the record has it.
    pub fn summary(&self) -> ExperimentSummary {
        let experiment = &self.experiment;
        let recipes = |name: &String| {
            let mut recipes: Vec<&str> = self
                .stacks
                .iter()
                .filter_map(|stack| Some(&stack.services.get(name)?.recipe[..]))
                .collect();
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
            services: experiment
                .services
                .keys()
                .map(|name| (name.clone(), recipes(name)))
                .filter(|(_, recipes)| !recipes.is_empty())
                .collect(),
        }
    }
}

fn sketch_all(experiment: &Experiment, named: &[NamedCase]) -> Result<Vec<SketchedCase>, String> {
    let mut sketches = Vec::new();
    let mut flaws = IndexMap::new();
    for case in named {
        match fingerprint::sketch(experiment, case) {
            Ok(sketch) => sketches.push(sketch),
            Err(cause) => {
                let flaw = format!("case {}: {cause}", case.id);
                flaws.entry(cause).or_insert(flaw);
            }
        }
    }
    // Each flaw once, for the first case that has it.
    let flaws: Vec<String> = flaws.into_values().collect();
    if flaws.is_empty() {
        Ok(sketches)
    } else {
        Err(flaws.join("\n\n"))
    }
}

/// The recipes of the servers that a run starts by default. This takes less work than a plan.
pub fn usual_recipes(experiment: &Experiment) -> Result<BTreeSet<String>, String> {
    let chosen = cases::choose(experiment, &Selection::default())?;
    let (combinations, _) = cases::combinations(experiment, &chosen)?;
    let mut recipes = BTreeSet::new();
    for levels in &combinations {
        let context = template::of_levels(levels);
        for service in experiment.services.values() {
            if template::word("count", &service.count, &context)? != "0" {
                recipes.insert(template::word("recipe", &service.recipe, &context)?);
            }
        }
    }
    Ok(recipes)
}

fn named_cases(experiment: &Experiment, chosen: &Chosen, aa: bool) -> Result<Vec<NamedCase>, String> {
    let too_many = |cases| too_many("the selected levels", cases, "select fewer with --only factor=level");
    let most = chosen.values().map(|levels| levels.len() as u128).product();
    if most > cases::MOST_COMBINATIONS as u128 {
        return Err(too_many(most));
    }
    let (combinations, excluded) = cases::combinations(experiment, chosen)?;
    if combinations.is_empty() {
        return Err(format!(
            "no case is left with the selected levels{}",
            reasons(&excluded)
        ));
    }
    if combinations.len() > MOST_CASES {
        return Err(too_many(combinations.len() as u128));
    }
    let named = cases::name_cases(experiment, chosen, &combinations);
    Ok(if aa { cases::against_themselves(named) } else { named })
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str(BUILT_IN),
            Self::Folder(path) => path.display().fmt(f),
            Self::Given => f.write_str("given endpoints"),
        }
    }
}

fn add_drivers(experiment: &mut Experiment, drivers: &[String]) {
    if drivers.is_empty() {
        return;
    }
    let levels: Vec<Level> = drivers.iter().cloned().map(Level::Text).collect();
    let help = "load generator: lasthop, or a classic tool".to_owned();
    let factor = Factor {
        help,
        levels,
        ..Factor::default()
    };
    experiment.factors.insert(DRIVER.to_owned(), factor);
}

/// Replaces the experiment's pace by the one that the run asks for.
fn set_pace(experiment: &mut Experiment, selection: &Selection) -> Result<(), String> {
    if selection.overload {
        // Any rate makes an open loop; the stages of overload trials have rates of their own.
        experiment.load.rate = "1".to_owned();
        experiment.load.rate_at = SettingSource::Option("--overload".to_owned());
    }
    if let Some(rate) = selection.rate {
        // If the rate is simply a factor, `--rate` would leave that factor without effect.
        let named = experiment
            .load
            .rate
            .trim()
            .trim_start_matches("{{")
            .trim_end_matches("}}")
            .trim();
        if let Some((factor, of)) = experiment.factors.get_key_value(named) {
            return Err(format!(
                "this experiment sets its rate by the factor `{factor}`: select levels of that instead of --rate, for \
                 example --only {factor}={}",
                of.levels[0]
            ));
        }
        experiment.load.rate = rate.to_string();
        experiment.load.rate_at = SettingSource::Option(format!("--rate {rate}"));
    }
    if let Some(arrivals) = selection.arrivals {
        let name = arrivals_name(arrivals);
        experiment.load.arrivals = Some(name.to_owned());
        experiment.load.arrivals_at = SettingSource::Option(format!("--arrivals {name}"));
    }
    Ok(())
}

/// Checks that all cases have equal rates, because open loops are compared by latency.
fn same_rates(plans: &[CasePlan]) -> Result<(), String> {
    for case in plans {
        let reference = plans.iter().find(|other| Some(&other.case) == case.reference.as_ref());
        if let Some(reference) = reference.filter(|reference| reference.load.rate != case.load.rate) {
            return Err(format!(
                "case {} has {} and its reference {} {}: only cases with the same rate can be compared, so the rate must \
                 not depend on the compared factor",
                case.case,
                pace_text(case.load.rate),
                reference.case,
                pace_text(reference.load.rate)
            ));
        }
    }
    Ok(())
}

pub(super) fn summaries(experiment: &Experiment, chosen: &Chosen) -> IndexMap<String, FactorSummary> {
    let mut summaries = IndexMap::new();
    for (name, levels) in chosen {
        let Factor {
            help,
            reference,
            controls,
            labels,
            ..
        } = experiment.factors[name].clone();
        summaries.insert(
            name.clone(),
            FactorSummary {
                help,
                levels: levels.clone(),
                reference,
                controls,
                labels,
            },
        );
    }
    summaries
}

pub(super) fn case_plan(case: &NamedCase, stack: usize, load: &RenderedCase) -> CasePlan {
    CasePlan {
        case: case.id.clone(),
        levels: case.levels.clone(),
        transport: case.transport,
        reference: case.reference.clone(),
        stack,
        load: LoadSummary {
            target: load.target.clone(),
            protocol: load.spec.protocol.kind().name.to_owned(),
            connections: load.spec.connections,
            threads: load.spec.threads,
            reuse: load.spec.reuse,
            requests_per_connection: load.spec.requests_per_connection,
            pipeline: load.spec.pipeline,
            rate: open_loop(&load.spec).map(|open| open.rate),
            arrivals: open_loop(&load.spec).map(|open| open.arrivals),
            bytes: load.spec.protocol.payload(),
            driver: match (tool_of(&case.levels), &load.driver) {
                (Some(tool), _) => tool.name.to_owned(),
                (None, Some(words)) => driver_name(words),
                (None, None) => OWN_DRIVER.to_owned(),
            },
        },
        conditions: load.conditions.clone(),
    }
}

fn open_loop(spec: &Spec) -> Option<OpenLoop> {
    match spec.model {
        Model::Closed => None,
        Model::Open(open) => Some(open),
    }
}

/// The command of a foreign driver, without the directories of this run.
fn driver_name(words: &[String]) -> String {
    words
        .iter()
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The stack with equal services, or a new stack. Second names of cases have stacks of their own.
fn stack_for(stacks: &mut Vec<(NamedCase, Fingerprint, Stack)>, case: &NamedCase, sketch: &SketchedCase) -> usize {
    let same = stacks.iter().find(|(other, fingerprint, _)| {
        other.again == case.again
            && other.transport == case.transport
            && fingerprint.has_same_services(&sketch.fingerprint)
    });
    if let Some((.., stack)) = same {
        return stack.number;
    }
    let number = stacks.len();
    let services = sketch.services.clone();
    let stack = Stack {
        number,
        transport: case.transport,
        levels: case.levels.clone(),
        services,
    };
    stacks.push((case.clone(), sketch.fingerprint.clone(), stack));
    number
}

/// Differences between a case and its reference other than the link.
fn differences(case: &NamedCase, fingerprints: &BTreeMap<&String, Fingerprint>) -> Vec<Difference> {
    let Some(reference) = &case.reference else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    for (place, old, new) in fingerprints[&case.id].diff(&fingerprints[reference]) {
        let diff = TextDiff::from_lines(&old, &new)
            .unified_diff()
            .header(reference, &case.id)
            .to_string();
        differences.push(Difference {
            case: case.id.clone(),
            reference: reference.clone(),
            place,
            diff,
        });
    }
    differences
}

#[cfg(test)]
mod tests {
    use lasthop_model::{container::Network, record::Derivation, service::ReadyCheck};
    use lasthop_trial::options::{Arrivals, Reuse};

    use super::*;
    use crate::{catalog::Catalog, fingerprint::placeholders, model::ConfigFile};

    fn selection(only: &[&str], set: &[&str]) -> Selection {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Selection {
            only: parse(only),
            set: parse(set),
            ..Selection::default()
        }
    }

    fn plan(name: &str, selection: &Selection) -> Plan {
        Plan::new(Catalog::default().load(name).unwrap(), selection).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.cases.iter().map(|case| case.case.as_str()).collect()
    }

    fn references(plan: &Plan) -> Vec<Option<&str>> {
        plan.cases.iter().map(|case| case.reference.as_deref()).collect()
    }

    /// CockroachDB cannot be installed here, so that only this test checks its templates.
    #[test]
    fn cockroachdb_is_rendered() {
        let plan = plan(
            "cockroachdb",
            &selection(&[], &["auth=trust,password-scram,password-cleartext"]),
        );
        let mut rendered = Vec::new();
        for stack in &plan.stacks {
            let bindings = placeholders(&plan.experiment, &stack.levels).unwrap();
            let service = plan.services(stack, &bindings).unwrap().remove(0);
            let ReadyCheck::Command(ready) = &service.ready.check else {
                panic!("{:?}", service.ready);
            };
            let mut parts = vec![service.command.join(" "), ready.join(" ")];
            for (path, content) in &service.files {
                parts.push(format!("{}\n{}", path.display(), String::from_utf8_lossy(content)));
            }
            rendered.extend(
                parts
                    .into_iter()
                    .filter(|part| !rendered.contains(part))
                    .collect::<Vec<_>>(),
            );
        }
        insta::assert_snapshot!(rendered.join("\n"));
    }

    #[test]
    fn what_cannot_be_rendered_is_said_of_every_case_and_once_of_several() {
        let mut experiment = Catalog::default().load("nginx-gunicorn").unwrap();
        let config = &mut experiment.services["nginx"].config[0];
        config.text = "{% if transport == 'unix' %}\n{{ gunicorn.port }}\n{% else %}\n{{ gunicorn.path }}\n{% endif %}"
            .to_owned();
        let error = Plan::new(experiment, &Selection::default()).unwrap_err();
        let flaws: Vec<&str> = error.split("\n\n").collect();
        assert_eq!(flaws.len(), 2, "{error}");
        let said = error.to_string();
        assert!(
            said.contains("case unix/connections=1: ") && said.contains("case tcp/connections=1: "),
            "{said}"
        );
        assert!(
            said.contains("gunicorn.port") && said.contains("gunicorn.path"),
            "{said}"
        );
    }

    #[test]
    fn connections_share_a_stack() {
        let plan = plan("nginx-gunicorn", &Selection::default());
        let expected = [
            "unix/connections=1",
            "unix/connections=10",
            "tcp/connections=1",
            "tcp/connections=10",
        ];
        assert_eq!(ids(&plan), expected);
        assert_eq!(references(&plan), [Some(expected[2]), Some(expected[3]), None, None]);
        assert_eq!(
            plan.cases.iter().map(|case| case.stack).collect::<Vec<_>>(),
            [0, 0, 1, 1]
        );
        assert_eq!(plan.stacks.len(), 2);
        assert_eq!(plan.stacks[0].services["gunicorn"].transport, Transport::Unix);
        assert_eq!(plan.stacks[0].services["nginx"].transport, Transport::Tcp);
        assert_eq!(
            plan.stacks[0].services.keys().collect::<Vec<_>>(),
            ["gunicorn", "nginx"]
        );
        assert_eq!(plan.differences, []);
        assert_eq!(plan.cases[1].load.connections, 10);
        assert_eq!(plan.cases[1].load.bytes, Some(12));
    }

    #[test]
    fn several_servers_of_a_service_each_have_an_address() {
        let plan = plan("nginx-thin", &selection(&["backends=4", "http=1.1"], &[]));
        assert_eq!(plan.differences, []);
        let names: Vec<&String> = plan.stacks[0].services.keys().collect();
        assert_eq!(names, ["thin", "thin-2", "thin-3", "thin-4", "nginx"]);
        let bindings = placeholders(&plan.experiment, &plan.stacks[0].levels).unwrap();
        let services = plan.services(&plan.stacks[0], &bindings).unwrap();
        assert!(
            services[3].command.contains(&"/@run@/thin-4/socket".to_owned()),
            "{:?}",
            services[3].command
        );
        let configuration = String::from_utf8_lossy(&services[4].files[0].1).into_owned();
        let upstreams: Vec<&str> = configuration
            .lines()
            .filter(|line| line.contains(" max_fails=0;"))
            .collect();
        assert_eq!(upstreams.len(), 4, "{configuration}");
        assert!(upstreams[1].contains("unix:/@run@/thin-2/socket"), "{upstreams:?}");
    }

    #[test]
    fn what_a_client_library_takes_is_a_part_of_the_link() {
        let plan = plan("node-redis", &selection(&["statements=1"], &[]));
        assert_eq!(plan.differences, []);
        let urls = [
            "'unix:///@run@/redis/socket?username=lasthop&password=@secret@'",
            "'redis://lasthop:@secret@@127.0.0.1:60001'",
            "'rediss://lasthop:@secret@@127.0.0.1:60001?ssl_ca_certs=/@run@/tls/authority.pem'",
        ];
        assert_eq!(plan.stacks.len(), urls.len());
        for (stack, url) in plan.stacks.iter().zip(urls) {
            let bindings = placeholders(&plan.experiment, &stack.levels).unwrap();
            let services = plan.services(stack, &bindings).unwrap();
            let text = String::from_utf8_lossy(&services[1].files[0].1).into_owned();
            assert!(text.contains(url), "{text}");
            assert!(text.contains("'/@packages@/npm/node_modules/redis'"), "{text}");
        }
    }

    #[test]
    fn whom_the_driver_talks_to_may_depend_on_the_case() {
        let plan = plan(
            "containers",
            &selection(&["path=bridge,no-container-unix", "front=none,haproxy"], &[]),
        );
        assert_eq!(plan.differences, []);
        let targets: Vec<(&str, &str)> = plan
            .cases
            .iter()
            .map(|case| (case.case.as_str(), case.load.target.as_str()))
            .collect();
        let expected = [
            ("bridge/front=none", "nginx"),
            ("bridge/front=haproxy", "haproxy"),
            ("no-container-unix/front=none", "nginx"),
            ("no-container-unix/front=haproxy", "haproxy"),
        ];
        assert_eq!(targets, expected);
        assert!(!plan.stacks[0].services.contains_key("haproxy"));
        let front = &plan.stacks[1].services["haproxy"];
        assert_eq!(front.container.as_ref().unwrap().network, Network::Bridge);
        assert!(
            plan.stacks[3].services["haproxy"].container.is_none(),
            "it is where nginx is"
        );
        let bindings = placeholders(&plan.experiment, &plan.stacks[1].levels).unwrap();
        let load = plan.render(&plan.cases[1], &bindings).unwrap();
        assert_eq!(load.spec.endpoint, bindings.services["haproxy"].endpoint());
    }

    #[test]
    fn a_count_is_a_small_whole_number() {
        let mut experiment = Catalog::default().load("nginx-thin").unwrap();
        experiment.services["thin"].count = "{{ 65 }}".to_owned();
        let error = Plan::new(experiment, &Selection::default()).unwrap_err().to_string();
        assert!(
            error.contains("service thin: `count` renders to `65`, expected a whole number from 0 to 64"),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_names_its_socket_itself_gets_that_name() {
        let plan = plan("postgres", &selection(&["work=query", "transport=unix"], &[]));
        let bindings = placeholders(&plan.experiment, &plan.stacks[0].levels).unwrap();
        let path = bindings.services["postgres"].address.path().unwrap();
        assert!(path.ends_with(".s.PGSQL.5432"), "{}", path.display());
    }

    #[test]
    fn quantities_follow_from_the_cases_that_they_name() {
        let plan = plan(
            "postgres",
            &selection(&["transport=unix,tcp"], &["rows=5,30,10", "auth=trust,password-md5"]),
        );
        let of = |quantity: &str| -> Vec<Derivation> {
            plan.derived
                .iter()
                .filter(|one| one.quantity == quantity)
                .map(|one| one.from.clone())
                .collect()
        };
        let difference = |of: &str, minus: &str| Derivation::Difference {
            of: of.into(),
            minus: minus.into(),
        };
        assert_eq!(
            of("handshake"),
            ["unix", "tcp"].map(|t| difference(&format!("{t}/work=connect/auth=trust"), &format!("{t}/work=query")))
        );
        let md5 = |t: &str| {
            let case = |auth| format!("{t}/work=connect/auth={auth}");
            difference(&case("password-md5"), &case("trust"))
        };
        assert_eq!(of("authentication"), ["unix", "tcp"].map(md5));
        let points = |t: &str| {
            [5, 10, 30]
                .map(|n| (f64::from(n), format!("{t}/work=rows/rows={n}")))
                .to_vec()
        };
        assert_eq!(
            of("row"),
            ["unix", "tcp"].map(|t| Derivation::Slope {
                per: "rows".into(),
                points: points(t)
            })
        );
    }

    #[test]
    fn a_quantity_whose_cases_were_not_chosen_is_left_out() {
        let derived = |only: &[&str], set: &[&str]| -> Vec<String> {
            plan("postgres", &selection(only, set))
                .derived
                .into_iter()
                .map(|one| one.quantity)
                .collect()
        };
        assert_eq!(derived(&["work=query"], &[]), [""; 0]);
        assert_eq!(derived(&["work=rows", "transport=tcp"], &["rows=7"]), [""; 0]);
        assert_eq!(derived(&["work=connect", "transport=tcp"], &[]), ["authentication"]);
    }

    #[test]
    fn a_crossover_is_of_cases_that_are_compared() {
        let plan = plan("file-transfer", &Selection::default());
        let crossovers = plan.derived.iter().filter(|one| one.quantity == "crossover");
        let [only] = &crossovers.collect::<Vec<_>>()[..] else {
            panic!("{:?}", plan.derived)
        };
        let Derivation::Crossover { points, .. } = &only.from else {
            panic!("{only:?}")
        };
        assert_eq!(points[0], (1024.0, "unix/size=1024".to_owned()));
    }

    #[test]
    fn the_default_of_sockets() {
        let plan = plan("sockets", &Selection::default());
        assert_eq!(plan.cases.len(), 9);
        assert!(ids(&plan).contains(&"tls/pattern=stream"));
        assert_eq!(plan.stacks.len(), 9);
        assert_eq!(plan.differences, []);
        assert!(
            plan.cases
                .iter()
                .filter(|case| case.reference.is_none())
                .all(|case| case.transport == Transport::Tcp)
        );
    }

    #[test]
    fn every_transport_of_sockets_differs_in_the_link_only() {
        let set = [
            "transport=unix,abstract,tcp,tcp6,tls,tls-unix",
            "size=64,1024,16384,65536,1048576",
        ];
        let plan = plan("sockets", &selection(&["pattern=echo"], &set));
        assert_eq!(plan.cases.len(), 30);
        assert_eq!(plan.stacks.len(), 6);
        assert_eq!(plan.differences, []);
    }

    /// Abstract socket names have no slash to end a name.
    #[test]
    fn several_servers_on_abstract_sockets_differ_in_the_link_only() {
        let mut experiment = Catalog::default().load("sockets").unwrap();
        let server = &mut experiment.services["server"];
        server.count = "2".to_owned();
        let peers = "{% for peer in server.all %}{{ peer }} {{ peer.url }}\n{% endfor %}".to_owned();
        server.config.insert(
            "peers".into(),
            ConfigFile {
                text: peers,
                source: "peers".to_owned(),
            },
        );
        let chosen = selection(&["pattern=echo"], &["transport=unix,abstract,tcp"]);
        assert_eq!(Plan::new(experiment, &chosen).unwrap().differences, []);
    }

    #[test]
    fn a_factor_of_tcp_neither_removes_nor_multiplies_unix() {
        let plan = plan(
            "sockets",
            &selection(&["pattern=echo", "transport=unix,tcp"], &["nodelay=true,false"]),
        );
        assert_eq!(ids(&plan), ["unix", "tcp/nodelay=true", "tcp/nodelay=false"]);
        assert_eq!(references(&plan), [Some("tcp/nodelay=true"), None, None]);
        assert_eq!(plan.differences, []);
    }

    #[test]
    fn python_drives_itself_and_says_what_it_cannot() {
        let selection = selection(&["implementation=python"], &[]);
        let plan = plan("sockets", &selection);
        assert_eq!(
            ids(&plan),
            [
                "unix/pattern=hello",
                "unix/pattern=echo",
                "tcp/pattern=hello",
                "tcp/pattern=echo"
            ]
        );
        assert_eq!(plan.cases[0].load.driver, "python3 -E -s client.py");
        let chosen = cases::choose(&plan.experiment, &selection).unwrap();
        let (_, excluded) = cases::combinations(&plan.experiment, &chosen).unwrap();
        assert_eq!(excluded.len(), 5);
        assert!(excluded.iter().all(|excluded| !excluded.because.is_empty()));
        assert_eq!(plan.stacks[0].services["server"].recipe, "python-sockets");
        assert_eq!(plan.differences, []);
    }

    #[test]
    fn without_the_reference_the_first_chosen_transport_takes_its_place() {
        let plan = plan("sockets", &selection(&["pattern=echo"], &["transport=tls,unix"]));
        assert_eq!(ids(&plan), ["tls", "unix"]);
        assert_eq!(references(&plan), [None, Some("tls")]);
    }

    #[test]
    fn a_case_against_itself_has_two_stacks() {
        let plan = plan(
            "nginx-gunicorn",
            &Selection {
                aa: true,
                ..Selection::default()
            },
        );
        let expected = [
            "tcp/connections=1",
            "tcp-again/connections=1",
            "tcp/connections=10",
            "tcp-again/connections=10",
        ];
        assert_eq!(ids(&plan), expected);
        assert_eq!(references(&plan), [None, Some(expected[0]), None, Some(expected[2])]);
        let stacks: Vec<usize> = plan.cases.iter().map(|case| case.stack).collect();
        assert_ne!(stacks[0], stacks[1]);
        assert_eq!((stacks[0], stacks[1]), (stacks[2], stacks[3]));
    }

    #[test]
    fn levels_outside_the_list_need_a_range() {
        let plan = plan("nginx-gunicorn", &selection(&[], &["connections=3"]));
        assert_eq!(ids(&plan), ["unix", "tcp"]);
        let error = |only: &[&str], set: &[&str]| {
            let experiment = Catalog::default().load("nginx-gunicorn").unwrap();
            Plan::new(experiment, &selection(only, set)).unwrap_err().to_string()
        };
        assert!(error(&["connections=3"], &[]).contains("any whole number from 1 to 1000"));
        assert!(error(&[], &["connections=0"]).contains("no level `0`"));
        assert!("transport".parse::<lasthop_model::selection::Choice>().is_err());
        assert!("transport=a,,b".parse::<lasthop_model::selection::Choice>().is_err());
    }

    #[test]
    fn what_tcp_meets_is_rendered_for_each_case() {
        let only = ["path=kernel-defaults,rules-200,bbr,mtu-1500", "pattern=echo"];
        let plan = plan("loopback", &selection(&only, &[]));
        let [defaults, rules, bbr, mtu] = &plan.cases[..] else {
            panic!("{:?}", ids(&plan))
        };
        let of = |case: &CasePlan| case.conditions.clone().unwrap();
        let congestion = |case| of(case).sysctls["net.ipv4.tcp_congestion_control"].clone();
        assert_eq!((of(defaults).rules.as_str(), of(defaults).mtu), ("", Some(65_536)));
        assert_eq!(of(rules).rules.matches(" drop").count(), 200);
        assert_eq!([defaults, bbr].map(congestion), ["cubic", "bbr"]);
        assert_eq!((of(mtu).mtu, mtu.stack), (Some(1_500), defaults.stack));
        assert_eq!(plan.differences, []);
        let mut wrong = plan.experiment;
        wrong.network.as_mut().unwrap().mtu = "{{ 66 + 1 }}".to_owned();
        let error = Plan::new(wrong, &selection(&only, &[])).unwrap_err();
        assert!(
            error.contains("`mtu` renders to `67`, expected a whole number from 68 to 65536"),
            "{error}"
        );
    }

    /// A plan of an experiment whose proxy configuration is `template`.
    fn with_proxy_configuration(template: &str) -> Plan {
        let mut experiment = Catalog::default().load("nginx-gunicorn").unwrap();
        let nginx = experiment.services.get_mut("nginx").unwrap();
        nginx.config.get_mut(std::path::Path::new("nginx.conf")).unwrap().text = template.to_owned();
        Plan::new(experiment, &selection(&[], &["connections=1"])).unwrap()
    }

    #[test]
    fn a_template_that_branches_on_the_transport_is_reported() {
        let plan = with_proxy_configuration(
            "server {{ gunicorn.address }};\n{% if transport == 'unix' %}\nfast;\n{% endif %}",
        );
        let [difference] = &plan.differences[..] else {
            panic!("{:?}", plan.differences)
        };
        assert_eq!((&difference.case[..], &difference.reference[..]), ("unix", "tcp"));
        assert_eq!(difference.place, "nginx: nginx.conf");
        assert_eq!(
            difference.diff,
            "--- tcp\n+++ unix\n@@ -1 +1,2 @@\n server @link@;\n+fast;\n"
        );
    }

    #[test]
    fn a_branch_on_what_only_one_transport_has_is_reported_too() {
        let plan = with_proxy_configuration("{% if gunicorn.port %}keepalive 32;{% endif %}{{ gunicorn.url }}\n");
        assert_eq!(plan.differences.len(), 1);
        assert!(
            plan.differences[0].diff.contains("-keepalive 32;@link@"),
            "{}",
            plan.differences[0].diff
        );
    }

    #[test]
    fn every_form_of_the_link_is_the_same_symbol() {
        let text = "{{ gunicorn.address }} http://{{ gunicorn.address }}/ {{ gunicorn.url }} {{ gunicorn }}\n";
        assert_eq!(with_proxy_configuration(text).differences, []);
    }

    #[test]
    fn a_load_that_depends_on_the_transport_is_reported() {
        let mut experiment = Catalog::default().load("nginx-gunicorn").unwrap();
        experiment.load.connections = "{{ 2 if transport == 'unix' else connections }}".to_owned();
        let plan = Plan::new(experiment, &selection(&[], &["connections=1"])).unwrap();
        assert_eq!(plan.differences[0].place, "driver: load");
    }

    fn at(rate: &str) -> Selection {
        Selection {
            rate: Some(rate.parse().unwrap()),
            ..selection(&["pattern=echo", "transport=unix,tcp"], &[])
        }
    }

    #[test]
    fn a_rate_is_that_of_every_case() {
        let planned = plan(
            "sockets",
            &Selection {
                arrivals: Some(Arrivals::Poisson),
                ..at("2000")
            },
        );
        assert_eq!(planned.differences, []);
        let bindings = placeholders(&planned.experiment, &planned.stacks[0].levels).unwrap();
        for case in &planned.cases {
            assert_eq!(
                (case.load.rate, case.load.arrivals),
                (Some(2000.0), Some(Arrivals::Poisson))
            );
        }
        let load = planned.render(&planned.cases[0], &bindings).unwrap();
        assert_eq!(
            load.spec.model,
            Model::Open(OpenLoop {
                rate: 2000.0,
                arrivals: Arrivals::Poisson,
                seed: 0
            })
        );
        let closed = plan("sockets", &at("0"));
        assert_eq!((closed.cases[0].load.rate, closed.cases[0].load.arrivals), (None, None));
        assert!(planned.check_trial(Duration::from_millis(5)).is_ok());
        let error = planned.check_trial(Duration::from_millis(4)).unwrap_err().to_string();
        assert_eq!(
            error,
            "case unix: 2000 requests/s make 8 in a trial of 4ms, fewer than 10: use longer trials (--trial 10ms)"
        );
        assert!(planned.check_trial(Duration::from_millis(10)).is_ok());
        assert!(closed.check_trial(LEAST_TRIAL).is_ok());
    }

    #[test]
    fn trials_are_neither_tiny_nor_too_long_for_the_budget() {
        let plan = plan("sockets", &Selection::default());
        let refused = |trial: u64, budget: u64, blocks| {
            let [trial, budget] = [trial, budget].map(Duration::from_micros).map(Some);
            let overrides = crate::settings::Overrides {
                trial,
                budget,
                blocks,
                ..Default::default()
            };
            plan.settings(overrides).map_err(|error| error.to_string()).err()
        };
        assert!(
            refused(999, 5_000_000, None)
                .unwrap()
                .contains("--trial must be 1ms or longer")
        );
        let trial = 1_000_000;
        let cases = plan.cases.len() as u64;
        // With its warm-up, a trial takes a tenth longer.
        assert_eq!(refused(trial, 2_200_000 * cases, None), None);
        let error = refused(trial, 2_200_000 * cases - 1, None).unwrap();
        assert!(
            error.contains("for the two blocks of a round, which is more than the budget"),
            "{error}"
        );
        assert_eq!(refused(trial, 1_100_000 * cases, Some(1)), None);
    }

    #[test]
    fn trials_are_as_long_as_a_rate_needs_unless_that_is_very_long() {
        let usual = |rate: &str| {
            let settings = plan("sockets", &at(rate)).settings(crate::settings::Overrides::default());
            settings.map(|settings| Duration::from_nanos(settings.trial_ns))
        };
        assert_eq!(usual("2000").unwrap(), Duration::from_millis(50));
        assert_eq!(usual("20").unwrap(), Duration::from_millis(500));
        assert!(
            usual("5")
                .unwrap_err()
                .to_string()
                .contains("make 0.25 in a trial of 50ms")
        );
    }

    #[test]
    fn a_rate_may_be_a_factor() {
        let with_rates = |rate: &str| {
            let mut experiment = Catalog::default().load("sockets").unwrap();
            let levels = vec![Level::Int(500), Level::Int(2000)];
            let factor = Factor {
                levels,
                ..Factor::default()
            };
            experiment.factors.insert("rate".to_owned(), factor);
            experiment.load.rate = rate.to_owned();
            experiment
        };
        let chosen = selection(&["pattern=echo", "transport=unix,tcp"], &[]);
        let plan = Plan::new(with_rates("{{ rate }}"), &chosen).unwrap();
        assert_eq!(
            ids(&plan),
            ["unix/rate=500", "unix/rate=2000", "tcp/rate=500", "tcp/rate=2000"]
        );
        assert_eq!(plan.cases[1].load.rate, Some(2000.0));
        assert_eq!(plan.stacks.len(), 2, "a rate is a matter of the driver");
        let error = Plan::new(with_rates("{{ rate }}"), &at("100")).unwrap_err().to_string();
        assert!(
            error.contains("the factor `rate`") && error.contains("--only rate=500"),
            "{error}"
        );
        let unfair = "{{ rate if transport == 'unix' else rate * 2 }}";
        let error = Plan::new(with_rates(unfair), &chosen).unwrap_err().to_string();
        assert!(
            error.starts_with("case unix/rate=500 has 500 requests/s and its reference tcp/rate=500 1000 requests/s"),
            "{error}"
        );
    }

    #[test]
    fn services_are_filled_in() {
        let plan = plan("nginx-gunicorn", &Selection::default());
        let bindings = placeholders(&plan.experiment, &plan.stacks[0].levels).unwrap();
        let services = plan.services(&plan.stacks[0], &bindings).unwrap();
        let [gunicorn, nginx] = &services[..] else {
            panic!("{services:?}")
        };
        assert!(
            gunicorn
                .command
                .windows(2)
                .any(|pair| pair == ["--bind", "unix:/@run@/gunicorn/socket"])
        );
        assert!(
            gunicorn
                .files
                .iter()
                .any(|(path, _)| path == std::path::Path::new("app/application.py"))
        );
        let (_, configuration) = &nginx.files[0];
        let configuration = String::from_utf8_lossy(configuration);
        assert!(
            configuration.contains("server unix:/@run@/gunicorn/socket max_fails=0;"),
            "{configuration}"
        );
        assert!(
            configuration.contains("listen 127.0.0.1:60002 backlog=1024;"),
            "{configuration}"
        );
        assert!(!configuration.contains("user "), "{configuration}");
        let load = plan.render(&plan.cases[0], &bindings).unwrap();
        assert_eq!(load.spec.endpoint, bindings.services["nginx"].endpoint());
        assert_eq!(load.proof.unwrap().reuse, Reuse::PerRequest);
    }
}
