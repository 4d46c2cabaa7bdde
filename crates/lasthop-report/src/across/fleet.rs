//! Several runs of one or more machines: their common result, then each kind, each machine or run.

use indexmap::IndexMap;
use lasthop_analyse::{
    across::fleet::{Fleet, Judged, Machine, MachineKind, Spread, Together},
    groups::{Group, cases, groups},
    name_of,
    summary::{CaseSummary, Verdict},
};

use lasthop_model::quantity::joined;
use lasthop_stats::Interval;

use super::{NONE, Parts, Reportable, by_quantity, differing_in, own_doubts, quantity_of};
use crate::{
    columns::{self, Columns},
    content::{case_title, full_name, section, the, title},
    document::{Block, Cell, Depth, Section, Text, Tone},
    forest::{self, RowGroup},
    names::{Named, compared_name},
    units::{capital, ends, percent, plural, ratio},
    wording::{Quantity, interval_title, tone},
};

/// The most machines whose rows are open; more rows are folded.
const MANY: usize = 12;
/// The largest typical factor worth showing.
const FURTHEST: f64 = 1e3;

impl Reportable for Fleet {
    fn parts(&self) -> Parts<'_> {
        let groups = groups(&self.main);
        let all = declared(self, &groups);
        Parts {
            question: &self.question,
            answer: answer(self, &all),
            title: format!(
                "{} {} {}",
                title(&self.main),
                on(self),
                plural(self.machines.len() as u64, self.unit)
            ),
            subtitle: Text::of(Tone::Dim, "ratios of each case to the reference in the same run"),
            sections: vec![
                together(self, &all),
                kinds(self, &all),
                machines(self, &all),
                differing_in(self.machines.len(), &self.differences),
                doubts(self),
            ],
            panels: by_quantity("relative to the reference", &Quantity::DECLARED, |wanted| {
                let of_quantity = all.iter().filter(|one| one.quantity == wanted);
                of_quantity.map(|one| part(self, one)).collect()
            }),
            margin: self.margin,
            limits: &self.limits,
        }
    }

    fn csv(&self) -> Vec<u8> {
        let lines = lines(self);
        let mut columns = Columns::of(&lines)
            .data("scope", |line| line.scope)
            .known("machine", |line| Some(&line.machine?.name))
            .known("run", |line| Some(&line.machine?.run.run))
            .known("host", |line| line.machine?.run.host.as_ref());
        for (place, by) in self.by.iter().enumerate() {
            columns = columns.known(by, |line| line.kind?.values[place].as_ref());
        }
        columns
            .data("case", |line| &line.of.case)
            .data("reference", |line| &line.of.reference)
            .data("metric", |line| name_of(line.of.metric))
            .interval("ratio", |line| Some(line.ratio))
            .csv()
    }
}

/// The preposition: `on` several machines, `in` several runs.
fn on(fleet: &Fleet) -> &'static str {
    if fleet.unit == "run" { "in" } else { "on" }
}

/// A declared comparison, and its case in words.
struct Declared<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    together: &'a Together,
    quantity: Quantity,
    /// The difference from another declared comparison of the case, such as an open loop beside a closed one:
    /// `, requests/s`. Usually empty.
    which: String,
}

impl Declared<'_> {
    fn name(&self) -> String {
        full_name(self.group, self.case) + &self.which
    }

    fn known(&self) -> usize {
        self.together.machines.iter().flatten().count()
    }
}

/// Declared comparisons in the order of the cases.
fn declared<'a>(fleet: &'a Fleet, groups: &'a [Group<'a>]) -> Vec<Declared<'a>> {
    let mut found = Vec::new();
    for (group, case) in cases(groups) {
        let own = fleet
            .comparisons
            .iter()
            .filter(|one| one.declared && one.case == case.case);
        let own = own.filter(|one| one.machines.iter().any(Option::is_some));
        let is_one = own.clone().count() == 1;
        found.extend(own.map(|together| {
            let quantity = quantity_of(group, together.metric);
            Declared {
                group,
                case,
                together,
                quantity,
                which: if is_one {
                    String::new()
                } else {
                    format!(", {}", quantity.word())
                },
            }
        }));
    }
    found
}

fn answer(fleet: &Fleet, all: &[Declared<'_>]) -> Vec<Text> {
    if all.is_empty() {
        return vec![Text::of(Tone::Warning, "Nothing can be said.")];
    }
    let lines = [
        Some(what_to_use(fleet, all)),
        Some(by_machine(fleet, all)),
        by_kind(fleet, all),
    ];
    lines.into_iter().flatten().collect()
}

/// Verdicts on an alternative, over all settings.
#[derive(Default)]
struct Votes {
    reference: String,
    faster: usize,
    slower: usize,
    all: usize,
}

fn votes(all: &[Declared<'_>]) -> IndexMap<String, Votes> {
    let mut by_name: IndexMap<String, Votes> = IndexMap::new();
    for one in all {
        let summary = one.group.summary();
        let votes = by_name.entry(compared_name(summary, one.case));
        let votes = votes.or_insert_with(|| Votes {
            reference: compared_name(summary, one.group.head()),
            ..Votes::default()
        });
        votes.faster += one.together.count(Verdict::Faster);
        votes.slower += one.together.count(Verdict::Slower);
        votes.all += one.known();
    }
    by_name
}

fn what_to_use(fleet: &Fleet, all: &[Declared<'_>]) -> Text {
    let votes = votes(all);
    // Shares, because some machines lack a result for some names.
    let ahead = |votes: &Votes| votes.faster as f64 / votes.all as f64 - votes.slower as f64 / votes.all as f64;
    let best = votes
        .iter()
        .max_by(|one, other| ahead(one.1).total_cmp(&ahead(other.1)));
    match best.filter(|(_, best)| best.faster > 0) {
        None => {
            let reference = votes.first().map_or("reference", |(_, votes)| &votes.reference);
            Text::of(Tone::Strong, format!("Stay with {}.", the(reference)))
        }
        Some((name, best)) if best.slower == 0 => Text::of(Tone::Good, format!("Use {}.", the(name))),
        Some(_) => Text::of(
            Tone::Strong,
            format!("It depends on the {} or the setting.", fleet.unit),
        ),
    }
}

/// A typical factor as `±8 %` or `×1.6`.
fn typical(factor: f64) -> String {
    if factor < 1.5 {
        format!("±{}", percent(factor - 1.0, usize::from(factor < 1.1)))
    } else if factor < FURTHEST {
        format!("×{}", ratio(factor, 2))
    } else {
        "any factor".to_owned()
    }
}

/// The spread of the comparison in which machines differ most certainly.
fn surest(all: &[Declared<'_>], of: impl Fn(&Together) -> Option<Spread>) -> Option<Spread> {
    let known = all.iter().filter_map(|one| of(one.together));
    known.min_by(|one, other| {
        let surer = other.differs().cmp(&one.differs()).then(one.p.total_cmp(&other.p));
        surer.then(other.typical.estimate.total_cmp(&one.typical.estimate))
    })
}

/// Whether machines differ; the table says how much.
fn by_machine(fleet: &Fleet, all: &[Declared<'_>]) -> Text {
    let unit = fleet.unit;
    let Some(spread) = surest(all, |one| one.between_machines) else {
        let lead = format!("Whether the answer depends on the {unit} takes two with a ratio in common.");
        return Text::of(Tone::Warning, lead);
    };
    if spread.differs() {
        return Text::of(
            Tone::Strong,
            format!("How large the difference is depends on the {unit}."),
        );
    }
    let mut costs = fleet.comparisons.iter().filter(|one| !one.declared);
    if costs.any(|one| one.between_machines.is_some_and(|spread| spread.differs())) {
        return Text::of(Tone::Strong, format!("Only CPU time differs between {unit}s."));
    }
    let reach = all.iter().filter_map(|one| one.together.between_machines);
    let reach = typical(reach.map(|spread| spread.typical.high).fold(1.0, f64::max));
    format!("No difference between {unit}s was found; one of up to {reach} could hide in the intervals.").into()
}

fn by_kind(fleet: &Fleet, all: &[Declared<'_>]) -> Option<Text> {
    let unit = fleet.unit;
    let by = fleet.by.join(", ");
    let Some(spread) = surest(all, |one| Some(one.kinds.as_ref()?.between)) else {
        let why = format!("each has {by} of its own. Name what makes a kind (--by)");
        let text = format!("Kinds cannot be told from {unit}s: {why}.");
        return (fleet.kinds.len() > 1).then(|| Text::of(Tone::Dim, text));
    };
    Some(if spread.differs() {
        Text::of(Tone::Strong, format!("Kinds of {unit}s differ ({by})."))
    } else {
        format!("Kinds of {unit}s ({by}) do not differ more than chance.").into()
    })
}

fn kind_name(kind: &MachineKind) -> String {
    joined(
        kind.values.iter().map(|value| value.as_deref().unwrap_or("unknown")),
        ", ",
    )
}

/// A row for each comparison.
fn together(fleet: &Fleet, all: &[Declared<'_>]) -> Option<Section> {
    let faster = |one: &Declared<'_>| {
        let count = |verdict| one.together.count(verdict);
        match (count(Verdict::Faster), count(Verdict::Slower)) {
            (0, 0) => "none decided".to_owned(),
            (0, count) => format!("{count} of {} slower", one.known()),
            (count, _) => format!("{count} of {} faster", one.known()),
        }
    };
    let next = |one: &Declared<'_>| {
        let next = one.together.next;
        next.map_or_else(
            || NONE.to_owned(),
            |next| {
                let [low, _, high] = ends(next);
                format!("{low} to {high}")
            },
        )
    };
    let differ = |one: &Declared<'_>| match one.together.between_machines {
        Some(spread) if spread.differs() => Cell::new(Tone::Warning, typical(spread.typical.estimate)),
        Some(spread) => Cell::from(format!("under {}", typical(spread.typical.high))),
        None => NONE.into(),
    };
    let unit = fleet.unit;
    let table = Columns::of(all)
        .names(case_title(&fleet.main), |one| one.group.label(one.case) + &one.which)
        .left("verdicts", faster)
        .ratios(["mean", &interval_title(fleet.confidence)], |one| {
            shown(one.together.mean)
        })
        .left(format!("another {unit}"), next)
        .left("spread", differ)
        .under(|one| one.group.setting())
        .table();
    let legend = format!(
        "The mean is that of all such {unit}s, of which these are a sample; another one has a ratio of the given range. \
         Spread: a typical difference from the mean, where {unit}s reliably differ; else how large it may be."
    );
    let blocks = vec![Block::Table(table), Block::legend(legend)];
    section(&format!("All {unit}s"), Depth::Open, blocks)
}

fn shown(ratio: Option<Interval>) -> Option<columns::Ratio> {
    Some(columns::Ratio::new(ratio?))
}

/// A row for each kind, under each comparison.
fn kinds(fleet: &Fleet, all: &[Declared<'_>]) -> Option<Section> {
    let mut rows: Vec<(&Declared<'_>, &MachineKind, Option<Interval>)> = Vec::new();
    for one in all {
        let means = one.together.kinds.iter().flat_map(|kinds| &kinds.means);
        rows.extend(fleet.kinds.iter().zip(means).map(|(kind, mean)| (one, kind, *mean)));
    }
    rows.first()?;
    let table = Columns::of(&rows)
        .names(fleet.by.join(", "), |(_, kind, _)| kind_name(kind))
        .right(format!("{}s", fleet.unit), |(_, kind, _)| kind.machines.to_string())
        .ratios(["mean", &interval_title(fleet.confidence)], |(.., mean)| shown(*mean))
        .under(|(one, ..)| capital(&one.name()))
        .table();
    section("Kinds", Depth::Open, vec![Block::Table(table)])
}

/// A row for each machine, under each comparison.
fn machines(fleet: &Fleet, all: &[Declared<'_>]) -> Option<Section> {
    let mut rows: Vec<(&Declared<'_>, &Machine, &Option<Judged>)> = Vec::new();
    for one in all {
        let machines = fleet.machines.iter().zip(&one.together.machines);
        rows.extend(machines.map(|(machine, judged)| (one, machine, judged)));
    }
    let verdict = |(one, _, judged): &(&Declared<'_>, &Machine, &Option<Judged>)| {
        judged.map_or_else(Cell::default, |Judged { verdict, .. }| {
            Cell::new(tone(verdict), one.quantity.verdict(verdict))
        })
    };
    let table = Columns::of(&rows)
        .names(fleet.unit, |(_, machine, _)| &machine.name)
        .ratios(["ratio", &interval_title(fleet.confidence)], |(.., judged)| {
            shown(judged.map(|judged| judged.ratio))
        })
        .left("verdict", verdict)
        .left("kind", |(_, machine, _)| {
            Cell::new(Tone::Dim, kind_name(&fleet.kinds[machine.kind]))
        })
        .under(|(one, ..)| capital(&one.name()))
        .noted(|(.., judged)| judged.is_none().then(|| "no result that may be used".into()))
        .table();
    section(
        &format!("{}s", capital(fleet.unit)),
        depth_of(fleet.machines.len()),
        vec![Block::Table(table)],
    )
}

fn depth_of(count: usize) -> Depth {
    if count > MANY { Depth::Folded } else { Depth::Open }
}

/// The rows of a picture: each machine, then all together.
fn part(fleet: &Fleet, one: &Declared<'_>) -> RowGroup {
    let row = |name: &str, ratio: &Interval, verdict| forest::Row::new(name.to_owned(), *ratio, verdict, one.quantity);
    let machines = fleet.machines.iter().zip(&one.together.machines);
    let rows = machines.filter_map(|(machine, judged)| {
        let Judged { ratio, verdict } = judged.as_ref()?;
        Some(row(&machine.name, ratio, *verdict))
    });
    let mean = one.together.mean.zip(one.together.verdict(fleet.margin));
    let all = mean.map(|(mean, verdict)| row(&format!("all {}s", fleet.unit), &mean, verdict));
    let rows = rows.chain(all).collect();
    RowGroup {
        heading: capital(&one.name()),
        rows,
    }
}

fn doubts(fleet: &Fleet) -> Option<Section> {
    let mut names: Vec<&str> = fleet.machines.iter().map(|machine| machine.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
    let twice = twice.map(|same| {
        let text = "each counts as a machine, so machines seem more alike than they are";
        format!("{} has {}: {text}", same[0], plural(same.len() as u64, "run"))
    });
    let machines = fleet.machines.iter();
    let own = machines.filter_map(|machine| own_doubts(&machine.name, &machine.run));
    let blocks: Vec<Block> = twice.map(Text::from).chain(own).map(Block::Item).collect();
    let depth = depth_of(blocks.len());
    section("Doubts", depth, blocks)
}

/// A row of CSV: the ratio of a machine, of a kind, or of all.
struct Line<'a> {
    scope: &'static str,
    machine: Option<&'a Machine>,
    kind: Option<&'a MachineKind>,
    of: &'a Together,
    ratio: Interval,
}

fn lines(fleet: &Fleet) -> Vec<Line<'_>> {
    let mut all = Vec::new();
    for of in &fleet.comparisons {
        let machines = fleet.machines.iter().zip(&of.machines);
        all.extend(machines.filter_map(|(machine, judged)| {
            Some(Line {
                scope: "machine",
                machine: Some(machine),
                kind: Some(&fleet.kinds[machine.kind]),
                of,
                ratio: judged.as_ref()?.ratio,
            })
        }));
        let kinds = of.kinds.iter().flat_map(|kinds| fleet.kinds.iter().zip(&kinds.means));
        all.extend(kinds.filter_map(|(kind, mean)| {
            Some(Line {
                scope: "kind",
                machine: None,
                kind: Some(kind),
                of,
                ratio: (*mean)?,
            })
        }));
        all.extend(of.mean.map(|ratio| Line {
            scope: "all",
            machine: None,
            kind: None,
            of,
            ratio,
        }));
    }
    all
}
