//! Numbers as people read them: three significant digits, one unit per column, thousands separated.
//!
//! The space between a number and its unit is [`NBSP`], so that no line breaks there. The renderers replace it by a
//! plain space after layout.

use std::fmt;

use lasthop_model::quantity::{counted, thousands};
use lasthop_stats::Interval;

/// No-break space: keeps number and unit on one line.
pub const NBSP: char = '\u{a0}';
/// Shown in place of a missing value.
pub const NONE: &str = "–";

const MINUS: char = '−';

/// Three significant digits with thousands separated: `0.0123`, `1.87`, `45,100`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Significant(pub f64);

impl fmt::Display for Significant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&significant(self.0, 3))
    }
}

/// A time in microseconds, shown in a suitable unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Micros(pub f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = TimeUnit::of(self.0);
        f.pad(&format!("{}{NBSP}{}", Significant(self.0 / unit.micros()), unit.name()))
    }
}

/// Unit of a column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
}

impl TimeUnit {
    /// The unit in which a time in microseconds has 1 to 999 before the point, after rounding: 999.9 µs is 1.00 ms.
    #[must_use]
    pub fn of(micros: f64) -> Self {
        match round_to_digits(micros.abs(), 3) {
            0.0 => Self::Microsecond,
            value if value < 1.0 => Self::Nanosecond,
            value if value < 1e3 => Self::Microsecond,
            value if value < 1e6 => Self::Millisecond,
            _ => Self::Second,
        }
    }

    /// One unit for whole columns, chosen by the smallest time, so that no row reads `0.00`.
    #[must_use]
    pub fn of_column(micros: &[f64]) -> Self {
        let sizes = micros.iter().map(|value| value.abs());
        let sizes = sizes.filter(|value| *value > 0.0 && value.is_finite());
        sizes.reduce(f64::min).map_or(Self::Microsecond, Self::of)
    }

    /// One unit for differences, chosen by the median, because a difference can be close to zero.
    #[must_use]
    pub fn of_differences(micros: &[f64]) -> Self {
        let mut sizes: Vec<f64> = micros.iter().map(|value| value.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes.get(sizes.len() / 2).copied();
        middle.map_or(Self::Microsecond, Self::of)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "µs",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }

    /// Formats a column of times in microseconds.
    #[must_use]
    pub fn column(self, micros: &[Option<f64>]) -> Vec<String> {
        let scaled: Vec<Option<f64>> = micros.iter().map(|time| Some((*time)? / self.micros())).collect();
        column(&scaled)
    }

    /// Microseconds per unit.
    #[must_use]
    pub fn micros(self) -> f64 {
        match self {
            Self::Nanosecond => 1e-3,
            Self::Microsecond => 1.0,
            Self::Millisecond => 1e3,
            Self::Second => 1e6,
        }
    }
}

/// Unit of a column of byte rates, in powers of ten, as usual for networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByteRateUnit {
    pub name: &'static str,
    pub bytes: f64,
}

impl ByteRateUnit {
    /// One unit for a whole column of rates in bytes per second.
    #[must_use]
    pub fn of_column(rates: &[f64]) -> Self {
        let (name, bytes) = match rates.iter().copied().fold(0.0, f64::max) {
            largest if largest < 1e6 => ("kB/s", 1e3),
            largest if largest < 1e10 => ("MB/s", 1e6),
            _ => ("GB/s", 1e9),
        };
        Self { name, bytes }
    }
}

/// A size in bytes, in powers of 1,024 as usual for memory and payloads: `64 B`, `16 KiB`, `7.75 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = if value.fract() == 0.0 {
            grouped(value, 0)
        } else {
            significant(value, 3)
        };
        f.pad(&format!("{text}{NBSP}{}", UNITS[unit]))
    }
}

/// A count, thousands separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&thousands(&self.0.to_string()))
    }
}

/// A duration in seconds, in usual words: `50 ms`, `9.8 s`, `3 min`, `2 h 10 min`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.round();
        let milliseconds = (self.0 * 1e6).round() / 1e3;
        let text = match whole {
            _ if milliseconds < 999.5 && milliseconds.fract() == 0.0 => format!("{milliseconds:.0}{NBSP}ms"),
            _ if milliseconds < 999.5 => format!("{}{NBSP}ms", significant(milliseconds, 3)),
            // From 9.95 on, one decimal would round to 10.0.
            _ if self.0 < 9.95 => format!("{:.1}{NBSP}s", self.0),
            seconds if seconds < 120.0 => format!("{seconds:.0}{NBSP}s"),
            seconds if seconds < 3600.0 => parts(seconds, 60.0, "min", 1.0, "s"),
            seconds => parts((seconds / 60.0).round(), 60.0, "h", 1.0, "min"),
        };
        f.pad(&text)
    }
}

fn parts(value: f64, large: f64, large_name: &str, small: f64, small_name: &str) -> String {
    let whole = (value / large).floor();
    let rest = (value % large) / small;
    let head = format!("{whole:.0}{NBSP}{large_name}");
    if rest < 1.0 {
        head
    } else {
        format!("{head}{NBSP}{rest:.0}{NBSP}{small_name}")
    }
}

/// Decimals that show an interval: the fewest between `least` and `most` at which its ends differ by `units` or more in
/// the last place.
#[must_use]
pub fn decimals_for(width: f64, units: f64, least: usize, most: usize) -> usize {
    // From 0.68 to 0.70 are two units, even if binary fractions make it slightly less.
    (least..most)
        .find(|places| width.abs() * 10f64.powi(*places as i32) + 1e-6 >= units)
        .unwrap_or(most)
}

/// A ratio with fixed decimals, or three significant digits from 10 on.
#[must_use]
pub fn ratio(value: f64, places: usize) -> String {
    // From here on, two decimals would make it 10.00.
    if value >= 9.995 {
        significant(value, 3)
    } else {
        grouped(value, places)
    }
}

/// The ends of a ratio's interval: `1.59 to 1.88`
#[must_use]
pub fn bounds(of: Interval, places: usize) -> String {
    format!("{} to {}", ratio(of.low, places), ratio(of.high, places))
}

/// The ends of a ratio's interval with the ratio between them, all to the same place.
#[must_use]
pub fn ends(of: Interval) -> [String; 3] {
    [of.low, of.estimate, of.high].map(|value| ratio(value, ratio_places(of)))
}

/// The sign before a ratio that is a bound: the truth is at least as far from 1.
#[must_use]
pub fn bound(is_bound: bool, ratio: f64) -> &'static str {
    match (is_bound, ratio >= 1.0) {
        (false, _) => "",
        (true, true) => "≥ ",
        (true, false) => "≤ ",
    }
}

/// Decimals that show the interval of a ratio.
#[must_use]
pub fn ratio_places(of: Interval) -> usize {
    places([of.low, of.high], 1.0, units(of.estimate), 2, 3)
}

/// Decimals for the ends of a change in percent.
#[must_use]
pub fn percent_places(of: Interval) -> usize {
    let ends = [of.low, of.high].map(|end| (end - 1.0) * 100.0);
    places(ends, 0.0, units(of.estimate), 0, 2)
}

/// Decimals for the ends of an interval: one more if an end would wrongly read as `none`, because the verdict depends
/// on its side.
fn places([low, high]: [f64; 2], none: f64, units: f64, least: usize, most: usize) -> usize {
    let enough = decimals_for(high - low, units, least, most);
    let reads_as_none = |end: f64| end != none && (end - none).abs() * 10f64.powi(enough as i32) < 0.5;
    (enough + usize::from(reads_as_none(low) || reads_as_none(high))).min(most)
}

/// The least number of units in the last place that an interval spans. Small effects get more decimals, to show whether
/// they reach the margin.
fn units(ratio: f64) -> f64 {
    if (ratio - 1.0).abs() < 0.1 { 5.0 } else { 2.0 }
}

/// Formats a column with equal decimals: three significant digits for the largest value, two for the smallest. Values
/// of 1,000 and more are rounded to three digits.
#[must_use]
pub fn column(values: &[Option<f64>]) -> Vec<String> {
    let places = column_places(values);
    values
        .iter()
        .map(|value| match value {
            // 999.5 rounds to 1,000.
            Some(value) if value.abs() >= 999.5 => significant(*value, 3),
            Some(value) => grouped(*value, places),
            None => NONE.to_owned(),
        })
        .collect()
}

fn column_places(values: &[Option<f64>]) -> usize {
    let sizes = values.iter().flatten().map(|value| value.abs());
    let sizes = sizes.filter(|value| *value > 0.0 && value.is_finite());
    let largest = sizes.clone().fold(0.0, f64::max);
    let smallest = sizes.fold(f64::INFINITY, f64::min);
    if largest == 0.0 {
        return 0;
    }
    (2 - magnitude(largest)).max(1 - magnitude(smallest)).clamp(0, 4) as usize
}

/// Power of ten of the first digit, after rounding to three digits.
fn magnitude(value: f64) -> i32 {
    round_to_digits(value, 3).abs().log10().floor() as i32
}

/// A number with this many significant digits, thousands separated. Significant trailing zeros are kept.
#[must_use]
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let rounded = round_to_digits(value, digits);
    let places = (digits - 1 - rounded.abs().log10().floor() as i32).clamp(0, 12);
    grouped(rounded, places as usize)
}

fn round_to_digits(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = digits - 1 - value.abs().log10().floor() as i32;
    // Multiplying by a power of ten below one is inexact (45,100 would become 45,100.00000000001), but dividing is
    // exact.
    if exponent >= 0 {
        let scale = 10f64.powi(exponent);
        (value * scale).round() / scale
    } else {
        let scale = 10f64.powi(-exponent);
        (value / scale).round() * scale
    }
}

/// A number with fixed decimals, thousands separated, and a real minus sign. A number that rounds to zero has no sign.
#[must_use]
pub fn grouped(value: f64, places: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{:.places$}", value.abs());
    let negative = value < 0.0 && text.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0');
    let whole = text.split('.').next().unwrap_or_default();
    let sign = if negative { MINUS.to_string() } else { String::new() };
    format!("{sign}{}{}", thousands(whole), &text[whole.len()..])
}

/// A share in percent: `0.02` becomes `2 %`.
#[must_use]
pub fn percent(share: f64, places: usize) -> String {
    format!("{}{NBSP}%", grouped(share * 100.0, places))
}

/// Capitalises the first letter, for the start of a sentence, but not of a URL.
#[must_use]
pub fn capital(text: &str) -> String {
    if text.split(' ').next().is_some_and(|word| word.contains(":/")) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// `1 block`, `12 blocks`.
#[must_use]
pub fn plural(count: u64, word: &str) -> String {
    counted(count, word).replacen(' ', &NBSP.to_string(), 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: impl ToString) -> String {
        text.to_string().replace(NBSP, " ")
    }

    #[test]
    fn significant_digits_round_and_carry() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.999_9, "1.00"),
            (1.874, "1.87"),
            (9.999, "10.0"),
            (99.96, "100"),
            (999.4, "999"),
            (999.9, "1,000"),
            (45_123.0, "45,100"),
            (999_600.0, "1,000,000"),
            (-12.34, "−12.3"),
        ];
        for (value, expected) in cases {
            assert_eq!(Significant(value).to_string(), expected, "{value}");
        }
    }

    #[test]
    fn times_choose_their_unit_after_rounding() {
        let cases = [
            (0.5, "500 ns"),
            (0.999_6, "1.00 µs"),
            (20.94, "20.9 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (12_345.0, "12.3 ms"),
            (2_500_000.0, "2.50 s"),
            (-19.4, "−19.4 µs"),
            (0.0, "0 µs"),
        ];
        for (micros, expected) in cases {
            assert_eq!(plain(Micros(micros)), expected, "{micros}");
        }
    }

    #[test]
    fn a_column_of_times_has_the_unit_of_its_smallest() {
        assert_eq!(TimeUnit::of_column(&[20.0, 5_000.0]), TimeUnit::Microsecond);
        assert_eq!(TimeUnit::of_column(&[2_000.0, 5_000_000.0]), TimeUnit::Millisecond);
        assert_eq!(TimeUnit::of_column(&[]), TimeUnit::Microsecond);
        assert_eq!(TimeUnit::of_differences(&[-60.0, 0.4, 11.0]), TimeUnit::Microsecond);
        assert_eq!(TimeUnit::of_differences(&[]), TimeUnit::Microsecond);
    }

    #[test]
    fn bytes_and_byte_rates() {
        for (bytes, expected) in [
            (1, "1 B"),
            (64, "64 B"),
            (1023, "1,023 B"),
            (1024, "1 KiB"),
            (16_384, "16 KiB"),
            (1 << 20, "1 MiB"),
            (8_322_000_000, "7.75 GiB"),
        ] {
            assert_eq!(plain(Bytes(bytes)), expected);
        }
        assert_eq!(ByteRateUnit::of_column(&[2.0e9, 8.0e9]).name, "MB/s");
        assert_eq!(ByteRateUnit::of_column(&[2.0e9, 12.0e9]).name, "GB/s");
    }

    #[test]
    fn seconds_as_people_say_them() {
        for (seconds, expected) in [
            (0.05, "50 ms"),
            (0.012_34, "12.3 ms"),
            (0.000_04, "0.0400 ms"),
            (0.999_6, "1.0 s"),
            (9.94, "9.9 s"),
            (9.96, "10 s"),
            (29.8, "30 s"),
            (119.4, "119 s"),
            (120.0, "2 min"),
            (185.0, "3 min 5 s"),
            (7_800.0, "2 h 10 min"),
        ] {
            assert_eq!(plain(Seconds(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn columns_share_their_places() {
        assert_eq!(column(&[Some(20.94), Some(38.2), None]), ["20.9", "38.2", NONE]);
        assert_eq!(column(&[Some(7.1), Some(105.23)]), ["7.1", "105.2"]);
        assert_eq!(column(&[Some(0.352), Some(105.0)]), ["0.35", "105.00"]);
        assert_eq!(column(&[Some(45_123.0), Some(24_057.0)]), ["45,100", "24,100"]);
        assert_eq!(column(&[Some(0.0)]), ["0"]);
    }

    #[test]
    fn places_follow_the_width_of_the_interval() {
        assert_eq!(decimals_for(0.08, 5.0, 2, 4), 2);
        assert_eq!(decimals_for(0.006, 5.0, 2, 4), 3);
        assert_eq!(decimals_for(0.70 - 0.68, 2.0, 2, 4), 2);
        assert_eq!(decimals_for(0.0001, 5.0, 2, 4), 4);
        assert_eq!(decimals_for(0.0, 5.0, 0, 2), 2);
    }

    #[test]
    fn no_end_reads_as_none_beside_a_verdict() {
        let shown = |estimate, low, high| {
            let [low, _, high] = ends(Interval { estimate, low, high });
            format!("{low} to {high}")
        };
        assert_eq!(shown(0.969, 0.942, 0.997), "0.942 to 0.997");
        assert_eq!(shown(0.97, 0.94, 1.0), "0.94 to 1.00");
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(grouped(-0.004, 2), "0.00");
        assert_eq!(grouped(-0.006, 2), "−0.01");
    }

    proptest! {
        #[test]
        fn three_digits_are_within_half_a_percent(value in 1e-9f64..1e12) {
            let text = significant(value, 3).replace(',', "");
            let read: f64 = text.parse().unwrap();
            prop_assert!((read - value).abs() <= value * 0.005_000_1, "{value} as {text}");
        }

        #[test]
        fn at_most_three_digits_are_not_zero(value in 1e-6f64..1e12) {
            let text = significant(value, 3);
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            let core = digits.trim_start_matches('0').trim_end_matches('0');
            prop_assert!(core.len() <= 3, "{value} as {text}");
        }
    }
}
