//! REPORT: from a summary to bytes. One file per format.
//!
//! Reports for people (`terminal`, `markdown`) render one [`document::Document`]. `content` writes its sections,
//! [`wording`] its sentences, and [`units`] its numbers. Reports for machines (`json`, `csv`) write the summary itself,
//! or every trial. Nothing here measures, reads or prints.
//!
//! Foreign text enters a report only through [`text`]. [`configuration`] shows the configurations of the measured
//! servers.

pub mod across;
mod again;
mod against;
#[cfg(test)]
mod agreement;
pub mod answers;
pub mod configuration;
mod content;
pub mod csv;
pub mod explained;
#[cfg(test)]
pub(crate) mod fixtures;
mod forest;
mod index;
mod json;
mod listing;
mod markdown;
mod names;
mod page;
mod plots;
mod terminal;
#[cfg(test)]
mod tests;
pub mod wording;
mod words;

use lasthop_analyse::summary::Summary;
use lasthop_page::{Options, Page, columns, document, html, text, units};

use self::content::SectionId;
pub use self::{
    content::{answer, headline, layers_in_words},
    index::{Indexed, index},
    json::schema,
    listing::{ExperimentEntry, RunEntry, RunState, Runs, experiments_table, runs},
    page::{Extras, schema as page_schema},
};

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Terminal,
    Json,
    Csv,
    Trials,
    Markdown,
    Html,
    Svg,
}

impl Format {
    /// Every format, with its name and its use.
    pub const ALL: [(Self, &str, &str); 7] = [
        (Self::Terminal, "terminal", "Text for a terminal"),
        (Self::Json, "json", "The whole result, for programs (schema lasthop/1)"),
        (Self::Csv, "csv", "One row per case, for spreadsheets and data frames"),
        (
            Self::Trials,
            "trials",
            "One row per trial, to make your own statistics (tidy CSV)",
        ),
        (Self::Markdown, "markdown", "To paste into an issue"),
        (Self::Html, "html", "A page with plots, in one file"),
        (Self::Svg, "svg", "The ratios with their intervals, as a picture"),
    ];
}

/// The report of a run. Without [`Extras`], plots and trials are missing.
#[must_use]
pub fn render(summary: &Summary, extras: &Extras<'_>, format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Terminal => terminal::render(summary, options),
        Format::Json => json::render(summary),
        Format::Csv => csv::render(summary),
        Format::Trials => csv::trials(summary, &extras.trials),
        Format::Markdown => markdown::render(summary),
        Format::Html => page::render(summary, extras),
        Format::Svg => forest::Picture::of(summary).file(),
    }
}

/// The report of a run that is too short to compare cases, but shows whether they work: their figures, failures, and
/// problems of the link.
#[must_use]
pub fn checked(summary: &Summary, options: &Options) -> Vec<u8> {
    let of_link = ["link-not-proven", "reuse-not-as-asked", "transport-not-as-asked"];
    let mut summary = Summary {
        comparisons: Vec::new(),
        ..summary.clone()
    };
    summary.checks.retain(|check| of_link.contains(&check.id.as_str()));
    let mut page = Page::about(&summary.folder, options);
    let sections = content::sections(&summary);
    for part in [SectionId::Figures, SectionId::Failures, SectionId::Evidence] {
        sections
            .get(&part)
            .into_iter()
            .for_each(|section| page.section(section));
    }
    page.finish()
}
