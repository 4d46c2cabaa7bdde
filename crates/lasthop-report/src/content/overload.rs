//! A run with overload: the load that is served, a table of each case beyond that load, and a table of every load.
//!
//! Two figures joined by a dash are the lowest and the highest of the repetitions.

use indexmap::{IndexMap, IndexSet};
use lasthop_analyse::{
    groups::Group,
    summary::{CaseSummary, Overload, OverloadCase, OverloadPoint, Recovery, Span},
};
use lasthop_model::quantity::joined;
use serde::Serialize;

use super::{parts, reading::the};
use crate::{
    columns::Columns,
    document::{Block, Depth, Section, Table, Text, Tone},
    names::Named,
    units::{NBSP, NONE, Seconds, capital, grouped, percent, significant},
    words,
};

/// The smallest share worth mentioning.
const WORTH_A_WORD: f64 = 0.01;
/// Limits beyond which a disturbance is a doubt: the share of the machine's CPU time that others use, and the driver's
/// lateness in milliseconds.
const FOREIGN: f64 = 0.1;
const LATE_MS: f64 = 10.0;

/// A case of a group with its result.
#[derive(Clone, Copy)]
struct Loaded<'a> {
    group: &'a Group<'a>,
    case: &'a CaseSummary,
    found: &'a OverloadCase,
}

impl<'a> Loaded<'a> {
    /// The highest load up to which all requests are served.
    fn highest(&self) -> Option<&'a OverloadPoint> {
        // "Up to" a load includes each lower load.
        self.found.points.iter().take_while(|point| point.served).last()
    }

    fn name(&self) -> String {
        the(&self.group.name(self.case))
    }
}

fn cases<'a>(group: &'a Group<'a>, overload: &'a Overload) -> Vec<Loaded<'a>> {
    let of = |case: &&'a CaseSummary| {
        let mut all = overload.cases.iter().filter(|found| !found.points.is_empty());
        Some(Loaded {
            group,
            case,
            found: all.find(|found| found.case == case.case)?,
        })
    };
    group.cases.iter().filter_map(of).collect()
}

/// The levels that a group's cases share, if there are several groups.
fn setting(group: &Group<'_>) -> Option<Text> {
    (!group.setting().is_empty()).then(|| Text::of(Tone::Strong, capital(&group.setting())))
}

/// The load that is served, in at most ten words.
pub fn advice(groups: &[Group<'_>], overload: &Overload) -> Text {
    let settings: Vec<Vec<Loaded<'_>>> = groups.iter().map(|group| cases(group, overload)).collect();
    let all = || settings.iter().flatten();
    let times = |one: &Loaded<'_>| one.highest().map_or(0.0, |point| point.times);
    let most = |cases: &[Loaded<'_>]| cases.iter().map(times).fold(0.0, f64::max);
    let longest = |cases: &Vec<Loaded<'_>>| -> Vec<String> {
        let best = cases.iter().filter(|one| times(one) == most(cases));
        best.map(Loaded::name).collect()
    };
    let Some(first) = settings.iter().find(|cases| !cases.is_empty()) else {
        return say(Served::default());
    };
    let same = all().all(|one| times(one) == most(first));
    let who = longest(first);
    let one_answer = settings
        .iter()
        .filter(|cases| !cases.is_empty())
        .all(|cases| longest(cases) == who && most(cases) == most(first));
    say(Served {
        offered: true,
        up_to: (one_answer && most(first) > 0.0).then(|| of_capacity(most(first))),
        who: if same { Vec::new() } else { who },
        nothing: all().all(|one| times(one) == 0.0),
    })
}

/// Values for the headline of an overload.
#[derive(Default, Serialize)]
struct Served {
    offered: bool,
    /// The highest load that is served, in words; `None` if it depends on the setting, or no load is.
    up_to: Option<String>,
    /// The cases that serve this load; empty for all.
    who: Vec<String>,
    /// Whether no case serves all requests at any load.
    nothing: bool,
}

fn say(served: Served) -> Text {
    let tone = if served.offered { Tone::Strong } else { Tone::Warning };
    Text::of(tone, words::say("overload", served).concat())
}

/// `0.75 times capacity`
fn of_capacity(times: f64) -> String {
    if times == 1.0 {
        "capacity".to_owned()
    } else {
        format!("{times} times capacity")
    }
}

/// The load that each case serves, and its behaviour at the highest load.
pub fn answer(groups: &[Group<'_>], overload: &Overload) -> Vec<Block> {
    let rows: Vec<Loaded<'_>> = groups.iter().flat_map(|group| cases(group, overload)).collect();
    let points = rows.iter().flat_map(|one| &one.found.points);
    let Some(most) = points.map(|point| point.times).max_by(f64::total_cmp) else {
        return Vec::new();
    };
    let at = |row: &Loaded<'_>| row.found.points.iter().find(|point| point.times == most).cloned();
    let at_most = |row: &Loaded<'_>, of: fn(&OverloadPoint) -> String| at(row).as_ref().map_or(NONE.to_owned(), of);
    let table = Columns::of(&rows)
        .names(parts::case_title(groups[0].summary()), |row| row.group.label(row.case))
        .under(|row| row.group.setting())
        .right("capacity/s", |row| row.found.capacity.map_or(NONE.to_owned(), rates))
        .right("all served to", |row| {
            row.highest().map_or(NONE.to_owned(), |point| {
                format!("{}/s ({}×)", significant(point.offered, 3), point.times)
            })
        })
        .right(format!("goodput/s at {most}×"), |row| {
            at_most(row, |point| rates(point.goodput))
        })
        .right("p99 ms", |row| at_most(row, |point| milliseconds(point.p99_ms)))
        .right("recovery s", |row| {
            at_most(row, |point| point.recovery.map_or_else(String::new, recovered))
        })
        .left("not served", |row| at_most(row, not_served))
        .table();
    std::iter::once(Block::Table(table))
        .chain(doubts(overload).into_iter().map(Block::Item))
        .collect()
}

/// `58–82 % 502 after 0.40 ms, 5.0 % not sent`
fn not_served(point: &OverloadPoint) -> String {
    let wrong = point.wrong.iter().map(|(name, wrong)| {
        let what = format!("{} after {}", wrong_title(name), time(wrong.after_ms));
        (wrong.share, what)
    });
    let left = [(point.not_sent, "not sent"), (point.unanswered, "waiting")];
    let all = wrong.chain(left.map(|(share, what)| (share, what.to_owned())));
    let worth = all.filter(|(share, _)| share.most >= WORTH_A_WORD);
    joined(worth.map(|(share, what)| format!("{} {what}", shares(share))), ", ")
}

/// A section of all loads and their results.
pub fn section(groups: &[Group<'_>], overload: &Overload) -> Option<Section> {
    let mut blocks = vec![Block::Paragraph(how(overload))];
    for group in groups {
        let cases = cases(group, overload);
        if cases.is_empty() {
            continue;
        }
        blocks.extend(setting(group).map(Block::Paragraph));
        blocks.push(Block::Table(table(&cases)));
    }
    parts::section("Offered load and what became of it", Depth::Open, blocks)
}

/// Disturbances that make the servers look worse than they are.
fn doubts(overload: &Overload) -> Vec<Text> {
    let mut said = Vec::new();
    if overload.foreign_share >= FOREIGN {
        said.push(format!(
            "other processes and the hypervisor used {} of the machine's CPU time; a quiet machine has more capacity",
            percent(overload.foreign_share, 0)
        ));
    }
    let points = overload.cases.iter().flat_map(|case| &case.points);
    let lags = points.filter_map(|point| point.lag_p99_ms);
    let lag = lags.map(|lag| lag.most).fold(0.0, f64::max);
    if lag >= LATE_MS {
        said.push(format!(
            "the driver sent 1{NBSP}% of its requests {} or more late, because it needs a CPU too",
            time(lag)
        ));
    }
    said.iter()
        .map(|text| Text::of(Tone::Warning, "doubt").plain(format!(" {text}")))
        .collect()
}

fn how(overload: &Overload) -> Text {
    format!(
        "What happened in {} of each load, after {} in which queues filled; two figures are the least and the most of the \
         repetitions. Errors, not sent and waiting are shares of the requests that were due. What the kernel and logs \
         counted is of whole trials, with the usual load before and after.",
        Seconds(overload.counted_seconds),
        Seconds(overload.fill_seconds)
    )
    .into()
}

/// A table with a row for each load of each case.
fn table(cases: &[Loaded<'_>]) -> Table {
    let rows = cases
        .iter()
        .flat_map(|one| one.found.points.iter().map(move |point| (one, point)));
    let rows: Vec<(&Loaded<'_>, &OverloadPoint)> = rows.collect();
    let points: Vec<&OverloadPoint> = rows.iter().map(|(_, point)| *point).collect();
    let left = |share: Span| {
        // Smaller shares would read 0.0 %.
        if share.most < 0.0005 {
            String::new()
        } else {
            shares(share)
        }
    };
    let mut columns = Columns::of(&rows)
        .under(|(one, _)| one.name())
        // `841 (3.0×)`
        .left("requests/s", |(_, point)| {
            format!("{} ({}×)", significant(point.offered, 3), point.times)
        })
        .right("goodput/s", |(_, point)| rates(point.goodput));
    for name in kinds(&points) {
        columns = columns.right(wrong_title(&name), |(_, point)| {
            point
                .wrong
                .get(&name)
                .map_or_else(String::new, |wrong| shares(wrong.share))
        });
    }
    columns = columns
        .right("not sent", |(_, point)| left(point.not_sent))
        .right("waiting", |(_, point)| left(point.unanswered))
        .right("p50 ms", |(_, point)| milliseconds(point.p50_ms))
        .right("p99 ms", |(_, point)| milliseconds(point.p99_ms))
        .right("recovery s", |(_, point)| {
            point.recovery.map_or_else(String::new, recovered)
        });
    for (title, of) in counters(&points) {
        columns = columns.right(title, |(_, point)| count(of(point)));
    }
    columns.table()
}

/// All ways in which requests ended without a correct reply, the most frequent first.
fn kinds(points: &[&OverloadPoint]) -> Vec<String> {
    let mut counts: IndexMap<String, f64> = IndexMap::new();
    for (name, wrong) in points.iter().flat_map(|point| &point.wrong) {
        let most = counts.entry(name.clone()).or_default();
        *most = most.max(wrong.share.most);
    }
    counts.sort_by(|_, one, _, other| other.total_cmp(one));
    counts.into_keys().collect()
}

type Counter<'a> = Box<dyn Fn(&OverloadPoint) -> Span + 'a>;

/// Counts by the kernel and from logs, if there are any.
fn counters<'a>(points: &[&'a OverloadPoint]) -> Vec<(String, Counter<'a>)> {
    let none = Span {
        least: 0.0,
        median: 0.0,
        most: 0.0,
    };
    let mut all: Vec<(String, Counter<'a>)> = vec![
        ("ListenOverflows".to_owned(), Box::new(|point| point.listen_overflows)),
        ("TCPSynRetrans".to_owned(), Box::new(|point| point.syns_retransmitted)),
    ];
    let meanings: IndexSet<&String> = points.iter().flat_map(|point| point.logged.keys()).collect();
    for meaning in meanings {
        all.push((
            format!("log: {meaning}"),
            Box::new(move |point| point.logged.get(meaning).copied().unwrap_or(none)),
        ));
    }
    // The two counts usually agree.
    if points.iter().any(|point| point.listen_drops != point.listen_overflows) {
        all.insert(1, ("ListenDrops".to_owned(), Box::new(|point| point.listen_drops)));
    }
    all.retain(|(_, of)| points.iter().any(|point| of(point).most > 0.0));
    all
}

fn count(span: Span) -> String {
    if span.most == 0.0 {
        String::new()
    } else {
        self::span(span, |value| grouped(value, 0))
    }
}

fn recovered(recovery: Recovery) -> String {
    match (recovery.seconds, recovery.late) {
        (None, _) => "not seen".to_owned(),
        (Some(seconds), 0) => tenths(seconds),
        (Some(seconds), late) => format!("{:.1}, {late} not seen", seconds.least),
    }
}

fn wrong_title(name: &str) -> String {
    name.strip_prefix("status-")
        .map_or_else(|| name.replace('-', " "), str::to_owned)
}

/// One figure, or the lowest and the highest.
fn span(span: Span, text: impl Fn(f64) -> String) -> String {
    let least = text(span.least);
    let most = text(span.most);
    if least == most {
        least
    } else {
        format!("{least}–{most}")
    }
}

fn rates(rate: Span) -> String {
    span(rate, |value| significant(value, 3))
}

fn tenths(seconds: Span) -> String {
    span(seconds, |one| format!("{one:.1}"))
}

fn shares(share: Span) -> String {
    format!(
        "{}{NBSP}%",
        span(share, |share| match share * 100.0 {
            // From 9.95 on, one decimal would print 10.0.
            percent if percent < 9.95 => format!("{percent:.1}"),
            percent => format!("{percent:.0}"),
        })
    )
}

fn milliseconds(of: Option<Span>) -> String {
    of.map_or_else(|| NONE.to_owned(), |of| span(of, |value| significant(value, 2)))
}

fn time(milliseconds: f64) -> String {
    let (divisor, name) = unit(milliseconds);
    format!("{}{NBSP}{name}", significant(milliseconds / divisor, 2))
}

/// Milliseconds in a readable unit, and the name of the unit.
fn unit(milliseconds: f64) -> (f64, &'static str) {
    if milliseconds >= 1_000.0 {
        (1_000.0, "s")
    } else {
        (1.0, "ms")
    }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::{Summary, Wrong};

    use super::*;
    use lasthop_analyse::groups::groups;

    use crate::{document::Row, fixtures};

    fn span(least: f64, most: f64) -> Span {
        Span {
            least,
            median: (least + most) / 2.0,
            most,
        }
    }

    fn point(times: f64, served: bool, goodput: Span, wrong: &[(&str, Span, f64)]) -> OverloadPoint {
        let none = span(0.0, 0.0);
        let wrong = wrong.iter().map(|(name, share, after_ms)| {
            let wrong = Wrong {
                count: 9,
                share: *share,
                after_ms: *after_ms,
                first: String::new(),
            };
            ((*name).to_owned(), wrong)
        });
        OverloadPoint {
            times,
            offered: 100.0 * times,
            trials: 3,
            served,
            goodput,
            right: span(0.3, 0.3),
            wrong: wrong.collect(),
            not_sent: none,
            unanswered: none,
            p50_ms: None,
            p99_ms: None,
            lag_p99_ms: None,
            listen_overflows: none,
            listen_drops: none,
            syns_retransmitted: none,
            logged: IndexMap::new(),
            recovery: (times > 1.0).then_some(Recovery {
                seconds: Some(span(0.2, 0.4)),
                late: 1,
            }),
        }
    }

    /// The headline and the cells of the first table, for two cases at capacity and at three times capacity.
    fn said(unix: [OverloadPoint; 2], tcp: [OverloadPoint; 2]) -> (String, Vec<Vec<String>>) {
        let mut summary: Summary = fixtures::three_transports();
        summary.cases.truncate(2);
        let points = [unix, tcp].into_iter();
        let cases = summary.cases.iter().zip(points).map(|(case, points)| OverloadCase {
            case: case.case.clone(),
            capacity: Some(span(100.0, 110.0)),
            points: points.to_vec(),
        });
        let overload = Overload {
            counted_seconds: 2.0,
            fill_seconds: 1.0,
            recovery_seconds: 3.0,
            foreign_share: 0.0,
            cases: cases.collect(),
        };
        let groups = groups(&summary);
        let Some(Block::Table(table)) = answer(&groups, &overload).into_iter().next() else {
            panic!("no table");
        };
        let plain = |text: String| text.replace(NBSP, " ");
        let rows = table.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells.iter().map(|cell| plain(cell.text.clone())).collect()),
            _ => None,
        });
        (plain(advice(&groups, &overload).to_string()), rows.collect())
    }

    #[test]
    fn what_is_served_and_how_the_rest_ends_is_said() {
        let usual = || point(1.0, true, span(100.0, 100.0), &[]);
        let refusing = point(3.0, false, span(90.0, 95.0), &[("status-502", span(0.6, 0.7), 0.3)]);
        let late = point(
            3.0,
            false,
            span(80.0, 85.0),
            &[
                ("status-504", span(0.2, 0.2), 1000.0),
                ("reset", span(0.001, 0.001), 1.0),
            ],
        );
        let (headline, rows) = said([usual(), refusing], [usual(), late]);
        assert_eq!(headline, "All requests are served up to capacity.");
        let row = |goodput, ends| ["100–110", "100/s (1×)", goodput, "–", "0.2, 1 not seen", ends];
        assert_eq!(rows[0][1..], row("90.0–95.0", "60–70 % 502 after 0.30 ms"));
        assert_eq!(rows[1][1..], row("80.0–85.0", "20 % 504 after 1.0 s"));
    }

    #[test]
    fn cases_that_serve_unlike_loads_are_told_apart() {
        let usual = |served| point(1.0, served, span(100.0, 100.0), &[]);
        let over = || point(3.0, false, span(80.0, 95.0), &[]);
        let (headline, rows) = said([usual(true), over()], [usual(false), over()]);
        assert_eq!(headline, "The Unix socket keeps up longest: to capacity.");
        assert_eq!([&*rows[0][2], &*rows[1][2]], ["100/s (1×)", "–"]);
        let (headline, _) = said([usual(false), over()], [usual(false), over()]);
        assert_eq!(headline, "Not all requests are served, at any load.");
    }
}
