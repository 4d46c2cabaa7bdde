//! The result of a selftest for people.

use lasthop_page::{
    document::{Block, Depth, Document, Section, Text, Tone},
    units::Seconds,
};

use super::outcome::{Resolution, SelfTest, Share};

pub fn document(result: &SelfTest) -> Document {
    let interrupted = Text::of(Tone::Warning, "Interrupted: these are the runs that ended before.");
    let cut_off = Section {
        title: None,
        depth: Depth::Open,
        blocks: vec![Block::Paragraph(interrupted)],
    };
    let cut_off = result.interrupted.then_some(cut_off);
    Document {
        title: conclusion(result),
        subtitle: Text::of(
            Tone::Dim,
            format!(
                "selftest of {}: each reference case against itself · runs of {} · {} in all",
                result.experiment,
                Seconds(result.budget_seconds),
                Seconds(result.seconds)
            ),
        ),
        sections: [Some(figures(result)), cut_off].into_iter().flatten().collect(),
    }
}

fn figures(result: &SelfTest) -> Section {
    let runs = if result.runs == 1 { "run" } else { "runs" };
    let mut blocks: Vec<Block> = sentences(result).into_iter().map(Block::Item).collect();
    blocks.extend(
        result
            .failures
            .iter()
            .map(|failure| Block::Item(Text::of(Tone::Bad, failure))),
    );
    Section {
        title: Some(format!("{} {runs}", result.runs)),
        depth: Depth::Open,
        blocks,
    }
}

fn sentences(result: &SelfTest) -> Vec<Text> {
    if result.held.of == 0 {
        return vec![Text::of(Tone::Warning, "No run gave an interval.")];
    }
    let tone = if result.is_sound() { Tone::Good } else { Tone::Bad };
    let mut all = vec![
        Text::of(
            tone,
            format!("{} hold 1; 95 % should.", counted(result.held, "intervals")),
        ),
        format!(
            "{} called a case different from itself.",
            counted(result.called_different, "verdicts")
        )
        .into(),
        format!(
            "{} found a planted cost of {}.",
            counted(result.found, "verdicts"),
            percent(result.plant)
        )
        .into(),
    ];
    all.extend(resolution(result));
    all
}

/// The required length of a run on this machine; `None` without an interval.
pub fn resolution(result: &SelfTest) -> Option<Text> {
    Some(widths(result.budget_seconds, result.half_width?, &result.resolution))
}

/// The widths in words: `The median interval of 6 s is ± 7.1 %. ± 5 % takes about 11 s, ± 2 % about 55 s.`
fn widths(budget: f64, half: f64, resolution: &[Resolution]) -> Text {
    if half > 1.0 {
        let text = "are too short here: the median interval reaches to more than double and to less than half.";
        return Text::of(Tone::Warning, format!("Runs of {} {text}", Seconds(budget)));
    }
    let others: Vec<String> = resolution
        .iter()
        .enumerate()
        .map(|(at, found): (usize, &Resolution)| {
            let takes = if at == 0 { "takes about" } else { "about" };
            format!("± {} {takes} {}", percent(found.half_width), Seconds(found.seconds))
        })
        .collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(" {}.", others.join(", "))
    };
    format!(
        "The median interval of {} is ± {}.{others}",
        Seconds(budget),
        percent(half)
    )
    .into()
}

fn conclusion(result: &SelfTest) -> Text {
    if result.held.of == 0 {
        return Text::of(Tone::Warning, "Nothing was measured.");
    }
    match (result.passed, result.failures.is_empty()) {
        (true, _) => Text::of(Tone::Good, "The intervals hold as often as they should."),
        (_, false) => Text::of(Tone::Bad, "A case failed."),
        _ => Text::of(Tone::Bad, "Do not trust a single run on this machine."),
    }
}

/// A share in words: `19 of 20 intervals (76 to 99 %)`
fn counted(share: Share, what: &str) -> String {
    format!(
        "{} of {} {what} ({:.0} to {:.0} %)",
        share.count,
        share.of,
        share.low * 100.0,
        share.high * 100.0
    )
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_has_no_width() {
        let said = |half| format!("{:?}", widths(10.0, half, &[]));
        assert!(said(440.0).contains("are too short here"), "{}", said(440.0));
        assert!(said(0.05).contains("The median interval of"), "{}", said(0.05));
    }
}
