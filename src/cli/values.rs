//! Parsers for values of options.

use std::path::PathBuf;

use clap::ValueEnum;
use lasthop_analyse::limit::ANY;
use lasthop_trial::options::Arrivals;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ArrivalsArg {
    /// The same gap between any two requests
    Constant,
    /// Random and independent, as if from many users
    Poisson,
}

impl From<ArrivalsArg> for Arrivals {
    fn from(chosen: ArrivalsArg) -> Self {
        match chosen {
            ArrivalsArg::Constant => Self::Constant,
            ArrivalsArg::Poisson => Self::Poisson,
        }
    }
}

/// Parses a number of requests, at least 1.
pub fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a number of requests: write a whole number, 1 or more"))
}

/// Parses requests per second of an open loop; other code checks the range.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number.ok_or_else(|| format!("`{text}` is not a rate: write the number of requests per second alone, such as 500"))
}

/// Parses `RECIPE=PATH`.
pub fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((recipe, path)) if !recipe.is_empty() && !path.is_empty() => Ok((recipe.to_owned(), PathBuf::from(path))),
        _ => Err("expected RECIPE=PATH, for example my-server=/opt/bin/server".to_owned()),
    }
}

/// Parses `NAME=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, for example instance=m7g.large".to_owned()),
    }
}

/// Parses `NAME=VALUE`, or the name of a node's label.
pub fn node_label(text: &str) -> Result<(String, Option<String>), String> {
    if text.contains('=') {
        label(text).map(|(name, value)| (name, Some(value)))
    } else {
        Ok((text.to_owned(), None))
    }
}

/// An endpoint, and the user's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUrl {
    pub name: Option<String>,
    pub url: String,
}

/// Parses `URL` or `NAME=URL`. A URL may contain `=`, but not before its scheme.
pub fn named_url(text: &str) -> Result<NamedUrl, String> {
    let is_name = |name: &str| {
        let mut all = name.chars();
        all.all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
    };
    match text.split_once('=').filter(|(name, _)| is_name(name)) {
        None => Ok(NamedUrl {
            name: None,
            url: text.to_owned(),
        }),
        Some(("", _)) => Err("expected NAME=URL, for example old=http://127.0.0.1:8001/".to_owned()),
        Some((ANY, _)) => Err(format!(
            "`{ANY}` stands for all endpoints in limits: choose another name"
        )),
        Some((name, url)) => Ok(NamedUrl {
            name: Some(name.to_owned()),
            url: url.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_have_a_name() {
        let of = |text: &str| named_url(text).map(|one| (one.name.unwrap_or_default(), one.url));
        let pair = |name: &str, url: &str| Ok((name.to_owned(), url.to_owned()));
        assert_eq!(of("old=http://127.0.0.1:1/"), pair("old", "http://127.0.0.1:1/"));
        assert_eq!(of("v1.2-rc_1=unix:/s"), pair("v1.2-rc_1", "unix:/s"));
        let query = "http://127.0.0.1:1/?a=b";
        assert_eq!(of(query), pair("", query));
        assert_eq!(of(&format!("new={query}")), pair("new", query));
        assert!(of("=http://127.0.0.1:1/").is_err() && of("any=http://127.0.0.1:1/").is_err());
    }

    #[test]
    fn a_rate_is_a_number() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for text in ["10/s", "fast", ""] {
            assert!(
                rate(text)
                    .unwrap_err()
                    .starts_with(&format!("`{text}` is not a rate: write the number"))
            );
        }
    }

    #[test]
    fn programs_name_recipe_and_path() {
        assert_eq!(program("nginx=/x").unwrap(), ("nginx".to_owned(), PathBuf::from("/x")));
        assert!(program("nginx").is_err());
        assert!(program("=x").is_err());
    }
}
