//! Lists for `lasthop runs` and `lasthop list`.

use lasthop_model::{
    quantity::{counted, joined},
    record::BUILT_IN,
};
use lasthop_page::document_markdown;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Format, Options, Page,
    columns::Columns,
    content::section,
    document::{Block, Cell, Depth, Document, Text, Tone},
    text,
    units::Bytes,
};

/// The recorded runs of a data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Runs<'a> {
    /// `lasthop-runs/1`
    pub schema: &'static str,
    /// The runs, oldest first.
    pub runs: &'a [RunEntry],
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunEntry {
    pub run: String,
    pub experiment: String,
    /// Start of the run in UTC, ISO 8601.
    pub started: String,
    /// Start of the run, for people.
    #[serde(skip)]
    pub when: String,
    pub state: RunState,
    /// Whether the record is proven to be made with this data folder; if not, it is foreign.
    pub is_own: bool,
    /// Disk space of the record, in bytes.
    pub bytes: u64,
    /// The result in a sentence, or why the record cannot be read; empty if unknown.
    pub headline: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    Complete,
    /// The lasthop that writes the record is still alive.
    Running,
    /// Stopped by a signal, with its end recorded.
    Interrupted,
    /// Killed: the record has no end.
    CutOff,
    /// No case worked.
    Failed,
    /// The record cannot be read.
    Unreadable,
}

/// An experiment that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentEntry {
    pub name: String,
    pub title: String,
    /// The heading of the experiment's group; may be empty.
    pub group: String,
    /// The source: `built-in`, or the folder.
    pub source: String,
    /// Requirements that this machine lacks; empty if the experiment is ready.
    pub missing: Vec<String>,
}

/// The list of runs. A terminal gets two lines for each: the experiment and the result.
#[must_use]
pub fn runs(runs: &[RunEntry], format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Json => text::json(&Runs {
            schema: "lasthop-runs/1",
            runs,
        }),
        Format::Csv => Columns::of(runs)
            .data("run", |entry| &entry.run)
            .data("experiment", |entry| &entry.experiment)
            .data("started", |entry| &entry.started)
            .data("state", |entry| state(entry.state).0.replace(' ', "-"))
            .data("is_own", |entry| entry.is_own)
            .data("bytes", |entry| entry.bytes)
            .data("headline", |entry| &entry.headline)
            .csv(),
        Format::Markdown => document_markdown(&document(runs)),
        _ => terminal(runs, options),
    }
}

fn document(runs: &[RunEntry]) -> Document {
    let table = Columns::of(runs)
        .left("run", |entry| &entry.run)
        .left("began", |entry| &entry.when)
        .left("state", |entry| state_of(entry).text)
        .right("size", |entry| Bytes(entry.bytes).to_string())
        .left("result", |entry| &entry.headline)
        .table();
    Document {
        title: Text::of(Tone::Strong, "Recorded runs"),
        subtitle: total(runs).into(),
        sections: section("Oldest first", Depth::Open, vec![Block::Table(table)])
            .into_iter()
            .collect(),
    }
}

fn terminal(runs: &[RunEntry], options: &Options) -> Vec<u8> {
    let mut page = Page::new(options);
    for entry in runs {
        let Cell { text: word, tone, .. } = state_of(entry);
        let head = Text::of(Tone::Strong, &entry.run)
            .plain(format!("  {}  ", entry.experiment).trim_end())
            .plain("  ")
            .and(Tone::Dim, &entry.when)
            .plain("  ")
            .and(tone, word)
            .plain("  ")
            .and(Tone::Dim, Bytes(entry.bytes).to_string());
        page.wrapped(&head, 0, 4);
        if !entry.headline.is_empty() {
            page.wrapped(&Text::from(&entry.headline), 4, 4);
        }
    }
    page.blank();
    page.block(&Block::legend(format!(
        "{}; lasthop runs --remove RUN removes one",
        total(runs)
    )));
    page.finish()
}

pub fn total(runs: &[RunEntry]) -> String {
    let bytes = runs.iter().map(|entry| entry.bytes).sum();
    format!("{}, {}", counted(runs.len() as u64, "run"), Bytes(bytes))
}

/// The state of a run, and whether the record is foreign.
pub fn state_of(entry: &RunEntry) -> Cell {
    let (word, tone) = state(entry.state);
    if entry.is_own {
        Cell::new(tone, word)
    } else {
        Cell::new(Tone::Warning, format!("{word}, foreign"))
    }
}

fn state(state: RunState) -> (&'static str, Tone) {
    match state {
        RunState::Complete => ("complete", Tone::Good),
        RunState::Running => ("running", Tone::Good),
        RunState::Interrupted => ("interrupted", Tone::Warning),
        RunState::CutOff => ("cut off", Tone::Warning),
        RunState::Failed => ("failed", Tone::Bad),
        RunState::Unreadable => ("unreadable", Tone::Bad),
    }
}

/// Experiments by group, a line each. Experiments that are not ready are only named, unless `all` are asked for.
#[must_use]
pub fn experiments_table(experiments: &[ExperimentEntry], all: bool, options: &Options) -> Vec<u8> {
    let shown = experiments.iter().filter(|entry| all || entry.missing.is_empty());
    let mut shown: Vec<&ExperimentEntry> = shown.collect();
    shown.sort_by_key(|entry| &entry.group);
    let table = Columns::of(&shown)
        .names("experiment", |entry| &entry.name)
        .left("about", |entry| about(entry))
        .under(|entry| if entry.group.is_empty() { "others" } else { &entry.group })
        .noted(|entry| (!entry.missing.is_empty()).then(|| missing(entry)))
        .table();
    let mut page = Page::new(options);
    page.table(&table);
    let left = experiments.iter().filter(|entry| !entry.missing.is_empty());
    let left = joined(left.map(|entry| &entry.name[..]), ", ");
    if !all && !left.is_empty() {
        let text = format!("Not ready, because programs are missing: {left} (lasthop list --all)");
        page.blank();
        page.block(&Block::legend(text));
    }
    page.finish()
}

fn about(entry: &ExperimentEntry) -> String {
    if entry.source == BUILT_IN {
        entry.title.clone()
    } else {
        format!("{} ({})", entry.title, entry.source)
    }
}

fn missing(entry: &ExperimentEntry) -> Cell {
    let missing = entry.missing.join(", ");
    let text = format!("{}; missing: {missing} (lasthop setup {})", about(entry), entry.name);
    Cell::new(Tone::Warning, text)
}
