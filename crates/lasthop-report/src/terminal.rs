//! The report of a run for a terminal: its document, with plots in characters.

use std::fmt::Write as _;

use lasthop_analyse::summary::Summary;
use lasthop_page::{INDENT, Options, Page};

use super::{
    content::document,
    document::{Text, Tone},
    plots,
};

/// The report for people at a terminal.
#[must_use]
pub fn render(summary: &Summary, options: &Options) -> Vec<u8> {
    let mut page = Page::about(&summary.folder, options);
    let document = document(summary);
    page.document(&document);
    if options.verbose {
        let width = page.room();
        page.plot("Ratios", plots::ratios(summary, width, options.unicode));
        page.plot("Layers", plots::layers(summary, width, options.unicode));
    }
    page.blank();
    let mut more = if document.sections.iter().any(|section| !page.shows(section)) && !options.verbose {
        format!(
            "lasthop report {} --verbose, or --format html for a page with plots",
            summary.word
        )
    } else {
        format!("lasthop report {} --format html, a page with plots", summary.word)
    };
    if let Some(check) = summary.checks.first() {
        let _ = write!(more, "; lasthop report --check {} for what that means", check.id);
    }
    page.wrapped(&Text::of(Tone::Dim, "More: ").and(Tone::Dim, more), 0, INDENT);
    page.finish()
}
