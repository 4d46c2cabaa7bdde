//! Parses the output of tools: every possible line has a pattern, and any other line is an error, not a number.

use std::collections::BTreeMap;

use minijinja::Value;
use regex::Regex;

/// The last match of each named group; `None` for optional groups that are missing.
pub type Caught = BTreeMap<String, Option<String>>;

/// Reads an output line by line. Each line must match one of `lines` as a whole. Empty lines are skipped.
pub fn read(lines: &[String], may_lack: &[String], output: &str) -> Result<Caught, String> {
    let patterns: Vec<Regex> = lines
        .iter()
        .map(|line| Regex::new(&format!("^(?:{line})$")).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let names = patterns.iter().flat_map(Regex::capture_names).flatten();
    let mut caught: Caught = names.map(|name| (name.to_owned(), None)).collect();
    // A carriage return ends a progress line, which is then overwritten.
    for line in output
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let found = patterns
            .iter()
            .find_map(|pattern| Some((pattern, pattern.captures(line)?)));
        let (pattern, groups) = found.ok_or_else(|| {
            let shown: String = line.chars().take(120).collect();
            format!("its output has an unknown line: `{shown}`")
        })?;
        for name in pattern.capture_names().flatten() {
            if let Some(group) = groups.name(name) {
                caught.insert(name.to_owned(), Some(group.as_str().to_owned()));
            }
        }
    }
    let mut lacking = caught.iter().filter(|(_, group)| group.is_none());
    match lacking.find(|(name, _)| !may_lack.contains(name)) {
        Some((name, _)) => Err(format!("its output lacks `{name}`")),
        None => Ok(caught),
    }
}

/// Nanoseconds per unit of time.
pub fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 6e10,
        "h" => 3.6e12,
        _ => return None,
    })
}

/// A number, a duration with a unit (`303.33us`, `5.44ms`) in nanoseconds, or else the text.
pub fn value(text: &str) -> Value {
    if let Ok(count) = text.parse::<u64>() {
        return Value::from(count);
    }
    let digits = text.find(char::is_alphabetic).unwrap_or(text.len());
    let (number, name) = text.split_at(digits);
    let factor = if name.is_empty() { Some(1.0) } else { unit(name) };
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) => Value::from(number * factor),
        _ => Value::from(text),
    }
}

/// A value that must be a number.
pub fn number(value: &Value) -> Result<f64, String> {
    f64::try_from(value.clone())
        .ok()
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("`{value}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_must_be_known() {
        let form = [r"Running .*", r"Requests/sec: +(?P<rate>[0-9.]+)"].map(str::to_owned);
        let error = read(&form, &[], "Running x\nSegmentation fault\n").unwrap_err();
        assert_eq!(error, "its output has an unknown line: `Segmentation fault`");
        assert_eq!(read(&form, &[], "Running x\n").unwrap_err(), "its output lacks `rate`");
        let rate = ["rate".to_owned()];
        assert_eq!(read(&form, &rate, "Running x\n").unwrap()["rate"], None);
    }

    #[test]
    fn durations_have_units() {
        let of = |text: &str| number(&value(text));
        assert_eq!(of("303.33us"), Ok(303_330.0));
        assert_eq!(of("5.44ms"), Ok(5_440_000.0));
        assert_eq!(of("1.00m"), Ok(6e10));
        assert_eq!(of("5.44parsec").unwrap_err(), "`5.44parsec` is not a number");
        assert!(of("-nan").is_err() && of("1.2.3ms").is_err() && of("nan").is_err());
    }
}
