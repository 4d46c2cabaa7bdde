//! Tests that the figures of a report agree with each other, as a reader with a calculator would check.

use indexmap::IndexMap;
use lasthop_analyse::{
    summarise,
    summary::Summary,
    testing::{Noise, TCP, Truth, UNIX, at_rate, each_trial, fail, noisy_run},
};
use lasthop_model::record::{Derivation, DerivedPlan};
use lasthop_record::data::RunData;
use lasthop_trial::address::Transport;
use proptest::prelude::*;

use super::{Extras, Format, Options, fixtures, render, units::NBSP};

/// A printed number, with half a unit of its last digit as its error.
#[derive(Clone, Copy, Debug)]
struct Printed {
    value: f64,
    half: f64,
}

impl Printed {
    /// The numbers in a text. Only the first three digits of a long number count as exact.
    fn all(text: &str) -> Vec<Self> {
        let pattern = regex::Regex::new(r"[−-]?[0-9][0-9,]*(\.[0-9]+)?").unwrap();
        let one = |found: regex::Match<'_>| {
            let plain = found.as_str().replace(',', "").replace('−', "-");
            let value: f64 = plain.parse().unwrap();
            let decimals = plain.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
            let digits = value.abs().max(1e-9).log10().floor() as i32;
            let place = if decimals == 0 { (digits - 2).max(0) } else { -decimals };
            Self {
                value,
                half: 0.5 * 10f64.powi(place),
            }
        };
        pattern.find_iter(text).map(one).collect()
    }

    /// A number in a sentence, with at least two significant digits.
    fn significant(text: &str) -> Self {
        let one = Self::all(text)[0];
        let decimals = text.contains('.');
        let digits = one.value.abs().max(1e-9).log10().floor() as i32;
        let half = if decimals {
            one.half
        } else {
            0.5 * 10f64.powi((digits - 1).max(0))
        };
        Self { half, ..one }
    }

    fn ends(self) -> [f64; 2] {
        [self.value - self.half, self.value + self.half]
    }
}

type Cells = IndexMap<String, String>;

/// Rows of the tables that have these columns, by setting.
fn tables(markdown: &str, columns: &[&str]) -> Vec<Vec<Cells>> {
    let (mut groups, mut titles): (Vec<Vec<Cells>>, Vec<String>) = (vec![], vec![]);
    for line in markdown.lines() {
        let Some(line) = line.strip_prefix("| ") else {
            titles.clear();
            continue;
        };
        let cells: Vec<String> = line
            .trim_end_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace("**", ""))
            .collect();
        if titles.is_empty() {
            titles = cells;
            groups.push(vec![]);
        } else if cells[1..].iter().all(String::is_empty) {
            groups.push(vec![]);
        } else if !cells[0].starts_with(':') && columns.iter().all(|column| titles.iter().any(|title| title == column))
        {
            let row = titles.iter().cloned().zip(cells).collect();
            groups.last_mut().unwrap().push(row);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn number(row: &Cells, column: &str) -> Option<Printed> {
    Printed::all(row.get(column)?).first().copied()
}

/// Rows in which the quotient of a column lies outside the printed interval.
fn contradictions(markdown: &str, ratio: &str, interval: &str, columns: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for group in tables(markdown, &[ratio, interval]) {
        let reference = |row: &&Cells| row[ratio].starts_with('1') && row[interval].is_empty();
        let Some(reference) = group.iter().find(reference) else {
            continue;
        };
        for row in group.iter().filter(|row| !row[interval].is_empty()) {
            let Some(column) = columns.iter().find(|column| row.contains_key(**column)) else {
                continue;
            };
            let (Some(ours), Some(theirs)) = (number(row, column), number(reference, column)) else {
                continue;
            };
            let [low, high] = Printed::all(&row[interval])[..] else {
                panic!("{row:?}")
            };
            let least = ours.ends()[0] / theirs.ends()[1];
            let most = if theirs.ends()[0] > 0.0 {
                ours.ends()[1] / theirs.ends()[0]
            } else {
                f64::INFINITY
            };
            if most < low.ends()[0] || least > high.ends()[1] {
                found.push(format!("{column}: {row:?} against {reference:?}"));
            }
        }
    }
    found
}

/// Rows in which the quotient of alternative and reference, or of new and old, contradicts the row's own interval. Only
/// tables with these columns count.
pub fn contradictions_within_rows(markdown: &str, columns: &[&str]) -> Vec<String> {
    let contradicts = |row: &Cells| {
        let [.., low, high] = Printed::all(&row["95 % interval"])[..] else {
            return false;
        };
        let Some([theirs, ours]) = row
            .get_index(1)
            .zip(row.get_index(2))
            .and_then(|((_, theirs), (_, ours))| Some([*Printed::all(theirs).first()?, *Printed::all(ours).first()?]))
        else {
            return false;
        };
        ours.ends()[1] / theirs.ends()[0].max(f64::MIN_POSITIVE) < low.ends()[0]
            || ours.ends()[0] / theirs.ends()[1] > high.ends()[1]
    };
    let rows = tables(markdown, columns).concat();
    let wrong = rows.iter().filter(|row| contradicts(row));
    wrong.map(|row| format!("{row:?}")).collect()
}

/// Microseconds per unit.
fn micros(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    })
}

/// Times in tables, in microseconds: savings, the handlers for which a saving matters, derived quantities, and waits.
fn printed_times(markdown: &str) -> Vec<Printed> {
    let mut times = Vec::new();
    let after = |title: &str, end: &str| {
        markdown
            .split(title)
            .skip(1)
            .filter_map(|part| part.split(end).next())
            .collect()
    };
    let parts: [Vec<&str>; 3] = [
        after("Does it matter?", "</details>"),
        after("What follows from several cases", "</details>"),
        markdown
            .split("\n\n")
            .filter(|part| part.contains(" waiting |"))
            .collect(),
    ];
    for (column, cell) in parts
        .concat()
        .into_iter()
        .flat_map(|part| tables(part, &[]))
        .flatten()
        .flatten()
    {
        let unit = column.split(' ').next().and_then(micros);
        let unit = unit.or_else(|| cell.rsplit(' ').next().and_then(micros));
        let Some(unit) = unit else { continue };
        times.extend(Printed::all(&cell).iter().map(|one| Printed {
            value: one.value.abs() * unit,
            half: one.half * unit,
        }));
    }
    times
}

/// Times in sentences that no table supports.
fn unfounded(summary: &Summary, page: &str) -> Vec<String> {
    let known = printed_times(page);
    let spoken = regex::Regex::new(r"([0-9][0-9,]*(?:\.[0-9]+)?) (ns|µs|ms|s)\b").unwrap();
    let mut found = Vec::new();
    for line in super::answer(summary) {
        let line = line.to_string().replace(NBSP, " ");
        for number in spoken.captures_iter(&line) {
            let printed = Printed::significant(&number[1]);
            let unit = micros(&number[2]).unwrap();
            let is_told = known.iter().any(|other| {
                (printed.value * unit - other.value).abs() <= (printed.half * unit + other.half) * 1.000_001
            });
            if !is_told {
                found.push(format!("{} in: {line}", &number[0]));
            }
        }
    }
    found
}

fn markdown(summary: &Summary) -> String {
    let options = Options {
        verbose: true,
        ..Options::default()
    };
    String::from_utf8(render(summary, &Extras::default(), Format::Markdown, &options)).unwrap()
}

fn check(summary: &Summary) -> Result<(), String> {
    let mut summary = summary.clone();
    summary.decide();
    let page = markdown(&summary);
    let mut found = contradictions_within_rows(&page, &["ratio", "95 % interval", "sure?"]);
    found.extend(contradictions(&page, "CPU ratio", "interval", &["services"]));
    found.extend(unfounded(&summary, &page));
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("{found:#?}\n{page}"))
    }
}

#[test]
fn columns_divide_to_the_ratio_beside_them() {
    for (name, summary) in fixtures::all() {
        check(&summary).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

#[test]
fn a_contradiction_is_found() {
    let mut summary = fixtures::three_transports();
    summary.cases[0].metrics.as_mut().unwrap().throughput.interval.estimate *= 0.9;
    assert!(check(&summary).is_err());
    let mut summary = fixtures::three_transports();
    summary.comparisons[1].materiality.as_mut().unwrap().saved_us.estimate *= 1.2;
    assert!(check(&summary).is_ok(), "the table has it, too");
    let mut summary = fixtures::three_transports();
    let cpu = &mut summary.cases[2].metrics.as_mut().unwrap().cpu_per_request;
    cpu.roles.values_mut().for_each(|micros| *micros *= 1.2);
    assert!(check(&summary).is_err());
}

/// A run on a shared machine, whose servers stall now and then, and some of whose trials fail.
#[derive(Clone, Copy, Debug)]
struct World {
    rates: [f64; 3],
    noise: [f64; 3],
    /// Share of disturbed trials, and the largest share of the rate that a disturbance takes in the third case. The
    /// first case loses a third of this share, the second two thirds.
    disturbed: f64,
    slowed: f64,
    stalls: f64,
    failing: u32,
    /// Whether the driver stands for remote clients.
    proxied: bool,
    open: bool,
    seed: u64,
}

fn worlds() -> impl Strategy<Value = World> {
    let rates = [1.0..6.0f64, 1.0..6.0, 1.0..6.0].prop_map(|logs| logs.map(|log| 10f64.powf(log)));
    let noise = [0.0..0.05f64, 0.0..0.3, 0.0..0.3];
    let shares = (0.0..1.0f64, 0.0..0.8f64, 0.0..0.3f64, 0u32..4);
    (rates, noise, shares, any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(rates, noise, (disturbed, slowed, stalls, failing), proxied, open, seed)| World {
            rates,
            noise,
            disturbed,
            slowed,
            stalls,
            failing,
            proxied,
            open,
            seed,
        },
    )
}

fn record(world: &World) -> RunData {
    let [tcp, unix, tls] = world.rates;
    let truths = [
        Truth { rate: tcp, ..TCP },
        Truth { rate: unix, ..UNIX },
        Truth {
            rate: tls,
            transport: Transport::Tls,
            ..TCP
        },
    ];
    let [luck, trial, neighbours] = world.noise;
    let mut data = noisy_run(
        &truths,
        5,
        6,
        world.seed,
        Noise {
            luck,
            trial,
            neighbours,
        },
    );
    let mut draws = lasthop_stats::random::Draws::new(world.seed);
    for (place, case) in ["tcp", "unix", "tls"].into_iter().enumerate() {
        each_trial(&mut data, case, |trial| {
            let taken = if draws.unit() < world.disturbed {
                draws.unit()
            } else {
                0.0
            };
            trial.observations.machine.foreign_ns = (taken * 1.1e8) as i64;
            let slowed = 1.0 - world.slowed * taken * (place + 1) as f64 / 3.0;
            let stalled = if draws.unit() < world.stalls { 0.1 } else { 1.0 };
            let result = &mut trial.result;
            result.requests = ((result.requests as f64 * slowed * stalled) as u64).max(1);
            result.requests_total = result.requests + result.requests / 10;
            let mut latencies = lasthop_trial::Histogram::new();
            latencies.record_n(result.elapsed_ns / result.requests, result.requests);
            result.service_time = Some(latencies);
        });
    }
    data.header.derived = [("one", "unix"), ("other", "tls")]
        .map(|(quantity, of)| {
            let from = Derivation::Difference {
                of: of.to_owned(),
                minus: "tcp".to_owned(),
            };
            DerivedPlan {
                quantity: quantity.to_owned(),
                help: quantity.to_owned(),
                levels: Default::default(),
                from,
            }
        })
        .into();
    fail(&mut data, "unix", |trial| {
        trial.block < world.failing && trial.round % 2 == 0
    });
    if world.proxied {
        data.header.experiment.from = "proxy".to_owned();
    }
    if world.open { at_rate(data, 1_000.0) } else { data }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn columns_of_any_record_divide_to_the_ratio_beside_them(world in worlds()) {
        let summary = summarise(&record(&world));
        check(&summary).map_err(TestCaseError::fail)?;
    }
}
