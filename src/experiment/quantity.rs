//! Durations and shares as people write them: `100ms`, `30s`, `2%`.

use std::time::Duration;

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("`{0}` is not a duration: write a number and its unit, such as 100ms, 30s or 2min")]
    Duration(String),
    #[error("`{0}` is not a share: write a number with a per cent sign, such as 2%")]
    Share(String),
}

/// Nanoseconds of each unit; the longer suffix of two that fit comes first.
const UNITS: [(&str, f64); 5] = [("us", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("h", 3600e9)];

/// Reads `100ms`, `1.5s`, `2min`; more than zero, at most about 292 years.
///
/// # Errors
/// When the number or the unit is missing or not understood, or the duration is zero.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let wrong = || QuantityError::Duration(text.to_owned());
    let (number, scale) =
        UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale))).ok_or_else(wrong)?;
    let nanoseconds = plain_number(number).ok_or_else(wrong)? * scale;
    if !(1.0..9.2e18).contains(&nanoseconds) {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// As [`duration`], and `0` or `0us` for none.
///
/// # Errors
/// As [`duration`].
pub fn duration_or_none(text: &str) -> Result<Duration, QuantityError> {
    let number = UNITS.iter().find_map(|(unit, _)| text.strip_suffix(unit)).unwrap_or(text);
    if plain_number(number) == Some(0.0) { Ok(Duration::ZERO) } else { duration(text) }
}

/// Reads `2%` as 0.02; more than zero, at most 100 %.
///
/// # Errors
/// When the number or the per cent sign is missing, or the share is out of range.
pub fn share(text: &str) -> Result<f64, QuantityError> {
    let wrong = || QuantityError::Share(text.to_owned());
    let percent = text.strip_suffix('%').and_then(plain_number).ok_or_else(wrong)?;
    if percent <= 0.0 || percent > 100.0 {
        return Err(wrong());
    }
    Ok(percent / 100.0)
}

/// Digits with an optional fraction: what `f64` reads beyond that (`inf`, `1e3`, `-1`) is not meant here.
fn plain_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.trim_matches('.').eq(text).then_some(())?;
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share("0.5%"), Ok(0.005));
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
    fn nonsense_is_refused() {
        for text in ["", "s", "10", "-1s", "1e3s", "infs", "1.s", "0s", "5 s", "99999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "%", "2", "0%", "101%", "-1%", "nan%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
