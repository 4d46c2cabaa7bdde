//! Where the link really goes: the hops from a client to the server, as the kernel's tables and processes showed them.

use super::full_name;
use crate::report::{
    document::{Block, Depth, Section, Text, Tone},
    groups::Group,
};

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let mut seen: Vec<String> = Vec::new();
    let mut blocks = Vec::new();
    for (group, case) in groups.iter().flat_map(|group| group.cases.iter().map(move |case| (group, case))) {
        let hops = case.proof.as_ref().map_or(&[][..], |proof| &proof.path);
        // Cases that differ in their load share the servers, and so the path.
        let shown = crate::observe::path::shown(hops);
        if !hops.is_empty() && !seen.contains(&shown) {
            blocks.push(Block::Item(Text::of(Tone::Strong, format!("{}: ", full_name(group, case))).plain(&shown)));
            seen.push(shown);
        }
    }
    super::section("Paths", Depth::Folded, blocks)
}
