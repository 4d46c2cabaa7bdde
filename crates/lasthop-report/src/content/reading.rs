//! The reading: the advice in a line, a table of alternatives against the reference, and a sentence for each further
//! point.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_analyse::{
    decision::{Advice, Beside, Decision},
    groups::{Group, cases, groups},
    summary::{CaseSummary, Comparison, Summary, Wait, WaitCause},
};
use lasthop_model::{
    level::Level,
    selection::{TRANSPORT, is_way},
};
use serde::Serialize;

use super::{
    parts::case_title,
    verdicts::{quantity, why_none, without_figures},
};
use crate::{
    against::{self, Against, Frame},
    columns::{Columns, Ratio},
    document::{Block, Cell, Table, Text, Tone},
    names::{Named, phrase},
    units::{NBSP, TimeUnit, ratio, significant},
    wording::{Quantity, margin, more_time, tone},
    words::{own, say},
};

/// Values for the templates of a decision.
#[derive(Serialize)]
struct DecisionValues {
    advice: Advice,
    /// Whether the alternatives are only ways to reach the server.
    is_way: bool,
    wait: Option<WaitValues>,
    /// With a wait: the advice of the other comparisons.
    otherwise: String,
    perhaps: bool,
    /// The alternative and the reference, as words of a sentence.
    who: String,
    than: String,
    depends_on: String,
    /// The only level of `depends_on` for which the alternative is worse.
    except: Option<String>,
    margin: String,
    /// Handlers, in CPU time, for which the difference matters: empty, one time, or the shortest and the longest.
    limits: Vec<String>,
    as_good: Vec<String>,
    open: Vec<String>,
    costlier: Vec<String>,
    more: String,
    why: String,
}

/// Values for the templates of a wait: the longest, and the cases with a similar wait.
#[derive(Serialize)]
struct WaitValues {
    cause: WaitCause,
    cases: Vec<String>,
    /// The mean time over all requests, and the remaining time without the wait.
    time: String,
    left: String,
}

/// The advice, in at most ten words.
#[must_use]
pub fn advice(summary: &Summary) -> Text {
    if summary.aa {
        return Text::of(Tone::Strong, "There is nothing to choose.");
    }
    let words = say("advice", decision_values(summary, &groups(summary))).concat();
    Text::of(tone_of(&summary.decision), words)
}

/// The advice with its gain, for a list of runs: `Use the Unix socket: 1.09 to 1.11 times`
#[must_use]
pub fn headline(summary: &Summary) -> String {
    let advice = advice(summary).to_string();
    let Decision {
        advice: what,
        least,
        most,
        ..
    } = &summary.decision;
    let mut ratios: Vec<String> = [least, most]
        .into_iter()
        .flatten()
        .filter(|_| *what != Advice::Wait)
        .map(|one| ratio(one.ratio, 2))
        .collect();
    ratios.dedup();
    let of = if summary.cases.iter().any(|case| case.load.is_open()) {
        " the response time"
    } else {
        ""
    };
    let effect = if ratios.is_empty() {
        String::new()
    } else {
        format!(": {} times{of}", ratios.join(" to "))
    };
    advice.trim_end_matches('.').to_owned() + &effect
}

/// The colour of the advice.
fn tone_of(decision: &Decision) -> Tone {
    match (decision.advice, decision.perhaps) {
        (Advice::Undecided | Advice::Wait | Advice::None, _) | (_, Some(_)) => Tone::Warning,
        (Advice::Use, None) => Tone::Good,
        (Advice::Depends | Advice::Stay | Advice::Same, None) => Tone::Strong,
    }
}

/// The advice and further sentences.
#[must_use]
pub fn lines(summary: &Summary) -> Vec<Text> {
    let sentences = sentences(summary, &groups(summary)).into_iter().map(Text::from);
    let own = own(summary).into_iter().map(Text::from);
    std::iter::once(advice(summary)).chain(sentences).chain(own).collect()
}

/// Sentences below the table.
pub fn besides(summary: &Summary, groups: &[Group<'_>]) -> impl Iterator<Item = Block> {
    let sentences = sentences(summary, groups).into_iter();
    let own = own(summary).into_iter();
    let waits = waits(summary, groups).map(Block::Table).into_iter();
    waits
        .chain(sentences.map(|text| Block::Paragraph(text.into())))
        .chain(own.map(Block::legend))
}

fn sentences(summary: &Summary, groups: &[Group<'_>]) -> Vec<String> {
    if summary.aa {
        vec!["This run compares each case with itself.".to_owned()]
    } else {
        say("sentences", decision_values(summary, groups))
    }
}

fn decision_values(summary: &Summary, groups: &[Group<'_>]) -> DecisionValues {
    let decision = &summary.decision;
    let by_verdicts = decision.otherwise.unwrap_or(decision.advice);
    let name = |key: &Option<String>| key.as_ref().map_or(String::new(), |key| in_words(groups, key));
    let others = |wanted| -> Vec<String> {
        let all = decision.others.iter().filter(|(_, beside)| **beside == wanted);
        all.map(|(key, _)| as_in_table(summary, groups, key)).collect()
    };
    let mut limits: Vec<String> = decision
        .matters_below_ms
        .iter()
        .flatten()
        .map(|limit| time(limit * 1e3))
        .collect();
    limits.dedup();
    let (depends_on, except) = depends_on(summary).unwrap_or_default();
    let mut values = DecisionValues {
        advice: by_verdicts,
        is_way: is_way(&summary.compared),
        wait: wait(groups, decision),
        otherwise: String::new(),
        perhaps: decision.perhaps.is_some(),
        who: name(&decision.alternative),
        than: name(&decision.reference),
        depends_on,
        except,
        margin: margin(summary.settings.margin),
        limits: if by_verdicts == Advice::Use { limits } else { vec![] },
        as_good: others(Beside::AsGood),
        open: others(Beside::Undecided),
        costlier: others(Beside::Costlier),
        more: more(summary),
        why: match decision.advice {
            Advice::None => {
                let none = why_none(summary, groups);
                none.unwrap_or_else(|| "What was compared must not be used (see Doubts).".to_owned())
            }
            _ => String::new(),
        },
    };
    if decision.otherwise.is_some() {
        values.otherwise = say("advice", &values).concat();
    }
    values.advice = decision.advice;
    values
}

fn wait(groups: &[Group<'_>], decision: &Decision) -> Option<WaitValues> {
    let longest = *decision.waits.first()?.1;
    let alike = |(group, case): &(&Group<'_>, &CaseSummary)| {
        let wait = decision.waits.get(&case.case);
        wait.is_some_and(|wait| wait.cause == longest.cause)
            .then(|| group.label(case))
    };
    let mut labels: Vec<String> = cases(groups).filter_map(|one| alike(&one)).collect();
    labels.dedup();
    Some(WaitValues {
        cause: longest.cause,
        cases: labels,
        time: time(longest.us),
        left: time(longest.left_us),
    })
}

/// An alternative or the reference, as words of a sentence.
fn in_words(groups: &[Group<'_>], key: &str) -> String {
    let found = cases(groups).find(|(group, case)| group.alternative(case) == key);
    the(&found.map_or_else(|| key.to_owned(), |(group, case)| group.name(case)))
}

/// The name in the table. Paths need that name, because their descriptions are alike.
fn as_in_table(summary: &Summary, groups: &[Group<'_>], key: &str) -> String {
    let found = cases(groups).find(|(group, case)| group.alternative(case) == key);
    match found {
        Some((group, case)) if summary.compared != TRANSPORT => group.label(case),
        _ => in_words(groups, key),
    }
}

/// A name with its article for a sentence: things, such as sockets and ports, have an article, protocols and levels do
/// not.
#[must_use]
pub fn the(name: &str) -> String {
    const THINGS: [&str; 8] = [
        "socket",
        "port",
        "address",
        "network",
        "namespace",
        "socketpair",
        "pair",
        "queue",
    ];
    let is_thing = name.split(' ').any(|word| THINGS.contains(&word)) && !name.contains(" over ");
    if is_thing {
        format!("the {name}")
    } else {
        name.to_owned()
    }
}

/// The factor that separates settings where an alternative is better from those where it is worse, and the level where
/// it is worse, if there is only one. `None` if the alternative is worse nowhere, but not available everywhere.
fn depends_on(summary: &Summary) -> Option<(String, Option<String>)> {
    let settings = &summary.decision.settings;
    if settings.worse.is_empty() {
        return None;
    }
    let levels = |cases: &[String], factor: &str| -> Option<BTreeSet<Level>> {
        let level = |name: &String| summary.case(name)?.levels.get(factor).cloned();
        cases.iter().map(level).collect()
    };
    let tells = |factor: &String| {
        let better = levels(&settings.better, factor)?;
        let worse = levels(&settings.worse, factor)?;
        (*factor != summary.compared && better.is_disjoint(&worse)).then(|| (factor.clone(), worse))
    };
    let Some((factor, worse)) = summary.factors.keys().find_map(tells) else {
        return Some(("setting".to_owned(), None));
    };
    let is_number = summary.factors[&factor]
        .iter()
        .all(|level| level.parse::<i64>().is_ok());
    let number = if factor.ends_with('s') && is_number {
        "number of "
    } else {
        ""
    };
    let only = worse.first().filter(|_| worse.len() == 1);
    let except = only.map(|level| phrase(summary, &factor, level));
    Some((format!("{number}{}", factor.replace(['_', '-'], " ")), except))
}

/// A table of the waits of the cases: time that CPU time, run delay and waking do not explain. `None` without waits.
fn waits(summary: &Summary, groups: &[Group<'_>]) -> Option<Table> {
    let all: Vec<(&Group<'_>, &CaseSummary, &Wait)> = cases(groups)
        .filter_map(|(group, case)| Some((group, case, summary.decision.waits.get(&case.case)?)))
        .collect();
    let parts: [fn(&Wait) -> f64; 3] = [|wait| wait.us + wait.left_us, |wait| wait.us, |wait| wait.left_us];
    let times: Vec<f64> = all.iter().flat_map(|(.., wait)| parts.map(|of| of(wait))).collect();
    let unit = TimeUnit::of_column(&times);
    let title = |what: &str| format!("{} {what}", unit.name());
    let written = |of: fn(&Wait) -> f64| move |wait: &Wait| significant(of(wait) / unit.micros(), 3);
    let [whole, waiting, left] = parts.map(written);
    let columns = Columns::of(&all)
        .names(case_title(summary), |(group, case, _)| {
            group.label(case) + &group.in_brackets()
        })
        .right(title("a reply"), |(.., wait)| whole(wait))
        .right(title("waiting"), |(.., wait)| waiting(wait))
        .right(title("left"), |(.., wait)| left(wait));
    (!all.is_empty()).then(|| columns.table())
}

/// The time needed to decide undecided comparisons.
fn more(summary: &Summary) -> String {
    let decision = &summary.decision;
    if decision.otherwise.unwrap_or(decision.advice) != Advice::Undecided {
        return String::new();
    }
    let cases = decision.settings.undecided.iter().filter_map(|name| summary.case(name));
    let open: Vec<&Comparison> = cases.filter_map(|case| summary.declared(case)).collect();
    if open.is_empty() {
        return String::new();
    }
    more_time(&open, summary.seconds, summary.settings.budget_seconds)
}

/// A table of every alternative against the reference, by setting, or all together if there is one setting. `None`
/// without comparisons.
pub fn table(summary: &Summary, groups: &[Group<'_>]) -> Option<Table> {
    let mut rows: IndexMap<String, Vec<Against>> = IndexMap::new();
    let of_settings = groups.len() > 1;
    for (group, case) in cases(groups).filter(|(group, case)| case.case != group.head().case) {
        let alike = rows.entry(group.alternative(case)).or_default();
        alike.push(against(group, case, of_settings));
    }
    let advised = summary.decision.alternative.as_ref();
    if let Some(place) = advised.and_then(|advised| rows.get_index_of(advised)) {
        rows.move_index(place, 0);
    }
    let first = groups
        .iter()
        .find(|group| group.cases.iter().any(|case| group.declared(case).is_some()))?;
    let alternative = match rows.len() {
        1 => rows
            .values_mut()
            .flatten()
            .map(|row| std::mem::take(&mut row.heading))
            .next(),
        _ => None,
    };
    let instead = format!("instead of {}", first.label(first.head()));
    let frame = Frame {
        name: if of_settings { "setting" } else { &instead },
        reference: &first.label(first.head()),
        alternative: alternative.as_deref().unwrap_or("instead"),
        ratio: against::ratio_titles(summary.settings.confidence),
        of_settings,
    };
    let mut rows: Vec<Against> = rows.into_values().flatten().collect();
    for row in &mut rows {
        row.heading = if !of_settings || alternative.is_some() {
            String::new()
        } else {
            format!("{} {instead}", row.heading)
        };
    }
    Some(against::table(rows, &frame))
}

fn against(group: &Group<'_>, case: &CaseSummary, of_settings: bool) -> Against {
    let declared = group.declared(case);
    let is_invalid = group.invalid(case).is_some();
    let waits = [group.head(), case].iter().any(|case| case.wait.is_some());
    let both = |of: &dyn Fn(&CaseSummary) -> Option<f64>| Some([of(group.head())?, of(case)?]);
    let quantity = quantity(group);
    let label = group.label(case);
    Against {
        name: if of_settings { group.setting() } else { label.clone() },
        heading: label,
        quantity,
        reached: [group.head(), case].map(|case| reached(quantity, case)),
        ratio: declared.map(|one| Ratio {
            of: one.ratio,
            // An unusable result has no colour.
            tone: if is_invalid || waits {
                Tone::Plain
            } else {
                tone(one.verdict)
            },
            is_bound: one.lower_bound,
        }),
        cpu: group
            .compare(case)
            .and_then(|one| one.cpu().map(|_| ()))
            .and_then(|()| both(&|case| Some(case.metrics.as_ref()?.cpu_total()))),
        lost: both(&|case| Some(case.metrics.as_ref()?.one_way.as_ref()?.lost)),
        sure: match declared {
            _ if is_invalid => Cell::new(Tone::Bad, "must not be used"),
            Some(_) if waits => Cell::new(Tone::Warning, "waits"),
            Some(one) => against::sure(one.verdict, one.perhaps),
            None => Cell::default(),
        },
        note: declared.is_none().then(|| without_figures(group.summary(), case)),
    }
}

fn reached(quantity: Quantity, case: &CaseSummary) -> Option<f64> {
    let metrics = case.metrics.as_ref()?;
    Some(match quantity {
        Quantity::Bytes => metrics.bandwidth.as_ref()?.interval.estimate,
        Quantity::ResponseTime => metrics.latency_p50.as_ref()?.interval.estimate,
        _ => metrics.throughput.interval.estimate,
    })
}

/// A time in microseconds: `4.0 µs`
fn time(micros: f64) -> String {
    let unit = TimeUnit::of(micros);
    format!("{}{NBSP}{}", significant(micros / unit.micros(), 2), unit.name())
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{
        decision::Perhaps,
        summary::{CaseSummary, Check, Metric, Severity, Verdict},
        testing,
    };
    use lasthop_model::record::Failure;
    use lasthop_trial::address::Transport;

    use super::*;
    use crate::fixtures;

    /// The sentences about a run after a change of its verdicts.
    fn said(summary: &mut Summary) -> Vec<String> {
        summary.decide();
        let said = lines(summary).into_iter();
        said.map(|line| line.to_string().replace(NBSP, " ")).collect()
    }

    fn decided(summary: &mut Summary) -> (Advice, Option<Perhaps>) {
        summary.decide();
        (summary.decision.advice, summary.decision.perhaps)
    }

    /// A run in which `unix` has these verdicts against `tcp`, one for each setting.
    fn with(verdicts: &[Verdict]) -> Summary {
        let mut summary = fixtures::patterns();
        let mut left = verdicts.iter();
        summary.comparisons.retain_mut(|comparison| {
            if comparison.metric != Metric::Throughput || !comparison.case.starts_with("unix") {
                return false;
            }
            let Some(verdict) = left.next() else { return false };
            comparison.ratio = fixtures::interval(match verdict {
                Verdict::Faster => [1.2, 1.3, 1.4],
                Verdict::Slower => [0.7, 0.8, 0.9],
                Verdict::Equivalent => [0.99, 1.0, 1.01],
                Verdict::Undecided => [0.9, 1.05, 1.2],
            });
            comparison.verdict = *verdict;
            comparison.more_seconds = None;
            true
        });
        let kept: Vec<String> = summary
            .comparisons
            .iter()
            .flat_map(|one| [one.case.clone(), one.reference.clone()])
            .collect();
        summary.cases.retain(|case| kept.contains(&case.case));
        assert_eq!(summary.comparisons.len(), verdicts.len());
        summary
    }

    /// A run in which a further alternative exists only in the first setting.
    fn with_another(verdicts: &[Verdict]) -> Summary {
        let mut summary = with(verdicts);
        let first = summary.comparisons[0].case.clone();
        let other = first.replace("unix", "abstract");
        let mut case = summary.case(&first).unwrap().clone();
        case.case.clone_from(&other);
        case.transport = Transport::Abstract;
        case.levels.insert("transport".to_owned(), "abstract".into());
        let mut comparison = summary.comparisons[0].clone();
        comparison.case = other;
        summary.cases.insert(0, case);
        summary.comparisons.insert(0, comparison);
        summary
    }

    #[test]
    fn every_kind_of_result_has_a_reading() {
        let all: String = fixtures::all()
            .iter_mut()
            .map(|(name, summary)| format!("{name}:\n  {}\n", said(summary).join("\n  ")))
            .collect();
        insta::assert_snapshot!("answers", all);
    }

    #[test]
    fn verdicts_decide_and_words_say_it() {
        use Advice::{Depends, Same, Stay, Undecided as Open, Use};
        use Verdict::{Equivalent, Faster, Slower, Undecided};
        for (verdicts, advice, first) in [
            (&[Faster, Faster][..], Use, "Use the Unix socket."),
            (&[Faster, Equivalent], Use, "Use the Unix socket."),
            (&[Faster, Undecided], Use, "Use the Unix socket."),
            (&[Faster, Slower], Depends, "Use the Unix socket, but not for echo."),
            (&[Slower, Slower], Stay, "Stay with TCP."),
            (&[Slower, Equivalent], Stay, "Stay with TCP."),
            (&[Equivalent, Equivalent], Same, "It makes no difference."),
            (
                &[Undecided, Equivalent],
                Open,
                "Undecided: the Unix socket may be better.",
            ),
            (
                &[Undecided, Undecided],
                Open,
                "Undecided: the Unix socket may be better.",
            ),
        ] {
            let mut summary = with(verdicts);
            assert_eq!(decided(&mut summary), (advice, None), "{verdicts:?}");
            assert_eq!(said(&mut summary)[0], first, "{verdicts:?}");
            assert!(first.split(' ').count() <= 10);
            if advice == Open || advice == Stay || advice == Same && summary.decision.perhaps.is_none() {
                continue;
            }
            let better = verdicts.iter().filter(|verdict| **verdict == Faster).count();
            assert_eq!(summary.decision.settings.better.len(), better);
        }
    }

    #[test]
    fn what_may_be_luck_is_no_firm_advice() {
        use Verdict::{Equivalent, Faster, Slower, Undecided};
        let chance = |verdicts: &[Verdict], places: &[usize]| {
            let mut summary = with(verdicts);
            for place in places {
                summary.comparisons[*place].adjusted_p = Some(0.08);
            }
            decided(&mut summary).1
        };
        assert_eq!(chance(&[Faster, Undecided], &[0]), Some(Perhaps::Chance));
        assert_eq!(chance(&[Faster, Faster], &[1]), None, "the other one is certain");
        assert_eq!(chance(&[Faster, Slower], &[1]), None);
        assert_eq!(chance(&[Faster, Slower], &[0, 1]), Some(Perhaps::Chance));
        for (verdicts, first) in [
            (&[Faster, Faster], "Perhaps the Unix socket."),
            (&[Faster, Slower], "Perhaps the Unix socket, but not for echo."),
            (&[Slower, Slower], "Perhaps stay with TCP."),
            (&[Equivalent, Equivalent], "Perhaps it makes no difference."),
        ] {
            let mut summary = with(verdicts);
            summary.rounds = 1;
            assert_eq!(decided(&mut summary).1, Some(Perhaps::OneRound));
            assert_eq!(said(&mut summary)[0], first);
        }
        let bold = with(&[Faster]);
        let case = bold.comparisons[0].case.clone();
        for (id, severity, case, perhaps) in [
            (
                "too-few-blocks",
                Severity::Doubt,
                case.as_str(),
                Some(Perhaps::FewRounds),
            ),
            (
                "errors",
                Severity::Invalid,
                "tls/pattern=hello",
                Some(Perhaps::AnotherInvalid),
            ),
            ("headroom", Severity::Note, case.as_str(), None),
        ] {
            let mut summary = bold.clone();
            summary.checks.push(Check {
                id: id.to_owned(),
                severity,
                case: Some(case.to_owned()),
                evidence: String::new(),
                effect: String::new(),
            });
            assert_eq!(decided(&mut summary), (Advice::Use, perhaps), "{id}");
        }
    }

    /// A run of two alternatives to `tcp`, with the verdicts on one against the other by rate and by CPU time.
    fn rivals_of(verdict: Verdict, adjusted_p: f64, cpu: Verdict) -> Summary {
        let mut summary = fixtures::three_transports();
        let [unix, tls] = ["unix/pattern=echo/size=64", "tls/pattern=echo/size=64"];
        for one in summary.comparisons.iter_mut().filter(|one| one.case == tls) {
            one.ratio = fixtures::interval([1.3, 1.5, 1.7]);
            if one.metric == Metric::Throughput {
                one.verdict = Verdict::Faster;
            }
        }
        let of = |metric, verdict| Comparison {
            adjusted_p: Some(adjusted_p),
            ..fixtures::by(
                metric,
                &fixtures::compare(tls, unix, [1.0; 3], verdict),
                [1.0; 3],
                verdict,
            )
        };
        summary.alternatives = vec![of(Metric::Throughput, verdict), of(Metric::CpuPerRequest, cpu)];
        summary
    }

    #[test]
    fn alternatives_are_as_good_only_if_they_were_compared() {
        use Verdict::{Equivalent, Faster, Slower, Undecided};
        let open = "Whether TLS over TCP is worse than the Unix socket is undecided.";
        for (verdict, p, cpu, beside) in [
            (
                Equivalent,
                0.01,
                Undecided,
                "TLS over TCP is as good as the Unix socket, within 2 %.",
            ),
            (Undecided, 0.2, Undecided, open),
            (Slower, 0.2, Undecided, open),
            (Slower, 0.01, Undecided, ""),
            (
                Undecided,
                0.01,
                Slower,
                "TLS over TCP takes more CPU a request than the Unix socket; whether it is slower is undecided.",
            ),
            (
                Equivalent,
                0.01,
                Faster,
                "TLS over TCP is as good as the Unix socket, within 2 %.",
            ),
        ] {
            let lines = said(&mut rivals_of(verdict, p, cpu));
            assert_eq!(lines[0], "Use the Unix socket.");
            let found = lines
                .iter()
                .find(|line| line.contains("TLS"))
                .map_or("", String::as_str);
            assert_eq!(found, beside, "{verdict:?} {p} {cpu:?}");
        }
        // A further alternative that fails in every setting changes none of this.
        let mut failed = rivals_of(Equivalent, 0.01, Undecided);
        let mut case = failed.cases.last().unwrap().clone();
        (case.transport, case.metrics) = (Transport::Abstract, None);
        case.case = case.case.replace("tls", "abstract");
        case.levels.insert("transport".to_owned(), "abstract".into());
        failed.cases.insert(0, case);
        assert!(said(&mut failed).concat().contains("TLS over TCP is as good"));
        let mut unknown = rivals_of(Equivalent, 0.01, Undecided);
        unknown.alternatives.clear();
        assert!(!said(&mut unknown).concat().contains("TLS"));
    }

    #[test]
    fn without_a_result_all_that_failed_is_said() {
        let mut summary = fixtures::without_result();
        assert_eq!(
            said(&mut summary)[1],
            "No case has a result. Tcp failed at start, see Failures."
        );
        let failure = summary.failures[0].clone();
        let of = |case: &CaseSummary| Failure {
            case: case.case.clone(),
            ..failure.clone()
        };
        summary.failures = summary.cases.iter().map(of).collect();
        assert_eq!(
            said(&mut summary)[1],
            "No case has a result. Each case failed at start, see Failures."
        );
    }

    #[test]
    fn one_block_says_which_budget_has_more() {
        let mut summary = fixtures::three_transports();
        summary.comparisons.clear();
        (summary.blocks, summary.seconds) = (1, 32.0);
        assert_eq!(
            said(&mut summary)[1],
            "One block gives no interval. Use a larger budget (--budget 6m)."
        );
    }

    #[test]
    fn undecided_is_about_the_best_so_far() {
        let mut summary = fixtures::three_transports();
        summary.comparisons.retain(|one| one.metric == Metric::Throughput);
        for (place, one) in summary.comparisons.iter_mut().enumerate() {
            let ratio = [1.3, 1.02][place];
            (one.ratio, one.verdict) = (
                fixtures::interval([ratio / 1.4, ratio, ratio * 1.4]),
                Verdict::Undecided,
            );
        }
        for _ in 0..2 {
            assert_eq!(said(&mut summary)[0], "Undecided: the Unix socket may be better.");
            summary.comparisons.swap(0, 1);
            summary.cases.reverse();
        }
        summary.comparisons.iter_mut().for_each(|one| one.one_start = true);
        assert_eq!(
            said(&mut summary)[1],
            "One start of the servers decides nothing, so use a larger budget."
        );
    }

    #[test]
    fn what_few_settings_have_is_no_answer_for_all() {
        let mut summary = with_another(&[Verdict::Faster, Verdict::Slower]);
        assert_eq!(said(&mut summary)[0], "Use the Unix socket, but not for echo.");
        let unix = summary
            .comparisons
            .iter_mut()
            .filter(|one| one.case.starts_with("unix"));
        unix.for_each(|one| (one.ratio, one.verdict) = (fixtures::interval([0.9, 1.0, 1.1]), Verdict::Undecided));
        assert_eq!(
            said(&mut summary)[0],
            "Use the abstract Unix socket where you can have it."
        );
    }

    #[test]
    fn what_only_controls_is_not_advised() {
        use Verdict::Faster;
        let mut summary = with(&[Faster, Faster]);
        let controls: Vec<String> = summary.comparisons.iter().map(|one| one.case.clone()).collect();
        let alone = said(&mut summary);
        summary.controls = controls;
        assert_eq!(said(&mut summary), alone, "there is nothing else");
        let mut summary = fixtures::three_transports();
        assert_eq!(said(&mut summary)[0], "Use the Unix socket.");
        let names = summary.cases.iter().map(|one| one.case.clone());
        summary.controls = names.filter(|one| one.starts_with("unix")).collect();
        assert_eq!(said(&mut summary)[0], "Stay with TCP.");
    }

    #[test]
    fn a_wait_is_told_instead_of_an_advice() {
        use Verdict::{Faster, Slower};
        let waiting = |verdicts: &[Verdict], case: usize, cause| {
            let mut summary = with(verdicts);
            let reference = summary.comparisons[case].reference.clone();
            let case = summary.cases.iter_mut().find(|one| one.case == reference).unwrap();
            case.wait = Some(Wait {
                cause,
                us: 44_000.0,
                left_us: 72.0,
            });
            said(&mut summary)
        };
        for (cause, first, remedy) in [
            (
                WaitCause::DelayedAck,
                "Nagle and delayed ACKs: 44 ms of each reply (tcp).",
                "Set TCP_NODELAY in the server",
            ),
            (
                WaitCause::SynRepeated,
                "SYNs sent again: 44 ms of each reply (tcp).",
                "Raise the server's backlog",
            ),
            (
                WaitCause::Retransmission,
                "Lost segments: 44 ms of each reply (tcp).",
                "where segments are lost",
            ),
            (
                WaitCause::Throttled,
                "A CPU limit: 44 ms of each reply (tcp).",
                "Raise the limit",
            ),
            (
                WaitCause::Unknown,
                "A wait, not work: 44 ms of each reply (tcp).",
                "a sleep, a lock or a timeout",
            ),
        ] {
            let lines = waiting(&[Faster], 0, cause);
            assert_eq!(lines[0], first);
            assert!(first.split(' ').count() <= 10, "{first}");
            let text = lines.concat();
            assert!(
                text.contains(remedy) && text.contains("72 µs or less") && !text.contains("Use"),
                "{text}"
            );
        }
        let text = waiting(&[Faster, Slower], 0, WaitCause::Unknown).concat();
        assert!(text.contains("The other comparisons say: Stay with TCP."), "{text}");
    }

    #[test]
    fn what_must_not_be_used_is_no_answer() {
        let none = ["No answer.", "What was compared must not be used (see Doubts)."];
        let mut data = testing::healthy();
        assert_eq!(said(&mut lasthop_analyse::summarise(&data))[0], "Use the Unix socket.");
        testing::fail(&mut data, "unix", |trial| trial.round < 2 && trial.block == 4);
        assert_eq!(said(&mut lasthop_analyse::summarise(&data)), none);
        let mut summary = fixtures::lower_bound();
        summary.checks[3].case = Some("tcp/pattern=echo/size=64".into());
        assert_eq!(said(&mut summary), none);
    }

    #[test]
    fn an_experiment_says_more_by_its_template() {
        let mut summary = fixtures::three_transports();
        summary.template = Some(
            "{% for case in cases if case.levels.transport == 'tls' %}\n{{ case.transport }}: {{ \
             case.metrics.throughput.estimate | round | int }}/s, for\n{{ decision.alternative }}\n{% endfor %}\n"
                .to_owned(),
        );
        let lines = said(&mut summary);
        let [.., rate, alternative] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert!(rate.starts_with("tls: ") && rate.ends_with("/s, for"), "{rate}");
        assert_eq!(alternative, "unix");
        summary.template = Some("{{ cases[0].nothing.at_all }}".to_owned());
        let last = said(&mut summary).pop().unwrap();
        assert!(
            last.starts_with("The answer of the experiment cannot be written: "),
            "{last}"
        );
    }
}
