//! Where the difference comes from: CPU time, context switches and run delay of each role.

use std::cmp::Ordering;

use lasthop_analyse::summary::{CaseSummary, Comparison, Metric, Metrics, Throttled, Verdict};

use super::{parts, run_delay};
use crate::{
    document::{Block, Depth, Section, Text},
    groups::{Compared, Group},
    units::{Micros, NBSP, capital, grouped, percent, plural},
};

/// If there are more comparisons than this, each that was decided gets one line.
const MANY: usize = 4;

/// Parts of a difference below this share of its largest part are left out.
const SMALL_PART: f64 = 0.05;

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let unknown = |group: &Group<'_>| group.summary().checks.iter().any(|check| check.id == "server-unknown");
    if groups.first().is_some_and(|group| group.summary().aa || unknown(group)) {
        return None;
    }
    let mut found: Vec<(&Group<'_>, Compared<'_>)> = Vec::new();
    for group in groups {
        found.extend(group.compared().map(|compared| (group, compared)));
    }
    // What was decided first, then by relative size.
    let rank = |compared: &Compared<'_>| (!is_decided(compared), -compared.comparison.ratio.ln().abs());
    found.sort_by(|(_, one), (_, other)| rank(one).partial_cmp(&rank(other)).unwrap_or(Ordering::Equal));
    let many = found.len() > MANY;
    let explained = found.iter().filter_map(|(group, compared)| match many {
        true => in_a_line(group, *compared).map(Block::Item),
        false => explain(group, *compared).map(Block::Paragraph),
    });
    let throttled = groups.iter().flat_map(throttled).map(Block::Paragraph);
    parts::section("Why", Depth::Folded, explained.chain(throttled).collect())
}

fn is_decided(compared: &Compared<'_>) -> bool {
    matches!(compared.comparison.verdict, Verdict::Faster | Verdict::Slower)
}

/// The CPU time of a decided comparison, and where most of it is.
fn in_a_line(group: &Group<'_>, compared: Compared<'_>) -> Option<Text> {
    let (case, reference) = both(compared).filter(|_| is_decided(&compared))?;
    let name = capital(&parts::full_name(group, compared.case));
    let total = saved(case, reference);
    match group
        .comparison(compared.case, Metric::CpuPerRequest)
        .map(|comparison| comparison.verdict)
    {
        Some(Verdict::Equivalent) => {
            return Some(format!("{name}: the same CPU time; it is waiting that differs").into());
        }
        Some(Verdict::Undecided) => return Some(format!("{name}: whether CPU time differs is undecided").into()),
        _ if total == 0.0 => return None,
        _ => {}
    }
    let (less, sign) = if total > 0.0 { ("less", '−') } else { ("more", '+') };
    let share = percent(total.abs() / reference.cpu_total(), 0);
    let of_role = |(role, cpu): (&'_ str, f64)| (role.to_owned(), cpu * total.signum());
    let most = by_role(case, reference)
        .into_iter()
        .map(of_role)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    let most = most.map_or(String::new(), |(role, _)| format!(", most in {}", place(&role)));
    Some(format!("{name}: {} {less} CPU ({sign}{share}){most}", Micros(total.abs())).into())
}

/// How much the CPU limits throttled the containers of each case.
fn throttled(group: &Group<'_>) -> Vec<Text> {
    let said = |(role, throttled): (&String, &Throttled)| {
        let times = plural(throttled.times, "time");
        format!(
            "{role} {times} for {} ({})",
            Micros(throttled.seconds * 1e6),
            percent(throttled.share, 0)
        )
    };
    let cases = group.cases.iter().filter(|case| !case.throttled.is_empty());
    let sentence = |case: &&CaseSummary| {
        let roles: Vec<String> = case.throttled.iter().map(said).collect();
        let name = capital(&parts::full_name(group, case));
        Text::from(format!(
            "{name}: the CPU limit throttled {} of all trials.",
            roles.join(", ")
        ))
    };
    cases.map(sentence).collect()
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
    let names = (parts::full_name(group, compared.case), group.name(compared.reference));
    let cpu = group.comparison(compared.case, Metric::CpuPerRequest);
    let unexplained = cpu.and_then(|cpu| without_cpu(&names, cpu));
    if let Some(sentence) = unexplained {
        let waited = run_delay::sentence(&names.1, compared, None);
        return is_decided(&compared).then(|| Text::from(format!("{sentence}{waited}")));
    }
    let total = saved(case, reference);
    if total == 0.0 {
        return None;
    }
    let whose = if case.cpu_per_request.counts_driver {
        ""
    } else {
        " of its services"
    };
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

/// What is said where CPU time is not known to differ. A difference in rate without one in CPU time is waiting.
fn without_cpu((case, reference): &(String, String), cpu: &Comparison) -> Option<String> {
    match cpu.verdict {
        Verdict::Equivalent => Some(format!(
            "{} and {reference} take the same CPU time per request: the difference is time spent waiting, not computing.",
            capital(case)
        )),
        Verdict::Undecided => Some(format!(
            "Whether {case} takes more or less CPU time per request than {reference} is undecided (between {} and {} of it).",
            percent(cpu.low, 0),
            percent(cpu.high, 0)
        )),
        _ => None,
    }
}

/// `: 7.1 µs the driver's, 5.2 µs the server's`, largest first.
fn parts(case: &Metrics, reference: &Metrics, total: f64) -> String {
    let mut parts = by_role(case, reference);
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

/// CPU time per request that the case saves, in microseconds, of the roles that cases are compared by.
fn by_role<'a>(case: &'a Metrics, reference: &Metrics) -> Vec<(&'a str, f64)> {
    let before = |role: &str| reference.cpu_per_request.of(role).unwrap_or(0.0);
    case.cpu_per_request
        .counted()
        .map(|(role, cpu)| (role, before(role) - cpu))
        .collect()
}

pub fn place(role: &str) -> &str {
    if role == "driver" { "the driver" } else { role }
}

/// Context switches, if they differ by a tenth of a switch or more.
fn switches(case: &Metrics, reference: &Metrics) -> String {
    let (now, before) = (case.switches_total(), reference.switches_total());
    if (now - before).abs() < 0.1 {
        return String::new();
    }
    format!(
        " Context switches: {} instead of{NBSP}{}.",
        grouped(now, 1),
        grouped(before, 1)
    )
}
