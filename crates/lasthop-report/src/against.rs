//! The first table of a report: each alternative against the reference, in each setting.

use std::collections::BTreeSet;

use lasthop_analyse::{decision::Perhaps, summary::Verdict};
use lasthop_model::quantity::joined;

use super::{
    columns::{Columns, Ratio},
    document::{Cell, Table, Tone},
    units::{ByteRateUnit, NBSP, NONE, TimeUnit, bounds, column, percent, ratio_places, significant},
    wording::{Quantity, interval_title, tone},
};

/// The most settings with a row each. With more, settings without a difference share one row.
const MANY_SETTINGS: usize = 4;

/// A row: an alternative against the reference in a setting.
pub struct Against {
    /// The heading above several rows: the alternative, if there are several in several settings.
    pub heading: String,
    /// The setting, or the alternative if there is only one setting.
    pub name: String,
    pub quantity: Quantity,
    /// The quantity by the reference and by the alternative, per second or in microseconds.
    pub reached: [Option<f64>; 2],
    pub ratio: Option<Ratio>,
    /// The services' CPU time per request by the reference and by the alternative, in microseconds, if these differ for
    /// certain.
    pub cpu: Option<[f64; 2]>,
    /// The shares lost by the reference and by the alternative, where nobody replies.
    pub lost: Option<[f64; 2]>,
    pub sure: Cell,
    /// Words that replace the figures.
    pub note: Option<Cell>,
}

/// The titles of a table, which depend on its kind.
pub struct Frame<'a> {
    /// Titles of the columns.
    pub name: &'a str,
    pub reference: &'a str,
    pub alternative: &'a str,
    /// Titles of the ratio, and of the interval or range beside the ratio.
    pub ratio: [String; 2],
    /// Whether rows are settings rather than alternatives.
    pub of_settings: bool,
}

/// Titles of a ratio and its interval.
#[must_use]
pub fn ratio_titles(confidence: f64) -> [String; 2] {
    ["ratio".to_owned(), interval_title(confidence)]
}

/// How reliable a verdict is.
#[must_use]
pub fn sure(verdict: Verdict, perhaps: Option<Perhaps>) -> Cell {
    let word = match (perhaps, verdict) {
        (Some(Perhaps::OneRound), _) => "perhaps: one round",
        (Some(Perhaps::FewRounds), _) => "perhaps: few rounds",
        (Some(Perhaps::AnotherInvalid), _) => "perhaps: see Doubts",
        (Some(Perhaps::Chance), _) => "perhaps: one of many",
        (Some(Perhaps::AnotherMachine), _) => "on most machines",
        (None, Verdict::Faster | Verdict::Slower) => "sure",
        (None, Verdict::Equivalent) => "no difference",
        (None, Verdict::Undecided) => "undecided",
    };
    let tone = perhaps.map_or_else(|| tone(verdict), |_| Tone::Warning);
    Cell::new(tone, word)
}

/// A table. Rows with equal headings must follow each other.
#[must_use]
pub fn table(rows: Vec<Against>, frame: &Frame<'_>) -> Table {
    let rows = if frame.of_settings { shortened(rows) } else { rows };
    let quantities: BTreeSet<&str> = rows.iter().map(|row| row.quantity.word()).collect();
    let (unit, reached) = reached(&rows, quantities.len() > 1);
    let (cpu_unit, cpu) = cpu(&rows);
    let texts = reached.into_iter().zip(cpu);
    let rows: Vec<(&Against, [String; 2], String)> = rows
        .iter()
        .zip(texts)
        .map(|(row, (reached, cpu))| (row, reached, cpu))
        .collect();
    let mut columns = Columns::of(&rows)
        .names(frame.name, |(row, ..)| &row.name)
        .right(format!("{}{unit}", frame.reference), |(_, [theirs, _], _)| theirs)
        .right(format!("{}{unit}", frame.alternative), |(_, [_, ours], _)| ours)
        .ratios(frame.ratio.clone(), |(row, ..)| row.ratio);
    if rows.iter().any(|(row, ..)| row.lost.is_some()) {
        let share = |share| percent(share, 1);
        columns = columns.right("lost", |(row, ..)| {
            row.lost.map_or_else(String::new, |[theirs, ours]| {
                format!("{} → {}", share(theirs), share(ours))
            })
        });
    }
    columns
        .right(format!("CPU {cpu_unit}/req"), |(.., cpu)| cpu)
        .joined("sure?", |(row, ..)| row.sure.clone())
        .under(|(row, ..)| &row.heading)
        .noted(|(row, ..)| row.note.clone())
        .table()
}

/// Rows with those merged that agree under a heading.
fn shortened(rows: Vec<Against>) -> Vec<Against> {
    let mut told: Vec<Against> = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let heading = first.heading.clone();
        let mut all = vec![first];
        while let Some(next) = rows.next_if(|next| next.heading == heading) {
            all.push(next);
        }
        told.extend(if all.len() > MANY_SETTINGS {
            without_alike(all)
        } else {
            all
        });
    }
    told
}

fn without_alike(mut all: Vec<Against>) -> Vec<Against> {
    for verdict in [Verdict::Equivalent, Verdict::Undecided] {
        let word = sure(verdict, None);
        if all.iter().filter(|row| row.sure == word).count() > 1 {
            let (same, others): (Vec<Against>, Vec<Against>) = all.into_iter().partition(|row| row.sure == word);
            all = others;
            all.push(alike(same));
        }
    }
    all
}

/// Merges settings that agree; the interval covers all of theirs.
fn alike(rows: Vec<Against>) -> Against {
    let intervals = || rows.iter().filter_map(|row| row.ratio).map(|ratio| ratio.of);
    let places = intervals().map(ratio_places).max().unwrap_or(2);
    let hull = intervals().reduce(|one, other| lasthop_stats::Interval {
        estimate: one.estimate,
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    });
    let sure = rows[0].sure.clone();
    let text = hull.map_or_else(String::new, |hull| format!(": {}", bounds(hull, places)));
    Against {
        name: joined(rows.iter().map(|row| row.name.as_str()), "; "),
        note: Some(Cell::new(sure.tone, format!("{}{text}", sure.text))),
        ratio: None,
        cpu: None,
        ..rows.into_iter().next().expect("there are several")
    }
}

/// The quantities by reference and alternative in the unit that suits each quantity. The unit follows each number if
/// there are several quantities; otherwise it is returned for the title.
fn reached(rows: &[Against], is_mixed: bool) -> (String, Vec<[String; 2]>) {
    let mut texts: Vec<[String; 2]> = rows.iter().map(|_| Default::default()).collect();
    let mut title = String::new();
    for quantity in Quantity::DECLARED {
        let own = |row: &&Against| row.quantity == quantity && row.note.is_none();
        let values: Vec<Option<f64>> = rows.iter().filter(own).flat_map(|row| row.reached).collect();
        let (unit, written) = written(quantity, &values);
        let places = (0..rows.len()).filter(|at| own(&&rows[*at]));
        for (place, pair) in places.zip(written.chunks(2)) {
            let behind = if is_mixed { unit.as_str() } else { "" };
            texts[place] = [0, 1].map(|at| format!("{}{behind}", pair[at]));
        }
        if !is_mixed && !values.is_empty() {
            title = unit;
        }
    }
    (title, texts)
}

/// The unit that suits all values, as a suffix of a title or a number, and the values in this unit.
fn written(quantity: Quantity, values: &[Option<f64>]) -> (String, Vec<String>) {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    match quantity {
        Quantity::Bytes => {
            let unit = ByteRateUnit::of_column(&known);
            let each = |rate: &Option<f64>| rate.map_or(NONE.to_owned(), |rate| significant(rate / unit.bytes, 3));
            (format!("{NBSP}{}", unit.name), values.iter().map(each).collect())
        }
        Quantity::ResponseTime => {
            let unit = TimeUnit::of_column(&known);
            (format!(" p50{NBSP}{}", unit.name()), unit.column(values))
        }
        _ => ("/s".to_owned(), column(values)),
    }
}

/// CPU times from the reference to the alternative, and their unit.
fn cpu(rows: &[Against]) -> (&'static str, Vec<String>) {
    let all: Vec<f64> = rows.iter().filter_map(|row| row.cpu).flatten().collect();
    // The median chooses the unit, because one case without system calls would put all others in nanoseconds.
    let unit = TimeUnit::of_differences(&all);
    let written = unit.column(&all.iter().copied().map(Some).collect::<Vec<_>>());
    let mut pairs = written.chunks(2);
    let text = |row: &Against| {
        let pair = row.cpu.and_then(|_| pairs.next());
        pair.map_or_else(|| NONE.to_owned(), |pair| format!("{} → {}", pair[0], pair[1]))
    };
    (unit.name(), rows.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use lasthop_stats::Interval;

    use super::*;

    fn row(setting: &str, verdict: Verdict) -> Against {
        Against {
            heading: String::new(),
            name: setting.to_owned(),
            quantity: Quantity::Requests,
            reached: [Some(100.0), Some(130.0)],
            ratio: Some(Ratio::new(Interval {
                estimate: 1.3,
                low: 1.1,
                high: 1.5,
            })),
            cpu: None,
            lost: None,
            sure: sure(verdict, None),
            note: None,
        }
    }

    #[test]
    fn of_many_settings_those_that_say_the_same_are_one_row() {
        use Verdict::{Faster, Undecided};
        let rows = |verdicts: &[Verdict]| {
            let rows = verdicts.iter().zip(["a", "b", "c", "d", "e"]);
            shortened(rows.map(|(verdict, name)| row(name, *verdict)).collect())
        };
        let short = rows(&[Faster, Undecided, Undecided, Faster, Undecided]);
        let names: Vec<&str> = short.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "d", "b; c; e"]);
        let said = short[2].note.as_ref().unwrap();
        assert_eq!(said.text, "undecided: 1.10 to 1.50");
        assert_eq!(rows(&[Faster, Undecided, Undecided]).len(), 3, "few are few");
    }

    #[test]
    fn several_quantities_have_their_units_in_cells() {
        let bytes = Against {
            quantity: Quantity::Bytes,
            reached: [Some(4e9), Some(3e9)],
            ..row("stream", Verdict::Slower)
        };
        let (title, texts) = reached(&[row("echo", Verdict::Faster), bytes], true);
        assert_eq!(title, "");
        let texts = texts.concat().join(" ").replace(NBSP, " ");
        assert_eq!(texts, "100/s 130/s 4,000 MB/s 3,000 MB/s");
        let (title, texts) = reached(&[row("echo", Verdict::Faster)], false);
        assert_eq!((title.as_str(), texts.concat().join(" ")), ("/s", "100 130".to_owned()));
    }
}
