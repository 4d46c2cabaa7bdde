//! REPORT: from a summary to bytes. One file per format.
//!
//! Reports for people (`terminal`, `markdown`) render one [`document::Document`], whose sections are written by
//! `content`, its sentences by [`wording`], its numbers by [`units`]. Reports for machines (`json`, `csv`) write the
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
mod options;
mod terminal;
#[cfg(test)]
mod tests;
pub mod units;
pub mod wording;

pub use self::{
    content::headline,
    json::schema,
    listing::{ExperimentEntry, RunEntry, RunState, experiments_table, runs_table},
    options::Options,
    terminal::Page,
};
use crate::analyse::summary::Summary;

/// The formats, by the names of the option `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Terminal,
    /// The whole result, for programs (schema lasthop/1).
    Json,
    /// One row per case, for spreadsheets and data frames.
    Csv,
    /// To paste into an issue.
    Markdown,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Terminal, Self::Json, Self::Csv, Self::Markdown];
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
    match format {
        Format::Terminal => terminal::render(summary, options),
        Format::Json => json::render(summary),
        Format::Csv => csv::render(summary),
        Format::Markdown => markdown::render(summary),
    }
}
