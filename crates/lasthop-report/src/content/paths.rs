//! The path of the link to a container, in words.

use super::parts::{self, full_name};
use crate::document::{Block, Depth, Section, Text, Tone};
use lasthop_analyse::groups::{Group, cases};

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let mut seen: Vec<String> = Vec::new();
    let mut blocks = Vec::new();
    for (group, case) in cases(groups) {
        let path = case.proof.as_ref().map_or(&[][..], |proof| &proof.path);
        // Cases that differ only in their load share the servers and therefore the path.
        let shown = lasthop_model::observation::path(path);
        if !path.is_empty() && !seen.contains(&shown) {
            blocks.push(Block::Item(
                Text::of(Tone::Strong, format!("{}: ", full_name(group, case))).plain(&shown),
            ));
            seen.push(shown);
        }
    }
    parts::section("Paths", Depth::Folded, blocks)
}
