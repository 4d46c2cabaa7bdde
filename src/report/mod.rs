//! REPORT: from a summary to bytes. One file per format.
//!
//! Reports for people ([`Terminal`], [`Markdown`]) render one [`document::Document`], whose sections are written by
//! `content`, its sentences by [`wording`], its numbers by [`units`]. Reports for machines ([`Json`], [`Csv`]) write the
//! summary itself. Nothing here measures, reads or prints.

mod content;
mod csv;
pub mod document;
#[cfg(test)]
pub(crate) mod fixtures;
mod groups;
mod json;
mod listing;
mod markdown;
mod terminal;
#[cfg(test)]
mod tests;
pub mod units;
pub mod wording;

use std::{fmt, str::FromStr};

pub use self::{
    content::headline,
    csv::Csv,
    json::{Json, schema},
    listing::{ExperimentEntry, RunEntry, RunState, experiments_table, runs_table},
    markdown::Markdown,
    terminal::Terminal,
};
use crate::analyse::summary::Summary;

/// A way to write a result down.
pub trait Report {
    fn render(&self, summary: &Summary) -> Vec<u8>;
}

/// The formats, by the names of the option `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Terminal,
    /// The whole result for programs, described by the schema of lasthop/1.
    Json,
    /// One row a case, for spreadsheets and data frames.
    Csv,
    /// To paste into an issue.
    Markdown,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Terminal, Self::Json, Self::Csv, Self::Markdown];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Markdown => "markdown",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The word is not the name of a format.
#[derive(Debug, thiserror::Error)]
#[error("unknown format `{0}` (known: terminal, json, csv, markdown)")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.name() == word).ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

/// What the reader's screen can do; formats for machines do not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to write ANSI colours. The caller decides by `NO_COLOR` and by where it prints to.
    pub color: bool,
    /// Columns; clamped to 40 to 100.
    pub width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { color: false, width: 80 }
    }
}

/// A document for a terminal.
#[must_use]
pub fn document_terminal(document: &document::Document, options: &Options) -> Vec<u8> {
    let mut page = terminal::Page::new(options);
    page.document(document);
    page.finish()
}

/// A document in Markdown, under a heading of the second level.
#[must_use]
pub fn document_markdown(document: &document::Document) -> Vec<u8> {
    markdown::page(document).replace(units::NBSP, " ").into_bytes()
}

/// The report of a run.
#[must_use]
pub fn render(summary: &Summary, format: Format, options: &Options) -> Vec<u8> {
    let report: Box<dyn Report> = match format {
        Format::Terminal => Box::new(Terminal::new(options)),
        Format::Json => Box::new(Json),
        Format::Csv => Box::new(Csv),
        Format::Markdown => Box::new(Markdown),
    };
    report.render(summary)
}
