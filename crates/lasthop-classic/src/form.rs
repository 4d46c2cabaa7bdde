//! The form of a tool's output: every line that it may print. Any other line is an error.

use std::collections::HashMap;

use regex::Regex;

pub fn unknown_line(line: &str) -> String {
    format!("its output has an unknown line: `{line}`")
}

fn lacking(name: &str) -> String {
    format!("its output lacks `{name}`")
}

fn no_number(text: &str) -> String {
    format!("`{text}` is not a number")
}

/// What the named groups of a form matched. The last match of a name counts.
#[derive(Debug)]
pub struct Caught(HashMap<String, String>);

/// Reads an output line by line. Each line must match one of `lines` as a whole. Empty lines are skipped.
pub fn read(lines: &[&str], output: &str) -> Result<Caught, String> {
    let patterns: Vec<Regex> = lines
        .iter()
        .map(|line| Regex::new(&format!("^(?:{line})$")).expect("forms are constants"))
        .collect();
    let mut caught = HashMap::new();
    // A carriage return is a progress line written over.
    for line in output
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let found = patterns
            .iter()
            .find_map(|pattern| Some((pattern, pattern.captures(line)?)));
        let (pattern, groups) = found.ok_or_else(|| unknown_line(&line.chars().take(120).collect::<String>()))?;
        for name in pattern.capture_names().flatten() {
            if let Some(group) = groups.name(name) {
                caught.insert(name.to_owned(), group.as_str().to_owned());
            }
        }
    }
    Ok(Caught(caught))
}

impl Caught {
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| lacking(name))
    }

    pub fn number(&self, name: &str) -> Result<f64, String> {
        let text = self.text(name)?;
        text.parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| no_number(text))
    }

    pub fn count(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| no_number(text))
    }

    /// 0 if the output has no such line, because tools leave out what did not happen.
    pub fn count_if_any(&self, name: &str) -> Result<u64, String> {
        if self.0.contains_key(name) {
            self.count(name)
        } else {
            Ok(0)
        }
    }

    /// A duration with its unit (`303.33us`, `5.44ms`, `1.2s`, `2m`), in nanoseconds; `None` where no line has it.
    pub fn duration(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let digits = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit {
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return Err(no_number(text)),
        };
        number
            .parse::<f64>()
            .map(|number| Some(number * factor))
            .map_err(|_| no_number(text))
    }

    /// A number of milliseconds in nanoseconds; `None` where no line has it.
    pub fn milliseconds(&self, name: &str) -> Result<Option<f64>, String> {
        if self.0.contains_key(name) {
            self.number(name).map(|ms| Some(ms * 1e6))
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[&str] = &[
        r"Running .*",
        r"Requests/sec: +(?P<rate>[0-9.]+)",
        r"Latency (?P<mean>\S+)",
    ];

    #[test]
    fn every_line_must_be_known() {
        let error = read(FORM, "Running x\nSegmentation fault\n").unwrap_err();
        assert_eq!(error, "its output has an unknown line: `Segmentation fault`");
        let caught = read(FORM, "Running x\n").unwrap();
        assert_eq!(caught.number("rate").unwrap_err(), "its output lacks `rate`");
    }

    #[test]
    fn durations_have_units() {
        let of = |text: &str| read(FORM, &format!("Latency {text}")).unwrap().duration("mean");
        assert_eq!(of("303.33us").unwrap(), Some(303_330.0));
        assert_eq!(of("5.44ms").unwrap(), Some(5_440_000.0));
        assert_eq!(of("1.00m").unwrap(), Some(6e10));
        assert!(of("5.44parsec").is_err() && of("-nan").is_err() && of("1.2.3ms").is_err());
    }
}
