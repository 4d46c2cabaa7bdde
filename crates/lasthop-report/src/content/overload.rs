//! A run with overload: what is served and what happens beyond, in words; a table for each setting.
//!
//! A sentence has the ends of what the repetitions found, and says that one case does better only if all its repetitions do.

use indexmap::IndexMap;
use lasthop_analyse::summary::{Overload, OverloadCase, OverloadPoint, Recovery, Span};

use super::{answer::the, parts};
use crate::{
    document::{Block, Cell, Column, Columns, Depth, Row, Section, Table, Text, Tone},
    groups::Group,
    units::{NBSP, NONE, Seconds, capital, grouped, plural, significant},
    wording::percent,
};

/// Shares below this are not worth a word.
const WORTH_A_WORD: f64 = 0.01;
/// CPU time of others, as a share of the machine's, and lateness of the driver that are worth a doubt.
const FOREIGN: f64 = 0.1;
const LATE_MS: f64 = 10.0;

/// A case of a group with what was found of it.
#[derive(Clone, Copy)]
struct One<'a> {
    group: &'a Group<'a>,
    overload: &'a Overload,
    found: &'a OverloadCase,
}

impl<'a> One<'a> {
    /// The highest load up to which all are served.
    fn highest(&self) -> Option<&'a OverloadPoint> {
        self.found.points.iter().take_while(|point| point.served).last()
    }

    fn name(&self) -> String {
        let case = self.group.cases.iter().find(|case| case.case == self.found.case);
        case.map_or_else(|| self.found.case.clone(), |case| the(&self.group.name(case)))
    }

    fn at(&self, times: f64) -> Option<&'a OverloadPoint> {
        self.found.points.iter().find(|point| point.times == times)
    }
}

fn cases<'a>(group: &'a Group<'a>, overload: &'a Overload) -> Vec<One<'a>> {
    let of = |name: &str| overload.cases.iter().find(|found| found.case == name && !found.points.is_empty());
    group.cases.iter().filter_map(|case| Some(One { group, overload, found: of(&case.case)? })).collect()
}

/// What the cases of a group have in common, if there are several groups.
fn setting(group: &Group<'_>) -> Option<Text> {
    (!group.setting.is_empty()).then(|| Text::of(Tone::Strong, capital(&group.setting)))
}

/// What happens, in words: a line for each setting with a result.
pub fn answer(groups: &[Group<'_>], overload: &Overload) -> Vec<Text> {
    let lines = groups.iter().flat_map(|group| {
        let said = in_words(&cases(group, overload));
        let head = setting(group).map(|name| name.plain(":"));
        head.filter(|_| !said.is_empty()).into_iter().chain(said).collect::<Vec<_>>()
    });
    let lines: Vec<Text> = lines.collect();
    match lines.is_empty() {
        true => vec![Text::of(Tone::Warning, "No answer").plain(": no load was offered to any case.")],
        false => lines.into_iter().chain(doubts(overload)).collect(),
    }
}

fn in_words(cases: &[One<'_>]) -> Vec<Text> {
    let Some(most) = cases.iter().flat_map(|one| &one.found.points).map(|point| point.times).max_by(f64::total_cmp)
    else {
        return Vec::new();
    };
    let beyond = cases.iter().filter_map(|one| Some(beyond(one, one.at(most)?)));
    let lines = [Some(served(cases)), at_most(cases, most)];
    lines.into_iter().flatten().chain(beyond).chain(better(cases, most)).collect()
}

/// `Up to 460 requests/s (0.75 times capacity) all are served.`
fn served(cases: &[One<'_>]) -> Text {
    let each: Vec<Option<&OverloadPoint>> = cases.iter().map(One::highest).collect();
    let load = |point: &OverloadPoint| format!("{} ({})", rate(point.offered), of_capacity(point.times));
    let same = each.iter().all(|point| point.map(|point| point.times) == each[0].map(|point| point.times));
    let (who, is) = match cases.len() {
        1 => (cases[0].name(), "serves"),
        2 => (format!("{} and {} both", cases[0].name(), cases[1].name()), "serve"),
        _ => ("every case".to_owned(), "serves"),
    };
    match (same, each[0]) {
        (true, Some(point)) => {
            Text::of(Tone::Strong, format!("Up to {}", load(point))).plain(format!(" {who} {is} all requests."))
        }
        (true, None) => {
            let least = cases[0].found.points.first().map_or(0.0, |point| point.offered);
            Text::of(Tone::Warning, format!("Already at {}", rate(least))).plain(" not all requests are served.")
        }
        (false, _) => {
            let one = |(one, point): (&One<'_>, &Option<&OverloadPoint>)| match point {
                Some(point) => format!("{} serves all requests up to {}", one.name(), load(point)),
                None => format!("{} does not serve all requests in every repetition, at any load", one.name()),
            };
            let said: Vec<String> = cases.iter().zip(&each).map(one).collect();
            capital(&format!("{}.", said.join("; "))).into()
        }
    }
}

fn at_most(cases: &[One<'_>], most: f64) -> Option<Text> {
    let point = cases.iter().find_map(|one| one.at(most))?;
    let times = point.trials;
    let repetitions = if times == 1 {
        "in one repetition".to_owned()
    } else {
        format!("from least to most of {}", plural(u64::from(times), "repetition"))
    };
    Some(format!("At {}, {}, {repetitions}:", rate(point.offered), of_capacity(most)).into())
}

/// What a case does at a load.
fn beyond(one: &One<'_>, point: &OverloadPoint) -> Text {
    let mut parts = vec![format!("gives {} right answers/s", span(point.goodput, |value| significant(value, 3)))];
    if let (Some(p50), Some(p99)) = (point.p50_ms, point.p99_ms) {
        parts.push(format!("half of them within {} and 99{NBSP}% within {}", times(p50), times(p99)));
    }
    for (name, wrong) in point.wrong.iter().filter(|(_, wrong)| wrong.share.most >= WORTH_A_WORD) {
        let how = match wrong_text(name) {
            (true, text) => format!("answers {} of the requests with {text}", shares(wrong.share)),
            (false, text) => format!("fails {} of the requests with {text}", shares(wrong.share)),
        };
        parts.push(format!("{how}, after {}", milliseconds(wrong.after_ms)));
    }
    if point.not_sent.most >= WORTH_A_WORD {
        parts.push(format!("keeps every connection busy, so that {} are not even sent", shares(point.not_sent)));
    }
    if point.unanswered.most >= WORTH_A_WORD {
        parts.push(format!("leaves {} waiting longer", shares(point.unanswered)));
    }
    let recovery = point.recovery.as_ref().map(|recovery| recovery_text(one.overload, recovery)).unwrap_or_default();
    Text::of(Tone::Strong, capital(&one.name())).plain(format!(" {}.{recovery}", parts.join("; ")))
}

fn recovery_text(overload: &Overload, recovery: &Recovery) -> String {
    let limit = Seconds(overload.recovery_seconds);
    match (recovery.seconds, recovery.late) {
        (None, _) => format!(" Afterwards half of capacity is not answered as before within {limit}."),
        (Some(seconds), 0) if seconds.most < 0.1 => {
            " Afterwards half of capacity is answered as before at once.".to_owned()
        }
        (Some(seconds), late) => {
            let late = if late == 0 {
                String::new()
            } else {
                format!(", {} not within {limit}", plural(u64::from(late), "time"))
            };
            format!(
                " Afterwards half of capacity is answered as before after {}{NBSP}s{late}.",
                span(seconds, |one| format!("{one:.1}"))
            )
        }
    }
}

/// Who gives more right answers, if all repetitions agree.
fn better(cases: &[One<'_>], most: f64) -> Option<Text> {
    let [one, other] = cases else { return None };
    let (first, second) = (one.at(most)?, other.at(most)?);
    if first.trials.min(second.trials) < 2 {
        return None;
    }
    let margin = one.group.summary().settings.margin;
    let above =
        |ours: &OverloadPoint, theirs: &OverloadPoint| ours.goodput.least > theirs.goodput.most * (1.0 + margin);
    let text = |winner: &One<'_>, loser: &One<'_>| {
        Text::of(Tone::Good, capital(&winner.name()))
            .plain(format!(" gives more right answers than {} at this load in every repetition.", loser.name()))
    };
    Some(match (above(first, second), above(second, first)) {
        (true, _) => text(one, other),
        (_, true) => text(other, one),
        _ => "The repetitions do not agree on who gives more right answers at this load.".into(),
    })
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
    let lag = |point: &OverloadPoint| point.lag_p99_ms.map_or(0.0, |lag| lag.most);
    let latest = overload.cases.iter().flat_map(|case| &case.points).map(lag).fold(0.0, f64::max);
    let said = [
        (
            overload.foreign_share >= FOREIGN,
            format!(
                "other processes and the hypervisor used {} of the machine's CPU time: on a quiet machine capacity is higher, and \
             repetitions differ less",
                percent(overload.foreign_share, 0)
            ),
        ),
        (
            latest >= LATE_MS,
            format!(
                "the driver sent 1{NBSP}% of its requests {} late or more: it needs a CPU too",
                milliseconds(latest)
            ),
        ),
    ];
    let doubt = |(_, text)| Text::of(Tone::Warning, "Doubt").plain(format!(": {text}."));
    said.into_iter().filter(|(is_so, _)| *is_so).map(doubt).collect()
}

/// What the kernel and the logs counted, beside what clients saw.
pub fn counted_section(groups: &[Group<'_>], overload: &Overload) -> Option<Section> {
    let tables = groups.iter().flat_map(|group| {
        let cases = cases(group, overload);
        let head = setting(group).map(Block::Paragraph);
        let table = counters_table(&cases).map(Block::Table);
        head.filter(|_| table.is_some()).into_iter().chain(table).collect::<Vec<_>>()
    });
    let tables: Vec<Block> = tables.collect();
    if tables.is_empty() {
        return None;
    }
    let how = Block::Paragraph(
        "Over the whole of each trial, the usual load before and after included; the kernel's counters are those of the network \
         namespaces that the load passes through."
            .into(),
    );
    parts::section("What the kernel and the servers counted", Depth::Open, [vec![how], tables].concat())
}

fn counters_table(cases: &[One<'_>]) -> Option<Table> {
    let points: Vec<&OverloadPoint> = cases.iter().flat_map(|one| &one.found.points).collect();
    let counters = counters(&points);
    let mut columns = Columns::default().with(Column::left("requests/s"), points.iter().map(|point| offered(point)));
    for (title, of) in &counters {
        columns = columns.with(Column::right(title), points.iter().map(|point| count(of(point))));
    }
    (!counters.is_empty()).then(|| under_cases(cases, columns))
}

/// Rows of each case under its name.
fn under_cases(cases: &[One<'_>], columns: Columns) -> Table {
    let (columns, rows) = columns.into_rows();
    let mut rows = rows.into_iter().map(Row::Cells);
    let mut all = Vec::new();
    for one in cases {
        all.push(Row::Group(one.name()));
        all.extend(rows.by_ref().take(one.found.points.len()));
    }
    Table { columns, rows: all }
}

/// `841 (3.0×)`
fn offered(point: &OverloadPoint) -> String {
    format!("{} ({}×)", significant(point.offered, 3), point.times)
}

fn how(overload: &Overload) -> Text {
    let Overload { counted_seconds, fill_seconds, .. } = overload;
    format!(
        "What happened in {} of each load, after {} in which queues filled; two figures are the least and the most of the \
         repetitions. Errors, not sent and waiting are shares of the requests that were due.",
        Seconds(*counted_seconds),
        Seconds(*fill_seconds)
    )
    .into()
}

fn capacity(cases: &[One<'_>]) -> String {
    let one = |one: &One<'_>| {
        let found =
            one.found.capacity.map_or_else(|| NONE.to_owned(), |found| span(found, |value| significant(value, 3)));
        format!("{} {found} requests/s", one.name())
    };
    format!("Capacity, in a closed loop: {}.", cases.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A row for each load of each case.
fn table(cases: &[One<'_>]) -> Table {
    let points: Vec<&OverloadPoint> = cases.iter().flat_map(|one| &one.found.points).collect();
    let cells =
        |of: &dyn Fn(&OverloadPoint) -> String| points.iter().map(|point| Cell::from(of(point))).collect::<Vec<_>>();
    let mut columns = Columns::default()
        .with(Column::left("requests/s"), cells(&offered))
        .with(Column::right("right/s"), cells(&|point| span(point.goodput, |value| significant(value, 3))));
    for name in kinds(&points) {
        let cell = |point: &OverloadPoint| point.wrong.get(&name).map_or_else(String::new, |wrong| shares(wrong.share));
        columns = columns.with(Column::right(wrong_title(&name)), cells(&cell));
    }
    let left = |share: Span| if share.most < 0.0005 { String::new() } else { shares(share) };
    let time = |of: Option<Span>| of.map_or_else(|| NONE.to_owned(), |of| span(of, |value| significant(value, 2)));
    columns = columns
        .with(Column::right("not sent"), cells(&|point| left(point.not_sent)))
        .with(Column::right("waiting"), cells(&|point| left(point.unanswered)))
        .with(Column::right("p50 ms"), cells(&|point| time(point.p50_ms)))
        .with(Column::right("p99 ms"), cells(&|point| time(point.p99_ms)))
        .with(Column::right("recovery s"), cells(&|point| point.recovery.as_ref().map_or_else(String::new, recovered)));
    under_cases(cases, columns)
}

/// Every way in which requests ended, without a right answer, that is not rare.
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
    let none = Span { least: 0.0, median: 0.0, most: 0.0 };
    let mut all: Vec<(String, Counter<'a>)> = vec![
        ("ListenOverflows".to_owned(), Box::new(|point| point.listen_overflows)),
        ("TCPSynRetrans".to_owned(), Box::new(|point| point.syns_retransmitted)),
    ];
    for meaning in points.first().into_iter().flat_map(|point| point.logged.keys()) {
        let of = move |point: &OverloadPoint| point.logged.get(meaning).copied().unwrap_or(none);
        all.push((format!("log: {meaning}"), Box::new(of)));
    }
    // Usually they are the same.
    if points.iter().any(|point| point.listen_drops != point.listen_overflows) {
        all.insert(1, ("ListenDrops".to_owned(), Box::new(|point| point.listen_drops)));
    }
    all.retain(|(_, of)| points.iter().any(|point| of(point).most > 0.0));
    all
}

fn count(span: Span) -> String {
    if span.most == 0.0 { String::new() } else { self::span(span, |value| grouped(value, 0)) }
}

fn recovered(recovery: &Recovery) -> String {
    match (recovery.seconds, recovery.late) {
        (None, _) => "not seen".to_owned(),
        (Some(seconds), 0) => span(seconds, |one| format!("{one:.1}")),
        (Some(seconds), late) => format!("{:.1}, {late} not seen", seconds.least),
    }
}

/// Whether it is an answer, and what to call it.
fn wrong_text(name: &str) -> (bool, String) {
    match (name.strip_prefix("status-"), name) {
        (Some(status), _) => (true, status.to_owned()),
        (None, "backlog-full") => (false, "a full backlog (EAGAIN)".to_owned()),
        (None, "reset") => (false, "a connection reset".to_owned()),
        (None, "refused") => (false, "a connection refused".to_owned()),
        (None, "timeout") => (false, "a timeout".to_owned()),
        (None, "wrong-status") => (true, "an error".to_owned()),
        (None, other) => (false, other.replace('-', " ")),
    }
}

fn wrong_title(name: &str) -> String {
    name.strip_prefix("status-").map_or_else(|| name.replace('-', " "), str::to_owned)
}

fn of_capacity(times: f64) -> String {
    if times == 1.0 { "the capacity".to_owned() } else { format!("{times} times capacity") }
}

fn rate(rate: f64) -> String {
    format!("{}{NBSP}requests/s", significant(rate, 3))
}

/// One figure, or the least and the most.
fn span(span: Span, text: impl Fn(f64) -> String) -> String {
    let (least, most) = (text(span.least), text(span.most));
    if least == most { least } else { format!("{least}–{most}") }
}

fn shares(share: Span) -> String {
    let text = |share: f64| match share * 100.0 {
        percent if percent < 9.95 => format!("{percent:.1}"),
        percent => format!("{percent:.0}"),
    };
    format!("{}{NBSP}%", span(share, text))
}

fn times(time: Span) -> String {
    let unit = |value: f64| if value >= 1_000.0 { (1_000.0, "s") } else { (1.0, "ms") };
    let (divisor, name) = unit(time.most);
    format!("{}{NBSP}{name}", span(time, |value| significant(value / divisor, 2)))
}

fn milliseconds(time: f64) -> String {
    times(Span { least: time, median: time, most: time })
}

/// The result in one line.
pub fn headline(groups: &[Group<'_>], overload: &Overload) -> String {
    let first = groups.iter().map(|group| cases(group, overload)).find(|cases| !cases.is_empty());
    first.map_or_else(|| "no load was offered".to_owned(), |cases| format!("overload: {}", served(&cases)))
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::{Summary, Wrong};

    use super::*;
    use crate::{fixtures, groups::groups};

    fn span(least: f64, most: f64) -> Span {
        Span { least, median: (least + most) / 2.0, most }
    }

    fn point(times: f64, served: bool, goodput: Span, wrong: &[(&str, Span, f64)]) -> OverloadPoint {
        let none = span(0.0, 0.0);
        let wrong = wrong.iter().map(|(name, share, after_ms)| {
            let wrong = Wrong { count: 9, share: *share, after_ms: *after_ms, first: String::new() };
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
            recovery: (times > 1.0).then_some(Recovery { seconds: Some(span(0.2, 0.4)), late: 1 }),
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
            &[("status-504", span(0.2, 0.2), 1000.0), ("reset", span(0.001, 0.001), 1.0)],
        );
        let text = said([usual(), refusing], [usual(), late]);
        for part in [
            "Up to 100 requests/s (the capacity) the Unix socket and TCP both serve all requests.",
            "At 300 requests/s, 3 times capacity, from least to most of 3 repetitions:",
            "gives 90.0–95.0 right answers/s; answers 60–70 % of the requests with 502, after 0.30 ms.",
            "answers 20 % of the requests with 504, after 1.0 s.",
            "as before after 0.2–0.4 s, 1 time not within 3.0 s.",
            "The Unix socket gives more right answers than TCP at this load in every repetition.",
        ] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(!text.contains("reset"), "{text}");
    }

    #[test]
    fn what_repetitions_do_not_agree_on_is_not_claimed() {
        let usual = |served| point(1.0, served, span(100.0, 100.0), &[]);
        let over = |least, most| point(3.0, false, span(least, most), &[]);
        let text = said([usual(true), over(80.0, 95.0)], [usual(false), over(90.0, 99.0)]);
        assert!(text.contains("The repetitions do not agree on who gives more right answers"), "{text}");
        assert!(
            text.contains(
                "serves all requests up to 100 requests/s (the capacity); TCP does not serve all requests in every repetition, at any load."
            )
        );
        let text = said([usual(true), over(90.0, 90.0)], [usual(true), over(89.0, 89.0)]);
        assert!(text.contains("do not agree"), "less than the margin apart: {text}");
    }
}
