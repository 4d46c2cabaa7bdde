//! The lines that answer an experiment's own question, for which its `[answer]` asks.

use std::cmp::Ordering;

use indexmap::IndexMap;
use lasthop_analyse::{
    groups::{Compared, Group, cases, compared_level},
    summary::{CaseSummary, Summary, Verdict},
};
use lasthop_model::quantity::joined;

use super::{
    answer::the,
    effects::{each_said, effects, settings},
    figures::listed,
};
use crate::{
    document::Text,
    names::{Named, compared_name},
    units::{Micros, NBSP, capital, percent, significant},
    wording::margin,
};

/// A loss below this share is none, as a table shows it.
const NO_LOSS: f64 = 0.0005;
/// A loss from this share on is told with its setting.
const LOSS: f64 = 0.05;

/// In a fixed order, none of which need be there.
pub fn lines(summary: &Summary, groups: &[Group<'_>]) -> Vec<Text> {
    let asked = &summary.asked;
    let mut said: Vec<String> = Vec::new();
    if asked.lost {
        said.extend(lost(groups));
        said.extend(waits(groups));
    }
    said.extend(prices(groups, &asked.price));
    said.extend(asked.occupies.iter().filter_map(|level| occupies(groups, level)));
    said.into_iter().map(Text::from).collect()
}

/// What levels of the compared factor cost, compared with the reference.
pub fn prices(groups: &[Group<'_>], levels: &[String]) -> impl Iterator<Item = String> {
    levels.iter().filter_map(|level| price(groups, level))
}

/// The cases of each compared level with their groups, by name.
fn by_name<'a>(groups: &'a [Group<'a>]) -> IndexMap<String, Vec<(&'a Group<'a>, &'a CaseSummary)>> {
    let mut all: IndexMap<String, Vec<(&Group<'_>, &CaseSummary)>> = IndexMap::new();
    for (group, case) in cases(groups).filter(|(_, case)| case.metrics.is_some()) {
        let name = the(compared_name(group.summary(), case));
        all.entry(name).or_default().push((group, case));
    }
    all
}

fn loss(case: &CaseSummary) -> Option<f64> {
    Some(case.metrics.as_ref()?.one_way.as_ref()?.lost)
}

/// `The Unix datagram socket lost nothing; UDP lost 87.0 % (20 metrics) and up to 4.7 % elsewhere.`
fn lost(groups: &[Group<'_>]) -> Option<String> {
    let mut nothing = vec![];
    let mut something = vec![];
    let all = by_name(groups);
    for (name, cases) in &all {
        let losses = cases.iter().filter_map(|(group, case)| Some((*group, loss(case)?)));
        let (much, little): (Vec<_>, Vec<_>) = losses.partition(|(_, share)| *share >= LOSS);
        let most = little.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let much = much.iter();
        let mut told: Vec<String> = much
            .map(|(group, share)| percent(*share, 1) + &group.in_brackets())
            .collect();
        if most >= NO_LOSS {
            let elsewhere = if told.is_empty() { "" } else { " elsewhere" };
            told.push(format!("up to {}{elsewhere}", percent(most, 1)));
        }
        if !told.is_empty() {
            something.push(format!("{name} lost {}", told.join(", ")));
        } else if !little.is_empty() {
            nothing.push(name.as_str());
        }
    }
    let none = (!nothing.is_empty()).then(|| format!("{} lost nothing", listed(&nothing)));
    one_sentence(none.into_iter().chain(something))
}

fn one_sentence(parts: impl IntoIterator<Item = String>) -> Option<String> {
    let parts = joined(parts, "; ");
    (!parts.is_empty()).then(|| format!("{}.", capital(&parts)))
}

/// What it costs the sender that nothing is lost, where it costs most.
fn waits(groups: &[Group<'_>]) -> Option<String> {
    let p50 = |case: &CaseSummary| Some(case.metrics.as_ref()?.latency_p50.as_ref()?.estimate);
    let waits = |(group, case): &(&Group<'_>, &CaseSummary)| {
        loss(group.head()).is_some_and(|share| share >= LOSS) && loss(case).is_some_and(|share| share < NO_LOSS)
    };
    let (group, case) = cases(groups).filter(waits).max_by(
        |one: &(&Group<'_>, &CaseSummary), other: &(&Group<'_>, &CaseSummary)| {
            p50(one.1).partial_cmp(&p50(other.1)).unwrap_or(Ordering::Equal)
        },
    )?;
    let ours = p50(case)?;
    let theirs = p50(group.head())?;
    (ours > theirs).then(|| {
        let [name, other] = [case, group.head()].map(|case| the(compared_name(group.summary(), case)));
        format!(
            "What is not lost waits: a send by {name} takes up to {}, by {other} {}{}.",
            Micros(ours),
            Micros(theirs),
            group.in_brackets()
        )
    })
}

fn has_level(case: &CaseSummary, level: &str) -> bool {
    compared_level(case).is_some_and(|own| own.word() == Some(level))
}

fn price(groups: &[Group<'_>], level: &str) -> Option<String> {
    let all = groups.iter().flat_map(Group::compared);
    let all: Vec<Compared<'_>> = all.filter(|one| has_level(one.case, level)).collect();
    let first = all.first()?;
    let summary = first.group.summary();
    let [name, reference] = [first.case, first.reference].map(|case| the(compared_name(summary, case)));
    let decided: Vec<&Compared<'_>> = all.iter().filter(|one| one.comparison.verdict.differs()).collect();
    let with = |verdict| settings(all.iter().filter(move |one| one.comparison.verdict == verdict));
    let within = format!("within {} of {reference}", margin(summary.settings.margin));
    let mut said = each_said([
        (with(Verdict::Equivalent), within.as_str()),
        (with(Verdict::Undecided), "undecided"),
    ]);
    if !decided.is_empty() {
        said.insert(0, effects(&decided, &reference));
    }
    Some(format!("{}: {}.", capital(&name), said.join("; ")))
}

/// How many CPUs a level of the compared factor keeps busy, and the reference.
fn occupies(groups: &[Group<'_>], level: &str) -> Option<String> {
    let busy = |case: &CaseSummary| {
        let cpus = case.metrics.as_ref()?.cpus_busy();
        Some(format!("{}{NBSP}CPUs", significant(cpus, 2)))
    };
    let mut names = None;
    let mut said = [vec![], vec![]];
    for group in groups {
        let Some(own) = group.cases.iter().find(|case| has_level(case, level)) else {
            continue;
        };
        let both = [own, group.head()];
        let [Some(ours), Some(theirs)] = both.map(busy) else {
            continue;
        };
        names = Some(both.map(|case| the(compared_name(group.summary(), case))));
        said[0].push(ours + &group.in_brackets());
        said[1].push(theirs + &group.in_brackets());
    }
    let [name, reference] = names?;
    let [ours, theirs] = said.map(|all| all.join(", "));
    Some(format!("{} keeps {ours} busy; {reference} {theirs}.", capital(&name)))
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::{Measured, OneWay};

    use super::*;
    use lasthop_analyse::groups::groups;

    use crate::fixtures;

    fn said(summary: &Summary) -> Vec<String> {
        lines(summary, &groups(summary))
            .iter()
            .map(|line| line.to_string().replace(NBSP, " "))
            .collect()
    }

    fn micros(estimate: f64, half: f64) -> Measured {
        Measured {
            unit: "us".into(),
            estimate,
            low: estimate - half,
            high: estimate + half,
        }
    }

    #[test]
    fn nothing_is_said_that_was_not_asked() {
        for (name, summary) in fixtures::all() {
            assert_eq!(said(&summary), [""; 0], "{name}");
        }
    }

    #[test]
    fn what_was_lost_and_what_that_spares_the_sender() {
        let mut summary = fixtures::patterns();
        let losses = [0.0, 0.87, 0.002, 0.0, 0.01, 0.0, 0.0, 0.99, 0.0];
        for (case, lost) in summary.cases.iter_mut().zip(losses) {
            let one_way = OneWay {
                sent: 9,
                received: 9,
                dropped: None,
                lost,
                sent_per_s: 9.0,
                waited: 0.0,
                cpu_us_per_sent: 0.0,
            };
            let metrics = case.metrics.as_mut().unwrap();
            metrics.one_way = Some(one_way);
            if case.case == "unix/pattern=stream" {
                metrics.latency_p50 = Some(micros(5_120.0, 1.0));
            }
        }
        summary.asked.lost = true;
        assert_eq!(
            said(&summary),
            [
                "The Unix socket lost nothing; TCP lost 87.0 % (hello), 99.0 % (stream), up to 1.0 % elsewhere; TLS over TCP \
                 lost up to 0.2 %.",
                "What is not lost waits: a send by the Unix socket takes up to 5.12 ms, by TCP 1.99 ms (stream)."
            ]
        );
    }

    #[test]
    fn a_price_and_busy_cpus_are_those_of_a_level() {
        let mut summary = fixtures::three_transports();
        summary.asked.price = vec!["tls".into()];
        summary.asked.occupies = vec!["unix".into()];
        assert_eq!(
            said(&summary),
            [
                "TLS over TCP: 0.69 times the requests/s of TCP and 7.0 µs more CPU a request.",
                "The Unix socket keeps 0.32 CPUs busy; TCP 0.30 CPUs."
            ]
        );
    }
}
