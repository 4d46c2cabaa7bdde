//! "Folklore, tested": what people repeat, and what kept runs say of it. Every figure in a sentence has its interval.

use lasthop_analyse::{
    answers::{Answer, Figure},
    folklore::{Belief, Judged, Measure, Word},
    summary::{Measured, Metric, Summary},
};
use lasthop_model::quantity::joined;
use lasthop_page::markdown;
use lasthop_stats::Interval;

use super::sentences::sure;
use crate::{
    answers::{answer_of, micros},
    content::full_name,
    document::{Block, Depth, Section, Text, Tone},
    groups::{cases, groups},
    units::{NBSP, capital, percent, ratio},
    wording::places_of,
};

const TITLE: &str = "Folklore, tested";
const ABOUT: &str = "\
Sentences that people repeat about how processes on one machine talk, held against runs of lasthop. A verdict follows \
from a 95 % interval: a sentence holds here if all of the interval lies where it would have to, is refuted here if \
nothing of it does, and is undecided otherwise, or where layers do not add up to the CPU time. Layers of CPU time are \
from [profile trials](methodology/layers.md). Another machine may answer otherwise: each sentence has the command that \
asks yours. [The sentences](folklore.toml) are data, and `script/answers --explain` asks those that have no run yet.";

/// Why there is no verdict.
const INCOMPLETE: &str = " Samples do not add up to the CPU time there, so that decides nothing.";

/// A sentence, and what is known of it.
#[derive(Debug)]
pub struct Told<'a> {
    pub belief: &'a Belief,
    /// Command line of its run.
    pub command: &'a str,
    /// `None` if that was not made yet.
    pub found: Option<(Judged, &'a Summary)>,
}

/// The page; `runs` are those that were made, by name.
#[must_use]
pub fn page(told: &[Told<'_>], runs: &[(&str, &Summary)]) -> Vec<u8> {
    let with = |word: Option<Word>| {
        let all = told.iter().filter(move |one| one.word() == word);
        all.map(|one| Block::Item(one.item())).collect::<Vec<_>>()
    };
    let answers: Vec<Answer> = runs.iter().filter_map(|(name, run)| answer(name, run)).collect();
    let sections = [
        ("Refuted here", with(Some(Word::Refuted))),
        ("Holds here", with(Some(Word::Holds))),
        ("Undecided here", with(Some(Word::Undecided))),
        ("Not asked yet", with(None)),
        ("How sure", sure(&answers.iter().collect::<Vec<_>>())),
    ];
    let sections = sections.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    let sections: Vec<Section> = sections
        .map(|(title, blocks)| Section {
            title: Some(title.to_owned()),
            depth: Depth::Open,
            blocks,
        })
        .collect();
    let body = markdown::sections(&sections).replace("\n### ", "\n## ");
    format!("# {TITLE}\n\n{ABOUT}\n{body}").replace(NBSP, " ").into_bytes()
}

/// Under the name of the run: an experiment may have several.
fn answer(name: &str, run: &Summary) -> Option<Answer> {
    Some(Answer {
        experiment: name.to_owned(),
        ..answer_of(run, "", None)?
    })
}

impl Told<'_> {
    fn word(&self) -> Option<Word> {
        self.found.as_ref().map(|(judged, _)| judged.word)
    }

    /// The sentence, what decides, and the command.
    fn item(&self) -> Text {
        let said = match &self.found {
            Some((judged, run)) => {
                let doubt = if judged.incomplete { INCOMPLETE } else { "" };
                format!(" {}{doubt}", capital(&evidence(&self.belief.measure, judged, run)))
            }
            None => String::new(),
        };
        Text::of(
            Tone::Strong,
            format!("“{}.”", self.belief.sentence.trim_end_matches('.')),
        )
        .plain(format!("{said} {} `{}`", bound(self.belief), self.command))
    }
}

/// `It would hold from 10 % of the difference on.`
fn bound(belief: &Belief) -> String {
    let (shown, of): (fn(f64) -> String, _) = match belief.measure {
        Measure::ShareOfSaving(_) => (|share| percent(share, 0), " of the difference"),
        Measure::ShareOfCpu(_) => (|share| percent(share, 0), " of all CPU time"),
        Measure::Times(_) | Measure::Events(_) | Measure::Ratio(_) => (|times| ratio(times, 2), " times"),
    };
    match (belief.least, belief.most) {
        (Some(least), Some(most)) => format!("It would hold from {} to {}{of}.", shown(least), shown(most)),
        (Some(least), None) => format!("It would hold from {}{of} on.", shown(least)),
        (None, Some(most)) => format!("It would hold up to {}{of}.", shown(most)),
        (None, None) => String::new(),
    }
}

/// What was measured, in a sentence.
fn evidence(measure: &Measure, judged: &Judged, run: &Summary) -> String {
    let [case, against] = names(judged, run);
    let none = || format!("The run has no interval of {case} beside {against}.");
    let Some(by) = &judged.by else { return none() };
    let layers = layers(measure, run);
    let saved = judged.saved.as_ref().map(|both| both.each_ref().map(less));
    match (measure, saved) {
        (Measure::ShareOfSaving(_), Some([part, all])) => {
            format!(
                "{case} takes {all} CPU per request than {against}, {part} in {layers}: {}.",
                share(by)
            )
        }
        (Measure::ShareOfCpu(_), Some([part, _])) => format!(
            "In {layers}, {case} saves {} of the CPU time of {against}: it takes {part} per request.",
            share(by)
        ),
        (Measure::Times(_), Some([part, _])) => {
            format!(
                "{case} takes {} times the CPU of {against} in {layers}: {part} per request.",
                times(by)
            )
        }
        (Measure::Events(events), _) => {
            format!(
                "Per request, {case} has {} times the {} of {against}.",
                times(by),
                events.join(", ")
            )
        }
        (Measure::Ratio(metric), _) => of_metric(*metric, &case, &times(by), &against),
        (_, None) => none(),
    }
}

fn of_metric(metric: Metric, case: &str, times: &str, against: &str) -> String {
    match metric {
        Metric::Throughput => format!("{case} answers {times} times the requests per second of {against}."),
        Metric::LatencyP50 => format!("The median latency of {case} is {times} times that of {against}."),
        Metric::LatencyP99 => format!("The 99th percentile of latency of {case} is {times} times that of {against}."),
        Metric::CpuPerRequest => format!("{case} takes {times} times the CPU per request of {against}."),
    }
}

/// Both cases, the second in short if it is of the same setting.
fn names(judged: &Judged, run: &Summary) -> [String; 2] {
    let groups = groups(run);
    let find = |name: &str| cases(&groups).find(|(_, case)| case.case == name);
    let (Some((group, case)), Some((other, against))) = (find(&judged.case), find(&judged.against)) else {
        return [judged.case.clone(), judged.against.clone()];
    };
    let second = if group.setting == other.setting {
        other.name(against)
    } else {
        full_name(other, against)
    };
    [full_name(group, case), second]
}

/// `TCP, IP`
fn layers(measure: &Measure, run: &Summary) -> String {
    let title = |layer: &String| {
        let explained = run.explained.as_ref();
        explained.map_or_else(|| layer.clone(), |explained| explained.title(layer).to_owned())
    };
    joined(measure.layers().iter().map(title), ", ")
}

/// `8.01 µs (7.9 to 8.1) less`
fn less(saved: &Measured) -> String {
    let Measured {
        estimate, low, high, ..
    } = *saved;
    if estimate < 0.0 {
        format!("{} more", micros(&Figure::of(-estimate, -high, -low)))
    } else {
        format!("{} less", micros(&Figure::of(estimate, low, high)))
    }
}

/// `80 % (78 to 82)`
fn share(by: &Measured) -> String {
    let shown = |value: f64| percent(value, 1);
    format!("{} ({} to {})", shown(by.estimate), shown(by.low), shown(by.high))
}

/// `1.53 (1.48 to 1.59)`, `3.58 (3.40 or more)`, `0.77 (0.78 or less)`
fn times(by: &Measured) -> String {
    let Measured {
        estimate, low, high, ..
    } = *by;
    // An end that is not known does not say how exact the other is.
    let mirrored = |end: f64| 2.0 * estimate - end;
    let places = places_of(Interval {
        estimate,
        low: if low > 0.0 { low } else { mirrored(high) },
        high: if high.is_finite() { high } else { mirrored(low) },
    });
    let shown = |value: f64| ratio(value, places);
    let within = match (low > 0.0, high.is_finite()) {
        (_, false) => format!("{} or more", shown(low)),
        (false, true) => format!("{} or less", shown(high)),
        (true, true) => format!("{} to {}", shown(low), shown(high)),
    };
    format!("{} ({within})", shown(estimate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn belief(measure: Measure, least: Option<f64>, most: Option<f64>) -> Belief {
        Belief {
            sentence: "They say so.".to_owned(),
            run: "run".to_owned(),
            case: Default::default(),
            against: None,
            measure,
            least,
            most,
        }
    }

    fn interval(unit: &str, estimate: f64, low: f64, high: f64) -> Measured {
        Measured {
            unit: unit.to_owned(),
            estimate,
            low,
            high,
        }
    }

    fn judged(run: &Summary, by: Option<Measured>, word: Word) -> Judged {
        Judged {
            case: run.cases[0].case.clone(),
            against: run.cases[1].case.clone(),
            by,
            saved: Some([interval("us", -0.5, -0.7, -0.3), interval("us", 12.3, 11.2, 13.4)]),
            incomplete: false,
            word,
        }
    }

    fn shown(told: &[Told<'_>]) -> String {
        String::from_utf8(page(told, &[])).unwrap()
    }

    #[test]
    fn a_sentence_stands_under_its_verdict_with_what_decides() {
        let run = fixtures::explained();
        let layers = || vec!["tcp".to_owned(), "unknown".to_owned()];
        let beliefs = [
            belief(Measure::ShareOfSaving(layers()), Some(0.1), None),
            belief(Measure::Ratio(Metric::Throughput), Some(0.98), Some(1.02)),
            belief(Measure::Events(vec!["syscalls:*".to_owned()]), None, Some(0.9)),
        ];
        let words = [
            (interval("share", -0.04, -0.06, -0.02), Word::Refuted),
            (interval("ratio", 3.58, 3.4, f64::INFINITY), Word::Holds),
        ];
        let mut told: Vec<Told<'_>> = beliefs
            .iter()
            .zip(words)
            .map(|(belief, (by, word))| Told {
                belief,
                command: "lasthop run it --explain",
                found: Some((judged(&run, Some(by), word), &run)),
            })
            .collect();
        told.push(Told {
            belief: &beliefs[2],
            command: "lasthop run other --explain",
            found: None,
        });
        insta::assert_snapshot!(shown(&told));
    }

    #[test]
    fn without_an_interval_nothing_is_claimed() {
        let run = fixtures::explained();
        let belief = belief(Measure::Times(vec!["tcp".to_owned()]), Some(2.0), None);
        let text = shown(&[Told {
            belief: &belief,
            command: "lasthop run it --explain",
            found: Some((judged(&run, None, Word::Undecided), &run)),
        }]);
        assert!(
            text.contains("## Undecided here") && text.contains("has no interval"),
            "{text}"
        );
        assert!(!text.contains("12.3") && !text.contains("Refuted"), "{text}");
    }
}
