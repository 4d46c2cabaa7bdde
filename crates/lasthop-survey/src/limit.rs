//! Limits of the user: `saved > 10% of a CPU`. As with every limit the interval decides, not the estimate.

use std::{fmt, str::FromStr};

use lasthop_analyse::summary::Standing;
use lasthop_model::quantity::share;
use lasthop_page::units::significant;

use super::links::Link;

/// How much a link may waste, as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    /// Of a CPU.
    share: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write saved > SHARE of a CPU, such as 'saved > 10% of a CPU'";
        let (left, right) = text.split_once('>').ok_or(FORM)?;
        let right = right.trim();
        let right = right.strip_suffix("of a CPU").unwrap_or(right).trim();
        if left.trim() != "saved" {
            return Err(FORM.to_owned());
        }
        Ok(Self {
            text: text.trim().to_owned(),
            share: share(right)?,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Limit {
    /// How a link stands to it, and that in a sentence; `None` if nothing is known of what it would save.
    #[must_use]
    pub fn judge(&self, link: &Link) -> Option<(Standing, String)> {
        let cpus = link.outlook.as_ref()?.saving.as_ref()?.cpus;
        let (standing, word) = match (cpus.low > self.share, cpus.high > self.share) {
            (true, true) => (Standing::Beyond, "exceeded"),
            (false, false) => (Standing::Within, "kept"),
            _ => (Standing::Undecided, "undecided"),
        };
        let [low, high] = [cpus.low, cpus.high].map(|end| significant(end * 100.0, 2));
        Some((
            standing,
            format!("{self}: {word} by {}: {low} to {high} %", link.name()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_in_both_forms() {
        let limit = |text: &str| text.parse::<Limit>();
        assert_eq!(limit("saved > 10% of a CPU").unwrap().share, 0.1);
        assert_eq!(limit("saved>2%").unwrap().share, 0.02);
        for wrong in [
            "saved",
            "saved > 10",
            "unix slower > 5%",
            "saved > of a CPU",
            "saved < 5%",
        ] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}
