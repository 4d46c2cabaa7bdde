//! What changed from one run to another.
//!
//! The first line follows from the changes of ratios that are judged: the declared metric and the CPU time.
//!
//! | changes | the first line |
//! |---|---|
//! | one is more than chance | what it was and what it is |
//! | several are | how many, then the largest |
//! | all are equivalent | `Nothing changed` |
//! | none is, but some are undecided | `No change was found`, with the largest that could hide |

use lasthop_analyse::{
    across::{
        Ratio,
        diff::{CaseChange, Diff, RatioChange},
    },
    name_of,
    summary::{CaseSummary, Comparison, Held, Measured, Metric, Verdict},
};

use super::{Told, comparison, differences, differences_in_short, doubts, first, of_cases, panels, quantity_of, side};
use crate::{
    content::{case_title, section, the, title},
    document::{Block, Cell, Column, Columns, Depth, Document, Section, Table, Text, Tone},
    forest::{self, Panel, Part, directed},
    groups::{Group, compared_name, groups},
    units::{NBSP, TimeUnit, capital, column, percent, ratio, significant},
    wording::{self, Quantity, bounds, margin, ratio_places, tone},
};

/// A larger share is said as a factor.
const LARGE: f64 = 0.5;

impl Told for Diff {
    fn question(&self) -> &str {
        &self.question
    }

    fn answer(&self) -> Vec<Text> {
        answer(self)
    }

    fn document(&self) -> Document {
        let groups = groups(&self.runs[1]);
        let sections = [
            Some(first(answer(self))),
            ratios(self, &groups),
            absolute(self, &groups, true),
            cpu(self, &groups),
            absolute(self, &groups, false),
            differences(&self.differences, only(self)),
            doubts(
                &[("the old run", &self.old), ("the new run", &self.new)],
                own_doubts(self),
            ),
        ];
        Document {
            title: format!("{}, old and new", title(&self.runs[1])),
            subtitle: Text::of(Tone::Dim, format!("old: {}; new: {}", side(&self.old), side(&self.new))),
            sections: sections.into_iter().flatten().collect(),
        }
    }

    fn panels(&self) -> Vec<Panel> {
        let [old, new] = &self.runs;
        let mut all = panels(&[("old", old), ("new", new)], new);
        all.extend(
            [Quantity::Requests, Quantity::ResponseTime, Quantity::Cpu]
                .into_iter()
                .filter_map(|of| changes(self, of)),
        );
        all
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

/// A change of a ratio, and the case in the words of the new run.
struct Found<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    change: &'a RatioChange,
}

/// Changes in the order of the cases.
fn found<'a>(diff: &'a Diff, groups: &'a [Group<'a>], wanted: impl Fn(&RatioChange) -> bool) -> Vec<Found<'a>> {
    let cases = groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group, *case)));
    let of = |(group, case): (&'a Group<'a>, &'a CaseSummary)| {
        let change = diff
            .comparisons
            .iter()
            .find(|one| one.case == case.case && wanted(one))?;
        Some(Found { group, case, change })
    };
    cases.filter_map(of).collect()
}

impl Found<'_> {
    fn quantity(&self) -> Quantity {
        quantity_of(self.group, self.change.metric)
    }

    /// The change itself.
    fn comparison(&self) -> Comparison {
        let RatioChange {
            case,
            reference,
            metric,
            change,
            verdict,
            ..
        } = self.change;
        comparison(case, reference, *metric, change, verdict.unwrap_or(Verdict::Undecided))
    }

    /// How far the interval reaches.
    fn reach(&self) -> f64 {
        let Ratio { low, high, .. } = self.change.change;
        low.ln().abs().max(high.ln().abs()).exp_m1()
    }
}

fn answer(diff: &Diff) -> Vec<Text> {
    let groups = groups(&diff.runs[1]);
    let judged = found(diff, &groups, |one| one.declared && one.is_judged());
    let cpu = found(diff, &groups, |one| {
        one.metric == Metric::CpuPerRequest && one.is_judged()
    });
    let all: Vec<&Found<'_>> = judged.iter().chain(&cpu).collect();
    let mut changed: Vec<&Found<'_>> = all.iter().filter(|one| one.change.changed()).copied().collect();
    let size = |one: &Found<'_>| one.change.change.ratio.ln().abs();
    changed.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let mut lines = match changed[..] {
        [] => vec![unchanged(diff, &all)],
        [one] => vec![sentence(diff, one)],
        [largest, ..] => {
            let count = Text::of(
                Tone::Strong,
                format!("{} of {} ratios changed", changed.len(), all.len()),
            );
            vec![count.plain(", this one most: ").join(sentence(diff, largest))]
        }
    };
    lines.extend(everything(diff));
    lines.push(differences_in_short(&diff.differences));
    lines.truncate(3);
    lines
}

fn unchanged(diff: &Diff, judged: &[&Found<'_>]) -> Text {
    let within = margin(diff.margin);
    let reach = judged.iter().map(|one| one.reach()).fold(0.0, f64::max);
    let chance = judged.iter().filter(|one| one.change.may_be_chance()).count();
    if judged.is_empty() {
        return Text::of(Tone::Warning, "Nothing can be said").plain(": no ratio of both runs may be used.");
    }
    if judged.iter().all(|one| one.change.verdict == Some(Verdict::Equivalent)) {
        return Text::of(Tone::Good, format!("Nothing changed beyond ±{within}"))
            .plain(": each ratio is what it was.".to_owned());
    }
    let hint = match chance {
        0 => String::new(),
        count => format!(
            " {count} of {} may have changed, but so many do by chance.",
            judged.len()
        ),
    };
    let hidden = match reach < LARGE {
        true => format!("of up to ±{}", percent(reach, usize::from(reach < 0.1))),
        false => format!("by a factor of up to {}", significant(1.0 + reach, 2)),
    };
    Text::of(Tone::Strong, "No change was found").plain(format!(": one {hidden} could hide in the intervals.{hint}"))
}

/// `The Unix socket's advantage over TCP shrank from 1.62 to 1.41 times the requests/s (−13 %, 95 % interval …).`
fn sentence(diff: &Diff, found: &Found<'_>) -> Text {
    let Found { group, case, change } = found;
    let quantity = found.quantity();
    let less = matches!(quantity, Quantity::ResponseTime | Quantity::Cpu);
    let both = |is: fn(&Ratio) -> bool| is(&change.old) && is(&change.new);
    let (above, below) = (both(|ratio| ratio.low > 1.0), both(|ratio| ratio.high < 1.0));
    let (ahead, behind) = if less { (below, above) } else { (above, below) };
    let gained = change.verdict == Some(Verdict::Faster);
    let (name, reference) = (
        capital(&the(&group.name(case))),
        the(compared_name(group.summary(), group.head())),
    );
    let (subject, went) = match (ahead, behind) {
        (true, _) => (
            format!("{name}'s advantage over {reference}"),
            if gained { "grew" } else { "shrank" },
        ),
        (_, true) => (
            format!("{name}'s disadvantage against {reference}"),
            if gained { "shrank" } else { "grew" },
        ),
        _ if gained => (format!("{name} gained on {reference}"), "and went"),
        _ => (format!("{name} lost to {reference}"), "and went"),
    };
    let setting = if group.setting.is_empty() {
        String::new()
    } else {
        format!("{}: ", group.setting)
    };
    let shown = found.comparison();
    let places = ratio_places(&shown);
    let [old, new] = [change.old.ratio, change.new.ratio].map(|value| ratio(value, places));
    let tone = if gained { Tone::Good } else { Tone::Bad };
    Text::of(Tone::Strong, setting)
        .plain(format!("{subject} "))
        .and(tone, went)
        .plain(format!(
            " from {old} to {new}{NBSP}times the {} ({}).",
            quantity.word(),
            wording::change(&shown, diff.confidence)
        ))
}

/// The figures that verdicts would be about, if the machine were the same.
fn declared(diff: &Diff) -> impl Iterator<Item = &CaseChange> {
    diff.cases.iter().filter(|one| one.declared)
}

/// All cases became slower, or all faster: something that they share.
fn everything(diff: &Diff) -> Option<Text> {
    let least_of = |of: fn(&Ratio) -> f64| declared(diff).map(|one| of(&one.change)).fold(f64::INFINITY, f64::min);
    let most_of = |of: fn(&Ratio) -> f64| declared(diff).map(|one| of(&one.change)).fold(0.0, f64::max);
    let is_time = declared(diff).next()?.metric == Metric::LatencyP50;
    let fell = most_of(|one| one.high) < 1.0 - diff.margin;
    let rose = least_of(|one| one.low) > 1.0 + diff.margin;
    if !fell && !rose {
        return None;
    }
    let word = if fell == is_time { "faster" } else { "slower" };
    let what = if is_time { "median response time" } else { "requests/s" };
    let [least, most] = [least_of(|one| one.ratio), most_of(|one| one.ratio)].map(|value| ratio(value, 2));
    Some(
        Text::of(Tone::Warning, format!("Every case is {word} than before")).plain(format!(
            ", with {least} to {most}{NBSP}times the {what}: that is the machine, its load, or what all cases share."
        )),
    )
}

fn ratios(diff: &Diff, groups: &[Group<'_>]) -> Option<Section> {
    let all = found(diff, groups, |one| one.declared);
    let mut blocks = vec![Block::Table(table(diff, groups, &all)?)];
    let what = match all.first()?.quantity() {
        Quantity::ResponseTime => "median response times",
        _ => "requests/s",
    };
    let marked = diff.comparisons.iter().any(RatioChange::may_be_chance);
    let mark = if marked {
        " A question mark: among so many, one may change by chance."
    } else {
        ""
    };
    let text = format!("Ratios of {what} to the reference of the same run. Verdicts are on the change.{mark}");
    blocks.push(Block::Paragraph(Text::of(Tone::Dim, text)));
    section("Ratios", Depth::Open, blocks)
}

fn cpu(diff: &Diff, groups: &[Group<'_>]) -> Option<Section> {
    let all = found(diff, groups, |one| one.metric == Metric::CpuPerRequest);
    section(
        "Ratios of CPU per request",
        Depth::Folded,
        vec![Block::Table(table(diff, groups, &all)?)],
    )
}

fn table(diff: &Diff, groups: &[Group<'_>], all: &[Found<'_>]) -> Option<Table> {
    let shown: Vec<Comparison> = all.iter().map(Found::comparison).collect();
    let places = shown.iter().map(ratio_places).max()?;
    let verdict = |one: &Found<'_>| match one.change.verdict {
        None => "invalid".into(),
        Some(verdict) => {
            let mark = if one.change.may_be_chance() { "?" } else { "" };
            Cell::new(tone(verdict), format!("{}{mark}", one.quantity().verdict(verdict)))
        }
    };
    let columns = Columns::default()
        .with(
            Column::left(case_title(&diff.runs[1])),
            all.iter().map(|one| name(one.group, one.case)),
        )
        .with(
            Column::right("old"),
            all.iter().map(|one| ratio(one.change.old.ratio, places)),
        )
        .with(
            Column::right("new"),
            all.iter().map(|one| ratio(one.change.new.ratio, places)),
        );
    let columns = changed(columns, diff, &shown).with(Column::left("verdict").joined(), all.iter().map(verdict));
    let has = |case: &CaseSummary| all.iter().any(|one| one.case.case == case.case);
    Some(of_cases(groups, columns, has))
}

fn name(group: &Group<'_>, case: &CaseSummary) -> Cell {
    Cell::new(Tone::Strong, group.label(case))
}

/// New divided by old, with the interval.
fn changed(columns: Columns, diff: &Diff, shown: &[Comparison]) -> Columns {
    let places = shown.iter().map(ratio_places).max().unwrap_or(2);
    let confidence = percent(diff.confidence, 0);
    columns
        .with(
            Column::right("new/old"),
            shown.iter().map(|one| ratio(one.ratio, places)),
        )
        .with(
            Column::left(format!("{confidence} interval")).joined(),
            shown.iter().map(|one| bounds(one, places)),
        )
}

/// Absolute figures: those that verdicts would be about, or the others.
fn absolute(diff: &Diff, groups: &[Group<'_>], wanted: bool) -> Option<Section> {
    let metrics = [
        Metric::Throughput,
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::CpuPerRequest,
    ];
    let tables = metrics
        .into_iter()
        .filter_map(|metric| figures(diff, groups, metric, wanted));
    let blocks: Vec<Block> = tables.map(Block::Table).collect();
    match wanted {
        true => section("Absolute figures", Depth::Open, blocks),
        false => section("Other absolute figures", Depth::Folded, blocks),
    }
}

fn figures(diff: &Diff, groups: &[Group<'_>], metric: Metric, wanted: bool) -> Option<Table> {
    let of = |case: &CaseSummary| {
        diff.cases
            .iter()
            .find(|one| one.case == case.case && one.metric == metric && one.declared == wanted)
    };
    let cases = groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group, *case)));
    let all: Vec<_> = cases
        .filter_map(|(group, case)| Some((group, case, of(case)?)))
        .collect();
    let (_, _, one) = all.first()?;
    let values = |pick: fn(&CaseChange) -> f64| all.iter().map(|(_, _, one)| pick(one)).collect::<Vec<f64>>();
    let (old, new) = (values(|one| one.old.estimate), values(|one| one.new.estimate));
    let unit = TimeUnit::of_column(&[&old[..], &new].concat());
    let (what, scale) = match one.old.unit.as_str() {
        "us" => (unit.name(), unit.micros()),
        _ => ("requests/s", 1.0),
    };
    let name_of = match metric {
        Metric::Throughput => String::new(),
        Metric::LatencyP50 => "p50 ".to_owned(),
        Metric::LatencyP99 => "p99 ".to_owned(),
        Metric::CpuPerRequest => "CPU ".to_owned(),
    };
    let scaled = |values: &[f64]| column(&values.iter().map(|value| Some(value / scale)).collect::<Vec<_>>());
    let shown: Vec<Comparison> = all
        .iter()
        .map(|(_, _, one)| comparison(&one.case, "", metric, &one.change, Verdict::Undecided))
        .collect();
    let columns = Columns::default()
        .with(
            Column::left(case_title(&diff.runs[1])),
            all.iter().map(|(group, case, _)| name(group, case)),
        )
        .with(Column::right(format!("old {name_of}{what}")), scaled(&old))
        .with(Column::right(format!("new {name_of}{what}")), scaled(&new));
    Some(of_cases(groups, changed(columns, diff, &shown), |case| {
        of(case).is_some()
    }))
}

/// Cases that one run lacks.
fn only(diff: &Diff) -> Vec<String> {
    let of = |word: &str, cases: &[String]| {
        (!cases.is_empty()).then(|| format!("only in the {word} run: {}", cases.join(", ")))
    };
    [of("old", &diff.only_old), of("new", &diff.only_new)]
        .into_iter()
        .flatten()
        .collect()
}

fn own_doubts(diff: &Diff) -> Vec<Text> {
    let mut all = vec![Text::from(
        "absolute figures of two runs differ by more than their intervals say (another day, other neighbours, other \
         starts); within a run that cancels out of ratios",
    )];
    if diff.comparisons.iter().any(|one| one.declared && one.lower_bound) {
        all.push(
            "a ratio is a lower bound, because the driver or the machine was the bottleneck, so its change is, too"
                .into(),
        );
    }
    all
}

/// The changes of one quantity, as a panel.
fn changes(diff: &Diff, quantity: Quantity) -> Option<Panel> {
    let groups = groups(&diff.runs[1]);
    let is_cpu = quantity == Quantity::Cpu;
    let all = found(diff, &groups, |one| {
        one.is_judged() && (one.metric == Metric::CpuPerRequest) == is_cpu
    });
    let same = |one: &&Found<'_>| match one.quantity() {
        Quantity::Bytes | Quantity::Received => quantity == Quantity::Requests,
        other => other == quantity,
    };
    let row = |one: &Found<'_>| {
        let setting = if one.group.setting.is_empty() {
            String::new()
        } else {
            format!(", {}", one.group.setting)
        };
        forest::Row::new(format!("{}{setting}", one.group.label(one.case)), &one.comparison())
    };
    let rows: Vec<forest::Row> = all.iter().filter(same).map(row).collect();
    let title = directed(quantity, "ratios, new/old");
    (!rows.is_empty()).then(|| Panel {
        title,
        parts: vec![Part {
            heading: String::new(),
            rows,
        }],
    })
}

const HEADER: [&str; 15] = [
    "case",
    "reference",
    "metric",
    "unit",
    "old",
    "old_low",
    "old_high",
    "new",
    "new_low",
    "new_high",
    "change",
    "change_low",
    "change_high",
    "verdict",
    "adjusted_p",
];

/// Ratios, then absolute figures, which have no reference and no verdict.
fn rows(diff: &Diff) -> Vec<Vec<String>> {
    let three = |ratio: &Ratio| [ratio.ratio, ratio.low, ratio.high].map(|value| value.to_string());
    let ratio = |one: &RatioChange| {
        let names = [
            one.case.clone(),
            one.reference.clone(),
            name_of(one.metric),
            String::new(),
        ];
        let figures = [three(&one.old), three(&one.new), three(&one.change)];
        let verdict = one.verdict.map(wording::word).unwrap_or_default().to_owned();
        let p = one.adjusted_p.map(|p| p.to_string()).unwrap_or_default();
        names
            .into_iter()
            .chain(figures.into_iter().flatten())
            .chain([verdict, p])
            .collect()
    };
    let figure = |one: &CaseChange| {
        let names = [
            one.case.clone(),
            String::new(),
            name_of(one.metric),
            one.old.unit.clone(),
        ];
        let of = |value: &Measured| [value.estimate, value.low, value.high].map(|value| value.to_string());
        let figures = [of(&one.old), of(&one.new), three(&one.change)];
        names
            .into_iter()
            .chain(figures.into_iter().flatten())
            .chain([String::new(), String::new()])
            .collect()
    };
    let header = HEADER.map(str::to_owned).to_vec();
    std::iter::once(header)
        .chain(diff.comparisons.iter().map(ratio))
        .chain(diff.cases.iter().map(figure))
        .collect()
}
