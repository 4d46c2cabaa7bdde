//! Groups cases, and names them in tables and sentences.
//!
//! A group is a reference and the cases that are compared with it. The subtitle says once what all groups share, the
//! setting of a group says how it differs from the others, and the label of a case how it differs within its group.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use lasthop_analyse::summary::{CaseSummary, Check, Comparison, Metric, Metrics, Summary};

use lasthop_model::{level::Level, quantity::joined};
use lasthop_protocol::spec::Transport;

use super::units::{Bytes, NBSP, grouped};

/// The factors that can be compared. A run has one of them.
const COMPARED: [&str; 2] = ["path", "transport"];

/// The level of the factor under comparison.
#[must_use]
pub fn compared_level(case: &CaseSummary) -> Option<&Level> {
    COMPARED.iter().find_map(|factor| case.levels.get(*factor))
}

/// Whether a factor is one of those that can be compared.
#[must_use]
pub fn is_compared(factor: &str) -> bool {
    COMPARED.contains(&factor)
}

/// Name of the factor under comparison.
#[must_use]
pub fn compared_factor(summary: &Summary) -> &'static str {
    COMPARED
        .into_iter()
        .find(|factor| summary.cases.iter().any(|case| case.levels.contains_key(*factor)))
        .unwrap_or("transport")
}

/// A reference and the cases that are compared with it.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    summary: &'a Summary,
    /// In the order of the summary, reference included.
    pub cases: Vec<&'a CaseSummary>,
    /// What sets this group apart from the others, for example `10 connections`; empty when there is one group.
    pub setting: String,
}

/// A case that has a comparison with its reference.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub group: &'a Group<'a>,
    pub case: &'a CaseSummary,
    pub reference: &'a CaseSummary,
    /// Compared by the declared quantity: requests/s, bytes/s, or in open loops the median response time.
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
        setting: String::new(),
    });
    let mut groups: Vec<Group<'_>> = groups.collect();
    name_settings(&mut groups);
    groups
}

/// Name of the case that identifies the group of one without a comparison: the reference, or the first that could share
/// one.
fn group_key<'a>(summary: &'a Summary, case: &'a CaseSummary) -> &'a str {
    if case.reference {
        return &case.case;
    }
    let mut alike = summary.cases.iter().filter(|other| agree(case, other));
    let first = alike.clone().next().unwrap_or(case);
    &alike.find(|other| other.reference).unwrap_or(first).case
}

/// Whether two cases have the same level of every factor that applies to both, except the compared one.
fn agree(one: &CaseSummary, other: &CaseSummary) -> bool {
    other_levels(one).all(|(factor, level)| other.levels.get(factor).is_none_or(|same| same == level))
}

fn other_levels(case: &CaseSummary) -> impl Iterator<Item = (&String, &Level)> {
    case.levels.iter().filter(|(factor, _)| !is_compared(factor))
}

fn name_settings(groups: &mut [Group<'_>]) {
    let Some(first) = groups.first() else { return };
    let shared = other_levels(first.head()).filter(|(factor, level): &(&String, &Level)| {
        let mut heads = groups.iter().map(Group::head);
        heads.all(|head| head.levels.get(*factor) == Some(*level))
    });
    let shared: HashSet<&String> = shared.map(|(factor, _)| factor).collect();
    for group in groups {
        let varying = other_levels(group.head()).filter(|(factor, _)| !shared.contains(factor));
        group.setting = phrases(group.summary, varying);
    }
}

/// All cases, each with its group.
pub fn cases<'a>(groups: &'a [Group<'a>]) -> impl Iterator<Item = (&'a Group<'a>, &'a CaseSummary)> + Clone {
    groups
        .iter()
        .flat_map(|group| group.cases.iter().map(move |case| (group, *case)))
}

/// A case by its short name and setting. An unknown name stays as it is.
#[must_use]
pub fn short_name(groups: &[Group<'_>], name: &str) -> String {
    match cases(groups).find(|(_, case)| case.case == name) {
        Some((group, case)) => group.label(case) + &group.in_brackets(),
        None => name.to_owned(),
    }
}

/// Levels that all cases have, in words.
#[must_use]
pub fn constants(summary: &Summary) -> String {
    let Some(first) = summary.cases.first() else {
        return String::new();
    };
    phrases(
        summary,
        other_levels(first).filter(|(factor, level): &(&String, &Level)| {
            let mut all = summary.cases.iter().filter_map(|case| case.levels.get(*factor));
            all.all(|other| other == *level)
        }),
    )
}

impl<'a> Group<'a> {
    /// The reference, or the first case if there is none.
    #[must_use]
    pub fn head(&self) -> &'a CaseSummary {
        let reference = self.cases.iter().find(|case| case.reference);
        reference.unwrap_or(&self.cases[0])
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

    /// Cases that have a comparison and may be used, in order.
    pub fn compared<'b>(&'b self) -> impl Iterator<Item = Compared<'b>>
    where
        'a: 'b,
    {
        self.cases.iter().filter_map(|case| self.compare(case))
    }

    /// The comparison of a case, if it may be used.
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

    /// Cases that have a comparison and must not be used, with the reason.
    pub fn unusable(&self) -> impl Iterator<Item = (&'a CaseSummary, &'a Check)> {
        let compared = self.cases.iter().filter(|case| self.declared(case).is_some());
        compared.filter_map(|&case| Some((case, self.invalid(case)?)))
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

    /// Whether nothing comes back, in all measured cases.
    #[must_use]
    pub fn is_one_way(&self) -> bool {
        self.all_measured(|_, metrics| metrics.one_way.is_some())
    }

    /// Whether all measured cases are so, of which there is one.
    fn all_measured(&self, is: impl Fn(&CaseSummary, &Metrics) -> bool) -> bool {
        let measured = self
            .cases
            .iter()
            .filter_map(|case| Some((case, case.metrics.as_ref()?)));
        let mut measured = measured.peekable();
        measured.peek().is_some() && measured.all(|(case, metrics)| is(case, metrics))
    }

    /// The setting behind what it is of: ` (echo, 64 B)`; empty when there is one group.
    #[must_use]
    pub fn in_brackets(&self) -> String {
        if self.setting.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.setting)
        }
    }

    /// Short name of a case within its group, in the words of the command line.
    #[must_use]
    pub fn label(&self, case: &CaseSummary) -> String {
        let level = compared_level(case).map_or_else(|| case.case.clone(), Level::to_string);
        let label = self.with_extras(case, &level);
        let head = self.head();
        if case.case == head.case || case.levels != head.levels {
            return label;
        }
        // In an A/A run both have the same levels. The first part of the name distinguishes them.
        match case.case.split('/').next() {
            Some(first) if head.case.split('/').next() != Some(first) => self.with_extras(case, first),
            _ => case.case.clone(),
        }
    }

    /// Name of a case within its group for a sentence.
    #[must_use]
    pub fn name(&self, case: &CaseSummary) -> String {
        match compared_level(case) {
            Some(_) => self.with_extras(case, compared_name(self.summary, case)),
            None => case.case.clone(),
        }
    }

    /// The name, and the levels besides the transport by which the case differs from its reference.
    fn with_extras(&self, case: &CaseSummary, name: &str) -> String {
        let own = &self.head().levels;
        let extras = phrases(
            self.summary,
            other_levels(case)
                .filter(|(factor, level): &(&String, &Level)| own.get(*factor).is_some_and(|own| own != *level)),
        );
        if extras.is_empty() {
            name.to_owned()
        } else {
            format!("{name}, {extras}")
        }
    }
}

/// What is compared, of a case, for a sentence: in the experiment's words or the usual ones.
#[must_use]
pub fn compared_name<'a>(summary: &'a Summary, case: &'a CaseSummary) -> &'a str {
    let found = COMPARED
        .iter()
        .find_map(|factor| Some((factor, case.levels.get(*factor)?.word()?)));
    found.map_or(&case.case, |(factor, level)| {
        label(summary, factor, level).unwrap_or_else(|| transport_name(level))
    })
}

/// The experiment's own words for a level.
fn label<'a>(summary: &'a Summary, factor: &str, level: &str) -> Option<&'a str> {
    Some(summary.labels.get(factor)?.get(level)?)
}

/// The usual name of a transport, also of one that only records of earlier versions have. An unknown word stays as it is.
fn transport_name(level: &str) -> &str {
    let mut known = Transport::ALL.into_iter().chain([Transport::Mqueue]);
    known
        .find(|transport| transport.name() == level)
        .map_or(level, |transport| transport.title())
}

/// Levels in words.
pub fn phrases<'a>(summary: &Summary, levels: impl Iterator<Item = (&'a String, &'a Level)>) -> String {
    joined(levels.map(|(factor, level)| phrase(summary, factor, level)), ", ")
}

/// A level in words: `10 connections`, `64 B`, `nodelay off`, `echo`, or those of the experiment.
pub fn phrase(summary: &Summary, factor: &str, level: &Level) -> String {
    match label(summary, factor, &level.to_string()) {
        Some(label) => label.to_owned(),
        None => usual(factor, level),
    }
}

fn usual(factor: &str, level: &Level) -> String {
    let several = factor.strip_suffix('s');
    match (factor, level, several) {
        ("rate", Level::Int(0), _) => "closed loop".to_owned(),
        ("rate", Level::Int(rate), _) => format!("{}{NBSP}requests/s", count(*rate)),
        ("size", Level::Int(bytes), _) => Bytes(bytes.unsigned_abs()).to_string(),
        (_, Level::Int(1), Some(one)) => format!("1{NBSP}{one}"),
        (_, Level::Int(number), Some(_)) => format!("{}{NBSP}{factor}", count(*number)),
        (_, Level::Int(number), None) => format!("{factor}{NBSP}{}", count(*number)),
        (_, Level::Bool(true), _) => format!("{factor}{NBSP}on"),
        (_, Level::Bool(false), _) => format!("{factor}{NBSP}off"),
        (_, Level::Text(word), _) => match word.as_str() {
            "none" => format!("no{NBSP}{factor}"),
            "on" | "off" => format!("{factor}{NBSP}{word}"),
            word => word.to_owned(),
        },
    }
}

fn count(number: i64) -> String {
    grouped(number as f64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::three_transports;

    #[test]
    fn levels_read_as_words() {
        for (factor, level, expected) in [
            ("connections", "1", "1 connection"),
            ("connections", "1000", "1,000 connections"),
            ("size", "65536", "64 KiB"),
            ("rate", "2048", "2,048 requests/s"),
            ("rate", "0", "closed loop"),
            ("nodelay", "true", "nodelay on"),
            ("nodelay", "false", "nodelay off"),
            ("pattern", "echo", "echo"),
            ("tw_reuse", "off", "tw_reuse off"),
            ("depth", "16", "depth 16"),
            ("backlog", "1024", "backlog 1,024"),
            ("handler", "none", "no handler"),
            ("handler", "sleep-10ms", "sleep-10ms"),
        ] {
            assert_eq!(usual(factor, &level.into()).replace(NBSP, " "), expected);
        }
    }

    #[test]
    fn an_experiment_has_words_of_its_own() {
        let mut summary = three_transports();
        let labels = [("limit", "free", "no limit at all"), ("transport", "unix", "pigeon")];
        for (factor, level, label) in labels {
            summary.labels.insert(
                factor.to_owned(),
                IndexMap::from([(level.to_owned(), label.to_owned())]),
            );
        }
        assert_eq!(phrase(&summary, "limit", &"free".into()), "no limit at all");
        assert_eq!(phrase(&summary, "limit", &"half".into()), "half");
        let names: Vec<&str> = summary.cases.iter().map(|case| compared_name(&summary, case)).collect();
        assert_eq!(names, ["pigeon", "TCP", "TLS over TCP"]);
    }

    #[test]
    fn an_unknown_transport_keeps_its_word() {
        assert_eq!(transport_name("carrier-pigeon"), "carrier-pigeon");
    }
}
