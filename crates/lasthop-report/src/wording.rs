//! The sentences of a report, written from figures alone.
//!
//! A large effect is given as a ratio ("1.87 times as fast"), a small one in percent ("9 % more requests/s"). For
//! times, less is better: "0.53 times the median response time", "9 % shorter median response time". The words
//! *faster*,
//! *slower*, *equivalent* and *undecided* always mean the verdict.

use std::time::Duration;

use lasthop_analyse::summary::{Comparison, Verdict};
use lasthop_model::quantity::written;
use lasthop_stats::stopping::LEAST_BLOCKS;

use super::{
    document::{Text, Tone},
    units::{NBSP, capital, decimals_for, grouped, plural, ratio, significant},
};

/// The quantity by which cases are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Bytes,
    /// Datagrams per second that arrived, where nothing comes back.
    Received,
    /// Median time from when a request was due until its last byte arrived, in open loops.
    ResponseTime,
    /// CPU time per request.
    Cpu,
}

impl Quantity {
    /// Those that verdicts are about, each with a picture of its own.
    pub const DECLARED: [Self; 4] = [Self::Requests, Self::Bytes, Self::Received, Self::ResponseTime];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Bytes => "bytes/s",
            Self::Received => "datagrams received/s",
            Self::ResponseTime => "median response time",
            Self::Cpu => "CPU per request",
        }
    }

    /// The word for a case that has more of it than another.
    fn more(self) -> &'static str {
        if self == Self::ResponseTime { "longer" } else { "more" }
    }

    fn less(self) -> &'static str {
        match self {
            Self::Requests | Self::Bytes | Self::Received => "fewer",
            Self::ResponseTime => "shorter",
            Self::Cpu => "less",
        }
    }

    /// What a ratio is of: `1.87 times as fast`.
    fn of_times(self) -> &'static str {
        match self {
            Self::Requests | Self::Bytes | Self::Received => "as fast",
            Self::ResponseTime => "the median response time",
            Self::Cpu => "the CPU per request",
        }
    }

    /// A verdict on it in a word.
    #[must_use]
    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match (self, verdict) {
            (Self::Cpu, Verdict::Faster) => "less",
            (Self::Cpu, Verdict::Slower) => "more",
            _ => word(verdict),
        }
    }
}

/// What every sentence of a run needs besides its comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Differences within this share count as none.
    pub margin: f64,
    /// Confidence level of the intervals.
    pub confidence: f64,
    /// Seconds that the run took.
    pub spent: f64,
    /// The run's budget in seconds.
    pub budget: f64,
}

/// A case and its reference, by name.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub case: &'a str,
    pub reference: &'a str,
    pub comparison: &'a Comparison,
    pub quantity: Quantity,
    /// Whether to say what kind of interval it is. Once per report is enough.
    pub explain: bool,
}

/// The verdict as a sentence.
#[must_use]
pub fn verdict(claim: &Claim<'_>, terms: &Terms) -> Text {
    match claim.comparison.verdict {
        Verdict::Faster | Verdict::Slower => difference(claim, terms),
        Verdict::Equivalent => equivalent(claim, terms),
        Verdict::Undecided => undecided(claim, terms),
    }
}

fn difference(claim: &Claim<'_>, terms: &Terms) -> Text {
    let Claim { case, reference, comparison, .. } = claim;
    let tone = tone(comparison.verdict);
    let bound = bound(comparison);
    let effect = effect(comparison, claim.quantity);
    let sentence = Text::from(format!("{} is ", capital(case)));
    let sentence = match (comparison.verdict, is_large(comparison.ratio)) {
        (Verdict::Faster, true) if claim.quantity != Quantity::ResponseTime => {
            sentence.and(tone, format!("{bound}{effect}")).plain(format!(" as {reference}"))
        }
        (Verdict::Faster, _) => {
            sentence.and(tone, "faster").plain(format!(" than {reference}: ")).and(tone, format!("{bound}{effect}"))
        }
        (_, large) => {
            let is_rate = claim.quantity != Quantity::ResponseTime;
            let only = if large && is_rate && bound.is_empty() { "only " } else { bound };
            sentence.and(tone, "slower").plain(format!(" than {reference}: ")).and(tone, format!("{only}{effect}"))
        }
    };
    let note = if comparison.lower_bound { "; a lower bound, see Doubts" } else { "" };
    sentence.plain(format!(" ({}{}{note}).", explained(claim, terms), interval(comparison)))
}

fn equivalent(claim: &Claim<'_>, terms: &Terms) -> Text {
    let Claim { case, reference, comparison, quantity, .. } = claim;
    let hidden = if comparison.lower_bound {
        " But the driver or the machine was the bottleneck, which may hide a difference (see Doubts)."
    } else {
        ""
    };
    Text::from(format!("{} and {reference} are ", capital(case))).and(tone(comparison.verdict), "equivalent").plain(
        format!(
            ": within {} of each other ({}{} {}).{hidden}",
            margin(terms.margin),
            explained(claim, terms),
            signed_interval(comparison),
            quantity.word()
        ),
    )
}

fn undecided(claim: &Claim<'_>, terms: &Terms) -> Text {
    let Claim { case, reference, comparison, quantity, .. } = claim;
    Text::from(format!("{} against {reference} is ", capital(case)))
        .and(tone(comparison.verdict), "undecided")
        .plain(format!(": {}; {}.", between(comparison, *quantity, terms), more_time(&[comparison], terms)))
}

/// The range in which an undecided ratio lies.
fn between(comparison: &Comparison, quantity: Quantity, terms: &Terms) -> String {
    let places = percent_places(comparison);
    let end = |ratio: f64| percent((ratio - 1.0).abs(), places);
    let (low, high, word) = (comparison.low, comparison.high, quantity.word());
    if low < 1.0 && high > 1.0 && (is_large(low) || is_large(high)) {
        return format!("between {} and {}{NBSP}times the {word}", significant(low, 2), significant(high, 2));
    }
    if low < 1.0 && high > 1.0 {
        let (less, more) = (quantity.less(), quantity.more());
        let end = |ratio: f64| match end(ratio) {
            none if !none.contains(|digit| matches!(digit, '1'..='9')) => {
                format!("less than {}", percent(0.01 / 10f64.powi(places as i32), places))
            }
            share => share,
        };
        return format!("between {} {less} and {} {more} {word}", end(low), end(high));
    }
    let margin = margin(terms.margin);
    let (near, far, more) = if low >= 1.0 { (low, high, quantity.more()) } else { (high, low, quantity.less()) };
    let none = if comparison.one_start { String::new() } else { format!(", and less than {margin} counts as none") };
    format!("{} to {} {more} {word}{none}", end(near), end(far))
}

/// The effect without its interval: `1.87 times as fast`, `9 % more requests/s`, `9 % shorter median response time`.
#[must_use]
pub fn effect(comparison: &Comparison, quantity: Quantity) -> String {
    if is_large(comparison.ratio) {
        let ratio = times(comparison.ratio, ratio_places(comparison));
        return format!("{ratio}{NBSP}times {}", quantity.of_times());
    }
    let more = if comparison.ratio >= 1.0 { quantity.more() } else { quantity.less() };
    let share = percent((comparison.ratio - 1.0).abs(), percent_places(comparison));
    format!("{share} {more} {}", quantity.word())
}

/// The interval, in the same unit as [`effect`].
#[must_use]
pub fn interval(comparison: &Comparison) -> String {
    let Comparison { low, high, .. } = *comparison;
    if is_large(comparison.ratio) {
        let places = ratio_places(comparison);
        return format!("{} to {}", times(low, places), times(high, places));
    }
    if low < 1.0 && high > 1.0 {
        return signed_interval(comparison);
    }
    let places = percent_places(comparison);
    let (near, far) = if comparison.ratio >= 1.0 { (low, high) } else { (high, low) };
    format!("{} to {}", percent((near - 1.0).abs(), places), percent((far - 1.0).abs(), places))
}

/// `−18 % to +2 %`
fn signed_interval(comparison: &Comparison) -> String {
    let places = percent_places(comparison);
    format!("{} to {}", signed_percent(comparison.low - 1.0, places), signed_percent(comparison.high - 1.0, places))
}

fn explained(claim: &Claim<'_>, terms: &Terms) -> String {
    if claim.explain { format!("{} interval ", percent(terms.confidence, 0)) } else { String::new() }
}

/// The words that mark a lower bound: `at most` for a ratio below 1, otherwise `at least`.
fn bound(comparison: &Comparison) -> &'static str {
    match (comparison.lower_bound, comparison.ratio < 1.0 && is_large(comparison.ratio)) {
        (false, _) => "",
        (true, false) => "at least ",
        (true, true) => "at most ",
    }
}

/// A sentence about a tail that contradicts the rate; `None` if the two agree.
///
/// `latency` compares the 99th percentile.
#[must_use]
pub fn tail(case: &str, rate: &Comparison, latency: &Comparison) -> Option<Text> {
    let (word, tone) = match (rate.verdict, latency.verdict) {
        (Verdict::Faster | Verdict::Equivalent, Verdict::Slower) => ("longer", Tone::Bad),
        (Verdict::Slower | Verdict::Equivalent, Verdict::Faster) => ("shorter", Tone::Good),
        _ => return None,
    };
    let large = is_large(latency.ratio);
    let effect = if large {
        format!("{}{NBSP}times as long", times(latency.ratio, ratio_places(latency)))
    } else {
        format!("{} {word}", percent((latency.ratio - 1.0).abs(), percent_places(latency)))
    };
    Some(
        Text::from(format!(" The p99 of {case}, though, is "))
            .and(tone, effect)
            .plain(format!(" ({}).", interval(latency))),
    )
}

/// A sentence about the CPU time, which has a verdict of its own; `None` if it is undecided or, beside a decided rate, the
/// same.
#[must_use]
pub fn cpu(rate: &Comparison, cpu: &Comparison) -> Option<Text> {
    let undecided = rate.verdict == Verdict::Undecided;
    match cpu.verdict {
        Verdict::Faster | Verdict::Slower => {
            let lead = if undecided { " But it" } else { " It" };
            Some(
                Text::from(format!("{lead} uses "))
                    .and(tone(cpu.verdict), effect(cpu, Quantity::Cpu))
                    .plain(format!(" ({}).", interval(cpu))),
            )
        }
        Verdict::Equivalent if undecided => {
            Some(Text::from(format!(" Its CPU per request is equivalent ({}).", signed_interval(cpu))))
        }
        Verdict::Equivalent | Verdict::Undecided => None,
    }
}

/// One of several comparisons of a transport.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub setting: &'a str,
    pub comparison: &'a Comparison,
    pub quantity: Quantity,
}

/// Sums up a transport over several settings: how often each verdict, and how large the effect, weakest first.
///
/// `parts` holds the comparisons with their settings. It must not be empty.
#[must_use]
pub fn across(case: &str, reference: &str, parts: &[Part<'_>], [failed, invalid]: [usize; 2]) -> Text {
    let all = parts.len() + failed + invalid;
    let order = [Verdict::Faster, Verdict::Slower, Verdict::Equivalent, Verdict::Undecided];
    let lead = if parts.iter().any(|part| part.quantity == Quantity::Cpu) { "CPU per request of " } else { "" };
    let name = if lead.is_empty() { capital(case) } else { case.to_owned() };
    let mut sentence = Text::from(format!("{lead}{name} against {reference}, in {all} settings: "));
    let mut lead = "";
    for verdict in order {
        let mut same: Vec<_> = parts.iter().filter(|part| part.comparison.verdict == verdict).collect();
        same.sort_by(|a, b| strength(a.comparison).total_cmp(&strength(b.comparison)));
        let (Some(least), Some(most)) = (same.first(), same.last()) else { continue };
        let count = if same.len() == all { "all".to_owned() } else { same.len().to_string() };
        let word = least.quantity.verdict(verdict);
        sentence = sentence.plain(lead).and(tone(verdict), format!("{word} in {count}"));
        sentence = sentence.plain(extent(verdict, least, most));
        lead = "; ";
    }
    if failed > 0 {
        sentence = sentence.plain(lead).and(Tone::Bad, format!("failed in {failed}"));
        lead = "; ";
    }
    if invalid > 0 {
        sentence = sentence.plain(format!("{lead}no verdict in {invalid} (see Doubts)"));
    }
    sentence.plain(".")
}

/// The weakest and the strongest effect of one verdict.
fn extent(verdict: Verdict, least: &Part<'_>, most: &Part<'_>) -> String {
    let bounded = |part: &Part<'_>| format!("{}{}", bound(part.comparison), effect(part.comparison, part.quantity));
    let one = std::ptr::eq(least, most);
    match verdict {
        Verdict::Faster | Verdict::Slower if one => format!(": {} ({})", bounded(most), most.setting),
        Verdict::Faster | Verdict::Slower if bounded(least) == bounded(most) => format!(": {}", bounded(most)),
        Verdict::Faster | Verdict::Slower => {
            format!(", from {} ({}) to {} ({})", bounded(least), least.setting, bounded(most), most.setting)
        }
        Verdict::Equivalent | Verdict::Undecided if one => format!(" ({})", most.setting),
        Verdict::Equivalent | Verdict::Undecided => String::new(),
    }
}

fn strength(comparison: &Comparison) -> f64 {
    comparison.ratio.ln().abs()
}

/// How much longer several undecided comparisons need; `None` if none is undecided.
#[must_use]
pub fn undecided_count(comparisons: &[&Comparison], terms: &Terms) -> Option<Text> {
    let undecided: Vec<&Comparison> = comparisons.iter().filter(|c| c.verdict == Verdict::Undecided).copied().collect();
    let count = plural(undecided.len() as u64, "comparison");
    let verb = if undecided.len() == 1 { "is" } else { "are" };
    (!undecided.is_empty()).then(|| {
        Text::from(format!("{count} {verb} "))
            .and(Tone::Warning, "undecided")
            .plain(format!(": {}.", more_time(&undecided, terms)))
    })
}

/// A case compared with itself: the result, and what the run can resolve.
#[must_use]
pub fn same_twice(claim: &Claim<'_>, terms: &Terms) -> Text {
    let Claim { case, reference, comparison, .. } = claim;
    let places = ratio_places(comparison);
    let figures = format!(
        "ratio {} ({} interval {} to {})",
        ratio(comparison.ratio, places),
        percent(terms.confidence, 0),
        ratio(comparison.low, places),
        ratio(comparison.high, places)
    );
    let lead = Text::from(format!("The same case twice, {reference} and {case}: "));
    let resolution = (comparison.low - 1.0).abs().max((comparison.high - 1.0).abs());
    let resolution = percent(resolution, decimals_for(resolution * 100.0, 2.0, 0, 2));
    match comparison.verdict {
        Verdict::Equivalent => lead
            .and(Tone::Good, "equivalent, as it should be")
            .plain(format!("; {figures}. This run can resolve differences of about {resolution} and more.")),
        Verdict::Undecided => lead.and(Tone::Warning, "undecided").plain(format!(
            "; {figures}. No difference was found, and there is none, but the interval is wider than {}: {}.",
            margin(terms.margin),
            more_time(&[comparison], terms)
        )),
        verdict => lead
            .and(Tone::Bad, format!("{}, although they are the same", word(verdict)))
            .plain(format!("; {figures}. On this machine, a difference of {resolution} can arise by chance.")),
    }
}

/// What it takes to decide these comparisons, or those that a longer run can decide: how much time, and the option to
/// grant it.
#[must_use]
pub fn more_time(undecided: &[&Comparison], terms: &Terms) -> String {
    const DAY: f64 = 86_400.0;
    if undecided.iter().all(|comparison| comparison.one_start) {
        return "one start of the servers decides nothing, so use a larger budget".to_owned();
    }
    let known: Vec<f64> = undecided.iter().filter_map(|comparison| comparison.more_seconds).collect();
    match known.iter().copied().reduce(f64::max) {
        Some(seconds) if seconds.is_finite() && seconds < DAY => {
            let budget = written(budget((terms.spent + seconds).max(terms.budget)));
            let of =
                if known.len() < undecided.len() { format!(" for {} of them", known.len()) } else { String::new() };
            format!("about {} would be enough{of} (--budget{NBSP}{budget})", rough(seconds))
        }
        Some(_) => "more than a day of measuring would be needed".to_owned(),
        None if undecided.iter().all(|comparison| (comparison.blocks as usize) < LEAST_BLOCKS) => {
            "there are too few blocks to estimate how long it would take".to_owned()
        }
        None => {
            let them = if undecided.len() == 1 { "it" } else { "them" };
            format!("even a hundred times this run would not decide {them}")
        }
    }
}

/// `45 more seconds`, `3 more minutes`, `2 more hours`. Rounded up, so that it is enough.
fn rough(seconds: f64) -> String {
    let of = |count: f64, word: &str| {
        let ending = if count == 1.0 { "" } else { "s" };
        format!("{count:.0}{NBSP}more{NBSP}{word}{ending}")
    };
    if seconds <= 90.0 {
        of(((seconds / 5.0).ceil() * 5.0).max(5.0), "second")
    } else if seconds <= 5_400.0 {
        of((seconds / 60.0).ceil(), "minute")
    } else {
        of((seconds / 3_600.0).ceil(), "hour")
    }
}

/// A budget to ask for, rounded up.
fn budget(seconds: f64) -> Duration {
    let step = match seconds {
        ..=90.0 => 10.0,
        ..=5_400.0 => 60.0,
        _ => 3_600.0,
    };
    Duration::from_secs(((seconds / step).ceil() * step) as u64)
}

/// The word of a verdict.
#[must_use]
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

#[must_use]
pub fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Equivalent => Tone::Strong,
        Verdict::Undecided => Tone::Warning,
    }
}

/// Whether a ratio is clearer than a percentage.
fn is_large(ratio: f64) -> bool {
    ratio >= 1.5 || ratio <= 0.5
}

/// The ends of a ratio's interval: `1.59 to 1.88`
#[must_use]
pub fn bounds(comparison: &Comparison, places: usize) -> String {
    format!("{} to {}", ratio(comparison.low, places), ratio(comparison.high, places))
}

/// Decimal places needed to show the interval of a ratio.
#[must_use]
pub fn ratio_places(comparison: &Comparison) -> usize {
    decimals_for(comparison.high - comparison.low, units(comparison), 2, 3)
}

fn percent_places(comparison: &Comparison) -> usize {
    decimals_for((comparison.high - comparison.low) * 100.0, units(comparison), 0, 2)
}

/// The least number of units in the last place that an interval spans. Small effects get more places, to show whether
/// they reach the margin.
fn units(comparison: &Comparison) -> f64 {
    if (comparison.ratio - 1.0).abs() < 0.1 { 5.0 } else { 2.0 }
}

fn times(value: f64, places: usize) -> String {
    ratio(value, places)
}

/// A share in percent: `0.02` becomes `2 %`.
#[must_use]
pub fn percent(share: f64, places: usize) -> String {
    format!("{}{NBSP}%", grouped(share * 100.0, places))
}

/// `−13 %`
fn signed_percent(share: f64, places: usize) -> String {
    let text = percent(share, places);
    let is_zero = !text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0');
    if share > 0.0 && !is_zero { format!("+{text}") } else { text }
}

/// A change with its interval: `−13 % (95 % interval −18 % to −8 %)`, or as a ratio if it is large.
#[must_use]
pub fn change(comparison: &Comparison, confidence: f64) -> String {
    let confidence = percent(confidence, 0);
    if is_large(comparison.ratio) {
        let ratio = times(comparison.ratio, ratio_places(comparison));
        return format!("{ratio}{NBSP}times, {confidence} interval {}", interval(comparison));
    }
    let share = signed_percent(comparison.ratio - 1.0, percent_places(comparison));
    format!("{share}, {confidence} interval {}", signed_interval(comparison))
}

/// A margin or precision in percent, with as many places as it was given.
#[must_use]
pub fn margin(share: f64) -> String {
    let percent = share * 100.0;
    let places =
        (0..3).find(|places| (percent * 10f64.powi(*places) - (percent * 10f64.powi(*places)).round()).abs() < 1e-6);
    self::percent(share, places.unwrap_or(3) as usize)
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::summary::Metric;
    use lasthop_model::quantity::duration;
    use proptest::prelude::*;

    use super::*;

    /// The durations of every option that a text advises, read as the command line reads them.
    fn advised(text: &str) -> Vec<Duration> {
        let option = regex::Regex::new(r"--(?:budget|trial)[ =\u{a0}]+([0-9][^\s)`,;]*)").unwrap();
        let read = |written: &str| duration(written).unwrap_or_else(|error| panic!("{error} in: {text}"));
        option.captures_iter(text).map(|found| read(&found[1])).collect()
    }

    const TERMS: Terms = Terms { margin: 0.02, confidence: 0.95, spent: 60.0, budget: 60.0 };

    fn comparison(verdict: Verdict, low: f64, ratio: f64, high: f64) -> Comparison {
        Comparison {
            case: "unix".into(),
            reference: "tcp".into(),
            metric: Metric::Throughput,
            ratio,
            low,
            high,
            verdict,
            lower_bound: false,
            adjusted_p: None,
            blocks: 40,
            one_start: false,
            more_seconds: None,
            materiality: None,
            run_delay_saved: None,
        }
    }

    fn bounded(verdict: Verdict, low: f64, ratio: f64, high: f64) -> Comparison {
        Comparison { lower_bound: true, ..comparison(verdict, low, ratio, high) }
    }

    fn claim(comparison: &Comparison) -> Claim<'_> {
        Claim { case: "Unix socket", reference: "TCP", comparison, quantity: Quantity::Requests, explain: true }
    }

    fn say(comparison: &Comparison) -> String {
        verdict(&claim(comparison), &TERMS).to_string().replace(NBSP, " ")
    }

    #[test]
    fn faster_by_much_is_a_ratio() {
        assert_eq!(
            say(&comparison(Verdict::Faster, 1.83, 1.87, 1.91)),
            "Unix socket is 1.87 times as fast as TCP (95 % interval 1.83 to 1.91)."
        );
    }

    #[test]
    fn faster_by_little_is_a_percentage() {
        assert_eq!(
            say(&comparison(Verdict::Faster, 1.06, 1.09, 1.12)),
            "Unix socket is faster than TCP: 9 % more requests/s (95 % interval 6 % to 12 %)."
        );
    }

    #[test]
    fn narrow_intervals_get_more_places() {
        assert_eq!(
            say(&comparison(Verdict::Faster, 1.088, 1.093, 1.098)),
            "Unix socket is faster than TCP: 9.3 % more requests/s (95 % interval 8.8 % to 9.8 %)."
        );
        assert_eq!(
            say(&comparison(Verdict::Faster, 1.871, 1.873, 1.875)),
            "Unix socket is 1.873 times as fast as TCP (95 % interval 1.871 to 1.875)."
        );
    }

    #[test]
    fn slower_by_little_counts_what_is_missing() {
        assert_eq!(
            say(&comparison(Verdict::Slower, 0.64, 0.69, 0.72)),
            "Unix socket is slower than TCP: 31 % fewer requests/s (95 % interval 28 % to 36 %)."
        );
    }

    #[test]
    fn slower_by_much_is_a_ratio() {
        assert_eq!(
            say(&comparison(Verdict::Slower, 0.38, 0.42, 0.46)),
            "Unix socket is slower than TCP: only 0.42 times as fast (95 % interval 0.38 to 0.46)."
        );
    }

    #[test]
    fn lower_bounds_are_said() {
        assert_eq!(
            say(&bounded(Verdict::Faster, 1.83, 1.87, 1.91)),
            "Unix socket is at least 1.87 times as fast as TCP (95 % interval 1.83 to 1.91; a lower bound, see Doubts)."
        );
        assert_eq!(
            say(&bounded(Verdict::Faster, 1.06, 1.09, 1.12)),
            "Unix socket is faster than TCP: at least 9 % more requests/s (95 % interval 6 % to 12 %; a lower bound, see \
             Doubts)."
        );
        assert_eq!(
            say(&bounded(Verdict::Slower, 0.64, 0.69, 0.72)),
            "Unix socket is slower than TCP: at least 31 % fewer requests/s (95 % interval 28 % to 36 %; a lower bound, see \
             Doubts)."
        );
        assert_eq!(
            say(&bounded(Verdict::Slower, 0.38, 0.42, 0.46)),
            "Unix socket is slower than TCP: at most 0.42 times as fast (95 % interval 0.38 to 0.46; a lower bound, see \
             Doubts)."
        );
    }

    #[test]
    fn equivalent_names_the_margin() {
        assert_eq!(
            say(&comparison(Verdict::Equivalent, 0.992, 1.001, 1.011)),
            "Unix socket and TCP are equivalent: within 2 % of each other (95 % interval −0.8 % to +1.1 % requests/s)."
        );
    }

    #[test]
    fn equivalence_at_the_drivers_limit_is_qualified() {
        let text = say(&bounded(Verdict::Equivalent, 0.992, 1.001, 1.011));
        assert!(text.ends_with(
            "requests/s). But the driver or the machine was the bottleneck, which may hide a difference (see Doubts)."
        ));
    }

    #[test]
    fn undecided_says_what_it_would_take() {
        let open = Comparison { more_seconds: Some(170.0), ..comparison(Verdict::Undecided, 0.97, 1.01, 1.05) };
        assert_eq!(
            say(&open),
            "Unix socket against TCP is undecided: between 3 % fewer and 5 % more requests/s; about 3 more minutes \
             would be enough (--budget 4m)."
        );
    }

    #[test]
    fn a_wide_interval_is_one_of_ratios() {
        let text = say(&comparison(Verdict::Undecided, 0.03, 0.53, 8.63));
        assert!(text.contains("is undecided: between 0.030 and 8.6 times the requests/s; "), "{text}");
    }

    #[test]
    fn undecided_beside_the_margin_names_it() {
        assert_eq!(
            say(&comparison(Verdict::Undecided, 1.012, 1.03, 1.048)),
            "Unix socket against TCP is undecided: 1.2 % to 4.8 % more requests/s, and less than 2 % counts as none; even a \
             hundred times this run would not decide it."
        );
        assert!(say(&comparison(Verdict::Undecided, 0.95, 0.97, 0.988)).contains("1.2 % to 5.0 % fewer requests/s"));
    }

    fn open(more_seconds: Option<f64>) -> Comparison {
        Comparison { more_seconds, ..comparison(Verdict::Undecided, 0.97, 1.01, 1.05) }
    }

    #[test]
    fn what_no_longer_run_decides_is_said() {
        let (soon, later, never) = (open(Some(29.0)), open(Some(91.0)), open(None));
        let say = |all: &[&Comparison]| more_time(all, &TERMS).replace(NBSP, " ");
        assert_eq!(say(&[&soon, &later]), "about 2 more minutes would be enough (--budget 3m)");
        assert_eq!(say(&[&soon, &never]), "about 30 more seconds would be enough for 1 of them (--budget 90s)");
        assert_eq!(say(&[&never]), "even a hundred times this run would not decide it");
        let few = Comparison { blocks: 2, ..open(None) };
        assert_eq!(say(&[&few]), "there are too few blocks to estimate how long it would take");
    }

    #[test]
    fn an_end_that_rounds_to_zero_is_less_than_the_least() {
        let text = between(&comparison(Verdict::Undecided, 0.997, 1.21, 1.48), Quantity::Requests, &TERMS);
        assert_eq!(text.replace(NBSP, " "), "between less than 1 % fewer and 48 % more requests/s");
    }

    #[test]
    fn times_to_decide_are_rounded_up() {
        let say = |seconds| more_time(&[&open(Some(seconds))], &TERMS).replace(NBSP, " ");
        assert_eq!(say(0.4), "about 5 more seconds would be enough (--budget 70s)");
        assert_eq!(say(29.0), "about 30 more seconds would be enough (--budget 90s)");
        assert_eq!(say(91.0), "about 2 more minutes would be enough (--budget 3m)");
        assert_eq!(say(7_000.0), "about 2 more hours would be enough (--budget 2h)");
        assert_eq!(say(1e6), "more than a day of measuring would be needed");
        assert_eq!(say(f64::INFINITY), "more than a day of measuring would be needed");
    }

    proptest! {
        #[test]
        fn a_budget_that_is_advised_is_accepted_and_enough(more in 0.0..86_400.0, spent in 0.0..1e6) {
            let said = more_time(&[&open(Some(more))], &Terms { spent, ..TERMS });
            let [budget] = advised(&said)[..] else { panic!("no budget in: {said}") };
            prop_assert!(budget.as_secs_f64() >= more + spent, "{}", said);
        }
    }

    #[test]
    fn bytes_are_called_bytes() {
        let open = comparison(Verdict::Faster, 1.06, 1.09, 1.12);
        let text = verdict(&Claim { quantity: Quantity::Bytes, explain: false, ..claim(&open) }, &TERMS);
        assert_eq!(
            text.to_string().replace(NBSP, " "),
            "Unix socket is faster than TCP: 9 % more bytes/s (6 % to 12 %)."
        );
    }

    #[test]
    fn of_a_time_less_is_better() {
        let say = |verdict_word, low, ratio, high| {
            let found = Comparison { metric: Metric::LatencyP50, ..comparison(verdict_word, low, ratio, high) };
            let claim = Claim { quantity: Quantity::ResponseTime, explain: false, ..claim(&found) };
            verdict(&claim, &TERMS).to_string().replace(NBSP, " ")
        };
        for (verdict, [low, ratio, high], sentence) in [
            (
                Verdict::Faster,
                [0.38, 0.42, 0.46],
                "Unix socket is faster than TCP: 0.42 times the median response time (0.38 to 0.46).",
            ),
            (
                Verdict::Faster,
                [0.86, 0.90, 0.94],
                "Unix socket is faster than TCP: 10 % shorter median response time (6 % to 14 %).",
            ),
            (
                Verdict::Slower,
                [1.83, 1.87, 1.91],
                "Unix socket is slower than TCP: 1.87 times the median response time (1.83 to 1.91).",
            ),
            (
                Verdict::Slower,
                [1.06, 1.12, 1.18],
                "Unix socket is slower than TCP: 12 % longer median response time (6 % to 18 %).",
            ),
            (
                Verdict::Equivalent,
                [0.992, 1.001, 1.011],
                "Unix socket and TCP are equivalent: within 2 % of each other (−0.8 % to +1.1 % median response time).",
            ),
            (
                Verdict::Undecided,
                [0.97, 1.01, 1.05],
                "Unix socket against TCP is undecided: between 3 % shorter and 5 % longer median response time; even a hundred \
                 times this run would not decide it.",
            ),
        ] {
            assert_eq!(say(verdict, low, ratio, high), sentence);
        }
    }

    #[test]
    fn a_tail_speaks_only_when_it_disagrees() {
        let faster = comparison(Verdict::Faster, 1.83, 1.87, 1.91);
        let longer = comparison(Verdict::Slower, 1.12, 1.20, 1.28);
        let text = tail("Unix socket", &faster, &longer).map(|text| text.to_string().replace(NBSP, " "));
        assert_eq!(text.as_deref(), Some(" The p99 of Unix socket, though, is 20 % longer (12 % to 28 %)."));
        assert_eq!(tail("Unix socket", &faster, &comparison(Verdict::Faster, 0.5, 0.6, 0.7)), None);
        assert_eq!(tail("Unix socket", &faster, &comparison(Verdict::Undecided, 0.9, 1.0, 1.1)), None);
    }

    fn part<'a>(setting: &'a str, comparison: &'a Comparison) -> Part<'a> {
        Part { setting, comparison, quantity: Quantity::Requests }
    }

    #[test]
    fn settings_are_counted_by_verdict() {
        let (weak, strong) =
            (comparison(Verdict::Faster, 1.06, 1.09, 1.12), comparison(Verdict::Faster, 1.83, 1.87, 1.91));
        let same = comparison(Verdict::Equivalent, 0.99, 1.0, 1.01);
        let parts = [part("1 connection", &strong), part("10 connections", &weak), part("64 KiB", &same)];
        assert_eq!(
            across("Unix socket", "TCP", &parts, [1, 0]).to_string().replace(NBSP, " "),
            "Unix socket against TCP, in 4 settings: faster in 2, from 9 % more requests/s (10 connections) to 1.87 times as \
             fast (1 connection); equivalent in 1 (64 KiB); failed in 1."
        );
    }

    #[test]
    fn the_same_case_twice() {
        let say = |comparison: &Comparison| {
            let claim = Claim { case: "tcp (again)", reference: "tcp", ..claim(comparison) };
            same_twice(&claim, &TERMS).to_string().replace(NBSP, " ")
        };
        assert_eq!(
            say(&comparison(Verdict::Equivalent, 0.994, 1.003, 1.012)),
            "The same case twice, tcp and tcp (again): equivalent, as it should be; ratio 1.003 (95 % interval 0.994 \
             to 1.012). This run can resolve differences of about 1.2 % and more."
        );
        assert!(say(&comparison(Verdict::Faster, 1.02, 1.04, 1.06)).contains("faster, although they are the same"));
        assert!(say(&comparison(Verdict::Undecided, 0.96, 1.0, 1.04)).contains("wider than 2 %: even a hundred times"));
    }

    #[test]
    fn margins_keep_their_places() {
        assert_eq!(margin(0.02).replace(NBSP, " "), "2 %");
        assert_eq!(margin(0.005).replace(NBSP, " "), "0.5 %");
        assert_eq!(margin(0.0125).replace(NBSP, " "), "1.25 %");
    }
}
