//! Quantities that follow from several cases, one table per kind of value.

use lasthop_analyse::{
    groups::is_compared,
    summary::{Derived, Measured, Outside, Summary},
};
use lasthop_model::level::Level;

use super::parts;
use crate::{
    document::{Block, Cell, Column, Columns, Depth, Row, Section, Table, Tone},
    names::{phrase, phrases},
    units::{NONE, TimeUnit, significant},
    wording::margin,
};

pub fn section(summary: &Summary) -> Option<Section> {
    if summary
        .derived
        .iter()
        .all(|derived| derived.value.is_none() && derived.outside.is_none())
    {
        return None;
    }
    let all: Vec<&Derived> = summary.derived.iter().collect();
    // Values of one quantity follow each other, as the plan has them.
    let by_quantity = all.chunk_by(|one, other| one.quantity == other.quantity);
    let (places, times): (Vec<&[&Derived]>, Vec<_>) = by_quantity.partition(|of| is_place(of));
    let tables = [time_table(summary, &times), crossover_table(summary, &places.concat())];
    let blocks = tables.into_iter().flatten().map(Block::Table).collect();
    parts::section("What follows from several cases", Depth::Folded, blocks)
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
    let times: Vec<f64> = known.map(|value| value.interval.estimate).collect();
    let unit = TimeUnit::of_differences(&times);
    let figures = |of: fn(&Derived) -> &Option<Measured>| {
        let known = all.iter().map(move |derived| of(derived).as_ref());
        let values = known
            .clone()
            .map(move |value| value.map_or(NONE.to_owned(), |value| time(value.interval.estimate, unit)));
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

fn ends(value: &Measured, unit: TimeUnit) -> String {
    format!(
        "{} to {}",
        in_unit(value.interval.low, unit),
        in_unit(value.interval.high, unit)
    )
}

fn in_unit(micros: f64, unit: TimeUnit) -> String {
    significant(micros / unit.micros(), 3)
}

fn time(micros: f64, unit: TimeUnit) -> String {
    format!("{} {}", in_unit(micros, unit), unit.name())
}

/// The levels that vary within a quantity, besides what is compared.
fn varying(summary: &Summary, all: &[&Derived], one: &Derived) -> String {
    phrases(
        summary,
        one.levels.iter().filter(|(factor, level): &(&String, &Level)| {
            !is_compared(factor) && all.iter().any(|other| other.levels.get(*factor) != Some(*level))
        }),
    )
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

/// From which level on a transport differs by less than the margin.
fn crossover_table(summary: &Summary, all: &[&Derived]) -> Option<Table> {
    let mut rows = Vec::new();
    for (place, derived) in all.iter().enumerate() {
        let factor = derived.over.as_deref()?;
        let level = |value: f64| phrase(summary, factor, &Level::Int(value.round() as i64));
        let from = match (&derived.value, derived.outside) {
            (Some(at), _) => level(at.interval.estimate),
            (None, Some(Outside::Before)) => "every level".to_owned(),
            (None, Some(Outside::Beyond)) => "no level".to_owned(),
            (None, Some(Outside::Open)) => "undecided".to_owned(),
            (None, None) => NONE.to_owned(),
        };
        let ends = derived.value.as_ref();
        let ends = ends.map_or(String::new(), |at| {
            format!("{} to {}", level(at.interval.low), level(at.interval.high))
        });
        if place == 0 || all[place - 1].quantity != derived.quantity {
            rows.push(Row::Group(format!("{}: {}", derived.quantity, derived.help)));
        }
        let name = Cell::new(Tone::Strong, derived.transport.name());
        rows.push(Row::Cells(vec![name, from.into(), ends.into()]));
    }
    let columns = vec![
        Column::left("transport"),
        Column::left(format!("differs by less than {} from", margin(summary.settings.margin))),
        Column::left("95 % interval").joined(),
    ];
    (!rows.is_empty()).then_some(Table { columns, rows })
}
