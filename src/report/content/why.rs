//! Why: where the difference sits, from the CPU time, the context switches and the run delay of each role.

use crate::{
    analyse::summary::{CaseSummary, Measured, Metric, Metrics, Throttled, Verdict},
    report::{
        document::{Block, Depth, Section, Text},
        groups::{Compared, Group},
        units::{Micros, NBSP, capital, grouped, plural},
        wording::percent,
    },
};

/// More comparisons than this are represented by the largest difference of each transport.
const MANY: usize = 4;

/// Parts of a difference below this share of its largest part are not worth a word.
const SMALL_PART: f64 = 0.05;

/// A difference in run delay is said from this share on of the time or the CPU time that the case saves, whichever is less. Run
/// delays of several threads overlap, with each other and with the work of others, so that they are not parts of a sum that
/// could be held against its largest part: a tenth is what a reader who asks where the time went would want to know of.
const NOTICEABLE: f64 = 0.1;

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
    super::section("Why", Depth::Folded, blocks)
}

/// What CPU limits kept the containers of each case from.
fn throttled(group: &Group<'_>) -> Vec<Text> {
    let said = |(role, throttled): (&String, &Throttled)| {
        let times = plural(throttled.times, "time");
        format!("{role} {times} for {} ({})", Micros(throttled.seconds * 1e6), percent(throttled.share, 0))
    };
    let cases = group.cases.iter().filter(|case| !case.throttled.is_empty());
    let sentence = |case: &&CaseSummary| {
        let roles: Vec<String> = case.throttled.iter().map(said).collect();
        let name = capital(&super::full_name(group, case));
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

/// One comparison; `None` where the CPU time is not known to differ.
fn explain(group: &Group<'_>, compared: Compared<'_>) -> Option<Text> {
    let (case, reference) = both(compared)?;
    let verdict = group.comparison(compared.case, Metric::CpuPerRequest).map(|comparison| comparison.verdict);
    let names = (super::full_name(group, compared.case), group.name(compared.reference));
    if matches!(verdict, Some(Verdict::Equivalent | Verdict::Undecided)) {
        let sentence = unexplained(&names, compared)?;
        return Some(Text::from(format!("{sentence}{}", run_delay(&names.1, compared, None))));
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
    let waited = run_delay(&names.1, compared, Some(total));
    Some(Text::from(format!("{sentence}{}{waited}", switches(case, reference))))
}

/// A difference in rate without one in CPU time is waiting.
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

fn place(role: &str) -> &str {
    if role == "driver" { "the driver" } else { role }
}

/// Context switches, where they differ by a tenth of one or more.
fn switches(case: &Metrics, reference: &Metrics) -> String {
    let all = |metrics: &Metrics| metrics.switches_per_request.values().sum::<f64>();
    let (now, before) = (all(case), all(reference));
    if (now - before).abs() < 0.1 {
        return String::new();
    }
    format!(" Context switches: {} instead of{NBSP}{}.", grouped(now, 1), grouped(before, 1))
}

/// Who waited for a CPU, where the two are known to differ in it by a noticeable part of what else they differ in; `cpu` is the
/// CPU time that the case saves per request, where it is known to save any. What it says is measured; that the one caused the
/// other is not, and not said.
fn run_delay(reference: &str, compared: Compared<'_>, cpu: Option<f64>) -> String {
    let Some(saved) = &compared.comparison.run_delay_saved else { return String::new() };
    let Some((now, before)) = both(compared) else { return String::new() };
    let least = yardstick(compared, cpu) * NOTICEABLE;
    let differs = |saved: &Measured| (saved.low > 0.0 || saved.high < 0.0) && saved.estimate.abs() >= least;
    let said = |role: &str| {
        let of = |metrics: &Metrics| metrics.run_delay.get(role).map(|delay| Micros(delay.us_per_request));
        Some((place(role).to_owned(), of(now)?, of(before)?))
    };
    // The driver of an open loop waits awake: what it is kept from is no part of a request.
    let counts = |role: &str| role != "driver" || now.open_loop.is_none();
    let roles = saved.roles.iter().filter(|(role, saved)| counts(role) && differs(saved));
    let mut found: Vec<(String, Micros, Micros)> = roles.filter_map(|(role, _)| said(role)).collect();
    if found.is_empty() && saved.all.as_ref().is_some_and(differs) {
        let totals = now.run_delay_total().zip(before.run_delay_total());
        found.extend(totals.map(|(now, before)| ("all of them together".to_owned(), Micros(now), Micros(before))));
    }
    if found.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = found
        .iter()
        .enumerate()
        .map(|(place, (who, now, before))| match place {
            0 => format!("{who} waited {now} for a{NBSP}CPU ({reference}: {before})"),
            _ => format!("{who} {now} ({before})"),
        })
        .collect();
    format!(" Per request, {}.", parts.join(", "))
}

/// What the case saves per request, in microseconds: CPU time, or time where that is less, of what is known to differ. The time of a
/// closed loop is that between two answers, since a request waits while the requests of other connections are worked on, and
/// run delay is counted once for all of them.
fn yardstick(compared: Compared<'_>, cpu: Option<f64>) -> f64 {
    let Compared { case, comparison, .. } = compared;
    let differs = matches!(comparison.verdict, Verdict::Faster | Verdict::Slower);
    let at_once = if case.load.is_open() { 1.0 } else { f64::from(case.load.connections.max(1)) };
    let time = comparison.materiality.as_ref().filter(|_| differs).map(|materiality| materiality.saved_us / at_once);
    [time, cpu].into_iter().flatten().map(f64::abs).fold(f64::INFINITY, f64::min)
}
