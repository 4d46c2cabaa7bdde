//! The result of a selftest for people.

use lasthop_page::{
    document::{Block, Depth, Document, Section, Text, Tone},
    units::Seconds,
};

use super::outcome::{Part, Question, Resolution, SelfTest, Share};

pub fn document(result: &SelfTest) -> Document {
    let mut sections: Vec<Section> = result.parts.iter().map(|part| section(result, part)).collect();
    let mut blocks = vec![Block::Paragraph(conclusion(result))];
    if result.interrupted {
        blocks.push(Block::Paragraph(Text::of(
            Tone::Warning,
            "Interrupted: these are the runs that ended before.",
        )));
    }
    sections.push(Section {
        title: None,
        depth: Depth::Open,
        blocks,
    });
    let of = match result.question {
        Question::Itself { .. } => "each reference case against itself",
        Question::Again => "the same question again and again",
    };
    Document {
        title: format!("Selftest of {}", result.experiment),
        subtitle: Text::of(
            Tone::Dim,
            format!(
                "{of} · runs of {} · {} in all",
                Seconds(result.budget_seconds),
                Seconds(result.seconds)
            ),
        ),
        sections,
    }
}

fn section(result: &SelfTest, part: &Part) -> Section {
    let beside = match part.noise {
        None => "As the machine is".to_owned(),
        Some(share) => format!("Beside {}", bursts(share)),
    };
    let runs = if part.runs == 1 { "run" } else { "runs" };
    let mut blocks: Vec<Block> = sentences(result, part).into_iter().map(Block::Item).collect();
    blocks.extend(
        part.failures
            .iter()
            .map(|failure| Block::Item(Text::of(Tone::Bad, failure))),
    );
    Section {
        title: Some(format!("{beside}: {} {runs}", part.runs)),
        depth: Depth::Open,
        blocks,
    }
}

fn sentences(result: &SelfTest, part: &Part) -> Vec<Text> {
    if part.held.of == 0 {
        return vec![Text::of(Tone::Warning, "No run gave an interval.")];
    }
    let truth = match result.question {
        Question::Itself { .. } => "1".to_owned(),
        Question::Again if part.noise.is_some() && result.parts.len() > 1 => "the pooled quiet answer".to_owned(),
        Question::Again => "the pooled answer".to_owned(),
    };
    let tone = if part.is_sound() { Tone::Good } else { Tone::Bad };
    let mut all = vec![Text::of(
        tone,
        format!("{} hold {truth}; 95 % should.", counted(part.held, "intervals")),
    )];
    if let Some(warned) = part.warned.filter(|warned| warned.of > 0) {
        let text = "others come from runs that warn: what disturbed them may have changed the ratio.";
        all.push(format!("{} of {} {text}", warned.count, warned.of).into());
    }
    if let (Question::Itself { plant }, Some(different), Some(found)) =
        (result.question, part.called_different, part.found)
    {
        all.push(
            format!(
                "{} called a case different from itself.",
                counted(different, "verdicts")
            )
            .into(),
        );
        all.push(
            format!(
                "{} found a planted cost of {}.",
                counted(found, "verdicts"),
                percent(plant)
            )
            .into(),
        );
    }
    for pooled in &part.pooled {
        all.push(format!("{}: pooled ratio {:.3}.", pooled.case, pooled.ratio).into());
    }
    all.extend(
        part.half_width
            .map(|half| widths(result.budget_seconds, half, &part.resolution)),
    );
    all
}

fn bursts(share: f64) -> String {
    format!("bursts that ask for {} of each CPU", percent(share))
}

/// What runs as the machine is say of how long a run must be here; `None` without an interval.
pub fn resolution(result: &SelfTest) -> Option<Text> {
    let part = result.parts.first()?;
    Some(widths(result.budget_seconds, part.half_width?, &part.resolution))
}

/// `The median interval of 6 s is ± 7.1 %. ± 5 % takes about 11 s, ± 2 % about 55 s.`
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
    let failed = result.parts.iter().any(|part| !part.failures.is_empty());
    match (result.passed, failed) {
        _ if result.parts.iter().all(|part| part.held.of == 0) => {
            Text::of(Tone::Warning, "Nothing was measured, so nothing is known.")
        }
        (true, _)
            if result
                .parts
                .iter()
                .any(|part| part.warned.is_some_and(|warned| warned.count > 0)) =>
        {
            let text = "The intervals hold as often as they should, within what chance allows, or their runs warn.";
            Text::of(Tone::Good, text)
        }
        (true, _) => Text::of(
            Tone::Good,
            "The intervals hold as often as they should, within what chance allows.",
        ),
        (_, true) => Text::of(Tone::Bad, "A case failed."),
        _ => Text::of(
            Tone::Bad,
            "Fewer intervals hold than chance allows (less than 1 in 100): do not trust a single run on this machine.",
        ),
    }
}

/// `19 of 20 intervals (76 to 99 %)`
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
    fn a_repeated_question_tells_which_others_were_warned_of() {
        let share = |count, of| Share {
            count,
            of,
            low: 0.0,
            high: 1.0,
        };
        let part = Part {
            held: share(4, 12),
            warned: Some(share(8, 8)),
            ..Part::new(Some(0.2))
        };
        let result = SelfTest::new("x", Question::Again, 30.0, vec![]);
        let said = format!("{:?}", sentences(&result, &part));
        assert!(
            said.contains("4 of 12 intervals") && said.contains("8 of 8 others come from runs that warn"),
            "{said}"
        );
    }

    #[test]
    fn an_interval_that_says_nothing_has_no_width() {
        let said = |half| format!("{:?}", widths(10.0, half, &[]));
        assert!(said(440.0).contains("are too short here"), "{}", said(440.0));
        assert!(said(0.05).contains("The median interval of"), "{}", said(0.05));
    }
}
