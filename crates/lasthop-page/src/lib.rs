//! Pages and tables: a [`document`] of sections, rendered for a terminal, as Markdown and as HTML, with numbers
//! formatted by [`units`]. Nothing here depends on runs.
//!
//! [`text`] makes foreign text safe.

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

/// Renders a document for a terminal.
#[must_use]
pub fn document_terminal(document: &document::Document, options: &Options) -> Vec<u8> {
    let mut page = Page::new(options);
    page.document(document);
    page.finish()
}

/// Renders a document in Markdown, below a heading of the second level.
#[must_use]
pub fn document_markdown(document: &document::Document) -> Vec<u8> {
    markdown::page(document).replace(units::NBSP, " ").into_bytes()
}
