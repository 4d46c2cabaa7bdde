//! Values of options.

use std::{path::PathBuf, time::Duration};

use crate::units;

/// `factor=level,level`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub factor: String,
    pub levels: Vec<String>,
}

pub fn selection(text: &str) -> Result<Selection, String> {
    let (factor, levels) = text.split_once('=').ok_or("expected FACTOR=LEVEL, for example transport=unix,tcp")?;
    let levels: Vec<String> = levels.split(',').map(|level| level.trim().to_owned()).collect();
    if factor.trim().is_empty() || levels.iter().any(String::is_empty) {
        return Err("expected FACTOR=LEVEL, for example transport=unix,tcp".to_owned());
    }
    Ok(Selection { factor: factor.trim().to_owned(), levels })
}

/// A positive length of time.
pub fn duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// A share between 0 and 1, both excluded.
pub fn share(text: &str) -> Result<f64, String> {
    units::parse_share(text).map_err(|error| error.to_string())
}

pub fn program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((recipe, path)) if !recipe.is_empty() && !path.is_empty() => Ok((recipe.to_owned(), PathBuf::from(path))),
        _ => Err("expected RECIPE=PATH, for example nginx=/opt/nginx/sbin/nginx".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_split_at_commas_and_need_levels() {
        assert_eq!(
            selection("transport=unix, tcp").unwrap(),
            Selection { factor: "transport".to_owned(), levels: vec!["unix".to_owned(), "tcp".to_owned()] }
        );
        for wrong in ["transport", "=unix", "transport=", "transport=unix,,tcp"] {
            assert!(selection(wrong).unwrap_err().contains("FACTOR=LEVEL"), "{wrong}");
        }
    }

    #[test]
    fn programs_name_recipe_and_path() {
        assert_eq!(program("nginx=/x").unwrap(), ("nginx".to_owned(), PathBuf::from("/x")));
        assert!(program("nginx").is_err());
        assert!(program("=x").is_err());
    }
}
