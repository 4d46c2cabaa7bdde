//! Several runs beside each other: one column of ratios for each.

use lasthop_analyse::{
    across::{
        Ratio, Side,
        beside::{Beside, Spread},
    },
    name_of,
    summary::{Held, Summary, Verdict},
};

use super::{Told, comparison, differences, differences_in_short, doubts, first, of_cases, panels, side};
use crate::{
    content::{case_title, section, title},
    document::{Block, Cell, Column, Columns, Depth, Document, Section, Text, Tone},
    forest::Panel,
    groups::{groups, short_name},
    units::{NONE, percent, ratio},
    wording::{bounds, ratio_places},
};

impl Told for Beside {
    fn question(&self) -> &str {
        &self.question
    }

    fn answer(&self) -> Vec<Text> {
        answer(self)
    }

    fn document(&self) -> Document {
        let runs = self.runs.iter().enumerate().map(|(at, run)| format!("{}: {}", letter(at), side(run)));
        let runs = runs.map(|run| Block::Item(Text::of(Tone::Dim, run))).collect();
        let letters: Vec<String> = (0..self.runs.len()).map(letter).collect();
        let sides: Vec<(&str, &Side)> = letters.iter().map(String::as_str).zip(&self.runs).collect();
        let sections = [
            Some(first(answer(self))),
            section("Runs", Depth::Open, runs),
            ratios(self),
            differences(&self.differences, vec![]),
            doubts(&sides, vec![]),
        ];
        Document {
            title: format!("{}, {} runs", title(&self.summaries[0]), self.runs.len()),
            subtitle: Text::of(Tone::Dim, "ratios of each case to the reference of the same run"),
            sections: sections.into_iter().flatten().collect(),
        }
    }

    fn panels(&self) -> Vec<Panel> {
        let letters: Vec<String> = (0..self.runs.len()).map(letter).collect();
        let runs: Vec<(&str, &Summary)> = letters.iter().map(String::as_str).zip(&self.summaries).collect();
        panels(&runs, main(self))
    }

    fn margin(&self) -> f64 {
        self.margin
    }

    fn limits(&self) -> &[Held] {
        &self.limits
    }

    fn rows(&self) -> Vec<Vec<String>> {
        rows(self)
    }
}

/// The name of a run in a report.
fn letter(place: usize) -> String {
    let letter = u8::try_from(place).ok().filter(|place| *place < 26).map(|place| char::from(b'A' + place));
    letter.map_or_else(|| format!("run {}", place + 1), String::from)
}

/// The run that names the cases: one that has most of them.
fn main(beside: &Beside) -> &Summary {
    beside.summaries.iter().max_by_key(|summary| summary.cases.len()).unwrap_or(&beside.summaries[0])
}

/// The name of a run's column: with its machine or kernel where those differ.
fn heading(beside: &Beside, place: usize) -> String {
    let differs = |of: fn(&Side) -> &Option<String>| beside.runs.iter().any(|run| of(run) != of(&beside.runs[0]));
    let run = &beside.runs[place];
    let host = run.host.as_ref().filter(|_| differs(|side| &side.host));
    let kernel = run.kernel.as_ref().filter(|_| differs(|side| &side.kernel));
    let words = std::iter::once(letter(place)).chain(host.cloned()).chain(kernel.cloned());
    words.collect::<Vec<_>>().join(" ")
}

fn declared(beside: &Beside) -> impl Iterator<Item = &Spread> {
    beside.comparisons.iter().filter(|one| one.declared)
}

fn answer(beside: &Beside) -> Vec<Text> {
    let groups = groups(main(beside));
    let all = declared(beside).filter(|one| one.spread.is_some()).count();
    let mut differing: Vec<&Spread> = declared(beside).filter(|one| one.differs == Some(true)).collect();
    differing.sort_by(|one, other| other.spread.unwrap_or(1.0).total_cmp(&one.spread.unwrap_or(1.0)));
    let widest = declared(beside).filter_map(|one| one.spread).fold(1.0, f64::max);
    let costs = beside.comparisons.iter().filter(|one| !one.declared && one.differs == Some(true)).count();
    let apart = |spread: f64| percent(spread - 1.0, usize::from(spread < 1.1));
    let first = match differing[..] {
        _ if all == 0 => Text::of(Tone::Warning, "Nothing can be said")
            .plain(": these runs have no ratio in common that may be used."),
        [] if costs > 0 => Text::of(Tone::Strong, "Only CPU time differs between runs").plain(format!(
            ", in {costs} of the cases; the largest spread of a ratio is {}, chance included.",
            apart(widest)
        )),
        [] => Text::of(Tone::Strong, "No difference between the runs was found")
            .plain(format!("; the largest spread of a ratio is {}, chance included.", apart(widest))),
        [most, ..] => Text::of(Tone::Strong, format!("{} of {all} ratios differ between runs", differing.len()))
            .plain(format!(", the most: {}, {}.", short_name(&groups, &most.case), ends(most))),
    };
    vec![first, differences_in_short(&beside.differences)]
}

/// `from 1.41 (B) to 1.73 (A)`
fn ends(spread: &Spread) -> String {
    let known =
        || spread.ratios.iter().enumerate().filter_map(|(place, ratio)| Some((ratio.as_ref()?.ratio, letter(place))));
    let least = known().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = known().max_by(|one, other| one.0.total_cmp(&other.0));
    let said = |(value, run): (f64, String)| format!("{} ({run})", ratio(value, 2));
    format!("from {} to {}", least.map(said).unwrap_or_default(), most.map(said).unwrap_or_default())
}

fn ratios(beside: &Beside) -> Option<Section> {
    let all = groups(main(beside));
    let of = |case: &str| declared(beside).find(|one| one.case == case);
    let cases = all.iter().flat_map(|group| group.cases.iter().map(move |case| (group, *case)));
    let lines: Vec<_> = cases.filter_map(|(group, case)| Some((group, case, of(&case.case)?))).collect();
    lines.first()?;
    let names = lines.iter().map(|(group, case, _)| Cell::new(Tone::Strong, group.label(case)));
    let mut columns = Columns::default().with(Column::left(case_title(main(beside))), names);
    for place in 0..beside.runs.len() {
        let cells = lines
            .iter()
            .map(|(_, _, one)| one.ratios[place].as_ref().map_or(NONE.to_owned(), |found| cell(one, found)));
        columns = columns.with(Column::right(heading(beside, place)), cells);
    }
    let spreads = lines.iter().map(|(_, _, one)| one.spread.map_or(NONE.to_owned(), |spread| percent(spread - 1.0, 1)));
    let differs = lines.iter().map(|(_, _, one)| match one.differs {
        Some(true) => Cell::new(Tone::Warning, "they differ"),
        Some(false) => "none found".into(),
        None => NONE.into(),
    });
    let columns = columns.with(Column::right("spread"), spreads).with(Column::left("difference").joined(), differs);
    let table = of_cases(&all, columns, |case| of(&case.case).is_some());
    let confidence = percent(beside.confidence, 0);
    let text = format!(
        "Ratios with their {confidence} intervals. Spread: how far the largest is above the smallest, chance included."
    );
    let blocks = vec![Block::Table(table), Block::Paragraph(Text::of(Tone::Dim, text))];
    section("Ratios", Depth::Open, blocks)
}

/// `1.73 (1.59 to 1.88)`
fn cell(one: &Spread, found: &Ratio) -> String {
    let shown = comparison(&one.case, &one.reference, one.metric, found, Verdict::Undecided);
    let places = ratio_places(&shown);
    format!("{} ({})", ratio(found.ratio, places), bounds(&shown, places))
}

fn rows(beside: &Beside) -> Vec<Vec<String>> {
    let header = ["run", "host", "kernel", "case", "reference", "metric", "ratio", "ratio_low", "ratio_high"];
    let of = |one: &Spread, run: &Side, found: &Ratio| {
        let place = [run.run.clone(), run.host.clone().unwrap_or_default(), run.kernel.clone().unwrap_or_default()];
        let names = [one.case.clone(), one.reference.clone(), name_of(one.metric)];
        let figures = [found.ratio, found.low, found.high].map(|value| value.to_string());
        place.into_iter().chain(names).chain(figures).collect::<Vec<String>>()
    };
    let all = beside.comparisons.iter().flat_map(|one| {
        one.ratios.iter().zip(&beside.runs).filter_map(move |(found, run)| Some(of(one, run, found.as_ref()?)))
    });
    std::iter::once(header.map(str::to_owned).to_vec()).chain(all).collect()
}
