//! A survey for people, and as CSV.

use lasthop_model::quantity::counted;
use lasthop_page::{
    document::{Block, Cell, Columns, Depth, Document, Row, Section, Table, Text, Tone},
    text,
    units::{Bytes, Count, NBSP, NONE, Seconds, Significant, significant},
};

use super::{
    links::{Link, LinkLoad, Party, Shape, Survey},
    saving::{Outlook, Saving, Worth},
};

/// A link without counters is shown if both of its ends use that much of a CPU.
const BUSY: f64 = 0.005;

/// The document of a survey; `all` with the links that nothing or little went over.
#[must_use]
pub fn document(survey: &Survey, all: bool) -> Document {
    let (shown, rest): (Vec<&Link>, Vec<&Link>) = survey.links.iter().partition(|link| all || is_busy(link));
    let mut blocks = Vec::new();
    if shown.is_empty() {
        blocks.push(Block::Paragraph(
            "Nothing went over any link that lasthop can see.".into(),
        ));
    } else {
        blocks.push(Block::Table(table(&shown, all)));
    }
    if !rest.is_empty() {
        let rest = counted(rest.len() as u64, "idle link");
        blocks.push(Block::legend(format!("Not shown: {rest}, for --verbose.")));
    }
    blocks.extend(legend(&shown, all).map(Block::legend));
    let section = |title: Option<&str>, blocks: Vec<Block>| Section {
        title: title.map(str::to_owned),
        depth: Depth::Open,
        blocks,
    };
    let items = |lines: Vec<String>| lines.into_iter().map(|line| Block::Item(line.into())).collect();
    let mut sections = vec![
        section(None, blocks),
        section(Some("Why"), items(reasons(&shown))),
        section(Some("Next"), items(next(&shown))),
        section(Some("Not seen"), items(survey.missing.clone())),
    ];
    sections.retain(|section| !section.blocks.is_empty());
    Document {
        title: "Local links of this machine".to_owned(),
        subtitle: Text::of(Tone::Dim, format!("watched for {}", Seconds(survey.seconds))),
        sections,
    }
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
    let each = |cell: &dyn Fn(&Link) -> String| links.iter().map(|link| cell(link)).collect::<Vec<_>>();
    let requests = |link: &Link| link.load.as_ref().map_or_else(|| NONE.to_owned(), requests);
    let mut columns = Columns::default()
        .left("link", each(&Link::name))
        .left("over", each(&over))
        .right("requests/s", each(&requests));
    if all {
        columns = columns
            .left("connections", each(&connections))
            .right("CPU", each(&cpus));
    }
    let verdicts = links.iter().map(|link| verdict(link.outlook.as_ref()));
    let columns = columns
        .left("a Unix socket would save", each(&saves))
        .joined("verdict", verdicts);
    let (columns, rows) = columns.into_rows();
    Table {
        columns,
        rows: rows.into_iter().map(Row::Cells).collect(),
    }
}

/// `8.1 to 9.9 µs a request: 9.8 to 12 % of a CPU`
fn saves(link: &Link) -> String {
    let saving = link.outlook.as_ref().and_then(|outlook| outlook.saving.as_ref());
    saving.map_or_else(
        || NONE.to_owned(),
        |Saving { cpu_us, cpus, .. }| {
            let [low, high, least, most] =
                [cpu_us.low, cpu_us.high, cpus.low * 100.0, cpus.high * 100.0].map(|end| significant(end, 2));
            format!("{low} to {high}{NBSP}µs a request: {least} to {most}{NBSP}% of a CPU")
        },
    )
}

fn verdict(outlook: Option<&Outlook>) -> Cell {
    outlook.map_or_else(Cell::default, |outlook| match outlook.worth {
        Worth::WorthIt => Cell::new(Tone::Good, "worth it"),
        Worth::DoesNotMatter => Cell::new(Tone::Dim, "does not matter"),
        Worth::Already => Cell::new(Tone::Dim, "already"),
        Worth::CannotSay => Cell::new(Tone::Warning, "cannot say"),
    })
}

/// What each verdict rests on, links with the same reason together.
fn reasons(links: &[&Link]) -> Vec<String> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
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
        add(&mut said, reason, link.name());
    }
    said.into_iter()
        .map(|(reason, names)| format!("{}: {reason}", names.join(", ")))
        .collect()
}

/// The commands that know more, each once.
fn next(links: &[&Link]) -> Vec<String> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for link in links {
        if let Some(command) = link.outlook.as_ref().and_then(|outlook| outlook.next.as_ref()) {
            let what = if command.contains(" export ") {
                "the configuration, and what must be true for it"
            } else {
                "measures it here"
            };
            add(&mut said, format!("`{command}`: {what}"), link.name());
        }
        if let (Some(also), false) = (&link.also, link.transport.is_unix()) {
            let also = format!("{also} leads to the same server: `lasthop compare` measures both ways");
            add(&mut said, also, link.name());
        }
    }
    said.into_iter()
        .map(|(what, names)| format!("{what} ({})", names.join(", ")))
        .collect()
}

fn add(said: &mut Vec<(String, Vec<String>)>, what: String, name: String) {
    match said.iter_mut().find(|(known, _)| *known == what) {
        Some((_, names)) if names.contains(&name) => {}
        Some((_, names)) => names.push(name),
        None => said.push((what, vec![name])),
    }
}

/// `127.0.0.1:8000`, `172.18.0.3:8080 (bridge)`
fn over(link: &Link) -> String {
    let suffix = if link.crosses { " (bridge)" } else { "" };
    format!("{}{suffix}", link.address)
}

/// `430`, `≤ 430`, `3.4 MB/s`
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

/// `4 kept`, `one a request`, `3.2/s`
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

/// What the words of the table mean, of those that are in it.
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

/// One line per link.
#[must_use]
pub fn csv(survey: &Survey) -> Vec<u8> {
    let heads = [
        "client",
        "client_place",
        "server",
        "server_place",
        "transport",
        "address",
        "crosses",
        "connections",
        "opened_per_second",
        "shape",
        "requests_per_second",
        "turns_per_second_at_most",
        "bytes_to_server_per_second",
        "bytes_to_client_per_second",
        "client_cpus",
        "server_cpus",
        "worth",
        "experiment",
        "saved_us_low",
        "saved_us_high",
        "saved_cpus_low",
        "saved_cpus_high",
        "measured_here",
        "because",
    ];
    let mut lines = heads.join(",") + "\r\n";
    for link in &survey.links {
        let cells = cells(link).map(|cell| text::csv(&cell));
        lines.push_str(&(cells.join(",") + "\r\n"));
    }
    lines.into_bytes()
}

fn cells(link: &Link) -> [String; 24] {
    let name = |party: &Option<Party>| party.as_ref().map(|party| party.name.clone()).unwrap_or_default();
    let place = |party: &Option<Party>| party.as_ref().and_then(|party| party.place.clone());
    let cpus = |party: &Option<Party>| party.as_ref().and_then(|party| party.cpus);
    let number = |number: Option<f64>| number.map(|number| format!("{number:.3}")).unwrap_or_default();
    let exact = |number: Option<f64>| number.map(|number| format!("{number:.6}")).unwrap_or_default();
    let outlook = link.outlook.as_ref();
    let saving = outlook.and_then(|outlook| outlook.saving.as_ref());
    let load = link.load.as_ref();
    [
        name(&link.client),
        place(&link.client).unwrap_or_default(),
        name(&link.server),
        place(&link.server).unwrap_or_default(),
        link.transport.to_string(),
        link.address.clone(),
        link.crosses.to_string(),
        link.connections.to_string(),
        number(Some(link.opened_per_second)),
        load.map(|load| load.shape.word().to_owned()).unwrap_or_default(),
        number(load.and_then(|load| load.requests_per_second)),
        number(load.map(|load| load.turns_per_second_at_most)),
        number(load.map(|load| load.to_server.bytes_per_second)),
        number(load.map(|load| load.to_client.bytes_per_second)),
        number(cpus(&link.client)),
        number(cpus(&link.server)),
        outlook
            .map(|outlook| outlook.worth.word().to_owned())
            .unwrap_or_default(),
        outlook
            .and_then(|outlook| outlook.experiment.clone())
            .unwrap_or_default(),
        number(saving.map(|saving| saving.cpu_us.low)),
        number(saving.map(|saving| saving.cpu_us.high)),
        exact(saving.map(|saving| saving.cpus.low)),
        exact(saving.map(|saving| saving.cpus.high)),
        saving.map(|saving| saving.here.to_string()).unwrap_or_default(),
        outlook.map(|outlook| outlook.because.clone()).unwrap_or_default(),
    ]
}
