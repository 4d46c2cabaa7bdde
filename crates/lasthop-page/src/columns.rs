//! Builds a table column by column. Each value is a function of a row, and values that belong together have the same
//! unit and number of decimals.
//!
//! ```
//! # use lasthop_page::columns::Columns;
//! # struct Case { name: &'static str, rate: Option<f64>, p50: Option<f64>, p99: Option<f64> }
//! # let cases = [Case { name: "unix", rate: Some(1990.0), p50: Some(65.5), p99: Some(4700.0) }];
//! let columns = Columns::of(&cases)
//!     .names("case", |case| case.name)
//!     .figures("requests/s", |case| case.rate)
//!     .times(["p50", "p99"], |case| [case.p50, case.p99]);
//! let table = columns.table(); // its titles: case, requests/s, p50 µs, p99 µs
//! let csv = Columns::of(&cases)
//!     .data("case", |case| case.name)
//!     .known("latency_p50_us", |case| case.p50)
//!     .csv();
//! ```
//!
//! A column of numbers is left out if all are unknown. CSV has every column, because programs read it.

use lasthop_model::quantity::joined;
use lasthop_stats::Interval;

use super::{
    document::{Cell, Column, Row, Table, Tone},
    text,
    units::{ByteRateUnit, NONE, TimeUnit, bound, bounds, column, percent, ratio, ratio_places, significant},
};

/// A table under construction, for people (`names` to `ratios`) and for programs (`data`, `known`, `interval`).
pub struct Columns<'a, R> {
    rows: &'a [R],
    shown: Vec<(Column, Vec<Cell>)>,
    data: Vec<(String, Vec<String>)>,
    headings: Vec<String>,
    notes: Vec<Option<Cell>>,
}

/// A ratio in a table.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The ratio and its interval, of zero width if the ratio is exact.
    pub of: Interval,
    pub tone: Tone,
    /// Whether the true ratio is at least this far from 1.
    pub is_bound: bool,
}

impl Ratio {
    /// The ratio of the reference.
    pub const REFERENCE: Self = Self {
        of: Interval::exact(1.0),
        tone: Tone::Plain,
        is_bound: false,
    };

    #[must_use]
    pub fn new(of: Interval) -> Self {
        Self { of, ..Self::REFERENCE }
    }

    fn is_exact(&self) -> bool {
        self.of.low == self.of.high
    }
}

impl<'a, R> Columns<'a, R> {
    /// A table of these rows, still without columns.
    #[must_use]
    pub fn of(rows: &'a [R]) -> Self {
        Self {
            rows,
            shown: Vec::new(),
            data: Vec::new(),
            headings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn show(mut self, column: Column, cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        self.shown.push((column, cells.into_iter().map(Into::into).collect()));
        self
    }

    /// Names of rows.
    #[must_use]
    pub fn names<N: Into<String>>(self, title: impl Into<String>, of: impl Fn(&'a R) -> N) -> Self {
        self.left(title, |row| Cell::new(Tone::Strong, of(row)))
    }

    /// Left-aligned words.
    #[must_use]
    pub fn left<C: Into<Cell>>(self, title: impl Into<String>, of: impl Fn(&'a R) -> C) -> Self {
        let cells = self.rows.iter().map(of);
        self.show(Column::left(title), cells)
    }

    /// Words that stay with the previous column.
    #[must_use]
    pub fn joined<C: Into<Cell>>(self, title: impl Into<String>, of: impl Fn(&'a R) -> C) -> Self {
        let cells = self.rows.iter().map(of);
        self.show(Column::left(title).joined(), cells)
    }

    /// Right-aligned numbers, already formatted.
    #[must_use]
    pub fn right<C: Into<Cell>>(self, title: impl Into<String>, of: impl Fn(&'a R) -> C) -> Self {
        let cells = self.rows.iter().map(of);
        self.show(Column::right(title), cells)
    }

    fn values(&self, of: impl Fn(&'a R) -> Option<f64>) -> Vec<Option<f64>> {
        self.rows.iter().map(of).collect()
    }

    /// A column of numbers, unless all are unknown.
    fn numbers(self, title: impl Into<String>, values: &[Option<f64>], texts: Vec<String>) -> Self {
        if values.iter().all(Option::is_none) {
            return self;
        }
        self.show(Column::right(title), texts)
    }

    /// Numbers without a unit, with equal decimals.
    #[must_use]
    pub fn figures(self, title: impl Into<String>, of: impl Fn(&'a R) -> Option<f64>) -> Self {
        let values = self.values(of);
        self.numbers(title, &values, column(&values))
    }

    /// Numbers formatted by a function.
    #[must_use]
    pub fn each(
        self,
        title: impl Into<String>,
        of: impl Fn(&'a R) -> Option<f64>,
        write: impl Fn(f64) -> String,
    ) -> Self {
        let values = self.values(of);
        let texts = each(&values, write);
        self.numbers(title, &values, texts)
    }

    /// Shares, in percent with one decimal.
    #[must_use]
    pub fn shares(self, title: impl Into<String>, of: impl Fn(&'a R) -> Option<f64>) -> Self {
        self.each(title, of, |share| percent(share, 1))
    }

    /// Times in microseconds, in the unit that suits the shortest of all columns.
    #[must_use]
    pub fn times<T: Into<String>, V: IntoIterator<Item = Option<f64>>>(
        mut self,
        titles: impl IntoIterator<Item = T>,
        of: impl Fn(&'a R) -> V,
    ) -> Self {
        let columns = turned(self.rows.iter().map(of));
        let unit = TimeUnit::of_column(&known(&columns));
        for (title, values) in titles.into_iter().zip(columns) {
            self = self.numbers(titled(title, unit.name()), &values, unit.column(&values));
        }
        self
    }

    /// Differences of times in microseconds, in the unit that suits most of them.
    #[must_use]
    pub fn differences(self, title: impl Into<String>, of: impl Fn(&'a R) -> Option<f64>) -> Self {
        let values = self.values(of);
        let unit = TimeUnit::of_differences(&values.iter().copied().flatten().collect::<Vec<_>>());
        self.numbers(titled(title, unit.name()), &values, unit.column(&values))
    }

    /// Bytes per second, in the unit that suits the highest of all columns.
    #[must_use]
    pub fn byte_rates<T: Into<String>, V: IntoIterator<Item = Option<f64>>>(
        mut self,
        titles: impl IntoIterator<Item = T>,
        of: impl Fn(&'a R) -> V,
    ) -> Self {
        let columns = turned(self.rows.iter().map(of));
        let unit = ByteRateUnit::of_column(&known(&columns));
        for (title, values) in titles.into_iter().zip(columns) {
            let texts = each(&values, |rate| significant(rate / unit.bytes, 3));
            self = self.numbers(titled(title, unit.name), &values, texts);
        }
        self
    }

    /// Ratios and their intervals, with equal decimals.
    #[must_use]
    pub fn ratios<T: Into<String>>(self, [title, interval]: [T; 2], of: impl Fn(&'a R) -> Option<Ratio>) -> Self {
        let all: Vec<Option<Ratio>> = self.rows.iter().map(of).collect();
        let measured = all.iter().flatten().filter(|ratio| !ratio.is_exact());
        let Some(places) = measured.map(|one| ratio_places(one.of)).max() else {
            return self;
        };
        let estimates = all.iter().map(|one| match one {
            Some(Ratio { of, tone, is_bound }) => {
                let bound = bound(*is_bound, of.estimate);
                Cell::new(*tone, format!("{bound}{}", ratio(of.estimate, places)))
            }
            None => NONE.into(),
        });
        let ends = all.iter().map(|one| {
            let measured = one.filter(|ratio| !ratio.is_exact());
            measured.map_or(String::new(), |ratio| bounds(ratio.of, places))
        });
        self.show(Column::right(title), estimates)
            .show(Column::left(interval).joined(), ends)
    }

    /// Groups consecutive rows with the same heading below it.
    #[must_use]
    pub fn under<T: Into<String>>(mut self, heading: impl Fn(&'a R) -> T) -> Self {
        self.headings = self.rows.iter().map(|row| heading(row).into()).collect();
        self
    }

    /// Rows with words instead of figures.
    #[must_use]
    pub fn noted(mut self, note: impl Fn(&'a R) -> Option<Cell>) -> Self {
        self.notes = self.rows.iter().map(note).collect();
        self
    }

    /// The table for people.
    #[must_use]
    pub fn table(self) -> Table {
        let mut cells = vec![Vec::new(); self.rows.len()];
        let mut columns = Vec::new();
        for (column, shown) in self.shown {
            columns.push(column);
            cells.iter_mut().zip(shown).for_each(|(row, cell)| row.push(cell));
        }
        let mut headings = self.headings.into_iter();
        let mut notes = self.notes.into_iter();
        let mut rows = Vec::new();
        let mut last = String::new();
        for mut cells in cells {
            let heading = headings.next().unwrap_or_default();
            if heading != last && !heading.is_empty() {
                rows.push(Row::Group(heading.clone()));
            }
            last = heading;
            rows.push(match notes.next().flatten() {
                Some(note) => Row::Note(cells.swap_remove(0), note),
                None => Row::Cells(cells),
            });
        }
        Table { columns, rows }
    }

    /// Values for programs; the column's name includes the unit.
    #[must_use]
    pub fn data<V: ToString>(self, id: impl Into<String>, of: impl Fn(&'a R) -> V) -> Self {
        self.known(id, |row| Some(of(row)))
    }

    /// Values for programs, empty if unknown.
    #[must_use]
    pub fn known<V: ToString>(mut self, id: impl Into<String>, of: impl Fn(&'a R) -> Option<V>) -> Self {
        let text = |row| of(row).map_or_else(String::new, |value| value.to_string());
        self.data.push((id.into(), self.rows.iter().map(text).collect()));
        self
    }

    /// Several numbers, each in a column `id` plus its ending.
    #[must_use]
    pub fn several<const N: usize>(
        mut self,
        id: &str,
        endings: [&str; N],
        of: impl Fn(&'a R) -> Option<[f64; N]>,
    ) -> Self {
        for (place, ending) in endings.iter().enumerate() {
            self = self.known(format!("{id}{ending}"), |row| Some(of(row)?[place]));
        }
        self
    }

    /// An estimate in the column `id`, with the ends of its interval in `id_low` and `id_high`.
    #[must_use]
    pub fn interval(self, id: &str, of: impl Fn(&'a R) -> Option<Interval>) -> Self {
        self.several(id, ["", "_low", "_high"], |row| {
            let Interval { estimate, low, high } = of(row)?;
            Some([estimate, low, high])
        })
    }

    /// The table for programs, as in RFC 4180: a header, and lines that end in CR LF.
    #[must_use]
    pub fn csv(&self) -> Vec<u8> {
        let line =
            |fields: &mut dyn Iterator<Item = &String>| joined(fields.map(|field| text::csv(field)), ",") + "\r\n";
        let mut page = line(&mut self.data.iter().map(|(id, _)| id));
        for row in 0..self.rows.len() {
            page.push_str(&line(&mut self.data.iter().map(|(_, values)| &values[row])));
        }
        page.into_bytes()
    }
}

/// Transposes rows of values into columns.
fn turned(rows: impl Iterator<Item = impl IntoIterator<Item = Option<f64>>>) -> Vec<Vec<Option<f64>>> {
    let mut columns: Vec<Vec<Option<f64>>> = Vec::new();
    for row in rows {
        for (place, value) in row.into_iter().enumerate() {
            if place == columns.len() {
                columns.push(Vec::new());
            }
            columns[place].push(value);
        }
    }
    columns
}

fn known(columns: &[Vec<Option<f64>>]) -> Vec<f64> {
    columns.iter().flatten().copied().flatten().collect()
}

fn each(values: &[Option<f64>], write: impl Fn(f64) -> String) -> Vec<String> {
    let texts = values.iter().map(|value| value.map(&write));
    texts.map(|text| text.unwrap_or_else(|| NONE.to_owned())).collect()
}

/// The title with its unit, in place of `{}` or at the end.
fn titled(title: impl Into<String>, unit: &str) -> String {
    let title = title.into();
    match title.as_str() {
        "" => unit.to_owned(),
        _ if title.contains("{}") => title.replace("{}", unit),
        _ => format!("{title} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case(&'static str, Option<f64>, Option<Interval>);

    const WIDE: Interval = Interval {
        estimate: 1.874,
        low: 1.5,
        high: 2.2,
    };

    fn cases() -> [Case; 3] {
        [
            Case("unix", Some(65.5), Some(WIDE)),
            Case("tls, =1", Some(90.2), None),
            Case("pipe", None, None),
        ]
    }

    fn shown(table: &Table) -> Vec<String> {
        let row = |row: &Row| match row {
            Row::Group(name) => name.clone(),
            Row::Cells(cells) => joined(cells.iter().map(|cell| cell.text.as_str()), "|"),
            Row::Note(name, note) => format!("{}: {}", name.text, note.text),
        };
        let titles = joined(table.columns.iter().map(|column| column.title.as_str()), "|");
        std::iter::once(titles).chain(table.rows.iter().map(row)).collect()
    }

    #[test]
    fn a_column_has_one_unit_and_nothing_unknown_has_none() {
        let cases = cases();
        let table = Columns::of(&cases)
            .names("case", |case| case.0)
            .times(["p50", "lag"], |case| [case.1, None])
            .differences("{} saved", |case| Some(case.1? * -1e3))
            .ratios(["ratio", "interval"], |case| {
                case.2.map(Ratio::new).or(Some(Ratio::REFERENCE))
            })
            .under(|case| if case.0 == "unix" { "" } else { "others" })
            .noted(|case| case.1.is_none().then(|| "failed".into()))
            .table();
        assert_eq!(
            shown(&table),
            [
                "case|p50 µs|ms saved|ratio|interval",
                "unix|65.5|−65.5|1.87|1.50 to 2.20",
                "others",
                "tls, =1|90.2|−90.2|1.00|",
                "pipe: failed",
            ]
        );
    }

    #[test]
    fn programs_get_all_columns_and_digits() {
        let cases = cases();
        let csv = Columns::of(&cases)
            .data("case", |case| case.0)
            .known("p50_us", |case| case.1)
            .interval("ratio", |case| case.2)
            .csv();
        assert_eq!(
            String::from_utf8(csv).unwrap(),
            "case,p50_us,ratio,ratio_low,ratio_high\r\nunix,65.5,1.874,1.5,2.2\r\n\"tls, =1\",90.2,,,\r\npipe,,,,\r\n"
        );
        assert_eq!(Columns::of(&cases[..0]).data("case", |case| case.0).csv(), b"case\r\n");
    }
}
