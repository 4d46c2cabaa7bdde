//! The lines that answer an experiment's own question, for which its `[answer]` asks.

use std::cmp::Ordering;

use indexmap::IndexMap;
use lasthop_analyse::summary::{CaseSummary, Derived, Measured, Outside, Summary, Verdict, Weighed};
use lasthop_model::{level::Level, quantity::joined};

use super::{
    answer::the,
    effects::{each_said, effects, settings, time},
    figures::listed,
};
use crate::{
    document::Text,
    groups::{Compared, Group, cases, compared_level, compared_name, is_compared, phrase, phrases},
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
    said.extend(asked.until.iter().flat_map(|quantity| until(summary, quantity)));
    said.extend(summary.weighed.iter().map(|weighed| which(summary, weighed)));
    said.extend(costs(summary, &asked.costs));
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

/// From which level on a difference is within the margin.
fn until(summary: &Summary, quantity: &str) -> Vec<String> {
    let of = |derived: &Derived| {
        let factor = derived.over.as_deref()?;
        let within = margin(summary.settings.margin);
        let who = the(derived.transport.title());
        let level = |value: f64| phrase(summary, factor, &Level::Int(value.round() as i64));
        let number = |case: &CaseSummary| match case.levels.get(factor)? {
            Level::Int(number) => Some(*number as f64),
            Level::Bool(_) | Level::Text(_) => None,
        };
        let levels = || summary.cases.iter().filter_map(number);
        let least = level(levels().fold(f64::INFINITY, f64::min));
        let most = level(levels().fold(0.0, f64::max));
        let what = capital(&derived.help);
        Some(match (&derived.value, derived.outside) {
            (Some(at), _) => {
                format!(
                    "{what}: {who} differs by less than {within} from {} on.",
                    level(at.estimate)
                )
            }
            (None, Some(Outside::Before)) => {
                format!("{what}: {who} differs by less than {within} at each, from {least} to {most}.")
            }
            (None, Some(Outside::Beyond)) => {
                format!("{what}: none up to {most}, the largest that ran, ends the difference of {who}.")
            }
            (None, Some(Outside::Open)) => {
                format!("{what}: from which on {who} differs by less than {within} is undecided.")
            }
            (None, None) => return None,
        })
    };
    let all = summary.derived.iter().filter(|derived| derived.quantity == quantity);
    all.filter_map(of).collect()
}

/// Which of two quantities is larger.
fn which(summary: &Summary, weighed: &Weighed) -> String {
    let Weighed {
        helps: [one, other],
        values: [first, second],
        difference,
        ..
    } = weighed;
    let told = |help: &str, value: &Measured| format!("{} ({})", short(help), time_of(value.estimate));
    let [one, other] = [told(one, first), told(other, second)];
    let said = match (difference.low > 0.0, difference.high < 0.0) {
        (true, _) => format!("{one} costs more than {other}"),
        (_, true) => format!("{other} costs more than {one}"),
        _ => format!("undecided which costs more, {one} or {other}"),
    };
    let words = phrases(summary, weighed.levels.iter());
    let said = if words.is_empty() {
        said
    } else {
        format!("{words}: {said}")
    };
    format!("{}.", capital(&said))
}

/// With its sign, if it is a saving.
fn time_of(micros: f64) -> String {
    if micros < 0.0 {
        format!("−{}", time(-micros))
    } else {
        time(micros)
    }
}

/// The words up to the first explanation.
pub fn short(help: &str) -> &str {
    help.split([':', ',']).next().unwrap_or(help).trim()
}

/// What derived quantities cost by each transport.
fn costs(summary: &Summary, quantities: &[String]) -> Option<String> {
    let mut said = Vec::new();
    for quantity in quantities {
        let all: Vec<&Derived> = summary.derived.iter().filter(|one| one.quantity == *quantity).collect();
        let mut by_levels: IndexMap<String, Vec<&Derived>> = IndexMap::new();
        for one in &all {
            by_levels.entry(varying(summary, &all, one)).or_default().push(one);
        }
        said.extend(by_levels.iter().filter_map(|(setting, all)| cost(setting, all)));
    }
    one_sentence(said)
}

/// The levels that vary within a quantity, besides what is compared.
pub fn varying(summary: &Summary, all: &[&Derived], one: &Derived) -> String {
    phrases(
        summary,
        one.levels.iter().filter(|(factor, level): &(&String, &Level)| {
            !is_compared(factor) && all.iter().any(|other| other.levels.get(*factor) != Some(*level))
        }),
    )
}

/// `one more query on a connection costs 44 µs by TCP, 16 µs less by the Unix socket`
fn cost(setting: &str, all: &[&Derived]) -> Option<String> {
    let own = |one: &Derived| {
        let value = one.value.as_ref()?;
        Some(match (value.low > 0.0, value.high < 0.0) {
            (true, _) => format!("costs {}", time(value.estimate)),
            (_, true) => format!("saves {}", time(-value.estimate)),
            _ => "has no measurable cost".to_owned(),
        })
    };
    let against = |more: &Measured| match (more.low > 0.0, more.high < 0.0) {
        (true, _) => format!("{} more", time(more.estimate)),
        (_, true) => format!("{} less", time(-more.estimate)),
        _ => "undecided".to_owned(),
    };
    let (reference, others): (Vec<&Derived>, Vec<&Derived>) =
        all.iter().copied().partition(|one| one.against_reference.is_none());
    let said = joined(
        reference.into_iter().chain(others).filter_map(|one| {
            let cost = one.against_reference.as_ref().map(against).or_else(|| own(one))?;
            Some(format!("{cost} by {}", the(one.transport.title())))
        }),
        ", ",
    );
    let setting = if setting.is_empty() {
        String::new()
    } else {
        format!(" ({setting})")
    };
    (!said.is_empty()).then(|| format!("{} {said}{setting}", short(&all[0].help)))
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
    use lasthop_analyse::summary::OneWay;
    use lasthop_protocol::spec::Transport;

    use super::*;
    use crate::{fixtures, groups::groups};

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

    fn derived(transport: Transport, value: Option<Measured>, against: Option<Measured>) -> Derived {
        Derived {
            quantity: "row".into(),
            help: "one more row, the slope over rows".into(),
            levels: IndexMap::new(),
            transport,
            value,
            intercept: None,
            against_reference: against,
            over: None,
            outside: None,
        }
    }

    #[test]
    fn nothing_is_said_that_was_not_asked() {
        for (name, mut summary) in fixtures::all() {
            summary.derived = vec![derived(Transport::Tcp, Some(micros(44.0, 1.0)), None)];
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
    fn costs_are_told_by_each_transport() {
        let mut summary = fixtures::three_transports();
        summary.derived = vec![
            derived(Transport::Unix, Some(micros(28.0, 1.0)), Some(micros(-16.0, 2.0))),
            derived(Transport::Tcp, Some(micros(44.0, 1.0)), None),
            derived(Transport::Tls, Some(micros(45.0, 1.0)), Some(micros(1.0, 2.0))),
        ];
        summary.asked.costs = vec!["row".into(), "missing".into()];
        assert_eq!(
            said(&summary),
            ["One more row costs 44 µs by TCP, 16 µs less by the Unix socket, undecided by TLS over TCP."]
        );
        summary.derived[1].value = Some(micros(-5.0, 1.0));
        assert!(
            said(&summary)[0].starts_with("One more row saves 5.0 µs by TCP"),
            "{:?}",
            said(&summary)
        );
        summary.derived[1].value = Some(micros(1.0, 2.0));
        assert!(said(&summary)[0].starts_with("One more row has no measurable cost by TCP"));
    }

    #[test]
    fn a_crossover_is_a_level_in_words() {
        let mut summary = fixtures::three_transports();
        summary.asked.until = Some("row".into());
        let crossover = |value, outside| Derived {
            help: "file size".into(),
            over: Some("size".into()),
            outside,
            ..derived(Transport::Unix, value, None)
        };
        let at = Measured {
            unit: "size".into(),
            ..micros(65_536.0, 9.0)
        };
        for (derived, line) in [
            (
                crossover(Some(at), None),
                "File size: the Unix socket differs by less than 2 % from 64 KiB on.",
            ),
            (
                crossover(None, Some(Outside::Beyond)),
                "File size: none up to 64 B, the largest that ran, ends the difference of the Unix socket.",
            ),
            (
                crossover(None, Some(Outside::Open)),
                "File size: from which on the Unix socket differs by less than 2 % is undecided.",
            ),
        ] {
            summary.derived = vec![derived];
            assert_eq!(said(&summary), [line]);
        }
    }

    #[test]
    fn of_two_quantities_the_larger_is_named() {
        let mut summary = fixtures::three_transports();
        let weighed = |difference| Weighed {
            quantities: ["one".into(), "other".into()],
            helps: ["TCP to the pool".into(), "TCP to the server".into()],
            levels: IndexMap::from([("pattern".to_owned(), "echo".into())]),
            values: [micros(22.0, 1.0), micros(5.0, 1.0)],
            difference,
        };
        summary.weighed = vec![
            weighed(micros(17.0, 2.0)),
            weighed(micros(-17.0, 2.0)),
            weighed(micros(1.0, 2.0)),
        ];
        assert_eq!(
            said(&summary),
            [
                "Echo: TCP to the pool (22 µs) costs more than TCP to the server (5.0 µs).",
                "Echo: TCP to the server (5.0 µs) costs more than TCP to the pool (22 µs).",
                "Echo: undecided which costs more, TCP to the pool (22 µs) or TCP to the server (5.0 µs)."
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
                "TLS over TCP: 0.69 times the requests/s of TCP and 15 µs more CPU a request.",
                "The Unix socket keeps 0.70 CPUs busy; TCP 0.67 CPUs."
            ]
        );
    }
}
