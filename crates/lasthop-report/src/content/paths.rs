//! The path that the link takes: the hops from client to server, found in the kernel's tables and the list of
//! processes.

use super::parts::{self, full_name};
use crate::{
    document::{Block, Depth, Section, Text, Tone},
    groups::{Group, cases},
};

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let mut seen: Vec<String> = Vec::new();
    let mut blocks = Vec::new();
    for (group, case) in cases(groups) {
        let hops = case.proof.as_ref().map_or(&[][..], |proof| &proof.path);
        // Cases that differ only in their load share the servers and therefore the path.
        let shown = lasthop_model::observation::path(hops);
        if !hops.is_empty() && !seen.contains(&shown) {
            blocks.push(Block::Item(
                Text::of(Tone::Strong, format!("{}: ", full_name(group, case))).plain(&shown),
            ));
            seen.push(shown);
        }
    }
    parts::section("Paths", Depth::Folded, blocks)
}
