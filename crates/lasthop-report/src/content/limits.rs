//! Results of the limits of `--fail-if`.

use lasthop_analyse::summary::{JudgedLimit, Standing};

use super::parts;
use crate::document::{Block, Depth, Section, Text, Tone};

/// Results of the user's limits; `None` without limits.
#[must_use]
pub fn limits(held: &[JudgedLimit]) -> Option<Section> {
    let item = |one: &JudgedLimit| {
        let tone = match one.standing {
            Standing::Beyond => Tone::Bad,
            Standing::Undecided | Standing::Unjudged => Tone::Warning,
            Standing::Within => Tone::Good,
        };
        Block::Item(Text::of(tone, &one.text))
    };
    parts::section("Limits", Depth::Open, held.iter().map(item).collect())
}
