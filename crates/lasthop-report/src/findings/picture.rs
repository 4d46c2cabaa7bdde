//! The pictures of the page, as SVG: within a page as wide as there is room, and as files.

use std::{collections::BTreeMap, fmt::Write as _};

use indexmap::IndexSet;
use lasthop_analyse::{
    across::Ratio,
    answers::{Answer, Figure, KnownCase, Setting},
    summary::{Comparison, Verdict},
};
use lasthop_model::quantity::joined;
use lasthop_page::{
    html,
    text::{embedded, markup as escape},
};
use serde_json::json;

use super::sentences::place;
use crate::{
    across,
    answers::{Compared, choices, extremes, micros},
    forest::{Panel, Part, Picture, Row, STYLE},
    units::{Micros, NBSP, percent},
};

/// What the picture of ratios shows.
pub const RATIOS: &str = "Requests per second by the first alternative of each experiment, divided by those of its \
                          reference; the largest first under each heading.";
/// What the bars are.
pub const COSTS: &str = "CPU time of a request, of the servers and of a client that is an end of the link: in the first \
                         setting of each experiment, the same server side by side, bare, behind a proxy and through an \
                         application. What is saved or lost against the reference has its 95 % interval.";
/// What the curves are.
pub const GAINS: &str = "How much more busy CPUs handle, over the CPU time that the work of a request uses besides what \
                         was measured: the setting of each experiment that saves the largest share, by the estimate. \
                         Below 2 % a difference counts as none; the table has the intervals.";

/// As many as the style has.
const COLORS: usize = 8;
const WIDTH: u32 = 720;
const SIDE: u32 = 16;

/// A picture in both forms.
pub struct Drawing {
    name: &'static str,
    pub title: &'static str,
    file: Vec<u8>,
    inline: String,
}

impl Drawing {
    pub fn file_name(&self) -> String {
        format!("findings-{}.svg", self.name)
    }

    pub fn file(&self) -> Vec<u8> {
        self.file.clone()
    }

    pub fn inline(&self) -> String {
        self.inline.clone()
    }

    /// Of what is drawn in shares of the width, and so many pixels high.
    fn of(name: &'static str, title: &'static str, body: &str, height: f64) -> Self {
        let width = WIDTH - 2 * SIDE;
        let label = escape(title);
        Self {
            name,
            title,
            file: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"forest\" viewBox=\"0 0 {WIDTH} {height}\" \
                 width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n<style>{STYLE}</style>\n\
                 <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
                 <svg x=\"{SIDE}\" y=\"0\" width=\"{width}\" height=\"{height}\">\n{body}</svg>\n</svg>\n"
            )
            .into_bytes(),
            inline: format!(
                "<svg class=\"forest\" width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n\
                 {body}</svg>\n"
            ),
        }
    }
}

fn comparison(one: &Compared<'_>) -> Comparison {
    let (against, ratio) = (one.against, &one.against.ratio);
    let ratio = Ratio {
        ratio: ratio.estimate,
        low: ratio.low,
        high: ratio.high,
    };
    let (case, reference) = (&one.case.level, &one.reference.level);
    Comparison {
        lower_bound: against.lower_bound,
        ..across::comparison(case, reference, against.metric, &ratio, against.verdict)
    }
}

/// Sorted under their headings, with these comparisons of each answer.
fn forest(title: &str, subtitle: &str, answers: &[&Answer], of: fn(&Answer) -> Vec<Compared<'_>>) -> Picture {
    let mut groups: BTreeMap<&str, Vec<(&Answer, Compared<'_>)>> = BTreeMap::new();
    for answer in answers {
        let shown = of(answer).into_iter().map(|one| (*answer, one));
        groups.entry(&answer.group).or_default().extend(shown);
    }
    let parts = groups.into_iter().map(|(heading, mut rows)| {
        rows.sort_by(|(_, one), (_, other)| other.against.ratio.estimate.total_cmp(&one.against.ratio.estimate));
        let rows = rows.iter().map(|told| {
            // Most compare a Unix socket with TCP, and need not say so.
            let levels = if told.1.levels() == "unix / tcp" {
                String::new()
            } else {
                format!(", {}", told.1.levels())
            };
            Row::new(format!("{}{levels}", place(told)), &comparison(&told.1))
        });
        Part {
            heading: heading.to_owned(),
            rows: rows.collect(),
        }
    });
    let parts: Vec<Part> = parts.collect();
    let described = parts.iter().flat_map(|part| &part.rows).map(|row| row.label.clone());
    Picture {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        description: joined(described, "; "),
        margin: answers.first().map_or(0.02, |answer| answer.margin),
        panels: vec![Panel {
            title: "Unix socket / TCP, unless a row says otherwise →".to_owned(),
            parts,
        }],
    }
}

/// Every stack and setting.
pub fn ratios(answers: &[&Answer]) -> Drawing {
    let title = "Every stack and setting";
    let picture = forest(
        title,
        "Ratio of requests per second with its 95 % interval",
        answers,
        choices,
    );
    let file = picture.lines();
    // A phone has no room for a row in a line.
    let inline = format!(
        "<style>@media (max-width:46rem){{.wide{{display:none}}}}@media (min-width:46.01rem){{.narrow{{display:none}}}}</style>\n\
         <div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n",
        String::from_utf8_lossy(&file),
        picture.inline()
    );
    Drawing {
        name: "ratios",
        title,
        file,
        inline,
    }
}

/// A line for each stack: its largest ratio.
pub fn of_stacks(answers: &[&Answer]) -> Vec<u8> {
    let title = "What the last hop costs";
    let subtitle = "The setting of each stack with the largest ratio of requests per second, with its 95 % interval";
    forest(title, subtitle, answers, |answer| {
        let mut shown = extremes(answer);
        shown.truncate(1);
        shown
    })
    .lines()
}

/// Heights of a heading, and of a bar with its text.
const HEADING: f64 = 30.0;
const BAR: f64 = 28.0;

/// CPU time of a request by transport, as bars.
pub fn costs(answers: &[&Answer]) -> Drawing {
    let mut servers: BTreeMap<&str, Vec<(&Answer, &Setting)>> = BTreeMap::new();
    let mut levels: IndexSet<&str> = IndexSet::new();
    for answer in answers {
        let Some(setting) = answer.settings.first() else {
            continue;
        };
        servers.entry(&answer.link.to).or_default().push((answer, setting));
        levels.extend(setting.cases.iter().map(|case| case.level.as_str()));
    }
    let mut svg = String::new();
    let mut down = 4.0;
    for shown in servers.values() {
        let costs = shown
            .iter()
            .flat_map(|(_, setting)| &setting.cases)
            .map(|case| case.cpu_us);
        let most = costs.fold(f64::MIN_POSITIVE, f64::max);
        for (answer, setting) in shown {
            let place = joined(
                [answer.experiment.as_str(), &setting.name]
                    .into_iter()
                    .filter(|part| !part.is_empty()),
                ", ",
            );
            let _ = writeln!(
                svg,
                "<text class=\"setting\" x=\"0\" y=\"{}\">{}</text>",
                down + 20.0,
                escape(&format!("{} → {}: {place}", answer.link.from, answer.link.to))
            );
            down += HEADING;
            for case in &setting.cases {
                let color = levels.get_index_of(case.level.as_str()).unwrap_or(0) % COLORS;
                let _ = writeln!(
                    svg,
                    "<g class=\"c{color}\"><text class=\"small\" x=\"0\" y=\"{}\">{}</text>\
                     <rect class=\"bar\" x=\"0\" y=\"{}\" width=\"{:.2}%\" height=\"7\"/></g>",
                    down + 11.0,
                    escape(&cost(case)),
                    down + 16.0,
                    100.0 * case.cpu_us / most
                );
                down += BAR;
            }
        }
        down += 8.0;
    }
    Drawing::of("costs", "What a hop costs", &svg, down + 4.0)
}

/// `unix: 12.3 µs, saves 6.11 µs (5.90 to 6.32)`, `tls: 45.0 µs, costs 12.0 µs more (11.0 to 13.0)`
fn cost(case: &KnownCase) -> String {
    let cpu = format!("{}: {}", case.level, Micros(case.cpu_us));
    let Some(against) = case.against.as_ref().and_then(|against| against.cpu.as_ref()) else {
        return cpu;
    };
    match against.verdict {
        Verdict::Faster => format!("{cpu}, saves {}", micros(&against.saved_us)),
        Verdict::Slower => {
            let saved = &against.saved_us;
            let more = Figure::of(-saved.estimate, -saved.high, -saved.low);
            format!("{cpu}, costs {} more", micros(&more))
        }
        Verdict::Equivalent => format!("{cpu}, the same"),
        Verdict::Undecided => format!("{cpu}, undecided"),
    }
}

/// The axes of the curves, as decimal logarithms: of microseconds, and of the gain as a share.
const WORK: [f64; 2] = [0.0, 5.0];
const GAIN: [f64; 2] = [-2.5, 0.5];
const HEIGHT: f64 = 320.0;
const TOP: f64 = 24.0;

fn share(axis: [f64; 2], log: f64) -> f64 {
    100.0 * ((log - axis[0]) / (axis[1] - axis[0])).clamp(0.0, 1.0)
}

/// The choice that saves the largest share of the CPU time, of those that certainly save some.
fn saves_most(answer: &Answer) -> Option<Compared<'_>> {
    let saves = |one: &Compared<'_>| {
        let cpu = one.against.cpu.as_ref()?;
        (cpu.verdict == Verdict::Faster).then_some(1.0 - cpu.ratio.estimate)
    };
    let known = choices(answer).into_iter().filter_map(|one| Some((one, saves(&one)?)));
    let most = known.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.map(|(one, _)| one)
}

/// The same with the reader's own handler: a slider, and the numbers that its script weighs.
pub fn slider(answers: &[&Answer]) -> String {
    let gains = answers.iter().filter_map(|answer| {
        let one = saves_most(answer)?;
        let saved = &one.against.cpu.as_ref()?.saved_us;
        Some(json!({
            "place": place(&(*answer, one)),
            "reference": one.reference.cpu_us,
            "saved": [saved.low, saved.estimate, saved.high],
        }))
    });
    let margin = answers.first().map_or(0.02, |answer| answer.margin);
    let data = json!({ "margin": margin, "gains": gains.collect::<Vec<_>>() });
    format!(
        "<div id=\"matters\"></div>\n<script type=\"application/json\" id=\"gains\">{}</script>\n<script>{}</script>\n",
        embedded(&data),
        html::FINDINGS
    )
}

/// The gain over the work of a request: a curve for each stack.
pub fn gains(answers: &[&Answer]) -> Drawing {
    let mut groups: IndexSet<&str> = IndexSet::new();
    let mut curves = String::new();
    for answer in answers {
        let Some(one) = saves_most(answer) else { continue };
        let color = groups.insert_full(&answer.group).0 % COLORS;
        let saved = one.reference.cpu_us - one.case.cpu_us;
        let points = (0..=100).filter_map(|step| {
            let work = WORK[0] + (WORK[1] - WORK[0]) * f64::from(step) / 100.0;
            let gain = (saved / (one.case.cpu_us + 10f64.powf(work))).log10();
            (gain >= GAIN[0]).then(|| format!("{:.1},{:.1}", share(WORK, work), 100.0 - share(GAIN, gain)))
        });
        let _ = writeln!(
            curves,
            "<g class=\"c{color}\"><polyline class=\"curve\" points=\"{}\"><title>{}</title></polyline></g>",
            joined(points, " "),
            escape(&place(&(*answer, one)))
        );
    }
    let mut svg = String::new();
    for (micros, log) in [
        (1.0, 0.0),
        (10.0, 1.0),
        (100.0, 2.0),
        (1e3, 3.0),
        (1e4, 4.0),
        (1e5, 5.0),
    ] {
        let at = 6.0 + 0.92 * share(WORK, log);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"{TOP}\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{at:.2}%\" y=\"{}\">{}</text>",
            TOP + HEIGHT,
            TOP + HEIGHT + 16.0,
            escape(&Micros(micros).to_string().replace(".00", "").replace(".0", "")),
        );
    }
    for gain in [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0] {
        let at = TOP + HEIGHT * (1.0 - share(GAIN, f64::log10(gain)) / 100.0);
        let class = if gain == 0.02 { "one" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"6%\" x2=\"98%\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"3%\" y=\"{:.1}\">{}</text>",
            at + 4.0,
            percent(gain, 0).replace(NBSP, " ")
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"faint\" x=\"0\" y=\"14\">gain in % over the CPU time of the work of a request</text>\n\
         <svg x=\"6%\" y=\"{TOP}\" width=\"92%\" height=\"{HEIGHT}\" viewBox=\"0 0 100 100\" \
         preserveAspectRatio=\"none\">{curves}</svg>"
    );
    let mut down = TOP + HEIGHT + 36.0;
    for (color, group) in groups.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<g class=\"c{}\"><rect class=\"bar\" x=\"6%\" y=\"{}\" width=\"16\" height=\"4\"/>\
             <text class=\"small\" x=\"6%\" dx=\"24\" y=\"{down}\">{}</text></g>",
            color % COLORS,
            down - 6.0,
            escape(group)
        );
        down += 18.0;
    }
    Drawing::of("gains", "When it stops mattering", &svg, down)
}
