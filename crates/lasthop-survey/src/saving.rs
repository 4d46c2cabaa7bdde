//! The saving with a Unix socket on a link: the experiment whose link is most similar, and its results, here or on
//! another machine. Every saving has an interval.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
};

use lasthop_analyse::answers::{Answer, Answers, Setting, rounded};
use lasthop_model::{
    rate::Rate,
    selection::{self, Choice, Selection},
};
use lasthop_plan::{
    catalog::Catalog,
    model::{Experiment, Recipe, Service},
};
use lasthop_protocol::{
    PROTOCOLS,
    url::{self, UrlOptions},
};
use lasthop_stats::Interval;
use lasthop_trial::options::Reuse;
use schemars::JsonSchema;
use serde::Serialize;

use super::links::{Link, LinkLoad, Party, Shape};

/// The least saving that matters, as a share of a CPU.
const MATTERS: f64 = 0.01;
/// The factor that widens the interval of a result from another machine at each end, after scaling by CPU speed: system
/// calls differ more between machines than arithmetic.
const ELSEWHERE: f64 = 1.5;
/// The factor in place of [`ELSEWHERE`] if the speed of one of the CPUs is unknown.
const UNKNOWN_SPEED: f64 = 2.5;
/// The share of a CPU from which a process counts as fully loaded.
const BUSY: f64 = 0.5;
/// How many times more a request may save if it wakes a process than at full load, unless answers tell. docs/survey.md
/// has the measurements.
const WAKING: f64 = 10.0;
/// Bytes of the largest segment on loopback: a longer message has several.
const SEGMENT: f64 = 65_536.0;
/// The reply size in bytes below which replies cost the same.
const SHORT_REPLY: f64 = 1_024.0;
/// The levels of a link over the loopback interface, and over a bridge.
const LEVELS: [&str; 2] = ["tcp", "bridge"];

/// Whether a Unix socket is worth a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Worth {
    /// The saving is 1 % of a CPU or more.
    WorthIt,
    /// The saving is less than 1 % of a CPU.
    DoesNotMatter,
    /// The link already is a Unix socket.
    Already,
    CannotSay,
}

impl Worth {
    /// The name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WorthIt => "worth-it",
            Self::DoesNotMatter => "does-not-matter",
            Self::Already => "already",
            Self::CannotSay => "cannot-say",
        }
    }
}

/// What is known about a Unix socket on a link.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outlook {
    pub worth: Worth,
    /// The reason for the verdict.
    pub because: String,
    /// The experiment with the most similar link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saving: Option<Saving>,
    /// The command that tells more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The command that compares both sockets of a server that listens on both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<String>,
    /// The run that would tell more, if there is none yet.
    #[serde(skip)]
    pub ask: Option<Ask>,
}

impl Outlook {
    /// A verdict without figures or commands.
    pub(crate) fn because(worth: Worth, because: &str) -> Self {
        Self {
            worth,
            because: because.to_owned(),
            experiment: None,
            saving: None,
            next: None,
            compare: None,
            ask: None,
        }
    }
}

/// A run of an experiment that resembles a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub experiment: String,
    pub selection: Selection,
}

/// The saving with a Unix socket. Negative figures are costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Saving {
    /// CPU time per request, in microseconds.
    pub cpu_us: Interval,
    /// CPUs, at the counted requests per second.
    pub cpus: Interval,
    /// Time until a reply, in microseconds; absent if it was measured only with a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_us: Option<Interval>,
    /// The most similar setting of the experiment.
    pub setting: String,
    /// The origin of the figures.
    pub from: String,
    /// Whether the figures were measured on this machine.
    pub here: bool,
    /// Requests per second of the measurement; absent if at full load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// This machine.
#[derive(Clone, Debug)]
pub struct Here {
    /// CPU speed, in steps per microsecond.
    pub speed: f64,
    /// Conditions of TCP on loopback, as in answers.
    pub conditions: Option<String>,
}

/// Known results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Answers, best first.
    pub known: Vec<Known>,
    /// The run that has just ended without an answer.
    pub undecided: Option<String>,
}

/// An answer and its origin.
#[derive(Clone, Debug)]
pub struct Known {
    pub answer: Answer,
    /// Name of the run here; `None` if the answer came with lasthop.
    pub run: Option<String>,
}

/// The links of all experiments, by names of the programs at their ends.
#[derive(Debug)]
pub struct Stacks {
    all: Vec<Stack>,
    /// URL schemes by program.
    schemes: BTreeMap<String, &'static str>,
}

/// The most that any link may save, by all results of all experiments.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ceiling {
    /// CPU time in microseconds per segment: a reply with its request.
    segment: f64,
    /// CPU time in microseconds per connection.
    connection: f64,
    /// The factor by which a saving grows if each request wakes a process.
    waking: f64,
}

impl Ceiling {
    /// The limit for a link, in CPUs.
    fn cpus(self, link: &Link, load: &LinkLoad) -> f64 {
        let [there, back] = [load.to_server, load.to_client].map(|direction| direction.segments_per_second);
        (there.max(back) * self.segment + link.opened_per_second * self.connection) * self.waking / 1e6
    }
}

#[derive(Debug)]
struct Stack {
    experiment: String,
    /// `None` for the driver, which can stand for any client.
    from: Option<Vec<String>>,
    to: Vec<String>,
    /// The factor whose level is the number of requests over the link per request of the driver.
    requests: Option<String>,
    /// Further requests over a kept connection per request of the driver.
    besides: u32,
    /// How many ends of the link appear in the experiment's name.
    named: usize,
    /// Whether the reference goes over a bridge.
    bridge: bool,
}

impl Stacks {
    /// The links of all experiments whose ends are fixed servers.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Self {
        let recipes = catalog
            .recipe_names()
            .into_iter()
            .filter_map(|name| catalog.recipe(&name).ok());
        let mut named: BTreeMap<String, u32> = BTreeMap::new();
        for program in recipes.flat_map(|recipe| recipe.program.names) {
            *named.entry(program).or_default() += 1;
        }
        // A program of several recipes, such as an interpreter, does not identify a server.
        let common: BTreeSet<String> = named
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|(name, _)| name)
            .collect();
        let mut stacks = Self {
            all: Vec::new(),
            schemes: BTreeMap::new(),
        };
        for entry in catalog.list() {
            let Ok(experiment) = entry.experiment else { continue };
            let target = programs(&experiment, &experiment.load.target, &common).unwrap_or_default();
            let kind = PROTOCOLS.into_iter().find(|kind| kind.name == experiment.load.protocol);
            if let Some(scheme) = kind.and_then(|kind| kind.schemes.first()) {
                stacks
                    .schemes
                    .extend(target.into_iter().map(|program| (program, *scheme)));
            }
            stacks.all.extend(Stack::of(entry.name, &experiment, &common));
        }
        stacks
    }

    /// The command that compares both sockets of a link's server, if lasthop can write their URLs.
    fn compare(&self, link: &Link) -> Option<String> {
        let programs = &link.server.as_ref()?.programs;
        let scheme = programs.iter().find_map(|program| self.schemes.get(program))?;
        let urls = [
            format!("{scheme}://{}", link.address),
            format!("{scheme}+unix:{}", link.also.as_ref()?),
        ];
        // A shell takes these literally within quotes.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/:@+.,_-[]".contains(letter);
        let is_url = |text: &String| text.chars().all(is_plain) && url::parse(text, &UrlOptions::default()).is_ok();
        urls.iter()
            .all(is_url)
            .then(|| format!("lasthop compare {}", urls.map(|url| format!("'{url}'")).join(" ")))
    }

    /// The limit from all answers with a certain saving, scaled to this machine.
    fn ceiling(&self, answers: &Answers, speed: f64) -> Ceiling {
        let mut ceiling = Ceiling {
            segment: 0.0,
            connection: 0.0,
            waking: waking(answers).unwrap_or(WAKING),
        };
        for answer in &answers.answers {
            let Some(stack) = self.all.iter().find(|stack| stack.experiment == answer.experiment) else {
                continue;
            };
            for setting in answer.settings.iter().filter(|setting| setting.load.rate.is_none()) {
                let found = LEVELS.iter().find_map(|level| figures(setting, level));
                let is_long = setting.reply_bytes.is_some_and(|bytes| bytes > SEGMENT);
                let Some((saved, _)) = found.filter(|(saved, _)| saved.low > 0.0 && !is_long) else {
                    continue;
                };
                let most = elsewhere(saved, answer.machine.speed, speed).high;
                let reuse = reuse(setting, stack);
                if reuse != Some(Reuse::PerRequest) {
                    ceiling.segment = ceiling.segment.max(most / requests(setting, stack));
                }
                if reuse != Some(Reuse::KeepAlive) && setting.load.requests_per_connection == 1 {
                    ceiling.connection = ceiling.connection.max(most);
                }
            }
        }
        ceiling
    }

    /// The experiment with the most similar link: between the same two programs, else from any client to the same
    /// server.
    fn like(&self, link: &Link) -> Option<&Stack> {
        let fits = |stack: &&Stack| {
            let from = stack
                .from
                .as_ref()
                .is_none_or(|from| is_called(link.client.as_ref(), from));
            from && is_called(link.server.as_ref(), &stack.to)
        };
        let all = self.all.iter().filter(fits);
        all.min_by_key(|stack| {
            (
                stack.bridge != link.crosses,
                stack.from.is_none(),
                // An experiment about more than this link has fewer of its ends in the name.
                Reverse(stack.named),
                stack.experiment.len(),
            )
        })
    }
}

/// Names of a service's program, without `common` names, which do not identify it.
fn programs(experiment: &Experiment, service: &str, common: &BTreeSet<String>) -> Option<Vec<String>> {
    let recipe: &Recipe = experiment.recipes.get(&experiment.services.get(service)?.recipe)?;
    let names = recipe.program.names.iter().filter(|name| !common.contains(*name));
    Some(names.cloned().collect())
}

impl Stack {
    fn of(name: String, experiment: &Experiment, common: &BTreeSet<String>) -> Option<Self> {
        let programs = |service: &str| programs(experiment, service, common);
        let from = match experiment.services.contains_key(&experiment.link.from) {
            true => Some(programs(&experiment.link.from)?),
            false => None,
        };
        let path = experiment.factors.get(selection::PATH);
        let ends = [&experiment.link.from, &experiment.link.to].map(|end| experiment.services.get(end));
        let is_named = |service: &&Service| name.contains(&service.recipe);
        Some(Self {
            from,
            to: programs(&experiment.link.to)?,
            requests: experiment.link.requests.clone(),
            besides: experiment.link.besides,
            named: ends.into_iter().flatten().filter(is_named).count(),
            bridge: path.is_some_and(|path| {
                path.reference
                    .as_ref()
                    .is_some_and(|level| level.to_string() == LEVELS[1])
            }),
            experiment: name,
        })
    }

    /// The levels that distinguish a setting, with the fewest requests over the link per request of the driver.
    fn apart(&self, answer: &Answer, setting: &Setting) -> Vec<Choice> {
        let is_common = |factor: &str, level: &String| {
            let mut others = answer.settings.iter().map(|other| other.levels.get(factor));
            others.all(|other| other == Some(level))
        };
        let levels = setting
            .levels
            .iter()
            .filter(|(factor, level)| !is_common(factor, level));
        levels
            .map(|(factor, level)| Choice {
                factor: factor.clone(),
                levels: vec![match &self.requests {
                    Some(requests) if requests == factor => "1".to_owned(),
                    _ => level.clone(),
                }],
            })
            .collect()
    }
}

fn is_called(party: Option<&Party>, programs: &[String]) -> bool {
    party.is_some_and(|party| party.programs.iter().any(|program| programs.contains(program)))
}

/// The largest ratio of the saving per request at a rate to that at full load, in the same setting.
fn waking(answers: &Answers) -> Option<f64> {
    let saved = |setting: &Setting| {
        LEVELS
            .iter()
            .find_map(|level| Some(figures(setting, level)?.0.estimate))
    };
    let all = || {
        let all = answers.answers.iter();
        all.flat_map(|answer| answer.settings.iter().map(move |setting| (&answer.experiment, setting)))
    };
    let at_a_rate = all().filter(|(_, setting)| setting.load.rate.is_some());
    let ratios = at_a_rate.flat_map(|(experiment, setting)| {
        let full = all().filter(move |(other, full)| {
            *other == experiment && full.load.rate.is_none() && full.levels == setting.levels
        });
        full.filter_map(move |(_, full)| Some(saved(setting)? / saved(full).filter(|saved| *saved > 0.0)?))
    });
    ratios.reduce(f64::max).map(|ratio| ratio.max(1.0))
}

/// Sets the outlook of each link. `kept` are the answers that came with lasthop; `found` finds results of an
/// experiment.
pub fn judge(
    links: &mut [Link],
    stacks: &Stacks,
    kept: &Answers,
    here: &Here,
    mut found: impl FnMut(&str) -> Rc<Findings>,
) {
    let ceiling = stacks.ceiling(kept, here.speed);
    for link in links {
        link.outlook = Some(Outlook {
            compare: stacks.compare(link),
            ..outlook(link, stacks, ceiling, here, &mut found)
        });
    }
}

/// Runs that would tell more about these links: one run per experiment, chosen for its first link.
#[must_use]
pub fn unmeasured(links: &[Link]) -> Vec<Ask> {
    let mut wanted: Vec<Ask> = Vec::new();
    for ask in links.iter().filter_map(|link| link.outlook.as_ref()?.ask.as_ref()) {
        if wanted.iter().all(|other| other.experiment != ask.experiment) {
            wanted.push(ask.clone());
        }
    }
    wanted
}

impl Ask {
    /// A run at the link's rate, in the most similar setting. If an end is fully loaded, so is the experiment.
    fn of(link: &Link, load: &LinkLoad, stack: &Stack, like: Option<(&Answer, &Setting)>) -> Self {
        let mut selection = Selection::default();
        if is_light(link) {
            let each = match load.shape {
                Shape::KeepAlive => f64::from(1 + stack.besides),
                _ => 1.0,
            };
            selection.rate = match rate(link, load) {
                [least, most] if least == most => Rate::try_from(to_two_digits(most / each)).ok(),
                _ => None,
            };
            selection.set = like.map_or_else(Vec::new, |(answer, setting)| stack.apart(answer, setting));
        }
        Self {
            experiment: stack.experiment.clone(),
            selection,
        }
    }
}

/// Prints the command.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lasthop run {}", self.experiment)?;
        for Choice { factor, levels } in &self.selection.set {
            write!(f, " --set {factor}={}", levels.join(","))?;
        }
        match self.selection.rate {
            Some(rate) => write!(f, " --rate {rate}"),
            None => Ok(()),
        }
    }
}

fn to_two_digits(rate: f64) -> f64 {
    let power = rate.max(0.001).log10().floor() as i32 - 1;
    let unit = 10f64.powi(power.abs());
    if power < 0 {
        (rate * unit).round() / unit
    } else {
        (rate / unit).round() * unit
    }
}

/// Whether both ends mostly wait. A request then wakes a process, which costs more.
fn is_light(link: &Link) -> bool {
    let is_busy = |party: &Party| party.cpus.is_some_and(|cpus| cpus >= BUSY * f64::from(party.processes));
    ![&link.client, &link.server].into_iter().flatten().any(is_busy)
}

fn outlook(
    link: &Link,
    stacks: &Stacks,
    ceiling: Ceiling,
    here: &Here,
    found: &mut impl FnMut(&str) -> Rc<Findings>,
) -> Outlook {
    let say = Outlook::because;
    let cannot = |because: &str| say(Worth::CannotSay, because);
    if link.transport.is_unix() {
        return say(Worth::Already, "it is a Unix socket");
    }
    let ends = [&link.client, &link.server].map(|end| end.as_ref().and_then(|party| party.cpus));
    if let [Some(client), Some(server)] = ends
        && client + server < MATTERS
    {
        return say(
            Worth::DoesNotMatter,
            "both ends together use less than 1 % of a CPU, whatever they do",
        );
    }
    let Some(load) = &link.load else {
        return cannot("the kernel does not count what goes over UDP");
    };
    match load.shape {
        Shape::Idle => return say(Worth::DoesNotMatter, "nothing went over it"),
        _ if ceiling.cpus(link, load) < MATTERS => {
            return say(
                Worth::DoesNotMatter,
                "it has so few requests that the most which any experiment saved would be less than 1 % of a CPU",
            );
        }
        Shape::Stream => return cannot("data goes one way, and figures are of requests"),
        _ if link.server.is_none() => return cannot("nobody was seen to have the server's end"),
        _ => {}
    }
    let Some(stack) = stacks.like(link) else {
        return cannot("no experiment has this server");
    };
    let Findings { known: all, undecided } = &*found(&stack.experiment);
    let found = all.iter().find_map(|known| {
        let (saving, setting) = saving(link, load, stack, known, here)?;
        Some((
            saving,
            &known.run,
            Ask::of(link, load, stack, Some((&known.answer, setting))),
        ))
    });
    let Some((saving, run, ask)) = found else {
        let ask = Ask::of(link, load, stack, None);
        return Outlook {
            experiment: Some(stack.experiment.clone()),
            next: Some(ask.to_string()),
            ask: all.iter().all(|known| known.run.is_none()).then_some(ask),
            ..cannot(&match undecided {
                Some(run) => format!("your run {run} ended undecided, which takes a larger --budget"),
                None => "nothing like it was measured yet".to_owned(),
            })
        };
    };
    let is_of_another_load = saving.rate.is_none() && is_light(link);
    let (worth, because) = match saving.cpus {
        cpus if cpus.low >= MATTERS => (Worth::WorthIt, "it saves 1 % of a CPU or more"),
        cpus if is_of_another_load && (0.0..MATTERS).contains(&(cpus.high * ceiling.waking)) => (
            Worth::DoesNotMatter,
            "it saves less than 1 % of a CPU, also if a request that wakes somebody saves many times as much as at full load",
        ),
        _ if is_of_another_load => (
            Worth::CannotSay,
            "they are of full load, and this link has so little that each request wakes somebody, which costs more",
        ),
        cpus if cpus.high < MATTERS => (Worth::DoesNotMatter, "it saves less than 1 % of a CPU"),
        _ => (Worth::CannotSay, "the interval is on both sides of 1 % of a CPU"),
    };
    let (next, ask) = match (worth, run) {
        (Worth::DoesNotMatter, _) => (None, None),
        (Worth::WorthIt, Some(run)) => (Some(format!("lasthop show {run}")), None),
        // There may be a run here with this load.
        (_, run) => (
            Some(ask.to_string()),
            (run.is_none() || is_of_another_load).then_some(ask),
        ),
    };
    Outlook {
        worth,
        because: because.to_owned(),
        experiment: Some(stack.experiment.clone()),
        saving: Some(saving),
        next,
        compare: None,
        ask,
    }
}

/// The saving of a link by an answer's most similar settings, and the first of them.
fn saving<'a>(
    link: &Link,
    load: &LinkLoad,
    stack: &Stack,
    known: &'a Known,
    here: &Here,
) -> Option<(Saving, &'a Setting)> {
    let level = LEVELS[usize::from(link.crosses)];
    let wanted = match load.shape {
        Shape::PerRequest | Shape::Sessions => Reuse::PerRequest,
        _ => Reuse::KeepAlive,
    };
    let distance = |setting: &Setting| distance(link, load, stack, setting, wanted);
    let mut like: Vec<(&'a Setting, Interval, Option<Interval>)> = Vec::new();
    for setting in &known.answer.settings {
        let is_like = reuse(setting, stack).is_none_or(|reuse| reuse == wanted) && setting.load.pipeline == 1;
        let unix = is_like.then(|| figures(setting, level)).flatten();
        // With a connection per request of the driver, the connection is closed after all requests over the link.
        let each = match wanted {
            Reuse::KeepAlive => requests(setting, stack),
            Reuse::PerRequest => 1.0 / f64::from(setting.load.requests_per_connection),
        };
        like.extend(unix.map(|(cpu, response)| (setting, shared(cpu, each), response.map(|one| shared(one, each)))));
    }
    let nearest = like.iter().map(|(setting, ..)| distance(setting)).reduce(f64::min)?;
    like.retain(|(setting, ..)| distance(setting) <= nearest);
    let (setting, mut cpu_us, mut response_us) = *like.first()?;
    // Several settings may be equally similar: their intervals are joined.
    for (_, other, response) in &like[1..] {
        cpu_us = hull(cpu_us, *other);
        response_us = response_us.and_then(|one| Some(hull(one, (*response)?)));
    }
    if known.run.is_none() {
        let there = known.answer.machine.speed;
        cpu_us = elsewhere(cpu_us, there, here.speed);
        response_us = response_us.map(|response| elsewhere(response, there, here.speed));
    }
    let names: Vec<&str> = like.iter().map(|(setting, ..)| setting.name.as_str()).collect();
    let saving = Saving {
        cpu_us,
        cpus: times(cpu_us, rate(link, load)),
        response_us: response_us.filter(|_| setting.load.connections == 1),
        setting: names.join("; "),
        from: match &known.run {
            Some(run) => format!("your run {run}{}", apart(known, here)),
            None => format!(
                "another machine ({}){}",
                known.answer.machine.cpu_model,
                apart(known, here)
            ),
        },
        here: known.run.is_some(),
        rate: setting.load.rate,
    };
    Some((saving, setting))
}

/// Names conditions of TCP that differ from those here; empty if they are equal or unknown.
fn apart(known: &Known, here: &Here) -> String {
    match (&known.answer.machine.conditions, &here.conditions) {
        (Some(there), Some(here)) if there != here => {
            format!(", where loopback had other conditions ({there}) than here ({here})")
        }
        _ => String::new(),
    }
}

/// The distance of a setting from a link: the sum of logarithms of ratios, of the number of connections, the bytes of a
/// reply, and the turns of a short connection.
fn distance(link: &Link, load: &LinkLoad, stack: &Stack, setting: &Setting, wanted: Reuse) -> f64 {
    let ratio = |one: f64, other: f64| (one / other).ln().abs();
    let connections = ratio(
        link.connections.max(1) as f64,
        f64::from(setting.load.connections.max(1)),
    );
    let turns = load.turns_per_second_at_most;
    // A reply to the driver equals one over the link, unless it takes several.
    let bytes = match setting.reply_bytes.filter(|_| stack.requests.is_none() && turns > 0.0) {
        Some(bytes) => {
            let of_link = load.to_client.bytes_per_second / turns;
            ratio(bytes.max(SHORT_REPLY), of_link.max(SHORT_REPLY))
        }
        None => 0.0,
    };
    let each = turns / link.opened_per_second;
    let is_short = wanted == Reuse::PerRequest && stack.from.is_none() && each.is_finite();
    let turns = match is_short {
        true => ratio(each.max(1.0), f64::from(setting.load.requests_per_connection)),
        false => 0.0,
    };
    connections + bytes + turns
}

/// The reuse of connections over the link, if the setting's levels or load determine it.
fn reuse(setting: &Setting, stack: &Stack) -> Option<Reuse> {
    let level = setting.levels.get("reuse").and_then(|level| match level.as_str() {
        "per-request" => Some(Reuse::PerRequest),
        "keep-alive" => Some(Reuse::KeepAlive),
        _ => None,
    });
    level.or_else(|| stack.from.is_none().then_some(setting.load.reuse))
}

/// Requests over the link per request of the driver.
fn requests(setting: &Setting, stack: &Stack) -> f64 {
    let level = stack.requests.as_ref().and_then(|factor| setting.levels.get(factor));
    level.and_then(|level| level.parse().ok()).unwrap_or(1.0) + f64::from(stack.besides)
}

fn shared(figure: Interval, among: f64) -> Interval {
    figure.map(|value| rounded(value / among))
}

/// CPU time and response time that a Unix socket saves, if the setting's reference has this level.
fn figures(setting: &Setting, level: &str) -> Option<(Interval, Option<Interval>)> {
    setting.reference().filter(|reference| reference.level == level)?;
    let mut unix = setting
        .compared()
        .filter(|(case, _)| case.transport.is_unix() && !case.transport.is_tls());
    let (_, against) = unix.find(|(case, _)| !case.control)?;
    Some((against.cpu.as_ref()?.saved_us, against.saved_us))
}

/// The lowest and highest possible requests per second.
fn rate(link: &Link, load: &LinkLoad) -> [f64; 2] {
    match (load.shape, load.requests_per_second) {
        (Shape::Sessions, _) => [link.opened_per_second; 2],
        (_, Some(requests)) => [requests; 2],
        (_, None) => [0.0, load.turns_per_second_at_most],
    }
}

/// A saving in CPUs, from microseconds per request and requests per second.
fn times(us: Interval, [least, most]: [f64; 2]) -> Interval {
    let ends = [us.low * least, us.low * most, us.high * least, us.high * most];
    Interval {
        estimate: us.estimate * f64::midpoint(least, most),
        low: ends.iter().copied().fold(f64::INFINITY, f64::min),
        high: ends.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
    .map(|value| rounded(value / 1e6))
}

fn hull(one: Interval, other: Interval) -> Interval {
    Interval {
        estimate: f64::midpoint(one.estimate, other.estimate),
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    }
    .map(rounded)
}

/// Scales a time from another machine by the speed of both CPUs, and widens its interval by how much machines differ.
fn elsewhere(time: Interval, there: Option<f64>, here: f64) -> Interval {
    let (factor, wider) = match there {
        Some(there) if here > 0.0 => (there / here, ELSEWHERE),
        _ => (1.0, UNKNOWN_SPEED),
    };
    let further = |end: f64, down: bool| if (end > 0.0) == down { end / wider } else { end * wider };
    Interval {
        estimate: time.estimate * factor,
        low: further(time.low * factor, true),
        high: further(time.high * factor, false),
    }
    .map(rounded)
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::answers::answers;
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::{fixtures::link, links::Direction};

    /// Returns one answer for any experiment.
    fn found(known: Known) -> impl FnMut(&str) -> Rc<Findings> {
        let found = Rc::new(Findings {
            known: vec![known],
            undecided: None,
        });
        move |_| Rc::clone(&found)
    }

    /// Conditions under which the kept answers were measured.
    fn here(speed: f64) -> Here {
        Here {
            speed,
            conditions: Some("TCP: cubic, MTU 65,536; packet filter: none".to_owned()),
        }
    }

    fn shipped(experiment: &str) -> Known {
        let answer = answers().get(experiment).unwrap().clone();
        Known { answer, run: None }
    }

    fn figure(low: f64, high: f64) -> Interval {
        Interval {
            estimate: f64::midpoint(low, high),
            low,
            high,
        }
    }

    #[test]
    fn figures_of_another_machine_are_scaled_and_wider() {
        // A step takes twice as long here.
        let there = elsewhere(figure(10.0, 20.0), Some(300.0), 150.0);
        assert_eq!((there.low, there.estimate, there.high), (13.333_333_3, 30.0, 60.0));
        let cost = elsewhere(figure(-6.0, -3.0), Some(150.0), 150.0);
        assert_eq!((cost.low, cost.high), (-9.0, -2.0));
        let unknown = elsewhere(figure(-5.0, 10.0), None, 150.0);
        assert_eq!((unknown.low, unknown.high), (-12.5, 25.0));
    }

    #[test]
    fn the_experiment_about_a_link_is_the_one_with_its_name() {
        let stacks = Stacks::of(&Catalog::default());
        for (client, server, wanted) in [
            ("nginx", "gunicorn", "nginx-gunicorn"),
            ("node", "redis-server", "node-redis"),
            ("mine", "redis-server", "redis"),
            ("php-fpm", "mariadbd", "php-mariadb"),
        ] {
            let link = link(client, server, Transport::Tcp, Some(1.0));
            assert_eq!(stacks.like(&link).unwrap().experiment, wanted);
        }
    }

    /// An application sends several requests for each that it receives.
    #[test]
    fn figures_are_of_requests_over_the_link() {
        let answer = answers().get("node-redis").unwrap();
        let known = found(Known {
            answer: answer.clone(),
            run: None,
        });
        let mut links = [link("node", "redis-server", Transport::Tcp, Some(5_000.0))];
        // As fast as that machine.
        let speed = answer.machine.speed.unwrap();
        judge(
            &mut links,
            &Stacks::of(&Catalog::default()),
            answers(),
            &here(speed),
            known,
        );
        let saving = links[0].outlook.as_ref().unwrap().saving.as_ref().unwrap();
        let own = |statements: &str| {
            let setting = answer
                .settings
                .iter()
                .find(|setting| setting.levels["statements"] == statements);
            figures(setting.unwrap(), "tcp").unwrap().0.estimate / statements.parse::<f64>().unwrap()
        };
        for one in ["1", "5", "20"].map(own) {
            assert!(saving.cpu_us.low < one && one < saving.cpu_us.high, "{one}: {saving:?}");
        }
        let all = answer.settings.iter().filter_map(|setting| figures(setting, "tcp"));
        let most = all.map(|(cpu, _)| cpu.estimate).reduce(f64::max).unwrap();
        assert!(saving.cpu_us.high < most, "{most}: {saving:?}");
    }

    fn judged(cpus: f64, known: &Known) -> Outlook {
        let mut links = [link("node", "redis-server", Transport::Tcp, Some(794.0))];
        for party in [&mut links[0].client, &mut links[0].server].into_iter().flatten() {
            party.cpus = Some(cpus);
        }
        let speed = known.answer.machine.speed.unwrap();
        let found = found(known.clone());
        judge(
            &mut links,
            &Stacks::of(&Catalog::default()),
            answers(),
            &here(speed),
            found,
        );
        let [link] = links;
        link.outlook.unwrap()
    }

    /// Figures at full load say about an idle link only that they may be higher.
    #[test]
    fn a_link_is_asked_about_at_its_own_rate() {
        let mut answer = answers().get("node-redis").unwrap().clone();
        let shipped = Known {
            answer: answer.clone(),
            run: None,
        };
        let light = judged(0.2, &shipped);
        let command = "lasthop run node-redis --set statements=1 --rate 790";
        assert_eq!((light.worth, light.next.as_deref()), (Worth::CannotSay, Some(command)));
        assert_eq!(light.ask.unwrap().to_string(), command);
        let busy = judged(0.9, &shipped);
        assert_eq!((busy.worth, busy.ask), (Worth::DoesNotMatter, None));
        for setting in &mut answer.settings {
            setting.load.rate = Some(790.0);
        }
        let run = Some("20261120T100000-node-redis-1".to_owned());
        let known = judged(0.2, &Known { answer, run });
        assert_eq!((known.worth, known.next, known.ask), (Worth::DoesNotMatter, None, None));
    }

    /// Few requests matter on no server, known or not; many may.
    #[test]
    fn a_ceiling_decides_what_cannot_matter() {
        let stacks = Stacks::of(&Catalog::default());
        let known = shipped("redis");
        let speed = known.answer.machine.speed.unwrap();
        for (server, rate, wanted) in [
            ("redis-server", 0.2, Worth::DoesNotMatter),
            ("somebody's", 0.2, Worth::DoesNotMatter),
            ("redis-server", 40.0, Worth::DoesNotMatter),
            ("somebody's", 5_000.0, Worth::CannotSay),
        ] {
            let mut links = [link("mine", server, Transport::Tcp, Some(rate))];
            judge(&mut links, &stacks, answers(), &here(speed), found(known.clone()));
            let outlook = links[0].outlook.as_ref().unwrap();
            assert_eq!(outlook.worth, wanted, "{server} {rate}: {outlook:?}");
            assert_eq!(outlook.next, None, "{server} {rate}");
        }
        // A request per second whose reply has as many segments as a thousand requests.
        let mut bulk = link("mine", "somebody's", Transport::Tcp, Some(1.0));
        bulk.load.as_mut().unwrap().to_client.segments_per_second = 1_000.0;
        let mut links = [bulk];
        judge(&mut links, &stacks, answers(), &here(speed), found(known));
        assert_eq!(links[0].outlook.as_ref().unwrap().worth, Worth::CannotSay);
    }

    #[test]
    fn the_ceiling_is_that_of_the_answers() {
        let stacks = Stacks::of(&Catalog::default());
        let mut kept = Answers::of(vec![shipped("redis").answer]);
        let answer = &mut kept.answers[0];
        let (there, mut one) = (answer.machine.speed, answer.settings[0].clone());
        one.levels.clear();
        one.load.reuse = Reuse::KeepAlive;
        let set = |setting: &mut Setting, saved| {
            let case = setting.cases.iter_mut().find(|case| case.transport == Transport::Unix);
            case.unwrap().against.as_mut().unwrap().cpu.as_mut().unwrap().saved_us = saved;
        };
        let with = |saved, rate, reply_bytes| {
            let mut one = one.clone();
            set(&mut one, saved);
            one.load.rate = rate;
            one.reply_bytes = reply_bytes;
            one
        };
        answer.settings = vec![
            with(figure(4.0, 8.0), None, None),
            with(figure(-9.0, 900.0), None, None),
            with(figure(400.0, 900.0), None, Some(1e6)),
        ];
        let ceiling = |kept: &Answers| stacks.ceiling(kept, there.unwrap());
        let wanted = Ceiling {
            segment: 8.0 * ELSEWHERE,
            connection: 0.0,
            waking: WAKING,
        };
        assert_eq!(ceiling(&kept), wanted);
        kept.answers[0].settings.truncate(1);
        kept.answers[0]
            .settings
            .push(with(figure(17.0, 19.0), Some(100.0), None));
        assert_eq!(ceiling(&kept), Ceiling { waking: 3.0, ..wanted });
    }

    /// A query is not compared to a result of 100,000 rows from the same experiment.
    #[test]
    fn the_setting_is_the_one_nearest_in_bytes_and_in_its_use_of_connections() {
        let known = shipped("postgres");
        let speed = known.answer.machine.speed.unwrap();
        let setting = |shape, turns: f64, bytes: f64, opened: f64| {
            let mut one = link("pgbench", "postgres", Transport::Tcp, Some(turns));
            let load = one.load.as_mut().unwrap();
            load.shape = shape;
            load.to_client = Direction {
                bytes_per_second: bytes * turns,
                ..load.to_client
            };
            one.opened_per_second = opened;
            let mut links = [one];
            let stacks = Stacks::of(&Catalog::default());
            judge(&mut links, &stacks, answers(), &here(speed), found(known.clone()));
            links[0]
                .outlook
                .as_ref()
                .unwrap()
                .saving
                .as_ref()
                .unwrap()
                .setting
                .clone()
        };
        assert_eq!(setting(Shape::KeepAlive, 5_000.0, 70.0, 0.0), "query, 1 connection");
        assert_eq!(setting(Shape::KeepAlive, 300.0, 8e5, 0.0), "one result, 50,000 rows");
        assert_eq!(setting(Shape::KeepAlive, 300.0, 2e6, 0.0), "one result, 100,000 rows");
        let connects = setting(Shape::Sessions, 3_000.0, 200.0, 1_000.0);
        assert_eq!(connects, "connect, trust; connect, password-scram");
        let many = setting(Shape::Sessions, 4_000.0, 70.0, 100.0);
        assert_eq!(many, "one connection, 100 queries");
    }

    /// A packet filter makes TCP, and so each saving, more expensive.
    #[test]
    fn other_conditions_are_said() {
        let mut known = shipped("redis");
        let there = "TCP: bbr, MTU 65,536; packet filter: 6 chains, 5 rules, connection tracking";
        known.answer.machine.conditions = Some(there.to_owned());
        let here = here(1.0);
        let said = apart(&known, &here);
        assert!(said.contains(there) && said.contains("than here (TCP: cubic"), "{said}");
        known.answer.machine.conditions.clone_from(&here.conditions);
        assert_eq!(apart(&known, &here), "");
        known.answer.machine.conditions = None;
        assert_eq!(apart(&known, &here), "");
    }

    #[test]
    fn what_is_saved_is_never_more_than_counted() {
        let exact = times(figure(10.0, 20.0), [1000.0; 2]);
        assert_eq!((exact.low, exact.estimate, exact.high), (0.01, 0.015, 0.02));
        let most = times(figure(10.0, 20.0), [0.0, 1000.0]);
        assert_eq!((most.low, most.high), (0.0, 0.02));
        let both = times(figure(-10.0, 20.0), [0.0, 1000.0]);
        assert_eq!((both.low, both.high), (-0.01, 0.02));
    }
}
