//! Plots in characters: every ratio with its interval, and how the latencies of each case are spread. The ratios are
//! those of `forest`, on its axis.

use indexmap::IndexMap;
use lasthop_analyse::{
    plots::{BINS, CasePlots, Latencies},
    summary::{CaseSummary, Comparison, Summary},
};
use lasthop_model::quantity::joined;
use lasthop_protocol::Histogram;
use textwrap::core::display_width;

use super::{
    content::ends,
    document::{Text, Tone},
    forest::{Axis, Panel, Row, panels, tick_text},
    groups::{groups, short_name},
    units::Micros,
    wording::{margin as margin_text, tone},
};

const GAP: usize = 2;
/// The width of a time.
const VALUE: usize = 8;
/// One for each layer.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// The share of requests that is shown: the slowest would squeeze the others.
const SHOWN: f64 = 0.999;

const LEGEND: &str = "share of the requests by latency, without the slowest 0.1 %; the axis is logarithmic";

/// What plots are drawn with.
struct Glyphs {
    margin: char,
    one: char,
    interval: char,
    ends: [char; 2],
    /// Ends beyond the axis.
    cut: [char; 2],
    ratio: char,
    /// From the lowest to the highest.
    bars: [char; 8],
    /// Characters of the report's own sentences, and what to write for them.
    words: &'static [(&'static str, &'static str)],
}

const UNICODE: Glyphs = Glyphs {
    margin: '░',
    one: '│',
    interval: '─',
    ends: ['├', '┤'],
    cut: ['‹', '›'],
    ratio: '●',
    bars: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
    words: &[],
};

const ASCII: Glyphs = Glyphs {
    margin: '.',
    one: '|',
    interval: '-',
    ends: ['[', ']'],
    cut: ['<', '>'],
    ratio: 'o',
    bars: ['.', ':', '-', '=', '+', '*', '%', '#'],
    words: &[("→", "->"), ("←", "<-"), ("×", "x"), ("µ", "u"), ("…", "...")],
};

impl Glyphs {
    fn of(unicode: bool) -> &'static Self {
        if unicode { &UNICODE } else { &ASCII }
    }

    fn words(&self, text: &str) -> String {
        let words = self.words.iter();
        words.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// Every ratio with its interval, and the margin.
pub fn ratios(summary: &Summary, width: usize, unicode: bool) -> Vec<Text> {
    let glyphs = Glyphs::of(unicode);
    let share = summary.settings.margin;
    let panels = panels(&groups(summary));
    let lines = panels.iter().flat_map(|panel| drawn(panel, share, width, glyphs));
    let mut lines: Vec<Text> = lines.collect();
    if !lines.is_empty() {
        let within = margin_text(share);
        let legend = format!("{} within {within}, counts as no difference", glyphs.margin);
        lines.push(Text::of(Tone::Dim, glyphs.words(&legend)));
    }
    lines
}

/// The CPU time of each case with profile trials as a bar, with a letter for each layer.
pub fn layers(summary: &Summary, width: usize, unicode: bool) -> Vec<Text> {
    let glyphs = Glyphs::of(unicode);
    let Some(explained) = summary
        .explained
        .as_ref()
        .filter(|explained| !explained.cases.is_empty())
    else {
        return Vec::new();
    };
    let groups = groups(summary);
    let cases = explained.cases.iter();
    let bars: Vec<_> = cases
        .map(|(case, of)| (short_name(&groups, case), of.by_layer()))
        .collect();
    let whole = |layers: &IndexMap<Option<&str>, f64>| layers.values().sum::<f64>();
    let longest = bars
        .iter()
        .map(|(_, layers)| whole(layers))
        .fold(f64::MIN_POSITIVE, f64::max);
    let names = explained.layers.keys().map(|layer| Some(layer.as_str())).chain([None]);
    // What fills no cell in any bar has no letter.
    let labels = label_width(bars.iter().map(|(label, _)| label.as_str()), width);
    let room = width.saturating_sub(labels + VALUE + 2 * GAP).max(1);
    let cell = longest / room as f64;
    let seen = names.filter(|name| {
        bars.iter()
            .any(|(_, layers)| layers.get(name).is_some_and(|us| *us >= cell))
    });
    let seen: Vec<(Option<&str>, char)> = seen.zip(LETTERS.chars()).collect();
    let mut lines = Vec::new();
    for (label, layers) in &bars {
        let mut at = 0.0;
        let mut bar = String::new();
        for (name, letter) in &seen {
            at += layers.get(name).copied().unwrap_or(0.0);
            let end = (at / cell).round() as usize;
            bar.extend(std::iter::repeat_n(*letter, end.min(room).saturating_sub(bar.len())));
        }
        let value = glyphs.words(&Micros(whole(layers)).to_string());
        let drawn = Text::from(format!("{bar:room$}{:GAP$}{value:>VALUE$}", ""));
        lines.extend(labelled(&glyphs.words(label), labels, drawn));
    }
    let title = |name: &Option<&str>| name.map_or("not attributed".to_owned(), |name| explained.title(name).to_owned());
    let legend = joined(
        seen.iter().map(|(name, letter)| format!("{letter} {}", title(name))),
        ", ",
    );
    let legend = format!("CPU time per request by layer: {legend}");
    lines.push(Text::of(Tone::Dim, glyphs.words(&legend)));
    lines
}

fn drawn(panel: &Panel, margin: f64, width: usize, glyphs: &Glyphs) -> Vec<Text> {
    let all: Vec<&Row> = panel.parts.iter().flat_map(|part| &part.rows).collect();
    let axis = Axis::of(&all, margin);
    let value = |row: &Row| format!("{}{}", row.bound, ends(&row.comparison)[1]);
    let values = all.iter().map(|row| display_width(&value(row))).max().unwrap_or(0);
    let labels = label_width(all.iter().map(|row| row.label.as_str()), width);
    let room = width.saturating_sub(labels + values + 2 * GAP).max(1);
    let mut lines = vec![Text::of(Tone::Dim, glyphs.words(&panel.title))];
    for part in &panel.parts {
        lines.extend(heading(&part.heading, glyphs));
        for row in &part.rows {
            let bar = bar(&axis, &row.comparison, margin, room, glyphs);
            let value = format!("{:GAP$}{:>values$}", "", value(row));
            let drawn = Text::of(tone(row.comparison.verdict), bar).plain(value);
            lines.extend(labelled(&glyphs.words(&row.label), labels, drawn));
        }
    }
    let below = format!("{:1$}{2}", "", labels + GAP, ticks(&axis, room));
    lines.push(Text::of(Tone::Dim, below));
    lines
}

fn heading(setting: &str, glyphs: &Glyphs) -> Option<Text> {
    (!setting.is_empty()).then(|| Text::of(Tone::Strong, glyphs.words(setting)))
}

/// Longer labels get a line of their own.
fn label_width<'a>(labels: impl Iterator<Item = &'a str>, width: usize) -> usize {
    let widths = labels.map(display_width).filter(|label| *label <= width / 3);
    widths.max().unwrap_or(width / 6)
}

fn labelled(label: &str, width: usize, drawn: Text) -> Vec<Text> {
    let beside = |label: &str| Text::from(format!("{label}{:1$}", "", width - display_width(label) + GAP));
    if display_width(label) <= width {
        vec![beside(label).join(drawn)]
    } else {
        vec![label.into(), beside("").join(drawn)]
    }
}

fn place(axis: &Axis, ratio: f64, room: usize) -> usize {
    (axis.share(ratio) * (room - 1) as f64).round() as usize
}

/// `  ░│░  ├──●──┤  `
fn bar(axis: &Axis, comparison: &Comparison, margin: f64, room: usize, glyphs: &Glyphs) -> String {
    let at = |ratio| place(axis, ratio, room);
    let Comparison { low, ratio, high, .. } = *comparison;
    let mut cells = vec![' '; room];
    // A damaged record may have ends in the wrong order.
    let mut fill = |from: usize, to: usize, glyph| cells[from..=to.max(from)].fill(glyph);
    fill(at(1.0 - margin), at(1.0 + margin), glyphs.margin);
    fill(at(1.0), at(1.0), glyphs.one);
    fill(at(low), at(high), glyphs.interval);
    for (end, end_at, is_cut) in [(0, low, low < axis.low), (1, high, high > axis.high)] {
        cells[at(end_at)] = if is_cut { glyphs.cut[end] } else { glyphs.ends[end] };
    }
    cells[at(ratio)] = glyphs.ratio;
    cells.into_iter().collect()
}

/// Round ratios below the place where they are, as far as there is room.
fn ticks(axis: &Axis, room: usize) -> String {
    let mut line = String::new();
    for tick in axis.ticks() {
        let text = tick_text(tick);
        let begin = place(axis, tick, room).saturating_sub(text.len() / 2);
        let free = line.len() + usize::from(!line.is_empty());
        if free <= begin && begin + text.len() <= room {
            line = format!("{line:begin$}{text}");
        }
    }
    line
}

/// How the latencies of each case are spread, with one axis for all cases of a group.
pub fn latencies(summary: &Summary, plots: &[CasePlots], width: usize, unicode: bool) -> Vec<Text> {
    let glyphs = Glyphs::of(unicode);
    let of = |case: &CaseSummary| {
        let place = summary.cases.iter().position(|other| other.case == case.case)?;
        let CasePlots { service, response, .. } = plots.get(place)?;
        let latencies = response.as_ref().or(service.as_ref())?;
        (!latencies.shares.is_empty()).then_some(latencies)
    };
    let mut lines = Vec::new();
    for group in &groups(summary) {
        let known = group.cases.iter();
        let known = known.filter_map(|case| Some((glyphs.words(&group.label(case)), of(case)?)));
        let known: Vec<(String, &Latencies)> = known.collect();
        if !known.is_empty() {
            lines.extend(heading(&group.setting, glyphs));
            lines.extend(spread(&known, width, glyphs));
        }
    }
    if !lines.is_empty() {
        lines.push(Text::of(Tone::Dim, LEGEND));
    }
    lines
}

/// How durations with this name are spread.
pub fn histogram(name: &str, durations: &Histogram, width: usize, unicode: bool) -> Vec<Text> {
    let rows = [(name.to_owned(), &Latencies::of(durations))];
    let mut lines = spread(&rows, width, Glyphs::of(unicode));
    lines.push(Text::of(Tone::Dim, LEGEND));
    lines
}

fn spread(cases: &[(String, &Latencies)], width: usize, glyphs: &Glyphs) -> Vec<Text> {
    let first = cases.iter().map(|(_, one)| one.first).min().unwrap_or(0);
    let last = cases.iter().map(|(_, one)| last_shown(one)).max().unwrap_or(first);
    let bins = (last - first + 1) as usize;
    let labels = label_width(cases.iter().map(|(label, _)| label.as_str()), width);
    let room = width.saturating_sub(labels + GAP).max(1);
    // Whole columns for each bin, or whole bins in each column.
    let room = if bins < room { room / bins * bins } else { room };
    let lines = cases
        .iter()
        .flat_map(|(label, one)| labelled(label, labels, columns(one, first, bins, room, glyphs).into()));
    let mut lines: Vec<Text> = lines.collect();
    let [begin, end] =
        [first, last + 1].map(|bin| glyphs.words(&Micros(10f64.powf(f64::from(bin) / BINS) / 1e3).to_string()));
    let between = room.saturating_sub(display_width(&begin) + display_width(&end));
    let axis = format!("{}{begin}{}{end}", " ".repeat(labels + GAP), " ".repeat(between));
    lines.push(Text::of(Tone::Dim, axis));
    lines
}

/// The bin within which almost all requests have been counted.
fn last_shown(latencies: &Latencies) -> i32 {
    let mut counted = 0.0;
    let within = latencies.shares.iter().take_while(|share| {
        counted += **share;
        counted < SHOWN
    });
    latencies.first + within.count().min(latencies.shares.len() - 1) as i32
}

fn columns(latencies: &Latencies, first: i32, bins: usize, room: usize, glyphs: &Glyphs) -> String {
    let mut heights = vec![0.0; room];
    for (bin, share) in (latencies.first - first..).zip(&latencies.shares) {
        let bin = bin as usize;
        let begin = bin * room / bins;
        let end = ((bin + 1) * room / bins).max(begin + 1);
        for height in heights.iter_mut().take(end).skip(begin) {
            *height += share;
        }
    }
    // Never 0, because heights are divided by it.
    let highest = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = |height: &f64| (height / highest * glyphs.bars.len() as f64).ceil() as usize;
    heights
        .iter()
        .map(|height| step(height).checked_sub(1).map_or(' ', |step| glyphs.bars[step]))
        .collect()
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::testing;

    use super::*;
    use crate::{Extras, Format, Options, fixtures, render};

    #[test]
    fn a_row_shows_margin_interval_and_ratio() {
        let axis = Axis { low: 0.5, high: 2.0 };
        let mut comparison = fixtures::compare(
            "unix",
            "tcp",
            [1.3, 1.5, 1.7],
            lasthop_analyse::summary::Verdict::Faster,
        );
        let drawn = bar(&axis, &comparison, 0.02, 41, &UNICODE);
        assert_eq!(drawn.trim(), "░│░      ├───●──┤");
        assert_eq!(drawn.chars().position(|one| one == '│'), Some(20), "1 is in the middle");
        (comparison.low, comparison.high) = (0.1, 9.0);
        let cut = bar(&axis, &comparison, 0.02, 41, &ASCII);
        assert!(
            cut.starts_with('<') && cut.ends_with('>') && cut.contains("-o-"),
            "{cut}"
        );
        assert!(
            ticks(&axis, 41).split_whitespace().any(|tick| tick == "1"),
            "{}",
            ticks(&axis, 41)
        );
    }

    #[test]
    fn the_marks_are_where_the_picture_has_them() {
        for (name, summary) in fixtures::all() {
            let marks: usize = groups(&summary).iter().map(|group| group.compared().count()).sum();
            for unicode in [true, false] {
                let lines: Vec<String> = ratios(&summary, 78, unicode).iter().map(ToString::to_string).collect();
                let glyphs = Glyphs::of(unicode);
                let rows = lines
                    .iter()
                    .filter(|line| line.contains([glyphs.ends[0], glyphs.cut[0], glyphs.ratio]));
                assert!(rows.count() >= marks, "{name}: {lines:#?}");
                assert!(
                    unicode || lines.concat().replace('\u{a0}', " ").is_ascii(),
                    "{name}: {lines:#?}"
                );
            }
        }
    }

    #[test]
    fn a_histogram_is_as_wide_as_the_page_and_shows_where_requests_are() {
        let latencies = |first, shares: &[f64]| Latencies {
            first,
            shares: shares.to_vec(),
            ..Latencies::default()
        };
        let fast = latencies(90, &[0.5, 0.5]);
        let slow = latencies(92, &[0.25, 0.75, 0.0, 0.0005]);
        let cases = [("unix".to_owned(), &fast), ("tcp".to_owned(), &slow)];
        let lines: Vec<String> = spread(&cases, 30, &UNICODE).iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], format!("unix  {}{:12}", "█".repeat(12), ""));
        assert_eq!(lines[1], format!("tcp   {:12}{}{}", "", "▃".repeat(6), "█".repeat(6)));
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["1.00", "µs", "1.36", "µs"]
        );
        assert_eq!(display_width(&lines[2]), 30);
        assert_eq!(last_shown(&slow), 93, "the slowest are left out");
    }

    #[test]
    fn the_report_of_a_record_has_both() {
        let data = testing::healthy();
        let extras = Extras {
            plots: lasthop_analyse::plots::plots(&data),
            ..Extras::default()
        };
        for (verbose, unicode) in [(false, true), (true, true), (true, false)] {
            for width in [40, 80, 100] {
                let options = Options {
                    verbose,
                    unicode,
                    width,
                    ..Options::default()
                };
                let page = render(&lasthop_analyse::summarise(&data), &extras, Format::Terminal, &options);
                let page = String::from_utf8(page).unwrap();
                assert_eq!(
                    page.contains("\nLatencies\n") && page.contains("\nRatios\n"),
                    verbose,
                    "{page}"
                );
                assert_eq!(page.contains('█'), verbose && unicode, "{page}");
                assert!(page.lines().all(|line| display_width(line) <= width), "{page}");
            }
        }
    }
}
