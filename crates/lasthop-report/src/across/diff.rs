//! The changes from one run to another.
//!
//! The first line follows from the judged changes of ratios: by the declared metric and by CPU time.

use lasthop_analyse::{
    across::diff::{CaseChange, Diff, RatioChange},
    decision::Perhaps,
    groups::{Group, cases, groups},
    name_of,
    summary::{CaseSummary, Metric, Verdict},
};
use lasthop_stats::Interval;
use serde::Serialize;

use super::{
    Parts, Reportable, by_quantity, differences, differences_in_short, in_setting, own_doubts, panels, quantity_of,
    side,
};
use crate::{
    against::sure,
    columns::{self, Columns},
    content::{case_title, section, the, title},
    document::{Block, Cell, Depth, Section, Table, Text, Tone},
    forest::{self, RowGroup},
    names::Named,
    units::{percent, ratio, ratio_places},
    wording::{Quantity, interval_title, word},
    words::say,
};

impl Reportable for Diff {
    fn parts(&self) -> Parts<'_> {
        let [old, new] = &self.runs;
        let groups = groups(new);
        let mut panels = panels(&[("old", old), ("new", new)], new);
        let quantities = [Quantity::Requests, Quantity::ResponseTime, Quantity::Cpu];
        panels.extend(by_quantity("ratios, new/old", &quantities, |of| {
            changes(self, &groups, of)
        }));
        Parts {
            question: &self.question,
            answer: answer(self, &groups),
            title: format!("{}, old and new", title(new)),
            subtitle: Text::of(Tone::Dim, format!("old: {}; new: {}", side(&self.old), side(&self.new))),
            sections: vec![
                ratios(self, &groups),
                absolute(self, &groups, true),
                cpu(self, &groups),
                absolute(self, &groups, false),
                differences(&self.differences, only(self)),
                section("Doubts", Depth::Open, doubts(self)),
            ],
            panels,
            margin: self.margin,
            limits: &self.limits,
        }
    }

    fn csv(&self) -> Vec<u8> {
        let ratios = self.comparisons.iter().map(Line::from);
        let lines: Vec<Line<'_>> = ratios.chain(self.cases.iter().map(Line::from)).collect();
        let mut columns = Columns::of(&lines)
            .data("case", |line| line.case)
            .data("reference", |line| line.reference)
            .data("metric", |line| name_of(line.metric))
            .data("unit", |line| line.unit);
        for (place, id) in ["old", "new", "change"].into_iter().enumerate() {
            columns = columns.interval(id, |line| Some(line.figures[place]));
        }
        columns
            .known("verdict", |line| line.change?.verdict.map(word))
            .known("adjusted_p", |line| line.change?.adjusted_p)
            .csv()
    }
}

/// The changes in a sentence.
#[must_use]
pub fn change(diff: &Diff) -> Cell {
    let has_changed = diff.comparisons.iter().any(RatioChange::changed);
    let tone = if has_changed { Tone::Strong } else { Tone::Dim };
    Cell::new(tone, answer(diff, &groups(&diff.runs[1]))[0].to_string())
}

/// A changed ratio, and its case in the words of the new run.
struct Changed<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    change: &'a RatioChange,
}

/// Wanted changes, in the order of the cases.
fn changed<'a>(diff: &'a Diff, groups: &'a [Group<'a>], wanted: impl Fn(&RatioChange) -> bool) -> Vec<Changed<'a>> {
    let of = |(group, case): (&'a Group<'a>, &'a CaseSummary)| {
        let mut all = diff.comparisons.iter().filter(|one| one.case == case.case);
        let change = all.find(|one| wanted(one))?;
        Some(Changed { group, case, change })
    };
    cases(groups).filter_map(of).collect()
}

impl Changed<'_> {
    fn quantity(&self) -> Quantity {
        quantity_of(self.group, self.change.metric)
    }
}

/// The changes, and their possible causes.
fn answer(diff: &Diff, groups: &[Group<'_>]) -> Vec<Text> {
    let mut all = changed(diff, groups, |one| one.declared && one.is_judged());
    all.extend(changed(diff, groups, |one| {
        one.metric == Metric::CpuPerRequest && one.is_judged()
    }));
    let surely: Vec<&Changed<'_>> = all.iter().filter(|one| one.change.changed()).collect();
    let open = all.iter().filter(|one| one.change.verdict != Some(Verdict::Equivalent));
    let unseen = open.map(|one| one.change.change).map(farthest).fold(0.0, f64::max);
    let names = surely
        .first()
        .map(|one| [one.case, one.group.head()].map(|case| the(&one.group.name(case))));
    let [who, than] = names.unwrap_or_default();
    let every = everything(diff);
    let tone = match surely[..] {
        _ if all.is_empty() => Tone::Warning,
        [] if every.is_some() => Tone::Warning,
        [] if unseen == 0.0 => Tone::Good,
        _ => Tone::Strong,
    };
    let values = HeadlineValues {
        judged: all.len(),
        changed: surely.len(),
        who,
        than,
        every,
        unseen: (unseen > 0.0).then(|| percent(unseen, 0)),
        changes: [false, true]
            .into_iter()
            .filter_map(|is_cpu| most(&surely, is_cpu))
            .collect(),
    };
    let mut lines = say("diff", values).into_iter();
    let first = Text::of(tone, lines.next().unwrap_or_default());
    let rest = [
        lines.collect::<Vec<_>>().join(" ").into(),
        differences_in_short(&diff.differences),
    ];
    let is_there = |line: &Text| !line.to_string().is_empty();
    std::iter::once(first)
        .chain(rest.into_iter().filter(is_there))
        .collect()
}

/// The largest change of a declared ratio, or of a ratio of CPU time.
fn most(surely: &[&Changed<'_>], is_cpu: bool) -> Option<ChangeValues> {
    let all = surely
        .iter()
        .filter(|one| (one.change.metric == Metric::CpuPerRequest) == is_cpu);
    let size = |one: &Changed<'_>| one.change.change.estimate.ln().abs();
    let most = all.max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let RatioChange { old, new, change, .. } = most.change;
    let places = ratio_places(*change);
    let shown = |of: &Interval| if is_cpu { saved(of) } else { ratio(of.estimate, places) };
    let times = if is_cpu { "" } else { " times" };
    let than = most.group.label(most.group.head());
    Some(ChangeValues {
        what: if is_cpu { "CPU saved" } else { most.quantity().word() },
        old: shown(old),
        new: shown(new),
        of: format!(
            "{times}, {} against {than}{}",
            most.group.label(most.case),
            most.group.in_brackets()
        ),
    })
}

/// The share of the reference's CPU time per request that a case saves: `9 %`
fn saved(ratio: &Interval) -> String {
    let share = 1.0 - ratio.estimate;
    if share < 0.0 {
        format!("−{}", percent(-share, 0))
    } else {
        percent(share, 0)
    }
}

#[derive(Serialize)]
struct HeadlineValues {
    /// Ratios with a verdict on their change.
    judged: usize,
    changed: usize,
    /// The case and the reference of the first changed ratio.
    who: String,
    than: String,
    /// The change that all cases share although no ratio changed.
    every: Option<&'static str>,
    /// The largest change that the intervals still allow.
    unseen: Option<String>,
    /// The largest change of throughput or response time, and of CPU time.
    changes: Vec<ChangeValues>,
}

#[derive(Serialize)]
struct ChangeValues {
    what: &'static str,
    old: String,
    new: String,
    /// The name of the changed quantity.
    of: String,
}

/// The distance from 1 to the farther end of an interval.
fn farthest(change: Interval) -> f64 {
    (change.high - 1.0).max(1.0 - change.low)
}

/// Absolute figures by the metric of the verdicts. They get no verdict, because the machine may have changed.
fn declared(diff: &Diff) -> impl Iterator<Item = &CaseChange> {
    diff.cases.iter().filter(|one| one.declared)
}

/// The common direction of all cases, slower or faster. The cause is the machine, its load, or a part that cases share.
fn everything(diff: &Diff) -> Option<&'static str> {
    let least = declared(diff).map(|one| one.change.low).fold(f64::INFINITY, f64::min);
    let most = declared(diff).map(|one| one.change.high).fold(0.0, f64::max);
    let is_time = declared(diff).next()?.metric == Metric::LatencyP50;
    match (most < 1.0 - diff.margin, least > 1.0 + diff.margin) {
        (false, false) => None,
        (fell, _) if fell == is_time => Some("faster"),
        _ => Some("slower"),
    }
}

fn ratios(diff: &Diff, groups: &[Group<'_>]) -> Option<Section> {
    let all = changed(diff, groups, |one| one.declared);
    let mut blocks = vec![table(diff, &all)?];
    let what = match all.first()?.quantity() {
        Quantity::ResponseTime => "median response times",
        _ => "requests/s",
    };
    blocks.push(Block::legend(format!(
        "Ratios of {what} to the reference of the same run."
    )));
    section("Ratios", Depth::Open, blocks)
}

fn cpu(diff: &Diff, groups: &[Group<'_>]) -> Option<Section> {
    let all = changed(diff, groups, |one| one.metric == Metric::CpuPerRequest);
    let legend = Block::legend("Ratios of CPU time per request. Saved: of that of the reference.".to_owned());
    section("CPU per request", Depth::Folded, vec![table(diff, &all)?, legend])
}

fn table(diff: &Diff, all: &[Changed<'_>]) -> Option<Block> {
    let changes = all.iter().map(|one| ratio_places(one.change.change));
    let places = changes.max()?;
    let verdict = |one: &Changed<'_>| match one.change.verdict {
        None => Cell::new(Tone::Bad, "must not be used"),
        Some(verdict) => sure(verdict, one.change.may_be_chance().then_some(Perhaps::Chance)),
    };
    let columns = Columns::of(all)
        .names(case_title(&diff.runs[1]), |one| one.group.label(one.case))
        .right("old", |one| ratio(one.change.old.estimate, places))
        .right("new", |one| ratio(one.change.new.estimate, places));
    let mut columns = quotients(columns, diff, |one| &one.change.change);
    if all.iter().any(|one| one.change.metric == Metric::CpuPerRequest) {
        columns = columns.right("CPU saved", |one| {
            format!("{} → {}", saved(&one.change.old), saved(&one.change.new))
        });
    }
    let table = columns
        .joined("sure?", verdict)
        .under(|one| one.group.setting())
        .table();
    Some(Block::Table(table))
}

/// Adds columns of new divided by old, with the interval.
fn quotients<'a, R>(columns: Columns<'a, R>, diff: &Diff, of: impl Fn(&'a R) -> &'a Interval) -> Columns<'a, R> {
    columns.ratios(["new/old", &interval_title(diff.confidence)], |row| {
        Some(columns::Ratio::new(*of(row)))
    })
}

/// Absolute figures by the metric of the verdicts, or by other metrics.
fn absolute(diff: &Diff, groups: &[Group<'_>], wanted: bool) -> Option<Section> {
    let tables = Metric::ALL
        .into_iter()
        .filter_map(|metric| figures(diff, groups, metric, wanted));
    let blocks: Vec<Block> = tables.map(Block::Table).collect();
    if wanted {
        section("Absolute figures", Depth::Open, blocks)
    } else {
        section("Other absolute figures", Depth::Folded, blocks)
    }
}

fn figures(diff: &Diff, groups: &[Group<'_>], metric: Metric, wanted: bool) -> Option<Table> {
    let of = |case: &CaseSummary| {
        let mut all = diff.cases.iter().filter(|one| one.case == case.case);
        all.find(|one| one.metric == metric && one.declared == wanted)
    };
    let all = cases(groups).filter_map(|(group, case)| Some((group, case, of(case)?)));
    let all: Vec<(&Group<'_>, &CaseSummary, &CaseChange)> = all.collect();
    all.first()?;
    let columns = Columns::of(&all).names(case_title(&diff.runs[1]), |(group, case, _)| group.label(case));
    let name = match metric {
        Metric::Throughput => "requests/s",
        Metric::LatencyP50 => "p50",
        Metric::LatencyP99 => "p99",
        Metric::CpuPerRequest => "CPU",
    };
    let [old, new] = ["old", "new"].map(|run| format!("{run} {name}"));
    let columns = if metric == Metric::Throughput {
        columns
            .figures(old, |(.., one)| Some(one.old.interval.estimate))
            .figures(new, |(.., one)| Some(one.new.interval.estimate))
    } else {
        columns.times([old, new], |(.., one)| {
            [&one.old, &one.new].map(|run| Some(run.interval.estimate))
        })
    };
    let columns = quotients(columns, diff, |(.., one)| &one.change);
    Some(columns.under(|(group, ..)| group.setting()).table())
}

/// Cases that only one of the runs has.
fn only(diff: &Diff) -> Vec<String> {
    let of = |word: &str, cases: &[String]| {
        (!cases.is_empty()).then(|| format!("only in the {word} run: {}", cases.join(", ")))
    };
    [of("old", &diff.only_old), of("new", &diff.only_new)]
        .into_iter()
        .flatten()
        .collect()
}

fn doubts(diff: &Diff) -> Vec<Block> {
    let mut all = vec![Text::from(
        "absolute figures of two runs can differ by more than their intervals say (another day, other neighbours, other \
         starts); within a run that cancels out of ratios",
    )];
    if diff.comparisons.iter().any(|one| one.declared && one.lower_bound) {
        all.push(
            "a ratio is a lower bound, because the driver or the machine was the bottleneck, so its change is, too"
                .into(),
        );
    }
    all.extend(own_doubts("the old run", &diff.old));
    all.extend(own_doubts("the new run", &diff.new));
    all.into_iter().map(Block::Item).collect()
}

/// The changes of a quantity, as rows of a picture.
fn changes(diff: &Diff, groups: &[Group<'_>], quantity: Quantity) -> Vec<RowGroup> {
    let is_cpu = quantity == Quantity::Cpu;
    let all = changed(diff, groups, |one| {
        one.is_judged() && (one.metric == Metric::CpuPerRequest) == is_cpu
    });
    let rows: Vec<forest::Row> = all
        .iter()
        .filter(|one| match one.quantity() {
            Quantity::Bytes | Quantity::Received => quantity == Quantity::Requests,
            other => other == quantity,
        })
        .map(|one| {
            let label = in_setting(one.group.label(one.case), one.group);
            let verdict = one.change.verdict.unwrap_or(Verdict::Undecided);
            forest::Row::new(label, one.change.change, verdict, one.quantity())
        })
        .collect();
    let heading = String::new();
    if rows.is_empty() {
        vec![]
    } else {
        vec![RowGroup { heading, rows }]
    }
}

/// A row of CSV: a ratio, or an absolute figure, which has no reference and no verdict.
struct Line<'a> {
    case: &'a str,
    reference: &'a str,
    metric: Metric,
    unit: &'a str,
    figures: [Interval; 3],
    change: Option<&'a RatioChange>,
}

impl<'a> From<&'a RatioChange> for Line<'a> {
    fn from(one: &'a RatioChange) -> Self {
        Self {
            case: &one.case,
            reference: &one.reference,
            metric: one.metric,
            unit: "",
            figures: [one.old, one.new, one.change],
            change: Some(one),
        }
    }
}

impl<'a> From<&'a CaseChange> for Line<'a> {
    fn from(one: &'a CaseChange) -> Self {
        Self {
            case: &one.case,
            reference: "",
            metric: one.metric,
            unit: &one.old.unit,
            figures: [one.old.interval, one.new.interval, one.change],
            change: None,
        }
    }
}
