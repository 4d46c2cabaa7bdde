//! Saved measurements, `benches/record/DATE/*.csv` with `machine.txt` beside them, and their tables in
//! `docs/performance.md`. `script/bench --save` writes both; a test fails if the page lacks the newest measurements.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A row of a table, for saving and for showing.
pub trait Row: Serialize + DeserializeOwned {
    /// The name of the table's file, and of its place in the page.
    const NAME: &str;
    const HEAD: &[&str];
    fn cells(&self) -> Vec<String>;

    /// The rows on the page: all by default, which suits few rows.
    fn on_page(rows: &[Self]) -> String {
        table(rows)
    }
}

/// lasthop against a peer: requests per CPU second of the client, or round trips per second (echo).
#[derive(Serialize, Deserialize)]
pub struct Cost {
    pub scenario: String,
    pub peer: String,
    pub lasthop: f64,
    pub theirs: f64,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub target: f64,
    pub rounds: usize,
}

impl Cost {
    fn mark(&self) -> &'static str {
        match (self.ratio >= self.target, self.high >= self.target) {
            (true, _) => "reached",
            (false, true) => "undecided",
            (false, false) => "**missed**",
        }
    }

    fn marks(rows: &[&Self]) -> String {
        let count = |mark: &str| match rows.iter().filter(|row| row.mark() == mark).count() {
            0 => None,
            count => Some(format!("{count} {mark}")),
        };
        let all: Vec<String> = ["reached", "undecided", "**missed**"]
            .into_iter()
            .filter_map(count)
            .collect();
        all.join(", ")
    }
}

impl Row for Cost {
    const NAME: &str = "cost";
    const HEAD: &[&str] = &[
        "scenario",
        "lasthop",
        "against",
        "theirs",
        "ratio (95 % interval)",
        "target",
        "",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.scenario.clone(),
            format!("{:.1}", self.lasthop / 1e3),
            self.peer.clone(),
            format!("{:.1}", self.theirs / 1e3),
            shown(self.ratio, self.low, self.high),
            format!("≥ {:.2}", self.target),
            self.mark().to_owned(),
        ]
    }

    fn on_page(rows: &[Self]) -> String {
        let line = |((protocol, peer), rows): &((&str, &str), Vec<&Self>)| {
            let rates: Vec<f64> = rows.iter().map(|row| row.lasthop / 1e3).collect();
            let ratios: Vec<Ratio<'_>> = rows
                .iter()
                .map(|row| Ratio::new(setting(&row.scenario), row.ratio, row.low, row.high))
                .collect();
            let [least, greatest] = extremes(&ratios);
            vec![
                (*protocol).to_owned(),
                (*peer).to_owned(),
                span(&rates, 1),
                least,
                greatest,
                Self::marks(rows),
            ]
        };
        let body: Vec<Vec<String>> = groups(rows, |row| (protocol(&row.scenario), row.peer.as_str()))
            .iter()
            .map(line)
            .collect();
        let head = [
            "protocol",
            "against",
            "lasthop",
            "lowest ratio (95 % interval)",
            "highest ratio",
            "targets",
        ];
        markdown(&head, &body)
    }
}

/// Figures of both tools for one server. `in_flight` is mean latency × throughput ÷ (connections × pipeline).
#[derive(Serialize, Deserialize)]
pub struct Agreement {
    pub scenario: String,
    pub peer: String,
    pub throughput: f64,
    pub throughput_low: f64,
    pub throughput_high: f64,
    pub median: Option<f64>,
    pub median_low: Option<f64>,
    pub median_high: Option<f64>,
    pub in_flight: Option<f64>,
    pub in_flight_theirs: Option<f64>,
    pub rounds: usize,
}

impl Row for Agreement {
    const NAME: &str = "agreement";
    const HEAD: &[&str] = &[
        "scenario",
        "against",
        "throughput, ratio",
        "median, ratio",
        "in flight: lasthop",
        "theirs",
    ];

    fn cells(&self) -> Vec<String> {
        let median = match (self.median, self.median_low, self.median_high) {
            (Some(ratio), Some(low), Some(high)) => shown(ratio, low, high),
            _ => "–".to_owned(),
        };
        let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"));
        vec![
            self.scenario.clone(),
            self.peer.clone(),
            shown(self.throughput, self.throughput_low, self.throughput_high),
            median,
            share(self.in_flight),
            share(self.in_flight_theirs),
        ]
    }

    fn on_page(rows: &[Self]) -> String {
        let line = |((protocol, peer), rows): &((&str, &str), Vec<&Self>)| {
            let ratios: Vec<Ratio<'_>> = rows
                .iter()
                .map(|row| {
                    Ratio::new(
                        setting(&row.scenario),
                        row.throughput,
                        row.throughput_low,
                        row.throughput_high,
                    )
                })
                .collect();
            let [least, greatest] = extremes(&ratios);
            let medians: Vec<f64> = rows.iter().filter_map(|row| row.median).collect();
            let in_flight: Vec<f64> = rows.iter().filter_map(|row| row.in_flight_theirs).collect();
            vec![
                (*protocol).to_owned(),
                (*peer).to_owned(),
                least,
                greatest,
                span(&medians, 2),
                span(&in_flight, 2),
            ]
        };
        let body: Vec<Vec<String>> = groups(rows, |row| (protocol(&row.scenario), row.peer.as_str()))
            .iter()
            .map(line)
            .collect();
        let head = [
            "protocol",
            "against",
            "throughput, lowest ratio",
            "highest ratio",
            "median, ratio",
            "their requests in flight",
        ];
        markdown(&head, &body)
    }
}

/// The lag of an open loop in microseconds. A run is undisturbed if no other work held its CPUs.
#[derive(Serialize, Deserialize)]
pub struct Lag {
    pub transport: String,
    pub arrivals: String,
    pub rate: f64,
    pub way: String,
    pub p50: f64,
    pub p99: f64,
    pub runs: usize,
    pub undisturbed: usize,
    pub undisturbed_p99: Option<f64>,
    pub undisturbed_p99_most: Option<f64>,
}

/// The highest allowed 99th percentile of the lag, in microseconds.
const LAG_TARGET: f64 = 100.0;

impl Row for Lag {
    const NAME: &str = "lag";
    const HEAD: &[&str] = &[
        "HTTP",
        "rate",
        "",
        "lag p50",
        "p99, all runs",
        "undisturbed runs",
        "their p99: median (greatest)",
        "target",
        "",
    ];

    fn cells(&self) -> Vec<String> {
        let (p99, mark) = match (self.undisturbed_p99, self.undisturbed_p99_most) {
            (Some(p99), Some(most)) => (
                format!("{p99:.1} µs ({most:.1} µs)"),
                if p99 <= LAG_TARGET { "reached" } else { "**missed**" },
            ),
            _ => ("–".to_owned(), "unknown"),
        };
        vec![
            format!("{}, {}", self.transport, self.arrivals),
            format!("{:.0} /s", self.rate),
            self.way.clone(),
            format!("{:.1} µs", self.p50),
            format!("{:.1} µs", self.p99),
            format!("{} of {}", self.undisturbed, self.runs),
            p99,
            format!("≤ {LAG_TARGET:.0} µs"),
            mark.to_owned(),
        ]
    }

    fn on_page(rows: &[Self]) -> String {
        let loads = groups(rows, |row| (row.transport.as_str(), row.arrivals.as_str()));
        let lag = |row: &Self| match row.undisturbed_p99 {
            Some(p99) if p99 > LAG_TARGET => format!("{:.1} / **{p99:.1}**", row.p50),
            Some(p99) => format!("{:.1} / {p99:.1}", row.p50),
            None => format!("{:.1} / –", row.p50),
        };
        let line = |(way, _): &(&str, Vec<&Self>)| {
            let cells = loads.iter().map(|(_, rows)| {
                let row = rows.iter().find(|row| row.way == *way);
                row.map_or_else(|| "–".to_owned(), |row| lag(row))
            });
            std::iter::once((*way).to_owned()).chain(cells).collect::<Vec<String>>()
        };
        let body: Vec<Vec<String>> = groups(rows, |row| row.way.as_str()).iter().map(line).collect();
        let mut head = vec!["HTTP, lag in µs: p50 / p99".to_owned()];
        for ((transport, arrivals), rows) in &loads {
            head.push(format!("{transport}, {arrivals}, {:.0} /s", rows[0].rate));
        }
        markdown(&head.iter().map(String::as_str).collect::<Vec<_>>(), &body)
    }
}

/// Latencies of each tool at an equal rate, in microseconds; `from` says where its clock starts.
#[derive(Serialize, Deserialize)]
pub struct AtRate {
    pub tool: String,
    pub transport: String,
    pub rate: f64,
    pub from: String,
    pub p50: f64,
    pub p99: f64,
    /// Achieved share of the rate.
    pub reached: f64,
}

impl Row for AtRate {
    const NAME: &str = "at-rate";
    const HEAD: &[&str] = &["tool", "transport", "rate", "counts from", "p50", "p99", "rate reached"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.tool.clone(),
            self.transport.clone(),
            format!("{:.0} /s", self.rate),
            self.from.clone(),
            format!("{:.0} µs", self.p50),
            format!("{:.0} µs", self.p99),
            format!("{:.0} %", 100.0 * self.reached),
        ]
    }
}

/// The median round trip of 64 B over TCP in microseconds, with each client's own server.
#[derive(Serialize, Deserialize)]
pub struct RoundTrip {
    pub place: String,
    pub lasthop: f64,
    pub sockperf: f64,
}

impl Row for RoundTrip {
    const NAME: &str = "round-trip";
    const HEAD: &[&str] = &["median of 64 B, tcp", "lasthop", "sockperf", "ratio"];

    fn cells(&self) -> Vec<String> {
        let Self {
            place,
            lasthop,
            sockperf,
        } = self;
        let ratio = format!("{:.2}", lasthop / sockperf);
        vec![
            place.clone(),
            format!("{lasthop:.1} µs"),
            format!("{sockperf:.1} µs"),
            ratio,
        ]
    }
}

/// Many connections of one process.
#[derive(Serialize, Deserialize)]
pub struct Held {
    pub transport: String,
    pub connections: u32,
    pub errors: u64,
    /// Resident bytes of the process per connection.
    pub bytes: f64,
}

/// The most bytes of a held connection.
const HELD_TARGET: f64 = 4096.0;

impl Row for Held {
    const NAME: &str = "held";
    const HEAD: &[&str] = &[
        "connections to nginx",
        "errors",
        "resident memory for each",
        "target",
        "",
    ];

    fn cells(&self) -> Vec<String> {
        let reached = self.errors == 0 && self.bytes <= HELD_TARGET;
        vec![
            format!("{}, {}", self.connections, self.transport),
            self.errors.to_string(),
            format!("{:.0} B", self.bytes),
            format!("≤ {HELD_TARGET:.0} B, no error"),
            if reached { "reached" } else { "**missed**" }.to_owned(),
        ]
    }
}

/// The floor with io_uring against the plain floor: requests per CPU second, and throughput.
#[derive(Serialize, Deserialize)]
pub struct Ring {
    pub scenario: String,
    pub floor: f64,
    pub uring: f64,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub throughput: f64,
    pub throughput_low: f64,
    pub throughput_high: f64,
}

impl Row for Ring {
    const NAME: &str = "uring";
    const HEAD: &[&str] = &[
        "scenario",
        "floor",
        "over io_uring",
        "ratio (95 % interval)",
        "throughput, ratio",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.scenario.clone(),
            format!("{:.1}", self.floor / 1e3),
            format!("{:.1}", self.uring / 1e3),
            shown(self.ratio, self.low, self.high),
            shown(self.throughput, self.throughput_low, self.throughput_high),
        ]
    }

    fn on_page(rows: &[Self]) -> String {
        let of = |name: &str, ratio: fn(&Self) -> Ratio<'_>| {
            let [least, greatest] = extremes(&rows.iter().map(ratio).collect::<Vec<_>>());
            vec![name.to_owned(), least, greatest]
        };
        let body = [
            of("requests per CPU second", |row| {
                Ratio::new(&row.scenario, row.ratio, row.low, row.high)
            }),
            of("throughput", |row| {
                Ratio::new(&row.scenario, row.throughput, row.throughput_low, row.throughput_high)
            }),
        ];
        markdown(
            &["io_uring / the floor", "lowest ratio (95 % interval)", "highest ratio"],
            &body,
        )
    }
}

/// The ratio of a scenario, with its interval.
struct Ratio<'a> {
    scenario: &'a str,
    ratio: f64,
    low: f64,
    high: f64,
}

impl<'a> Ratio<'a> {
    fn new(scenario: &'a str, ratio: f64, low: f64, high: f64) -> Self {
        Self {
            scenario,
            ratio,
            low,
            high,
        }
    }
}

/// The lowest and the highest ratio, each with its interval and its scenario.
fn extremes(ratios: &[Ratio<'_>]) -> [String; 2] {
    let mut sorted: Vec<&Ratio<'_>> = ratios.iter().collect();
    sorted.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let [Some(least), Some(greatest)] = [sorted.first(), sorted.last()] else {
        return Default::default();
    };
    [
        format!("{}: {}", shown(least.ratio, least.low, least.high), least.scenario),
        shown(greatest.ratio, greatest.low, greatest.high),
    ]
}

/// The range of values.
fn span(values: &[f64], digits: usize) -> String {
    let least = values.iter().copied().min_by(f64::total_cmp);
    let greatest = values.iter().copied().max_by(f64::total_cmp);
    match (least, greatest) {
        (Some(least), Some(greatest)) => format!("{least:.digits$} to {greatest:.digits$}"),
        _ => "–".to_owned(),
    }
}

/// The protocol at the beginning of a scenario's name.
fn protocol(scenario: &str) -> &str {
    scenario.split(',').next().unwrap_or(scenario)
}

/// The rest of a scenario's name.
fn setting(scenario: &str) -> &str {
    scenario.split_once(", ").map_or(scenario, |(_, rest)| rest)
}

/// Rows grouped by key, in the order of first appearance.
fn groups<'a, R, K: PartialEq>(rows: &'a [R], key: impl Fn(&'a R) -> K) -> Vec<(K, Vec<&'a R>)> {
    let mut groups: Vec<(K, Vec<&'a R>)> = Vec::new();
    for row in rows {
        let own = key(row);
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    groups
}

fn shown(ratio: f64, low: f64, high: f64) -> String {
    format!("{ratio:.2} ({low:.2}–{high:.2})")
}

/// Rows as a Markdown table.
pub fn table<R: Row>(rows: &[R]) -> String {
    markdown(R::HEAD, &rows.iter().map(Row::cells).collect::<Vec<_>>())
}

fn markdown(head: &[&str], body: &[Vec<String>]) -> String {
    let lines: String = body
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")))
        .collect();
    format!("| {} |\n|{}\n{lines}", head.join(" | "), "---|".repeat(head.len()))
}

/// The page with the newest saved rows of every table.
pub fn page(old: &str, record: &Path) -> Result<String, String> {
    let text = with::<Cost>(old, record)?;
    let text = with::<Agreement>(&text, record)?;
    let text = with::<Lag>(&text, record)?;
    let text = with::<AtRate>(&text, record)?;
    let text = with::<RoundTrip>(&text, record)?;
    let text = with::<Held>(&text, record)?;
    with::<Ring>(&text, record)
}

/// Replaces the text between `<!-- NAME -->` and the next `<!-- end -->`.
fn with<R: Row>(page: &str, record: &Path) -> Result<String, String> {
    let (begin, end) = (format!("<!-- {} -->\n", R::NAME), "<!-- end -->\n");
    let (before, rest) = page
        .split_once(&begin)
        .ok_or_else(|| format!("the page has no line {}", begin.trim_end()))?;
    let (_, after) = rest
        .split_once(end)
        .ok_or_else(|| format!("{} has no end", begin.trim_end()))?;
    let folder = newest(record, R::NAME)?;
    let date = folder.file_name().unwrap_or_default().to_string_lossy();
    let rows = read::<R>(&folder.join(R::NAME).with_extension("csv"))?;
    Ok(format!(
        "{before}{begin}Measured on {date} ([all rows](../benches/record/{date}/{}.csv)).\n\n{}{end}{after}",
        R::NAME,
        R::on_page(&rows)
    ))
}

/// The newest folder with this table.
fn newest(record: &Path, name: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(record).map_err(|error| format!("{}: {error}", record.display()))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(name).with_extension("csv").is_file());
    folders
        .into_iter()
        .max()
        .ok_or_else(|| format!("{} has no {name}.csv", record.display()))
}

fn read<R: Row>(file: &Path) -> Result<Vec<R>, String> {
    let rows = csv::Reader::from_path(file).and_then(|rows| rows.into_deserialize().collect());
    rows.map_err(|error| format!("{}: {error}", file.display()))
}
