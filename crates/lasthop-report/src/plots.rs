//! Plots in characters: every ratio with its interval, and the CPU time of each case by layer. Ratios and their axis
//! are those of `forest`.

use indexmap::IndexMap;
use lasthop_analyse::{groups::groups, summary::Summary};
use lasthop_model::quantity::joined;
use lasthop_stats::Interval;
use textwrap::core::display_width;

use super::{
    document::{Text, Tone},
    forest::{Axis, Panel, Row, panels, tick_text},
    names::short_name,
    units::{Micros, ends},
    wording::{margin as margin_text, tone},
};

const GAP: usize = 2;
/// Columns of a time.
const VALUE: usize = 8;
/// Letters for layers, one each.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The characters of a plot.
struct Glyphs {
    margin: char,
    one: char,
    interval: char,
    ends: [char; 2],
    /// Marks for interval ends beyond the axis.
    cut: [char; 2],
    ratio: char,
    /// Replacements for characters in the report's own sentences.
    words: &'static [(&'static str, &'static str)],
}

const UNICODE: Glyphs = Glyphs {
    margin: '░',
    one: '│',
    interval: '─',
    ends: ['├', '┤'],
    cut: ['‹', '›'],
    ratio: '●',
    words: &[],
};

const ASCII: Glyphs = Glyphs {
    margin: '.',
    one: '|',
    interval: '-',
    ends: ['[', ']'],
    cut: ['<', '>'],
    ratio: 'o',
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
    // A layer that fills no cell of any bar has no letter.
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
    let value = |row: &Row| format!("{}{}", row.bound, ends(row.ratio)[1]);
    let values = all.iter().map(|row| display_width(&value(row))).max().unwrap_or(0);
    let labels = label_width(all.iter().map(|row| row.label.as_str()), width);
    let room = width.saturating_sub(labels + values + 2 * GAP).max(1);
    let mut lines = vec![Text::of(Tone::Dim, glyphs.words(&panel.title))];
    for part in &panel.parts {
        lines.extend(heading(&part.heading, glyphs));
        for row in &part.rows {
            let bar = bar(&axis, row.ratio, margin, room, glyphs);
            let value = format!("{:GAP$}{:>values$}", "", value(row));
            let drawn = Text::of(tone(row.verdict), bar).plain(value);
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

/// Columns of the labels. Longer labels get their own line.
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

/// An interval as a bar: `  ░│░  ├──●──┤  `
fn bar(axis: &Axis, Interval { estimate, low, high }: Interval, margin: f64, room: usize, glyphs: &Glyphs) -> String {
    let at = |ratio| place(axis, ratio, room);
    let mut cells = vec![' '; room];
    // A damaged record may have ends in the wrong order.
    let mut fill = |from: usize, to: usize, glyph| cells[from..=to.max(from)].fill(glyph);
    fill(at(1.0 - margin), at(1.0 + margin), glyphs.margin);
    fill(at(1.0), at(1.0), glyphs.one);
    fill(at(low), at(high), glyphs.interval);
    for (end, end_at, is_cut) in [(0, low, low < axis.low), (1, high, high > axis.high)] {
        cells[at(end_at)] = if is_cut { glyphs.cut[end] } else { glyphs.ends[end] };
    }
    cells[at(estimate)] = glyphs.ratio;
    cells.into_iter().collect()
}

/// Round ratios below their positions, as far as there is room.
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

#[cfg(test)]
mod tests {
    use lasthop_analyse::testing;

    use super::*;
    use crate::{Extras, Format, Options, fixtures, render};

    #[test]
    fn a_row_shows_margin_interval_and_ratio() {
        let axis = Axis { low: 0.5, high: 2.0 };
        let interval = |low, high| Interval {
            estimate: 1.5,
            low,
            high,
        };
        let drawn = bar(&axis, interval(1.3, 1.7), 0.02, 41, &UNICODE);
        assert_eq!(drawn.trim(), "░│░      ├───●──┤");
        assert_eq!(drawn.chars().position(|one| one == '│'), Some(20), "1 is in the middle");
        let cut = bar(&axis, interval(0.1, 9.0), 0.02, 41, &ASCII);
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
    fn the_verbose_report_has_the_ratios() {
        let summary = lasthop_analyse::summarise(&testing::healthy());
        for (verbose, unicode) in [(false, true), (true, true), (true, false)] {
            for width in [40, 80, 100] {
                let options = Options {
                    verbose,
                    unicode,
                    width,
                    ..Options::default()
                };
                let page = render(&summary, &Extras::default(), Format::Terminal, &options);
                let page = String::from_utf8(page).unwrap();
                assert_eq!(page.contains("\nRatios\n"), verbose, "{page}");
                assert_eq!(page.contains('●'), verbose && unicode, "{page}");
                assert!(page.lines().all(|line| display_width(line) <= width), "{page}");
            }
        }
    }
}
