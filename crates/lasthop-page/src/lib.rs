//! Pages and tables: a [`document`] of sections, written for a terminal, as Markdown and as HTML, with its numbers by
//! [`units`]. Nothing here knows a run.
//!
//! [`text`] is the one door for foreign text.

pub mod columns;
pub mod document;
pub mod html;
pub mod markdown;
mod options;
mod terminal;
pub mod text;
pub mod units;

pub use self::{
    options::Options,
    terminal::{INDENT, Page},
};

/// A document for a terminal.
#[must_use]
pub fn document_terminal(document: &document::Document, options: &Options) -> Vec<u8> {
    let mut page = Page::new(options);
    page.document(document);
    page.finish()
}

/// A document in Markdown, under a heading of the second level.
#[must_use]
pub fn document_markdown(document: &document::Document) -> Vec<u8> {
    markdown::page(document).replace(units::NBSP, " ").into_bytes()
}
