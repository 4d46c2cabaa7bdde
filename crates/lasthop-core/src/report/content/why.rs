//! Where the difference comes from: CPU time, context switches and run delay of each role.

use super::{parts, run_delay};
use crate::{
    analyse::summary::{CaseSummary, Metric, Metrics, Throttled, Verdict},
    report::{
        document::{Block, Depth, Section, Text},
        groups::{Compared, Group},
        units::{Micros, NBSP, capital, grouped, plural},
        wording::percent,
    },
};

/// If there are more comparisons than this, only the largest difference of each transport is shown.
const MANY: usize = 4;

/// Parts of a difference below this share of its largest part are left out.
const SMALL_PART: f64 = 0.05;

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    if groups.first().is_some_and(|group| group.summary().aa) {
        return None;
    }
    let mut found: Vec<(&Group<'_>, Compared<'_>)> = Vec::new();
    for group in groups {
        found.extend(group.compared().map(|compared| (group, compared)));
    }
    if found.len() > MANY {
        found = largest_each(&found);
    }
    let explained = found.iter().filter_map(|(group, compared)| explain(group, *compared));
    let throttled = groups.iter().flat_map(throttled);
    let blocks = explained.chain(throttled).map(Block::Paragraph).collect();
    parts::section("Why", Depth::Folded, blocks)
}

/// How much the CPU limits throttled the containers of each case.
fn throttled(group: &Group<'_>) -> Vec<Text> {
    let said = |(role, throttled): (&String, &Throttled)| {
        let times = plural(throttled.times, "time");
        format!("{role} {times} for {} ({})", Micros(throttled.seconds * 1e6), percent(throttled.share, 0))
    };
    let cases = group.cases.iter().filter(|case| !case.throttled.is_empty());
    let sentence = |case: &&CaseSummary| {
        let roles: Vec<String> = case.throttled.iter().map(said).collect();
        let name = capital(&parts::full_name(group, case));
        Text::from(format!("{name}: the CPU limit throttled {} of all trials.", roles.join(", ")))
    };
    cases.map(sentence).collect()
}

fn largest_each<'a, 'b>(all: &[(&'b Group<'a>, Compared<'a>)]) -> Vec<(&'b Group<'a>, Compared<'a>)> {
    let mut largest: indexmap::IndexMap<String, (&'b Group<'a>, Compared<'a>)> = indexmap::IndexMap::new();
    let size = |compared: &Compared<'_>| both(*compared).map_or(0.0, |(case, reference)| saved(case, reference).abs());
    for (group, compared) in all {
        let name = group.name(compared.case);
        let known = largest.get(&name).map(|(_, known)| size(known));
        if known.is_none_or(|known| size(compared) > known) {
            largest.insert(name, (group, *compared));
        }
    }
    largest.into_values().collect()
}

fn both<'a>(compared: Compared<'a>) -> Option<(&'a Metrics, &'a Metrics)> {
    Some((compared.case.metrics.as_ref()?, compared.reference.metrics.as_ref()?))
}

/// CPU time per request that the case saves, in microseconds.
fn saved(case: &Metrics, reference: &Metrics) -> f64 {
    reference.cpu_total() - case.cpu_total()
}

/// One comparison; `None` if the CPU time is not known to differ.
fn explain(group: &Group<'_>, compared: Compared<'_>) -> Option<Text> {
    let (case, reference) = both(compared)?;
    let verdict = group.comparison(compared.case, Metric::CpuPerRequest).map(|comparison| comparison.verdict);
    let names = (parts::full_name(group, compared.case), group.name(compared.reference));
    if matches!(verdict, Some(Verdict::Equivalent | Verdict::Undecided)) {
        let sentence = unexplained(&names, compared)?;
        return Some(Text::from(format!("{sentence}{}", run_delay::sentence(&names.1, compared, None))));
    }
    let total = saved(case, reference);
    if total == 0.0 {
        return None;
    }
    let whose = if case.open_loop.is_some() { " of its services" } else { "" };
    let (less, sign) = if total > 0.0 { ("less", '−') } else { ("more", '+') };
    let sentence = format!(
        "{} takes {} {less} CPU{whose} per request than {} ({sign}{}){}.",
        capital(&names.0),
        Micros(total.abs()),
        names.1,
        percent(total.abs() / reference.cpu_total(), 0),
        parts(case, reference, total)
    );
    let waited = run_delay::sentence(&names.1, compared, Some(total));
    Some(Text::from(format!("{sentence}{}{waited}", switches(case, reference))))
}

/// A difference in rate without a difference in CPU time is time spent waiting.
fn unexplained(names: &(String, String), compared: Compared<'_>) -> Option<String> {
    let differs = matches!(compared.comparison.verdict, Verdict::Faster | Verdict::Slower);
    differs.then(|| {
        format!(
            "{} and {} take about the same CPU time per request: the difference is time spent waiting, not computing.",
            names.0, names.1
        )
    })
}

/// `: 7.1 µs the driver's, 5.2 µs the server's`, largest first.
fn parts(case: &Metrics, reference: &Metrics, total: f64) -> String {
    let mut parts = Vec::new();
    if case.open_loop.is_none() {
        parts.push(("driver", reference.cpu_per_request.driver - case.cpu_per_request.driver));
    }
    for (role, cpu) in &case.cpu_per_request.roles {
        parts.push((role, reference.cpu_per_request.roles.get(role).copied().unwrap_or(0.0) - cpu));
    }
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let largest = parts[0].1.abs();
    let said: Vec<String> = parts
        .iter()
        .filter(|(_, micros)| micros.abs() > largest * SMALL_PART)
        .map(|(role, micros)| {
            let against = match (micros.signum() == total.signum(), total > 0.0) {
                (true, _) => "",
                (false, true) => " more",
                (false, false) => " less",
            };
            format!("{}{against} in {}", Micros(micros.abs()), place(role))
        })
        .collect();
    format!(": {}", said.join(", "))
}

pub fn place(role: &str) -> &str {
    if role == "driver" { "the driver" } else { role }
}

/// Context switches, if they differ by a tenth of a switch or more.
fn switches(case: &Metrics, reference: &Metrics) -> String {
    let all = |metrics: &Metrics| metrics.switches_per_request.values().sum::<f64>();
    let (now, before) = (all(case), all(reference));
    if (now - before).abs() < 0.1 {
        return String::new();
    }
    format!(" Context switches: {} instead of{NBSP}{}.", grouped(now, 1), grouped(before, 1))
}
