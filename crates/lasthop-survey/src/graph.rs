//! The picture of a survey's page: processes and the links between them, clients above servers. SVG without a script.
//!
//! Positions across are shares of the width and positions down are pixels, so that it fits a phone and a screen with
//! text of the same size.

use std::{cmp::Ordering, collections::BTreeMap};

use lasthop_model::quantity::joined;
use lasthop_page::{text::markup as escape, units::significant};

use super::{
    links::{Link, Party},
    page::rate,
    processes::GroupId,
    saving::Worth,
};

/// The busiest links are drawn; a table has all of them.
const MOST: usize = 40;
/// Boxes side by side: a phone has room for so many, of this width.
const PER_ROW: usize = 3;
const BOX: u32 = 104;
const BOX_HEIGHT: u32 = 38;
/// Characters that fit a box: of the name, and of the smaller line below it.
const FITS: [usize; 2] = [12, 15];
const ROW: u32 = 112;
/// Length of the head of an arrow, which is not part of its line.
const HEAD: f64 = 9.0;
/// How far boxes of even rows are left of where they would be, and those of others right of it, in per cent of the
/// width, by how many are side by side: so no straight line of boxes hides the links that skip one.
const SHIFTS: [f64; PER_ROW] = [13.0, 5.0, 0.0];
/// Where labels are between two rows.
const HEIGHTS: [f64; 3] = [0.25, 0.5, 0.75];
/// How far a second link of the same two processes is beside the first, in per cent of the width.
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

/// What each colour means, and a mark of it for the legend.
const VERDICTS: [(Worth, char, &str); 4] = [
    (Worth::WorthIt, '━', "a Unix socket is worth it"),
    (Worth::DoesNotMatter, '━', "it does not matter"),
    (Worth::Already, '━', "it is a Unix socket"),
    (Worth::CannotSay, '╍', "cannot say"),
];

/// Who has an end; all that nobody was seen to have are one.
type Node = Option<GroupId>;

/// The place of a box: row, and share of the width in per cent.
type Place = (u32, f64);

fn node(end: &Option<Party>) -> Node {
    end.as_ref().map(|party| party.group)
}

fn ends(link: &Link) -> (Node, Node) {
    (node(&link.client), node(&link.server))
}

/// The picture with its legend, as HTML; nothing if no two processes are linked.
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
    let description = joined(links.iter().map(|link| told(link)), "; ");
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

/// The heads of arrows, then all links, then their labels, which no link crosses.
fn lines(links: &[&Link], places: &BTreeMap<Node, Place>) -> String {
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
        // Those from the same row are at different heights, so that they do not hide each other.
        let height = HEIGHTS[drawn.iter().filter(|(node, _)| places[node].0 == from.0).count() % HEIGHTS.len()];
        drawn.push(edge);
        lines.push_str(&line(link, from, to));
        labels.push_str(&label(link, from, to, height));
    }
    lines + &labels
}

/// Clients above their servers: the row and the share of the width of each process, and the number of rows.
fn places(links: &[&Link]) -> (BTreeMap<Node, Place>, u32) {
    let edges: Vec<(Node, Node)> = links.iter().map(|link| ends(link)).collect();
    let mut levels: BTreeMap<Node, usize> = edges.iter().flat_map(|(from, to)| [(*from, 0), (*to, 0)]).collect();
    // Who is deeper than there are processes is in a circle.
    for _ in 0..levels.len() {
        for (from, to) in &edges {
            let below = levels[from] + 1;
            levels.entry(*to).and_modify(|level| *level = below.max(*level));
        }
    }
    let mut rows: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    // In the order of the links, so that the busiest are first.
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

/// From box to the head of an arrow at another: the ends of a line, in pixels down.
fn borders(from: Place, to: Place) -> [f64; 2] {
    let half = f64::from(BOX_HEIGHT / 2);
    let [one, other] = [from.0, to.0].map(middle);
    match from.0.cmp(&to.0) {
        Ordering::Less => [one + half, other - half - HEAD],
        Ordering::Equal => [one, other],
        Ordering::Greater => [one - half, other + half + HEAD],
    }
}

fn line(link: &Link, from: Place, to: Place) -> String {
    let word = worth(link).word();
    let [top, bottom] = borders(from, to);
    let turns = link.load.map_or(0.0, |load| load.turns_per_second_at_most);
    // 1.5 pixels for none, one more for each factor of 5: 7 at 10,000 a second.
    let width = 1.5 + turns.max(0.0).ln_1p() / 5f64.ln();
    format!(
        "<g class=\"{word}\"><title>{}</title><line x1=\"{:.1}%\" y1=\"{top}\" x2=\"{:.1}%\" y2=\"{bottom}\" \
         stroke-width=\"{width:.1}\" marker-end=\"url(#to-{word})\"/></g>\n",
        escape(&told(link)),
        from.1,
        to.1
    )
}

/// What goes over a link, at a height between its first two rows, where no box is.
fn label(link: &Link, from: Place, to: Place, height: f64) -> String {
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

/// `nginx → gunicorn: 430/s, a Unix socket is worth it`
fn told(link: &Link) -> String {
    let verdict = VERDICTS.iter().find(|(known, ..)| *known == worth(link));
    let said = rate(link)
        .into_iter()
        .chain(verdict.map(|(.., said)| (*said).to_owned()));
    format!("{}: {}", link.name(), joined(said, ", "))
}

fn drawn(party: Option<&Party>, (row, across): Place) -> String {
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

/// As much as fits a box.
fn short(text: &str, fits: usize) -> String {
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    text.chars().take(fits - 1).chain(['…']).collect()
}
