//! Lists for `lasthop runs` and `lasthop list`.

use super::{
    document::{Block, Text, Tone},
    options::Options,
    terminal::Page,
};

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry {
    pub run: String,
    pub experiment: String,
    /// When it began, ready to print.
    pub when: String,
    pub state: RunState,
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
    pub question: String,
    /// Levels of the factor `transport`.
    pub transports: Vec<String>,
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
            .and(tone, word);
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

/// Experiments, each with its question, its transports, and what is missing to run it.
#[must_use]
pub fn experiments_table(experiments: &[ExperimentEntry], options: &Options) -> Vec<u8> {
    let mut page = Page::new(options);
    for (place, entry) in experiments.iter().enumerate() {
        if place > 0 {
            page.blank();
        }
        let source = if entry.source == "built-in" { String::new() } else { format!("  {}", entry.source) };
        let ready = if entry.missing.is_empty() { (Tone::Good, "ready") } else { (Tone::Warning, "not ready") };
        let head = Text::of(Tone::Strong, &entry.name).plain("  ").and(ready.0, ready.1).and(Tone::Dim, source);
        page.wrapped(&head, 0, 4);
        page.block(&Block::Paragraph(Text::from(&entry.question)));
        page.block(&Block::Paragraph(Text::of(Tone::Dim, entry.transports.join(", "))));
        if !entry.missing.is_empty() {
            let text = format!("missing: {} (lasthop setup {})", entry.missing.join(", "), entry.name);
            page.block(&Block::Paragraph(Text::of(Tone::Warning, text)));
        }
    }
    page.finish()
}
