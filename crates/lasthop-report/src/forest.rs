//! The forest plot: every ratio with its interval, on a logarithmic axis, with the margin shaded. SVG without a script.
//!
//! Horizontal positions are shares of the width, vertical positions are pixels. One picture therefore fits a phone and
//! a screen, with equal font sizes.

use std::fmt::Write as _;

use lasthop_analyse::{
    groups::{Compared, Group, groups},
    summary::{Comparison, Summary, Verdict},
};
use lasthop_model::quantity::joined;
use lasthop_stats::Interval;

use super::{
    content::{answer, quantity, subtitle, title},
    names::{Named, compared_name},
    units::{NBSP, ends, grouped},
    wording::{Quantity, margin, word},
};
use crate::text::markup as escape;

/// Width of the standalone picture, in pixels.
const WIDTH: u32 = 720;
/// Horizontal margin of the standalone picture, in pixels.
const SIDE: u32 = 16;
/// Ends of the axis, in per cent of the width.
const LEFT: f64 = 2.0;
const RIGHT: f64 = 98.0;
const ROW: f64 = 46.0;
const HEADING: f64 = 28.0;
/// Height of a line in pixels, and the longest label in characters that leaves room for the ratio on a line of a phone.
/// Otherwise the ratio has its own line.
const LINE: f64 = 19.0;
const FITS: usize = 12;
/// Heights of a panel's title and axis, in pixels.
const TITLE: f64 = 30.0;
const AXIS: f64 = 28.0;
const LEGEND: f64 = 22.0;
/// Height of the standalone picture's head, in pixels.
const HEAD: f64 = 52.0;
/// The largest factor between an interval's end and the outermost ratio. Longer intervals are cut, with an arrow.
const FURTHEST: f64 = 3.0;

const STYLE: &str = include_str!("forest.css");

/// A forest plot with its title and panels.
pub struct Picture {
    pub title: String,
    pub subtitle: String,
    /// The picture in words.
    pub description: String,
    pub margin: f64,
    pub panels: Vec<Panel>,
}

/// Ratios of one quantity, which share an axis.
pub struct Panel {
    pub title: String,
    pub parts: Vec<RowGroup>,
}

/// Rows under a heading, which may be empty.
pub struct RowGroup {
    pub heading: String,
    pub rows: Vec<Row>,
}

/// A ratio with its label.
pub struct Row {
    pub(super) label: String,
    pub(super) bound: &'static str,
    pub(super) ratio: Interval,
    pub(super) verdict: Verdict,
    /// The quantity of the verdict.
    quantity: Quantity,
}

impl Row {
    #[must_use]
    pub fn new(label: String, ratio: Interval, verdict: Verdict, quantity: Quantity) -> Self {
        Self {
            label,
            bound: "",
            ratio,
            verdict,
            quantity,
        }
    }

    /// A row for a comparison by a declared metric.
    #[must_use]
    pub fn of(label: String, comparison: &Comparison, quantity: Quantity) -> Self {
        let bound = match (comparison.lower_bound, comparison.ratio.estimate >= 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        };
        Self {
            bound,
            ..Self::new(label, comparison.ratio, comparison.verdict, quantity)
        }
    }

    fn height(&self) -> f64 {
        let length = self.label.chars().count() + self.bound.len();
        if length > FITS { ROW + LINE } else { ROW }
    }
}

/// Maps ratios to shares of the width.
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Picture {
    /// The ratios of a run.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let groups = groups(summary);
        Self {
            title: title(summary),
            subtitle: subtitle(summary).to_string(),
            description: described(summary, &groups),
            margin: summary.settings.margin,
            panels: panels(&groups),
        }
    }

    /// The picture as a standalone file.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        let (mut body, legend) = self.drawn();
        let _ = writeln!(
            body,
            "<text class=\"faint\" x=\"0\" y=\"{}\">{}</text>",
            legend + 10.0,
            escape(&joined(self.legend(), ", "))
        );
        let below = legend + LEGEND;
        let height = below + HEAD;
        let width = WIDTH - 2 * SIDE;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"forest\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-labelledby=\"forest-title forest-desc\">\n\
             <style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"setting\" x=\"{SIDE}\" y=\"24\">{}</text>\n\
             <text class=\"faint\" x=\"{SIDE}\" y=\"43\">{}</text>\n\
             <svg x=\"{SIDE}\" y=\"{HEAD}\" width=\"{width}\" height=\"{below}\">\n{body}</svg>\n</svg>\n",
            escape(&self.title),
            escape(&self.subtitle)
        )
        .into_bytes()
    }

    /// The picture within a page, as wide as there is room. The legend is text of the page, which wraps on a phone.
    #[must_use]
    pub fn inline(&self) -> String {
        let (body, height) = self.drawn();
        let entry = |entry: String| format!("<li>{}</li>", escape(&entry));
        let legend: String = self.legend().into_iter().map(entry).collect();
        format!(
            "<ul class=\"legend\">{legend}</ul>\n<svg class=\"forest\" width=\"100%\" height=\"{height}\" role=\"img\" \
             aria-labelledby=\"forest-title forest-desc\">\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }

    /// Explains the marks.
    fn legend(&self) -> Vec<String> {
        if self.panels.is_empty() {
            return vec!["Nothing was compared.".to_owned()];
        }
        let marks = ["▲ better", "▼ worse", "■ equivalent", "○ undecided"].map(str::to_owned);
        let shaded = format!("shaded: within {}", margin(self.margin));
        marks.into_iter().chain([shaded]).collect()
    }

    /// The drawing, and its height in pixels.
    fn drawn(&self) -> (String, f64) {
        let mut svg = format!(
            "<title id=\"forest-title\">{}: ratios with their intervals</title>\n<desc id=\"forest-desc\">{}</desc>\n",
            escape(&self.title),
            escape(&self.description)
        );
        let mut down = 0.0;
        for panel in &self.panels {
            down = panel.draw(&mut svg, down, self.margin);
        }
        (svg, down)
    }
}

/// The picture in words.
fn described(summary: &Summary, groups: &[Group<'_>]) -> String {
    let rows = groups.iter().flat_map(Group::compared).map(|compared| {
        let Compared {
            group,
            case,
            comparison,
            ..
        } = compared;
        format!(
            "{}{}: {}, {}.",
            group.label(case),
            group.in_brackets(),
            interval(comparison.ratio),
            word(comparison.verdict)
        )
    });
    let answer = answer(summary).into_iter().map(|line| line.to_string());
    joined(answer.chain(rows), " ")
}

/// The panels, for a picture or for text.
pub(super) fn panels(all: &[Group<'_>]) -> Vec<Panel> {
    let of = |wanted| {
        let groups: Vec<&Group<'_>> = all
            .iter()
            .filter(|group| quantity(group) == wanted && group.compared().next().is_some())
            .collect();
        let head = groups.first()?.head();
        let part = |group: &&Group<'_>| {
            let row = |compared: Compared<'_>| Row::of(group.label(compared.case), compared.comparison, wanted);
            RowGroup {
                heading: group.setting().clone(),
                rows: group.compared().map(row).collect(),
            }
        };
        let reference = compared_name(groups[0].summary(), head);
        Some(Panel {
            title: directed(wanted, &format!("relative to {reference}")),
            parts: groups.iter().map(part).collect(),
        })
    };
    Quantity::DECLARED.into_iter().filter_map(of).collect()
}

/// The title of an axis, with an arrow in the direction of better values.
#[must_use]
pub fn directed(quantity: Quantity, relative: &str) -> String {
    let word = quantity.word();
    if matches!(quantity, Quantity::ResponseTime | Quantity::Cpu) {
        format!("← {word} {relative}")
    } else {
        format!("{word} {relative} →")
    }
}

impl Axis {
    pub(super) fn of(rows: &[&Row], margin: f64) -> Self {
        let all = || rows.iter().map(|row| row.ratio);
        let least = |of: fn(Interval) -> f64| all().map(of).fold(1.0 - margin, f64::min);
        let most = |of: fn(Interval) -> f64| all().map(of).fold(1.0 + margin, f64::max);
        let low = least(|one| one.low).max(least(|one| one.estimate) / FURTHEST);
        let high = most(|one| one.high).min(most(|one| one.estimate) * FURTHEST);
        // 6 % of the logarithmic axis on each side.
        let room = (high / low).powf(0.06);
        Self {
            low: low / room,
            high: high * room,
        }
    }

    /// The position from 0 to 1, clamped to the ends of the axis.
    pub(super) fn share(&self, ratio: f64) -> f64 {
        ((ratio / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// The position in per cent of the width.
    fn place(&self, ratio: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.share(ratio)
    }

    /// Ratios to label: round numbers, and no more than fit on a phone.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let decades = |digits: &[f64]| -> Vec<f64> {
            let powers = (-4..=4).map(|power| 10f64.powi(power));
            powers
                .flat_map(|power| digits.iter().map(move |digit| digit * power))
                .collect()
        };
        let sets = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5]
            .map(|step| (1..=400).map(|count| f64::from(count) * step).collect());
        let sets = sets.into_iter().chain([decades(&[1.0, 2.0, 5.0]), decades(&[1.0])]);
        sets.map(|mut set| {
            set.retain(|at| (self.low..self.high).contains(at));
            set
        })
        // The width of a number on a phone, in per cent.
        .find(|set| set.windows(2).all(|two| self.place(two[1]) - self.place(two[0]) > 11.0))
        .unwrap_or_else(|| vec![1.0])
    }
}

impl Panel {
    /// Draws from `down` on, and returns the lower end.
    fn draw(&self, svg: &mut String, down: f64, margin_share: f64) -> f64 {
        let rows: Vec<&Row> = self.parts.iter().flat_map(|part| &part.rows).collect();
        let headings = self.parts.iter().filter(|part| !part.heading.is_empty()).count();
        let top = down + TITLE;
        let bottom = top + rows.iter().map(|row| row.height()).sum::<f64>() + HEADING * headings as f64;
        let axis = Axis::of(&rows, margin_share);
        let _ = writeln!(
            svg,
            "<text class=\"faint\" x=\"0\" y=\"{}\">{}</text>",
            down + 18.0,
            escape(&self.title)
        );
        axis.draw(svg, top, bottom, margin_share);
        let mut down = top;
        for RowGroup { heading, rows } in &self.parts {
            if !heading.is_empty() {
                let _ = writeln!(
                    svg,
                    "<text class=\"setting\" x=\"0\" y=\"{}\">{}</text>",
                    down + 20.0,
                    escape(heading)
                );
                down += HEADING;
            }
            for row in rows {
                axis.draw_row(svg, down, row);
                down += row.height();
            }
        }
        bottom + AXIS
    }
}

impl Axis {
    fn draw(&self, svg: &mut String, top: f64, bottom: f64, margin_share: f64) {
        let from = self.place(1.0 - margin_share);
        let to = self.place(1.0 + margin_share);
        let height = bottom - top;
        let _ = writeln!(
            svg,
            "<rect class=\"margin\" x=\"{from:.2}%\" y=\"{top}\" width=\"{:.2}%\" height=\"{height}\">\
             <title>Within {}: counts as no difference</title></rect>",
            to - from,
            escape(&margin(margin_share))
        );
        for tick in self.ticks() {
            // Steps such as 0.1 are no binary fractions, so a tick may miss 1 by a little.
            let class = if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" };
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{x:.2}%\" y=\"{}\">{}</text>",
                bottom + 16.0,
                tick_text(tick),
                x = self.place(tick),
            );
        }
    }

    fn draw_row(&self, svg: &mut String, down: f64, row: &Row) {
        let Row {
            label,
            bound,
            ratio,
            verdict,
            ..
        } = row;
        let base = down + 18.0;
        let last = base + row.height() - ROW;
        let _ = writeln!(
            svg,
            "<g class=\"{}\"><text class=\"case\" x=\"0\" y=\"{base}\">{}</text>\
             <text class=\"value\" x=\"100%\" y=\"{last}\">{bound}{} <tspan class=\"verdict\">{}</tspan></text>",
            word(*verdict),
            escape(label),
            escape(&interval(*ratio)),
            row.quantity.verdict(*verdict),
        );
        self.draw_interval(svg, last + 14.0, row);
        svg.push_str("</g>\n");
    }

    fn draw_interval(&self, svg: &mut String, middle: f64, Row { ratio, verdict, .. }: &Row) {
        let [low, at, high] = [ratio.low, ratio.estimate, ratio.high].map(|ratio| self.place(ratio));
        let _ = write!(
            svg,
            "<line class=\"interval\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"{middle}\" y2=\"{middle}\"/>"
        );
        let cut = [(ratio.low < self.low, low, "‹"), (ratio.high > self.high, high, "›")];
        for (is_cut, end, arrow) in cut {
            svg.push_str(&if is_cut {
                format!(
                    "<text class=\"cut\" x=\"{end:.2}%\" y=\"{}\">{arrow}</text>",
                    middle + 6.0
                )
            } else {
                format!(
                    "<line class=\"end\" x1=\"{end:.2}%\" x2=\"{end:.2}%\" y1=\"{}\" y2=\"{}\"/>",
                    middle - 5.0,
                    middle + 5.0
                )
            });
        }
        let _ = write!(
            svg,
            "<svg x=\"{at:.2}%\" y=\"{middle}\" overflow=\"visible\"><path class=\"mark\" d=\"{}\"/></svg>",
            shape(*verdict)
        );
    }
}

/// The verdict as a shape around the origin: a triangle that points up or down, a square, or a ring.
fn shape(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "M0-7L6.5 5H-6.5Z",
        Verdict::Slower => "M0 7L6.5-5H-6.5Z",
        Verdict::Equivalent => "M-5-5H5V5H-5Z",
        Verdict::Undecided => "M-5.5 0A5.5 5.5 0 1 0 5.5 0A5.5 5.5 0 1 0-5.5 0Z",
    }
}

pub(super) fn tick_text(tick: f64) -> String {
    grouped(
        tick,
        (0..4)
            // Whether the number is whole, within the error of a binary fraction.
            .find(|places| ((tick * 10f64.powi(*places as i32)).fract() - 0.5).abs() > 0.499_999)
            .unwrap_or(4),
    )
}

/// `1.63 × (1.58 to 1.68)`
fn interval(of: Interval) -> String {
    let [low, ratio, high] = ends(of);
    format!("{ratio}{NBSP}× ({low} to {high})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn shown(summary: &Summary) -> String {
        String::from_utf8(Picture::of(summary).file()).unwrap()
    }

    #[test]
    fn every_comparison_that_may_be_used_has_a_mark() {
        for (name, summary) in fixtures::all() {
            let svg = shown(&summary);
            let marks: usize = groups(&summary).iter().map(|group| group.compared().count()).sum();
            assert_eq!(svg.matches("class=\"mark\"").count(), marks, "{name}");
            assert_eq!(svg.contains("Nothing was compared"), marks == 0, "{name}");
            assert!(!svg.contains("NaN") && !svg.contains("inf%"), "{name}: {svg}");
        }
    }

    #[test]
    fn a_verdict_has_a_colour_and_a_shape() {
        let svg = shown(&fixtures::patterns());
        for verdict in [Verdict::Faster, Verdict::Slower, Verdict::Undecided] {
            let rows = svg.matches(&format!("<g class=\"{}\">", word(verdict))).count();
            assert_eq!(
                (rows, svg.matches(shape(verdict)).count()),
                (2, 2),
                "{verdict:?}: {svg}"
            );
        }
    }

    #[test]
    fn the_axis_reads_well() {
        let ticks = |low, high| {
            let axis = Axis { low, high };
            axis.ticks().into_iter().map(tick_text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(0.95, 1.75), "1 1.2 1.4 1.6");
        assert_eq!(ticks(0.975, 1.035), "0.98 0.99 1 1.01 1.02 1.03");
        assert_eq!(ticks(0.3, 9.0), "0.5 1 2 5");
        assert_eq!(ticks(0.001, 200.0), "0.001 0.01 0.1 1 10 100");
    }

    #[test]
    fn a_hopeless_interval_does_not_squeeze_the_others() {
        let mut summary = fixtures::three_transports();
        summary
            .comparisons
            .iter_mut()
            .for_each(|comparison| comparison.ratio.high = 1e6);
        let svg = shown(&summary);
        assert!(svg.contains("›") && !svg.contains("1,000,000</text>"), "{svg}");
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let mut summary = fixtures::three_transports();
        summary.experiment = "</title><script>alert(1)</script>".into();
        let svg = shown(&summary);
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"), "{svg}");
    }
}
