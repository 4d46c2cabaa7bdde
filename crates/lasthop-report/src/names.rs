//! Names of cases and settings in tables and sentences.
//!
//! The subtitle names the levels that all groups share, the setting of a group its differences from other groups, and
//! the label of a case its differences within the group.

use lasthop_analyse::{
    groups::{Group, cases, compared_level, other_levels},
    summary::{CaseSummary, Summary},
};
use lasthop_model::{level::Level, quantity::joined, selection::is_way};
use lasthop_trial::address::Transport;

use super::units::{Bytes, NBSP, grouped};

/// The names of a group and its cases.
pub trait Named {
    /// The levels that set the group apart, such as `10 connections`; empty if there is one group.
    fn setting(&self) -> String;
    /// The setting as a suffix: ` (echo, 64 B)`; empty if there is one group.
    fn in_brackets(&self) -> String;
    /// Short name of a case within its group, in the words of the command line.
    fn label(&self, case: &CaseSummary) -> String;
    /// Name of a case within its group for a sentence.
    fn name(&self, case: &CaseSummary) -> String;
}

impl Named for Group<'_> {
    fn setting(&self) -> String {
        phrases(self.summary(), self.levels.iter())
    }

    fn in_brackets(&self) -> String {
        let setting = self.setting();
        if setting.is_empty() {
            setting
        } else {
            format!(" ({setting})")
        }
    }

    fn label(&self, case: &CaseSummary) -> String {
        let level = compared_level(self.summary(), case).map_or_else(|| case.case.clone(), Level::to_string);
        let label = with_extras(self, case, &level);
        let head = self.head();
        if case.case == head.case || case.levels != head.levels {
            return label;
        }
        // In an A/A run both cases have equal levels. The first part of the name distinguishes them.
        match case.case.split('/').next() {
            Some(first) if head.case.split('/').next() != Some(first) => with_extras(self, case, first),
            _ => case.case.clone(),
        }
    }

    fn name(&self, case: &CaseSummary) -> String {
        match compared_level(self.summary(), case) {
            Some(_) => with_extras(self, case, &compared_name(self.summary(), case)),
            None => case.case.clone(),
        }
    }
}

/// The name with all levels besides the transport that differ from the reference.
fn with_extras(group: &Group<'_>, case: &CaseSummary, name: &str) -> String {
    let extras = phrases(group.summary(), group.extras(case));
    if extras.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {extras}")
    }
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
        other_levels(summary, first).filter(|(factor, level): &(&String, &Level)| {
            let mut all = summary.cases.iter().filter_map(|case| case.levels.get(*factor));
            all.all(|other| other == *level)
        }),
    )
}

/// The case's level of the compared factor for a sentence, in the experiment's words or the usual ones.
#[must_use]
pub fn compared_name(summary: &Summary, case: &CaseSummary) -> String {
    let factor = summary.compared.as_str();
    match compared_level(summary, case) {
        None => case.case.clone(),
        Some(Level::Text(word)) if is_way(factor) && label(summary, factor, word).is_none() => {
            transport_name(word).to_owned()
        }
        Some(level) => phrase(summary, factor, level),
    }
}

/// The experiment's own words for a level.
fn label<'a>(summary: &'a Summary, factor: &str, level: &str) -> Option<&'a str> {
    Some(summary.labels.get(factor)?.get(level)?)
}

/// The usual name of a transport, including those that only records of earlier versions have. An unknown word stays as
/// it is.
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

/// A level in words: `10 connections`, `64 B`, `nodelay off`, `echo`, or the experiment's own words.
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
    use indexmap::IndexMap;

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
        let names: Vec<_> = summary.cases.iter().map(|case| compared_name(&summary, case)).collect();
        assert_eq!(names, ["pigeon", "TCP", "TLS over TCP"]);
    }

    #[test]
    fn an_unknown_transport_keeps_its_word() {
        assert_eq!(transport_name("carrier-pigeon"), "carrier-pigeon");
    }
}
