//! A run with overload: what is served, a line for what each case does beyond, and a table for each setting.
//!
//! Two figures joined by a dash are the least and the most of the repetitions.

use indexmap::{IndexMap, IndexSet};
use lasthop_analyse::{
    groups::Group,
    summary::{CaseSummary, Overload, OverloadCase, OverloadPoint, Recovery, Span},
};
use lasthop_model::quantity::joined;

use super::{parts, reading::the};
use crate::{
    columns::Columns,
    document::{Block, Depth, Section, Table, Text, Tone},
    names::Named,
    units::{NBSP, NONE, Seconds, capital, grouped, percent, plural, significant},
};

/// Shares below this are not worth a word.
const WORTH_A_WORD: f64 = 0.01;
/// CPU time of others, as a share of the machine's, and lateness of the driver that are worth a doubt.
const FOREIGN: f64 = 0.1;
const LATE_MS: f64 = 10.0;

/// A case of a group with what was found of it.
#[derive(Clone, Copy)]
struct Loaded<'a> {
    group: &'a Group<'a>,
    overload: &'a Overload,
    found: &'a OverloadCase,
}

impl<'a> Loaded<'a> {
    /// The highest load up to which all are served.
    fn highest(&self) -> Option<&'a OverloadPoint> {
        // "Up to" a load means at each lower one, too.
        self.found.points.iter().take_while(|point| point.served).last()
    }

    fn name(&self) -> String {
        let case = self.group.cases.iter().find(|case| case.case == self.found.case);
        case.map_or_else(|| self.found.case.clone(), |case| the(&self.group.name(case)))
    }

    fn at(&self, times: f64) -> Option<&'a OverloadPoint> {
        // Equal to the last bit: all are copies of one setting.
        self.found.points.iter().find(|point| point.times == times)
    }
}

fn cases<'a>(group: &'a Group<'a>, overload: &'a Overload) -> Vec<Loaded<'a>> {
    let of = |case: &&CaseSummary| {
        let mut all = overload.cases.iter().filter(|found| !found.points.is_empty());
        Some(Loaded {
            group,
            overload,
            found: all.find(|found| found.case == case.case)?,
        })
    };
    group.cases.iter().filter_map(of).collect()
}

/// What the cases of a group have in common, if there are several groups.
fn setting(group: &Group<'_>) -> Option<Text> {
    (!group.setting().is_empty()).then(|| Text::of(Tone::Strong, capital(&group.setting())))
}

/// What happens, in words: a line for each setting with a result.
pub fn answer(groups: &[Group<'_>], overload: &Overload) -> Vec<Text> {
    let mut lines = Vec::new();
    for group in groups {
        let said = in_words(&cases(group, overload));
        let head = setting(group).filter(|_| !said.is_empty());
        lines.extend(head.map(|name| name.plain(":")).into_iter().chain(said));
    }
    if lines.is_empty() {
        return vec![Text::of(Tone::Warning, "No answer").plain(": no load was offered to any case.")];
    }
    lines.extend(doubts(overload));
    lines
}

fn in_words(cases: &[Loaded<'_>]) -> Vec<Text> {
    let points = cases.iter().flat_map(|one| &one.found.points);
    let Some(most) = points.map(|point| point.times).max_by(f64::total_cmp) else {
        return Vec::new();
    };
    let beyond = cases.iter().filter_map(|one| Some(beyond(one, one.at(most)?)));
    std::iter::once(served(cases)).chain(beyond).collect()
}

/// `Up to 460 requests/s (0.75 times capacity) all are served.`
fn served(cases: &[Loaded<'_>]) -> Text {
    let times = |one: &Loaded<'_>| one.highest().map(|point| point.times);
    let same = cases.iter().all(|one| times(one) == times(&cases[0]));
    let (who, is) = match cases.len() {
        1 => (cases[0].name(), "serves"),
        2 => (format!("{} and {} both", cases[0].name(), cases[1].name()), "serve"),
        _ => ("every case".to_owned(), "serves"),
    };
    match (same, cases[0].highest()) {
        (true, Some(point)) => {
            Text::of(Tone::Strong, format!("Up to {}", load(point))).plain(format!(" {who} {is} all requests."))
        }
        (true, None) => {
            let least = cases[0].found.points.first().map_or(0.0, |point| point.offered);
            Text::of(Tone::Warning, format!("Already at {}", rate(least))).plain(" not all requests are served.")
        }
        (false, _) => {
            let one = |one: &Loaded<'_>| match one.highest() {
                Some(point) => format!("{} serves all requests up to {}", one.name(), load(point)),
                None => format!(
                    "{} does not serve all requests in every repetition, at any load",
                    one.name()
                ),
            };
            capital(&format!("{}.", joined(cases.iter().map(one), "; "))).into()
        }
    }
}

/// `460 requests/s (0.75 times capacity)`
fn load(point: &OverloadPoint) -> String {
    let of_capacity = if point.times == 1.0 {
        "the capacity".to_owned()
    } else {
        format!("{} times capacity", point.times)
    };
    format!("{} ({of_capacity})", rate(point.offered))
}

/// What a case does at a load.
fn beyond(one: &Loaded<'_>, point: &OverloadPoint) -> Text {
    let p99 = point
        .p99_ms
        .map(|p99| format!(", p99 {}", times(p99)))
        .unwrap_or_default();
    let mut parts = vec![format!("{} right answers/s{p99}", rates(point.goodput))];
    for (name, wrong) in point.wrong.iter().filter(|(_, wrong)| wrong.share.most >= WORTH_A_WORD) {
        parts.push(format!(
            "{} end with {} after {}",
            shares(wrong.share),
            wrong_title(name),
            time(wrong.after_ms)
        ));
    }
    for (share, what) in [(point.not_sent, "not sent"), (point.unanswered, "waiting")] {
        if share.most >= WORTH_A_WORD {
            parts.push(format!("{} {what}", shares(share)));
        }
    }
    if let Some(recovery) = &point.recovery {
        let within = Seconds(one.overload.recovery_seconds);
        let late = plural(u64::from(recovery.late), "time");
        parts.push(match recovery.seconds.map(tenths) {
            None => format!("no recovery within {within}"),
            Some(seconds) if recovery.late > 0 => {
                format!("recovers after {seconds}{NBSP}s, {late} not within {within}")
            }
            Some(seconds) => format!("recovers after {seconds}{NBSP}s"),
        });
    }
    Text::of(Tone::Strong, capital(&one.name())).plain(format!(" at {}: {}.", load(point), parts.join("; ")))
}

/// The loads and what became of them.
pub fn section(groups: &[Group<'_>], overload: &Overload) -> Option<Section> {
    let mut blocks = vec![Block::Paragraph(how(overload))];
    for group in groups {
        let cases = cases(group, overload);
        if cases.is_empty() {
            continue;
        }
        blocks.extend(setting(group).map(Block::Paragraph));
        blocks.push(Block::Paragraph(capacity(&cases).into()));
        blocks.push(Block::Table(table(&cases)));
    }
    parts::section("Offered load and what became of it", Depth::Open, blocks)
}

/// What makes the figures worse than the servers are.
fn doubts(overload: &Overload) -> Vec<Text> {
    let mut said = Vec::new();
    if overload.foreign_share >= FOREIGN {
        said.push(format!(
            "other processes and the hypervisor used {} of the machine's CPU time: on a quiet machine capacity is higher, and \
             repetitions differ less",
            percent(overload.foreign_share, 0)
        ));
    }
    let points = overload.cases.iter().flat_map(|case| &case.points);
    let lags = points.filter_map(|point| point.lag_p99_ms);
    let lag = lags.map(|lag| lag.most).fold(0.0, f64::max);
    if lag >= LATE_MS {
        said.push(format!(
            "the driver sent 1{NBSP}% of its requests {} or more late: it needs a CPU too",
            time(lag)
        ));
    }
    said.iter()
        .map(|text| Text::of(Tone::Warning, "Doubt").plain(format!(": {text}.")))
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

fn capacity(cases: &[Loaded<'_>]) -> String {
    format!(
        "Capacity, in a closed loop: {}.",
        joined(
            cases.iter().map(|one| {
                let found = one.found.capacity.map_or_else(|| NONE.to_owned(), rates);
                format!("{} {found} requests/s", one.name())
            }),
            ", "
        )
    )
}

/// A row for each load of each case.
fn table(cases: &[Loaded<'_>]) -> Table {
    let rows = cases
        .iter()
        .flat_map(|one| one.found.points.iter().map(move |point| (one, point)));
    let rows: Vec<(&Loaded<'_>, &OverloadPoint)> = rows.collect();
    let points: Vec<&OverloadPoint> = rows.iter().map(|(_, point)| *point).collect();
    let left = |share: Span| {
        // It would read 0.0 %.
        if share.most < 0.0005 {
            String::new()
        } else {
            shares(share)
        }
    };
    let time = |of: Option<Span>| of.map_or_else(|| NONE.to_owned(), |of| span(of, |value| significant(value, 2)));
    let mut columns = Columns::of(&rows)
        .under(|(one, _)| one.name())
        // `841 (3.0×)`
        .left("requests/s", |(_, point)| {
            format!("{} ({}×)", significant(point.offered, 3), point.times)
        })
        .right("right/s", |(_, point)| rates(point.goodput));
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
        .right("p50 ms", |(_, point)| time(point.p50_ms))
        .right("p99 ms", |(_, point)| time(point.p99_ms))
        .right("recovery s", |(_, point)| {
            point.recovery.map_or_else(String::new, recovered)
        });
    for (title, of) in counters(&points) {
        columns = columns.right(title, |(_, point)| count(of(point)));
    }
    columns.table()
}

/// Every way in which requests ended without a right answer, the most frequent first.
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

/// What the kernel counted and what logs say, where there is any.
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
    // Usually they are the same.
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

fn rate(rate: f64) -> String {
    format!("{}{NBSP}requests/s", significant(rate, 3))
}

/// One figure, or the least and the most.
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
            // Above, one decimal would make it 10.0.
            percent if percent < 9.95 => format!("{percent:.1}"),
            percent => format!("{percent:.0}"),
        })
    )
}

fn times(time: Span) -> String {
    let (divisor, name) = unit(time.most);
    format!("{}{NBSP}{name}", span(time, |value| significant(value / divisor, 2)))
}

fn time(milliseconds: f64) -> String {
    let (divisor, name) = unit(milliseconds);
    format!("{}{NBSP}{name}", significant(milliseconds / divisor, 2))
}

/// Milliseconds in the unit in which a time is written, and its name.
fn unit(milliseconds: f64) -> (f64, &'static str) {
    if milliseconds >= 1_000.0 {
        (1_000.0, "s")
    } else {
        (1.0, "ms")
    }
}

/// The result in one line.
pub fn headline(groups: &[Group<'_>], overload: &Overload) -> String {
    let mut all = groups.iter().map(|group| cases(group, overload));
    match all.find(|cases| !cases.is_empty()) {
        Some(cases) => format!("overload: {}", served(&cases)),
        None => "no load was offered".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::{Summary, Wrong};

    use super::*;
    use lasthop_analyse::groups::groups;

    use crate::fixtures;

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

    /// Two cases at capacity and at three times that.
    fn said(unix: [OverloadPoint; 2], tcp: [OverloadPoint; 2]) -> String {
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
        let lines: Vec<String> = answer(&groups, &overload).iter().map(ToString::to_string).collect();
        lines.join(" ").replace(NBSP, " ")
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
        let text = said([usual(), refusing], [usual(), late]);
        for part in [
            "Up to 100 requests/s (the capacity) the Unix socket and TCP both serve all requests.",
            "The Unix socket at 300 requests/s (3 times capacity): 90.0–95.0 right answers/s; 60–70 % end with 502 after 0.30 ms;",
            "20 % end with 504 after 1.0 s;",
            "recovers after 0.2–0.4 s, 1 time not within 3.0 s.",
        ] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(!text.contains("reset"), "{text}");
    }

    #[test]
    fn cases_that_serve_unlike_loads_are_told_apart() {
        let usual = |served| point(1.0, served, span(100.0, 100.0), &[]);
        let over = || point(3.0, false, span(80.0, 95.0), &[]);
        let text = said([usual(true), over()], [usual(false), over()]);
        assert!(
            text.contains(
                "serves all requests up to 100 requests/s (the capacity); TCP does not serve all requests in every repetition, at any load."
            ),
            "{text}"
        );
    }
}
