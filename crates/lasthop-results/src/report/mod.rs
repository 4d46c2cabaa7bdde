//! REPORT: from a summary to bytes. One file per format.
//!
//! Reports for people (`terminal`, `markdown`) render one [`document::Document`], whose sections are written by
//! `content`, its sentences by [`wording`], its numbers by [`units`]. Reports for machines (`json`, `csv`) write the
//! summary itself. Nothing here measures, reads or prints.

pub mod across;
mod content;
mod csv;
pub mod document;
#[cfg(test)]
pub(crate) mod fixtures;
mod forest;
mod groups;
mod html;
mod json;
mod listing;
mod markdown;
mod options;
mod page;
mod terminal;
#[cfg(test)]
mod tests;
pub mod units;
pub mod wording;

pub use self::{
    content::{answer, headline},
    json::schema,
    listing::{ExperimentEntry, RunEntry, RunState, experiments_table, runs_table},
    options::Options,
    page::{Extras, render as page},
    terminal::Page,
};
use crate::analyse::summary::Summary;

/// The formats, by the names of the option `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    #[value(alias = "text")]
    Terminal,
    /// The whole result, for programs (schema lasthop/1).
    Json,
    /// One row per case, for spreadsheets and data frames.
    Csv,
    /// To paste into an issue.
    Markdown,
    /// A page with plots, in one file.
    Html,
    /// The ratios with their intervals, as a picture.
    Svg,
}

impl Format {
    pub const ALL: [Self; 6] = [Self::Terminal, Self::Json, Self::Csv, Self::Markdown, Self::Html, Self::Svg];
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

/// A document as a page without plots.
#[must_use]
pub fn document_html(document: &document::Document) -> Vec<u8> {
    html::document(document)
}

/// A page that leads to the pages of documents, given with the names of their files.
#[must_use]
pub fn contents_html(title: &str, pages: &[(String, document::Document)]) -> Vec<u8> {
    html::contents(title, pages)
}

/// The report of a run. Of a page, without what only the record has: see [`page`].
#[must_use]
pub fn render(summary: &Summary, format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Terminal => terminal::render(summary, options),
        Format::Json => json::render(summary),
        Format::Csv => csv::render(summary),
        Format::Markdown => markdown::render(summary),
        Format::Html => page::render(summary, &Extras::default()),
        Format::Svg => forest::Picture::of(summary).file(),
    }
}
