//! What several parts of a report have in common.

use crate::{
    analyse::summary::{CaseSummary, Summary},
    report::{
        document::{Block, Depth, Row, Section},
        groups::{Group, compared_factor},
        wording::Terms,
    },
};

pub fn terms(summary: &Summary) -> Terms {
    Terms {
        margin: summary.settings.margin,
        confidence: summary.settings.confidence,
        spent: summary.seconds,
        budget: summary.settings.budget_seconds,
    }
}

pub fn section(title: &str, depth: Depth, blocks: Vec<Block>) -> Option<Section> {
    let title = Some(title.to_owned());
    (!blocks.is_empty()).then_some(Section { title, depth, blocks })
}

/// Rows of several groups, each under its setting.
pub fn under_settings<'a>(groups: &[&Group<'a>], mut rows: impl FnMut(&Group<'a>) -> Vec<Row>) -> Vec<Row> {
    let mut all = Vec::new();
    for group in groups {
        let rows = rows(group);
        if !group.setting.is_empty() && !rows.is_empty() {
            all.push(Row::Group(group.setting.clone()));
        }
        all.extend(rows);
    }
    all
}

/// Title of the column with the names of the cases.
pub fn case_title(summary: &Summary) -> &'static str {
    if summary.aa { "case" } else { compared_factor(summary) }
}

/// The full name of a case, for text that stands alone: transport and setting.
pub fn full_name(group: &Group<'_>, case: &CaseSummary) -> String {
    let name = group.name(case);
    if group.setting.is_empty() { name } else { format!("{name} ({})", group.setting) }
}
