//! Functions that several parts of a report share.

use lasthop_analyse::{
    groups::Group,
    summary::{CaseSummary, Summary},
};

use crate::{
    document::{Block, Depth, Section},
    names::Named,
};

pub fn section(title: &str, depth: Depth, blocks: Vec<Block>) -> Option<Section> {
    let title = Some(title.to_owned());
    (!blocks.is_empty()).then_some(Section { title, depth, blocks })
}

/// A section without a heading; `None` without blocks.
pub fn untitled(blocks: Vec<Block>) -> Option<Section> {
    Some(Section {
        title: None,
        ..section("", Depth::Open, blocks)?
    })
}

/// Title of the column of case names.
pub fn case_title(summary: &Summary) -> &str {
    if summary.aa { "case" } else { &summary.compared }
}

/// The full name of a case for text out of context: transport and setting.
pub fn full_name(group: &Group<'_>, case: &CaseSummary) -> String {
    group.name(case) + &group.in_brackets()
}
