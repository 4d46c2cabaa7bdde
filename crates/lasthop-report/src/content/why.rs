//! Sources of the difference: the CPU time, context switches and waiting of each service, and layers of work.

use std::cmp::Ordering;

use lasthop_analyse::{
    groups::{Compared, Group, cases},
    summary::{CaseSummary, Comparison, Metric, Metrics, Throttled, Verdict},
};
use lasthop_model::quantity::joined;

use super::{layers, parts};
use crate::{
    columns::Columns,
    document::{Block, Cell, Depth, Section, Table, Text},
    names::Named,
    units::{Micros, NONE, capital, grouped, percent, plural},
    wording::{Quantity, tone},
};

/// The most comparisons whose layers are shown.
const MANY: usize = 4;

pub fn section(groups: &[Group<'_>]) -> Option<Section> {
    let unknown = |group: &Group<'_>| group.summary().checks.iter().any(|check| check.id == "server-unknown");
    if groups.first().is_some_and(|group| group.summary().aa || unknown(group)) {
        return None;
    }
    let all: Vec<Compared<'_>> = groups.iter().flat_map(Group::compared).collect();
    let lines: Vec<Line<'_>> = all.iter().filter_map(|one| Line::of(*one)).collect();
    let mut blocks = Vec::new();
    if !lines.is_empty() {
        blocks.extend([Block::Table(table(&lines)), Block::legend(legend(&lines))]);
    }
    let throttled = cases(groups).filter(|(_, case)| !case.throttled.is_empty());
    blocks.extend(throttled.map(|(group, case)| Block::Paragraph(throttling(group, case))));
    let layers = layers(groups, &all);
    // Layers are only there on request, so they are shown.
    let depth = if layers.is_empty() { Depth::Folded } else { Depth::Open };
    blocks.extend(layers);
    parts::section("Why", depth, blocks)
}

/// Layers of the comparisons that rank first: decided ones, then the largest; shown in the order of the cases.
fn layers(groups: &[Group<'_>], all: &[Compared<'_>]) -> Vec<Block> {
    let rank = |(_, one): &(usize, &Compared<'_>)| {
        let size = one.comparison.ratio.estimate.ln().abs();
        (!one.comparison.verdict.differs(), -size)
    };
    let mut chosen: Vec<(usize, &Compared<'_>)> = all.iter().enumerate().collect();
    chosen.sort_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(Ordering::Equal));
    chosen.truncate(MANY);
    chosen.sort_by_key(|(place, _)| *place);
    let mut layers: Vec<Block> = chosen.iter().flat_map(|(_, one)| layers::blocks(**one)).collect();
    if !layers.is_empty() {
        layers.extend(layers::cost(groups));
    }
    layers
}

/// A case's saving per request against its reference.
struct Line<'a> {
    compared: Compared<'a>,
    case: &'a Metrics,
    reference: &'a Metrics,
}

impl<'a> Line<'a> {
    /// The line of a comparison. `None` without figures, or if CPU time is not compared because requests are lost.
    fn of(compared: Compared<'a>) -> Option<Self> {
        let line = Self {
            compared,
            case: compared.case.metrics.as_ref()?,
            reference: compared.reference.metrics.as_ref()?,
        };
        (line.cpu().is_some() || !compared.group.is_one_way()).then_some(line)
    }

    fn cpu(&self) -> Option<&'a Comparison> {
        self.compared
            .group
            .comparison(self.compared.case, Metric::CpuPerRequest)
    }

    fn verdict(&self) -> Cell {
        self.cpu().map_or_else(Cell::default, |cpu| {
            Cell::new(tone(cpu.verdict), Quantity::Cpu.verdict(cpu.verdict))
        })
    }

    fn only_waits(&self) -> bool {
        let is_same = self.cpu().is_some_and(|cpu| cpu.verdict == Verdict::Equivalent);
        is_same && self.compared.comparison.verdict.differs()
    }

    /// CPU time that the case saves in a service.
    fn saved_in(&self, service: &str) -> Option<f64> {
        let of = |metrics: &Metrics| metrics.cpu_per_request.of_role(service);
        Some(of(self.reference)? - of(self.case)?)
    }

    /// Run delay that the case saves, if the two differ for certain.
    fn waiting_saved(&self) -> Option<f64> {
        let saved = self.compared.comparison.run_delay_saved.as_ref()?.all.as_ref()?;
        saved.interval.is_known().then_some(saved.interval.estimate)
    }
}

/// Explains the columns that are present.
fn legend(lines: &[Line<'_>]) -> String {
    let sentences = [
        (true, "Saved: per request, in the services; a minus is a cost."),
        (
            lines.iter().any(|line| line.waiting_saved().is_some()),
            "Waiting: for a CPU, where it is known to differ.",
        ),
        (
            lines.iter().any(Line::only_waits),
            "Where CPU time is equivalent and the rate is not, the difference is time spent waiting.",
        ),
    ];
    let said = sentences.into_iter().filter(|(is_said, _)| *is_said);
    joined(said.map(|(_, sentence)| sentence), " ")
}

fn table(lines: &[Line<'_>]) -> Table {
    let summary = lines[0].compared.group.summary();
    let mut columns = Columns::of(lines)
        .names(parts::case_title(summary), |line| {
            line.compared.group.label(line.compared.case)
        })
        .under(|line| line.compared.group.setting())
        .differences("{} CPU saved", |line| {
            Some(line.reference.cpu_total() - line.case.cpu_total())
        })
        .joined("CPU", Line::verdict);
    let services = &lines[0].reference.cpu_per_request.roles;
    if services.len() > 1 {
        for service in services.keys() {
            columns = columns.differences(format!("{{}} in {service}"), |line| line.saved_in(service));
        }
    }
    columns
        .left("context switches", |line| switches(line.reference, line.case))
        .differences("{} waiting saved", Line::waiting_saved)
        .table()
}

/// `4.0 → 5.3`
fn switches(before: &Metrics, after: &Metrics) -> String {
    let [before, after] = [before, after].map(Metrics::switches_total);
    if before == 0.0 && after == 0.0 {
        return NONE.to_owned();
    }
    format!("{} → {}", grouped(before, 1), grouped(after, 1))
}

/// How long the CPU limits throttled the containers of a case.
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

pub fn place(role: &str) -> &str {
    if role == "driver" { "the driver" } else { role }
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{
        groups::groups,
        summary::{Comparison, Metric},
    };
    use lasthop_stats::Interval;

    use super::Line;
    use crate::fixtures;

    #[test]
    fn waiting_is_shown_where_it_is_known_to_differ() {
        let mut summary = fixtures::shared_cpu();
        let saved = |summary: &_| -> Vec<Option<f64>> {
            let groups = groups(summary);
            let all = groups.iter().flat_map(|group| group.compared());
            all.map(|one| Line::of(one).unwrap().waiting_saved()).collect()
        };
        let [unix, tls] = saved(&summary)[..] else {
            panic!("two alternatives");
        };
        assert!(unix.unwrap() > 5.0 && tls.is_none(), "{unix:?} {tls:?}");
        let of_unix = |one: &&mut Comparison| one.case.starts_with("unix") && one.metric == Metric::Throughput;
        let one = summary.comparisons.iter_mut().find(of_unix).unwrap();
        one.run_delay_saved.as_mut().unwrap().all.as_mut().unwrap().interval = Interval {
            estimate: 8.8,
            low: -0.1,
            high: 20.0,
        };
        assert_eq!(saved(&summary), [None, None]);
    }
}
