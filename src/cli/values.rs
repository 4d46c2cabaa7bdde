//! Parsers for values of options.

use std::path::PathBuf;

use clap::ValueEnum;
use lasthop_protocol::spec::Arrivals;

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

/// `RECIPE=PATH`
pub fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((recipe, path)) if !recipe.is_empty() && !path.is_empty() => Ok((recipe.to_owned(), PathBuf::from(path))),
        _ => Err("expected RECIPE=PATH, for example my-server=/opt/bin/server".to_owned()),
    }
}

/// `NAME=VALUE`
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, for example instance=m7g.large".to_owned()),
    }
}

/// `NAME=VALUE`, or the name of a node's label.
pub fn node_label(text: &str) -> Result<(String, Option<String>), String> {
    if text.contains('=') {
        label(text).map(|(name, value)| (name, Some(value)))
    } else {
        Ok((text.to_owned(), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_recipe_and_path() {
        assert_eq!(program("nginx=/x").unwrap(), ("nginx".to_owned(), PathBuf::from("/x")));
        assert!(program("nginx").is_err());
        assert!(program("=x").is_err());
    }
}
