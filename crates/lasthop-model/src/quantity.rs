//! Durations and shares as people write them: `100ms`, `30s`, `5m`, `1h 30m`, `2%`.

use std::{borrow::Borrow, time::Duration};

use jiff::fmt::friendly::SpanParser;

/// Nanoseconds of each unit, longest first.
const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration such as `100ms`, `1.5s`, `5m`, `1h 30m`: above zero, at most about 292 years.
pub fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_none(text) {
        Ok(Duration::ZERO) => Err(too_little(text)),
        read => read,
    }
}

/// Reads a duration as [`duration`] does, but also zero, such as `0` or `0us`.
pub fn duration_or_none(text: &str) -> Result<Duration, String> {
    match (plain_number(text), SpanParser::new().parse_duration(text)) {
        (Some(0.0), _) => Ok(Duration::ZERO),
        (Some(_), _) => Err(format!(
            "`{text}` has no unit: write {text}s, {text}m or {text}ms, for example"
        )),
        (None, Err(_)) => Err(format!(
            "`{text}` is not a duration: write a number and its unit (h, m, s, ms, us or ns), such as 100ms, 30s or 5m"
        )),
        (None, Ok(read)) if read.is_negative() => Err(too_little(text)),
        (None, Ok(read)) if read.as_nanos() > i64::MAX.into() => Err(format!("`{text}` is more than 292 years")),
        (None, Ok(read)) => Ok(read.unsigned_abs()),
    }
}

fn too_little(text: &str) -> String {
    format!("`{text}` is out of range: it must be more than zero")
}

/// Writes a duration exactly, in one unit, so that [`duration`] can read it. Use this for every option that a message
/// advises.
pub fn written(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let (unit, scale) = UNITS
        .into_iter()
        .find(|(_, scale)| nanoseconds.is_multiple_of(*scale))
        .unwrap_or(("ns", 1));
    format!("{}{unit}", nanoseconds / scale)
}

/// A budget to advise, rounded up.
#[must_use]
pub fn budget_of(seconds: f64) -> Duration {
    let step = match seconds {
        ..=90.0 => 10.0,
        ..=5_400.0 => 60.0,
        _ => 3_600.0,
    };
    Duration::from_secs(((seconds / step).ceil() * step) as u64)
}

/// Writes the digits of a whole number in groups: `35,086`.
pub fn thousands(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Joins texts with something between them.
#[must_use]
pub fn joined<S: Borrow<str>>(texts: impl IntoIterator<Item = S>, between: &str) -> String {
    let texts: Vec<S> = texts.into_iter().collect();
    texts.join(between)
}

/// A count with its word: `1 block`, `12 blocks`.
#[must_use]
pub fn counted(count: u64, word: &str) -> String {
    format!(
        "{} {word}{}",
        thousands(&count.to_string()),
        if count == 1 { "" } else { "s" }
    )
}

/// A requested rate, with all its digits.
pub fn rate_text(rate: f64) -> String {
    let text = format!(
        "{rate:.*}",
        (0..3)
            .find(|places| (rate * 10f64.powi(*places as i32)).fract() == 0.0)
            .unwrap_or(3)
    );
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{}{fraction}", thousands(whole))
}

/// Reads a share: `2%` is 0.02. Above zero, at most 100 %.
pub fn share(text: &str) -> Result<f64, String> {
    // Reports write `5 %`.
    let number = text.strip_suffix('%').unwrap_or_default().trim_end();
    // The sign is dropped, so that `-2%` is called out of range, not unreadable.
    match plain_number(number.strip_prefix('-').unwrap_or(number)) {
        None => Err(format!(
            "`{text}` is not a share: write a number with a percent sign, such as 2%"
        )),
        Some(percent) if percent == 0.0 || number.starts_with('-') => Err(too_little(text)),
        Some(percent) if percent > 100.0 => Err(format!("`{text}` is more than 100%")),
        Some(percent) => Ok(percent / 100.0),
    }
}

/// Reads digits with an optional fraction. Refuses other forms that `f64` would read (`inf`, `1e3`, `-1`).
fn plain_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.trim_matches('.').eq(text).then_some(())?;
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, milliseconds) in [
            ("100ms", 100),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("2min", 120_000),
            ("0.5min", 30_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("5 minutes", 300_000),
            ("1000us", 1),
            ("1000µs", 1),
            ("1000000ns", 1),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("100%"), Ok(1.0));
    }

    #[test]
    fn none_is_a_duration_where_it_may_be_one() {
        for none in ["0", "0s", "0us", "0.0ms"] {
            assert_eq!(duration_or_none(none), Ok(Duration::ZERO), "{none}");
        }
        assert_eq!(duration_or_none("20us"), Ok(Duration::from_micros(20)));
        assert!(duration_or_none("20").is_err() && duration_or_none("0x").is_err() && duration_or_none("").is_err());
    }

    #[test]
    fn what_is_refused_says_why() {
        for text in ["", "s", "1e3s", "infs", "1.s", "5M", "5x", "5d", "PT5M", "s5"] {
            assert!(
                duration(text)
                    .unwrap_err()
                    .contains("is not a duration: write a number"),
                "{text}"
            );
        }
        for text in ["0s", "0", "-5s", "-1h", "5s ago"] {
            assert!(duration(text).unwrap_err().contains("must be more than zero"), "{text}");
        }
        assert_eq!(
            duration("60").unwrap_err(),
            "`60` has no unit: write 60s, 60m or 60ms, for example"
        );
        assert_eq!(
            duration("99999999999h").unwrap_err(),
            "`99999999999h` is more than 292 years"
        );
        assert_eq!(share("5 %"), share("5%"));
        for text in ["", "%", " %", "2", "nan%", "two%", "1e1%", "--1%"] {
            assert!(share(text).unwrap_err().contains("is not a share"), "{text}");
        }
        for text in ["0%", "-1%", "-0%"] {
            assert!(share(text).unwrap_err().contains("must be more than zero"), "{text}");
        }
        assert_eq!(share("150%").unwrap_err(), "`150%` is more than 100%");
    }

    #[test]
    fn one_unit_is_written() {
        for (text, seconds) in [
            ("70s", 70.0),
            ("3m", 180.0),
            ("2h", 7_200.0),
            ("10ms", 0.01),
            ("1500ms", 1.5),
        ] {
            assert_eq!(written(Duration::from_secs_f64(seconds)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(nanoseconds in 1..=i64::MAX as u64, unit in 0..UNITS.len()) {
            let scale = UNITS[unit].1 as u64;
            for nanoseconds in [nanoseconds, nanoseconds.div_ceil(scale).min(i64::MAX as u64 / scale) * scale] {
                let one = Duration::from_nanos(nanoseconds);
                prop_assert_eq!(duration(&written(one)), Ok(one));
            }
        }

        #[test]
        fn no_text_is_read_with_a_panic(text in "[-+0-9.:hmsuµn %a-z]{0,24}|\\PC{0,24}") {
            let _ = (duration(&text), duration_or_none(&text), share(&text));
        }
    }
}
