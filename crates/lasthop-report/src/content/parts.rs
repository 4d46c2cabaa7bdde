//! What several parts of a report have in common.

use lasthop_analyse::{
    groups::{Group, compared_factor},
    summary::{CaseSummary, Summary},
};

use crate::{
    document::{Block, Columns, Depth, Row, Section, Table},
    names::Named,
};

pub fn section(title: &str, depth: Depth, blocks: Vec<Block>) -> Option<Section> {
    let title = Some(title.to_owned());
    (!blocks.is_empty()).then_some(Section { title, depth, blocks })
}

/// A section that needs no heading; `None` without anything to say.
pub fn untitled(blocks: Vec<Block>) -> Option<Section> {
    Some(Section {
        title: None,
        ..section("", Depth::Open, blocks)?
    })
}

/// Rows of several groups, each under its setting.
pub fn under_settings<'b, 'a: 'b>(
    groups: impl IntoIterator<Item = &'b Group<'a>>,
    mut rows: impl FnMut(&'b Group<'a>) -> Vec<Row>,
) -> Vec<Row> {
    let mut all = Vec::new();
    for group in groups {
        let rows = rows(group);
        if !group.setting().is_empty() && !rows.is_empty() {
            all.push(Row::Group(group.setting().clone()));
        }
        all.extend(rows);
    }
    all
}

/// A table whose rows are under the settings of their groups; `count` are those of a group.
pub fn table_under_settings<'b, 'a: 'b>(
    groups: impl IntoIterator<Item = &'b Group<'a>>,
    columns: Columns,
    count: impl Fn(&'b Group<'a>) -> usize,
) -> Table {
    let (columns, rows) = columns.into_rows();
    let mut rows = rows.into_iter().map(Row::Cells);
    let rows = under_settings(groups, |group| rows.by_ref().take(count(group)).collect());
    Table { columns, rows }
}

/// Title of the column with the names of the cases.
pub fn case_title(summary: &Summary) -> &'static str {
    if summary.aa { "case" } else { compared_factor(summary) }
}

/// The full name of a case, for text that stands alone: transport and setting.
pub fn full_name(group: &Group<'_>, case: &CaseSummary) -> String {
    group.name(case) + &group.in_brackets()
}
