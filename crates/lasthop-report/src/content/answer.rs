//! The answer: what answers the question of the experiment, what to choose, and when that stops mattering.
//!
//! `question` has the lines that the experiment asks for. What to choose follows from verdicts and materiality alone:
//! from the number of settings in which the verdict is for each alternative to the reference, and against it. One that
//! fewer settings have than others is no answer for all, and is left out.
//!
//! | verdicts | the first line |
//! |---|---|
//! | an alternative is better somewhere and worse nowhere | `Use` it; of several, the one that is better in most settings, then by most |
//! | one is better here and worse there | `It depends`, with the settings |
//! | one may be better | `Undecided`, of the best so far |
//! | all are equivalent | `It makes no difference` |
//! | all are worse, or equivalent | `Stay with` the reference |
//!
//! A sentence says `perhaps` if it rests on few rounds, stands beside a case that must not be used, or may be chance
//! among so many comparisons. What is certain beside it has no `perhaps`.

use indexmap::IndexMap;
use lasthop_analyse::{
    groups::{Compared, Group, groups},
    summary::{Comparison, Metric, Severity, Summary, Verdict},
};
use lasthop_model::quantity::joined;

use super::{
    effects::{
        MANY_SETTINGS, Told, brief, each_said, effects, ends, extremes, less_cpu, measured, settings, some, time,
    },
    figures::listed,
    question,
    verdicts::{quantity, sentence, why_none},
};
use crate::{
    document::{Text, Tone},
    names::Named,
    units::{NBSP, capital, percent},
    wording::{Quantity, margin, more_time},
};

/// An interval between whose ends there is more than this factor, as a logarithm, says nothing yet: 10.
const TOO_WIDE: f64 = std::f64::consts::LN_10;
/// With fewer rounds, the luck of a start is in the answer and not in its interval.
const LEAST_ROUNDS: u32 = 2;

/// An alternative to the reference, in all settings.
struct Rival<'a> {
    name: String,
    reference: String,
    compared: Vec<Compared<'a>>,
    /// Settings in which it failed or must not be used.
    without_verdict: Vec<String>,
}

/// What the experiment asks, what to do, and when it stops mattering: at least one line.
#[must_use]
pub fn answer(summary: &Summary) -> Vec<Text> {
    let groups = groups(summary);
    if summary.aa {
        return vec!["There is nothing to choose: this run compares each case with itself.".into()];
    }
    let mut lines = question::lines(summary, &groups);
    lines.extend(choice(summary, &groups));
    lines.extend(question::prices(&groups, &summary.asked.also).map(Text::from));
    let explanations = summary.explanations.iter();
    lines.extend(explanations.map(|text| Text::of(Tone::Dim, sentence(&capital(text)))));
    lines
}

/// What the experiment asks besides what to choose: the first lines of [`answer`].
#[must_use]
pub fn asked(summary: &Summary) -> Vec<Text> {
    question::lines(summary, &groups(summary))
}

fn choice(summary: &Summary, groups: &[Group<'_>]) -> Vec<Text> {
    let rivals = choices(summary, rivals(groups));
    if rivals.iter().all(|rival| rival.compared.is_empty()) {
        return vec![nothing(summary, groups)];
    }
    let Some(best) = best(&rivals) else {
        return vec![without_winner(summary, &rivals)];
    };
    let lines = [
        Some(advice(summary, best)),
        as_good(summary, &rivals, best),
        until(summary, best),
    ];
    lines.into_iter().flatten().collect()
}

/// What somebody can choose: without what only controls, if anything else was compared.
fn choices<'a>(summary: &Summary, mut rivals: Vec<Rival<'a>>) -> Vec<Rival<'a>> {
    let controls = |rival: &Rival<'_>| {
        !rival.compared.is_empty()
            && rival
                .compared
                .iter()
                .all(|one| summary.controls.contains(&one.case.case))
    };
    if rivals.iter().any(|rival| !controls(rival)) {
        rivals.retain(|rival| !controls(rival));
    }
    rivals
}

fn rivals<'a>(groups: &'a [Group<'a>]) -> Vec<Rival<'a>> {
    let mut rivals: IndexMap<String, Rival<'a>> = IndexMap::new();
    for group in groups {
        for case in group.cases.iter().filter(|case| case.case != group.head().case) {
            let rival = rivals.entry(group.name(case)).or_insert_with(|| Rival {
                name: the(&group.name(case)),
                reference: the(&group.name(group.head())),
                compared: vec![],
                without_verdict: vec![],
            });
            match group.compare(case) {
                Some(compared) => rival.compared.push(compared),
                None => rival.without_verdict.push(group.setting()),
            }
        }
    }
    rivals.into_values().collect()
}

/// A name as it stands in a sentence: things, such as sockets and ports, have an article, protocols and levels have
/// none.
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

impl<'a> Rival<'a> {
    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Compared<'a>> {
        let all = self.compared.iter();
        all.filter(move |one| one.comparison.verdict == verdict)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.with(verdict).count()
    }

    fn settings(&self) -> usize {
        self.compared.len() + self.without_verdict.len()
    }

    /// The mean size of the effects with a verdict, in logarithms.
    fn gain(&self, verdict: Verdict) -> f64 {
        self.with(verdict).map(Compared::gain).sum::<f64>() / self.count(verdict).max(1) as f64
    }
}

/// Better somewhere, worse nowhere, and to be had in as many settings as any.
fn best<'b, 'a>(rivals: &'b [Rival<'a>]) -> Option<&'b Rival<'a>> {
    let most = rivals.iter().map(Rival::settings).max()?;
    let safe = rivals.iter().filter(|rival| {
        rival.settings() == most && rival.count(Verdict::Faster) > 0 && rival.count(Verdict::Slower) == 0
    });
    let rank = |rival: &&Rival<'_>| (rival.count(Verdict::Faster), rival.gain(Verdict::Faster));
    // A pair with an `f64` has no total order.
    safe.max_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(std::cmp::Ordering::Equal))
}

fn nothing(summary: &Summary, groups: &[Group<'_>]) -> Text {
    let why = why_none(summary, groups);
    let why = why.unwrap_or_else(|| "what was compared must not be used (see Doubts).".to_owned());
    Text::of(Tone::Warning, "No answer").plain(format!(": {why}"))
}

/// `Use the Unix socket: 1.27 times the requests/s of TCP (95 % interval 1.22 to 1.33), 41 µs less CPU a request.`
fn advice(summary: &Summary, best: &Rival<'_>) -> Text {
    let won = best.with(Verdict::Faster);
    // Those that are certain, and those that may be luck.
    let (sure, mut unsure): (Vec<_>, Vec<_>) = won.partition(|one| luck(summary, [*one]).is_none());
    let doubtful = unsure.clone();
    let (lead, told) = if sure.is_empty() {
        let lead = Text::of(Tone::Warning, format!("Perhaps {}", best.name));
        (lead, std::mem::take(&mut unsure))
    } else {
        (Text::of(Tone::Good, format!("Use {}", best.name)), sure)
    };
    let effect = if best.settings() == 1 {
        // The best one is better somewhere, so `told` is not empty.
        single(summary, best, told[0])
    } else {
        effects(&told, &best.reference)
    };
    let perhaps = if unsure.is_empty() {
        String::new()
    } else {
        format!("; perhaps {}", brief(&unsure))
    };
    let luck = if doubtful.is_empty() {
        ""
    } else {
        luck(summary, doubtful).unwrap_or_default()
    };
    lead.plain(format!(": {effect}{perhaps}{}{luck}.", rest(summary, best)))
}

/// Why what rests on these verdicts is no firm advice.
fn luck<'b, 'a: 'b>(summary: &Summary, compared: impl IntoIterator<Item = &'b Compared<'a>>) -> Option<&'static str> {
    let all: Vec<&Compared<'_>> = compared.into_iter().collect();
    let reasons = [
        (
            summary.rounds < LEAST_ROUNDS,
            "; this is one round, and the next may say otherwise",
        ),
        (
            all.iter().any(|one| {
                let mut checks = summary.checks.iter().filter(|check| check.id == "too-few-blocks");
                checks.any(|check| check.case.as_ref() == Some(&one.case.case))
            }),
            "; it rests on few rounds (see Doubts)",
        ),
        (
            summary.checks.iter().any(|check| check.severity == Severity::Invalid),
            "; another case must not be used (see Doubts)",
        ),
        (
            all.iter().all(|one| one.comparison.may_be_chance()),
            "; among this many comparisons, that may be chance (see Doubts)",
        ),
    ];
    // Only the first is told.
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
}

/// A first line that advises no change, less sure where it may be luck.
fn careful(lead: &str, luck: Option<&str>, what: &str) -> Text {
    match luck {
        Some(luck) => Text::of(Tone::Warning, format!("Perhaps {lead}")).plain(format!(": {what}{luck}.")),
        None => Text::of(Tone::Strong, capital(lead)).plain(format!(": {what}.")),
    }
}

/// How much better in the only setting, with the interval.
fn single(summary: &Summary, best: &Rival<'_>, one: &Compared<'_>) -> String {
    let [low, _, high] = ends(one.comparison);
    let cpu = one.cpu().map(|cpu| format!(", {}", less_cpu(cpu.saved_us)));
    format!(
        "{} {} ({} interval {low} to {high}){}",
        one.times(),
        measured(&[one], &best.reference),
        percent(summary.settings.confidence, 0),
        cpu.unwrap_or_default()
    )
}

/// The settings in which it is not better.
fn rest(summary: &Summary, best: &Rival<'_>) -> String {
    let within = format!("within {}", margin(summary.settings.margin));
    let others = each_said([
        (settings(best.with(Verdict::Equivalent)), within.as_str()),
        (settings(best.with(Verdict::Undecided)), "undecided"),
        (best.without_verdict.clone(), "without a verdict"),
    ]);
    others.iter().map(|said| format!("; {said}")).collect()
}

/// Alternatives that the run cannot tell from the best one, each compared with it in the same blocks.
fn as_good(summary: &Summary, rivals: &[Rival<'_>], best: &Rival<'_>) -> Option<Text> {
    let others = rivals.iter().filter(|rival| rival.name != best.name);
    let judged = |rival: &Rival<'_>, metric| -> Option<Vec<Verdict>> {
        let of = |won: &Compared<'_>| {
            let mut all = rival.compared.iter();
            let same = all.find(|one| one.reference.case == won.reference.case)?;
            summary.against(&won.case.case, &same.case.case, metric)
        };
        best.with(Verdict::Faster).map(of).collect()
    };
    let mut same = vec![];
    let mut open = vec![];
    let mut costly = vec![];
    for rival in others.filter(|rival| rival.count(Verdict::Slower) == 0) {
        // One that failed in every setting has nothing to say of itself.
        let Some(first) = rival.compared.first() else {
            continue;
        };
        let metric = Metric::primary(&first.case.load);
        // Where the best one is faster, the run can tell them apart.
        let Some(verdicts) = judged(rival, metric).filter(|all| !all.contains(&Verdict::Faster)) else {
            continue;
        };
        let all_are = |all: &[Verdict], wanted| all.iter().all(|verdict| *verdict == wanted);
        let cpu = judged(rival, Metric::CpuPerRequest);
        let whose = if cpu.is_some_and(|all| all_are(&all, Verdict::Faster)) {
            &mut costly
        } else if all_are(&verdicts, Verdict::Equivalent) {
            &mut same
        } else {
            &mut open
        };
        whose.push(rival.name.as_str());
    }
    let are = |names: &[&str]| if names.len() == 1 { "is" } else { "are" };
    let mut said = Vec::new();
    if !same.is_empty() {
        said.push(format!(
            "{} {} as good, within {}.",
            capital(&listed(&same)),
            are(&same),
            margin(summary.settings.margin)
        ));
    }
    if !open.is_empty() {
        said.push(format!("Whether {} {} worse is undecided.", listed(&open), are(&open)));
    }
    if !costly.is_empty() {
        let (takes, they) = if costly.len() == 1 {
            ("takes", "it is")
        } else {
            ("take", "they are")
        };
        said.push(format!(
            "{} {takes} more CPU a request; whether {they} slower is undecided.",
            capital(&listed(&costly))
        ));
    }
    (!said.is_empty()).then(|| said.join(" ").into())
}

/// Up to which CPU time of a request the best one is better, where CPU is the limit.
fn until(summary: &Summary, best: &Rival<'_>) -> Option<Text> {
    // From milliseconds to microseconds.
    let limit = |one: &Compared<'_>| {
        let cpu = one.cpu().filter(|cpu| cpu.saved_us > 0.0)?;
        Some(cpu.break_even.as_ref()?.estimate * 1e3).filter(|limit| *limit > 0.0)
    };
    let known: Vec<&Compared<'_>> = best.with(Verdict::Faster).filter(|one| limit(one).is_some()).collect();
    if known.is_empty() || summary.settings.margin <= 0.0 {
        return None;
    }
    let one = |one: &Compared<'_>, of: &str| {
        let limit = time(limit(one).unwrap_or_default());
        format!("{limit}{of}{}", one.group.in_brackets())
    };
    let of = " of CPU";
    let handlers = if known.len() > MANY_SETTINGS {
        let (least, most) = extremes(&known, limit);
        format!("{} to {}", one(least, of), one(most, ""))
    } else {
        let others = known[1..].iter().map(|found| one(found, ""));
        joined(std::iter::once(one(known[0], of)).chain(others), ", ")
    };
    let within = margin(summary.settings.margin);
    let work = summary.asked.work.as_deref().unwrap_or("your handler");
    Some(
        format!(
            "If CPU is your limit, it no longer matters (under {within}) once {work} uses more than about {handlers}."
        )
        .into(),
    )
}

fn without_winner(summary: &Summary, rivals: &[Rival<'_>]) -> Text {
    let has = |verdict| move |rival: &&Rival<'_>| rival.count(verdict) > 0;
    let mixed = rivals.iter().filter(has(Verdict::Faster)).find(has(Verdict::Slower));
    if let Some(mixed) = mixed.or_else(|| rivals.iter().find(has(Verdict::Faster))) {
        return depends(summary, mixed);
    }
    let open = rivals.iter().filter(has(Verdict::Undecided));
    let may_be_better = open.filter(|rival| rival.count(Verdict::Slower) == 0);
    let gain = |rival: &&Rival<'_>| rival.gain(Verdict::Undecided);
    if let Some(open) = may_be_better.max_by(|one, other| gain(one).total_cmp(&gain(other))) {
        return undecided(summary, open);
    }
    let Rival {
        name,
        reference,
        compared,
        ..
    } = &rivals[0];
    let within = format!("within {}", margin(summary.settings.margin));
    if rivals.iter().all(|rival| rival.count(Verdict::Slower) == 0) {
        let who = if rivals.len() == 1 {
            format!("{name} and {reference} are")
        } else {
            "all are".to_owned()
        };
        let what = format!("{who} {within} of each other");
        return careful("it makes no difference", luck(summary, compared), &what);
    }
    let against = |rival: &Rival<'_>| {
        let name = &rival.name;
        let slower: Vec<&Compared<'_>> = rival.with(Verdict::Slower).collect();
        match (&slower[..], rival.settings()) {
            ([], _) => format!("{name} is {within} of it"),
            ([one], 1) => {
                let what = if quantity(one.group) == Quantity::ResponseTime {
                    "median response time"
                } else {
                    "speed"
                };
                format!("{name} has {}{NBSP}times its {what}", ends(one.comparison)[1])
            }
            (slower, all) if slower.len() == all => format!("{name} is slower in all {all} settings"),
            (slower, _) => format!("{name} is slower ({})", some(&settings(slower.iter().copied()))),
        }
    };
    let known = rivals.iter().filter(|rival| !rival.compared.is_empty());
    let said = joined(known.map(against), ", ");
    let slower = rivals.iter().flat_map(|rival| rival.with(Verdict::Slower));
    careful(&format!("stay with {reference}"), luck(summary, slower), &said)
}

/// Better in one setting, and worse in another or not to be had there.
fn depends(summary: &Summary, mixed: &Rival<'_>) -> Text {
    let halves = [Verdict::Faster, Verdict::Slower].map(|verdict| mixed.with(verdict).collect::<Vec<&Compared<'_>>>());
    let unsure = halves
        .each_ref()
        .map(|half| luck(summary, half.iter().copied()).filter(|_| !half.is_empty()));
    let [faster, slower] = halves;
    let all = unsure[0].is_some() && (unsure[1].is_some() || slower.is_empty());
    let perhaps = unsure.map(|luck| if luck.is_some() && !all { "perhaps " } else { "" });
    let rest = if slower.is_empty() {
        "and other settings do not have it".to_owned()
    } else {
        format!("but {}slower: {}", perhaps[1], brief(&slower))
    };
    let lead = if all {
        Text::of(Tone::Warning, "Perhaps it depends")
    } else {
        Text::of(Tone::Strong, "It depends")
    };
    lead.plain(format!(
        ": {} is {}faster, {}; {rest}{}.",
        mixed.name,
        perhaps[0],
        effects(&faster, &mixed.reference),
        unsure.into_iter().flatten().next().unwrap_or_default()
    ))
}

fn undecided(summary: &Summary, open: &Rival<'_>) -> Text {
    let all: Vec<&Compared<'_>> = open.with(Verdict::Undecided).collect();
    let lead = Text::of(Tone::Warning, "Undecided");
    let Rival { name, reference, .. } = open;
    let comparisons: Vec<&Comparison> = all.iter().map(|one| one.comparison).collect();
    let more = more_time(&comparisons, summary.seconds, summary.settings.budget_seconds);
    if let [comparison] = comparisons[..] {
        if (comparison.high / comparison.low).ln() > TOO_WIDE {
            return lead.plain(format!(
                ": it is too early to say whether {name} is better than {reference}; {more}."
            ));
        }
        let [low, _, high] = ends(comparison);
        let what = measured(&all, reference);
        return lead.plain(sentence(&format!(
            ": {name} has between {low} and {high}{NBSP}times {what}; {more}"
        )));
    }
    let settings = some(&settings(all.iter().copied()));
    lead.plain(format!(
        ": whether {name} is better than {reference} is open ({settings}); {more}."
    ))
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{
        summary::{Check, OneWay},
        testing,
    };

    use super::*;
    use crate::fixtures;

    fn said(summary: &Summary) -> Vec<String> {
        answer(summary)
            .iter()
            .map(|line| line.to_string().replace(NBSP, " "))
            .collect()
    }

    #[test]
    fn every_kind_of_result_has_an_answer() {
        let all: String = fixtures::all()
            .iter()
            .map(|(name, summary)| format!("{name}:\n  {}\n", said(summary).join("\n  ")))
            .collect();
        insta::assert_snapshot!("answers", all);
    }

    #[test]
    fn what_nobody_answers_counts_where_it_arrives() {
        let mut summary = fixtures::three_transports();
        let one_way = OneWay {
            sent: 10,
            received: 9,
            dropped: Some(1),
            lost: 0.1,
            sent_per_s: 10.0,
            waited: 0.0,
            cpu_us_per_sent: 0.0,
        };
        for case in &mut summary.cases {
            case.metrics.as_mut().unwrap().one_way = Some(one_way.clone());
        }
        let said = said(&summary).join(" ");
        assert!(
            said.contains("times the datagrams received/s") && !said.contains("requests/s"),
            "{said}"
        );
    }

    #[test]
    fn an_answer_has_one_to_three_lines() {
        for (name, summary) in fixtures::all() {
            assert!((1..=3).contains(&answer(&summary).len()), "{name}");
        }
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
            (comparison.low, comparison.ratio, comparison.high) = match verdict {
                Verdict::Faster => (1.2, 1.3, 1.4),
                Verdict::Slower => (0.7, 0.8, 0.9),
                Verdict::Equivalent => (0.99, 1.0, 1.01),
                Verdict::Undecided => (0.9, 1.05, 1.2),
            };
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

    #[test]
    fn verdicts_decide() {
        use Verdict::{Equivalent, Faster, Slower, Undecided};
        for (verdicts, start) in [
            (&[Faster, Faster][..], "Use the Unix socket: 1.30 times "),
            (&[Faster, Equivalent], "Use the Unix socket: 1.30 times "),
            (&[Faster, Undecided], "Use the Unix socket: 1.30 times "),
            (
                &[Faster, Slower],
                "It depends: the Unix socket is faster, 1.30 times the requests/s of TCP (hello); but slower: 0.80 times (echo).",
            ),
            (
                &[Slower, Slower],
                "Stay with TCP: the Unix socket is slower in all 2 settings.",
            ),
            (
                &[Slower, Equivalent],
                "Stay with TCP: the Unix socket is slower (hello).",
            ),
            (
                &[Equivalent, Equivalent],
                "It makes no difference: the Unix socket and TCP are within 2 % of each other.",
            ),
            (
                &[Undecided, Equivalent],
                "Undecided: the Unix socket has between 0.90 and 1.20 times the ",
            ),
            (
                &[Undecided, Undecided],
                "Undecided: whether the Unix socket is better than TCP is open (hello; echo); ",
            ),
        ] {
            let first = said(&with(verdicts)).remove(0);
            assert!(first.starts_with(start), "{verdicts:?}: {first}");
        }
        let mut doubtful = with(&[Faster, Undecided]);
        doubtful
            .comparisons
            .iter_mut()
            .for_each(|comparison| comparison.adjusted_p = Some(0.08));
        let first = said(&doubtful).remove(0);
        assert!(first.starts_with("Perhaps the Unix socket: 1.30 times "), "{first}");
        assert!(
            first.ends_with("undecided (echo); among this many comparisons, that may be chance (see Doubts)."),
            "{first}"
        );
        let mut by_chance = with(&[Faster, Slower]);
        by_chance.comparisons[1].adjusted_p = Some(0.08);
        let first = said(&by_chance).remove(0);
        assert!(
            first.starts_with("It depends: the Unix socket is faster, ") && first.contains("but perhaps slower: "),
            "{first}"
        );
        assert!(
            first.ends_with("; among this many comparisons, that may be chance (see Doubts)."),
            "{first}"
        );
        by_chance.comparisons[0].adjusted_p = Some(0.08);
        assert!(said(&by_chance)[0].starts_with("Perhaps it depends: the Unix socket is faster, "));
    }

    /// Only what may be chance is said with *perhaps*.
    #[test]
    fn what_is_certain_is_said_so_beside_what_is_not() {
        let mut summary = with(&[Verdict::Faster, Verdict::Faster]);
        summary.comparisons[1].adjusted_p = Some(0.08);
        let first = said(&summary).remove(0);
        let expected =
            "Use the Unix socket: 1.30 times the requests/s of TCP (hello); perhaps 1.30 times (echo); among";
        assert!(first.starts_with(expected), "{first}");
    }

    /// A run of two alternatives to `tcp`, and what is known of the one against the other by rate and by CPU time.
    fn rivals_of(verdict: Verdict, adjusted_p: f64, cpu: Verdict) -> Summary {
        let mut summary = fixtures::three_transports();
        let [unix, tls] = ["unix/pattern=echo/size=64", "tls/pattern=echo/size=64"];
        for one in summary.comparisons.iter_mut().filter(|one| one.case == tls) {
            (one.low, one.ratio, one.high) = (1.3, 1.5, 1.7);
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
        for (verdict, p, cpu, second) in [
            (Equivalent, 0.01, Undecided, "TLS over TCP is as good, within 2 %."),
            (Undecided, 0.2, Undecided, "Whether TLS over TCP is worse is undecided."),
            (Slower, 0.2, Undecided, "Whether TLS over TCP is worse is undecided."),
            (Slower, 0.01, Undecided, "If CPU is your limit, it no longer matters"),
            (
                Undecided,
                0.01,
                Slower,
                "TLS over TCP takes more CPU a request; whether it is slower is undecided.",
            ),
            (Equivalent, 0.01, Faster, "TLS over TCP is as good, within 2 %."),
        ] {
            let lines = said(&rivals_of(verdict, p, cpu));
            assert!(lines[0].starts_with("Use the Unix socket: 1.87"), "{lines:?}");
            assert!(lines[1].starts_with(second), "{verdict:?} {p} {cpu:?}: {lines:?}");
        }
        // Another one that failed in every setting changes nothing of that.
        let mut failed = rivals_of(Equivalent, 0.01, Undecided);
        let mut case = failed.cases.last().unwrap().clone();
        (case.transport, case.metrics) = (lasthop_protocol::spec::Transport::Abstract, None);
        case.case = case.case.replace("tls", "abstract");
        case.levels.insert("transport".to_owned(), "abstract".into());
        failed.cases.insert(0, case);
        let lines = said(&failed);
        assert!(lines[1].starts_with("TLS over TCP is as good"), "{lines:?}");
        let mut unknown = rivals_of(Equivalent, 0.01, Undecided);
        unknown.alternatives.clear();
        assert!(
            said(&unknown)[1].starts_with("If CPU is your limit, it no longer matters"),
            "{:?}",
            said(&unknown)
        );
    }

    #[test]
    fn undecided_is_about_the_best_so_far() {
        let mut summary = fixtures::three_transports();
        summary.comparisons.retain(|one| one.metric == Metric::Throughput);
        for (place, one) in summary.comparisons.iter_mut().enumerate() {
            let ratio = [1.3, 1.02][place];
            (one.low, one.ratio, one.high, one.verdict) = (ratio / 1.4, ratio, ratio * 1.4, Verdict::Undecided);
        }
        assert!(said(&summary)[0].starts_with("Undecided: the Unix socket has between 0.93 and 1.82 times "));
        summary.comparisons.swap(0, 1);
        summary.cases.reverse();
        assert!(said(&summary)[0].starts_with("Undecided: the Unix socket has between 0.93 and 1.82 times "));
    }

    #[test]
    fn what_few_settings_have_is_no_answer_for_all() {
        let mut summary = with(&[Verdict::Faster, Verdict::Slower]);
        let first = summary.comparisons[0].case.clone();
        let other = first.replace("unix", "abstract");
        let mut case = summary.cases.iter().find(|case| case.case == first).unwrap().clone();
        case.case.clone_from(&other);
        case.transport = lasthop_protocol::spec::Transport::Abstract;
        case.levels.insert("transport".to_owned(), "abstract".into());
        let mut comparison = summary.comparisons[0].clone();
        comparison.case = other;
        summary.cases.insert(0, case);
        summary.comparisons.insert(0, comparison);
        assert!(
            said(&summary)[0].starts_with("It depends: the Unix socket is faster, 1.30 times the requests/s of TCP"),
            "{:?}",
            said(&summary)
        );
        summary
            .comparisons
            .iter_mut()
            .filter(|one| one.case.starts_with("unix"))
            .for_each(|one| {
                (one.low, one.ratio, one.high, one.verdict) = (0.9, 1.0, 1.1, Verdict::Undecided);
            });
        assert!(
            said(&summary)[0].contains(" (hello); and other settings do not have it"),
            "{:?}",
            said(&summary)
        );
    }

    #[test]
    fn one_round_decides_nothing() {
        use Verdict::{Equivalent, Faster, Slower};
        for (verdicts, start) in [
            (&[Faster, Faster], "Perhaps the Unix socket: 1.30 times "),
            (&[Faster, Slower], "Perhaps it depends: "),
            (&[Slower, Slower], "Perhaps stay with TCP: "),
            (&[Equivalent, Equivalent], "Perhaps it makes no difference: "),
        ] {
            let mut summary = with(verdicts);
            summary.rounds = 1;
            let first = said(&summary).remove(0);
            assert!(first.starts_with(start), "{first}");
            assert!(
                first.ends_with("; this is one round, and the next may say otherwise."),
                "{first}"
            );
        }
    }

    #[test]
    fn advice_is_bold_only_where_nothing_is_against_it() {
        let bold = with(&[Verdict::Faster]);
        assert!(said(&bold)[0].starts_with("Use the Unix socket: "), "{:?}", said(&bold));
        let case = bold.comparisons[0].case.clone();
        let check = |id: &str, severity, case: &str| Check {
            id: id.to_owned(),
            severity,
            case: Some(case.to_owned()),
            evidence: String::new(),
            effect: String::new(),
        };
        let perhaps = |change: &dyn Fn(&mut Summary), why: &str| {
            let mut summary = bold.clone();
            change(&mut summary);
            let first = said(&summary).remove(0);
            assert!(
                first.starts_with("Perhaps the Unix socket: ") && first.contains(why),
                "{first}"
            );
        };
        perhaps(
            &|run| run.checks.push(check("too-few-blocks", Severity::Doubt, &case)),
            "few rounds",
        );
        perhaps(
            &|run| run.checks.push(check("errors", Severity::Invalid, "tls/pattern=hello")),
            "another case",
        );
        let mut busy = bold.clone();
        busy.cases.iter_mut().for_each(|case| case.headroom = Some(0.8));
        assert!(
            said(&busy)[0].starts_with("Use the Unix socket: "),
            "servers that do little decide nothing less"
        );
    }

    #[test]
    fn what_is_of_one_start_says_so() {
        let mut summary = with(&[Verdict::Faster]);
        let one = &mut summary.comparisons[0];
        (one.verdict, one.one_start) = (Verdict::Undecided, true);
        assert_eq!(
            said(&summary),
            [
                "Undecided: the Unix socket has between 1.20 and 1.40 times the requests/s of TCP; one start of the servers \
              decides nothing, so use a larger budget."
            ]
        );
    }

    #[test]
    fn what_only_controls_is_not_advised() {
        use Verdict::Faster;
        let mut summary = with(&[Faster, Faster]);
        let controls: Vec<String> = summary.comparisons.iter().map(|one| one.case.clone()).collect();
        let alone = said(&summary);
        summary.controls = controls;
        assert_eq!(said(&summary), alone, "there is nothing else");
        let mut summary = fixtures::three_transports();
        assert!(said(&summary)[0].starts_with("Use the Unix socket"));
        summary.controls = summary
            .cases
            .iter()
            .map(|one| one.case.clone())
            .filter(|one| one.starts_with("unix"))
            .collect();
        assert!(said(&summary)[0].starts_with("Stay with TCP"), "{:?}", said(&summary));
    }

    #[test]
    fn what_fails_again_and_again_is_not_advised() {
        let mut data = testing::healthy();
        let first = |data: &_| said(&lasthop_analyse::summarise(data)).remove(0);
        assert!(first(&data).starts_with("Use the Unix socket: "), "{}", first(&data));
        testing::fail(&mut data, "unix", |trial| trial.round < 2 && trial.block == 4);
        assert_eq!(
            first(&data),
            "No answer: what was compared must not be used (see Doubts)."
        );
    }

    #[test]
    fn what_must_not_be_used_is_no_answer() {
        let mut summary = fixtures::lower_bound();
        summary.checks[3].case = Some("tcp/pattern=echo/size=64".into());
        assert_eq!(
            said(&summary),
            ["No answer: what was compared must not be used (see Doubts)."]
        );
    }
}
