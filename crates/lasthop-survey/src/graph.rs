//! The picture on a survey's page: processes and their links, clients above servers. SVG without a script.
//!
//! Horizontal positions are percentages and vertical positions are pixels, so that the picture fits phones and screens
//! with text of the same size.

use std::{cmp::Ordering, collections::BTreeMap};

use lasthop_model::quantity::joined;
use lasthop_page::{text::markup as escape, units::significant};

use super::{
    links::{Link, Party},
    page::rate,
    processes::GroupId,
    saving::Worth,
};

/// The most links drawn, busiest first; the table has all.
const MOST: usize = 40;
/// Boxes side by side: as many of this width as a phone has room for.
const PER_ROW: usize = 3;
const BOX: u32 = 104;
const BOX_HEIGHT: u32 = 38;
/// Characters that fit into a box: of the name, and of the smaller line below it.
const FITS: [usize; 2] = [12, 15];
const ROW: u32 = 112;
/// Length of an arrowhead, which is not part of its line.
const HEAD: f64 = 9.0;
/// Shift of boxes, left in even rows and right in odd ones, in per cent of the width, by the number of boxes side by
/// side. Boxes in a straight line would hide links that skip a row.
const SHIFTS: [f64; PER_ROW] = [13.0, 5.0, 0.0];
/// Heights of labels between two rows.
const HEIGHTS: [f64; 3] = [0.25, 0.5, 0.75];
/// Shift of a second link between the same two processes, in per cent of the width.
const BESIDE: f64 = 4.0;

const STYLE: &str = "\
.links{font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif;overflow:visible}\
.links text{fill:var(--text);text-anchor:middle;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\
.links .box text{stroke:none}\
.links .name{font-size:12px;font-weight:600}\
.links .small{fill:var(--faint);font-size:11px}\
.links rect{fill:var(--panel);stroke:var(--rule)}\
.links line{stroke:var(--own)}\
.links marker path{fill:var(--own)}\
.worth-it{--own:var(--good)}\
.does-not-matter{--own:var(--faint)}\
.already{--own:var(--c2)}\
.cannot-say{--own:var(--warning)}\
.links .cannot-say line{stroke-dasharray:7 4}\
.legend .glyph{color:var(--own)}";

/// The meaning of each colour, and its mark in the legend.
const VERDICTS: [(Worth, char, &str); 4] = [
    (Worth::WorthIt, '━', "a Unix socket is worth it"),
    (Worth::DoesNotMatter, '━', "it does not matter"),
    (Worth::Already, '━', "it is a Unix socket"),
    (Worth::CannotSay, '╍', "cannot say"),
];

/// The group at an end of a link; unknown groups share one node.
type Node = Option<GroupId>;

/// The place of a box: row, and horizontal position in per cent.
type BoxPosition = (u32, f64);

fn node(end: &Option<Party>) -> Node {
    end.as_ref().map(|party| party.group)
}

fn ends(link: &Link) -> (Node, Node) {
    (node(&link.client), node(&link.server))
}

/// The picture with its legend, as HTML; empty if no two processes are linked.
#[must_use]
pub fn figure(links: &[&Link]) -> String {
    let mut links = links.to_vec();
    links.retain(|link| ends(link).0 != ends(link).1);
    links.truncate(MOST);
    if links.is_empty() {
        return String::new();
    }
    let (places, rows) = places(&links);
    let parties = links.iter().flat_map(|link| [&link.client, &link.server]);
    let parties: BTreeMap<Node, Option<&Party>> = parties.map(|end| (node(end), end.as_ref())).collect();
    let boxes: String = parties
        .iter()
        .map(|(node, party)| drawn(*party, places[node]))
        .collect();
    let description = joined(links.iter().map(|link| link_in_words(link)), "; ");
    format!(
        "<figure>\n{}<svg class=\"links\" width=\"100%\" height=\"{}\" role=\"img\" aria-labelledby=\"links-title links-desc\">\n\
         <title id=\"links-title\">Processes, and the links from clients to servers</title>\n\
         <desc id=\"links-desc\">{}</desc>\n<style>{STYLE}</style>\n{}{boxes}</svg>\n</figure>\n",
        legend(&links),
        rows * ROW - (ROW - BOX_HEIGHT) + 8,
        escape(&description),
        lines(&links, &places),
    )
}

fn legend(links: &[&Link]) -> String {
    let is_there = |wanted: Worth| links.iter().any(|link| worth(link) == wanted);
    let entries = VERDICTS.iter().filter(|(worth, ..)| is_there(*worth));
    let entries: String = entries
        .map(|(worth, mark, said)| format!("<li><span class=\"glyph {}\">{mark}</span>{said}</li>", worth.word()))
        .collect();
    format!("<ul class=\"legend\">{entries}<li class=\"dim\">wider: more requests/s</li></ul>\n")
}

/// Arrowheads, then all links, then their labels, which no link crosses.
fn lines(links: &[&Link], places: &BTreeMap<Node, BoxPosition>) -> String {
    let heads = VERDICTS.map(|(worth, ..)| {
        let word = worth.word();
        format!(
            "<marker id=\"to-{word}\" class=\"{word}\" viewBox=\"0 0 10 10\" refX=\"1\" refY=\"5\" markerWidth=\"{HEAD}\" \
             markerHeight=\"12\" preserveAspectRatio=\"none\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\"/></marker>"
        )
    });
    let (mut lines, mut labels) = (format!("<defs>{}</defs>\n", heads.concat()), String::new());
    let mut drawn: Vec<(Node, Node)> = Vec::new();
    for link in links {
        let edge = ends(link);
        let before = drawn.iter().filter(|known| **known == edge).count();
        let [from, to] = [edge.0, edge.1].map(|node| {
            let (row, across) = places[&node];
            (row, across + BESIDE * before as f64)
        });
        // Labels from the same row have different heights, so that they do not hide each other.
        let height = HEIGHTS[drawn.iter().filter(|(node, _)| places[node].0 == from.0).count() % HEIGHTS.len()];
        drawn.push(edge);
        lines.push_str(&line(link, from, to));
        labels.push_str(&label(link, from, to, height));
    }
    lines + &labels
}

/// The place of each process, clients above their servers, and the number of rows.
fn places(links: &[&Link]) -> (BTreeMap<Node, BoxPosition>, u32) {
    let edges: Vec<(Node, Node)> = links.iter().map(|link| ends(link)).collect();
    let mut levels: BTreeMap<Node, usize> = edges.iter().flat_map(|(from, to)| [(*from, 0), (*to, 0)]).collect();
    // A process deeper than the number of processes is in a circle.
    for _ in 0..levels.len() {
        for (from, to) in &edges {
            let below = levels[from] + 1;
            levels.entry(*to).and_modify(|level| *level = below.max(*level));
        }
    }
    let mut rows: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    // In the order of the links, busiest first.
    for node in edges.iter().flat_map(|(from, to)| [*from, *to]) {
        let row = rows.entry(levels[&node]).or_default();
        if !row.contains(&node) {
            row.push(node);
        }
    }
    let mut places = BTreeMap::new();
    let mut count = 0;
    for nodes in rows.values().flat_map(|nodes| nodes.chunks(PER_ROW)) {
        let shift = SHIFTS[nodes.len() - 1] * if count % 2 == 0 { -1.0 } else { 1.0 };
        for (index, node) in nodes.iter().enumerate() {
            let middle = 100.0 * (index as f64 + 0.5) / nodes.len() as f64;
            places.insert(*node, (count, middle + shift));
        }
        count += 1;
    }
    (places, count)
}

fn middle(row: u32) -> f64 {
    f64::from(4 + row * ROW + BOX_HEIGHT / 2)
}

fn worth(link: &Link) -> Worth {
    link.outlook.as_ref().map_or(Worth::CannotSay, |outlook| outlook.worth)
}

/// The vertical ends of a line from one box to the arrowhead at another, in pixels.
fn borders(from: BoxPosition, to: BoxPosition) -> [f64; 2] {
    let half = f64::from(BOX_HEIGHT / 2);
    let [one, other] = [from.0, to.0].map(middle);
    match from.0.cmp(&to.0) {
        Ordering::Less => [one + half, other - half - HEAD],
        Ordering::Equal => [one, other],
        Ordering::Greater => [one - half, other + half + HEAD],
    }
}

fn line(link: &Link, from: BoxPosition, to: BoxPosition) -> String {
    let word = worth(link).word();
    let [top, bottom] = borders(from, to);
    let turns = link.load.map_or(0.0, |load| load.turns_per_second_at_most);
    // 1.5 pixels without traffic, one more for each factor of 5: 7 at 10,000 per second.
    let width = 1.5 + turns.max(0.0).ln_1p() / 5f64.ln();
    format!(
        "<g class=\"{word}\"><title>{}</title><line x1=\"{:.1}%\" y1=\"{top}\" x2=\"{:.1}%\" y2=\"{bottom}\" \
         stroke-width=\"{width:.1}\" marker-end=\"url(#to-{word})\"/></g>\n",
        escape(&link_in_words(link)),
        from.1,
        to.1
    )
}

/// A link's label, at a height between its first two rows, where there is no box.
fn label(link: &Link, from: BoxPosition, to: BoxPosition, height: f64) -> String {
    let [top, bottom] = borders(from, to);
    let down = f64::from(ROW - BOX_HEIGHT) * height;
    let share = if bottom == top {
        0.5
    } else {
        down / (bottom - top).abs()
    };
    format!(
        "<text x=\"{:.1}%\" y=\"{:.0}\">{}</text>\n",
        from.1 + (to.1 - from.1) * share,
        top + (bottom - top) * share + 4.0,
        escape(&rate(link).unwrap_or_default())
    )
}

/// A link in words: `nginx → gunicorn: 430/s, a Unix socket is worth it`.
fn link_in_words(link: &Link) -> String {
    let verdict = VERDICTS.iter().find(|(known, ..)| *known == worth(link));
    let said = rate(link)
        .into_iter()
        .chain(verdict.map(|(.., said)| (*said).to_owned()));
    format!("{}: {}", link.name(), joined(said, ", "))
}

fn drawn(party: Option<&Party>, (row, across): BoxPosition) -> String {
    let name = party.map_or("unknown", |party| &party.name);
    let used = party.and_then(|party| party.cpus);
    let used = used.map(|cpus| format!("{} % of a CPU", significant(cpus * 100.0, 2)));
    let place = party.and_then(|party| party.place.clone());
    let whole = joined(
        [name.to_owned()].into_iter().chain(place.clone()).chain(used.clone()),
        ", ",
    );
    format!(
        "<svg class=\"box\" x=\"{across:.1}%\" y=\"{}\" overflow=\"visible\"><title>{}</title>\
         <rect x=\"-{}\" y=\"-{}\" width=\"{BOX}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\
         <text class=\"name\" y=\"-2\">{}</text><text class=\"small\" y=\"13\">{}</text></svg>\n",
        middle(row),
        escape(&whole),
        BOX / 2,
        BOX_HEIGHT / 2,
        escape(&short(name, FITS[0])),
        escape(&short(&place.or(used).unwrap_or_default(), FITS[1])),
    )
}

/// The text, cut to fit a box.
fn short(text: &str, fits: usize) -> String {
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    text.chars().take(fits - 1).chain(['…']).collect()
}
