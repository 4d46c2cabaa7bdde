//! Lengths of time and shares as people write them, in files and on the command line.

use std::time::Duration;

/// The text is no length of time or share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`")]
pub struct UnitError {
    expected: &'static str,
    found: String,
}

const DURATION: &str = "a length of time with its unit, such as 100ms, 30s, 1.5m or 1h";
const SHARE: &str = "a share between 0 and 1, such as 2% or 0.02";

/// Reads `100ms`, `30s`, `1.5m`, `2h` (also `us` and `ns`); more than zero, at most a year.
///
/// # Errors
/// [`UnitError`] when the unit is missing or unknown, or the number is not positive.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError { expected: DURATION, found: text.to_owned() };
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * scale;
    if !(1e-9..=31_536_000.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads `2%` or `0.02`; more than 0 and less than 1.
///
/// # Errors
/// [`UnitError`] when it is no number or outside the range.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let wrong = || UnitError { expected: SHARE, found: text.to_owned() };
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.trim().parse::<f64>().map_err(|_| wrong())?,
    };
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("100ms").unwrap(), Duration::from_millis(100));
        assert_eq!(parse_duration("1.5m").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("2 h").unwrap(), Duration::from_secs(7200));
        for wrong in ["", "5", "s", "-1s", "0s", "1d", "1e9h", "NaNs"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_percent_or_fraction() {
        assert!((parse_share("2%").unwrap() - 0.02).abs() < 1e-12);
        assert!((parse_share("0.02").unwrap() - 0.02).abs() < 1e-12);
        for wrong in ["2", "0", "100%", "-1%", "x", "inf", "NaN"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
