//! Lists for `lasthop runs` and `lasthop list`.

use std::collections::BTreeMap;

use lasthop_model::quantity::{counted, joined};
use lasthop_page::document_markdown;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Format, Options, Page,
    content::section,
    csv,
    document::{Block, Cell, Column, Columns, Depth, Document, Row, Table, Text, Tone},
    text,
    units::Bytes,
};

const BUILT_IN: &str = "built-in";

/// The recorded runs of a data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Runs<'a> {
    /// `lasthop-runs/1`
    pub schema: &'static str,
    /// Oldest first.
    pub runs: &'a [RunEntry],
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunEntry {
    pub run: String,
    pub experiment: String,
    /// When it began: UTC, by ISO 8601.
    pub started: String,
    /// The same for people.
    #[serde(skip)]
    pub when: String,
    pub state: RunState,
    /// Whether it is proven to be made with this data folder; if not, it is foreign.
    pub is_own: bool,
    /// What its files take on the disk.
    pub bytes: u64,
    /// The result in a sentence, or why the record cannot be read; empty if unknown.
    pub headline: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    Complete,
    /// Its lasthop is still alive.
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
    /// The heading that it stands under; may be empty.
    pub group: String,
    /// Where it comes from: `built-in`, or the folder.
    pub source: String,
    /// What this machine lacks to run it; empty if it is ready.
    pub missing: Vec<String>,
}

/// Columns of the CSV.
const COLUMNS: [&str; 7] = ["run", "experiment", "started", "state", "is_own", "bytes", "headline"];

/// The list of runs: in a terminal two lines each, what was run and the result.
#[must_use]
pub fn runs(runs: &[RunEntry], format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Json => text::json(&Runs {
            schema: "lasthop-runs/1",
            runs,
        }),
        Format::Csv => {
            let rows = runs.iter().map(|entry| {
                let [own, bytes] = [entry.is_own.to_string(), entry.bytes.to_string()];
                let word = state(entry.state).0.replace(' ', "-");
                let cells = [
                    &entry.run,
                    &entry.experiment,
                    &entry.started,
                    &word,
                    &own,
                    &bytes,
                    &entry.headline,
                ];
                csv::line(cells.into_iter().map(String::as_str))
            });
            let header = csv::line(COLUMNS.into_iter());
            std::iter::once(header).chain(rows).collect::<String>().into_bytes()
        }
        Format::Markdown => document_markdown(&document(runs)),
        _ => terminal(runs, options),
    }
}

fn document(runs: &[RunEntry]) -> Document {
    let cells = |of: fn(&RunEntry) -> String| runs.iter().map(of);
    let (columns, rows) = Columns::default()
        .left("run", cells(|entry| entry.run.clone()))
        .left("began", cells(|entry| entry.when.clone()))
        .left("state", cells(|entry| state_of(entry).text))
        .right("size", cells(|entry| Bytes(entry.bytes).to_string()))
        .left("result", cells(|entry| entry.headline.clone()))
        .into_rows();
    let rows = rows.into_iter().map(Row::Cells).collect();
    Document {
        title: Text::of(Tone::Strong, "Recorded runs"),
        subtitle: total(runs).into(),
        sections: section("Oldest first", Depth::Open, vec![Block::Table(Table { columns, rows })])
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

/// Its state, and whether it is foreign.
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

/// Experiments under their groups, a line each. Those that are not ready are only named, unless `all` are asked for.
#[must_use]
pub fn experiments_table(experiments: &[ExperimentEntry], all: bool, options: &Options) -> Vec<u8> {
    let mut groups: BTreeMap<&str, Vec<&ExperimentEntry>> = BTreeMap::new();
    for entry in experiments.iter().filter(|entry| all || entry.missing.is_empty()) {
        groups.entry(&entry.group).or_default().push(entry);
    }
    let mut rows = Vec::new();
    for (group, entries) in groups {
        let group = if group.is_empty() { "others" } else { group };
        rows.push(Row::Group(group.to_owned()));
        rows.extend(entries.into_iter().map(row));
    }
    let mut page = Page::new(options);
    let columns = vec![Column::left("experiment"), Column::left("about")];
    page.table(&Table { columns, rows });
    let left = experiments.iter().filter(|entry| !entry.missing.is_empty());
    let left = joined(left.map(|entry| &entry.name[..]), ", ");
    if !all && !left.is_empty() {
        let text = format!("Not ready, because programs are missing: {left} (lasthop list --all)");
        page.blank();
        page.block(&Block::legend(text));
    }
    page.finish()
}

fn row(entry: &ExperimentEntry) -> Row {
    let name = Cell::new(Tone::Strong, &entry.name);
    let title = if entry.source == BUILT_IN {
        entry.title.clone()
    } else {
        format!("{} ({})", entry.title, entry.source)
    };
    if entry.missing.is_empty() {
        return Row::Cells(vec![name, title.into()]);
    }
    let missing = entry.missing.join(", ");
    let text = format!("{title}; missing: {missing} (lasthop setup {})", entry.name);
    Row::Note(name, Cell::new(Tone::Warning, text))
}
