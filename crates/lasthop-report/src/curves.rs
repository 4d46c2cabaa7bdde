//! The picture of a run with overload: right answers and errors over the offered load, one line for each case. SVG without a
//! script.

use std::fmt::Write as _;

use lasthop_analyse::summary::{Overload, OverloadCase, OverloadPoint, Span, Summary};

use super::{
    content::{subtitle, the, title},
    groups::{Group, groups},
    units::{capital, significant},
};
use crate::text::markup as escape;

const STYLE: &str = include_str!("curves.css");
const WIDTH: f64 = 720.0;
const HEAD: f64 = 76.0;
/// Characters of a line of its subtitle.
const LINE: usize = 105;
/// Of a panel: where its axes are, and its height with title and axis.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 560.0;
const TALL: f64 = 170.0;
const PANEL: f64 = TALL + 84.0;
/// The least distance of two labels.
const LABEL: f64 = 15.0;

/// What a panel shows of a point.
struct Quantity {
    title: &'static str,
    /// On the axis.
    unit: &'static str,
    of: fn(&OverloadPoint) -> Span,
    /// Whether all of the load would be on the diagonal.
    diagonal: bool,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity { title: "Right answers per second", unit: "/s", of: |point| point.goodput, diagonal: true },
    Quantity {
        title: "Requests without a right answer: errors, not sent, waiting",
        unit: " %",
        of: without,
        diagonal: false,
    },
];

/// Errors, not sent and waiting, in percent.
fn without(point: &OverloadPoint) -> Span {
    let percent = |right: f64| ((1.0 - right) * 100.0).max(0.0);
    Span { least: percent(point.right.most), median: percent(point.right.median), most: percent(point.right.least) }
}

/// From figures to pixels.
struct Axes {
    across: f64,
    up: f64,
    top: f64,
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * value / self.across
    }

    fn y(&self, value: f64) -> f64 {
        self.top + TALL - TALL * (value / self.up).min(1.0)
    }
}

/// As a file of its own.
#[must_use]
pub fn file(summary: &Summary, overload: &Overload) -> Vec<u8> {
    let text = subtitle(summary).to_string();
    let lines = textwrap::wrap(&text, LINE).into_iter().zip(0..).fold(String::new(), |lines, (line, place)| {
        format!("{lines}<text class=\"faint\" x=\"16\" y=\"{}\">{}</text>\n", 43 + 16 * place, escape(&line))
    });
    let (body, height) = drawn(summary, overload, HEAD);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"curves\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"curves-title\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n<text class=\"strong\" x=\"16\" y=\"24\">{}</text>\n\
         {lines}{body}</svg>\n",
        escape(&title(summary))
    )
    .into_bytes()
}

/// Within a page.
#[must_use]
pub fn inline(summary: &Summary, overload: &Overload) -> String {
    let (body, height) = drawn(summary, overload, 0.0);
    format!(
        "<svg class=\"curves\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" role=\"img\" \
         aria-labelledby=\"curves-title\">\n<style>{STYLE}</style>\n{body}</svg>\n"
    )
}

/// What is drawn from `top` on, and where it ends.
fn drawn(summary: &Summary, overload: &Overload, mut top: f64) -> (String, f64) {
    let mut svg = "<title id=\"curves-title\">Right answers and errors over the offered load</title>\n".to_owned();
    for group in &groups(summary) {
        let cases: Vec<(String, &OverloadCase)> = cases(group, overload);
        let points: Vec<&OverloadPoint> = cases.iter().flat_map(|(_, case)| &case.points).collect();
        if points.is_empty() {
            continue;
        }
        for quantity in &QUANTITIES {
            let heading = match group.setting.as_str() {
                "" => quantity.title.to_owned(),
                setting => format!("{}: {}", capital(setting), quantity.title.to_lowercase()),
            };
            panel(&mut svg, &heading, quantity, &cases, &points, top);
            top += PANEL;
        }
    }
    (svg, top)
}

fn cases<'a>(group: &Group<'a>, overload: &'a Overload) -> Vec<(String, &'a OverloadCase)> {
    let of = |name: &str| overload.cases.iter().find(|case| case.case == name && !case.points.is_empty());
    group.cases.iter().filter_map(|case| Some((capital(&the(&group.name(case))), of(&case.case)?))).collect()
}

fn panel(
    svg: &mut String,
    heading: &str,
    quantity: &Quantity,
    cases: &[(String, &OverloadCase)],
    points: &[&OverloadPoint],
    top: f64,
) {
    let most = |of: &dyn Fn(&OverloadPoint) -> f64| points.iter().map(|point| of(point)).fold(0.0, f64::max);
    let across = most(&|point| point.offered) * 1.05;
    let up = most(&|point| (quantity.of)(point).most).max(if quantity.diagonal { 1.0 } else { 10.0 }) * 1.1;
    let axes = Axes { across, up, top: top + 40.0 };
    let _ = writeln!(svg, "<text class=\"strong\" x=\"16\" y=\"{}\">{}</text>", top + 22.0, escape(heading));
    frame(svg, &axes, quantity, points);
    if quantity.diagonal {
        let end = across.min(up);
        let (x, y) = (axes.x(end), axes.y(end));
        let _ = writeln!(svg, "<line class=\"all\" x1=\"{LEFT}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/>", axes.y(0.0));
    }
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (place, (_, case)) in cases.iter().enumerate() {
        line(svg, &axes, quantity, case, place);
        let last = case.points.last().map_or(0.0, |point| axes.y((quantity.of)(point).median));
        ends.push((last, place));
    }
    labels(svg, cases, ends);
}

/// Both axes: the loads below, the end of the other one at its side.
fn frame(svg: &mut String, axes: &Axes, quantity: &Quantity, points: &[&OverloadPoint]) {
    let (below, above) = (axes.y(0.0), axes.y(axes.up));
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {above:.1} V{below:.1} H{RIGHT}\"/>");
    for share in [0.0, 0.5, 1.0] {
        let value = axes.up / 1.1 * share;
        let (y, text) = (axes.y(value), significant(value, 2));
        let _ = writeln!(
            svg,
            "<text class=\"faint end\" x=\"{}\" y=\"{:.1}\">{text}{}</text>",
            LEFT - 8.0,
            y + 4.0,
            quantity.unit
        );
    }
    let mut loads: Vec<(f64, f64)> = points.iter().map(|point| (point.offered, point.times)).collect();
    loads.sort_by(|one, other| one.0.total_cmp(&other.0));
    loads.dedup();
    for (offered, times) in loads {
        let x = axes.x(offered);
        let _ = writeln!(svg, "<text class=\"faint middle\" x=\"{x:.1}\" y=\"{:.1}\">{times}×</text>", below + 17.0);
    }
    let text = "offered load, in multiples of capacity";
    let _ = writeln!(svg, "<text class=\"faint end\" x=\"{RIGHT}\" y=\"{:.1}\">{text}</text>", below + 34.0);
}

/// The line of a case, with the least and the most of its repetitions.
fn line(svg: &mut String, axes: &Axes, quantity: &Quantity, case: &OverloadCase, place: usize) {
    let colour = place % 6;
    let at = |point: &OverloadPoint| (axes.x(point.offered), (quantity.of)(point));
    let path: Vec<String> =
        case.points.iter().map(at).map(|(x, span)| format!("{x:.1} {:.1}", axes.y(span.median))).collect();
    let _ = writeln!(svg, "<path class=\"line c{colour}\" d=\"M{}\"/>", path.join(" L"));
    for (x, span) in case.points.iter().map(at) {
        // Side by side, so that none hides another.
        let x = x + 3.0 * place as f64;
        let (low, high, middle) = (axes.y(span.least), axes.y(span.most), axes.y(span.median));
        let _ = writeln!(svg, "<path class=\"bar c{colour}\" d=\"M{x:.1} {low:.1} V{high:.1}\"/>");
        let _ = writeln!(svg, "<circle class=\"c{colour}\" cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3.5\"/>");
    }
}

/// The names beside the ends of the lines.
fn labels(svg: &mut String, cases: &[(String, &OverloadCase)], mut ends: Vec<(f64, usize)>) {
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lowest = f64::NEG_INFINITY;
    for (y, place) in ends {
        lowest = y.max(lowest + LABEL);
        let (x, colour, name) = (RIGHT + 12.0, place % 6, escape(&cases[place].0));
        let _ = writeln!(svg, "<text class=\"name c{colour}\" x=\"{x}\" y=\"{:.1}\">{name}</text>", lowest + 4.0);
    }
}
