//! Verdicts, ratios, shares and changes in words. The words *faster*, *slower*, *equivalent* and *undecided* always
//! mean the verdict. A large change is given as a ratio, a small one in percent.

use lasthop_analyse::summary::{Comparison, Verdict};
use lasthop_model::quantity::{budget_of, written};
use lasthop_stats::{Interval, stopping::LEAST_BLOCKS};

use super::{
    document::Tone,
    units::{NBSP, TimeUnit, ends, percent, percent_places, significant},
};

/// The quantity by which cases are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Bytes,
    /// Received datagrams per second, where nobody replies.
    Received,
    /// Median time from when a request was due until the last byte of its reply, in open loops.
    ResponseTime,
    /// CPU time per request.
    Cpu,
}

impl Quantity {
    /// Quantities of verdicts, each with its own picture.
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

    /// A verdict on the quantity in a word.
    #[must_use]
    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match (self, verdict) {
            (Self::Cpu, Verdict::Faster) => "less",
            (Self::Cpu, Verdict::Slower) => "more",
            _ => word(verdict),
        }
    }
}

/// Advice for deciding these comparisons, or those of them that a longer run can decide: the missing time, and the
/// option that grants it. The run took `spent` of a budget of `allowed`, both in seconds.
#[must_use]
pub fn more_time(undecided: &[&Comparison], spent: f64, allowed: f64) -> String {
    if undecided.iter().all(|comparison| comparison.one_start) {
        return "one start of the servers decides nothing, so use a larger budget".to_owned();
    }
    let known: Vec<f64> = undecided
        .iter()
        .filter_map(|comparison| comparison.more_seconds)
        .collect();
    match known.iter().copied().reduce(f64::max) {
        Some(seconds) if known.len() < undecided.len() => {
            let gain = format!("be enough for {} of them", known.len());
            with_more_time(seconds, spent, allowed, &gain)
        }
        Some(seconds) => with_more_time(seconds, spent, allowed, "be enough"),
        None if undecided
            .iter()
            .all(|comparison| (comparison.blocks as usize) < LEAST_BLOCKS) =>
        {
            "there are too few blocks to estimate how long it would take".to_owned()
        }
        None => {
            let them = if undecided.len() == 1 { "it" } else { "them" };
            format!("even a hundred times this run would not decide {them}")
        }
    }
}

/// Says what `more_seconds` would bring, the `gain`, and the option that grants them: a budget larger than `allowed`,
/// which was not enough. The run took `spent` seconds.
#[must_use]
pub fn with_more_time(more_seconds: f64, spent: f64, allowed: f64, gain: &str) -> String {
    const DAY: f64 = 86_400.0;
    if more_seconds < DAY {
        let budget = written(budget_of((spent + more_seconds).max(allowed + 1.0)));
        format!("about {} would {gain} (--budget{NBSP}{budget})", rough(more_seconds))
    } else {
        "more than a day of measuring would be needed".to_owned()
    }
}

/// A duration rounded up, so that it is enough: `45 more seconds`, `3 more minutes`, `2 more hours`.
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

/// A list of words: `a, b and c`
pub fn listed(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// The title of a column of intervals: `95 % interval`
#[must_use]
pub fn interval_title(confidence: f64) -> String {
    format!("{} interval", percent(confidence, 0))
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

/// Replaces a figure whose interval reaches 0.
pub const NOT_SHOWN: &str = "not shown";

/// The handler, as its CPU time per request in microseconds, below which a difference matters; an estimate. A
/// difference in favour of the reference names the reference.
#[must_use]
pub fn matters_below(verdict: Verdict, saved_us: Interval, micros: f64, reference: &str) -> String {
    /// A year in microseconds, longer than any handler.
    const YEAR: f64 = 3.2e13;
    if verdict == Verdict::Equivalent || micros <= 0.0 {
        return "never".to_owned();
    }
    if !verdict.differs() || !saved_us.is_known() {
        return NOT_SHOWN.to_owned();
    }
    let limit = if micros > YEAR {
        "always".to_owned()
    } else {
        let unit = TimeUnit::of(micros);
        format!("≈{NBSP}{}{NBSP}{}", significant(micros / unit.micros(), 2), unit.name())
    };
    if saved_us.estimate < 0.0 {
        format!("{limit}, for {reference}")
    } else {
        limit
    }
}

/// The part of a CPU that a saving per request frees at 1,000 requests per second: `0.84 % of a CPU`
#[must_use]
pub fn freed(saved_us: Interval) -> String {
    if !saved_us.is_known() {
        return NOT_SHOWN.to_owned();
    }
    // 1,000 requests per second at 1 µs each take 0.1 % of a CPU.
    format!("{}{NBSP}% of a CPU", significant(saved_us.estimate / 10.0, 2))
}

/// Whether a ratio is clearer than a percentage.
fn is_large(ratio: f64) -> bool {
    ratio >= 1.5 || ratio <= 0.5
}

/// A percentage with its sign: `−13 %`
fn signed_percent(share: f64, places: usize) -> String {
    let text = percent(share, places);
    // A share that rounds to 0 has no sign.
    let is_zero = !text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0');
    if share > 0.0 && !is_zero {
        format!("+{text}")
    } else {
        text
    }
}

/// A change with its interval: `−13 % (95 % interval −18 % to −8 %)`, or as a ratio if it is large.
#[must_use]
pub fn change(of: Interval, confidence: f64) -> String {
    let confidence = percent(confidence, 0);
    if is_large(of.estimate) {
        let [low, ratio, high] = ends(of);
        return format!("{ratio}{NBSP}times, {confidence} interval {low} to {high}");
    }
    let places = percent_places(of);
    let [low, share, high] = [of.low, of.estimate, of.high].map(|ratio| signed_percent(ratio - 1.0, places));
    format!("{share}, {confidence} interval {low} to {high}")
}

/// A margin or precision in percent, with its original decimals.
#[must_use]
pub fn margin(share: f64) -> String {
    let percent = share * 100.0;
    let places =
        // Binary fractions miss decimal fractions by a little.
        (0..3).find(|places| (percent * 10f64.powi(*places) - (percent * 10f64.powi(*places)).round()).abs() < 1e-6);
    self::percent(share, places.unwrap_or(3) as usize)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lasthop_model::quantity::duration;
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures;

    /// Durations of all options in an advice, parsed like the command line.
    fn advised(text: &str) -> Vec<Duration> {
        let option = regex::Regex::new(r"--(?:budget|trial)[ =\u{a0}]+([0-9][^\s)`,;]*)").unwrap();
        let read = |written: &str| duration(written).unwrap_or_else(|error| panic!("{error} in: {text}"));
        option.captures_iter(text).map(|found| read(&found[1])).collect()
    }

    fn open(more_seconds: Option<f64>) -> Comparison {
        Comparison {
            blocks: 40,
            more_seconds,
            ..fixtures::compare("unix", "tcp", [0.97, 1.01, 1.05], Verdict::Undecided)
        }
    }

    #[test]
    fn what_no_longer_run_decides_is_said() {
        let soon = open(Some(29.0));
        let later = open(Some(91.0));
        let never = open(None);
        let say = |all: &[&Comparison]| more_time(all, 60.0, 60.0).replace(NBSP, " ");
        assert_eq!(
            say(&[&soon, &later]),
            "about 2 more minutes would be enough (--budget 3m)"
        );
        assert_eq!(
            say(&[&soon, &never]),
            "about 30 more seconds would be enough for 1 of them (--budget 90s)"
        );
        assert_eq!(say(&[&never]), "even a hundred times this run would not decide it");
        let few = Comparison {
            blocks: 2,
            ..open(None)
        };
        assert_eq!(
            say(&[&few]),
            "there are too few blocks to estimate how long it would take"
        );
    }

    #[test]
    fn times_to_decide_are_rounded_up() {
        let say = |seconds| more_time(&[&open(Some(seconds))], 60.0, 60.0).replace(NBSP, " ");
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
            let said = more_time(&[&open(Some(more))], spent, 60.0);
            let [budget] = advised(&said)[..] else { panic!("no budget in: {said}") };
            prop_assert!(budget.as_secs_f64() >= more + spent, "{}", said);
        }
    }

    #[test]
    fn a_small_change_is_in_percent() {
        let slower = Interval {
            estimate: 0.969,
            low: 0.942,
            high: 0.997,
        };
        assert_eq!(
            change(slower, 0.95).replace(NBSP, " "),
            "−3.1 %, 95 % interval −5.8 % to −0.3 %"
        );
    }

    #[test]
    fn margins_keep_their_places() {
        assert_eq!(margin(0.02).replace(NBSP, " "), "2 %");
        assert_eq!(margin(0.005).replace(NBSP, " "), "0.5 %");
        assert_eq!(margin(0.0125).replace(NBSP, " "), "1.25 %");
    }
}
