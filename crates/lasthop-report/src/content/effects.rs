//! A comparison in its setting, and several of them, in words.

use lasthop_analyse::{groups::Compared, summary::Comparison};
use lasthop_model::quantity::joined;

use super::verdicts::quantity;
use crate::{
    names::Named,
    units::{NBSP, TimeUnit, ratio, significant},
    wording::ratio_places,
};

/// Of more settings than this, only the least and the most are told, and only so many names.
pub const MANY_SETTINGS: usize = 4;

/// A comparison in words.
pub trait Told {
    /// `at least 1.87 times`
    fn times(&self) -> String;
    /// `1.05 times (echo)`
    fn times_there(&self) -> String;
}

impl Told for Compared<'_> {
    fn times(&self) -> String {
        let Comparison { lower_bound, ratio, .. } = self.comparison;
        let bound = match (lower_bound, *ratio >= 1.0) {
            (false, _) => "",
            (true, true) => "at least ",
            (true, false) => "at most ",
        };
        format!("{bound}{}{NBSP}times", ends(self.comparison)[1])
    }

    fn times_there(&self) -> String {
        self.times() + &self.group.in_brackets()
    }
}

/// How much better in each setting, or from the least to the most of many.
pub fn effects(all: &[&Compared<'_>], reference: &str) -> String {
    let what = measured(all, reference);
    if all.len() > MANY_SETTINGS {
        let (least, most) = extremes(all, |one| Some(one.gain()));
        return format!(
            "from {} {what}{} to {}, in {} settings{}",
            least.times(),
            least.group.in_brackets(),
            most.times_there(),
            all.len(),
            saved(all)
        );
    }
    let mut said = Vec::new();
    let mut cpu_is_explained = false;
    for (place, one) in all.iter().enumerate() {
        let what = if place == 0 { format!(" {what}") } else { String::new() };
        let cpu = match one.cpu().map(|cpu| cpu.saved_us) {
            None => String::new(),
            Some(saved_us) if !cpu_is_explained => {
                cpu_is_explained = true;
                format!(" and {}", less_cpu(saved_us))
            }
            Some(saved_us) if saved_us < 0.0 => format!(" and {} more", time(-saved_us)),
            Some(saved_us) => format!(" and {}", time(saved_us)),
        };
        said.push(format!("{}{what}{cpu}{}", one.times(), one.group.in_brackets()));
    }
    said.join(", ")
}

/// `1.05 times (echo)`, of many the least and the most.
pub fn brief(all: &[&Compared<'_>]) -> String {
    if all.len() > MANY_SETTINGS {
        let (least, most) = extremes(all, |one| Some(one.gain()));
        return format!(
            "{} to {}, in {} settings",
            least.times_there(),
            most.times_there(),
            all.len()
        );
    }
    joined(all.iter().map(|one| one.times_there()), ", ")
}

/// Those with the least and the most of something, which at least one has.
pub fn extremes<'b, 'a>(
    all: &[&'b Compared<'a>],
    of: impl Fn(&Compared<'a>) -> Option<f64>,
) -> (&'b Compared<'a>, &'b Compared<'a>) {
    let mut known: Vec<(f64, &Compared<'a>)> = all.iter().filter_map(|one| Some((of(one)?, *one))).collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    (known[0].1, known[known.len() - 1].1)
}

/// `the requests/s of TCP`, if the settings have that in common.
pub fn measured(all: &[&Compared<'_>], reference: &str) -> String {
    let first = quantity(all[0].group);
    if all.iter().all(|other| quantity(other.group) == first) {
        format!("the {} of {reference}", first.word())
    } else {
        format!("as fast as {reference}")
    }
}

/// The ends of a ratio's interval with the ratio between them, all to the same place.
pub fn ends(comparison: &Comparison) -> [String; 3] {
    [comparison.low, comparison.ratio, comparison.high].map(|value| ratio(value, ratio_places(comparison)))
}

fn less(saved_us: f64) -> &'static str {
    if saved_us > 0.0 { "less" } else { "more" }
}

/// `12 µs less CPU a request`
pub fn less_cpu(saved_us: f64) -> String {
    format!("{} {} CPU a request", time(saved_us.abs()), less(saved_us))
}

/// CPU time per request over many settings, if its sign is always the same.
fn saved(all: &[&Compared<'_>]) -> String {
    let of = |one: &Compared<'_>| Some(one.cpu()?.saved_us);
    let known: Vec<f64> = all.iter().filter_map(|one| of(one)).collect();
    let Some(first) = known.first().copied() else {
        return String::new();
    };
    if known.iter().any(|one| one.signum() != first.signum()) {
        return String::new();
    }
    let (least, most) = extremes(all, |one| Some(of(one)?.abs()));
    let [low, high] = [least, most].map(|one| {
        let saved_us = of(one).unwrap_or_default().abs();
        format!("{}{}", time(saved_us), one.group.in_brackets())
    });
    let range = if known.len() == 1 {
        low
    } else {
        format!("{low} to {high}")
    };
    format!(", {range} {} CPU a request", less(first))
}

/// The names of the settings.
pub fn settings<'b, 'a: 'b>(all: impl IntoIterator<Item = &'b Compared<'a>>) -> Vec<String> {
    all.into_iter().map(|one| one.group.setting()).collect()
}

/// `within 2 % (echo)`, `undecided (hello; stream)`: settings with what is said of them, if there are any.
pub fn each_said<const N: usize>(all: [(Vec<String>, &str); N]) -> Vec<String> {
    let said = all.into_iter().filter(|(settings, _)| !settings.is_empty());
    said.map(|(settings, word)| format!("{word} ({})", some(&settings)).replace(" ()", ""))
        .collect()
}

/// `hello; echo, 64 B; and 3 more`
pub fn some(settings: &[String]) -> String {
    let shown = settings.len().min(MANY_SETTINGS);
    let named = settings[..shown].join("; ");
    match settings.len() - shown {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

/// A time in microseconds: `4.0 µs`
pub fn time(micros: f64) -> String {
    let unit = TimeUnit::of(micros);
    format!("{}{NBSP}{}", significant(micros / unit.micros(), 2), unit.name())
}
