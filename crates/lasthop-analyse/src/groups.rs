//! Groups of cases: a reference, and the cases that are compared with it.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use lasthop_model::{
    level::{Level, Levels},
    quantity::joined,
};

use super::summary::{CaseSummary, Check, Comparison, Materiality, Metric, Metrics, Summary};

/// The level of the compared factor.
#[must_use]
pub fn compared_level<'a>(summary: &Summary, case: &'a CaseSummary) -> Option<&'a Level> {
    case.levels.get(&summary.compared)
}

/// The levels of a case, except that of the compared factor.
pub fn other_levels<'a>(summary: &Summary, case: &'a CaseSummary) -> impl Iterator<Item = (&'a String, &'a Level)> {
    case.levels.iter().filter(|(factor, _)| **factor != summary.compared)
}

/// A reference and the cases that are compared with it.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    summary: &'a Summary,
    /// Cases in the order of the summary, including the reference.
    pub cases: Vec<&'a CaseSummary>,
    /// Levels that distinguish this group from others, such as connections = 10. Empty if there is only one group.
    pub levels: Levels,
}

/// A case that has a comparison with its reference.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub group: &'a Group<'a>,
    pub case: &'a CaseSummary,
    pub reference: &'a CaseSummary,
    /// The comparison by the declared quantity: requests/s, bytes/s, or the median response time in open loops.
    pub comparison: &'a Comparison,
}

/// The groups of a summary, in the order of their first cases.
#[must_use]
pub fn groups(summary: &Summary) -> Vec<Group<'_>> {
    let mut found: IndexMap<&str, Vec<&CaseSummary>> = IndexMap::new();
    let mut references: HashMap<&str, &str> = HashMap::new();
    for comparison in &summary.comparisons {
        references.entry(&comparison.case).or_insert(&comparison.reference);
    }
    for case in &summary.cases {
        let compared_with = references.get(case.case.as_str()).copied();
        let key = compared_with.filter(|_| !case.reference);
        let key = key.unwrap_or_else(|| group_key(summary, case));
        found.entry(key).or_default().push(case);
    }
    let groups = found.into_values().map(|cases| Group {
        summary,
        cases,
        levels: Levels::default(),
    });
    let mut groups: Vec<Group<'_>> = groups.collect();
    set_apart(summary, &mut groups);
    groups
}

/// Name of the case that identifies a case's group: the reference, or without a comparison the first case that could
/// share one.
fn group_key<'a>(summary: &'a Summary, case: &'a CaseSummary) -> &'a str {
    if case.reference {
        return &case.case;
    }
    let mut alike = summary.cases.iter().filter(|other| agree(summary, case, other));
    let first = alike.clone().next().unwrap_or(case);
    &alike.find(|other| other.reference).unwrap_or(first).case
}

/// Whether two cases have equal levels of all factors that apply to both, except the compared factor.
fn agree(summary: &Summary, one: &CaseSummary, other: &CaseSummary) -> bool {
    other_levels(summary, one).all(|(factor, level)| other.levels.get(factor).is_none_or(|same| same == level))
}

fn set_apart(summary: &Summary, groups: &mut [Group<'_>]) {
    let Some(first) = groups.first() else { return };
    let shared = other_levels(summary, first.head()).filter(|(factor, level): &(&String, &Level)| {
        let mut heads = groups.iter().map(Group::head);
        heads.all(|head| head.levels.get(*factor) == Some(*level))
    });
    let shared: HashSet<&String> = shared.map(|(factor, _)| factor).collect();
    for group in groups {
        let varying = other_levels(summary, group.head()).filter(|(factor, _)| !shared.contains(factor));
        group.levels = varying.map(|(factor, level)| (factor.clone(), level.clone())).collect();
    }
}

/// All cases, each with its group.
pub fn cases<'a>(groups: &'a [Group<'a>]) -> impl Iterator<Item = (&'a Group<'a>, &'a CaseSummary)> + Clone {
    groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group, *case)))
}

impl<'a> Group<'a> {
    /// The reference, or the first case if there is none.
    #[must_use]
    pub fn head(&self) -> &'a CaseSummary {
        let reference = self.cases.iter().find(|case| case.reference);
        reference.unwrap_or(&self.cases[0])
    }

    /// The levels of the group's setting as text: those of the reference, without the compared factor.
    #[must_use]
    pub fn setting_levels(&self) -> IndexMap<String, String> {
        other_levels(self.summary, self.head())
            .map(|(factor, level)| (factor.clone(), level.to_string()))
            .collect()
    }

    #[must_use]
    pub fn summary(&self) -> &'a Summary {
        self.summary
    }

    #[must_use]
    pub fn comparison(&self, case: &CaseSummary, metric: Metric) -> Option<&'a Comparison> {
        self.summary.comparison(case, metric)
    }

    /// The comparison that verdicts are about.
    #[must_use]
    pub fn declared(&self, case: &CaseSummary) -> Option<&'a Comparison> {
        self.summary.declared(case)
    }

    /// The check by which a case or its reference must not be used.
    #[must_use]
    pub fn invalid(&self, case: &CaseSummary) -> Option<&'a Check> {
        self.summary.invalid(&case.case, &self.head().case)
    }

    /// Usable cases that have a comparison, in order.
    pub fn compared<'b>(&'b self) -> impl Iterator<Item = Compared<'b>>
    where
        'a: 'b,
    {
        self.cases.iter().filter_map(|case| self.compare(case))
    }

    /// The comparison of a case, if the case can be used.
    #[must_use]
    pub fn compare<'b>(&'b self, case: &'b CaseSummary) -> Option<Compared<'b>>
    where
        'a: 'b,
    {
        self.invalid(case).is_none().then_some(Compared {
            group: self,
            case,
            reference: self.head(),
            comparison: self.declared(case)?,
        })
    }

    /// Unusable cases that have a comparison, each with the reason.
    pub fn unusable(&self) -> impl Iterator<Item = (&'a CaseSummary, &'a Check)> {
        let compared = self.cases.iter().filter(|case| self.declared(case).is_some());
        compared.filter_map(|&case| Some((case, self.invalid(case)?)))
    }

    /// Levels, except the compared level, by which a case differs from its reference.
    pub fn extras<'b>(&'b self, case: &'b CaseSummary) -> impl Iterator<Item = (&'b String, &'b Level)> {
        let own = &self.head().levels;
        other_levels(self.summary, case).filter(|(factor, level)| own.get(*factor).is_some_and(|own| own != *level))
    }

    /// Name of a case within its group, as on the command line: `unix`, or `unix, connections=10` if that also differs
    /// from the reference. The name is the same in all groups.
    #[must_use]
    pub fn alternative(&self, case: &CaseSummary) -> String {
        let level = compared_level(self.summary, case).map_or_else(|| case.case.clone(), Level::to_string);
        let extras = self.extras(case).map(|(factor, level)| format!("{factor}={level}"));
        joined(std::iter::once(level).chain(extras), ", ")
    }

    /// Whether to show bytes per second instead of requests per second: in a closed loop, if all measured cases stream
    /// or move payloads of 64 KiB or more.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.all_measured(|case, metrics| {
            let load = &case.load;
            let is_large = load.protocol == "stream" || load.bytes.is_some_and(|bytes| bytes >= 1 << 16);
            metrics.bandwidth.is_some() && is_large && !load.is_open()
        })
    }

    /// Whether all measured cases send one way.
    #[must_use]
    pub fn is_one_way(&self) -> bool {
        self.all_measured(|_, metrics| metrics.one_way.is_some())
    }

    /// Whether all measured cases meet a condition, and there are any.
    fn all_measured(&self, is: impl Fn(&CaseSummary, &Metrics) -> bool) -> bool {
        let measured = self
            .cases
            .iter()
            .filter_map(|case| Some((case, case.metrics.as_ref()?)));
        let mut measured = measured.peekable();
        measured.peek().is_some() && measured.all(|(case, metrics)| is(case, metrics))
    }
}

impl Compared<'_> {
    /// The logarithm of the gain: how much better the case is than the reference.
    #[must_use]
    pub fn gain(&self) -> f64 {
        let log = self.comparison.ratio.estimate.ln();
        if self.comparison.metric == Metric::LatencyP50 {
            -log
        } else {
            log
        }
    }

    /// The saved CPU time of the services, if it is known to differ.
    #[must_use]
    pub fn cpu(&self) -> Option<&Materiality> {
        let comparison = self.group.comparison(self.case, Metric::CpuPerRequest)?;
        let materiality = comparison.materiality.as_ref()?;
        (comparison.verdict.differs() && materiality.saved_us.is_known()).then_some(materiality)
    }
}
