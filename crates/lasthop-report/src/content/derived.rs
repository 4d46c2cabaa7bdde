//! Quantities that follow from several cases, one table per kind of value.

use lasthop_analyse::summary::{Derived, Measured, Outside, Summary, Weighed};

use super::{parts, question::short};
use crate::{
    document::{Block, Cell, Column, Columns, Depth, Row, Section, Table, Tone},
    groups::{is_compared, phrase},
    units::{NONE, TimeUnit, significant},
    wording::margin,
};

pub fn section(summary: &Summary) -> Option<Section> {
    let is_empty = |derived: &Derived| derived.value.is_none() && derived.outside.is_none();
    if summary.derived.iter().all(is_empty) && summary.weighed.is_empty() {
        return None;
    }
    let mut quantities: Vec<&str> = summary
        .derived
        .iter()
        .map(|derived| derived.quantity.as_str())
        .collect();
    quantities.dedup();
    let of = |quantity| {
        summary
            .derived
            .iter()
            .filter(|derived| derived.quantity == quantity)
            .collect::<Vec<_>>()
    };
    let (places, times): (Vec<Vec<&Derived>>, Vec<_>) = quantities.into_iter().map(of).partition(|of| is_place(of));
    let mut blocks = Vec::new();
    blocks.extend(time_table(summary, &times).map(Block::Table));
    blocks.extend(weighed_table(summary).map(Block::Table));
    blocks.extend(
        places
            .iter()
            .flatten()
            .map(|derived| Block::Paragraph(crossover(summary, derived).into())),
    );
    parts::section("What follows from several cases", Depth::Open, blocks)
}

/// A crossover is a level, everything else a time.
fn is_place(of: &[&Derived]) -> bool {
    of.iter()
        .any(|derived| derived.outside.is_some() || derived.value.as_ref().is_some_and(|value| value.unit != "us"))
}

fn time_table(summary: &Summary, quantities: &[Vec<&Derived>]) -> Option<Table> {
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
    let times: Vec<f64> = all
        .iter()
        .filter_map(|derived| Some(derived.value.as_ref()?.estimate))
        .collect();
    let unit = TimeUnit::of_differences(&times);
    let value = |value: &Option<Measured>| {
        value
            .as_ref()
            .map_or(NONE.to_owned(), |value| time(value.estimate, unit))
    };
    let ends = |value: &Option<Measured>| value.as_ref().map_or(String::new(), |value| ends(value, unit));
    Columns::default()
        .with(
            Column::left("transport"),
            all.iter()
                .map(|derived| Cell::new(Tone::Strong, label(summary, all, derived))),
        )
        .with(Column::right("time"), all.iter().map(|derived| value(&derived.value)))
        .with(
            Column::left("95 % interval"),
            all.iter().map(|derived| ends(&derived.value)),
        )
        .with(
            Column::right("against reference"),
            all.iter().map(|derived| value(&derived.against_reference)),
        )
        .with(
            Column::left("95 % interval"),
            all.iter().map(|derived| ends(&derived.against_reference)),
        )
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
        let words: Vec<String> = levels
            .iter()
            .map(|(factor, level)| phrase(summary, factor, level))
            .collect();
        rows.extend((!words.is_empty()).then(|| Row::Group(words.join(", "))));
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
    let varies = |factor: &str| {
        all.iter()
            .any(|other| other.levels.get(factor) != derived.levels.get(factor))
    };
    let others = derived
        .levels
        .iter()
        .filter(|(factor, _)| !is_compared(factor) && varies(factor));
    let words = others.map(|(factor, level)| format!(", {}", phrase(summary, factor, level)));
    format!("{}{}", derived.transport.name(), words.collect::<String>())
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
