//! A comparison in its setting, and several of them, in words.

use lasthop_analyse::summary::{Comparison, Materiality, Metric, Verdict};

use super::verdicts::quantity;
use crate::{
    groups::{Compared, Group},
    units::{NBSP, TimeUnit, ratio, significant},
    wording::{Quantity, ratio_places},
};

/// Of more settings than this, only the least and the most are told, and only so many names.
pub const MANY_SETTINGS: usize = 4;

#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub group: &'a Group<'a>,
    pub compared: Compared<'a>,
}

impl<'a> Found<'a> {
    pub fn comparison(&self) -> &'a Comparison {
        self.compared.comparison
    }

    /// How much better it is, in logarithms.
    pub fn gain(&self) -> f64 {
        let log = self.comparison().ratio.ln();
        if quantity(self.group) == Quantity::ResponseTime {
            -log
        } else {
            log
        }
    }

    /// CPU time per request, if it is known to differ.
    pub fn cpu(&self) -> Option<&'a Materiality> {
        let comparison = self.group.comparison(self.compared.case, Metric::CpuPerRequest)?;
        let materiality = comparison.materiality.as_ref()?;
        let decided = matches!(comparison.verdict, Verdict::Faster | Verdict::Slower);
        (decided && materiality.saved_us_low * materiality.saved_us_high > 0.0).then_some(materiality)
    }

    /// ` (echo, 64 B)`, if there is more than one setting.
    pub fn where_(&self) -> String {
        if self.group.setting.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.group.setting)
        }
    }

    /// `at least 1.87 times`
    pub fn times(&self) -> String {
        let Comparison { lower_bound, ratio, .. } = self.comparison();
        let bound = match (lower_bound, *ratio >= 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        };
        format!("{bound}{}{NBSP}times", ends(self.comparison())[1])
    }
}

/// How much better in each setting, or from the least to the most of many.
pub fn effects(found: &[&Found<'_>], reference: &str) -> String {
    let what = measured(found, reference);
    if found.len() > MANY_SETTINGS {
        let (least, most) = extremes(found, |one| Some(one.gain()));
        let range = format!(
            "{} {what}{} to {}{}",
            least.times(),
            least.where_(),
            most.times(),
            most.where_()
        );
        return format!("from {range}, in {} settings{}", found.len(), saved(found));
    }
    let mut cpu_is_explained = false;
    let one = |(place, one): (usize, &&Found<'_>)| {
        let what = if place == 0 { format!(" {what}") } else { String::new() };
        let cpu = one
            .cpu()
            .map(|cpu| match std::mem::replace(&mut cpu_is_explained, true) {
                false => format!(" and {}", less_cpu(cpu.saved_us)),
                true => format!(
                    " and {}{}",
                    time(cpu.saved_us.abs()),
                    if cpu.saved_us < 0.0 { " more" } else { "" }
                ),
            });
        format!("{}{what}{}{}", one.times(), cpu.unwrap_or_default(), one.where_())
    };
    found.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

/// `1.05 times (echo)`, of many the least and the most.
pub fn brief(found: &[&Found<'_>]) -> String {
    let one = |one: &Found<'_>| format!("{}{}", one.times(), one.where_());
    if found.len() > MANY_SETTINGS {
        let (least, most) = extremes(found, |one| Some(one.gain()));
        return format!("{} to {}, in {} settings", one(least), one(most), found.len());
    }
    found.iter().map(|found| one(found)).collect::<Vec<_>>().join(", ")
}

/// Those with the least and the most of something, which at least one has.
pub fn extremes<'b, 'a>(
    found: &[&'b Found<'a>],
    of: impl Fn(&Found<'a>) -> Option<f64>,
) -> (&'b Found<'a>, &'b Found<'a>) {
    let mut known: Vec<(f64, &Found<'a>)> = found.iter().filter_map(|one| Some((of(one)?, *one))).collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    (known[0].1, known[known.len() - 1].1)
}

/// `the requests/s of TCP`, if the settings have that in common.
pub fn measured(found: &[&Found<'_>], reference: &str) -> String {
    let of = |found: &Found<'_>| quantity(found.group);
    let first = of(found[0]);
    match found.iter().all(|other| of(other) == first) {
        true => format!("the {} of {reference}", first.word()),
        false => format!("as fast as {reference}"),
    }
}

/// The ends of a ratio's interval with the ratio between them, all to the same place.
pub fn ends(comparison: &Comparison) -> [String; 3] {
    [comparison.low, comparison.ratio, comparison.high].map(|value| ratio(value, ratio_places(comparison)))
}

/// `12 µs less CPU a request`
pub fn less_cpu(saved_us: f64) -> String {
    format!(
        "{} {} CPU a request",
        time(saved_us.abs()),
        if saved_us > 0.0 { "less" } else { "more" }
    )
}

/// CPU time per request over many settings, if its sign is always the same.
fn saved(found: &[&Found<'_>]) -> String {
    let of = |one: &Found<'_>| Some(one.cpu()?.saved_us);
    let known: Vec<f64> = found.iter().filter_map(|one| of(one)).collect();
    let Some(first) = known.first() else {
        return String::new();
    };
    if known.iter().any(|one| one.signum() != first.signum()) {
        return String::new();
    }
    let (least, most) = extremes(found, |one| Some(of(one)?.abs()));
    let [low, high] = [least, most].map(|one| format!("{}{}", time(of(one).unwrap_or_default().abs()), one.where_()));
    let word = if *first > 0.0 { "less" } else { "more" };
    if known.len() == 1 {
        format!(", {low} {word} CPU a request")
    } else {
        format!(", {low} to {high} {word} CPU a request")
    }
}

/// `hello; echo, 64 B; and 3 more`
pub fn some(settings: &[&str]) -> String {
    let shown = settings.len().min(MANY_SETTINGS);
    let more = settings.len() - shown;
    let more = if more > 0 {
        format!("; and {more} more")
    } else {
        String::new()
    };
    format!("{}{more}", settings[..shown].join("; "))
}

/// A time in microseconds: `4.0 µs`
pub fn time(micros: f64) -> String {
    let unit = TimeUnit::of(micros);
    format!("{}{NBSP}{}", significant(micros / unit.micros(), 2), unit.name())
}
