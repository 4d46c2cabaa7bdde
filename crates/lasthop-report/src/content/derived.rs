//! Quantities that follow from several cases, one table per kind of value.

use lasthop_analyse::summary::{Derived, Measured, Outside, Summary, Weighed};

use super::{
    parts,
    question::{short, varying},
};
use crate::{
    document::{Block, Cell, Column, Columns, Depth, Row, Section, Table, Tone},
    groups::phrases,
    units::{NONE, TimeUnit, significant},
    wording::margin,
};

pub fn section(summary: &Summary) -> Option<Section> {
    if summary
        .derived
        .iter()
        .all(|derived| derived.value.is_none() && derived.outside.is_none())
        && summary.weighed.is_empty()
    {
        return None;
    }
    let all: Vec<&Derived> = summary.derived.iter().collect();
    // Values of one quantity follow each other, as the plan has them.
    let by_quantity = all.chunk_by(|one, other| one.quantity == other.quantity);
    let (places, times): (Vec<&[&Derived]>, Vec<_>) = by_quantity.partition(|of| is_place(of));
    let tables = [time_table(summary, &times), weighed_table(summary)]
        .into_iter()
        .flatten();
    let crossovers = places.concat().into_iter().map(|derived| crossover(summary, derived));
    let blocks = tables.map(Block::Table);
    let blocks = blocks.chain(crossovers.map(|text| Block::Paragraph(text.into())));
    parts::section("What follows from several cases", Depth::Open, blocks.collect())
}

/// A crossover is a level, everything else a time.
fn is_place(of: &[&Derived]) -> bool {
    of.iter()
        .any(|derived| derived.outside.is_some() || derived.value.as_ref().is_some_and(|value| value.unit != "us"))
}

fn time_table(summary: &Summary, quantities: &[&[&Derived]]) -> Option<Table> {
    let mut rows = Vec::new();
    let mut columns = Vec::new();
    for quantity in quantities {
        let (titles, cells) = time_columns(summary, quantity).into_rows();
        columns = titles;
        let first = quantity.first()?;
        rows.push(Row::Group(format!("{}: {}", first.quantity, first.help)));
        rows.extend(cells.into_iter().map(Row::Cells));
    }
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn time_columns(summary: &Summary, all: &[&Derived]) -> Columns {
    let known = all.iter().filter_map(|derived| derived.value.as_ref());
    let times: Vec<f64> = known.map(|value| value.estimate).collect();
    let unit = TimeUnit::of_differences(&times);
    let figures = |of: fn(&Derived) -> &Option<Measured>| {
        let known = all.iter().map(move |derived| of(derived).as_ref());
        let values = known
            .clone()
            .map(move |value| value.map_or(NONE.to_owned(), |value| time(value.estimate, unit)));
        let ends = known.map(move |value| value.map_or(String::new(), |value| ends(value, unit)));
        (values, ends)
    };
    let (values, ends_of_values) = figures(|derived| &derived.value);
    let (against, ends_against) = figures(|derived| &derived.against_reference);
    let names = all
        .iter()
        .map(|derived| Cell::new(Tone::Strong, label(summary, all, derived)));
    Columns::default()
        .left("transport", names)
        .right("time", values)
        .left("95 % interval", ends_of_values)
        .right("against reference", against)
        .left("95 % interval", ends_against)
}

/// Which of two quantities is larger: what they are on average over what distinguishes only one of them.
fn weighed_table(summary: &Summary) -> Option<Table> {
    let mut rows = Vec::new();
    for Weighed {
        helps,
        levels,
        values: [first, second],
        difference,
        ..
    } in &summary.weighed
    {
        let words = phrases(summary, levels.iter());
        rows.extend((!words.is_empty()).then_some(Row::Group(words)));
        let unit = TimeUnit::of_differences(&[first.estimate, second.estimate]);
        let named = [
            (short(&helps[0]), first),
            (short(&helps[1]), second),
            ("the difference", difference),
        ];
        rows.extend(named.map(|(name, value)| {
            let figures = [time(value.estimate, unit), ends(value, unit)].map(Cell::from);
            Row::Cells(std::iter::once(Cell::new(Tone::Strong, name)).chain(figures).collect())
        }));
    }
    let columns = vec![
        Column::left("which costs more"),
        Column::right("time"),
        Column::left("95 % interval").joined(),
    ];
    (!rows.is_empty()).then_some(Table { columns, rows })
}

fn ends(value: &Measured, unit: TimeUnit) -> String {
    format!("{} to {}", in_unit(value.low, unit), in_unit(value.high, unit))
}

fn in_unit(micros: f64, unit: TimeUnit) -> String {
    significant(micros / unit.micros(), 3)
}

fn time(micros: f64, unit: TimeUnit) -> String {
    format!("{} {}", in_unit(micros, unit), unit.name())
}

/// The transport, and the levels that vary within the quantity.
fn label(summary: &Summary, all: &[&Derived], derived: &Derived) -> String {
    let name = derived.transport.name();
    let words = varying(summary, all, derived);
    if words.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {words}")
    }
}

fn crossover(summary: &Summary, derived: &Derived) -> String {
    let within = margin(summary.settings.margin);
    let who = format!("{}: {}", derived.help, derived.transport.title());
    match (&derived.value, derived.outside) {
        (Some(at), _) => format!(
            "{who} differs by less than {within} at {} {} and above (95 % interval {} to {}).",
            significant(at.estimate, 2),
            at.unit,
            significant(at.low, 2),
            significant(at.high, 2)
        ),
        (None, Some(Outside::Before)) => format!("{who} differs by less than {within} at every level."),
        (None, Some(Outside::Beyond)) => format!("{who} still differs by more than {within} at the highest level."),
        (None, Some(Outside::Open)) => format!("{who}: undecided at which level it comes within {within}."),
        (None, None) => format!("{who}: not enough blocks."),
    }
}
