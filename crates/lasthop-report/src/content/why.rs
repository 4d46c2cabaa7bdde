//! Where the difference comes from: CPU time, context switches and run delay of each role.

use std::cmp::Ordering;

use lasthop_analyse::{
    groups::{Compared, Group, cases},
    summary::{CaseSummary, Comparison, Metric, Metrics, Throttled, Verdict},
};

use lasthop_model::quantity::joined;

use super::{layers, parts, run_delay};
use crate::{
    document::{Block, Depth, Section, Text},
    names::Named,
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
    let mut all: Vec<Compared<'_>> = groups.iter().flat_map(Group::compared).collect();
    // What was decided first, then by relative size.
    let rank = |one: &Compared<'_>| {
        (
            !one.comparison.verdict.differs(),
            -one.comparison.ratio.estimate.ln().abs(),
        )
    };
    all.sort_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(Ordering::Equal));
    let many = all.len() > MANY;
    let explained = all.iter().filter_map(|one| {
        if many {
            in_a_line(*one).map(Block::Item)
        } else {
            explain(*one).map(Block::Paragraph)
        }
    });
    let throttled = cases(groups).filter(|(_, case)| !case.throttled.is_empty());
    let throttled = throttled.map(|(group, case)| Block::Paragraph(throttling(group, case)));
    let mut layers: Vec<Block> = all.iter().take(MANY).flat_map(|one| layers::of(*one)).collect();
    // Who asked for layers is to see them.
    let depth = if layers.is_empty() { Depth::Folded } else { Depth::Open };
    if depth == Depth::Open {
        layers.extend(layers::cost(groups));
    }
    parts::section("Why", depth, explained.chain(throttled).chain(layers).collect())
}

/// The CPU time of a decided comparison, and where most of it is.
fn in_a_line(compared: Compared<'_>) -> Option<Text> {
    let (case, reference) = both(compared).filter(|_| compared.comparison.verdict.differs())?;
    let name = capital(&parts::full_name(compared.group, compared.case));
    let total = saved(case, reference);
    let cpu = compared.group.comparison(compared.case, Metric::CpuPerRequest);
    match cpu.map(|comparison| comparison.verdict) {
        Some(Verdict::Equivalent) => {
            return Some(format!("{name}: the same CPU time; it is waiting that differs").into());
        }
        Some(Verdict::Undecided) => return Some(format!("{name}: whether CPU time differs is undecided").into()),
        _ if total == 0.0 => return None,
        _ => {}
    }
    let (amount, share) = amount(total, reference);
    let most = by_role(case, reference)
        .into_iter()
        .max_by(|one, other| (one.1 * total.signum()).total_cmp(&(other.1 * total.signum())));
    let most = most.map_or(String::new(), |(role, _)| format!(", most in {}", place(role)));
    Some(format!("{name}: {amount} {share}{most}").into())
}

/// `12 µs less CPU of its services`, `(−40 %)`
fn amount(total: f64, reference: &Metrics) -> (String, String) {
    let (less, sign) = if total > 0.0 { ("less", '−') } else { ("more", '+') };
    (
        format!("{} {less} CPU", Micros(total.abs())),
        format!("({sign}{})", percent(total.abs() / reference.cpu_total(), 0)),
    )
}

/// How much the CPU limits throttled the containers of a case.
fn throttling(group: &Group<'_>, case: &CaseSummary) -> Text {
    let said = |(role, throttled): (&String, &Throttled)| {
        format!(
            "{role} {} for {} ({})",
            plural(throttled.times, "time"),
            Micros(throttled.seconds * 1e6),
            percent(throttled.share, 0)
        )
    };
    format!(
        "{}: the CPU limit throttled {} of all trials.",
        capital(&parts::full_name(group, case)),
        joined(case.throttled.iter().map(said), ", ")
    )
    .into()
}

/// `None` where requests are lost: CPU time is not compared then.
fn both<'a>(compared: Compared<'a>) -> Option<(&'a Metrics, &'a Metrics)> {
    let cpu = compared.group.comparison(compared.case, Metric::CpuPerRequest);
    let is_lost = cpu.is_none() && compared.group.is_one_way();
    let both = (compared.case.metrics.as_ref()?, compared.reference.metrics.as_ref()?);
    (!is_lost).then_some(both)
}

/// CPU time per request that the case saves, in microseconds.
fn saved(case: &Metrics, reference: &Metrics) -> f64 {
    reference.cpu_total() - case.cpu_total()
}

/// One comparison; `None` if the CPU time is not known to differ.
fn explain(compared: Compared<'_>) -> Option<Text> {
    let (case, reference) = both(compared)?;
    let group = compared.group;
    let names = (parts::full_name(group, compared.case), group.name(compared.reference));
    let cpu = group.comparison(compared.case, Metric::CpuPerRequest);
    let waited = |cpu| run_delay::sentence(&names.1, compared, cpu);
    if let Some(sentence) = cpu.and_then(|cpu| without_cpu(&names, cpu)) {
        let is_decided = compared.comparison.verdict.differs();
        return is_decided.then(|| (sentence + &waited(None)).into());
    }
    let total = saved(case, reference);
    if total == 0.0 {
        return None;
    }
    let (amount, share) = amount(total, reference);
    Some(Text::from(format!(
        "{} takes {amount} per request than {} {share}{}.{}{}",
        capital(&names.0),
        names.1,
        parts(case, reference, total),
        switches(case, reference),
        waited(Some(total))
    )))
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
            percent(cpu.ratio.low, 0),
            percent(cpu.ratio.high, 0)
        )),
        _ => None,
    }
}

/// `: 7.1 µs in nginx, 5.2 µs in gunicorn`, largest first; of several services.
fn parts(case: &Metrics, reference: &Metrics, total: f64) -> String {
    let mut parts = by_role(case, reference);
    if parts.len() < 2 {
        return String::new();
    }
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let largest = parts[0].1.abs();
    let large = parts.iter().filter(|(_, micros)| micros.abs() > largest * SMALL_PART);
    let said = large.map(|(role, micros)| {
        let against = match (micros.signum() == total.signum(), total > 0.0) {
            (true, _) => "",
            (false, true) => " more",
            (false, false) => " less",
        };
        format!("{}{against} in {}", Micros(micros.abs()), place(role))
    });
    format!(": {}", joined(said, ", "))
}

/// CPU time per request that the case saves, in microseconds, by service.
fn by_role<'a>(case: &'a Metrics, reference: &Metrics) -> Vec<(&'a str, f64)> {
    let before = |role: &str| reference.cpu_per_request.of(role).unwrap_or(0.0);
    let services = case.cpu_per_request.roles.iter();
    services
        .map(|(role, cpu)| (role.as_str(), before(role) - cpu))
        .collect()
}

pub fn place(role: &str) -> &str {
    if role == "driver" { "the driver" } else { role }
}

/// Context switches, if they differ by a tenth of a switch or more.
fn switches(case: &Metrics, reference: &Metrics) -> String {
    let now = case.switches_total();
    let before = reference.switches_total();
    if (now - before).abs() < 0.1 {
        return String::new();
    }
    format!(
        " Context switches: {} instead of{NBSP}{}.",
        grouped(now, 1),
        grouped(before, 1)
    )
}
