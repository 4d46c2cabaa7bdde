//! Quantities derived from several cases, in one table per kind of value.

use indexmap::{IndexMap, IndexSet};
use lasthop_analyse::summary::{Derived, Measured, Outside, Summary};
use lasthop_model::{level::Level, quantity::joined};
use lasthop_stats::Interval;

use super::parts;
use crate::{
    columns::Columns,
    document::{Block, Cell, Depth, Section, Table, Tone},
    names::{phrase, phrases},
    units::{Micros, NONE, TimeUnit, significant},
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
    // Values of a quantity are adjacent, as in the plan.
    let by_quantity = all.chunk_by(|one, other| one.quantity == other.quantity);
    let (places, times): (Vec<&[&Derived]>, Vec<_>) = by_quantity.partition(|of| is_place(of));
    let tables = [time_table(summary, &times), crossover_table(summary, &places.concat())];
    let blocks = tables.into_iter().flatten().map(Block::Table).collect();
    parts::section("What follows from several cases", Depth::Folded, blocks)
}

/// Derived times, in a row for each quantity and setting.
pub fn brief(summary: &Summary) -> Option<Table> {
    let times = summary
        .derived
        .iter()
        .filter(|one| !is_place(&[one]) && one.value.is_some());
    let times: Vec<&Derived> = times.collect();
    let mut rows: IndexMap<String, Vec<&Derived>> = IndexMap::new();
    for all in times.chunk_by(|one, other| one.quantity == other.quantity) {
        for one in all {
            let quantity = one.quantity.replace('_', " ");
            let setting = varying(summary, all, one);
            let name = joined([quantity, setting].into_iter().filter(|part| !part.is_empty()), ", ");
            rows.entry(name).or_default().push(one);
        }
    }
    let transports: IndexSet<&str> = times.iter().map(|one| one.transport.name()).collect();
    let rows: Vec<(String, Vec<&Derived>)> = rows.into_iter().collect();
    let cell = |row: &[&Derived], transport: &str| -> Cell {
        let found = row.iter().find(|one| one.transport.name() == transport);
        let Some(value) = found.and_then(|one| one.value.as_ref()) else {
            return NONE.into();
        };
        if value.interval.has_width() && value.interval.is_known() {
            Micros(value.interval.estimate).to_string().into()
        } else {
            Cell::new(Tone::Warning, "undecided")
        }
    };
    let named = Columns::of(&rows).names("takes", |(name, _)| name);
    let columns = transports.iter().fold(named, |columns, transport| {
        columns.right(*transport, |(_, row)| cell(row, transport))
    });
    rows.first()?;
    Some(columns.table())
}

/// Whether the values are levels: a crossover is a level, every other quantity a time.
fn is_place(of: &[&Derived]) -> bool {
    of.iter()
        .any(|derived| derived.outside.is_some() || derived.value.as_ref().is_some_and(|value| value.unit != "us"))
}

/// A derived quantity, in the unit of all quantities with its name.
struct Line<'a> {
    derived: &'a Derived,
    label: String,
    unit: TimeUnit,
}

fn time_table(summary: &Summary, quantities: &[&[&Derived]]) -> Option<Table> {
    let mut lines = Vec::new();
    for all in quantities {
        let known = all.iter().filter_map(|derived| derived.value.as_ref());
        let times: Vec<f64> = known.map(|value| value.interval.estimate).collect();
        let unit = TimeUnit::of_differences(&times);
        lines.extend(all.iter().map(|derived| Line {
            derived,
            label: label(summary, all, derived),
            unit,
        }));
    }
    lines.first()?;
    let time = |line: &Line<'_>, of: &Option<Measured>| {
        let in_unit = |value: &Measured| format!("{} {}", line.written(value.interval.estimate), line.unit.name());
        of.as_ref().map_or(NONE.to_owned(), in_unit)
    };
    let ends = |line: &Line<'_>, of: &Option<Measured>| {
        let ends = |value: &Measured| {
            let Interval { low, high, .. } = value.interval;
            format!("{} to {}", line.written(low), line.written(high))
        };
        let known = of.as_ref().filter(|value| value.interval.has_width());
        known.map_or(String::new(), ends)
    };
    let table = Columns::of(&lines)
        .names("transport", |line| &line.label)
        .right("time", |line| time(line, &line.derived.value))
        .left("95 % interval", |line| ends(line, &line.derived.value))
        .right("against reference", |line| time(line, &line.derived.against_reference))
        .left("95 % interval", |line| ends(line, &line.derived.against_reference))
        .under(|line| heading(line.derived))
        .table();
    Some(table)
}

fn heading(derived: &Derived) -> String {
    format!("{}: {}", derived.quantity, derived.help)
}

impl Line<'_> {
    fn written(&self, micros: f64) -> String {
        significant(micros / self.unit.micros(), 3)
    }
}

/// The levels that vary within a quantity, except the compared factor.
fn varying(summary: &Summary, all: &[&Derived], one: &Derived) -> String {
    phrases(
        summary,
        one.levels.iter().filter(|(factor, level): &(&String, &Level)| {
            **factor != summary.compared && all.iter().any(|other| other.levels.get(*factor) != Some(*level))
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

/// The level from which on a transport differs by less than the margin.
fn crossover_table(summary: &Summary, all: &[&Derived]) -> Option<Table> {
    all.first()?;
    let level = |derived: &Derived, value: f64| {
        let factor = derived.over.as_deref().unwrap_or_default();
        phrase(summary, factor, &Level::Int(value.round() as i64))
    };
    let from = |derived: &&Derived| match (&derived.value, derived.outside) {
        (Some(at), _) => level(derived, at.interval.estimate),
        (None, Some(Outside::Before)) => "every level".to_owned(),
        (None, Some(Outside::Beyond)) => "no level".to_owned(),
        (None, Some(Outside::Open)) => "undecided".to_owned(),
        (None, None) => NONE.to_owned(),
    };
    let ends = |derived: &&Derived| {
        let at = derived.value.as_ref().map(|at| at.interval);
        at.map_or(String::new(), |at| {
            format!("{} to {}", level(derived, at.low), level(derived, at.high))
        })
    };
    let margin = margin(summary.settings.margin);
    let table = Columns::of(all)
        .names("transport", |derived| derived.transport.name())
        .left(format!("differs by less than {margin} from"), from)
        .joined("95 % interval", ends)
        .under(|derived| heading(derived))
        .table();
    Some(table)
}

#[cfg(test)]
mod tests {
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::{document::Row, fixtures, units::NBSP};

    fn derived(transport: Transport, [low, estimate, high]: [f64; 3]) -> Derived {
        Derived {
            quantity: "one_more".to_owned(),
            help: String::new(),
            levels: IndexMap::new(),
            transport,
            value: Some(Measured::of("us", fixtures::interval([low, estimate, high]))),
            intercept: None,
            against_reference: None,
            over: None,
            outside: None,
        }
    }

    #[test]
    fn a_time_that_may_be_none_is_undecided() {
        let mut summary = fixtures::three_transports();
        assert!(brief(&summary).is_none());
        let [unix, tcp] = [(Transport::Unix, -2.0), (Transport::Tcp, 4.0)];
        summary.derived = [unix, tcp]
            .map(|(transport, low)| derived(transport, [low, 5.0, 6.0]))
            .to_vec();
        let table = brief(&summary).unwrap();
        let Row::Cells(cells) = &table.rows[0] else {
            panic!("no cells");
        };
        let texts: Vec<String> = cells.iter().map(|cell| cell.text.replace(NBSP, " ")).collect();
        assert_eq!(texts, ["one more", "undecided", "5.00 µs"]);
    }
}
