//! Failures: stage, cause and the last lines of the log. A failure that repeats in several rounds is shown once.

use indexmap::IndexMap;
use lasthop_analyse::{groups::Group, summary::Summary};
use lasthop_model::{
    quantity::joined,
    record::{Failure, Stage},
};

use super::{parts, verdicts::sentence};
use crate::{
    document::{Block, Depth, Section, Text, Tone},
    names::short_name,
    units::plural,
};

pub fn section(summary: &Summary, groups: &[Group<'_>]) -> Option<Section> {
    let mut kinds: IndexMap<(&Stage, String), Vec<&Failure>> = IndexMap::new();
    for failure in &summary.failures {
        // Ports and numbers of rounds differ between repetitions of a failure.
        let without_numbers = failure.cause.replace(|letter: char| letter.is_ascii_digit(), "");
        let key = (&failure.stage, without_numbers);
        kinds.entry(key).or_default().push(failure);
    }
    let mut blocks = Vec::new();
    for failures in kinds.values() {
        blocks.push(Block::Item(text(failures, groups)));
        let last = failures[failures.len() - 1];
        let hint = last.hint.as_ref();
        blocks.extend(hint.map(|hint| Block::SubItem(Text::of(Tone::Warning, "hint: ").plain(sentence(hint)))));
        if !last.log.trim().is_empty() {
            blocks.push(Block::Log {
                tail: last.log.trim_end().to_owned(),
                file: last.log_file.clone(),
            });
        }
    }
    parts::section("Failures", Depth::Open, blocks)
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
    let names = cases.iter().map(|case| short_name(groups, case));
    Text::of(Tone::Strong, joined(names, ", "))
        .and(Tone::Bad, format!(" failed at {}", first.stage))
        .plain(format!("{times}: {}", sentence(&first.cause)))
}
