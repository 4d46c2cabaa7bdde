//! What changed from one survey to another: did a change save what was said?

use std::collections::{BTreeMap, BTreeSet};

use lasthop_model::quantity::joined;
use lasthop_page::{
    document::{Block, Columns, Document, Row, Section, Table, Text, Tone},
    units::{NBSP, NONE, Seconds, Significant, significant},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    links::{Link, Party, Survey},
    page::{counted_out, is_busy, items, section},
    saving::Saving,
};

/// More addresses of a link than these are counted.
const SHOWN: usize = 2;

/// Two surveys of a machine: what went over its links before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SurveyDiff {
    /// `lasthop-survey-diff/1`
    pub schema: String,
    pub before: Side,
    pub after: Side,
    /// The busiest first.
    pub links: Vec<Change>,
}

/// One of the two surveys.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// When it ended, RFC 3339.
    pub ended: String,
    /// Seconds that were watched.
    pub seconds: f64,
}

/// All that went from a client to a server. The two surveys know them by their names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// `nginx → gunicorn`
    pub name: String,
    /// Absent if there was no such link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<State>,
    /// Absent if there is none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<State>,
    /// What that brought, if the client went from TCP to a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Whether nothing or little went over it, both times.
    pub idle: bool,
}

/// What a survey says of a client and a server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct State {
    /// Where the server was reached.
    pub addresses: Vec<String>,
    /// Absent where they were not counted: over Unix sockets, UDP, and where segments do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// CPU time per second of both ends, over all that they did; 1 is one CPU. Absent if an end is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The same per request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
}

/// A change from TCP to a Unix socket.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// What the survey before had said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Saving>,
    /// Absent if requests or CPU time of one of the surveys are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
    /// Whether that is what was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
}

/// The difference of two measurements, which has no interval. Negative figures are costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Saved {
    /// CPU time per request, in microseconds.
    pub cpu_us: f64,
    /// CPUs, at the requests per second of before.
    pub cpus: f64,
    /// Requests were not counted after the change, and taken to be as many as before.
    pub same_rate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// What was saved is within the interval that was predicted.
    Kept,
    /// Less was saved.
    Less,
    /// More was saved.
    More,
}

impl SurveyDiff {
    #[must_use]
    pub fn of(before: &Survey, after: &Survey) -> Self {
        let arrived = attributed(before, after);
        let [old, new] = [&before.links, &arrived].map(|links| by_name(links));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let none = Vec::new();
        let of = |name: &String| {
            let [old, new] = [&old, &new].map(|links| links.get(name).unwrap_or(&none).as_slice());
            Change::of(name, old, new)
        };
        let mut links: Vec<Change> = names.into_iter().map(of).collect();
        links.sort_by(|one, other| other.weight().total_cmp(&one.weight()));
        let side = |survey: &Survey| Side {
            ended: survey.ended.clone(),
            seconds: survey.seconds,
        };
        Self {
            schema: "lasthop-survey-diff/1".to_owned(),
            before: side(before),
            after: side(after),
            links,
        }
    }
}

/// The links after a change. Connections over a Unix socket may be too short to see whose they are: their client is then
/// the only one that was seen at that socket, else the only one that has left this server.
fn attributed(before: &Survey, after: &Survey) -> Vec<Link> {
    let clients = |survey: &Survey, is_like: &dyn Fn(&Link) -> bool| -> BTreeMap<String, Party> {
        let clients = survey.links.iter().filter(|link| is_like(link));
        let clients = clients.filter_map(|link| link.client.clone());
        clients.map(|party| (party.name.clone(), party)).collect()
    };
    let server = |link: &Link| link.server.as_ref().map(|party| party.name.clone());
    let known = |name: &str| {
        let ends = after.links.iter().flat_map(|link| [&link.client, &link.server]);
        ends.flatten().find(|party| party.name == name).cloned()
    };
    let mut links = after.links.clone();
    let is_unseen = |link: &&mut Link| link.client.is_none() && link.transport.is_unix();
    for link in links.iter_mut().filter(is_unseen) {
        let mut found = clients(after, &|one| one.address == link.address);
        if found.is_empty() {
            let is_its = |one: &Link| server(one) == server(link);
            let stayed = clients(after, &is_its);
            found = clients(before, &is_its);
            found.retain(|name, _| !stayed.contains_key(name));
        }
        if let (Some((name, party)), true) = (found.pop_first(), found.is_empty()) {
            // Groups of before are others.
            let unseen = Party {
                cpus: None,
                group: usize::MAX,
                ..party
            };
            link.client = known(&name).or(Some(unseen));
        }
    }
    links
}

fn by_name(links: &[Link]) -> BTreeMap<String, Vec<&Link>> {
    let mut all: BTreeMap<String, Vec<&Link>> = BTreeMap::new();
    for link in links {
        all.entry(link.name()).or_default().push(link);
    }
    all
}

impl Change {
    fn of(name: &str, old: &[&Link], new: &[&Link]) -> Self {
        let [before, after] = [old, new].map(State::of);
        let moved = moved(old, new).map(|left| Moved::of(left, before.as_ref(), after.as_ref()));
        Self {
            name: name.to_owned(),
            before,
            after,
            moved,
            idle: ![old, new].concat().into_iter().any(is_busy),
        }
    }

    /// Puts the links in their order.
    fn weight(&self) -> f64 {
        let states = [&self.before, &self.after].into_iter().flatten();
        let rates = states.map(|state| state.requests_per_second.unwrap_or(0.0));
        rates.fold(0.0, f64::max)
    }
}

/// The link over TCP that was left for a Unix socket.
fn moved<'a>(old: &[&'a Link], new: &[&Link]) -> Option<&'a Link> {
    let is_kept = |link: &Link| new.iter().any(|now| now.address == link.address && is_busy(now));
    let has_left = |link: &Link| !link.transport.is_unix() && is_busy(link) && !is_kept(link);
    let left = old.iter().copied().find(|link| has_left(link))?;
    new.iter().any(|link| link.transport.is_unix()).then_some(left)
}

impl State {
    fn of(links: &[&Link]) -> Option<Self> {
        let requests = links.iter().map(|link| link.load.as_ref()?.requests_per_second);
        let requests_per_second: Option<f64> = requests.sum();
        let ends = links.iter().flat_map(|link| [&link.client, &link.server]);
        // A group of processes counts once, on however many links.
        let used = |end: &Option<Party>| end.as_ref().and_then(|party| Some((party.group, party.cpus?)));
        let used: Option<BTreeMap<_, f64>> = ends.map(used).collect();
        let cpus = used.map(|used| used.values().sum());
        let each = |cpus: f64| Some(cpus * 1e6 / requests_per_second.filter(|rate| *rate > 0.0)?);
        (!links.is_empty()).then(|| Self {
            addresses: links.iter().map(|link| link.address.clone()).collect(),
            requests_per_second,
            cpus,
            cpu_us: cpus.and_then(each),
        })
    }
}

impl Moved {
    fn of(left: &Link, before: Option<&State>, after: Option<&State>) -> Self {
        let predicted = left.outlook.as_ref().and_then(|outlook| outlook.saving.clone());
        let saved = before.zip(after).and_then(|(before, after)| Saved::of(before, after));
        let promise = predicted.as_ref().zip(saved).map(|(said, saved)| match saved.cpu_us {
            us if us < said.cpu_us.low => Promise::Less,
            us if us > said.cpu_us.high => Promise::More,
            _ => Promise::Kept,
        });
        Self {
            predicted,
            saved,
            promise,
        }
    }

    fn told(&self, name: &str) -> String {
        let said = self.predicted.as_ref().map_or_else(
            || "nothing was predicted".to_owned(),
            |Saving { cpu_us, from, .. }| {
                let [low, high] = [cpu_us.low, cpu_us.high].map(|end| significant(end, 2));
                format!("{low} to {high}{NBSP}µs a request were predicted (figures from {from})")
            },
        );
        let Some(saved) = &self.saved else {
            return format!(
                "{name}: {said}; what was saved cannot be said: requests/s of before or CPU time of an end is not known"
            );
        };
        let promise = match self.promise {
            Some(Promise::Kept) => ", as predicted",
            Some(Promise::Less) => ", less than predicted",
            Some(Promise::More) => ", more than predicted",
            None => "",
        };
        let [us, share] = [saved.cpu_us, saved.cpus * 100.0].map(|value| significant(value, 2));
        let same = if saved.same_rate {
            ", if there were as many requests as before: none are counted on a Unix socket"
        } else {
            ""
        };
        format!("{name}: {said}; {us}{NBSP}µs were saved{promise}, which is {share}{NBSP}% of a CPU{same}")
    }
}

impl Saved {
    fn of(before: &State, after: &State) -> Option<Self> {
        let rate = before.requests_per_second?;
        let now = after.requests_per_second.filter(|rate| *rate > 0.0);
        let cpu_us = before.cpu_us? - after.cpus? * 1e6 / now.unwrap_or(rate);
        Some(Self {
            cpu_us,
            cpus: cpu_us * rate / 1e6,
            same_rate: now.is_none(),
        })
    }
}

/// The document of a comparison; `all` with the links that nothing or little went over.
#[must_use]
pub fn document(diff: &SurveyDiff, all: bool) -> Document {
    let (shown, idle): (Vec<&Change>, Vec<&Change>) = diff.links.iter().partition(|change| all || !change.idle);
    let mut blocks = if shown.is_empty() {
        vec![Block::Paragraph("Nothing went over any link, before or after.".into())]
    } else {
        vec![Block::Table(table(&shown))]
    };
    blocks.extend(counted_out(idle.len()));
    blocks.push(Block::legend(
        "CPU: of one CPU, that both ends used for all that they did. A difference of two surveys has no interval.",
    ));
    let moved = shown
        .iter()
        .filter_map(|change| Some(change.moved.as_ref()?.told(&change.name)))
        .collect();
    let side = |side: &Side| format!("{}, {}", side.ended, Seconds(side.seconds));
    let mut sections = vec![section(None, blocks), section(Some("Saved"), items(moved))];
    sections.retain(|section: &Section| !section.blocks.is_empty());
    Document {
        title: "Local links, before and after".to_owned(),
        subtitle: Text::of(
            Tone::Dim,
            format!("before: {}; after: {}", side(&diff.before), side(&diff.after)),
        ),
        sections,
    }
}

fn table(changes: &[&Change]) -> Table {
    let each = |cell: &dyn Fn(&State) -> Option<String>| -> Vec<String> {
        let both = |change: &&Change| {
            [&change.before, &change.after]
                .map(|state| state.as_ref().map(|state| cell(state).unwrap_or(NONE.to_owned())))
        };
        changes.iter().map(|change| arrow(both(change))).collect()
    };
    let columns = Columns::default()
        .left("link", changes.iter().map(|change| change.name.clone()))
        .left("over", each(&|state| Some(addresses(state))))
        .right(
            "requests/s",
            each(&|state| Some(Significant(state.requests_per_second?).to_string())),
        )
        .right(
            "CPU",
            each(&|state| Some(format!("{}{NBSP}%", significant(state.cpus? * 100.0, 2)))),
        )
        .right(
            "CPU a request",
            each(&|state| Some(format!("{}{NBSP}µs", significant(state.cpu_us?, 3)))),
        );
    let (columns, rows) = columns.into_rows();
    Table {
        columns,
        rows: rows.into_iter().map(Row::Cells).collect(),
    }
}

/// `127.0.0.1:8000, /run/app.sock and 2 more`
fn addresses(state: &State) -> String {
    let shown = joined(state.addresses.iter().take(SHOWN).map(String::as_str), ", ");
    match state.addresses.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `430 → 428`, or once what is the same; a link that came or went has one side.
fn arrow(both: [Option<String>; 2]) -> String {
    match both {
        [Some(before), Some(after)] if before == after => before,
        [Some(before), Some(after)] => format!("{before} → {after}"),
        [Some(before), None] => format!("{before} → gone"),
        [None, Some(after)] => format!("new → {after}"),
        [None, None] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::answers::Figure;
    use lasthop_protocol::spec::Transport;

    use super::*;
    use crate::{
        fixtures::{link, predicted, survey},
        links::Link,
    };

    fn with_cpus(mut link: Link, cpus: f64) -> Link {
        for end in [&mut link.client, &mut link.server] {
            end.as_mut().unwrap().cpus = Some(cpus / 2.0);
        }
        link
    }

    fn moved(saves: f64) -> Moved {
        let old = with_cpus(link("nginx", "app", Transport::Tcp, Some(1000.0)), 0.5);
        let old = predicted(old, Figure::of(50.0, 40.0, 60.0));
        let new = with_cpus(link("nginx", "app", Transport::Unix, None), 0.5 - saves);
        let diff = SurveyDiff::of(&survey(vec![old]), &survey(vec![new]));
        assert_eq!(diff.links.len(), 1);
        diff.links[0].moved.clone().unwrap()
    }

    #[test]
    fn a_promise_is_held_against_what_was_saved() {
        for (saves, promise) in [
            (0.050, Promise::Kept),
            (0.030, Promise::Less),
            (0.070, Promise::More),
            (-0.020, Promise::Less),
        ] {
            let moved = moved(saves);
            let saved = moved.saved.unwrap();
            assert_eq!(moved.promise, Some(promise), "{saves}");
            assert!((saved.cpu_us - saves * 1e3).abs() < 1e-6 && (saved.cpus - saves).abs() < 1e-9);
            assert!(saved.same_rate);
        }
    }

    /// Connections to the application are too short to see that they are nginx's.
    #[test]
    fn a_client_that_nobody_saw_is_the_one_that_has_left() {
        let front = link("browser", "nginx", Transport::Tcp, Some(1000.0));
        let old = link("nginx", "app", Transport::Tcp, Some(1000.0));
        let mut new = link("nginx", "app", Transport::Unix, None);
        new.client = None;
        let before = survey(vec![front.clone(), old.clone()]);
        let names = |after: Vec<Link>| -> Vec<String> {
            let diff = SurveyDiff::of(&before, &survey(after));
            diff.links.into_iter().map(|change| change.name).collect()
        };
        assert_eq!(
            names(vec![front.clone(), new.clone()]),
            ["browser → nginx", "nginx → app"]
        );
        let diff = SurveyDiff::of(&before, &survey(vec![front, new.clone()]));
        assert_eq!(diff.links[1].moved.as_ref().unwrap().saved.unwrap().cpu_us, 0.0);
        // Some of the connections were seen.
        let seen = link("nginx", "app", Transport::Unix, None);
        assert_eq!(names(vec![seen, new.clone()]), ["browser → nginx", "nginx → app"]);
        // nginx is still there over TCP.
        assert_eq!(
            names(vec![old, new]),
            ["browser → nginx", "nginx → app", "unknown → app"]
        );
    }

    #[test]
    fn links_are_matched_by_name() {
        let old = [
            ("web", "db", Transport::Tcp, 10.0),
            ("web", "old", Transport::Tcp, 20.0),
        ];
        let new = [("web", "db", Transport::Tcp, 30.0), ("web", "new", Transport::Tcp, 5.0)];
        let [before, after] = [old, new].map(|links| {
            let links = links.map(|(client, server, transport, rate)| link(client, server, transport, Some(rate)));
            survey(links.to_vec())
        });
        let diff = SurveyDiff::of(&before, &after);
        let told = |change: &Change| {
            let rate = |state: &Option<State>| state.as_ref().and_then(|state| state.requests_per_second);
            (change.name.clone(), rate(&change.before), rate(&change.after))
        };
        assert_eq!(
            diff.links.iter().map(told).collect::<Vec<_>>(),
            [
                ("web → db".to_owned(), Some(10.0), Some(30.0)),
                ("web → old".to_owned(), Some(20.0), None),
                ("web → new".to_owned(), None, Some(5.0)),
            ]
        );
        assert!(diff.links.iter().all(|change| change.moved.is_none()));
    }
}
