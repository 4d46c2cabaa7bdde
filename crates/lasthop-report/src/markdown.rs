//! The report of a run to paste into an issue, with the command that repeats it.

use std::fmt::Write;

use lasthop_analyse::summary::Summary;
use lasthop_page::markdown::page;

use super::{again::again, content::document, units::NBSP};
use crate::text::{self, fenced};

/// The report for an issue or a text page.
#[must_use]
pub fn render(summary: &Summary) -> Vec<u8> {
    let mut page = page(&document(summary));
    let command = again(summary);
    if !command.is_empty() {
        let _ = write!(page, "\nTo repeat it:\n\n{}\n", fenced("sh", &text::line(&command)));
    }
    page.replace(NBSP, " ").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_repeats_the_run_with_its_seed() {
        let mut summary = crate::fixtures::three_transports();
        summary.seed = 7;
        let mut of = |words: &[&str]| {
            summary.command = words.iter().map(ToString::to_string).collect();
            again(&summary)
        };
        assert_eq!(
            of(&["/a/lasthop", "run", "./my stack"]),
            "lasthop run './my stack' --seed 7"
        );
        assert_eq!(of(&["lasthop"]), "lasthop --seed 7");
        assert_eq!(of(&["lasthop", "run", "--seed=5"]), "lasthop run '--seed=5'");
        assert_eq!(of(&["lasthop", "run", "--seed", "5"]), "lasthop run --seed 5");
        assert_eq!(of(&["lasthop", "selftest"]), "lasthop selftest");
        assert_eq!(of(&[]), "");
    }
}
