//! The answer: what to do, and when it stops mattering, in at most three lines.
//!
//! It follows from verdicts and materiality alone. Of each alternative to the reference it asks in how many settings the
//! verdict is for it and against it. One that fewer settings have than others is no answer for all, and is left out.
//!
//!
//! | verdicts | the first line |
//! |---|---|
//! | an alternative is better somewhere and worse nowhere | `Use` it; of several, the one that is better in most settings, then by most |
//! | one is better here and worse there | `It depends`, with the settings |
//! | one may be better | `Undecided` |
//! | all are equivalent | `It makes no difference` |
//! | all are worse, or equivalent | `Stay with` the reference |
//!
//! Where one round is all there is, or every verdict may be chance among so many comparisons, it begins with `Perhaps`.

use indexmap::IndexMap;

use super::{
    figures::listed,
    parts::terms,
    verdicts::{quantity, sentence, why_none},
};
use crate::{
    analyse::summary::{Comparison, Materiality, Metric, Summary, Verdict},
    report::{
        document::{Block, Depth, Section, Text, Tone},
        groups::{Compared, Group, groups},
        units::{NBSP, TimeUnit, capital, ratio, significant},
        wording::{Quantity, margin, more_time, percent, ratio_places},
    },
};

/// An interval between whose ends there is more than this factor, as a logarithm, says nothing yet: 10.
const TOO_WIDE: f64 = std::f64::consts::LN_10;
/// With fewer rounds, the luck of a start is in the answer and not in its interval.
const LEAST_ROUNDS: u32 = 2;

/// An alternative to the reference, in all settings.
struct Rival<'a> {
    name: String,
    reference: String,
    found: Vec<Found<'a>>,
    /// Settings in which it failed or must not be used.
    without_verdict: usize,
}

#[derive(Clone, Copy)]
struct Found<'a> {
    group: &'a Group<'a>,
    compared: Compared<'a>,
}

/// The answer at the head of a report.
pub fn section(summary: &Summary) -> Section {
    let blocks = answer(summary).into_iter().map(Block::Paragraph).collect();
    Section { title: None, depth: Depth::Open, blocks }
}

/// What to do and when it stops mattering: one to three lines, the first of which is always there.
#[must_use]
pub fn answer(summary: &Summary) -> Vec<Text> {
    let groups = groups(summary);
    if summary.aa {
        return vec!["There is nothing to choose: this run compares each case with itself.".into()];
    }
    let rivals = choices(summary, rivals(&groups));
    if rivals.iter().all(|rival| rival.found.is_empty()) {
        return vec![nothing(summary, &groups)];
    }
    let Some(best) = best(&rivals) else { return vec![without_winner(summary, &rivals)] };
    let lines = [Some(advice(summary, best)), as_good(&rivals, best), until(summary, best)];
    lines.into_iter().flatten().collect()
}

/// What somebody can choose: without what only controls, if anything else was compared.
fn choices<'a>(summary: &Summary, mut rivals: Vec<Rival<'a>>) -> Vec<Rival<'a>> {
    let controls = |rival: &Rival<'_>| {
        !rival.found.is_empty() && rival.found.iter().all(|found| summary.controls.contains(&found.compared.case.case))
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
                found: vec![],
                without_verdict: 0,
            });
            match group.compared().find(|compared| compared.case.case == case.case) {
                Some(compared) => rival.found.push(Found { group, compared }),
                None => rival.without_verdict += 1,
            }
        }
    }
    rivals.into_values().collect()
}

/// A name as it stands in a sentence: things, such as sockets and ports, have an article, protocols and levels have none.
#[must_use]
pub fn the(name: &str) -> String {
    const THINGS: [&str; 8] = ["socket", "port", "address", "network", "namespace", "socketpair", "pair", "queue"];
    let is_thing = name.split(' ').any(|word| THINGS.contains(&word)) && !name.contains(" over ");
    if is_thing { format!("the {name}") } else { name.to_owned() }
}

impl<'a> Rival<'a> {
    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Found<'a>> {
        self.found.iter().filter(move |found| found.comparison().verdict == verdict)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.with(verdict).count()
    }

    fn settings(&self) -> usize {
        self.found.len() + self.without_verdict
    }

    /// The mean size of the effects where it is better, in logarithms.
    fn gain(&self) -> f64 {
        let gains = self.with(Verdict::Faster).map(|found| found.comparison().ratio.ln().abs());
        gains.sum::<f64>() / self.count(Verdict::Faster).max(1) as f64
    }
}

impl<'a> Found<'a> {
    fn comparison(&self) -> &'a Comparison {
        self.compared.comparison
    }

    /// CPU time per request, if it is known to differ.
    fn cpu(&self) -> Option<&'a Materiality> {
        let comparison = self.group.comparison(self.compared.case, Metric::CpuPerRequest)?;
        let materiality = comparison.materiality.as_ref()?;
        let decided = matches!(comparison.verdict, Verdict::Faster | Verdict::Slower);
        (decided && materiality.saved_us_low * materiality.saved_us_high > 0.0).then_some(materiality)
    }
}

/// Better somewhere, worse nowhere, and to be had in as many settings as any.
fn best<'b, 'a>(rivals: &'b [Rival<'a>]) -> Option<&'b Rival<'a>> {
    let most = rivals.iter().map(Rival::settings).max()?;
    let safe = rivals.iter().filter(|rival| {
        rival.settings() == most && rival.count(Verdict::Faster) > 0 && rival.count(Verdict::Slower) == 0
    });
    let rank = |rival: &&Rival<'_>| (rival.count(Verdict::Faster), rival.gain());
    safe.max_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(std::cmp::Ordering::Equal))
}

fn nothing(summary: &Summary, groups: &[Group<'_>]) -> Text {
    let why =
        why_none(summary, groups).unwrap_or_else(|| "what was compared must not be used (see Doubts).".to_owned());
    Text::of(Tone::Warning, "No answer").plain(format!(": {why}"))
}

/// `Use the Unix socket: 1.27 times the requests/s of TCP (95 % interval 1.22 to 1.33), 41 µs less CPU a request.`
fn advice(summary: &Summary, best: &Rival<'_>) -> Text {
    let cpu = saved(best).map(|saved| format!(", {saved}")).unwrap_or_default();
    let rest = rest(summary, best);
    let effect = effect(summary, best);
    let (tone, lead, luck) = match luck(summary, best.with(Verdict::Faster)) {
        Some(luck) => (Tone::Warning, format!("Perhaps {}", best.name), luck),
        None => (Tone::Good, format!("Use {}", best.name), ""),
    };
    Text::of(tone, lead).plain(format!(": {effect}{cpu}{rest}{luck}."))
}

/// Why what rests on these verdicts may be luck.
fn luck<'b, 'a: 'b>(summary: &Summary, mut found: impl Iterator<Item = &'b Found<'a>>) -> Option<&'static str> {
    if summary.rounds < LEAST_ROUNDS {
        return Some("; this is one round, and the next may say otherwise");
    }
    let chance = found.all(|found| found.comparison().may_be_chance());
    chance.then_some("; among this many comparisons, that may be chance (see Doubts)")
}

/// A first line that advises no change, less sure where it may be luck.
fn careful(lead: &str, luck: Option<&str>, what: &str) -> Text {
    match luck {
        Some(luck) => Text::of(Tone::Warning, format!("Perhaps {lead}")).plain(format!(": {what}{luck}.")),
        None => Text::of(Tone::Strong, capital(lead)).plain(format!(": {what}.")),
    }
}

/// How much better, with the interval if there is one setting, or from the least to the most.
fn effect(summary: &Summary, best: &Rival<'_>) -> String {
    let mut won: Vec<&Found<'_>> = best.with(Verdict::Faster).collect();
    won.sort_by(|one, other| one.comparison().ratio.total_cmp(&other.comparison().ratio));
    let (first, last) = (won[0], won[won.len() - 1]);
    let what = measured(&won, &best.reference);
    let bound = if won.iter().any(|found| found.comparison().lower_bound) { "at least " } else { "" };
    if best.settings() == 1 {
        let [low, estimate, high] = ends(first.comparison());
        let confidence = percent(terms(summary).confidence, 0);
        return format!("{bound}{estimate}{NBSP}times {what} ({confidence} interval {low} to {high})");
    }
    let (least, most) = (&ends(first.comparison())[1], &ends(last.comparison())[1]);
    let range = if least == most { least.clone() } else { format!("{least} to {most}") };
    let all = best.settings();
    let settings = match won.len() {
        2 if all == 2 => "both".to_owned(),
        few if few < all => format!("{few} of {all}"),
        _ => format!("all {all}"),
    };
    format!("{bound}{range}{NBSP}times {what} in {settings} settings")
}

/// `the requests/s of TCP`, if the settings have that in common.
fn measured(found: &[&Found<'_>], reference: &str) -> String {
    let of = |found: &Found<'_>| quantity(found.group);
    let first = of(found[0]);
    match found.iter().all(|other| of(other) == first) {
        true => format!("the {} of {reference}", first.word()),
        false => format!("as fast as {reference}"),
    }
}

/// The ends of a ratio's interval with the ratio between them, all to the same place.
#[must_use]
pub fn ends(comparison: &Comparison) -> [String; 3] {
    [comparison.low, comparison.ratio, comparison.high].map(|value| ratio(value, ratio_places(comparison)))
}

/// CPU time per request where it is better, if its sign is always the same.
fn saved(best: &Rival<'_>) -> Option<String> {
    let mut saved: Vec<f64> = best.with(Verdict::Faster).filter_map(|found| Some(found.cpu()?.saved_us)).collect();
    saved.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let (least, most) = (*saved.first()?, *saved.last()?);
    if saved.iter().any(|one| one.signum() != least.signum()) {
        return None;
    }
    let word = if least > 0.0 { "less" } else { "more" };
    Some(format!("{} {word} CPU a request", range(least.abs(), most.abs())))
}

/// The settings in which it is not better.
fn rest(summary: &Summary, best: &Rival<'_>) -> String {
    let within = format!("within {}", margin(summary.settings.margin));
    let counts = [
        (best.count(Verdict::Equivalent), within.as_str()),
        (best.count(Verdict::Undecided), "undecided"),
        (best.without_verdict, "without a verdict"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("; {word} in {count}"));
    said.collect()
}

/// Alternatives that the run cannot tell from the best one.
fn as_good(rivals: &[Rival<'_>], best: &Rival<'_>) -> Option<Text> {
    let overlaps = |one: &Found<'_>, other: &Found<'_>| {
        let (one, other) = (one.comparison(), other.comparison());
        one.reference == other.reference && one.low <= other.high && other.low <= one.high
    };
    let like = |rival: &&Rival<'_>| {
        rival.name != best.name
            && rival.count(Verdict::Faster) == best.count(Verdict::Faster)
            && best.with(Verdict::Faster).all(|won| rival.with(Verdict::Faster).any(|found| overlaps(won, found)))
    };
    let names: Vec<&str> = rivals.iter().filter(like).map(|rival| rival.name.as_str()).collect();
    let (are, differ) = if names.len() == 1 { ("is", "its") } else { ("are", "their") };
    let listed = capital(&listed(&names));
    (!names.is_empty()).then(|| format!("{listed} {are} about as good: {differ} intervals overlap.").into())
}

/// When the best one is no longer better: by CPU time if that is known to differ, otherwise by the time of a request
/// that does not queue. Of several settings, the shortest handler and the longest.
fn until(summary: &Summary, best: &Rival<'_>) -> Option<Text> {
    let cpu = |found: &Found<'_>| found.cpu().filter(|cpu| cpu.saved_us > 0.0)?.break_even.as_ref().map(|at| at.high);
    let time = |found: &Found<'_>| Some(found.comparison().materiality.as_ref()?.break_even.as_ref()?.high);
    let all = |of: &dyn Fn(&Found<'_>) -> Option<f64>| best.with(Verdict::Faster).filter_map(of).collect::<Vec<f64>>();
    let (handlers, uses, of) = match all(&cpu) {
        none if none.is_empty() => (all(&time), "takes", ""),
        some => (some, "uses", " of CPU"),
    };
    let (least, most) = (handlers.iter().copied().reduce(f64::min)?, handlers.iter().copied().reduce(f64::max)?);
    let within = margin(summary.settings.margin);
    let known = most > 0.0 && summary.settings.margin > 0.0;
    let by_setting = if handlers.len() > 1 { ", by setting" } else { "" };
    let length = range(least * 1e3, most * 1e3);
    known.then(|| {
        format!("It no longer matters (under {within}) once your handler {uses} more than {length}{of}{by_setting}.")
            .into()
    })
}

/// Two times in microseconds: `4.0 µs`, `19 µs to 4.0 ms`.
fn range(least: f64, most: f64) -> String {
    let unit = TimeUnit::of;
    let number = |micros: f64| significant(micros / unit(micros).micros(), 2);
    let upper = format!("{}{NBSP}{}", number(most), unit(most).name());
    match unit(least) == unit(most) {
        true if number(least) == number(most) => upper,
        true => format!("{} to {upper}", number(least)),
        false => format!("{}{NBSP}{} to {upper}", number(least), unit(least).name()),
    }
}

fn without_winner(summary: &Summary, rivals: &[Rival<'_>]) -> Text {
    let has = |verdict| move |rival: &&Rival<'_>| rival.count(verdict) > 0;
    let mixed = rivals.iter().filter(has(Verdict::Faster)).find(has(Verdict::Slower));
    if let Some(mixed) = mixed.or_else(|| rivals.iter().find(has(Verdict::Faster))) {
        return depends(summary, mixed);
    }
    if let Some(open) = rivals.iter().find(|rival| has(Verdict::Undecided)(rival) && rival.count(Verdict::Slower) == 0)
    {
        return undecided(summary, open);
    }
    let (name, reference) = (&rivals[0].name, &rivals[0].reference);
    let within = format!("within {}", margin(summary.settings.margin));
    if rivals.iter().all(|rival| rival.count(Verdict::Slower) == 0) {
        let names = if rivals.len() == 1 { format!("{name} and {reference} are") } else { "all are".to_owned() };
        let what = format!("{names} {within} of each other");
        return careful("it makes no difference", luck(summary, rivals[0].found.iter()), &what);
    }
    let against = |rival: &Rival<'_>| {
        let slower: Vec<&Found<'_>> = rival.with(Verdict::Slower).collect();
        let (few, all) = (slower.len(), rival.settings());
        match (&slower[..], all) {
            ([], _) => format!("{} is {within} of it", rival.name),
            ([one], 1) => {
                let what = if quantity(one.group) == Quantity::ResponseTime { "median response time" } else { "speed" };
                format!("{} has {}{NBSP}times its {what}", rival.name, ends(one.comparison())[1])
            }
            _ => format!("{} is slower in {few} of {all} settings", rival.name),
        }
    };
    let said: Vec<String> = rivals.iter().filter(|rival| !rival.found.is_empty()).map(against).collect();
    let slower = rivals.iter().flat_map(|rival| rival.with(Verdict::Slower));
    careful(&format!("stay with {reference}"), luck(summary, slower), &said.join(", "))
}

/// Better in one setting, and worse in another or not to be had there.
fn depends(summary: &Summary, mixed: &Rival<'_>) -> Text {
    let settings =
        |verdict| mixed.with(verdict).map(|found| found.group.setting.as_str()).collect::<Vec<_>>().join("; ");
    let (faster, slower) = (settings(Verdict::Faster), settings(Verdict::Slower));
    let rest = match slower.as_str() {
        "" => "and other settings do not have it".to_owned(),
        slower => format!("but slower with {slower}"),
    };
    let what = format!("{} is faster than {} with {faster}, {rest}", mixed.name, mixed.reference);
    let luck = luck(summary, mixed.with(Verdict::Faster)).or_else(|| luck(summary, mixed.with(Verdict::Slower)));
    careful("it depends", luck, &what)
}

fn undecided(summary: &Summary, open: &Rival<'_>) -> Text {
    let found: Vec<&Found<'_>> = open.with(Verdict::Undecided).collect();
    let lead = Text::of(Tone::Warning, "Undecided");
    let Rival { name, reference, .. } = open;
    if let [one] = &found[..] {
        let comparison = one.comparison();
        let more = more_time(&[comparison], &terms(summary));
        if (comparison.high / comparison.low).ln() > TOO_WIDE {
            return lead.plain(format!(": it is too early to say whether {name} is better than {reference}; {more}."));
        }
        let [low, _, high] = ends(comparison);
        let what = measured(&found, reference);
        return lead.plain(sentence(&format!(": {name} has between {low} and {high}{NBSP}times {what}; {more}")));
    }
    let all = open.settings();
    let comparisons: Vec<&Comparison> = found.iter().map(|found| found.comparison()).collect();
    let more = more_time(&comparisons, &terms(summary));
    let open =
        format!(": whether {name} is better than {reference} is open in {} of {all} settings; {more}.", found.len());
    lead.plain(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse::summary::OneWay, report::fixtures};

    fn said(summary: &Summary) -> Vec<String> {
        answer(summary).iter().map(|line| line.to_string().replace(NBSP, " ")).collect()
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
        let one_way = OneWay { sent: 10, received: 9, dropped: Some(1), lost: 0.1, sent_per_s: 10.0, waited: 0.0 };
        for case in &mut summary.cases {
            case.metrics.as_mut().unwrap().one_way = Some(one_way.clone());
        }
        let said = said(&summary).join(" ");
        assert!(said.contains("times the datagrams received/s") && !said.contains("requests/s"), "{said}");
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
        let kept: Vec<String> =
            summary.comparisons.iter().flat_map(|one| [one.case.clone(), one.reference.clone()]).collect();
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
            (&[Faster, Slower], "It depends: the Unix socket is faster than TCP with "),
            (&[Slower, Slower], "Stay with TCP: the Unix socket is slower in 2 of 2 settings."),
            (&[Slower, Equivalent], "Stay with TCP: the Unix socket is slower in 1 of 2 settings."),
            (
                &[Equivalent, Equivalent],
                "It makes no difference: the Unix socket and TCP are within 2 % of each other.",
            ),
            (&[Undecided, Equivalent], "Undecided: the Unix socket has between 0.90 and 1.20 times the "),
            (
                &[Undecided, Undecided],
                "Undecided: whether the Unix socket is better than TCP is open in 2 of 2 settings; ",
            ),
        ] {
            let first = said(&with(verdicts)).remove(0);
            assert!(first.starts_with(start), "{verdicts:?}: {first}");
        }
        let mut doubtful = with(&[Faster, Undecided]);
        doubtful.comparisons.iter_mut().for_each(|comparison| comparison.adjusted_p = Some(0.08));
        let first = said(&doubtful).remove(0);
        assert!(first.starts_with("Perhaps the Unix socket: 1.30 times "), "{first}");
        assert!(
            first.ends_with("undecided in 1; among this many comparisons, that may be chance (see Doubts)."),
            "{first}"
        );
        let mut by_chance = with(&[Faster, Slower]);
        by_chance.comparisons[1].adjusted_p = Some(0.08);
        let first = said(&by_chance).remove(0);
        assert!(first.starts_with("Perhaps it depends: ") && first.contains("may be chance"), "{first}");
        let rest = said(&with(&[Faster, Undecided])).remove(0);
        assert!(rest.contains("in 1 of 2 settings; undecided in 1."), "{rest}");
    }

    #[test]
    fn what_few_settings_have_is_no_answer_for_all() {
        let mut summary = with(&[Verdict::Faster, Verdict::Slower]);
        let first = summary.comparisons[0].case.clone();
        let other = first.replace("unix", "abstract");
        let mut case = summary.cases.iter().find(|case| case.case == first).unwrap().clone();
        case.case.clone_from(&other);
        case.transport = lasthop_load::spec::Transport::Abstract;
        case.levels.insert("transport".to_owned(), "abstract".into());
        let mut comparison = summary.comparisons[0].clone();
        comparison.case = other;
        summary.cases.insert(0, case);
        summary.comparisons.insert(0, comparison);
        assert!(
            said(&summary)[0].starts_with("It depends: the Unix socket is faster than TCP with "),
            "{:?}",
            said(&summary)
        );
        summary.comparisons.iter_mut().filter(|one| one.case.starts_with("unix")).for_each(|one| {
            (one.low, one.ratio, one.high, one.verdict) = (0.9, 1.0, 1.1, Verdict::Undecided);
        });
        assert!(said(&summary)[0].contains(" with hello, and other settings do not have it"), "{:?}", said(&summary));
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
            assert!(first.ends_with("; this is one round, and the next may say otherwise."), "{first}");
        }
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
        summary.controls =
            summary.cases.iter().map(|one| one.case.clone()).filter(|one| one.starts_with("unix")).collect();
        assert!(said(&summary)[0].starts_with("Stay with TCP"), "{:?}", said(&summary));
    }

    #[test]
    fn what_must_not_be_used_is_no_answer() {
        let mut summary = fixtures::lower_bound();
        summary.checks[3].case = Some("tcp/pattern=echo/size=64".into());
        assert_eq!(said(&summary), ["No answer: what was compared must not be used (see Doubts)."]);
    }
}
