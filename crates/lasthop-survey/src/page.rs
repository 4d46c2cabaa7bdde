//! A survey for people, and as CSV.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use lasthop_model::quantity::counted;
use lasthop_page::{
    columns::Columns,
    document::{Block, Cell, Depth, Document, Section, Table, Text, Tone},
    html,
    units::{Bytes, Count, NBSP, NONE, Seconds, Significant, significant},
};
use lasthop_stats::Interval;
use serde_json::Value;

use super::{
    graph,
    links::{Link, LinkLoad, Party, Shape, Survey},
    saving::{Outlook, Saving, Worth},
};

/// The share of a CPU that both ends of a link without counters must use for it to be shown.
const BUSY: f64 = 0.005;

/// The most names in a line.
const NAMES: usize = 5;

/// The page of a survey, with a picture of its links.
#[must_use]
pub fn page(survey: &Survey, all: bool) -> Vec<u8> {
    html::document_with(&document(survey, all), &graph::figure(&busy(survey, all)))
}

/// Links with traffic, or all.
fn busy(survey: &Survey, all: bool) -> Vec<&Link> {
    survey.links.iter().filter(|link| all || is_busy(link)).collect()
}

/// The document of a survey; `all` includes links with little or no traffic, or without known savings.
#[must_use]
pub fn document(survey: &Survey, all: bool) -> Document {
    let busy = busy(survey, all);
    let names = Names::of(&busy);
    let (shown, unknown): (Vec<&Link>, Vec<&Link>) = busy.iter().partition(|link| all || is_known(link));
    let mut blocks = Vec::new();
    if busy.is_empty() {
        let root = if survey.root_sees_more {
            " Root sees more: `sudo lasthop survey`."
        } else {
            ""
        };
        let seen = format!("Nothing went over any link that lasthop can see.{root}");
        blocks.push(Block::Paragraph(seen.into()));
    } else if !shown.is_empty() {
        blocks.push(Block::Table(table(&shown, all)));
    }
    blocks.extend(nothing_known(&unknown, &names));
    blocks.extend(counted_out(survey.links.len() - busy.len()));
    blocks.extend(legend(&shown, all).map(Block::legend));
    let mut sections = vec![
        section(None, blocks),
        section(Some("Why"), items(reasons(&shown, &names))),
        section(Some("Next"), items(next(&busy, &names))),
        section(Some("Not seen"), items(survey.missing.clone())),
    ];
    sections.retain(|section| !section.blocks.is_empty());
    Document {
        title: advice(&busy),
        subtitle: Text::of(
            Tone::Dim,
            format!("Local links of this machine, watched for {}", Seconds(survey.seconds)),
        ),
        sections,
    }
}

/// The number of links worth a Unix socket, in a sentence. Figures from another machine make it a guess.
fn advice(shown: &[&Link]) -> Text {
    let worth = |wanted: Worth| {
        let all = shown.iter().filter_map(|link| link.outlook.as_ref());
        all.filter(move |outlook| outlook.worth == wanted)
    };
    let count = worth(Worth::WorthIt).count();
    let is_guess = worth(Worth::WorthIt).any(is_elsewhere);
    let already = match worth(Worth::Already).count() {
        0 => String::new(),
        1 => "; 1 has one".to_owned(),
        many => format!("; {many} have one"),
    };
    let (tone, said) = match count {
        _ if shown.is_empty() => (Tone::Strong, "No traffic was seen".to_owned()),
        0 => (
            Tone::Strong,
            format!("No link is known to be worth a Unix socket{already}"),
        ),
        _ => {
            let are = if count == 1 { "is" } else { "are" };
            let perhaps = if is_guess { " probably" } else { "" };
            let links = counted(count as u64, "link");
            (
                Tone::Good,
                format!("{links} {are}{perhaps} worth a Unix socket{already}"),
            )
        }
    };
    Text::of(tone, said + ".")
}

/// Whether the figures were measured on another machine.
fn is_elsewhere(outlook: &Outlook) -> bool {
    outlook.saving.as_ref().is_some_and(|saving| !saving.here)
}

fn section(title: Option<&str>, blocks: Vec<Block>) -> Section {
    Section {
        title: title.map(str::to_owned),
        depth: Depth::Open,
        blocks,
    }
}

fn items(lines: Vec<String>) -> Vec<Block> {
    lines.into_iter().map(|line| Block::Item(line.into())).collect()
}

/// Whether anything is known about a link's saving.
fn is_known(link: &Link) -> bool {
    let outlook = link.outlook.as_ref();
    outlook.is_some_and(|outlook| outlook.experiment.is_some() || outlook.worth != Worth::CannotSay)
}

/// Links that no experiment resembles, if any.
fn nothing_known(links: &[&Link], names: &Names) -> Option<Block> {
    let all: IndexSet<String> = links.iter().map(|link| names.of_link(link)).collect();
    let more = "`--verbose` shows them.";
    (!links.is_empty()).then(|| {
        Block::legend(format!(
            "No experiment says what a Unix socket would save on {}; {more}",
            listed(&all)
        ))
    })
}

/// The number of links left out of a table, if any.
fn counted_out(idle: usize) -> Option<Block> {
    let links = counted(idle as u64, "idle link");
    (idle > 0).then(|| Block::legend(format!("Not shown: {links}, for --verbose.")))
}

fn is_busy(link: &Link) -> bool {
    match &link.load {
        Some(load) => load.shape != Shape::Idle,
        None => [&link.client, &link.server]
            .iter()
            .all(|party| party.as_ref().and_then(|party| party.cpus) > Some(BUSY)),
    }
}

fn table(links: &[&Link], all: bool) -> Table {
    let mut columns = Columns::of(links)
        .left("link", |link| link.name())
        .left("over", |link| over(link))
        .right("requests/s", |link| {
            link.load.as_ref().map_or_else(|| NONE.to_owned(), requests)
        });
    if all {
        columns = columns
            .left("connections", |link| connections(link))
            .right("CPU", |link| cpus(link));
    }
    columns
        .right("µs/req saved", |link| saved(link, |saving| saving.cpu_us))
        .right("% of a CPU", |link| saved(link, |saving| saving.cpus.times(100.0)))
        .joined("verdict", |link| verdict(link.outlook.as_ref()))
        .table()
}

/// A saving in words: `8.1 to 9.9`.
fn saved(link: &Link, of: impl Fn(&Saving) -> Interval) -> String {
    let saving = link.outlook.as_ref().and_then(|outlook| outlook.saving.as_ref());
    saving.map_or_else(
        || NONE.to_owned(),
        |saving| {
            let Interval { low, high, .. } = of(saving);
            format!("{} to {}", significant(low, 2), significant(high, 2))
        },
    )
}

fn verdict(outlook: Option<&Outlook>) -> Cell {
    outlook.map_or_else(Cell::default, |outlook| match outlook.worth {
        Worth::WorthIt if is_elsewhere(outlook) => Cell::new(Tone::Good, "probably worth it"),
        Worth::WorthIt => Cell::new(Tone::Good, "worth it"),
        Worth::DoesNotMatter => Cell::new(Tone::Dim, "does not matter"),
        Worth::Already => Cell::new(Tone::Dim, "already"),
        Worth::CannotSay => Cell::new(Tone::Warning, "cannot say"),
    })
}

/// Names in words: `a → b, c → d and 7 more`.
fn listed(names: &IndexSet<String>) -> String {
    let first: Vec<&str> = names.iter().map(String::as_str).take(NAMES).collect();
    match names.len().saturating_sub(NAMES) {
        0 => first.join(", "),
        more => format!("{} and {} more", first.join(", "), Count(more as u64)),
    }
}

/// The number of links by name.
struct Names(HashMap<String, u32>);

impl Names {
    fn of(links: &[&Link]) -> Self {
        let mut names = HashMap::new();
        links
            .iter()
            .for_each(|link| *names.entry(link.name()).or_default() += 1);
        Self(names)
    }

    /// The name of a link, with its address if another has the same name.
    fn of_link(&self, link: &Link) -> String {
        let name = link.name();
        match self.0.get(&name) {
            Some(2..) => format!("{name} over {}", link.address),
            _ => name,
        }
    }
}

/// The reason of each verdict; links with the same reason share a line.
fn reasons(links: &[&Link], names: &Names) -> Vec<String> {
    let mut said: IndexMap<String, IndexSet<String>> = IndexMap::new();
    for link in links {
        let Some(outlook) = &link.outlook else { continue };
        let reason = match (&outlook.saving, outlook.worth) {
            (Some(saving), _) => {
                let experiment = outlook.experiment.as_deref().unwrap_or_default();
                let setting = if saving.setting.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", saving.setting)
                };
                format!(
                    "figures of {experiment}{setting} from {}; {}",
                    saving.from, outlook.because
                )
            }
            (None, Worth::CannotSay | Worth::DoesNotMatter) => outlook.because.clone(),
            (None, _) => continue,
        };
        said.entry(reason).or_default().insert(names.of_link(link));
    }
    said.into_iter()
        .map(|(reason, names)| format!("{}: {reason}", listed(&names)))
        .collect()
}

/// Distinct commands for further measurements.
fn next(links: &[&Link], names: &Names) -> Vec<String> {
    let mut said: IndexMap<String, IndexSet<String>> = IndexMap::new();
    for link in links {
        if let Some(command) = link.outlook.as_ref().and_then(|outlook| outlook.next.as_ref()) {
            let what = if command.contains(" show ") {
                "the configuration, and what must be true for it"
            } else {
                "measures it here"
            };
            let said = said.entry(format!("`{command}`: {what}")).or_default();
            said.insert(names.of_link(link));
        }
        if let (Some(also), false) = (&link.also, link.transport.is_unix()) {
            let command = link.outlook.as_ref().and_then(|outlook| outlook.compare.as_deref());
            let command = command.unwrap_or("lasthop compare");
            let also = format!("`{command}`: puts load on the server both ways, since it listens at {also}, too");
            said.entry(also).or_default().insert(names.of_link(link));
        }
    }
    said.into_iter()
        .map(|(what, names)| format!("{what} ({})", listed(&names)))
        .collect()
}

/// Address of a link: `127.0.0.1:8000`, `172.18.0.3:8080 (bridge)`, `127.0.0.1:80 → 172.18.0.3:8080 (bridge)`
fn over(link: &Link) -> String {
    let published = link.published.iter().map(|address| format!("{address} → "));
    let suffix = if link.crosses { " (bridge)" } else { "" };
    format!("{}{}{suffix}", published.collect::<String>(), link.address)
}

/// Traffic in words: `430/s`, `≤ 430/s`, `3.4 MB/s`; `None` if the kernel does not count it.
pub(super) fn rate(link: &Link) -> Option<String> {
    let load = link.load.as_ref()?;
    let requests = requests(load);
    Some(if load.shape == Shape::Stream {
        requests
    } else {
        requests + "/s"
    })
}

/// Requests per second in words: `430`, `≤ 430`, `3.4 MB/s`.
fn requests(load: &LinkLoad) -> String {
    let most = Significant(load.turns_per_second_at_most);
    match (load.shape, load.requests_per_second) {
        (Shape::Stream, _) => {
            let bytes = load.to_server.bytes_per_second + load.to_client.bytes_per_second;
            format!("{}/s", Bytes(bytes as u64))
        }
        (_, Some(requests)) => Significant(requests).to_string(),
        (_, None) => format!("≤{NBSP}{most}"),
    }
}

/// Connections in words: `4 kept`, `one a request`, `3.2/s`.
fn connections(link: &Link) -> String {
    let open = Count(link.connections);
    match link.load.map(|load| load.shape) {
        None => open.to_string(),
        Some(Shape::Idle) => format!("{open} idle"),
        Some(Shape::PerRequest) => "one a request".to_owned(),
        Some(Shape::Sessions) => format!("{}/s", Significant(link.opened_per_second)),
        Some(Shape::KeepAlive | Shape::Unclear) => format!("{open} kept"),
        Some(Shape::Stream) => format!("{open} one way"),
    }
}

/// CPU time of both ends: `12 % + 40 %` of a CPU.
fn cpus(link: &Link) -> String {
    let share = |party: &Option<Party>| {
        let cpus = party.as_ref().and_then(|party| party.cpus);
        cpus.map_or_else(|| NONE.to_owned(), |cpus| format!("{:.0}{NBSP}%", cpus * 100.0))
    };
    let ends = [&link.client, &link.server].map(share);
    let is_one = |link: &Link| link.client.as_ref().map(|one| one.group) == link.server.as_ref().map(|one| one.group);
    if is_one(link) {
        ends[0].clone()
    } else {
        ends.join(" + ")
    }
}

/// Explanations of terms in the table.
fn legend(links: &[&Link], all: bool) -> impl Iterator<Item = String> {
    let has = |wanted: Shape| {
        links
            .iter()
            .any(|link| link.load.is_some_and(|load| load.shape == wanted))
    };
    let most = has(Shape::Sessions) || has(Shape::Unclear);
    let sentences = [
        (
            all && !links.is_empty(),
            "CPU: of one CPU, that the client's and the server's processes used for all that they did.",
        ),
        (
            links
                .iter()
                .any(|link| link.outlook.as_ref().is_some_and(|outlook| outlook.saving.is_some())),
            "Saved: CPU time that a Unix socket would save.",
        ),
        (
            has(Shape::KeepAlive),
            "requests/s: what a client sends at once, such as a pipeline or streams of HTTP/2, counts as one.",
        ),
        (
            most,
            "≤: segments do not show single requests; the turns from asking to answering are no more.",
        ),
        (
            links.iter().any(|link| link.load.is_none()),
            "–: the kernel counts no requests there, and lasthop does not trace.",
        ),
    ];
    sentences
        .into_iter()
        .filter(|(is_said, _)| *is_said)
        .map(|(_, sentence)| sentence.to_owned())
}

/// The columns of CSV: names, and paths in the JSON of a link.
const CSV: [(&str, &str); 24] = [
    ("client", "/client/name"),
    ("client_place", "/client/place"),
    ("server", "/server/name"),
    ("server_place", "/server/place"),
    ("transport", "/transport"),
    ("address", "/address"),
    ("crosses", "/crosses"),
    ("connections", "/connections"),
    ("opened_per_second", "/opened_per_second"),
    ("shape", "/load/shape"),
    ("requests_per_second", "/load/requests_per_second"),
    ("turns_per_second_at_most", "/load/turns_per_second_at_most"),
    ("bytes_to_server_per_second", "/load/to_server/bytes_per_second"),
    ("bytes_to_client_per_second", "/load/to_client/bytes_per_second"),
    ("client_cpus", "/client/cpus"),
    ("server_cpus", "/server/cpus"),
    ("worth", "/outlook/worth"),
    ("experiment", "/outlook/experiment"),
    ("saved_us_low", "/outlook/saving/cpu_us/low"),
    ("saved_us_high", "/outlook/saving/cpu_us/high"),
    ("saved_cpus_low", "/outlook/saving/cpus/low"),
    ("saved_cpus_high", "/outlook/saving/cpus/high"),
    ("measured_here", "/outlook/saving/here"),
    ("because", "/outlook/because"),
];

/// One line per link.
///
/// # Panics
///
/// Never: a link has text as keys.
#[must_use]
pub fn csv(survey: &Survey) -> Vec<u8> {
    let links = survey.links.iter();
    let links: Vec<Value> = links
        .map(|link| serde_json::to_value(link).expect("its maps have text as keys"))
        .collect();
    CSV.iter()
        .fold(Columns::of(&links), |columns, (name, place)| {
            columns.known(*name, |link| match link.pointer(place)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                Value::Number(number) if number.is_f64() => Some(format!("{:.6}", number.as_f64()?)),
                other => Some(other.to_string()),
            })
        })
        .csv()
}

#[cfg(test)]
mod tests {
    use lasthop_page::Options;
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::fixtures::{link, predicted, survey};

    /// Names that other users chose.
    const HOSTILE: &str = "</title><script>";

    fn example() -> Survey {
        let saving = Interval {
            estimate: 20.0,
            low: 15.0,
            high: 25.0,
        };
        let [busy, short, back] = [("web", "redis", 5000.0), ("cron", HOSTILE, 3.0), ("redis", "web", 40.0)]
            .map(|(client, server, rate)| link(client, server, Transport::Tcp, Some(rate)));
        let unix = link("web", "db", Transport::Unix, None);
        let idle = link("web", "old", Transport::Tcp, Some(0.0));
        survey(vec![predicted(busy, saving), short, back, unix, idle])
    }

    #[test]
    fn csv_has_a_row_per_link() {
        let csv = String::from_utf8(csv(&example())).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[1].starts_with("web,,redis,,tcp,at-redis.tcp,false,1,0.000000,keep-alive,5000.000000,"));
        assert!(lines[1].ends_with(",0.075000,0.125000,true,it saves 1 % of a CPU or more"));
        assert!(lines.iter().all(|line| line.matches(',').count() == CSV.len() - 1));
    }

    #[test]
    fn links_of_one_name_are_told_apart() {
        let [mut one, mut other] = [("web", "redis"); 2].map(|(a, b)| link(a, b, Transport::Tcp, Some(9.0)));
        one.address = "127.0.0.1:6379".to_owned();
        other.address = "127.0.0.1:6380".to_owned();
        let lone = link("web", "db", Transport::Tcp, Some(9.0));
        let all = [&one, &other, &lone];
        let apart = Names::of(&all);
        let names = all.map(|link| apart.of_link(link));
        assert_eq!(
            names,
            [
                "web → redis over 127.0.0.1:6379",
                "web → redis over 127.0.0.1:6380",
                "web → db"
            ]
        );
    }

    fn terminal(survey: &Survey, all: bool) -> String {
        let options = Options {
            width: 200,
            ..Options::default()
        };
        String::from_utf8(lasthop_page::document_terminal(&document(survey, all), &options)).unwrap()
    }

    fn outlook(worth: Worth, because: &str) -> Option<Outlook> {
        Some(Outlook::because(worth, because))
    }

    /// Unknown links get no empty rows.
    #[test]
    fn links_that_nothing_is_known_of_are_a_line() {
        let mut example = example();
        for (link, name) in example.links[1..3].iter_mut().zip(["cron", "batch"]) {
            link.client.as_mut().unwrap().name = name.to_owned();
            link.outlook = outlook(Worth::CannotSay, "no experiment has this server");
        }
        example.links[1].server.as_mut().unwrap().name = "backup".to_owned();
        let few = terminal(&example, false);
        let line = "No experiment says what a Unix socket would save on cron → backup, batch → web";
        assert!(few.contains(line) && !few.contains("no experiment has"), "{few}");
        let every = terminal(&example, true);
        assert!(
            !every.contains("No experiment says") && every.contains("no experiment has"),
            "{every}"
        );
    }

    /// Lines of link names are short, however many links share a reason.
    #[test]
    fn many_links_are_told_in_few_lines() {
        const MANY: usize = 50_000;
        let one = |number: usize| {
            let mut one = link("client", "server", Transport::Tcp, Some(5.0));
            one.address = format!("10.0.{}.{}:80", number / 250, number % 250);
            one.outlook = outlook(
                [Worth::CannotSay, Worth::DoesNotMatter][number % 2],
                "one reason for all of them",
            );
            one
        };
        let survey = survey((0..MANY).map(one).collect());
        let page = terminal(&survey, false);
        assert!(page.lines().count() < MANY / 2 + 50, "{}", page.lines().count());
        let more = format!(" and {} more", Count((MANY / 2 - NAMES) as u64));
        let words: Vec<&str> = page.split_whitespace().collect();
        assert_eq!(words.join(" ").matches(&more).count(), 2);
    }

    #[test]
    fn whoever_sees_nothing_is_told_who_sees_more() {
        let mut nothing = survey(Vec::new());
        assert!(!terminal(&nothing, false).contains("sudo"));
        nothing.root_sees_more = true;
        assert!(terminal(&nothing, false).contains("Root sees more: `sudo lasthop survey`."));
    }

    /// The example includes processes that are each other's clients.
    #[test]
    fn the_picture_has_each_process_and_link_once() {
        let page = String::from_utf8(page(&example(), true)).unwrap();
        let count = |text: &str| page.matches(text).count();
        assert_eq!((count("class=\"box\""), count("<line ")), (6, 5));
        assert_eq!(count("class=\"name\" y=\"-2\">web<"), 1);
        assert_eq!(count("to-worth-it\" class"), 1);
        assert!(!page.contains(HOSTILE), "{page}");
        assert!(
            page.contains("web → redis: 5,000/s, a Unix socket is worth it; "),
            "{page}"
        );
    }
}
