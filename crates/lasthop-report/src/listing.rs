//! Lists for `lasthop runs` and `lasthop list`.

use std::collections::BTreeMap;

use lasthop_model::quantity::joined;

use super::{
    Options, Page,
    document::{Block, Cell, Column, Row, Table, Text, Tone},
};

const BUILT_IN: &str = "built-in";

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry {
    pub run: String,
    pub experiment: String,
    /// When it began, ready to print.
    pub when: String,
    pub state: RunState,
    /// Whether it is proven to be made with this data folder; if not, it is foreign.
    pub is_own: bool,
    /// The result, from [`headline`](super::headline); empty if unknown.
    pub headline: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The record cannot be read, for this reason.
    Unreadable(String),
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

/// Recorded runs, two lines each: what was run, and the result.
#[must_use]
pub fn runs_table(runs: &[RunEntry], options: &Options) -> Vec<u8> {
    let mut page = Page::new(options);
    for entry in runs {
        let (word, tone) = state(&entry.state);
        let head = Text::of(Tone::Strong, &entry.run)
            .plain(format!("  {}  ", entry.experiment).trim_end())
            .plain("  ")
            .and(Tone::Dim, &entry.when)
            .plain("  ")
            .and(tone, word)
            .and(Tone::Warning, if entry.is_own { "" } else { ", foreign" });
        page.wrapped(&head, 0, 4);
        if let RunState::Unreadable(reason) = &entry.state {
            page.wrapped(&Text::from(reason), 4, 4);
        } else if !entry.headline.is_empty() {
            page.wrapped(&Text::from(&entry.headline), 4, 4);
        }
    }
    page.finish()
}

fn state(state: &RunState) -> (&'static str, Tone) {
    match state {
        RunState::Complete => ("complete", Tone::Good),
        RunState::Running => ("running", Tone::Good),
        RunState::Interrupted => ("interrupted", Tone::Warning),
        RunState::CutOff => ("cut off", Tone::Warning),
        RunState::Failed => ("failed", Tone::Bad),
        RunState::Unreadable(_) => ("unreadable", Tone::Bad),
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
