//! Variables of a file of requests: `{{name}}`, and an editor's own such as `{{$guid}}`. Each is replaced once, when
//! the file is read, because a request has the same bytes each time it is sent.

use std::env;

use jiff::{Span, Timestamp, fmt::rfc2822, tz::TimeZone};
use lasthop_trial::random::SplitMix;

use super::requests::defined;

/// The deepest nesting of variables.
const DEPTH: u32 = 20;

/// The variables of a file.
pub struct Variables<'a> {
    /// Line, name and unrendered value.
    defined: Vec<(usize, &'a str, &'a str)>,
    random: SplitMix,
    now: Timestamp,
}

impl<'a> Variables<'a> {
    pub fn of(text: &'a str, seed: u64) -> Self {
        let lines = (1..).zip(text.lines());
        let defined = lines.filter_map(|(number, line)| defined(line).map(|(name, value)| (number, name, value)));
        Self {
            defined: defined.collect(),
            random: SplitMix(seed),
            now: Timestamp::now(),
        }
    }

    /// A text on this line, with the variables replaced by their values.
    pub fn rendered(&mut self, text: &str, line: usize) -> Result<String, String> {
        self.render(text, line, 0)
            .map_err(|what| format!("line {line}: {what}"))
    }

    fn render(&mut self, text: &str, line: usize, depth: u32) -> Result<String, String> {
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, after) = after.split_once("}}").ok_or_else(|| {
                "`{{` has no `}}`: if it is no variable, put the body into a file (`< FILE` sends it as it is)"
                    .to_owned()
            })?;
            shown.push_str(before);
            shown.push_str(&self.value(inside.trim(), line, depth)?);
            rest = after;
        }
        shown.push_str(rest);
        Ok(shown)
    }

    fn value(&mut self, name: &str, line: usize, depth: u32) -> Result<String, String> {
        if let Some(own) = name.strip_prefix('$') {
            return self.made(own).ok_or_else(|| {
                format!("the variable `{{{{{name}}}}}` cannot be used: write its value, or `@name = value` above the request")
            });
        }
        // The last definition above counts, otherwise the first one below.
        let all = || self.defined.iter().filter(|(_, other, _)| *other == name);
        let found = all().rfind(|(number, ..)| *number < line).or_else(|| all().next());
        let Some(&(number, _, value)) = found else {
            return Err(format!(
                "the variable `{name}` has no value in this file: write `@{name} = value` above the request"
            ));
        };
        if depth == DEPTH {
            return Err(format!("the variable `{name}` names itself"));
        }
        self.render(value, number, depth + 1)
    }

    /// The value of an editor's own variable, by its name without the `$`.
    fn made(&mut self, words: &str) -> Option<String> {
        // `random.integer(1, 5)` is equivalent to `random.integer 1 5`.
        let words = words.replace(['(', ')', ','], " ");
        let words: Vec<&str> = words.split_whitespace().collect();
        Some(match words[..] {
            ["guid" | "uuid" | "random.uuid"] => self.uuid(),
            ["timestamp"] => self.now.as_second().to_string(),
            ["timestamp", count, unit] => self.shifted(count, unit)?.as_second().to_string(),
            ["isoTimestamp"] | ["datetime", "iso8601"] => iso(self.now),
            ["datetime", "iso8601", count, unit] => iso(self.shifted(count, unit)?),
            ["datetime", "rfc1123"] => rfc1123(self.now)?,
            ["datetime", "rfc1123", count, unit] => rfc1123(self.shifted(count, unit)?)?,
            ["randomInt"] | ["random.integer"] => self.between(0, 1000)?,
            ["randomInt" | "random.integer", least, below] => self.between(least.parse().ok()?, below.parse().ok()?)?,
            ["random.alphabetic", length] => {
                self.letters(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", length)?
            }
            ["random.alphanumeric", length] => self.letters(
                b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
                length,
            )?,
            ["random.numeric", length] => self.letters(b"0123456789", length)?,
            ["random.hexadecimal", length] => self.letters(b"0123456789ABCDEF", length)?,
            ["processEnv", name] => env::var(name).ok()?,
            [name] => env::var(name.strip_prefix("env.")?).ok()?,
            _ => return None,
        })
    }

    /// A UUID of version 4 (RFC 9562).
    fn uuid(&mut self) -> String {
        let [high, low] = [self.random.bits(), self.random.bits()];
        let high = high & !0xf000 | 0x4000;
        let low = low & (u64::MAX >> 2) | 1 << 63;
        let digits = format!("{high:016x}{low:016x}");
        let parts = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        parts.join("-")
    }

    fn between(&mut self, least: i64, below: i64) -> Option<String> {
        let span = below.checked_sub(least).filter(|span| *span > 0)?;
        Some((least + (self.random.unit() * span as f64) as i64).to_string())
    }

    fn letters(&mut self, of: &[u8], length: &str) -> Option<String> {
        let length: usize = length.parse().ok().filter(|length| *length <= 65_536)?;
        let letter = |_| char::from(of[(self.random.unit() * of.len() as f64) as usize]);
        Some((0..length).map(letter).collect())
    }

    fn shifted(&self, count: &str, unit: &str) -> Option<Timestamp> {
        let count: i64 = count.parse().ok()?;
        let span = match unit {
            "ms" => Span::new().try_milliseconds(count),
            "s" => Span::new().try_seconds(count),
            "m" => Span::new().try_minutes(count),
            "h" => Span::new().try_hours(count),
            "d" => Span::new().try_days(count),
            "w" => Span::new().try_weeks(count),
            "M" => Span::new().try_months(count),
            "y" => Span::new().try_years(count),
            _ => return None,
        };
        let zoned = self.now.to_zoned(TimeZone::UTC).checked_add(span.ok()?);
        Some(zoned.ok()?.timestamp())
    }
}

fn iso(time: Timestamp) -> String {
    format!("{time:.3}")
}

fn rfc1123(time: Timestamp) -> Option<String> {
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, line: usize) -> Result<String, String> {
        let file = "@base = http://h:1\n@path={{base}}/v{{version}}\nGET {{path}}\n###\n@version = 2\n@base = /x\n@loop = {{loop}}\n";
        Variables::of(file, 1).rendered(text, line)
    }

    #[test]
    fn variables_of_the_file_are_put_in() {
        for (text, line, value) in [
            ("{{base}}/a", 3, "http://h:1/a"),
            ("{{ path }}?a={{version}}&{{version}}", 3, "http://h:1/v2?a=2&2"),
            ("{{base}}", 8, "/x"),
            ("{\"a\": {\"b\": {}}}", 3, "{\"a\": {\"b\": {}}}"),
        ] {
            assert_eq!(rendered(text, line).unwrap(), value, "{text}");
        }
        for (text, wanted) in [
            (
                "{{token}}",
                "line 3: the variable `token` has no value in this file: write `@token = value`",
            ),
            (
                "{{login.response.body.id}}",
                "line 3: the variable `login.response.body.id` has no value",
            ),
            ("{{$dotenv X}}", "line 3: the variable `{{$dotenv X}}` cannot be used"),
            (
                "{{$randomInt 5 5}}",
                "line 3: the variable `{{$randomInt 5 5}}` cannot be used",
            ),
            ("{{loop}}", "line 3: the variable `loop` names itself"),
            ("a {{ b", "line 3: `{{` has no `}}`"),
        ] {
            let error = rendered(text, 3).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn what_editors_make_is_made_here_too() {
        let matches = |text: &str, pattern: &str| {
            let value = rendered(text, 3).unwrap();
            assert!(
                regex::Regex::new(&format!("^{pattern}$")).unwrap().is_match(&value),
                "{text}: {value}"
            );
        };
        const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
        for text in ["{{$guid}}", "{{$uuid}}", "{{$random.uuid}}"] {
            matches(text, UUID);
        }
        matches("{{$randomInt 7 8}}", "7");
        matches("{{$random.integer(-1, 0)}}", "-1");
        matches("{{$randomInt}}", "[0-9]{1,3}");
        matches("{{$random.alphabetic(12)}}", "[A-Za-z]{12}");
        matches("{{$random.hexadecimal(4)}}", "[0-9A-F]{4}");
        matches("{{$timestamp}}", "[0-9]{10}");
        matches(
            "{{$isoTimestamp}}",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z",
        );
        matches(
            "{{$datetime rfc1123 1 d}}",
            "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} .* GMT",
        );
        matches("{{$processEnv PATH}}{{$env.PATH}}", ".*/.*");
        assert_ne!(rendered("{{$guid}}", 3), rendered("{{$guid}}{{$guid}}", 3));
        assert_eq!(rendered("{{$guid}}", 3), rendered("{{$guid}}", 3), "the seed decides");
        let number = |text: &str| rendered(text, 3).unwrap().parse::<i64>().unwrap();
        let day = number("{{$timestamp 1 d}}") - number("{{$timestamp}}");
        assert!((86_399..=86_400).contains(&day), "{day}");
    }
}
