//! Failures: stage, cause and the last lines of the log. A failure that repeats in several rounds is shown once.

use indexmap::IndexMap;
use lasthop_analyse::summary::Summary;
use lasthop_model::record::{Failure, Stage};

use super::{parts, verdicts::sentence};
use crate::{
    document::{Block, Depth, Section, Text, Tone},
    groups::{Group, short_name},
    units::plural,
};

pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    let mut kinds: IndexMap<(&Stage, String), Vec<&Failure>> = IndexMap::new();
    for failure in &summary.failures {
        kinds
            .entry((&failure.stage, kind(&failure.cause)))
            .or_default()
            .push(failure);
    }
    let mut blocks = Vec::new();
    for failures in kinds.values() {
        blocks.push(Block::Item(text(failures, groups)));
        let hint = failures.last().and_then(|failure| failure.hint.as_ref());
        blocks.extend(hint.map(|hint| Block::SubItem(Text::of(Tone::Warning, "hint: ").plain(sentence(hint)))));
        let last = failures.last().filter(|failure| !failure.log.trim().is_empty());
        blocks.extend(last.map(|last| Block::Log {
            tail: last.log.trim_end().to_owned(),
            file: last.log_file.clone(),
        }));
    }
    parts::section("Failures", Depth::Open, blocks)
}

/// The cause without its numbers, because the same failure has other ports and numbers of rounds each time.
fn kind(cause: &str) -> String {
    cause.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn text(failures: &[&Failure], groups: &[Group<'_>]) -> Text {
    let first = failures[0];
    let mut cases: Vec<&str> = failures.iter().map(|failure| failure.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    let times = if failures.len() > cases.len() {
        format!(" ({})", plural(failures.len() as u64, "time"))
    } else {
        String::new()
    };
    let names: Vec<String> = cases.iter().map(|case| short_name(groups, case)).collect();
    Text::of(Tone::Strong, names.join(", "))
        .and(Tone::Bad, format!(" failed at {}", first.stage))
        .plain(format!("{times}: {}", sentence(&first.cause)))
}
