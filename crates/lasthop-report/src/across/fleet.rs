//! Several runs, of as many machines or of one: what they say together, each kind, each machine or run.

use std::iter;

use lasthop_analyse::{
    across::{
        Ratio,
        fleet::{ByKind, Fleet, Judged, Kind, Machine, Spread, Together},
    },
    name_of,
    summary::{CaseSummary, Held, Verdict},
};

use super::{Told, comparison, differing_in, first, quantity_of};
use crate::{
    content::{case_title, full_name, section, table_under_settings, the, title},
    document::{Block, Cell, Column, Columns, Depth, Document, Row, Section, Table, Text, Tone},
    forest::{self, Panel, Part, directed},
    groups::{Group, compared_name, groups},
    units::{NBSP, capital, percent, plural, ratio},
    wording::{Quantity, bounds, ratio_places, tone},
};

/// More machines have their rows folded.
const MANY: usize = 12;
/// A larger factor says nothing.
const FURTHEST: f64 = 1e3;
/// What a row of the CSV is about.
const SCOPES: [&str; 3] = ["machine", "kind", "all"];

impl Told for Fleet {
    fn question(&self) -> &str {
        &self.question
    }

    fn answer(&self) -> Vec<Text> {
        answer(self, &groups(&self.main))
    }

    fn document(&self) -> Document {
        let groups = groups(&self.main);
        let sections = [
            Some(first(answer(self, &groups))),
            together(self, &groups),
            kinds(self, &groups),
            machines(self, &groups),
            differing_in(self.machines.len(), &self.differences),
            doubts(self),
        ];
        Document {
            title: format!(
                "{} {} {}",
                title(&self.main),
                on(self),
                plural(self.machines.len() as u64, self.unit)
            ),
            subtitle: Text::of(Tone::Dim, "ratios of each case to the reference in the same run"),
            sections: sections.into_iter().flatten().collect(),
        }
    }

    fn panels(&self) -> Vec<Panel> {
        let groups = groups(&self.main);
        let all = found(self, &groups);
        let of = |wanted: Quantity| {
            let parts: Vec<Part> = all
                .iter()
                .filter(|one| one.quantity == wanted)
                .map(|one| part(self, one))
                .collect();
            (!parts.is_empty()).then(|| Panel {
                title: directed(wanted, "relative to the reference"),
                parts,
            })
        };
        Quantity::DECLARED.into_iter().filter_map(of).collect()
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

/// `on` so many machines, `in` so many runs.
fn on(fleet: &Fleet) -> &'static str {
    if fleet.unit == "run" { "in" } else { "on" }
}

/// A declared comparison, and its case in words.
struct Found<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    together: &'a Together,
    quantity: Quantity,
    /// What tells it from another declared comparison of the same case, as of a closed and of an open loop:
    /// `, requests/s`. Usually empty.
    which: String,
}

impl Found<'_> {
    fn name(&self) -> String {
        full_name(self.group, self.case) + &self.which
    }

    /// `1.73`, `1.59 to 1.88`
    fn shown(&self, found: &Ratio) -> [String; 2] {
        let shown = comparison(&self.together.case, "", self.together.metric, found, Verdict::Undecided);
        let places = ratio_places(&shown);
        [ratio(found.ratio, places), bounds(&shown, places)]
    }

    fn known(&self) -> usize {
        self.together.machines.iter().flatten().count()
    }

    /// The machines with the least and the largest ratio.
    fn ends(&self, fleet: &Fleet) -> String {
        let known = || {
            self.together
                .machines
                .iter()
                .zip(&fleet.machines)
                .filter_map(|(one, machine)| Some((one.as_ref()?.ratio.ratio, machine)))
        };
        let said = |(value, machine): (f64, &Machine)| format!("{} ({})", ratio(value, 2), machine.name);
        let least = known().min_by(|one, other| one.0.total_cmp(&other.0)).map(said);
        let most = known().max_by(|one, other| one.0.total_cmp(&other.0)).map(said);
        format!("from {} to {}", least.unwrap_or_default(), most.unwrap_or_default())
    }
}

/// In the order of the cases.
fn found<'a>(fleet: &'a Fleet, groups: &'a [Group<'a>]) -> Vec<Found<'a>> {
    let cases = groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group, *case)));
    let of = |(group, case): (&'a Group<'a>, &'a CaseSummary)| {
        let declared = fleet
            .comparisons
            .iter()
            .filter(|one| one.declared && one.case == case.case);
        let all: Vec<&Together> = declared
            .filter(|one| one.machines.iter().any(Option::is_some))
            .collect();
        let is_one = all.len() == 1;
        all.into_iter().map(move |together| {
            let quantity = quantity_of(group, together.metric);
            let which = if is_one {
                String::new()
            } else {
                format!(", {}", quantity.word())
            };
            Found {
                group,
                case,
                together,
                quantity,
                which,
            }
        })
    };
    cases.flat_map(of).collect()
}

fn answer(fleet: &Fleet, groups: &[Group<'_>]) -> Vec<Text> {
    let all = found(fleet, groups);
    if all.is_empty() {
        return vec![
            Text::of(Tone::Warning, "Nothing can be said")
                .plain(format!(": no ratio of any {} may be used.", fleet.unit)),
        ];
    }
    let lines = [
        Some(what_to_use(fleet, &all)),
        Some(by_machine(fleet, &all)),
        by_kind(fleet, &all),
    ];
    lines.into_iter().flatten().collect()
}

/// Verdicts of one name, over all its settings.
struct Votes<'a> {
    name: &'a str,
    reference: &'a str,
    faster: usize,
    slower: usize,
    all: usize,
    settings: usize,
}

fn votes<'a>(all: &'a [Found<'a>]) -> Vec<Votes<'a>> {
    let mut votes: Vec<Votes<'a>> = Vec::new();
    for one in all {
        let name = compared_name(one.group.summary(), one.case);
        let place = votes.iter().position(|votes| votes.name == name).unwrap_or(votes.len());
        if place == votes.len() {
            let reference = compared_name(one.group.summary(), one.group.head());
            votes.push(Votes {
                name,
                reference,
                faster: 0,
                slower: 0,
                all: 0,
                settings: 0,
            });
        }
        let votes = &mut votes[place];
        votes.faster += one.together.count(Verdict::Faster);
        votes.slower += one.together.count(Verdict::Slower);
        votes.all += one.known();
        votes.settings += 1;
    }
    votes
}

/// `Use the Unix socket: faster than TCP on 5 of 5 machines.`
fn what_to_use(fleet: &Fleet, all: &[Found<'_>]) -> Text {
    let (on, unit) = (on(fleet), fleet.unit);
    let votes = votes(all);
    let ahead = |votes: &&Votes<'_>| votes.faster as f64 / votes.all as f64 - votes.slower as f64 / votes.all as f64;
    let best = votes.iter().max_by(|one, other| ahead(one).total_cmp(&ahead(other)));
    let Some(best) = best.filter(|best| best.faster > 0) else {
        let reference = votes.first().map_or("reference", |votes| votes.reference);
        return Text::of(Tone::Strong, format!("Nothing is faster than {}", the(reference)))
            .plain(format!(" {on} any of the {unit}s, as far as their intervals decide."));
    };
    let Votes {
        name,
        reference,
        faster,
        slower,
        all,
        settings,
    } = best;
    let (name, reference) = (the(name), the(reference));
    let count = match settings {
        1 => format!("{on} {faster} of {}", plural(*all as u64, unit)),
        _ => format!("in {faster} of {all} results of {settings} settings"),
    };
    match slower {
        0 => Text::of(Tone::Strong, format!("Use {name}"))
            .plain(format!(": faster than {reference} {count}, slower in none.")),
        _ => Text::of(Tone::Warning, format!("It depends on the {unit} or the setting")).plain(format!(
            ": {name} is faster than {reference} {count}, and slower in {slower}."
        )),
    }
}

/// `±8 %`, or `×1.6`
fn typical(factor: f64) -> String {
    match factor < 1.5 {
        true => format!("±{}", percent(factor - 1.0, usize::from(factor < 1.1))),
        false if factor < FURTHEST => format!("×{}", ratio(factor, 2)),
        false => "any factor".to_owned(),
    }
}

fn interval(spread: &Spread) -> String {
    let [low, high] = [spread.typical.low, spread.typical.high].map(typical);
    match spread.typical.high < FURTHEST {
        true => format!("95{NBSP}% interval {low} to {high}"),
        false => format!("95{NBSP}% interval from {low} up"),
    }
}

/// What machines, or runs, of one kind differ by.
fn within(unit: &str, spread: &Spread) -> String {
    match spread.differs() {
        true => format!("{unit}s of one kind by {}", typical(spread.typical.ratio)),
        false => format!("{unit}s of one kind by less than {}", typical(spread.typical.high)),
    }
}

/// The comparison in which machines differ most surely.
fn surest<'a>(all: &'a [Found<'a>], of: impl Fn(&Together) -> Option<Spread>) -> Option<(&'a Found<'a>, Spread)> {
    let known = all.iter().filter_map(|one| Some((one, of(one.together)?)));
    known.min_by(|(_, one), (_, other)| {
        let surer = other.differs().cmp(&one.differs()).then(one.p.total_cmp(&other.p));
        surer.then(other.typical.ratio.total_cmp(&one.typical.ratio))
    })
}

fn by_machine(fleet: &Fleet, all: &[Found<'_>]) -> Text {
    let unit = fleet.unit;
    let Some((one, spread)) = surest(all, |one| one.between_machines) else {
        // Also by another metric, as in an open loop.
        let declared = || fleet.comparisons.iter().filter(|one| one.declared);
        let with_results = |place: &usize| declared().any(|one| one.machines[*place].is_some());
        return match (0..fleet.machines.len()).filter(with_results).count() {
            1 => Text::of(Tone::Warning, format!("One {unit} has results"))
                .plain(format!(": whether the answer depends on the {unit} takes two.")),
            _ => Text::of(
                Tone::Warning,
                format!("Nothing can be said of differences between {unit}s"),
            )
            .plain(": no two of them have a ratio in common."),
        };
    };
    if !spread.differs() {
        let costs = fleet
            .comparisons
            .iter()
            .filter(|one| !one.declared)
            .filter_map(|one| one.between_machines);
        let costs = costs.filter(|spread| spread.differs == Some(true)).count();
        if costs > 0 {
            return Text::of(Tone::Strong, format!("Only CPU time differs between {unit}s"))
                .plain(format!(", in {costs} of the cases."));
        }
        let reach = all
            .iter()
            .filter_map(|one| one.together.between_machines)
            .map(|spread| spread.typical.high);
        let reach = typical(reach.fold(1.0, f64::max));
        return Text::of(Tone::Strong, format!("No difference between {unit}s was found")).plain(format!(
            "; typical differences of up to {reach} could hide in the intervals."
        ));
    }
    let differing = all
        .iter()
        .filter_map(|one| one.together.between_machines)
        .filter(Spread::differs)
        .count();
    let lead = match all.len() {
        1 => format!("How much depends on the {unit}"),
        settings => format!("How much depends on the {unit}, in {differing} of {settings} comparisons"),
    };
    Text::of(Tone::Strong, lead).plain(format!(
        ": {}, {}. {}s typically differ from the mean by {} ({}).",
        one.name(),
        one.ends(fleet),
        capital(unit),
        typical(spread.typical.ratio),
        interval(&spread)
    ))
}

fn by_kind(fleet: &Fleet, all: &[Found<'_>]) -> Option<Text> {
    let unit = fleet.unit;
    let by = fleet.by.join(", ");
    let Some((one, spread)) = surest(all, |one| Some(one.kinds.as_ref()?.between)) else {
        let why = format!("each has {by} of its own. Name what makes a kind (--by)");
        return (fleet.kinds.len() > 1)
            .then(|| Text::of(Tone::Dim, format!("Kinds cannot be told from {unit}s: {why}.")));
    };
    let kinds = one.together.kinds.as_ref()?;
    let within = within(unit, &kinds.within);
    Some(match spread.differs() {
        true => Text::of(Tone::Strong, format!("Kinds of {unit}s differ ({by})")).plain(format!(
            ": {}, {}. Kinds typically differ by {} ({}), {within}.",
            one.name(),
            ends_of_kinds(fleet, kinds),
            typical(spread.typical.ratio),
            interval(&spread)
        )),
        false => Text::from(format!(
            "Kinds of {unit}s ({by}) do not differ more than chance; {within}."
        )),
    })
}

fn ends_of_kinds(fleet: &Fleet, found: &ByKind) -> String {
    let known = || {
        found
            .means
            .iter()
            .zip(&fleet.kinds)
            .filter_map(|(mean, kind)| Some((mean.as_ref()?.ratio, kind)))
    };
    let said = |(value, kind): (f64, &Kind)| format!("{} ({})", ratio(value, 2), name(kind));
    let least = known().min_by(|one, other| one.0.total_cmp(&other.0)).map(said);
    let most = known().max_by(|one, other| one.0.total_cmp(&other.0)).map(said);
    format!("from {} to {}", least.unwrap_or_default(), most.unwrap_or_default())
}

fn name(kind: &Kind) -> String {
    let values: Vec<&str> = kind
        .values
        .iter()
        .map(|value| value.as_deref().unwrap_or("unknown"))
        .collect();
    values.join(", ")
}

/// A row for each comparison.
fn together(fleet: &Fleet, groups: &[Group<'_>]) -> Option<Section> {
    let all = found(fleet, groups);
    let pick = |of: fn(&Together) -> Option<Ratio>, part: usize| {
        all.iter()
            .map(move |one| of(one.together).map_or(super::NONE.to_owned(), |found| one.shown(&found)[part].clone()))
    };
    let mean = |one: &Together| one.mean;
    let faster = |one: &Found<'_>| match one.together.count(Verdict::Faster) {
        0 => match one.together.count(Verdict::Slower) {
            0 => "none decided".to_owned(),
            count => format!("{count} of {} slower", one.known()),
        },
        count => format!("{count} of {} faster", one.known()),
    };
    let differ = |one: &Found<'_>| match one.together.between_machines {
        Some(spread) if spread.differs() => Cell::new(Tone::Warning, typical(spread.typical.ratio)),
        Some(spread) => Cell::from(format!("under {}", typical(spread.typical.high))),
        None => super::NONE.into(),
    };
    let columns = Columns::default()
        .with(
            Column::left(case_title(&fleet.main)),
            all.iter()
                .map(|one| Cell::new(Tone::Strong, one.group.label(one.case) + &one.which)),
        )
        .with(Column::left("verdicts"), all.iter().map(faster))
        .with(Column::right("mean"), pick(mean, 0))
        .with(
            Column::left(format!("{} interval", percent(fleet.confidence, 0))).joined(),
            pick(mean, 1),
        )
        .with(Column::left(format!("another {}", fleet.unit)), pick(|one| one.next, 1))
        .with(Column::left("spread"), all.iter().map(differ));
    let table = table_under_settings(groups, columns, |group| {
        all.iter().filter(|one| std::ptr::eq(one.group, group)).count()
    });
    let unit = fleet.unit;
    let text = format!(
        "The mean is that of all such {unit}s, of which these are a sample; another one has a ratio of the given range. \
         Spread: a typical difference from the mean, where {unit}s reliably differ; else how large it may be."
    );
    let blocks = vec![Block::Table(table), Block::Paragraph(Text::of(Tone::Dim, text))];
    section(&format!("All {unit}s"), Depth::Open, blocks)
}

/// A row for each kind, under each comparison.
fn kinds(fleet: &Fleet, groups: &[Group<'_>]) -> Option<Section> {
    let all = found(fleet, groups);
    let all: Vec<(&Found<'_>, &ByKind)> = all
        .iter()
        .filter_map(|one| Some((one, one.together.kinds.as_ref()?)))
        .collect();
    all.first()?;
    let columns = vec![
        Column::left(fleet.by.join(", ")),
        Column::right(format!("{}s", fleet.unit)),
        Column::right("mean"),
        Column::left(format!("{} interval", percent(fleet.confidence, 0))).joined(),
    ];
    let row = |one: &Found<'_>, kind: &Kind, mean: &Option<Ratio>| {
        let figures = mean.map_or_else(|| [super::NONE.to_owned(), String::new()], |mean| one.shown(&mean));
        let cells = iter::once(kind.machines.to_string()).chain(figures).map(Cell::from);
        Row::Cells(iter::once(Cell::new(Tone::Strong, name(kind))).chain(cells).collect())
    };
    let rows = all.iter().flat_map(|(one, found)| {
        let rows = fleet
            .kinds
            .iter()
            .zip(&found.means)
            .map(|(kind, mean)| row(one, kind, mean));
        iter::once(Row::Group(capital(&one.name())))
            .chain(rows)
            .collect::<Vec<_>>()
    });
    section(
        "Kinds",
        Depth::Open,
        vec![Block::Table(Table {
            columns,
            rows: rows.collect(),
        })],
    )
}

/// A row for each machine, under each comparison.
fn machines(fleet: &Fleet, groups: &[Group<'_>]) -> Option<Section> {
    let all = found(fleet, groups);
    let columns = vec![
        Column::left(fleet.unit),
        Column::right("ratio"),
        Column::left(format!("{} interval", percent(fleet.confidence, 0))).joined(),
        Column::left("verdict"),
        Column::left("kind"),
    ];
    let row = |one: &Found<'_>, machine: &Machine, judged: &Option<Judged>| {
        let kind = Cell::new(Tone::Dim, name(&fleet.kinds[machine.kind]));
        let Some(Judged { ratio, verdict }) = judged else {
            let why = "no result that may be used".into();
            return Row::Note(Cell::new(Tone::Strong, machine.name.clone()), why);
        };
        let [value, ends] = one.shown(ratio);
        let word = Cell::new(tone(*verdict), one.quantity.verdict(*verdict));
        Row::Cells(vec![
            Cell::new(Tone::Strong, machine.name.clone()),
            value.into(),
            ends.into(),
            word,
            kind,
        ])
    };
    let rows = all.iter().flat_map(|one| {
        let rows = fleet
            .machines
            .iter()
            .zip(&one.together.machines)
            .map(|(machine, judged)| row(one, machine, judged));
        iter::once(Row::Group(capital(&one.name())))
            .chain(rows)
            .collect::<Vec<_>>()
    });
    let depth = if fleet.machines.len() > MANY {
        Depth::Folded
    } else {
        Depth::Open
    };
    section(
        &format!("{}s", capital(fleet.unit)),
        depth,
        vec![Block::Table(Table {
            columns,
            rows: rows.collect(),
        })],
    )
}

/// A picture's rows: the machines, then all of them.
fn part(fleet: &Fleet, one: &Found<'_>) -> Part {
    let Together {
        case,
        reference,
        metric,
        ..
    } = one.together;
    let row = |name: &str, ratio: &Ratio, verdict| {
        forest::Row::new(name.to_owned(), &comparison(case, reference, *metric, ratio, verdict))
    };
    let machines = fleet.machines.iter().zip(&one.together.machines);
    let mut rows: Vec<forest::Row> = machines
        .filter_map(|(machine, judged)| {
            judged
                .as_ref()
                .map(|judged| row(&machine.name, &judged.ratio, judged.verdict))
        })
        .collect();
    let verdict = one.together.verdict(fleet.margin);
    rows.extend(
        one.together
            .mean
            .zip(verdict)
            .map(|(mean, verdict)| row(&format!("all {}s", fleet.unit), &mean, verdict)),
    );
    Part {
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
    let own = fleet.machines.iter().filter(|machine| !machine.run.doubts.is_empty());
    let own = own.map(|machine| {
        let (all, run) = (machine.run.doubts.join(", "), &machine.run.run);
        format!("{} has doubts of its own: {all} (lasthop report {run})", machine.name)
    });
    let blocks: Vec<Block> = twice.chain(own).map(|text| Block::Item(text.into())).collect();
    let depth = if blocks.len() > MANY {
        Depth::Folded
    } else {
        Depth::Open
    };
    section("Doubts", depth, blocks)
}

fn rows(fleet: &Fleet) -> Vec<Vec<String>> {
    let header = ["scope", "machine", "run", "host"]
        .into_iter()
        .chain(fleet.by.iter().map(String::as_str));
    let header = header.chain(["case", "reference", "metric", "ratio", "ratio_low", "ratio_high"]);
    let blank = || vec![None; fleet.by.len()];
    let line = |scope: usize, place: [&str; 3], kind: Vec<Option<String>>, one: &Together, found: &Ratio| {
        let words = iter::once(SCOPES[scope]).chain(place).map(str::to_owned);
        let kind = kind.into_iter().map(Option::unwrap_or_default);
        let names = [one.case.clone(), one.reference.clone(), name_of(one.metric)];
        let figures = [found.ratio, found.low, found.high].map(|value| value.to_string());
        words.chain(kind).chain(names).chain(figures).collect::<Vec<String>>()
    };
    let mut all = vec![header.map(str::to_owned).collect()];
    for one in &fleet.comparisons {
        let machines = fleet
            .machines
            .iter()
            .zip(&one.machines)
            .filter_map(|(machine, judged)| {
                let place = [
                    &*machine.name,
                    &machine.run.run,
                    machine.run.host.as_deref().unwrap_or_default(),
                ];
                Some(line(
                    0,
                    place,
                    fleet.kinds[machine.kind].values.clone(),
                    one,
                    &judged.as_ref()?.ratio,
                ))
            });
        let kinds = one.kinds.iter().flat_map(|kinds| fleet.kinds.iter().zip(&kinds.means));
        let kinds = kinds.filter_map(|(kind, mean)| Some(line(1, [""; 3], kind.values.clone(), one, mean.as_ref()?)));
        let mean = one.mean.iter().map(|mean| line(2, [""; 3], blank(), one, mean));
        all.extend(machines.chain(kinds).chain(mean));
    }
    all
}
